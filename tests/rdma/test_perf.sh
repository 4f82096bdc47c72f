#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# weft-perf over an RDMA device, and the comparison with perftest. How fast is not asked here, but each verdict has to follow from its
# figures; tests/perf/test_perf_verdicts.sh asks for verdicts on figures that are made up.
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
run p2p-lat --ranks 2 --transport verbs --device "$device" --columns weft -b 8 -e 8 -n 5 --json "$work/lat.json"
right "p2p-lat"
python3 - "$work/lat.json" "$name" "$device" <<'PYTHON' && ok "JSON has the port" || bad "JSON lacks the port"
import json, sys
document = json.load(open(sys.argv[1]))
(rail,), (row,) = document["environment"]["rails"], document["rows"]
assert rail["device"] == sys.argv[2] and rail["active"] is True and rail["gbs"] > 0 and rail["mtu_bytes"] >= 256
assert abs(row["line_percent"] - 100 * row["busbw_gbs"] / rail["gbs"]) <= 1e-4 * row["line_percent"]
assert document["environment"]["settings"]["WEFT_VERBS_DEVICE"] == sys.argv[3]
PYTHON
run p2p-bw --ranks 2 --transport verbs --device "$device" --columns weft -b 256K -e 256K -n 2 -w 1 --window 3
right "p2p-bw"
run allreduce --ranks 2 --transport verbs --device "$device" --columns weft -b 8 -e 8 -n 5
right "allreduce"
expect 3 "nosuch0" allreduce --ranks 2 --transport verbs --device nosuch0 -e 8

# Three verdicts, each as its ratio says (of which two digits are printed), and times of all five programs.
verdicts_follow() {
    awk '
        /^(PASS|FAIL) +2 ranks, .*: [0-9.]+ \(at (least|most) [0-9.]+\)$/ {
            ratio = $(NF - 3); limit = $NF + 0; good = $(NF - 1) == "least" ? ratio >= limit : ratio <= limit
            if (ratio <= 0 || (ratio != limit && good != ($1 == "PASS"))) exit wrong = 1
            judged++
        }
        $1 ~ /^(ib_write_lat|p2p-lat|allreduce|ib_write_bw|p2p-bw)$/ && $2 > 0 && $3 > 0 && $3 <= $2 { timed++ }
        END { exit wrong || judged != 3 || timed != 5 }' "$work/out"
}
compare() {
    BUILD=$BUILD PYTHONDONTWRITEBYTECODE=1 timeout -k 5 100 python3 perf/rdma/compare.py --device "$device" --repeats 1 \
        --iterations 10 --windows 2 --window 2 >"$work/out" 2>"$work/err"
    rc=$?
    if [[ $rc == 0 && $(grep -c '^# absent' "$work/out") == 0 ]] && verdicts_follow; then
        ok "beside perftest"
    elif [[ $rc == 0 && $(grep -c '^NOT MEASURED' "$work/out") == 3 && $(grep -c '^# absent' "$work/out") == 2 ]]; then
        skip "beside perftest: it is not installed"
    else
        bad "beside perftest (status $rc): $(cat "$work/out" "$work/err")"
    fi
}
compare

sum_up
