#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The ABI: libweft.so exports exactly the functions of include/weft/weft.h, and nothing that programs built
# against the committed baseline (tests/abi/libweft.abi) rely on has changed. --refresh rewrites the baseline.
set -u
cd "$(dirname "$0")/../.." || exit 1
library=${BUILD:-build}/libweft.so
baseline=tests/abi/libweft.abi
passed=0 failed=0 skipped=0
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
same() { # NAME FILE FILE
    if diff "$2" "$3" >"$scratch/diff"; then passed=$((passed + 1)); else
        failed=$((failed + 1))
        echo "$1:"
        cat "$scratch/diff"
    fi
}

options=(--drop-private-types --exported-interfaces-only)
if [[ ${1:-} == --refresh ]]; then
    abidw --headers-dir include/weft "${options[@]}" --no-corpus-path --no-comp-dir-path --drop-undefined-syms \
        --no-show-locs "$library" >"$baseline" || exit 1
    echo "wrote $baseline"
    exit
fi

${CC:-gcc} -E -P -Iinclude include/weft/weft.h | sed "/^typedef .*(/d" | grep -o '\bweft_[a-z0-9_]* *(' | tr -d ' (' | sort -u >"$scratch/declared"
nm -D --defined-only "$library" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' | sort -u >"$scratch/exported"
sed -n '/global:/,/local:/p' libweft.map | grep -o 'weft_[a-z0-9_]*;' | tr -d ';' | sort -u >"$scratch/map"
[[ -s $scratch/declared ]] || { echo "no function found in include/weft/weft.h"; failed=1; }
same "declared in weft.h (<) and exported by $library (>)" "$scratch/declared" "$scratch/exported"
same "declared in weft.h (<) and listed in libweft.map (>)" "$scratch/declared" "$scratch/map"
nm -D --defined-only "$library" | awk '$2 != "A" && $3 !~ /@@WEFT_[0-9]+$/ { print $3 }' >"$scratch/unversioned"
same "symbols without a version" "$scratch/unversioned" /dev/null

machine=$(${CC:-gcc} -dumpmachine)
if ! command -v abidiff >/dev/null; then
    echo "SKIP: no abidiff (package abigail-tools) to compare with $baseline"
    skipped=1
elif [[ $machine != x86_64* ]]; then
    echo "SKIP: $baseline describes x86-64, this is $machine"
    skipped=1
else
    if abidiff --headers-dir2 include/weft "${options[@]}" --no-show-locs "$baseline" "$library" >"$scratch/abidiff" 2>&1; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "the ABI differs from $baseline; where the change is meant and compatible, run make abi-baseline:"
        cat "$scratch/abidiff"
    fi
fi
echo "$passed passed, $failed failed, $skipped skipped"
[[ $failed == 0 ]]
