/* SPDX-License-Identifier: Apache-2.0 */
/* What ranks say to each other when they make a communicator from another (comm/form/meeting.h), made and read. */
#ifndef WEFT_COMM_FORM_WORD_H
#define WEFT_COMM_FORM_WORD_H

#include "comm/core/comm.h"

#define WEFT_SEED_BYTES 16

/* What a rank brings to an exchange. */
struct weft_word {
    int32_t status; /* WEFT_OK, or why this rank cannot go on */
    uint32_t unused;
    char text[800];   /* the reason */
    char address[64]; /* "ip:port" where the first member listens; "" the others, and at the end */
    unsigned char seed[WEFT_SEED_BYTES];
};

/* A word that says how it went, with the thread's error as the text. */
void weft_word_set(struct weft_word *word, int status);

/* Reads a word. WEFT_OK also when there is none: then it is all zero. WEFT_PROTOCOL when it is none: then the word says so in its
 * place, and nothing of the bytes is in it. Pure. */
int weft_word_read(const struct weft_blob *blob, struct weft_word *word);

/* The failure of a rank of comm, as others say it. */
void weft_word_quote(const struct weft_comm *comm, int rank, const struct weft_word *theirs,
                     struct weft_word *word);

/* A short name of a list of ranks, the same on all hosts. Pure. */
void weft_ranks_hash(const int *ranks, int count, unsigned char hash[WEFT_MAC_BYTES]);

/* Of this rank's failure and another's the one that says more: its own, unless it only stopped for the other's. May be WEFT_OK. Pure. */
const struct weft_word *weft_word_choose(const struct weft_word *mine, const struct weft_word *others);

#endif
