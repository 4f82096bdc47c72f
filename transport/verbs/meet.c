/* SPDX-License-Identifier: Apache-2.0 */
/* Making links from both ends: what is told, and what follows from what the peer tells. See letter.h. */
#include <stdio.h>
#include <string.h>
#include <weft/weft.h>
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "transport/verbs/failover.h"
#include "transport/verbs/letter.h"
#include "transport/verbs/verbs_private.h"
#include "transport/verbs/why.h"

#define HALVES_MAX 256 /* that one peer may make us fail; more is not a peer with bad luck */

static int letter_send(struct weft_transport *transport, const void *address, size_t size,
                       const struct verbs_letter *letter)
{
    uint8_t bytes[WEFT_LETTER_MAX];
    size_t length = verbs_letter_write(letter, bytes);
    return transport->tell(transport->tell_arg, address, size, bytes, length);
}

static int half_tell(struct weft_link *link)
{
    struct verbs_letter letter = {
        .type = VERBS_LETTER_HALF,
        .link = link->id,
        .generation = link->generation,
        .heard = link->ready ? link->peer_generation : 0,
        .flags = link->state == VERBS_LINK_CONNECTING ? VERBS_LETTER_ASKS : 0,
        .lanes_count = link->lanes_count,
        .window = (uint16_t)link->window,
        .frame_bytes = VERBS_FRAME_BYTES,
        .features = VERBS_FEATURE_LEAVE | (link->transport->settings.failover ? VERBS_FEATURE_FAILOVER : 0),
    };
    verbs_failover_letter(link, &letter);
    for (uint32_t i = 0; i < link->lanes_count; i++) {
        const struct verbs_lane *lane = link->lanes[i];
        if (!lane)
            continue; /* number 0 */
        letter.lanes[i].number = lane->qp->qp_num;
        letter.lanes[i].psn = lane->psn;
        letter.lanes[i].mine = lane->pair.mine;
        letter.lanes[i].theirs = lane->pair.theirs;
    }
    return letter_send(link->transport, link->address, link->address_size, &letter);
}

void verbs_link_tell(struct weft_link *link)
{
    if (verbs_failover_is_turning(link))
        return; /* there is nothing to tell yet */
    int64_t now_ns = weft_clock_ns();
    int status = half_tell(link);
    link->tell_due = status == WEFT_AGAIN;
    if (status == WEFT_OK) {
        link->tell_ns = now_ns + link->tell_wait_ns;
        link->tell_wait_ns *= link->tell_wait_ns < VERBS_CONNECT_NS ? 2 : 1;
    } else if (status != WEFT_AGAIN && link->state == VERBS_LINK_CONNECTING) {
        verbs_link_fail(link, status == WEFT_PEER_FAILED ? status : WEFT_TRANSPORT,
                        "verbs: the peer cannot be told of a link: %s", weft_strerror(status));
    }
}

void verbs_link_tell_end(struct weft_link *link)
{
    struct verbs_letter letter = {.type = VERBS_LETTER_END,
                                  .link = link->id,
                                  .generation = link->generation,
                                  .heard = link->peer_generation};
    const char *why = strncmp(link->why, "verbs: ", 7) == 0 ? link->why + 7 : link->why;
    snprintf(letter.why, sizeof letter.why, "%.*s", (int)sizeof letter.why - 1, why);
    letter_send(link->transport, link->address, link->address_size, &letter);
}

/* What the first half of the peer's says for good. */
static int half_meet(struct weft_link *link, const struct verbs_letter *letter)
{
    if (letter->lanes_count != link->lanes_count)
        return weft_fail(WEFT_PROTOCOL,
                         "verbs: the peer offers %u queue pairs, %u were expected; see WEFT_VERBS_QPS",
                         letter->lanes_count, link->lanes_count);
    link->peer_generation = letter->generation;
    link->peer_id = letter->link;
    link->peer_window = letter->window;
    link->peer_features = letter->features;
    link->frame_bytes = letter->frame_bytes < VERBS_FRAME_BYTES ? letter->frame_bytes : VERBS_FRAME_BYTES;
    return letter->features & VERBS_FEATURE_FAILOVER ? verbs_failover_make(link) : WEFT_OK;
}

int verbs_lane_meet(struct verbs_lane *lane, const struct verbs_letter_lane *theirs)
{
    if (theirs->mine != lane->pair.theirs || theirs->theirs != lane->pair.mine)
        return weft_fail(WEFT_PROTOCOL, "verbs: the peer pairs its port %u with %u, this side %u with %u",
                         theirs->mine, theirs->theirs, lane->pair.theirs, lane->pair.mine);
    int status = verbs_lane_connect(lane, theirs->number, theirs->psn);
    if (!status)
        return WEFT_OK;
    verbs_lane_trouble(lane, status, "%s", weft_error_detail());
    return WEFT_AGAIN;
}

/* Connects the lanes to those of the peer's half. */
static int half_adopt(struct weft_link *link, const struct verbs_letter *letter)
{
    for (uint32_t i = 0; i < link->lanes_count; i++) {
        int status = verbs_lane_meet(link->lanes[i], &letter->lanes[i]);
        if (status)
            return status == WEFT_AGAIN ? WEFT_OK : status;
    }
    link->ready = 1;
    verbs_failover_look(link);
    return WEFT_OK;
}

/* The newest generation known of an instance, and how many of its halves have failed here. */
static uint32_t newest_generation(const struct weft_transport *transport, const void *from, size_t from_size,
                                  int *failed)
{
    uint32_t newest = 0;
    for (uint32_t i = 0; i < transport->links_count; i++) {
        const struct weft_link *link = transport->links[i];
        if (!verbs_link_leads(link, from, from_size))
            continue;
        *failed += link->state == VERBS_LINK_FAILED;
        if (link->peer_generation > newest)
            newest = link->peer_generation;
        if (link->past_generation > newest)
            newest = link->past_generation;
    }
    return newest;
}

/* Half of a link that this end has no more. */
static void end_answer(struct weft_transport *transport, const void *to, size_t to_size,
                       const struct verbs_letter *letter)
{
    struct verbs_letter end = {
        .type = VERBS_LETTER_END, .generation = letter->heard, .heard = letter->generation};
    for (uint32_t i = 0; i < transport->links_count && !end.generation; i++) {
        const struct weft_link *link = transport->links[i];
        if (verbs_link_leads(link, to, to_size) &&
            (link->peer_generation == letter->generation || link->past_generation == letter->generation))
            end.generation = link->generation; /* the first half of a round has heard nothing */
    }
    if (end.generation)
        letter_send(transport, to, to_size, &end);
}

/* The link of the sender's half, made if need be; NULL when the half is not wanted. */
static struct weft_link *half_link(struct weft_transport *transport, const struct verbs_address *peer,
                                   const void *from, size_t from_size, const struct verbs_letter *letter)
{
    int failed = 0;
    struct weft_link *link = verbs_link_of(transport, from, from_size);
    uint32_t newest = newest_generation(transport, from, from_size, &failed);
    if (letter->heard && (!link || letter->heard != link->generation)) {
        end_answer(transport, from, from_size, letter);
        return NULL;
    }
    if (link && link->peer_generation == letter->generation)
        return link;
    if (letter->generation <= newest) {
        if (letter->round && !link) /* it replaces lanes of a link that this end has given up */
            end_answer(transport, from, from_size, letter);
        return NULL;
    }
    if (link && link->peer_generation) {
        verbs_drain(transport); /* what has arrived was sent before */
        verbs_link_fail(link, WEFT_PEER_FAILED, "verbs: the peer gave up this link and made a new one");
        link = verbs_link_of(transport, from, from_size);
        if (link && link->peer_generation)
            return NULL; /* it ends soon, and the peer will tell again */
    }
    if (!link && (transport->closing || failed > HALVES_MAX ||
                  verbs_link_make(transport, peer, from, from_size, &link)))
        return NULL;
    return link;
}

static void half_told(struct weft_transport *transport, const struct verbs_address *peer, const void *from,
                      size_t from_size, const struct verbs_letter *letter)
{
    struct weft_link *link = half_link(transport, peer, from, from_size, letter);
    if (!link) {
        transport->stale_letters++;
        return;
    }
    int status = link->peer_generation ? WEFT_OK : half_meet(link, letter);
    if (!status && verbs_failover_told(link, letter))
        return;
    if (!status && !link->ready)
        status = link->round ? verbs_failover_adopt(link, letter) : half_adopt(link, letter);
    if (status) {
        verbs_link_fail(link, status, "%s", weft_error_detail());
        return;
    }
    if (letter->heard)
        verbs_link_up(link);
    if (letter->flags & VERBS_LETTER_ASKS && link->ready) /* else it has what there is to know */
        verbs_link_tell(link);
}

/* What is the matter with the own end, if anything: the peer that gave the link up could not see it. NULL: nothing. */
static const char *own_trouble(const struct weft_link *link, char text[VERBS_WHY])
{
    const char *why = NULL;
    for (uint32_t i = 0; i < link->lanes_count && !why; i++) {
        const struct verbs_lane *lane = link->lanes[i];
        struct verbs_failure failure;
        if (!lane)
            continue;
        verbs_failure_fill(lane->queues->rail, &link->transport->settings, &lane->path, 0, 0, &failure);
        why = verbs_why_port(&failure, text);
    }
    return why;
}

static void link_given_up(struct weft_link *link, const struct verbs_letter *letter)
{
    char text[VERBS_WHY];
    const char *own = own_trouble(link, text);
    verbs_link_fail(link, WEFT_PEER_FAILED, "verbs: %s%sthe peer has given up this link%s%s", own ? own : "",
                    own ? "; " : "", letter->why[0] ? ": " : "", letter->why);
}

static void end_told(struct weft_transport *transport, const void *from, size_t from_size,
                     const struct verbs_letter *letter)
{
    struct weft_link *link = verbs_link_of(transport, from, from_size);
    int is_this = link && letter->heard == link->generation &&
                  (!link->peer_generation || letter->generation == link->peer_generation);
    if (is_this)
        verbs_drain(transport); /* what has arrived was sent before */
    if (!is_this)
        transport->stale_letters++;
    else
        link_given_up(link, letter);
}

void verbs_told(struct weft_transport *transport, const void *from, size_t from_size, const void *bytes,
                size_t size)
{
    struct verbs_address peer;
    struct verbs_letter letter;
    if (transport->broken)
        return;
    if (from_size > WEFT_ADDRESS_MAX || verbs_address_decode(from, from_size, &peer) ||
        verbs_letter_read(bytes, size, &letter)) {
        weft_log(WEFT_LOG_DEBUG, "%s", weft_error_detail());
        transport->stale_letters++;
        return;
    }
    if (letter.type == VERBS_LETTER_HALF)
        half_told(transport, &peer, from, from_size, &letter);
    else
        end_told(transport, from, from_size, &letter);
}
