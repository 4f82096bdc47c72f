/* SPDX-License-Identifier: Apache-2.0 */
/* One call of any collective, from its checked arguments to its end.
 *
 * comm/calls/entry.c       the public functions; lists are in list.c
 * comm/calls/collective.c  runs and starts it: alone, over the cache lines (fast.c), or by a plan
 * comm/calls/queue.c       what progress starts
 * comm/calls/part.c        one operation of it, from its operands to the executor
 * comm/calls/kept.c        what is kept of it for the next one
 * comm/calls/choose.c      its algorithm
 * comm/calls/check.c       what is wrong with its arguments
 * comm/calls/how.c         how it runs, as its options say
 */
#ifndef WEFT_COMM_CALLS_COLLECTIVE_H
#define WEFT_COMM_CALLS_COLLECTIVE_H

#include "algos/plan.h"
#include "comm/exec/call.h"
#include "comm/core/comm.h"
#include "comm/exec/exec.h"
#include "comm/calls/how.h"
#include "comm/exec/fastpath.h"

/* What a rank passes. Counts and offsets are the caller's: read during the call only. */
struct weft_operands {
    enum weft_collective collective;
    int root; /* -1: the collective has none */
    weft_dtype dtype;
    weft_op op; /* collectives that reduce */
    const void *send;
    void *recv;
    size_t count; /* of everything or of a block; of the rank's own block in an unequal call */
    enum weft_algorithm algorithm; /* that the program wants; WEFT_ALGO_AUTO: any */
    int unequal;
    struct weft_exec_blocks send_blocks, recv_blocks; /* counts NULL: one block, of count */
    /* Found out by weft_operands_check(). */
    size_t element_bytes;
    size_t send_blocks_count, recv_blocks_count; /* blocks that the buffer holds; 0: the rank passes none */
    int in_place;
};

/* Whether there is an operation on elements. A barrier moves a byte of nothing: that it depends on what has come is all that counts. */
static inline int weft_operands_reduces(const struct weft_operands *operands)
{
    return weft_collective_reduces(operands->collective) && operands->collective != WEFT_BARRIER;
}

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
/* Elements from the first to the last of a side's blocks, gaps included, and where they begin in the buffer. */
size_t weft_operands_extent(const struct weft_operands *operands, const struct weft_exec_blocks *blocks,
                            size_t count, size_t *first);

/* The counts that every rank passes, NULL where a rank knows only its own. */
const size_t *weft_operands_common_counts(const struct weft_operands *operands);

/* What stands for many counts where ranks compare calls. */
uint64_t weft_counts_hash(const size_t *counts, size_t many);

/* The call as the ranks compare it; its algorithm is not chosen yet. */
struct weft_call weft_operands_call(const struct weft_comm *comm, const struct weft_operands *operands);

/* Which algorithm the operands get; the same on every rank. */
enum weft_algorithm weft_collective_choose(const struct weft_comm *comm,
                                           const struct weft_operands *operands);
/* Whether the algorithm that the program wants can do it. */
int weft_operands_check_algorithm(const struct weft_comm *comm, const struct weft_operands *operands);
/* "shm", "ofi", "verbs", joined by "+" where there are several, or "none". comm/calls/describe.c */
const char *weft_comm_transport_name(const struct weft_comm *comm);
/* Whether the setting WEFT_STRICT fixes the association of this reduction. */
int weft_collective_is_strict(const struct weft_comm *comm, const struct weft_operands *operands);

/* All that a public function does: blocks until done or the deadline, or starts. */
int weft_collective_call(struct weft_comm *comm, struct weft_operands *operands,
                         const weft_call_options *options);

/* Whether a started call is queued: behind others or in a stream, and where the ranks exchange something before or instead of a plan. */
int weft_collective_is_queued(const struct weft_comm *comm, const struct weft_operands *operands,
                              const struct weft_stream *stream);
/* Queues it with a work (comm/core/queue.h); stream: what it follows, or NULL. Where this fails the work is the caller's still. comm/calls/queue.c
 * [lock] */
int weft_collective_queue(struct weft_comm *comm, const struct weft_operands *operands,
                          struct weft_stream *stream, struct weft_work *work);

/* kept.c: what is kept of calls like this one, with their algorithm. Stays until the next call. By the thread that makes calls. */
struct weft_kept_call *weft_kept_get(struct weft_comm *comm, const struct weft_operands *operands);
static inline enum weft_algorithm weft_collective_choose_cached(struct weft_comm *comm,
                                                                const struct weft_operands *operands)
{
    return weft_kept_get(comm, operands)->algorithm;
}
/* The request of an earlier one, with this one's buffers and number; counts one more user of the plan. NULL: there is none. [lock] */
const struct weft_exec_request *weft_kept_find(const struct weft_comm *comm, struct weft_kept_call *kept,
                                               const struct weft_operands *operands,
                                               const struct weft_call *call, struct weft_kept_plan **plan);
/* Keeps one for later, where that can be. [lock] */
void weft_kept_put(const struct weft_comm *comm, struct weft_kept_call *kept,
                   const struct weft_operands *operands, const struct weft_exec_request *request,
                   struct weft_kept_plan *plan);

/* fast.c: between the ranks of one host, for what fits into the cache lines' slots. */

/* The plan that the path stands for, or WEFT_ALGO_AUTO where it does not serve these operands. */
enum weft_algorithm weft_collective_fast_algorithm(const struct weft_comm *comm,
                                                   const struct weft_operands *operands);
/* What it exchanges over the path; call stays as long. */
void weft_collective_exchange(const struct weft_comm *comm, const struct weft_operands *operands,
                              const struct weft_call *call, struct weft_fastpath_exchange *exchange);

/* What two ranks show each other before a large allreduce. */
struct weft_shown {
    uint64_t count;
    uint8_t is_mapped; /* the input can be loaded by the peer */
    uint8_t is_in_place;
    uint8_t reserved[6];
};

/* Whether the algorithm depends on the other rank's memory, so that they do; the same on both. */
int weft_allreduce_shows(const struct weft_comm *comm, const struct weft_operands *operands);
/* Shows this rank's; call's algorithm is not chosen yet, and mine and call stay as long as the exchange. [lock] */
void weft_allreduce_show(const struct weft_comm *comm, const struct weft_operands *operands,
                         const struct weft_call *call, struct weft_shown *mine,
                         struct weft_fastpath_exchange *exchange);
/* Before the exchange is finished: *algorithm, what is best without, becomes what both take. WEFT_MISMATCH with the text. */
int weft_allreduce_read(const struct weft_comm *comm, const struct weft_call *call,
                        const struct weft_shown *mine, enum weft_algorithm *algorithm, char *text,
                        size_t capacity);
/* What it would be if the other rank's memory were like this one's. [lock] */
enum weft_algorithm weft_allreduce_prefer(const struct weft_comm *comm, const struct weft_operands *operands,
                                          enum weft_algorithm algorithm);

#endif
