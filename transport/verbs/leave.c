/* SPDX-License-Identifier: Apache-2.0 */
/* Links that nobody uses any more give their queue pairs back: an agreement of both ends, in frames on the link itself.
 *
 * When the last reference goes (verbs_disconnect()) the caller's communicators with this peer have ended here. The peer's
 * may not have: ranks leave a communicator one after the other, and one may be making the next already. So no end takes
 * queue pairs away that the other may be using; it says that it does not need them, and the last one that does says so, too.
 *
 *   RELEASE  "I do not use the link." Sent by an end without references when nothing of its own is in flight: no
 *            receive buffer, no put, no message from the peer that its caller has not consumed.
 *   PART     "Nor do I, and my queue pairs go." The answer of an end that does not use the link either. It is the last
 *            frame: the sender ends its queue pairs when the peer's device has acknowledged it, or when it would have
 *            after being sent a few times; the receiver when its caller has consumed all messages before it.
 *   KEEP     "I do again." For connect() after RELEASE, as it cannot know whether PART is on its way.
 *   KEPT     The answer to KEEP, from an end that has not parted.
 *
 * Why this is safe. Only PART ends anything; it takes a RELEASE that stands, and after RELEASE its sender neither sends nor
 * opens receive buffers nor puts before it knows that there is no PART: connect() after RELEASE sends KEEP, and the link
 * answers WEFT_AGAIN until KEPT or PART comes. A queue pair keeps the order, so of these two exactly one is the answer. If it
 * is PART, or if this end has sent PART itself, the link is made anew in place: other queue pairs, another generation, as with
 * a peer that was never met. Nothing of the caller's was on the old ones, so nothing is lost.
 *
 * Both at once. Two RELEASEs cross: each end sees that neither uses the link and parts; PARTs may cross as well. Two
 * KEEPs cross: each is answered KEPT.
 *
 * A peer that uses the link, or never looks, does not answer. Then the queue pairs stay, as it may have begun with another
 * communicator over them. Keys do not: RELEASE takes the right to write away from the queue pairs of its sender where
 * peers have keys of regions (no memory windows); KEPT gives it back, or connect() when RELEASE is no longer known to stand.
 *
 * KEEP has no time limit of its own: a peer that only looks late still uses its link. One whose queue pairs are gone does not
 * acknowledge KEEP, and then this end's fails like any other.
 *
 * Frames that are lost. The queue pair sends again what the network loses. If a queue pair fails meanwhile the link is over
 * for an end that has sent RELEASE, without anybody hearing of it: made anew if it was to be kept, given up otherwise, and the
 * peer is informed by an oob message (END). With failover the link gets a new round of queue pairs, on which RELEASE or KEEP
 * is said again; both may come twice, and what the peer has said before counts no more. An end that has parted takes part in
 * no more rounds, but for messages of its own that the peer has not consumed (replay.c); otherwise it answers END.
 *
 * Oob messages of the old generation find none, and are dropped or answered END, as after a failure. A half of a newer
 * generation says that the peer's queue pairs are gone: this end's go, too. When the instance closes it says BYE on links that
 * have not parted, and does not begin to leave any more.
 *
 * A link without queue pairs (PARKED) keeps its place in the table for the next connect() to that peer, so the table does not
 * grow with the number of communicators made.
 */
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "transport/verbs/failover.h"
#include "transport/verbs/verbs_private.h"

#define PART_NS    INT64_C(1000000000) /* at least */
#define PART_TIMES 5                   /* that PART is sent before its sender waits no more */

static void note(struct weft_link *link)
{
    link->leave_due = 1;
    link->transport->links_unused = 1;
}

/* Whether peers have keys of whole regions. */
static int are_keys_wide(const struct verbs_qp *qp)
{
    return qp->queues->rail->limits.memory_windows == 0;
}

static void keys_allow(struct weft_link *link, int allowed)
{
    link->is_fenced = (uint8_t)!allowed;
    for (uint32_t i = 0; i < link->qp_count; i++) {
        if (link->qps[i] && are_keys_wide(link->qps[i]))
            verbs_qp_fence(link->qps[i]);
    }
}

static int is_quiet(const struct weft_link *link)
{
    return !link->references && !link->pending && !link->unbound && !link->held &&
           link->expected == link->consumed && !verbs_rbufs_on(link) && !verbs_puts_on(link);
}

/* --- the end */

static void park(struct weft_link *link, int peer_knows)
{
    struct weft_transport *transport = link->transport;
    weft_log(WEFT_LOG_DEBUG, "verbs: a link that neither end uses gives back its queue pairs");
    transport->links_pending -= link->pending != 0;
    transport->links_connecting -= link->state == VERBS_LINK_CONNECTING;
    link->pending = 0;
    link->state = VERBS_LINK_PARKED;
    verbs_link_stop(link);
    if (!peer_knows)
        verbs_link_send_end(link);
    verbs_failover_free(link);
    verbs_rbufs_link_freed(link);
    link->has_agreed = (uint8_t)peer_knows;
    link->leave = VERBS_LEAVE_NONE;
    link->ready = link->peer_left = link->gone = link->keep_due = link->answer_due = link->is_fenced =
        link->held = 0;
    link->past_generation = link->peer_generation;
    link->leave_due = 0;
    if (link->references)
        note(link); /* made anew when no completion is being looked at */
}

int verbs_leave_failed(struct weft_link *link)
{
    if (link->leave == VERBS_LEAVE_NONE || link->transport->closing || link->transport->broken)
        return 0;
    if (link->expected == link->consumed)
        park(link, link->leave == VERBS_LEAVE_PARTED);
    else if (link->leave != VERBS_LEAVE_PARTED)
        return 0;
    return 1;
}

int verbs_leave_turns(struct weft_link *link)
{
    if (link->leave == VERBS_LEAVE_PARTING && link->sent != link->acked)
        return 0;
    return link->leave >= VERBS_LEAVE_PARTING && verbs_leave_failed(link);
}

/* --- what is sent */

/* How long PART may need to arrive: longer than until the adapter sends it again (4.096 us * 2^timeout). */
static int64_t part_wait_ns(const struct weft_link *link)
{
    int64_t wait_ns = PART_TIMES * (INT64_C(4096) << (link->transport->settings.timeout & 31));
    wait_ns = wait_ns > PART_NS ? wait_ns : PART_NS;
    return wait_ns < VERBS_CONNECT_NS ? wait_ns : VERBS_CONNECT_NS;
}

/* For an end without references. */
static void part_or_release(struct weft_link *link)
{
    int is_parting = link->peer_left;
    if ((!is_parting && link->leave == VERBS_LEAVE_RELEASED) ||
        !(link->peer_features & VERBS_FEATURE_LEAVE)) {
        link->leave_due = 0;
        return;
    }
    if (!is_quiet(link) ||
        verbs_frame_send(link, is_parting ? VERBS_PART : VERBS_RELEASE, link->sent, 0, 1) != WEFT_OK)
        return; /* soon */
    link->leave = is_parting ? VERBS_LEAVE_PARTING : VERBS_LEAVE_RELEASED;
    link->leave_due = (uint8_t)is_parting;
    link->part_ns = weft_clock_ns() + part_wait_ns(link);
    if (!is_parting && !link->is_fenced)
        keys_allow(link, 0);
}

static void step(struct weft_link *link)
{
    if (link->answer_due && verbs_frame_send(link, VERBS_KEPT, 0, 0, 0) == WEFT_OK)
        link->answer_due = 0;
    if (link->keep_due && verbs_frame_send(link, VERBS_KEEP, 0, 0, 0) == WEFT_OK)
        link->keep_due = 0;
    if (link->state != VERBS_LINK_UP || link->answer_due || link->keep_due)
        return;
    const struct verbs_qp *qp = link->qps[link->first];
    switch (link->leave) {
    case VERBS_LEAVE_PARTED:
        if (link->expected == link->consumed)
            park(link, 1);
        break;
    case VERBS_LEAVE_PARTING:
        if (qp->posted == qp->retired)
            park(link, 1);
        else if (weft_clock_ns() >= link->part_ns && (!link->failover || link->sent == link->acked))
            park(link, 0);
        break;
    case VERBS_LEAVE_ASKED:
        link->leave_due = 0; /* the answer says more */
        break;
    default:
        if (link->references)
            link->leave_due = 0;
        else
            part_or_release(link);
    }
}

void verbs_leave_drive(struct weft_transport *transport)
{
    transport->links_unused = 0;
    for (uint32_t i = 0; i < transport->links_count && !transport->closing; i++) {
        struct weft_link *link = transport->links[i];
        if (!link->leave_due)
            continue;
        if (link->state == VERBS_LINK_UP && !verbs_failover_is_turning(link))
            step(link);
        else if (link->state == VERBS_LINK_PARKED && link->references)
            verbs_link_reopen(link);
        else if (link->state != VERBS_LINK_CONNECTING)
            link->leave_due = 0;
        transport->links_unused |= link->leave_due && link->state == VERBS_LINK_UP;
    }
}

/* --- what happens */

void verbs_leave_unused(struct weft_link *link)
{
    note(link);
    if (link->state == VERBS_LINK_UP && !link->transport->closing)
        step(link); /* keys end now, whoever polls when */
}

void verbs_leave_used(struct weft_link *link)
{
    if (link->leave == VERBS_LEAVE_NONE && link->is_fenced)
        keys_allow(link, 1); /* a round has ended the RELEASE, and no other was sent yet */
    if (link->leave != VERBS_LEAVE_RELEASED)
        return;
    link->leave = VERBS_LEAVE_ASKED;
    link->keep_due = 1;
    note(link);
}

void verbs_leave_up(struct weft_link *link)
{
    link->peer_left = 0; /* the peer says it again, unless somebody there uses the link by now */
    if (link->leave == VERBS_LEAVE_RELEASED || link->leave == VERBS_LEAVE_PARTING) {
        link->leave = VERBS_LEAVE_NONE; /* what was said may be lost */
        link->leave_due = 1;
        if (link->references)
            keys_allow(link, 1);
    }
    link->keep_due |= link->leave == VERBS_LEAVE_ASKED;
    if (link->leave_due || link->keep_due)
        note(link);
}

void verbs_leave_receive(struct weft_link *link, enum verbs_frame_type type)
{
    int is_parting = link->leave == VERBS_LEAVE_PARTING;
    int is_expected = link->leave != VERBS_LEAVE_NONE || !link->references;
    if (type == VERBS_RELEASE) {
        link->peer_left = 1;
    } else if (type == VERBS_KEEP && !is_parting) {
        link->peer_left = 0;
        link->answer_due = 1;
    } else if (type == VERBS_KEPT && link->leave == VERBS_LEAVE_ASKED) {
        link->leave = VERBS_LEAVE_NONE;
        keys_allow(link, 1);
    } else if (type == VERBS_PART && link->transport->closing) {
        verbs_link_fail(link, WEFT_PEER_FAILED, "verbs: the peer has given up this link");
        return;
    } else if (type == VERBS_PART && is_expected) {
        link->leave = VERBS_LEAVE_PARTED;
    } else if (type == VERBS_PART) {
        verbs_link_fail(link, WEFT_PROTOCOL, "verbs: the peer gave up a link that is in use");
        return;
    }
    note(link);
}
