#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# run: elsewhere (tests/perf/test_perf)
# Each way down of Level Zero has its line in the log, and docs/levelzero.md has the same lines in its table: what drivers lack is taken from the fake
# one in turn, results stay right, and no line is without a row, no row without a line.
. tests/support/perf_runs.sh
ze=$BUILD/tests/fakes/ze/libweft_ze_fake.so
[[ -f $ze ]] || { echo "SKIP: Level Zero is not built"; exit 77; }
ZE_ENABLE_ALT_DRIVERS=$(realpath "$ze")
export ZE_ENABLE_ALT_DRIVERS WEFT_LOG=info
export ZE_ENABLE_VALIDATION_LAYER=1 ZE_ENABLE_PARAMETER_VALIDATION=1 ZE_ENABLE_HANDLE_LIFETIME=1

# A log's lines of ways down: numbers, addresses and types as the table writes them.
plain() {
    sed -nE -e 's/^weft [0-9:.]+ (info|warn) \[[0-9]+\] /\1 | /' -e '/^(info|warn) \| /!d' -e '/communicator:|by its plan|bootstrap:/d' \
        -e 's/ze device [0-9]+/ze device N/g' -e 's/(Level Zero device|on device|of device) [0-9]+/\1 N/g' -e "s/rank [0-9]+/rank N/g" \
        -e 's/[0-9]+ bytes at 0x[0-9a-f]+/memory at ADDRESS/' -e 's/(kernels for) (device collectives of )?[a-z0-9]+ (need|on)/\1 \2TYPE \3/' \
        -e 's/memory of process [0-9]+/memory of process PID/' -e 's/ends in [0-9a-f]+/ends in DIGITS/' \
        -e 's/: ZE_RESULT_.*(; (the host|it runs))/: WHY\1/' -e 's/within [0-9]+ ms/within 500 ms/' \
        -e 's/ze:[0-9]+/ze:N/g' -e 's/of 0x[0-9a-f]+ of/of ADDRESS of/' -e 's/(the driver of) fake[0-9]+/\1 NIC/' \
        -e 's/provider wefttest (cannot register) [0-9]+ bytes/provider NAME \1 SIZE bytes/' -e '/provider wefttest takes device memory/d' \
        -e '/Level Zero|staged|no device collectives|loading kernels|ze device|host memory|ze memory/p'
}
# The rows of the table: level and line.
sed -nE '/^## Ways down/,/^## /s/^\| .* \| (info|warn) \| `(.*)` \|$/\1 | \2/p' docs/levelzero.md | sort -u >"$work/rows"
[[ -s $work/rows ]] && ok "the table has $(wc -l <"$work/rows") lines" || bad "docs/levelzero.md has no table 'Ways down'"

: >"$work/said"
# judge NAME: whether the last run was right, and said what is in the table.
judge() {
    cat "$work/out" "$work/err" | plain | sort -u >"$work/lines"
    if [[ $rc == 0 && -s $work/lines && -z $(comm -13 "$work/rows" "$work/lines") ]]; then
        ok "$1: right, and said"
        sed 's/^/    /' "$work/lines"
    else
        bad "$1 (status $rc): not in the table: $(comm -13 "$work/rows" "$work/lines")"
    fi
    cat "$work/lines" >>"$work/said"
}
# down FAKE [TRANSPORT]: two ranks without what the fake driver lacks.
down() {
    local memory=ze,ze:1
    [[ $1 != one_each=1 ]] || memory=ze
    WEFT_TEST_ZE=devices=2,$1 run "$operation" --ranks 2 --memory "$memory" --transport "${2-shm}" -d float32,float64 -o sum,avg -b 1M -e 1M -n 1 -w 0
    ((rc)) || grep -q '^# Out of bounds values : 0 OK$' "$work/out" || rc="0, with wrong bits"
    judge "${1:-nothing lacks}${2:+, over $2}"
}
# nic PROGRAM MISSING: two ranks that have a NIC in memory alone, and check their bits.
nic() {
    timeout -k 5 60 "$BUILD/tests/system/$1" "$2" >"$work/out" 2>"$work/err" </dev/null
    rc=$?
}
# Some rows are of kernels, one is of a library without, which has reductions on the host in each allreduce.
none='info | no device collectives: ze device N runs none'
without='info | this libweft was built without clang or llvm-spirv and has no kernels for Level Zero; the host reduces'
operation=allreduce
if grep -qw spirv "$BUILD/parts"; then
    grep -vxF "$without" "$work/rows" >"$work/expected"
    lacks="one_order=1,one_index=1 no_spirv=1 no_float64=1 no_denormals=1 no_division=1 one_engine=1 no_peers=1 no_dmabuf=1 no_import=1 one_each=1
        module=70000004"
else
    skip "rows of kernels: the library was built without clang or llvm-spirv"
    grep -vE 'kernels for|a kernel that|the host averages|no device collectives: ' "$work/rows" >"$work/expected"
    down ""
    said=$(grep -c "has no kernels for Level Zero; the host reduces$" "$work/err")
    nothing "two ranks that reduce say it once each" "${said#2}"
    operation=broadcast
    lacks="one_order=1,one_index=1 no_peers=1 no_dmabuf=1 no_import=1 one_each=1"
fi
for lack in $lacks; do down "$lack"; done
down "" tcp
# Those programs are there where the build has what they need.
for part in "verbs: test_ze_nic export registration descriptors" "libfabric: test_ze_ofi number memory"; do
    read -r program lacks <<<"${part#*: }"
    [[ -x $BUILD/tests/system/$program ]] || { skip "rows of NICs: ${part%%:*} was not built"; absent=1; continue; }
    for lack in $lacks; do
        nic "$program" "$lack"
        judge "$program, $lack"
    done
    nic "$program" nothing
    ((rc)) && bad "$program, a NIC that takes the memory: status $rc"
    nothing "$program, a NIC that takes the memory: what is said" "$(cat "$work/out" "$work/err" | plain | grep -vxF "$without")"
done
sort -u "$work/said" >"$work/all"
[[ ${absent-} ]] || nothing "rows of the table that nobody says" "$(comm -23 "$work/expected" "$work/all")"
WEFT_TEST_ZE=devices=2 run "$operation" --ranks 2 --memory ze,ze:1 --transport shm -b 1M -e 1M -n 1 -w 0
grep -qw spirv "$BUILD/parts" && none=-
nothing "a driver that lacks nothing: what is said" "$(cat "$work/out" "$work/err" | plain | grep -vxF -e "$none")"
sum_up
