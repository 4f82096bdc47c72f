/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a barrier keeps anybody waiting. */
#ifndef WEFT_PERF_BARRIER_H
#define WEFT_PERF_BARRIER_H

#include <stdint.h>

#include "perf/measure.h"
#include "perf/session.h"

/* Calls call(arg), which is a barrier, on all ranks, one of them (the index-th, modulo ranks) late, and adds to *wrong
 * how many ranks of this rank's host had entered only after this rank left. 0; a negative weft status when the call
 * failed; 1 when the side channel did. */
int perf_barrier_check(struct perf_session *session, perf_call *call, void *arg, int index, uint64_t *wrong);

#endif
