/* SPDX-License-Identifier: Apache-2.0 */
/* Rails that go down and come back (WEFT_VERBS_FAILOVER).
 *
 * A link uses a lane per pair of ports. Without failover a lane that fails takes the link along. With it, the link gets new
 * lanes over the rails that are left, and what the failure swallowed is sent again.
 *
 * Rounds. A link has rounds of queue pairs, numbered from 0. Whoever finds that a lane does not work (a completion with an
 * error, a port that its device reports down), or may work again, ends the round for the whole link, in this order:
 *
 *   1. all its queue pairs of the round go to the error state, those of healthy rails too;
 *   2. what was posted comes back, the devices report that their queue pairs are done with what has arrived ("last
 *      request reached"; those that do not get 20 ms), and the completion queues are read until they are empty: what had
 *      arrived counts;
 *   3. the memory windows of its landings are freed, and then the queue pairs are reset (and destroyed later, queue.c);
 *   4. it makes new queue pairs over the rails whose ports are active, and tells them by letter (letter.h) with the next
 *      round's number. The letter is the confirmation that 1 to 3 are done here. It says as well which message is the next
 *      to arrive (`expected`), and how many have been consumed.
 *
 * A peer that is told of a later round than its own does 1 to 4 for that round. When the other's half of the same round has
 * come, lanes that both ends have are connected, the others are given up; `heard` in the letters is about this round
 * then. A half of an earlier round is old and is dropped; halves are repeated as at first, so one that is lost
 * comes again. When the peer is known to be connected, the link goes on (replay.c): the
 * keys of landings that are still open, then messages from the peer's `expected` on, then puts to those landings.
 *
 * Letters travel over the bootstrap's overlay, not over a lane: so the confirmation gets through when no lane works, the
 * end that sees the failure second needs no other signal, and there is one procedure, not one for each set of lanes.
 * Healthy lanes are taken down along with the failed one: what was on them is sent again, too, which costs some
 * milliseconds per failure. In return no message, credit or key of one round meets one of another.
 *
 * Why no byte is lost. A message is kept (a copy) until the peer says that its caller has consumed it; the window of
 * messages bounds the copies. A put keeps its source until it ends, and it ends well in two cases: the peer's adapter has
 * acknowledged it, or the peer has named all landings that are still open and its own is not among them. An adapter
 * acknowledges what it has put into the completion queue, which is read to its end in step 2. If a peer names a landing
 * whose put was acknowledged nevertheless, the link fails: an error instead of a wait for ever.
 *
 * Why nothing is delivered twice, and messages keep their order. `expected` is taken after step 3, when nothing can arrive
 * any more; the sender goes on with exactly that number, on one new lane, and sends nothing new before. The receiver
 * takes no other number than the expected one. A put is written again as a whole only into a landing that is still open,
 * and a landing is filled once, when all parts of one round have arrived.
 *
 * Why no late write lands in reused memory. Memory is reused when its landing was filled, or taken back. Filled: every
 * part's immediate had come, behind all its bytes; the adapter does not carry out a packet that comes twice. Taken back, or
 * written anew: by then the old queue pairs at this end are reset, after which the adapter takes nothing for them any more
 * (in the error state alone one may still be copying a packet); the keys went before them. What is still in the network
 * finds no queue pair that would take it. The peer learns a new key only after that, and from nobody but this end. Without
 * windows the key stays as it was, and the queue pairs alone keep old writes out.
 *
 * Both ends at once, and failures meanwhile. If both end the round they name the same next one, and meet. Each offers the
 * lanes that it believes in; those of both are used. If there are none (each sees another rail down), or a lane fails
 * before the link is up, the round ends like any other. The link is given 10 s from the moment that it was last up.
 * When all rails are down, or the peer does not answer, it fails after that, and says how it began.
 *
 * Coming back. A port that is reported active again begins a round RESTORE_NS later, so that one that flaps is
 * taken once. A lane that failed while its port seemed all right (a switch, the other end's cable) is left
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
#define TELL_NS    INT64_C(20000000)
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
    failover->keys_known = failover->keys_told = 1;
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

/* Step 1: the link is not up, and its lanes stop. The next round is at least this one. */
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
    verbs_lanes_stop(link);
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

/* Leaves out the lanes of a pair of ports: all of them, as they most likely share what is broken. Longer each time, unless
 * they have worked for a good while. */
static void ban(struct weft_link *link, const struct verbs_pair *pair)
{
    struct verbs_failover *failover = link->failover;
    struct verbs_pair pairs[VERBS_PAIRS];
    int count = verbs_link_pairs(link, pairs);
    int64_t now_ns = weft_clock_ns();
    for (uint32_t i = 0; i < link->lanes_count; i++) {
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

/* Lanes of these bits are tried sooner: there are no others. */
static void bans_shorten(struct weft_link *link, uint32_t lanes)
{
    struct verbs_failover *failover = link->failover;
    for (; lanes; lanes &= lanes - 1) {
        struct verbs_ban *ban = &failover->bans[__builtin_ctz(lanes)];
        if (ban->until_ns > ban->failed_ns + BAN_NS)
            ban->until_ns = ban->failed_ns + BAN_NS;
    }
}

void verbs_lane_trouble(struct verbs_lane *lane, int status, const char *format, ...)
{
    struct weft_link *link = lane->link;
    struct verbs_failover *failover = link->failover;
    struct verbs_rail *rail = lane->queues->rail;
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
        ban(link, &lane->pair);
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
        for (uint32_t k = 0; k < link->lanes_count && count; k++) {
            int is_rails = pairs[k % (uint32_t)count].mine == rail->number;
            is_used |= is_rails && link->lanes[k];
            is_missing |= is_rails && !link->lanes[k];
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
    for (uint32_t i = 0; link->failover && i < link->lanes_count; i++) {
        const struct verbs_lane *lane = link->lanes[i];
        const struct verbs_rail *rail = lane ? lane->queues->rail : NULL;
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

/* Bits of the lanes that may be tried now; the others have their time. */
static uint32_t lanes_allowed(const struct weft_link *link, uint32_t lanes)
{
    int64_t now_ns = weft_clock_ns();
    uint32_t allowed = 0;
    link->failover->restore_ns = 0;
    for (; lanes; lanes &= lanes - 1) {
        int64_t until_ns = link->failover->bans[__builtin_ctz(lanes)].until_ns;
        if (until_ns <= now_ns)
            allowed |= lanes & -lanes;
        else
            restore_by(link->failover, until_ns);
    }
    return allowed;
}

/* Bits of the lanes that this end offers in the next round: those whose ports are active and that have not failed
 * lately. */
static uint32_t lanes_offered(struct weft_link *link, const struct verbs_pair *pairs, int count)
{
    struct weft_transport *transport = link->transport;
    uint32_t active = 0;
    for (int i = 0; i < transport->rails_count; i++)
        verbs_rail_refresh(&transport->rails[i]);
    for (uint32_t i = 0; i < link->lanes_count; i++) {
        if (transport->rails[pairs[i % (uint32_t)count].mine].state == IBV_PORT_ACTIVE)
            active |= 1u << i;
    }
    uint32_t allowed = lanes_allowed(link, active);
    if (!allowed) {
        bans_shorten(link, active);
        allowed = lanes_allowed(link, active);
    }
    return allowed;
}

/* Step 3. */
static void lanes_end(struct weft_link *link)
{
    struct weft_transport *transport = link->transport;
    uint32_t ended[VERBS_RAILS] = {0};
    verbs_landings_turn(link);
    for (uint32_t i = 0; i < link->lanes_count; i++) {
        if (!link->lanes[i])
            continue;
        ended[link->lanes[i]->queues->rail->number]++;
        verbs_lane_close(link->lanes[i]);
    }
    for (int i = 0; i < transport->rails_count; i++)
        verbs_receives_replace(&transport->queues[i], ended[i]);
    verbs_link_release(link);
    verbs_answers_forget(link);
    verbs_puts_turn(link);
    link->live = link->first = 0;
    link->ready = 0;
}

/* Step 4, but for the letter. A port on which nothing can be opened is as good as down. */
static int lanes_begin(struct weft_link *link)
{
    struct verbs_pair pairs[VERBS_PAIRS];
    int count = verbs_link_pairs(link, pairs);
    uint8_t rails = 0;
    for (uint32_t lanes = lanes_offered(link, pairs, count); lanes; lanes &= lanes - 1) {
        int number = __builtin_ctz(lanes);
        const struct verbs_pair *pair = &pairs[number % count];
        int status = verbs_lane_open(link, (uint32_t)number, pair, number / count);
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
    lanes_end(link);
    link->transport->links_turning--;
    failover->turn = VERBS_TURN_NONE;
    link->round = failover->next_round;
    link->reported = failover->consumed = link->consumed;
    failover->expected = link->expected;
    failover->keys_known = failover->keys_told = 0;
    failover->entries_count = 0;
    int status = lanes_begin(link);
    if (link->state != VERBS_LINK_CONNECTING)
        return;
    if (status) {
        verbs_link_fail(link, status, "%s, and then %s", failover->why, weft_error_detail());
        return;
    }
    if (verbs_failover_is_turning(link))
        return; /* what was read on the way has ended this one, too */
    link->tell_wait_ns = TELL_NS;
    int has_half = failover->has_half && failover->half.round == link->round;
    failover->has_half = 0;
    if (has_half && verbs_failover_adopt(link, &failover->half)) {
        verbs_link_fail(link, WEFT_PROTOCOL, "%s", weft_error_detail());
        return;
    }
    if (link->state == VERBS_LINK_CONNECTING)
        verbs_link_tell(link);
}

/* Whether what has arrived over the lanes that were connected has been completed, too. */
static int is_drained(const struct weft_link *link)
{
    for (uint32_t i = 0; i < link->lanes_count; i++) {
        if (link->lanes[i] && link->lanes[i]->peer_number && !link->lanes[i]->is_drained)
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
    return verbs_lanes_are_flushed(link) && (waited_ns >= DRAIN_NS || is_drained(link));
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

/* --- letters */

void verbs_failover_letter(const struct weft_link *link, struct verbs_letter *letter)
{
    letter->round = link->round;
    letter->expected = link->failover ? link->failover->expected : VERBS_FIRST_SEQUENCE;
    letter->consumed = link->failover ? link->failover->consumed : VERBS_FIRST_SEQUENCE;
}

int verbs_failover_told(struct weft_link *link, const struct verbs_letter *letter)
{
    struct verbs_failover *failover = link->failover;
    if (!failover)
        return letter->round != 0;
    uint32_t next = failover->turn == VERBS_TURN_STOPPED ? failover->next_round : link->round;
    if (letter->round < next) {
        if (letter->flags & VERBS_LETTER_ASKS)
            verbs_link_tell(link);
        return 1;
    }
    if (letter->round == link->round && failover->turn != VERBS_TURN_STOPPED)
        return 0;
    if (letter->round - next > ROUNDS_MAX) {
        verbs_link_fail(link, WEFT_PROTOCOL, "verbs: the peer is in round %u of queue pairs, this side in %u",
                        letter->round, link->round);
        return 1;
    }
    failover->half = *letter;
    failover->has_half = 1;
    round_end(link, letter->round, "the peer has begun it");
    return 1;
}

/* There is no lane that both ends believe in: those that only the peer does are tried sooner. */
static void bans_lift(struct weft_link *link, const struct verbs_letter *letter)
{
    uint32_t lanes = 0;
    for (uint32_t i = 0; i < link->lanes_count; i++) {
        if (letter->lanes[i].number && link->failover->bans[i].until_ns > weft_clock_ns())
            lanes |= 1u << i;
    }
    bans_shorten(link, lanes);
    for (; lanes; lanes &= lanes - 1)
        restore_by(link->failover, link->failover->bans[__builtin_ctz(lanes)].until_ns);
}

/* Lanes that only one end has are of no use. */
static int lanes_join(struct weft_link *link, const struct verbs_letter *letter)
{
    for (uint32_t i = 0; i < link->lanes_count; i++) {
        struct verbs_lane *lane = link->lanes[i];
        if (!lane)
            continue;
        if (!letter->lanes[i].number) {
            verbs_lane_close(lane);
            link->live &= (uint8_t) ~(1u << i);
            continue;
        }
        int status = verbs_lane_meet(lane, &letter->lanes[i]);
        if (status)
            return status == WEFT_AGAIN ? WEFT_OK : status;
    }
    link->ready = link->live != 0;
    link->first = link->live ? (uint8_t)__builtin_ctz(link->live) : 0;
    if (!link->live)
        bans_lift(link, letter);
    return WEFT_OK;
}

int verbs_failover_adopt(struct weft_link *link, const struct verbs_letter *letter)
{
    struct verbs_failover *failover = link->failover;
    if (letter->lanes_count != link->lanes_count || (int32_t)(letter->consumed - link->acked) < 0 ||
        (int32_t)(letter->expected - letter->consumed) < 0 || (int32_t)(link->sent - letter->expected) < 0)
        return weft_fail(WEFT_PROTOCOL,
                         "verbs: the peer expects message %u of %u to %u, has consumed %u, offers %u lanes",
                         letter->expected, link->acked, link->sent, letter->consumed, letter->lanes_count);
    link->acked = letter->consumed;
    failover->replay = letter->expected;
    return lanes_join(link, letter);
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
