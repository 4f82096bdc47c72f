#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The verdicts of make perf-rdma and make perf-peers on figures that are made up: what is just good enough passes, what is just too slow
# fails, and what has no figure is not measured. No device and no other library is needed.
source "$(dirname "$0")/../support/start.sh"
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
tcp = rows(8, weft_tcp=10.0, openmpi=10.0) + rows(32 << 20, weft_tcp=10.0, openmpi=12.0, gloo_ring=10.0, gloo_bcube=11.0)
assert judged("allreduce", "tcp", tcp) == ["PASS", "PASS", "PASS"]
tcp = rows(8, weft_tcp=10.1, openmpi=10.0) + rows(32 << 20, weft_tcp=10.0, openmpi=12.0, gloo_ring=9.9, gloo_bcube=11.0)
assert judged("allreduce", "tcp", tcp) == ["FAIL", "PASS", "FAIL"]
assert judged("broadcast", "shm", rows(8, weft_malloc=10.0, weft_mem=10.1, openmpi=10.0, mpich=11.0)) == ["PASS", "FAIL"]
PYTHON
check "the free choice of a way beside fixed ones" <<'PYTHON'
import contextlib, io, verdict
def rows(size, **times):
    return [{"entry": name.replace("_", "-"), "size_bytes": size, "time_us": time, "fastest_us": 1.0} for name, time in times.items()]
def table(name, *free):
    return {"operation": "allreduce", "name": name, "rows": sum((rows(1 << i, weft_free=time, fixed_fed=12.0, fixed_pull=10.0, fixed_staged=20.0)
                                                                  for i, time in enumerate(free)), [])}
def judged(*free):
    return [target["result"] for target in verdict.judge([table("ways", *free)], str, "median")]
assert judged(*[10.0] * 5, *[10.5] * 4, 99.0) == ["PASS", "PASS"]
assert judged(*[10.0] * 4, *[10.6] * 6) == ["FAIL", "PASS"]
assert judged(*[10.0] * 8, 12.1, 12.1) == ["PASS", "FAIL"]
assert judged(12.0) == ["FAIL", "PASS"]
assert verdict.judge([table("over", 10.0)], str, "median")[0]["result"] == "NOT MEASURED"
with contextlib.redirect_stdout(io.StringIO()) as text:
    verdict.print_regrets([table("ways", 10.0, 15.0, 9.0)], str, "median")
    whole = {"title": "ways", "processors": [0, 1], "libraries": [], **table("ways", 10.0)}
    verdict.print_table(whole, str, "median")
lines = text.getvalue().splitlines()
assert ["1", "1.20", "1.00", "2.00", "0.000"] in [line.split() for line in lines], lines
lines = lines[:4]
assert lines[0].startswith("# free choice") and "3 points" in lines[0] and len(lines) == 4, lines
assert lines[1] == "#     allreduce, 2, buffers by size: +50 % of fixed-pull's time" and "-10 %" in lines[3], lines
def seen(size, near, far):
    times = zip(("weft-free", "fixed-fed", "fixed-pull"), near, far)
    return [{"entry": name, "size_bytes": size, "time_us": 1.0, "near_us": near_us} | ({"far_us": far_us} if far_us else {})
            for name, near_us, far_us in times]
apart = {"operation": "window", "name": "ways", "rows": seen(8, (11.0, 10.0, 20.0), (30.0, 40.0, 25.0)) + seen(64, (8.0, 10.0, 20.0), (30.0, 40.0, None))}
assert [(round(found[0], 2), *found[3:]) for found in verdict.regrets([apart], "time_us")] == [
        (0.2, 8, ", far", "fixed-pull"), (0.1, 8, ", near", "fixed-fed"), (-0.2, 64, ", near", "fixed-fed")]
assert [(target["target"].split("choice, ")[1], round(target["measured"], 2)) for target in verdict.judge([apart], str, "median")] == [
    ("near, the middle point", -0.2), ("near, nine tenths of the points", 0.1), ("far, the middle point", 0.2), ("far, nine tenths of the points", 0.2)]
assert [found[4] for found in verdict.regrets([{**apart, "rows": [{**row, "fastest_us": 1.0} for row in apart["rows"]]}], "fastest_us")] == ["", ""]

PYTHON
check "near and far processors apart, beside the best peer" <<'PYTHON'
import contextlib, io, coordinate, verdict
assert [coordinate.state_of(*looks) for looks in ((70, 129), (70, 130), (181, 300), (180, 300), (70, 300), (0, 0))] \
    == ["near", None, "far", None, None, None]
class Library:
    connections = {}
answers = iter([[(1.0, 70, 71), (9.0, 300, 301)], [(2.0, 0, 0), (8.0, 0, 0)]])
coordinate.ask = lambda library, line: [next(answers), next(answers)]
assert coordinate.take_turn(Library, "pingpong", 8, 1, 2, 1, "same", 0) == [(2.0, "near"), (9.0, "far")]
def plan(operation, estimate_us):
    cell = coordinate.Cell("weft-mem", Library, 0, operation, 8, "same")
    assert cell.plan(estimate_us) == cell.calls * cell.samples + cell.warmups
    return cell.calls, cell.samples, cell.warmups
assert [plan("pingpong", us) for us in (0.2, 100.0, 1000.0, 20000.0)] == [(250, 50, 200), (1, 50, 5), (1, 8, 2), (1, 8, 2)]
assert plan("window", 20000.0) == (1, 1, 1)
cell = coordinate.Cell("weft-mem", Library, 0, "pingpong", 8, "written")
cell.warmups, cell.turns_us = 1, [3.0]
cell.states_us = {"near": [5.0, 1.0, 2.0, 3.0, 4.0], "far": [9.0] * 4}
row = cell.row()
assert row["near_us"] == 3.0 and row["near_samples"] == 5 and row["far_samples"] == 4 and "far_us" not in row, row
assert row["buffers"] == "written"
def rows(size, state, **times):
    return [{"entry": name.replace("_", "-"), "size_bytes": size, "time_us": 1.0, "fastest_us": 1.0, f"{state}_us": time}
            for name, time in times.items()]
table = {"operation": "pingpong", "name": "shm", "buffers": "written", "title": "shared memory", "processors": [0, 1], "libraries": [],
         "rows": rows(8, "near", weft_mem=10.0, openmpi=11.0, mpich=12.0, impi=10.0, oneccl=90.0)
         + rows(64, "near", weft_mem=10.5, impi=10.0) + rows(512, "near", weft_mem=10.6, oneccl=10.0)
         + rows(8, "far", weft_mem=30.0, mpich=20.0) + rows(4096, "far", weft_mem=30.0)}
found = verdict.ahead([table])
assert {key: {kind: [point[2] for point in points] for kind, points in kinds.items()} for key, kinds in found.items()} == {
    ("near", "weft-mem"): {"ahead": [8], "tie": [64], "behind": [512]}, ("far", "weft-mem"): {"ahead": [], "tie": [], "behind": [8]}}, found
with contextlib.redirect_stdout(io.StringIO()) as text:
    verdict.print_states(table, str)
    verdict.print_ahead([table], str)
lines = [" ".join(line.split()) for line in text.getvalue().splitlines()]
assert "8 10.0 impi 10.0 1.00" in lines and "512 10.0 oneccl 10.6 1.06" in lines and "8 20.0 mpich 30.0 1.50" in lines, lines
assert "# processors near, weft-mem: ahead of the best of openmpi, mpich, impi, oneccl at 1 of 3 points, 1 within 5 %, 1 behind" in lines, lines
assert "# behind: pingpong, 512, buffers written: 1.06 times its time" in lines, lines
targets = verdict.judge([table], str, "median")
assert targets[0]["target"].startswith("buffers written: pingpong 8, "), targets[0]
PYTHON
check "all entries alike: the same number of calls, and buffers written in turns" <<'PYTHON'
import coordinate, libraries, random
class Library:
    operations, processes = ("allreduce",), []
    def __init__(self, name, time_us):
        self.name, self.time_us = name, time_us
    def entries_of(self, operation):
        return {self.name: 0}
    def log_tail(self):
        return ""
    def stop(self):
        pass
asked = []
def ask(library, line):
    asked.append((library.name, line))
    if library.name == "gone":
        raise libraries.Failed("it has gone")
    words = line.split()
    return [[(library.time_us, 0, 0)] * (int(words[4]) if words[0] == "run" else 0)]
coordinate.ask = ask
running = [Library("slow", 900.0), Library("middle", 100.0), Library("quick", 40.0)]
rows = coordinate.run_size(running, "allreduce", 8, "same", 5, random.Random(1), print)
plans = {(row["calls_per_sample"], row["samples_per_turn"], row["warmups_per_turn"]) for row in rows}
assert len(rows) == 3 and plans == {(1, 50, 5)}, plans  # what 100 us lead to
asked, said, running = [], [], [Library("a", 1.0), Library("gone", 1.0), Library("b", 1.0)]
coordinate.touch(running, 2 * coordinate.TOUCH_BYTES, said.append)
part = coordinate.TOUCH_BYTES
assert asked == [("a", f"touch 0 {part}"), ("gone", f"touch 0 {part}"), ("b", f"touch 0 {part}"), ("a", f"touch {part} {part}"),
                 ("b", f"touch {part} {part}")], asked
assert [library.name for library in running] == ["a", "b"] and "gone failed" in said[0], said
PYTHON
check "beside bare sockets" <<'PYTHON'
import contextlib, io, verdict
def table(operation, **sizes):
    rows = [{"entry": entry, "size_bytes": int(size[1:]), "time_us": time, "fastest_us": time}
            for size, times in sizes.items()
            for entry, time in zip(("weft-tcp", "sockets-sleep", "sockets-poll"), times)]
    return {"operation": operation, "name": "tcp", "title": "over TCP", "processors": [0, 1], "libraries": [],
            "rows": verdict.with_bound(rows, "time_us")}
def judged(operation, **sizes):
    return [target["result"] for target in verdict.judge([table(operation, **sizes)], str, "median")]
# The faster way to receive counts, at each size.
assert judged("pingpong", s8=(12.0, 10.0, 11.0), s64=(12.0, 11.0, 10.0)) == ["PASS", "PASS"]
assert judged("pingpong", s8=(12.1, 10.0, 11.0), s64=(12.1, 11.0, 10.0)) == ["FAIL", "FAIL"]
# Windows: 0.9 of the sockets' speed from 8 KB on, and below it all of it.
assert judged("window", s4096=(10.0, 11.0, 10.0), s8192=(10.0, 9.0, 11.0)) == ["PASS", "PASS"]
assert judged("window", s4096=(10.1, 11.0, 10.0), s8192=(10.0, 8.9, 11.0)) == ["FAIL", "FAIL"]
assert judged("window", s8=(10.0,)) == ["NOT MEASURED"]
# One line per size with the medians, and one with the ratio and GB/s.
for operation, unit in ("pingpong", "one way, half of the round trip"), ("window", "per message of a window of 64"):
    with contextlib.redirect_stdout(io.StringIO()) as text:
        verdict.print_table(table(operation, s8192=(10.0, 9.0, 11.0)), str, "median")
    lines = [" ".join(line.split()) for line in text.getvalue().splitlines()]
    assert f"# median time {unit} (us)" in lines and "size bare weft-tcp" in lines, lines
    assert "8192 9.000 10.0" in lines and "8192 0.90 0.819" in lines, lines
PYTHON
check "which operations run in which tables" <<'PYTHON'
import coordinate, os, sys
def tables(**environment):
    for name in [name for name in os.environ if name.startswith("PEERS_")]:
        del os.environ[name]
    os.environ.update(environment)
    sys.argv = ["coordinate.py"]
    options = coordinate.arguments()
    return options.tables, options.sizes
chosen, sizes = tables()
assert chosen == {"shm": ["allreduce", "alltoall", "allgather", "broadcast", "pingpong"],
                  "tcp": ["allreduce", "pingpong", "window"], "over": ["allreduce"]}, chosen
assert max(sizes["shm"]["pingpong"]) == 32 << 20 and max(sizes["tcp"]["pingpong"]) == 64 << 20
assert max(sizes["tcp"]["allreduce"]) == 64 << 20 and max(sizes["tcp"]["window"]) == 8 << 20
chosen, sizes = tables(PEERS_TABLES="tcp,over", PEERS_OPERATIONS="window", PEERS_SIZES="8,8K")
assert chosen == {"tcp": ["window"]} and sizes == {"tcp": {"window": [8, 8192]}}, (chosen, sizes)
PYTHON
check "weft over TCP as the environment says" <<'PYTHON'
import libraries, os
def ways(**environment):
    for name in ("WEFT_TRANSPORT", "WEFT_OFI_PROVIDER"):
        os.environ.pop(name, None)
    os.environ.update(environment)
    return libraries.weft_tcp()
assert ways() == {"WEFT_TRANSPORT": "tcp"}
assert ways(WEFT_TRANSPORT="ofi") == {"WEFT_TRANSPORT": "ofi", "WEFT_OFI_PROVIDER": "tcp"}
assert ways(WEFT_TRANSPORT="ofi", WEFT_OFI_PROVIDER="net") == {"WEFT_TRANSPORT": "ofi", "WEFT_OFI_PROVIDER": "net"}
PYTHON
check "what PEERS_BESIDE puts beside weft's ways" <<'PYTHON'
import libraries, os
libraries.impi = lambda build, ranks: ("impi", build, ranks)
libraries.weft = lambda build, ranks, name, environment: (name, build, ranks, environment)
def beside(text):
    os.environ["PEERS_BESIDE"] = text
    return libraries.beside("/b", [0, 1])
def weft(number, build="/b", **environment):
    return (f"weft-{number}", build, 2, {"WEFT_TRANSPORT": "shm", "PEERS_MEMORY": "malloc", **environment})
assert beside("") == []
assert beside("impi WEFT_SPIN_US=9,BUILD=/o impi WEFT_EAGER_SHM=8") == [
    ("impi", "/b", 2), weft(1, "/o", WEFT_SPIN_US="9"), weft(2, WEFT_EAGER_SHM="8")]
for wrong in ("gloo", "WEFT_SPIN_US", "SPIN=9", "impi,openmpi", "WEFT_SPIN_US=9,PATH=/"):
    try:
        beside(wrong)
    except SystemExit as end:
        assert f"PEERS_BESIDE has '{wrong}'" in str(end), end
    else:
        raise AssertionError(wrong)
PYTHON
sum_up
