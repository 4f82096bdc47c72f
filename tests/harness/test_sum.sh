#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# tests/scripts/sum.sh: what commands count for, one after the other, side by side and nested, and that none is left when it is interrupted.
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

# Side by side. Each beside waits for a file of the one that follows: it would fail in front of it.
meet() {
    local tries
    for ((tries = 0; tries < 3000; tries++)); do
        [[ -e $work/met ]] && return
        sleep 0.02
    done
    exit 9
}
export -f meet
beside() { # COMMAND...: beside one that passes one, and another behind that
    rm -f "$work/met"
    sum "${@/#/beside: meet; }" "touch \$work/met; echo in front; $(counted 1 0 0)" "$(counted 10 0 0)"
}
beside "echo beside; $(counted 100 0 2)" "$(counted 1000 0 0)"
gives 0 1111 0 2 "two beside a third"
[[ $(grep -xE 'in front|beside|10 passed.*' "$work/out" | cut -d, -f1 | tr '\n' ' ') == "in front beside 10 passed " ]] &&
    ok "what runs beside is printed behind that, before the next" || bad "what runs beside is not printed behind that"
beside "$(counted 100 3 0); exit 1"
gives 1 111 3 0 "a failure beside"
beside "$(counted 100 0 0); exit 1"
gives 1 111 1 0 "a status beside that no count explains"
beside true
gives 1 11 1 0 "a command beside without a count"
beside "$(counted 100 0 0); kill -SEGV \$\$"
gives 1 111 1 0 "a command beside that crashes behind its count"
beside "$(counted 100 0 0); until grep -qs ^100 $TMPDIR/*/1; do sleep 0.02; done; kill -KILL 0"
gives 1 111 1 0 "a command beside that is killed with all that it has"
rm -f "$work/met"
sum "beside: count: meet" "beside: count: meet; false" "touch \$work/met; $(counted 1 0 0)"
gives 1 2 1 0 "count: beside"
sum "$(counted 1 0 0)" "beside: $(counted 2 0 0)"
gives 0 3 0 0 "the last one beside none"

# Nested.
rm -f "$work/met"
sum "beside: tests/scripts/sum.sh 'beside: meet; $(counted 1 1 0)' '$(counted 10 0 0)'" \
    "touch \$work/met; tests/scripts/sum.sh '$(counted 100 0 1)' false" "$(counted 1000 0 0)"
gives 1 1111 2 1 "sums of sums"

# Interrupted as by a terminal, or ended. Those beside have a child in a process group of its own, as tests/run.sh has, and clean up.
hold() {
    trap 'echo clean >>"$work/clean"' EXIT
    timeout 60 bash -c 'echo $$ >>"$work/up"; exec sleep 60' &
    echo $$ >>"$work/up"
    wait
}
export -f hold
stop() { # SIGNAL STATUS
    local process tries left=
    : >"$work/up" >"$work/clean"
    env --default-signal=INT setsid tests/scripts/sum.sh "beside: hold" "beside: tests/scripts/sum.sh 'beside: hold' hold" \
        'echo $$ >>"$work/up"; exec sleep 60' >"$work/out" 2>"$work/err" </dev/null &
    process=$!
    for ((tries = 0; tries < 3000; tries++)); do
        (($(wc -l <"$work/up") == 7)) && break
        sleep 0.02
    done
    mapfile -t sleepers <"$work/up"
    kill -s "$1" -- "-$process"
    wait "$process"
    rc=$?
    for process in "${sleepers[@]}"; do
        grep -qsE '^State:[[:space:]]+[^ZX[:space:]]' "/proc/$process/status" && left+=" $process"
    done
    if [[ $rc == "$2" && ${#sleepers[@]} == 7 && -z $left && -z $(ls "$TMPDIR") && $(wc -l <"$work/clean") == 3 ]]; then
        ok "SIG$1 ends what runs beside"
    else
        bad "SIG$1: status $rc, of ${#sleepers[@]} processes are left:$left, $(wc -l <"$work/clean") cleaned up, and $(ls "$TMPDIR")"
    fi
}
stop INT 130
stop TERM 143
sum_up
