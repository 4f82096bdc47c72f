#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# run: early; elsewhere (tests/perf/test_perf)
# Each operation that weft-perf sweeps: right everywhere, over both transports and for every root, and a wrong element is
# noticed.
. tests/support/perf_runs.sh

rooted='broadcast reduce gather gatherv scatter scatterv'
whole='allreduce broadcast reduce sendrecv'
blocks='allgather allgatherv gather gatherv scatter scatterv reduce_scatter reduce_scatterv alltoall alltoallv'

is_in() {
    [[ " $2 " == *" $1 "* ]]
}

# sweep OPERATION FLAGS: three sizes with 3 ranks, once or for every root; what must be right is.
sweep() {
    local operation=$1 roots=1 flags=()
    shift
    is_in "$operation" "$rooted" && roots=3 flags=(-r all)
    run "$operation" --ranks 3 -b 12 -e 48K -f 64 -n 2 -w 1 -c 2 "${flags[@]}" "$@"
    absent "$operation $*" && return
    if [[ $rc == 0 && $(rows | wc -l) == $((3 * roots)) && $(rows | awk '{ print $5 }' | sort -u | wc -l) == "$roots" ]] &&
        rows | awk 'NF != 13 || $9 != 0 || ($13 != 0 && $13 != "N/A") { exit 1 }'; then
        ok "$operation $*"
    else
        bad "$operation $* (status $rc)"
    fi
}
# Sanitized, every process takes long to begin: what operations have in common is tried with every third one.
turn=0
is_left_out() {
    [[ -n ${WEFT_SANITIZER-} ]] && ((turn++ % 3))
}
for operation in $whole $blocks; do
    is_left_out || sweep "$operation" --transport shm
    [[ -n ${WEFT_SANITIZER-} ]] && ((turn % 3 != 2)) || sweep "$operation" --transport ofi --provider tcp
done

barrier() {
    run barrier --ranks 3 -n 2 -c 4 "$@"
    absent "barrier $*" && return
    if [[ $rc == 0 && $(rows | wc -l) == 1 ]] && rows | awk 'NF != 13 || $1 != 0 || $6 <= 0 || $9 != 0 { exit 1 }'; then
        ok "barrier $*"
    else
        bad "barrier $* (status $rc)"
    fi
}
barrier --transport shm
barrier --transport ofi --provider tcp

# The size is that of the whole, the count that of a block, and busbw differs from algbw by what is documented.
factor() {
    local operation=$1 factor=$2
    run "$operation" --ranks 4 -b 4M -e 4M -n 2
    if [[ $rc == 0 ]] && rows | awk -v factor="$factor" -v blocks="$(is_in "$operation" "$blocks" && echo 4 || echo 1)" \
        '$1 != 4194304 || (blocks == 4 && $2 != 262144 && $2 != 1048576) || (blocks == 1 && $2 != 1048576) ||
         $8 < factor * $7 - 0.02 || $8 > factor * $7 + 0.02 { exit 1 }'; then
        ok "size and bus bandwidth of $operation"
    else
        bad "size and bus bandwidth of $operation (status $rc)"
    fi
}
factor allreduce 1.5
for operation in broadcast reduce sendrecv; do factor "$operation" 1; done
for operation in $blocks; do is_left_out || factor "$operation" 0.75; done

# One damaged element: one wrong one per placement, at the rank that gets something.
for operation in $whole $blocks; do
    is_left_out && continue
    placements=2
    [[ $operation == sendrecv ]] && placements=1
    WEFT_PERF_CORRUPT=1:5 run "$operation" --ranks 3 -b 4K -e 4K -n 1 $(is_in "$operation" "$rooted" && echo -r 1)
    if [[ $rc == 1 ]] && grep -q "^# Out of bounds values : $placements FAILED\$" "$work/out"; then
        ok "a wrong element of $operation is counted"
    else
        bad "a wrong element of $operation (status $rc)"
    fi
done
WEFT_PERF_CORRUPT=1:0 run barrier --ranks 3 -n 1
[[ $rc == 1 ]] && ok "a barrier left too early is counted" || bad "a barrier left too early (status $rc)"

expect 2 "-o: p2p-lat has no use for it" p2p-lat --ranks 2 -o sum
expect 2 "--in-place: sendrecv has no use for it" sendrecv --ranks 2 --in-place 1
expect 2 "-b: barrier has no use for it" barrier --ranks 2 -b 8
expect 2 "-r '2'" broadcast --ranks 2 -r 2
run gather --help
[[ $rc == 0 ]] && grep -q -- '--root' "$work/out" && ! grep -q -- '--op ' "$work/out" && ok "a command's own --help" ||
    bad "a command's own --help (status $rc)"

sum_up
