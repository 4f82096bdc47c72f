#!/bin/bash
# Runs commands one after the other, adds up the "N passed, N failed, N skipped" lines each ends with, and ends
# with the sum. A command that fails without counting a failure counts as one, and so does one without a count.
# A word "count:" before a command says that its success is itself one passed test: tests/scripts/sum.sh COMMAND...
set -u
passed=0 failed=0 skipped=0
log=$(mktemp)
trap 'rm -f "$log"' EXIT
for command in "$@"; do
    plain=${command#count: }
    started=$SECONDS
    echo "=== $plain"
    bash -c "$plain" 2>&1 </dev/null | tee "$log"
    rc=${PIPESTATUS[0]}
    line=$(grep -aE '^[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$' "$log" | tail -n 1)
    read -r p f s < <(echo "${line:-0 passed, 0 failed, 0 skipped}" | awk '{ print $1, $3, $5 }')
    if [[ $plain != "$command" ]]; then p=1 f=0 s=0; [[ $rc == 0 ]] || p=0; elif [[ -z $line ]]; then f=1; fi
    [[ $rc != 0 && $f == 0 ]] && f=1
    passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
    echo "=== $plain: status $rc, $((SECONDS - started)) s"
done
echo "$passed passed, $failed failed, $skipped skipped"
[[ $failed == 0 && $passed != 0 ]]
