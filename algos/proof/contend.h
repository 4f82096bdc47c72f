/* SPDX-License-Identifier: Apache-2.0 */
/* How long plans take where messages share links: the order of ranks laid over a fabric, priced.
 *
 * weft_plans_cost() gives every rank a network of its own. Here ranks have places (topo/order.h) and what crosses the
 * fabric at the same time shares it. Time passes in rounds: in each, every rank goes on until it needs a message that
 * has not come; all messages of a round start together, and it ends when the last has arrived:
 *
 *     round = latency + max( over links of the fabric: bytes on it / its bandwidth,
 *                            over ranks: bytes from ranks of its host x local_byte_ns )
 *
 * Bytes between hosts divide evenly over all shortest routes (topo/order.h, struct weft_load). That is the bulk-
 * synchronous view (Valiant 1990, CACM 33(8)): exact for algorithms in which all ranks do alike, such as rings, and an upper
 * bound for others, whose rounds would overlap. Reductions and what the executor does are left out; so is slicing.
 *
 * Rounds of a loop that send between the same ranks as the one before cost the same and are multiplied, not repeated: a
 * ring of 16,384 ranks has 32,766 rounds, of which a handful are looked at.
 *
 * Links of unknown bandwidth cost nothing: the result is then a lower bound. Pure; threads: any.
 */
#ifndef WEFT_ALGOS_PROOF_CONTEND_H
#define WEFT_ALGOS_PROOF_CONTEND_H

#include "algos/cost.h"
#include "topo/order.h"

struct weft_contention_request {
    const struct weft_plan *const *plans; /* [ranks] */
    uint32_t ranks;
    uint64_t bytes; /* as for weft_plans_cost() */
    const struct weft_graph *graph;
    const struct weft_place *places; /* [ranks] */
    const uint32_t *nic;             /* [ranks]: weft_order_nics() */
    double latency_ns;               /* of a message between hosts */
    double local_latency_ns;         /* and within one */
    double local_byte_ns;            /* within a host, at the rank that receives; 0: free */
};

struct weft_contention {
    double time_ns;
    uint64_t rounds;
    uint64_t rounds_priced; /* those that differed from the one before */
    double fabric_ns;       /* of the time: bytes on the fabric's narrowest link of each round */
    uint32_t narrowest;     /* the edge that cost most of it, WEFT_NODE_NONE: none */
};

/* WEFT_INVALID when the plans wait for ever; WEFT_NOMEM. */
int weft_plans_contend(const struct weft_contention_request *request, struct weft_contention *contention);

#endif
