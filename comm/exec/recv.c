/* SPDX-License-Identifier: Apache-2.0 */
/* RECV: how bytes arrive.
 *
 * Into OUTPUT or TEMP the bytes are copied (eager), read from the peer (read) or written in place by the peer (put), each
 * slice only when no earlier step still reads or writes its target. Into a SLOT nothing is moved here: what
 * has arrived, been offered or put is `visible` to the REDUCE or COPY bound to this step, which fetches
 * it with weft_recv_source() and gives it back with weft_recv_consumed().
 *
 * For device memory everything comes into staging first, `staged` slices so far, from where the device takes it
 * (comm/exec/device/message.c). Then the sender's memory is free when its bytes are there. Only puts write in place, where the
 * transport can register the memory, slices that `copied` says the device has done with; and what a device of the same machine
 * offers is read where it is (comm/exec/device/direct.c).
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "comm/exec/internal.h"
#include "comm/exec/mismatch.h"
#include "comm/exec/read.h"

/* Steps this close to the window's oldest may hold receive buffers, so that those further on cannot take
 * what the oldest needs. */
#define BUFFER_DISTANCE 8
/* Read in less than the 100 us that WEFT_SPIN_US is by default, after which a sender that hears nothing sleeps. In bytes: how long reading
 * takes does not depend on WEFT_SLICE_SHM. A longer slice has a sign each. */
#define SIGN_BYTES (512u << 10)

static const struct weft_exec_peer *peer_of(const struct weft_exec_op *op,
                                            const struct weft_inflight *inflight)
{
    return &op->exec->peers[inflight->rank];
}

/* Slices that the sender's memory is not needed for any more. */
static uint32_t slices_taken(const struct weft_exec_op *op, const struct weft_inflight *inflight)
{
    return op->device && !inflight->shared ? inflight->staged : weft_slices_within(inflight, inflight->done);
}

static int announce_taken(struct weft_exec_op *op, struct weft_inflight *inflight, uint32_t consumed)
{
    int status = weft_inflight_send(op, inflight, WEFT_WIRE_TAKEN, 0, consumed, NULL, 0);
    if (status == WEFT_OK)
        inflight->reported = consumed;
    else if (status == WEFT_AGAIN)
        weft_inflight_block(op, inflight);
    return status == WEFT_AGAIN ? WEFT_OK : status;
}

/* What was offered with its announcement is being read: a sender that waits for a long one would fall asleep. */
static int give_sign(struct weft_exec_op *op, struct weft_inflight *inflight, uint32_t consumed)
{
    int status = WEFT_OK;
    if (consumed < inflight->slices && (consumed - inflight->reported) * inflight->slice_bytes < SIGN_BYTES)
        return WEFT_OK;
    if (consumed < inflight->slices)
        status = weft_inflight_send(op, inflight, WEFT_WIRE_TAKEN, 0, consumed, NULL, 0);
    inflight->reported = consumed;
    return status == WEFT_AGAIN ? WEFT_OK : status;
}

/* The sender may not reuse its memory before it hears TAKEN. For plain offers a quarter of the message is
 * often enough; the sender of a staging ring is to hear of every slice. */
static int acknowledge(struct weft_exec_op *op, struct weft_inflight *inflight)
{
    uint32_t consumed = slices_taken(op, inflight);
    if (inflight->is_unanswered)
        return give_sign(op, inflight, consumed);
    uint32_t step = inflight->staging || inflight->slices < 8 ? 1 : inflight->slices / 4;
    if (consumed == inflight->reported ||
        (consumed < inflight->slices && consumed - inflight->reported < step))
        return WEFT_OK;
    return announce_taken(op, inflight, consumed);
}

/* An eager message of many slices: its sender hears of it as long as it cannot have sent them all, because then it is done
 * and listens no more. */
static int acknowledge_eager(struct weft_exec_op *op, struct weft_inflight *inflight)
{
    uint32_t consumed = slices_taken(op, inflight);
    if (consumed - inflight->reported < WEFT_EAGER_SLICES / 2 ||
        inflight->slices - inflight->reported <= WEFT_EAGER_SLICES)
        return WEFT_OK;
    return announce_taken(op, inflight, consumed);
}

/* After consuming: acknowledges, and finishes when nothing is owed any more. */
int weft_recv_settle(struct weft_exec_op *op, struct weft_inflight *inflight)
{
    int status = WEFT_OK;
    if (inflight->mode == WEFT_MODE_READ)
        status = acknowledge(op, inflight);
    else if (inflight->slices > WEFT_EAGER_SLICES && inflight->mode == WEFT_MODE_EAGER && inflight->peer)
        status = acknowledge_eager(op, inflight);
    if (status != WEFT_OK)
        return status;
    if (inflight->done == inflight->length &&
        (inflight->mode != WEFT_MODE_READ || inflight->reported == inflight->slices) &&
        (inflight->length || inflight->ready)) {
        if (inflight->mode == WEFT_MODE_EAGER && inflight->peer)
            status = weft_eager_consume(op, inflight->peer);
        weft_inflight_finish(op, inflight);
    }
    return status;
}

const uint8_t *weft_recv_payload(const struct weft_inflight *inflight, size_t position)
{
    if (inflight->held)
        return (const uint8_t *)inflight->held->data + sizeof(struct weft_wire_header) +
               weft_slice_offset(inflight, position);
    return inflight->payload + weft_slice_offset(inflight, position);
}

void weft_recv_drop(struct weft_inflight *inflight, size_t position)
{
    while (inflight->held) {
        const struct weft_wire_header *header = (const void *)inflight->held->data;
        if (position < weft_slices_bytes(inflight, header->slice + 1))
            return;
        struct weft_early *next = inflight->held->next;
        free(inflight->held);
        inflight->held = next;
    }
}

int weft_recv_source(struct weft_exec_op *op, struct weft_inflight *inflight, size_t position, size_t size,
                     int scratch, const uint8_t **source)
{
    if (inflight->mode == WEFT_MODE_EAGER) {
        *source = weft_recv_payload(inflight, position);
        return WEFT_OK;
    }
    if (inflight->mode == WEFT_MODE_PUT) {
        uint32_t slice = (uint32_t)(position / inflight->slice_bytes);
        *source =
            (const uint8_t *)inflight->rbufs[slice % WEFT_RBUFS].buffer + position % inflight->slice_bytes;
        return WEFT_OK;
    }
    return weft_read_source(op, inflight, position, size, scratch, source);
}

void weft_recv_used(struct weft_inflight *inflight, size_t position)
{
    uint32_t end = weft_slices_within(inflight, position);
    for (; inflight->reported < end; inflight->reported++)
        inflight->rbufs[inflight->reported % WEFT_RBUFS].filled = 0;
}

int weft_recv_consumed(struct weft_exec_op *op, struct weft_inflight *inflight, size_t position)
{
    int status = weft_read_check(op, inflight);
    if (status != WEFT_OK)
        return status;
    inflight->done = position;
    if (inflight->mode == WEFT_MODE_EAGER) {
        weft_recv_drop(inflight, position);
    } else if (inflight->mode == WEFT_MODE_PUT) {
        weft_recv_used(inflight, position);
        weft_inflight_again(op, inflight);
    }
    return weft_recv_settle(op, inflight);
}

static int advance_eager(struct weft_exec_op *op, struct weft_inflight *inflight)
{
    size_t arrived = weft_slices_bytes(inflight, inflight->ready), limit = weft_inflight_limit(op, inflight);
    while (inflight->done < arrived) {
        size_t end = weft_slices_bytes(inflight, (uint32_t)(inflight->done / inflight->slice_bytes) + 1);
        if (end > limit)
            break;
        memcpy(inflight->target + inflight->done, weft_recv_payload(inflight, inflight->done),
               end - inflight->done);
        inflight->done = inflight->visible = end;
        weft_recv_drop(inflight, end);
        weft_inflight_wake(op, inflight);
    }
    return weft_recv_settle(op, inflight);
}

/* Advertises the receive buffer of one slice: in place, or in a buffer of its own when it only feeds a reduction. */
static int advertise_slice(struct weft_exec_op *op, struct weft_inflight *inflight, uint32_t slice)
{
    const struct weft_exec_hooks *hooks = &op->exec->options.hooks;
    const struct weft_exec_peer *peer = peer_of(op, inflight);
    struct weft_rbuf *rbuf = &inflight->rbufs[slice % WEFT_RBUFS];
    uint8_t *memory;
    struct weft_region *region = NULL;
    if (weft_recv_goes_aside(op, inflight)) {
        if (!rbuf->buffer)
            rbuf->buffer = weft_stage_get(op, peer->transport, inflight->slice_bytes);
        if (!rbuf->buffer)
            return weft_stage_missing("receive", inflight->slice_bytes, inflight->rank);
        memory = rbuf->buffer;
        if (peer->caps & WEFT_CAP_REG_REMOTE) {
            int status =
                hooks->region_get(hooks->arg, peer->transport, memory, inflight->slice_bytes, &region);
            if (status != WEFT_OK)
                return status;
        }
    } else {
        memory = inflight->target + (size_t)slice * inflight->slice_bytes;
        region = inflight->region; /* a device's */
        if (!region && peer->caps & WEFT_CAP_REG_REMOTE) {
            int status = weft_op_region(op, peer, inflight->step.destination.buffer, &region);
            if (status != WEFT_OK)
                return status;
        }
    }
    int status = peer->ops->advertise(peer->link, region, memory, weft_slice_size(inflight, slice),
                                      weft_inflight_cookie(op, inflight, slice), &rbuf->token);
    if (status == WEFT_OK) {
        rbuf->open = 1;
        rbuf->announced = 0;
    }
    return status;
}

int weft_recv_advertise(struct weft_exec_op *op, struct weft_inflight *inflight)
{
    int buffered = weft_recv_goes_aside(op, inflight); /* and nothing is waited for then */
    uint32_t finished = weft_slices_within(inflight, inflight->done);
    uint32_t allowed = buffered           ? inflight->slices
                       : inflight->direct ? inflight->copied
                                          : weft_slices_within(inflight, weft_inflight_limit(op, inflight));
    if (buffered && inflight->sequence - op->head > BUFFER_DISTANCE)
        allowed = 0;
    int status = WEFT_OK;
    if (op->layout.sized && !inflight->announced) /* it may be a short one that will come as a message */
        return WEFT_OK;
    while (inflight->next_rbuf < inflight->slices && inflight->next_rbuf - finished < WEFT_RBUFS) {
        struct weft_rbuf *rbuf = &inflight->rbufs[inflight->next_rbuf % WEFT_RBUFS];
        if (inflight->next_rbuf >= allowed) {
            if (buffered)
                weft_inflight_block(op, inflight);
            return WEFT_OK;
        }
        status = weft_credit_check(op, inflight);
        if (status != WEFT_OK)
            return status == WEFT_AGAIN ? WEFT_OK : status;
        if (!rbuf->open && !rbuf->filled)
            status = advertise_slice(op, inflight, inflight->next_rbuf);
        if (status == WEFT_OK)
            status = weft_inflight_send(op, inflight, WEFT_WIRE_RBUF, 0, inflight->next_rbuf, &rbuf->token,
                                        sizeof rbuf->token);
        if (status == WEFT_AGAIN)
            weft_inflight_block(op, inflight);
        if (status != WEFT_OK)
            return status == WEFT_AGAIN ? WEFT_OK : status;
        rbuf->announced = 1;
        inflight->next_rbuf++;
    }
    return WEFT_OK;
}

/* Says that it cannot use the offer; the sender stages then. */
static int refuse(struct weft_exec_op *op, struct weft_inflight *inflight)
{
    int status = weft_inflight_send(op, inflight, WEFT_WIRE_REFUSE, 0, 0, NULL, 0);
    if (status == WEFT_OK)
        inflight->refuses = WEFT_REFUSAL_SENT;
    else if (status == WEFT_AGAIN)
        weft_inflight_block(op, inflight);
    return status == WEFT_AGAIN ? WEFT_OK : status;
}

int weft_recv_advance(struct weft_exec_op *op, struct weft_inflight *inflight)
{
    if (__builtin_expect(inflight->refuses == WEFT_REFUSAL_OWED, 0))
        return refuse(op, inflight);
    if (__builtin_expect(op->device, 0))
        return op->exec->options.devices->recv(op, inflight);
    if (inflight->mode == WEFT_MODE_PUT)
        return weft_recv_advertise(op, inflight);
    if (inflight->into_slot)
        return weft_recv_settle(op, inflight);
    if (inflight->mode == WEFT_MODE_EAGER)
        return advance_eager(op, inflight);
    int status = weft_read_advance(op, inflight);
    return status == WEFT_OK ? weft_recv_settle(op, inflight) : status;
}

int weft_recv_filled(struct weft_exec_op *op, struct weft_inflight *inflight, uint32_t slice)
{
    struct weft_rbuf *rbuf = &inflight->rbufs[slice % WEFT_RBUFS];
    int is_staged = op->device && !inflight->direct;
    rbuf->filled = 1;
    rbuf->open = 0;
    /* What a reduction reads there would not come to the device otherwise: that is no staging where the transport can do without. */
    int is_read_there = inflight->into_slot && peer_of(op, inflight)->caps & WEFT_CAP_DEVICE_MEMORY;
    *(is_staged && !is_read_there ? &op->exec->stats.bytes_staged : &op->exec->stats.bytes_direct) +=
        weft_slice_size(inflight, slice);
    uint32_t prefix = is_staged ? inflight->staged : weft_slices_within(inflight, inflight->visible);
    while (prefix < inflight->next_rbuf && inflight->rbufs[prefix % WEFT_RBUFS].filled &&
           prefix - weft_slices_within(inflight, inflight->done) < WEFT_RBUFS)
        prefix++;
    if (is_staged) {
        inflight->staged = prefix;
        weft_inflight_again(op, inflight);
        return WEFT_OK;
    }
    if (inflight->direct) {
        int status = weft_command_queue_flush_writes(op->request.commands);
        if (status != WEFT_OK)
            return status;
    }
    inflight->visible = weft_slices_bytes(inflight, prefix);
    weft_inflight_wake(op, inflight);
    if (inflight->into_slot)
        return WEFT_OK;
    for (uint32_t s = weft_slices_within(inflight, inflight->done); s < prefix; s++)
        inflight->rbufs[s % WEFT_RBUFS].filled = 0;
    inflight->done = inflight->visible;
    weft_inflight_again(op, inflight);
    if (inflight->done == inflight->length)
        weft_inflight_finish(op, inflight);
    return WEFT_OK;
}

void weft_recv_recall(struct weft_exec_op *op, struct weft_inflight *inflight)
{
    if (inflight->mode != WEFT_MODE_PUT)
        return;
    const struct weft_exec_peer *peer = peer_of(op, inflight);
    for (int i = 0; i < WEFT_RBUFS; i++) {
        struct weft_rbuf *rbuf = &inflight->rbufs[i];
        if (rbuf->open && peer->ops->recall(peer->link, &rbuf->token, 0) == WEFT_UNSUPPORTED)
            peer->ops->withdraw(peer->link, &rbuf->token);
        rbuf->open = 0;
    }
}

static int check_offer(struct weft_exec_op *op, struct weft_inflight *inflight,
                       const struct weft_wire_header *header, const void *payload)
{
    struct weft_wire_device_offer both;
    const struct weft_wire_offer *offer = &both.offer;
    int of_device = (header->flags & WEFT_WIRE_DEVICE) != 0;
    size_t size = of_device ? sizeof both : sizeof both.offer;
    if (inflight->have_token || header->size != size || (of_device && inflight->refuses) ||
        (of_device && header->flags & WEFT_WIRE_STAGED))
        return weft_fail(WEFT_PROTOCOL,
                         "rank %u offered message %u twice, or with %u bytes and flags %x: expected %zu",
                         header->source, header->message, header->size, header->flags, size);
    memcpy(&both, payload, size);
    if (offer->length != inflight->length)
        return weft_mismatch_offer(op, inflight, header, offer->length);
    if (of_device && op->device)
        return op->exec->options.devices->take(op, inflight, &both);
    if (of_device) {
        inflight->refuses = WEFT_REFUSAL_OWED;
        return WEFT_OK;
    }
    inflight->token = offer->token;
    inflight->have_token = 1;
    inflight->staging = (header->flags & WEFT_WIRE_STAGED) != 0;
    int status = weft_read_map(op, inflight);
    if (status == WEFT_OK && inflight->staging)
        peer_of(op, inflight)->ops->look(peer_of(op, inflight)->link, inflight->length);
    return status == WEFT_UNSUPPORTED ? WEFT_OK : status;
}

int weft_recv_offered(struct weft_exec_op *op, struct weft_inflight *inflight, const struct weft_token *token)
{
    if (inflight->mode != WEFT_MODE_READ)
        return weft_fail(WEFT_PROTOCOL, "rank %u offers a message that is not read here", inflight->rank);
    inflight->token = *token;
    inflight->have_token = inflight->is_unanswered = 1;
    inflight->ready = inflight->slices;
    int status = weft_read_map(op, inflight);
    return status == WEFT_UNSUPPORTED ? WEFT_OK : status;
}

static int take_ready(struct weft_exec_op *op, struct weft_inflight *inflight,
                      const struct weft_wire_header *header, const void *payload)
{
    if (op->layout.sized && inflight->mode == WEFT_MODE_PUT && header->kind == WEFT_WIRE_READY) {
        inflight->announced = 1;
        weft_inflight_again(op, inflight);
        return WEFT_OK;
    }
    if (inflight->mode != WEFT_MODE_READ || header->slice > inflight->slices ||
        header->slice <= inflight->ready)
        return weft_fail(WEFT_PROTOCOL,
                         "rank %u announced %u of %u slices of message %u: expected more than %u",
                         header->source, header->slice, inflight->slices, header->message, inflight->ready);
    if (header->kind == WEFT_WIRE_OFFER) {
        int status = check_offer(op, inflight, header, payload);
        if (status != WEFT_OK)
            return status;
    } else if (!inflight->have_token && !inflight->refuses) {
        return weft_fail(WEFT_PROTOCOL, "rank %u announced slices of message %u before offering it",
                         header->source, header->message);
    }
    if (!inflight->have_token) { /* it waits for another offer */
        weft_inflight_again(op, inflight);
        return WEFT_OK;
    }
    inflight->ready = header->slice;
    if (inflight->into_slot && !op->device) {
        inflight->visible = weft_slices_bytes(inflight, inflight->ready);
        weft_inflight_wake(op, inflight);
    } else {
        weft_inflight_again(op, inflight);
    }
    return WEFT_OK;
}

static void hold(struct weft_inflight *inflight, struct weft_early *early)
{
    struct weft_early **tail = &inflight->held;
    while (*tail)
        tail = &(*tail)->next;
    early->next = NULL;
    *tail = early;
}

static int hold_copy(struct weft_inflight *inflight, const struct weft_wire_header *header,
                     const void *payload)
{
    struct weft_early *copy = weft_early_copy(header, payload);
    if (!copy)
        return weft_fail(WEFT_NOMEM, "no memory to keep %u bytes from rank %u", header->size, header->source);
    hold(inflight, copy);
    return WEFT_OK;
}

/* A payload that can be used right now is: whoever delivers it runs the operation, which works from the transport's buffer, and
 * has what is left over kept. */
static int take_eager(struct weft_exec_op *op, struct weft_inflight *inflight,
                      const struct weft_wire_header *header, const void *payload, struct weft_early *early,
                      int *kept)
{
    if (inflight->mode != WEFT_MODE_EAGER || header->slice != inflight->ready ||
        header->slice >= inflight->slices || header->size != weft_slice_size(inflight, header->slice))
        return weft_mismatch_slice(op, inflight, header);
    inflight->ready++;
    if (inflight->into_slot && !op->device) {
        inflight->visible = weft_slices_bytes(inflight, inflight->ready);
        weft_inflight_wake(op, inflight);
    } else {
        weft_inflight_again(op, inflight);
    }
    if (early) {
        hold(inflight, early);
        *kept = 1;
        return WEFT_OK;
    }
    if (!inflight->held) {
        inflight->payload = payload;
        op->exec->fresh = inflight;
        op->exec->fresh_sequence = inflight->sequence;
        return WEFT_OK;
    }
    return hold_copy(inflight, header, payload);
}

int weft_recv_keep(struct weft_exec_op *op, const struct weft_wire_header *header, const void *payload)
{
    struct weft_inflight *inflight = op->exec->fresh;
    op->exec->fresh = NULL;
    if (!inflight || op->status != WEFT_AGAIN || inflight->sequence != op->exec->fresh_sequence ||
        !(op->active >> inflight->index & 1))
        return WEFT_OK;
    inflight->payload = NULL;
    if (slices_taken(op, inflight) > header->slice)
        return WEFT_OK;
    return hold_copy(inflight, header, payload);
}

int weft_recv_message(struct weft_exec_op *op, struct weft_inflight *inflight,
                      const struct weft_wire_header *header, const void *payload, struct weft_early *early,
                      int *kept)
{
    if (header->kind == WEFT_WIRE_EAGER)
        return take_eager(op, inflight, header, payload, early, kept);
    return take_ready(op, inflight, header, payload);
}
