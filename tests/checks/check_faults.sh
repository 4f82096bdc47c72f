#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Every symbol that libweft.a and libweft-tools.a take from elsewhere is listed in tests/faults/symbols.txt, so that no new system
# call goes without a fault that hits it; and what is listed as injected has its wrapper and its row.
set -u
cd "$(dirname "$0")/../.." || exit 1
BUILD=${BUILD:-build}
list=tests/faults/symbols.txt
bad=0

archives=("$BUILD/libweft.a" "$BUILD/libweft-tools.a")
taken=$(comm -23 <(nm -u "${archives[@]}" | awk '$1 == "U" { sub(/@.*/, "", $2); print $2 }' | sort -u) \
    <(nm --defined-only "${archives[@]}" | awk 'NF == 3 { print $3 }' | sort -u))
if [[ $(wc -w <<<"$taken") -lt 100 ]]; then
    echo "${archives[*]}: not there, or hardly a symbol in them"
    bad=1
fi
for symbol in $taken; do
    case $symbol in __asan_* | __ubsan_* | __tsan_* | __sanitizer_* | __sancov_* | __gcov_* | __llvm_*) continue ;; esac
    if ! grep -qE "^(inject|watch|never) $symbol\$" $list; then
        echo "weft uses '$symbol', which $list does not mention: let it fail (tests/faults/), or say why it cannot"
        bad=1
    fi
done
while read -r kind symbol; do
    if ! grep -qE "[ *]fault_$symbol\(" tests/faults/wrap.h; then
        echo "$list: $symbol has no wrapper in tests/faults/wrap_*.c"
        bad=1
    fi
    if [[ $kind == inject ]] && ! grep -q "\"$symbol\"," tests/faults/inject.h; then
        echo "$list: $symbol has no row in tests/faults/inject.h"
        bad=1
    fi
done < <(grep -E '^(inject|watch) ' $list)
exit $bad
