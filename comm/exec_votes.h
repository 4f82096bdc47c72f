/* SPDX-License-Identifier: Apache-2.0 */
/* Operations as programs of devices: how ranks of one machine agree to run one, and what it runs on.
 *
 * A small operation between devices spends its time on launches and on the host that waits for them. As a program
 * (exec_program.h) every rank's device works through its whole part by itself, and waits for the other devices by words in its memory.
 * That is right only if all ranks do so; ranks know of each other's buffers, streams and devices only what they are told.
 *
 * Mailboxes. The first operation of a rank that could be a program makes its mailbox, on that operation's device: a
 * word for each rank, 64 bytes apart, then room for messages. Every other rank is told where it is (MAILBOX) and maps it. Which rank's
 * messages lie where is said anew with each vote.
 *
 * Votes. A rank votes yes for an operation when
 *   - its buffers are a device's, where the mailbox is, and its stream has come to the call;
 *   - it has mapped the mailboxes of all others, and what it is to receive fits into its own;
 *   - no other operation of this communicator has its vote or its program, so that its mailbox is free; and where a device's programs
 *     do not get on beside each other none of another communicator either (devmem/claim.h), which could wait at another rank for this one.
 * It sends its vote to all others, and waits. Nobody votes no unasked: a rank that does not vote for an operation answers the votes of the
 * others with no, when it has begun that operation, or when they come, also long after its end. So ranks whose buffers are on the
 * host pay nothing but those answers, and hear of none where no device is.
 *
 * Why all decide alike. Who has voted waits until its yes has left to all others and it has the votes of all, or one no. Only who
 * does not vote, or has been told no itself, says no. So if all vote there is no no: all see all votes, and run the program. If
 * one does not vote, nobody gets its yes; all that have voted get its no, or one that came of it, and take the ordinary way, as it
 * does. The operation begins at every rank, so every vote is answered.
 * A vote waits for others as an allreduce does. It never waits for another vote: a second operation that is ready meanwhile
 * is not voted for. A vote is a message ahead of its receiver like any other, and under the same bound (exec_credit.c): beyond it there is no
 * vote.
 *
 * Mailboxes are free when all have voted: each rank's last program has ended, and with it all that was sent to that rank. Words are
 * never reset; both ends count the messages of all programs.
 *
 * Choice (exec_choice.c). With WEFT_DEVICE_PROGRAM=auto the votes also tell what each rank has measured, so that all compute the same
 * choice, which may be the ordinary way.
 *
 * A rank that has told others of its mailbox answers votes also while it makes no call, for without it nobody votes: the context's
 * thread listens until the communicator ends. What it has heard says nothing: others may make their mailboxes, and vote, after this
 * rank's last call.
 *
 * Ending early. The program's stop word is set, and the lane drained: bounded. Others may still write into the mailbox until they
 * have heard that the communicator has failed, and their devices have come to it: its memory is kept as long as the context. There are no
 * programs after a failure, as there are no operations. A mailbox into which nobody writes any more is given back by whoever may wait for
 * the device, as the memory of lanes.
 */
#ifndef WEFT_COMM_EXEC_VOTES_H
#define WEFT_COMM_EXEC_VOTES_H

#include "comm/exec_device.h"
#include "comm/exec_program.h"

/* Whether an operation becomes a program of the device. */
enum weft_vote {
    WEFT_VOTE_OUT,     /* no: all that comes is answered so */
    WEFT_VOTE_OPEN,    /* not decided; this rank may have voted */
    WEFT_VOTE_PROGRAM, /* yes */
};

#define WEFT_PROGRAM_CLASSES 31 /* of sizes: powers of two */

enum weft_program_way { WEFT_WAY_PLAN, WEFT_WAY_PROGRAM, WEFT_WAYS };

/* What is known of a collective's calls of one size, and how often they have been decided: the latter at all ranks alike. */
struct weft_program_class {
    uint32_t cost_ns[WEFT_WAYS]; /* at this rank; 0: not known */
    uint32_t decided, since_look;
    uint32_t resume;        /* no votes before this operation, if `pauses` */
    uint32_t refused_round; /* at this rank: the last one with a vote that came to nothing, and */
    uint8_t refusals;       /* how many such rounds there were since a decision, at most REFUSALS_MAX */
    uint8_t pauses, way, is_settled;
};

/* Another rank. */
struct weft_program_peer {
    uint8_t is_known, is_mapped;
    struct weft_wire_mailbox mailbox;
    uint8_t *memory; /* its mailbox */
    struct weft_share_import *import;
    uint64_t loan;           /* of this rank's mailbox to it, where it is of this process */
    uint64_t sent, received; /* messages of all programs so far */
    uint64_t refused;        /* operations whose votes are to be answered no, by sequence % WEFT_OPS_MAX; */
    uint32_t refused_last;   /* the last of them, those further back are forgotten */
};

/* This rank's. */
struct weft_mailbox {
    const struct weft_device_kind *kind; /* NULL: there is none */
    int ordinal;
    uint8_t is_zeroed;
    uint8_t is_alone; /* the device's programs do not get on beside each other: */
    uint8_t is_claimed;
    uint32_t maker; /* the operation whose lane writes the zeros */
    uint8_t *memory;
    size_t bytes;
    struct weft_lanes *lanes; /* which have the memory in the end */
    uint64_t *pinned;         /* the stop word, then zeros */
    struct weft_wire_mailbox told;
};

struct weft_programs {
    uint8_t is_hopeless; /* this rank never votes yes */
    uint8_t is_loud;     /* others may write into the mailbox though no operation here waits for it */
    uint8_t listens;     /* others may vote while this rank makes no call */
    struct weft_mailbox mailbox;
    uint32_t told; /* ranks that have been told of it, as bits */
    struct weft_program_peer peers[WEFT_PROGRAM_RANKS_MAX];
    struct weft_exec_op *voted; /* that has this rank's vote, or runs as a program */
    struct weft_program_class classes[WEFT_COLLECTIVE_COUNT][WEFT_PROGRAM_CLASSES];
};

/* Of one operation. */
struct weft_ballot {
    uint8_t is_cast, is_timed, way;
    uint32_t yes, told; /* ranks whose vote is here, and that have this rank's, as bits */
    int64_t decided_ns;
    uint32_t steps_max;
    uint64_t offsets[WEFT_PROGRAM_RANKS_MAX]; /* of each rank's part in this rank's mailbox */
    struct weft_wire_vote votes[WEFT_PROGRAM_RANKS_MAX];
    struct weft_program_channel channels[WEFT_PROGRAM_RANKS_MAX];
};

/* exec_votes.c */
/* A device operation begins: it may be voted for, if it is of a kind that can be a program. */
void weft_vote_open(struct weft_exec_op *op);
/* Votes, and decides when all votes are there: then the phase is another one. */
int weft_vote_run(struct weft_exec_op *op);
/* A VOTE for a running operation. */
int weft_vote_take(struct weft_exec_op *op, const struct weft_wire_header *header, const void *payload);
/* Whether a VOTE can be one at all; ahead: of what has begun here. */
int weft_vote_check(struct weft_exec *exec, const struct weft_wire_header *header, int32_t ahead);
/* Answers a vote with no, soon. */
int weft_vote_refuse(struct weft_exec *exec, uint32_t rank, uint32_t sequence);
/* The lane's work of the operation is done. */
void weft_vote_ended(struct weft_exec_op *op);
/* It ends early: its program, if it has one, ends soon. */
void weft_vote_stop(struct weft_exec_op *op);
/* All operations end, and a program is told before anything is waited for: queues may share a channel to the device. */
void weft_programs_stop(struct weft_exec *exec);
/* Sends what others are to be told and could not be. */
int weft_votes_pay(struct weft_exec *exec);
/* NULL: they cannot be had, or are not wanted. */
struct weft_programs *weft_programs_get(struct weft_exec *exec);
void weft_programs_free(struct weft_exec *exec);
static inline uint32_t weft_programs_others(const struct weft_exec *exec)
{
    return ((1u << exec->options.ranks) - 1) & ~(1u << exec->options.rank);
}

/* exec_credit.c */
/* Asks the peer, if it has not been asked, how far it is. WEFT_OK or WEFT_AGAIN, or a failure. */
int weft_credit_inquire(struct weft_exec *exec, uint32_t rank, uint32_t op);

/* exec_device.c */
/* The plan's work is queued, or done: queues what comes behind it. */
int weft_device_finish(struct weft_exec_op *op);

/* exec_mailbox.c */
/* Whether the lane's device has this rank's mailbox, and all others' are mapped there: 1, 0 not (yet), or a failure. Makes it. */
int weft_mailbox_ready(struct weft_exec_op *op);
/* A MAILBOX message. */
int weft_mailbox_take(struct weft_exec *exec, const struct weft_wire_header *header, const void *payload);
/* Tells the others, as far as their links have room. */
int weft_mailbox_tell(struct weft_exec *exec);
/* Where messages begin, and how many bytes of them there can be. */
size_t weft_mailbox_begin(const struct weft_exec *exec);
size_t weft_mailbox_room(const struct weft_exec *exec);
/* Whether this rank may run a program now; until it gives that back. */
int weft_mailbox_claim(struct weft_exec *exec);
void weft_mailbox_unclaim(struct weft_exec *exec);
/* A program writes into the mailboxes of ranks of this process from now on, which stay; or does so no more. */
int weft_mailboxes_borrow(struct weft_exec_op *op);
void weft_mailboxes_return(struct weft_exec *exec);
/* The operation's lane still works with the mailboxes: they are given back when it has ended. */
void weft_mailbox_leave(struct weft_exec_op *op);
void weft_mailbox_close(struct weft_exec *exec);

/* exec_choice.c */
/* Of an operation that may be a program. */
struct weft_program_class *weft_program_class_of(const struct weft_exec_op *op);
/* Whether its calls are voted for now. */
int weft_program_class_votes(const struct weft_exec_op *op);
/* A vote for it has come to nothing. */
void weft_program_refused(const struct weft_exec_op *op);
/* All have voted: how the operation runs. The same at all ranks. */
enum weft_program_way weft_program_choose(struct weft_exec_op *op);
/* It has taken so long. */
void weft_program_learn(struct weft_exec_op *op, int64_t ns);

#endif
