#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs a command in a virtual machine that has RDMA devices (soft-RoCE): tests/vm/run.sh [OPTION...] COMMAND...
# README.md beside this file says what the command finds in there.
#
# --hosts N        N machines (1 to 16) on one segment, the same command in each
# --timeout S      end it after S seconds (300): exit status 124
# --memory M       MiB of each machine (1024)
# --cpus C         processors of each machine
# --env NAME[=X]   pass this variable on, too
# --without M      boot without this kernel module
#
# Exit status: the command's (with several machines the first that is not 0); 124 time limit; 125 a machine failed or could not be made;
# 126 usage; 77 with "SKIP: reason" where no such machine can be had.
set -u
here=$(cd "$(dirname "$0")" && pwd)

usage() {
    echo "weft-vm: $1" >&2
    sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2
    exit 126
}
hosts=1 limit=300 memory=1024 cpus='' without='' passed=()
while [[ ${1-} == --* ]]; do
    [[ $1 == -- ]] && { shift; break; }
    (($# > 1)) || usage "$1 wants a value"
    case $1 in
    --hosts) hosts=$2 ;;
    --timeout) limit=$2 ;;
    --memory) memory=$2 ;;
    --cpus) cpus=$2 ;;
    --env) passed+=("$2") ;;
    --without) without=$2 ;;
    *) usage "no option $1" ;;
    esac
    shift 2
done
[[ $hosts =~ ^[0-9]+$ && $limit =~ ^[0-9]+$ && $memory =~ ^[0-9]+$ && ${cpus:-1} =~ ^[0-9]+$ ]] || usage "not a number"
((hosts >= 1 && hosts <= 16)) || usage "--hosts is 1 to 16"
(($#)) || usage "no command"

found=$("$here/kernel.sh") || { [[ $found == SKIP:* ]] || exit 125; echo "$found"; exit 77; }
if ((hosts > 1)) && ! qemu-system-x86_64 -M none -netdev help 2>&1 | grep -qx stream; then
    echo "SKIP: several virtual machines need QEMU 7.2 or later"
    exit 77
fi
SECONDS=0 # fetching is not the command's time
{ read -r kernel; read -r initramfs; read -r busybox; } <<<"$found"
# A program that polls wants a processor for itself, or it waits for the others' time slices. More processors than
# the host has, in several machines, are slower again.
if [[ ! $cpus ]]; then
    cpus=$(($(nproc) / hosts))
    cpus=$((cpus > 4 ? 4 : cpus < 1 ? 1 : cpus))
    ((hosts == 1 && cpus == 1)) && cpus=2
fi
build=${BUILD:-build}
writable=
[[ -d $build ]] && writable=$(realpath "$build")
one_stream=0
[[ /dev/stdout -ef /dev/stderr ]] && one_stream=1 # what is one stream here keeps its order

# Our folder is locked as long as we live, or a machine of ours. One that is not was left by a run that was killed.
folders=${TMPDIR:-/tmp}
remove_left_behind() {
    local old lock
    for old in "$folders"/weft-vm.*; do
        [[ -d $old && ! -L $old && -O $old ]] && exec {lock}<"$old" || continue
        flock -n "$lock" && rm -rf "$old"
        exec {lock}<&-
    done 2>/dev/null
}
remove_left_behind
while :; do
    vm=$(mktemp -d "$folders/weft-vm.XXXXXX") || exit 126
    # Somebody who removes what is not locked may have been faster.
    { exec {held}<"$vm"; } 2>/dev/null && flock "$held" && [[ $vm -ef /proc/self/fd/$held ]] && break
done
qemu=() readers=() switch=()
clean_up() {
    kill -KILL "${qemu[@]}" "${switch[@]}" "${readers[@]}" 2>/dev/null
    rm -rf "$vm"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
mkdir "$vm/share"
mkfifo "$vm/clock"
exec {clock}<>"$vm/clock" # never written to: read waits on it without starting a process
pause() { read -r -t 0.05 -u "$clock" _; }

# What all machines read.
{
    printf '%s=%q\n' hosts "$hosts" folder "$PWD" writable "$writable" busybox "$busybox" one_stream "$one_stream"
    printf 'command=('
    printf '%q ' "$@"
    printf ')\n. %q\n' "$here/guest.sh"
} >"$vm/guest"
for name in $(compgen -e); do
    case $name in
    WEFT_* | FI_* | IBV_* | RDMAV_* | TEST_* | *SAN_OPTIONS | BUILD | CI | LANG | LD_LIBRARY_PATH) passed+=("$name") ;;
    esac
done
for name in "${passed[@]}"; do
    if [[ $name == *=* ]]; then printf 'export %s=%q\n' "${name%%=*}" "${name#*=}"; else
        printf 'export %s=%q\n' "$name" "${!name-}"
    fi
done >"$vm/environment"

# QEMU's process ends with this one, however this one ends.
machine() { exec setpriv --pdeathsig KILL qemu-system-x86_64 -nodefaults -no-user-config -display none "$@" </dev/null; }

# The segment is a QEMU without a machine: pulling a host's plug leaves the others connected. Frames go through
# sockets in our folder; no port is used, and frames wait rather than get lost.
start_switch() {
    local k arguments=()
    for ((k = 0; k < hosts; k++)); do
        arguments+=(-netdev "stream,id=s$k,server=on,addr.type=unix,addr.path=$vm/port$k")
        arguments+=(-netdev "hubport,id=h$k,hubid=0,netdev=s$k")
    done
    machine -M none "${arguments[@]}" >"$vm/switch.log" 2>&1 &
    switch=($!)
    for ((k = 0; k < hosts; k++)); do
        until [[ -S $vm/port$k ]]; do
            kill -0 "${switch[@]}" 2>/dev/null || { cat "$vm/switch.log" >&2; exit 125; }
            pause
        done
    done
}

# reader STREAM FIFO: copies what a machine writes; with several machines each line is marked with the host.
reader() {
    mkfifo "$2"
    if ((hosts == 1)); then cat "$2" >&"$1" & else sed -u "s/^/[$k] /" "$2" >&"$1" & fi
    readers+=($!)
}

start_host() { # K
    local k=$1 own=$vm/$1 out err arguments=()
    mkdir "$own"
    reader 1 "$own/out"
    reader 2 "$own/err"
    exec {out}>"$own/out" {err}>"$own/err"
    arguments=(-M q35 -accel "tcg,thread=multi" -cpu max -smp "$cpus" -m "$memory" -no-reboot
        -kernel "$kernel" -initrd "$initramfs" -serial "file:$own/console" -monitor none
        -append "console=ttyS0 loglevel=5 panic=-1 oops=panic mitigations=off nokaslr audit=0 apparmor=0 nowatchdog
            no_timer_check tsc=reliable random.trust_cpu=on cryptomgr.notests rcupdate.rcu_expedited=1
            net.ifnames=0 VM_HOST=$k VM_WITHOUT=$without"
        -device virtio-serial-pci
        -chardev "file,id=out,path=/dev/fd/1" -device "virtserialport,chardev=out,nr=1"
        -chardev "file,id=err,path=/dev/fd/2" -device "virtserialport,chardev=err,nr=2")
    share() { # TAG FOLDER MORE
        arguments+=(-fsdev "local,id=$1,path=${2//,/,,},security_model=none,multidevs=remap$3"
            -device "virtio-9p-pci,fsdev=$1,mount_tag=$1")
    }
    share host / ,readonly=on
    share vm "$vm" ''
    [[ $writable ]] && share build "$writable" ''
    if ((hosts > 1)); then
        arguments+=(-netdev "stream,id=net,server=off,addr.type=unix,addr.path=$vm/port$k"
            -device "virtio-net-pci,netdev=net,romfile=,mac=52:54:00:07:00:$(printf %02x $((k + 1)))")
    fi
    machine "${arguments[@]}" >&"$out" 2>&"$err" {out}>&- {err}>&- &
    qemu[k]=$!
    exec {out}>&- {err}>&-
}

((hosts == 1)) || start_switch
for ((k = 0; k < hosts; k++)); do start_host $k; done

# A machine has ended with its status, by its plug (status "unplugged"), or by itself. The others are not to wait
# for one that is gone; one that is done stays connected until all are.
statuses=()
look_at() { # K
    local k=$1 own=$vm/$1
    if [[ -e $own/status ]]; then
        statuses[k]=$(<"$own/status")
    elif [[ -e $vm/share/unplug.$k ]]; then
        kill -KILL "${qemu[k]}"
        wait "${qemu[k]}" 2>/dev/null
        statuses[k]=unplugged
        mv "$vm/share/unplug.$k" "$vm/share/unplugged.$k"
    elif ! kill -0 "${qemu[k]}" 2>/dev/null; then
        statuses[k]=125
        echo "weft-vm: host $k has stopped; its last messages:" >&2
        tail -n 20 "$own/console" >&2
    else
        return
    fi
    : >"$vm/share/ready.$k"
    grep -a '^weft-vm: ' "$own/console" >&2
    cat "$own/trouble" >&2 2>/dev/null
    grep -aE 'WARNING:|BUG:|Oops' "$own/console" | sed "s/^/weft-vm: host $k: kernel: /" >&2
}
while ((${#statuses[@]} < hosts)); do
    for ((k = 0; k < hosts; k++)); do [[ ${statuses[k]-} ]] || look_at $k; done
    if ((SECONDS >= limit && ${#statuses[@]} < hosts)); then
        for ((k = 0; k < hosts; k++)); do [[ ${statuses[k]-} ]] || late+=" $k"; done
        echo "weft-vm: the time limit of $limit s has passed; not done: host${late}" >&2
        for k in $late; do tail -n 5 "$vm/$k/console" | sed "s/^/weft-vm: host $k: kernel: /" >&2; done
        for ((k = 0; k < hosts; k++)); do : "${statuses[k]:=124}"; done
    fi
    ((${#statuses[@]} == hosts)) || pause
done

# All output is in the readers' hands when the machines are gone.
kill -KILL "${qemu[@]}" "${switch[@]}" 2>/dev/null
wait "${qemu[@]}" "${switch[@]}" "${readers[@]}" 2>/dev/null
result=unplugged
for status in "${statuses[@]}"; do
    [[ $status == unplugged ]] || [[ $result != unplugged && $result != 0 ]] || result=$status
done
[[ $result == unplugged ]] && { echo "weft-vm: every host was unplugged" >&2; result=125; }
exit "$result"
