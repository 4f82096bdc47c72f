#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# tests/vm/kernel.sh where something is not as it must be: that is a failure and no skip, or tests that never ran would
# count as skipped, and leaves nothing that the next run would take for good. No machine is started.
# hosts: 0
set -u
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
. tests/support/tally.sh
answer=$(tests/vm/kernel.sh) || { echo "$answer"; [[ $answer == SKIP:* ]]; exit $(($? ? 1 : 77)); }
real=$(dirname "$(head -n 1 <<<"$answer")")
vm=$work/tests/vm
check() { # NAME CONDITION...
    if "${@:2}" >/dev/null 2>&1; then ok "$1"; else bad "$1"; fi
}
says() { grep -q "$2" "$work/$1"; }
kept() { compgen -G "$work/cache/*/initramfs-*" || compgen -G "$work/cache/new.*"; }

# The scripts, kernel.sh changed by EXPRESSION, and a cache that has the real kernel.
stage() { # EXPRESSION
    rm -rf "$work/cache" "$vm"
    mkdir -p "$work/cache/${real##*/}" "$vm" "$work/bin"
    ln -s "$real"/{kernel,lib,release} "$work/cache/${real##*/}/"
    cp tests/vm/*.sh "$vm/"
    sed -i "$1" "$vm/kernel.sh"
}
# Puts SCRIPT in place of a tool.
fake() { # TOOL SCRIPT
    printf '#!/bin/bash\n%s\n' "$2" >"$work/bin/$1"
    chmod 755 "$work/bin/$1"
}
run() { # COMMAND...
    PATH=$work/bin:$PATH WEFT_VM_CACHE=$work/cache WEFT_VM_MIRROR=${mirror-} "$@" >"$work/out" 2>"$work/err"
    status=$?
}
# kernel.sh answers with this status, this text, and leaves no initramfs.
answers() { # NAME STATUS STREAM TEXT
    run "$vm/kernel.sh"
    check "$1: status $2, and why" test $status = "$2"
    check "$1: the text" says "$3" "$4"
    if kept >/dev/null; then bad "$1: something is kept"; else ok "$1: nothing is kept"; fi
}

stage 's/rdma_ucm rdma_rxe$/rdma_ucm rdma_no/'
answers "no rdma_rxe" 1 err '^weft-vm: the kernel in .* has no module rdma_no: .*not found'
run "$vm/run.sh" true
check "a machine that cannot be made is status 125" test $status = 125
RDMA_DEVICE='' run "$vm/check.sh" one two
check "check.sh fails, too" test $status = 1
check "check.sh counts it" says out '^0 passed, 1 failed, 0 skipped$'
stage 's/sch_netem sch_prio/sch_no sch_prio/'
answers "a module that only some tests use" 1 err 'has no module sch_no'

stage ''
fake busybox '[[ $1 != cpio ]] || { echo "cpio: no room"; exit 1; }; exec '"$(command -v busybox)"' "$@"'
answers "an initramfs that cannot be packed" 1 err 'cannot pack an initramfs for .*'
rm "$work/bin/busybox"
fake xz 'exit 1'
answers "a module that cannot be unpacked" 1 err 'cannot unpack .*\.ko\.xz'
rm "$work/bin/xz"

# An archive that can be reached, with a package that is none.
rm -rf "$work"/cache/*
fake apt-cache 'echo "  Depends: linux-image-6.1.0-amd64"'
fake apt-get 'for word; do case $word in
Dir::State::Lists=*) lists=${word#*=} ;;
update) : >"$lists/x_Packages" ;;
download) echo broken >linux-image-6.1.0-amd64.deb ;;
esac; done'
answers "a package that cannot be unpacked" 1 err 'cannot unpack the kernel of Debian .*: linux-image-6.1.0-amd64.deb: '
fake apt-cache :
answers "an archive without a kernel" 1 err 'no kernel of Debian .* has no linux-image-amd64'
rm "$work"/bin/apt-*

# What was being unpacked when a run was killed: no kernel, though a folder of its name.
mkdir -p "$work/cache/${real##*/}" "$work/cache/new.half"
touch "$work/cache/${real##*/}/kernel"
mirror=http://127.0.0.1:9/debian
answers "an archive that cannot be reached, and half a kernel" 77 out '^SKIP: no virtual machine for RDMA: cannot fetch the kernel'

sum_up
