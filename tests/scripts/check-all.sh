#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# make check-all: make check and all that it leaves out, one step after the other. Each step says how long it took; the last line is the count.
set -u
cd "$(dirname "$0")/../.." || exit 1
export WERROR=1 FUZZ_SECONDS=${FUZZ_SECONDS:-3}
make=${MAKE:-make}
jobs=$(nproc)
steps=(
    "$make check"
    "$make check-rdma"
    "$make check-torch"
    "$make check-tools"
    "$make asan"
    "$make tsan"
    "$make fuzz"
    # Clang's warnings need no code, and a library for another processor no test programs.
    "count: tests/scripts/deps.sh build check fuzz cross"
    "count: $make -j$jobs CC=clang BUILD=build/clang warnings"
    "count: $make -j$jobs CC=aarch64-linux-gnu-gcc BUILD=build/aarch64 O=-O1 lib-static"
)
tests/scripts/sum.sh "${steps[@]}" </dev/null
