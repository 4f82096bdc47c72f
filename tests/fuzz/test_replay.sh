#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Every fuzz target plays its kept inputs and variants of them (tests/fuzz/replay.c). `make fuzz` needs clang's libFuzzer; this needs nothing,
# and shows that a target still fits what the library expects.
source "$(dirname "$0")/../support/start.sh"

for target in tests/fuzz/fuzz_*.c; do
    name=$(basename "$target" .c)
    program=$BUILD/tests/fuzz/replay_${name#fuzz_}
    # As with other tests of parts that this build has not.
    if [[ ! -x $program ]] && head -n 5 "$target" | grep -q '^/\* build: .*needs '; then
        echo "$name is not built here"
        continue
    fi
    step "$name" "$program" "tests/fuzz/corpus/$name"
    grep ' variants, WEFT_SEED=' "$work/out"
done

# The replay itself: a target that breaks on one input, and one that ends early.
mkdir "$work/inputs" "$work/varied"
printf 'good' >"$work/inputs/a"
printf 'abort' >"$work/inputs/b"
printf 'mark' >"$work/varied/mark"
cat >"$work/planted.c" <<'END'
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 5 && memcmp(data, "abort", 5) == 0)
        abort();
    if (size == 4 && memcmp(data, "ma", 2) == 0 && memcmp(data, "mark", 4) != 0)
        abort();
    if (size == 4 && memcmp(data, "exit", 4) == 0)
        _exit(0);
    return 0;
}
END
# shellcheck disable=SC2086
step "a planted target is built" ${CC:-gcc} ${SANITIZER_FLAGS-} -D_GNU_SOURCE -I. tests/fuzz/replay.c "$work/planted.c" -o "$work/planted"
step "it plays a good input" "$work/planted" "$work/inputs/a"
# broken PATH TEXT WHAT: the planted target fails, says TEXT, and keeps that input.
broken() {
    "$work/planted" "$1" >"$work/out" 2>"$work/err"
    local status=$?
    if [[ $status == 1 ]] && grep -qF "FAIL $2" "$work/out" && cmp -s "$work/planted.input" "${2%%,*}"; then ok "$3"; else
        bad "$3 (status $status)"
    fi
}
broken "$work/inputs" "$work/inputs/b, variant 0: ended by signal 6 " "an input that breaks a target is named and kept"
printf 'exit' >"$work/inputs/c"
broken "$work/inputs/c" "$work/inputs/c, variant 0: ended with status 0, 0 of " "a target that ends early"
"$work/planted" "$work/varied" >"$work/out" 2>"$work/err"
if grep -qE "^FAIL $work/varied/mark, variant [1-9][0-9]*: ended by signal 6 " "$work/out" && ! cmp -s "$work/planted.input" "$work/varied/mark"; then
    cp "$work/planted.input" "$work/again"
    broken "$work/again" "$work/again, variant 0: ended by signal 6 " "a variant that breaks a target does so again"
else
    bad "a variant that breaks a target"
fi
if "$work/planted" "$work/nothing" >"$work/out" 2>"$work/err"; then bad "a folder that is not there"; else ok "a folder that is not there"; fi
sum_up
