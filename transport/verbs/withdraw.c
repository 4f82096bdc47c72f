/* SPDX-License-Identifier: Apache-2.0 */
/* Taking memory back: receive buffers that peers may write into, and puts that read the caller's memory.
 *
 * Why no byte is written into a receive buffer once withdraw() or recall_wait() has returned. There are two ways.
 *
 * By agreement. Once the peer may know the token (a message has been sent since it was made) a CANCEL frame asks for the
 * receive buffer back. The peer notes that the receive buffer is refused, so that put() finds it withdrawn, and then answers
 * by a write of no bytes with the receive buffer's immediate and its highest bit set, on each of the receive buffer's queue
 * pairs. It is posted after whatever the peer has put there before, and entries of one connection complete in their order at
 * the target: when the answer's completion is read here, everything before it on that queue pair is in place, and nothing
 * comes after it. A frame, on the messages' queue pair, could not say that of others, nor of what an adapter still has to
 * write. A queue pair whose part has arrived needs no answer: there is one put into each receive buffer. When every queue
 * pair has one or the other, the windows are invalidated, too, and their completions awaited, so that a peer that breaks the
 * rules cannot reach the memory either: it loses the link if it tries.
 *
 * How long a caller keeps a token that was withdrawn is not known here. So a refusal is for good: the peer notes
 * each slot and generation that it was asked not to put into, a bit each, and the slot skips these generations when they
 * would come again (a slot whose generations are used up is not used any more).
 *
 * By force, for a peer that has not answered within RECALL_NS (it was stopped, its machine is gone, or the network is
 * broken), or whose link has failed. The link fails, and with it everything in flight on it: its queue pairs go to the
 * error state, in which they drop what arrives, its windows are freed, and its queue pairs are reset. When resetting a
 * queue pair has returned, the adapter takes nothing for it any more, and is done with what it was working on for it
 * (destroying one begins with that; the rest may take seconds, queue.c); in the error state alone, rxe may still be copying
 * the packet that it has begun with. Only the link to this peer fails. No answer of the peer, and no packet from it, is
 * needed for that.
 *
 * The order matters: windows before queue pairs. A bound window holds its queue pair in rxe, and destroying
 * that would block for a minute.
 *
 * Invalidating windows without asking first would be simpler, and is what a peer deserves that does not answer.
 * But a write through a key that is no more ends the connection on both sides (IB specification 1.4, 9.7.5.2.4, NAK for
 * remote access errors): one cancelled receive whose put is on its way would cost the link, and every communicator on it.
 *
 * A put that is recalled is not stopped: it ends when the peer's adapter has acknowledged it, which needs no help of the
 * peer's processor; and if that does not happen in time, by force as above. The queue pair is reset then, so nothing
 * reads the source; what the peer has of the put lacks at least one immediate, so its receive buffer is never filled.
 *
 * Without windows (WEFT_VERBS_WINDOWS=0, or a device that has none) all of this holds for peers that keep to the rules. What
 * such a peer's key opens is the whole region for as long as it is registered and the link stands.
 */
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/error.h"
#include "transport/verbs/rbuf.h"

#define RECALL_NS      INT64_C(800000000)  /* for peers that say nothing */
#define RECALL_SLOW_NS INT64_C(1200000000) /* and for those that are heard, but slow */
#define LINGER_NS      INT64_C(1000000000) /* so long after a recall peers may still ask */

_Static_assert(RECALL_SLOW_NS < WEFT_RECALL_MS * INT64_C(1000000), "what transport.h promises");

/* What a link's peer has asked back. */
struct verbs_refusals {
    uint64_t **slots; /* bits of the generations withdrawn there; NULL: none */
    uint32_t slots_count;
    struct verbs_answer {
        uint32_t immediate;
        uint32_t qps; /* that have yet to be answered on */
    } * answers;
    uint32_t answers_count, answers_capacity;
};

int verbs_rbuf_is_quiet(const struct verbs_rbuf *rbuf)
{
    return !rbuf->known || (rbuf->arrived | rbuf->ended) == rbuf->qps ||
           rbuf->link->state == VERBS_LINK_FAILED;
}

static void rbuf_recall(struct verbs_rbuf *rbuf)
{
    struct weft_link *link = rbuf->link;
    rbuf->state = VERBS_RBUF_WITHDRAWN;
    rbuf->known = link->sent != rbuf->sent_at || rbuf->announced;
    rbuf->recalled = 1;
    if (!verbs_rbuf_is_quiet(rbuf)) {
        rbuf->cancel_due = 1;
        verbs_link_want(link, VERBS_PENDING_CANCEL);
        return;
    }
    verbs_rbuf_close(rbuf, rbuf->qps);
    verbs_rbuf_release(rbuf);
}

int verbs_recall(struct weft_link *link, const struct weft_token *bytes, uint64_t cookie)
{
    struct weft_transport *transport = link->transport;
    transport->rbufs->recalling = 1; /* also for what has gone with a link that failed: is it dead? */
    if (!bytes) {
        verbs_put_recall(link, cookie);
        return WEFT_OK;
    }
    struct verbs_token token;
    memcpy(&token, bytes, sizeof token);
    struct verbs_rbuf *rbuf = verbs_rbuf_find(transport, token.immediate);
    if (!rbuf || rbuf->link != link || token.immediate >> 28)
        return WEFT_OK;
    if (rbuf->state == VERBS_RBUF_FILLED) {
        rbuf->recalled = 1; /* for its windows */
        if (rbuf->reporting)
            rbuf->notice.withdrawn = 1;
    } else if (rbuf->state == VERBS_RBUF_OPEN) {
        rbuf_recall(rbuf);
    }
    return WEFT_OK;
}

void verbs_withdraw(struct weft_link *link, const struct weft_token *token)
{
    verbs_recall(link, token, 0);
    verbs_recall_wait(link->transport);
}

/* Whether something that was recalled on the link can still move. */
static int is_unsettled(const struct weft_link *link)
{
    const struct verbs_rbufs *rbufs = link->transport->rbufs;
    for (uint32_t i = 0; i < rbufs->count; i++) {
        const struct verbs_rbuf *rbuf = rbufs->slots[i];
        if (rbuf->link == link && rbuf->recalled &&
            (rbuf->bound || (rbuf->state == VERBS_RBUF_WITHDRAWN && !verbs_rbuf_is_quiet(rbuf))))
            return 1;
    }
    return verbs_put_is_recalled(link);
}

/* Ends by force what has not ended by itself; returns whether anything is left. */
static int links_settle(struct weft_transport *transport, int64_t waited_ns)
{
    int left = 0;
    for (uint32_t i = 0; i < transport->links_count; i++) {
        struct weft_link *link = transport->links[i];
        if (link->state != VERBS_LINK_FAILED) {
            if (!is_unsettled(link))
                continue;
            if (waited_ns < (link->heard ? RECALL_SLOW_NS : RECALL_NS)) {
                left = 1;
                continue;
            }
            verbs_link_fail(link, WEFT_PEER_FAILED, "verbs: the peer did not answer that it puts no more");
        }
        if (!verbs_link_is_dead(link))
            verbs_link_cut(link);
    }
    return left;
}

void verbs_recall_wait(struct weft_transport *transport)
{
    struct verbs_rbufs *rbufs = transport->rbufs;
    int64_t start_ns = weft_clock_ns();
    rbufs->linger_ns = start_ns + LINGER_NS; /* with nothing of our own to recall, too */
    if (!rbufs->recalling)
        return;
    rbufs->recalling = 0;
    for (uint32_t i = 0; i < transport->links_count; i++)
        transport->links[i]->heard = 0;
    verbs_links_flush(transport);
    for (int turns = 1; links_settle(transport, weft_clock_ns() - start_ns); turns++) {
        verbs_rbufs_poll(transport);
        verbs_progress(transport);
        if (turns % 64 == 0)
            sched_yield();
    }
}

int verbs_withdraw_busy(const struct weft_transport *transport)
{
    struct verbs_rbufs *rbufs = transport->rbufs;
    if (rbufs->linger_ns && weft_clock_ns() >= rbufs->linger_ns)
        rbufs->linger_ns = 0; /* looked at often: no more reading of clocks */
    return verbs_rbufs_are_due(rbufs) || rbufs->linger_ns;
}

int verbs_cancels_send(struct weft_link *link)
{
    const struct verbs_rbufs *rbufs = link->transport->rbufs;
    for (uint32_t i = 0; i < rbufs->count; i++) {
        struct verbs_rbuf *rbuf = rbufs->slots[i];
        if (rbuf->state != VERBS_RBUF_WITHDRAWN || rbuf->link != link || !rbuf->cancel_due)
            continue;
        if (!verbs_rbuf_is_quiet(rbuf)) {
            int status = link->cancels < VERBS_CANCELS
                             ? verbs_frame_send(link, VERBS_CANCEL, verbs_rbuf_immediate(rbuf), rbuf->qps, 0)
                             : WEFT_AGAIN;
            if (status)
                return status;
            verbs_slot_refused(rbuf);
            rbuf->asked = 1;
            link->cancels++;
        }
        rbuf->cancel_due = 0;
        verbs_rbuf_release(rbuf);
    }
    return WEFT_OK;
}

static int refuse(struct verbs_refusals *refusals, uint32_t immediate)
{
    uint32_t slot = immediate & (VERBS_SLOTS - 1);
    if (slot >= refusals->slots_count) {
        uint32_t count = (slot | 63) + 1;
        uint64_t **slots = realloc(refusals->slots, count * sizeof(*slots));
        if (!slots)
            return WEFT_NOMEM;
        memset(slots + refusals->slots_count, 0, (count - refusals->slots_count) * sizeof(*slots));
        refusals->slots = slots;
        refusals->slots_count = count;
    }
    if (!refusals->slots[slot])
        refusals->slots[slot] = calloc(VERBS_GENERATION_WORDS, sizeof **refusals->slots);
    if (!refusals->slots[slot])
        return WEFT_NOMEM;
    verbs_generation_set(refusals->slots[slot], immediate >> 16 & VERBS_GENERATION_MASK);
    return WEFT_OK;
}

static int answer_note(struct verbs_refusals *refusals, uint32_t immediate, uint32_t qps)
{
    if (refusals->answers_count == VERBS_SLOTS)
        return WEFT_PROTOCOL; /* more than it can have */
    if (refusals->answers_count == refusals->answers_capacity) {
        uint32_t capacity = refusals->answers_capacity ? refusals->answers_capacity * 2 : 16;
        struct verbs_answer *answers = realloc(refusals->answers, capacity * sizeof *answers);
        if (!answers)
            return WEFT_NOMEM;
        refusals->answers = answers;
        refusals->answers_capacity = capacity;
    }
    refusals->answers[refusals->answers_count++] = (struct verbs_answer){immediate, qps};
    return WEFT_OK;
}

void verbs_cancel_receive(struct weft_link *link, uint32_t immediate, uint16_t qps)
{
    link->heard = 1;
    if (immediate >> 28 || !qps || qps & ~(uint32_t)link->live) {
        verbs_link_fail(link, WEFT_PROTOCOL,
                        "verbs: the peer withdrew a receive buffer on queue pairs %#x of %u", qps,
                        link->qp_count);
        return;
    }
    if (!link->refusals)
        link->refusals = calloc(1, sizeof *link->refusals);
    int status = link->refusals ? refuse(link->refusals, immediate) : WEFT_NOMEM;
    if (!status)
        status = answer_note(link->refusals, immediate, qps);
    if (status)
        verbs_link_fail(link, status, "verbs: the peer's withdrawals cannot be noted");
    else
        verbs_link_want(link, VERBS_PENDING_ANSWER);
}

int verbs_answers_send(struct weft_link *link)
{
    struct verbs_refusals *refusals = link->refusals;
    while (refusals && refusals->answers_count) {
        struct verbs_answer *answer = &refusals->answers[refusals->answers_count - 1];
        while (answer->qps) {
            struct verbs_qp *qp = link->qps[__builtin_ctz(answer->qps)];
            int status = verbs_immediate_send(qp, answer->immediate | VERBS_IMMEDIATE_END);
            if (status)
                return status;
            answer->qps &= answer->qps - 1;
        }
        refusals->answers_count--;
    }
    return WEFT_OK;
}

void verbs_answers_forget(struct weft_link *link)
{
    if (link->refusals)
        link->refusals->answers_count = 0;
}

int verbs_is_refused(const struct weft_link *link, uint32_t immediate)
{
    const struct verbs_refusals *refusals = link->refusals;
    uint32_t slot = immediate & (VERBS_SLOTS - 1);
    return refusals && slot < refusals->slots_count &&
           verbs_generation_is(refusals->slots[slot], immediate >> 16 & VERBS_GENERATION_MASK);
}

void verbs_rbufs_link_freed(struct weft_link *link)
{
    if (!link->refusals)
        return;
    for (uint32_t i = 0; i < link->refusals->slots_count; i++)
        free(link->refusals->slots[i]);
    free(link->refusals->slots);
    free(link->refusals->answers);
    free(link->refusals);
    link->refusals = NULL;
}
