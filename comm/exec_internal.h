/* SPDX-License-Identifier: Apache-2.0 */
/* The executor's state, shared by its files:
 *   exec.c          operations, the window, the run loop
 *   exec_hazard.c   which flights wait for which, and how far they may follow
 *   exec_layout.c   where chunks lie
 *   exec_send.c     SEND: how bytes leave
 *   exec_recv.c     RECV: how bytes arrive
 *   exec_compute.c  REDUCE and COPY
 *   exec_small.c    operations without a window
 *   exec_message.c  messages in, and those that come too early
 *   exec_early.c    memory for those
 *   exec_credit.c   how far a rank may be ahead of another
 *   exec_flight.c   one message: how it travels
 *   exec_transfer.c messages outside of plans
 *   exec_recall.c   taking memory back when an operation ends early
 *   exec_look.c     how operations stand, for reports
 *   exec_device.c   memory of devices: beginning, end, shadows, computing
 *   exec_device_message.c   and SEND and RECV there, through staging
 *   exec_device_direct.c    and without, on one machine; exec_device.h is what these three offer
 *   exec_program.c, exec_votes.c, exec_mailbox.c, exec_choice.c   operations as programs of devices: exec_votes.h
 *
 * Every flight works through its range in order; `visible` is how far the steps that depend on it may follow. Where
 * its range lies in memory has been found when it was admitted; `start` is its position in the logical data
 * (exec_layout.c), by which flights compare how far they are.
 */
#ifndef WEFT_COMM_EXEC_INTERNAL_H
#define WEFT_COMM_EXEC_INTERNAL_H

#include "base/error.h"
#include "comm/exec.h"

#define WEFT_LANDINGS     4  /* slices of one RECV that are landed at a time */
#define WEFT_STAGES       4  /* slices of one SEND that are staged at a time */
#define WEFT_PUTS         32 /* puts of one SEND in flight */
#define WEFT_SLOTS_MAX    256
#define WEFT_NONE         0xff
#define WEFT_BUCKETS      64
#define WEFT_EAGER_AHEAD  256 /* eager messages of one operation to one peer, see exec_credit.c */
#define WEFT_EAGER_SLICES 4   /* and of one message: slices that the peer has not consumed */
/* Messages of one peer that are kept for steps to come: all that it can send before it must wait. Besides the eager ones
 * that is what belongs to the steps in its window, which stay there. */
#define WEFT_EARLY_MAX                                                                                       \
    (WEFT_OPS_MAX * (WEFT_EAGER_AHEAD * WEFT_EAGER_SLICES + WEFT_WINDOW_MAX * WEFT_LANDINGS))
#define WEFT_TRANSPORTS_MAX 4
#define WEFT_SMALL_BYTES    64 /* what a message of any transport holds */
#define WEFT_SMALL_SLOTS    2
#define WEFT_SMALL_FLIGHTS  (WEFT_SMALL_SLOTS + 1)
#define WEFT_WORK_BYTES     (256 * 1024) /* computed before transports are polled again */

/* An offer of device memory that cannot be used. */
enum weft_refusal { WEFT_REFUSAL_NONE, WEFT_REFUSAL_OWED, WEFT_REFUSAL_TOLD };

enum weft_mode { WEFT_MODE_EAGER, WEFT_MODE_READ, WEFT_MODE_PUT };

/* A message that came before the step that wants it. */
struct weft_early {
    struct weft_early *next;
    uint32_t class; /* of its size */
    uint32_t size;
    uint64_t data[];
};

#define WEFT_EARLY_CLASSES 11 /* 128 bytes to 128 KiB; what is larger is not kept when it is free */

struct weft_early_pool {
    struct weft_early *free;
    uint32_t count;
};

/* One landed slice (RECV) or one landing that the peer offered (SEND). */
struct weft_landing {
    struct weft_token token;
    void *buffer;      /* RECV into a SLOT: the landing memory */
    uint8_t open;      /* RECV: land() was called and nothing has landed yet */
    uint8_t announced; /* RECV: the peer knows; SEND: the token is here and not used yet */
    uint8_t landed;    /* RECV: the bytes are there */
};

struct weft_flight {
    struct weft_step step;
    size_t start, length; /* bytes */
    uint8_t *target;      /* RECV, REDUCE, COPY: where the range lies; of no meaning for a SLOT */
    const uint8_t *sources[WEFT_STEP_SOURCES_MAX];
    size_t done;         /* bytes finished, in order */
    size_t visible;      /* bytes that dependents may use: a RECV into a SLOT is ahead of `done` here */
    uint64_t waits;      /* flights (bit by index) this one has a hazard with */
    uint64_t whole;      /* those of them that must end first: their bytes are not in step with these */
    uint64_t dependents; /* flights that wait for this one */
    uint32_t sequence;   /* tells successive flights of one index apart */
    uint8_t index, mode;
    uint8_t bound[WEFT_STEP_SOURCES_MAX]; /* the RECV flight behind a SLOT source */
    uint8_t into_slot;                    /* RECV whose data only feeds one REDUCE or COPY */
    uint32_t landed;                      /* PUT, RECV: next slice to land; SEND: next slice to put */

    /* SEND and RECV */
    struct weft_op_peer *peer; /* NULL in a transfer */
    uint32_t rank;             /* the other end */
    uint32_t message;
    size_t slice_bytes;
    uint32_t slices;
    uint32_t told;      /* slices announced or, for puts, finished (SEND); acknowledged (RECV) */
    uint32_t puts_done; /* SEND: finished puts from `told` on, as bits */
    uint32_t ready;     /* RECV: slices the sender has announced */
    uint32_t staged;    /* SEND: slices copied to staging; RECV of a device: slices that are in staging */
    uint32_t copied;    /* of a device: slices that it has copied; direct, shared: that it has done with */
    uint32_t taken;     /* eager SEND: slices that the peer is known to have consumed */
    uint8_t direct;     /* PUT of a device: its memory is registered, and not staged */
    uint8_t shared;     /* READ of a device: the receiver works on the sender's memory */
    uint8_t staging;    /* SEND, RECV: the offer is a ring of staged slices */
    uint8_t lending;    /* SEND: through a conduit of the link */
    uint8_t lent_here;  /* RECV: the offer comes through a conduit */
    uint8_t announced;  /* PUT of an operation with sized messages: the length has been told */
    uint8_t refuses;    /* RECV: enum weft_refusal */
    uint8_t have_token;
    uint32_t conduit;
    union {                   /* when the memory is shared */
        uint8_t *guard;       /* SEND: the memory behind the token */
        const uint8_t *reach; /* RECV: the sender's memory */
    };
    struct weft_share_import *import;
    uint64_t loan; /* SEND, RECV: of the memory that is shared with a rank of this process; 0: none */
    size_t lent;   /* SEND: bytes passed into the conduit */
    struct weft_token token;
    const uint8_t *mapped;   /* RECV: the peer's memory, when it can be loaded */
    const uint8_t *payload;  /* RECV: payload of the message being delivered right now */
    struct weft_early *held; /* RECV: eager slices waiting, in order */
    uint8_t *stage_buffer;
    struct weft_landing landings[WEFT_LANDINGS];
    struct weft_region *region; /* PUT: of the memory that is landed or sent */
};

/* Where an operation stands with one peer. */
struct weft_op_peer {
    uint32_t rank;
    uint32_t sends, receives;             /* messages so far, in program order */
    uint8_t send_flight[WEFT_WINDOW_MAX]; /* by message % WEFT_WINDOW_MAX */
    uint8_t receive_flight[WEFT_WINDOW_MAX];
    uint32_t eager_sent, eager_known;    /* eager messages to it; those that it is known to have consumed */
    uint32_t eager_admitted;             /* eager messages of it that steps in or before the window want */
    uint32_t eager_consumed, eager_told; /* those that have been consumed; that it has been told of */
    uint64_t waiting;                    /* flights (bit by index) that wait for it to say how far it is */
    struct weft_early *early;            /* in order of arrival */
    struct weft_early **early_tail;
};

/* What a buffer's blocks are in an unequal call: bytes. [ranks] each, NULL: one block, the rank's own. */
struct weft_side {
    const size_t *starts, *lengths;
};

/* Memory of one operation that peers may read or write. */
struct weft_extent {
    uint8_t *memory;
    size_t bytes;
};

#define WEFT_BUFFERS (WEFT_BUFFER_CELL + 1)

/* Where an operation's chunks lie: exec_layout.c. */
struct weft_layout {
    uint8_t unequal;
    uint8_t
        sized; /* ranks do not know each other's lengths: messages carry theirs, and there are empty ones */
    uint32_t chunks;
    size_t element_bytes;
    size_t quotient, remainder;      /* equal: bytes per chunk, and elements that are left over for all */
    uintptr_t origins[WEFT_BUFFERS]; /* address of position 0, or of an unequal buffer */
    uint8_t *cells;
    size_t cell_bytes;
    struct weft_extent extents[WEFT_BUFFERS];
    struct weft_side input, output, space;
    size_t own;           /* unequal: bytes of the rank's own block */
    const size_t *places; /* [ranks + 1] of the chunks in the space; NULL: not known */
    /* Kept when the operation struct is used again. */
    size_t *table;
    size_t table_entries;
    uint8_t *memory; /* TEMP and cells */
    size_t own_bytes;
    uint8_t *nothing; /* buffers of an operation without elements */
    size_t nothing_bytes;
};

/* The steps of a plan that are under way. Hazard summary per flight index; buckets: which flights touch a chunk, by
 * chunk % WEFT_BUCKETS; candidates found there are compared exactly. */
struct weft_op_window {
    uint64_t buckets[WEFT_BUCKETS];
    uint32_t writes[WEFT_WINDOW_MAX], touches[WEFT_WINDOW_MAX];
    uint64_t cell_users[WEFT_CELLS_MAX]; /* which flights touch a cell */
    uint8_t slot_writer[WEFT_SLOTS_MAX];
    struct weft_flight flights[WEFT_WINDOW_MAX];
    /* Of a small operation: */
    _Alignas(16) uint8_t slots[WEFT_SMALL_SLOTS][WEFT_SMALL_BYTES];
    _Alignas(16) uint8_t temp[WEFT_SMALL_BYTES];
};

struct weft_exec_op {
    struct weft_exec *exec;
    struct weft_exec_request request;
    struct weft_cursor cursor;
    uint32_t sequence;              /* a transfer's: its id */
    uint8_t head_index, tail_index; /* of the window's ends */
    uint64_t count;                 /* what its messages carry beside the digest */
    uint32_t peer_id;               /* transfers: the id at the other end */
    int status;                     /* WEFT_AGAIN while running */
    uint8_t exhausted, in_place;
    uint8_t device;      /* runs on memory of a device: exec_device.c */
    uint8_t phase, vote; /* enum weft_phase; enum weft_vote (exec_votes.h) */
    uint8_t small;       /* runs without the window: exec_small.c; */
    uint8_t at_step;     /* its current flight holds a step that is not done */
    uint8_t has_regions; /* some of `regions` */
    size_t scaled;       /* elements that the host has multiplied */
    uint32_t head, tail; /* flight sequence numbers: [head, tail) is the window */
    uint64_t runnable;   /* flights that may move */
    uint64_t blocked;    /* flights to retry on the next progress call */
    uint64_t active;
    struct weft_layout layout;
    uint32_t peer_count, peer_capacity;
    struct weft_op_peer **peers;   /* in order of first use; kept when the operation struct is used again */
    struct weft_op_peer **by_rank; /* [ranks], NULL where not used yet */
    struct weft_region *regions[WEFT_TRANSPORTS_MAX][WEFT_BUFFERS]; /* held until the end */
    /* Of a device's buffers, as bits: those that SENDs, [1] RECVs, do not reach. */
    uint8_t refused[WEFT_TRANSPORTS_MAX][2];
    struct weft_extent shadows[2]; /* of the extents of INPUT and OUTPUT; in place one */
    struct weft_extent shadowed[2];
    struct weft_ballot *ballot; /* of an operation on a device; kept when the struct is used again */
    struct weft_exec_look look;
    size_t work_bytes;             /* computed since the last return to the progress loop */
    struct weft_op_window *window; /* NULL: a transfer, which has one flight and no plan */
    struct weft_flight *flights;
};

/* Where an operation with a lane stands. */
enum weft_phase {
    WEFT_PHASE_DONE,   /* the lane has nothing to do any more, or there is none */
    WEFT_PHASE_LOADS,  /* copies into the shadows */
    WEFT_PHASE_SCALES, /* the host multiplies the input, a piece at a time */
    WEFT_PHASE_VOTES,  /* waits for the other ranks' votes: exec_votes.c */
    WEFT_PHASE_RUNS,
    WEFT_PHASE_ENDS,    /* waits for the last of the lane's work */
    WEFT_PHASE_STOPPED, /* has ended early; the lane may still be working */
};

/* A message outside of plans: an operation of one flight. */
struct weft_transfer {
    struct weft_exec_op op; /* first: one is cast to the other */
    struct weft_flight flight;
    struct weft_transfer *next, *previous; /* in the queue of those that want to run */
    int queued;
    weft_exec_ended *ended;
    void *arg;
};

/* An id is the index of its slot and a generation, so that a late message does not meet its slot's next user. */
struct weft_transfer_slot {
    void *arg;
    struct weft_transfer *transfer; /* NULL: reserved only */
    uint32_t id;                    /* 0: free */
    uint32_t generation, next_free;
};

struct weft_transfer_table {
    struct weft_transfer_slot *slots;
    uint32_t capacity, free;           /* first free slot, WEFT_TRANSFERS_MAX: none */
    struct weft_transfer *head, *tail; /* want to run */
    struct weft_transfer *spare;       /* ended; some are kept */
    uint32_t spare_count, running;
};

/* What this rank and a peer know of each other's progress: exec_credit.c. */
struct weft_credit {
    uint32_t seen;       /* the last operation that the peer is known to have begun */
    uint32_t owed_op;    /* the one it asked about */
    uint8_t asked, owed; /* an answer is due from the peer, to the peer */
    uint8_t awaited;     /* flights wait for the answer */
};
#define WEFT_CREDIT_ASK (WEFT_OPS_MAX / 2)

/* An operation that has begun, for messages that come when it is over. */
struct weft_past_op {
    uint32_t sequence, digest;
    struct weft_call call;
};

struct weft_exec {
    struct weft_exec_options options;
    struct weft_exec_peer *peers;           /* [ranks] */
    const void **senders;                   /* [ranks] whose messages are known to be the rank's; NULL: ask */
    struct weft_credit *credits;            /* [ranks] */
    uint32_t debts;                         /* how many of them are owed */
    int debts_blocked;                      /* one could not be paid for a full link */
    int tells_blocked;                      /* nor could a peer be told what has been consumed */
    struct weft_past_op past[WEFT_OPS_MAX]; /* by sequence % WEFT_OPS_MAX */
    uint32_t *early_counts;                 /* [ranks] of its messages in lists of early ones */
    struct weft_exec_op *ops[WEFT_OPS_MAX]; /* running, by sequence % WEFT_OPS_MAX */
    uint64_t running;                       /* their bits */
    uint32_t next_sequence;
    struct weft_early *early; /* for operations not started here yet */
    struct weft_early **early_tail;
    struct weft_early_pool early_pools[WEFT_EARLY_CLASSES];
    struct weft_exec_op *spare_ops; /* one finished operation kept for the next */
    struct weft_transfer_table transfers;
    struct weft_programs *programs; /* NULL: not needed so far */
    struct weft_exec_stats stats;
    uint8_t *scratch[WEFT_STEP_SOURCES_MAX]; /* pulled slices on their way into a reduction */
    size_t scratch_bytes[WEFT_STEP_SOURCES_MAX];
    int64_t stop_ns;   /* when it failed: until when work of devices that is still queued is waited for; */
    int64_t recall_ns; /* that of other ranks; 0: none has been so far */
    int status;
    char failure[WEFT_DETAIL_MAX];
};

/* exec_hazard.c */
/* Notes what the flight reads and writes and finds the flights that it must wait for. */
void weft_hazards_enter(struct weft_exec_op *op, struct weft_flight *flight);
void weft_hazards_leave(struct weft_exec_op *op, const struct weft_flight *flight);
/* How far the flight may go now, in bytes. */
size_t weft_flight_limit(const struct weft_exec_op *op, const struct weft_flight *flight);

/* exec_layout.c */
/* Finds out where everything of a request lies; a call without elements gets one that is nobody's. */
int weft_layout_open(struct weft_layout *layout, struct weft_exec_request *request);
/* The bytes of one of the caller's buffers that the plan may touch, for equal blocks and even collectives. */
struct weft_extent weft_layout_window(const struct weft_layout *layout, const struct weft_plan *plan,
                                      enum weft_buffer buffer);
/* The range of a flight's step. */
void weft_layout_place(const struct weft_layout *layout, struct weft_flight *flight);
/* The operation is over: what is too large to keep goes. */
void weft_layout_end(struct weft_layout *layout);
void weft_layout_close(struct weft_layout *layout);

/* exec.c */
void weft_flight_wake(struct weft_exec_op *op, struct weft_flight *flight);
void weft_flight_finish(struct weft_exec_op *op, struct weft_flight *flight);
void weft_op_fail(struct weft_exec_op *op, int status);
void weft_op_run(struct weft_exec_op *op);
/* Runs the window as far as it goes. */
int weft_window_run(struct weft_exec_op *op);
int weft_op_region(struct weft_exec_op *op, const struct weft_exec_peer *peer, unsigned buffer,
                   struct weft_region **region);
/* Lets go of flights, early messages and regions when an operation ends. */
void weft_op_release(struct weft_exec_op *op);

/* exec_flight.c */
/* Sets a message to or from rank up and decides how it travels. */
int weft_flight_open(struct weft_exec_op *op, struct weft_flight *flight, uint32_t rank);
/* What names a slice in completions: the executor's id, then bit 31 set for a transfer with 23 bits of its id, or 11
 * bits of the operation's sequence and 12 of the flight's; then 8 of the slice. */
uint64_t weft_flight_cookie(const struct weft_exec_op *op, const struct weft_flight *flight, uint32_t slice);
/* Sends a control message or payload of a flight; WEFT_AGAIN when the link is full. */
int weft_flight_send(struct weft_exec_op *op, struct weft_flight *flight, enum weft_wire_kind kind,
                     uint32_t flags, uint32_t slice, const void *payload, uint32_t size);

static inline void weft_flight_again(struct weft_exec_op *op, const struct weft_flight *flight)
{
    op->runnable |= 1ULL << flight->index;
}

static inline void weft_flight_block(struct weft_exec_op *op, const struct weft_flight *flight)
{
    op->blocked |= 1ULL << flight->index;
}

/* Bytes of slice `slice`. */
static inline size_t weft_slice_size(const struct weft_flight *flight, uint32_t slice)
{
    size_t begin = (size_t)slice * flight->slice_bytes;
    size_t left = flight->length - begin;
    return left < flight->slice_bytes ? left : flight->slice_bytes;
}

/* Whole slices within the first `bytes` of the flight; all of them when bytes is its length. */
static inline uint32_t weft_slices_within(const struct weft_flight *flight, size_t bytes)
{
    return bytes >= flight->length ? flight->slices : (uint32_t)(bytes / flight->slice_bytes);
}

/* Bytes of the first `slices` slices. */
static inline size_t weft_slices_bytes(const struct weft_flight *flight, uint32_t slices)
{
    return slices >= flight->slices ? flight->length : (size_t)slices * flight->slice_bytes;
}

/* exec_send.c, exec_recv.c, exec_compute.c: move a flight as far as it goes. 0 or the status it fails with.
 */
int weft_send_advance(struct weft_exec_op *op, struct weft_flight *flight);
void weft_send_taken(struct weft_exec_op *op, struct weft_flight *flight, uint32_t slices);
int weft_send_landing(struct weft_exec_op *op, struct weft_flight *flight, uint32_t slice,
                      const struct weft_token *token);
void weft_send_put_done(struct weft_exec_op *op, struct weft_flight *flight, uint32_t slice);
/* Asks back the puts that are under way; the transport's recall_wait() ends them. */
void weft_send_recall(struct weft_exec_op *op, struct weft_flight *flight);
void weft_send_release(struct weft_exec_op *op, struct weft_flight *flight);

int weft_recv_advance(struct weft_exec_op *op, struct weft_flight *flight);
/* Delivers a message to its RECV. *kept is set when `early` (may be NULL) was taken over. */
int weft_recv_message(struct weft_exec_op *op, struct weft_flight *flight,
                      const struct weft_wire_header *header, const void *payload, struct weft_early *early,
                      int *kept);
int weft_recv_landed(struct weft_exec_op *op, struct weft_flight *flight, uint32_t slice);
/* Where size bytes from position on of a RECV into a SLOT lie; they are within one slice. */
int weft_recv_source(struct weft_exec_op *op, struct weft_flight *flight, size_t position, size_t size,
                     int scratch, const uint8_t **source);
/* The eager payload that holds position; and those before position are not needed any more. */
const uint8_t *weft_recv_payload(const struct weft_flight *flight, size_t position);
void weft_recv_drop(struct weft_exec_op *op, struct weft_flight *flight, size_t position);
/* Acknowledges what has been taken, and finishes when nothing is left. */
int weft_recv_settle(struct weft_exec_op *op, struct weft_flight *flight);
/* READ: reads a slice from the peer's memory. */
int weft_recv_fetch(struct weft_exec_op *op, struct weft_flight *flight, uint32_t slice, uint8_t *target);
/* PUT: whether what comes lands in a buffer of its own, and not where it belongs. */
static inline int weft_recv_lands_aside(const struct weft_exec_op *op, const struct weft_flight *flight)
{
    return flight->into_slot || (op->device && !flight->direct);
}
/* PUT: prepares memory for what comes next. */
int weft_recv_land(struct weft_exec_op *op, struct weft_flight *flight);
/* The consumer has used everything before position. */
int weft_recv_consumed(struct weft_exec_op *op, struct weft_flight *flight, size_t position);
/* Asks back the memory that is landed; the transport's recall_wait() ends that. */
void weft_recv_recall(struct weft_exec_op *op, struct weft_flight *flight);
void weft_recv_release(struct weft_exec_op *op, struct weft_flight *flight);

int weft_compute_advance(struct weft_exec_op *op, struct weft_flight *flight);
/* REDUCE or COPY of the next size bytes of the flight's range; sources: those bytes. */
void weft_compute(struct weft_exec_op *op, const struct weft_flight *flight, size_t size,
                  const void *const *sources);

/* exec_small.c */
/* Whether an operation is run there. */
int weft_small_is(const struct weft_exec_request *request);
/* Where its buffers lie: what weft_layout_open() would find. */
void weft_small_place(struct weft_exec_op *op);
/* Runs it as far as it goes. 0 or the status it fails with. */
int weft_small_run(struct weft_exec_op *op);
/* The message that the flight waits for has come. */
int weft_small_take(struct weft_exec_op *op, struct weft_flight *flight, const void *payload);

/* exec_recall.c */
/* Asks back whatever peers could still read or write, without waiting. Returns the transports concerned, as
 * bits. */
uint32_t weft_op_recall(struct weft_exec_op *op);
/* Everything that was asked back is the caller's again when this returns. */
void weft_recalls_await(struct weft_exec *exec, uint32_t transports);

/* exec_transfer.c */
/* Puts a transfer that is not done into the queue, if it wants to run. */
void weft_transfer_queue(struct weft_exec_op *op);
void weft_transfer_end(struct weft_exec_op *op, int status);
/* Runs some of the queue, in turn. Returns how many moved. */
int weft_transfers_progress(struct weft_exec *exec);
int weft_transfers_blocked(const struct weft_exec *exec);
/* Asks back what peers could still read or write. */
void weft_transfers_recall(struct weft_exec *exec);
void weft_transfers_fail(struct weft_exec *exec, int status);
void weft_transfers_free(struct weft_exec *exec);
/* A message with WEFT_WIRE_TRANSFER. 0 or the status to fail with. */
int weft_transfer_message(struct weft_exec *exec, const struct weft_wire_header *header, const void *payload);
/* The running transfer that a completion is for, or NULL. */
struct weft_exec_op *weft_transfer_by_cookie(struct weft_exec *exec, uint64_t cookie);

/* exec_credit.c */
/* The operation is far beyond what the peer is known to have begun: asks. WEFT_AGAIN when no message may be sent to it
 * yet: the flight will be woken. */
int weft_credit_ask(struct weft_exec_op *op, struct weft_flight *flight);
/* Whether a SEND or a landing may leave: WEFT_OK, WEFT_AGAIN or a failure. */
static inline int weft_credit_check(struct weft_exec_op *op, struct weft_flight *flight)
{
    if (!op->window || (int32_t)(op->sequence - op->exec->credits[flight->rank].seen) < WEFT_CREDIT_ASK)
        return WEFT_OK;
    return weft_credit_ask(op, flight);
}
/* Wakes what waits for the peer to begin operations. */
void weft_credit_wake(struct weft_exec *exec, uint32_t rank);
static inline void weft_credit_seen(struct weft_exec *exec, uint32_t rank, uint32_t op)
{
    struct weft_credit *credit = &exec->credits[rank];
    if ((int32_t)(op - credit->seen) <= 0)
        return;
    credit->seen = op;
    if (credit->awaited)
        weft_credit_wake(exec, rank);
}
/* Whether an eager SEND may send its next slice. If not, it will be woken. Transfers may: both ends have begun. */
static inline int weft_eager_may(struct weft_flight *flight)
{
    struct weft_op_peer *peer = flight->peer;
    if (!peer)
        return 1;
    if (flight->told)
        return flight->told - flight->taken < WEFT_EAGER_SLICES;
    if (peer->eager_sent - peer->eager_known < WEFT_EAGER_AHEAD)
        return 1;
    peer->waiting |= 1ULL << flight->index;
    return 0;
}
/* Tells the peer how many eager messages have been consumed, when it is time. */
int weft_eager_tell(struct weft_exec_op *op, struct weft_op_peer *peer);
static inline int weft_eager_admit(struct weft_exec_op *op, struct weft_op_peer *peer)
{
    return ++peer->eager_admitted - peer->eager_told > WEFT_EAGER_AHEAD ? weft_eager_tell(op, peer) : WEFT_OK;
}
static inline int weft_eager_consume(struct weft_exec_op *op, struct weft_op_peer *peer)
{
    peer->eager_consumed++;
    return peer->eager_admitted - peer->eager_told > WEFT_EAGER_AHEAD ? weft_eager_tell(op, peer) : WEFT_OK;
}
/* Answers who has asked, as far as this rank is near enough now, and tells what could not be told. */
void weft_credit_pay(struct weft_exec *exec);
/* ASK, CREDIT and CONSUMED. */
int weft_credit_message(struct weft_exec *exec, const struct weft_wire_header *header);

/* exec_early.c */
struct weft_early *weft_early_copy(struct weft_exec *exec, const struct weft_wire_header *header,
                                   const void *payload);
void weft_early_free(struct weft_exec *exec, struct weft_early *early);
void weft_early_free_list(struct weft_exec *exec, struct weft_early *list);
/* Gives free memory back. */
void weft_early_trim(struct weft_exec *exec);

/* exec_message.c */
/* Whether the message belongs to a SEND of this rank (answers) rather than a RECV. */
int weft_wire_is_answer(const struct weft_wire_header *header);
int weft_answer_deliver(struct weft_exec_op *op, struct weft_flight *flight,
                        const struct weft_wire_header *header, const void *payload);
struct weft_op_peer *weft_op_peer_find(struct weft_exec_op *op, uint32_t rank, int create);
/* Hands a newly admitted SEND or RECV what came early for it. */
int weft_early_claim(struct weft_exec_op *op, struct weft_flight *flight);
/* The operation is done: whether messages that came early were for none of its steps, which is a disagreement. */
int weft_early_left(struct weft_exec_op *op);
/* Moves what came before the operation started to its peers. */
int weft_early_adopt(struct weft_exec_op *op);
/* Frees a list of messages that came early. */
void weft_early_drop(struct weft_exec *exec, struct weft_early *list);

#endif
