# SPDX-License-Identifier: Apache-2.0
# What a machine does after init.sh: sets up network and RDMA devices, runs the command, hands back its status.
# Sourced by the first process of the machine, with the variables that tests/vm/run.sh has written; $VM_HOST is from
# the kernel's command line.
# shellcheck shell=bash disable=SC2154
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
vm=/run/vm
own=$vm/$VM_HOST
# Static programs start several times faster than others under emulation.
for tool in mount mkdir ln mkfifo sleep sync hostname cat; do eval "$tool() { '$busybox' $tool \"\$@\"; }"; done

# Waits until these processes are gone, but not for ever: one that hangs in the kernel is named, and left to it.
await() { # SECONDS PROCESS...
    local tries=$(($1 * 10)) process state
    shift
    while kill -0 "$@" 2>/dev/null; do
        ((tries-- > 0)) || break
        sleep 0.1
    done
    ((tries < 0)) || return
    {
        echo "weft-vm: host $VM_HOST: the machine ends though $* still run"
        for process in /proc/[0-9]*; do
            state=$(<"$process/stat") && state=${state##*) }
            [[ $state != D* ]] || echo "weft-vm: host $VM_HOST: $(<"$process/comm") hangs: $(head -n 3 "$process/stack" | tr '\n' ' ')"
        done
    } >>"$own/trouble" 2>/dev/null
}

# The host ends the machine when it has seen the status, all machines at a time.
finish() { # STATUS
    sync &
    await 20 $!
    echo "$1" >"$own/status.new"
    "$busybox" mv "$own/status.new" "$own/status"
    while :; do sleep 1000; done
}
fail() {
    echo "weft-vm: host $VM_HOST: $1" >>"$own/trouble"
    finish 125
}

set_up_system() {
    local k
    hostname "vm$VM_HOST"
    {
        echo "127.0.0.1 localhost"
        for ((k = 0; k < hosts; k++)); do echo "10.7.0.$((k + 1)) vm$k"; done
    } >/etc/hosts
    ulimit -l unlimited
    ulimit -c 0
    ln -s /proc/self/fd /dev/fd
    ln -s fd/0 /dev/stdin
    ln -s fd/1 /dev/stdout
    ln -s fd/2 /dev/stderr
    if [[ $writable ]]; then
        mount -t 9p -o trans=virtio,version=9p2000.L,msize=512000,cache=mmap build "$writable" ||
            fail "cannot write to $writable"
    fi
}

# One machine: both ends of a veth pair carry a device each. They are in one name space, so the kernel has to accept
# packets from its own addresses. Several machines: a device each, on the segment that they share.
set_up_network() {
    local ipv4=/proc/sys/net/ipv4/conf
    echo 0 >$ipv4/all/rp_filter
    echo 0 >$ipv4/default/rp_filter
    echo 0 >/proc/sys/net/ipv6/conf/default/accept_dad
    if ((hosts == 1)); then
        echo 1 >$ipv4/default/accept_local
        ip -batch - <<END
link set lo up
link add r0 mtu 9000 type veth peer name r1 mtu 9000
addr add 10.7.0.1/24 dev r0
addr add 10.7.0.2/24 dev r1
link set r0 up
link set r1 up
END
    else
        ip -batch - <<END
link set lo up
link set eth0 name r0 mtu 9000
addr add 10.7.0.$((VM_HOST + 1))/24 dev r0
link set r0 up
END
    fi
}

# After the network is up: a device on an interface without carrier would start as down. Its port becomes active,
# and the GID of the IPv4 address appears, a moment later.
set_up_devices() {
    local device answer state gid tries
    for device in ${devices//,/ }; do
        answer=$(rdma link add "$device" type rxe netdev "r${device#rxe}" 2>&1) ||
            fail "no device $device: ${answer:-rdma link add failed}"
        for ((tries = 0; ; tries++)); do
            read -r _ state </sys/class/infiniband/"$device"/ports/1/state
            read -r gid </sys/class/infiniband/"$device"/ports/1/gids/1
            [[ $state == ACTIVE && $gid == *:ffff:* ]] && break
            ((tries < 250)) || fail "device $device is ${state:-not there}, its second GID is ${gid:-not there}"
            sleep 0.02
        done
    done 2>/dev/null
}

# No machine starts its command before all are up.
wait_for_others() {
    local k
    : >"$vm/share/ready.$VM_HOST"
    for ((k = 0; k < hosts; k++)); do
        until [[ -e $vm/share/ready.$k ]]; do sleep 0.05; done
    done
}

# The ports to the host can be opened only once, so copiers stand between them and the command. At the end all that
# the command has left running is killed, which ends what the copiers have to copy.
run_command() {
    local copiers=() process status
    mkfifo /run/out /run/err
    cat /run/out >/dev/vport0p1 &
    copiers+=($!)
    if ((one_stream)); then
        exec 8>/run/out 9>&8
    else
        cat /run/err >/dev/vport0p2 &
        copiers+=($!)
        exec 8>/run/out 9>/run/err
    fi
    (cd "$folder" && exec "${command[@]}") </dev/null >&8 2>&9 8>&- 9>&-
    status=$?
    exec 8>&- 9>&-
    for process in /proc/[0-9]*; do
        process=${process#/proc/}
        [[ " 1 ${copiers[*]} " == *" $process "* ]] || kill -KILL "$process"
    done 2>/dev/null
    await 20 "${copiers[@]}"
    finish "$status"
}

devices=rxe0
((hosts == 1)) && devices=rxe0,rxe1
set_up_system
set_up_network
set_up_devices
. $vm/environment
export WEFT_VM=1 WEFT_VM_HOST=$VM_HOST WEFT_VM_HOSTS=$hosts WEFT_VM_SHARE=$vm/share WEFT_RDMA_DEVICE=$devices
# By default libfabric's verbs;ofi_rxm asks for more completion entries than rxe has (32,767).
export FI_UNIVERSE_SIZE=${FI_UNIVERSE_SIZE:-32}
wait_for_others
run_command
