/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/subset_letter.h"

#include <inttypes.h>
#include <string.h>

#include "base/error.h"

static void hash_list(const int *ranks, int count, unsigned char hash[WEFT_MAC_BYTES])
{
    static const char label[] = "weft 1 list of a subset";
    static const struct weft_key key; /* no secret: a short name of the list */
    const struct weft_crypto_part parts[] = {{label, sizeof label}, {ranks, (size_t)count * sizeof *ranks}};
    weft_crypto_hmac(&key, parts, 2, hash);
}

void weft_subset_join_make(const unsigned char *number, const int *ranks, int count,
                           struct weft_subset_join *join)
{
    *join = (struct weft_subset_join){.head = {.kind = WEFT_SUBSET_JOIN, .count = (uint32_t)count}};
    memcpy(join->head.number, number, sizeof join->head.number);
    hash_list(ranks, count, join->hash);
    for (int i = 0; i < count && i < WEFT_JOIN_RANKS; i++)
        join->ranks[i] = (uint32_t)ranks[i];
}

int weft_subset_join_compare(const struct weft_subset_join *join, int from, const int *ranks, int count,
                             int64_t tag)
{
    struct weft_subset_join mine;
    weft_subset_join_make(join->head.number, ranks, count, &mine);
    if (join->head.count != (uint32_t)count)
        return weft_fail(WEFT_MISMATCH,
                         "weft_comm_subset with tag %" PRId64 ": rank %d passes %u ranks, rank %d passes %d",
                         tag, from, join->head.count, ranks[0], count);
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

static size_t size_of(uint32_t kind)
{
    if (kind == WEFT_SUBSET_JOIN)
        return sizeof(struct weft_subset_join);
    return kind < WEFT_SUBSET_ANSWER ? sizeof(struct weft_subset_head) : sizeof(struct weft_subset_letter);
}

uint32_t weft_subset_head_read(const void *bytes, size_t size, struct weft_subset_head *head)
{
    memset(head, 0, sizeof *head);
    if (size < sizeof *head)
        return 0;
    memcpy(head, bytes, sizeof *head);
    if (head->kind < WEFT_SUBSET_JOIN || head->kind > WEFT_SUBSET_VERDICT || size != size_of(head->kind))
        memset(head, 0, sizeof *head);
    return head->kind;
}

int weft_subset_letter_read(const void *bytes, size_t size, struct weft_subset_letter *letter)
{
    struct weft_subset_head head;
    struct weft_word word;
    if (weft_subset_head_read(bytes, size, &head) < WEFT_SUBSET_ANSWER)
        return 0;
    memcpy(letter, bytes, sizeof *letter);
    const struct weft_blob blob = {&letter->word, sizeof letter->word};
    if (weft_word_read(&blob, &word) != WEFT_OK)
        return 0;
    letter->word = word;
    return 1;
}
