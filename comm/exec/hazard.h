/* SPDX-License-Identifier: Apache-2.0 */
/* Where a step in flight notes what it touches, and finds who has been there before. Inline: every step does both. What it then waits for
 * is worked out in hazard.c. */
#ifndef WEFT_COMM_EXEC_HAZARD_H
#define WEFT_COMM_EXEC_HAZARD_H

#include "algos/hazard.h"
#include "comm/exec/internal.h"

static inline uint64_t weft_hazards_enter_buckets(struct weft_exec_op *op, uint32_t chunk, uint32_t span,
                                                  uint64_t bit)
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

static inline void weft_hazards_leave_buckets(struct weft_exec_op *op, uint32_t chunk, uint32_t span,
                                              uint64_t bit)
{
    span = span < WEFT_BUCKETS ? span : WEFT_BUCKETS;
    for (uint32_t i = 0; i < span; i++)
        op->window->buckets[(chunk + i) % WEFT_BUCKETS] &= ~bit;
}

/* Cells are shared by all chunks: steps meet there whatever they hold. */
static inline uint64_t weft_hazards_enter_cells(struct weft_exec_op *op, unsigned touches, uint64_t bit)
{
    uint64_t found = 0;
    for (unsigned cells = touches >> WEFT_HAZARD_CELLS; cells; cells &= cells - 1) {
        uint64_t *users = &op->window->cell_users[__builtin_ctz(cells)];
        found |= *users;
        *users |= bit;
    }
    return found;
}

/* Enters the step where others look for it and returns which of them were there already. */
static inline uint64_t weft_hazards_meet(struct weft_exec_op *op, const struct weft_inflight *inflight,
                                         unsigned touches)
{
    const struct weft_step *step = &inflight->step;
    uint64_t bit = 1ULL << inflight->index;
    uint64_t found = weft_hazards_enter_buckets(op, step->chunk, step->span, bit);
    if (__builtin_expect(weft_step_moves(step), 0))
        found |= weft_hazards_enter_buckets(op, step->from, step->span, bit);
    if (touches >> WEFT_HAZARD_CELLS)
        found |= weft_hazards_enter_cells(op, touches, bit);
    return found & ~bit;
}

/* Of the steps found where this one goes, those that it has to wait for. hazard.c */
void weft_hazards_find(struct weft_exec_op *op, struct weft_inflight *inflight, uint64_t found);

/* Notes what the step reads and writes and finds the steps that it must wait for. */
static inline void weft_hazards_enter(struct weft_exec_op *op, struct weft_inflight *inflight)
{
    const struct weft_step *step = &inflight->step;
    unsigned writes = weft_step_writes(step, op->in_place), touches = weft_step_touches(step, op->in_place);
    inflight->waits = inflight->whole = 0;
    op->window->writes[inflight->index] = writes;
    op->window->touches[inflight->index] = touches;
    uint64_t found = touches ? weft_hazards_meet(op, inflight, touches) : 0;
    if (found)
        weft_hazards_find(op, inflight, found);
}

static inline void weft_hazards_leave(struct weft_exec_op *op, const struct weft_inflight *inflight)
{
    const struct weft_step *step = &inflight->step;
    uint64_t bit = 1ULL << inflight->index;
    weft_hazards_leave_buckets(op, step->chunk, step->span, bit);
    if (weft_step_moves(step))
        weft_hazards_leave_buckets(op, step->from, step->span, bit);
    for (unsigned cells = op->window->touches[inflight->index] >> WEFT_HAZARD_CELLS; cells;
         cells &= cells - 1)
        op->window->cell_users[__builtin_ctz(cells)] &= ~bit;
}

#endif
