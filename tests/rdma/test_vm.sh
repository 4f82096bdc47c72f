#!/bin/bash
# The rig itself, tests/vm/run.sh: what comes back from a machine, and what a machine can do.
# hosts: 0
# timeout: 300
set -u
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
. tests/support/tally.sh
vm() { tests/vm/run.sh "$@" >"$work/out" 2>"$work/err"; }
check() { # NAME CONDITION...
    if "${@:2}" >/dev/null 2>&1; then ok "$1"; else bad "$1"; fi
}
err_has() { grep -q "$1" "$work/err"; }

# Status and streams: long ones, so that nothing may stay behind in a pipe, and one child that never ends.
export WEFT_WORD="two words"
BUILD=$work WORD2=no vm --env WORD3=yes bash -c '
    sleep 1000 &
    seq 30000
    seq 1000 >&2
    echo "$WEFT_WORD ${WORD2-unset} $WORD3" >"$0/words"
    touch "$PWD/written" || exit 4
    exit 3' "$work"
status=$?
check "the command's exit status" test $status = 3
check "its output, in order" cmp "$work/out" <(seq 30000)
check "its errors, in order" cmp "$work/err" <(seq 1000)
check "variables pass, and BUILD is written to" grep -qx "two words unset yes" "$work/words"
check "what is written elsewhere stays in the machine" test ! -e written

# Two streams that are one, and netem between the devices of one machine: packets are lost, what is sent arrives.
tests/vm/run.sh --timeout 120 bash -c '
    for i in {1..200}; do echo $i; echo $i >&2; done
    tc qdisc add dev r0 root netem loss 20% || exit 1
    timeout 90 ibv_rc_pingpong -d rxe0 -g 1 -n 50 -s 1024 >/dev/null & a=$!
    until grep -q ":4853 " /proc/net/tcp*; do sleep 0.05; done # 18515, where it listens
    timeout 90 ibv_rc_pingpong -d rxe1 -g 1 -n 50 -s 1024 10.7.0.1 >/dev/null & b=$!
    # One that is done has received everything, and leaves the other alone with a last acknowledgement that may be lost.
    wait -n $a $b || exit 1
    (($(tc -s qdisc show dev r0 | sed -n "s/.*dropped \([0-9]*\),.*/\1/p" | head -n 1) > 0)) && echo lossy
    kill $a $b 2>/dev/null; true' \
    >"$work/out" 2>&1
status=$?
check "success is status 0" test $status = 0
check "two streams that are one keep their order" \
    cmp <(head -n 400 "$work/out") <(for i in {1..200}; do echo "$i"; echo "$i"; done)
check "netem loses what devices send to each other, and they send it again" test "$(tail -n 1 "$work/out")" = lossy

# Two machines, then one.
vm --hosts 2 --timeout 120 bash -c '
    other=$((1 - WEFT_VM_HOST))
    busybox ping -c 1 -W 5 vm$other >/dev/null && echo sees $other
    : >$WEFT_VM_SHARE/seen$WEFT_VM_HOST
    until [[ -e $WEFT_VM_SHARE/seen$other ]]; do sleep 0.1; done
    if [[ $WEFT_VM_HOST == 1 ]]; then sleep 100; echo still here; exit; fi
    : >$WEFT_VM_SHARE/unplug.1
    until [[ -e $WEFT_VM_SHARE/unplugged.1 ]]; do sleep 0.1; done
    busybox ping -c 1 -W 1 vm1 >/dev/null || echo alone'
status=$?
if [[ $status == 77 ]]; then skip "$(sed 's/^SKIP: //' "$work/out")"; else
    check "two hosts see each other, and one whose plug is pulled is gone" \
        diff <(sort "$work/out") <(printf '%s\n' "[0] alone" "[0] sees 1" "[1] sees 0")
    check "the status is that of the host that stayed" test $status = 0
fi

vm --timeout 2 bash -c 'echo begun; sleep 1000'
status=$?
check "the time limit is status 124, and says so" test $status = 124
check "the time limit is named" err_has "time limit of 2 s has passed; not done: host 0"
vm --without rdma_rxe echo not reached
status=$?
check "a kernel without the device is status 125, and says so" test $status = 125
check "the device is named" err_has "host 0: no device rxe0"
vm --hosts two true
status=$?
check "a wrong option is status 126" test $status = 126
mkdir "$work/bin"
ln -s /usr/bin/* "$work/bin/"
rm -f "$work/bin/qemu-system-x86_64"
PATH=$work/bin vm true
status=$?
check "without QEMU there is a skip with its reason" test $status = 77
check "the reason names QEMU" grep -q "^SKIP: no virtual machine for RDMA: no qemu-system-x86_64 here" "$work/out"
# What was being unpacked when a run was killed: no kernel, though a folder of its name.
half=$work/cache/$(basename "$(dirname "$(tests/vm/kernel.sh | head -n 1)")")
mkdir -p "$half" "$work/cache/new.half"
touch "$half/kernel"
WEFT_VM_CACHE=$work/cache WEFT_VM_MIRROR=http://127.0.0.1:9/debian vm true
status=$?
check "an archive that cannot be reached is a skip with its reason" test $status = 77
check "the reason, although a half kernel lies there" grep -q "^SKIP: no virtual machine for RDMA: cannot fetch the kernel" "$work/out"

echo "$passed passed, $failed failed, $skipped skipped"
[[ $failed == 0 ]]
