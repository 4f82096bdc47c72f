/* SPDX-License-Identifier: Apache-2.0 */
/* The range of a step, from the numbers of its chunks. Inline: every step has one. */
#ifndef WEFT_COMM_EXEC_LAYOUT_H
#define WEFT_COMM_EXEC_LAYOUT_H

#include "comm/exec/internal.h"

/* Where a chunk begins, for equal blocks and even collectives; c may be one past the last. */
static inline size_t weft_layout_position(const struct weft_layout *layout, uint32_t chunk)
{
    size_t start = layout->quotient * chunk;
    if (layout->remainder)
        start += layout->remainder * chunk / layout->chunks * layout->element_bytes;
    return start;
}

/* An unequal call's: only where all counts are known. */
static inline size_t weft_layout_place_of(const struct weft_layout *layout, uint32_t chunk)
{
    return layout->places ? layout->places[chunk] : 0;
}

static inline const struct weft_side *weft_layout_side(const struct weft_layout *layout, unsigned buffer)
{
    return buffer == WEFT_BUFFER_INPUT    ? &layout->input
           : buffer == WEFT_BUFFER_OUTPUT ? &layout->output
                                          : &layout->space;
}

/* Of an unequal call. layout.c */
size_t weft_layout_unequal_length(const struct weft_layout *layout, const struct weft_step *step);

static inline uint8_t *weft_layout_address(const struct weft_layout *layout, const struct weft_ref *ref,
                                           uint32_t chunk, size_t position)
{
    if (ref->buffer == WEFT_BUFFER_CELL)
        return layout->cells + ref->slot * layout->cell_bytes;
    if (layout->unequal && ref->buffer <= WEFT_BUFFER_OUTPUT) {
        const struct weft_side *side = weft_layout_side(layout, ref->buffer);
        return (uint8_t *)(layout->origins[ref->buffer] + (side->starts ? side->starts[chunk] : 0));
    }
    return (uint8_t *)(layout->origins[ref->buffer] + position);
}

/* What a message of the step carries beside its digest, where the whole operation's is `count`. */
static inline uint64_t weft_layout_count(const struct weft_layout *layout, uint64_t count,
                                         const struct weft_inflight *inflight)
{
    if (__builtin_expect(!layout->sized, 1))
        return count;
    return layout->paired
               ? weft_call_pair(layout->input.lengths[inflight->rank], layout->output.lengths[inflight->rank])
               : weft_call_with_size(count, inflight->length);
}

/* And what the other end's must. */
static inline uint64_t weft_layout_expected(const struct weft_layout *layout, uint64_t count,
                                            const struct weft_inflight *inflight)
{
    if (__builtin_expect(!layout->paired, 1))
        return weft_layout_count(layout, count, inflight);
    return weft_call_pair(layout->output.lengths[inflight->rank], layout->input.lengths[inflight->rank]);
}

/* Sets where the step's range lies. */
static inline void weft_layout_place(const struct weft_layout *layout, struct weft_inflight *inflight)
{
    const struct weft_step *step = &inflight->step;
    if (__builtin_expect(layout->unequal, 0)) {
        inflight->start = weft_layout_place_of(layout, step->chunk);
        inflight->length = weft_layout_unequal_length(layout, step);
    } else {
        inflight->start = weft_layout_position(layout, step->chunk);
        inflight->length = weft_layout_position(layout, step->chunk + step->span) - inflight->start;
    }
    if (step->kind != WEFT_STEP_SEND)
        inflight->target = weft_layout_address(layout, &step->destination, step->chunk, inflight->start);
    uint32_t from = step->chunk;
    size_t position = inflight->start;
    if (__builtin_expect(step->kind == WEFT_STEP_COPY && step->from != step->chunk, 0)) {
        from = step->from;
        position = layout->unequal ? weft_layout_place_of(layout, from) : weft_layout_position(layout, from);
    }
    for (int i = 0; i < step->source_count; i++)
        inflight->sources[i] = weft_layout_address(layout, &step->sources[i], from, position);
}

#endif
