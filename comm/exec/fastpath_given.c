/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/exec/fastpath_given.h"

#include <stdio.h>
#include <string.h>

#include "comm/exec/mismatch.h"

static struct weft_call call_of(const struct weft_fastpath *fastpath, uint32_t number)
{
    const struct weft_slot_given *expected = &fastpath->expected[number % WEFT_SLOTS_GIVEN];
    struct weft_call call = weft_call_of_digest((uint32_t)(expected->word >> 32));
    call.sequence = expected->sequence;
    call.count = expected->count;
    call.root = expected->root;
    return call;
}

int weft_fastpath_past(const struct weft_fastpath *fastpath, uint32_t index, struct weft_call *call)
{
    if (index >= fastpath->given - fastpath->settled)
        return 0;
    *call = call_of(fastpath, fastpath->settled + index);
    return 1;
}

/* A rank took a given operation for another one. */
static void be_odd(const struct weft_fastpath *fastpath, uint32_t rank, uint32_t number,
                   struct weft_fastpath_word theirs, struct weft_fastpath_odd *odd)
{
    const struct weft_slot_given *expected = &fastpath->expected[number % WEFT_SLOTS_GIVEN];
    struct weft_call call = call_of(fastpath, number);
    odd->peer = rank;
    odd->past = call;
    weft_mismatch_cell(&call, (uint32_t)(theirs.word >> 32) & ~WEFT_DIGEST_BY_PLAN, expected->size,
                       theirs.size, rank, fastpath->rank, odd->text, sizeof odd->text);
}

/* What one rank has published for a given operation, against what it has to be: 1 the same, 0 it has not come, or WEFT_MISMATCH. */
static int compare_given(const struct weft_fastpath *fastpath, uint32_t rank, uint32_t number,
                         struct weft_fastpath_odd *odd)
{
    const struct weft_slot_given *expected = &fastpath->expected[number % WEFT_SLOTS_GIVEN];
    const struct weft_slot_mark *mark = weft_slot_mark_at(fastpath, rank, number);
    uint64_t word = atomic_load_explicit(&mark->word, memory_order_acquire);
    uint64_t size = atomic_load_explicit(&mark->size, memory_order_relaxed);
    const uint64_t by_plan = (uint64_t)WEFT_DIGEST_BY_PLAN
                             << 32; /* the root's alone counts, and has been seen */
    if ((uint32_t)word != (uint32_t)expected->word)
        return weft_given_has_come_word(fastpath, word, (uint32_t)expected->word);
    if ((uint32_t)(size >> 32) != (uint32_t)expected->word)
        return 1; /* used again meanwhile */
    size = (uint32_t)size;
    if ((word & ~by_plan) == expected->word && size == expected->size)
        return 1;
    be_odd(fastpath, rank, number, (struct weft_fastpath_word){word, size}, odd);
    return WEFT_MISMATCH;
}

int weft_given_settle(struct weft_fastpath *fastpath, struct weft_fastpath_odd *odd)
{
    for (; fastpath->settled != fastpath->given; fastpath->settled++) {
        for (uint32_t r = 0; r < fastpath->ranks; r++) {
            int same = r == fastpath->rank ? 1 : compare_given(fastpath, r, fastpath->settled, odd);
            if (same <= 0) {
                odd->peer = r;
                return same;
            }
        }
    }
    return WEFT_OK;
}

size_t weft_fastpath_last(const struct weft_fastpath *fastpath, struct weft_fastpath_word *words)
{
    uint32_t count = fastpath->root == WEFT_FASTPATH_NO_ROOT     ? 0
                     : fastpath->given < WEFT_FASTPATH_WORDS_MAX ? fastpath->given
                                                                 : WEFT_FASTPATH_WORDS_MAX;
    for (uint32_t i = 0; i < count; i++) {
        const struct weft_slot_given *given =
            &fastpath->expected[(fastpath->given - count + i) % WEFT_SLOTS_GIVEN];
        words[i] = (struct weft_fastpath_word){given->word, given->size};
    }
    return count;
}

int weft_fastpath_compare_last(const struct weft_fastpath *fastpath, uint32_t rank, const void *bytes,
                               size_t size, struct weft_fastpath_odd *odd)
{
    struct weft_fastpath_word own[WEFT_FASTPATH_WORDS_MAX], theirs[WEFT_FASTPATH_WORDS_MAX];
    size_t count = weft_fastpath_last(fastpath, own);
    if (size != count * sizeof *own) {
        snprintf(
            odd->text, sizeof odd->text,
            "rank %u and rank %u have not made the same calls before they parted: of rank %u's last ones %zu "
            "were small broadcasts or scatters, expected %zu",
            rank, fastpath->rank, rank, size / sizeof *own, count);
        return WEFT_MISMATCH;
    }
    memcpy(theirs, bytes, size);
    for (uint32_t i = 0; i < count; i++) {
        if (own[i].word == theirs[i].word && own[i].size == theirs[i].size)
            continue;
        be_odd(fastpath, rank, fastpath->given - (uint32_t)count + i, theirs[i], odd);
        return WEFT_MISMATCH;
    }
    return WEFT_OK;
}

int weft_fastpath_follows(const struct weft_fastpath *fastpath, uint32_t rank)
{
    return fastpath->settled == fastpath->given || rank == fastpath->rank ||
           weft_given_has_come(fastpath, rank, fastpath->given - 1);
}
