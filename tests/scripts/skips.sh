#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Holds what was skipped against the list tests/skips, which says what its lines mean:
#
# tests/scripts/skips.sh TEST LOG     the skips of a test's log ("SKIP: REASON", and cmocka's) that the list does not allow
# tests/scripts/skips.sh TEST -       the same for lines on standard input
# tests/scripts/skips.sh              what is wrong with the list itself
#
# TEST is a path as in the list. Each finding is a line; the exit status is 1 where there is one. TEST_SKIPS names another list.
set -u
list=${TEST_SKIPS:-$(dirname "${BASH_SOURCE[0]}")/../skips}

# Whether lines of this place count here.
is_here() { # PLACE
    case $1 in
    anywhere) ;;
    sanitized) [[ ${WEFT_SANITIZER-} ]] ;;
    machine) [[ ${WEFT_VM-} ]] ;;
    device) [[ ${WEFT_RDMA_DEVICE-} && -z ${WEFT_VM-} ]] ;;
    not-ci) [[ ${CI-} != true ]] ;;
    *) return 1 ;;
    esac
}

# The reasons in a log, one a line. A test that cmocka skips has its reason between its name and the verdict, or none.
reasons() {
    awk '
        { sub(/^\[[0-9]+\] /, "") } # the host of several
        /^SKIP: / { said = 1; print substr($0, 7); next }
        /^\[==========\] / { ended = !/Running/; next }
        /^\[ RUN      \]/ { said = 0; next }
        /^\[  SKIPPED \] [0-9]+ test/ { ended = 1; next }
        /^\[  SKIPPED \] / && !ended && !said { sub(/^\[  SKIPPED \] /, ""); print $0 ": no reason is given" }' "$1" |
        sort -u
}

unlisted() { # TEST LOG
    local reason place test pattern found status=0
    while read -r reason; do
        found=
        while read -r place test pattern; do
            [[ $place == \#* || -z $place ]] && continue
            # shellcheck disable=SC2053
            [[ $1 == $test && $reason =~ ^($pattern)$ ]] && is_here "$place" && found=yes && break
        done <"$list"
        [[ $found ]] && continue
        echo "FAIL: skipped, and not allowed by tests/skips: $1: $reason"
        status=1
    done < <(reasons "$2")
    return $status
}

check_list() {
    local place test pattern number=0 status=0
    while read -r place test pattern; do
        number=$((number + 1))
        [[ $place == \#* || -z $place ]] && continue
        [[ $place =~ ^(anywhere|sanitized|machine|device|not-ci)$ ]] || { echo "$list:$number: no place '$place'"; status=1; }
        [[ $pattern ]] || { echo "$list:$number: no reason"; status=1; }
        [[ '' =~ ^($pattern)$ ]]
        [[ $? == 1 ]] || { echo "$list:$number: '$pattern' is no expression, or allows a skip without a reason"; status=1; }
        compgen -G "$test" >/dev/null || compgen -G "$test.c" >/dev/null || { echo "$list:$number: no test $test"; status=1; }
    done <"$list"
    return $status
}

case $# in
0) check_list ;;
2) unlisted "$1" "${2/#-//dev/stdin}" ;;
*)
    echo "usage: $0 [TEST LOG]" >&2
    exit 2
    ;;
esac
