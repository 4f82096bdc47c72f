#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What is no regular file as a topology: weft-topo reads pipes and does not wait for a writer that never comes; the library
# refuses all of it at once.
. tests/support/perf_runs.sh
: >"$work/out" >"$work/err"
topo=$BUILD/weft-topo
mkfifo "$work/fifo"
printf 'SwitchName=s0 Nodes=a,b\n' >"$work/topology.conf"

# draws NAME COMMAND...: weft-topo knows the switch that the input tells of.
draws() {
    local name=$1
    shift
    timeout -k 5 30 "$@" >"$work/out" 2>"$work/err"
    rc=$?
    if [[ $rc == 0 ]] && grep -q '"s0"' "$work/out"; then ok "$name"; else bad "$name: status $rc"; fi
}
draws 'a file' "$topo" --format json --input "$work/topology.conf"
draws 'standard input' "$topo" --format json --input - <"$work/topology.conf"
draws '/dev/stdin, a file' "$topo" --format json --input /dev/stdin <"$work/topology.conf"
cat "$work/topology.conf" | draws '/dev/stdin, a pipe' "$topo" --format json --input /dev/stdin
draws 'a pipe of the shell' "$topo" --format json --input <(cat "$work/topology.conf")
cat "$work/topology.conf" >"$work/fifo" & # blocks until there is a reader
draws 'a FIFO with a writer' "$topo" --format json --input "$work/fifo"
kill $! 2>/dev/null
wait $!
{
    printf 'SwitchName=s0 '
    sleep 0.2 # whatever is first: half of it or the reader
    printf 'Nodes=a,b\n'
} >"$work/fifo" &
draws 'a FIFO with a slow writer' "$topo" --format json --input "$work/fifo"
kill $! 2>/dev/null
wait $!

# refused STATUS TEXT COMMAND...: ends by itself, with that message.
refused() {
    local status=$1 text=$2
    shift 2
    timeout -k 5 30 "$@" >"$work/out" 2>"$work/err" </dev/null
    rc=$?
    if [[ $rc == "$status" ]] && grep -qF -- "$text" "$work/err"; then
        ok "refused: $text"
    else
        bad "$*: status $rc, expected $status and '$text'"
    fi
}
refused 1 "$work/fifo: a FIFO that nobody writes to" "$topo" --format json --input "$work/fifo"
refused 1 "$work: Is a directory" "$topo" --format json --input "$work"
ln -s fifo "$work/link"
for name in fifo link; do
    refused 3 "WEFT_TOPO_FILE: $work/$name: a FIFO: expected a regular file" env WEFT_TOPO_FILE="$work/$name" "$perf" --devices
done
refused 3 "WEFT_TOPO_FILE: $work: a directory: expected a regular file" env WEFT_TOPO_FILE="$work" "$perf" --devices
refused 3 'WEFT_TOPO_FILE: /dev/zero: a character device' env WEFT_TOPO_FILE=/dev/zero "$perf" --devices
refused 3 'WEFT_TOPO_FILE: cannot open -' env WEFT_TOPO_FILE=- "$perf" --devices
refused 3 "hwloc's XML, which describes one machine: weft-topo reads it, the library does not" \
    env WEFT_TOPO_FILE=tests/topo/samples/hwloc-2package.xml "$perf" --devices
refused 3 "NCCL's XML, which describes one machine: weft-topo reads it, the library does not" \
    env WEFT_TOPO_FILE=tests/topo/samples/nvidia-4gpu-2nic.xml "$perf" --devices
refused 1 "$work/fifo: a FIFO: expected a regular file" env HWLOC_XMLFILE="$work/fifo" "$topo" --format json

# What is odd in a file is said in the log.
printf 'SwitchName=s1 Nodes=a\nSwitchName=s2\n' >"$work/odd.conf"
env WEFT_LOG=warn WEFT_TOPO_FILE="$work/odd.conf" "$perf" --devices >"$work/out" 2>"$work/err"
if [[ $? == 0 ]] && grep -q 'warn .*WEFT_TOPO_FILE: .*odd.conf:2: ' "$work/err"; then
    ok "a warning in the log"
else
    bad "no warning of an odd file in the log: $(<"$work/err")"
fi

sum_up
