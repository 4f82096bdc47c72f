#!/bin/bash
# Runs every fuzz target (tests/fuzz/fuzz_*.c, built with clang's libFuzzer, address and undefined sanitizers) for
# FUZZ_SECONDS each. A crash, leak or hang is a failure; the input that caused it stays in the build folder.
# What was found once lies in tests/fuzz/corpus/<target>/ and is always run.
set -u
cd "$(dirname "$0")/../.." || exit 1
folder=${BUILD:-build}/fuzz
seconds=${FUZZ_SECONDS:-60}
shopt -s nullglob
targets=(tests/fuzz/fuzz_*.c)
passed=0 failed=0
if ! compgen -G "$(clang -print-resource-dir 2>/dev/null)/lib/linux/libclang_rt.fuzzer-*.a" >/dev/null; then
    echo "SKIP: no clang with libFuzzer here"
    echo "0 passed, 0 failed, ${#targets[@]} skipped"
    exit 0
fi
mkdir -p "$folder"
${MAKE:-make} --no-print-directory -j"$(nproc)" CC=clang BUILD="$folder" O="-O1 -g" \
    MODE_FLAGS="-fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all" fuzzers >"$folder/build.log" 2>&1 || {
    tail -n 30 "$folder/build.log"
    echo "0 passed, 1 failed, 0 skipped"
    exit 1
}
for source in "${targets[@]}"; do
    name=$(basename "$source" .c)
    work=$folder/$name
    mkdir -p "$work/corpus"
    corpus=("$work/corpus")
    [[ -d tests/fuzz/corpus/$name ]] && corpus+=("tests/fuzz/corpus/$name")
    if timeout -k 5 $((seconds + 120)) "$folder/tests/fuzz/$name" -max_total_time="$seconds" -timeout=10 \
        -rss_limit_mb=2048 -print_final_stats=1 -artifact_prefix="$work/" "${corpus[@]}" >"$work/log" 2>&1; then
        passed=$((passed + 1))
        echo "ok   $name: $(sed -n 's/^stat::number_of_executed_units: *//p' "$work/log") runs in $seconds s"
    else
        failed=$((failed + 1))
        echo "FAIL $name, inputs in $work:"
        tail -n 40 "$work/log"
    fi
done
echo "$passed passed, $failed failed, 0 skipped"
[[ $failed == 0 ]]
