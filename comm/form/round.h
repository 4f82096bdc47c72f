/* SPDX-License-Identifier: Apache-2.0 */
/* Calls on a communicator itself (its end, making others from it): rounds over the bootstrap's overlay instead of a plan.
 *
 * Such a call is counted like any other, and seen as one that waits, so that ranks which make another call are
 * named. Its rounds are allgathers of small blobs; each carries which call it belongs to, since the overlay would bring
 * together any two. While a rank waits there the service thread drives its transports: peers may still need what it has
 * sent, and works that were started go on.
 *
 *     struct weft_round round;
 *     status = weft_round_begin(&round, comm, WEFT_CALL_SPLIT, deadline_ns, label);
 *     status = weft_round_gather(&round, &mine, sizeof mine, &blobs);    any number of times, the same on all ranks
 *     weft_round_end(&round);
 *
 * Threads: like a collective, one at a time per communicator.
 */
#ifndef WEFT_COMM_FORM_ROUND_H
#define WEFT_COMM_FORM_ROUND_H

#include "comm/form/word.h"

struct weft_round {
    struct weft_comm *comm;
    struct weft_waiting waiting;
    int64_t deadline_ns; /* of all rounds together */
    int is_last;         /* the communicator ends with it anyway: a gather that fails only says so */
};

/* For a communicator that has not failed. label: NULL or "" none; it stays until the end. WEFT_OK, or what the call
 * returns: a call before this one has failed, and nothing has begun. */
int weft_round_begin(struct weft_round *round, struct weft_comm *comm, uint8_t collective,
                     int64_t deadline_ns, const char *label);

/* Everybody's bytes at everybody, in one block to free(): blobs[r] is rank r's, aligned to 8 bytes. A failure is one of
 * the communicator, which is revoked: returns the status, with the text set. */
int weft_round_gather(struct weft_round *round, const void *mine, size_t size, struct weft_blob **blobs);

/* Ends the communicator with a status whose text is set: this rank cannot take part any more. Returns what the call
 * returns. */
int weft_round_fail(struct weft_round *round, int status);

void weft_round_end(struct weft_round *round);

/* The same where it is rank's bytes that nobody of this version would send: nothing of the communicator can be relied on. */
int weft_round_malformed(struct weft_round *round, int rank);

/* A gather as an exchange of a meeting (comm/form/meeting.h) of ranks[count], of this communicator. Who is none of them calls it with
 * count 0. */
int weft_round_words(struct weft_round *round, const struct weft_word *mine, const int *ranks, int count,
                     struct weft_word *heard);

/* What a round's bytes begin with, made and checked. Pure, for who feeds it bytes. */
#define WEFT_ROUND_MAGIC 0x444e5552u /* "RUND" */
struct weft_round_head {
    uint32_t magic, collective;
    uint64_t sequence;
};

/* Takes the heads off. WEFT_OK; WEFT_PROTOCOL: rank `*rank` sent what is none; WEFT_MISMATCH: its call is not *head. */
int weft_round_open(const struct weft_round_head *head, struct weft_blob *blobs, int ranks, int *rank);

#endif
