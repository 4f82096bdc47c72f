#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Two hosts as network namespaces joined by a veth pair, two ranks on each: shared memory inside a host, libfabric
# between them; and a rank killed on one host is named on the other.
set -u
unset RANK WORLD_SIZE MASTER_ADDR WEFT_PORT
BUILD=${BUILD:-build}
perf=$BUILD/weft-perf
[[ -x $perf ]] || { echo "SKIP: $perf is not built"; exit 77; }
command -v ip >/dev/null || { echo "SKIP: no ip command (iproute2)"; exit 77; }
tag=weft$$
work=$(mktemp -d)
(umask 077 && head -c 32 /dev/urandom >"$work/secret")
export WEFT_SECRET_FILE=$work/secret
source tests/support/two_hosts.sh
trap 'two_hosts_end; rm -rf "$work"' EXIT
if ! two_hosts 10.98.0 2>"$work/err"; then
    echo "SKIP: network namespaces are not allowed here: $(head -1 "$work/err")"
    exit 77
fi
passed=0 failed=0 skipped=0
finish() {
    echo "$passed passed, $failed failed, $skipped skipped"
    [[ $failed == 0 ]]
    exit
}

# start PORT ARGUMENTS: four ranks, two on each host; pids in ${pids[@]}.
start() {
    local port=$1 rank host
    shift
    pids=()
    rm -f "$work"/out? "$work"/err? # of the scene before, which somebody may read until the ranks have begun
    for rank in 0 1 2 3; do
        host=$((rank < 2 ? 0 : 1))
        RANK=$rank WORLD_SIZE=4 MASTER_ADDR=10.98.0.1 WEFT_PORT=$port WEFT_OFI_PROVIDER=$provider \
            timeout -k 5 60 ip netns exec "$tag$([[ $host == 0 ]] && echo a || echo b)" "$perf" allreduce "$@" \
            >"$work/out$rank" 2>"$work/err$rank" </dev/null &
        pids+=($!)
    done
}

for provider in "tcp;ofi_rxm" net; do
    start 29611 --columns weft -b 8 -e 1M -f 32 -n 5 -w 2
    ends=()
    for pid in "${pids[@]}"; do
        wait "$pid"
        ends+=($?)
    done
    if grep -q 'install libfabric1' "$work"/err?; then
        skipped=$((skipped + 1))
        echo "SKIP: two hosts over $provider: $(cat "$work"/err? | grep -m 1 -o 'a library, device or file was not found.*')"
        continue
    fi
    if [[ ${ends[*]} == "0 0 0 0" && $(grep -cE 'shm\+ofi *$' "$work/out0") == 4 ]] &&
        grep -q '^# Out of bounds values : 0 OK$' "$work/out0"; then
        passed=$((passed + 1))
        echo "ok: two hosts over $provider"
    else
        failed=$((failed + 1))
        echo "FAILED: two hosts over $provider: ends ${ends[*]}"
        sed 's/^/    /' "$work/out0" "$work"/err? | tail -30
    fi
done

provider="tcp;ofi_rxm"
if [[ $skipped == 0 ]]; then
    start 29612 -b 1M -e 1M -n 1000000 -c 0
    # All have joined when rank 0 has printed the head of its table.
    while ! grep -qs '(GB/s)' "$work/out0" && kill -0 "${pids[0]}" 2>/dev/null; do sleep 0.1; done
    victim=$(pgrep -P "${pids[3]}" | head -1)
    kill -KILL "$victim"
    named=0
    for rank in 0 1 2; do
        wait "${pids[$rank]}"
        [[ $? == 3 ]] && grep -q 'rank 3 on host' "$work/err$rank" && named=$((named + 1))
    done
    wait "${pids[3]}"
    if [[ $named == 3 ]]; then
        passed=$((passed + 1))
        echo "ok: a rank killed on one host is named by the others"
    else
        failed=$((failed + 1))
        echo "FAILED: a killed rank was named by $named of 3"
        sed 's/^/    /' "$work"/err? | tail -20
    fi
fi
finish
