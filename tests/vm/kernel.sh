#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Fetches a Debian kernel with rdma_rxe, once, and packs an initramfs for it. Prints the path of the kernel, of the
# initramfs and of busybox, a line each. Where a tool is missing or the archive cannot be reached, "SKIP: reason" and exit
# status 77; whatever else goes wrong is this script's fault, or its cache's, and exit status 1.
#
# WEFT_VM_CACHE   folder to keep them in (${XDG_CACHE_HOME:-~/.cache}/weft-vm); safe to keep, to share and to remove
# WEFT_VM_SUITE   Debian suite of the kernel (trixie: 6.12). Cloud kernels would not do: no rdma_rxe, no 9p
# WEFT_VM_MIRROR  Debian archive to fetch from (this system's own, or deb.debian.org)
#
# Runs side by side take turns. What is being unpacked gets its final name only when it is whole, so a run that is
# interrupted leaves nothing that could be mistaken for a kernel.
set -u
here=$(cd "$(dirname "$0")" && pwd)
cache=${WEFT_VM_CACHE:-${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/weft-vm}
suite=${WEFT_VM_SUITE:-trixie}
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
PATH=$PATH:/usr/sbin:/sbin

skip() {
    echo "SKIP: no virtual machine for RDMA: $1"
    exit 77
}
fail() {
    echo "weft-vm: $1" >&2
    exit 1
}
last_words() { grep -a . "$cache/log" | tail -n 1; }

# Loaded at boot in this order, each after what it depends on. rdma_rxe asks the crypto layer for "crc32" by name,
# which no list of dependencies says: without crc32_generic `rdma link add` answers ENOENT.
modules=(virtio_pci virtio_console virtio_net 9pnet_virtio 9p overlay veth crc32_generic ib_uverbs rdma_ucm rdma_rxe
    sch_netem sch_prio cls_u32 macvlan)
# The parts of the module tree that these come from. Changing the list fetches the kernel again, changing modules
# from within it does not.
kept=(arch/x86/crypto crypto drivers/block drivers/char drivers/infiniband/core drivers/infiniband/sw
    'drivers/net/*.ko*' drivers/virtio fs/9p fs/configfs fs/fscache fs/netfs fs/overlayfs lib net/9p net/core net/ipv4 net/ipv6 net/sched)

check_tools() {
    local tool
    [[ $(uname -m) == x86_64 ]] || skip "this is not x86-64"
    for tool in qemu-system-x86_64 busybox modprobe depmod rdma ip apt-get dpkg-deb xz flock; do
        command -v $tool >/dev/null || skip "no $tool here (as root, tests/scripts/deps.sh rdma installs it)"
    done
    [[ -r $keyring ]] || skip "no $keyring (as root, tests/scripts/deps.sh rdma installs it)"
    # Dynamic programs find no libraries in the initramfs.
    if ldd "$(command -v busybox)" >/dev/null 2>&1 || ! busybox --list | grep -qx insmod; then
        skip "this busybox does not serve (Debian's busybox-static does)"
    fi
}

# apt with its own sources and state: the system's stay as they are.
apt() { # FOLDER TOOL ARGUMENT...
    local folder=$1 tool=$2
    shift 2
    LC_ALL=C "$tool" -q -o Dir::Etc::SourceList="$folder/sources" -o Dir::Etc::SourceParts=/dev/null \
        -o Dir::State::Lists="$folder/lists" -o Dir::Cache="$folder/cache" -o APT::Sandbox::User=root \
        -o Acquire::Languages=none -o Acquire::Retries=3 "$@"
}

# Leaves the packages of the kernel in FOLDER/debs; apt has compared them with the archive's signature. apt-get update
# succeeds without an archive, too, so what it has left is looked at.
download() { # FOLDER
    local folder=$1 mirror=${WEFT_VM_MIRROR:-} image parts
    [[ $mirror ]] || mirror=$(apt-get indextargets --format '$(SITE)' 2>/dev/null | grep -m 1 -E '/debian/?$')
    mkdir -p "$folder/lists/partial" "$folder/cache/archives/partial" "$folder/debs" || return
    echo "deb [signed-by=$keyring] ${mirror:-http://deb.debian.org/debian} $suite main" >"$folder/sources"
    apt "$folder" apt-get update && compgen -G "$folder/lists/*_Packages*" || return
    depends() { apt "$folder" apt-cache depends "$1" | awk '/Depends:/ { print $2 }' | grep -E "$2"; }
    image=$(depends linux-image-amd64 '^linux-image-[0-9].*-amd64$' | head -n 1)
    [[ $image ]] || { echo "$suite has no linux-image-amd64"; return 1; }
    parts=$(depends "$image" '^linux-(binary|modules)-') # newer kernels come in several packages
    # shellcheck disable=SC2086
    (cd "$folder/debs" && apt "$folder" apt-get download "$image" $parts)
}

# A compressed kernel (bzImage) holds an ELF one, which QEMU starts directly; unpacking it under emulation would
# cost most of a second at every boot. Offsets: Documentation/arch/x86/boot.rst.
unpack_kernel() { # BZIMAGE ELF
    number() { od -An -j$(($1)) -N"$2" -tu"$2" "$bz" | tr -d ' '; }
    local bz=$1 sectors start size
    sectors=$(number 0x1f1 1) start=$(number 0x248 4) size=$(number 0x24c 4)
    [[ $sectors && $start && $size ]] || return
    start=$((start + (sectors + 1) * 512)) # size: with four bytes at the end that are not the stream's
    tail -c +$((start + 1)) "$bz" | head -c $((size - 4)) | case $(od -An -j"$start" -N4 -tx1 "$bz") in
    ' fd 37 7a 58') xz -dc ;;
    ' 28 b5 2f fd') zstd -dc ;;
    esac >"$2" || return
    [[ $(head -c 4 "$2" | tr -d '\177') == ELF ]] || cp "$bz" "$2"
}

# Not every package has every part, and all else that tar says is an error.
unpack_package() { # PACKAGE FOLDER
    local part patterns=() errors
    for part in "${kept[@]}"; do patterns+=("kernel/$part"); done
    errors=$({ { dpkg-deb --fsys-tarfile "$1" || echo "dpkg-deb: status $?" >&2; } | LC_ALL=C tar -C "$2" -x --wildcards \
        --no-anchored 'vmlinuz*' 'lib/modules/*/modules.*' "${patterns[@]}"; } 2>&1 |
        grep -avE ': Not found in archive$|: Exiting with failure status')
    [[ ! $errors ]] || { echo "$(basename "$1"): ${errors%%$'\n'*}"; return 1; }
}

unpack() { # FOLDER TARGET
    local deb release
    mkdir -p "$2/all/lib" || return
    for deb in "$1"/debs/*.deb; do unpack_package "$deb" "$2/all" || return; done
    [[ -d $2/all/lib/modules ]] || mv "$2/all/usr/lib/modules" "$2/all/lib/" || return
    release=$(ls "$2/all/lib/modules")
    mv "$2/all/lib" "$2/" && unpack_kernel "$(find "$2" -name 'vmlinuz*' -type f | head -n 1)" "$2/kernel" || return
    depmod -b "$2" "$release" && rm -rf "$2/all" && echo "$release" >"$2/release"
}

get_kernel() { # TARGET
    local work
    work=$(mktemp -d "$cache/new.XXXXXX") || fail "cannot write in $cache"
    echo "weft-vm: fetching the kernel of Debian $suite into $cache" >&2
    if ! download "$work" >"$cache/log" 2>&1; then
        grep -aq 'Failed to fetch' "$cache/log" || fail "no kernel of Debian $suite: $(last_words)"
        skip "cannot fetch the kernel of Debian $suite: $(last_words)"
    fi
    { unpack "$work" "$work/kernel" && mv "$work/kernel" "$1"; } >"$cache/log" 2>&1 ||
        fail "cannot unpack the kernel of Debian $suite: $(last_words)"
}

make_initramfs() { # KERNEL-FOLDER TARGET
    local work release module file name
    work=$(mktemp -d "$cache/new.XXXXXX") || fail "cannot write in $cache"
    release=$(<"$1/release")
    mkdir -p "$work/modules" "$work/bin" && cp "$(command -v busybox)" "$work/bin/busybox" &&
        cp "$here/init.sh" "$work/init" && chmod 755 "$work/init" || fail "cannot write in $work"
    for module in "${modules[@]}"; do
        modprobe -d "$1" -S "$release" --show-depends "$module" 2>"$cache/log" ||
            fail "the kernel in $1 has no module $module: $(last_words)"
    done >"$work/needed"
    while read -r file; do
        name=$(basename "$file")
        [[ $file != *.zst ]] || command -v zstd >/dev/null || skip "no zstd here"
        case $file in
        *.xz) xz -dc "$file" ;;
        *.zst) zstd -dc "$file" ;;
        *) cat "$file" ;;
        esac >"$work/modules/${name%%.*}" || fail "cannot unpack $file"
        echo "${name%%.*}" >>"$work/modules/order"
    done < <(awk '$1 == "insmod" && !seen[$2]++ { print $2 }' "$work/needed")
    rm "$work/needed"
    # Without its signature a module loads faster.
    if command -v strip >/dev/null; then
        find "$work/modules" -type f ! -name order -exec strip -g {} + || fail "cannot strip the modules of $1"
    fi
    (set -o pipefail; cd "$work" && find . | busybox cpio -o -H newc) >"$work.cpio" 2>"$cache/log" &&
        mv "$work.cpio" "$2" || fail "cannot pack an initramfs for $1: $(last_words)"
}

check_tools
mkdir -p "$cache" 2>/dev/null || fail "cannot make $cache (WEFT_VM_CACHE chooses another folder)"
{ exec {lock}>"$cache/lock" && flock "$lock"; } || fail "cannot lock $cache/lock"
rm -rf "$cache"/new.* # of runs that were killed
trap 'rm -rf "$cache"/new.*' EXIT
kernel=$cache/$suite-$(echo "${kept[@]}" | cksum | cut -d' ' -f1)
[[ -s $kernel/release ]] || { rm -rf "$kernel"; get_kernel "$kernel"; }
initramfs=$kernel/initramfs-$({ echo "${modules[@]}"; cat "$here/init.sh" "$(command -v busybox)"; } | cksum | cut -d' ' -f1)
if [[ ! -s $initramfs ]]; then
    find "$kernel" -name 'initramfs-*' -mtime +7 -delete
    make_initramfs "$kernel" "$initramfs"
fi
printf '%s\n' "$kernel/kernel" "$initramfs" "$(command -v busybox)"
