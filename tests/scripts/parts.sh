#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Builds with each optional part left out, and with all, runs four ranks over shared memory with it, and asks for parts that are
# missing: tests/scripts/parts.sh. What is needed and missing is named with its package.
set -u
cd "$(dirname "$0")/../.." || exit 1
folder=${BUILD:-build}/without
# One folder: what parts have in common is built once.
build() { # VARIABLE=VALUE... TARGET...
    MAKEFLAGS='' ${MAKE:-make} --no-print-directory -j"$(nproc)" CC="${CC:-gcc}" O=-O0 WERROR=1 BUILD="$folder" "$@"
}
work=$folder/work
mkdir -p "$work"
source tests/support/tally.sh

declare -A left_out=([verbs]=WITH_VERBS=no [ofi]=WITH_OFI=no [pmix]=WITH_PMIX=no [cuda]=WITH_CUDA=no [ze]=WITH_ZE=no [spirv]=WITH_SPIRV=no [hwloc]=WITH_HWLOC=no)
left_out[all]=${left_out[*]}
for part in verbs ofi pmix cuda ze spirv hwloc all; do
    read -ra options <<<"${left_out[$part]}"
    step "built without ${part/all/any part}" build "${options[@]}" all micro "$folder/tests/system/test_repeat"
    step "four ranks of it run" "$folder/weft-perf" allreduce --ranks 4 -b 8 -e 1M -f 16 -n 3 -w 1 --transport shm
    step "it shows this machine" "$folder/weft-topo"
done

# A pkg-config that knows nothing but what it is given.
known=$folder/known
mkdir -p "$known"
without() { # NAME...: all but these
    rm -f "$known"/*.pc
    local file name
    for file in $(pkg-config --variable pc_path pkg-config | tr : ' '); do
        cp -n "$file"/*.pc "$known" 2>/dev/null
    done
    for name; do rm -f "$known/$name.pc"; done
}
# says NAME PACKAGE VARIABLE=VALUE... TARGET: it fails, and the last lines name the package.
says() { step "$1" names "${@:2}"; }
names() {
    local package=$1
    shift
    PKG_CONFIG_LIBDIR=$known build "$@" >"$work/log" 2>&1
    [[ $? != 0 ]] || return
    cat "$work/log"
    grep -q "weft: .* is missing: .*$package" "$work/log" && ! grep -q 'error:' "$work/log"
}
without libsodium
says "without libsodium" libsodium-dev lib
without yaml-0.1
says "without libyaml" libyaml-dev lib
without expat
says "tools without expat" libexpat1-dev tools
without jansson
says "tools without jansson" libjansson-dev tools
without cmocka
says "tests without cmocka" libcmocka-dev tests
without libibverbs
says "WITH_VERBS=yes without rdma-core" libibverbs-dev WITH_VERBS=yes lib
without libfabric
says "WITH_OFI=yes without libfabric" libfabric-dev WITH_OFI=yes lib
without pmix
says "WITH_PMIX=yes without PMIx" libpmix-dev WITH_PMIX=yes lib
without
says "WITH_CUDA=yes without nvcc" nvcc WITH_CUDA=yes NVCC=/nonexistent/nvcc lib
says "WITH_SPIRV=yes without clang" llvm-spirv WITH_SPIRV=yes CLANG_SPIRV=/nonexistent/clang LLVM_SPIRV=/nonexistent/llvm-spirv lib
rm -rf "$folder"
sum_up
