/* SPDX-License-Identifier: Apache-2.0 */
/* SEND and RECV between two devices of one kind on one machine: nothing passes through the host's memory.
 *
 * The sender offers its memory itself, with a description (devmem/share.h), as far as the marks of its lane say that the bytes are
 * final. The receiver's device copies or reduces straight from there, and the receiver says TAKEN when that work is done; until
 * then the memory is in use, as host memory that a peer reads. What both queue and when:
 *
 *   SEND    `staged` slices lie before a note in the lane; `copied`: the note was due, so they may be read
 *   RECV    `visible` bytes may be worked on by what is queued behind; `done`: that work is over
 *
 * A receiver that cannot reach the memory (its buffer is the host's, or its device's kind is another one, or there is no way to map the
 * memory, or its device does not reach the one that has it) answers REFUSE, at once or when the kind refuses the first work on it.
 * The sender stages this message then, and those that follow to the same rank; later it tries again, since the next buffer may be
 * another one.
 *
 * Work is queued in pieces of a few slices, one per round of progress and flight. Else a long message would be one piece of work with
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
#include "comm/exec_device.h"
#include "devmem/loan.h"

#define AHEAD_PIECES 4
#define REFUSED_FOR  256 /* messages that are staged after a refusal, until the next try */

static struct weft_shares *shares_of(const struct weft_exec_op *op)
{
    const struct weft_exec_hooks *hooks = &op->exec->options.hooks;
    return hooks->shares ? hooks->shares(hooks->arg) : NULL;
}

/* --- SEND */

int weft_direct_may(struct weft_exec_op *op, const struct weft_flight *flight)
{
    struct weft_exec_peer *peer = &op->exec->peers[flight->rank];
    if (flight->mode != WEFT_MODE_READ || !peer->process || peer->stage_only ||
        !op->exec->options.hooks.shares)
        return 0;
    if (peer->refusals_left) {
        peer->refusals_left--;
        return 0;
    }
    return 1;
}

int weft_direct_look(struct weft_exec_op *op, struct weft_flight *flight)
{
    uint32_t ready = weft_slices_within(flight, weft_flight_limit(op, flight));
    if (ready <= flight->staged)
        return WEFT_OK;
    flight->staged = ready;
    if (!weft_lane_is_idle(op->request.lane))
        return weft_device_note(op, flight, WEFT_LANE_FINAL, ready);
    flight->copied = ready;
    return WEFT_OK;
}

/* From here on the message is staged. */
static void stage_instead(struct weft_exec_op *op, struct weft_flight *flight)
{
    const struct weft_exec_peer *peer = &op->exec->peers[flight->rank];
    if (flight->have_token)
        peer->ops->unexpose(peer->link, &flight->token, 1);
    weft_loan_close(flight->loan);
    flight->loan = 0;
    weft_direct_release(op, flight);
    flight->have_token = 0;
    flight->told = flight->staged = flight->copied = 0;
    weft_flight_again(op, flight);
}

/* WEFT_UNSUPPORTED: it must be staged. */
static int make_guard(struct weft_exec_op *op, struct weft_flight *flight)
{
    const struct weft_exec_hooks *hooks = &op->exec->options.hooks;
    const struct weft_exec_peer *peer = &op->exec->peers[flight->rank];
    uint32_t flags;
    int status = peer->ops->link_flags(peer->link, &flags);
    if (status != WEFT_OK)
        return status;
    if (!(flags & (WEFT_LINK_PEER_MAPS | WEFT_LINK_PEER_PULLS)))
        return WEFT_UNSUPPORTED;
    if (!flight->guard)
        flight->guard = hooks->buffer_get(hooks->arg, peer->transport, WEFT_WIRE_GUARD_BYTES, NULL);
    if (!flight->guard)
        return weft_fail(WEFT_NOMEM, "no memory of %d bytes for rank %u", WEFT_WIRE_GUARD_BYTES,
                         flight->rank);
    status = peer->ops->expose(peer->link, NULL, flight->guard, WEFT_WIRE_GUARD_BYTES, &flight->token);
    flight->have_token = status == WEFT_OK;
    return status;
}

static int offer(struct weft_exec_op *op, struct weft_flight *flight, uint32_t ready)
{
    struct weft_shares *shares = shares_of(op);
    const struct weft_exec_peer *peer = &op->exec->peers[flight->rank];
    struct weft_wire_device_offer told = {.offer.length = flight->length};
    int status = WEFT_UNSUPPORTED, lends = shares && weft_peer_is_here(peer, shares);
    if (shares)
        status = weft_share_describe(shares, weft_lane_kind(op->request.lane), flight->sources[0],
                                     flight->length, !lends, &told.share);
    if (status != WEFT_OK)
        return WEFT_UNSUPPORTED; /* whatever it is, staging is a way */
    if (!flight->have_token)
        status = make_guard(op, flight);
    if (status == WEFT_OK && lends && !flight->loan)
        status = weft_loan_open(&flight->loan);
    told.offer.token = flight->token;
    told.loan = flight->loan;
    return status == WEFT_OK
               ? weft_flight_send(op, flight, WEFT_WIRE_OFFER, WEFT_WIRE_DEVICE, ready, &told, sizeof told)
               : status;
}

int weft_direct_tell(struct weft_exec_op *op, struct weft_flight *flight, uint32_t ready)
{
    int status = flight->told ? weft_flight_send(op, flight, WEFT_WIRE_READY, 0, ready, NULL, 0)
                              : offer(op, flight, ready);
    if (status == WEFT_OK) {
        flight->told = ready;
    } else if (status == WEFT_AGAIN) {
        weft_flight_block(op, flight);
        status = WEFT_OK;
    } else if (status == WEFT_UNSUPPORTED && !flight->told) {
        weft_log_once(WEFT_LOG_INFO, "memory of %s device %d is staged for rank %u: %s",
                      weft_lane_kind(op->request.lane)->name, weft_lane_ordinal(op->request.lane),
                      flight->rank, weft_error_detail());
        weft_error_clear(); /* nothing has failed */
        stage_instead(op, flight);
        status = WEFT_OK;
    }
    return status;
}

int weft_direct_refused(struct weft_exec_op *op, struct weft_flight *flight)
{
    if (!flight->shared || !flight->told || flight->done)
        return weft_fail(WEFT_PROTOCOL, "rank %u refused message %u, which was not offered, or is taken",
                         flight->rank, flight->message);
    op->exec->peers[flight->rank].refusals_left = REFUSED_FOR;
    stage_instead(op, flight);
    return WEFT_OK;
}

/* --- RECV */

int weft_direct_check(const struct weft_exec_op *op, const struct weft_flight *flight)
{
    const struct weft_exec_peer *peer = &op->exec->peers[flight->rank];
    uint8_t bytes[WEFT_WIRE_GUARD_BYTES];
    return flight->mapped ? peer->ops->exposed(peer->link, &flight->token)
                          : peer->ops->pull(peer->link, &flight->token, 0, bytes, sizeof bytes);
}

static int find_guard(const struct weft_exec_op *op, struct weft_flight *flight)
{
    const struct weft_exec_peer *peer = &op->exec->peers[flight->rank];
    const void *mapped;
    int status = peer->ops->map(peer->link, &flight->token, WEFT_WIRE_GUARD_BYTES, &mapped);
    if (status == WEFT_OK)
        flight->mapped = mapped;
    return status == WEFT_OK || status == WEFT_UNSUPPORTED ? weft_direct_check(op, flight) : status;
}

static int reach(struct weft_exec_op *op, struct weft_flight *flight,
                 const struct weft_wire_device_offer *told)
{
    const struct weft_exec_peer *peer = &op->exec->peers[flight->rank];
    struct weft_shares *shares = op->device && peer->process && !peer->stage_only ? shares_of(op) : NULL;
    void *memory;
    if (!shares)
        return WEFT_UNSUPPORTED;
    int status =
        weft_share_reach(shares, weft_lane_kind(op->request.lane), weft_lane_ordinal(op->request.lane),
                         peer->process, &told->share, flight->length, &memory, &flight->import);
    if (status == WEFT_OK && weft_peer_is_here(peer, shares)) {
        status = weft_loan_borrow(told->loan, op->request.lane);
        flight->loan = status == WEFT_OK ? told->loan : 0;
    }
    if (status == WEFT_OK)
        flight->reach = memory;
    else if (status != WEFT_PROTOCOL && status != WEFT_PEER_FAILED)
        weft_log_once(WEFT_LOG_INFO, "memory of rank %u's device is staged: %s", flight->rank,
                      weft_error_detail());
    return status;
}

int weft_direct_take(struct weft_exec_op *op, struct weft_flight *flight,
                     const struct weft_wire_device_offer *told)
{
    int status = reach(op, flight, told);
    if (status != WEFT_OK && status != WEFT_PROTOCOL && status != WEFT_PEER_FAILED) {
        weft_error_clear(); /* nothing has failed */
        flight->refuses = WEFT_REFUSAL_OWED;
        return WEFT_OK;
    }
    flight->token = told->offer.token;
    int guarded = find_guard(op, flight); /* who has given up may have freed the memory as well */
    if (guarded != WEFT_OK || status != WEFT_OK) {
        weft_direct_release(op, flight);
        return guarded != WEFT_OK ? guarded : status;
    }
    flight->have_token = flight->shared = 1;
    return WEFT_OK;
}

int weft_direct_refuse(struct weft_exec_op *op, struct weft_flight *flight)
{
    int status = weft_flight_send(op, flight, WEFT_WIRE_REFUSE, 0, 0, NULL, 0);
    if (status == WEFT_OK)
        flight->refuses = WEFT_REFUSAL_TOLD;
    else if (status == WEFT_AGAIN)
        weft_flight_block(op, flight);
    return status == WEFT_AGAIN ? WEFT_OK : status;
}

int weft_direct_decline(struct weft_exec_op *op, struct weft_flight *flight)
{
    if (!flight->shared || flight->done)
        return 0;
    weft_log_once(WEFT_LOG_INFO, "memory of rank %u's device is staged: %s", flight->rank,
                  weft_error_detail());
    weft_error_clear(); /* nothing has failed */
    weft_direct_release(op, flight);
    flight->mapped = NULL;
    flight->have_token = 0;
    flight->ready = 0;
    flight->visible = 0;
    flight->refuses = WEFT_REFUSAL_OWED;
    weft_flight_again(op, flight);
    return 1;
}

size_t weft_direct_limit(const struct weft_flight *flight)
{
    size_t ahead = flight->done + AHEAD_PIECES * weft_direct_piece(flight);
    return ahead < flight->visible ? ahead : flight->visible;
}

/* Queues copies to where the message belongs. */
static int place(struct weft_exec_op *op, struct weft_flight *flight, size_t offered)
{
    size_t limit = weft_flight_limit(op, flight), begin = flight->visible;
    limit = weft_slices_bytes(flight, weft_slices_within(flight, limit < offered ? limit : offered));
    size_t ahead = flight->done + AHEAD_PIECES * weft_direct_piece(flight);
    limit = ahead < limit ? ahead : limit;
    if (limit <= begin)
        return WEFT_OK;
    size_t left = limit - begin, piece = weft_direct_piece(flight);
    size_t size = left < piece ? left : piece;
    int status = weft_lane_copy(op->request.lane, flight->target + begin, flight->reach + begin, size);
    if (status == WEFT_UNSUPPORTED && !begin && weft_direct_decline(op, flight))
        return WEFT_OK;
    if (status != WEFT_OK)
        return status;
    op->exec->stats.bytes_direct += size;
    flight->visible = begin + size;
    weft_flight_wake(op, flight);
    if (flight->visible < limit) /* when others have had their turn, behind the lane's next mark */
        weft_flight_block(op, flight);
    return weft_device_note(op, flight, WEFT_LANE_CONSUMED, flight->visible);
}

int weft_direct_recv(struct weft_exec_op *op, struct weft_flight *flight)
{
    size_t offered = weft_slices_bytes(flight, flight->ready);
    int status = WEFT_OK;
    if (!flight->into_slot) {
        status = place(op, flight, offered);
    } else if (flight->visible < offered) {
        flight->visible = offered;
        weft_flight_wake(op, flight);
    }
    return status == WEFT_OK ? weft_recv_settle(op, flight) : status;
}

/* --- both */

/* The lane returns what it has borrowed when it ends. */
static void end_loan(struct weft_exec_op *op, struct weft_flight *flight)
{
    const struct weft_lane *lane = op->request.lane;
    char why[WEFT_DETAIL_MAX];
    if (flight->step.kind != WEFT_STEP_SEND) {
        if (op->phase != WEFT_PHASE_STOPPED)
            weft_loan_return(flight->loan);
    } else if (flight->done == flight->length) {
        weft_loan_close(flight->loan);
    } else {
        snprintf(why, sizeof why, "%s", weft_error_detail());
        if (weft_loan_recall(flight->loan, weft_device_recall_ms(op->exec)) != WEFT_OK)
            weft_log(
                WEFT_LOG_ERROR,
                "%s device %d: the device of rank %u may still read memory of a send that has failed: %s",
                weft_lane_kind(lane)->name, weft_lane_ordinal(lane), flight->rank, weft_error_detail());
        weft_error_set_detail(why);
    }
    flight->loan = 0;
}

void weft_direct_release(struct weft_exec_op *op, struct weft_flight *flight)
{
    const struct weft_exec_hooks *hooks = &op->exec->options.hooks;
    const struct weft_exec_peer *peer = &op->exec->peers[flight->rank];
    if (flight->step.kind == WEFT_STEP_SEND && flight->guard)
        hooks->buffer_put(hooks->arg, peer->transport, flight->guard, WEFT_WIRE_GUARD_BYTES);
    if (flight->import && op->phase == WEFT_PHASE_STOPPED) /* the device may read on */
        weft_lane_keep(op->request.lane, weft_share_release_kept, shares_of(op), 0, flight->import, 0);
    else if (flight->import)
        weft_share_release(shares_of(op), flight->import);
    if (flight->loan)
        end_loan(op, flight);
    flight->guard = NULL;
    flight->import = NULL;
    flight->shared = 0;
}
