#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Two ranks, one on rxe0 and one on rxe1, while the cable between them loses packets, delays them and changes their order:
# 1,000 allreduces and 1,000 messages per rank, every element checked.
set -u
. tests/support/rounds.sh
. tests/support/tally.sh
calm() { for device in r0 r1; do tc qdisc del dev $device root; done >"$work/tc" 2>&1; }
trap 'calm; rm -rf "$work"' EXIT
trap 'exit 143' TERM INT HUP
counter() { cat /sys/class/infiniband/rxe[01]/ports/1/hw_counters/"$1" | awk '{ sum += $1 } END { print sum }'; }

# Packets that went through the cable, and those that were not the one that was expected next.
crossed() {
    for device in r0 r1; do tc -s qdisc show dev $device; done | awk '/^ Sent/ { sum += $4 } END { print sum }'
}
disturbed() { echo $(($(counter out_of_seq_request) + $(counter duplicate_request) + $(counter rcvd_seq_err))); }

# scene NAME ROUNDS DISTURBED TIMEOUT NETEM...: ROUNDS times four allreduces and four messages, of 4 bytes to 80 KB; of all scenes
# together 1,000 each. What is lost at the end of a message is sent again after WEFT_VERBS_TIMEOUT, 14 is 67 ms. With a rate
# packets keep their order, but for those that `reorder` takes out.
port=21000
scene() {
    local name=$1 rounds_here=$2 least=$3 timeout=$4 rank status=0 ranks=() before packets device
    shift 4
    calm
    for device in r0 r1; do tc qdisc add dev $device root netem limit 10000 "$@" || status=1; done
    before=$(disturbed) SECONDS=0
    port=$((port + 1))
    for rank in 0 1; do
        RANK=$rank WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 WEFT_PORT=$port WEFT_SECRET_FILE=$work/secret \
            WEFT_VERBS_DEVICE=rxe$rank WEFT_VERBS_TIMEOUT=$timeout \
            timeout 110 "$rounds" "$rounds_here" >"$work/out.$rank" 2>&1 &
        ranks+=($!)
    done
    for rank in 0 1; do wait "${ranks[rank]}" || status=1; done
    cat "$work"/out.? >"$work/out"
    packets=$(crossed) before=$(($(disturbed) - before))
    local what="$name: $packets packets, $before not in their turn, $SECONDS s"
    if ((status == 0 && packets >= 8 * rounds_here && before >= least)); then ok "$what"; else bad "$what"; fi
}
scene "one packet in a hundred is lost" 120 10 14 loss 1%
scene "10 ms, more or less" 30 0 18 delay 10ms 2ms rate 10gbit
scene "other orders" 72 10 14 delay 1ms reorder 75% 50%
scene "all of that" 28 10 14 delay 10ms 2ms rate 10gbit loss 1% reorder 2% 50%
calm

sum_up
