#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The NIC of every GPU of sample machines, and what is in each sample: those of tests/topo/samples/, which are made by hand and small, and
# real ones, held against tests/topo/expected/, which are not in the repository. Bad samples are refused, odd ones read. Each result was
# checked once by hand against the file it is of: which NICs hang on the GPU's own switch, which below its host bridge, which
# elsewhere; how often each kind stands in the file (of ibnetdiscover's 582 adapters 40 are the switches' own).
source "$(dirname "$0")/../support/start.sh"
topo=$(realpath "$BUILD/weft-topo")
[[ -x $topo ]] || { echo "SKIP: $BUILD/weft-topo is not built"; exit 77; }
source tests/support/golden.sh

# compare SAMPLES EXPECTED: those in a folder with what there should be in them.
compare() {
    local samples=$1 expected=$2 file name found counts
    for file in "$expected"/*.json; do
        name=$(basename "$file" .json)
        found=("$samples/$name".xml "$samples"/*/"$name".xml)
        [[ -f ${found[0]} ]] || found=("${found[@]:1}")
        if [[ ! -f ${found[0]} ]]; then
            skip "$name: no such file in $samples"
            continue
        fi
        # The name of the file is part of the output.
        (cd "$(dirname "${found[0]}")" && "$topo" --input "$name.xml" --nic-map) >"$work/out" 2>"$work/err"
        if [[ $? == 0 ]] && diff -u "$file" "$work/out" >"$work/err"; then ok "NIC map of $name"; else bad "NIC map of $name"; fi
    done
    # How many there are of each kind, and of links between GPUs.
    while read -r name counts; do
        [[ $name == \#* ]] && continue
        if [[ ! -f $samples/$name ]]; then
            skip "$name: no such file in $samples"
            continue
        fi
        "$topo" --input "$samples/$name" --format json >"$work/json" 2>"$work/err"
        echo "$(grep -o '"counts": {.*}' "$work/json" | tr -d '" ' | sed 's/.*{//; s/}//'),gpu-link:$(grep -c '"gpu-link"' "$work/json")" >"$work/out"
        if [[ $(cat "$work/out") == "$counts" ]]; then ok "counts of $name"; else bad "counts of $name: expected $counts"; fi
    done <"$expected/counts"
}
compare "$PWD/tests/topo/samples" "$PWD/tests/topo/samples/expected"
for file in tests/topo/samples/bad/*; do
    name=$(basename "$file")
    (cd tests/topo/samples/bad && "$topo" --input "$name") >"$work/out" 2>"$work/err"
    if [[ $? == 1 && ! -s $work/out ]]; then ok "$name is refused"; else bad "$name is not refused"; fi
    golden "topo-sample-${name%.*}" "$work/err"
done
# Odd ones, such as vendors ship, are read with a warning.
for file in tests/topo/samples/odd/*; do
    name=$(basename "$file")
    (cd tests/topo/samples/odd && "$topo" --input "$name") >"$work/out" 2>"$work/err"
    if [[ $? == 0 && -s $work/out ]]; then ok "$name is read"; else bad "$name is refused"; fi
    golden "topo-sample-${name%.*}" "$work/err"
done
# Real machines, where somebody has put their files beside the repository.
compare "${WEFT_SHARED_DATA:-../shared/data}/topologies" "$PWD/tests/topo/expected"
sum_up
