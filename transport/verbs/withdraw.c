/* SPDX-License-Identifier: Apache-2.0 */
/* Taking memory back: landings that peers may write into, and puts that read the caller's memory.
 *
 * Why no byte lands in a landing once unland() or recall_wait() has returned. There are two ways.
 *
 * By agreement. Once the peer may know the token (a message has been sent since it was made) a CANCEL frame asks for the
 * landing back. The peer notes that the landing is refused, so that put() finds it withdrawn, and then answers by a write
 * of no bytes with the landing's immediate and its highest bit set, on each of the landing's lanes. It is posted after
 * whatever the peer has put there before, and entries of one connection complete in their order at the target: when the
 * answer's completion is read here, everything before it on that lane is in place, and nothing comes after it. A frame, on
 * the messages' lane, could not say that of others, nor of what an adapter still has to write. A lane whose part has
 * arrived needs no answer: there is one put into each landing. When every lane has one or the other, the windows are
 * invalidated, too, and their completions awaited, so that a peer that breaks the rules cannot reach the memory either: it
 * loses the link if it tries.
 *
 * How long a caller keeps a token that was withdrawn is not known here. So a refusal is for good: the peer notes
 * each slot and generation that it was asked not to put into, a bit each, and the slot skips these generations when they
 * would come again (a slot whose generations are used up is not used any more).
 *
 * By force, for a peer that has not answered within RECALL_NS (it was stopped, its machine is gone, or the network is
 * broken), or whose link has failed. The link fails, and with it everything under way on it: its queue pairs go to the
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
 * reads the source; what the peer has of the put lacks at least one immediate, so its landing is never filled.
 *
 * Without windows (WEFT_VERBS_WINDOWS=0, or a device that has none) all of this holds for peers that keep to the rules. What
 * such a peer's key opens is the whole region for as long as it is registered and the link stands.
 */
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/error.h"
#include "transport/verbs/landing.h"

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
        uint32_t lanes; /* that have yet to be answered on */
    } * answers;
    uint32_t answers_count, answers_capacity;
};

int verbs_landing_is_quiet(const struct verbs_landing *landing)
{
    return !landing->known || (landing->arrived | landing->ended) == landing->lanes ||
           landing->link->state == VERBS_LINK_FAILED;
}

static void landing_recall(struct verbs_landing *landing)
{
    struct weft_link *link = landing->link;
    landing->state = VERBS_LANDING_WITHDRAWN;
    landing->known = link->sent != landing->sent_at || landing->told;
    landing->recalled = 1;
    if (!verbs_landing_is_quiet(landing)) {
        landing->cancel_due = 1;
        verbs_link_want(link, VERBS_PENDING_CANCEL);
        return;
    }
    verbs_landing_close(landing, landing->lanes);
    verbs_landing_release(landing);
}

int verbs_recall(struct weft_link *link, const struct weft_token *bytes, uint64_t cookie)
{
    struct weft_transport *transport = link->transport;
    transport->landings->recalling = 1; /* also for what has gone with a link that failed: is it dead? */
    if (!bytes) {
        verbs_put_recall(link, cookie);
        return WEFT_OK;
    }
    struct verbs_token token;
    memcpy(&token, bytes, sizeof token);
    struct verbs_landing *landing = verbs_landing_find(transport, token.immediate);
    if (!landing || landing->link != link || token.immediate >> 28)
        return WEFT_OK;
    if (landing->state == VERBS_LANDING_FILLED) {
        landing->recalled = 1; /* for its windows */
        if (landing->telling)
            landing->notice.withdrawn = 1;
    } else if (landing->state == VERBS_LANDING_OPEN) {
        landing_recall(landing);
    }
    return WEFT_OK;
}

void verbs_unland(struct weft_link *link, const struct weft_token *token)
{
    verbs_recall(link, token, 0);
    verbs_recall_wait(link->transport);
}

/* Whether something that was recalled on the link can still move. */
static int is_unsettled(const struct weft_link *link)
{
    const struct verbs_landings *landings = link->transport->landings;
    for (uint32_t i = 0; i < landings->count; i++) {
        const struct verbs_landing *landing = landings->slots[i];
        if (landing->link == link && landing->recalled &&
            (landing->bound ||
             (landing->state == VERBS_LANDING_WITHDRAWN && !verbs_landing_is_quiet(landing))))
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
    struct verbs_landings *landings = transport->landings;
    int64_t start_ns = weft_clock_ns();
    landings->linger_ns = start_ns + LINGER_NS; /* with nothing of our own to recall, too */
    if (!landings->recalling)
        return;
    landings->recalling = 0;
    for (uint32_t i = 0; i < transport->links_count; i++)
        transport->links[i]->heard = 0;
    verbs_links_flush(transport);
    for (int turns = 1; links_settle(transport, weft_clock_ns() - start_ns); turns++) {
        verbs_landings_poll(transport);
        verbs_progress(transport);
        if (turns % 64 == 0)
            sched_yield();
    }
}

int verbs_withdraw_busy(const struct weft_transport *transport)
{
    struct verbs_landings *landings = transport->landings;
    if (landings->linger_ns && weft_clock_ns() >= landings->linger_ns)
        landings->linger_ns = 0; /* looked at often: no more reading of clocks */
    return verbs_landings_are_due(landings) || landings->linger_ns;
}

int verbs_cancels_send(struct weft_link *link)
{
    const struct verbs_landings *landings = link->transport->landings;
    for (uint32_t i = 0; i < landings->count; i++) {
        struct verbs_landing *landing = landings->slots[i];
        if (landing->state != VERBS_LANDING_WITHDRAWN || landing->link != link || !landing->cancel_due)
            continue;
        if (!verbs_landing_is_quiet(landing)) {
            int status = link->cancels < VERBS_CANCELS
                             ? verbs_frame_send(link, VERBS_CANCEL, verbs_landing_immediate(landing),
                                                landing->lanes, 0)
                             : WEFT_AGAIN;
            if (status)
                return status;
            verbs_slot_refused(landing);
            landing->asked = 1;
            link->cancels++;
        }
        landing->cancel_due = 0;
        verbs_landing_release(landing);
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

static int answer_note(struct verbs_refusals *refusals, uint32_t immediate, uint32_t lanes)
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
    refusals->answers[refusals->answers_count++] = (struct verbs_answer){immediate, lanes};
    return WEFT_OK;
}

void verbs_cancel_receive(struct weft_link *link, uint32_t immediate, uint16_t lanes)
{
    link->heard = 1;
    if (immediate >> 28 || !lanes || lanes & ~(uint32_t)link->live) {
        verbs_link_fail(link, WEFT_PROTOCOL, "verbs: the peer withdrew a landing on lanes %#x of %u", lanes,
                        link->lanes_count);
        return;
    }
    if (!link->refusals)
        link->refusals = calloc(1, sizeof *link->refusals);
    int status = link->refusals ? refuse(link->refusals, immediate) : WEFT_NOMEM;
    if (!status)
        status = answer_note(link->refusals, immediate, lanes);
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
        while (answer->lanes) {
            struct verbs_lane *lane = link->lanes[__builtin_ctz(answer->lanes)];
            int status = verbs_immediate_send(lane, answer->immediate | VERBS_IMMEDIATE_END);
            if (status)
                return status;
            answer->lanes &= answer->lanes - 1;
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

void verbs_landings_link_freed(struct weft_link *link)
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
