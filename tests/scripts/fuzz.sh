#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs every fuzz target (tests/fuzz/fuzz_*.c, built with clang's libFuzzer, address and undefined sanitizers) for
# FUZZ_SECONDS each, from the seed WEFT_SEED (1), as many at a time as there are processors. A crash, leak or hang is a failure; the input that
# caused it stays in the build folder. What was found once lies in tests/fuzz/corpus/<target>/ and is always run.
# Then the readers of bytes from outside (tests/fuzz/readers) are listed with how much of them the inputs reach, but not for CI; one
# without a target is a failure.
set -u
cd "$(dirname "$0")/../.." || exit 1
folder=${BUILD:-build}/fuzz
seconds=${FUZZ_SECONDS:-60}
jobs=${FUZZ_JOBS:-$(nproc)}
# An input that takes longer hangs. That is by the clock, and CI gives the targets what virtual machines leave.
input_limit=10
[[ ${CI:-} == true ]] && input_limit=60
shopt -s nullglob
targets=(tests/fuzz/fuzz_*.c)
passed=0 failed=0 skipped=0
# judge_skip REASON: says it; one that tests/skips does not allow is a failure.
judge_skip() {
    echo "SKIP: $1"
    tests/scripts/skips.sh tests/scripts/fuzz.sh - <<<"SKIP: $1" || failed=$((failed + 1))
}
while read -r file target _; do
    [[ $file == \#* ]] && continue
    if [[ ! -f $file || ! -f tests/fuzz/$target.c ]]; then
        echo "FAIL $file reads bytes from outside: no such file, or no tests/fuzz/$target.c"
        failed=$((failed + 1))
    fi
done <tests/fuzz/readers
if ! compgen -G "$(clang -print-resource-dir 2>/dev/null)/lib/linux/libclang_rt.fuzzer-*.a" >/dev/null; then
    judge_skip "no clang with libFuzzer here"
    echo "0 passed, $failed failed, ${#targets[@]} skipped"
    exit $((failed != 0))
fi

# Reductions are the portable ones. Those for vectors take minutes to compile with sanitizers: they are built without, and not run.
export WEFT_ISA=portable

# build FOLDER FLAGS
build() {
    mkdir -p "$1"
    ${MAKE:-make} --no-print-directory -j"$(nproc)" CC=clang BUILD="$1" O="-O1 -g" MODE_FLAGS="$2" \
        VECTOR_FLAGS=-fno-sanitize=all fuzzers \
        >"$1/build.log" 2>&1 && return
    tail -n 30 "$1/build.log"
    echo "0 passed, $((failed + 1)) failed, 0 skipped"
    exit 1
}

# The inputs of a target: kept ones, and those of this run.
inputs() {
    mkdir -p "$folder/$1/corpus"
    echo "$folder/$1/corpus"
    [[ -d tests/fuzz/corpus/$1 ]] && echo "tests/fuzz/corpus/$1"
}

run_one() {
    local name=$1 work=$folder/$1 corpus
    mapfile -t corpus < <(inputs "$name")
    if timeout -k 5 $((seconds + 120)) "$folder/tests/fuzz/$name" -max_total_time="$seconds" -timeout="$input_limit" \
        -seed="${WEFT_SEED:-1}" -rss_limit_mb=2048 -print_final_stats=1 -artifact_prefix="$work/" "${corpus[@]}" >"$work/log" 2>&1; then
        echo "ok   $name: $(sed -n 's/^stat::number_of_executed_units: *//p' "$work/log") runs in $seconds s"
        echo ok >"$work/verdict"
    else
        echo "FAIL $name, inputs in $work:"
        tail -n 40 "$work/log"
        echo bad >"$work/verdict"
    fi
}

build "$folder" "-fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all"
for source in "${targets[@]}"; do
    name=$(basename "$source" .c)
    mkdir -p "$folder/$name"
    rm -f "$folder/$name/verdict"
    while (($(jobs -rp | wc -l) >= jobs)); do wait -n; done
    run_one "$name" &
done
wait
for source in "${targets[@]}"; do
    if grep -qx ok "$folder/$(basename "$source" .c)/verdict" 2>/dev/null; then passed=$((passed + 1)); else
        failed=$((failed + 1))
    fi
done

# The same inputs once more, counting.
profdata=$(command -v llvm-profdata || command -v llvm-profdata-14)
cov=$(command -v llvm-cov || command -v llvm-cov-14)
if [[ ${CI:-} == true ]]; then
    : # nobody reads the table there, and it takes a build of its own
elif [[ -z $profdata || -z $cov ]]; then
    judge_skip "no llvm-cov here, so the coverage of the readers is not known"
    skipped=1
else
    counting=$folder/coverage
    build "$counting" "-fprofile-instr-generate -fcoverage-mapping -fsanitize=fuzzer-no-link"
    rm -f "$counting"/*.profraw
    objects=()
    for source in "${targets[@]}"; do
        name=$(basename "$source" .c)
        mapfile -t corpus < <(inputs "$name")
        LLVM_PROFILE_FILE=$counting/$name.profraw timeout -k 5 300 "$counting/tests/fuzz/$name" -runs=0 \
            -timeout=20 "${corpus[@]}" >"$counting/$name.log" 2>&1
        objects+=(-object "$counting/tests/fuzz/$name")
    done
    "$profdata" merge -sparse "$counting"/*.profraw -o "$counting/all.profdata" &&
        "$cov" report "${objects[@]:1}" -instr-profile="$counting/all.profdata" >"$counting/report" 2>"$counting/report.err"
    printf '%-28s %-20s %8s %8s\n' "reader" "target" lines reached
    while read -r file target _; do
        [[ $file == \#* ]] && continue
        awk -v file="$file" -v target="$target" '
            substr("/" $1, length($1) - length(file) + 1) == "/" file {
                printf "%-28s %-20s %8d %8s\n", file, target, $8, $10; found = 1
            }
            END { if (!found) printf "%-28s %-20s        - not built in\n", file, target }' "$counting/report"
    done <tests/fuzz/readers
fi
echo "$passed passed, $failed failed, $skipped skipped"
[[ $failed == 0 ]]
