/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that do not move: noticed by every rank, compared by rank 0.
 *
 * A rank that has been in a call for WEFT_STALL_NS without its end sends rank 0 a record of it over the
 * bootstrap's overlay; it does so at once when a message or slot of a peer turns out to belong to another call
 * ("suspicion"). What is in such a message is dropped; nothing fails yet, because one rank does not know which of
 * the two is wrong, nor how many agree with whom. But no plan of the rank ends well any more: what it has got may be of the other call. (The
 * cache-line path compares each slot itself, and messages are of no call.) Rank 0 compares the records of one call number field by
 * field (comm/core/judge.h) and revokes the communicator with the verdict, the same words on all ranks. Should no verdict come (rank 0
 * has died, say), the rank that had the suspicion revokes on its own after WEFT_VERDICT_NS.
 *
 * After WEFT_REPORT_MS in a call the log says, once for each call, what this rank waits for, and rank 0 is asked who has not come, which
 * its own log says then, and again when fewer are missing: nothing ends by that.
 *
 * When a call's deadline passes, one more record asks rank 0 who has not come; the call waits WEFT_LATE_NS longer
 * for that answer.
 *
 * None of this is on the way of a call that is not waiting.
 */
#ifndef WEFT_COMM_CORE_STALL_H
#define WEFT_COMM_CORE_STALL_H

#include "comm/exec/call.h"

#define WEFT_STALL_NS INT64_C(250000000)
#define WEFT_VERDICT_NS                                                                                      \
    INT64_C(2500000000) /* rank 0 has one well before, unless its machine is busy: judge.h */
#define WEFT_LATE_NS INT64_C(250000000)

struct weft_comm;
struct weft_context;
struct weft_judge;

/* A call that waits elsewhere than in the executor: on the fast path, or at the end of the communicator. Owned by
 * the thread that waits, seen by others while weft_stall.waiting points to it. */
struct weft_waiting {
    struct weft_call call;
    int64_t since_ns;
    uint32_t fast_sequence; /* 0: not on the fast path */
    int reported;           /* enum weft_stall_reported */
};

/* What has been said of a call. */
enum weft_stall_reported {
    WEFT_STALL_COMPARED = 1, /* to rank 0 */
    WEFT_STALL_LOGGED = 2,
    WEFT_STALL_ASKED = 4, /* its deadline has passed: rank 0 was asked who has not come */
};

/* Part of the communicator. [lock] */
struct weft_stall {
    struct weft_waiting *waiting; /* NULL: none */
    int64_t suspect_ns;           /* when a suspicion arose; 0: none */
    char suspicion[200];
};

/* What goes to rank 0. Little-endian like the executor's messages. */
#define WEFT_STALL_MAGIC 0x4c415453u /* "STAL" */
#define WEFT_STALL_LATE  1u
#define WEFT_STALL_SLOW  2u
struct weft_stall_record {
    uint32_t magic, flags;
    struct weft_call call;
    uint64_t oldest; /* the lowest call that the rank is still in */
    int64_t waited_ms;
    char label[WEFT_LABEL_BYTES]; /* the call's, "" none */
    char waits[320];              /* in words, for who reads a deadline's text */
};

/* Reports the calls that have waited long enough, and ends a suspicion that got no verdict. Returns when to look
 * again. Cheap; [lock] */
int64_t weft_stall_look(struct weft_comm *comm, int64_t now_ns);

/* When a message that has waited since then is logged; does that when it is due, once: *since_ns becomes WEFT_NEVER_NS. Returns
 * when to look again. [lock] */
int64_t weft_stall_look_message(struct weft_comm *comm, int64_t *since_ns, int64_t now_ns);

/* A peer is in another call than this rank. Reports every call that this rank is in, now, and past, which it has left
 * already (or NULL). WEFT_OK. [lock] */
int weft_stall_suspect(struct weft_comm *comm, const char *text, const struct weft_call *past);

/* Whether a peer has been seen in another call, so that the communicator fails soon, or has failed. [lock] */
int weft_stall_has_suspicion(const struct weft_comm *comm);

/* Waits for the verdict on a suspicion: always ends with the communicator failed. Takes the lock. */
void weft_stall_await_verdict(struct weft_comm *comm, struct weft_waiting *waiting, const char *text);

/* The deadline of a call, waited_ms after its beginning, has passed for the first time, as *reported of it says from now on: logs what
 * this rank waits for and asks rank 0. Returns until when to wait for the answer. [lock] */
int64_t weft_stall_late(struct weft_comm *comm, const struct weft_call *call, int *reported,
                        int64_t waited_ms, const char *waits);

/* Whether the deadline of a call that this rank is in has passed. [lock] */
int weft_stall_is_late(const struct weft_comm *comm);

#endif
