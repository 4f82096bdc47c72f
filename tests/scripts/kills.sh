#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Kills WEFT_KILLS ranks (10000), stops a fifth as many, and says whether a death inside the host was noticed within
# 100 ms in 99 of 100 answers: tests/system/test_kill.c. One job at a time, or the jobs wait for each other's
# processors and that is what is measured.
set -u
cd "$(dirname "$0")/../.." || exit 1
build=${BUILD:-build}
${MAKE:-make} --no-print-directory -j"$(nproc)" BUILD="$build" "$build/tests/system/test_kill" || exit 1
log=$build/kills.log
started=$SECONDS
WEFT_KILLS=${WEFT_KILLS:-10000} WEFT_KILL_JOBS=${WEFT_KILL_JOBS:-1} "$build/tests/system/test_kill" >"$log" 2>&1 </dev/null
rc=$?
grep -aE '^(seed|shm:|tcp:|ofi |stopped, )' "$log"
grep -aA 12 -E '^(WRONG|FAIL|HANG|SLOW) ' "$log" | head -n 120
deaths=$(sed -n 's/^[^:]*: \([0-9]*\) deaths,.*/\1/p' "$log" | awk '{ n += $1 } END { print n + 0 }')
echo "$deaths deaths in $((SECONDS - started)) s, exit status $rc; all of it in $log"
echo "$((rc == 0)) passed, $((rc != 0)) failed, 0 skipped"
[[ $rc == 0 ]]
