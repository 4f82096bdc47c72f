/* SPDX-License-Identifier: Apache-2.0 */
/* How far a rank may be ahead of another.
 *
 * A small message is done when it has been handed to the transport, so its sender may go on before the receiver has even
 * begun. Whoever is ahead makes others keep what they cannot use yet, and two bounds keep that small.
 *
 * Operations. The root of many broadcasts would be through with all of them before the others have begun. Who is asked
 * to keep messages for operations to come keeps WEFT_OPS_MAX operations' worth, so no rank sends more than that beyond
 * what it knows its peer to have begun. It knows from every message of the peer. Where those have stayed away for
 * ASK_AHEAD operations it asks, and goes on until the bound; the answer comes once the peer is near.
 *
 * Messages within one operation. Plans with loops have any number of steps: in a ring every rank sends 2(n - 1) messages
 * to the same neighbour. A rank has begun at most WEFT_EAGER_AHEAD = E eager messages of one operation to one peer that
 * it does not know to have been consumed whole, and of each it has sent at most WEFT_EAGER_SLICES slices that it does not
 * know to have been consumed. The peer says how many messages it has consumed after every E/4 (CONSUMED), and of a
 * message with more slices how many of them after every few (TAKEN). It says so only to who cannot have sent all yet: when it
 * wants a message that the bound holds back. Who has sent all may be gone. A SEND that meets a bound waits until it
 * hears so.
 *
 * Why nobody waits for ever. The verifier (algos/proof/verify.h) proves that the plans run to their end in a window of W steps
 * if every SEND stays in the window until it is consumed. Suppose that ours stand still, and let s be the first step in
 * the order of such a proven run that is not done here. All that came before s in that run is done here: both ends of s
 * are in their windows, and nothing but the bounds keeps s from being done. So it is an eager SEND, whose RECV is there
 * and consumes each slice when it comes.
 *   Its slices: all that were sent are consumed, so the peer has said so, or there are none left to send.
 *   The others: which eager messages to the same peer are not consumed? In the proven run all SENDs before the window
 * in which s was done were consumed then, and so they are here: that leaves W - 1 before s. After s only those in the
 * window here, which cannot pass s: another W - 1. And the peer, which wants s, may not have said of E/4 - 1 that it has
 * consumed. Together that is less than E (asserted below), so s may begin. It does not stand still.
 * This counts within one operation, because the proof does. Credit that later operations could take from an earlier one
 * would let a rank spend it on what its peer reaches only after the earlier one.
 *
 * A step that waits here is not looked at again before the message comes that it waits for. What this rank owes others
 * and cannot send, because the link is full, is paid by progress.
 */
#include "base/error.h"
#include "comm/exec/internal.h"

#define ASK_AHEAD      WEFT_CREDIT_ASK
#define ANSWER_AHEAD   (ASK_AHEAD / 2)
#define ANNOUNCE_AFTER (WEFT_EAGER_AHEAD / 4)

_Static_assert(2 * (WEFT_WINDOW_MAX - 1) + ANNOUNCE_AFTER - 1 < WEFT_EAGER_AHEAD,
               "the oldest SEND can go on");

static int announce(struct weft_exec *exec, uint32_t rank, enum weft_wire_kind kind, uint32_t op,
                    uint32_t message)
{
    struct weft_exec_peer *peer;
    int status = weft_exec_connect(exec, rank, &peer);
    if (status != WEFT_OK)
        return status;
    struct weft_wire_header header = {.comm = exec->options.id,
                                      .op = op,
                                      .source = exec->options.rank,
                                      .message = message,
                                      .kind = (uint8_t)kind,
                                      .version = WEFT_WIRE_VERSION};
    status = peer->ops->send(peer->link, &header, sizeof header, NULL, 0);
    if (status == WEFT_OK)
        exec->stats.messages++;
    else if (status != WEFT_AGAIN)
        status = weft_exec_unsent(exec, rank, &header, status);
    return status;
}

int weft_credit_inquire(struct weft_exec *exec, uint32_t rank, uint32_t op)
{
    struct weft_credit *credit = &exec->credits[rank];
    int status = credit->asked ? WEFT_OK : announce(exec, rank, WEFT_WIRE_ASK, op, 0);
    credit->asked |= status == WEFT_OK;
    return status;
}

int weft_credit_ask(struct weft_exec_op *op, struct weft_inflight *inflight)
{
    struct weft_credit *credit = &op->exec->credits[inflight->rank];
    int status = weft_credit_inquire(op->exec, inflight->rank, op->sequence);
    if (status != WEFT_OK && status != WEFT_AGAIN)
        return status;
    if ((int32_t)(op->sequence - credit->seen) <= WEFT_OPS_MAX)
        return WEFT_OK;
    if (credit->asked) {
        inflight->peer->waiting |= 1ULL << inflight->index;
        credit->awaited = 1;
    } else {
        weft_inflight_block(op, inflight);
    }
    return WEFT_AGAIN;
}

/* Steps may have ended meanwhile, or moved for other reasons. */
static void wake(struct weft_exec_op *op, struct weft_op_peer *peer)
{
    op->runnable |= peer->waiting & op->active;
    peer->waiting = 0;
}

void weft_credit_wake(struct weft_exec *exec, uint32_t rank)
{
    exec->credits[rank].awaited = 0;
    for (uint64_t mask = exec->running; mask; mask &= mask - 1) {
        struct weft_exec_op *op = exec->ops[__builtin_ctzll(mask)];
        if (op->by_rank[rank])
            wake(op, op->by_rank[rank]);
    }
}

int weft_eager_report(struct weft_exec_op *op, struct weft_op_peer *peer)
{
    if (peer->eager_consumed - peer->eager_reported < ANNOUNCE_AFTER)
        return WEFT_OK;
    int status = announce(op->exec, peer->rank, WEFT_WIRE_CONSUMED, op->sequence, peer->eager_consumed);
    if (status == WEFT_OK)
        peer->eager_reported = peer->eager_consumed;
    op->exec->reports_blocked |= status == WEFT_AGAIN;
    return status == WEFT_AGAIN ? WEFT_OK : status;
}

static int announce_all(struct weft_exec *exec)
{
    exec->reports_blocked = 0;
    for (uint64_t mask = exec->running; mask; mask &= mask - 1) {
        struct weft_exec_op *op = exec->ops[__builtin_ctzll(mask)];
        for (uint32_t i = 0; i < op->peer_count; i++) {
            struct weft_op_peer *peer = op->peers[i];
            int status = WEFT_OK;
            if (peer->eager_admitted - peer->eager_reported > WEFT_EAGER_AHEAD)
                status = weft_eager_report(op, peer);
            if (status != WEFT_OK)
                return status;
        }
    }
    return WEFT_OK;
}

int weft_credit_pay(struct weft_exec *exec)
{
    int status = exec->reports_blocked ? announce_all(exec) : WEFT_OK;
    exec->debts_blocked = 0;
    for (uint32_t r = 0; r < exec->options.ranks && exec->debts && status == WEFT_OK; r++) {
        struct weft_credit *credit = &exec->credits[r];
        uint32_t begun = exec->next_sequence - 1;
        if (!credit->owed || (int32_t)(begun - (credit->owed_op - ANSWER_AHEAD)) < 0)
            continue;
        status = announce(exec, r, WEFT_WIRE_CREDIT, begun, 0);
        exec->debts_blocked |= status == WEFT_AGAIN;
        if (status == WEFT_AGAIN) {
            status = WEFT_OK;
            continue;
        }
        credit->owed = 0;
        exec->debts--;
    }
    if (status == WEFT_OK && exec->collectives)
        status = exec->options.devices->pay(exec);
    return status;
}

static int take_consumed(struct weft_exec *exec, const struct weft_wire_header *header)
{
    struct weft_exec_op *op = exec->ops[header->op % WEFT_OPS_MAX];
    int running = op && op->sequence == header->op;
    struct weft_op_peer *peer = running ? op->by_rank[header->source] : NULL;
    uint32_t sent = peer ? peer->eager_sent : 0, known = peer ? peer->eager_known : 0;
    if (header->message - known - 1 >= sent - known)
        return weft_fail(
            WEFT_PROTOCOL,
            "rank %u has consumed %u messages of operation %u: expected more than %u and at most %u",
            header->source, header->message, header->op, known, sent);
    peer->eager_known = header->message;
    wake(op, peer);
    return WEFT_OK;
}

int weft_credit_message(struct weft_exec *exec, const struct weft_wire_header *header)
{
    struct weft_credit *credit = &exec->credits[header->source];
    int32_t ahead = (int32_t)(header->op - exec->next_sequence);
    if (header->size || ahead >= 4 * WEFT_OPS_MAX)
        return weft_fail(WEFT_PROTOCOL, "rank %u speaks of operation %u: expected none so far from %u",
                         header->source, header->op, exec->next_sequence);
    if (header->kind == WEFT_WIRE_CONSUMED)
        return take_consumed(exec, header);
    if (header->kind == WEFT_WIRE_CREDIT) {
        credit->asked = 0;
        weft_credit_seen(exec, header->source, header->op);
        if (credit->awaited) /* to ask again */
            weft_credit_wake(exec, header->source);
        return WEFT_OK;
    }
    exec->debts += !credit->owed;
    credit->owed = 1;
    credit->owed_op = header->op;
    return weft_credit_pay(exec);
}
