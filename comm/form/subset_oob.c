/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/form/subset_oob.h"

#include <inttypes.h>
#include <string.h>

void weft_subset_join_make(const int *ranks, int count, struct weft_subset_join *join)
{
    *join = (struct weft_subset_join){.kind = WEFT_SUBSET_JOIN, .count = (uint32_t)count};
    weft_ranks_hash(ranks, count, join->hash);
    for (int i = 0; i < count && i < WEFT_JOIN_RANKS; i++)
        join->ranks[i] = (uint32_t)ranks[i];
}

int weft_subset_join_compare(const struct weft_subset_join *join, int from, const int *ranks, int count,
                             int64_t tag)
{
    struct weft_subset_join mine;
    weft_subset_join_make(ranks, count, &mine);
    if (join->count != (uint32_t)count)
        return weft_fail(WEFT_MISMATCH,
                         "weft_comm_subset with tag %" PRId64 ": rank %d passes %u ranks, rank %d passes %d",
                         tag, from, join->count, ranks[0], count);
    for (int i = 0; i < WEFT_JOIN_RANKS; i++) {
        if (join->ranks[i] != mine.ranks[i])
            return weft_fail(WEFT_MISMATCH,
                             "weft_comm_subset with tag %" PRId64
                             ": rank %d passes rank %u at place %d, rank %d passes %u",
                             tag, from, join->ranks[i], i, ranks[0], mine.ranks[i]);
    }
    if (weft_crypto_equal(join->hash, mine.hash, sizeof mine.hash))
        return WEFT_OK;
    return weft_fail(WEFT_MISMATCH,
                     "weft_comm_subset with tag %" PRId64
                     ": rank %d and rank %d pass lists that differ behind place %d",
                     tag, from, ranks[0], WEFT_JOIN_RANKS - 1);
}

uint32_t weft_subset_message_read(const void *bytes, size_t size, union weft_subset_message *message)
{
    if (size != sizeof message->join && size != sizeof message->report)
        return 0;
    memcpy(message, bytes, size);
    if (message->kind == WEFT_SUBSET_JOIN)
        return size == sizeof message->join ? message->kind : 0;
    if (message->kind < WEFT_SUBSET_ANSWER || message->kind > WEFT_SUBSET_GONE ||
        size != sizeof message->report)
        return 0;
    const struct weft_word word = message->report.word;
    const struct weft_blob blob = {&word, sizeof word};
    return weft_word_read(&blob, &message->report.word) == WEFT_OK ? message->kind : 0;
}
