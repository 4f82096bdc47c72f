/* SPDX-License-Identifier: Apache-2.0 */
/* Runs the plans of all ranks on real data, one element at a time, in random order: the plain reading of
 * algos/plan.h, written without the cursor and without anything of the verifier.
 *
 * Only what plan.h promises is relied on: a window of steps entered in program order; a step waits for
 * earlier steps that it conflicts with (hazard.h); the k-th SEND to a rank meets the k-th RECV there; a SEND
 * is complete when its bytes were consumed. Receiving, reducing and copying read the sender's memory at the
 * very moment of each element, so anything that is overwritten too early shows as a wrong result. The data, their
 * layout and what must come of them are in plan_data.h.
 */
#ifndef WEFT_TESTS_PLAN_INTERPRETER_H
#define WEFT_TESTS_PLAN_INTERPRETER_H

#include <stddef.h>
#include <stdint.h>

#include "algos/plan.h"

enum interpreted { INTERPRETED_RIGHT, INTERPRETED_WRONG, INTERPRETED_STUCK, INTERPRETED_INVALID };

struct interpreter_options {
    uint32_t window;
    size_t count; /* elements; of blocks: in each, at most where they are unequal */
    uint64_t seed;
    int strict, ordered; /* how sums must have been put together */
    int eager; /* about half of the SENDs copy their bytes and complete at once, as small messages do */
};

/* INVALID: something out of bounds, or plainly against the contract. *why is a static text. */
enum interpreted plan_interpret(const struct weft_plan *const *plans, uint32_t ranks,
                                const struct interpreter_options *options, const char **why);

#endif
