/* SPDX-License-Identifier: Apache-2.0 */
/* The executor: runs plans over transports.
 *
 * One weft_exec per communicator. It expands a plan through a bounded window of steps in flight, keeps the
 * hazards between them at byte granularity, cuts long messages into slices, and chooses per message how bytes
 * travel (eager.c):
 *   eager    payload inside the message;
 *   read     the sender offers its memory, the receiver maps or pulls it and reduces or copies from there;
 *   staged   the same through weft's staging memory where the peer may not read the user's;
 *   put      the receiver advertises memory, the sender writes into it;
 *   chunked  many eager messages, on transports that offer nothing better.
 * Received data that only feeds a reduction (a SLOT) never becomes memory of its own where it can be reduced
 * straight from the peer, the receive buffer or the message.
 *
 * Threads: the caller serialises everything here (the context's progress token). Callbacks of a transport's
 * poll() end in weft_exec_message() and weft_exec_io_done().
 */
#ifndef WEFT_COMM_EXEC_EXEC_H
#define WEFT_COMM_EXEC_EXEC_H

#include <stddef.h>
#include <stdint.h>

#include "comm/regions/shadows.h"
#include "algos/plan.h"
#include "comm/exec/call.h"
#include "comm/exec/wire.h"
#include "devmem/command_queue.h"
#include "devmem/reduce.h"
#include "devmem/share.h"
#include <weft/transport.h>

/* A RECV into a SLOT stays in the window until the REDUCE behind it has emptied the slot; so the window must
 * hold what plans put between the two (tree: RECV, RECV, REDUCE), where the verifier's smallest window is 2.
 */
#define WEFT_WINDOW_MIN 4
#define WEFT_WINDOW_MAX 64
#define WEFT_OPS_MAX    64 /* operations of one communicator in flight */

/* A peer as the executor sees it; filled by the communicator on first use. */
struct weft_exec_peer {
    const struct weft_transport_ops *ops;
    struct weft_transport *instance;
    struct weft_link *link; /* NULL until connected */
    uint32_t caps;          /* enum weft_transport_flags */
    uint32_t eager_bytes;   /* largest payload of an eager message */
    uint32_t inside_bytes;  /* likewise, where that is measured to be faster than to announce it */
    uint32_t slice_bytes;   /* multiple of 64 */
    uint64_t put_bytes;     /* the transport's limit for one put */
    int stage_only;         /* setting WEFT_DIRECT=0 */
    uint32_t transport;     /* index for region lookups */
    uint64_t process;       /* its process (devmem/share.h) where that is on this machine, otherwise 0 */
    uint32_t refusals_left; /* the executor's: messages to it until device memory is offered again */
    int way;                /* setting WEFT_WAY_SHM: enum weft_way */
};

/* Bytes that a device copies into staging, or that it takes from there, count as staged at that end: also those that come in
 * messages or are put, and those of shadows. */
struct weft_exec_stats {
    uint64_t operations, bytes_eager, bytes_direct, bytes_staged, messages;
    uint64_t collectives;                /* operations that a device ran by itself */
    uint64_t bytes_mapped, bytes_pulled; /* of bytes_direct: read of others' host memory, and how */
};

/* What the executor needs from its surroundings. */
struct weft_exec_hooks {
    void *arg;
    void *comm; /* argument of connect, sent_by and differs */
    /* Connects peer `rank` and fills *peer. */
    int (*connect)(void *comm, uint32_t rank, struct weft_exec_peer *peer);
    /* Whether sender, from the event being delivered, is the instance that rank is reached by: 1 or 0. */
    int (*sent_by)(void *comm, uint32_t rank, const void *sender);
    /* Memory that peers on transport can read (or that puts write): staging. NULL when none can be had. kind, if not
     * NULL: its devices read and write the memory, too. */
    void *(*buffer_get)(void *arg, uint32_t transport, size_t size, const struct weft_device_kind *kind);
    void (*buffer_put)(void *arg, uint32_t transport, void *buffer, size_t size);
    /* Region covering [memory, memory + size) for puts; registers for the time of the operation when the user
     * has not. */
    int (*region_get)(void *arg, uint32_t transport, const void *memory, size_t size,
                      struct weft_region **region);
    void (*region_put)(void *arg, uint32_t transport, struct weft_region *region);
    /* May be NULL. Whether memory is such that peers of this host may map it, so that nothing is gained by staging it: 1 or 0. */
    int (*is_shared)(void *arg, const void *memory, size_t size);
    /* May be NULL. The set by which device memory is shared with ranks of this machine; NULL: there is none. It stays. */
    struct weft_shares *(*shares)(void *arg);
    /* May be NULL. From change +1 to change -1 what peers send is dealt with also while this rank makes no call. */
    void (*listen)(void *arg, int change);
    /* May be NULL. A message of a peer belongs to another call than the one that it meets here; text says in what
     * they differ; past is the call here when it is over. WEFT_OK: the message is dropped and the operation waits for a verdict; otherwise it fails. */
    int (*differs)(void *comm, const char *text, const struct weft_call *past);
    /* May be NULL. The executor has stopped, for this reason: it is to be ended (weft_exec_fail()), but not from inside this. */
    void (*stopped)(void *comm, int status, const char *words);
    /* May be NULL. Whether a rank has left while others stay: that its link is gone is no failure then, and what would only answer it is
     * dropped. What it is needed for waits: weft_exec_awaits(). */
    int (*has_left)(void *comm, uint32_t rank);
    /* May be NULL. A point-to-point message (comm/p2p/p2p.h) of a checked source and size. */
    int (*tagged)(void *comm, const struct weft_wire_header *header, const void *payload);
};

/* When operations on device memory become device collectives (comm/exec/device/votes.h); the same at all ranks. */
enum weft_device_collective_mode {
    WEFT_DEVICE_COLLECTIVE_AUTO,
    WEFT_DEVICE_COLLECTIVE_ALWAYS,
    WEFT_DEVICE_COLLECTIVE_NEVER
};
#define WEFT_DEVICE_COLLECTIVE_RANKS_MAX 16
struct weft_exec_collectives {
    enum weft_device_collective_mode mode;
    size_t bytes; /* of the largest operation; 0: none */
};

struct weft_exec_device_ops;

struct weft_exec_options {
    uint32_t id, rank, ranks;
    /* What operations on device memory do (comm/exec/device/ops.h); NULL: there are none, and no request has a command queue. */
    const struct weft_exec_device_ops *devices;
    struct weft_exec_collectives collectives;
    uint32_t window;
    uint32_t first_sequence; /* 0; tests start near the wrap */
    int may_stage;           /* what could be read in place, where that is faster: staging.h */
    struct weft_exec_hooks hooks;
};

struct weft_exec;
struct weft_exec_op;

int weft_exec_create(const struct weft_exec_options *options, struct weft_exec **exec);
/* Frees everything; operations still in flight are withdrawn. */
void weft_exec_destroy(struct weft_exec *exec);

/* Connects a peer ahead of its first message. *peer stays the executor's. */
int weft_exec_connect(struct weft_exec *exec, uint32_t rank, struct weft_exec_peer **peer);
/* Whether it has left while others stay, as the hook says. */
int weft_exec_has_left(const struct weft_exec *exec, uint32_t rank);
/* The link to a peer, NULL when there is none yet. */
struct weft_link *weft_exec_link(const struct weft_exec *exec, uint32_t rank);

/* One of the two buffers of an unequal call, in elements: how many each rank's block has and where it begins (NULL:
 * without gaps). counts is NULL where the buffer holds the rank's own block alone, of request.count elements. */
struct weft_exec_blocks {
    const size_t *counts, *offsets; /* [ranks] */
};

/* What one operation runs on. The plan and buffers must stay until the operation has been freed; blocks are copied.
 * input and output are those of the plan's windows: the address of their first chunk, in an unequal call what offsets
 * count from. */
struct weft_exec_request {
    const struct weft_plan *plan;
    const void *input;
    void *output;
    size_t count; /* elements: of all chunks together, or of each block */
    size_t element_bytes;
    struct weft_exec_blocks input_blocks, output_blocks;
    weft_reduce_function *reduce; /* NULL: user does it, or the first source stands for all of them */
    struct {
        weft_reduce_callback *reduce; /* left op right, in order; not NULL: instead of the other */
        void *arg;
        weft_dtype dtype;
    } user;
    int streaming; /* copies into the output go past the caches; so does reduce, if the caller chose it so */
    /* Device memory, and stream-ordered work: comm/exec/device/device.c. The command queue is the operation's alone, and stays until the
     * operation has been freed. Its stream wait, if it has one, is opened when the results are there. NULL: host memory. */
    struct weft_command_queue *commands;
    const struct weft_exec_moves *moves; /* with a command queue; NULL: none. Stay as long as that. */
    int on_host; /* computes on the host, with the shadows in place of device memory: enum weft_shadows */
    weft_dtype dtype; /* what reduce is, for the device */
    weft_op op;
    uint32_t finish;       /* avg: number of ranks, otherwise 0 */
    uint32_t digest;       /* of call; what peers' messages must carry as well */
    struct weft_call call; /* for messages (its count), reports and dumps */
};

/* What the command queue does before an operation's plan begins, and when its results are there. */
struct weft_exec_move {
    void *to;
    const void *from;
    size_t bytes;
    int by_host; /* both are host memory */
};

struct weft_exec_moves {
    const struct weft_exec_move *loads, *stores;
    size_t load_count, store_count;
    /* And multiplies count elements by the scalar, behind the loads; count 0: does not. */
    void *scaled;
    const void *unscaled;
    size_t scaled_count;
    _Alignas(16) uint8_t scalar[16];
};

/* Sends a message that belongs to no operation; fills in the header's comm. WEFT_AGAIN when the link is full. */
int weft_exec_post(struct weft_exec *exec, const struct weft_exec_peer *peer, struct weft_wire_header *header,
                   const void *payload);

/* Starts an operation. WEFT_AGAIN when WEFT_OPS_MAX are in flight. */
int weft_exec_start(struct weft_exec *exec, const struct weft_exec_request *request,
                    struct weft_exec_op **op);

/* Transfers: one message each between two ranks that have agreed on it elsewhere (comm/p2p/p2p.h), outside of plans. Each end
 * has an id, by which the other one addresses it. They travel like a plan's messages, in turn with the running
 * operations, and end like them when the executor fails. */

#define WEFT_TRANSFERS_MAX (1u << 17) /* ids at a time */

/* ended is called once, when the transfer is over and its id free again; peers can no longer touch the memory. It must
 * not start or end anything of the executor. */
typedef void weft_exec_ended(void *arg, int status);

struct weft_exec_transfer {
    const void *source; /* what is sent, or NULL */
    void *destination;  /* where it is received, or NULL */
    size_t bytes;       /* not 0, the same at both ends */
    uint32_t peer, peer_id;
    struct weft_command_queue *commands;
    int on_host;
    int64_t *took_ns; /* a send's: from the offer until the peer had all of it. NULL: not measured */
    const struct weft_token
        *offered; /* a receive's, of all of the message: the peer runs no transfer. NULL: it does. Copied */
    weft_exec_ended *ended;
    void *arg;
};

/* Of a message that is pulled, and that nobody waits for piece by piece, so much is one read: slices, as many as come to 512 KB. */
static inline uint32_t weft_exec_read_bytes(uint32_t slice_bytes)
{
    const uint32_t most = 512u << 10;
    return slice_bytes < most ? most / slice_bytes * slice_bytes : slice_bytes;
}

/* Whether a message of so many bytes from this peer is one that a receive may take as offered. */
static inline int weft_exec_may_take(const struct weft_exec_peer *peer, uint64_t bytes)
{
    return peer->caps & WEFT_CAP_READ && bytes > peer->eager_bytes;
}

/* Takes an id. WEFT_AGAIN when none is free. */
int weft_exec_transfer_reserve(struct weft_exec *exec, void *arg, uint32_t *id);
/* What the id was reserved with, NULL when it is not in use. */
void *weft_exec_transfer_arg(const struct weft_exec *exec, uint32_t id);
/* Gives back an id whose transfer was not started. */
void weft_exec_transfer_release(struct weft_exec *exec, uint32_t id);
/* Starts the transfer of an id. Where there is no memory for it the executor stops, and ended has been called. */
void weft_exec_transfer_start(struct weft_exec *exec, uint32_t id, const struct weft_exec_transfer *transfer);
/* Reads a short message that its sender offers into ordinary memory, at once and without a transfer. Nothing is said to the sender. */
int weft_exec_read_offered(struct weft_exec *exec, const struct weft_exec_peer *peer,
                           const struct weft_token *token, void *destination, size_t bytes);

/* Whether as many operations are in flight as there may be. */
int weft_exec_is_full(const struct weft_exec *exec);

/* WEFT_AGAIN while running, otherwise the result. Inline: who waits asks each time that he has polled. */
static inline int weft_exec_op_status(const struct weft_exec_op *op)
{
    return *(const int *)(const void *)op;
}
void weft_exec_op_free(struct weft_exec_op *op);
/* Its caller waits for it from since_ns on, 0: from now on, or does so no more; at first he does. What is started and waited for at once may stage
 * (trials.h). */
void weft_exec_op_waits(struct weft_exec_op *op, int waits, int64_t since_ns);

/* Retries what was blocked (a full link, a link coming up). Returns how many steps moved. */
int weft_exec_progress(struct weft_exec *exec);

/* Whether something waits for room in a link, which no event announces. */
int weft_exec_is_blocked(const struct weft_exec *exec);

/* A message whose header names this executor. sender is the event's: a message in the name of another rank
 * is refused; NULL where the transport does not know. */
void weft_exec_message(struct weft_exec *exec, const void *sender, const void *data, size_t size);

/* Ends of puts, at both ends. Cookies carry the executor's id in their upper 32 bits; those of operations that have
 * ended meanwhile are ignored. */
void weft_exec_io_done(struct weft_exec *exec, uint64_t cookie, int status);

/* Something has gone wrong, as the calling thread's error says: nothing moves here any more, and what comes is dropped. What runs stays
 * pending, also what is started from then on, until the communicator knows why it was, and ends it. The first time counts. */
void weft_exec_stop(struct weft_exec *exec, int status);
/* Ends every operation with status. Later starts answer WEFT_REVOKED. */
void weft_exec_fail(struct weft_exec *exec, int status);

const struct weft_exec_stats *weft_exec_get_stats(const struct weft_exec *exec);
/* Whether calls may stage what could be read in place, where that is faster (staging.h). */
int weft_exec_may_stage(const struct weft_exec *exec);
/* Whether a call of so many bytes stages what could be read in place, and what was measured (staging.h), as snprintf() writes it. Nothing is written
 * where nothing was. */
void weft_exec_staging_say(struct weft_exec *exec, enum weft_collective collective, size_t bytes, char *why,
                           size_t capacity);
/* For how many ranks what is staged goes past the caches now, appended likewise; nothing where there is none. */
void weft_exec_past_say(const struct weft_exec *exec, char *why, size_t capacity);
/* What it has allocated itself: tables, operations, scratch memory; early messages not counted. comm/exec/look.c */
size_t weft_exec_bytes(const struct weft_exec *exec);

/* How operations stand, for reports, deadlines and dumps. comm/exec/look.c */

/* Whether an operation in flight waits for a rank now. */
int weft_exec_awaits(const struct weft_exec *exec, uint32_t rank);
/* The running operations, oldest first: at most WEFT_OPS_MAX. Returns how many. */
int weft_exec_running(const struct weft_exec *exec, struct weft_exec_op **ops);
const struct weft_call *weft_exec_op_call(const struct weft_exec_op *op);
/* When this was first asked, and whether the caller has dealt with it: what stall.c remembers. */
struct weft_exec_look {
    int64_t since_ns; /* 0: never looked at */
    int reported;
    int64_t timeout_ms; /* the call's own; 0: the communicator's */
};
struct weft_exec_look *weft_exec_op_look(struct weft_exec_op *op);
/* One line on what an operation waits for (peers, steps), for deadlines that pass. */
void weft_exec_describe(const struct weft_exec_op *op, char *text, size_t capacity);
/* The same at length: a line "  step ..." for each of the oldest steps that wait for a peer. Length like
 * snprintf(). */
size_t weft_exec_dump(const struct weft_exec_op *op, char *text, size_t capacity);

#endif
