/* SPDX-License-Identifier: Apache-2.0 */
/* How long a collective will take: what the choice of an algorithm rests on.
 *
 * The model has six numbers per link class: the time until the first byte of a message can be used by its
 * receiver (synchronisation, headers and the executor's own work included); the size above which a message is
 * offered and read where it lies, and how much longer the first byte takes then; the time per byte; the time per
 * byte of one reduction; and the time that must lie between two messages of a rank in one direction. Two ways to
 * use them:
 *
 *   weft_cost_estimate_ns()  a closed form per algorithm; a handful of multiplications, for choosing.
 *   weft_plans_cost()        evaluates real plans step by step, for weft-plan and for the tests that hold the
 *                            closed forms against it.
 *
 * What overlaps. Between hosts the network moves bytes in both directions at once, and reductions run beside
 * it. Within a host (receiver_copies) nothing moves by itself: the receiver's processor reads the peer's
 * memory, once, in its REDUCE or in a RECV into a buffer; so everything that a rank receives adds up.
 *
 * Doubles, but only +, * and / in a fixed order without contraction (-ffp-contract=off), so that all ranks
 * compute the same bits and make the same choice. Pure; threads: any.
 */
#ifndef WEFT_ALGOS_COST_H
#define WEFT_ALGOS_COST_H

#include "algos/plan.h"

struct weft_link_cost {
    const char *name;
    double latency_ns;
    double offer_ns; /* more, of a message of more than eager_bytes */
    uint64_t eager_bytes;
    double byte_ns;
    double reduce_byte_ns;
    uint64_t slice_bytes; /* pieces in which the executor pipelines large chunks */
    int receiver_copies;  /* the receiver's processor moves the bytes */
    double message_ns;    /* between the starts of two messages of one rank, beside their bytes */
};

/* The link class for a communicator: shared memory when all ranks are on one host, otherwise network.
 * Oversubscribed: more ranks than processors, so that each message may have to wait for a time slice. */
struct weft_link_cost weft_link_cost_of(int one_host, int oversubscribed);

/* From the start of a message of so many bytes until its first byte can be used. */
static inline double weft_message_ns(const struct weft_link_cost *link, double bytes)
{
    return link->latency_ns + (bytes > (double)link->eager_bytes ? link->offer_ns : 0);
}

/* Time of a collective. bytes: what a rank's larger buffer holds; of collectives made of blocks all ranks' blocks together
 * (struct weft_choice). The algorithm must serve the collective. */
double weft_cost_estimate_ns(enum weft_collective collective, enum weft_algorithm algorithm, uint32_t ranks,
                             uint64_t bytes, const struct weft_link_cost *link);

/* What messages cost within hosts and between them, and how many ports a host's ranks have together: the remote link is
 * one port's. */
struct weft_hosts_cost {
    struct weft_link_cost local, remote;
    uint32_t ports; /* 0: 1 */
};

/* The same for ranks on hosts that are joined in the hosts' order (algos/cost_hosts.c has the forms). */
double weft_cost_hosts_ns(enum weft_collective collective, enum weft_algorithm algorithm,
                          const struct weft_hosts *hosts, uint64_t bytes, const struct weft_hosts_cost *cost);

#endif
