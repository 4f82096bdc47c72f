/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/collective.h"

#include <stdlib.h>
#include <string.h>

#include "base/fork.h"
#include "comm/device_call.h"
#include "comm/group_calls.h"
#include "comm/op.h"
#include "comm/progress.h"
#include "comm/queue.h"

/* FNV-1a over the numbers, word by word. */
uint64_t weft_counts_hash(const size_t *counts, size_t many)
{
    uint64_t hash = 0xcbf29ce484222325u;
    for (size_t i = 0; i < many; i++)
        hash = (hash ^ counts[i]) * 0x100000001b3u;
    return hash ^ hash >> 32;
}

const size_t *weft_operands_common_counts(const struct weft_operands *operands)
{
    return operands->collective == WEFT_ALLGATHER        ? operands->recv_blocks.counts
           : operands->collective == WEFT_REDUCE_SCATTER ? operands->send_blocks.counts
                                                         : NULL;
}

struct weft_call weft_operands_call(const struct weft_comm *comm, const struct weft_operands *operands)
{
    const size_t *counts = weft_operands_common_counts(operands);
    uint64_t count =
        operands->unequal ? counts ? weft_counts_hash(counts, (size_t)comm->ranks) : 0 : operands->count;
    return (struct weft_call){.sequence = weft_comm_next_call(comm),
                              .count = count,
                              .root = operands->root,
                              .collective = (uint8_t)operands->collective,
                              .dtype = (uint8_t)operands->dtype,
                              .op = weft_op_told(comm->context, operands->op),
                              .in_place = (uint8_t)operands->in_place,
                              .unequal = (uint8_t)operands->unequal};
}

/* Whether results go past the caches. In one pass the output is written once and read by nobody here, so this
 * pays as soon as it exceeds a processor's own cache; otherwise peers read it back at once, and only outputs
 * of about the size of the shared cache gain (figures: docs/performance.md). */
static int should_stream(const struct weft_comm *comm, enum weft_algorithm algorithm,
                         const struct weft_operands *operands)
{
    const size_t one_pass_bytes = 1u << 20, shared_bytes = 16u << 20;
    size_t bytes = operands->count * operands->element_bytes;
    int one_pass = comm->ranks == 2 && algorithm == WEFT_ALGO_RD;
    return operands->collective == WEFT_ALLREDUCE && !operands->in_place &&
           bytes >= (one_pass ? one_pass_bytes : shared_bytes);
}

/* Makes *send a copy of the input with the same distances between its blocks. */
static int copy_input(const struct weft_operands *operands, const void **send, void **memory)
{
    const struct weft_exec_blocks *blocks = &operands->send_blocks;
    size_t eb = operands->element_bytes, low, end = 0;
    size_t count_all = weft_operands_input_extent(operands, &low);
    if (count_all == 0)
        return WEFT_OK;
    uint8_t *copy = malloc(count_all * eb);
    if (!copy)
        return weft_fail(WEFT_NOMEM, "no memory for a copy of %zu bytes of input", count_all * eb);
    for (uint32_t b = 0; b < operands->send_blocks_count; b++) {
        size_t offset = weft_operands_next(operands, blocks, b, &end),
               count = weft_operands_count(operands, blocks, b);
        if (count)
            weft_copy(copy + (offset - low) * eb, (const uint8_t *)operands->send + offset * eb, count * eb);
    }
    *memory = copy;
    *send = (const void *)((uintptr_t)copy - low * eb);
    return WEFT_OK;
}

/* Multiplies the input by the rank's scalar: into the output where that holds all of it, else into memory of its own. */
static int scale_input(const struct weft_operands *operands, const void *scalar,
                       struct weft_exec_request *request, int *in_place, void **memory)
{
    size_t count = weft_operands_sum(operands, &operands->send_blocks, operands->send_blocks_count);
    void *scaled = operands->recv;
    if (operands->collective == WEFT_REDUCE_SCATTER || operands->recv_blocks_count == 0) {
        scaled = *memory = malloc(count * operands->element_bytes + 1);
        if (!scaled)
            return weft_fail(WEFT_NOMEM, "no memory for %zu scaled elements", count);
        *in_place = 0;
    } else {
        *in_place = 1;
    }
    request->input = scaled;
    return weft_scale(operands->dtype, scaled, operands->send, count, scalar);
}

/* The copies of an input that a call needs, without the lock where the call's thread makes them: they may be long. The room that was found for the operation
 * stays: collectives of one communicator come from one thread at a time. [lock] */
static int prepare_input(struct weft_comm *comm, const struct weft_operands *operands, const void *scalar,
                         struct weft_exec_request *request, int *in_place, void **memory)
{
    _Alignas(16) uint8_t factor[16];
    int status = WEFT_OK;
    if (!scalar && (!operands->in_place || *in_place))
        return WEFT_OK;
    int keeps_lock = comm->context->progressing;
    if (scalar)
        memcpy(factor, scalar, operands->element_bytes);
    if (!keeps_lock)
        weft_context_unlock(comm->context);
    if (scalar)
        status = scale_input(operands, factor, request, in_place, memory);
    else
        status = copy_input(operands, &request->input, memory);
    if (!keeps_lock)
        weft_context_lock(comm->context);
    return status;
}

/* Everybody knows that there is nothing: an equal call of no elements, which compares the call. */
static int is_empty(const struct weft_comm *comm, const struct weft_operands *operands)
{
    const size_t *counts = weft_operands_common_counts(operands);
    for (int r = 0; counts && r < comm->ranks; r++) {
        if (counts[r])
            return 0;
    }
    return counts != NULL;
}

int weft_collective_prepare(struct weft_comm *comm, const struct weft_operands *operands,
                            const struct weft_call *call, struct weft_exec_request *request,
                            struct weft_part *part)
{
    enum weft_algorithm algorithm = (enum weft_algorithm)call->algorithm;
    int in_place = operands->in_place && operands->collective != WEFT_ALLTOALL;
    int empty = operands->unequal && is_empty(comm, operands);
    *request = (struct weft_exec_request){
        .input = operands->send,
        .output = operands->recv,
        .count = empty ? 0 : operands->count,
        .element_bytes = operands->element_bytes,
        .input_blocks = operands->send_blocks,
        .output_blocks = operands->recv_blocks,
        .streaming = should_stream(comm, algorithm, operands),
        .digest = weft_call_digest(call),
        .call = *call,
    };
    if (weft_call_is_list(call)) /* several operations, which need not have the same */
        request->call.algorithm = 0;
    const void *scalar = NULL;
    /* A barrier moves a byte of nothing; that it depends on what has come is all that counts. */
    if (weft_collective_reduces(operands->collective) && operands->collective != WEFT_BARRIER)
        weft_op_request(comm->context, operands->op, operands->dtype, comm->ranks, request->streaming,
                        request, &scalar);
    int status = part->lane ? weft_part_prepare_input(part, operands, scalar, request, &in_place)
                            : prepare_input(comm, operands, scalar, request, &in_place, &part->memory);
    const struct weft_plan_request wanted = {
        .collective = operands->collective,
        .algorithm = algorithm,
        .ranks = (uint32_t)comm->ranks,
        .rank = (uint32_t)comm->rank,
        .in_place = in_place,
        .root = operands->root,
        .unequal = operands->unequal && !empty,
        .strict = weft_collective_is_strict(comm, operands),
        .hosts = comm->hosts,
    };
    if (status == WEFT_OK)
        status = weft_plans_get(&comm->plans, &wanted, &part->plan);
    if (status == WEFT_OK)
        request->plan = part->plan->plan;
    else
        weft_part_end(part);
    return status;
}

int weft_collective_start_part(struct weft_comm *comm, const struct weft_operands *operands,
                               const struct weft_call *call, struct weft_part *part)
{
    int status = weft_exec_is_full(comm->exec) ? weft_works_await_room(comm) : WEFT_OK;
    *part = (struct weft_part){0};
    if (status == WEFT_OK)
        status = weft_part_place(comm, operands, part);
    if (status == WEFT_OK && !part->lane)
        return weft_collective_start_placed(comm, operands, call, part);
    if (status == WEFT_OK)
        status = weft_collective_start_placed(comm, operands, call, part);
    else
        weft_part_end(part);
    return status == WEFT_OK ? WEFT_OK : weft_part_fail(comm, status);
}

int weft_collective_start_placed(struct weft_comm *comm, const struct weft_operands *operands,
                                 const struct weft_call *call, struct weft_part *part)
{
    struct weft_exec_request request;
    int status = weft_collective_prepare(comm, operands, call, &request, part);
    if (status != WEFT_OK)
        return status;
    status = weft_exec_start(comm->exec, &request, &part->op);
    if (status != WEFT_OK)
        weft_part_end(part);
    return status;
}

/* One rank: what it sends is what it receives. */
int weft_collective_run_alone(struct weft_comm *comm, const struct weft_operands *operands)
{
    if (comm->failed) /* aborted */
        return weft_comm_report(comm);
    size_t count = operands->send_blocks_count ? weft_operands_count(operands, &operands->send_blocks, 0) : 0;
    const uint8_t *from = (const uint8_t *)operands->send;
    uint8_t *to = operands->recv;
    comm->operations++;
    if (count == 0)
        return WEFT_OK;
    struct weft_where where;
    int status = weft_operands_where(comm, operands, &where);
    if (status != WEFT_OK || where.kind)
        return status == WEFT_OK ? weft_device_run_alone(comm, operands, &where) : status;
    from += weft_operands_offset(operands, &operands->send_blocks, 0) * operands->element_bytes;
    to += weft_operands_offset(operands, &operands->recv_blocks, 0) * operands->element_bytes;
    if (weft_collective_reduces(operands->collective))
        return weft_op_alone(comm->context, operands->op, operands->dtype, to, from, count);
    size_t bytes = count * operands->element_bytes;
    if (to < from + bytes && from < to + bytes)
        memmove(to, from, bytes); /* an alltoallv in place may shift the block */
    else
        weft_copy(to, from, bytes);
    return WEFT_OK;
}

static int enter(struct weft_comm *comm, struct weft_operands *operands)
{
    weft_error_clear();
    if (weft_fork_is_child())
        return weft_fork_refuse();
    return weft_operands_check(comm, operands);
}

static int run_plan(struct weft_comm *comm, const struct weft_operands *operands,
                    const struct weft_call *call)
{
    struct weft_part part;
    weft_context_lock(comm->context);
    int64_t deadline_ns = weft_comm_deadline_ns(comm);
    int status = weft_comm_check(comm);
    if (status == WEFT_OK) {
        status = weft_collective_start_part(comm, operands, call, &part);
        if (status == WEFT_OK) {
            weft_comm_count_call(comm);
            status = weft_work_drive(comm, part.op, deadline_ns, 1);
            weft_part_end(&part);
        }
    }
    weft_context_unlock(comm->context);
    return status != WEFT_OK && comm->failed ? weft_comm_report(comm) : status;
}

/* [lock] */
static int start(struct weft_comm *comm, const struct weft_operands *operands, struct weft_work *work)
{
    int status = weft_comm_check_any(comm);
    if (status != WEFT_OK)
        return status;
    if (comm->ranks == 1 || weft_queue_takes(comm)) /* the queue may have emptied since that was asked */
        return weft_collective_queue(comm, operands, weft_stream_of(comm), work);
    struct weft_call call = weft_operands_call(comm, operands);
    call.started = 1;
    call.algorithm = (uint8_t)weft_collective_choose_cached(comm, operands);
    status = weft_collective_start_part(comm, operands, &call, &work->only);
    if (status == WEFT_OK) {
        weft_comm_count_call(comm);
        work->part_count = 1;
    }
    return status;
}

int weft_collective_start(struct weft_comm *comm, struct weft_operands *operands, struct weft_work **started)
{
    struct weft_work *work;
    int status = enter(comm, operands);
    if (status != WEFT_OK)
        return status;
    if (!started)
        return weft_fail(WEFT_INVALID, "work is NULL");
    status = weft_work_new(comm, &work);
    if (status != WEFT_OK)
        return status;
    if (comm->ranks == 1 && !weft_queue_takes(comm)) {
        status = weft_collective_run_alone(comm, operands);
        work->status = status;
        comm->works += status == WEFT_OK;
    } else {
        weft_context_lock(comm->context);
        status = start(comm, operands, work);
        int is_queued = work->queued != NULL; /* which has been counted, and may end at any time */
        comm->works += status == WEFT_OK;
        weft_context_unlock(comm->context);
        if (status == WEFT_OK && !is_queued)
            weft_progress_background(comm->context, 1);
    }
    if (status != WEFT_OK) {
        weft_work_discard(work);
        return comm->failed ? weft_comm_report(comm) : status;
    }
    *started = work;
    return WEFT_OK;
}

static int run_fast(struct weft_comm *comm, const struct weft_operands *operands, const void *call)
{
    if (weft_collective_run_fast(comm, operands, call) != WEFT_OK)
        return weft_comm_report(comm);
    comm->fast_operations++;
    return WEFT_OK;
}

/* In a group or scope. */
static int only_start(struct weft_comm *comm, struct weft_operands *operands)
{
    struct weft_work *work;
    int status = weft_collective_start(comm, operands, &work);
    return status == WEFT_OK ? weft_call_leave(comm, work) : status;
}

int weft_collective_run(struct weft_comm *comm, struct weft_operands *operands)
{
    int status = enter(comm, operands);
    if (status != WEFT_OK)
        return status;
    if (weft_calls_may_start() && weft_stream_of(comm))
        return only_start(comm, operands);
    status = comm->ranks == 1 ? weft_queue_await(comm) : weft_comm_begin(comm);
    if (status != WEFT_OK)
        return status;
    if (comm->ranks == 1)
        return weft_collective_run_alone(comm, operands);
    if (weft_call_starts(comm))
        return only_start(comm, operands);
    status = weft_queue_await(comm);
    if (status != WEFT_OK)
        return status;
    struct weft_call call = weft_operands_call(comm, operands);
    call.algorithm = (uint8_t)weft_collective_fast_algorithm(comm, operands);
    if (!call.algorithm) {
        call.algorithm = (uint8_t)weft_collective_choose_cached(comm, operands);
        return run_plan(comm, operands, &call);
    }
    struct weft_where where;
    status = weft_operands_where(comm, operands, &where);
    if (status != WEFT_OK)
        return status;
    weft_comm_count_call(comm);
    return where.kind ? weft_staged_run(comm, operands, &where, run_fast, &call)
                      : run_fast(comm, operands, &call);
}
