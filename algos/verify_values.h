/* The values that the verifier computes with instead of elements. Internal to the verifier (see verify.h).
 *
 * A cell is 16 bytes. `origin` says which contributions it holds: in the full method their random numbers'
 * sum, in the rotation method the interval {start, length} of ranks. `trace` is the hash of the expression,
 * whose two lowest bits are state flags. Exact sets lie beside, as bit sets, when there are few ranks.
 */
#ifndef WEFT_ALGOS_VERIFY_VALUES_H
#define WEFT_ALGOS_VERIFY_VALUES_H

#include "algos/plan.h"

#define WEFT_CELL_DEFINED  1u /* something was written here */
#define WEFT_CELL_FINISHED 2u
#define WEFT_CELL_FLAGS    3u

struct weft_cell {
    uint64_t origin;
    uint64_t trace;
};

struct weft_values {
    const struct weft_plan *const *plans;
    uint32_t ranks;
    uint32_t chunks;
    uint32_t lanes; /* ranks whose values are kept: all, or rank 0 only */
    int rotation;
    uint32_t words; /* of one exact set, 0 when sets are not kept */
    uint64_t seed;
    struct weft_cell **cells; /* [lane * 2 + (TEMP ? 1 : 0)][chunk] */
    uint64_t **sets;          /* likewise, words per chunk */
};

/* Where a step reads: a buffer of a lane. For what comes from another rank in the rotation method, rank 0's
 * own chunk `shift` further stands for it, to be rotated by `rotate`. */
struct weft_place {
    uint32_t lane;
    unsigned buffer;
    uint32_t shift;
    uint32_t rotate;
};

/* All plans have been checked. WEFT_NOMEM when more than memory_max bytes would be needed. */
int weft_values_open(struct weft_values *values, const struct weft_plan *const *plans, uint32_t ranks,
                     int rotation, uint64_t seed, uint64_t memory_max);
/* Puts the values back to the start: INPUT defined, everything else not. */
void weft_values_reset(struct weft_values *values);
void weft_values_close(struct weft_values *values);

/* Performs step for lane with the given sources: their combination in order is written to its destination.
 * NULL, or what is wrong (a thread-local text). *unsupported: the rotation method cannot say. */
const char *weft_values_apply(struct weft_values *values, uint32_t lane, const struct weft_step *step,
                              const struct weft_place *sources, int source_count, int *unsupported);

/* Checks the final OUTPUTs. NULL, or what is wrong; *rank says where. */
const char *weft_values_final(const struct weft_values *values, uint32_t *rank);

#endif
