#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs the tests that need an RDMA device, and counts them: tests/vm/check.sh TEST...
#
# RDMA_DEVICE unset: in virtual machines. Scripts that say "# hosts: N" among their first lines get N machines of
# their own, each runs the script; "# hosts: 0" is a script that starts its machines itself. Of all others, programs and
# scripts, each four share one machine with two devices and run one after the other there; each has the time limit of tests/run.sh.
# RDMA_TIMEOUT is the seconds that such a machine has (1800). Where there can be no machine all is skipped, if tests/skips allows that.
# RDMA_DEVICE=mlx5_0, or a list with commas: with these devices of this system; what needs machines is skipped.
set -u
EACH=4
cd "$(dirname "$0")/../.." || exit 1
export BUILD=${BUILD:-build}

shared=() own=() programs=0
for test in "$@"; do
    [[ $test == *.sh ]] || programs=$((programs + 1))
    if [[ $test == *.sh ]] && grep -q '^# hosts: [0-9]' "$test"; then own+=("$test"); else shared+=("$test"); fi
done

# skip REASON: says it. Where tests/skips does not allow it, the failure is all that is counted.
skip() {
    local unlisted
    echo "SKIP: $1"
    unlisted=$(tests/scripts/skips.sh tests/vm/check.sh - <<<"SKIP: $1") && return
    echo "$unlisted"
    echo "0 passed, 1 failed, 0 skipped"
    exit 1
}
((programs > 0)) || skip "the programs of tests/rdma are not built without libibverbs-dev"

if [[ ${RDMA_DEVICE:-} ]]; then
    export WEFT_RDMA_DEVICE=$RDMA_DEVICE TEST_JOBS=1 TEST_LOGS=$BUILD/rdma-logs/device
    unset WEFT_VM
    tests/run.sh "${shared[@]}" | tee "$BUILD/rdma.log"
    status=${PIPESTATUS[0]}
    read -r passed failed skipped < <(tail -n 1 "$BUILD/rdma.log" | awk '{ print $1, $3, $5 }')
    ((${#own[@]} == 0)) || skip "these want machines of their own, not RDMA_DEVICE: ${own[*]}"
    echo "$passed passed, $failed failed, $((skipped + ${#own[@]})) skipped"
    exit "$status"
fi

if ! answer=$(tests/vm/kernel.sh); then
    [[ $answer == SKIP:* ]] || { echo "0 passed, 1 failed, 0 skipped"; exit 1; }
    skip "${answer#SKIP: }"
    echo "0 passed, 0 failed, $# skipped"
    exit 0
fi
steps=()
for ((n = 0; n < ${#shared[@]}; n += EACH)); do
    steps+=("TEST_JOBS=1 TEST_LOGS=$BUILD/rdma-logs/shared.$((n / EACH + 1)) TEST_RUNNER=tests/vm/resources.sh tests/vm/run.sh --timeout ${RDMA_TIMEOUT:-1800} -- tests/run.sh ${shared[*]:n:EACH}")
done
((${#own[@]} == 0)) || steps+=("TEST_JOBS=1 TEST_LOGS=$BUILD/rdma-logs/own TEST_RUNNER=tests/vm/hosts.sh tests/run.sh ${own[*]}")
exec tests/scripts/sum.sh "${steps[@]}"
