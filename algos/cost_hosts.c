/* SPDX-License-Identifier: Apache-2.0 */
/* Closed forms for ranks on several hosts: those of cost.c for the parts. With L ranks on the largest host, H hosts, n
 * ranks, p ports per host, names as in cost.c, with ' within the host:
 *
 * allreduce
 *     hier     ring of L within the host  +  ring of H between hosts, with m/p bytes per port and m/L to reduce per rank
 *     leader   leader of L within the host  +  rd of H
 * broadcast
 *     hier     chain of H  +  a chain of L that a slice goes through
 *     leader   binomial of H  +  binomial of L
 * allgather, reduce-scatter
 *     hier     ring of H, as above  +  (L-1) a' + n h' + (L-1)/L m y', or x' where it reduces: a rank's messages of one
 *              round do not wait for each other
 * others
 *     ring, chain: as between hosts, for one stream enters and leaves each host, but of n messages one after the other only
 *     H cross: their latency is the average, (H a + (n-H) a') / n, and so is a chain's time per byte of a slice that goes
 *     through all ranks. Over k rings each carries m/k, through a port of its own while there are as many. A rank reduces,
 *     and within the host copies, all of m nevertheless, which is the least that it takes, beside the latencies. And its k
 *     messages of a round cannot follow each other faster than messages do, nor can rings run far ahead of each other: in a
 *     ring allreduce some ring of each rank waits for another host in each round, and its latency is a; in a chain reduce
 *     a host's ranks, which are passed in another turn in each ring, wait for each other with each of c chunks: 2 c (L-1) (a' +
 *     h') more. Other algorithms have all ranks of a host send to
 *     other hosts at a time, so that L/p of them share a port; that some of their rounds stay within hosts is left out, as it
 *     depends on how ranks are numbered
 */
#include "algos/cost.h"
#include "algos/rings.h"

static uint32_t largest(const struct weft_hosts *hosts)
{
    uint32_t size = 1;
    for (uint32_t i = 0; i < hosts->count; i++)
        size = weft_hosts_size(hosts, i) > size ? weft_hosts_size(hosts, i) : size;
    return size;
}

static double within_ns(const struct weft_hosts *hosts, uint32_t size, uint64_t bytes,
                        const struct weft_link_cost *local, int reduces)
{
    double byte_ns = local->byte_ns;
    if (reduces)
        byte_ns = local->receiver_copies ? local->reduce_byte_ns : byte_ns + local->reduce_byte_ns;
    double rounds = size - 1, share = rounds / size;
    return rounds * weft_message_ns(local, (double)bytes / hosts->ranks) + hosts->ranks * local->message_ns +
           share * (double)bytes * byte_ns;
}

/* The link between hosts where a whole host's bytes go through its ports, and its ranks share the reducing. */
static struct weft_link_cost shared(const struct weft_hosts_cost *cost, uint32_t size)
{
    struct weft_link_cost link = cost->remote;
    uint32_t ports = cost->ports < 1 ? 1 : cost->ports < size ? cost->ports : size;
    link.byte_ns /= ports;
    link.reduce_byte_ns /= size;
    return link;
}

static double hier_ns(enum weft_collective collective, const struct weft_hosts *hosts, uint32_t size,
                      uint64_t bytes, const struct weft_hosts_cost *cost)
{
    struct weft_link_cost across = shared(cost, size);
    const struct weft_link_cost *local = &cost->local;
    if (collective == WEFT_BROADCAST) {
        uint64_t slice = bytes < local->slice_bytes ? bytes : local->slice_bytes;
        double own = size > 1 ? weft_cost_estimate_ns(collective, WEFT_ALGO_CHAIN, size, slice, local) : 0;
        return weft_cost_estimate_ns(collective, WEFT_ALGO_CHAIN, hosts->count, bytes, &cost->remote) + own;
    }
    double ns = weft_cost_estimate_ns(collective, WEFT_ALGO_RING, hosts->count, bytes, &across);
    if (size == 1)
        return ns;
    if (collective == WEFT_ALLREDUCE)
        return ns + weft_cost_estimate_ns(collective, WEFT_ALGO_RING, size, bytes, local);
    return ns + within_ns(hosts, size, bytes, local, weft_collective_reduces(collective));
}

static double leader_ns(enum weft_collective collective, const struct weft_hosts *hosts, uint32_t size,
                        uint64_t bytes, const struct weft_hosts_cost *cost)
{
    enum weft_algorithm across = collective == WEFT_BROADCAST ? WEFT_ALGO_BINOMIAL : WEFT_ALGO_RD;
    double ns = weft_cost_estimate_ns(collective, across, hosts->count, bytes, &cost->remote);
    if (size > 1)
        ns += weft_cost_estimate_ns(collective, WEFT_ALGO_LEADER, size, bytes, &cost->local);
    return ns;
}

static double average(const struct weft_hosts *hosts, double across, double within)
{
    double crossing = (double)hosts->count / hosts->ranks;
    return crossing * across + (1 - crossing) * within;
}

/* What a rank's processor has to do with m bytes of a ring or chain, whatever the network does. */
static double processor_ns(enum weft_collective collective, const struct weft_hosts *hosts, uint64_t bytes,
                           const struct weft_link_cost *local)
{
    double each = weft_collective_reduces(collective) ? local->reduce_byte_ns : local->byte_ns;
    if (collective == WEFT_ALLREDUCE)
        each = (local->reduce_byte_ns + local->byte_ns) * (hosts->ranks - 1) / hosts->ranks;
    return each * (double)bytes;
}

/* Rings and chains, of which each ring of the hosts carries its share. */
static double rings_ns(enum weft_collective collective, enum weft_algorithm algorithm,
                       const struct weft_hosts *hosts, uint64_t bytes, const struct weft_hosts_cost *cost)
{
    uint32_t rings = weft_collective_blocks(collective) ? 1 : weft_hosts_rings(hosts);
    rings = collective == WEFT_REDUCE ? weft_chain_rings(rings) : rings;
    uint32_t ports = cost->ports < 1 ? 1 : cost->ports;
    uint64_t share = bytes / rings;
    struct weft_link_cost link = cost->remote;
    double gap_ns = rings * average(hosts, link.message_ns, cost->local.message_ns);
    uint32_t pieces = algorithm != WEFT_ALGO_CHAIN ? hosts->ranks
                      : collective == WEFT_REDUCE  ? weft_chain_chunks(rings)
                                                   : 1;
    double local_ns = weft_message_ns(&cost->local, (double)share / pieces);
    if (rings == 1 || algorithm == WEFT_ALGO_CHAIN)
        link.latency_ns = average(hosts, link.latency_ns, local_ns);
    if (rings > 1 && gap_ns > link.latency_ns)
        link.latency_ns = gap_ns;
    if (rings > ports)
        link.byte_ns *= (double)rings / ports;
    link.reduce_byte_ns *= rings;
    double ns, rest_ns = 0;
    if (algorithm == WEFT_ALGO_CHAIN) {
        double slice = (double)(share < link.slice_bytes ? share : link.slice_bytes), byte_ns = link.byte_ns;
        link.byte_ns = average(hosts, byte_ns, cost->local.byte_ns);
        rest_ns = ((double)share - slice) * (byte_ns - link.byte_ns);
    }
    if (rings > 1 && collective == WEFT_REDUCE)
        rest_ns +=
            2.0 * weft_chain_chunks(rings) * (largest(hosts) - 1) * (local_ns + cost->local.message_ns);
    ns = weft_cost_estimate_ns(collective, algorithm, hosts->ranks, share, &link) + rest_ns;
    double least_ns = weft_cost_estimate_ns(collective, algorithm, hosts->ranks, 0, &link) +
                      processor_ns(collective, hosts, bytes, &cost->local);
    return rings > 1 && least_ns > ns ? least_ns : ns;
}

double weft_cost_hosts_ns(enum weft_collective collective, enum weft_algorithm algorithm,
                          const struct weft_hosts *hosts, uint64_t bytes, const struct weft_hosts_cost *cost)
{
    uint32_t size = largest(hosts), ports = cost->ports < 1 ? 1 : cost->ports;
    if (hosts->count == 1)
        return weft_cost_estimate_ns(collective, algorithm, hosts->ranks, bytes, &cost->local);
    if (algorithm == WEFT_ALGO_HIER)
        return hier_ns(collective, hosts, size, bytes, cost);
    if (algorithm == WEFT_ALGO_LEADER)
        return leader_ns(collective, hosts, size, bytes, cost);
    if (weft_algorithm_follows_order(collective, algorithm) &&
        (algorithm == WEFT_ALGO_RING || algorithm == WEFT_ALGO_CHAIN))
        return rings_ns(collective, algorithm, hosts, bytes, cost);
    struct weft_link_cost link = cost->remote;
    if (size > ports)
        link.byte_ns = link.byte_ns * size / ports;
    return weft_cost_estimate_ns(collective, algorithm, hosts->ranks, bytes, &link);
}
