/* SPDX-License-Identifier: Apache-2.0 */
/* Recursive doubling among some of a plan's ranks. Internal to algos/; rd.c explains the algorithm. */
#ifndef WEFT_ALGOS_RD_H
#define WEFT_ALGOS_RD_H

#include "algos/generators.h"

struct weft_rd {
    uint32_t ranks, rank;  /* of those who take part, at least 1 */
    const uint32_t *names; /* what each of them is called in the plan; NULL: as it is numbered */
    struct weft_ref mine;  /* the rank's contribution: INPUT, or what weft_rd_start() says */
    int strict, in_place;  /* struct weft_plan_request */
};

/* Where a contribution that is not INPUT itself has to be put. */
struct weft_ref weft_rd_start(const struct weft_rd *rd);

/* The steps, on the one chunk 0 and with slots 0 and 1; the result is in OUTPUT, finished. Of one rank: none. */
void weft_rd_exchange(struct weft_builder *builder, const struct weft_rd *rd);

#endif
