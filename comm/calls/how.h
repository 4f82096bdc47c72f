/* SPDX-License-Identifier: Apache-2.0 */
/* How a call runs: what its weft_call_options say, checked. */
#ifndef WEFT_COMM_CALLS_HOW_H
#define WEFT_COMM_CALLS_HOW_H

#include "algos/plan.h"
#include "comm/core/work.h"
#include "comm/exec/group.h"
#include "comm/exec/stream.h"

struct weft_how {
    weft_work **work;              /* NULL: no handle */
    struct weft_stream *stream;    /* what weft_how_follow() has found; NULL: in none */
    int64_t timeout_ms;            /* 0: the communicator's */
    enum weft_algorithm algorithm; /* WEFT_ALGO_AUTO: chosen */
    int starts;                    /* the call returns at once */
    int is_ordered;                /* by a stream */
    const char *label;             /* NULL: none; else text */
    const char *kind;              /* of the stream's device, NULL: that of the call's memory */
    int ordinal;
    void *handle;
    char text[WEFT_LABEL_BYTES];
};

/* Reads and checks options; NULL: the call blocks, or starts in a group. Needs weft_how_end() if it has worked. */
int weft_how_read(const weft_call_options *options, struct weft_how *how);
/* Finds the stream, if there is one. where is whose memory the call is about. Takes the lock. */
int weft_how_follow(const struct weft_comm *comm, const struct weft_where *where, struct weft_how *how);
/* Lets go of the stream. Takes the lock, if there is one. */
void weft_how_end(struct weft_how *how);

/* A handle for a call that starts so. [lock] */
int weft_how_work(struct weft_comm *comm, const struct weft_how *how, struct weft_work **work);
/* A call has started: its caller has the handle, or its group, or nobody, in a stream. Returns what the call does. */
int weft_how_leave(const struct weft_how *how, struct weft_work *work);

#endif
