/* SPDX-License-Identifier: Apache-2.0 */
/* weft: collectives and messages between ranks over shared memory, RDMA devices, TCP and libfabric.
 *
 * Threads: a context may be used from several threads. Collectives on one communicator must come from one thread
 * at a time, in the same order on every rank; different communicators are independent. Point-to-point calls
 * (weft_send() to weft_work_cancel()) may come from any number of threads at a time, also beside a collective; a
 * work belongs to one thread at a time.
 * Errors: 0 or a negative enum weft_status; outputs are set only on success; weft_error_detail() says what,
 * where and what was expected for the calling thread's last failure. Nothing here aborts, exits, prints other
 * than through the log, or touches signal dispositions.
 * Option structs start with their size: set it with the matching WEFT_*_OPTIONS_INIT so that programs and
 * library of different ages understand each other.
 */
#ifndef WEFT_WEFT_H
#define WEFT_WEFT_H

#include <stddef.h>
#include <stdint.h>
#include <weft/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What follows is what libweft.so exports; everything else is built hidden. */
#pragma GCC visibility push(default)

#define WEFT_VERSION_MAJOR 0
#define WEFT_VERSION_MINOR 3
#define WEFT_VERSION_PATCH 0

/* Element types. Numbers are frozen. */
typedef enum weft_dtype {
    WEFT_INT8 = 0,
    WEFT_UINT8 = 1,
    WEFT_INT32 = 2,
    WEFT_UINT32 = 3,
    WEFT_INT64 = 4,
    WEFT_UINT64 = 5,
    WEFT_FLOAT16 = 6,
    WEFT_FLOAT32 = 7,
    WEFT_FLOAT64 = 8,
    WEFT_BFLOAT16 = 9,
    WEFT_INT16 = 10,
    WEFT_UINT16 = 11,
    WEFT_FLOAT8_E4M3 = 12, /* of OCP: no infinities, NaN is 0x7f or 0xff, the largest number is 448 */
    WEFT_FLOAT8_E5M2 = 13, /* of OCP: float16's upper byte */
    WEFT_COMPLEX64 = 14,   /* two float32: real, imaginary */
    WEFT_COMPLEX128 = 15,  /* two float64 */
    WEFT_BOOL = 16,        /* one byte: 0 is false, anything else true; results are 0 or 1 */
    WEFT_DTYPE_COUNT = 17
} weft_dtype;

/* Reductions, elementwise over the ranks. avg divides the sum by the number of ranks once, at the end (integers
 * truncate toward zero). min and max propagate NaN; -0 < +0. Every NaN result has one bit pattern (positive quiet,
 * no payload) so that all ranks and processors agree. Integers know all of them; floats all but and, or, xor;
 * complex numbers sum, prod and avg; bool all but avg, with sum and max as or, prod and min as and. Any other pair
 * answers WEFT_UNSUPPORTED. */
typedef enum weft_op {
    WEFT_SUM = 0,
    WEFT_PROD = 1,
    WEFT_MAX = 2,
    WEFT_MIN = 3,
    WEFT_AVG = 4,
    WEFT_AND = 5, /* bit by bit, like the next two */
    WEFT_OR = 6,
    WEFT_XOR = 7,
    WEFT_OP_COUNT = 8,
    WEFT_OP_USER = 16 /* the first of the 16 that a program may define */
} weft_op;

/* A user-defined reduction: result[i] = left[i] op right[i] for i in [0, count). left comes from lower places in the
 * order of combination than right; result may be the same memory as either of them. Called from whichever thread drives
 * the communicator, so from weft's own as well; it must not call weft. */
typedef void weft_reduce_callback(void *arg, const void *left, const void *right, void *result, size_t count,
                                  weft_dtype dtype);

typedef struct weft_context weft_context;
typedef struct weft_comm weft_comm;
typedef struct weft_work weft_work;

/* What a context opens. settings: "timeout_ms=1000,algo=ring,transport=shm,verbs": names of settings without WEFT_, in
 * small letters, each with its value as the environment has it; what stands here comes before the environment. A piece without '=' belongs
 * to the value before it; behind device_options, so does one that names no setting. NULL: the environment alone. Every setting that is
 * read per context can be given; docs/settings.md lists them. */
typedef struct weft_context_options {
    size_t size;
    const char *settings;
} weft_context_options;
#define WEFT_CONTEXT_OPTIONS_INIT                                                                            \
    {                                                                                                        \
        sizeof(weft_context_options), NULL                                                                   \
    }

/* Opens a context: owner of devices, endpoints, registrations and service threads: one from here on, and one more
 * from the first communicator of more than one rank on. options may be NULL. The caller owns *context and ends it
 * with weft_context_close(). */
int weft_context_open(const weft_context_options *options, weft_context **context);

/* Closes a context. WEFT_BUSY while communicators or allocations of it exist, or works that make communicators. NULL is allowed. */
int weft_context_close(weft_context *context);

/* A descriptor for event loops: it becomes readable when a work of the context has ended that was started after the first
 * call of this, and stays so until 8 bytes are read from it (eventfd(2)). The context owns it: do not close it. */
int weft_context_get_fd(weft_context *context, int *fd);

/* A port of an RDMA device that a context uses. */
typedef struct weft_rail {
    size_t size;
    char device[64]; /* "mlx5_0" */
    int port;
    char link_layer[16]; /* "InfiniBand" or "Ethernet" */
    char gid[40];        /* the port's address as text */
    int gid_index;
    int mtu_bytes;
    int active;           /* 1: the port is up */
    uint64_t bytes_per_s; /* from its speed and width */
} weft_rail;
#define WEFT_RAIL_INIT                                                                                       \
    {                                                                                                        \
        sizeof(weft_rail), "", 0, "", "", 0, 0, 0, 0                                                         \
    }

/* Lists the ports that the context's verbs transport uses, once a communicator has needed it: fills up to capacity
 * entries, which lie rails[0].size bytes apart, and sets *count to how many there are. */
int weft_context_get_rails(weft_context *context, weft_rail *rails, int capacity, int *count);

/* A device that a context knows, or a kind of which it has none. */
typedef struct weft_device_entry {
    size_t size;
    char kind[32];    /* "host", "cuda", a plug-in's; "": a plug-in that was not loaded */
    int ordinal;      /* number of the device within its kind, -1: the kind has none, for the reason below */
    int status;       /* 0, or why the kind cannot be used */
    char reason[640]; /* in words, "" with status 0 */
    char source[512]; /* "built in", or the path of the plug-in */
    char name[96];
    char pci[16];     /* "0000:3b:00.0", "" unknown */
    char runtime[64]; /* driver and runtime with their versions */
    uint64_t memory_bytes;
    int numa;       /* -1 unknown */
    uint32_t flags; /* enum weft_device_flags of <weft/device.h> */
} weft_device_entry;
#define WEFT_DEVICE_ENTRY_INIT                                                                               \
    {                                                                                                        \
        sizeof(weft_device_entry), "", -1, 0, "", "", "", "", "", 0, -1, 0                                   \
    }

/* Lists all devices of all kinds, host memory first, and the kinds that cannot be used with the reason: fills up to
 * capacity entries, which lie entries[0].size bytes apart, and sets *count to how many there are. Opens the kinds: loads
 * drivers and plug-ins. */
int weft_context_get_devices(weft_context *context, weft_device_entry *entries, int capacity, int *count);

/* A user-defined operation: either reduce, or scalar.
 *
 * reduce: a function; one that is not commutative gets contributions in the order of ranks; it must be associative.
 * weft cannot know that ranks pass different functions. arg must stay until weft_op_free().
 * scalar: a number of type scalar_dtype that multiplies this rank's input, of which there may be another one at every
 * rank; the products are added up. It is copied. Calls must pass the same type. */
typedef struct weft_op_options {
    size_t size;
    weft_reduce_callback *reduce;
    void *arg;
    const void *scalar;
    int commutative;
    weft_dtype scalar_dtype;
} weft_op_options;
#define WEFT_OP_OPTIONS_INIT                                                                                 \
    {                                                                                                        \
        sizeof(weft_op_options), NULL, NULL, NULL, 0, WEFT_FLOAT32                                           \
    }

/* Makes a user-defined operation, for calls in this context. WEFT_BUSY when it has 16 already. */
int weft_op_create(weft_context *context, const weft_op_options *options, weft_op *op);

/* Frees an operation that no call uses any more. weft_context_close() frees those that are left. */
int weft_op_free(weft_context *context, weft_op op);

/* How a call runs: the last argument of every call that moves data or makes communicators. NULL: it blocks, in no stream,
 * within the communicator's deadline. Ranks choose each for themselves: a blocking call on one rank matches a started one on another.
 *
 * work: not NULL: the call returns at once and *work is its handle; its buffers are weft's until the work is done.
 * stream: the call is stream-ordered: what the stream of a device holds when the call is made is seen by it, and what is put into the
 *   stream afterwards waits until the call's result is there. The call returns at once and never waits for the device, with or without
 *   work; its buffers, of a device or the host's, are weft's until the stream has passed them. How it ends shows in the work or in the
 *   communicator (weft_comm_get_error()). The stream goes on in any case, and must exist until it has passed the call. Started
 *   collectives of one communicator, in streams or not, begin in the order of the calls; a blocking call waits for their
 *   beginning. A call's deadline counts from when the stream has come to it. Calls of a group in one stream begin
 *   together at the outermost weft_group_end().
 * stream_kind, stream_ordinal: the device of the stream: kind ("cuda") and number. NULL: that of the call's memory, WEFT_INVALID
 *   where it has none on a device. WEFT_UNSUPPORTED: the device has no streams that can wait (WEFT_DEVICE_STREAM_WAITS of
 *   <weft/device.h>).
 * in_stream: not 0: the call is stream-ordered, also where stream is NULL, which is the runtime's own stream (CUDA's stream 0). A stream or
 *   a kind says so by itself, and WEFT_ON() in any case.
 * timeout_ms: the call's own deadline; 0 the communicator's. Negative is none, here and wherever weft takes a time.
 * label: shows in errors and dumps: "layer 7 gradients". Copied, cut at 47 bytes.
 * algorithm: a name as WEFT_ALGO has it ("ring"), for a collective; NULL: chosen. Ranks that pass different ones are a mismatch.
 *   WEFT_UNSUPPORTED where it does not serve the collective.
 *
 * A call with work, with a stream, or in a group *starts*: it returns at once, but for one that would be the 65th collective
 * in flight on the communicator, which waits for the oldest, and so for ranks that are late. */
typedef struct weft_call_options {
    size_t size;
    weft_work **work;
    void *stream;
    const char *stream_kind;
    int stream_ordinal;
    int64_t timeout_ms;
    const char *label;
    const char *algorithm;
    int in_stream;
} weft_call_options;
#define WEFT_CALL_OPTIONS_INIT                                                                               \
    {                                                                                                        \
        sizeof(weft_call_options), NULL, NULL, NULL, 0, 0, NULL, NULL, 0                                     \
    }
/* Options on the spot: WEFT_START(&work), WEFT_ON(stream), and in C any: WEFT_CALL(.label = "gradients", .work = &work). They last until the
 * end of the statement. */
#ifndef __cplusplus
#define WEFT_CALL(...)   (&(const weft_call_options){.size = sizeof(weft_call_options), __VA_ARGS__})
#define WEFT_START(made) WEFT_CALL(.work = (made))
#define WEFT_ON(handle)  WEFT_CALL(.stream = (handle), .in_stream = 1)
#else
#include <weft/options.h>
#endif

/* A caller's own key-value store for bootstrap. put publishes value under key; get waits up to timeout_ms and
 * returns 0 with *size set to the value's length (at most capacity), WEFT_TIMEOUT when it has not appeared.
 */
typedef struct weft_store {
    void *arg;
    int (*put)(void *arg, const char *key, const void *value, size_t size);
    int (*get)(void *arg, const char *key, void *value, size_t capacity, size_t *size, int64_t timeout_ms);
} weft_store;

/* How a communicator comes to be. Sources are tried in this order:
 *   store        the caller's key-value callbacks;
 *   file         path of a file on a file system that all ranks see (rank 0 creates and removes it);
 *   listen_fd    rank 0 only: an already listening TCP socket, or -1, with address below; weft_comm_create() and
 *                weft_comm_grow() close it, on any rank, whatever they return and when, also in a forked child. With a size
 *                that does not reach to it there is none;
 *   address      "host:port" where rank 0 listens, "[fd00::1]:29600", "[fe80::1%eth0]:29600" with an interface of this host;
 *   environment  RANK, WORLD_SIZE, MASTER_ADDR, WEFT_PORT as torchrun and weft-perf set them.
 * rank and ranks are -1 to take them from the environment. name distinguishes several communicators of one job.
 * timeout_ms bounds creation and is the default deadline of every call on the communicator (0: the setting
 * WEFT_TIMEOUT_MS).
 *
 * secret: 16 to 4096 bytes that every rank of the job knows and nobody else; only who proves it is let in. NULL
 * takes it from WEFT_SECRET_FD, else WEFT_SECRET_FILE, else, with store or file, from the record there, into which
 * rank 0 puts a fresh one. Without any of them more than one rank is WEFT_INVALID. It is read during the call only.
 *
 * work: not NULL: creation goes on in the background, and *comm is set when the work has ended well; store's callbacks come
 * from a thread of weft's then, and store and *comm's place must stay until the work is done. The environment is read during the call,
 * but for what libfabric and PMIx read. */
typedef struct weft_comm_options {
    size_t size;
    int rank;
    int ranks;
    const char *name;
    const weft_store *store;
    const char *file;
    int listen_fd;
    const char *address;
    int64_t timeout_ms;
    const void *secret;
    size_t secret_size;
    weft_work **work;
} weft_comm_options;
#define WEFT_COMM_OPTIONS_INIT                                                                               \
    {                                                                                                        \
        sizeof(weft_comm_options), -1, -1, NULL, NULL, NULL, -1, NULL, 0, NULL, 0, NULL                      \
    }

/* Creates a communicator; collective over its ranks. options may be NULL (all from the environment). When not
 * all ranks arrive in time the answer is WEFT_RANKS_ABSENT and the detail names the missing ranks; WEFT_SETTINGS
 * when ranks run with different WEFT_* settings, naming rank and variable. */
int weft_comm_create(weft_context *context, const weft_comm_options *options, weft_comm **comm);

/* Ends a communicator; collective. Waits, within the communicator's deadline, until every rank has come here,
 * so that nothing of it is in flight; after a failure it only cleans up. All works must have been freed; operations
 * that still run without a handle are waited for first. After WEFT_BUSY it is there still; whatever else is answered, it is gone. */
int weft_comm_destroy(weft_comm *comm);

/* A program that ends by exit(), or by returning from main(), need not call this: weft does, with its exit status. It is for
 * those that end in another way with communicators open, such as _exit(). 0: this rank leaves, and the others go on among themselves;
 * who needs it hears that it has left (WEFT_PEER_FAILED). Waits up to a second for others that end as well. Otherwise this rank
 * has failed, which the others hear when its process has ended, or after two seconds. Nothing else is done with these communicators
 * afterwards, but weft_comm_destroy(), which does not wait then. Any thread. */
void weft_process_end(int exit_status);

/* Changes what weft_comm_create()'s timeout_ms said, for calls that begin from now on: a stream-ordered call begins when
 * the stream has come to it. What is in flight keeps its deadline, and texts name the present one. This rank's own: others need not have the same. From any thread, but not beside weft_comm_destroy(). */
int weft_comm_set_timeout(weft_comm *comm, int64_t timeout_ms);

/* Ends every operation of a communicator on all its ranks: calls that run return WEFT_REVOKED there with the
 * reason (may be NULL) and the name of this rank, later ones as well. From any thread, also while another one
 * is inside a call of the communicator (but not weft_comm_destroy()); never blocks on a peer. It is the only
 * way to end an operation that has begun: there is no cancelling of a collective on one rank alone. While another
 * thread of this rank is inside weft_comm_shrink(), it ends that, on every rank. */
int weft_comm_abort(weft_comm *comm, const char *reason);

/* What the communicator has failed with, without waiting: WEFT_OK while it can be used. weft_error_detail() has the text.
 * From any thread. */
int weft_comm_get_error(weft_comm *comm);

/* A rank that has died. */
typedef struct weft_failure {
    size_t size;
    int rank;
    int64_t time_ns; /* when a neighbour noticed, by its clock, nanoseconds since 1970 UTC */
    char host[72];
    char reason[160];
} weft_failure;
#define WEFT_FAILURE_INIT                                                                                    \
    {                                                                                                        \
        sizeof(weft_failure), -1, 0, "", ""                                                                  \
    }

/* Lists the ranks that have died, in order of rank: fills up to capacity entries, which lie failures[0].size bytes apart,
 * and sets *count to how many there are. All survivors get the same list for the same deaths: while one that is known
 * here has not been agreed upon by them, the call waits, at most the communicator's deadline. failures may be NULL
 * with capacity 0. From any thread. */
int weft_comm_get_failures(weft_comm *comm, weft_failure *failures, int capacity, int *count);

/* Makes a communicator of the survivors, in the same order; collective over them, within the old
 * communicator's deadline. Ranks that die meanwhile are left out too, or show as failed in the new one. The old
 * communicator can only be asked for failures and destroyed afterwards. A rank that the others have declared
 * dead gets WEFT_PEER_FAILED. Where nothing has failed the result is a duplicate. Of options work, timeout_ms and label count. */
int weft_comm_shrink(weft_comm *comm, weft_comm **smaller, const weft_call_options *options);

/* Makes a communicator of comm's ranks, which keep their numbers, and of new ones behind them; collective over both. The ranks of
 * comm call this, all with the same number of ranks and the same place to meet in `place`, whose rank, timeout_ms and work
 * are ignored: what is made has comm's timeout. Each new rank calls weft_comm_create() with that place, that number of
 * ranks, and its own number, from weft_comm_size(comm) on. Rank 0 listens at the place, as in weft_comm_create(). comm goes on:
 * it may be used and destroyed independently. A rank of comm that differs is WEFT_MISMATCH, a new one that does not come
 * WEFT_RANKS_ABSENT with its number, and comm goes on. Of options work, timeout_ms and label count. */
int weft_comm_grow(weft_comm *comm, const weft_comm_options *place, weft_comm **larger,
                   const weft_call_options *options);

/* Communicators from communicators. They are calls like the collectives: all ranks of comm make them in the same order, and
 * within its deadline, which the new communicators inherit with its name. No secret is needed. What they make is
 * independent of comm: either may be used beside the other, from another thread too, and destroyed first. Of options work,
 * timeout_ms and label count. With work: *out is set when the work has ended well, and until then other collectives on comm
 * are WEFT_BUSY, unless it is a subset, which is none.
 *
 * split: ranks that pass the same colour (0 or more) become a communicator, ordered by key and then by rank in comm; one colour for all
 * and one key make a duplicate. Who passes WEFT_UNDEFINED gets *out NULL. When one rank of a colour cannot take part (no memory, no
 * descriptors) all ranks of that colour get the same error, and other colours their communicators. */
#define WEFT_UNDEFINED (-1)
int weft_comm_split(weft_comm *comm, int colour, int key, weft_comm **out, const weft_call_options *options);

/* A communicator of count ranks of comm, in the order of the list; only these make the call, each with the same list and
 * tag (0 or more), within comm's deadline. It goes over messages between two ranks that the program's receives do not
 * see, so it takes no part in the order of collectives; ranks that make several with common members at once keep them
 * apart by the tag. WEFT_MISMATCH names a rank whose list differs, WEFT_TIMEOUT one that
 * has not come; comm goes on, and the tag is used up. */
int weft_comm_subset(weft_comm *comm, const int *ranks, int count, int64_t tag, weft_comm **out,
                     const weft_call_options *options);

int weft_comm_rank(const weft_comm *comm);
int weft_comm_size(const weft_comm *comm);

/* Collectives match in call order, whether they block or start.
 *
 * Reduces count elements of every rank's send buffer and leaves the same bits in every rank's recv buffer.
 * send == recv is in place; otherwise they must not overlap. */
int weft_allreduce(weft_comm *comm, const void *send, void *recv, size_t count, weft_dtype dtype, weft_op op,
                   const weft_call_options *options);

/* The other collectives. count is one rank's block where data of several ranks lies side by side. In place means that the
 * rank's own block lies where it belongs in the larger buffer: send == recv, or send is recv's block of this rank, or recv
 * is send's. Other overlaps are WEFT_INVALID.
 *
 * The forms with v take a count per rank, and offsets: the element at which each block begins, NULL when they follow each
 * other. Received blocks must not overlap; what lies between them stays as it is. The arrays are read during the call
 * only. Sizes that do not fit together are WEFT_MISMATCH.
 *
 * root's count elements to everybody's recv; send is used at root only. */
int weft_broadcast(weft_comm *comm, const void *send, void *recv, size_t count, weft_dtype dtype, int root,
                   const weft_call_options *options);

/* The same reduction as weft_allreduce(), for root's recv; recv is used at root only. */
int weft_reduce(weft_comm *comm, const void *send, void *recv, size_t count, weft_dtype dtype, weft_op op,
                int root, const weft_call_options *options);

/* Everybody's block to everybody: recv holds rank r's at r * count. */
int weft_allgather(weft_comm *comm, const void *send, void *recv, size_t count, weft_dtype dtype,
                   const weft_call_options *options);
/* count is this rank's and equal to counts[rank]; all ranks pass the same counts, each its own offsets. */
int weft_allgatherv(weft_comm *comm, const void *send, size_t count, void *recv, const size_t *counts,
                    const size_t *offsets, weft_dtype dtype, const weft_call_options *options);

/* The same for root alone: recv, counts and offsets are used there only. */
int weft_gather(weft_comm *comm, const void *send, void *recv, size_t count, weft_dtype dtype, int root,
                const weft_call_options *options);
int weft_gatherv(weft_comm *comm, const void *send, size_t count, void *recv, const size_t *counts,
                 const size_t *offsets, weft_dtype dtype, int root, const weft_call_options *options);

/* Block r of root's send to rank r; send, counts and offsets are used at root only. */
int weft_scatter(weft_comm *comm, const void *send, void *recv, size_t count, weft_dtype dtype, int root,
                 const weft_call_options *options);
int weft_scatterv(weft_comm *comm, const void *send, const size_t *counts, const size_t *offsets, void *recv,
                  size_t count, weft_dtype dtype, int root, const weft_call_options *options);

/* Reduces everybody's send, which has a block for every rank, and leaves block r in rank r's recv. */
int weft_reduce_scatter(weft_comm *comm, const void *send, void *recv, size_t count, weft_dtype dtype,
                        weft_op op, const weft_call_options *options);
/* All ranks pass the same counts; the blocks follow each other. */
int weft_reduce_scatterv(weft_comm *comm, const void *send, void *recv, const size_t *counts,
                         weft_dtype dtype, weft_op op, const weft_call_options *options);

/* Block j of rank i's send becomes block i of rank j's recv. In place (send == recv) the input is copied first. */
int weft_alltoall(weft_comm *comm, const void *send, void *recv, size_t count, weft_dtype dtype,
                  const weft_call_options *options);
/* What rank i sends to j, send_counts[j], must be what j expects of i, recv_counts[i]. */
int weft_alltoallv(weft_comm *comm, const void *send, const size_t *send_counts, const size_t *send_offsets,
                   void *recv, const size_t *recv_counts, const size_t *recv_offsets, weft_dtype dtype,
                   const weft_call_options *options);

/* Lists of tensors as one call: tensor i is counts[i] elements (of a block) from sends[i] to recvs[i], in place where
 * that is. Small tensors travel together, large ones side by side without a copy. The arrays are read during the call
 * only. Each large tensor (more than 64 KiB), and the small ones together, counts as a collective in flight: the start of a
 * list of more than 64 of them waits for the first ones. */
int weft_allreduce_list(weft_comm *comm, size_t tensors, const void *const *sends, void *const *recvs,
                        const size_t *counts, weft_dtype dtype, weft_op op, const weft_call_options *options);
int weft_allgather_list(weft_comm *comm, size_t tensors, const void *const *sends, void *const *recvs,
                        const size_t *counts, weft_dtype dtype, const weft_call_options *options);
int weft_reduce_scatter_list(weft_comm *comm, size_t tensors, const void *const *sends, void *const *recvs,
                             const size_t *counts, weft_dtype dtype, weft_op op,
                             const weft_call_options *options);

/* Returns when every rank has called it. */
int weft_barrier(weft_comm *comm, const weft_call_options *options);

/* Waits up to timeout_ms for the work: 0 just looks (WEFT_AGAIN while it runs). WEFT_TIMEOUT leaves the operation running where that
 * time is over; the call's own deadline ends it and revokes. Otherwise the operation's result, each time it is asked. Drives
 * progress. */
int weft_work_wait(weft_work *work, int64_t timeout_ms);

/* Has callback called once when the work has ended, with its result, and with the text of an error or "": by the thread that
 * notices, which is one of weft's or one in a call, or at once where it has ended already; so weft_work_wait() in another thread may
 * return a moment before. It must not block, and of weft it may call weft_work_free() of other works that make no communicator,
 * weft_strerror() and the like only. A work that is freed before it ends calls it all the same. Another call before the end replaces
 * the callback. */
typedef void weft_work_callback(void *arg, int status, const char *detail);
int weft_work_set_callback(weft_work *work, weft_work_callback *callback, void *arg);

/* Frees the handle. An operation that still runs goes on all the same, its buffers stay weft's, and
 * weft_comm_destroy() waits for it; otherwise the answer is the operation's result. The handle of a communicator that is
 * being made waits for the end here. NULL is allowed. */
int weft_work_free(weft_work *work);

/* Messages from one rank to another. Their tags are 0 or more; a receive may leave source and tag open. It takes the
 * message that was sent first among those of one sender that fit, and of several receives that fit a message, the
 * one that was called first gets it. Types are for counting bytes only: what is sent as one type may be received
 * as another. */
#define WEFT_ANY_SOURCE (-1)
#define WEFT_ANY_TAG    (-1)

/* What has been received, or would be. */
typedef struct weft_message {
    size_t size;
    int source;
    int64_t tag;
    size_t bytes;
} weft_message;
#define WEFT_MESSAGE_INIT                                                                                    \
    {                                                                                                        \
        sizeof(weft_message), -1, -1, 0                                                                      \
    }

/* Sends count elements to rank peer, which may be this one; count may be 0. Returns when data may be used again, which
 * for messages up to WEFT_EAGER_SHM, WEFT_EAGER_VERBS, WEFT_EAGER_TCP or WEFT_EAGER_OFI bytes is mostly at once, and otherwise after the receiver has
 * asked for it: a rank that sends itself more than that needs a receive that was started before. So does device memory,
 * whatever the length. A deadline that passes revokes the communicator, as with collectives. Of options all but algorithm counts. */
int weft_send(weft_comm *comm, const void *data, size_t count, weft_dtype dtype, int peer, int64_t tag,
              const weft_call_options *options);

/* Receives one message of at most count elements. source and tag may be WEFT_ANY_SOURCE and WEFT_ANY_TAG; *info, which
 * may be NULL, says what has come; of a started receive it is filled when the work is waited for, and must stay until then. WEFT_MISMATCH when the
 * message is longer: it is lost, data is not written, sender and communicator go on. WEFT_TIMEOUT when the deadline passes
 * before there is a message: nothing is received, and the communicator goes on; when it passes later, it revokes. */
int weft_recv(weft_comm *comm, void *data, size_t count, weft_dtype dtype, int source, int64_t tag,
              weft_message *info, const weft_call_options *options);

/* A send and a receive at the same time: rings and exchanges cannot deadlock. The buffers must not overlap. */
int weft_sendrecv(weft_comm *comm, const void *send, size_t send_count, int dest, int64_t send_tag,
                  void *recv, size_t recv_count, int source, int64_t recv_tag, weft_dtype dtype,
                  weft_message *info, const weft_call_options *options);

/* Waits for a message that weft_recv() with the same source and tag would take, and leaves it there. It waits up to
 * timeout_ms, whatever the communicator's deadline: 0 just looks (WEFT_AGAIN when there is none); WEFT_TIMEOUT. */
int weft_probe(weft_comm *comm, int source, int64_t tag, int64_t timeout_ms, weft_message *info);

/* Ends a receive that has no message yet; its work's result is WEFT_CANCELLED then. WEFT_BUSY: it has one. */
int weft_work_cancel(weft_work *work);

/* Calls of the calling thread between these two only start, and the outermost weft_group_end() waits for those without a work or a
 * stream, within each one's deadline, and returns the first error. So messages may be sent and received in any
 * order. Groups nest. The operations of a thread that exits inside a group run on as after weft_work_free(). */
int weft_group_start(void);
int weft_group_end(void);

/* Allocates size bytes that peers on this host can read in place (page aligned, zeroed). Owned by the context
 * until weft_mem_free(). Falls back to ordinary memory where shared memory is forbidden, said in the log. */
int weft_mem_alloc(weft_context *context, size_t size, void **memory);
int weft_mem_free(weft_context *context, void *memory);

/* Registers memory of the caller's once, so that operations on it need not. The memory must stay valid until
 * weft_mem_deregister() with the same pointer. */
int weft_mem_register(weft_context *context, void *memory, size_t size);
int weft_mem_deregister(weft_context *context, void *memory);

/* What a communicator has moved, and what it holds now. */
typedef struct weft_comm_stats {
    size_t size;
    uint64_t operations;    /* collectives completed */
    uint64_t bytes_eager;   /* payload sent inside messages (small) */
    uint64_t bytes_direct;  /* payload moved without a copy of weft's own */
    uint64_t bytes_staged;  /* payload that passed through weft's staging memory */
    uint64_t messages;      /* messages sent, control included */
    uint64_t fast_path;     /* collectives that took the shared cache-line path */
    uint64_t connections;   /* peers whose links are up; communicators of a context share them */
    uint64_t registrations; /* memory regions that the context holds with its transports */
    uint64_t bytes_memory;  /* of this communicator's tables, operations and cache lines */
    uint64_t bytes_pool; /* of the context's buffers for staging, receiving and cache lines, in use or not */
    uint64_t p2p_sends;  /* messages between two ranks, as the program counts them */
    uint64_t p2p_receives;
    uint64_t cache_hits;         /* regions of memory that the context had kept from an earlier operation */
    uint64_t cache_misses;       /* and those that it has had to make, and kept; device memory's as well */
    uint64_t device_collectives; /* collectives that devices ran as one kernel each */
    uint64_t bytes_mapped, bytes_pulled;             /* of bytes_direct: how it came from this host */
    uint64_t bytes_offered, bytes_helped, bytes_fed; /* of those pulled: owners could write, did, fed */
} weft_comm_stats;
#define WEFT_COMM_STATS_INIT                                                                                 \
    {                                                                                                        \
        sizeof(weft_comm_stats), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0                  \
    }
int weft_comm_get_stats(const weft_comm *comm, weft_comm_stats *stats);

/* Where a rank runs. Numbers that weft does not know are -1: they come from a launcher with PMIx. */
typedef struct weft_rank_info {
    size_t size;
    char host[64]; /* as the rank's host calls itself */
    int pid;
    int node;                    /* the launcher's number for the host, the same for ranks that share one */
    int local_rank, local_ranks; /* among the job's ranks on that host */
    int host_index; /* the host as weft itself counts them, from 0 on by their lowest ranks: always known */
} weft_rank_info;
#define WEFT_RANK_INFO_INIT                                                                                  \
    {                                                                                                        \
        sizeof(weft_rank_info), "", -1, -1, -1, -1, -1                                                       \
    }
int weft_comm_get_rank_info(const weft_comm *comm, int rank, weft_rank_info *info);

/* What this rank waits for, as lines of text: per call that it is in the call and for how long, then each rank that
 * it waits for with step and bytes; after a failure, what it waited for then and the failure. Cut like snprintf()
 * does; *length (may be NULL) is what the whole needs, without the 0 at its end. From any thread, also while
 * another one is inside a call of the communicator (but not weft_comm_destroy()). */
int weft_comm_dump(weft_comm *comm, char *text, size_t capacity, size_t *length);

/* What a call would use. */
typedef struct weft_description {
    size_t size;
    const char *algorithm; /* "ring"; of a message the way it goes, "pulled"; static */
    const char *transport; /* "shm"; static */
    char why[160];         /* a line: of a message, why that way; of a collective, what was measured, or "" */
} weft_description;
#define WEFT_DESCRIPTION_INIT                                                                                \
    {                                                                                                        \
        sizeof(weft_description), NULL, NULL, ""                                                             \
    }

/* Which algorithm and transport a collective, by its name ("allreduce", "reduce_scatter"), would use with these arguments, when the
 * other ranks pass memory of the same kind. op and root count for those that have one; send and recv NULL: ordinary memory, not
 * in place. "send": how a message to rank `root` goes now; "recv": how this rank would read one from there: "fed", "helped" or "alone". Moves nothing. */
int weft_comm_describe(const weft_comm *comm, const char *collective, const void *send, const void *recv,
                       size_t count, weft_dtype dtype, weft_op op, int root, weft_description *description);

/* Bytes per element, 0 for an unknown type. Names as weft-perf prints them. */
size_t weft_dtype_size(weft_dtype dtype);
const char *weft_dtype_name(weft_dtype dtype);
const char *weft_op_name(weft_op op);

/* Static text of a status; never NULL. */
const char *weft_strerror(int status);

/* Detail of the calling thread's last failed weft call: one line, owned by weft, valid until the thread's
 * next weft call; "" when there was none. */
const char *weft_error_detail(void);

/* The library's version as "major.minor.patch". */
const char *weft_version(void);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif
