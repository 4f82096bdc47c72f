#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A tool whose output cannot be written says so and fails: what it prints, and the files that it was asked for.
. tests/support/perf_runs.sh
: >"$work/out"

# full STATUS PROGRAM ARGUMENTS: standard output on a full disk.
full() {
    local status=$1 program=$2
    shift 2
    timeout -k 5 60 "$BUILD/$program" "$@" >/dev/full 2>"$work/err" </dev/null
    rc=$?
    if [[ $rc == "$status" ]] && grep -qx "$program: cannot write the output" "$work/err"; then
        ok "$program $*: refused"
    else
        bad "$program $* on a full disk: status $rc, expected $status and a message"
    fi
}
full 3 weft-perf --version
full 3 weft-perf --help
full 3 weft-perf --devices
full 3 weft-perf allreduce --help
full 3 weft-perf allreduce --ranks 1 -b 8 -e 8 -n 1 -w 0
full 3 weft-perf allreduce --ranks 2 -b 8 -e 8 -n 1 -w 0
full 3 weft-perf matrix --ranks 2 -n 1 -w 0 --size 8
full 3 weft-perf p2p-lat --ranks 2 -b 8 -e 8 -n 1 -w 0
full 3 weft-perf init --ranks 2 -n 1
full 1 weft-plan --help
full 1 weft-plan dump allreduce --algo ring --ranks 4
full 1 weft-plan verify allreduce --algo ring --ranks 4
full 1 weft-plan cost allreduce --ranks 4
full 1 weft-topo --help
full 1 weft-topo --version
full 1 weft-topo --input fat-tree:leaves=2

expect 3 "cannot write '/dev/full'" allreduce --ranks 2 -b 8 -e 8 -n 1 -w 0 --json /dev/full
expect 3 "cannot write '/dev/full'" allreduce --ranks 2 -b 8 -e 8 -n 1 -w 0 --csv /dev/full
expect 3 "cannot write '/dev/full'" matrix --ranks 2 -n 1 -w 0 --size 8 --json /dev/full
mkfifo "$work/fifo"
expect 3 "cannot write '$work/fifo'" allreduce --ranks 2 -b 8 -e 8 -n 1 -w 0 --json "$work/fifo"
# A reader that was there from the start gets all of it, also where the FIFO is opened and closed before. What a run of one size writes
# fits in the pipe.
exec {reader}<>"$work/fifo"
timeout -k 5 60 "$BUILD/weft-perf" allreduce --ranks 2 -b 8 -e 8 -n 1 -w 0 --json "$work/fifo" >"$work/out" 2>"$work/err" </dev/null
rc=$?
dd iflag=nonblock status=none <&"$reader" >"$work/read" 2>/dev/null
if [[ $rc == 0 && $(tail -n 1 "$work/read") == "}" ]]; then
    ok "a FIFO with a reader"
else
    bad "a FIFO with a reader: status $rc, $(wc -c <"$work/read") bytes were read"
fi
sum_up
