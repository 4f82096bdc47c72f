#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# run: early; elsewhere (tests/perf/test_perf)
# Where weft-perf's buffers live: one kind of memory for all ranks, or one for each in turn. Kinds of devices are filled and
# looked at through copies, so what is wrong there must be found as well.
. tests/support/perf_runs.sh

plugin=$work/device-sim.so
[[ -f $BUILD/examples/device-sim/device-sim.so ]] && install -m 700 "$BUILD/examples/device-sim/device-sim.so" "$plugin"
export WEFT_DEVICE_PLUGIN=$plugin

# right MEMORY COMMAND ROWS ARGUMENTS: so many rows, and nothing wrong.
right() {
    local memory=$1 command=$2 count=$3
    shift 3
    run "$command" --memory "$memory" -n 2 "$@"
    if [[ $rc == 0 && $(rows | wc -l) == "$count" ]] && grep -q '^# Out of bounds values : 0 OK$' "$work/out"; then
        ok "$command, $memory"
    else
        bad "$command, $memory (status $rc)"
    fi
}
# Sanitized, every process takes long to begin: the commands are tried with one kind of memory or another by turns.
turn=0
is_left_out() {
    [[ -n ${WEFT_SANITIZER-} ]] && ((turn++ % 3))
}
sizes=(-b 600 -e 6M -f 100)
[[ -z ${WEFT_SANITIZER-} ]] || sizes=(-b 600 -e 600K -f 32)
for memory in host host,weft,malloc; do
    for command in allreduce broadcast reduce_scatterv alltoallv sendrecv; do
        is_left_out || right "$memory" $command 3 --ranks 3 "${sizes[@]}"
    done
    is_left_out || right "$memory" p2p-lat 3 --ranks 3 --pairs -b 4K -e 4K
    is_left_out || right "$memory" p2p-bw 1 --ranks 2 --bidirectional --window 3 -b 64K -e 64K
    is_left_out || right "$memory" matrix 6 --ranks 3 --size 4K --window 2
done
right malloc,weft allreduce 1 --ranks 2 -b 4K -e 4K --json "$work/memory.json"
grep -q 'memory: malloc,weft$' "$work/out" && grep -q '"memory": "malloc,weft"' "$work/memory.json" &&
    ok "the memory is told" || bad "the memory is not told"
right host,host:0 reduce_local 1 --ranks 2 -b 4K -e 4K -d float32

# found MEMORY COUNT ARGUMENTS: so many damaged elements are counted.
found() {
    local memory=$1 count=$2
    shift 2
    WEFT_PERF_CORRUPT=1:10 run "$@" --memory "$memory" -n 1
    if [[ $rc == 1 ]] && grep -q "^# Out of bounds values : $count FAILED\$" "$work/out"; then
        ok "damage is found by $1, $memory"
    else
        bad "damage by $1, $memory (status $rc)"
    fi
}
for memory in host malloc,host; do
    found $memory 2 allreduce --ranks 2 -b 4K -e 4K
    found $memory 1 p2p-lat --ranks 2 -b 4K -e 4K
    found $memory 9 overlap --ranks 2 --size 4K --delay 0
done

if [[ -f $plugin ]]; then
    for memory in sim sim,host malloc,sim:1; do
        for command in allreduce broadcast reduce_scatterv alltoallv sendrecv; do
            is_left_out || right $memory $command 2 --ranks 3 -b 600 -e 60K -f 100
        done
        is_left_out || right "$memory" p2p-lat 3 --ranks 3 --pairs -b 4K -e 4K
        is_left_out || right "$memory" p2p-bw 1 --ranks 2 --bidirectional --window 3 -b 64K -e 64K
        is_left_out || right "$memory" matrix 6 --ranks 3 --size 4K --window 2
        found $memory 2 allreduce --ranks 2 -b 4K -e 4K
    done
    # The simulated device computes element by element, and a sanitizer watches each.
    long=3M
    [[ -z ${WEFT_SANITIZER-} ]] || long=300K
    # Which device a rank takes where none is named: by what its launcher says, and round where there are fewer.
    takes() { # DEVICE MEMORY SETTINGS
        local device=$1 memory=$2
        shift 2
        timeout -k 5 60 env RANK=0 WORLD_SIZE=1 WEFT_BOOTSTRAP_FILE="$work/meet" "$@" "$perf" reduce_local --memory "$memory" -n 1 \
            -w 0 -b 4K -e 4K >"$work/out" 2>"$work/err" </dev/null
        rc=$?
        [[ $rc == 0 ]] && grep -q "^# Device $device " "$work/out" && ok "$memory of $*: $device" ||
            bad "$memory of $* (status $rc): $(grep '^# Device' "$work/out")"
    }
    unset LOCAL_RANK OMPI_COMM_WORLD_LOCAL_RANK MPI_LOCALRANKID SLURM_LOCALID
    takes sim:0 sim LOCAL_RANK=0 SLURM_LOCALID=1
    takes sim:1 sim LOCAL_RANK=1
    takes sim:0 sim LOCAL_RANK=2
    takes sim:1 sim OMPI_COMM_WORLD_LOCAL_RANK=3
    takes sim:1 sim MPI_LOCALRANKID=1
    takes sim:1 sim SLURM_LOCALID=1
    takes sim:0 sim LOCAL_RANK=one
    takes sim:0 sim:0 LOCAL_RANK=1
    right sim,sim:1 allreduce 1 --ranks 2 -b $long -e $long -d bfloat16
    found sim,host 1 p2p-lat --ranks 2 -b 4K -e 4K
    found sim 9 overlap --ranks 2 --size 4K --delay 0
else
    skip "the simulated device is not built"
fi
ze=$BUILD/tests/fakes/ze/libweft_ze_fake.so
if [[ -f $ze ]]; then
    ze=$(realpath "$ze")
    export ZE_ENABLE_ALT_DRIVERS=$ze WEFT_TEST_ZE=devices=2
    run --devices
    grep -q '^ze 1: Fake GPU 1, 16.0 GiB$' "$work/out" && ok "Level Zero's devices are listed" || bad "--devices without Level Zero's"
    for command in allreduce reduce_scatter alltoall sendrecv; do
        is_left_out || right ze,ze:1 $command 3 --ranks 2 "${sizes[@]}"
    done
    # A run says where its ranks' memory is.
    right ze:1,malloc allreduce 1 --ranks 2 -b 4K -e 4K --json "$work/memory.json"
    grep -q '^#  Rank  0 .* device ze:1 \[[0-9a-f:.]*\] Fake GPU 1$' "$work/out" && ! grep -q '^#  Rank  1 .* device' "$work/out" &&
        grep -q '"device": "ze:1 .*Fake GPU 1"' "$work/memory.json" && ok "the device is named" || bad "the device is not named"
    unset ZE_ENABLE_ALT_DRIVERS WEFT_TEST_ZE
else
    skip "Level Zero is not built"
fi
expect 2 "--memory 'host,'" allreduce --ranks 2 --memory host,
expect 2 "--memory 'malloc:1'" allreduce --ranks 2 --memory malloc:1
expect 2 "--memory 'host,weft'" reduce_local --memory host,weft
expect 2 "--memory: barrier has no use for it" barrier --ranks 2 --memory host
expect 2 "--memory 'Host'" allreduce --ranks 2 --memory Host
expect 3 "--memory 'none': there is no such kind of devices" allreduce --ranks 2 --memory malloc,none
expect 3 "--memory 'none': there is no such kind of devices" allreduce --ranks 2 --memory none
[[ ! -s $work/out ]] && ok "no table of what cannot be" || bad "a table is begun before the memory is looked for"

sum_up
