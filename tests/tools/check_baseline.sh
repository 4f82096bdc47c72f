#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The ABI: nothing that programs built against the committed baseline (tests/abi/libweft.abi) rely on has changed. --refresh rewrites
# the baseline, once the new one is whole.
set -u
cd "$(dirname "$0")/../.." || exit 1
library=${BUILD:-build}/libweft.so
baseline=tests/abi/libweft.abi
options=(--drop-private-types --exported-interfaces-only)
if [[ ${1:-} == --refresh ]]; then
    if ! command -v abidw >/dev/null; then
        echo "no abidw to write $baseline with, which is left as it is: install the package abigail-tools" >&2
        exit 1
    fi
    if ! abidw --headers-dir include/weft "${options[@]}" --no-corpus-path --no-comp-dir-path --drop-undefined-syms \
        --no-show-locs "$library" >"$baseline.part" || ! mv "$baseline.part" "$baseline"; then
        rm -f "$baseline.part"
        echo "$baseline is left as it is" >&2
        exit 1
    fi
    echo "wrote $baseline"
    exit
fi

machine=$(${CC:-gcc} -dumpmachine)
if ! command -v abidiff >/dev/null; then
    echo "SKIP: no abidiff (package abigail-tools) to compare with $baseline"
    exit 77
elif [[ $machine != x86_64* ]]; then
    echo "SKIP: $baseline describes x86-64, this is $machine"
    exit 77
fi
difference=$(abidiff --headers-dir2 include/weft "${options[@]}" --no-show-locs "$baseline" "$library" 2>&1) && exit
echo "the ABI differs from $baseline; where the change is meant and compatible, run make abi-baseline:"
echo "$difference"
exit 1
