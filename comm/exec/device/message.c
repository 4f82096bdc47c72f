/* SPDX-License-Identifier: Apache-2.0 */
/* SEND and RECV on device memory: between it and staging. What the network does with staging is as for host memory
 * (comm/exec/send.c, comm/exec/recv.c).
 *
 * A transport that can register the memory puts from there and receives puts there (`direct`). It does so behind the device's back: a
 * slice leaves, or may come, when what had been queued by the time the steps before it allowed it is done, which a note says.
 * The other way round nothing needs a note: what is queued later is queued after `visible` has moved, which here means
 * that the put is over, or has arrived.
 */
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "comm/exec/device/device.h"
#include "comm/exec/read.h"

/* Staging of messages inside messages has one size, whatever theirs is, so that the next one can use it. */
static size_t stage_bytes(const struct weft_exec_op *op, const struct weft_inflight *inflight)
{
    const struct weft_exec_peer *peer = &op->exec->peers[inflight->rank];
    size_t eager_bytes = ((size_t)peer->eager_bytes + 63) / 64 * 64;
    return inflight->mode == WEFT_MODE_EAGER && eager_bytes > inflight->slice_bytes ? eager_bytes
                                                                                    : inflight->slice_bytes;
}

static int stage_memory(struct weft_exec_op *op, const struct weft_inflight *inflight, size_t size,
                        uint8_t **memory)
{
    if (!*memory)
        *memory = weft_stage_get(op, op->exec->peers[inflight->rank].transport, size);
    if (!*memory)
        return weft_stage_missing("staging", size, inflight->rank);
    return WEFT_OK;
}

int weft_device_reach(struct weft_exec_op *op, struct weft_inflight *inflight)
{
    const struct weft_exec_peer *peer = &op->exec->peers[inflight->rank];
    int is_send = inflight->step.kind == WEFT_STEP_SEND;
    unsigned buffer = is_send ? inflight->step.sources[0].buffer : inflight->step.destination.buffer;
    uint8_t *refused = &op->refused[peer->transport][!is_send];
    if (buffer == WEFT_BUFFER_SLOT || *refused >> buffer & 1)
        return WEFT_OK;
    int status =
        is_send ? WEFT_OK : weft_command_queue_flush_writes(op->request.commands); /* whether it can */
    if (status == WEFT_OK && peer->caps & WEFT_CAP_DEVICE_MEMORY)
        status = weft_op_region(op, peer, buffer, &inflight->region);
    else if (status == WEFT_OK)
        status = weft_fail(WEFT_UNSUPPORTED, "the transport to rank %u registers no device memory",
                           inflight->rank);
    if (status == WEFT_OK) {
        inflight->direct = 1;
    } else if (status == WEFT_UNSUPPORTED || status == WEFT_INVALID) {
        const char *kind = weft_command_queue_kind(op->request.commands)->name, *name = peer->ops->name;
        weft_log_once_each(WEFT_LOG_INFO, kind, name,
                           "messages of %s memory by %s pass through the host's: %s", kind, name,
                           weft_error_detail());
        weft_error_clear(); /* nothing has failed */
        *refused |= (uint8_t)(1u << buffer);
        status = WEFT_OK;
    }
    return status;
}

/* Finds out when the device has done with the slices that the steps before this one leave to it: `copied`. They may have
 * ended, and what they have queued not. */
static int await_device(struct weft_exec_op *op, struct weft_inflight *inflight)
{
    uint32_t ready = weft_slices_within(inflight, weft_inflight_limit(op, inflight));
    if (ready <= inflight->staged)
        return WEFT_OK;
    inflight->staged = ready;
    if (!weft_command_queue_is_idle(op->request.commands))
        return weft_device_note(op, inflight, WEFT_NOTE_COPIED, ready);
    inflight->copied = ready;
    return WEFT_OK;
}

/* A message without bytes has one empty slice, which needs no copy. */
int weft_device_stage(struct weft_exec_op *op, struct weft_inflight *inflight)
{
    if (inflight->direct)
        return await_device(op, inflight);
    uint32_t ready = weft_slices_within(inflight, weft_inflight_limit(op, inflight)),
             staged = inflight->staged;
    uint32_t left =
        inflight->mode == WEFT_MODE_READ ? weft_slices_within(inflight, inflight->done) : inflight->reported;
    if (!inflight->length) {
        inflight->staged = inflight->copied = inflight->slices;
        return WEFT_OK;
    }
    int status = staged < ready ? stage_memory(op, inflight, WEFT_STAGES * stage_bytes(op, inflight),
                                               &inflight->stage_buffer)
                                : WEFT_OK;
    while (status == WEFT_OK && inflight->staged < ready && inflight->staged - left < WEFT_STAGES) {
        size_t size = weft_slice_size(inflight, inflight->staged);
        status = weft_command_queue_copy(
            op->request.commands,
            inflight->stage_buffer + inflight->staged % WEFT_STAGES * inflight->slice_bytes,
            inflight->sources[0] + (size_t)inflight->staged * inflight->slice_bytes, size);
        op->exec->stats.bytes_staged += size;
        inflight->staged++;
    }
    if (status != WEFT_OK || inflight->staged == staged)
        return status;
    inflight->visible = weft_slices_bytes(inflight, inflight->staged);
    weft_inflight_wake(op, inflight);
    return weft_device_note(op, inflight, WEFT_NOTE_COPIED, inflight->staged);
}

/* Brings what the peer has sent or offered into staging, as far as there is room. */
static int take(struct weft_exec_op *op, struct weft_inflight *inflight)
{
    uint32_t used = weft_slices_within(inflight, inflight->done);
    while (inflight->staged < inflight->ready && inflight->staged - used < WEFT_RBUFS) {
        uint32_t slice = inflight->staged;
        size_t size = weft_slice_size(inflight, slice);
        uint8_t **memory = (uint8_t **)&inflight->rbufs[slice % WEFT_RBUFS].buffer;
        int status = size ? stage_memory(op, inflight, stage_bytes(op, inflight), memory) : WEFT_OK;
        if (status == WEFT_OK && inflight->mode == WEFT_MODE_READ)
            status = weft_read_slice(op, inflight, slice, *memory);
        else if (status == WEFT_OK && size)
            memcpy(*memory, weft_recv_payload(inflight, (size_t)slice * inflight->slice_bytes), size);
        if (status != WEFT_OK)
            return status;
        op->exec->stats.bytes_staged += size;
        op->work_bytes += size;
        inflight->staged++;
        if (inflight->mode == WEFT_MODE_EAGER)
            weft_recv_drop(inflight, weft_slices_bytes(inflight, inflight->staged));
    }
    return WEFT_OK;
}

/* Queues copies from staging to where the message belongs. */
static int place(struct weft_exec_op *op, struct weft_inflight *inflight)
{
    uint32_t allowed = weft_slices_within(inflight, weft_inflight_limit(op, inflight));
    uint32_t slice = weft_slices_within(inflight, inflight->visible), first = slice;
    allowed = inflight->staged < allowed ? inflight->staged : allowed;
    for (; slice < allowed && inflight->length; slice++) {
        int status = weft_command_queue_copy(
            op->request.commands, inflight->target + (size_t)slice * inflight->slice_bytes,
            inflight->rbufs[slice % WEFT_RBUFS].buffer, weft_slice_size(inflight, slice));
        if (status != WEFT_OK)
            return status;
    }
    if (slice <= first || !inflight->length)
        return WEFT_OK;
    inflight->visible = weft_slices_bytes(inflight, slice);
    weft_inflight_wake(op, inflight);
    return weft_device_note(op, inflight, WEFT_NOTE_CONSUMED, inflight->visible);
}

int weft_device_recv(struct weft_exec_op *op, struct weft_inflight *inflight)
{
    if (inflight->direct) {
        int ready = await_device(op, inflight);
        return ready == WEFT_OK ? weft_recv_advertise(op, inflight) : ready;
    }
    int status = inflight->mode == WEFT_MODE_PUT ? weft_recv_advertise(op, inflight) : take(op, inflight);
    if (status == WEFT_OK && !inflight->into_slot) {
        status = place(op, inflight);
    } else if (status == WEFT_OK && inflight->visible < weft_slices_bytes(inflight, inflight->staged)) {
        inflight->visible = weft_slices_bytes(inflight, inflight->staged);
        weft_inflight_wake(op, inflight);
    }
    return status == WEFT_OK ? weft_recv_settle(op, inflight) : status;
}

int weft_device_consumed(struct weft_exec_op *op, struct weft_inflight *inflight, size_t position)
{
    int status = inflight->shared ? weft_direct_check(op, inflight) : WEFT_OK;
    if (status != WEFT_OK)
        return status;
    inflight->done = position;
    if (inflight->shared) {
        weft_inflight_wake(op, inflight);
    } else if (inflight->mode == WEFT_MODE_PUT) {
        weft_recv_used(inflight, position);
    }
    weft_inflight_again(op, inflight);
    return weft_recv_settle(op, inflight);
}
