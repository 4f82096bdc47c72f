/* SPDX-License-Identifier: Apache-2.0 */
/* Everything that a plan can be made for with a number of ranks: each collective by each algorithm that serves it, in
 * place and not, equal and unequal, strict and not, for some roots or all.
 *
 *     struct plan_cases cases = plan_cases_start(ranks, 3);
 *     while (plan_cases_next(&cases))
 *         ... cases.request (of rank 0) ...
 */
#ifndef WEFT_TESTS_PLAN_CASES_H
#define WEFT_TESTS_PLAN_CASES_H

#include "algos/plan.h"

struct plan_cases {
    struct weft_plan_request request;
    uint32_t roots;
    uint64_t next;
};

/* roots: how many of them, spread over the ranks. */
struct plan_cases plan_cases_start(uint32_t ranks, uint32_t roots);
/* The same for ranks that stand on hosts: only what follows their order, and so can differ. */
struct plan_cases plan_cases_on(const struct weft_hosts *hosts, uint32_t roots);
int plan_cases_next(struct plan_cases *cases);

#endif
