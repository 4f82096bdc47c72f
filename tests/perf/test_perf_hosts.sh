#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What weft-perf says of its ranks' hosts and of staged bytes is what the library finds. Hosts are namespaces here, as of containers that
# have one name.
source "$(dirname "$0")/../support/start.sh"
perf=$BUILD/weft-perf
[[ -x $perf ]] || { echo "SKIP: $perf is not built"; exit 77; }
unset RANK WORLD_SIZE MASTER_ADDR WEFT_PORT
(umask 077 && head -c 32 /dev/urandom >"$work/secret")
export WEFT_SECRET_FILE=$work/secret WEFT_BOOTSTRAP_FILE=$work/meet

# within R: the command that rank R is started by, in the array at.
within() { at=(); }
# ranks COUNT COMMAND ARGUMENTS: streams of rank 0 in $work/out and of all in $work/err, the worst status in rc.
ranks() {
    local count=$1 rank at pids=()
    shift
    rm -f "$work/meet"
    for ((rank = 0; rank < count; rank++)); do
        within "$rank"
        RANK=$rank WORLD_SIZE=$count timeout -k 5 100 "${at[@]}" "$perf" "$@" >"$work/out.$rank" 2>"$work/err.$rank" </dev/null &
        pids+=($!)
    done
    rc=0
    for rank in "${!pids[@]}"; do
        wait "${pids[rank]}" || rc=$?
    done
    cp "$work/out.0" "$work/out"
    cat "$work"/err.* >"$work/err"
    rm -f "$work"/err.* "$work"/out.*
}

# --- staged bytes

# staging yes|no NAME: whether bytes were staged, and a warning says so.
staging() {
    local bytes moved=no warned=no
    bytes=$(sed -n 's/^# Bytes moved .* direct, \([0-9]*\) staged.*/\1/p' "$work/out")
    [[ $bytes -gt 0 ]] && moved=yes
    grep -q 'warn .*staged' "$work/err" && warned=yes
    if [[ $rc == 0 && -n $bytes && $moved == "$1" && $warned == "$1" ]]; then
        ok "$2"
    else
        bad "$2 (status $rc, $bytes bytes staged, a warning: $warned)"
    fi
}
if unshare --pid --fork true 2>/dev/null; then
    within() { at=(unshare --pid --fork); }
    ranks 2 allreduce -b 1M -e 1M -n 3 -w 1 # fewer calls than those after which staging is tried because it may be faster
    staging yes "what ranks cannot read of each other's memory is staged, and a warning says so"
    ranks 2 allreduce -b 1M -e 1M -n 5 --memory weft
    staging no "memory of weft_mem_alloc() is not staged, and no warning speaks of it"
else
    skip "staged bytes: unshare --pid is not allowed here"
fi

# --- hosts of one name

tag=weftname$$
source tests/support/two_hosts.sh
trap 'two_hosts_end; rm -rf "$work"' EXIT
if ! two_hosts 10.97.0 2>"$work/err"; then
    skip "hosts of one name: network namespaces are not allowed here"
    sum_up
    exit
fi
command -v python3 >/dev/null || { skip "JSON not parsed: no python3"; sum_up; exit; }
indices() { python3 -c 'import json, sys; print(*[member["host_index"] for member in json.load(open(sys.argv[1]))["environment"]["members"]])' "$work/json"; }
within() { if (($1 % 2)); then at=(ip netns exec "${tag}b"); else at=(ip netns exec "${tag}a"); fi; }
ranks 4 allreduce -b 8 -e 8 -n 2 --json "$work/json"
if [[ $rc == 0 ]] && grep -q '^# 2 hosts, 2 ranks on each$' "$work/out" && [[ $(indices) == "0 1 0 1" ]]; then
    ok "two hosts of one name are two, in the table and in the JSON"
else
    bad "two hosts of one name are two, in the table and in the JSON (status $rc, $(indices))"
fi
ranks 1 allreduce -b 8 -e 8 -n 2 --json "$work/json"
if [[ $rc == 0 ]] && grep -q '^# 1 host, 1 rank on each$' "$work/out" && [[ $(indices) == 0 ]]; then
    ok "one rank is on one host"
else
    bad "one rank is on one host (status $rc)"
fi

# Whose clocks are compared. Rank 1's is ahead by more than any barrier takes.
if unshare --time --monotonic 1000 true 2>/dev/null; then
    eval "of_host() $(declare -f within | tail -n +2)"
    within() {
        of_host "$1"
        [[ $1 == 1 ]] && at+=(unshare --time --monotonic 1000 --fork)
    }
    ranks 2 barrier -n 5
    if [[ $rc == 0 ]] && grep -q '^# 2 hosts, 1 rank on each$' "$work/out" && grep -q '^# Out of bounds values : 0 OK$' "$work/out"; then
        ok "the clocks of two hosts of one name are not compared"
    else
        bad "the clocks of two hosts of one name are not compared (status $rc)"
    fi
else
    skip "clocks of hosts: unshare --time is not allowed here"
fi
sum_up
