/* SPDX-License-Identifier: Apache-2.0 */
/* SEND: how bytes leave.
 *
 *   eager  payload inside messages, one per slice; done when handed to the transport, which copies. How many may
 *          be ahead of the peer: credit.c.
 *   read   OFFER with a token for the whole message once its first slice may be read, READY as more slices
 *          become final, TAKEN from the receiver as it consumes. Only then may later steps overwrite the memory.
 *          Memory that the peer cannot map is pulled. Where it can do neither, slices pass through a ring of
 *          WEFT_STAGES slices in memory that it can map (staged; counted as such). So they do where a collective has been
 *          measured to be faster that way (staging.h).
 *   put    tokens of receive buffers from the receiver, a put for each once the slice is final, done with PUT_DONE. Memory that
 *          the transport cannot register is copied into a ring of WEFT_STAGES slices first (counted as staged).
 *
 * Device memory is offered to devices of the same machine (comm/exec/device/direct.c). Otherwise it is copied into such a ring
 * by the device, whatever the mode, and leaves from there, but for puts from memory that the transport can register
 * (comm/exec/device/message.c).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/settings.h"
#include "comm/exec/internal.h"

#define STAGED_MAX  8   /* SENDs that are staged at a time because that is faster */
#define REFUSED_FOR 256 /* messages that are staged after a refusal, until the next try */

static void set_done(struct weft_exec_op *op, struct weft_inflight *inflight, size_t done)
{
    inflight->done = done;
    if (inflight->visible < done) /* a device's copies are ahead */
        inflight->visible = done;
    if (done == inflight->length)
        weft_inflight_finish(op, inflight);
    else
        weft_inflight_wake(op, inflight);
}

/* Where a slice leaves from. */
static const uint8_t *slice_memory(const struct weft_inflight *inflight, uint32_t slice)
{
    if (inflight->stage_buffer)
        return inflight->stage_buffer + slice % WEFT_STAGES * inflight->slice_bytes;
    return inflight->sources[0] + (size_t)slice * inflight->slice_bytes;
}

static int advance_eager(struct weft_exec_op *op, struct weft_inflight *inflight, uint32_t ready)
{
    while (inflight->reported < ready && weft_eager_may(inflight)) {
        size_t size = weft_slice_size(inflight, inflight->reported);
        const uint8_t *payload = slice_memory(inflight, inflight->reported);
        int status =
            weft_inflight_send(op, inflight, WEFT_WIRE_EAGER, 0, inflight->reported, payload, (uint32_t)size);
        if (status == WEFT_AGAIN) {
            weft_inflight_block(op, inflight);
            return WEFT_OK;
        }
        if (status != WEFT_OK)
            return status;
        op->exec->stats.bytes_eager += size;
        if (inflight->reported++ == 0 && inflight->peer)
            inflight->peer->eager_sent++;
        set_done(op, inflight, weft_slices_bytes(inflight, inflight->reported));
    }
    return WEFT_OK;
}

/* Whether the operation stages what could be read where it is (staging.h), and there is memory for it. */
static int is_staged(struct weft_exec_op *op, struct weft_inflight *inflight,
                     const struct weft_exec_peer *peer, uint32_t flags)
{
    struct weft_exec *exec = op->exec;
    const struct weft_exec_hooks *hooks = &exec->options.hooks;
    if (!op->window || !op->window->trial.stages || !(flags & WEFT_LINK_PEER_MAPS) || !hooks->is_shared ||
        hooks->is_shared(hooks->arg, inflight->sources[0], inflight->length))
        return 0;
    if (exec->staged < STAGED_MAX)
        inflight->stage_buffer = weft_stage_get(op, peer->transport, WEFT_STAGES * inflight->slice_bytes);
    inflight->is_chosen = inflight->stage_buffer != NULL;
    exec->staged += inflight->is_chosen;
    op->window->trial.lacks_staging |= !inflight->is_chosen; /* then nothing is learnt from the call */
    weft_error_clear();                                      /* nothing has failed: it is read in place */
    return inflight->is_chosen;
}

/* Offers the memory itself. WEFT_UNSUPPORTED: it is to be staged. */
static int offer_memory(struct weft_exec_op *op, struct weft_inflight *inflight, struct weft_exec_peer *peer,
                        uint32_t flags)
{
    if (is_staged(op, inflight, peer, flags))
        return WEFT_UNSUPPORTED;
    int status =
        peer->ops->expose(peer->link, NULL, inflight->sources[0], inflight->length, &inflight->token);
    inflight->have_token = status == WEFT_OK;
    if (status == WEFT_OK && inflight->slices == 1) /* which is there: an offer waits for the first */
        peer->ops->expose_whole(peer->link, &inflight->token);
    return status;
}

/* Decides between reading in place and staging, and makes the token. WEFT_AGAIN while the link comes up. */
static int make_offer(struct weft_exec_op *op, struct weft_inflight *inflight, struct weft_exec_peer *peer)
{
    uint32_t flags;
    char why[200] = "";
    int status = peer->ops->link_flags(peer->link, &flags);
    if (status != WEFT_OK)
        return status;
    if (inflight->took_ns)
        inflight->offered_ns = weft_clock_ns();
    int is_meant = peer->stage_only || op->device || inflight->stage_buffer; /* it has been decided */
    status = is_meant ? WEFT_UNSUPPORTED : offer_memory(op, inflight, peer, flags);
    if (status != WEFT_UNSUPPORTED)
        return status;
    is_meant |= inflight->is_chosen;
    if (!is_meant)
        snprintf(why, sizeof why, "%s", weft_error_detail());
    if (op->window && !op->device) /* chosen or not: nothing is learnt of reading in place */
        op->window->trial.has_staged = 1;
    if (!(flags & (op->device ? WEFT_LINK_PEER_MAPS | WEFT_LINK_PEER_PULLS : WEFT_LINK_PEER_MAPS)))
        return weft_fail(WEFT_TRANSPORT, "rank %u can read neither this rank's memory nor its staging memory",
                         inflight->rank);
    size_t size = WEFT_STAGES * inflight->slice_bytes;
    if (!inflight->stage_buffer) /* else it was measured to be faster, or the peer's socket was full */
        inflight->stage_buffer = weft_stage_get(op, peer->transport, size);
    if (!inflight->stage_buffer)
        return weft_stage_missing("staging", size, inflight->rank);
    status = peer->ops->expose(peer->link, NULL, inflight->stage_buffer, size, &inflight->token);
    inflight->staging = 1;
    inflight->is_past = (flags & WEFT_LINK_PAST_CACHES) != 0;
    inflight->have_token = status == WEFT_OK;
    if (status == WEFT_OK && !is_meant) /* bytes_staged counts it in a moment */
        weft_log_once(WEFT_LOG_WARN, "large messages to rank %u are staged: %s", inflight->rank, why);
    if (!is_meant)
        weft_error_clear(); /* nothing has failed */
    return status;
}

static uint32_t stage_slices(struct weft_exec_op *op, struct weft_inflight *inflight, uint32_t ready)
{
    uint32_t taken = weft_slices_within(inflight, inflight->done);
    const uint8_t *memory = inflight->sources[0];
    void (*copy)(void *, const void *, size_t) = inflight->is_past ? weft_copy_streaming : weft_copy;
    while (inflight->staged < ready && inflight->staged - taken < WEFT_STAGES) {
        size_t size = weft_slice_size(inflight, inflight->staged);
        copy(inflight->stage_buffer + inflight->staged % WEFT_STAGES * inflight->slice_bytes,
             memory + (size_t)inflight->staged * inflight->slice_bytes, size);
        op->exec->stats.bytes_staged += size;
        inflight->staged++;
    }
    return inflight->staged;
}

static int advance_read(struct weft_exec_op *op, struct weft_inflight *inflight, uint32_t ready)
{
    if (ready == inflight->reported)
        return WEFT_OK;
    struct weft_exec_peer *peer = &op->exec->peers[inflight->rank];
    if (!inflight->have_token) {
        int status = make_offer(op, inflight, peer);
        if (status == WEFT_AGAIN)
            weft_inflight_block(op, inflight);
        if (status != WEFT_OK)
            return status == WEFT_AGAIN ? WEFT_OK : status;
    }
    if (inflight->staging && !op->device)
        ready = stage_slices(op, inflight, ready);
    if (ready == inflight->reported)
        return WEFT_OK;
    struct weft_wire_offer offer = {inflight->token, inflight->length};
    uint32_t flags = inflight->staging ? WEFT_WIRE_STAGED : 0;
    int status = inflight->reported == 0
                     ? weft_inflight_send(op, inflight, WEFT_WIRE_OFFER, flags, ready, &offer, sizeof offer)
                     : weft_inflight_send(op, inflight, WEFT_WIRE_READY, 0, ready, NULL, 0);
    if (status == WEFT_AGAIN) {
        weft_inflight_block(op, inflight);
        return WEFT_OK;
    }
    if (status == WEFT_OK)
        inflight->reported = ready;
    return status;
}

/* Memory that cannot be registered, such as a file mapped read-only where a provider wants to write, is copied first. */
static int put_staged(struct weft_exec_op *op, struct weft_inflight *inflight,
                      const struct weft_exec_peer *peer)
{
    const struct weft_exec_hooks *hooks = &op->exec->options.hooks;
    size_t size = WEFT_STAGES * inflight->slice_bytes;
    if (!op->device)
        weft_log_once(WEFT_LOG_WARN, "memory that is sent cannot be registered and is copied first: %s",
                      weft_error_detail());
    if (!inflight->stage_buffer)
        inflight->stage_buffer = weft_stage_get(op, peer->transport, size);
    if (!inflight->stage_buffer)
        return weft_stage_missing("staging", size, inflight->rank);
    inflight->staging = 1;
    return hooks->region_get(hooks->arg, peer->transport, inflight->stage_buffer, size, &inflight->region);
}

static int put_slice(struct weft_exec_op *op, struct weft_inflight *inflight,
                     const struct weft_exec_peer *peer, uint32_t slice)
{
    unsigned buffer = inflight->step.sources[0].buffer;
    if (peer->caps & WEFT_CAP_REG_LOCAL && !inflight->region) {
        int status =
            op->device ? put_staged(op, inflight, peer) : weft_op_region(op, peer, buffer, &inflight->region);
        if (status == WEFT_INVALID) {
            status = put_staged(op, inflight, peer);
            if (status == WEFT_OK)
                weft_error_clear(); /* nothing has failed */
        }
        if (status != WEFT_OK)
            return status;
    }
    struct weft_rbuf *rbuf = &inflight->rbufs[slice % WEFT_RBUFS];
    size_t size = weft_slice_size(inflight, slice);
    const uint8_t *memory = slice_memory(inflight, slice);
    if (inflight->staging && !op->device)
        weft_copy(inflight->stage_buffer + slice % WEFT_STAGES * inflight->slice_bytes,
                  inflight->sources[0] + (size_t)slice * inflight->slice_bytes, size);
    int status = peer->ops->put(peer->link, &rbuf->token, inflight->region, memory, size,
                                weft_inflight_cookie(op, inflight, slice));
    if (status == WEFT_OK && inflight->staging && !op->device)
        op->exec->stats.bytes_staged += size;
    return status;
}

static int advance_put(struct weft_exec_op *op, struct weft_inflight *inflight, uint32_t ready)
{
    const struct weft_exec_peer *peer = &op->exec->peers[inflight->rank];
    if (op->layout.sized && !inflight->announced) {
        int status = weft_inflight_send(op, inflight, WEFT_WIRE_READY, 0, 0, NULL, 0);
        if (status == WEFT_AGAIN)
            weft_inflight_block(op, inflight);
        if (status != WEFT_OK)
            return status == WEFT_AGAIN ? WEFT_OK : status;
        inflight->announced = 1;
    }
    while (inflight->next_rbuf < ready &&
           inflight->next_rbuf - inflight->reported < (inflight->stage_buffer ? WEFT_STAGES : WEFT_PUTS)) {
        struct weft_rbuf *rbuf = &inflight->rbufs[inflight->next_rbuf % WEFT_RBUFS];
        if (!rbuf->announced)
            break;
        int status = put_slice(op, inflight, peer, inflight->next_rbuf);
        if (status == WEFT_AGAIN) {
            weft_inflight_block(op, inflight);
            return WEFT_OK;
        }
        if (status == WEFT_CANCELLED) {
            /* The peer has given up this operation. Why, and who is to blame, comes by the bootstrap, and ends this one too. */
            weft_error_clear();
            rbuf->announced = 0;
            return WEFT_OK;
        }
        if (status != WEFT_OK)
            return status;
        rbuf->announced = 0;
        inflight->next_rbuf++;
    }
    return WEFT_OK;
}

int weft_send_advance(struct weft_exec_op *op, struct weft_inflight *inflight)
{
    int status = weft_credit_check(op, inflight);
    if (__builtin_expect(status != WEFT_OK, 0))
        return status == WEFT_AGAIN ? WEFT_OK : status;
    uint32_t ready;
    if (__builtin_expect(op->device, 0)) {
        status = op->exec->options.devices->send(op, inflight);
        if (status != WEFT_OK || inflight->shared)
            return status;
        ready = inflight->copied;
    } else {
        ready = weft_slices_within(inflight, weft_inflight_limit(op, inflight));
    }
    uint32_t reported = inflight->reported;
    switch (inflight->mode) {
    case WEFT_MODE_EAGER:
        status = advance_eager(op, inflight, ready);
        if (__builtin_expect(op->device, 0) && inflight->reported != reported &&
            op->active >> inflight->index & 1)
            weft_inflight_again(op, inflight); /* there is room in staging */
        return status;
    case WEFT_MODE_READ:
        return advance_read(op, inflight, ready);
    default:
        return advance_put(op, inflight, ready);
    }
}

int weft_send_refused(struct weft_exec_op *op, struct weft_inflight *inflight)
{
    if (!inflight->shared || !inflight->reported || inflight->done)
        return weft_fail(WEFT_PROTOCOL, "rank %u refused message %u, which was not offered, or is taken",
                         inflight->rank, inflight->message);
    op->exec->peers[inflight->rank].refusals_left = REFUSED_FOR;
    op->exec->options.devices->refused(op, inflight);
    return WEFT_OK;
}

void weft_send_taken(struct weft_exec_op *op, struct weft_inflight *inflight, uint32_t slices)
{
    if (inflight->staging)
        weft_inflight_again(op, inflight);
    if (inflight->took_ns && slices == inflight->slices)
        *inflight->took_ns = weft_clock_ns() - inflight->offered_ns;
    set_done(op, inflight, weft_slices_bytes(inflight, slices));
}

int weft_send_rbuf(struct weft_exec_op *op, struct weft_inflight *inflight, uint32_t slice,
                   const struct weft_token *token)
{
    struct weft_rbuf *rbuf = &inflight->rbufs[slice % WEFT_RBUFS];
    if (inflight->mode != WEFT_MODE_PUT || slice >= inflight->slices || slice < inflight->next_rbuf ||
        slice - inflight->next_rbuf >= WEFT_RBUFS || rbuf->announced)
        return weft_fail(WEFT_PROTOCOL, "rank %u announced a buffer of slice %u of %u out of turn",
                         inflight->rank, slice, inflight->slices);
    rbuf->token = *token;
    rbuf->announced = 1;
    weft_inflight_again(op, inflight);
    return WEFT_OK;
}

void weft_send_put_done(struct weft_exec_op *op, struct weft_inflight *inflight, uint32_t slice)
{
    inflight->puts_done |= 1u << (slice - inflight->reported);
    while (inflight->puts_done & 1) {
        inflight->puts_done >>= 1;
        inflight->reported++;
    }
    weft_inflight_again(op, inflight);
    set_done(op, inflight, weft_slices_bytes(inflight, inflight->reported));
}

void weft_send_recall(struct weft_exec_op *op, struct weft_inflight *inflight)
{
    if (inflight->mode != WEFT_MODE_PUT)
        return;
    const struct weft_exec_peer *peer = &op->exec->peers[inflight->rank];
    for (uint32_t slice = inflight->reported; slice < inflight->next_rbuf; slice++) {
        if (!(inflight->puts_done >> (slice - inflight->reported) & 1))
            peer->ops->recall(peer->link, NULL, weft_inflight_cookie(op, inflight, slice));
    }
}
