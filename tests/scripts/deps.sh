#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Installs what a target of make needs, on Debian and Ubuntu: tests/scripts/deps.sh GROUP...
# Looks first: when nothing is missing it says nothing and takes a few milliseconds.
#
#   build   compiler, make, pkg-config and what weft is built with
#   check   what the tests of make check need beside that
#   tools   other projects' programs that tests/tools/ runs: make check-tools
#   torch   Python with headers, and a C++ compiler: make check-torch
#   fuzz    clang with libFuzzer: make fuzz
#   rdma    a virtual machine, and perftest to compare with: make check-rdma, perf-rdma
#   cross   a compiler for aarch64
#   deb     what makes Debian packages: make deb
#   check-deb    what looks at them, and a system to install them in: make check-deb
#
# What is needed and cannot be installed is an error. What is wanted (parts that weft builds without, programs that single tests
# run) is said and left out; WITH_VERBS=no and the like do not even ask for it.
set -u

missing_needed=()
missing_wanted=()
need() { "${@:2}" >/dev/null 2>&1 || missing_needed+=("$1"); }
want() { "${@:2}" >/dev/null 2>&1 || missing_wanted+=("$1"); }

# Whether clang has its run-time library for fuzzing, which is a package of its own.
fuzzer_runtime() { compgen -G "$(clang -print-resource-dir)/lib/linux/libclang_rt.fuzzer-*.a"; }
static_busybox() { ! ldd "$(command -v busybox)" && busybox --list | grep -qx insmod; }
# A shared library that the loader finds.
library() { /sbin/ldconfig -p | grep -qF "$1"; }

# The package of the clang version that `clang` is or would be: 14 on bookworm.
clang_version() {
    local version
    version=$(clang -dumpversion 2>/dev/null | cut -d. -f1)
    [[ $version ]] || version=$(apt-cache depends clang 2>/dev/null | sed -n 's/.*Depends: clang-\([0-9]*\)$/\1/p')
    echo "${version:-14}"
}
runtime_package() { echo "libclang-rt-$(clang_version)-dev"; }

# Some clang with the llvm-spirv of its version, as mk/depends.mk looks for them.
spirv_pair() {
    local version
    for version in -14 -15 -16 -17 -18 -19 -20 -21 ''; do
        command -v "clang$version" && command -v "llvm-spirv$version" && return
    done
    return 1
}

group_build() {
    need gcc command -v gcc
    need libc6-dev test -e /usr/include/stdio.h
    need make command -v make
    need pkg-config command -v pkg-config
    need libsodium-dev pkg-config --exists libsodium
    need libexpat1-dev pkg-config --exists expat
    need libyaml-dev pkg-config --exists yaml-0.1
    need libjansson-dev pkg-config --exists jansson
    [[ ${WITH_OFI-} == no ]] || want libfabric-dev pkg-config --exists libfabric
    [[ ${WITH_VERBS-} == no ]] || want libibverbs-dev pkg-config --exists libibverbs
    [[ ${WITH_PMIX-} == no ]] || want libpmix-dev pkg-config --exists pmix
    [[ ${WITH_ZE-} == no ]] || want libze-dev pkg-config --exists libze_loader
    [[ ${WITH_HWLOC-} == no ]] || want libhwloc-dev pkg-config --exists hwloc
}

group_check() {
    need libcmocka-dev pkg-config --exists cmocka
    want libhwloc15 library libhwloc.so.15
    want iproute2 command -v ip
    want procps command -v pgrep
    want python3 command -v python3
    want mandoc command -v mandoc
    # Kernels for Level Zero, which a build has where these are. They are large, so a build alone does not ask for them.
    if [[ ${WITH_ZE-} != no && ${WITH_SPIRV-} != no ]]; then
        want "clang-$(clang_version)" spirv_pair
        want "llvm-spirv-$(clang_version)" spirv_pair
        want spirv-tools command -v spirv-val
    fi
}

group_torch() {
    need python3 command -v python3
    need python3-venv python3 -c 'import ensurepip'
    need python3-dev test -e "$(python3 -c 'import sysconfig; print(sysconfig.get_paths()["include"])' 2>/dev/null)/Python.h"
    need g++ command -v g++
}

group_cross() {
    want gcc-aarch64-linux-gnu command -v aarch64-linux-gnu-gcc
    want libc6-dev-arm64-cross test -e /usr/aarch64-linux-gnu/include/stdio.h
}

group_tools() {
    want openmpi-bin command -v mpirun.openmpi
    # Slurm's packages start daemons: only where that is forbidden to packages anyway, as it is in containers.
    if [[ -x /usr/sbin/policy-rc.d ]]; then
        want slurmctld command -v slurmctld
        want slurmd command -v slurmd
        want slurm-client command -v srun
        want munge command -v munged
    elif ! command -v slurmctld >/dev/null; then
        echo "weft: Slurm is left out: its packages would start daemons here (there is no policy-rc.d). Jobs of srun are not tested."
    fi
    want clang-format command -v clang-format
    want abigail-tools command -v abidiff
    want librsvg2-bin command -v rsvg-convert
    group_cross
    want qemu-user command -v qemu-aarch64
}

group_fuzz() {
    want clang command -v clang
    want "$(fuzzer_runtime >/dev/null 2>&1 || runtime_package)" fuzzer_runtime
}

group_rdma() {
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
}

group_deb() {
    need dpkg-dev command -v dpkg-buildpackage
    need debhelper command -v dh_strip
    need libfabric-dev pkg-config --exists libfabric
    need libibverbs-dev pkg-config --exists libibverbs
    need libpmix-dev pkg-config --exists pmix
    need libhwloc-dev pkg-config --exists hwloc
    need libze-dev pkg-config --exists libze_loader
    need clang-14 command -v clang-14
    need llvm-spirv-14 command -v llvm-spirv-14
}

group_check-deb() {
    PATH=$PATH:/usr/sbin:/sbin
    need lintian command -v lintian
    need debootstrap command -v debootstrap
}

(($#)) || set -- build
for group; do
    [[ $(type -t "group_$group") == function ]] || { sed -n 's/^#   //p' "$0" >&2; exit 2; }
    "group_$group"
done
((${#missing_needed[@]} + ${#missing_wanted[@]})) || exit 0

wanted=("${missing_needed[@]}" "${missing_wanted[@]}")
command=(apt-get install -y --no-install-recommends "${wanted[@]}")
give_up() {
    echo "weft: $1" >&2
    if ((${#missing_needed[@]})); then
        echo "weft: needed and missing: ${missing_needed[*]}. As root: ${command[*]}" >&2
        exit 1
    fi
    echo "weft: going on without ${missing_wanted[*]}" >&2
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
            install "$package" || echo "weft: $package cannot be installed: going on without it" >&2
        done
    fi
fi
exit 0
