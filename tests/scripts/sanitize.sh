#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Builds everything with a sanitizer and runs the tests: tests/scripts/sanitize.sh asan|tsan [single]
# "marks" alone: whether what tests say of their threads can be so.
# With "single" it is the programs of make single-tests alone: those of rooms whose tests run in one process.
#
# Any report fails the test that caused it. Suppressions name other people's libraries only, each with its
# reason; weft's own code has none.
set -u
cd "$(dirname "$0")/../.." || exit 1
kind=${1-}
which=${2:-tests}
here=$PWD/tests/sanitizers
folder=${BUILD:-build}/$kind
left_out=
# Names the programs that say they have one thread, and says which of them have no place there.
unthreaded() {
    local source bad=0
    while read -r source; do
        if grep -nE 'pthread|test_ranks_|weft_service_|test_watcher|boot_party|weft_context_open|weft_comm_create' "$source" >&2; then
            echo "$source has threads, and says it is unthreaded" >&2
            bad=1
        fi
        echo "${source%.c}"
    done < <(tests/scripts/marks.sh unthreaded tests/*/test_*.c tests/*/*/test_*.c)
    tests/scripts/marks.sh unthreaded tests/*/test_*.sh | sed 's/\.sh$//'
    return $bad
}
# Those whose threads meet in another test as well, which is run.
elsewhere() {
    local source test bad=0 marked
    marked=$(tests/scripts/marks.sh elsewhere tests/*/test_*.c tests/*/*/test_*.c tests/*/test_*.sh) || bad=1
    while read -r source; do
        test=$(sed -n 's/.* elsewhere (\([^()]*\)).*/\1/p;5q' "$source")
        if [[ ! -f $test.c && ! -f $test.sh ]] || [[ ${source%.*} == "$test" ]] ||
            head -qn 5 "$test".c "$test".sh 2>/dev/null | grep -qE 'run: .*(unthreaded|elsewhere|unsanitized) '; then
            echo "$source says that $test has its threads, which make tsan does not run" >&2
            bad=1
        fi
        echo "${source%.*}"
    done <<<"$marked"
    return $bad
}
if [[ $kind == marks ]]; then
    left_out=$(unthreaded && elsewhere)
    exit
fi
case $which in
tests) build=tests run=check-programs ;;
single) build=single-tests run=check-single ;;
*) kind= ;;
esac
case $kind in
asan) # and the undefined sanitizer, which the same build and the same run can carry
    flags="-fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer"
    export ASAN_OPTIONS="detect_leaks=1:detect_stack_use_after_return=1:strict_string_checks=1${ASAN_OPTIONS:+:$ASAN_OPTIONS}"
    export LSAN_OPTIONS="suppressions=$here/lsan.txt:print_suppressions=0"
    export UBSAN_OPTIONS="print_stacktrace=1:halt_on_error=1"
    ;;
tsan)
    flags="-fsanitize=thread -fno-omit-frame-pointer"
    export TSAN_OPTIONS="suppressions=$here/tsan.txt:print_suppressions=0:second_deadlock_stack=1:die_after_fork=0"
    left_out=$(unthreaded && elsewhere) || {
        echo "0 passed, 1 failed, 0 skipped"
        exit 1
    }
    ;;
*)
    echo "usage: $0 asan|tsan [single]" >&2
    exit 2
    ;;
esac
# make_with TARGET: with the flags of this sanitizer. Reports need lines (-g1), not variables, and no relocations
# of the sanitizer's own tables (-no-pie): sanitized programs are large, and there are two hundred. gold links them in half
# of the time.
linker=
[[ $(command -v ld.gold) ]] && linker=-fuse-ld=gold
left_out+=" $(tests/scripts/marks.sh unsanitized tests/*/test_*.sh | sed 's/\.sh$//')"
make_with() {
    ${MAKE:-make} --no-print-directory -j"$(nproc)" CC="${CC:-gcc}" BUILD="$folder" O="-O1 -g1" MODE_FLAGS="$flags" \
        LDFLAGS="${LDFLAGS:+$LDFLAGS }$linker" TEST_LINK=-no-pie LEFT_OUT="${left_out//$'\n'/ }" "$1"
}
mkdir -p "$folder"
echo "== $kind: building in $folder"
make_with "$build" >"$folder/build.log" 2>&1 || {
    tail -n 30 "$folder/build.log"
    echo "0 passed, 1 failed, 0 skipped"
    exit 1
}
# Scripts that compile programs of their own need the flags, too.
WEFT_SANITIZER=$kind SANITIZER_FLAGS="$flags -no-pie" make_with "$run"
status=$?
# Where nobody builds again, the room is worth more. The logs stay.
[[ ${CI:-} == true ]] && rm -rf "${folder:?}/tests"
exit $status
