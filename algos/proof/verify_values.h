/* SPDX-License-Identifier: Apache-2.0 */
/* The values that the verifier computes with instead of elements. Internal to the verifier (see verify.h).
 *
 * A value remembers which contributions it holds (in the full method the sum of their random numbers, in the
 * rotation method the interval {start, length} of ranks), of which chunk of the callers' INPUT they are (its
 * label), and in which order they were put together (the hash of the expression; flags). Exact sets of ranks lie
 * beside, as bit sets, when there are few ranks. Memory is taken page by page as chunks are written, so a rank costs
 * what it holds, not what all ranks hold.
 */
#ifndef WEFT_ALGOS_PROOF_VERIFY_VALUES_H
#define WEFT_ALGOS_PROOF_VERIFY_VALUES_H

#include "algos/plan.h"

enum weft_value_flags {
    WEFT_VALUE_DEFINED = 1 << 0, /* something was written here */
    WEFT_VALUE_FINISHED = 1 << 1,
    WEFT_VALUE_ORDERED =
        1 << 2, /* full method: operands are the ranks [start, start + length), in this order */
};

struct weft_value {
    uint64_t sum;
    uint64_t trace;
    uint32_t start, length;
    uint32_t label;
    uint32_t flags;
};

/* One buffer of one rank: chunks (or cells) [first, first + count), in pages that are NULL until they are written. */
struct weft_area {
    uint32_t first, count;
    struct weft_value **pages;
};

struct weft_values {
    const struct weft_plan *const *plans;
    enum weft_collective collective;
    uint32_t ranks;
    uint32_t chunks;
    uint32_t runners; /* ranks whose values are kept: all, or rank 0 only */
    int rotation;
    int overlaps;                          /* contributions may be there more than once (barrier) */
    uint32_t words;                        /* of one exact set, 0 when sets are not kept */
    uint32_t followed_first, followed_end; /* chunks whose values are kept */
    uint64_t seed;
    uint64_t memory, memory_max;
    int exhausted;           /* more than memory_max would be needed */
    struct weft_area *areas; /* [runner * WEFT_AREAS + enum weft_area_kind] */
    uint64_t *sets;          /* two sets to work with */
};

enum weft_area_kind { WEFT_AREA_OUTPUT, WEFT_AREA_TEMP, WEFT_AREA_CELL, WEFT_AREAS };

/* Where a step reads: a buffer of a runner, `shift` chunks on from the step's own (modulo chunks), or a cell. For what
 * comes from another rank in the rotation method rank 0's own buffer stands for it, to be rotated by `rotate`. */
struct weft_spot {
    uint32_t runner;
    unsigned buffer;
    uint32_t cell;
    uint32_t shift;
    uint32_t rotate;
};

/* All plans have been checked, and so have the options. WEFT_NOMEM when more than memory_max bytes would be needed. */
struct weft_verify_options;
int weft_values_open(struct weft_values *values, const struct weft_plan *const *plans, uint32_t ranks,
                     int rotation, const struct weft_verify_options *options);
/* Puts the values back to the start: INPUT defined, everything else not. */
void weft_values_reset(struct weft_values *values);
void weft_values_close(struct weft_values *values);

/* Performs step for runner with the given sources: their combination in order is written to its destination.
 * NULL, or what is wrong (a thread-local text). *unsupported: the rotation method cannot say. */
const char *weft_values_apply(struct weft_values *values, uint32_t runner, const struct weft_step *step,
                              const struct weft_spot *sources, int source_count, int *unsupported);

/* What rank's INPUT holds at chunk at the start. */
struct weft_value weft_value_leaf(const struct weft_values *values, uint32_t rank, uint32_t chunk);
/* The number that stands for it in sums. */
uint64_t weft_value_number(const struct weft_values *values, uint32_t rank, uint32_t chunk);
/* The hash of "left op right"; offsets is 0 in the full method. */
uint64_t weft_value_trace(uint64_t left, uint64_t right, uint64_t offsets);
/* What runner's OUTPUT holds at chunk, and its exact set in *set (NULL when sets are not kept or nothing was written). */
struct weft_value weft_value_output(const struct weft_values *values, uint32_t runner, uint32_t chunk,
                                    const uint64_t **set);

/* Checks the final OUTPUTs against what the collective promises (verify_final.c). expected: WEFT_VERIFY_EXPECT_*, and
 * *found those of them that hold. NULL, or what is wrong; *rank says where. Without memory it is values->exhausted. */
const char *weft_values_final(struct weft_values *values, unsigned expected, unsigned *found, uint32_t *rank);

/* A thread-local text. */
const char *weft_values_complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
