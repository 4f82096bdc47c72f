/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of every collective between real ranks, against the reference of collective_case.h. In a body of test_ranks_*():
 * what is wrong is said on stderr. */
#ifndef WEFT_TESTS_COLLECTIVE_SWEEP_H
#define WEFT_TESTS_COLLECTIVE_SWEEP_H

#include <weft/weft.h>

#include "tests/support/case_device.h"

/* Where the buffers of the calls that follow are: sets kind, ordinal and where of device; kind NULL: host memory. NULL: host
 * memory always. For the calling thread. */
typedef void collective_place(uint32_t rank, uint32_t seed, struct case_device *device);
void collective_place_by(collective_place *place);

/* The stream of a device in which the calls that follow are made; when sync() has returned 0, results are there. NULL: none. For the
 * calling thread. */
struct collective_stream {
    const char *kind;
    void *stream;
    int (*sync)(void *stream);
};
void collective_stream_by(const struct collective_stream *stream);

/* One call with int32 and sums, blocking or started. 0, or 1. */
int collective_check(weft_comm *comm, const struct case_shape *shape, int started);

#define COLLECTIVES_ALL ((1u << WEFT_COLLECTIVE_COUNT) - 1)

/* Collectives (bit per enum weft_collective) with each of these counts: out of place and in place, blocking and started by all ranks or by some,
 * with equal blocks, with unequal ones and with gaps between them, sanitized a part of that; roots by the seed, which must be the same on all
 * ranks. 0, or 1 at the first that is wrong. */
int collective_sweep(weft_comm *comm, unsigned collectives, uint32_t seed, const size_t *counts,
                     size_t count);

#endif
