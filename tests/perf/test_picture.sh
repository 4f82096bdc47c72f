#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# run: beside (deadlines); early
# weft-perf's merged picture: a rank that stays away, over each transport, and a rank that is killed.
set -u
unset RANK WORLD_SIZE MASTER_ADDR WEFT_PORT
BUILD=${BUILD:-build}
perf=$BUILD/weft-perf
[[ -x $perf ]] || { echo "SKIP: $perf is not built"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0 failed=0 skipped=0

# says WHAT PATTERN: whether the errors of the last run have a line that matches.
says() {
    if grep -qE -- "$2" "$work/err"; then
        passed=$((passed + 1))
        echo "ok: $1"
    else
        failed=$((failed + 1))
        echo "FAILED: $1: no line '$2' in:"
        sed 's/^/    /' "$work/err" | tail -30
    fi
}
run() {
    timeout -k 5 60 "$perf" allreduce "$@" >"$work/out" 2>"$work/err" </dev/null
    rc=$?
}

# The deadline bounds the start of the ranks too: a loaded machine must manage that.
export WEFT_TIMEOUT_MS=8000 WEFT_LOG=error
stays_away() {
    local what=$1 call=$2
    shift 2
    run --ranks 4 --hang 2 --stay-away "2:$call" -w 2 -n 5 "$@"
    if [[ $rc == 3 ]] && grep -q 'a library, device or file was not found' "$work/err"; then
        skipped=$((skipped + 1))
        echo "SKIP: $what: $(grep -m 1 -o 'a library, device or file was not found.*' "$work/err")"
        return
    fi
    [[ $rc == 3 ]] || { failed=$((failed + 1)); echo "FAILED: $what: status $rc"; }
    says "$what: the others' call" "^#   ranks 0-1, 3: in allreduce #$call: blocking, .*, for up to [0-9.]+ s"
    says "$what: who never arrived" "^#   rank 2: never arrived at call #$call: in no call, the last was #$((call - 1))"
    says "$what: who waits for it" "^#   ranks? .*waits? for rank 2"
    says "$what: the error names it" "rank 2 has not called allreduce #$call"
    [[ $(grep -c '^# who waits for whom' "$work/err") == 1 ]] || says "$what: one picture" "only one"
}
stays_away "cache lines" 30 --transport shm -b 8 -e 64
stays_away "shared memory" 20 --transport shm -b 1M -e 4M
stays_away tcp 12 --transport ofi --provider tcp -b 64K -e 1M

# A rank that dies answers nothing; the others' last words say what they waited for.
run_killed() {
    local launcher pid= tries=0
    timeout -k 5 60 "$perf" allreduce --ranks 3 -b 64K -e 64K -n 1000000 >"$work/out" 2>"$work/err" </dev/null &
    launcher=$!
    while [[ -z $pid ]] && ((tries++ < 200)); do
        sleep 0.1
        pid=$(awk '/^#  Rank  1 Pid/ { print $5 }' "$work/out")
    done
    sleep 0.5
    [[ -n $pid ]] && kill -KILL "$pid"
    wait "$launcher"
}
run_killed
says "a killed rank does not answer" '^#   rank 1: no answer'
says "the others say why they failed" '^#   ranks? .*: failed: rank 1 on host .* died'

# Nothing of it on a good run.
run --ranks 2 -b 8 -e 64 -n 2
if [[ $rc == 0 && ! -s $work/err ]]; then
    passed=$((passed + 1))
else
    says "a good run prints nothing" "nothing"
fi
echo "$passed passed, $failed failed, $skipped skipped"
[[ $failed == 0 ]]
