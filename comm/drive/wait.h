/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting, which is done here and nowhere else: a thread that waits drives progress, takes failures over, lets others have the lock,
 * looks for stalls at their time, and sleeps when there is nothing to do.
 */
#ifndef WEFT_COMM_DRIVE_WAIT_H
#define WEFT_COMM_DRIVE_WAIT_H

#include "comm/drive/context.h"

/* What is waited for. All callbacks run under the lock; arg is theirs. */
struct weft_wait {
    struct weft_driven *driven; /* whose failure ends it */
    int (*done)(void *arg);     /* whether it is there; cheap */
    /* The deadline has passed. WEFT_OK: *deadline_ns has been moved, or the next look at done() ends it; else what ends it. */
    int (*late)(void *arg, int64_t *deadline_ns);
    /* What else is due by the clock, beside the stalls of driven: returns when next. NULL: nothing. */
    int64_t (*look)(void *arg, int64_t now_ns);
    void *arg;
    int64_t
        deadline_ns; /* 0: timeout_ms from the first look at the clock on, which a short wait does not take */
    int64_t timeout_ms;
    int is_unannounced; /* no event announces it (a device, say), so it is looked at now and then */
};

/* For late(), where nothing is left to do at the deadline. */
int weft_wait_ends(void *arg, int64_t *deadline_ns);
/* For done(), where only a failure or late() ends it. */
int weft_wait_never(void *arg);

/* Returns WEFT_OK when done() says so, what driven has failed with, or what late() has returned. The lock is given away now and then.
 * [lock] */
int weft_wait(struct weft_context *context, const struct weft_wait *wait);

#endif
