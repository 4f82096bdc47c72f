#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Ends programs that stand still, for tests/run.sh: tests/scripts/idle.sh FOLDER SECONDS
#
# FOLDER/NAME.pid has the number of a process for each program that runs. One whose process and all below it have used less than half a
# second of processors in SECONDS is ended by SIGTERM, and FOLDER/NAME.idle says so. Runs until it is ended.
set -u
folder=$1 seconds=$2
ticks=$(getconf CLK_TCK 2>/dev/null || echo 100)

# used PID...: how many ticks each has used with all its descendants, those too that have ended and were waited for.
used() {
    # cat, for awk may give up at a process that has just ended.
    cat /proc/[0-9]*/stat 2>/dev/null | awk -v roots="$*" '
        {
            rest = $0
            sub(/^.*\) /, "", rest) # names have blanks and brackets
            split(rest, field, " ")
            parent[$1] = field[2]
            own[$1] = field[12] + field[13] + field[14] + field[15]
        }
        END {
            for (p in own)
                for (at = p; at in own; at = parent[at]) sum[at] += own[p]
            count = split(roots, root, " ")
            for (r = 1; r <= count; r++) print sum[root[r]] + 0
        }'
}

declare -A last since
while sleep "$((seconds < 100 ? 1 : 10))"; do
    names=() pids=()
    for file in "$folder"/*.pid; do
        read -r pid 2>/dev/null <"$file" || continue
        names+=("${file%.pid}") pids+=("$pid")
    done
    ((${#pids[@]})) || continue
    mapfile -t now < <(used "${pids[@]}")
    for i in "${!names[@]}"; do
        name=${names[i]}
        # Less than before: one of them has ended, and nobody has waited for it.
        if ((now[i] - ${last[$name]--1000} >= ticks / 2 || now[i] < last[$name])); then
            last[$name]=${now[i]} since[$name]=$SECONDS
        elif ((SECONDS - since[$name] >= seconds)) && [[ ! -e $name.idle ]]; then
            echo "used less than 0.5 s of processors in $seconds s: ended" >"$name.idle"
            kill "${pids[i]}" 2>/dev/null
        fi
    done
done
