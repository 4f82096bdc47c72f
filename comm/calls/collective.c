/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/calls/collective.h"

#include <string.h>

#include "base/fork.h"
#include "comm/calls/device.h"
#include "comm/calls/op.h"
#include "comm/calls/part.h"
#include "comm/drive/progress.h"
#include "comm/core/fastpath.h"
#include "comm/core/queue.h"
#include "devmem/devices.h"

/* --- blocking */

/* One rank, on the host: what it sends is what it receives, and a plan would say no more. */
static int run_alone(struct weft_comm *comm, const struct weft_operands *operands)
{
    size_t count = operands->send_blocks_count ? weft_operands_count(operands, &operands->send_blocks, 0) : 0;
    size_t bytes = count * operands->element_bytes;
    const uint8_t *from = (const uint8_t *)operands->send +
                          weft_operands_offset(operands, &operands->send_blocks, 0) * operands->element_bytes;
    uint8_t *to = (uint8_t *)operands->recv +
                  weft_operands_offset(operands, &operands->recv_blocks, 0) * operands->element_bytes;
    comm->operations++;
    if (count == 0)
        return WEFT_OK;
    if (weft_collective_reduces(operands->collective))
        return weft_op_alone(comm->context, operands->op, operands->dtype, to, from, count);
    if (to < from + bytes && from < to + bytes)
        memmove(to, from, bytes); /* an alltoallv in place may shift the block */
    else
        weft_copy(to, from, bytes);
    return WEFT_OK;
}

static int run_plan(struct weft_comm *comm, const struct weft_operands *operands,
                    const struct weft_call *call, struct weft_kept_call *kept, const struct weft_how *how,
                    int is_known)
{
    struct weft_part part;
    weft_context_lock(comm->context);
    int status = weft_comm_check(comm);
    if (status == WEFT_OK) {
        status = weft_part_start(comm, operands, call, kept, &part);
        if (status == WEFT_OK) {
            weft_exec_op_look(part.op)->timeout_ms = how->timeout_ms;
            if (!is_known)
                weft_comm_count_call(comm);
            status = weft_work_drive(comm, part.op, 0, 1);
            weft_part_end(&part);
        } else if (is_known && !comm->failure.status) {
            weft_comm_fail_here(comm, status); /* the others have heard of the call, and wait */
        }
    }
    weft_context_unlock(comm->context);
    return status != WEFT_OK && comm->failure.status ? weft_comm_report(comm) : status;
}

struct fast_call {
    const struct weft_call *call;
    int64_t timeout_ms;
};

/* WEFT_AGAIN: some rank wants a plan. */
static int run_exchange(struct weft_comm *comm, const struct weft_operands *operands, const void *arg)
{
    const struct fast_call *fast = arg;
    struct weft_fastpath_exchange exchange;
    int by_plan;
    weft_collective_exchange(comm, operands, fast->call, &exchange);
    if (weft_exchange_run(comm, &exchange, fast->timeout_ms, &by_plan) != WEFT_OK)
        return weft_comm_report(comm);
    if (by_plan)
        return WEFT_AGAIN;
    comm->fast_operations++;
    return WEFT_OK;
}

/* Over the cache lines. */
static int run_small(struct weft_comm *comm, const struct weft_operands *operands, struct weft_call *call,
                     const struct weft_where *where, const struct weft_how *how)
{
    const struct fast_call fast = {call, how->timeout_ms};
    weft_comm_count_call(comm);
    int status = where->kind ? weft_staged_run(comm, operands, where, run_exchange, &fast)
                             : run_exchange(comm, operands, &fast);
    if (__builtin_expect(status != WEFT_AGAIN, 1))
        return status;
    struct weft_kept_call *kept = weft_kept_get(comm, operands);
    call->algorithm = (uint8_t)kept->algorithm;
    return run_plan(comm, operands, call, kept, how, 1);
}

/* What is best depends on the other rank's memory. */
static int run_shown(struct weft_comm *comm, const struct weft_operands *operands, struct weft_call *call,
                     const struct weft_how *how)
{
    struct weft_kept_call *kept = weft_kept_get(comm, operands);
    enum weft_algorithm algorithm = kept->algorithm;
    struct weft_fastpath_exchange exchange;
    struct weft_shown mine;
    char text[200];
    int by_plan;
    weft_comm_count_call(comm);
    weft_context_lock(comm->context);
    weft_allreduce_show(comm, operands, call, &mine, &exchange);
    weft_context_unlock(comm->context);
    if (weft_exchange_run(comm, &exchange, how->timeout_ms, &by_plan) != WEFT_OK)
        return weft_comm_report(comm);
    if (weft_allreduce_read(comm, call, &mine, &algorithm, text, sizeof text) != WEFT_OK) {
        weft_exchange_differs(comm, call, text);
        return weft_comm_report(comm);
    }
    call->algorithm = (uint8_t)algorithm;
    return run_plan(comm, operands, call, kept, how, 1);
}

static int run(struct weft_comm *comm, const struct weft_operands *operands, const struct weft_how *how)
{
    struct weft_where where = {.kind = NULL};
    int status = weft_comm_begin(comm);
    if (status == WEFT_OK)
        status = weft_queue_await(comm);
    if (status != WEFT_OK)
        return status;
    if (comm->ranks == 1) {
        status = weft_operands_where(comm, operands, &where);
        if (status != WEFT_OK || !where.kind)
            return status == WEFT_OK ? run_alone(comm, operands) : status;
    }
    struct weft_call call = weft_operands_call(comm, operands);
    call.label = how->label;
    call.algorithm = (uint8_t)weft_collective_fast_algorithm(comm, operands);
    int shows = !call.algorithm && weft_allreduce_shows(comm, operands);
    /* Memory that cannot be is refused before another rank hears of the call. */
    if ((call.algorithm || shows) && __builtin_expect(weft_devices_in_use(comm->context->devices.kinds), 0))
        status = weft_operands_where(comm, operands, &where);
    if (status != WEFT_OK)
        return status;
    if (call.algorithm)
        return run_small(comm, operands, &call, &where, how);
    if (shows)
        return run_shown(comm, operands, &call, how);
    struct weft_kept_call *kept = weft_kept_get(comm, operands);
    call.algorithm = (uint8_t)kept->algorithm;
    return run_plan(comm, operands, &call, kept, how, 0);
}

/* --- started */

/* [lock] */
static int start_now(struct weft_comm *comm, const struct weft_operands *operands, struct weft_stream *stream,
                     struct weft_work *work)
{
    int status = weft_comm_check(comm);
    if (status != WEFT_OK)
        return status;
    if (weft_collective_is_queued(comm, operands, stream))
        return weft_collective_queue(comm, operands, stream, work);
    struct weft_call call = weft_operands_call(comm, operands);
    call.started = 1;
    call.label = work->label[0] ? work->label : NULL;
    struct weft_kept_call *kept = weft_kept_get(comm, operands);
    call.algorithm = (uint8_t)kept->algorithm;
    status = weft_part_start(comm, operands, &call, kept, &work->only);
    if (status != WEFT_OK)
        return status;
    weft_exec_op_look(work->only.op)->timeout_ms = work->timeout_ms;
    weft_comm_count_call(comm);
    work->part_count = 1;
    weft_progress_background(comm->context, 1);
    if (work->signals)
        weft_work_watch(work);
    return WEFT_OK;
}

static int start(struct weft_comm *comm, const struct weft_operands *operands, const struct weft_how *how)
{
    struct weft_work *work;
    weft_context_lock(comm->context);
    int status = weft_how_work(comm, how, &work);
    if (status != WEFT_OK) {
        weft_context_unlock(comm->context);
        return status;
    }
    weft_work_attend(work, 1, 0); /* its beginning may be a good part of it */
    status = start_now(comm, operands, how->stream, work);
    weft_work_attend(work, 0, 0);
    weft_context_unlock(comm->context);
    if (status != WEFT_OK) {
        weft_work_discard(work);
        return comm->failure.status ? weft_comm_report(comm) : status;
    }
    comm->works++;
    return weft_how_leave(how, work);
}

int weft_collective_call(struct weft_comm *comm, struct weft_operands *operands,
                         const weft_call_options *options)
{
    struct weft_how how;
    struct weft_where where = {.kind = NULL};
    weft_error_clear();
    if (weft_fork_is_child())
        return weft_fork_refuse();
    int status = weft_operands_check(comm, operands);
    if (status == WEFT_OK)
        status = weft_comm_check_free(comm);
    if (status == WEFT_OK)
        status = weft_how_read(options, &how);
    if (status != WEFT_OK)
        return status;
    operands->algorithm = how.algorithm;
    status = how.algorithm ? weft_operands_check_algorithm(comm, operands) : WEFT_OK;
    if (status != WEFT_OK || !how.starts)
        return status == WEFT_OK ? run(comm, operands, &how) : status;
    if (how.is_ordered && !how.kind)
        status = weft_operands_where(comm, operands, &where);
    if (status == WEFT_OK)
        status = weft_how_follow(comm, &where, &how);
    if (status == WEFT_OK)
        status = start(comm, operands, &how);
    weft_how_end(&how);
    return status;
}
