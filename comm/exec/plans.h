/* SPDX-License-Identifier: Apache-2.0 */
/* The plans that a communicator uses, kept for the next call of the same kind.
 *
 * A plan depends on neither size nor type, so a program needs few; but roots and forms may be many, so at most
 * WEFT_PLANS_KEPT are kept, and the one that has not been used for longest goes. A plan in use stays until its last user
 * is through.
 */
#ifndef WEFT_COMM_EXEC_PLANS_H
#define WEFT_COMM_EXEC_PLANS_H

#include "algos/plan.h"

#define WEFT_PLANS_KEPT 64

struct weft_kept_plan {
    struct weft_plan *plan;
    uint64_t key;
    uint64_t used;  /* when, in requests */
    uint32_t users; /* operations that run it */
    int kept;       /* is in the table */
};

struct weft_plans {
    struct weft_kept_plan *table[WEFT_PLANS_KEPT];
    uint32_t count;
    uint64_t requests;
    uint64_t made; /* for tests: how often a plan was not there */
};

/* A plan for the request, whose ranks and rank are always the same. The caller gives it back with
 * weft_plans_put(). [lock] */
int weft_plans_get(struct weft_plans *plans, const struct weft_plan_request *request,
                   struct weft_kept_plan **plan);
/* NULL is allowed. [lock] */
void weft_plans_put(struct weft_kept_plan *plan);
/* Bytes that the table holds. */
size_t weft_plans_bytes(const struct weft_plans *plans);
/* Nothing is in use any more. */
void weft_plans_clear(struct weft_plans *plans);

#endif
