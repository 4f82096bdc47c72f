/* SPDX-License-Identifier: Apache-2.0 */
/* Plans as text: for people, and as JSON for programs. Threads: any. */
#ifndef WEFT_ALGOS_PROOF_DUMP_H
#define WEFT_ALGOS_PROOF_DUMP_H

#include <stdio.h>

#include "algos/plan.h"

/* The header and the records, loop bodies indented. */
void weft_plan_dump(const struct weft_plan *plan, FILE *file);

/* The steps in program order with loops expanded, numbered as in the verifier's errors; at most max of them
 * (0: all). The plan must have passed weft_plan_check(). */
void weft_plan_dump_steps(const struct weft_plan *plan, FILE *file, uint64_t max);

/* The header and the records as one JSON object. */
void weft_plan_dump_json(const struct weft_plan *plan, FILE *file);

#endif
