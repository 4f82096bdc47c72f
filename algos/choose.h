/* SPDX-License-Identifier: Apache-2.0 */
/* Which algorithm an operation uses when the caller does not say: the cheapest by the cost model for the link
 * class and size, of those that can do what is asked; for allreduce with thresholds from settings. Pure and the same on
 * every rank for the same arguments. */
#ifndef WEFT_ALGOS_CHOOSE_H
#define WEFT_ALGOS_CHOOSE_H

#include "algos/plan.h"

struct weft_choice {
    enum weft_collective collective;
    uint32_t ranks;
    /* Even collectives: the data. Blocks: all ranks' blocks together, that is one block's bytes times ranks, or the sum
     * over all ranks where they are unequal (of no matter where ranks know their own counts only: they have no choice
     * then). All ranks must pass the same. */
    uint64_t bytes;
    int64_t algorithm; /* setting: an algorithm for the collectives that it serves, or WEFT_ALGO_AUTO */
    int64_t rd_bytes;  /* settings for allreduce: 0 lets the cost model decide, otherwise fixed thresholds */
    int64_t rab_bytes;
    int one_host;       /* all ranks on one host: shared memory link class, otherwise network */
    int oversubscribed; /* more ranks than processors on some host */
    int unequal;        /* struct weft_plan_request's */
    int strict;         /* likewise; ignored where nothing is reduced or the order of ranks must be kept */
    const struct weft_hosts *hosts; /* where ranks stand. NULL: not known, as one_host says */
    int keep_order; /* the operation does not commute: plans that keep the order of ranks, not strict ones */
};

/* One for several ranks on several hosts (hier, leader) only where the hosts are given and are such, or where it is fixed.
 * A fixed algorithm that cannot do what is asked (unequal, strict, keep_order) is passed over like one that does not
 * serve the collective. */
enum weft_algorithm weft_algorithm_choose(const struct weft_choice *choice);

#endif
