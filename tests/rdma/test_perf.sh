#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# weft-perf over an RDMA device, and the comparison with perftest. How fast is not asked here.
. tests/support/perf_runs.sh
command -v python3 >/dev/null || { echo "SKIP: no python3"; exit 77; }
device=${WEFT_RDMA_DEVICE%%,*} # perhaps with a port: mlx5_0:1
name=${device%:*}

# right WHAT: one row over verbs with all columns, the share of the line rate included, and nothing wrong.
right() {
    if [[ $rc == 0 && $(rows | wc -l) == 1 ]] &&
        rows | awk 'NF != 18 || $9 != 0 || $6 <= 0 || $17 != "verbs" || $18 !~ /^[0-9.]+$/ { exit 1 }' &&
        [[ $(grep -c "^#  Port " "$work/out") == 1 ]] && grep -q "^#  Port $name:" "$work/out"; then
        ok "$1"
    else
        bad "$1 (status $rc): $(tail -n 3 "$work/err")"
    fi
}
run p2p-lat --ranks 2 --transport verbs --device "$device" -b 8 -e 8 -n 5 --json "$work/lat.json"
right "p2p-lat"
python3 - "$work/lat.json" "$name" "$device" <<'PYTHON' && ok "JSON has the port" || bad "JSON lacks the port"
import json, sys
document = json.load(open(sys.argv[1]))
(rail,), (row,) = document["environment"]["rails"], document["rows"]
assert rail["device"] == sys.argv[2] and rail["active"] is True and rail["gbs"] > 0 and rail["mtu_bytes"] >= 256
assert abs(row["line_percent"] - 100 * row["busbw_gbs"] / rail["gbs"]) <= 1e-4 * row["line_percent"]
assert document["environment"]["settings"]["WEFT_VERBS_DEVICE"] == sys.argv[3]
PYTHON
run p2p-bw --ranks 2 --transport verbs --device "$device" -b 256K -e 256K -n 2 -w 1 --window 3
right "p2p-bw"
run allreduce --ranks 2 --transport verbs --device "$device" -b 8 -e 8 -n 5
right "allreduce"
expect 3 "nosuch0" allreduce --ranks 2 --transport verbs --device nosuch0 -e 8

compare() {
    BUILD=$BUILD PYTHONDONTWRITEBYTECODE=1 timeout -k 5 100 python3 perf/rdma/compare.py --device "$device" --repeats 1 \
        --iterations 10 --windows 2 --window 2 >"$work/out" 2>"$work/err"
    rc=$?
    local judged
    judged=$(grep -cE '^(PASS|FAIL) +2 ranks, .*: [0-9.]+ \(at (least|most) [0-9.]+\)$' "$work/out")
    if [[ $rc == 0 && $judged == 3 && $(grep -c '^# absent' "$work/out") == 0 ]]; then
        ok "beside perftest"
    elif [[ $rc == 0 && $(grep -c '^NOT MEASURED' "$work/out") == 3 && $(grep -c '^# absent' "$work/out") == 2 ]]; then
        skip "beside perftest: it is not installed"
    else
        bad "beside perftest (status $rc): $(cat "$work/out" "$work/err")"
    fi
}
compare

echo "$passed passed, $failed failed, $skipped skipped"
[[ $failed == 0 ]]
