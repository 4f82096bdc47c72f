/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of a communicator that progress starts, each in its turn: those in the order of a stream, which begin when the stream has come to
 * them, and started ones behind such a call, because the ranks' collectives begin in the order in which they were called.
 *
 * Who calls queues the call and returns. Of each communicator's queue the first one is started when its stream is there and the
 * executor has room; it runs beside those behind it, and ends by itself: within the communicator's deadline from its beginning, or with
 * the communicator. Then its hold is put back, and so the gate opened.
 *
 * Blocking calls that are not queued wait until nothing is (weft_queue_await()).
 */
#ifndef WEFT_COMM_QUEUE_H
#define WEFT_COMM_QUEUE_H

#include "comm/stream.h"
#include "comm/work.h"

struct weft_queued;

/* What differs between kinds of calls. [lock] */
struct weft_queued_ops {
    /* WEFT_OK: all of it has been started. WEFT_AGAIN: there is no room, it is called again. Otherwise the communicator fails. */
    int (*start)(struct weft_queued *queued);
    /* WEFT_AGAIN while what has been started runs, otherwise its result. NULL: the operations of the work say. */
    int (*look)(struct weft_queued *queued);
    /* It is over, or will not begin: gives back everything, the struct too. */
    void (*release)(struct weft_queued *queued);
};

struct weft_queued {
    struct weft_queued *next;
    struct weft_work *work;
    struct weft_hold *hold; /* NULL: it follows no stream */
    const struct weft_queued_ops *ops;
    struct weft_call call; /* for reports */
    int64_t deadline_ns;   /* once it has begun */
};

/* Queues a call that has a work, with its own share of the scope's stream (NULL: none). Where this fails the call is still the
 * caller's; on several ranks the communicator has failed. [lock] */
int weft_queue_add(struct weft_comm *comm, struct weft_queued *queued, struct weft_stream *stream,
                   struct weft_work *work);

/* Whether a call on comm that the calling thread starts now is queued. */
static inline int weft_queue_takes(const struct weft_comm *comm)
{
    return weft_stream_of(comm) || atomic_load_explicit(&comm->queue.waiting, memory_order_relaxed);
}

/* Waits until every queued call has been started: without a deadline, as theirs begin with them. Returns what the
 * communicator has failed with. Takes the lock. */
int weft_queue_await(struct weft_comm *comm);

/* Drives progress until a queued call has ended: WEFT_OK, its status is the work's; or WEFT_TIMEOUT past the deadline. [lock] */
int weft_queue_drive(struct weft_work *work, int64_t deadline_ns);

/* [lock] */
int weft_queues_progress(struct weft_context *context);
/* Ends all calls of a communicator that has failed. [lock] */
void weft_queue_fail(struct weft_comm *comm);

/* What the first call that has not begun waits for, if there is one. [lock] */
void weft_queue_print_first(const struct weft_comm *comm, char *text, size_t capacity);
/* Lines on the calls that have not begun: length like snprintf(). [lock] */
size_t weft_queue_dump(const struct weft_comm *comm, char *text, size_t capacity);

#endif
