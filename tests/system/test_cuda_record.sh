#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Traces of real CUDA drivers (those given, or tests/gpu/traces/), made by tests/gpu/cuda_record.c, beside what the fake
# driver answers: they may differ in nothing but lines that a trace's .differs file names, each with its reason behind two spaces.
set -u
build=${BUILD:-build}
passed=0 failed=0 skipped=0
ours=$(mktemp)
trap 'rm -f "$ours"' EXIT
if "$build/tests/gpu/cuda_record" "$build/tests/fakes/drivers/libcuda.so.1" >"$ours" && [[ $(wc -l <"$ours") -gt 200 ]] &&
    grep -q '^cuIpcCloseMemHandle again: ' "$ours"; then
    passed=1
else
    echo "FAIL the fake cannot be recorded"
    failed=1
fi
shopt -s nullglob
traces=("$@")
(($# > 0)) || traces=(tests/gpu/traces/*.txt)
for trace in "${traces[@]}"; do
    differences=$(diff <(grep -v '^#' "$trace") <(grep -v '^#' "$ours") | grep '^[<>]' |
        grep -vxFf <(sed 's/  .*//' "${trace%.txt}.differs" 2>/dev/null))
    if [[ -z $differences ]]; then passed=$((passed + 1)); else
        failed=$((failed + 1))
        printf 'FAIL %s and the fake differ:\n%s\n' "$trace" "$differences"
    fi
done
if [[ ${#traces[@]} == 0 ]]; then
    echo "SKIP: no trace of a real CUDA driver has been recorded, so nothing confirms the fake"
    skipped=1
fi
echo "$passed passed, $failed failed, $skipped skipped"
[[ $failed == 0 ]]
