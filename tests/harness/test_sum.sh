#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# tests/scripts/sum.sh: what commands count for, one after the other and nested, what is said before the sum, and that none is left when it is interrupted.
source "$(dirname "$0")/../support/start.sh"
sleepers=() # processes that are to have ended
trap 'kill -KILL "${sleepers[@]}" 2>/dev/null; rm -rf "$work"' EXIT
export work TMPDIR=$work/logs
mkdir "$TMPDIR"
# In a session of its own, so that a command which kills its process group never reaches this script.
sum() {
    timeout -k 5 30 setsid -w tests/scripts/sum.sh "$@" >"$work/out" 2>"$work/err" </dev/null
    rc=$?
}
# gives STATUS PASSED FAILED SKIPPED WHAT: the last run's exit status and last line, and no folder is left.
gives() {
    local line="$2 passed, $3 failed, $4 skipped"
    if [[ $rc != "$1" || $(tail -n 1 "$work/out") != "$line" ]]; then
        bad "$5: not status $1 and '$line', but $rc"
    elif [[ -n $(ls "$TMPDIR") ]]; then
        bad "$5: $TMPDIR is not empty"
    else
        ok "$5"
    fi
}
counted() { echo "echo $1 passed, $2 failed, $3 skipped"; }

# One after the other.
sum "$(counted 2 0 1)" "$(counted 40 0 3)"
gives 0 42 0 4 "counts are added"
sum "$(counted 9 0 0); echo more; $(counted 1 0 0); echo the end"
gives 0 1 0 0 "the last count is the command's"
sum "$(counted 0 0 5)"
gives 1 0 0 5 "that nothing passed is a failure"
sum "$(counted 3 2 0); exit 1" "$(counted 1 0 0)"
gives 1 4 2 0 "failures are added, and the next command runs"
sum "$(counted 3 2 0)"
gives 1 3 2 0 "failures count without a status"
sum "$(counted 3 0 0); exit 7"
gives 1 3 1 0 "a status that no count explains is a failure"
sum "$(counted 3 0 0); kill -KILL \$\$"
gives 1 3 1 0 "a command that is killed behind its count"
sum true "$(counted 1 0 0)"
gives 1 1 1 0 "a command without a count is a failure"
sum "echo 1 passed, 0 failed" "echo not 1 passed, 0 failed, 0 skipped" "$(counted 1 0 0)"
gives 1 1 2 0 "what is not a count"
sum "count: $(counted 7 7 7)" "count: $(counted 7 0 0); false"
gives 1 1 1 0 "count: one passed or failed by its status"

# Nested.
sum "tests/scripts/sum.sh '$(counted 1 1 0)' '$(counted 10 0 0)'" "tests/scripts/sum.sh '$(counted 100 0 1)' false" "$(counted 1000 0 0)"
gives 1 1111 2 1 "sums of sums"

# What is said before the sum.
lines() { tail -n "$1" "$work/out" | sed 's/  */ /g; s/ [0-9]* \(echo\|true\)/ N \1/'; }
sum "echo UNSTABLE: b; echo UNSTABLE: a; $(counted 2 0 1)" "count: true" "echo UNSTABLE: a; $(counted 4 0 0)"
if [[ $(lines 7) == "UNSTABLE: a
UNSTABLE: b
 passed failed skipped unstable seconds
 2 0 1 2 N echo UNSTABLE: b; echo UNSTABLE: a; echo 2 passed, 0 failed, 1 skipped
 1 0 0 0 N true
 4 0 0 1 N echo UNSTABLE: a; echo 4 passed, 0 failed, 0 skipped
7 passed, 0 failed, 1 skipped" ]]; then ok "each unstable one once, and a table"; else bad "$(lines 7)"; fi
sum "$(counted 1 0 0)"
if [[ $(wc -l <"$work/out") == 4 ]]; then ok "no table of one command"; else bad "not four lines"; fi

# Interrupted as by a terminal, or ended: all that runs ends, and no folder is left.
stop() { # SIGNAL STATUS
    local process tries left=
    : >"$work/up"
    env --default-signal=INT setsid tests/scripts/sum.sh 'echo $$ >>"$work/up"; exec sleep 60' "$(counted 1 0 0)" >"$work/out" 2>"$work/err" </dev/null &
    process=$!
    for ((tries = 0; tries < 3000; tries++)); do
        (($(wc -l <"$work/up") == 1)) && break
        sleep 0.02
    done
    mapfile -t sleepers <"$work/up"
    kill -s "$1" -- "-$process"
    wait "$process"
    rc=$?
    for process in "${sleepers[@]}"; do
        grep -qsE '^State:[[:space:]]+[^ZX[:space:]]' "/proc/$process/status" && left+=" $process"
    done
    if [[ $rc == "$2" && ${#sleepers[@]} == 1 && -z $left && -z $(ls "$TMPDIR") ]]; then
        ok "SIG$1 ends what runs"
    else
        bad "SIG$1: status $rc, of ${#sleepers[@]} processes are left:$left, and $(ls "$TMPDIR")"
    fi
}
stop INT 130
stop TERM 143
sum_up
