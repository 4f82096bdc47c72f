#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Installs what building and testing weft needs, on Debian and Ubuntu. Looks first: when nothing is missing it
# says nothing and takes a few milliseconds.
#
# Needed: compiler, make, pkg-config, libfabric, hwloc, libsodium, expat and libyaml (topology
# files), jansson (weft-perf, weft-topo), cmocka (tests).
# Wanted: tools that single checks use. Where one cannot be installed the check that needs it says so and skips.
# "deps.sh rdma" looks for what the tests over RDMA want beside: a virtual machine, and perftest to compare with.
set -u

missing_needed=()
missing_wanted=()
need() { "${@:2}" >/dev/null 2>&1 || missing_needed+=("$1"); }
want() { "${@:2}" >/dev/null 2>&1 || missing_wanted+=("$1"); }

# Whether clang has its run-time library for fuzzing, which is a package of its own.
fuzzer_runtime() { compgen -G "$(clang -print-resource-dir)/lib/linux/libclang_rt.fuzzer-*.a"; }

static_busybox() { ! ldd "$(command -v busybox)" && busybox --list | grep -qx insmod; }

# The package of the clang version that `clang` is or would be: 14 on bookworm.
runtime_package() {
    local version
    version=$(clang -dumpversion 2>/dev/null | cut -d. -f1)
    [[ $version ]] || version=$(apt-cache depends clang 2>/dev/null | sed -n 's/.*Depends: clang-\([0-9]*\)$/\1/p')
    echo "libclang-rt-${version:-14}-dev"
}

need gcc command -v gcc
need libc6-dev test -e /usr/include/stdio.h
need make command -v make
need pkg-config command -v pkg-config
need libfabric-dev pkg-config --exists libfabric
need libexpat1-dev pkg-config --exists expat
need libyaml-dev pkg-config --exists yaml-0.1
need libhwloc-dev pkg-config --exists hwloc
need libjansson-dev pkg-config --exists jansson
need libsodium-dev pkg-config --exists libsodium
need libcmocka-dev pkg-config --exists cmocka
want libibverbs-dev pkg-config --exists libibverbs
want libpmix-dev pkg-config --exists pmix
want openmpi-bin command -v mpirun.openmpi
# Slurm's packages start daemons: only where that is forbidden to packages anyway, as it is in containers.
if [[ -x /usr/sbin/policy-rc.d ]]; then
    want slurmctld command -v slurmctld
    want slurmd command -v slurmd
    want slurm-client command -v srun
    want munge command -v munged
fi
want clang command -v clang
want "$(fuzzer_runtime >/dev/null 2>&1 || runtime_package)" fuzzer_runtime
want clang-format command -v clang-format
want abigail-tools command -v abidiff
want mandoc command -v mandoc
want librsvg2-bin command -v rsvg-convert
want iproute2 command -v ip
want gcc-aarch64-linux-gnu command -v aarch64-linux-gnu-gcc
want libc6-dev-arm64-cross test -e /usr/aarch64-linux-gnu/include/stdio.h
want qemu-user command -v qemu-aarch64

if [[ ${1-} == rdma ]]; then
    PATH=$PATH:/usr/sbin:/sbin
    want qemu-system-x86 command -v qemu-system-x86_64
    want busybox-static static_busybox
    want kmod command -v modprobe
    want xz-utils command -v xz
    want zstd command -v zstd
    want debian-archive-keyring test -e /usr/share/keyrings/debian-archive-keyring.gpg
    want ibverbs-providers test -e /etc/libibverbs.d/rxe.driver
    want ibverbs-utils command -v ibv_rc_pingpong
    want perftest command -v ib_write_bw
fi

((${#missing_needed[@]} + ${#missing_wanted[@]})) || exit 0

wanted=("${missing_needed[@]}" "${missing_wanted[@]}")
command=(apt-get install -y --no-install-recommends "${wanted[@]}")
give_up() {
    echo "weft: $1" >&2
    if ((${#missing_needed[@]})); then
        echo "weft: needed and missing: ${missing_needed[*]}. As root: ${command[*]}" >&2
        exit 1
    fi
    echo "weft: going on without ${missing_wanted[*]}; checks that use them will be skipped" >&2
    exit 0
}

command -v apt-get >/dev/null || give_up "no apt-get here; install these by their names on this system"
as_root=()
if [[ $(id -u) != 0 ]]; then
    command -v sudo >/dev/null || give_up "not root and no sudo"
    as_root=(sudo)
    [[ -t 0 ]] || as_root=(sudo -n)
fi

log=$(mktemp)
trap 'rm -f "$log"' EXIT
export DEBIAN_FRONTEND=noninteractive
install() { "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@" >"$log" 2>&1; }
echo "weft: installing ${wanted[*]}"
if ! install "${wanted[@]}"; then
    "${as_root[@]}" apt-get update >"$log" 2>&1 || { tail -n 5 "$log" >&2; give_up "apt-get update failed"; }
    if ! install "${wanted[@]}"; then
        # One odd package must not keep the others away.
        if ((${#missing_needed[@]})) && ! install "${missing_needed[@]}"; then
            tail -n 20 "$log" >&2
            give_up "apt-get install failed"
        fi
        missing_needed=()
        for package in "${missing_wanted[@]}"; do
            install "$package" || echo "weft: $package cannot be installed; checks that use it will be skipped" >&2
        done
    fi
fi
exit 0
