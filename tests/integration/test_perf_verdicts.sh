#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The verdicts of make perf-rdma and make perf-peers on figures that are made up: what is just good enough passes, what is just too slow
# fails, and what has no figure is not measured. No device and no other library is needed.
set -u
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
. tests/support/tally.sh
command -v python3 >/dev/null || { echo "SKIP: JSON not parsed: no python3"; exit 77; }
check() { # WHAT, and a program on standard input
    if PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=perf/rdma:perf/peers python3 - >"$work/out" 2>"$work/err"; then ok "$1"; else bad "$1"; fi
}
check "beside perftest" <<'PYTHON'
import compare
def results(**times):
    base = {"ib_write_bw": 900.0, "p2p-bw": 1000.0, "p2p-lat": 13.0, "ib_write_lat": 10.0, "allreduce": 16.0}
    base.update({name.replace("__", "-"): value for name, value in times.items()})
    return [target["result"] for target in compare.judge({name: value for name, value in base.items() if value})]
assert results() == ["PASS", "PASS", "PASS"], results()
assert results(p2p__bw=1001.0) == ["FAIL", "PASS", "PASS"]
assert results(p2p__lat=13.1) == ["PASS", "FAIL", "PASS"]
assert results(allreduce=16.1) == ["PASS", "PASS", "FAIL"]
assert results(ib_write_lat=9.9) == ["PASS", "FAIL", "FAIL"]
assert results(ib_write_lat=None) == ["PASS", "NOT MEASURED", "NOT MEASURED"]
assert results(p2p__bw=None) == ["NOT MEASURED", "PASS", "PASS"]
PYTHON
check "medians and the fastest turns" <<'PYTHON'
import compare
turns = {"p2p-lat": [9.0, 1.0, 2.0], "allreduce": []}
assert compare.figures(turns, "median") == {"p2p-lat": 2.0} and compare.figures(turns, "fastest") == {"p2p-lat": 1.0}
PYTHON
check "beside other libraries" <<'PYTHON'
import verdict
def rows(size, **times):
    return [{"entry": name.replace("_", "-"), "size_bytes": size, "time_us": time, "fastest_us": 1.0} for name, time in times.items()]
def judged(operation, name, rows):
    found = verdict.judge([{"operation": operation, "name": name, "rows": rows}], str, "median")
    return [target["result"] for target in found if target["result"] != "NOT MEASURED"]
small = dict(weft_malloc=12.0, weft_mem=50.0, openmpi=10.0, mpich=11.0)
assert judged("allreduce", "shm", rows(8, **small)) == ["PASS"]
assert judged("allreduce", "shm", rows(8, **{**small, "weft_malloc": 12.1})) == ["FAIL"]
large = dict(weft_malloc=10.0, weft_mem=4.0, openmpi=15.0, mpich=12.0)
assert judged("allreduce", "shm", rows(1 << 20, **large)) == ["PASS", "PASS"]
assert judged("allreduce", "shm", rows(1 << 20, **{**large, "mpich": 11.9})) == ["FAIL", "FAIL"]
tcp = rows(8, weft_tcp=15.0, openmpi=10.0) + rows(32 << 20, weft_tcp=10.0, openmpi=12.0, gloo_ring=10.0)
assert judged("allreduce", "tcp", tcp) == ["PASS", "PASS"]
tcp = rows(8, weft_tcp=15.1, openmpi=10.0) + rows(32 << 20, weft_tcp=10.0, openmpi=12.0, gloo_ring=9.9)
assert judged("allreduce", "tcp", tcp) == ["FAIL", "FAIL"]
assert judged("broadcast", "shm", rows(8, weft_malloc=10.0, weft_mem=10.1, openmpi=10.0, mpich=11.0)) == ["PASS", "FAIL"]
PYTHON
sum_up
