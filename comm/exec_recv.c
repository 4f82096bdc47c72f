/* SPDX-License-Identifier: Apache-2.0 */
/* RECV: how bytes arrive.
 *
 * Into OUTPUT or TEMP the bytes are copied (eager), read from the peer (read) or land in place (put), each
 * slice only when no earlier step still reads or writes its target. Into a SLOT nothing is moved here: what
 * has arrived, been offered or landed is `visible` to the REDUCE or COPY bound to this flight, which fetches
 * it with weft_recv_source() and gives it back with weft_recv_consumed().
 *
 * For memory of a device everything comes into staging first, `staged` slices so far, from where the device takes it
 * (exec_device_message.c). Then the sender's memory is free when its bytes are there. Only puts land in place where the
 * transport can register the memory, slices that `copied` says the device has done with; and what a device of the same machine
 * offers is read where it is (exec_device_direct.c).
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "comm/exec_device.h"

/* Flights this close to the window's oldest may hold landing buffers, so that those further on cannot take
 * what the oldest needs. */
#define LANDING_DISTANCE 8

static const struct weft_exec_peer *peer_of(const struct weft_exec_op *op, const struct weft_flight *flight)
{
    return &op->exec->peers[flight->rank];
}

/* Slices that the sender's memory is not needed for any more. */
static uint32_t slices_taken(const struct weft_exec_op *op, const struct weft_flight *flight)
{
    return op->device && !flight->shared ? flight->staged : weft_slices_within(flight, flight->done);
}

/* The sender may not reuse its memory before it hears TAKEN. For plain offers a quarter of the message is
 * often enough; a staging ring and a conduit want to hear of every slice. */
static int acknowledge(struct weft_exec_op *op, struct weft_flight *flight)
{
    uint32_t consumed = slices_taken(op, flight);
    uint32_t step = flight->staging || flight->lent_here || flight->slices < 8 ? 1 : flight->slices / 4;
    if (consumed == flight->told || (consumed < flight->slices && consumed - flight->told < step))
        return WEFT_OK;
    int status = weft_flight_send(op, flight, WEFT_WIRE_TAKEN, 0, consumed, NULL, 0);
    if (status == WEFT_OK)
        flight->told = consumed;
    else if (status == WEFT_AGAIN)
        weft_flight_block(op, flight);
    return status == WEFT_AGAIN ? WEFT_OK : status;
}

/* An eager message of many slices: its sender is told as long as it cannot have sent them all, because then it is done
 * and listens no more. */
static int acknowledge_eager(struct weft_exec_op *op, struct weft_flight *flight)
{
    uint32_t consumed = slices_taken(op, flight);
    if (consumed - flight->told < WEFT_EAGER_SLICES / 2 || flight->slices - flight->told <= WEFT_EAGER_SLICES)
        return WEFT_OK;
    int status = weft_flight_send(op, flight, WEFT_WIRE_TAKEN, 0, consumed, NULL, 0);
    if (status == WEFT_OK)
        flight->told = consumed;
    else if (status == WEFT_AGAIN)
        weft_flight_block(op, flight);
    return status == WEFT_AGAIN ? WEFT_OK : status;
}

/* After consuming: acknowledges, and finishes when nothing is owed any more. */
int weft_recv_settle(struct weft_exec_op *op, struct weft_flight *flight)
{
    int status = WEFT_OK;
    if (flight->mode == WEFT_MODE_READ)
        status = acknowledge(op, flight);
    else if (flight->slices > WEFT_EAGER_SLICES && flight->mode == WEFT_MODE_EAGER && flight->peer)
        status = acknowledge_eager(op, flight);
    if (status != WEFT_OK)
        return status;
    if (flight->done == flight->length &&
        (flight->mode != WEFT_MODE_READ || flight->told == flight->slices) &&
        (flight->length || flight->ready)) {
        if (flight->mode == WEFT_MODE_EAGER && flight->peer)
            status = weft_eager_consume(op, flight->peer);
        weft_flight_finish(op, flight);
    }
    return status;
}

/* Offset of slice bytes within the token: offers are the whole message, staged ones a ring. */
static uint64_t token_offset(const struct weft_flight *flight, size_t position)
{
    if (!flight->staging)
        return position;
    return position / flight->slice_bytes % WEFT_STAGES * flight->slice_bytes +
           position % flight->slice_bytes;
}

const uint8_t *weft_recv_payload(const struct weft_flight *flight, size_t position)
{
    if (flight->held)
        return (const uint8_t *)flight->held->data + sizeof(struct weft_wire_header) +
               position % flight->slice_bytes;
    return flight->payload + position % flight->slice_bytes;
}

void weft_recv_drop(struct weft_exec_op *op, struct weft_flight *flight, size_t position)
{
    while (flight->held) {
        const struct weft_wire_header *header = (const void *)flight->held->data;
        if (position < weft_slices_bytes(flight, header->slice + 1))
            return;
        struct weft_early *next = flight->held->next;
        weft_early_free(op->exec, flight->held);
        flight->held = next;
    }
}

/* How much of what the token stands for is read: token_offset() stays below this. The peer chose the token and
 * whether it is a ring, so the transport must find that much behind it. */
static size_t token_bytes(const struct weft_flight *flight)
{
    size_t ring = WEFT_STAGES * flight->slice_bytes;
    return flight->staging && ring < flight->length ? ring : flight->length;
}

/* Asks for the mapping again before every slice: an owner that gave up may have freed its memory meanwhile.
 * Whether what was read then is good, still_exposed() says. */
static int remap(struct weft_exec_op *op, struct weft_flight *flight)
{
    const struct weft_exec_peer *peer = peer_of(op, flight);
    const void *mapped;
    int status = peer->ops->map(peer->link, &flight->token, token_bytes(flight), &mapped);
    if (status == WEFT_OK)
        flight->mapped = mapped;
    return status;
}

/* After reading mapped memory, before anybody is told or may build on it: an owner that gave up may have let its
 * user overwrite what was just read. Pulls are checked by the transport. */
static int still_exposed(struct weft_exec_op *op, const struct weft_flight *flight)
{
    const struct weft_exec_peer *peer = peer_of(op, flight);
    return flight->mapped ? peer->ops->exposed(peer->link, &flight->token) : WEFT_OK;
}

static uint8_t *scratch_get(struct weft_exec *exec, int index, size_t size)
{
    if (size > exec->scratch_bytes[index]) {
        free(exec->scratch[index]);
        exec->scratch_bytes[index] = (size + 63) / 64 * 64;
        exec->scratch[index] = aligned_alloc(64, exec->scratch_bytes[index]);
        if (!exec->scratch[index])
            exec->scratch_bytes[index] = 0;
    }
    return exec->scratch[index];
}

int weft_recv_source(struct weft_exec_op *op, struct weft_flight *flight, size_t position, size_t size,
                     int scratch, const uint8_t **source)
{
    if (flight->mode == WEFT_MODE_EAGER) {
        *source = weft_recv_payload(flight, position);
        return WEFT_OK;
    }
    if (flight->mode == WEFT_MODE_PUT) {
        uint32_t slice = (uint32_t)(position / flight->slice_bytes);
        *source =
            (const uint8_t *)flight->landings[slice % WEFT_LANDINGS].buffer + position % flight->slice_bytes;
        return WEFT_OK;
    }
    op->exec->stats.bytes_direct += flight->staging ? 0 : size;
    if (flight->mapped) {
        int status = remap(op, flight);
        *source = flight->mapped + token_offset(flight, position);
        return status;
    }
    uint8_t *memory = scratch_get(op->exec, scratch, flight->slice_bytes);
    if (!memory)
        return weft_fail(WEFT_NOMEM, "no memory for a slice of %zu bytes", flight->slice_bytes);
    const struct weft_exec_peer *peer = peer_of(op, flight);
    *source = memory;
    return peer->ops->pull(peer->link, &flight->token, token_offset(flight, position), memory, size);
}

int weft_recv_consumed(struct weft_exec_op *op, struct weft_flight *flight, size_t position)
{
    int status = still_exposed(op, flight);
    if (status != WEFT_OK)
        return status;
    flight->done = position;
    if (flight->mode == WEFT_MODE_EAGER) {
        weft_recv_drop(op, flight, position);
    } else if (flight->mode == WEFT_MODE_PUT) {
        for (uint32_t s = flight->told; s < weft_slices_within(flight, position); s++)
            flight->landings[s % WEFT_LANDINGS].landed = 0;
        flight->told = weft_slices_within(flight, position);
        weft_flight_again(op, flight);
    }
    return weft_recv_settle(op, flight);
}

static int advance_eager(struct weft_exec_op *op, struct weft_flight *flight)
{
    size_t arrived = weft_slices_bytes(flight, flight->ready), limit = weft_flight_limit(op, flight);
    while (flight->done < arrived) {
        size_t end = weft_slices_bytes(flight, (uint32_t)(flight->done / flight->slice_bytes) + 1);
        if (end > limit)
            break;
        memcpy(flight->target + flight->done, weft_recv_payload(flight, flight->done), end - flight->done);
        flight->done = flight->visible = end;
        weft_recv_drop(op, flight, end);
        weft_flight_wake(op, flight);
    }
    return weft_recv_settle(op, flight);
}

int weft_recv_fetch(struct weft_exec_op *op, struct weft_flight *flight, uint32_t slice, uint8_t *target)
{
    size_t position = (size_t)slice * flight->slice_bytes, size = weft_slice_size(flight, slice);
    const struct weft_exec_peer *peer = peer_of(op, flight);
    if (!flight->mapped)
        return peer->ops->pull(peer->link, &flight->token, token_offset(flight, position), target, size);
    int status = remap(op, flight);
    if (status != WEFT_OK)
        return status;
    const uint8_t *source = flight->mapped + token_offset(flight, position);
    if (op->request.streaming)
        weft_copy_streaming(target, source, size);
    else
        weft_copy(target, source, size);
    return still_exposed(op, flight);
}

static int advance_read(struct weft_exec_op *op, struct weft_flight *flight)
{
    size_t offered = weft_slices_bytes(flight, flight->ready), limit = weft_flight_limit(op, flight);
    if (flight->done < offered) {
        size_t end = weft_slices_bytes(flight, (uint32_t)(flight->done / flight->slice_bytes) + 1);
        if (end > limit)
            return weft_recv_settle(op, flight);
        size_t size = end - flight->done;
        int status = weft_recv_fetch(op, flight, weft_slices_within(flight, flight->done),
                                     flight->target + flight->done);
        if (status != WEFT_OK)
            return status;
        op->exec->stats.bytes_direct += flight->staging ? 0 : size;
        op->work_bytes += size;
        flight->done = flight->visible = end;
        weft_flight_wake(op, flight);
        weft_flight_again(op, flight);
    }
    return weft_recv_settle(op, flight);
}

/* Lands one slice: in place, or in a buffer of its own when it only feeds a reduction. */
static int land_slice(struct weft_exec_op *op, struct weft_flight *flight, uint32_t slice)
{
    const struct weft_exec_hooks *hooks = &op->exec->options.hooks;
    const struct weft_exec_peer *peer = peer_of(op, flight);
    struct weft_landing *landing = &flight->landings[slice % WEFT_LANDINGS];
    uint8_t *memory;
    struct weft_region *region = NULL;
    if (weft_recv_lands_aside(op, flight)) {
        if (!landing->buffer)
            landing->buffer = weft_stage_get(op, peer->transport, flight->slice_bytes);
        if (!landing->buffer)
            return weft_stage_missing("landing", flight->slice_bytes, flight->rank);
        memory = landing->buffer;
        if (peer->caps & WEFT_CAP_REG_REMOTE) {
            int status = hooks->region_get(hooks->arg, peer->transport, memory, flight->slice_bytes, &region);
            if (status != WEFT_OK)
                return status;
        }
    } else {
        memory = flight->target + (size_t)slice * flight->slice_bytes;
        region = flight->region; /* a device's */
        if (!region && peer->caps & WEFT_CAP_REG_REMOTE) {
            int status = weft_op_region(op, peer, flight->step.destination.buffer, &region);
            if (status != WEFT_OK)
                return status;
        }
    }
    int status = peer->ops->land(peer->link, region, memory, weft_slice_size(flight, slice),
                                 weft_flight_cookie(op, flight, slice), &landing->token);
    if (status == WEFT_OK) {
        landing->open = 1;
        landing->announced = 0;
    }
    return status;
}

int weft_recv_land(struct weft_exec_op *op, struct weft_flight *flight)
{
    int buffered = weft_recv_lands_aside(op, flight); /* and nothing is waited for then */
    uint32_t finished = weft_slices_within(flight, flight->done);
    uint32_t allowed = buffered         ? flight->slices
                       : flight->direct ? flight->copied
                                        : weft_slices_within(flight, weft_flight_limit(op, flight));
    if (buffered && flight->sequence - op->head > LANDING_DISTANCE)
        allowed = 0;
    int status = WEFT_OK;
    if (op->layout.sized && !flight->announced) /* it may be a short one that will come as a message */
        return WEFT_OK;
    while (flight->landed < flight->slices && flight->landed - finished < WEFT_LANDINGS) {
        struct weft_landing *landing = &flight->landings[flight->landed % WEFT_LANDINGS];
        if (flight->landed >= allowed) {
            if (buffered)
                weft_flight_block(op, flight);
            return WEFT_OK;
        }
        status = weft_credit_check(op, flight);
        if (status != WEFT_OK)
            return status == WEFT_AGAIN ? WEFT_OK : status;
        if (!landing->open && !landing->landed)
            status = land_slice(op, flight, flight->landed);
        if (status == WEFT_OK)
            status = weft_flight_send(op, flight, WEFT_WIRE_LANDING, 0, flight->landed, &landing->token,
                                      sizeof landing->token);
        if (status == WEFT_AGAIN)
            weft_flight_block(op, flight);
        if (status != WEFT_OK)
            return status == WEFT_AGAIN ? WEFT_OK : status;
        landing->announced = 1;
        flight->landed++;
    }
    return WEFT_OK;
}

int weft_recv_advance(struct weft_exec_op *op, struct weft_flight *flight)
{
    if (__builtin_expect(flight->refuses == WEFT_REFUSAL_OWED, 0))
        return weft_direct_refuse(op, flight);
    if (__builtin_expect(op->device, 0))
        return flight->shared ? weft_direct_recv(op, flight) : weft_device_recv(op, flight);
    if (flight->mode == WEFT_MODE_PUT)
        return weft_recv_land(op, flight);
    if (flight->into_slot)
        return weft_recv_settle(op, flight);
    return flight->mode == WEFT_MODE_EAGER ? advance_eager(op, flight) : advance_read(op, flight);
}

int weft_recv_landed(struct weft_exec_op *op, struct weft_flight *flight, uint32_t slice)
{
    struct weft_landing *landing = &flight->landings[slice % WEFT_LANDINGS];
    int is_staged = op->device && !flight->direct;
    landing->landed = 1;
    landing->open = 0;
    /* What a reduction reads there would not come to the device otherwise: that is no staging where the transport can do without. */
    int is_read_there = flight->into_slot && peer_of(op, flight)->caps & WEFT_CAP_DEVICE_MEMORY;
    *(is_staged && !is_read_there ? &op->exec->stats.bytes_staged : &op->exec->stats.bytes_direct) +=
        weft_slice_size(flight, slice);
    uint32_t prefix = is_staged ? flight->staged : weft_slices_within(flight, flight->visible);
    while (prefix < flight->landed && flight->landings[prefix % WEFT_LANDINGS].landed &&
           prefix - weft_slices_within(flight, flight->done) < WEFT_LANDINGS)
        prefix++;
    if (is_staged) {
        flight->staged = prefix;
        weft_flight_again(op, flight);
        return WEFT_OK;
    }
    if (flight->direct) {
        int status = weft_lane_flush_writes(op->request.lane);
        if (status != WEFT_OK)
            return status;
    }
    flight->visible = weft_slices_bytes(flight, prefix);
    weft_flight_wake(op, flight);
    if (flight->into_slot)
        return WEFT_OK;
    for (uint32_t s = weft_slices_within(flight, flight->done); s < prefix; s++)
        flight->landings[s % WEFT_LANDINGS].landed = 0;
    flight->done = flight->visible;
    weft_flight_again(op, flight);
    if (flight->done == flight->length)
        weft_flight_finish(op, flight);
    return WEFT_OK;
}

void weft_recv_recall(struct weft_exec_op *op, struct weft_flight *flight)
{
    if (flight->mode != WEFT_MODE_PUT)
        return;
    const struct weft_exec_peer *peer = peer_of(op, flight);
    for (int i = 0; i < WEFT_LANDINGS; i++) {
        struct weft_landing *landing = &flight->landings[i];
        if (landing->open && peer->ops->recall(peer->link, &landing->token, 0) == WEFT_UNSUPPORTED)
            peer->ops->unland(peer->link, &landing->token);
        landing->open = 0;
    }
}

void weft_recv_release(struct weft_exec_op *op, struct weft_flight *flight)
{
    weft_early_free_list(op->exec, flight->held);
    flight->held = NULL;
    if (flight->shared)
        weft_direct_release(op, flight);
    if (flight->mode != WEFT_MODE_PUT && !op->device)
        return;
    const struct weft_exec_peer *peer = peer_of(op, flight);
    for (int i = 0; i < WEFT_LANDINGS; i++) {
        struct weft_landing *landing = &flight->landings[i];
        if (landing->buffer)
            weft_stage_put(op, peer->transport, landing->buffer, flight->slice_bytes);
        memset(landing, 0, sizeof *landing);
    }
}

static int check_offer(struct weft_exec_op *op, struct weft_flight *flight,
                       const struct weft_wire_header *header, const void *payload)
{
    struct weft_wire_device_offer both;
    const struct weft_wire_offer *told = &both.offer;
    int of_device = (header->flags & WEFT_WIRE_DEVICE) != 0;
    size_t size = of_device ? sizeof both : sizeof both.offer;
    if (flight->have_token || header->size != size || (of_device && flight->refuses) ||
        (of_device && header->flags & (WEFT_WIRE_STAGED | WEFT_WIRE_LENT)))
        return weft_fail(WEFT_PROTOCOL,
                         "rank %u offered message %u twice, or with %u bytes and flags %x: expected %zu",
                         header->source, header->message, header->size, header->flags, size);
    memcpy(&both, payload, size);
    if (told->length != flight->length)
        return weft_fail(
            WEFT_MISMATCH,
            "rank %u offered %llu bytes as message %u in operation %u, this rank expected %zu: do all "
            "ranks use the same count?",
            header->source, (unsigned long long)told->length, header->message, op->sequence, flight->length);
    if (of_device)
        return weft_direct_take(op, flight, &both);
    flight->token = told->token;
    flight->have_token = 1;
    flight->staging = (header->flags & WEFT_WIRE_STAGED) != 0;
    flight->lent_here = (header->flags & WEFT_WIRE_LENT) != 0;
    int status = remap(op, flight);
    return status == WEFT_UNSUPPORTED ? WEFT_OK : status;
}

static int take_ready(struct weft_exec_op *op, struct weft_flight *flight,
                      const struct weft_wire_header *header, const void *payload)
{
    if (op->layout.sized && flight->mode == WEFT_MODE_PUT && header->kind == WEFT_WIRE_READY) {
        flight->announced = 1;
        weft_flight_again(op, flight);
        return WEFT_OK;
    }
    if (flight->mode != WEFT_MODE_READ || header->slice > flight->slices || header->slice <= flight->ready)
        return weft_fail(WEFT_PROTOCOL,
                         "rank %u announced %u of %u slices of message %u: expected more than %u",
                         header->source, header->slice, flight->slices, header->message, flight->ready);
    if (header->kind == WEFT_WIRE_OFFER) {
        int status = check_offer(op, flight, header, payload);
        if (status != WEFT_OK)
            return status;
    } else if (!flight->have_token && !flight->refuses) {
        return weft_fail(WEFT_PROTOCOL, "rank %u announced slices of message %u before offering it",
                         header->source, header->message);
    }
    if (!flight->have_token) { /* it waits for another offer */
        weft_flight_again(op, flight);
        return WEFT_OK;
    }
    flight->ready = header->slice;
    if (flight->into_slot && !op->device) {
        flight->visible = weft_slices_bytes(flight, flight->ready);
        weft_flight_wake(op, flight);
    } else {
        weft_flight_again(op, flight);
    }
    return WEFT_OK;
}

static void hold(struct weft_flight *flight, struct weft_early *early)
{
    struct weft_early **tail = &flight->held;
    while (*tail)
        tail = &(*tail)->next;
    early->next = NULL;
    *tail = early;
}

/* A payload that can be used right now is: the run loop works from the transport's buffer. What is left over
 * is copied. */
static int take_eager(struct weft_exec_op *op, struct weft_flight *flight,
                      const struct weft_wire_header *header, const void *payload, struct weft_early *early,
                      int *kept)
{
    if (flight->mode != WEFT_MODE_EAGER || header->slice != flight->ready ||
        header->slice >= flight->slices || header->size != weft_slice_size(flight, header->slice))
        return weft_fail(
            WEFT_MISMATCH,
            "rank %u sent %u bytes as slice %u of message %u in operation %u, this rank expected %zu "
            "in %u slices: do all ranks use the same count?",
            header->source, header->size, header->slice, header->message, op->sequence, flight->length,
            flight->slices);
    if (op->small) /* whoever delivers runs the operation */
        return weft_small_take(op, flight, payload);
    uint32_t sequence = flight->sequence;
    flight->ready++;
    if (flight->into_slot && !op->device) {
        flight->visible = weft_slices_bytes(flight, flight->ready);
        weft_flight_wake(op, flight);
    } else {
        weft_flight_again(op, flight);
    }
    if (early) {
        hold(flight, early);
        *kept = 1;
        return WEFT_OK;
    }
    if (!flight->held) {
        flight->payload = payload;
        weft_op_run(op);
        if (op->status != WEFT_AGAIN || flight->sequence != sequence || !(op->active >> flight->index & 1))
            return WEFT_OK;
        flight->payload = NULL;
        if (slices_taken(op, flight) > header->slice)
            return WEFT_OK;
    }
    struct weft_early *copy = weft_early_copy(op->exec, header, payload);
    if (!copy)
        return weft_fail(WEFT_NOMEM, "no memory to keep %u bytes from rank %u", header->size, header->source);
    hold(flight, copy);
    return WEFT_OK;
}

int weft_recv_message(struct weft_exec_op *op, struct weft_flight *flight,
                      const struct weft_wire_header *header, const void *payload, struct weft_early *early,
                      int *kept)
{
    if (header->kind == WEFT_WIRE_EAGER)
        return take_eager(op, flight, header, payload, early, kept);
    return take_ready(op, flight, header, payload);
}
