/* Which steps must wait for which: the one rule that executor and verifier share.
 *
 * A step must wait for an earlier one when one of them writes what the other reads or writes: the same
 * elements of INPUT, OUTPUT or TEMP (INPUT being OUTPUT in an in-place plan), or the same slot. Emptying a
 * slot counts as writing it.
 */
#ifndef WEFT_ALGOS_HAZARD_H
#define WEFT_ALGOS_HAZARD_H

#include "algos/plan.h"

/* The buffer that a reference really touches. */
static inline unsigned weft_ref_buffer(const struct weft_ref *ref, int in_place)
{
    return in_place && ref->buffer == WEFT_BUFFER_INPUT ? WEFT_BUFFER_OUTPUT : ref->buffer;
}

/* The memory that a step writes, and what it reads or writes, as bits by enum weft_buffer. Slots are not
 * memory. */
static inline unsigned weft_step_writes(const struct weft_step *step, int in_place)
{
    if (step->kind == WEFT_STEP_SEND || step->destination.buffer == WEFT_BUFFER_SLOT)
        return 0;
    return 1u << weft_ref_buffer(&step->destination, in_place);
}

static inline unsigned weft_step_touches(const struct weft_step *step, int in_place)
{
    unsigned touches = weft_step_writes(step, in_place);
    for (int i = 0; i < step->source_count; i++) {
        if (step->sources[i].buffer != WEFT_BUFFER_SLOT)
            touches |= 1u << weft_ref_buffer(&step->sources[i], in_place);
    }
    return touches;
}

/* Whether two steps conflict in memory, given what they write and touch: the rule itself. */
static inline int weft_memory_conflicts(const struct weft_step *a, unsigned a_writes, unsigned a_touches,
                                        const struct weft_step *b, unsigned b_writes, unsigned b_touches)
{
    return a->chunk < b->chunk + b->span && b->chunk < a->chunk + a->span &&
           ((a_writes & b_touches) | (b_writes & a_touches)) != 0;
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
                              weft_step_touches(later, in_place)))
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
