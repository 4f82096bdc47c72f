/* SPDX-License-Identifier: Apache-2.0 */
/* Links: their making and their failure. How both ends find each other is in meet.c.
 *
 * A link that has failed stays in the table until the instance closes, without queue pairs and buffers: its generation
 * tells old oob messages and new ones apart, and the caller may still hold it. One that nobody uses any more gives back what
 * it has (leave.c), and its place is taken by the next link to that peer. Its queue pairs go to the error state at once, after
 * which nothing arrives over them. What had been posted is flushed, each entry with a completion of its own; when all have
 * come, or have not for a while, the queue pairs are reset and whatever is left has ended; they are destroyed later (queue.c).
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weft/weft.h>
#include "base/clock.h"
#include "base/crypto.h"
#include "base/error.h"
#include "base/log.h"
#include "transport/verbs/failover.h"
#include "transport/verbs/verbs_private.h"

#define LINKS_MAX 0x10000
#define OOB_NS    100000000 /* oob messages are repeated after that, and then half as often each time */
#define DYING_NS  5000000   /* a queue pair in error keeps its number for so long */

int verbs_reachable(struct weft_transport *transport, const void *bytes, size_t size)
{
    struct verbs_address peer;
    struct verbs_pair pairs[VERBS_PAIRS];
    return verbs_address_decode(bytes, size, &peer) == WEFT_OK &&
           verbs_pairs(&transport->own, &peer, pairs) > 0;
}

int verbs_link_leads(const struct weft_link *link, const void *address, size_t size)
{
    return link->address_size == size && memcmp(link->address, address, size) == 0;
}

struct weft_link *verbs_link_of(struct weft_transport *transport, const void *address, size_t size)
{
    for (uint32_t i = 0; i < transport->links_count; i++) {
        struct weft_link *link = transport->links[i];
        if (link->state <= VERBS_LINK_UP && verbs_link_leads(link, address, size))
            return link;
    }
    return NULL;
}

struct weft_link *verbs_link_find(struct weft_transport *transport, uint32_t id)
{
    uint32_t index = id & 0xffff;
    if (index >= transport->links_count || transport->links[index]->id != id)
        return NULL;
    return transport->links[index];
}

struct verbs_qp *verbs_link_qp(const struct weft_link *link, const struct verbs_queues *queues,
                               uint32_t qp_number)
{
    for (uint32_t i = 0; i < link->qp_count; i++) {
        struct verbs_qp *qp = link->qps[i];
        if (qp && qp->queues == queues && qp->ibv->qp_num == qp_number)
            return qp;
    }
    return NULL;
}

static int table_grow(struct weft_transport *transport)
{
    if (transport->links_count < transport->links_capacity)
        return WEFT_OK;
    uint32_t capacity = transport->links_capacity ? transport->links_capacity * 2 : 16;
    if (capacity > LINKS_MAX)
        return weft_fail(WEFT_NOMEM, "verbs: more than %u links", LINKS_MAX);
    struct weft_link **links = realloc(transport->links, capacity * sizeof(*links));
    if (!links)
        return weft_fail(WEFT_NOMEM, "verbs: no memory for %u links", capacity);
    transport->links = links;
    transport->links_capacity = capacity;
    return WEFT_OK;
}

/* Lets the queue pairs go, and the room that they had. */
static void qps_close(struct weft_link *link)
{
    struct weft_transport *transport = link->transport;
    uint32_t ended[VERBS_RAILS] = {0};
    for (uint32_t i = 0; i < link->qp_count; i++) {
        if (link->qps[i])
            verbs_qp_stop(link->qps[i]);
    }
    verbs_rbufs_link_failed(link); /* drops windows: a queue pair with bound ones cannot be destroyed */
    for (uint32_t i = 0; i < link->qp_count; i++) {
        struct verbs_qp *qp = link->qps[i];
        if (!qp)
            continue;
        ended[qp->queues->rail->number] += qp->peer_number && !link->has_agreed;
        verbs_qp_close(qp);
    }
    for (int i = 0; i < transport->rails_count && !transport->closing; i++)
        verbs_receives_replace(&transport->queues[i], ended[i]);
    link->live = 0;
    verbs_link_release(link);
}

int verbs_link_pairs(const struct weft_link *link, struct verbs_pair pairs[VERBS_PAIRS])
{
    return verbs_pairs(&link->transport->own, &link->peer, pairs);
}

int verbs_link_reserve(struct weft_link *link, uint8_t rails)
{
    struct weft_transport *transport = link->transport;
    int status = WEFT_OK;
    for (int i = 0; i < transport->rails_count && !status; i++) {
        if (!(rails >> i & 1))
            continue;
        status = verbs_receives_reserve(&transport->queues[i], link->window + VERBS_LINK_SPARE);
        if (status)
            break;
        transport->queues[i].sends_limit += VERBS_LINK_SENDS;
        transport->links_alive += !link->rails;
        link->rails |= (uint8_t)(1u << i);
    }
    return status;
}

void verbs_link_release(struct weft_link *link)
{
    struct weft_transport *transport = link->transport;
    transport->links_alive -= link->rails != 0;
    for (; link->rails; link->rails &= (uint8_t)(link->rails - 1)) {
        struct verbs_queues *queues = &transport->queues[__builtin_ctz(link->rails)];
        verbs_receives_release(queues, link->window + VERBS_LINK_SPARE);
        queues->sends_limit -= VERBS_LINK_SENDS;
    }
}

/* The queue pairs that the two addresses call for: one pair of rails after the other, and again for each further queue
 * pair per rail. Messages go over the first; when that rail can fail, any rail may have to take them. */
static int qps_open(struct weft_link *link)
{
    struct weft_transport *transport = link->transport;
    struct verbs_pair pairs[VERBS_PAIRS];
    int count = verbs_link_pairs(link, pairs);
    if (count < 1)
        return weft_fail(WEFT_TRANSPORT, "verbs: no port of this rank can reach one of the peer's");
    uint8_t rails = 0;
    for (int i = 0; i < (transport->settings.failover ? count : 1); i++)
        rails |= (uint8_t)(1u << pairs[i].mine);
    int status = verbs_link_reserve(link, rails);
    int qps = count * (int)transport->settings.qps;
    link->qp_count = (uint8_t)(qps < VERBS_QPS ? qps : VERBS_QPS);
    for (int i = 0; i < link->qp_count && !status; i++)
        status = verbs_qp_open(link, (uint32_t)i, &pairs[i % count], i / count);
    if (status)
        qps_close(link);
    link->live = (uint8_t)((1u << link->qp_count) - 1);
    return status;
}

/* Opens queue pairs, and begins to connect. */
static int link_begin(struct weft_link *link)
{
    struct weft_transport *transport = link->transport;
    link->window = transport->links_alive < VERBS_LINKS_LARGE ? VERBS_WINDOW : VERBS_WINDOW_SMALL;
    link->sent = link->acked = link->expected = link->consumed = link->reported = VERBS_FIRST_SEQUENCE;
    link->round = link->peer_generation = 0;
    link->first = link->has_agreed = 0;
    int status = qps_open(link);
    if (status)
        return status;
    uint16_t nonce;
    weft_crypto_random(&nonce, sizeof nonce);
    link->id = (link->id & 0xffff) | (uint32_t)nonce << 16;
    link->generation = ++transport->links_made;
    link->deadline_ns = weft_clock_ns() + VERBS_CONNECT_NS;
    link->oob_wait_ns = OOB_NS;
    link->oob_due = link->leave_due = 0;
    link->state = VERBS_LINK_CONNECTING;
    transport->links_connecting++;
    return WEFT_OK;
}

/* The link to this address that was parked, if there is one. */
static struct weft_link *link_parked(const struct weft_transport *transport, const void *address, size_t size)
{
    for (uint32_t i = 0; i < transport->links_count; i++) {
        struct weft_link *link = transport->links[i];
        if (link->state == VERBS_LINK_PARKED && verbs_link_leads(link, address, size))
            return link;
    }
    return NULL;
}

void verbs_link_reopen(struct weft_link *link)
{
    verbs_link_cut(link);
    int status = link_begin(link);
    if (!status) {
        verbs_link_send_oob(link);
        return;
    }
    link->state = VERBS_LINK_CONNECTING;
    link->transport->links_connecting++;
    verbs_link_fail(link, status, "%s", weft_error_detail());
}

int verbs_link_make(struct weft_transport *transport, const struct verbs_address *peer, const void *address,
                    size_t size, struct weft_link **result)
{
    struct weft_link *parked = link_parked(transport, address, size);
    if (parked) {
        verbs_link_cut(parked);
        *result = parked;
        return link_begin(parked);
    }
    int status = table_grow(transport);
    if (status)
        return status;
    struct weft_link *link = calloc(1, sizeof *link);
    if (!link)
        return weft_fail(WEFT_NOMEM, "verbs: no memory for a link");
    link->transport = transport;
    link->peer = *peer;
    memcpy(link->address, address, size);
    link->address_size = size;
    link->id = transport->links_count;
    status = link_begin(link);
    if (status) {
        free(link);
        return status;
    }
    transport->links[transport->links_count++] = link;
    *result = link;
    return WEFT_OK;
}

int verbs_connect(struct weft_transport *transport, const void *bytes, size_t size, void *link_context,
                  struct weft_link **result)
{
    struct verbs_address peer;
    if (transport->broken)
        return weft_fail(WEFT_TRANSPORT, "%s", transport->why);
    if (!transport->oob_send)
        return weft_fail(WEFT_UNSUPPORTED,
                         "verbs: this context has no way to send out-of-band messages to peers");
    if (size > WEFT_ADDRESS_MAX)
        return weft_fail(WEFT_PROTOCOL, "verbs: peer address of %zu bytes, expected at most %d", size,
                         WEFT_ADDRESS_MAX);
    int status = verbs_address_decode(bytes, size, &peer);
    if (status)
        return status;
    struct weft_link *link = verbs_link_of(transport, bytes, size);
    if (!link) {
        status = verbs_link_make(transport, &peer, bytes, size, &link);
        if (status)
            return status;
        verbs_link_send_oob(link);
    }
    if (link->references == 0) {
        link->context = link_context;
        verbs_leave_used(link); /* may fail it */
    }
    link->references++;
    if (link->state == VERBS_LINK_FAILED && link->references == 1)
        verbs_notice_push(transport, &link->notice, WEFT_EVENT_LINK_FAILED, link->status);
    *result = link;
    return WEFT_OK;
}

void verbs_disconnect(struct weft_link *link)
{
    if (link->references > 0 && --link->references == 0) {
        link->context = NULL;
        verbs_leave_unused(link);
    }
}

int verbs_link_flags(struct weft_link *link, uint32_t *flags)
{
    if (link->state == VERBS_LINK_FAILED)
        return weft_fail(link->status, "%s", link->why);
    if (link->state == VERBS_LINK_PARKED || (link->state != VERBS_LINK_UP && !link->round) ||
        link->leave >= VERBS_LEAVE_ASKED) /* the queue pairs may be about to go */
        return WEFT_AGAIN;
    *flags = 0;
    return WEFT_OK;
}

const char *verbs_link_why(struct weft_link *link)
{
    return link->state == VERBS_LINK_FAILED ? link->why : NULL;
}

int verbs_sent_by(struct weft_transport *transport, const void *sender, const void *bytes, size_t size)
{
    const struct weft_link *link = sender;
    (void)transport;
    return link && verbs_link_leads(link, bytes, size);
}

void verbs_link_up(struct weft_link *link)
{
    if (link->state != VERBS_LINK_CONNECTING || !link->ready || verbs_failover_is_turning(link))
        return;
    link->state = VERBS_LINK_UP;
    link->transport->links_connecting--;
    if (link->round)
        verbs_failover_resume(link);
    verbs_leave_up(link);
}

void verbs_qps_stop(struct weft_link *link)
{
    for (uint32_t i = 0; i < link->qp_count; i++) {
        if (!link->qps[i])
            continue;
        verbs_qp_stop(link->qps[i]);
        verbs_qp_mark(link->qps[i]); /* or nothing reports requests without a completion */
    }
}

int verbs_qps_are_flushed(const struct weft_link *link)
{
    for (uint32_t i = 0; i < link->qp_count; i++) {
        if (link->qps[i] && link->qps[i]->posted != link->qps[i]->retired)
            return 0;
    }
    return 1;
}

void verbs_link_stop(struct weft_link *link)
{
    struct weft_transport *transport = link->transport;
    verbs_qps_stop(link);
    verbs_rbufs_link_failed(link);
    verbs_failover_link_failed(link);
    link->dying_ns = weft_clock_ns();
    link->next_dying = transport->dying;
    transport->dying = link;
}

void verbs_link_fail(struct weft_link *link, int status, const char *format, ...)
{
    struct weft_transport *transport = link->transport;
    if (link->state == VERBS_LINK_FAILED || link->state == VERBS_LINK_PARKED || verbs_leave_failed(link))
        return;
    va_list args;
    va_start(args, format);
    vsnprintf(link->why, sizeof link->why, format, args);
    va_end(args);
    weft_log(WEFT_LOG_INFO, "%s", link->why);
    if (link->state == VERBS_LINK_CONNECTING)
        transport->links_connecting--;
    if (link->pending)
        transport->links_pending--;
    link->pending = 0;
    link->state = VERBS_LINK_FAILED;
    link->status = status;
    verbs_link_stop(link);
    if (link->peer_generation)
        verbs_link_send_end(link);
    if (link->references > 0)
        verbs_notice_push(transport, &link->notice, WEFT_EVENT_LINK_FAILED, status);
}

int verbs_link_is_dead(const struct weft_link *link)
{
    return link->state == VERBS_LINK_FAILED && !link->rails;
}

static int is_due(const struct weft_link *link, int64_t now_ns)
{
    return now_ns - link->dying_ns >= (verbs_qps_are_flushed(link) ? DYING_NS : VERBS_FLUSH_NS);
}

/* Before queue pairs end, the completion queues are read: many devices remove a queue pair's completions with it, and the
 * receives that these stand for would be neither in the queue nor with us. What is read may make other links fail. */
void verbs_links_reap(struct weft_transport *transport, int64_t now_ns)
{
    int due = 0;
    for (struct weft_link *link = transport->dying; link; link = link->next_dying)
        due += is_due(link, now_ns);
    if (!due)
        return;
    verbs_drain(transport);
    for (struct weft_link **next = &transport->dying; *next;) {
        struct weft_link *link = *next;
        if (!is_due(link, now_ns)) {
            next = &link->next_dying;
            continue;
        }
        *next = link->next_dying;
        qps_close(link);
    }
}

void verbs_link_cut(struct weft_link *link)
{
    struct weft_transport *transport = link->transport;
    verbs_drain(transport); /* as above */
    for (struct weft_link **next = &transport->dying; *next; next = &(*next)->next_dying) {
        if (*next != link)
            continue;
        *next = link->next_dying;
        qps_close(link);
        return;
    }
}

void verbs_link_free(struct weft_link *link)
{
    qps_close(link);
    verbs_rbufs_link_freed(link);
    verbs_failover_free(link);
    free(link);
}

void verbs_link_want(struct weft_link *link, uint8_t pending)
{
    if (link->state != VERBS_LINK_UP)
        return;
    if (!link->pending)
        link->transport->links_pending++;
    link->pending |= pending;
}

/* Sends one pending kind of frame. WEFT_AGAIN keeps it pending. */
static int pending_send(struct weft_link *link, uint8_t pending)
{
    switch (pending) {
    case VERBS_PENDING_RESUME:
        return verbs_resume_send(link);
    case VERBS_PENDING_REPLAY:
        return verbs_puts_replay(link);
    case VERBS_PENDING_CANCEL:
        return verbs_cancels_send(link);
    case VERBS_PENDING_ANSWER:
        return verbs_answers_send(link);
    case VERBS_PENDING_CREDIT:
        /* It may have gone along with a message meanwhile. */
        if (link->consumed - link->reported < link->window / 2)
            return WEFT_OK;
        return verbs_frame_send(link, VERBS_CREDIT, 0, 0, 0);
    default:
        if (link->held)
            return WEFT_AGAIN; /* it follows the last message */
        return verbs_frame_send(link, VERBS_BYE, link->sent, 0, 1);
    }
}

static void link_flush(struct weft_link *link)
{
    static const uint8_t order[] = {VERBS_PENDING_RESUME, VERBS_PENDING_REPLAY, VERBS_PENDING_CREDIT,
                                    VERBS_PENDING_CANCEL, VERBS_PENDING_ANSWER, VERBS_PENDING_BYE};
    for (size_t i = 0; i < sizeof order / sizeof order[0] && link->state == VERBS_LINK_UP; i++) {
        if (!(link->pending & order[i]) || pending_send(link, order[i]) != WEFT_OK)
            continue;
        if (link->state != VERBS_LINK_UP)
            return; /* it has nothing pending any more */
        link->pending &= (uint8_t)~order[i];
        if (!link->pending)
            link->transport->links_pending--;
    }
}

void verbs_links_flush(struct weft_transport *transport)
{
    for (uint32_t i = 0; transport->links_pending && i < transport->links_count; i++) {
        if (transport->links[i]->pending)
            link_flush(transport->links[i]);
    }
}

void verbs_links_tick(struct weft_transport *transport, int64_t now_ns)
{
    for (uint32_t i = 0; transport->links_connecting && i < transport->links_count; i++) {
        struct weft_link *link = transport->links[i];
        if (link->state != VERBS_LINK_CONNECTING)
            continue;
        if (now_ns >= link->deadline_ns && link->round)
            verbs_failover_late(link);
        else if (now_ns >= link->deadline_ns)
            verbs_link_fail(
                link, WEFT_TRANSPORT,
                "verbs: no link to the peer within %d s: it %s; look whether it runs and makes progress",
                (int)(VERBS_CONNECT_NS / 1000000000),
                link->ready ? "has answered, but not that it is ready" : "has not answered");
        else if (link->oob_due || now_ns >= link->oob_ns)
            verbs_link_send_oob(link);
    }
}
