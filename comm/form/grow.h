/* SPDX-License-Identifier: Apache-2.0 */
/* What the ranks of a communicator that grows compare (comm/form/grow.c). Pure, for who feeds it bytes. */
#ifndef WEFT_COMM_FORM_GROW_H
#define WEFT_COMM_FORM_GROW_H

#include "comm/form/word.h"

enum weft_place_source { WEFT_PLACE_STORE = 1, WEFT_PLACE_FILE, WEFT_PLACE_ADDRESS };

struct weft_proposal {
    int32_t
        status; /* WEFT_OK, or why this rank cannot take part: then where has the reason, and the rest is 0 */
    int32_t ranks, source;
    char name[64], where[256]; /* cut; of a store there is nothing to compare */
    unsigned char hash[WEFT_MAC_BYTES];
};

void weft_proposal_set(const struct weft_bootstrap_options *place, struct weft_proposal *proposal);

/* That of a rank which cannot take part. */
void weft_proposal_refuse(const struct weft_word *why, struct weft_proposal *proposal);

/* WEFT_OK, with texts that can be printed; WEFT_PROTOCOL. */
int weft_proposal_read(const struct weft_blob *blob, struct weft_proposal *proposal);

/* WEFT_OK where all are the same; what the first rank that cannot take part has said, naming it; else WEFT_MISMATCH, naming the first
 * that differs from the majority. */
int weft_proposals_compare(const struct weft_proposal *proposals, int ranks,
                           const struct weft_member *members);

#endif
