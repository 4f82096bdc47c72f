#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs commands one after the other, or some of them side by side, adds up the "N passed, N failed, N skipped" lines each ends with, and ends
# with the sum. A command that fails without counting a failure counts as one, and so does one without a count.
# tests/scripts/sum.sh COMMAND..., each with words before it, in this order:
#
# beside:  it runs beside those that follow, up to and with the first one without this word; what it prints comes after that one
# count:   its success is itself one passed test
#
# After each it says how long that took, and how much time of processors. Lines "UNSTABLE: ..." (tests/run.sh) come once more before the sum.
# When it is interrupted, or ended by SIGTERM, what runs beside ends with it.
set -u
passed=0 failed=0 skipped=0
waiting=() # those that run beside: number, process, counts
logs=$(mktemp -d)

# run LOG COMMAND: its output and how it ended, in the log and on standard output.
run() {
    local started=$SECONDS rc TIMEFORMAT='%U %S'
    echo "=== $2"
    {
        time bash -c "$2" 2>&1 </dev/null | tee "$1"
        rc=${PIPESTATUS[0]}
    } 2>"$1.times"
    echo "$rc" >"$1.status"
    echo "=== $2: status $rc, $((SECONDS - started)) s, $(awk 'END { printf "%.0f", $1 + $2 }' "$1.times") s of processors"
}
# add LOG COUNTS: what a command that has ended counts for.
add() {
    local rc line p f s
    rc=$(cat "$1.status" 2>/dev/null || echo 1)
    line=$(grep -aE '^[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$' "$1" | tail -n 1)
    read -r p f s < <(echo "${line:-0 passed, 0 failed, 0 skipped}" | awk '{ print $1, $3, $5 }')
    if [[ $2 ]]; then p=1 f=0 s=0; [[ $rc == 0 ]] || p=0; elif [[ -z $line ]]; then f=1; fi
    [[ $rc != 0 && $f == 0 ]] && f=1
    grep -a '^UNSTABLE: ' "$1" >>"$logs/unstable"
    passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
}

# signal SESSION SIGNAL: to all processes of a session but those that have ended, those that started others first. Whether there was one.
signal() {
    local process line state session there=1
    for process in $(printf '%s\n' /proc/[0-9]* | sort -t / -k 3n); do
        { read -r line <"$process/stat"; } 2>/dev/null || continue # gone
        read -r state _ _ session _ <<<"${line##*) }"
        [[ $session == "$1" && $state != [ZX] ]] || continue
        kill -s "$2" "${process#/proc/}" 2>/dev/null
        there=0
    done
    return $there
}
# A shell starts what runs beside it deaf to SIGINT, and what timeout(1) runs has a process group of its own. So a command beside has a
# session, in which all are found. They may clean up first: machines and their folders. The signal comes more than once: as a terminal's
# process, as one whose output nobody reads any more, as one of an outer sum's session.
clean_up() {
    local other process tries
    trap '' INT TERM HUP PIPE
    for other in "${waiting[@]}"; do
        read -r _ process _ <<<"$other"
        signal "$process" TERM
        for ((tries = 0; tries < 100; tries++)); do
            signal "$process" 0 || break
            sleep 0.1
        done
        signal "$process" KILL
    done
    rm -rf "$logs"
}
trap clean_up EXIT

# Those that run beside what has ended just now.
join() {
    local n process counts
    while ((${#waiting[@]})); do
        read -r n process counts <<<"${waiting[0]}"
        wait "$process"
        waiting=("${waiting[@]:1}")
        cat "$logs/$n.printed"
        add "$logs/$n" "$counts"
    done
}

export -f run
for ((n = 1; n <= $#; n++)); do
    command=${!n} counts=
    beside=${command#beside: }
    plain=${beside#count: }
    [[ $plain == "$beside" ]] || counts=yes
    if [[ $beside == "$command" ]]; then
        run "$logs/$n" "$plain"
        add "$logs/$n" "$counts"
        join
    else
        setsid bash -c 'run "$@"' beside "$logs/$n" "$plain" >"$logs/$n.printed" &
        waiting+=("$n $! $counts")
    fi
done
join
sort -u "$logs/unstable"
echo "$passed passed, $failed failed, $skipped skipped"
[[ $failed == 0 && $passed != 0 ]]
