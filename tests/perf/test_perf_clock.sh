#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# run: elsewhere (tests/perf/test_perf)
# weft-perf --clock device: stream-ordered calls, between events that the device notes the time of; and which clock it was is
# said wherever figures are.
. tests/support/perf_runs.sh

# timed CLOCK LABEL COMMAND ROWS ARGUMENTS: so many rows, all of them right, and by that clock in the table, in JSON and in CSV.
timed() {
    local clock=$1 label=$2 command=$3 count=$4 clock_line='# clock: host'
    shift 4
    [[ $clock == device ]] && clock_line='# clock: device events, stream-ordered calls'
    run "$command" "$@" --json "$work/clock.json" --csv "$work/clock.csv"
    if [[ $rc != 0 || $(rows | wc -l) != "$count" ]] || ! grep -qx "$clock_line" "$work/out" ||
        ! grep -q '^# Out of bounds values : 0 OK$' "$work/out"; then
        bad "$command by the $clock's clock, $label (status $rc)"
    elif ! grep -q "^  \"clock\": \"$clock\",\$" "$work/clock.json" ||
        [[ $(head -1 "$work/clock.csv") != *,calls_per_sample,clock || $(tail -n +2 "$work/clock.csv" | grep -cv ",$clock\$") != 0 ]]; then
        bad "$command by the $clock's clock, $label: JSON or CSV does not tell it"
    elif rows | awk '$6 <= 0 { exit 1 }'; then
        ok "$command by the $clock's clock, $label"
    else
        bad "$command by the $clock's clock, $label: no time has passed"
    fi
}
timed host malloc allreduce 1 --ranks 2 -b 4K -e 4K -n 3
timed host malloc allreduce 1 --ranks 2 -b 4K -e 4K -n 3 --clock host

plugin=$work/device-sim.so
if [[ -f $BUILD/examples/device-sim/device-sim.so ]]; then
    install -m 700 "$BUILD/examples/device-sim/device-sim.so" "$plugin"
    export WEFT_DEVICE_PLUGIN=$plugin
    for command in allreduce broadcast reduce_scatterv alltoallv sendrecv; do
        timed device sim,sim:1 $command 2 --ranks 3 --memory sim,sim:1 --clock device -b 600 -e 60K -f 100 -n 5
    done
    timed device "many samples" allreduce 1 --ranks 2 --memory sim --clock device -b 8 -e 8 -n 150 -w 0
    timed device "one rank" allreduce 1 --ranks 1 --memory sim --clock device -b 4K -e 4K -n 200
    timed host sim allreduce 1 --ranks 2 --memory sim -b 4K -e 4K -n 2
    WEFT_DEVICE_OPTIONS=sim:seed=3,fail=10 expect 3 'fails, as the options say' allreduce --ranks 2 --memory sim --clock device -b 4K -e 4K
    expect 2 "--clock 'device': --memory 'weft' has no clock" allreduce --ranks 2 --memory sim,weft --clock device
else
    skip "the simulated device is not built"
fi

# The fake driver of Level Zero: streams are lists of weft-perf's own.
ze=$BUILD/tests/fakes/ze/libweft_ze_fake.so
if [[ -f $ze ]]; then
    ze=$(realpath "$ze")
    export ZE_ENABLE_ALT_DRIVERS=$ze ZE_ENABLE_VALIDATION_LAYER=1 ZE_ENABLE_PARAMETER_VALIDATION=1 ZE_ENABLE_HANDLE_LIFETIME=1
    for fake in devices=2 devices=2,no_immediate=1; do
        for command in allreduce sendrecv; do
            WEFT_TEST_ZE=$fake timed device "ze of $fake" $command 2 --ranks 2 --memory ze,ze:1 --clock device -b 600 -e 60K -f 100 -n 5
        done
    done
    WEFT_TEST_ZE=devices=1,one_order=1,one_index=1 expect 3 "ze device 0 has no streams that can wait for calls" allreduce --ranks 2 --memory ze --clock device -b 4K -e 4K
    unset ZE_ENABLE_ALT_DRIVERS ZE_ENABLE_VALIDATION_LAYER ZE_ENABLE_PARAMETER_VALIDATION ZE_ENABLE_HANDLE_LIFETIME
else
    skip "Level Zero is not built"
fi

# The fake CUDA driver. Its kernels do nothing outside of tests that compile them as C, so nothing is reduced here.
if [[ -f $BUILD/tests/fakes/drivers/libcuda.so.1 ]]; then
    export LD_LIBRARY_PATH=$BUILD/tests/fakes/drivers${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} WEFT_DEVICE_COLLECTIVE=never
    for command in broadcast sendrecv; do
        timed device cuda,cuda:1 $command 1 --ranks 2 --memory cuda,cuda:1 --clock device -b 4K -e 4K -n 5
    done
    unset WEFT_DEVICE_COLLECTIVE
else
    skip "the fake CUDA driver is not built"
fi

expect 2 "--clock 'device': --memory 'malloc' has no clock: expected kinds of devices" allreduce --ranks 2 --clock device
expect 3 "host device 0 has no streams that can wait for calls" allreduce --ranks 2 --memory host --clock device
expect 2 "--clock 'gpu': expected host or device" allreduce --ranks 2 --clock gpu
expect 2 "--clock: barrier has no use for it" barrier --ranks 2 --clock host
expect 2 "--clock: p2p-lat has no use for it" p2p-lat --ranks 2 --clock host

sum_up
