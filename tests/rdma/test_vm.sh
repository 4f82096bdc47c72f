#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The rig itself, tests/vm/run.sh: what comes back from a machine, and what a machine can do.
# hosts: 0
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
    # One that is done has received everything, and leaves the other alone with a last acknowledgement that may be lost.
    exchange() {
        timeout 30 ibv_rc_pingpong -d rxe0 -g 1 -n 50 -s 1024 >/dev/null & a=$!
        until grep -q ":4853 " /proc/net/tcp*; do sleep 0.05; done # 18515, where it listens
        timeout 30 ibv_rc_pingpong -d rxe1 -g 1 -n 50 -s 1024 10.7.0.1 >/dev/null & b=$!
        wait -n $a $b
        local status=$?
        kill $a $b 2>/dev/null
        wait
        return $status
    }
    exchange || exchange || exchange || exit 1 # Soft-RoCE itself ends a connection under loss now and then
    (($(tc -s qdisc show dev r0 | sed -n "s/.*dropped \([0-9]*\),.*/\1/p" | head -n 1) > 0)) && echo lossy
    # A program that leaves something of a device behind fails.
    tests/vm/resources.sh bash -c "exit 7"
    [[ $? == 7 ]] && tests/vm/resources.sh timeout 1 ibv_rc_pingpong -d rxe0 -g 1 >/dev/null
    [[ $? == 124 ]] && echo right
    tests/vm/resources.sh bash -c "ibv_rc_pingpong -d rxe0 -g 1 >/dev/null &
        until rdma resource show qp | grep -q ibv_rc; do sleep 0.1; done"; [[ $? == 1 ]]' \
    >"$work/out" 2>&1
status=$?
check "success is status 0" test $status = 0
check "two streams that are one keep their order" \
    cmp <(head -n 400 "$work/out") <(for i in {1..200}; do echo "$i"; echo "$i"; done)
said() { sed -n '/^lossy/,$p' "$work/out"; }
check "netem loses what devices send to each other, and they send it again" test "$(said | head -n 1)" = lossy
check "a program that leaves nothing of a device behind has its own status" test "$(said | sed -n 2p)" = right
check "one that does fails" test "$(said | sed -n 3p)" = "leak: RDMA objects before (<) and after (>) bash:"
check "it is told what" test "$(said | grep -c '^[<>] rxe0: pd [0-9]* cq .* ctx [0-9]')" = 2

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

# A run that is killed leaves its folder, and the next one removes it; that of a run that lives stays.
mkdir -p "$work/tmp/weft-vm.living"
(exec {lock}<"$work/tmp/weft-vm.living" && flock "$lock" && exec sleep 300) &
living=$!
while flock -n "$work/tmp/weft-vm.living" true; do sleep 0.05; done
TMPDIR=$work/tmp tests/vm/run.sh sleep 1000 >"$work/out" 2>"$work/err" &
killed=$!
until compgen -G "$work/tmp/weft-vm.*/0/console" >"$work/left"; do sleep 0.1; done
disown $killed
kill -KILL $killed
left=$(dirname "$(dirname "$(<"$work/left")")")
check "what is killed lets go of its folder" flock -w 20 "$left" true
check "what is killed leaves its folder" test -d "$left"
TMPDIR=$work/tmp vm --timeout 2 bash -c 'echo begun; sleep 1000'
status=$?
check "the time limit is status 124, and says so" test $status = 124
check "the time limit is named" err_has "time limit of 2 s has passed; not done: host 0"
check "only the folder of one that lives is left" test "$(ls "$work/tmp")" = weft-vm.living
kill $living
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

sum_up
