/* SPDX-License-Identifier: Apache-2.0 */
/* The time that plans take, by following every step: what the closed forms of algos/cost.h are compared with. */
#ifndef WEFT_ALGOS_PROOF_COST_PLAN_H
#define WEFT_ALGOS_PROOF_COST_PLAN_H

#include "algos/cost.h"
#include "algos/plan.h"

/* Evaluates the plans of all ranks, unsliced and without a window: when the last rank is done. The plans must
 * be ones that weft_plans_verify() accepts; WEFT_INVALID when they cannot be run, WEFT_NOMEM when there are
 * too many chunks to keep track of. */
int weft_plans_cost(const struct weft_plan *const *plans, uint32_t ranks, uint64_t bytes,
                    const struct weft_link_cost *link, double *time_ns);

/* The same for plans made for the hosts, each rank having a port of its own. */
int weft_plans_cost_hosts(const struct weft_plan *const *plans, const struct weft_hosts *hosts,
                          uint64_t bytes, const struct weft_hosts_cost *cost, double *time_ns);

#endif
