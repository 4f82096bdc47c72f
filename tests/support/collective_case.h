/* SPDX-License-Identifier: Apache-2.0 */
/* One call of any collective with known data: every rank's buffers, and what must be in them afterwards.
 *
 * A block's size is a function of the shape alone, so that ranks in different processes agree without talking. Elements
 * are int32; gaps between blocks and what lies behind a buffer hold a pattern that must stay.
 *
 * Ownership: case_make() allocates one rank's buffers, case_free() frees them.
 */
#ifndef WEFT_TESTS_COLLECTIVE_CASE_H
#define WEFT_TESTS_COLLECTIVE_CASE_H

#include <stddef.h>
#include <stdint.h>

#include "algos/plan.h"

struct case_shape {
    enum weft_collective collective;
    uint32_t ranks;
    int root; /* -1: the collective has none */
    size_t count;
    int in_place;
    int unequal; /* blocks differ, some are empty; 2: with gaps, and not in order */
    uint32_t seed;
};

/* One of a rank's buffers. */
struct case_buffer {
    int32_t *memory;          /* what is passed; NULL where the rank passes none */
    int32_t *whole;           /* what is allocated; NULL when it lies in the other buffer */
    size_t elements;          /* of whole */
    size_t *counts, *offsets; /* [ranks] in an unequal call; NULL: one block; offsets NULL: packed */
};

struct case_rank {
    struct case_buffer input, output;
    size_t count; /* as the call wants it: of everything or of a block; the own block's in an unequal call */
    int in_place; /* the rank has both buffers, in one memory */
};

void case_make(const struct case_shape *shape, uint32_t rank, struct case_rank *made);
void case_free(struct case_rank *made);

/* Elements that are not what they must be after the collective: results, and everything that had to stay. */
size_t case_wrong(const struct case_shape *shape, uint32_t rank, const struct case_rank *made);

/* "allgather of 3 ranks, 100 elements, unequal, in place" */
const char *case_name(const struct case_shape *shape, char *text, size_t capacity);

#endif
