#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Three hosts as network namespaces on one switch, which have IPv6 link-local addresses alone. Each calls its interface to the switch otherwise
# and numbers it otherwise, and one has two more links. Ranks meet by MASTER_ADDR in each of its forms, and by a file; the groups that
# they make meet too. What cannot be is refused.
unset RANK WORLD_SIZE MASTER_ADDR MASTER_PORT WEFT_PORT WEFT_BOOTSTRAP_FILE WEFT_TRANSPORT
source "$(dirname "$0")/../support/start.sh"
perf=$BUILD/weft-perf
[[ -x $perf ]] || { echo "SKIP: $perf is not built"; exit 77; }
command -v ip >/dev/null || { echo "SKIP: no ip command (iproute2)"; exit 77; }
tag=weftll$$
cleanup() {
    local host
    for host in a b c hub; do ip netns del "$tag$host" 2>/dev/null; done
    rm -rf "$work"
}
trap cleanup EXIT
declare -A nic=([a]=east [b]=west0 [c]=eth7) # to the switch

# on HOST COMMAND...: of ip, in a host's namespace.
on() {
    local host=$1
    shift
    ip -n "$tag$host" "$@"
}
# own_address HOST NIC ADDRESS: that and no other.
own_address() { on "$1" link set dev "$2" addrgenmode none up && on "$1" address add "$3/64" dev "$2" nodad; }
make_hosts() {
    local host
    ip netns add "${tag}hub" && on hub link add switch type bridge && on hub link set dev switch addrgenmode none up || return
    for host in a b c; do
        ip netns add "$tag$host" && on $host link set lo up || return
        # b has two links of its own, which come first; c has one end of something.
        [[ $host == b ]] && { on b link add pad0 type veth peer name pad1 && own_address b pad0 fe80::b0 &&
            own_address b pad1 fe80::b1 || return; }
        ip link add "${nic[$host]}" netns "$tag$host" type veth peer name "m$host" netns "${tag}hub" &&
            on hub link set dev "m$host" addrgenmode none master switch up && own_address $host "${nic[$host]}" "fe80::$host" || return
    done
}
if ! make_hosts 2>"$work/err"; then
    echo "SKIP: network namespaces are not allowed here: $(head -1 "$work/err")"
    exit 77
fi
(umask 077 && head -c 32 /dev/urandom >"$work/secret")
export WEFT_SECRET_FILE=$work/secret WEFT_PORT=29613 WEFT_TIMEOUT_MS=$((20000 * ${WEFT_TEST_PATIENCE:-1}))

# rank HOST NUMBER RANKS ADDRESS ARGUMENTS...: one rank of weft-perf. HERE in the address is the host's interface, NUMBER its number.
rank() {
    local host=$1 number=$2 ranks=$3 address=$4 index
    shift 4
    index=$(ip netns exec "$tag$host" cat "/sys/class/net/${nic[$host]}/ifindex")
    address=${address/HERE/${nic[$host]}}
    RANK=$number WORLD_SIZE=$ranks MASTER_ADDR=${address/NUMBER/$index} \
        timeout -k 5 100 ip netns exec "$tag$host" "$perf" "$@" </dev/null
}
# job NAME ADDRESS ARGUMENTS...: ranks 0 and 1 on host a, 2 on b, 3 on c.
job() {
    local name=$1 address=$2 number=0 host pid pids=() bad=0
    shift 2
    for host in a a b c; do
        rank $host $number 4 "$address" "$@" >"$work/out$number" 2>"$work/err$number" &
        pids+=($!)
        number=$((number + 1))
    done
    for pid in "${pids[@]}"; do wait "$pid" || bad=1; done
    cp "$work/out0" "$work/out"
    cat "$work"/err? >"$work/err"
    if [[ $bad == 0 ]] && grep -q '^# Out of bounds values : 0 OK$' "$work/out0"; then ok "$name"; else bad "$name"; fi
}
sum=(allreduce -b 8 -e 1M -f 32 -n 3 -w 1)
job "an interface by its name" fe80::a%HERE "${sum[@]}"
job "an address in brackets" '[fe80::a%HERE]' "${sum[@]}"
job "an interface by its number" fe80::a%NUMBER "${sum[@]}"
job "groups, and further communicators" fe80::a%HERE init -n 3
WEFT_TRANSPORT=tcp job "tcp inside a host too" fe80::a%HERE "${sum[@]}"
export WEFT_BOOTSTRAP_FILE=$work/meet
job "a file" fe80::a%HERE "${sum[@]}"
unset WEFT_BOOTSTRAP_FILE

# refused NAME ADDRESS ID FACTS...: at rank 0 and at another one, with the text that has this id in tests/golden/errors.txt. Neither has
# anybody to wait for.
refused() {
    local name=$1 address=$2 text number fact
    text=$(sed -n "s/^$3 //p" tests/golden/errors.txt)
    shift 3
    for fact in "$@"; do text=${text/"{}"/"$fact"}; done
    for number in 0 1; do
        rank b $number 2 "$address" allreduce >"$work/out" 2>"$work/err"
        if [[ $? == 3 && $(<"$work/err") == *": invalid argument: $text" ]]; then ok "$name, rank $number"; else
            bad "$name, rank $number: expected '$text'"
        fi
    done
}
refused "no interface" fe80::a address-no-scope '[fe80::a]:29613' fe80::a pad1 'pad1, pad0, west0'
refused "an interface of another host" fe80::a%east address-no-interface '[fe80::a%east]:29613' east 'lo, pad1, pad0, west0'
refused "a number that none has" '[fe80::a%99]' address-no-interface '[fe80::a%99]:29613' 99 'lo, pad1, pad0, west0'
refused "a global address with an interface" fd00::a%HERE address-other-scope '[fd00::a%west0]:29613' west0
sum_up
