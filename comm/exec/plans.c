/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/exec/plans.h"

#include <stdlib.h>

#include "base/error.h"

_Static_assert(WEFT_ALGO_COUNT <= 16, "a key has four bits for the algorithm");

static uint64_t key_of(const struct weft_plan_request *request)
{
    return (uint64_t)(uint32_t)(request->root + 1) << 16 | (uint64_t)request->collective << 8 |
           (uint64_t)request->algorithm << 4 | (request->strict != 0) << 2 | (request->unequal != 0) << 1 |
           (request->in_place != 0);
}

static void free_plan(struct weft_kept_plan *plan)
{
    weft_plan_free(plan->plan);
    free(plan);
}

/* The place for a new plan: a free one, or that of the plan that has not been used for longest. */
static uint32_t make_room(struct weft_plans *plans)
{
    uint32_t oldest = 0;
    if (plans->count < WEFT_PLANS_KEPT)
        return plans->count++;
    for (uint32_t i = 1; i < WEFT_PLANS_KEPT; i++) {
        if (plans->table[i]->used < plans->table[oldest]->used)
            oldest = i;
    }
    plans->table[oldest]->kept = 0;
    if (plans->table[oldest]->users == 0)
        free_plan(plans->table[oldest]);
    return oldest;
}

static int make(struct weft_plans *plans, const struct weft_plan_request *request,
                struct weft_kept_plan **made)
{
    struct weft_kept_plan *plan = calloc(1, sizeof *plan);
    if (!plan)
        return weft_fail(WEFT_NOMEM, "no memory for a plan");
    int status = weft_plan_make(request, &plan->plan);
    if (status != WEFT_OK) {
        free(plan);
        return status;
    }
    plan->key = key_of(request);
    plan->kept = 1;
    plans->table[make_room(plans)] = plan;
    plans->made++;
    *made = plan;
    return WEFT_OK;
}

int weft_plans_get(struct weft_plans *plans, const struct weft_plan_request *request,
                   struct weft_kept_plan **got)
{
    uint64_t key = key_of(request);
    struct weft_kept_plan *plan = NULL;
    for (uint32_t i = 0; i < plans->count && !plan; i++) {
        if (plans->table[i]->key != key)
            continue;
        plan = plans->table[i];
        plans->table[i] = plans->table[0]; /* found at once next time */
        plans->table[0] = plan;
    }
    if (!plan) {
        int status = make(plans, request, &plan);
        if (status != WEFT_OK)
            return status;
    }
    plan->used = ++plans->requests;
    plan->users++;
    *got = plan;
    return WEFT_OK;
}

void weft_plans_put(struct weft_kept_plan *plan)
{
    if (plan && --plan->users == 0 && !plan->kept)
        free_plan(plan);
}

size_t weft_plans_bytes(const struct weft_plans *plans)
{
    size_t bytes = 0;
    for (uint32_t i = 0; i < plans->count; i++) {
        const struct weft_plan *plan = plans->table[i]->plan;
        bytes += sizeof *plans->table[i] + sizeof *plan + plan->step_count * sizeof plan->steps[0];
    }
    return bytes;
}

void weft_plans_clear(struct weft_plans *plans)
{
    for (uint32_t i = 0; i < plans->count; i++)
        free_plan(plans->table[i]);
    plans->count = 0;
}
