/* SPDX-License-Identifier: Apache-2.0 */
/* Operations as device collectives: how ranks of one machine agree to run one, and what it runs on.
 *
 * A small operation between devices spends its time on launches and on the host that waits for them. As a device collective
 * (collective.h) every rank's device works through its whole part by itself, and waits for the other devices by words in its memory.
 * That is right only if all ranks do so; ranks know of each other's buffers, streams and devices only what they hear.
 *
 * Mailboxes. The first operation of a rank that could be a device collective makes its mailbox, on that operation's device: a
 * word for each rank, 64 bytes apart, then room for messages. Every other rank hears where it is (MAILBOX) and maps it. Which rank's
 * messages lie where is said anew with each vote.
 *
 * Votes. A rank votes yes for an operation when
 *   - its buffers are a device's, where the mailbox is, and its stream has come to the call;
 *   - it has mapped the mailboxes of all others, and what it is to receive fits into its own;
 *   - no other operation of this communicator has its vote or is a device collective, so that its mailbox is free; and where a device's kernels
 *     do not get on beside each other none of another communicator either (devmem/claim.h), which could wait at another rank for this one.
 * It sends its vote to all others, and waits. Nobody votes no unasked: a rank that does not vote for an operation answers the votes of the
 * others with no, when it has begun that operation, or when they come, also long after its end. So ranks whose buffers are on the
 * host pay nothing but those answers, and hear of none where no device is.
 *
 * Why all decide alike. Who has voted waits until its yes has left to all others and it has the votes of all, or one no. Only who
 * does not vote, or has got a no itself, says no. So if all vote there is no no: all see all votes, and run the kernel. If
 * one does not vote, nobody gets its yes; all that have voted get its no, or one that came of it, and take the ordinary way, as it
 * does. The operation begins at every rank, so every vote is answered.
 * A vote waits for others as an allreduce does. It never waits for another vote: a second operation that is ready meanwhile
 * is not voted for. A vote is a message ahead of its receiver like any other, and under the same bound (comm/exec/credit.c): beyond it there is no
 * vote.
 *
 * Mailboxes are free when all have voted: each rank's last kernel has ended, and with it all that was sent to that rank. Words are
 * never reset; both ends count the messages of all device collectives.
 *
 * Choice (choice.c). With WEFT_DEVICE_COLLECTIVE=auto the votes also say what each rank has measured, so that all compute the same
 * choice, which may be the ordinary way.
 *
 * A rank that has announced its mailbox answers votes also while it makes no call, for without it nobody votes: the context's
 * thread listens until the communicator ends. What it has heard says nothing: others may make their mailboxes, and vote, after this
 * rank's last call.
 *
 * Ending early. The kernel's stop word is set, and the command queue drained: bounded. Others may still write into the mailbox until they
 * have heard that the communicator has failed, and their devices have come to it: its memory is kept as long as the context. There are no
 * device collectives after a failure, as there are no operations. A mailbox into which nobody writes any more is given back by whoever may wait for
 * the device, as the memory of command queues.
 */
#ifndef WEFT_COMM_EXEC_DEVICE_VOTES_H
#define WEFT_COMM_EXEC_DEVICE_VOTES_H

#include "comm/exec/device/collective.h"
#include "comm/exec/device/device.h"

#define WEFT_DEVICE_COLLECTIVE_CLASSES 31 /* of sizes: powers of two */

enum weft_device_collective_way { WEFT_WAY_PLAN, WEFT_WAY_COLLECTIVE, WEFT_WAYS };

/* What is known of a collective's calls of one size, and how often they have been decided: the latter at all ranks alike. */
struct weft_device_collective_class {
    uint32_t cost_ns[WEFT_WAYS]; /* at this rank; 0: not known */
    uint32_t decided, since_look;
    uint32_t resume;        /* no votes before this operation, if `pauses` */
    uint32_t refused_round; /* at this rank: the last one with a vote that came to nothing, and */
    uint8_t refusals;       /* how many such rounds there were since a decision, at most REFUSALS_MAX */
    uint8_t pauses, way, is_settled;
};

/* Another rank. */
struct weft_device_collective_peer {
    uint8_t is_known, is_mapped;
    struct weft_wire_mailbox mailbox;
    uint8_t *memory; /* its mailbox */
    struct weft_share_import *import;
    uint64_t borrowed;       /* of this rank's mailbox to it, where it is of this process */
    uint64_t sent, received; /* messages of all device collectives so far */
    uint64_t refused;        /* operations whose votes are to be answered no, by sequence % WEFT_OPS_MAX; */
    uint32_t refused_last;   /* the last of them, those further back are forgotten */
};

/* This rank's. */
struct weft_mailbox {
    const struct weft_device_kind *kind; /* NULL: there is none */
    int ordinal;
    uint8_t is_zeroed;
    uint8_t is_alone; /* the device's kernels do not get on beside each other: */
    uint8_t is_claimed;
    uint32_t maker; /* the operation whose command queue writes the zeros */
    uint8_t *memory;
    size_t bytes;
    struct weft_command_queues *queues; /* which have the memory in the end */
    uint64_t *pinned;                   /* the stop word, then zeros */
    struct weft_wire_mailbox reported;
};

struct weft_device_collectives {
    uint8_t is_disabled; /* this rank never votes yes */
    uint8_t is_loud;     /* others may write into the mailbox though no operation here waits for it */
    uint8_t listens;     /* others may vote while this rank makes no call */
    struct weft_mailbox mailbox;
    uint32_t reported; /* ranks that know of it, as bits */
    struct weft_device_collective_peer peers[WEFT_DEVICE_COLLECTIVE_RANKS_MAX];
    struct weft_exec_op *voted; /* that has this rank's vote, or runs as a device collective */
    struct weft_device_collective_class classes[WEFT_COLLECTIVE_COUNT][WEFT_DEVICE_COLLECTIVE_CLASSES];
};

/* Of one operation. */
struct weft_ballot {
    uint8_t is_cast, is_timed, way;
    uint32_t yes, reported; /* ranks whose vote is here, and that have this rank's, as bits */
    int64_t decided_ns;
    uint32_t steps_max;
    uint64_t offsets[WEFT_DEVICE_COLLECTIVE_RANKS_MAX]; /* of each rank's part in this rank's mailbox */
    struct weft_wire_vote votes[WEFT_DEVICE_COLLECTIVE_RANKS_MAX];
    struct weft_device_collective_channel channels[WEFT_DEVICE_COLLECTIVE_RANKS_MAX];
};

/* votes.c */
/* A device operation begins: it may be voted for, if it is of a kind that can be a device collective. */
void weft_vote_open(struct weft_exec_op *op);
/* Votes, and decides when all votes are there: then the phase is another one. */
int weft_vote_run(struct weft_exec_op *op);
/* Whose votes are missing. */
void weft_vote_describe(const struct weft_exec_op *op, char *text, size_t capacity);
/* A VOTE for a running operation. */
int weft_vote_take(struct weft_exec_op *op, const struct weft_wire_header *header, const void *payload);
/* Whether a VOTE can be one at all; ahead: of what has begun here. */
int weft_vote_check(struct weft_exec *exec, const struct weft_wire_header *header, int32_t ahead);
/* Answers a vote with no, soon. */
int weft_vote_refuse(struct weft_exec *exec, uint32_t rank, uint32_t sequence);
/* The command queue's work of the operation is done. */
void weft_vote_ended(struct weft_exec_op *op);
/* It ends early: its device kernel, if it has one, ends soon. */
void weft_vote_stop(struct weft_exec_op *op);
/* All operations end, and a device kernel's stop word is set before anything is waited for: queues may share a channel to the device. */
void weft_device_collectives_stop(struct weft_exec *exec);
/* Sends what others are to hear and could not be sent. */
int weft_votes_pay(struct weft_exec *exec);
/* NULL: they cannot be had, or are not wanted. */
struct weft_device_collectives *weft_device_collectives_get(struct weft_exec *exec);
void weft_device_collectives_free(struct weft_exec *exec);
size_t weft_device_collectives_bytes(const struct weft_exec *exec);
static inline uint32_t weft_device_collectives_others(const struct weft_exec *exec)
{
    return ((1u << exec->options.ranks) - 1) & ~(1u << exec->options.rank);
}

/* device.c */
/* The plan's work is queued, or done: queues what comes behind it. */
int weft_device_finish(struct weft_exec_op *op);

/* mailbox.c */
/* Whether the command queue's device has this rank's mailbox, and all others' are mapped there: 1, 0 not (yet), or a failure. Makes it. */
int weft_mailbox_ready(struct weft_exec_op *op);
/* A MAILBOX message. */
int weft_mailbox_take(struct weft_exec *exec, const struct weft_wire_header *header, const void *payload);
/* Announces it to the others, as far as their links have room. */
int weft_mailbox_announce(struct weft_exec *exec);
/* Where messages begin, and how many bytes of them there can be. */
size_t weft_mailbox_begin(const struct weft_exec *exec);
size_t weft_mailbox_room(const struct weft_exec *exec);
/* Whether this rank may run a device collective now; until it gives that back. */
int weft_mailbox_claim(struct weft_exec *exec);
void weft_mailbox_unclaim(struct weft_exec *exec);
/* A device collective writes into the mailboxes of ranks of this process from now on, which stay; or does so no more. */
int weft_mailboxes_borrow(struct weft_exec_op *op);
void weft_mailboxes_return(struct weft_exec *exec);
/* The operation's command queue still works with the mailboxes: they are given back when it has ended. */
void weft_mailbox_leave(struct weft_exec_op *op);
void weft_mailbox_close(struct weft_exec *exec);

/* choice.c */
/* Of an operation that may be a device collective. */
struct weft_device_collective_class *weft_device_collective_class_of(const struct weft_exec_op *op);
/* Whether its calls are voted for now. */
int weft_device_collective_class_votes(const struct weft_exec_op *op);
/* A vote for it has come to nothing. */
void weft_device_collective_refused(const struct weft_exec_op *op);
/* All have voted: how the operation runs. The same at all ranks. */
enum weft_device_collective_way weft_device_collective_choose(struct weft_exec_op *op);
/* It has taken so long. */
void weft_device_collective_learn(struct weft_exec_op *op, int64_t ns);

#endif
