#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Builds with each optional part left out, and with all, runs four ranks over shared memory with it, and asks for parts that are
# missing: tests/scripts/parts.sh. What is needed and missing is named with its package.
set -u
cd "$(dirname "$0")/../.." || exit 1
folder=${BUILD:-build}/without
passed=0 failed=0
# One folder: what parts have in common is built once.
build() { # VARIABLE=VALUE... TARGET...
    MAKEFLAGS='' ${MAKE:-make} --no-print-directory -j"$(nproc)" CC="${CC:-gcc}" O=-O0 WERROR=1 BUILD="$folder" "$@"
}
result() { # NAME STATUS LOG
    if [[ $2 == 0 ]]; then passed=$((passed + 1)); echo "ok   $1"; else
        failed=$((failed + 1))
        echo "FAIL $1:"
        tail -n 20 "$3"
    fi
}
mkdir -p "$folder"
log=$folder/log

declare -A left_out=([verbs]=WITH_VERBS=no [ofi]=WITH_OFI=no [pmix]=WITH_PMIX=no [cuda]=WITH_CUDA=no [hwloc]=WITH_HWLOC=no)
left_out[all]=${left_out[*]}
for part in verbs ofi pmix cuda hwloc all; do
    read -ra options <<<"${left_out[$part]}"
    build "${options[@]}" all micro "$folder/tests/integration/test_repeat" >"$log" 2>&1
    result "built without ${part/all/any part}" $? "$log"
    "$folder/weft-perf" allreduce --ranks 4 -b 8 -e 1M -f 16 -n 3 -w 1 --transport shm >"$log" 2>&1 &&
        "$folder/weft-topo" >>"$log" 2>&1
    result "it runs" $? "$log"
done

# A pkg-config that knows nothing but what it is told to.
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
says() {
    local name=$1 package=$2
    shift 2
    PKG_CONFIG_LIBDIR=$known build "$@" >"$log" 2>&1
    [[ $? != 0 ]] && grep -q "weft: .* is missing: .*$package" "$log" && ! grep -q 'error:' "$log"
    result "$name" $? "$log"
}
without libsodium
says "without libsodium" libsodium-dev lib
without expat
says "without expat" libexpat1-dev lib
without yaml-0.1
says "without libyaml" libyaml-dev lib
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
rm -rf "$folder"
echo "$passed passed, $failed failed, 0 skipped"
[[ $failed == 0 ]]
