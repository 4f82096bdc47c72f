#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# weft-perf from outside: table, JSON, CSV, exit statuses, noticed errors, a killed rank, the progress line.
. tests/support/perf_runs.sh
. tests/support/port.sh

# Two transports, two placements: every row has all columns and no wrong element.
table() {
    local what=$1
    shift
    run allreduce --ranks 3 -b 8 -e 64K -f 8 -n 3 --columns weft "$@"
    absent "table over $what" && return
    if [[ $rc == 0 && $(rows | wc -l) == 5 ]] &&
        rows | awk 'NF != 17 || $9 != 0 || $13 != 0 || $1 != 4 * $2 || $6 <= 0 || $10 <= 0 { exit 1 }' &&
        grep -q '^# Out of bounds values : 0 OK$' "$work/out" && grep -q '^# Avg bus bandwidth' "$work/out" &&
        grep -q '^# Bytes moved .* eager, .* direct, .* staged' "$work/out"; then
        ok "table over $what"
    else
        bad "table over $what (status $rc)"
    fi
    if [[ $(tr -cd '\r' <"$work/err" | wc -c) == 0 ]]; then
        ok "no progress line in a pipe, over $what"
    else
        bad "a progress line in a pipe, over $what"
    fi
}
table shm --transport shm
rows | awk '$17 != "shm" { exit 1 }' && ok "shm says shm" || bad "shm says another transport"
table "ofi, tcp" --transport ofi --provider tcp

types() {
    run allreduce --ranks 2 -b 8 -e 4K -f 64 -n 1 -w 0 -d all -o all
    local combinations
    combinations=$(rows | awk '{ print $3, $4 }' | sort -u | wc -l)
    # Eight types of integer with eight operations, five of floats with five, two complex ones with three, bool with seven.
    if [[ $rc == 0 && $combinations == 107 && $(grep -c 'not supported' "$work/out") == $((17 * 8 - 107)) ]]; then
        ok "all types and operations"
    else
        bad "all types and operations: $combinations of 107 (status $rc)"
    fi
}
types

json() {
    local file=$work/figures.json key missing=
    run allreduce --ranks 2 -b 16 -e 1K -f 4 -n 4 --memory weft --json "$file" --csv "$work/figures.csv"
    [[ $rc == 0 && -s $file ]] || { bad "no JSON (status $rc)"; return; }
    for key in size_bytes count type redop root algorithm transport in_place time_us p99_us algbw_gbs busbw_gbs \
        line_percent wrong damaged calls_per_sample samples_us; do
        # 4 sizes, two placements; wrong, damaged and busbw_gbs occur in the summary as well.
        [[ $(grep -c "^   \"$key\": " "$file") == 8 ]] || missing+=" $key"
    done
    for key in schema program command environment rows summary weft_version host cpu cores ranks members rails \
        settings command_line stats; do
        grep -q "\"$key\": " "$file" || missing+=" $key"
    done
    [[ -z $missing ]] && ok "JSON has every field" || bad "JSON lacks$missing"
    if command -v python3 >/dev/null; then
        python3 - "$file" <<'PYTHON' && ok "JSON is consistent" || bad "JSON is not consistent"
import json, sys
document = json.load(open(sys.argv[1]))
assert document["schema"] == 1 and document["environment"]["ranks"] == 2
assert document["environment"]["memory"] == "weft" and len(document["environment"]["members"]) == 2
assert [row["size_bytes"] for row in document["rows"]] == [16, 16, 64, 64, 256, 256, 1024, 1024]
for row in document["rows"]:
    samples = sorted(row["samples_us"])
    assert len(samples) == 4 and row["wrong"] == 0 and row["line_percent"] is None and row["count"] * 4 == row["size_bytes"]
    assert abs(row["time_us"] - (samples[1] + samples[2]) / 2) <= 1e-3 * row["time_us"]
    assert abs(row["p99_us"] - samples[3]) <= 1e-3 * samples[3]
    assert abs(row["busbw_gbs"] - row["size_bytes"] / row["time_us"] / 1e3) <= 1e-2 * row["busbw_gbs"]
assert document["summary"]["stats"]["operations"] > 0
PYTHON
    else
        skip "JSON not parsed: no python3"
    fi
    if [[ $(wc -l <"$work/figures.csv") == 9 ]] &&
        awk -F, 'NF != 17 { exit 1 }' "$work/figures.csv"; then
        ok "CSV has 8 rows of 17 fields"
    else
        bad "CSV is malformed"
    fi
    if [[ $(find "$work" -name 'figures*' | wc -l) == 2 ]]; then
        ok "no temporary file is left"
    else
        bad "a temporary file is left"
    fi
}
json

expect 2 "command 'allred'" allred
expect 2 "-b 'abc'" allreduce --ranks 2 -b abc
expect 2 "-b '-8'" allreduce --ranks 2 -b -8
expect 2 "-e '99999999999G'" allreduce --ranks 2 -e 99999999999G
expect 2 "-f '0'" allreduce --ranks 2 -f 0
expect 2 "-d 'float31'" allreduce --ranks 2 -d float31
expect 2 "-o 'nand'" allreduce --ranks 2 -o nand
expect 2 "-o 'sum,nand'" allreduce --ranks 2 -o sum,nand
expect 2 "-n '0'" allreduce --ranks 2 -n 0
expect 2 "--ranks '0'" allreduce --ranks 0
expect 2 "--transport 'smoke'" allreduce --ranks 2 --transport smoke
expect 2 "expected auto, shm, ofi, verbs or tcp" allreduce --ranks 2 --transport infiniband
expect 2 "--device ''" allreduce --ranks 2 --device ''
expect 2 "--device needs a value" p2p-lat --ranks 2 --device
expect 2 "--algo 'best'" allreduce --ranks 2 --algo best
expect 2 "--in-place '2'" allreduce --ranks 2 --in-place 2
expect 2 "-r: matrix has no use for it" matrix --ranks 2 -r 1
expect 2 "--window: allreduce has no use for it" allreduce --ranks 2 --window 3
expect 2 "-b needs a value" allreduce -b
expect 2 "'--zigzag'" allreduce --zigzag
expect 2 "'extra'" allreduce --ranks 2 extra
expect 2 "-e '4' is below -b '8'" allreduce --ranks 2 -b 8 -e 4
expect 3 "/nonexistent/folder/x.json" allreduce --ranks 2 --json /nonexistent/folder/x.json
expect 3 "RANK is not set" allreduce

run --help
[[ $rc == 0 ]] && grep -q -- '--transport' "$work/out" && ok "--help" || bad "--help (status $rc)"
run --devices
[[ $rc == 0 ]] && grep -q '^host 0: host memory' "$work/out" && ok "--devices" || bad "--devices (status $rc)"
WEFT_DEVICE=none run --devices
[[ $rc == 0 ]] && grep -q "^none: none: WEFT_DEVICE is 'none': no kind 'none' is built in" "$work/out" &&
    ok "--devices without a kind" || bad "--devices without a kind (status $rc)"
run --devices all
[[ $rc == 2 ]] && grep -q "'all': expected nothing behind --devices" "$work/err" && ok "--devices all" ||
    bad "--devices all (status $rc)"
run --version
[[ $rc == 0 ]] && grep -q '^weft-perf [0-9]' "$work/out" && grep -q '^built with: [a-z]' "$work/out" && ok "--version" || bad "--version (status $rc)"

# One damaged element on rank 1: exactly one wrong element per placement, and no other row touched.
export WEFT_PERF_CORRUPT=1:100
run allreduce --ranks 2 -b 64 -e 1K -f 4 -n 2
unset WEFT_PERF_CORRUPT
if [[ $rc == 1 && $(rows | awk '{ printf "%s:%s:%s ", $1, $9, $13 }') == "64:0:0 256:0:0 1024:1:1 " ]] &&
    grep -q '^# Out of bounds values : 2 FAILED$' "$work/out"; then
    ok "a wrong element is counted"
else
    bad "a wrong element (status $rc)"
fi

# A rank killed in the middle of a long run.
killed() {
    local transport=$1 launcher pid tries=0
    shift
    : >"$work/out" # the table of the run before must not look like this one's
    timeout -k 5 60 "$perf" allreduce --ranks 3 -b 64K -e 64K -n 1000000 "$@" >"$work/out" 2>"$work/err" \
        </dev/null &
    launcher=$!
    while ! grep -q '(GB/s)' "$work/out" && ((tries++ < 600)); do sleep 0.1; done
    sleep 0.3
    pid=$(awk '/^#  Rank  1 Pid/ { print $5 }' "$work/out")
    [[ -n $pid ]] && kill -KILL "$pid"
    wait "$launcher"
    rc=$?
    absent "a killed rank, over $transport" && return
    if [[ $rc == 3 ]] && grep -q "rank 1 (pid $pid) was killed by signal 9" "$work/err"; then
        ok "a killed rank is named, over $transport"
    else
        bad "a killed rank, over $transport (status $rc)"
    fi
    if grep -q 'was still running after' "$work/err"; then
        bad "over $transport the others did not notice by themselves"
    else
        ok "the others noticed by themselves, over $transport"
    fi
    for pid in $(awk '/^#  Rank/ { print $5 }' "$work/out"); do
        kill -0 "$pid" 2>/dev/null && bad "rank process $pid is still there"
    done
}
killed shm --transport shm
killed "ofi, tcp" --transport ofi --provider tcp

# Without --ranks: two ranks that the environment describes.
job() {
    local port first second attempt secret=$work/secret
    (umask 077 && head -c 32 /dev/urandom >"$secret")
    for attempt in 1 2 3; do
        port=$(free_port)
        env RANK=1 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 WEFT_PORT=$port WEFT_SECRET_FILE=$secret \
            timeout -k 5 60 "$perf" allreduce -e 1K \
            -n 2 >"$work/second" 2>&1 </dev/null &
        second=$!
        env RANK=0 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 WEFT_PORT=$port WEFT_SECRET_FILE=$secret \
            timeout -k 5 60 "$perf" allreduce -e 1K \
            -n 2 >"$work/out" 2>"$work/err" </dev/null
        first=$?
        wait "$second"
        second=$?
        [[ $first == 0 ]] && break # otherwise the port may have been taken
    done
    if [[ $first == 0 && $second == 0 && $(rows | wc -l) == 8 && ! -s $work/second ]]; then
        ok "ranks of another launcher"
    else
        bad "ranks of another launcher (status $first and $second)"
    fi
}
job

# The phases of a start, checked: the first operations' results.
init() {
    run init --ranks 3 -n 3 --json "$work/init.json" "$@"
    absent "init $*" && return
    if [[ $rc == 0 && $(rows | awk '$2 > 0' | wc -l) == 9 && $(grep -c '"phase"' "$work/init.json") == 8 ]]; then
        ok "init $*"
    else
        bad "init $* (status $rc)"
    fi
}
init --transport shm
init --transport ofi --provider tcp
WEFT_PERF_CORRUPT=1:1 run init --ranks 2 -n 2
[[ $rc == 1 ]] && ok "init: a wrong first result is counted" || bad "init: a wrong first result (status $rc)"
expect 2 "-b: init has no use for it" init --ranks 2 -b 8

if command -v script >/dev/null; then
    script -qec "$perf allreduce --ranks 2 -e 64 -n 1" /dev/null >"$work/out" 2>"$work/err" </dev/null
    grep -q '\[1/4\] float32 sum 8 bytes' "$work/out" && ok "a progress line on a terminal" ||
        bad "no progress line on a terminal"
else
    skip "no progress line tested: no script(1)"
fi

sum_up
