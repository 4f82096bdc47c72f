#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# make check-rdma RDMA_DEVICE=..., as on a system that has devices: named with a port, without an IPv4 address (InfiniBand
# without IPoIB), and nothing that is the test's to break. A virtual machine plays that system.
# hosts: 0
set -u
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
. tests/support/tally.sh
export BUILD=${BUILD:-build}
programs=("$BUILD/tests/rdma/test_device" "$BUILD/tests/rdma/test_verbs_puts")
[[ -x ${programs[0]} ]] || { echo "SKIP: ${programs[0]} is not built without libibverbs-dev"; exit 77; }

# A program that hangs is ended, and named, well before its machine is.
TEST_TIMEOUT=60 tests/vm/run.sh --timeout 200 bash -c '
    for interface in r0 r1; do ip -4 addr flush dev $interface; done
    RDMA_DEVICE=rxe0:1 tests/vm/check.sh "$@" tests/rdma/test_verbs_vanished.sh; echo "status $?"
    RDMA_DEVICE=nosuch0 tests/vm/check.sh "$1"; echo "status $?"' . "${programs[@]}" >"$work/out" 2>"$work/err"
status=$?
[[ $status != 77 ]] || { cat "$work/out"; exit 77; }
mapfile -t said < <(grep -E '^status|^[0-9]+ passed, [0-9]+ failed, [1-9]|^[0-9]+ passed, [1-9]' "$work/out" | uniq)
right() { # NAME TEXT NUMBER
    if [[ ${said[$3]-} =~ ^$2$ ]]; then ok "$1"; else bad "$1: '${said[$3]-}'"; fi
}
right "programs run, what wants machines is skipped" "[0-9]{2} passed, 0 failed, 1 skipped" 0
right "the status is 0" "status 0" 1
right "a device that is not there is a failure" "0 passed, 1 failed, 0 skipped" 2
right "the status is 1" "status 1" 3

sum_up
