/* SPDX-License-Identifier: Apache-2.0 */
/* One call of any collective, from its checked arguments to its end.
 *
 * comm/collective.c       runs and starts it: alone, over the cache lines (collective_fast.c), or by a plan
 * comm/collective_check.c what is wrong with its arguments
 * comm/collective_calls.c the public functions; weft_allreduce() is in allreduce.c, lists are in list.c
 */
#ifndef WEFT_COMM_COLLECTIVE_H
#define WEFT_COMM_COLLECTIVE_H

#include "algos/plan.h"
#include "comm/call.h"
#include "comm/comm.h"
#include "comm/exec.h"
#include "comm/work.h"

struct weft_stream;

/* What a rank passes. Counts and offsets are the caller's: read during the call only. */
struct weft_operands {
    enum weft_collective collective;
    int root; /* -1: the collective has none */
    const void *send;
    void *recv;
    size_t count; /* of everything or of a block; of the rank's own block in an unequal call */
    weft_dtype dtype;
    weft_op op; /* collectives that reduce */
    int unequal;
    struct weft_exec_blocks send_blocks, recv_blocks; /* counts NULL: one block, of count */
    /* Found out by weft_operands_check(). */
    size_t element_bytes;
    size_t send_blocks_count, recv_blocks_count; /* blocks that the buffer holds; 0: the rank passes none */
    int in_place;
};

/* Completes the operands. WEFT_INVALID and WEFT_UNSUPPORTED name the argument and what was expected. */
int weft_operands_check(const struct weft_comm *comm, struct weft_operands *operands);
/* The same without the buffers. */
int weft_operands_check_shape(const struct weft_comm *comm, struct weft_operands *operands);

/* Elements from the beginning of a buffer to a block, and in it. Of one block; who goes through all of them in order takes
 * weft_operands_next(), where *end, 0 at first, is the end of the block before. */
size_t weft_operands_next(const struct weft_operands *operands, const struct weft_exec_blocks *blocks,
                          uint32_t block, size_t *end);
size_t weft_operands_offset(const struct weft_operands *operands, const struct weft_exec_blocks *blocks,
                            uint32_t block);
size_t weft_operands_count(const struct weft_operands *operands, const struct weft_exec_blocks *blocks,
                           uint32_t block);

/* Elements of all blocks of a side together, gaps not counted. */
size_t weft_operands_sum(const struct weft_operands *operands, const struct weft_exec_blocks *blocks,
                         size_t count);
/* Elements from the first to the last that is sent, gaps included, and where they begin in the buffer. 0: there is none. */
size_t weft_operands_input_extent(const struct weft_operands *operands, size_t *first);

/* The counts that every rank passes, NULL where a rank knows only its own. */
const size_t *weft_operands_common_counts(const struct weft_operands *operands);

/* What stands for many counts where ranks compare calls. */
uint64_t weft_counts_hash(const size_t *counts, size_t many);

/* The call as the ranks compare it; its algorithm is not chosen yet. */
struct weft_call weft_operands_call(const struct weft_comm *comm, const struct weft_operands *operands);

/* Which algorithm the operands get; the same on every rank. */
enum weft_algorithm weft_collective_choose(const struct weft_comm *comm,
                                           const struct weft_operands *operands);
enum weft_algorithm weft_collective_choose_cached(struct weft_comm *comm,
                                                  const struct weft_operands *operands);
/* Whether an allreduce of weft's own operations takes the cache-line path. comm/allreduce.c */
int weft_allreduce_takes_fastpath(const struct weft_comm *comm, size_t bytes);
/* "shm", "ofi", "verbs", joined by "+" where there are several, or "none". comm/describe.c */
const char *weft_comm_transport_name(const struct weft_comm *comm);
/* Whether the setting WEFT_STRICT fixes the association of this reduction. */
int weft_collective_is_strict(const struct weft_comm *comm, const struct weft_operands *operands);

/* Blocks until done or the deadline, like the public calls, and starts, likewise. */
int weft_collective_run(struct weft_comm *comm, struct weft_operands *operands);
int weft_collective_start(struct weft_comm *comm, struct weft_operands *operands, struct weft_work **work);

/* Queues it with a work (comm/queue.h); stream: the scope's, or NULL. Where this fails the work is the caller's still. comm/collective_queue.c
 * [lock] */
int weft_collective_queue(struct weft_comm *comm, const struct weft_operands *operands,
                          struct weft_stream *stream, struct weft_work *work);

/* The same for a call of one rank alone that is several, one after the other. [lock] */
int weft_collective_queue_alone(struct weft_comm *comm, const struct weft_call *call,
                                const struct weft_operands *operands, size_t calls,
                                struct weft_stream *stream, struct weft_work *work);

/* The call of one rank alone. */
int weft_collective_run_alone(struct weft_comm *comm, const struct weft_operands *operands);

/* Finds out what the executor needs for one operation of a call; its plan and memory are the part's, which has nothing but
 * its lane so far. The room for it has been found. [lock] */
int weft_collective_prepare(struct weft_comm *comm, const struct weft_operands *operands,
                            const struct weft_call *call, struct weft_exec_request *request,
                            struct weft_part *part);

/* Starts one operation of a call that is counted elsewhere: the plan's algorithm is call's. Where as many operations are in
 * flight as there may be, one must end first. [lock] */
int weft_collective_start_part(struct weft_comm *comm, const struct weft_operands *operands,
                               const struct weft_call *call, struct weft_part *part);

/* The same of a part whose lane has been taken, and whose room has been found. What fails ends the part. [lock] */
int weft_collective_start_placed(struct weft_comm *comm, const struct weft_operands *operands,
                                 const struct weft_call *call, struct weft_part *part);

/* collective_fast.c: between the ranks of one host, for what fits into the cache lines' slots. */

/* The plan that the path stands for, or WEFT_ALGO_AUTO where it does not serve these operands. */
enum weft_algorithm weft_collective_fast_algorithm(const struct weft_comm *comm,
                                                   const struct weft_operands *operands);
int weft_collective_run_fast(struct weft_comm *comm, const struct weft_operands *operands,
                             const struct weft_call *call);

#endif
