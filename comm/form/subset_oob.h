/* SPDX-License-Identifier: Apache-2.0 */
/* The oob messages of a subset's members (comm/form/subset.c), made and read. Pure, for who feeds it bytes. */
#ifndef WEFT_COMM_FORM_SUBSET_OOB_H
#define WEFT_COMM_FORM_SUBSET_OOB_H

#include "comm/form/word.h"

/* That a JOIN names: lists are compared by their hash, and these say what differs. */
#define WEFT_JOIN_RANKS 100

enum weft_subset_kind {
    WEFT_SUBSET_JOIN = 1,
    /* With a word: */
    WEFT_SUBSET_ANSWER,
    WEFT_SUBSET_DONE,
    WEFT_SUBSET_VERDICT,
    WEFT_SUBSET_GONE
};

struct weft_subset_join {
    uint32_t kind, count; /* count: ranks of the list */
    unsigned char hash[WEFT_MAC_BYTES];
    uint32_t ranks[WEFT_JOIN_RANKS]; /* the first of the list, then 0 */
};

struct weft_subset_report {
    uint32_t kind, unused;
    struct weft_word word;
};

union weft_subset_message {
    uint32_t kind;
    struct weft_subset_join join;
    struct weft_subset_report report;
};

_Static_assert(sizeof(union weft_subset_message) <= WEFT_P2P_OOB_MAX, "oob messages are short");

void weft_subset_join_make(const int *ranks, int count, struct weft_subset_join *join);

/* WEFT_OK where the list is the same; else WEFT_MISMATCH, with a text that begins with the tag. from: who has sent it. */
int weft_subset_join_compare(const struct weft_subset_join *join, int from, const int *ranks, int count,
                             int64_t tag);

/* Copies a message. Returns its kind, or 0 where the bytes are none; then *message is of no use. */
uint32_t weft_subset_message_read(const void *bytes, size_t size, union weft_subset_message *message);

#endif
