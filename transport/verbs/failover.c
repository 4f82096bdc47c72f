/* SPDX-License-Identifier: Apache-2.0 */
/* Rails that go down and come back (WEFT_VERBS_FAILOVER).
 *
 * A link uses a queue pair per pair of ports. Without failover a queue pair that fails takes the link along. With it, the
 * link gets new queue pairs over the rails that are left, and what the failure swallowed is sent again.
 *
 * Rounds. A link has rounds of queue pairs, numbered from 0. Whoever finds that a queue pair does not work (a completion
 * with an error, a port that its device reports down), or may work again, ends the round for the whole link, in this order:
 *
 *   1. all its queue pairs of the round go to the error state, those of healthy rails too;
 *   2. what was posted comes back, the devices report that their queue pairs are done with what has arrived ("last
 *      request reached"; those that do not get 20 ms), and the completion queues are read until they are empty: what had
 *      arrived counts;
 *   3. the memory windows of its receive buffers are freed, and then the queue pairs are reset (and destroyed later,
 *      queue.c);
 *   4. it makes new queue pairs over the rails whose ports are active, and announces them by oob message (oob.h) with
 *      the next round's number. That message is the confirmation that 1 to 3 are done here. It says as well which message
 *      is the next to arrive (`expected`), and how many have been consumed.
 *
 * A peer that hears of a later round than its own does 1 to 4 for that round. When the other's half of the same round has
 * come, queue pairs that both ends have are connected, the others are given up; `heard` in the oob messages is about this
 * round then. A half of an earlier round is old and is dropped; halves are repeated as at first, so one that is lost
 * comes again. When the peer is known to be connected, the link goes on (replay.c): the
 * keys of receive buffers that are still open, then messages from the peer's `expected` on, then puts to those receive
 * buffers.
 *
 * Oob messages travel over the bootstrap's overlay, not over a queue pair: so the confirmation gets through when no queue
 * pair works, the end that sees the failure second needs no other signal, and there is one procedure, not one for each set
 * of queue pairs. Healthy queue pairs are taken down along with the failed one: what was on them is sent again, too, which
 * costs some milliseconds per failure. In return no message, credit or key of one round meets one of another.
 *
 * Why no byte is lost. A message is kept (a copy) until the peer says that its caller has consumed it; the window of
 * messages bounds the copies. A put keeps its source until it ends, and it ends well in two cases: the peer's adapter has
 * acknowledged it, or the peer has named all receive buffers that are still open and its own is not among them. An adapter
 * acknowledges what it has put into the completion queue, which is read to its end in step 2. If a peer names a receive
 * buffer whose put was acknowledged nevertheless, the link fails: an error instead of a wait for ever.
 *
 * Why nothing is delivered twice, and messages keep their order. `expected` is taken after step 3, when nothing can arrive
 * any more; the sender goes on with exactly that number, on one new queue pair, and sends nothing new before. The receiver
 * takes no other number than the expected one. A put is written again as a whole only into a receive buffer that is still
 * open, and a receive buffer is filled once, when all parts of one round have arrived.
 *
 * Why no late write reaches reused memory. Memory is reused when its receive buffer was filled, or taken back. Filled:
 * every part's immediate had come, behind all its bytes; the adapter does not carry out a packet that comes twice. Taken
 * back, or written anew: by then the old queue pairs at this end are reset, after which the adapter takes nothing for them
 * any more (in the error state alone one may still be copying a packet); the keys went before them. What is still in the
 * network finds no queue pair that would take it. The peer learns a new key only after that, and from nobody but this end.
 * Without windows the key stays as it was, and the queue pairs alone keep old writes out.
 *
 * Both ends at once, and failures meanwhile. If both end the round they name the same next one, and meet. Each offers the
 * queue pairs that it believes in; those of both are used. If there are none (each sees another rail down), or a queue pair
 * fails before the link is up, the round ends like any other. The link is given 10 s from the moment that it was last up.
 * When all rails are down, or the peer does not answer, it fails after that, and says how it began.
 *
 * Coming back. A port that is reported active again begins a round RESTORE_NS later, so that one that flaps is
 * taken once. A queue pair that failed while its port seemed all right (a switch, the other end's cable) is left
 * out for a second, twice as long each time it happens again.
 *
 * What another rail cannot help is an error as without failover: a peer that breaks rules, keys that are
 * refused. Nor is an error that comes back at once: after BARREN_MAX in a row with nothing moved the link fails.
 */
#include "transport/verbs/failover.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weft/weft.h>
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"

#define RESTORE_NS INT64_C(50000000)
#define BAN_NS     INT64_C(1000000000)
#define BAN_MAX_NS INT64_C(1024000000000)
#define BAN_FORGET 16 /* times its length after it began it is as if it had never been */
#define OOB_NS     INT64_C(20000000)
#define DRAIN_NS   INT64_C(20000000) /* for what had arrived to complete */
#define ROUNDS_MAX 0x10000           /* that a peer may be ahead */
#define BARREN_MAX 8

int verbs_failover_make(struct weft_link *link)
{
    if (!link->transport->settings.failover || link->failover)
        return WEFT_OK;
    struct verbs_failover *failover = calloc(1, sizeof *failover);
    if (failover)
        failover->kept = calloc(VERBS_KEPT_MAX, sizeof *failover->kept);
    if (!failover || !failover->kept) {
        free(failover);
        return weft_fail(WEFT_NOMEM, "verbs: no memory for messages that are kept");
    }
    failover->keys_known = failover->keys_sent = 1;
    failover->expected = failover->consumed = failover->replay = VERBS_FIRST_SEQUENCE;
    if (link->peer_window > VERBS_KEPT_MAX)
        link->peer_window = VERBS_KEPT_MAX;
    link->failover = failover;
    return WEFT_OK;
}

void verbs_failover_free(struct weft_link *link)
{
    struct verbs_failover *failover = link->failover;
    if (!failover)
        return;
    for (int i = 0; i < VERBS_KEPT_MAX; i++)
        free(failover->kept[i].bytes);
    free(failover->kept);
    free(failover->renewals);
    free(failover);
    link->failover = NULL;
}

/* What a broken cable, a switch or a sick adapter leads to; not what a peer or a program does. Soft-RoCE and some
 * adapters report local failures as flushed. */
int verbs_failover_helps(int status)
{
    switch (status) {
    case IBV_WC_LOC_QP_OP_ERR:
    case IBV_WC_WR_FLUSH_ERR:
    case IBV_WC_RETRY_EXC_ERR:
    case IBV_WC_REM_ABORT_ERR:
    case IBV_WC_FATAL_ERR:
    case IBV_WC_RESP_TIMEOUT_ERR:
    case IBV_WC_GENERAL_ERR:
        return 1;
    default:
        return 0;
    }
}

/* --- ending a round */

/* Step 1: the link is not up, and its queue pairs stop. The next round is at least this one. */
static void round_end(struct weft_link *link, uint32_t round, const char *why)
{
    struct verbs_failover *failover = link->failover;
    struct weft_transport *transport = link->transport;
    if (verbs_leave_turns(link))
        return;
    if (link->state == VERBS_LINK_UP) {
        link->state = VERBS_LINK_CONNECTING;
        transport->links_connecting++;
        transport->links_pending -= link->pending != 0;
        link->pending = 0;
        link->deadline_ns = weft_clock_ns() + VERBS_CONNECT_NS;
        failover->why[0] = '\0';
    }
    if (!failover->why[0])
        snprintf(failover->why, sizeof failover->why, "%s", why);
    link->held = 1;
    if (round > failover->next_round)
        failover->next_round = round;
    if (failover->turn == VERBS_TURN_STOPPED)
        return;
    weft_log(WEFT_LOG_INFO, "verbs: round %u of queue pairs to a peer: %s", failover->next_round, why);
    verbs_qps_stop(link);
    failover->turn = VERBS_TURN_STOPPED;
    failover->stopped_ns = weft_clock_ns();
    transport->links_turning++;
}

/* Errors that come back at once are not the rail's. */
static int is_barren(struct weft_link *link)
{
    struct verbs_failover *failover = link->failover;
    uint32_t mark = link->acked + link->expected + failover->moved;
    failover->barren = mark == failover->mark ? failover->barren + 1 : 0;
    failover->mark = mark;
    return failover->barren >= BARREN_MAX;
}

/* Leaves out the queue pairs of a pair of ports: all of them, as they most likely share what is broken. Longer each time,
 * unless they have worked for a good while. */
static void ban(struct weft_link *link, const struct verbs_pair *pair)
{
    struct verbs_failover *failover = link->failover;
    struct verbs_pair pairs[VERBS_PAIRS];
    int count = verbs_link_pairs(link, pairs);
    int64_t now_ns = weft_clock_ns();
    for (uint32_t i = 0; i < link->qp_count; i++) {
        struct verbs_ban *ban = &failover->bans[i];
        const struct verbs_pair *own = &pairs[i % (uint32_t)count];
        if (own->mine != pair->mine || own->theirs != pair->theirs)
            continue;
        int is_new = !ban->length_ns || now_ns - ban->failed_ns > BAN_FORGET * ban->length_ns;
        ban->length_ns = is_new ? BAN_NS : ban->length_ns < BAN_MAX_NS ? ban->length_ns * 2 : BAN_MAX_NS;
        ban->failed_ns = now_ns;
        ban->until_ns = now_ns + ban->length_ns;
    }
}

/* Queue pairs of these bits are tried sooner: there are no others. */
static void bans_shorten(struct weft_link *link, uint32_t qps)
{
    struct verbs_failover *failover = link->failover;
    for (; qps; qps &= qps - 1) {
        struct verbs_ban *ban = &failover->bans[__builtin_ctz(qps)];
        if (ban->until_ns > ban->failed_ns + BAN_NS)
            ban->until_ns = ban->failed_ns + BAN_NS;
    }
}

void verbs_qp_trouble(struct verbs_qp *qp, int status, const char *format, ...)
{
    struct weft_link *link = qp->link;
    struct verbs_failover *failover = link->failover;
    struct verbs_rail *rail = qp->queues->rail;
    char why[sizeof link->why];
    va_list args;
    va_start(args, format);
    vsnprintf(why, sizeof why, format, args);
    va_end(args);
    if (link->state == VERBS_LINK_FAILED)
        return;
    if (!failover || link->transport->broken || is_barren(link)) {
        verbs_link_fail(link, status, "%s", why);
        return;
    }
    verbs_rail_refresh(rail);
    if (rail->state == IBV_PORT_ACTIVE) /* else its return is reported */
        ban(link, &qp->pair);
    round_end(link, link->round + 1, why);
}

void verbs_failover_port(struct weft_transport *transport, const struct verbs_rail *rail, int is_up)
{
    struct verbs_pair pairs[VERBS_PAIRS];
    for (uint32_t i = 0; i < transport->links_count; i++) {
        struct weft_link *link = transport->links[i];
        struct verbs_failover *failover = link->failover;
        if (!failover || link->state == VERBS_LINK_FAILED)
            continue;
        int count = verbs_link_pairs(link, pairs), is_used = 0, is_missing = 0;
        for (uint32_t k = 0; k < link->qp_count && count; k++) {
            int is_rails = pairs[k % (uint32_t)count].mine == rail->number;
            is_used |= is_rails && link->qps[k];
            is_missing |= is_rails && !link->qps[k];
            if (is_rails && is_up)
                failover->bans[k] = (struct verbs_ban){0};
        }
        char why[sizeof failover->why];
        snprintf(why, sizeof why, "%s port %d is %s", rail->device, rail->port.number, is_up ? "up" : "down");
        if (is_used && !is_up)
            round_end(link, link->round + 1, why);
        else if (is_missing && is_up)
            failover->restore_ns = weft_clock_ns() + RESTORE_NS;
    }
}

void verbs_failover_look(struct weft_link *link)
{
    for (uint32_t i = 0; link->failover && i < link->qp_count; i++) {
        const struct verbs_qp *qp = link->qps[i];
        const struct verbs_rail *rail = qp ? qp->queues->rail : NULL;
        if (!rail || rail->state == IBV_PORT_ACTIVE)
            continue;
        char why[sizeof link->failover->why];
        snprintf(why, sizeof why, "%s port %d is down", rail->device, rail->port.number);
        round_end(link, link->round + 1, why);
    }
}

void verbs_failover_tick(struct weft_transport *transport, int64_t now_ns)
{
    if (!transport->settings.failover)
        return;
    for (uint32_t i = 0; i < transport->links_count; i++) {
        struct weft_link *link = transport->links[i];
        struct verbs_failover *failover = link->failover;
        if (!failover || link->state == VERBS_LINK_FAILED || !failover->restore_ns ||
            now_ns < failover->restore_ns)
            continue;
        failover->restore_ns = 0;
        round_end(link, link->round + 1, "rails may be back");
    }
}

void verbs_failover_late(struct weft_link *link)
{
    verbs_link_fail(link, WEFT_TRANSPORT, "%s; no other rail took its place within %d s: the peer %s",
                    link->failover->why, (int)(VERBS_CONNECT_NS / 1000000000),
                    link->live ? "has not answered" : "and this side have no pair of ports left that work");
}

void verbs_failover_link_failed(struct weft_link *link)
{
    struct verbs_failover *failover = link->failover;
    if (!failover)
        return;
    if (failover->turn == VERBS_TURN_STOPPED)
        link->transport->links_turning--;
    failover->turn = VERBS_TURN_NONE;
    verbs_puts_link_failed(link);
}

/* --- beginning the next one */

static void restore_by(struct verbs_failover *failover, int64_t time_ns)
{
    if (!failover->restore_ns || time_ns < failover->restore_ns)
        failover->restore_ns = time_ns;
}

/* Bits of the queue pairs that may be tried now; the others have their time. */
static uint32_t qps_allowed(const struct weft_link *link, uint32_t qps)
{
    int64_t now_ns = weft_clock_ns();
    uint32_t allowed = 0;
    link->failover->restore_ns = 0;
    for (; qps; qps &= qps - 1) {
        int64_t until_ns = link->failover->bans[__builtin_ctz(qps)].until_ns;
        if (until_ns <= now_ns)
            allowed |= qps & -qps;
        else
            restore_by(link->failover, until_ns);
    }
    return allowed;
}

/* Bits of the queue pairs that this end offers in the next round: those whose ports are active and that have not failed
 * lately. */
static uint32_t qps_offered(struct weft_link *link, const struct verbs_pair *pairs, int count)
{
    struct weft_transport *transport = link->transport;
    uint32_t active = 0;
    for (int i = 0; i < transport->rails_count; i++)
        verbs_rail_refresh(&transport->rails[i]);
    for (uint32_t i = 0; i < link->qp_count; i++) {
        if (transport->rails[pairs[i % (uint32_t)count].mine].state == IBV_PORT_ACTIVE)
            active |= 1u << i;
    }
    uint32_t allowed = qps_allowed(link, active);
    if (!allowed) {
        bans_shorten(link, active);
        allowed = qps_allowed(link, active);
    }
    return allowed;
}

/* Step 3. */
static void qps_end(struct weft_link *link)
{
    struct weft_transport *transport = link->transport;
    uint32_t ended[VERBS_RAILS] = {0};
    verbs_rbufs_turn(link);
    for (uint32_t i = 0; i < link->qp_count; i++) {
        if (!link->qps[i])
            continue;
        ended[link->qps[i]->queues->rail->number]++;
        verbs_qp_close(link->qps[i]);
    }
    for (int i = 0; i < transport->rails_count; i++)
        verbs_receives_replace(&transport->queues[i], ended[i]);
    verbs_link_release(link);
    verbs_answers_forget(link);
    verbs_puts_turn(link);
    link->live = link->first = 0;
    link->ready = 0;
}

/* Step 4, but for the oob message. A port on which nothing can be opened is as good as down. */
static int qps_begin(struct weft_link *link)
{
    struct verbs_pair pairs[VERBS_PAIRS];
    int count = verbs_link_pairs(link, pairs);
    uint8_t rails = 0;
    for (uint32_t qps = qps_offered(link, pairs, count); qps; qps &= qps - 1) {
        int number = __builtin_ctz(qps);
        const struct verbs_pair *pair = &pairs[number % count];
        int status = verbs_qp_open(link, (uint32_t)number, pair, number / count);
        if (link->state != VERBS_LINK_CONNECTING)
            return WEFT_OK; /* what was read on the way has ended the link, and its failover */
        if (status) {
            weft_log(WEFT_LOG_INFO, "%s", weft_error_detail());
            ban(link, pair);
            restore_by(link->failover, link->failover->bans[number].until_ns);
            continue;
        }
        link->live |= (uint8_t)(1u << number);
        rails |= (uint8_t)(1u << pair->mine);
    }
    return verbs_link_reserve(link, rails);
}

static void round_begin(struct weft_link *link)
{
    struct verbs_failover *failover = link->failover;
    qps_end(link);
    link->transport->links_turning--;
    failover->turn = VERBS_TURN_NONE;
    link->round = failover->next_round;
    link->reported = failover->consumed = link->consumed;
    failover->expected = link->expected;
    failover->keys_known = failover->keys_sent = 0;
    failover->entries_count = 0;
    int status = qps_begin(link);
    if (link->state != VERBS_LINK_CONNECTING)
        return;
    if (status) {
        verbs_link_fail(link, status, "%s, and then %s", failover->why, weft_error_detail());
        return;
    }
    if (verbs_failover_is_turning(link))
        return; /* what was read on the way has ended this one, too */
    link->oob_wait_ns = OOB_NS;
    int has_half = failover->has_half && failover->half.round == link->round;
    failover->has_half = 0;
    if (has_half && verbs_failover_adopt(link, &failover->half)) {
        verbs_link_fail(link, WEFT_PROTOCOL, "%s", weft_error_detail());
        return;
    }
    if (link->state == VERBS_LINK_CONNECTING)
        verbs_link_send_oob(link);
}

/* Whether what has arrived over the queue pairs that were connected has been completed, too. */
static int is_drained(const struct weft_link *link)
{
    for (uint32_t i = 0; i < link->qp_count; i++) {
        if (link->qps[i] && link->qps[i]->peer_number && !link->qps[i]->is_drained)
            return 0;
    }
    return 1;
}

/* Step 2, but for reading the queues. Devices that say nothing of receives get a moment. */
static int is_quiet(const struct weft_link *link)
{
    int64_t waited_ns = weft_clock_ns() - link->failover->stopped_ns;
    if (waited_ns >= VERBS_FLUSH_NS)
        return 1;
    return verbs_qps_are_flushed(link) && (waited_ns >= DRAIN_NS || is_drained(link));
}

void verbs_failover_drive(struct weft_transport *transport)
{
    verbs_events_take(transport);
    for (uint32_t i = 0; transport->links_turning && i < transport->links_count; i++) {
        struct weft_link *link = transport->links[i];
        if (!verbs_failover_is_turning(link) || !is_quiet(link))
            continue;
        for (int k = 0; k < transport->rails_count; k++)
            verbs_queues_drain(&transport->queues[k]);
        /* What was read may have ended it; or been PART, after which the peer has no round for this end, which waits
         * only for its caller to consume the messages. */
        if (verbs_failover_is_turning(link) && !verbs_leave_turns(link))
            round_begin(link);
    }
}

/* --- oob messages */

void verbs_failover_oob(const struct weft_link *link, struct verbs_oob *oob)
{
    oob->round = link->round;
    oob->expected = link->failover ? link->failover->expected : VERBS_FIRST_SEQUENCE;
    oob->consumed = link->failover ? link->failover->consumed : VERBS_FIRST_SEQUENCE;
}

int verbs_failover_heard(struct weft_link *link, const struct verbs_oob *oob)
{
    struct verbs_failover *failover = link->failover;
    if (!failover)
        return oob->round != 0;
    uint32_t next = failover->turn == VERBS_TURN_STOPPED ? failover->next_round : link->round;
    if (oob->round < next) {
        if (oob->flags & VERBS_OOB_ASKS)
            verbs_link_send_oob(link);
        return 1;
    }
    if (oob->round == link->round && failover->turn != VERBS_TURN_STOPPED)
        return 0;
    if (oob->round - next > ROUNDS_MAX) {
        verbs_link_fail(link, WEFT_PROTOCOL, "verbs: the peer is in round %u of queue pairs, this side in %u",
                        oob->round, link->round);
        return 1;
    }
    failover->half = *oob;
    failover->has_half = 1;
    round_end(link, oob->round, "the peer has begun it");
    return 1;
}

/* There is no queue pair that both ends believe in: those that only the peer does are tried sooner. */
static void bans_lift(struct weft_link *link, const struct verbs_oob *oob)
{
    uint32_t qps = 0;
    for (uint32_t i = 0; i < link->qp_count; i++) {
        if (oob->qps[i].number && link->failover->bans[i].until_ns > weft_clock_ns())
            qps |= 1u << i;
    }
    bans_shorten(link, qps);
    for (; qps; qps &= qps - 1)
        restore_by(link->failover, link->failover->bans[__builtin_ctz(qps)].until_ns);
}

/* Queue pairs that only one end has are of no use. */
static int qps_join(struct weft_link *link, const struct verbs_oob *oob)
{
    for (uint32_t i = 0; i < link->qp_count; i++) {
        struct verbs_qp *qp = link->qps[i];
        if (!qp)
            continue;
        if (!oob->qps[i].number) {
            verbs_qp_close(qp);
            link->live &= (uint8_t) ~(1u << i);
            continue;
        }
        int status = verbs_qp_meet(qp, &oob->qps[i]);
        if (status)
            return status == WEFT_AGAIN ? WEFT_OK : status;
    }
    link->ready = link->live != 0;
    link->first = link->live ? (uint8_t)__builtin_ctz(link->live) : 0;
    if (!link->live)
        bans_lift(link, oob);
    return WEFT_OK;
}

int verbs_failover_adopt(struct weft_link *link, const struct verbs_oob *oob)
{
    struct verbs_failover *failover = link->failover;
    if (oob->qp_count != link->qp_count || (int32_t)(oob->consumed - link->acked) < 0 ||
        (int32_t)(oob->expected - oob->consumed) < 0 || (int32_t)(link->sent - oob->expected) < 0)
        return weft_fail(
            WEFT_PROTOCOL,
            "verbs: the peer expects message %u of %u to %u, has consumed %u, offers %u queue pairs",
            oob->expected, link->acked, link->sent, oob->consumed, oob->qp_count);
    link->acked = oob->consumed;
    failover->replay = oob->expected;
    return qps_join(link, oob);
}

void verbs_failover_resume(struct weft_link *link)
{
    link->held = 1;
    verbs_link_want(link, VERBS_PENDING_RESUME);
    if (link->consumed - link->reported >= link->window / 2)
        verbs_link_want(link, VERBS_PENDING_CREDIT);
    if (link->transport->closing)
        verbs_link_want(link, VERBS_PENDING_BYE);
}
