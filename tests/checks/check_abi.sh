#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# libweft.so exports exactly the functions of include/weft/weft.h. What they look like is compared by tests/tools/check_baseline.sh.
source "$(dirname "$0")/../support/start.sh"
library=${BUILD:-build}/libweft.so
same() { nothing "$1" "$(diff "$2" "$3")"; } # NAME FILE FILE

${CC:-gcc} -E -P -Iinclude include/weft/weft.h | sed "/^typedef .*(/d" | grep -o '\bweft_[a-z0-9_]* *(' | tr -d ' (' | sort -u >"$work/declared"
nm -D --defined-only "$library" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' | sort -u >"$work/exported"
sed -n '/global:/,/local:/p' libweft.map | grep -o 'weft_[a-z0-9_]*;' | tr -d ';' | sort -u >"$work/map"
step "include/weft/weft.h has functions" test -s "$work/declared"
same "declared in weft.h (<) and exported by $library (>)" "$work/declared" "$work/exported"
same "declared in weft.h (<) and listed in libweft.map (>)" "$work/declared" "$work/map"
nm -D --defined-only "$library" | awk '$2 != "A" && $3 !~ /@@WEFT_[0-9.]+$/ { print $3 }' >"$work/unversioned"
same "symbols without a version" "$work/unversioned" /dev/null
sum_up
