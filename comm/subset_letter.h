/* SPDX-License-Identifier: Apache-2.0 */
/* What the members of a subset write to each other (comm/subset.c), made and read. Pure, for who feeds it bytes. */
#ifndef WEFT_COMM_SUBSET_LETTER_H
#define WEFT_COMM_SUBSET_LETTER_H

#include "base/crypto.h"
#include "comm/p2p.h"
#include "comm/round.h"

#define WEFT_ATTEMPT_BYTES 16
#define WEFT_JOIN_RANKS                                                                                      \
    100 /* that a JOIN names: lists are compared by their hash, and these say what differs */

enum weft_subset_kind {
    WEFT_SUBSET_JOIN = 1,
    /* A head alone: */
    WEFT_SUBSET_CALL,
    WEFT_SUBSET_HERE,
    WEFT_SUBSET_GONE,
    /* With a word: */
    WEFT_SUBSET_ANSWER,
    WEFT_SUBSET_DONE,
    WEFT_SUBSET_VERDICT
};

struct weft_subset_head {
    uint32_t kind, count;                     /* count: JOIN, ranks of the list */
    unsigned char number[WEFT_ATTEMPT_BYTES]; /* of the member's attempt */
};

struct weft_subset_join {
    struct weft_subset_head head;
    unsigned char hash[WEFT_MAC_BYTES];
    uint32_t ranks[WEFT_JOIN_RANKS]; /* the first of the list, then 0 */
};

struct weft_subset_letter {
    struct weft_subset_head head;
    unsigned char seed[WEFT_ATTEMPT_BYTES]; /* ANSWER */
    struct weft_word word;
};

_Static_assert(sizeof(struct weft_subset_join) <= WEFT_P2P_LETTER_MAX &&
                   sizeof(struct weft_subset_letter) <= WEFT_P2P_LETTER_MAX,
               "weft's own messages are short");

void weft_subset_join_make(const unsigned char *number, const int *ranks, int count,
                           struct weft_subset_join *join);

/* WEFT_OK where the list is the same; else WEFT_MISMATCH, with a text that begins with the tag. from: who has sent it. */
int weft_subset_join_compare(const struct weft_subset_join *join, int from, const int *ranks, int count,
                             int64_t tag);

/* Copies the head, all zero where the bytes are no letter. Returns its kind. */
uint32_t weft_subset_head_read(const void *bytes, size_t size, struct weft_subset_head *head);

/* A letter with a word: 1, and copied, when it is well made, else 0. */
int weft_subset_letter_read(const void *bytes, size_t size, struct weft_subset_letter *letter);

#endif
