/* SPDX-License-Identifier: Apache-2.0 */
/* Work handles: operations that a caller starts and waits for later. */
#ifndef WEFT_COMM_WORK_H
#define WEFT_COMM_WORK_H

#include "comm/comm.h"
#include "comm/plans.h"

/* One operation of the executor, with what must stay until it has ended. A call is one of them, a list several. */
struct weft_part {
    struct weft_exec_op *op; /* NULL: ended */
    struct weft_kept_plan *plan;
    void *memory; /* weft's own: a copy of the input, say; NULL */
    /* Memory of a device; NULL: the host's. */
    struct weft_lane *lane;
    int on_host;                   /* as in weft_exec_request */
    struct weft_exec_moves *moves; /* with malloc(), what they name in one piece; NULL */
    struct weft_context *context;  /* whose staging memory it has, */
    void *staging;
    size_t staging_bytes;
};

/* Ends a part that is over, or withdraws it. [lock] */
void weft_part_end(struct weft_part *part);

struct weft_work {
    struct weft_comm *comm;
    struct weft_queued *queued; /* [lock] progress carries it on, and ends it; NULL: does not, or has */
    struct weft_part *parts;    /* [lock] of a collective; only, or with malloc() */
    size_t part_count;          /* 0: it was finished at once */
    struct weft_part only;      /* of a call that is one operation */
    /* When all parts have ended well, without the lock where a thread holds the handle; then, or else, arg is freed with
     * free(). May be NULL. */
    void (*finish)(struct weft_work *work);
    void *arg;
    struct weft_request request; /* [lock] a message, when is_message */
    int is_message;
    int dropped;            /* [lock] the handle is gone */
    _Atomic int status;     /* WEFT_AGAIN while running */
    int64_t deadline_ns;    /* the communicator's */
    weft_message *info;     /* of a group's receive */
    struct weft_work *next; /* in the group, or among the communicator's dropped ones */
};

/* A handle for a collective that begins now. */
int weft_work_new(struct weft_comm *comm, struct weft_work **work);
/* Frees the handle's memory only. */
void weft_work_discard(struct weft_work *work);

/* Waits for an executor operation, driving progress; on the deadline the communicator is revoked when revoke is set,
 * otherwise WEFT_TIMEOUT is returned and the operation goes on. deadline_ns 0: the communicator's, from the first look at
 * the clock on. [lock] */
int weft_work_drive(struct weft_comm *comm, struct weft_exec_op *op, int64_t deadline_ns, int revoke);

/* The first operation that runs still, NULL: none. [lock] */
struct weft_exec_op *weft_work_running(const struct weft_work *work);
/* The deadline of an operation has passed: first rank 0 is asked who has not come, until *deadline_ns; then this rank
 * gives up. Returns WEFT_AGAIN or WEFT_TIMEOUT. [lock] */
int weft_work_late(struct weft_comm *comm, struct weft_exec_op *op, int64_t *deadline_ns);

/* The same for a message. deadline_ns 0: the communicator's, from the first look at the clock on. At the deadline a
 * request that nobody else knows of is withdrawn; another one revokes the communicator, unless ends is 0: then
 * WEFT_TIMEOUT leaves it as it is. Returns its status. [lock] comm/p2p_calls.c */
int weft_request_drive(struct weft_comm *comm, struct weft_request *request, int64_t deadline_ns, int ends);
/* Words a status that is the request's own, for the calling thread; returns it. */
int weft_request_fail(const struct weft_comm *comm, const struct weft_request *request);

/* Drives progress for as long as still(arg) says so. Past the deadline late() is asked, which moves the deadline, ends the
 * communicator, or returns what ends the waiting. Returns that, or WEFT_OK. [lock] */
int weft_drive_while(struct weft_comm *comm, int (*still)(void *arg), void *arg, int64_t deadline_ns,
                     int (*late)(struct weft_comm *comm, int64_t *deadline_ns));

/* Frees dropped collectives that have ended. [lock] */
void weft_works_reap(struct weft_comm *comm);
/* Waits until one more operation may be in flight, within the communicator's deadline, which revokes. [lock] */
int weft_works_await_room(struct weft_comm *comm);
/* Waits until no operation without a handle runs, within the communicator's deadline, which revokes. Takes the lock. */
int weft_works_finish(struct weft_comm *comm);

#endif
