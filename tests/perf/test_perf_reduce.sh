#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# run: elsewhere (tests/perf/test_perf)
# weft-perf reduce_local: reductions of the host and of the simulated device, beside copies. What is timed is not judged.
. tests/support/perf_runs.sh

# Plug-ins are loaded only from folders that nobody else may write to.
plugin=$work/device-sim.so
[[ -f $BUILD/examples/device-sim/device-sim.so ]] && install -m 700 "$BUILD/examples/device-sim/device-sim.so" "$plugin"
[[ -f $plugin ]] || skip "the simulated device is not built"
export WEFT_DEVICE_PLUGIN=$plugin

# all WHAT ROWS ARGUMENTS: so many rows, each with all columns and nothing wrong.
all() {
    local what=$1 count=$2
    shift 2
    run reduce_local -n 1 -w 0 "$@"
    if [[ $rc == 0 && $(rows | wc -l) == "$count" ]] &&
        rows | awk 'NF != 11 || $6 < 0 || $8 < 0 || $9 < 0 || $11 != 0 { exit 1 }' &&
        grep -q '^# Out of bounds values : 0 OK$' "$work/out"; then
        ok "$what"
    else
        bad "$what: $(rows | wc -l) of $count rows (status $rc)"
    fi
}
all "the default is the host, three types" 6 -b 1K -e 8K -f 8
[[ $(rows | awk '{ print $3, $4, $5 }' | sort -u | tr '\n' ';') == "bfloat16 sum 2;float16 sum 2;float32 sum 2;" ]] &&
    ok "float16, float32 and bfloat16 sums" || bad "float16, float32 and bfloat16 sums"
grep -q '^# Device host:0 host memory, ' "$work/out" && ok "the device is named" || bad "the device is not named"
# 107 of 136 pairs have reductions; 3 bytes hold an element of 59 of them, 51 and 867 of all.
all "all types and operations of the host" 273 -b 3 -e 1000 -f 17 -d all -o all
[[ $(grep -c 'not supported by host' "$work/out") == 29 ]] && ok "29 pairs are none" || bad "29 pairs are none"
all "ten mebibytes and one element" 1 -b 10485764 -e 10485764 -d float32
for inputs in 1 3 8; do
    all "$inputs inputs" 4 -b 40 -e 400 -f 10 -d float32,int8 -o avg --inputs "$inputs"
    [[ $(rows | awk '{ print $5 }' | sort -u) == "$inputs" ]] || bad "$inputs inputs are not in the table"
done
all "two ranks" 1 -b 64K -e 64K -d float32 --ranks 2
if [[ -f $plugin ]]; then
    all "all types and operations of sim" 107 -b 336 -e 336 -d all -o all --memory sim:1 --inputs 3
    grep -q '^# Device sim:1 simulated device 1' "$work/out" && ok "sim:1 is named" || bad "sim:1 is not named"
    run --devices
    [[ $rc == 0 ]] && grep -q '^    supports  reductions, streams, IPC, device collectives$' "$work/out" && ok "sim is listed" ||
        bad "sim is not listed (status $rc)"
    all "three mebibytes of sim" 1 -b 3M -e 3M -d uint8 -o max --memory sim
    WEFT_DEVICE_OPTIONS=sim:seed=5,delay=200 all "sim is slow" 1 -b 4K -e 4K -d float32 --memory sim
    expect 3 "--memory 'sim:2': the kind has 2 devices here" reduce_local -e 1K --memory sim:2
    WEFT_DEVICE_OPTIONS=sim:seed=3,fail=5 expect 3 "sim: work fails, as the options say" reduce_local -e 1K --memory sim
fi

files() {
    run reduce_local -b 1K -e 4K -d float32,int16 -n 3 --inputs 3 --json "$work/figures.json" --csv "$work/figures.csv"
    if [[ $rc == 0 && $(wc -l <"$work/figures.csv") == 7 ]] && awk -F, 'NF != 19 { exit 1 }' "$work/figures.csv" &&
        grep -q '^size_bytes,count,type,redop,inputs,kind,ordinal,' "$work/figures.csv"; then
        ok "CSV has 6 rows of 19 fields"
    else
        bad "CSV is malformed (status $rc)"
    fi
    command -v python3 >/dev/null || { skip "JSON not parsed: no python3"; return; }
    python3 - "$work/figures.json" <<'PYTHON' && ok "JSON of reduce_local" || bad "JSON of reduce_local (status $rc)"
import json, sys
document = json.load(open(sys.argv[1]))
assert document["command"] == "reduce_local" and document["environment"]["ranks"] == 1
assert document["environment"]["memory"] == "host" and document["summary"]["busbw_gbs"] is None
rows = document["rows"]
assert [(row["type"], row["size_bytes"]) for row in rows] == [(name, size) for name in ("float32", "int16") for size in (1024, 2048, 4096)]
for row in rows:
    assert (row["redop"], row["inputs"], row["kind"], row["ordinal"], row["device"]) == ("sum", 3, "host", 0, "host memory")
    assert row["wrong"] == 0 and row["damaged"] == 0 and row["runtime"]
    times, copies = row["samples_us"], row["copy_samples_us"]
    assert len(times) == 3 and len(copies) == 3 and row["calls_per_sample"] >= 1 and row["copies_per_sample"] >= 1
    assert abs(row["time_us"] - sorted(times)[1]) <= 1e-3 * row["time_us"]
    assert abs(row["reduce_gbs"] - 4 * row["size_bytes"] / row["time_us"] / 1e3) <= 1e-2 * row["reduce_gbs"]
    assert abs(row["copy_gbs"] - 4 * row["size_bytes"] / row["copy_us"] / 1e3) <= 1e-2 * row["copy_gbs"]
    shares = sorted(100 * copy / time for copy, time in zip(copies, times))
    assert abs(row["share_percent"] - shares[1]) <= 1e-2 * shares[1]
PYTHON
}
files

run reduce_local -b 64 -e 64 -d float32 -n 1 -c 0 --json "$work/unchecked.json"
[[ $rc == 0 && $(rows | awk '{ print $11 }') == N/A ]] && grep -q '"wrong": null' "$work/unchecked.json" &&
    ok "unchecked rows say so" || bad "unchecked rows (status $rc)"
# One damaged element of rank 1's.
WEFT_PERF_CORRUPT=1:100 run reduce_local --ranks 2 -b 64 -e 1K -f 4 -d float32 -n 1
[[ $rc == 1 && $(rows | awk '{ printf "%s:%s ", $1, $11 }') == "64:0 256:0 1024:1 " ]] &&
    ok "a wrong element is counted" || bad "a wrong element (status $rc)"

expect 2 "--inputs '9'" reduce_local --inputs 9
expect 2 "--inputs: allreduce has no use for it" allreduce --ranks 2 --inputs 2
expect 2 "--memory 'malloc'" reduce_local --memory malloc
expect 2 "--memory 'sim:-1'" reduce_local --memory sim:-1
expect 2 "--memory ':1'" reduce_local --memory :1
expect 2 "--memory 'sim:x'" allreduce --ranks 2 --memory sim:x
expect 3 "--memory 'none': there is no such kind of devices" reduce_local --memory none
WEFT_DEVICE=^cuda expect 3 "the kind cannot be used: left out: WEFT_DEVICE is '^cuda'" reduce_local --memory cuda
expect 3 "and of float8_e4m3 on device host:0: not supported here" reduce_local -d float8_e4m3 -o and

sum_up
