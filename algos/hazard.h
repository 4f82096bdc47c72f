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

static inline int weft_ref_overlaps(const struct weft_step *a, const struct weft_ref *x,
                                    const struct weft_step *b, const struct weft_ref *y, int in_place)
{
    if (weft_ref_buffer(x, in_place) != weft_ref_buffer(y, in_place))
        return 0;
    if (x->buffer == WEFT_BUFFER_SLOT)
        return x->slot == y->slot;
    return a->chunk < b->chunk + b->span && b->chunk < a->chunk + a->span;
}

/* Whether `later` must wait for `earlier`, both resolved (strides applied). */
static inline int weft_step_conflicts(const struct weft_step *earlier, const struct weft_step *later,
                                      int in_place)
{
    int earlier_writes = earlier->kind != WEFT_STEP_SEND;
    int later_writes = later->kind != WEFT_STEP_SEND;
    if (earlier_writes && later_writes &&
        weft_ref_overlaps(earlier, &earlier->destination, later, &later->destination, in_place))
        return 1;
    for (int i = 0; earlier_writes && i < later->source_count; i++) {
        if (weft_ref_overlaps(earlier, &earlier->destination, later, &later->sources[i], in_place))
            return 1;
    }
    for (int i = 0; later_writes && i < earlier->source_count; i++) {
        if (weft_ref_overlaps(earlier, &earlier->sources[i], later, &later->destination, in_place))
            return 1;
    }
    return 0;
}

#endif
