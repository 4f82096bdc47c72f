/* SPDX-License-Identifier: Apache-2.0 */
/* Making links from both ends: what is announced, and what follows from what the peer announces. See oob.h. */
#include <stdio.h>
#include <string.h>
#include <weft/weft.h>
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "transport/verbs/failover.h"
#include "transport/verbs/oob.h"
#include "transport/verbs/verbs_private.h"
#include "transport/verbs/why.h"

#define HALVES_MAX 256 /* that one peer may make us fail; more is not a peer with bad luck */

static int message_send(struct weft_transport *transport, const void *address, size_t size,
                        const struct verbs_oob *oob)
{
    uint8_t bytes[WEFT_OOB_MAX];
    size_t length = verbs_oob_write(oob, bytes);
    return transport->oob_send(transport->oob_arg, address, size, bytes, length);
}

static int half_send(struct weft_link *link)
{
    struct verbs_oob oob = {
        .type = VERBS_OOB_HALF,
        .link = link->id,
        .generation = link->generation,
        .heard = link->ready ? link->peer_generation : 0,
        .flags = link->state == VERBS_LINK_CONNECTING ? VERBS_OOB_ASKS : 0,
        .qp_count = link->qp_count,
        .window = (uint16_t)link->window,
        .frame_bytes = VERBS_FRAME_BYTES,
        .features = VERBS_FEATURE_LEAVE | (link->transport->settings.failover ? VERBS_FEATURE_FAILOVER : 0),
    };
    verbs_failover_oob(link, &oob);
    for (uint32_t i = 0; i < link->qp_count; i++) {
        const struct verbs_qp *qp = link->qps[i];
        if (!qp)
            continue; /* number 0 */
        oob.qps[i].number = qp->ibv->qp_num;
        oob.qps[i].psn = qp->psn;
        oob.qps[i].mine = qp->pair.mine;
        oob.qps[i].theirs = qp->pair.theirs;
    }
    return message_send(link->transport, link->address, link->address_size, &oob);
}

void verbs_link_send_oob(struct weft_link *link)
{
    if (verbs_failover_is_turning(link))
        return; /* there is nothing to announce yet */
    int64_t now_ns = weft_clock_ns();
    int status = half_send(link);
    link->oob_due = status == WEFT_AGAIN;
    if (status == WEFT_OK) {
        link->oob_ns = now_ns + link->oob_wait_ns;
        link->oob_wait_ns *= link->oob_wait_ns < VERBS_CONNECT_NS ? 2 : 1;
    } else if (status != WEFT_AGAIN && link->state == VERBS_LINK_CONNECTING) {
        verbs_link_fail(link, status == WEFT_PEER_FAILED ? status : WEFT_TRANSPORT,
                        "verbs: the peer cannot be sent an out-of-band message: %s", weft_strerror(status));
    }
}

void verbs_link_send_end(struct weft_link *link)
{
    struct verbs_oob oob = {.type = VERBS_OOB_END,
                            .link = link->id,
                            .generation = link->generation,
                            .heard = link->peer_generation};
    const char *why = strncmp(link->why, "verbs: ", 7) == 0 ? link->why + 7 : link->why;
    snprintf(oob.why, sizeof oob.why, "%.*s", (int)sizeof oob.why - 1, why);
    message_send(link->transport, link->address, link->address_size, &oob);
}

/* What the first half of the peer's says for good. */
static int half_meet(struct weft_link *link, const struct verbs_oob *oob)
{
    if (oob->qp_count != link->qp_count)
        return weft_fail(WEFT_PROTOCOL,
                         "verbs: the peer offers %u queue pairs, %u were expected; see WEFT_VERBS_QPS",
                         oob->qp_count, link->qp_count);
    link->peer_generation = oob->generation;
    link->peer_id = oob->link;
    link->peer_window = oob->window;
    link->peer_features = oob->features;
    link->frame_bytes = oob->frame_bytes < VERBS_FRAME_BYTES ? oob->frame_bytes : VERBS_FRAME_BYTES;
    return oob->features & VERBS_FEATURE_FAILOVER ? verbs_failover_make(link) : WEFT_OK;
}

int verbs_qp_meet(struct verbs_qp *qp, const struct verbs_oob_qp *theirs)
{
    if (theirs->mine != qp->pair.theirs || theirs->theirs != qp->pair.mine)
        return weft_fail(WEFT_PROTOCOL, "verbs: the peer pairs its port %u with %u, this side %u with %u",
                         theirs->mine, theirs->theirs, qp->pair.theirs, qp->pair.mine);
    int status = verbs_qp_connect(qp, theirs->number, theirs->psn);
    if (!status)
        return WEFT_OK;
    verbs_qp_trouble(qp, status, "%s", weft_error_detail());
    return WEFT_AGAIN;
}

/* Connects the queue pairs to those of the peer's half. */
static int half_adopt(struct weft_link *link, const struct verbs_oob *oob)
{
    for (uint32_t i = 0; i < link->qp_count; i++) {
        int status = verbs_qp_meet(link->qps[i], &oob->qps[i]);
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
                       const struct verbs_oob *oob)
{
    struct verbs_oob end = {.type = VERBS_OOB_END, .generation = oob->heard, .heard = oob->generation};
    for (uint32_t i = 0; i < transport->links_count && !end.generation; i++) {
        const struct weft_link *link = transport->links[i];
        if (verbs_link_leads(link, to, to_size) &&
            (link->peer_generation == oob->generation || link->past_generation == oob->generation))
            end.generation = link->generation; /* the first half of a round has heard nothing */
    }
    if (end.generation)
        message_send(transport, to, to_size, &end);
}

/* The link of the sender's half, made if need be; NULL when the half is not wanted. */
static struct weft_link *half_link(struct weft_transport *transport, const struct verbs_address *peer,
                                   const void *from, size_t from_size, const struct verbs_oob *oob)
{
    int failed = 0;
    struct weft_link *link = verbs_link_of(transport, from, from_size);
    uint32_t newest = newest_generation(transport, from, from_size, &failed);
    if (oob->heard && (!link || oob->heard != link->generation)) {
        end_answer(transport, from, from_size, oob);
        return NULL;
    }
    if (link && link->peer_generation == oob->generation)
        return link;
    if (oob->generation <= newest) {
        if (oob->round && !link) /* it replaces queue pairs of a link that this end has given up */
            end_answer(transport, from, from_size, oob);
        return NULL;
    }
    if (link && link->peer_generation) {
        verbs_drain(transport); /* what has arrived was sent before */
        verbs_link_fail(link, WEFT_PEER_FAILED, "verbs: the peer gave up this link and made a new one");
        link = verbs_link_of(transport, from, from_size);
        if (link && link->peer_generation)
            return NULL; /* it ends soon, and the peer will send its half again */
    }
    if (!link && (transport->closing || failed > HALVES_MAX ||
                  verbs_link_make(transport, peer, from, from_size, &link)))
        return NULL;
    return link;
}

static void half_received(struct weft_transport *transport, const struct verbs_address *peer,
                          const void *from, size_t from_size, const struct verbs_oob *oob)
{
    struct weft_link *link = half_link(transport, peer, from, from_size, oob);
    if (!link) {
        transport->stale_oob++;
        return;
    }
    int status = link->peer_generation ? WEFT_OK : half_meet(link, oob);
    if (!status && verbs_failover_heard(link, oob))
        return;
    if (!status && !link->ready)
        status = link->round ? verbs_failover_adopt(link, oob) : half_adopt(link, oob);
    if (status) {
        verbs_link_fail(link, status, "%s", weft_error_detail());
        return;
    }
    if (oob->heard)
        verbs_link_up(link);
    if (oob->flags & VERBS_OOB_ASKS && link->ready) /* else it has what there is to know */
        verbs_link_send_oob(link);
}

/* What is the matter with the own end, if anything: the peer that gave the link up could not see it. NULL: nothing. */
static const char *own_trouble(const struct weft_link *link, char text[VERBS_WHY])
{
    const char *why = NULL;
    for (uint32_t i = 0; i < link->qp_count && !why; i++) {
        const struct verbs_qp *qp = link->qps[i];
        struct verbs_failure failure;
        if (!qp)
            continue;
        verbs_failure_fill(qp->queues->rail, &link->transport->settings, &qp->path, 0, 0, &failure);
        why = verbs_why_port(&failure, text);
    }
    return why;
}

static void link_given_up(struct weft_link *link, const struct verbs_oob *oob)
{
    char text[VERBS_WHY];
    const char *own = own_trouble(link, text);
    verbs_link_fail(link, WEFT_PEER_FAILED, "verbs: %s%sthe peer has given up this link%s%s", own ? own : "",
                    own ? "; " : "", oob->why[0] ? ": " : "", oob->why);
}

static void end_received(struct weft_transport *transport, const void *from, size_t from_size,
                         const struct verbs_oob *oob)
{
    struct weft_link *link = verbs_link_of(transport, from, from_size);
    int is_this = link && oob->heard == link->generation &&
                  (!link->peer_generation || oob->generation == link->peer_generation);
    if (is_this)
        verbs_drain(transport); /* what has arrived was sent before */
    if (!is_this)
        transport->stale_oob++;
    else
        link_given_up(link, oob);
}

void verbs_oob_receive(struct weft_transport *transport, const void *from, size_t from_size,
                       const void *bytes, size_t size)
{
    struct verbs_address peer;
    struct verbs_oob oob;
    if (transport->broken)
        return;
    if (from_size > WEFT_ADDRESS_MAX || verbs_address_decode(from, from_size, &peer) ||
        verbs_oob_read(bytes, size, &oob)) {
        weft_log(WEFT_LOG_DEBUG, "%s", weft_error_detail());
        transport->stale_oob++;
        return;
    }
    if (oob.type == VERBS_OOB_HALF)
        half_received(transport, &peer, from, from_size, &oob);
    else
        end_received(transport, from, from_size, &oob);
}
