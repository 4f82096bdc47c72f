/* SPDX-License-Identifier: Apache-2.0 */
/* The executor's state, shared by its files:
 *   exec.c      an executor, and its operations from start to end
 *   window.c    the window, the run loop
 *   hazard.c    which steps wait for which, and how far they may follow
 *   layout.c    where chunks lie
 *   send.c      SEND: how bytes leave
 *   recv.c      RECV: how bytes arrive
 *   read.c      and how those are read that the sender offers
 *   compute.c   REDUCE and COPY
 *   message.c   messages and completions in
 *   deliver.c   what messages mean for steps, and those that come too early
 *   early.c     memory for those
 *   mismatch.c  what is said where ranks are not in the same call
 *   credit.c    how far a rank may be ahead of another
 *   eager.c      how a message travels: the eager limit
 *   inflight.c  how a step begins, speaks and ends
 *   stage.c     staging memory
 *   trials.c    which calls stage by choice, and what is learnt from them
 *   transfer.c  messages outside of plans
 *   recall.c    taking memory back when an operation ends early
 *   look.c      how operations stand, for reports
 *
 * Every step in flight works through its range in order; `visible` is how far the steps that depend on it may follow. Where
 * its range lies in memory has been found when it was admitted; `start` is its position in the logical data
 * (layout.c), by which steps compare how far they are.
 */
#ifndef WEFT_COMM_EXEC_INTERNAL_H
#define WEFT_COMM_EXEC_INTERNAL_H

#include "base/error.h"
#include "comm/exec/devices.h"
#include "comm/exec/exec.h"
#include "comm/exec/trials.h"

#define WEFT_RBUFS        4  /* slices of one RECV that have a receive buffer at a time */
#define WEFT_STAGES       4  /* slices of one SEND that are staged at a time */
#define WEFT_PUTS         32 /* puts of one SEND in flight */
#define WEFT_SLOTS_MAX    256
#define WEFT_NONE         0xff
#define WEFT_BUCKETS      64
#define WEFT_EAGER_AHEAD  256 /* eager messages of one operation to one peer, see credit.c */
#define WEFT_EAGER_SLICES 4   /* and of one message: slices that the peer has not consumed */
/* Messages of one peer that are kept for steps to come: all that it can send before it must wait. Besides the eager ones
 * that is what belongs to the steps in its window, which stay there. */
#define WEFT_EARLY_MAX      (WEFT_OPS_MAX * (WEFT_EAGER_AHEAD * WEFT_EAGER_SLICES + WEFT_WINDOW_MAX * WEFT_RBUFS))
#define WEFT_TRANSPORTS_MAX 4
#define WEFT_WORK_BYTES     (256 * 1024) /* computed before transports are polled again, a slice or read more */
#define WEFT_STOP_MS        WEFT_RECALL_MS /* how long a device's work that has been queued may take to end */
/* Only a transport with one of these is asked whether it registers device memory: others may copy by the processor, which need not reach it. */
#define WEFT_CAP_DEVICE_MEMORY (WEFT_CAP_DMABUF | WEFT_CAP_DEVICE_POINTER)

/* An offer of device memory that cannot be used. */
enum weft_refusal { WEFT_REFUSAL_NONE, WEFT_REFUSAL_OWED, WEFT_REFUSAL_SENT };

enum weft_mode { WEFT_MODE_EAGER, WEFT_MODE_READ, WEFT_MODE_PUT };

/* A message that came before the step that wants it. */
struct weft_early {
    struct weft_early *next;
    uint64_t data[];
};

/* The receive buffer of one slice (RECV) or one that the peer offered (SEND). */
struct weft_rbuf {
    struct weft_token token;
    void *buffer;      /* RECV into a SLOT: the memory */
    uint8_t open;      /* RECV: advertise() was called and nothing has been written yet */
    uint8_t announced; /* RECV: the peer knows; SEND: the token is here and not used yet */
    uint8_t filled;    /* RECV: the bytes are there */
};

struct weft_inflight {
    struct weft_step step;
    size_t start, length; /* bytes */
    uint8_t *target;      /* RECV, REDUCE, COPY: where the range lies; of no meaning for a SLOT */
    const uint8_t *sources[WEFT_STEP_SOURCES_MAX];
    size_t done;         /* bytes finished, in order */
    size_t visible;      /* bytes that dependents may use: a RECV into a SLOT is ahead of `done` here */
    uint64_t waits;      /* steps (bit by index) this one has a hazard with */
    uint64_t whole;      /* those of them that must end first: their bytes are not in step with these */
    uint64_t dependents; /* steps that wait for this one */
    uint32_t sequence;   /* one more for each step in flight that takes this index */
    uint8_t index, mode;
    uint8_t bound[WEFT_STEP_SOURCES_MAX]; /* the RECV behind a SLOT source */
    uint8_t into_slot;                    /* RECV whose data only feeds one REDUCE or COPY */

    /* SEND and RECV */
    struct weft_op_peer *peer; /* NULL in a transfer */
    uint32_t rank;             /* the other end */
    uint32_t message;
    size_t slice_bytes;
    uint32_t slices;
    /* What follows, up to the region, is 0 at first: weft_inflight_open(). */
    uint32_t reported;  /* slices announced or, for puts, finished (SEND); acknowledged (RECV) */
    uint32_t puts_done; /* SEND: finished puts from the first not yet announced on, as bits */
    uint32_t ready;     /* RECV: slices the sender has announced */
    uint32_t staged;    /* SEND: slices copied to staging; RECV of a device: slices that are in staging */
    uint32_t copied;    /* of a device: slices that it has copied; direct, shared: that it has done with */
    uint32_t taken;     /* eager SEND: slices that the peer is known to have consumed */
    uint32_t next_rbuf; /* PUT, RECV: next slice to advertise; SEND: next slice to put */
    uint8_t direct;     /* PUT of a device: its memory is registered, and not staged */
    uint8_t shared;     /* READ of a device: the receiver works on the sender's memory */
    uint8_t staging;    /* SEND, RECV: the offer is a ring of staged slices */
    uint8_t is_past;    /* SEND: what is staged goes past the caches */
    uint8_t announced;  /* PUT of an operation with sized messages: the length has been announced */
    uint8_t refuses;    /* RECV: enum weft_refusal */
    uint8_t have_token;
    uint8_t is_chosen;        /* SEND: it is staged because that is faster */
    uint8_t is_unanswered;    /* RECV: the sender runs no transfer, and hears of its end alone */
    union {                   /* when the memory is shared */
        uint8_t *guard;       /* SEND: the memory behind the token */
        const uint8_t *reach; /* RECV: the sender's memory */
    };
    struct weft_share_import *import;
    uint64_t borrowed;     /* SEND, RECV: of the memory that is shared with a rank of this process; 0: none */
    const uint8_t *mapped; /* RECV: the peer's memory, when it can be loaded */
    const uint8_t *payload;  /* RECV: payload of the message being delivered right now */
    struct weft_early *held; /* RECV: eager slices waiting, in order */
    uint8_t *stage_buffer;
    struct weft_region *region; /* PUT: of the memory that is advertised or sent */
    int64_t offered_ns;
    int64_t *took_ns; /* SEND of a transfer that is measured, from offered_ns on */
    struct weft_token token;
    struct weft_rbuf rbufs[WEFT_RBUFS];
};

/* Where an operation stands with one peer. */
struct weft_op_peer {
    uint32_t rank;
    uint32_t sends, receives;            /* messages so far, in program order */
    uint8_t send_index[WEFT_WINDOW_MAX]; /* by message % WEFT_WINDOW_MAX */
    uint8_t receive_index[WEFT_WINDOW_MAX];
    uint32_t eager_sent, eager_known; /* eager messages to it; those that it is known to have consumed */
    uint32_t eager_admitted;          /* eager messages of it that steps in or before the window want */
    uint32_t eager_consumed, eager_reported; /* those that have been consumed; that it knows to be */
    uint64_t waiting;                        /* steps (bit by index) that wait for it to say how far it is */
    struct weft_early *early;                /* in order of arrival */
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

/* Where an operation's chunks lie: layout.c. */
struct weft_layout {
    uint8_t unequal;
    uint8_t
        sized; /* ranks do not know each other's lengths: messages carry theirs, and there are empty ones */
    uint8_t
        paired; /* sized: those of both directions, as every rank sends every other a message: weft_call_pair() */
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

/* The steps of a plan that are in flight. Hazard summary per index; buckets: which steps touch a chunk, by
 * chunk % WEFT_BUCKETS; candidates found there are compared exactly. */
struct weft_op_window {
    uint64_t buckets[WEFT_BUCKETS];
    uint32_t writes[WEFT_WINDOW_MAX], touches[WEFT_WINDOW_MAX];
    uint64_t cell_users[WEFT_CELLS_MAX]; /* which steps touch a cell */
    uint8_t slot_writer[WEFT_SLOTS_MAX];
    struct weft_trial trial;
    struct weft_inflight in_flight[WEFT_WINDOW_MAX];
};

struct weft_exec_op {
    int status; /* WEFT_AGAIN while running; first: weft_exec_op_status() */
    struct weft_exec *exec;
    struct weft_exec_request request;
    struct weft_cursor cursor;
    uint32_t sequence;              /* a transfer's: its id */
    uint8_t head_index, tail_index; /* of the window's ends */
    uint64_t count;                 /* what its messages carry beside the digest */
    uint32_t peer_id;               /* transfers: the id at the other end */
    uint8_t exhausted, in_place;
    uint8_t device;      /* runs on device memory: comm/exec/device/device.c */
    uint8_t phase, vote; /* enum weft_phase; enum weft_vote */
    uint8_t has_regions; /* some of `regions` */
    uint8_t has_early;   /* messages have been kept for steps to come */
    size_t scaled;       /* elements that the host has multiplied */
    uint32_t head, tail; /* sequence numbers of steps: [head, tail) is the window */
    uint64_t runnable;   /* steps that may move */
    uint64_t blocked;    /* steps to retry on the next progress call */
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
    struct weft_op_window *window; /* NULL: a transfer, which has one step and no plan */
    struct weft_inflight *in_flight;
    void (*end)(struct weft_exec_op *op, int status); /* it is over */
    void (*stay)(struct weft_exec_op *op);            /* it has run, and is not over; NULL: nothing is due */
};

/* Where an operation with a command queue stands. */
enum weft_phase {
    WEFT_PHASE_DONE,   /* the command queue has nothing to do any more, or there is none */
    WEFT_PHASE_LOADS,  /* copies into the shadows */
    WEFT_PHASE_SCALES, /* the host multiplies the input, a piece at a time */
    WEFT_PHASE_VOTES,  /* waits for the other ranks' votes: comm/exec/device/votes.c */
    WEFT_PHASE_RUNS,
    WEFT_PHASE_ENDS,    /* waits for the last of the command queue's work */
    WEFT_PHASE_STOPPED, /* has ended early; the command queue may still be working */
};

/* Whether an operation becomes a device collective: comm/exec/device/votes.h. */
enum weft_vote {
    WEFT_VOTE_OUT,        /* no: all that comes is answered so */
    WEFT_VOTE_OPEN,       /* not decided; this rank may have voted */
    WEFT_VOTE_COLLECTIVE, /* yes */
};

/* A message outside of plans: an operation of one step. */
struct weft_transfer {
    struct weft_exec_op op; /* first: one is cast to the other */
    struct weft_inflight inflight;
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

/* What this rank and a peer know of each other's progress: credit.c. */
struct weft_credit {
    uint32_t seen;       /* the last operation that the peer is known to have begun */
    uint32_t owed_op;    /* the one it asked about */
    uint8_t asked, owed; /* an answer is due from the peer, to the peer */
    uint8_t awaited;     /* steps wait for the answer */
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
    int reports_blocked;                    /* nor could a peer hear what has been consumed */
    struct weft_past_op past[WEFT_OPS_MAX]; /* by sequence % WEFT_OPS_MAX */
    uint32_t *early_counts;                 /* [ranks] of its messages in lists of early ones */
    struct weft_exec_op *ops[WEFT_OPS_MAX]; /* running, by sequence % WEFT_OPS_MAX */
    uint64_t running;                       /* their bits */
    int status;                             /* with which everything has ended; WEFT_OK: it has not */
    int is_stopped;                         /* something has gone wrong, and nothing moves any more */
    uint32_t next_sequence;
    struct weft_inflight *fresh; /* a RECV whose payload is in the message that is being delivered */
    uint32_t fresh_sequence;
    struct weft_early *early; /* for operations not started here yet */
    struct weft_early **early_tail;
    struct weft_exec_op *spare_ops; /* one finished operation kept for the next */
    struct weft_transfer_table transfers;
    struct weft_device_collectives *collectives; /* NULL: not needed so far */
    struct weft_exec_stats stats;
    struct weft_staging *staging;            /* NULL: nothing is staged by choice */
    uint32_t waited;                         /* up to WEFT_TRIAL_WAITED_MAX */
    uint32_t staged;                         /* SENDs that are staged as that is faster */
    uint8_t *scratch[WEFT_STEP_SOURCES_MAX]; /* pulled slices on their way into a reduction */
    size_t scratch_bytes[WEFT_STEP_SOURCES_MAX];
    int64_t stop_ns;   /* when it failed: until when work of devices that is still queued is waited for; */
    int64_t recall_ns; /* that of other ranks; 0: none has been so far */
};

/* hazard.c */
/* How far the step may go now, in bytes. */
size_t weft_inflight_limit_of_waits(const struct weft_exec_op *op, const struct weft_inflight *inflight);
static inline size_t weft_inflight_limit(const struct weft_exec_op *op, const struct weft_inflight *inflight)
{
    return inflight->waits ? weft_inflight_limit_of_waits(op, inflight) : inflight->length;
}

/* layout.c */
/* Finds out where everything of a request lies; a call without elements gets one that is nobody's. */
int weft_layout_open(struct weft_layout *layout, struct weft_exec_request *request);
/* The bytes of one of the caller's buffers that the plan may touch, for equal blocks and even collectives. */
struct weft_extent weft_layout_window(const struct weft_layout *layout, const struct weft_plan *plan,
                                      enum weft_buffer buffer);
/* The operation is over: what is too large to keep goes. */
void weft_layout_end(struct weft_layout *layout);
void weft_layout_close(struct weft_layout *layout);

/* window.c */
void weft_op_fail(struct weft_exec_op *op, int status);
void weft_op_run(struct weft_exec_op *op);
/* Runs the window as far as it goes. */
int weft_window_run(struct weft_exec_op *op);
/* Goes on with an operation: looks at its device, and tries again what was blocked. Returns how much moved. */
int weft_op_progress(struct weft_exec_op *op);
/* Runs an operation, if it is not over, to which a message has just been delivered. */
int weft_op_run_on(struct weft_exec_op *op, const struct weft_wire_header *header, const void *payload);
/* Lets go of steps, early messages and regions when an operation ends. */
void weft_op_release(struct weft_exec_op *op);

/* stage.c */
/* Staging memory of an operation, which its device reads and writes if it has one. NULL when none can be had. */
uint8_t *weft_stage_get(struct weft_exec_op *op, uint32_t transport, size_t size);
void weft_stage_put(struct weft_exec_op *op, uint32_t transport, void *memory, size_t size);
/* Fails with WEFT_NOMEM: weft_stage_get() has given no memory to be used for messages of rank, and says why. */
int weft_stage_missing(const char *what, size_t size, uint32_t rank);

/* eager.c */
/* Decides how the message of a step travels, and in which pieces. */
int weft_mode_choose(struct weft_exec_op *op, struct weft_inflight *inflight);

/* inflight.c */
/* Sets a message to or from rank up. */
int weft_inflight_open(struct weft_exec_op *op, struct weft_inflight *inflight, uint32_t rank);
/* What names a slice in completions: the executor's id, then bit 31 set for a transfer with 23 bits of its id, or 11
 * bits of the operation's sequence and 12 of the step's; then 8 of the slice. */
uint64_t weft_inflight_cookie(const struct weft_exec_op *op, const struct weft_inflight *inflight,
                              uint32_t slice);
/* Sends a control message or payload of a step; WEFT_AGAIN when the link is full. */
int weft_inflight_send(struct weft_exec_op *op, struct weft_inflight *inflight, enum weft_wire_kind kind,
                       uint32_t flags, uint32_t slice, const void *payload, uint32_t size);
/* The region of one of the operation's buffers, held until its end. */
int weft_op_region(struct weft_exec_op *op, const struct weft_exec_peer *peer, unsigned buffer,
                   struct weft_region **region);
void weft_inflight_wake(struct weft_exec_op *op, struct weft_inflight *inflight);
void weft_inflight_finish(struct weft_exec_op *op, struct weft_inflight *inflight);
/* Gives back what a SEND or RECV holds. */
void weft_inflight_release(struct weft_exec_op *op, struct weft_inflight *inflight);
/* Whether it may hold something: a message of the host's that travels inside of messages does not, but for what has come early. */
static inline int weft_inflight_holds(const struct weft_exec_op *op, const struct weft_inflight *inflight)
{
    return inflight->step.kind <= WEFT_STEP_RECV &&
           (inflight->mode != WEFT_MODE_EAGER || op->device || inflight->held);
}

static inline void weft_inflight_again(struct weft_exec_op *op, const struct weft_inflight *inflight)
{
    op->runnable |= 1ULL << inflight->index;
}

static inline void weft_inflight_block(struct weft_exec_op *op, const struct weft_inflight *inflight)
{
    op->blocked |= 1ULL << inflight->index;
}

/* Bytes of slice `slice`. */
static inline size_t weft_slice_size(const struct weft_inflight *inflight, uint32_t slice)
{
    size_t begin = (size_t)slice * inflight->slice_bytes;
    size_t left = inflight->length - begin;
    return left < inflight->slice_bytes ? left : inflight->slice_bytes;
}

/* Where a position of the step lies in its slice. */
static inline size_t weft_slice_offset(const struct weft_inflight *inflight, size_t position)
{
    return position < inflight->slice_bytes ? position : position % inflight->slice_bytes;
}

/* Whole slices within the first `bytes` of the step; all of them when bytes is its length. */
static inline uint32_t weft_slices_within(const struct weft_inflight *inflight, size_t bytes)
{
    return bytes >= inflight->length ? inflight->slices : (uint32_t)(bytes / inflight->slice_bytes);
}

/* Bytes of the first `slices` slices. */
static inline size_t weft_slices_bytes(const struct weft_inflight *inflight, uint32_t slices)
{
    return slices >= inflight->slices ? inflight->length : (size_t)slices * inflight->slice_bytes;
}

/* send.c, recv.c, compute.c: move a step as far as it goes. 0 or the status it fails with.
 */
int weft_send_advance(struct weft_exec_op *op, struct weft_inflight *inflight);
/* REFUSE has come. */
int weft_send_refused(struct weft_exec_op *op, struct weft_inflight *inflight);
void weft_send_taken(struct weft_exec_op *op, struct weft_inflight *inflight, uint32_t slices);
int weft_send_rbuf(struct weft_exec_op *op, struct weft_inflight *inflight, uint32_t slice,
                   const struct weft_token *token);
void weft_send_put_done(struct weft_exec_op *op, struct weft_inflight *inflight, uint32_t slice);
/* Asks back the puts that are in flight; the transport's recall_wait() ends them. */
void weft_send_recall(struct weft_exec_op *op, struct weft_inflight *inflight);

int weft_recv_advance(struct weft_exec_op *op, struct weft_inflight *inflight);
/* The peer has offered all of the message with its announcement, and runs no transfer. */
int weft_recv_offered(struct weft_exec_op *op, struct weft_inflight *inflight,
                      const struct weft_token *token);
/* Delivers a message to its RECV. *kept is set when `early` (may be NULL) was taken over. */
int weft_recv_message(struct weft_exec_op *op, struct weft_inflight *inflight,
                      const struct weft_wire_header *header, const void *payload, struct weft_early *early,
                      int *kept);
/* The operation has run on a payload that was delivered: what it has not used is copied. */
int weft_recv_keep(struct weft_exec_op *op, const struct weft_wire_header *header, const void *payload);
int weft_recv_filled(struct weft_exec_op *op, struct weft_inflight *inflight, uint32_t slice);
/* Where size bytes from position on of a RECV into a SLOT lie; they are within one slice. */
int weft_recv_source(struct weft_exec_op *op, struct weft_inflight *inflight, size_t position, size_t size,
                     int scratch, const uint8_t **source);
/* The eager payload that holds position; and those before position are not needed any more. */
const uint8_t *weft_recv_payload(const struct weft_inflight *inflight, size_t position);
void weft_recv_drop(struct weft_inflight *inflight, size_t position);
/* Acknowledges what has been taken, and finishes when nothing is left. */
int weft_recv_settle(struct weft_exec_op *op, struct weft_inflight *inflight);
/* PUT: whether what comes is written to a buffer of its own, and not where it belongs. */
static inline int weft_recv_goes_aside(const struct weft_exec_op *op, const struct weft_inflight *inflight)
{
    return inflight->into_slot || (op->device && !inflight->direct);
}
/* PUT: prepares memory for what comes next. */
int weft_recv_advertise(struct weft_exec_op *op, struct weft_inflight *inflight);
/* PUT: what lies before position has been used: other slices may be written there. */
void weft_recv_used(struct weft_inflight *inflight, size_t position);
/* The consumer has used everything before position. */
int weft_recv_consumed(struct weft_exec_op *op, struct weft_inflight *inflight, size_t position);
/* Asks back the receive buffers; the transport's recall_wait() ends that. */
void weft_recv_recall(struct weft_exec_op *op, struct weft_inflight *inflight);

int weft_compute_advance(struct weft_exec_op *op, struct weft_inflight *inflight);
/* REDUCE or COPY of the next size bytes of the step's range; sources: those bytes. */
void weft_compute(struct weft_exec_op *op, const struct weft_inflight *inflight, size_t size,
                  const void *const *sources);

/* recall.c */
/* Asks back whatever peers could still read or write, without waiting. Returns the transports concerned, as
 * bits. */
uint32_t weft_op_recall(struct weft_exec_op *op);
/* Everything that was asked back is the caller's again when this returns. */
void weft_recalls_await(struct weft_exec *exec, uint32_t transports);

/* transfer.c */
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

/* inflight.c: a message could not be sent, for this status. What it comes to where its receiver has left: WEFT_OK, it need not arrive;
 * WEFT_AGAIN, it waits. */
int weft_exec_unsent(const struct weft_exec *exec, uint32_t rank, const struct weft_wire_header *header,
                     int status);

/* credit.c */
/* Asks the peer, if it has not been asked, how far it is. WEFT_OK or WEFT_AGAIN, or a failure. */
int weft_credit_inquire(struct weft_exec *exec, uint32_t rank, uint32_t op);
/* The operation is far beyond what the peer is known to have begun: asks. WEFT_AGAIN when no message may be sent to it
 * yet: the step will be woken. */
int weft_credit_ask(struct weft_exec_op *op, struct weft_inflight *inflight);
/* Whether a SEND or a receive buffer's token may leave: WEFT_OK, WEFT_AGAIN or a failure. */
static inline int weft_credit_check(struct weft_exec_op *op, struct weft_inflight *inflight)
{
    if (!op->window || (int32_t)(op->sequence - op->exec->credits[inflight->rank].seen) < WEFT_CREDIT_ASK)
        return WEFT_OK;
    return weft_credit_ask(op, inflight);
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
static inline int weft_eager_may(struct weft_inflight *inflight)
{
    struct weft_op_peer *peer = inflight->peer;
    if (!peer)
        return 1;
    if (inflight->reported)
        return inflight->reported - inflight->taken < WEFT_EAGER_SLICES;
    if (peer->eager_sent - peer->eager_known < WEFT_EAGER_AHEAD)
        return 1;
    peer->waiting |= 1ULL << inflight->index;
    return 0;
}
/* Announces to the peer how many eager messages have been consumed, when it is time. */
int weft_eager_report(struct weft_exec_op *op, struct weft_op_peer *peer);
static inline int weft_eager_admit(struct weft_exec_op *op, struct weft_op_peer *peer)
{
    return ++peer->eager_admitted - peer->eager_reported > WEFT_EAGER_AHEAD ? weft_eager_report(op, peer)
                                                                            : WEFT_OK;
}
static inline int weft_eager_consume(struct weft_exec_op *op, struct weft_op_peer *peer)
{
    peer->eager_consumed++;
    return peer->eager_admitted - peer->eager_reported > WEFT_EAGER_AHEAD ? weft_eager_report(op, peer)
                                                                          : WEFT_OK;
}
/* Answers who has asked, as far as this rank is near enough now, and announces what could not be announced. */
int weft_credit_pay(struct weft_exec *exec);
/* ASK, CREDIT and CONSUMED. */
int weft_credit_message(struct weft_exec *exec, const struct weft_wire_header *header);

/* early.c */
/* NULL without memory; else freed with free(). */
struct weft_early *weft_early_copy(const struct weft_wire_header *header, const void *payload);
void weft_early_free_list(struct weft_early *list);

/* deliver.c */
/* Whether the message belongs to a SEND of this rank (answers) rather than a RECV. */
static inline int weft_wire_is_answer(const struct weft_wire_header *header)
{
    return header->kind == WEFT_WIRE_TAKEN || header->kind == WEFT_WIRE_RBUF ||
           header->kind == WEFT_WIRE_REFUSE;
}
int weft_answer_deliver(struct weft_exec_op *op, struct weft_inflight *inflight,
                        const struct weft_wire_header *header, const void *payload);
/* A message for an operation: to its step, or kept. *kept as in weft_recv_message(). */
int weft_op_message(struct weft_exec_op *op, const struct weft_wire_header *header, const void *payload,
                    struct weft_early *early, int *kept);
int weft_vote_deliver(struct weft_exec_op *op, const struct weft_wire_header *header, const void *payload);
/* A message is for another call than the one of its number here. */
int weft_call_refuse(struct weft_exec *exec, uint32_t digest, const struct weft_call *call, int is_past,
                     const struct weft_wire_header *header);
struct weft_op_peer *weft_op_peer_make(struct weft_exec_op *op, uint32_t rank);
/* NULL without memory. */
static inline struct weft_op_peer *weft_op_peer_get(struct weft_exec_op *op, uint32_t rank)
{
    struct weft_op_peer *peer = op->by_rank[rank];
    return __builtin_expect(peer != NULL, 1) ? peer : weft_op_peer_make(op, rank);
}
/* Keeps a message for later. early: it is kept already, in no list; otherwise it is copied. */
int weft_early_keep(struct weft_exec *exec, const struct weft_wire_header *header, const void *payload,
                    struct weft_early *early, struct weft_early **list, struct weft_early ***tail);
/* Hands a newly admitted SEND or RECV what came early for it. */
int weft_early_claim(struct weft_exec_op *op, struct weft_inflight *inflight);
/* The operation is done: whether messages that came early were for none of its steps, which is a disagreement. */
int weft_early_left(struct weft_exec_op *op);
/* Moves what came before the operation started to its peers. */
int weft_early_adopt(struct weft_exec_op *op);
/* Frees a list of messages that came early. */
void weft_early_drop(struct weft_exec *exec, struct weft_early *list);

#endif
