#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# No false deaths for WEFT_SOAK_S seconds (3600) of allreduce on two busy processors: tests/long/soak.c.
set -u
cd "$(dirname "$0")/../.." || exit 1
build=${BUILD:-build}
${MAKE:-make} --no-print-directory -j"$(nproc)" BUILD="$build" "$build/tests/long/soak" || exit 1
exec "$build/tests/long/soak" </dev/null
