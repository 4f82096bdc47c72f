/* SPDX-License-Identifier: Apache-2.0 */
/* SEND and RECV between two devices of one kind on one machine: nothing passes through the host's memory.
 *
 * The sender offers its memory itself, with a description (devmem/share.h), as far as the marks of its command queue say that the bytes are
 * final. The receiver's device copies or reduces straight from there, and the receiver says TAKEN when that work is done; until
 * then the memory is in use, as host memory that a peer reads. What both queue and when:
 *
 *   SEND    `staged` slices lie before a note in the command queue; `copied`: the note was due, so they may be read
 *   RECV    `visible` bytes may be worked on by what is queued behind; `done`: that work is over
 *
 * A receiver that cannot reach the memory (its buffer is the host's, or its device's kind is another one, or there is no way to map the
 * memory, or its device does not reach the one that has it) answers REFUSE, at once or when the kind refuses the first work on it.
 * The sender stages this message then, and those that follow to the same rank; later it tries again, since the next buffer may be
 * another one.
 *
 * Work is queued in pieces of a few slices, one per round of progress and step. Else a long message would be one piece of work with
 * one mark behind it, and whoever waits for its first slice would wait for all of it.
 *
 * Ending early. The token that comes with the offer is of some host memory of weft's, the guard. The sender takes it back when it gives up, and
 * the receiver asks for it after its device has read and before anybody may build on that, as with host memory: what
 * was read too late fails the operation there. Work that reads peers' memory is bounded and writes memory of its own rank only.
 */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "comm/exec/device/device.h"
#include "devmem/borrowed.h"

#define AHEAD_PIECES 4

static struct weft_shares *shares_of(const struct weft_exec_op *op)
{
    const struct weft_exec_hooks *hooks = &op->exec->options.hooks;
    return hooks->shares ? hooks->shares(hooks->arg) : NULL;
}

/* --- SEND */

int weft_direct_may(struct weft_exec_op *op, const struct weft_inflight *inflight)
{
    struct weft_exec_peer *peer = &op->exec->peers[inflight->rank];
    if (inflight->mode != WEFT_MODE_READ || !peer->process || peer->stage_only ||
        !op->exec->options.hooks.shares)
        return 0;
    if (peer->refusals_left) {
        peer->refusals_left--;
        return 0;
    }
    return 1;
}

void weft_direct_stage_instead(struct weft_exec_op *op, struct weft_inflight *inflight)
{
    const struct weft_exec_peer *peer = &op->exec->peers[inflight->rank];
    if (inflight->have_token)
        peer->ops->unexpose(peer->link, &inflight->token, 1);
    weft_borrowed_close(inflight->borrowed);
    inflight->borrowed = 0;
    weft_direct_release(op, inflight);
    inflight->have_token = 0;
    inflight->reported = inflight->staged = inflight->copied = 0;
    weft_inflight_again(op, inflight);
}

/* WEFT_UNSUPPORTED: it must be staged. */
static int make_guard(struct weft_exec_op *op, struct weft_inflight *inflight)
{
    const struct weft_exec_hooks *hooks = &op->exec->options.hooks;
    const struct weft_exec_peer *peer = &op->exec->peers[inflight->rank];
    uint32_t flags;
    int status = peer->ops->link_flags(peer->link, &flags);
    if (status != WEFT_OK)
        return status;
    if (!(flags & (WEFT_LINK_PEER_MAPS | WEFT_LINK_PEER_PULLS)))
        return WEFT_UNSUPPORTED;
    if (!inflight->guard)
        inflight->guard = hooks->buffer_get(hooks->arg, peer->transport, WEFT_WIRE_GUARD_BYTES, NULL);
    if (!inflight->guard)
        return weft_fail(WEFT_NOMEM, "no memory of %d bytes for rank %u", WEFT_WIRE_GUARD_BYTES,
                         inflight->rank);
    status = peer->ops->expose(peer->link, NULL, inflight->guard, WEFT_WIRE_GUARD_BYTES, &inflight->token);
    inflight->have_token = status == WEFT_OK;
    return status;
}

static int offer(struct weft_exec_op *op, struct weft_inflight *inflight, uint32_t ready)
{
    struct weft_shares *shares = shares_of(op);
    const struct weft_exec_peer *peer = &op->exec->peers[inflight->rank];
    struct weft_wire_device_offer device_offer = {.offer.length = inflight->length};
    int status = WEFT_UNSUPPORTED, is_here = shares && weft_peer_is_here(peer, shares);
    if (shares)
        status = weft_share_describe(shares, weft_command_queue_kind(op->request.commands),
                                     inflight->sources[0], inflight->length, !is_here, &device_offer.share);
    if (status != WEFT_OK)
        return WEFT_UNSUPPORTED; /* whatever it is, staging is a way */
    if (!inflight->have_token)
        status = make_guard(op, inflight);
    if (status == WEFT_OK && is_here && !inflight->borrowed)
        status = weft_borrowed_open(&inflight->borrowed);
    device_offer.offer.token = inflight->token;
    device_offer.borrowed = inflight->borrowed;
    return status == WEFT_OK ? weft_inflight_send(op, inflight, WEFT_WIRE_OFFER, WEFT_WIRE_DEVICE, ready,
                                                  &device_offer, sizeof device_offer)
                             : status;
}

/* Finds out how many slices may be read: `copied`. */
static int look(struct weft_exec_op *op, struct weft_inflight *inflight)
{
    uint32_t ready = weft_slices_within(inflight, weft_inflight_limit(op, inflight));
    if (ready <= inflight->staged)
        return WEFT_OK;
    inflight->staged = ready;
    if (!weft_command_queue_is_idle(op->request.commands))
        return weft_device_note(op, inflight, WEFT_NOTE_FINAL, ready);
    inflight->copied = ready;
    return WEFT_OK;
}

static int announce(struct weft_exec_op *op, struct weft_inflight *inflight, uint32_t ready)
{
    int status = inflight->reported ? weft_inflight_send(op, inflight, WEFT_WIRE_READY, 0, ready, NULL, 0)
                                    : offer(op, inflight, ready);
    if (status == WEFT_OK) {
        inflight->reported = ready;
    } else if (status == WEFT_AGAIN) {
        weft_inflight_block(op, inflight);
        status = WEFT_OK;
    } else if (status == WEFT_UNSUPPORTED && !inflight->reported) {
        weft_log_once(WEFT_LOG_INFO, "memory of %s device %d is staged for rank %u: %s",
                      weft_command_queue_kind(op->request.commands)->name,
                      weft_command_queue_ordinal(op->request.commands), inflight->rank, weft_error_detail());
        weft_error_clear(); /* nothing has failed */
        weft_direct_stage_instead(op, inflight);
        status = WEFT_OK;
    }
    return status;
}

int weft_direct_send(struct weft_exec_op *op, struct weft_inflight *inflight)
{
    int status = look(op, inflight);
    return status == WEFT_OK && inflight->copied != inflight->reported
               ? announce(op, inflight, inflight->copied)
               : status;
}

/* --- RECV */

int weft_direct_check(const struct weft_exec_op *op, const struct weft_inflight *inflight)
{
    const struct weft_exec_peer *peer = &op->exec->peers[inflight->rank];
    uint8_t bytes[WEFT_WIRE_GUARD_BYTES];
    return inflight->mapped ? peer->ops->exposed(peer->link, &inflight->token)
                            : peer->ops->pull(peer->link, &inflight->token, 0, bytes, sizeof bytes, 0);
}

static int find_guard(const struct weft_exec_op *op, struct weft_inflight *inflight)
{
    const struct weft_exec_peer *peer = &op->exec->peers[inflight->rank];
    const void *mapped;
    int status = peer->ops->map(peer->link, &inflight->token, WEFT_WIRE_GUARD_BYTES, &mapped);
    if (status == WEFT_OK)
        inflight->mapped = mapped;
    return status == WEFT_OK || status == WEFT_UNSUPPORTED ? weft_direct_check(op, inflight) : status;
}

static int reach(struct weft_exec_op *op, struct weft_inflight *inflight,
                 const struct weft_wire_device_offer *device_offer)
{
    const struct weft_exec_peer *peer = &op->exec->peers[inflight->rank];
    struct weft_shares *shares = op->device && peer->process && !peer->stage_only ? shares_of(op) : NULL;
    void *memory;
    if (!shares)
        return WEFT_UNSUPPORTED;
    int status = weft_share_reach(shares, weft_command_queue_kind(op->request.commands),
                                  weft_command_queue_ordinal(op->request.commands), peer->process,
                                  &device_offer->share, inflight->length, &memory, &inflight->import);
    if (status == WEFT_OK && weft_peer_is_here(peer, shares)) {
        status = weft_borrowed_take(device_offer->borrowed, op->request.commands);
        inflight->borrowed = status == WEFT_OK ? device_offer->borrowed : 0;
    }
    if (status == WEFT_OK)
        inflight->reach = memory;
    else if (status != WEFT_PROTOCOL && status != WEFT_PEER_FAILED)
        weft_log_once(WEFT_LOG_INFO, "memory of rank %u's device is staged: %s", inflight->rank,
                      weft_error_detail());
    return status;
}

int weft_direct_take(struct weft_exec_op *op, struct weft_inflight *inflight,
                     const struct weft_wire_device_offer *device_offer)
{
    int status = reach(op, inflight, device_offer);
    if (status != WEFT_OK && status != WEFT_PROTOCOL && status != WEFT_PEER_FAILED) {
        weft_error_clear(); /* nothing has failed */
        inflight->refuses = WEFT_REFUSAL_OWED;
        return WEFT_OK;
    }
    inflight->token = device_offer->offer.token;
    int guarded = find_guard(op, inflight); /* who has given up may have freed the memory as well */
    if (guarded != WEFT_OK || status != WEFT_OK) {
        weft_direct_release(op, inflight);
        return guarded != WEFT_OK ? guarded : status;
    }
    inflight->have_token = inflight->shared = 1;
    return WEFT_OK;
}

int weft_direct_decline(struct weft_exec_op *op, struct weft_inflight *inflight)
{
    if (!inflight->shared || inflight->done)
        return 0;
    weft_log_once(WEFT_LOG_INFO, "memory of rank %u's device is staged: %s", inflight->rank,
                  weft_error_detail());
    weft_error_clear(); /* nothing has failed */
    weft_direct_release(op, inflight);
    inflight->mapped = NULL;
    inflight->have_token = 0;
    inflight->ready = 0;
    inflight->visible = 0;
    inflight->refuses = WEFT_REFUSAL_OWED;
    weft_inflight_again(op, inflight);
    return 1;
}

size_t weft_direct_limit(const struct weft_inflight *inflight)
{
    size_t ahead = inflight->done + AHEAD_PIECES * weft_direct_piece(inflight);
    return ahead < inflight->visible ? ahead : inflight->visible;
}

/* Queues copies to where the message belongs. */
static int place(struct weft_exec_op *op, struct weft_inflight *inflight, size_t offered)
{
    size_t limit = weft_inflight_limit(op, inflight), begin = inflight->visible;
    limit = weft_slices_bytes(inflight, weft_slices_within(inflight, limit < offered ? limit : offered));
    size_t ahead = inflight->done + AHEAD_PIECES * weft_direct_piece(inflight);
    limit = ahead < limit ? ahead : limit;
    if (limit <= begin)
        return WEFT_OK;
    size_t left = limit - begin, piece = weft_direct_piece(inflight);
    size_t size = left < piece ? left : piece;
    int status = weft_command_queue_copy(op->request.commands, inflight->target + begin,
                                         inflight->reach + begin, size);
    if (status == WEFT_UNSUPPORTED && !begin && weft_direct_decline(op, inflight))
        return WEFT_OK;
    if (status != WEFT_OK)
        return status;
    op->exec->stats.bytes_direct += size;
    inflight->visible = begin + size;
    weft_inflight_wake(op, inflight);
    if (inflight->visible < limit) /* when others have had their turn, behind the command queue's next mark */
        weft_inflight_block(op, inflight);
    return weft_device_note(op, inflight, WEFT_NOTE_CONSUMED, inflight->visible);
}

int weft_direct_recv(struct weft_exec_op *op, struct weft_inflight *inflight)
{
    size_t offered = weft_slices_bytes(inflight, inflight->ready);
    int status = WEFT_OK;
    if (!inflight->into_slot) {
        status = place(op, inflight, offered);
    } else if (inflight->visible < offered) {
        inflight->visible = offered;
        weft_inflight_wake(op, inflight);
    }
    return status == WEFT_OK ? weft_recv_settle(op, inflight) : status;
}

/* --- both */

/* The command queue returns what it has borrowed when it ends. */
static void end_borrowed(struct weft_exec_op *op, struct weft_inflight *inflight)
{
    const struct weft_command_queue *commands = op->request.commands;
    char why[WEFT_DETAIL_MAX];
    if (inflight->step.kind != WEFT_STEP_SEND) {
        if (op->phase != WEFT_PHASE_STOPPED)
            weft_borrowed_return(inflight->borrowed);
    } else if (inflight->done == inflight->length) {
        weft_borrowed_close(inflight->borrowed);
    } else {
        snprintf(why, sizeof why, "%s", weft_error_detail());
        if (weft_borrowed_recall(inflight->borrowed, weft_device_recall_ms(op->exec)) != WEFT_OK)
            weft_log(
                WEFT_LOG_ERROR,
                "%s device %d: the device of rank %u may still read memory of a send that has failed: %s",
                weft_command_queue_kind(commands)->name, weft_command_queue_ordinal(commands), inflight->rank,
                weft_error_detail());
        weft_error_set_detail(why);
    }
    inflight->borrowed = 0;
}

void weft_direct_release(struct weft_exec_op *op, struct weft_inflight *inflight)
{
    const struct weft_exec_hooks *hooks = &op->exec->options.hooks;
    const struct weft_exec_peer *peer = &op->exec->peers[inflight->rank];
    if (inflight->step.kind == WEFT_STEP_SEND && inflight->guard)
        hooks->buffer_put(hooks->arg, peer->transport, inflight->guard, WEFT_WIRE_GUARD_BYTES);
    if (inflight->import && op->phase == WEFT_PHASE_STOPPED) /* the device may read on */
        weft_command_queue_keep(op->request.commands, weft_share_release_kept, shares_of(op), 0,
                                inflight->import, 0);
    else if (inflight->import)
        weft_share_release(shares_of(op), inflight->import);
    if (inflight->borrowed)
        end_borrowed(op, inflight);
    inflight->guard = NULL;
    inflight->import = NULL;
    inflight->shared = 0;
}
