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
 *     H cross: their latency is the average, (H a + (n-H) a') / n. Other algorithms have all ranks of a host send to other
 *     hosts at a time, so that L/p of them share a port; that some of their rounds stay within hosts is left out, as it
 *     depends on how ranks are numbered
 */
#include "algos/cost.h"
#include "algos/hosts.h"

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
    return rounds * local->latency_ns + hosts->ranks * local->message_ns + share * (double)bytes * byte_ns;
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
    struct weft_link_cost link = cost->remote;
    double crossing = (double)hosts->count / hosts->ranks;
    if (weft_algorithm_follows_order(collective, algorithm) &&
        (algorithm == WEFT_ALGO_RING || algorithm == WEFT_ALGO_CHAIN))
        link.latency_ns = crossing * link.latency_ns + (1 - crossing) * cost->local.latency_ns;
    else if (size > ports)
        link.byte_ns = link.byte_ns * size / ports;
    return weft_cost_estimate_ns(collective, algorithm, hosts->ranks, bytes, &link);
}
