/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of a communicator that progress starts, each in its turn: stream-ordered ones, which begin when the stream has come to
 * them, and started ones behind such a call, because the ranks' collectives begin in the order in which they were called.
 *
 * Who calls queues the call and returns. Of each communicator's queue the first one is started when its stream is there and the
 * executor has room; it runs beside those behind it, and ends by itself: within the communicator's deadline from its beginning, or with
 * the communicator. Then its stream wait is put back, and so opened.
 *
 * Started calls over the cache lines are queued as well, and published at once where the queue is empty.
 *
 * Blocking calls that are not queued wait until nothing is (weft_queue_await()).
 */
#ifndef WEFT_COMM_CORE_QUEUE_H
#define WEFT_COMM_CORE_QUEUE_H

#include "comm/exec/stream.h"
#include "comm/core/work.h"

struct weft_queued;

/* What differs between kinds of calls. [lock] */
struct weft_queued_ops {
    /* WEFT_OK: all of it has been started. WEFT_AGAIN: something is missing, it is called again. Otherwise the communicator fails. */
    int (*start)(struct weft_queued *queued);
    /* Whether start() has nothing to do before a peer has come, which wakes this process then. NULL: it is not so. */
    int (*is_exchanging)(const struct weft_queued *queued);
    /* It is over, or will not begin: gives back everything, the struct too. */
    void (*release)(struct weft_queued *queued);
};

struct weft_queued {
    struct weft_queued *next;
    struct weft_work *work;
    struct weft_stream_wait *stream_wait; /* NULL: it follows no stream */
    const struct weft_queued_ops *ops;
    struct weft_call call; /* for reports; its label is the work's */
    int64_t deadline_ns;   /* once it has begun */
    int is_quiet;          /* who made the call sees to it: weft's own thread need not */
};

/* Queues a call that has a work, with its own share of the stream that it follows (NULL: none). Where this fails the call is still the
 * caller's, and the communicator has failed. [lock] */
int weft_queue_add(struct weft_comm *comm, struct weft_queued *queued, struct weft_stream *stream,
                   struct weft_work *work);

/* Whether a call on comm that is started now, following a stream or none (NULL), is queued. */
static inline int weft_queue_takes(const struct weft_comm *comm, const struct weft_stream *stream)
{
    return stream || atomic_load_explicit(&comm->queue.waiting, memory_order_acquire);
}

/* Waits until every queued call has been started: without a deadline, as theirs begin with them. Returns what the
 * communicator has failed with. Takes the lock. */
int weft_queue_await(struct weft_comm *comm);

/* Drives progress until a queued call has ended: WEFT_OK, its status is the work's; or WEFT_TIMEOUT past the deadline. [lock] */
int weft_queue_drive(struct weft_work *work, int64_t deadline_ns);

/* Somebody else than its caller is to see to the first call, if it is a quiet one. [lock] */
void weft_queue_rouse(struct weft_comm *comm);

/* [lock] */
int weft_queues_progress(struct weft_context *context);
/* Ends all calls of a communicator that has failed. [lock] */
void weft_queue_fail(struct weft_comm *comm);

/* What the first call that has not begun waits for, if there is one. [lock] */
void weft_queue_print_first(const struct weft_comm *comm, char *text, size_t capacity);
/* Lines on the calls that have not begun: length like snprintf(). [lock] */
size_t weft_queue_dump(const struct weft_comm *comm, char *text, size_t capacity);

#endif
