/* SPDX-License-Identifier: Apache-2.0 */
/* Hazards between the steps of a window.
 *
 * A step in flight is compared with every one still active that may touch the same memory: where one writes what the other
 * touches, the later one waits (algos/hazard.h has the rule). It follows byte by byte where both work through the same
 * positions: it may process what lies below the earlier one's `visible` mark. A cell that holds another chunk, or a COPY
 * that moves its range, has nothing to follow, nor has a step on an empty block: then the earlier step must end first.
 */
#include "comm/exec/hazard.h"

size_t weft_inflight_limit_of_waits(const struct weft_exec_op *op, const struct weft_inflight *inflight)
{
    if (inflight->waits & inflight->whole)
        return 0;
    size_t end = inflight->start + inflight->length, limit = end;
    for (uint64_t mask = inflight->waits; mask; mask &= mask - 1) {
        const struct weft_inflight *earlier = &op->in_flight[__builtin_ctzll(mask)];
        size_t theirs = earlier->start + earlier->length;
        size_t reached = earlier->start + earlier->visible;
        if (reached < (theirs < end ? theirs : end) && reached < limit)
            limit = reached;
    }
    return limit > inflight->start ? limit - inflight->start : 0;
}

/* Whether what the two do at one position concerns the same byte. Outside cells chunks that meet have the same
 * positions. */
static int keeps_step(const struct weft_inflight *earlier, unsigned earlier_touches,
                      const struct weft_inflight *inflight, unsigned touches)
{
    if (weft_step_moves(&earlier->step) || weft_step_moves(&inflight->step) || !earlier->length)
        return 0;
    return (earlier_touches & touches) >> WEFT_HAZARD_CELLS == 0 ||
           (earlier->step.chunk == inflight->step.chunk && earlier->step.span == inflight->step.span);
}

void weft_hazards_find(struct weft_exec_op *op, struct weft_inflight *inflight, uint64_t found)
{
    unsigned writes = op->window->writes[inflight->index], touches = op->window->touches[inflight->index];
    for (uint64_t mask = found; mask; mask &= mask - 1) {
        int i = __builtin_ctzll(mask);
        struct weft_inflight *earlier = &op->in_flight[i];
        if (!weft_memory_conflicts(&earlier->step, op->window->writes[i], op->window->touches[i],
                                   &inflight->step, writes, touches, op->in_place))
            continue;
        inflight->waits |= 1ULL << i;
        if (__builtin_expect(!keeps_step(earlier, op->window->touches[i], inflight, touches), 0))
            inflight->whole |= 1ULL << i;
        earlier->dependents |= 1ULL << inflight->index;
    }
}
