/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that make communicators, which block or are done by a thread of weft's (comm/core/background.h).
 *
 * Each has a struct that begins with a weft_making and holds its arguments. It stands on the caller's stack; for a thread it is copied,
 * so what it points to must be the call's own, or is copied by keep().
 */
#ifndef WEFT_COMM_FORM_MAKING_H
#define WEFT_COMM_FORM_MAKING_H

#include "comm/core/comm.h"

struct weft_making {
    struct weft_context *context;
    struct weft_comm *comm; /* that it is made from; NULL: from none */
    struct weft_comm **out;
    int64_t timeout_ms, deadline_ns;
    char label[WEFT_LABEL_BYTES]; /* "" none */
    int is_collective;            /* of comm: other collectives on it wait for its end */
    int (*make)(struct weft_making *making, struct weft_comm **made);
    /* Copies what belongs to the caller, for a thread; NULL: there is nothing. WEFT_NOMEM. */
    int (*keep)(struct weft_making *making);
    /* Frees what the call owns, at the end in any case; NULL: nothing. */
    void (*release)(struct weft_making *making);
};

/* Takes over options, for a call on comm; *work is where its handle goes, NULL: it blocks. */
int weft_making_read(struct weft_making *making, const weft_call_options *options, weft_work ***work);

/* Whether a call may begin on the communicator: it has not failed, and no other one still makes one from it. */
int weft_making_begin(const struct weft_making *making);

/* Makes the communicator, or starts that. size: of the call's struct. */
int weft_making_run(struct weft_making *making, size_t size, weft_work **work);

#endif
