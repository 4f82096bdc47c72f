/* SPDX-License-Identifier: Apache-2.0 */
/* A collective that progress starts (comm/queue.h): its operands are kept until then. Of one rank alone, a device copies what the host
 * does not. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "comm/collective.h"
#include "comm/device_call.h"
#include "comm/queue.h"

struct queued_collective {
    struct weft_queued queued;
    size_t calls, next; /* more than one: tensors of a list on one rank, one after the other */
    struct weft_alone alone;
    struct weft_operands operands[]; /* and behind them the counts and offsets that they point to */
};

static int start(struct weft_queued *queued)
{
    struct queued_collective *kept = (struct queued_collective *)queued;
    struct weft_work *work = queued->work;
    struct weft_comm *comm = work->comm;
    if (weft_exec_is_full(comm->exec))
        return WEFT_AGAIN;
    int status = weft_comm_check(comm);
    if (status == WEFT_OK)
        status = weft_collective_start_part(comm, &kept->operands[0], &queued->call, &work->only);
    if (status != WEFT_OK)
        return status;
    work->part_count = 1;
    weft_hold_give(queued->hold, work->only.lane);
    return WEFT_OK;
}

/* Of one rank alone. WEFT_AGAIN: a device works on it. */
static int begin_alone(struct queued_collective *kept)
{
    struct weft_comm *comm = kept->queued.work->comm;
    const struct weft_operands *operands = &kept->operands[kept->next];
    size_t count = operands->send_blocks_count ? weft_operands_count(operands, &operands->send_blocks, 0) : 0;
    struct weft_where where = {.kind = NULL};
    int status = count ? weft_operands_where(comm, operands, &where) : WEFT_OK;
    if (status == WEFT_OK && !where.kind)
        return weft_collective_run_alone(comm, operands);
    comm->operations++;
    return status == WEFT_OK ? weft_alone_begin(comm, operands, &where, &kept->alone) : status;
}

static int go_on_alone(struct queued_collective *kept)
{
    struct weft_lane_note note;
    int due = weft_lane_poll(kept->alone.staged.lane, &note);
    if (due > 0)
        return weft_alone_go_on(kept->queued.work->comm, &kept->alone);
    return due == 0 ? WEFT_AGAIN : due;
}

static int look_alone(struct weft_queued *queued)
{
    struct queued_collective *kept = (struct queued_collective *)queued;
    int status = WEFT_OK;
    while (kept->next < kept->calls && status == WEFT_OK) {
        status = kept->alone.staged.lane ? go_on_alone(kept) : begin_alone(kept);
        if (status != WEFT_OK)
            break;
        weft_alone_end(queued->work->comm, &kept->alone);
        kept->next++;
    }
    return status;
}

static int start_alone(struct weft_queued *queued)
{
    (void)queued;
    return WEFT_OK; /* the first look does it */
}

static void release(struct weft_queued *queued)
{
    struct queued_collective *kept = (struct queued_collective *)queued;
    weft_alone_stop(queued->work->comm, &kept->alone);
    free(kept);
}

static const struct weft_queued_ops ops = {start, NULL, release};
static const struct weft_queued_ops alone_ops = {start_alone, look_alone, release};

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

static int queue(struct weft_comm *comm, const struct weft_call *call, const struct weft_operands *operands,
                 size_t calls, struct weft_stream *stream, struct weft_work *work)
{
    size_t ranks = (size_t)comm->ranks, each = sizeof *operands + 4 * ranks * sizeof(size_t);
    struct queued_collective *kept =
        calls < SIZE_MAX / each - 1 ? calloc(1, sizeof *kept + calls * each) : NULL;
    if (!kept)
        return weft_fail(WEFT_NOMEM, "no memory for a call in the order of a stream");
    size_t *to = (size_t *)&kept->operands[calls];
    for (size_t c = 0; c < calls; c++) {
        kept->operands[c] = operands[c];
        copy_blocks(&kept->operands[c].send_blocks, ranks, &to);
        copy_blocks(&kept->operands[c].recv_blocks, ranks, &to);
    }
    kept->calls = calls;
    kept->queued.ops = ranks == 1 ? &alone_ops : &ops;
    kept->queued.call = *call;
    int status = weft_queue_add(comm, &kept->queued, stream, work);
    if (status == WEFT_OK)
        weft_comm_count_call(comm);
    else
        free(kept);
    return status;
}

int weft_collective_queue(struct weft_comm *comm, const struct weft_operands *operands,
                          struct weft_stream *stream, struct weft_work *work)
{
    struct weft_call call = weft_operands_call(comm, operands);
    call.started = 1;
    if (comm->ranks > 1)
        call.algorithm = (uint8_t)weft_collective_choose_cached(comm, operands);
    return queue(comm, &call, operands, 1, stream, work);
}

int weft_collective_queue_alone(struct weft_comm *comm, const struct weft_call *call,
                                const struct weft_operands *operands, size_t calls,
                                struct weft_stream *stream, struct weft_work *work)
{
    return queue(comm, call, operands, calls, stream, work);
}
