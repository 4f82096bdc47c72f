/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/device_call.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "comm/op.h"
#include "comm/progress.h"

/* Any byte of a buffer that there is; NULL: there is none. */
static const void *any_byte(const struct weft_operands *operands, const void *memory,
                            const struct weft_exec_blocks *blocks, size_t count)
{
    size_t end = 0;
    for (size_t b = 0; b < count; b++) {
        size_t offset = weft_operands_next(operands, blocks, (uint32_t)b, &end);
        if (weft_operands_count(operands, blocks, (uint32_t)b))
            return (const uint8_t *)memory + offset * operands->element_bytes;
    }
    return NULL;
}

static int reduces(const struct weft_operands *operands)
{
    return weft_collective_reduces(operands->collective) && operands->collective != WEFT_BARRIER;
}

static int where(const struct weft_comm *comm, const struct weft_operands *operands, int host_works,
                 struct weft_where *found)
{
    const void *send =
        any_byte(operands, operands->send, &operands->send_blocks, operands->send_blocks_count);
    const void *recv =
        any_byte(operands, operands->recv, &operands->recv_blocks, operands->recv_blocks_count);
    enum weft_where_work work = host_works          ? WEFT_WHERE_HOST
                                : reduces(operands) ? WEFT_WHERE_REDUCES
                                                    : WEFT_WHERE_COPIES;
    found->kind = NULL;
    if (operands->collective == WEFT_BARRIER)
        return WEFT_OK;
    return weft_where_look(comm->context, send, recv, work, found);
}

int weft_operands_where(const struct weft_comm *comm, const struct weft_operands *operands,
                        struct weft_where *found)
{
    return where(comm, operands, reduces(operands) && weft_op_is_function(comm->context, operands->op),
                 found);
}

int weft_part_place(struct weft_comm *comm, const struct weft_operands *operands, struct weft_part *part)
{
    struct weft_where found;
    int status = weft_operands_where(comm, operands, &found);
    if (status != WEFT_OK || !found.kind)
        return status;
    status = weft_part_take_lane(comm, operands, &found, part);
    if (status == WEFT_OK && part->on_host != found.on_host) {
        status = where(comm, operands, 1, &found);
        part->on_host = found.on_host;
    }
    return status;
}

int weft_part_take_lane(struct weft_comm *comm, const struct weft_operands *operands,
                        const struct weft_where *found, struct weft_part *part)
{
    int status = weft_where_lane(comm->context, found, &part->lane);
    part->context = comm->context;
    part->on_host = found->on_host;
    if (status == WEFT_OK && !found->on_host && reduces(operands) &&
        !weft_lane_reduces(part->lane, operands->dtype, weft_op_kernel(comm->context, operands->op)))
        part->on_host = WEFT_SHADOW_NONE;
    return status;
}

/* A list has some already. */
static struct weft_exec_moves *moves_of(struct weft_part *part, size_t loads)
{
    if (part->moves)
        return part->moves;
    struct weft_exec_moves *moves = calloc(1, sizeof *moves + loads * sizeof(struct weft_exec_move));
    if (!moves)
        weft_fail(WEFT_NOMEM, "no memory for what a device has to do");
    else if (loads)
        moves->loads = (struct weft_exec_move *)(moves + 1);
    part->moves = moves;
    return moves;
}

/* The input lies in the shadow where the host works on a device's memory; otherwise the product has memory of its own. */
static int scale_input(struct weft_part *part, const struct weft_operands *operands, const void *scalar,
                       struct weft_exec_request *request, int *in_place)
{
    struct weft_exec_moves *moves = moves_of(part, 0);
    size_t count = weft_operands_sum(operands, &operands->send_blocks, operands->send_blocks_count);
    int status = moves ? WEFT_OK : WEFT_NOMEM;
    if (!moves || !count)
        return status;
    moves->scaled_count = count;
    moves->unscaled = operands->send;
    memcpy(moves->scalar, scalar, operands->element_bytes);
    if (part->on_host & WEFT_SHADOW_INPUT)
        return WEFT_OK;
    if (part->on_host) {
        moves->scaled = part->memory = malloc(count * operands->element_bytes);
        if (!moves->scaled)
            status = weft_fail(WEFT_NOMEM, "no memory for %zu scaled elements", count);
    } else {
        status =
            weft_lane_memory(part->lane, WEFT_LANE_INPUT, count * operands->element_bytes, &moves->scaled);
    }
    request->input = moves->scaled;
    *in_place = 0;
    return status;
}

/* With the same distances between its blocks. */
static int copy_input(struct weft_part *part, const struct weft_operands *operands,
                      struct weft_exec_request *request)
{
    size_t first, count = weft_operands_input_extent(operands, &first);
    if (!count)
        return WEFT_OK;
    struct weft_exec_moves *moves = moves_of(part, 1);
    if (!moves)
        return WEFT_NOMEM;
    struct weft_exec_move *load = (struct weft_exec_move *)(moves + 1);
    load->from = (const uint8_t *)operands->send + first * operands->element_bytes;
    load->bytes = count * operands->element_bytes;
    moves->load_count = 1;
    int status = weft_lane_memory(part->lane, WEFT_LANE_INPUT, load->bytes, &load->to);
    if (status == WEFT_OK)
        request->input = (const void *)((uintptr_t)load->to - first * operands->element_bytes);
    return status;
}

int weft_part_prepare_input(struct weft_part *part, const struct weft_operands *operands, const void *scalar,
                            struct weft_exec_request *request, int *in_place)
{
    request->lane = part->lane;
    request->on_host = part->on_host;
    request->streaming = 0;
    int status = WEFT_OK;
    if (scalar)
        status = scale_input(part, operands, scalar, request, in_place);
    else if (operands->in_place && !*in_place)
        status = copy_input(part, operands, request);
    request->moves = part->moves;
    return status;
}

/* --- without the executor */

/* Copies of both buffers, the input first. */
static int staged_open(struct weft_comm *comm, const struct weft_operands *operands,
                       const struct weft_where *found, struct weft_staged *staged)
{
    size_t block = operands->count * operands->element_bytes;
    size_t sent = (operands->send_blocks_count * block + 63) / 64 * 64;
    *staged =
        (struct weft_staged){.operands = *operands, .bytes = sent + operands->recv_blocks_count * block};
    int status = weft_where_lane(comm->context, found, &staged->lane);
    if (status != WEFT_OK)
        return status;
    staged->memory = weft_memory_buffer_get(comm->context, WEFT_SHM, staged->bytes, found->kind);
    if (!staged->memory)
        return weft_fail(WEFT_NOMEM, "no staging memory of %zu bytes", staged->bytes);
    staged->operands.send = staged->memory;
    staged->operands.recv = (uint8_t *)staged->memory + sent;
    return WEFT_OK;
}

/* A call that ends early waits, for a bounded time, for what the device still has to do of it: that reads and writes the program's
 * memory. */
static void lane_stop(struct weft_lane *lane)
{
    char why[WEFT_DETAIL_MAX];
    if (!lane || weft_lane_is_idle(lane))
        return;
    snprintf(why, sizeof why, "%s", weft_error_detail());
    if (weft_lane_drain(lane, WEFT_RECALL_MS) == WEFT_TIMEOUT)
        weft_log(WEFT_LOG_ERROR,
                 "%s device %d still works on a call that has failed: its buffers may be written later",
                 weft_lane_kind(lane)->name, weft_lane_ordinal(lane));
    weft_error_set_detail(why);
}

static void staged_close(struct weft_comm *comm, struct weft_staged *staged)
{
    if (staged->memory)
        weft_lane_keep(staged->lane, weft_memory_buffer_put, comm->context, WEFT_SHM, staged->memory,
                       staged->bytes);
    weft_lane_put(staged->lane);
}

/* Notes that the lane has come to here. */
static int mark(struct weft_lane *lane)
{
    static const struct weft_lane_note note = {0};
    int status = weft_lane_note(lane, &note);
    if (status == WEFT_OK)
        status = weft_lane_flush(lane);
    return status == WEFT_OK ? WEFT_AGAIN : status;
}

/* Waits for the lane's next mark, without keeping others from the lock. [lock] */
static int await_mark(struct weft_comm *comm, struct weft_lane *lane)
{
    struct weft_lane_note note;
    struct weft_idle idle = {0};
    int64_t deadline_ns = weft_comm_deadline_ns(comm);
    int status;
    while ((status = weft_lane_poll(lane, &note)) == 0) {
        if (weft_comm_is_lost(comm) && weft_comm_check_any(comm) != WEFT_OK)
            return weft_fail(comm->failed, "%s", comm->failure);
        if (weft_clock_ns() >= deadline_ns)
            return weft_fail(
                WEFT_TIMEOUT,
                "rank %d gave up after %lld ms: %s device %d has not copied the buffer of a call", comm->rank,
                (long long)comm->timeout_ms, weft_lane_kind(lane)->name, weft_lane_ordinal(lane));
        weft_context_unlock(comm->context);
        if (weft_idle_pause(comm->context, &idle))
            weft_progress_nap(&idle);
        else
            sched_yield();
        weft_context_lock(comm->context);
    }
    return status > 0 ? WEFT_OK : status;
}

static int staged_move(struct weft_comm *comm, const struct weft_staged *staged, void *to, const void *from,
                       size_t bytes, int is_device)
{
    if (bytes && !is_device)
        weft_copy(to, from, bytes);
    if (!bytes || !is_device)
        return WEFT_OK;
    int status = weft_lane_copy(staged->lane, to, from, bytes);
    if (status == WEFT_OK)
        status = mark(staged->lane);
    return status == WEFT_AGAIN ? await_mark(comm, staged->lane) : status;
}

/* The others hear of it before this rank waits for its device. */
int weft_part_fail(struct weft_comm *comm, int status)
{
    char text[WEFT_DETAIL_MAX];
    snprintf(text, sizeof text, "%s", weft_error_detail());
    weft_comm_fail(comm, status, text);
    return status;
}

/* Copies the input and waits. Fails with the communicator. */
static int staged_begin(struct weft_comm *comm, const struct weft_operands *operands,
                        const struct weft_where *found, struct weft_staged *staged)
{
    size_t bytes = operands->send_blocks_count * operands->count * operands->element_bytes;
    weft_context_lock(comm->context);
    int status = staged_open(comm, operands, found, staged);
    if (status == WEFT_OK)
        status = staged_move(comm, staged, (void *)(uintptr_t)staged->operands.send, operands->send, bytes,
                             bytes && weft_where_is_device(comm->context, operands->send));
    if (status != WEFT_OK) {
        weft_part_fail(comm, status);
        lane_stop(staged->lane);
        staged_close(comm, staged);
    }
    weft_context_unlock(comm->context);
    return status;
}

/* Copies the output back, if status is WEFT_OK, and waits. Returns status, or what has failed then, and the communicator with it. */
static int staged_end(struct weft_comm *comm, const struct weft_operands *operands,
                      struct weft_staged *staged, int status)
{
    size_t bytes = operands->recv_blocks_count * operands->count * operands->element_bytes;
    weft_context_lock(comm->context);
    if (status == WEFT_OK) {
        status = staged_move(comm, staged, operands->recv, staged->operands.recv, bytes,
                             bytes && weft_where_is_device(comm->context, operands->recv));
        if (status != WEFT_OK)
            weft_part_fail(comm, status);
    }
    lane_stop(staged->lane);
    staged_close(comm, staged);
    weft_context_unlock(comm->context);
    return status;
}

int weft_staged_run(struct weft_comm *comm, const struct weft_operands *operands,
                    const struct weft_where *where, weft_staged_call *run, const void *arg)
{
    struct weft_staged staged;
    int status = staged_begin(comm, operands, where, &staged);
    if (status != WEFT_OK)
        return weft_comm_report(comm);
    status = run(comm, &staged.operands, arg);
    int ended = staged_end(comm, operands, &staged, status);
    return status != WEFT_OK || ended == WEFT_OK ? status : weft_comm_report(comm);
}

/* --- one rank alone */

/* WEFT_AGAIN until the mark behind it has happened; the host's copy is there at once. */
static int alone_move(const struct weft_alone *alone, void *to, const void *from, size_t bytes, int is_device)
{
    int status = WEFT_OK;
    if (bytes && is_device)
        status = weft_lane_copy(alone->staged.lane, to, from, bytes);
    else if (bytes)
        weft_copy(to, from, bytes);
    return status == WEFT_OK && bytes && is_device ? mark(alone->staged.lane) : status;
}

/* What the host computes, on copies; then they go back. */
static int alone_compute(struct weft_comm *comm, struct weft_alone *alone)
{
    const struct weft_operands *plain = &alone->plain;
    void *to = alone->staged.operands.recv;
    const void *from = alone->staged.operands.send;
    int status = WEFT_OK;
    alone->computed = 1;
    if (weft_collective_reduces(plain->collective))
        status = weft_op_alone(comm->context, plain->op, plain->dtype, to, from, plain->count);
    else
        weft_copy(to, from, plain->count * plain->element_bytes);
    return status == WEFT_OK ? alone_move(alone, plain->recv, to, plain->count * plain->element_bytes,
                                          weft_where_is_device(comm->context, plain->recv))
                             : status;
}

int weft_alone_go_on(struct weft_comm *comm, struct weft_alone *alone)
{
    return alone->on_host && !alone->computed ? alone_compute(comm, alone) : WEFT_OK;
}

int weft_alone_begin(struct weft_comm *comm, const struct weft_operands *operands,
                     const struct weft_where *found, struct weft_alone *alone)
{
    struct weft_operands *plain = &alone->plain; /* one block, where it begins */
    size_t count = weft_operands_count(operands, &operands->send_blocks, 0);
    size_t bytes = count * operands->element_bytes;
    *alone = (struct weft_alone){.plain = *operands};
    plain->count = count;
    plain->send = (const uint8_t *)operands->send +
                  weft_operands_offset(operands, &operands->send_blocks, 0) * operands->element_bytes;
    plain->recv = (uint8_t *)operands->recv +
                  weft_operands_offset(operands, &operands->recv_blocks, 0) * operands->element_bytes;
    plain->send_blocks = plain->recv_blocks = (struct weft_exec_blocks){NULL, NULL};
    const uint8_t *from = plain->send, *to = plain->recv;
    int overlaps = to != from && to < from + bytes && from < to + bytes; /* an alltoallv in place */
    int scales = reduces(operands) && !weft_op_is_builtin(operands->op);
    if (to == from && !scales && !found->on_host)
        return WEFT_OK;
    alone->on_host = found->on_host || scales || overlaps;
    if (!alone->on_host) {
        int status = weft_where_lane(comm->context, found, &alone->staged.lane);
        return status == WEFT_OK ? alone_move(alone, plain->recv, plain->send, bytes, 1) : status;
    }
    int status = staged_open(comm, plain, found, &alone->staged);
    if (status == WEFT_OK)
        status = alone_move(alone, (void *)(uintptr_t)alone->staged.operands.send, plain->send, bytes,
                            weft_where_is_device(comm->context, plain->send));
    return status == WEFT_OK ? alone_compute(comm, alone) : status;
}

void weft_alone_end(struct weft_comm *comm, struct weft_alone *alone)
{
    if (alone->staged.lane)
        staged_close(comm, &alone->staged);
    alone->staged.lane = NULL;
    alone->staged.memory = NULL;
}

void weft_alone_stop(struct weft_comm *comm, struct weft_alone *alone)
{
    lane_stop(alone->staged.lane);
    weft_alone_end(comm, alone);
}

int weft_device_run_alone(struct weft_comm *comm, const struct weft_operands *operands,
                          const struct weft_where *found)
{
    struct weft_alone alone;
    weft_context_lock(comm->context);
    int status = weft_alone_begin(comm, operands, found, &alone);
    while (status == WEFT_AGAIN) {
        status = await_mark(comm, alone.staged.lane);
        if (status == WEFT_OK)
            status = weft_alone_go_on(comm, &alone);
    }
    weft_alone_stop(comm, &alone);
    weft_context_unlock(comm->context);
    return status;
}
