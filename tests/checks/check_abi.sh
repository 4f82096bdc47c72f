#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# libweft.so exports exactly the functions of include/weft/weft.h. What they look like is compared by tests/tools/check_baseline.sh.
set -u
cd "$(dirname "$0")/../.." || exit 1
library=${BUILD:-build}/libweft.so
passed=0 failed=0
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
same() { # NAME FILE FILE
    if diff "$2" "$3" >"$scratch/diff"; then passed=$((passed + 1)); else
        failed=$((failed + 1))
        echo "$1:"
        cat "$scratch/diff"
    fi
}

${CC:-gcc} -E -P -Iinclude include/weft/weft.h | sed "/^typedef .*(/d" | grep -o '\bweft_[a-z0-9_]* *(' | tr -d ' (' | sort -u >"$scratch/declared"
nm -D --defined-only "$library" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' | sort -u >"$scratch/exported"
sed -n '/global:/,/local:/p' libweft.map | grep -o 'weft_[a-z0-9_]*;' | tr -d ';' | sort -u >"$scratch/map"
[[ -s $scratch/declared ]] || { echo "no function found in include/weft/weft.h"; failed=1; }
same "declared in weft.h (<) and exported by $library (>)" "$scratch/declared" "$scratch/exported"
same "declared in weft.h (<) and listed in libweft.map (>)" "$scratch/declared" "$scratch/map"
nm -D --defined-only "$library" | awk '$2 != "A" && $3 !~ /@@WEFT_[0-9.]+$/ { print $3 }' >"$scratch/unversioned"
same "symbols without a version" "$scratch/unversioned" /dev/null

echo "$passed passed, $failed failed, 0 skipped"
[[ $failed == 0 ]]
