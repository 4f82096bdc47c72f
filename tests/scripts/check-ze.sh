#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# make check-ze: all of Level Zero's tests at full length, under the loader's validation layer and on the fake driver, and then what they show:
# the oneCCL case before and after, each way down with its line of the log, and the table of operations and types.
# tests/scripts/check-ze.sh PROGRAM...
set -u
cd "$(dirname "$0")/../.." || exit 1
export BUILD=${BUILD:-build} WEFT_LONG=1
export ZE_ENABLE_VALIDATION_LAYER=1 ZE_ENABLE_PARAMETER_VALIDATION=1 ZE_ENABLE_HANDLE_LIFETIME=1
case ${1-} in
show)
    logs=$BUILD/ze-logs
    echo "memory freed and allocated again, kept by identity, and then by address on purpose:"
    cat "$logs"/*test_ze_again.log | grep -a '^[0-9]* rounds'
    echo "ways down:"
    cat "$logs"/*test_ze_fallbacks.sh.log | grep -aE '^ok: .*right, and said|^    (info|warn) '
    exit
    ;;
run)
    shift
    TEST_LOGS=$BUILD/ze-logs tests/run.sh "$@"
    rc=$?
    tests/scripts/check-ze.sh show >"$BUILD/ze-logs/shown"
    sed -i 's/^/  /' "$BUILD/ze-logs/shown"
    exit $rc
    ;;
esac
(($#)) || { echo "check-ze: this build has no Level Zero: install libze-dev" >&2; exit 1; }
tests/scripts/sum.sh "tests/scripts/check-ze.sh run $*" "tests/scripts/ze-table.sh" "count: cat $BUILD/ze-logs/shown"
