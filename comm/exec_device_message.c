/* SPDX-License-Identifier: Apache-2.0 */
/* SEND and RECV on memory of a device: between it and staging. What the network does with staging is as for host memory
 * (exec_send.c, exec_recv.c).
 *
 * A transport that can register the memory puts from there and lands there (`direct`). It does so behind the device's back: a
 * slice leaves, or may come, when what had been queued by the time the flights before it allowed it is done, which a note says.
 * The other way round nothing needs a note: what is queued later is queued after `visible` has moved, which here means
 * that the put is over, or has landed.
 */
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "comm/exec_device.h"

/* Staging of messages inside messages has one size, whatever theirs is, so that the next one can use it. */
static size_t stage_bytes(const struct weft_exec_op *op, const struct weft_flight *flight)
{
    const struct weft_exec_peer *peer = &op->exec->peers[flight->rank];
    size_t eager_bytes = ((size_t)peer->eager_bytes + 63) / 64 * 64;
    return flight->mode == WEFT_MODE_EAGER && eager_bytes > flight->slice_bytes ? eager_bytes
                                                                                : flight->slice_bytes;
}

static int stage_memory(struct weft_exec_op *op, const struct weft_flight *flight, size_t size,
                        uint8_t **memory)
{
    if (!*memory)
        *memory = weft_stage_get(op, op->exec->peers[flight->rank].transport, size);
    if (!*memory)
        return weft_stage_missing("staging", size, flight->rank);
    return WEFT_OK;
}

int weft_device_reach(struct weft_exec_op *op, struct weft_flight *flight)
{
    const struct weft_exec_peer *peer = &op->exec->peers[flight->rank];
    int is_send = flight->step.kind == WEFT_STEP_SEND;
    unsigned buffer = is_send ? flight->step.sources[0].buffer : flight->step.destination.buffer;
    uint8_t *refused = &op->refused[peer->transport][!is_send];
    if (buffer == WEFT_BUFFER_SLOT || *refused >> buffer & 1)
        return WEFT_OK;
    int status = is_send ? WEFT_OK : weft_lane_flush_writes(op->request.lane); /* whether it can */
    if (status == WEFT_OK && peer->caps & WEFT_CAP_DEVICE_MEMORY)
        status = weft_op_region(op, peer, buffer, &flight->region);
    else if (status == WEFT_OK)
        status = weft_fail(WEFT_UNSUPPORTED, "the transport to rank %u registers no memory of devices",
                           flight->rank);
    if (status == WEFT_OK) {
        flight->direct = 1;
    } else if (status == WEFT_UNSUPPORTED || status == WEFT_INVALID) {
        weft_log_once(WEFT_LOG_INFO, "messages of a device's memory pass through the host's: %s",
                      weft_error_detail());
        weft_error_clear(); /* nothing has failed */
        *refused |= (uint8_t)(1u << buffer);
        status = WEFT_OK;
    }
    return status;
}

/* Finds out when the device has done with the slices that the flights before this one leave to it: `copied`. They may have
 * ended, and what they have queued not. */
static int await_device(struct weft_exec_op *op, struct weft_flight *flight)
{
    uint32_t ready = weft_slices_within(flight, weft_flight_limit(op, flight));
    if (ready <= flight->staged)
        return WEFT_OK;
    flight->staged = ready;
    if (!weft_lane_is_idle(op->request.lane))
        return weft_device_note(op, flight, WEFT_LANE_COPIED, ready);
    flight->copied = ready;
    return WEFT_OK;
}

/* A message without bytes has one empty slice, which needs no copy. */
int weft_device_stage(struct weft_exec_op *op, struct weft_flight *flight)
{
    if (flight->direct)
        return await_device(op, flight);
    uint32_t ready = weft_slices_within(flight, weft_flight_limit(op, flight)), staged = flight->staged;
    uint32_t left = flight->mode == WEFT_MODE_READ ? weft_slices_within(flight, flight->done) : flight->told;
    if (!flight->length) {
        flight->staged = flight->copied = flight->slices;
        return WEFT_OK;
    }
    int status = staged < ready
                     ? stage_memory(op, flight, WEFT_STAGES * stage_bytes(op, flight), &flight->stage_buffer)
                     : WEFT_OK;
    while (status == WEFT_OK && flight->staged < ready && flight->staged - left < WEFT_STAGES) {
        size_t size = weft_slice_size(flight, flight->staged);
        status = weft_lane_copy(op->request.lane,
                                flight->stage_buffer + flight->staged % WEFT_STAGES * flight->slice_bytes,
                                flight->sources[0] + (size_t)flight->staged * flight->slice_bytes, size);
        op->exec->stats.bytes_staged += size;
        flight->staged++;
    }
    if (status != WEFT_OK || flight->staged == staged)
        return status;
    flight->visible = weft_slices_bytes(flight, flight->staged);
    weft_flight_wake(op, flight);
    return weft_device_note(op, flight, WEFT_LANE_COPIED, flight->staged);
}

/* Brings what the peer has sent or offered into staging, as far as there is room. */
static int take(struct weft_exec_op *op, struct weft_flight *flight)
{
    uint32_t used = weft_slices_within(flight, flight->done);
    while (flight->staged < flight->ready && flight->staged - used < WEFT_LANDINGS) {
        uint32_t slice = flight->staged;
        size_t size = weft_slice_size(flight, slice);
        uint8_t **memory = (uint8_t **)&flight->landings[slice % WEFT_LANDINGS].buffer;
        int status = size ? stage_memory(op, flight, stage_bytes(op, flight), memory) : WEFT_OK;
        if (status == WEFT_OK && flight->mode == WEFT_MODE_READ)
            status = weft_recv_fetch(op, flight, slice, *memory);
        else if (status == WEFT_OK && size)
            memcpy(*memory, weft_recv_payload(flight, (size_t)slice * flight->slice_bytes), size);
        if (status != WEFT_OK)
            return status;
        op->exec->stats.bytes_staged += size;
        op->work_bytes += size;
        flight->staged++;
        if (flight->mode == WEFT_MODE_EAGER)
            weft_recv_drop(op, flight, weft_slices_bytes(flight, flight->staged));
    }
    return WEFT_OK;
}

/* Queues copies from staging to where the message belongs. */
static int place(struct weft_exec_op *op, struct weft_flight *flight)
{
    uint32_t allowed = weft_slices_within(flight, weft_flight_limit(op, flight));
    uint32_t slice = weft_slices_within(flight, flight->visible), first = slice;
    allowed = flight->staged < allowed ? flight->staged : allowed;
    for (; slice < allowed && flight->length; slice++) {
        int status =
            weft_lane_copy(op->request.lane, flight->target + (size_t)slice * flight->slice_bytes,
                           flight->landings[slice % WEFT_LANDINGS].buffer, weft_slice_size(flight, slice));
        if (status != WEFT_OK)
            return status;
    }
    if (slice <= first || !flight->length)
        return WEFT_OK;
    flight->visible = weft_slices_bytes(flight, slice);
    weft_flight_wake(op, flight);
    return weft_device_note(op, flight, WEFT_LANE_CONSUMED, flight->visible);
}

int weft_device_recv(struct weft_exec_op *op, struct weft_flight *flight)
{
    if (flight->direct) {
        int ready = await_device(op, flight);
        return ready == WEFT_OK ? weft_recv_land(op, flight) : ready;
    }
    int status = flight->mode == WEFT_MODE_PUT ? weft_recv_land(op, flight) : take(op, flight);
    if (status == WEFT_OK && !flight->into_slot) {
        status = place(op, flight);
    } else if (status == WEFT_OK && flight->visible < weft_slices_bytes(flight, flight->staged)) {
        flight->visible = weft_slices_bytes(flight, flight->staged);
        weft_flight_wake(op, flight);
    }
    return status == WEFT_OK ? weft_recv_settle(op, flight) : status;
}

int weft_device_consumed(struct weft_exec_op *op, struct weft_flight *flight, size_t position)
{
    int status = flight->shared ? weft_direct_check(op, flight) : WEFT_OK;
    if (status != WEFT_OK)
        return status;
    flight->done = position;
    if (flight->shared) {
        weft_flight_wake(op, flight);
    } else if (flight->mode == WEFT_MODE_PUT) {
        for (uint32_t s = flight->told; s < weft_slices_within(flight, position); s++)
            flight->landings[s % WEFT_LANDINGS].landed = 0;
        flight->told = weft_slices_within(flight, position);
    }
    weft_flight_again(op, flight);
    return weft_recv_settle(op, flight);
}
