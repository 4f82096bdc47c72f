/* SPDX-License-Identifier: Apache-2.0 */
/* One message on its way, in a collective's step or a transfer of its own: how it travels, what its control messages and
 * completions are called. */
#include <string.h>

#include "base/error.h"
#include "comm/exec_device.h"

uint64_t weft_flight_cookie(const struct weft_exec_op *op, const struct weft_flight *flight, uint32_t slice)
{
    uint32_t which = op->window ? (op->sequence & 0x7ff) << 12 | (flight->sequence & 0xfff)
                                : 1u << 23 | (op->sequence & 0x7fffff);
    return (uint64_t)op->exec->options.id << 32 | which << 8 | (slice & 0xff);
}

int weft_flight_send(struct weft_exec_op *op, struct weft_flight *flight, enum weft_wire_kind kind,
                     uint32_t flags, uint32_t slice, const void *payload, uint32_t size)
{
    struct weft_exec *exec = op->exec;
    const struct weft_exec_peer *peer = &exec->peers[flight->rank];
    struct weft_wire_header header = {
        .comm = exec->options.id,
        .op = op->window ? op->sequence : op->peer_id,
        .source = exec->options.rank,
        .message = flight->message,
        .slice = slice,
        .digest = op->request.digest,
        .count = op->layout.sized ? weft_call_with_size(op->count, flight->length) : op->count,
        .size = size,
        .kind = (uint8_t)kind,
        .version = WEFT_WIRE_VERSION,
        .flags = (uint16_t)(op->window ? flags : flags | WEFT_WIRE_TRANSFER),
    };
    int status = peer->ops->send(peer->link, &header, sizeof header, payload, size);
    if (status == WEFT_OK)
        exec->stats.messages++;
    return status;
}

/* Decides how a message travels. Both ends decide alike: from its length and what the transport offers. */
static int choose_mode(struct weft_exec_op *op, struct weft_flight *flight)
{
    struct weft_exec_peer *peer;
    int status = weft_exec_connect(op->exec, flight->rank, &peer);
    if (status != WEFT_OK)
        return status;
    flight->mode = WEFT_MODE_EAGER;
    flight->slice_bytes = peer->eager_bytes / 64 * 64;
    if (flight->length > peer->eager_bytes && (peer->caps & (WEFT_CAP_READ | WEFT_CAP_PUT))) {
        flight->mode = peer->caps & WEFT_CAP_READ ? WEFT_MODE_READ : WEFT_MODE_PUT;
        flight->slice_bytes = peer->slice_bytes;
        if (flight->mode == WEFT_MODE_PUT && flight->slice_bytes > peer->put_bytes)
            flight->slice_bytes = peer->put_bytes / 64 * 64;
    } else if (flight->length <= peer->eager_bytes) {
        flight->slice_bytes = flight->length ? (flight->length + 63) / 64 * 64 : 64;
    }
    flight->slices = (uint32_t)((flight->length + flight->slice_bytes - 1) / flight->slice_bytes);
    if (flight->length == 0) /* of a call whose messages say how long they are */
        flight->slices = 1;
    return WEFT_OK;
}

int weft_flight_open(struct weft_exec_op *op, struct weft_flight *flight, uint32_t rank)
{
    flight->rank = rank;
    flight->told = flight->ready = flight->staged = flight->taken = flight->landed = flight->puts_done = 0;
    flight->copied = 0;
    flight->direct = 0;
    flight->staging = flight->lending = flight->lent_here = flight->have_token = flight->announced = 0;
    flight->mapped = flight->payload = NULL;
    flight->held = NULL;
    flight->stage_buffer = NULL;
    flight->region = NULL;
    flight->shared = flight->refuses = 0;
    flight->guard = NULL;
    flight->import = NULL;
    flight->loan = 0;
    int status = choose_mode(op, flight);
    if (status == WEFT_OK && op->device && flight->step.kind == WEFT_STEP_SEND)
        flight->shared = (uint8_t)weft_direct_may(op, flight);
    if (status == WEFT_OK && (flight->mode == WEFT_MODE_PUT || op->device))
        memset(flight->landings, 0, sizeof flight->landings);
    if (status == WEFT_OK && flight->mode == WEFT_MODE_PUT && op->device)
        status = weft_device_reach(op, flight);
    return status;
}

int weft_exec_post(struct weft_exec *exec, const struct weft_exec_peer *peer, struct weft_wire_header *header,
                   const void *payload)
{
    if (exec->status != WEFT_OK)
        return weft_fail(WEFT_REVOKED, "the communicator was revoked: %s", exec->failure);
    header->comm = exec->options.id;
    int status = peer->ops->send(peer->link, header, sizeof *header, payload, header->size);
    if (status == WEFT_OK) {
        exec->stats.messages++;
        exec->stats.bytes_eager += header->kind == WEFT_WIRE_TAGGED ? header->size : 0;
    }
    return status;
}
