/* SPDX-License-Identifier: Apache-2.0 */
/* Which steps must wait for which: the one rule that executor and verifier share.
 *
 * A step must wait for an earlier one when one of them writes what the other reads or writes: the same
 * elements of INPUT, OUTPUT or TEMP (INPUT being OUTPUT in an in-place plan), the same cell, or the same slot.
 * Emptying a slot counts as writing it.
 */
#ifndef WEFT_ALGOS_HAZARD_H
#define WEFT_ALGOS_HAZARD_H

#include "algos/plan.h"

/* The buffer that a reference really touches. */
static inline unsigned weft_ref_buffer(const struct weft_ref *ref, int in_place)
{
    return in_place && ref->buffer == WEFT_BUFFER_INPUT ? WEFT_BUFFER_OUTPUT : ref->buffer;
}

/* What a reference touches, as one bit: by enum weft_buffer, or one per cell. Slots are not memory: 0. */
#define WEFT_HAZARD_CELLS 8 /* the first bit that stands for a cell */
static inline unsigned weft_ref_bit(const struct weft_ref *ref, int in_place)
{
    if (ref->buffer == WEFT_BUFFER_SLOT)
        return 0;
    if (ref->buffer == WEFT_BUFFER_CELL)
        return 1u << (WEFT_HAZARD_CELLS + ref->slot % WEFT_CELLS_MAX);
    return 1u << weft_ref_buffer(ref, in_place);
}

/* The memory that a step writes, and what it reads or writes. */
static inline unsigned weft_step_writes(const struct weft_step *step, int in_place)
{
    return step->kind == WEFT_STEP_SEND ? 0 : weft_ref_bit(&step->destination, in_place);
}

static inline unsigned weft_step_reads(const struct weft_step *step, int in_place)
{
    unsigned reads = 0;
    for (int i = 0; i < step->source_count; i++)
        reads |= weft_ref_bit(&step->sources[i], in_place);
    return reads;
}

static inline unsigned weft_step_touches(const struct weft_step *step, int in_place)
{
    return weft_step_writes(step, in_place) | weft_step_reads(step, in_place);
}

/* Whether the step is a COPY that moves its range. */
static inline int weft_step_moves(const struct weft_step *step)
{
    return step->kind == WEFT_STEP_COPY && step->from != step->chunk;
}

static inline int weft_ranges_meet(uint32_t a, uint32_t a_span, uint32_t b, uint32_t b_span)
{
    return a < b + b_span && b < a + a_span;
}

/* The same rule where one of the steps moves its range: what each reads lies elsewhere than what it writes. */
static inline int weft_moved_conflicts(const struct weft_step *a, unsigned a_writes, unsigned a_touches,
                                       const struct weft_step *b, unsigned b_writes, unsigned b_touches,
                                       int in_place)
{
    uint32_t a_from = weft_step_moves(a) ? a->from : a->chunk;
    uint32_t b_from = weft_step_moves(b) ? b->from : b->chunk;
    const unsigned cells = ~0u << WEFT_HAZARD_CELLS;
    unsigned a_reads = weft_step_reads(a, in_place), b_reads = weft_step_reads(b, in_place);
    if (((a_writes & b_touches) | (b_writes & a_touches)) & cells)
        return 1;
    return (a_writes & b_writes && weft_ranges_meet(a->chunk, a->span, b->chunk, b->span)) ||
           (a_writes & b_reads && weft_ranges_meet(a->chunk, a->span, b_from, b->span)) ||
           (b_writes & a_reads && weft_ranges_meet(b->chunk, b->span, a_from, a->span));
}

/* Whether two steps conflict in memory, given what they write and touch: the rule itself. A cell is the same
 * whatever chunk it holds. */
static inline int weft_memory_conflicts(const struct weft_step *a, unsigned a_writes, unsigned a_touches,
                                        const struct weft_step *b, unsigned b_writes, unsigned b_touches,
                                        int in_place)
{
    unsigned both = (a_writes & b_touches) | (b_writes & a_touches);
    if (!both)
        return 0;
    if (__builtin_expect(weft_step_moves(a) || weft_step_moves(b), 0))
        return weft_moved_conflicts(a, a_writes, a_touches, b, b_writes, b_touches, in_place);
    return both >> WEFT_HAZARD_CELLS != 0 || weft_ranges_meet(a->chunk, a->span, b->chunk, b->span);
}

/* Whether the step names this slot, as destination or as source. */
static inline int weft_step_uses_slot(const struct weft_step *step, unsigned slot)
{
    if (step->kind != WEFT_STEP_SEND && step->destination.buffer == WEFT_BUFFER_SLOT &&
        step->destination.slot == slot)
        return 1;
    for (int i = 0; i < step->source_count; i++) {
        if (step->sources[i].buffer == WEFT_BUFFER_SLOT && step->sources[i].slot == slot)
            return 1;
    }
    return 0;
}

/* Whether `later` must wait for `earlier`, both resolved (strides applied). Any use of a slot fills or
 * empties it. The executor renames slots and needs only the memory part; the verifier keeps both. */
static inline int weft_step_conflicts(const struct weft_step *earlier, const struct weft_step *later,
                                      int in_place)
{
    if (weft_memory_conflicts(earlier, weft_step_writes(earlier, in_place),
                              weft_step_touches(earlier, in_place), later, weft_step_writes(later, in_place),
                              weft_step_touches(later, in_place), in_place))
        return 1;
    if (later->kind != WEFT_STEP_SEND && later->destination.buffer == WEFT_BUFFER_SLOT &&
        weft_step_uses_slot(earlier, later->destination.slot))
        return 1;
    for (int i = 0; i < later->source_count; i++) {
        if (later->sources[i].buffer == WEFT_BUFFER_SLOT &&
            weft_step_uses_slot(earlier, later->sources[i].slot))
            return 1;
    }
    return 0;
}

#endif
