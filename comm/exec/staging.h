/* SPDX-License-Identifier: Apache-2.0 */
/* Whether ranks of one host stage what the others could read where it is.
 *
 * In a collective without a root both ends of a link copy at once. Then two copies through staging memory, which stays in a cache, may be faster than
 * one by the kernel, which looks up every page. Only measuring says which, and only where all ranks do the same: one that stages alone makes a copy more,
 * and still waits for the kernel's.
 *
 * So trials go by number. All ranks make the same calls, so the n-th call of a size is the n-th everywhere. A trial is a few calls in place and then a
 * few staged, at numbers that are the same on every rank, whatever has been seen. Each rank compares its own times, of which the least counts: a call
 * takes longer when others are late. It takes the other way from then on if that was clearly the faster one. Nothing is agreed, as
 * what is sent says how it goes. So where the ways are about as fast, ranks may come to different ends, which is slower than either and lasts until a trial
 * brings them together.
 *
 * A pure function of the costs that it is given: no clock, no other state. The caller serialises calls.
 */
#ifndef WEFT_COMM_EXEC_STAGING_H
#define WEFT_COMM_EXEC_STAGING_H

#include <stddef.h>
#include <stdint.h>

#include "algos/plan.h"

#define WEFT_STAGING_BYTES_MIN (64u << 10) /* of a call's buffer: below it calls are in place */
#define WEFT_STAGING_SIZES     10          /* up to 64 KiB, 128 KiB and so on; the last has all above */

/* In place, 0, or staged, 1. In place at first. */
struct weft_staging_choice {
    uint32_t calls, trial; /* that have begun, and the number of the next trial's first */
    uint32_t pause;        /* calls from a trial to the next */
    uint32_t cost_ns[2];   /* the least in this trial; 0: none */
    uint8_t taken;
    uint8_t pending; /* costs of the trial that are still to come */
};

struct weft_staging {
    struct weft_staging_choice
        sizes[WEFT_COLLECTIVE_COUNT]
             [WEFT_STAGING_SIZES]; /* costs are those of a call as large as the largest of its size */
};

void weft_staging_open(struct weft_staging *staging);
/* The way of the next call of so many bytes. *is_timed: its cost is wanted, and has to be given. */
int weft_staging_next(struct weft_staging *staging, enum weft_collective collective, size_t bytes,
                      int *is_timed);
/* What a call has taken; 0: it has not come to its end. Returns 1 where the other way is taken from now on. */
int weft_staging_observe(struct weft_staging *staging, enum weft_collective collective, size_t bytes,
                         int is_staged, int64_t cost_ns);

/* The way that is taken now, and what both have taken in the last trial for a call of *of_bytes, in ns; 0: not known. */
int weft_staging_costs(struct weft_staging *staging, enum weft_collective collective, size_t bytes,
                       uint64_t costs_ns[2], size_t *of_bytes);

#endif
