#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs commands one after the other, adds up the "N passed, N failed, N skipped" lines each ends with, and ends with the sum. A command that
# fails without counting a failure counts as one, and so does one without a count.
# tests/scripts/sum.sh COMMAND...; with "count: " before a command its success is itself one passed test.
#
# After each it says how long that took, and how much time of processors. Before the sum come all lines "UNSTABLE: ..." (tests/run.sh) once
# more, and where there are several commands a table: passed, failed, skipped, unstable, seconds.
set -u
passed=0 failed=0 skipped=0
logs=$(mktemp -d)
trap 'trap "" INT TERM HUP PIPE; rm -rf "$logs"' EXIT

# run COMMAND: its output in $logs/log and on standard output, its exit status in rc, its time in seconds.
run() {
    local started=$SECONDS TIMEFORMAT='%U %S'
    echo "=== $1"
    {
        time bash -c "$1" 2>&1 </dev/null | tee "$logs/log"
        rc=${PIPESTATUS[0]}
    } 2>"$logs/times"
    seconds=$((SECONDS - started))
    echo "=== $1: status $rc, $seconds s, $(awk 'END { printf "%.0f", $1 + $2 }' "$logs/times") s of processors"
}
# add COMMAND COUNTS: what the command that has ended counts for.
add() {
    local line p f s unstable
    line=$(grep -aE '^[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$' "$logs/log" | tail -n 1)
    read -r p f s < <(echo "${line:-0 passed, 0 failed, 0 skipped}" | awk '{ print $1, $3, $5 }')
    if [[ $2 ]]; then p=1 f=0 s=0; [[ $rc == 0 ]] || p=0; elif [[ -z $line ]]; then f=1; fi
    [[ $rc != 0 && $f == 0 ]] && f=1
    passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
    unstable=$(grep -a '^UNSTABLE: ' "$logs/log" | sort -u | tee -a "$logs/unstable" | grep -c .)
    printf '%7d %7d %8d %9d %8d  %s\n' "$p" "$f" "$s" "$unstable" "$seconds" "$1" >>"$logs/table"
}

for command; do
    plain=${command#count: }
    run "$plain"
    add "$plain" "$([[ $plain == "$command" ]] || echo yes)"
done
[[ ! -e $logs/unstable ]] || sort -u "$logs/unstable"
if (($# > 1)); then
    echo " passed  failed  skipped  unstable  seconds"
    cat "$logs/table"
fi
echo "$passed passed, $failed failed, $skipped skipped"
[[ $failed == 0 && $passed != 0 ]]
