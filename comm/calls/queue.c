/* SPDX-License-Identifier: Apache-2.0 */
/* A collective that progress starts (comm/core/queue.h): its operands are kept until then.
 *
 * What goes over the cache lines stays the first of the queue until all ranks have published theirs, so that one is in flight at a time
 * and calls behind it, whose plans must begin in the same order at all ranks, wait for what it comes to: its result, or a plan. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "comm/calls/collective.h"
#include "comm/calls/device.h"
#include "comm/calls/part.h"
#include "comm/core/fastpath.h"
#include "comm/core/queue.h"

enum stage { STAGE_NEW, STAGE_EXCHANGING, STAGE_LEAVING, STAGE_PLAN, STAGE_DONE };

struct queued_collective {
    struct weft_queued queued;
    enum stage stage;
    int shows; /* exchanges only what the algorithm depends on */
    struct weft_shown mine;
    struct weft_fastpath_exchange made;
    struct weft_exchange exchange;
    struct weft_where where; /* of device memory; else kind is NULL */
    struct weft_staged staged;
    struct weft_operands operands;
    size_t numbers[]; /* the counts and offsets that they point to */
};

static int start_plan(struct queued_collective *kept)
{
    struct weft_queued *queued = &kept->queued;
    struct weft_work *work = queued->work;
    struct weft_comm *comm = work->comm;
    if (weft_exec_is_full(comm->exec))
        return WEFT_AGAIN;
    int status = weft_comm_check(comm);
    queued->call.unattended = !work->waiters;
    if (status == WEFT_OK)
        status = weft_part_start(comm, &kept->operands, &queued->call, NULL, &work->only);
    if (status != WEFT_OK)
        return status;
    weft_exec_op_look(work->only.op)->timeout_ms = work->timeout_ms;
    work->part_count = 1;
    weft_stream_wait_give(queued->stream_wait, work->only.commands);
    return WEFT_OK;
}

/* Publishes. */
static int begin_exchange(struct queued_collective *kept)
{
    struct weft_queued *queued = &kept->queued;
    struct weft_comm *comm = queued->work->comm;
    const struct weft_operands *operands = &kept->operands;
    int status = weft_comm_check(comm);
    if (status == WEFT_OK && !kept->shows)
        status = weft_operands_where(comm, operands, &kept->where);
    if (status != WEFT_OK)
        return status;
    if (kept->shows)
        weft_allreduce_show(comm, operands, &queued->call, &kept->mine, &kept->made);
    else
        weft_collective_exchange(comm, operands, &queued->call, &kept->made);
    weft_fastpath_begin(comm->fastpath, &kept->made, kept->where.kind != NULL);
    weft_exchange_begin(comm, &queued->call, queued->work->timeout_ms, &kept->exchange);
    kept->stage = STAGE_EXCHANGING;
    queued->deadline_ns = kept->exchange.deadline_ns;
    return WEFT_OK;
}

/* What a root has given, to a rank whose memory is a device's: that wants a plan, but the root, which alone decides, may be gone on. */
static int stage_given(struct queued_collective *kept)
{
    struct weft_comm *comm = kept->queued.work->comm;
    struct weft_fastpath_exchange *made = &kept->made;
    if (!kept->where.kind || made->kind != WEFT_FASTPATH_MOVES || made->move.root == WEFT_FASTPATH_NO_ROOT ||
        made->move.root == (uint32_t)comm->rank)
        return WEFT_OK;
    if (weft_fastpath_goes_by_plan(comm->fastpath)) {
        made->move.end =
            made->move.first; /* nothing is written there, also where the root's word is erased just now */
        return WEFT_OK;
    }
    int status = kept->staged.commands ? WEFT_OK
                                       : weft_staged_open(comm, &kept->operands, &kept->where, &kept->staged);
    kept->made.move.output = kept->staged.operands.recv;
    return status;
}

/* A device copies what came. */
static int leave(struct queued_collective *kept)
{
    struct weft_comm *comm = kept->queued.work->comm;
    int status = kept->stage == STAGE_LEAVING ? weft_staged_poll(&kept->staged)
                                              : weft_staged_leave(comm, &kept->operands, &kept->staged);
    kept->stage = status == WEFT_OK ? STAGE_DONE : STAGE_LEAVING;
    if (status != WEFT_AGAIN)
        return status;
    weft_queue_rouse(comm);
    if (weft_clock_ns() < kept->queued.deadline_ns)
        return WEFT_AGAIN;
    return weft_fail(WEFT_TIMEOUT, "rank %d gave up: %s device %d has not copied what came", comm->rank,
                     weft_command_queue_kind(kept->staged.commands)->name,
                     weft_command_queue_ordinal(kept->staged.commands));
}

/* All have published: it is done, or a plan is due. */
static int end_exchange(struct queued_collective *kept)
{
    struct weft_queued *queued = &kept->queued;
    struct weft_comm *comm = queued->work->comm;
    enum weft_algorithm algorithm = WEFT_ALGO_AUTO;
    char text[200];
    int by_plan = 0, status = weft_exchange_look(comm, &kept->exchange);
    if (status != WEFT_OK)
        return status;
    if (kept->shows)
        algorithm = weft_collective_choose(comm, &kept->operands);
    int same = kept->shows
                   ? weft_allreduce_read(comm, &queued->call, &kept->mine, &algorithm, text, sizeof text)
                   : WEFT_OK;
    status = stage_given(kept);
    if (status == WEFT_OK)
        status = weft_exchange_finish(comm, &kept->made, &kept->exchange, &by_plan);
    if (status == WEFT_OK && same != WEFT_OK) {
        weft_exchange_doubt(comm, &kept->exchange, text);
        status = WEFT_AGAIN;
    }
    comm->queue.never_quiet |= by_plan;
    if (status == WEFT_AGAIN || by_plan)
        weft_queue_rouse(comm); /* more is to be done than its owner may stay for */
    if (status != WEFT_OK)
        return status;
    weft_exchange_end(comm, &kept->exchange);
    if (by_plan)
        algorithm = weft_collective_choose(comm, &kept->operands);
    kept->stage = kept->shows || by_plan ? STAGE_PLAN : STAGE_DONE;
    queued->call.algorithm = kept->stage == STAGE_PLAN ? (uint8_t)algorithm : queued->call.algorithm;
    comm->fast_operations += kept->stage == STAGE_DONE;
    return kept->stage == STAGE_DONE && kept->staged.commands ? leave(kept) : WEFT_OK;
}

static int start(struct weft_queued *queued)
{
    struct queued_collective *kept = (struct queued_collective *)queued;
    int status = kept->stage == STAGE_NEW       ? begin_exchange(kept)
                 : kept->stage == STAGE_LEAVING ? leave(kept)
                                                : WEFT_OK;
    if (status == WEFT_OK && kept->stage == STAGE_EXCHANGING)
        status = end_exchange(kept);
    return status == WEFT_OK && kept->stage == STAGE_PLAN ? start_plan(kept) : status;
}

/* Whether nothing is to be done for it before a peer has come. */
static int is_exchanging(const struct weft_queued *queued)
{
    const struct queued_collective *kept = (const struct queued_collective *)queued;
    return kept->stage == STAGE_EXCHANGING && !weft_exchange_is_ready(queued->work->comm);
}

static void release(struct weft_queued *queued)
{
    struct queued_collective *kept = (struct queued_collective *)queued;
    if (kept->stage == STAGE_EXCHANGING)
        weft_exchange_end(queued->work->comm, &kept->exchange);
    if (kept->staged.commands)
        weft_staged_close(queued->work->comm, &kept->staged);
    free(kept);
}

static const struct weft_queued_ops ops = {start, is_exchanging, release};

static const size_t *copy(const size_t *numbers, size_t count, size_t **to)
{
    if (!numbers)
        return NULL;
    size_t *copied = *to;
    memcpy(copied, numbers, count * sizeof *numbers);
    *to += count;
    return copied;
}

static void copy_blocks(struct weft_exec_blocks *blocks, size_t count, size_t **to)
{
    blocks->counts = copy(blocks->counts, count, to);
    blocks->offsets = copy(blocks->offsets, count, to);
}

int weft_collective_is_queued(const struct weft_comm *comm, const struct weft_operands *operands,
                              const struct weft_stream *stream)
{
    return weft_queue_takes(comm, stream) || weft_allreduce_shows(comm, operands) ||
           weft_collective_fast_algorithm(comm, operands);
}

int weft_collective_queue(struct weft_comm *comm, const struct weft_operands *operands,
                          struct weft_stream *stream, struct weft_work *work)
{
    size_t ranks = (size_t)comm->ranks;
    struct queued_collective *kept = calloc(1, sizeof *kept + 4 * ranks * sizeof(size_t));
    if (!kept)
        return weft_fail(WEFT_NOMEM, "no memory for a stream-ordered call");
    struct weft_call *call = &kept->queued.call;
    size_t *to = kept->numbers;
    *call = weft_operands_call(comm, operands);
    call->started = 1;
    call->algorithm = (uint8_t)weft_collective_fast_algorithm(comm, operands);
    kept->shows = !call->algorithm && weft_allreduce_shows(comm, operands);
    kept->stage = call->algorithm || kept->shows ? STAGE_NEW : STAGE_PLAN;
    if (kept->stage == STAGE_PLAN)
        call->algorithm = (uint8_t)weft_collective_choose_cached(comm, operands);
    kept->operands = *operands;
    copy_blocks(&kept->operands.send_blocks, ranks, &to);
    copy_blocks(&kept->operands.recv_blocks, ranks, &to);
    kept->queued.ops = &ops;
    /* A result that nobody but the handle's owner asks for needs no thread: publishing is all that the others wait for, but for plans. */
    kept->queued.is_quiet = kept->stage == STAGE_NEW && !kept->shows && !stream && work->is_owned &&
                            !work->signals && !comm->queue.never_quiet;
    weft_comm_count_call(comm);
    int status = weft_queue_add(comm, &kept->queued, stream, work);
    if (status != WEFT_OK)
        free(kept);
    return status;
}
