#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A rank that dies before it has joined the job: the launcher announces it to the others, who wait without a deadline. None of them has
# to be killed for it, and rank 0 says who was missing.
. tests/support/perf_runs.sh
export WEFT_TIMEOUT_MS=-1

# dies RANK RANKS ARGUMENTS
dies() {
    local rank=$1 ranks=$2
    shift 2
    run allreduce --ranks "$ranks" --stay-away "$rank:0" -b 8 -e 8 -n 1 "$@"
    local name="rank $rank of $ranks dies before it joins" died="rank $rank (pid [0-9]*) was killed by signal 9 (Killed)"
    if [[ $rc != 3 ]] || ! grep -qx "weft-perf: $died" "$work/err"; then
        bad "$name: status $rc, expected 3 and its name"
    elif grep -q 'was still running after' "$work/err"; then
        bad "$name: the others had to be killed"
    elif [[ $rank != 0 ]] &&
        ! grep -qx "weft-perf: rank 0: creating the communicator: $died before it had joined the job" "$work/err"; then
        bad "$name: rank 0 does not say so"
    elif [[ $(grep -c 'failed: exit status' "$work/err") != 0 ]]; then
        bad "$name: the others are called failed"
    else
        ok "$name"
    fi
}
for i in 1 2 3; do
    dies 0 2 && dies 1 2 && dies 0 4 && dies 2 4 && dies 3 4
done
dies 5 16 --transport shm
run allreduce --ranks 1 --stay-away 0:0 -b 8 -e 8 -n 1
if [[ $rc == 3 ]] && grep -q 'rank 0 (pid [0-9]*) was killed by signal 9' "$work/err"; then ok 'the only rank dies'; else bad "the only rank dies: status $rc"; fi

sum_up
