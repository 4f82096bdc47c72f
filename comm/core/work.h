/* SPDX-License-Identifier: Apache-2.0 */
/* Work handles: operations that a caller starts and waits for later. */
#ifndef WEFT_COMM_CORE_WORK_H
#define WEFT_COMM_CORE_WORK_H

#include "comm/core/comm.h"
#include "comm/exec/plans.h"

/* One operation of the executor, with what must stay until it has ended. A call is one of them, a list several. */
struct weft_part {
    struct weft_exec_op *op; /* NULL: ended */
    struct weft_kept_plan *plan;
    void *memory; /* weft's own: a copy of the input, say; NULL */
    /* Device memory; NULL: the host's. */
    struct weft_command_queue *commands;
    int on_host;                   /* as in weft_exec_request */
    struct weft_exec_moves *moves; /* with malloc(), what they name in one piece; NULL */
    struct weft_context *context;  /* whose staging memory it has, */
    void *staging;
    size_t staging_bytes;
};

/* Ends a part that is over, or withdraws it. [lock] */
void weft_part_end(struct weft_part *part);

/* The send of a weft_sendrecv() that has a handle. */
struct weft_sent {
    struct weft_request request; /* [lock] */
    struct weft_work *work;
};

struct weft_work {
    struct weft_context *context;
    struct weft_comm *comm; /* NULL: of one that is being made */
    struct weft_background
        *background; /* a thread does it: comm/core/background.h; NULL: progress does, and who waits */
    struct weft_queued *queued; /* [lock] progress carries it on, and ends it; NULL: does not, or has */
    struct weft_part *parts;    /* [lock] of a collective; only, or with malloc() */
    size_t part_count;          /* 0: it was finished at once */
    struct weft_part only;      /* of a call that is one operation */
    /* When all parts have ended well, without the lock where a thread holds the handle; then, or else, arg is freed with
     * free(). May be NULL. */
    void (*finish)(struct weft_work *work);
    void *arg;
    struct weft_sent *sent; /* the send beside a receive; NULL: none */
    int is_message;
    int dropped;            /* [lock] the handle is gone */
    _Atomic int status;     /* WEFT_AGAIN while running */
    int64_t timeout_ms;     /* the call's own; 0: the communicator's */
    int64_t deadline_ns;    /* what that comes to */
    weft_message *info;     /* what a receive fills in, or NULL */
    struct weft_work *next; /* in the group, or among the communicator's dropped ones */
    /* Who wants to know of its end: comm/core/works_watched.c */
    struct weft_notice *notice; /* [lock] the program's callback; NULL: none */
    atomic_int signals;         /* the context's descriptor */
    int is_owned;               /* somebody waits for it, or frees it */
    int is_quiet;               /* [lock] weft's own thread is not awake for it */
    int waiters;                /* [lock] threads that start it, wait for it or look at it now */
    int is_watched;             /* [lock] in the context's list */
    struct weft_work *watched_next, *watched_previous;
    char label[WEFT_LABEL_BYTES]; /* "" none */
    struct weft_request request;  /* [lock] a message, when is_message; else nothing is set in it */
};

/* A handle for a call that begins now. label may be NULL. [lock] */
int weft_work_new(struct weft_comm *comm, int64_t timeout_ms, const char *label, struct weft_work **work);
/* It has ended, with status: says so to whom it concerns. [lock] */
void weft_work_end(struct weft_work *work, int status);
/* A thread starts it, waits for it or looks at it: from since_ns on, 0: from now on. waits 0: it does so no more. Of a list the parts begin one after
 * the other, and none stages. [lock] */
void weft_work_attend(struct weft_work *work, int waits, int64_t since_ns);
/* Of a message, or two. */
int weft_work_message_status(const struct weft_work *work);
/* The hook of a work's requests. [lock] */
void weft_work_message_ended(struct weft_request *request);
/* The request whose failure is the work's. */
const struct weft_request *weft_work_culprit(const struct weft_work *work);
/* Words how one that is over has ended, for the calling thread; returns it. An operation may end with a link before its communicator
 * hears the reason. */
int weft_work_word(const struct weft_work *work);
/* A message's deadline has passed, and nobody waits. It may be gone then. [lock] */
void weft_work_expire(struct weft_work *work);
/* Takes over the results of what the work consists of when all have ended; of one that has a thread that does. [lock] */
void weft_work_settle(struct weft_work *work);
/* What is left to do when all has ended, with status: once. It may be long, and others want the lock. */
void weft_work_finish(struct weft_work *work, int status);
/* Frees the handle's memory only. */
void weft_work_discard(struct weft_work *work);
/* The same, but a few are kept for the calls to come. [lock] */
void weft_work_recycle(struct weft_work *work);
/* Frees those, when no call comes any more. */
void weft_works_free_spares(struct weft_context *context);

/* Waits for an executor operation, driving progress; on the deadline the communicator is revoked when revoke is set,
 * otherwise WEFT_TIMEOUT is returned and the operation goes on. deadline_ns 0: the communicator's, from the first look at
 * the clock on. [lock] */
int weft_work_drive(struct weft_comm *comm, struct weft_exec_op *op, int64_t deadline_ns, int revoke);

/* The first operation that runs still, or waits for a verdict; NULL: none. [lock] */
struct weft_exec_op *weft_work_running(const struct weft_work *work);
/* The deadline of an operation has passed (its text names the one that the operation's look has): first rank 0 is asked who has not come, until *deadline_ns; then this rank
 * gives up. Returns WEFT_OK or WEFT_TIMEOUT. [lock] */
int weft_work_late(struct weft_comm *comm, struct weft_exec_op *op, int64_t *deadline_ns);

/* The same for a message. deadline_ns 0: the communicator's, from the first look at the clock on. At the deadline a
 * request that nobody else knows of is withdrawn; another one revokes the communicator, unless ends is 0: then
 * WEFT_TIMEOUT leaves it as it is. Returns its status. [lock] request.c */
int weft_request_drive(struct weft_comm *comm, struct weft_request *request, int64_t deadline_ns, int ends);
/* Words a status that is the request's own, for the calling thread; returns it. */
int weft_request_fail(const struct weft_comm *comm, const struct weft_request *request);
/* Its deadline has passed: it is withdrawn where that is possible and a handle can say so, otherwise the communicator fails.
 * [lock] */
void weft_request_expire(struct weft_comm *comm, struct weft_request *request);
/* Whether a caller's struct can be filled. */
int weft_message_check(const weft_message *message);
/* Fills as much of it as the caller knows; the second with what a receive has found. */
void weft_message_set(weft_message *message, int source, int64_t tag, uint64_t bytes);
void weft_message_of(const struct weft_request *request, weft_message *message);

/* works_watched.c: works whose end somebody wants to know, who does not wait for it. */

/* Whether the program has the handle, or else a group, or nobody, as a stream has it: the end of the first is signalled, if there is a
 * descriptor. */
void weft_work_own(struct weft_work *work, int has_handle, int is_ordered);
/* Has progress look for its end; one that is queued, or a message, ends by itself, but for its deadline, and one that has a thread does
 * altogether. [lock] */
void weft_work_watch(struct weft_work *work);
/* weft_work_end()'s part of it. [lock] */
void weft_work_notify(struct weft_work *work);
/* One that had ended when its caller got it. */
void weft_work_notify_at_once(struct weft_work *work);
/* Looks at all of them, while context->core.watched is not NULL. Returns how much happened. [lock] */
int weft_works_look(struct weft_context *context);

/* Stream-ordered messages, of all communicators, while context->p2p.held is not NULL: those whose stream has come to
 * them go on, and those behind it end with their deadline. Returns how much moved. [lock] */
int weft_works_follow(struct weft_context *context);
/* Frees dropped collectives that have ended. [lock] */
void weft_works_reap(struct weft_comm *comm);
/* Waits until one more operation may be in flight, within the communicator's deadline, which revokes. [lock] */
int weft_works_await_room(struct weft_comm *comm);
/* Waits until no operation without a handle runs, within the communicator's deadline, which revokes. Takes the lock. */
int weft_works_finish(struct weft_comm *comm);

#endif
