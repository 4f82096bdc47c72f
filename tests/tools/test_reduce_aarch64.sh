#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# run: early
# The reductions on aarch64, emulated: the same tests, among them the checksum over all types and operations
# that x86-64 gives.
set -u
[[ -z ${WEFT_SANITIZER-} ]] || { echo "SKIP: a sanitizer sees nothing of emulated code"; exit 77; }
cross=aarch64-linux-gnu-gcc
for tool in $cross qemu-aarch64; do
    command -v $tool >/dev/null ||
        { echo "SKIP: no $tool (Debian: gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user)"; exit 77; }
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
flags=(-static -std=c11 -O2 -D_GNU_SOURCE -Wall -Wextra -Wundef -Werror -ffp-contract=off -Itests/cross -I. -Iinclude)
status=0
objects=()
for source in tests/support/reduce_*.c devmem/reduce*.c base/types.c base/log.c; do
    objects+=("$work/$(basename "$source" .c).o")
    $cross "${flags[@]}" -c "$source" -o "${objects[-1]}" || exit 1
done
for test in test_reduce test_reduce_bits; do
    $cross "${flags[@]}" "tests/devmem/$test.c" "${objects[@]}" -lm -o "$work/$test" &&
        timeout 100 qemu-aarch64 "$work/$test" || status=1
done
exit $status
