/* SPDX-License-Identifier: Apache-2.0 */
/* How a communicator fails: once, with one status and one text, which every call on it answers with from then on.
 *
 * Whoever is first decides. The bootstrap knows of deaths and of what other ranks say; a link that breaks, and an executor that has stopped,
 * are only how a death shows here, so they are written down as a loss, and the bootstrap has a moment to say why. Nothing that is in flight
 * ends before the communicator does; so those who wait for it wait for that reason, too, in weft_wait() like for everything else.
 */
#ifndef WEFT_COMM_CORE_FAILURE_H
#define WEFT_COMM_CORE_FAILURE_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct weft_comm;
struct weft_link;

/* Part of the communicator. */
struct weft_failure_record {
    atomic_int
        status; /* 0, or what it has failed with. Set once, under the lock, when all else is written: any thread may read it */
    atomic_int is_reported;     /* a call has returned it */
    char text[WEFT_DETAIL_MAX]; /* why it has failed. Before that, [lock]: the words of the loss */
    char waits[2048];           /* what this rank waited for then, as in a dump; "" nothing */
    /* [lock] What has broken here, until the bootstrap says why. */
    int lost_status; /* WEFT_OK: nothing */
    int lost_rank;   /* whose link it is, -1: not known, or none */
    int64_t lost_ns;
    int has_stopped; /* the executor has, for that */
    int gone;        /* how many ranks have left while others stay, as known here, */
    int64_t gone_ns; /* and when the last was */
    int64_t
        needed_ns; /* since when this rank waits for one that has left: comm/core/gone.c. 0: it does not */
};

/* [lock] Ends everything in flight with status and revokes: the first reason stays. */
void weft_comm_fail(struct weft_comm *comm, int status, const char *text);
/* [lock] The same, with the calling thread's error as the text. Returns status. */
int weft_comm_fail_here(struct weft_comm *comm, int status);

/* [lock] Something is gone that a peer's death may have taken along: it fails with the words of that, unless the bootstrap knows more
 * in a moment. The first loss stays. */
void weft_comm_lose(struct weft_comm *comm, int status, const char *words);
/* [lock] The same of a link that broke; why is what its transport says, or NULL. */
void weft_comm_link_failed(struct weft_comm *comm, struct weft_link *link, int status, const char *why);

/* [lock] Whether a rank (negative: every other one) has left so, and nothing of it can come any more. */
int weft_comm_is_out_of_reach(const struct weft_comm *comm, int rank);
/* [lock] Some ranks have left while others stay: fails where this rank needs one of them. gone.c */
void weft_comm_look_for_gone(struct weft_comm *comm);
/* Whether a rank has left so, which is then the calling thread's error. arg is the communicator: the executor's has_left hook. */
int weft_comm_has_left(void *arg, uint32_t rank);

/* What it has failed with, or WEFT_OK, after it has taken over what the bootstrap knows, and what it has lost. Cheap. [lock] */
int weft_comm_check(struct weft_comm *comm);

/* Whether a call may begin: WEFT_OK, or what it returns because the communicator has failed. */
int weft_comm_begin(struct weft_comm *comm);

/* Words the failure for the calling thread: the first time its status, then WEFT_REVOKED. */
int weft_comm_report(struct weft_comm *comm);
/* The same with its status, and without counting as a report: for what is not the end of a call. */
int weft_comm_word_failure(const struct weft_comm *comm);

/* A failure as callers read it: with a word about this process where it has no descriptors left, since then a peer that was
 * never let in, or a link that never came up, is only how it shows. */
void weft_comm_explain(char *text, size_t capacity, const char *failure);

#endif
