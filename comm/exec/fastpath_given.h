/* SPDX-License-Identifier: Apache-2.0 */
/* Operations of the cache-line path that a root gives, which may be ahead of the others: fastpath.h says how. */
#ifndef WEFT_COMM_EXEC_FASTPATH_GIVEN_H
#define WEFT_COMM_EXEC_FASTPATH_GIVEN_H

#include "comm/exec/fastpath_slots.h"

static inline const struct weft_slot_mark *weft_slot_mark_at(const struct weft_fastpath *fastpath,
                                                             uint32_t rank, uint32_t number)
{
    return (const struct weft_slot_mark *)(fastpath->published[rank] + weft_slot_marked(fastpath, number));
}

/* Whether a word is of that operation, or of one for which the slot has been used again: its owner had compared everybody's words of that
 * one before. */
static inline int weft_given_has_come_word(const struct weft_fastpath *fastpath, uint64_t word,
                                           uint32_t sequence)
{
    uint32_t later = (uint32_t)word - sequence;
    return word && later <= fastpath->sequence - sequence + WEFT_SLOTS_GIVEN;
}

/* Whether the next given operation may use its slot: everybody has come to the one behind the one that used it before. Without room the first
 * that is not settled is waited for. Counts may wrap. */
static inline int weft_given_has_room(const struct weft_fastpath *fastpath)
{
    return fastpath->given - fastpath->settled <= WEFT_FASTPATH_AHEAD_MAX;
}

static inline int weft_given_has_come(const struct weft_fastpath *fastpath, uint32_t rank, uint32_t number)
{
    uint64_t word =
        atomic_load_explicit(&weft_slot_mark_at(fastpath, rank, number)->word, memory_order_acquire);
    return weft_given_has_come_word(fastpath, word,
                                    (uint32_t)fastpath->expected[number % WEFT_SLOTS_GIVEN].word);
}

/* Compares what the others have published for given operations since, as far as all have come: WEFT_OK, or WEFT_MISMATCH. odd->peer is who has
 * not come, or is in another call. */
int weft_given_settle(struct weft_fastpath *fastpath, struct weft_fastpath_odd *odd);

#endif
