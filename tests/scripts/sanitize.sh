#!/bin/bash
# Builds everything with a sanitizer and runs the tests: tests/scripts/sanitize.sh asan|ubsan|tsan
#
# Any report fails the test that caused it. Suppressions name other people's libraries only, each with its
# reason; weft's own code has none.
set -u
cd "$(dirname "$0")/../.." || exit 1
kind=$1
here=$PWD/tests/sanitizers
folder=${BUILD:-build}/$kind
case $kind in
asan)
    flags="-fsanitize=address -fno-omit-frame-pointer"
    export ASAN_OPTIONS="detect_leaks=1:detect_stack_use_after_return=1:strict_string_checks=1${ASAN_OPTIONS:+:$ASAN_OPTIONS}"
    export LSAN_OPTIONS="suppressions=$here/lsan.txt:print_suppressions=0"
    ;;
ubsan)
    flags="-fsanitize=undefined -fno-sanitize-recover=all -fno-omit-frame-pointer"
    export UBSAN_OPTIONS="print_stacktrace=1:halt_on_error=1"
    ;;
tsan)
    flags="-fsanitize=thread -fno-omit-frame-pointer"
    export TSAN_OPTIONS="suppressions=$here/tsan.txt:print_suppressions=0:second_deadlock_stack=1:die_after_fork=0"
    ;;
*)
    echo "usage: $0 asan|ubsan|tsan" >&2
    exit 2
    ;;
esac
mkdir -p "$folder"
echo "== $kind: building in $folder"
${MAKE:-make} --no-print-directory -j"$(nproc)" CC="${CC:-gcc}" BUILD="$folder" O="-O1 -g" MODE_FLAGS="$flags" \
    tests >"$folder/build.log" 2>&1 || {
    tail -n 30 "$folder/build.log"
    echo "0 passed, 1 failed, 0 skipped"
    exit 1
}
# Sanitized code is several times slower.
WEFT_SANITIZER=$kind TEST_TIMEOUT=${TEST_TIMEOUT:-300} ${MAKE:-make} --no-print-directory CC="${CC:-gcc}" \
    BUILD="$folder" O="-O1 -g" MODE_FLAGS="$flags" check-programs
