/* SPDX-License-Identifier: Apache-2.0 */
/* SEND: how bytes leave.
 *
 *   eager  payload inside messages, one per slice; done when handed to the transport, which copies. How many may
 *          be ahead of the peer: exec_credit.c.
 *   read   OFFER with a token for the whole message once its first slice may be read, READY as more slices
 *          become final, TAKEN from the receiver as it consumes. Only then may later steps overwrite the memory.
 *          Memory that the peer cannot map is lent through a conduit where one is free. Where the peer can
 *          neither map nor pull nor be lent to, slices pass through a ring of WEFT_STAGES slices in memory that
 *          it can map (staged; counted as such).
 *   put    LANDING tokens from the receiver, a put for each once the slice is final, done with PUT_DONE. Memory that
 *          the transport cannot register is copied into a ring of WEFT_STAGES slices first (counted as staged).
 *
 * Memory of a device is offered to devices of the same machine (exec_device_direct.c). Otherwise it is copied into such a ring
 * by the device, whatever the mode, and leaves from there, but for puts from memory that the transport can register
 * (exec_device_message.c).
 */
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "comm/exec_device.h"

static void set_done(struct weft_exec_op *op, struct weft_flight *flight, size_t done)
{
    flight->done = done;
    if (flight->visible < done) /* a device's copies are ahead */
        flight->visible = done;
    if (done == flight->length)
        weft_flight_finish(op, flight);
    else
        weft_flight_wake(op, flight);
}

/* Where a slice leaves from. */
static const uint8_t *slice_memory(const struct weft_flight *flight, uint32_t slice)
{
    if (flight->stage_buffer)
        return flight->stage_buffer + slice % WEFT_STAGES * flight->slice_bytes;
    return flight->sources[0] + (size_t)slice * flight->slice_bytes;
}

static int advance_eager(struct weft_exec_op *op, struct weft_flight *flight, uint32_t ready)
{
    while (flight->told < ready && weft_eager_may(flight)) {
        size_t size = weft_slice_size(flight, flight->told);
        const uint8_t *payload = slice_memory(flight, flight->told);
        int status = weft_flight_send(op, flight, WEFT_WIRE_EAGER, 0, flight->told, payload, (uint32_t)size);
        if (status == WEFT_AGAIN) {
            weft_flight_block(op, flight);
            return WEFT_OK;
        }
        if (status != WEFT_OK)
            return status;
        op->exec->stats.bytes_eager += size;
        if (flight->told++ == 0 && flight->peer)
            flight->peer->eager_sent++;
        set_done(op, flight, weft_slices_bytes(flight, flight->told));
    }
    return WEFT_OK;
}

/* Offers the memory itself. */
static int offer_memory(struct weft_flight *flight, const struct weft_exec_peer *peer)
{
    int status = peer->ops->lend_open(peer->link, flight->sources[0], flight->length, flight->slice_bytes,
                                      &flight->token, &flight->conduit);
    if (status == WEFT_OK) {
        flight->have_token = flight->lending = 1;
        flight->lent = 0;
        return WEFT_OK;
    }
    status = peer->ops->expose(peer->link, NULL, flight->sources[0], flight->length, &flight->token);
    flight->have_token = status == WEFT_OK;
    return status;
}

/* Decides between reading in place and staging, and makes the token. WEFT_AGAIN while the link comes up. */
static int make_offer(struct weft_exec_op *op, struct weft_flight *flight, const struct weft_exec_peer *peer)
{
    uint32_t flags;
    int status = peer->ops->link_flags(peer->link, &flags);
    if (status != WEFT_OK)
        return status;
    status = peer->stage_only || op->device ? WEFT_UNSUPPORTED : offer_memory(flight, peer);
    if (status != WEFT_UNSUPPORTED)
        return status;
    if (!(flags & (op->device ? WEFT_LINK_PEER_MAPS | WEFT_LINK_PEER_PULLS : WEFT_LINK_PEER_MAPS)))
        return weft_fail(WEFT_TRANSPORT, "rank %u can read neither this rank's memory nor its staging memory",
                         flight->rank);
    size_t size = WEFT_STAGES * flight->slice_bytes;
    if (!flight->stage_buffer) /* else this is tried again: the peer's socket was full */
        flight->stage_buffer = weft_stage_get(op, peer->transport, size);
    if (!flight->stage_buffer)
        return weft_stage_missing("staging", size, flight->rank);
    if (!peer->stage_only && !op->device)
        weft_log_once(WEFT_LOG_WARN,
                      "rank %u cannot read this process's memory: large messages to it are staged",
                      flight->rank);
    status = peer->ops->expose(peer->link, NULL, flight->stage_buffer, size, &flight->token);
    flight->staging = 1;
    flight->have_token = status == WEFT_OK;
    return status;
}

static uint32_t stage_slices(struct weft_exec_op *op, struct weft_flight *flight, uint32_t ready)
{
    uint32_t taken = weft_slices_within(flight, flight->done);
    const uint8_t *memory = flight->sources[0];
    while (flight->staged < ready && flight->staged - taken < WEFT_STAGES) {
        size_t size = weft_slice_size(flight, flight->staged);
        weft_copy(flight->stage_buffer + flight->staged % WEFT_STAGES * flight->slice_bytes,
                  memory + (size_t)flight->staged * flight->slice_bytes, size);
        op->exec->stats.bytes_staged += size;
        flight->staged++;
    }
    return flight->staged;
}

/* Passes bytes into the conduit as far as it takes them, and lowers *ready to the whole slices that are
 * through. */
static int lend_slices(struct weft_exec_op *op, struct weft_flight *flight, const struct weft_exec_peer *peer,
                       uint32_t *ready)
{
    size_t end = weft_slices_bytes(flight, *ready), taken = 0;
    int more = end - flight->lent > flight->slice_bytes;
    if (more)
        end = flight->lent +
              flight->slice_bytes; /* the kernel locks out the reader for as long as this takes */
    if (flight->lent < end) {
        int status = peer->ops->lend(peer->link, flight->conduit, flight->sources[0] + flight->lent,
                                     end - flight->lent, &taken);
        if (status != WEFT_OK && status != WEFT_AGAIN)
            return status;
        flight->lent += taken;
    }
    if (more && flight->lent == end)
        weft_flight_again(op, flight);
    /* Full: the next TAKEN says that there is room. Trying again and again would only get in the reader's way. */
    if (flight->lent < end && flight->told == weft_slices_within(flight, flight->lent) &&
        flight->told == weft_slices_within(flight, flight->done))
        weft_flight_block(op, flight);
    *ready = weft_slices_within(flight, flight->lent);
    return WEFT_OK;
}

static int advance_read(struct weft_exec_op *op, struct weft_flight *flight, uint32_t ready)
{
    if (ready == flight->told)
        return WEFT_OK;
    if (flight->shared)
        return weft_direct_tell(op, flight, ready);
    const struct weft_exec_peer *peer = &op->exec->peers[flight->rank];
    if (!flight->have_token) {
        int status = make_offer(op, flight, peer);
        if (status == WEFT_AGAIN)
            weft_flight_block(op, flight);
        if (status != WEFT_OK)
            return status == WEFT_AGAIN ? WEFT_OK : status;
    }
    int status = WEFT_OK;
    if (flight->staging && !op->device)
        ready = stage_slices(op, flight, ready);
    else if (flight->lending)
        status = lend_slices(op, flight, peer, &ready);
    if (status != WEFT_OK || ready == flight->told)
        return status;
    struct weft_wire_offer offer = {flight->token, flight->length};
    uint32_t flags = flight->staging ? WEFT_WIRE_STAGED : flight->lending ? WEFT_WIRE_LENT : 0;
    status = flight->told == 0
                 ? weft_flight_send(op, flight, WEFT_WIRE_OFFER, flags, ready, &offer, sizeof offer)
                 : weft_flight_send(op, flight, WEFT_WIRE_READY, 0, ready, NULL, 0);
    if (status == WEFT_AGAIN) {
        weft_flight_block(op, flight);
        return WEFT_OK;
    }
    if (status == WEFT_OK)
        flight->told = ready;
    return status;
}

/* Memory that cannot be registered, such as a file mapped read-only where a provider wants to write, is copied first. */
static int put_staged(struct weft_exec_op *op, struct weft_flight *flight, const struct weft_exec_peer *peer)
{
    const struct weft_exec_hooks *hooks = &op->exec->options.hooks;
    size_t size = WEFT_STAGES * flight->slice_bytes;
    if (!op->device)
        weft_log_once(WEFT_LOG_WARN, "memory that is sent cannot be registered and is copied first: %s",
                      weft_error_detail());
    if (!flight->stage_buffer)
        flight->stage_buffer = weft_stage_get(op, peer->transport, size);
    if (!flight->stage_buffer)
        return weft_stage_missing("staging", size, flight->rank);
    flight->staging = 1;
    return hooks->region_get(hooks->arg, peer->transport, flight->stage_buffer, size, &flight->region);
}

static int put_slice(struct weft_exec_op *op, struct weft_flight *flight, const struct weft_exec_peer *peer,
                     uint32_t slice)
{
    unsigned buffer = flight->step.sources[0].buffer;
    if (peer->caps & WEFT_CAP_REG_LOCAL && !flight->region) {
        int status =
            op->device ? put_staged(op, flight, peer) : weft_op_region(op, peer, buffer, &flight->region);
        if (status == WEFT_INVALID) {
            status = put_staged(op, flight, peer);
            if (status == WEFT_OK)
                weft_error_clear(); /* nothing has failed */
        }
        if (status != WEFT_OK)
            return status;
    }
    struct weft_landing *landing = &flight->landings[slice % WEFT_LANDINGS];
    size_t size = weft_slice_size(flight, slice);
    const uint8_t *memory = slice_memory(flight, slice);
    if (flight->staging && !op->device)
        weft_copy(flight->stage_buffer + slice % WEFT_STAGES * flight->slice_bytes,
                  flight->sources[0] + (size_t)slice * flight->slice_bytes, size);
    int status = peer->ops->put(peer->link, &landing->token, flight->region, memory, size,
                                weft_flight_cookie(op, flight, slice));
    if (status == WEFT_OK && flight->staging && !op->device)
        op->exec->stats.bytes_staged += size;
    return status;
}

static int advance_put(struct weft_exec_op *op, struct weft_flight *flight, uint32_t ready)
{
    const struct weft_exec_peer *peer = &op->exec->peers[flight->rank];
    if (op->layout.sized && !flight->announced) {
        int status = weft_flight_send(op, flight, WEFT_WIRE_READY, 0, 0, NULL, 0);
        if (status == WEFT_AGAIN)
            weft_flight_block(op, flight);
        if (status != WEFT_OK)
            return status == WEFT_AGAIN ? WEFT_OK : status;
        flight->announced = 1;
    }
    while (flight->landed < ready &&
           flight->landed - flight->told < (flight->stage_buffer ? WEFT_STAGES : WEFT_PUTS)) {
        struct weft_landing *landing = &flight->landings[flight->landed % WEFT_LANDINGS];
        if (!landing->announced)
            break;
        int status = put_slice(op, flight, peer, flight->landed);
        if (status == WEFT_AGAIN) {
            weft_flight_block(op, flight);
            return WEFT_OK;
        }
        if (status == WEFT_CANCELLED) {
            /* The peer has given up this operation. Why, and who is to blame, comes by the bootstrap, and ends this one too. */
            weft_error_clear();
            landing->announced = 0;
            return WEFT_OK;
        }
        if (status != WEFT_OK)
            return status;
        landing->announced = 0;
        flight->landed++;
    }
    return WEFT_OK;
}

int weft_send_advance(struct weft_exec_op *op, struct weft_flight *flight)
{
    int status = weft_credit_check(op, flight);
    if (__builtin_expect(status != WEFT_OK, 0))
        return status == WEFT_AGAIN ? WEFT_OK : status;
    uint32_t ready;
    if (__builtin_expect(op->device, 0)) {
        status = flight->shared ? weft_direct_look(op, flight) : weft_device_stage(op, flight);
        if (status != WEFT_OK)
            return status;
        ready = flight->copied;
    } else {
        ready = weft_slices_within(flight, weft_flight_limit(op, flight));
    }
    uint32_t told = flight->told;
    switch (flight->mode) {
    case WEFT_MODE_EAGER:
        status = advance_eager(op, flight, ready);
        if (__builtin_expect(op->device, 0) && flight->told != told && op->active >> flight->index & 1)
            weft_flight_again(op, flight); /* there is room in staging */
        return status;
    case WEFT_MODE_READ:
        return advance_read(op, flight, ready);
    default:
        return advance_put(op, flight, ready);
    }
}

void weft_send_taken(struct weft_exec_op *op, struct weft_flight *flight, uint32_t slices)
{
    if (flight->staging || flight->lending)
        weft_flight_again(op, flight);
    set_done(op, flight, weft_slices_bytes(flight, slices));
}

int weft_send_landing(struct weft_exec_op *op, struct weft_flight *flight, uint32_t slice,
                      const struct weft_token *token)
{
    struct weft_landing *landing = &flight->landings[slice % WEFT_LANDINGS];
    if (flight->mode != WEFT_MODE_PUT || slice >= flight->slices || slice < flight->landed ||
        slice - flight->landed >= WEFT_LANDINGS || landing->announced)
        return weft_fail(WEFT_PROTOCOL, "rank %u landed slice %u of %u out of turn", flight->rank, slice,
                         flight->slices);
    landing->token = *token;
    landing->announced = 1;
    weft_flight_again(op, flight);
    return WEFT_OK;
}

void weft_send_put_done(struct weft_exec_op *op, struct weft_flight *flight, uint32_t slice)
{
    flight->puts_done |= 1u << (slice - flight->told);
    while (flight->puts_done & 1) {
        flight->puts_done >>= 1;
        flight->told++;
    }
    weft_flight_again(op, flight);
    set_done(op, flight, weft_slices_bytes(flight, flight->told));
}

void weft_send_recall(struct weft_exec_op *op, struct weft_flight *flight)
{
    if (flight->mode != WEFT_MODE_PUT)
        return;
    const struct weft_exec_peer *peer = &op->exec->peers[flight->rank];
    for (uint32_t slice = flight->told; slice < flight->landed; slice++) {
        if (!(flight->puts_done >> (slice - flight->told) & 1))
            peer->ops->recall(peer->link, NULL, weft_flight_cookie(op, flight, slice));
    }
}

void weft_send_release(struct weft_exec_op *op, struct weft_flight *flight)
{
    const struct weft_exec_peer *peer = &op->exec->peers[flight->rank];
    if (flight->lending)
        peer->ops->lend_close(peer->link, flight->conduit, flight->done == flight->length);
    else if (flight->have_token)
        peer->ops->unexpose(peer->link, &flight->token, flight->done == flight->length);
    flight->lending = flight->have_token = 0;
    if (flight->guard)
        weft_direct_release(op, flight);
    if (!flight->stage_buffer)
        return;
    weft_stage_put(op, peer->transport, flight->stage_buffer, WEFT_STAGES * flight->slice_bytes);
    flight->stage_buffer = NULL;
}
