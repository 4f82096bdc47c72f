/* SPDX-License-Identifier: Apache-2.0 */
/* Hazards between the flights of a window.
 *
 * A flight is compared with every one still active that may touch the same memory: where one writes what the other
 * touches, the later one waits (algos/hazard.h has the rule). It follows byte by byte where both work through the same
 * positions: it may process what lies below the earlier one's `visible` mark. A cell that holds another chunk, or a COPY
 * that moves its range, has nothing to follow: then the earlier flight must end first.
 */
#include "algos/hazard.h"
#include "comm/exec_internal.h"

size_t weft_flight_limit(const struct weft_exec_op *op, const struct weft_flight *flight)
{
    if (flight->waits & flight->whole)
        return 0;
    size_t end = flight->start + flight->length, limit = end;
    for (uint64_t mask = flight->waits; mask; mask &= mask - 1) {
        const struct weft_flight *earlier = &op->flights[__builtin_ctzll(mask)];
        size_t theirs = earlier->start + earlier->length;
        size_t reached = earlier->start + earlier->visible;
        if (reached < (theirs < end ? theirs : end) && reached < limit)
            limit = reached;
    }
    return limit > flight->start ? limit - flight->start : 0;
}

static uint64_t enter_buckets(struct weft_exec_op *op, uint32_t chunk, uint32_t span, uint64_t bit)
{
    uint64_t found = 0;
    span = span < WEFT_BUCKETS ? span : WEFT_BUCKETS;
    for (uint32_t i = 0; i < span; i++) {
        uint64_t *bucket = &op->window->buckets[(chunk + i) % WEFT_BUCKETS];
        found |= *bucket;
        *bucket |= bit;
    }
    return found;
}

static void leave_buckets(struct weft_exec_op *op, uint32_t chunk, uint32_t span, uint64_t bit)
{
    span = span < WEFT_BUCKETS ? span : WEFT_BUCKETS;
    for (uint32_t i = 0; i < span; i++)
        op->window->buckets[(chunk + i) % WEFT_BUCKETS] &= ~bit;
}

/* Cells are shared by all chunks: flights meet there whatever they hold. */
static uint64_t enter_cells(struct weft_exec_op *op, unsigned touches, uint64_t bit)
{
    uint64_t found = 0;
    for (unsigned cells = touches >> WEFT_HAZARD_CELLS; cells; cells &= cells - 1) {
        uint64_t *users = &op->window->cell_users[__builtin_ctz(cells)];
        found |= *users;
        *users |= bit;
    }
    return found;
}

/* Enters the flight where others look for it and returns which of them were there already. */
static uint64_t enter(struct weft_exec_op *op, const struct weft_flight *flight, unsigned touches)
{
    const struct weft_step *step = &flight->step;
    uint64_t bit = 1ULL << flight->index;
    uint64_t found = enter_buckets(op, step->chunk, step->span, bit);
    if (__builtin_expect(weft_step_moves(step), 0))
        found |= enter_buckets(op, step->from, step->span, bit);
    if (touches >> WEFT_HAZARD_CELLS)
        found |= enter_cells(op, touches, bit);
    return found & ~bit;
}

void weft_hazards_leave(struct weft_exec_op *op, const struct weft_flight *flight)
{
    const struct weft_step *step = &flight->step;
    uint64_t bit = 1ULL << flight->index;
    leave_buckets(op, step->chunk, step->span, bit);
    if (weft_step_moves(step))
        leave_buckets(op, step->from, step->span, bit);
    for (unsigned cells = op->window->touches[flight->index] >> WEFT_HAZARD_CELLS; cells; cells &= cells - 1)
        op->window->cell_users[__builtin_ctz(cells)] &= ~bit;
}

/* Whether what the two do at one position concerns the same byte. Outside cells chunks that meet have the same
 * positions. */
static int keeps_step(const struct weft_flight *earlier, unsigned earlier_touches,
                      const struct weft_flight *flight, unsigned touches)
{
    if (weft_step_moves(&earlier->step) || weft_step_moves(&flight->step))
        return 0;
    return (earlier_touches & touches) >> WEFT_HAZARD_CELLS == 0 ||
           (earlier->step.chunk == flight->step.chunk && earlier->step.span == flight->step.span);
}

void weft_hazards_enter(struct weft_exec_op *op, struct weft_flight *flight)
{
    const struct weft_step *step = &flight->step;
    unsigned writes = weft_step_writes(step, op->in_place), touches = weft_step_touches(step, op->in_place);
    flight->waits = flight->whole = 0;
    if (touches) {
        for (uint64_t mask = enter(op, flight, touches); mask; mask &= mask - 1) {
            int i = __builtin_ctzll(mask);
            struct weft_flight *earlier = &op->flights[i];
            if (!weft_memory_conflicts(&earlier->step, op->window->writes[i], op->window->touches[i], step,
                                       writes, touches, op->in_place))
                continue;
            flight->waits |= 1ULL << i;
            if (__builtin_expect(!keeps_step(earlier, op->window->touches[i], flight, touches), 0))
                flight->whole |= 1ULL << i;
            earlier->dependents |= 1ULL << flight->index;
        }
    }
    op->window->writes[flight->index] = writes;
    op->window->touches[flight->index] = touches;
}
