/* SPDX-License-Identifier: Apache-2.0 */
/* How ranks of one communicator make another: they learn where to meet, meet there as for any communicator, and say to each other how it
 * went, so that all have it or none.
 *
 * They have two exchanges, and how is the caller's matter: over the overlay (split, grow), by oob messages (subset),
 * by agreements of survivors (shrink).
 *
 *   begin   the first member has opened a listener, and brings its address and a random seed; or a member brings why it cannot go on.
 *   end     nothing, or why this rank could not meet the others. If one could not, all drop what they have made.
 *
 * No secret travels: the new communicator's is derived from the old one's key, the seed, and the list of members (docs/security.md,
 * section 2).
 */
#ifndef WEFT_COMM_FORM_MEETING_H
#define WEFT_COMM_FORM_MEETING_H

#include "comm/form/word.h"

enum weft_meeting_step { WEFT_MEETING_BEGIN, WEFT_MEETING_END };

struct weft_meeting {
    struct weft_comm *parent;
    int *
        members; /* [ranks] of the parent, in the new order. The first exchange may set it, with rank and ranks. */
    int rank, ranks; /* in the new communicator. ranks 0: this rank takes part in the exchanges only */
    int leads;       /* this rank listens: it is the first member, or expects to be */
    uint32_t generation;
    int64_t timeout_ms, deadline_ns; /* of the call */
    struct weft_word mine;           /* other than WEFT_OK from the beginning: this rank only says that */
    /* Where all meet, newcomers too; NULL: where the first member listens. */
    const struct weft_bootstrap_options *place;
    /* All members come to each, with their word in mine. Sets *heard: the first member's address and seed, or a failure of another rank's,
     * worded for the caller. Returns other than WEFT_OK, with the thread's error, where the meeting ends with that. */
    int (*exchange)(struct weft_meeting *meeting, enum weft_meeting_step step, struct weft_word *heard);
    /* Asked now and then while ranks meet: whether that is in vain. NULL: it is when the parent fails. */
    int (*is_vain)(struct weft_meeting *meeting);
};

/* Holds a meeting: *made is set when it has worked for all. */
int weft_meeting_hold(struct weft_meeting *meeting, struct weft_comm **made);

#endif
