#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# run: early
# Clang compiles the library and the tools without a warning: gcc lets pass what clang takes for an error. The tests are read by make check-clang.
source "$(dirname "$0")/../support/start.sh"
unset MAKEFLAGS MFLAGS MAKELEVEL

for version in '' -14 -15 -16 -17 -18 -19 -20 -21; do
    command -v "clang$version" >/dev/null && break
done
if ! command -v "clang$version" >/dev/null; then
    skip "there is no clang"
    sum_up
    exit
fi
if ${MAKE:-make} --no-print-directory WERROR=1 CC="clang$version" BUILD="$work/clang" ALL_TEST_SOURCES= warnings >"$work/out" 2>"$work/err"; then
    read=$(grep -c READ "$work/out")
    ((read > 300)) && ok "clang$version has read $read files" || bad "clang$version has read $read files"
else
    cat "$work/err"
    bad "clang$version"
fi
sum_up
