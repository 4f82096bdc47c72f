/* SPDX-License-Identifier: Apache-2.0 */
/* Taking memory back: receive buffers that peers may write into, and puts that read the caller's memory.
 *
 * Once recall_wait() returns no byte may arrive. A provider that works in software looks at a registration
 * when a write's header arrives, and then copies on until the write ends, whatever becomes of the
 * registration; so taking it away is not enough. Recalling a receive buffer therefore
 *   1. makes the key lead to a sink, so that a write that begins later does no harm and breaks no connection;
 *   2. asks the peer by CANCEL to put no more; its CANCELLED comes after everything that it has put;
 *   3. needs that answer, or the put's end, if the peer can have learnt of the token at all.
 * A put that is recalled goes on until libfabric has done with its memory.
 *
 * recall_wait() gives all peers OFI_RECALL_NS together, OFI_RECALL_SLOW_NS those that say anything at all
 * meanwhile. The connection to a peer that has not answered by then (it was stopped, or the network broke), or
 * whose link has failed in a way that does not show whether the connection still stands, or whose kernel has
 * ended it (the process has died, of which a provider that connects anew says nothing), is cut (sever.c):
 * nothing more moves over it in either direction, a write that was half done is never completed, and the
 * provider gives back the puts that it held. The peer sees its connection end in the middle of what it
 * received, so it cannot take it for whole.
 *
 * Where the connection cannot be cut, receive buffers in registered regions are saved by registering the region
 * anew, which makes every key given out for it worthless (keys of the provider's making: hardware, which
 * looks at every packet), without waiting longer; not those in device memory. The last resort is to close the
 * endpoint: the instance with all its links is broken then.
 *
 * The sink stays until the peer's answer or the end of the connection.
 */
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "transport/ofi/ofi_private.h"

_Static_assert(OFI_RECALL_SLOW_NS + OFI_SEVER_NS <= WEFT_RECALL_MS * INT64_C(1000000),
               "what transport.h promises");

/* Lets the memory go: what begins to arrive from now on goes to a sink. */
static void rbuf_redirect(struct weft_transport *transport, struct ofi_rbuf *rbuf)
{
    if (!transport->use_rma) {
        if (rbuf->state == OFI_RBUF_UNPOSTED)
            transport->rbufs_unposted--;
        rbuf->state = OFI_RBUF_WITHDRAWN;
        if (rbuf->posted && !transport->broken)
            fi_cancel(&transport->ep->fid, &rbuf->op.context);
        return;
    }
    rbuf->state = OFI_RBUF_WITHDRAWN;
    if (!rbuf->mr)
        return;
    fi_close(&rbuf->mr->fid);
    rbuf->mr = NULL;
    if (transport->address_keys)
        return;
    void *sink =
        mmap(NULL, rbuf->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (sink == MAP_FAILED)
        return;
    rbuf->sink = sink;
    if (ofi_register(transport, sink, rbuf->size, FI_REMOTE_WRITE, rbuf->key, &rbuf->mr))
        rbuf->mr = NULL;
}

/* A tagged put that is on its way needs a receive to end in. */
static void sink_post(struct weft_transport *transport, struct ofi_rbuf *rbuf)
{
    if (transport->use_rma || transport->local_mr || rbuf->posted || rbuf->sink)
        return;
    void *sink =
        mmap(NULL, rbuf->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (sink == MAP_FAILED)
        return;
    rbuf->sink = sink;
    ofi_rbuf_receive(transport, rbuf);
}

void ofi_rbuf_end(struct weft_transport *transport, struct ofi_rbuf *rbuf)
{
    rbuf->cancel_done = 1;
    if (rbuf->posted && !transport->broken)
        fi_cancel(&transport->ep->fid, &rbuf->op.context);
    else
        ofi_rbuf_release(transport, rbuf);
}

static void rbuf_recall(struct weft_transport *transport, struct ofi_rbuf *rbuf)
{
    struct weft_link *link = rbuf->link;
    rbuf->recalled = 1;
    rbuf->known = link->sent != rbuf->sent_at;
    transport->recalling = 1;
    rbuf_redirect(transport, rbuf);
    if (link->state == OFI_LINK_UP) {
        rbuf->cancel_due = 1;
        ofi_link_want(link, OFI_PENDING_CANCEL);
    }
}

int ofi_recall(struct weft_link *link, const struct weft_token *bytes, uint64_t cookie)
{
    struct ofi_token token;
    if (!bytes) {
        ofi_put_recall(link, cookie);
        return WEFT_OK;
    }
    memcpy(&token, bytes, sizeof token);
    struct ofi_rbuf *rbuf = ofi_rbuf_find(link->transport, token.immediate);
    if (!rbuf || rbuf->link != link)
        return WEFT_OK;
    if (rbuf->state == OFI_RBUF_FILLED)
        rbuf->event.withdrawn = 1;
    else if (rbuf->state != OFI_RBUF_WITHDRAWN)
        rbuf_recall(link->transport, rbuf);
    return WEFT_OK;
}

void ofi_withdraw(struct weft_link *link, const struct weft_token *token)
{
    ofi_recall(link, token, 0);
    ofi_recall_wait(link->transport);
}

void ofi_rbufs_withdraw(struct weft_transport *transport)
{
    for (uint32_t i = 0; i < transport->rbufs_count; i++) {
        struct ofi_rbuf *rbuf = transport->rbufs[i];
        if (rbuf->state == OFI_RBUF_OPEN || rbuf->state == OFI_RBUF_UNPOSTED)
            rbuf_recall(transport, rbuf);
    }
    ofi_recall_wait(transport);
}

/* Whether nothing can reach the memory of a receive buffer that was recalled. */
static int is_safe(const struct ofi_rbuf *rbuf)
{
    if (rbuf->posted && !rbuf->sink)
        return 0;
    return !rbuf->known || rbuf->cancel_done || rbuf->link->closed;
}

/* Takes note of what has become safe; whether something of the link is not, or of any link for NULL. */
static int is_unsettled(struct weft_transport *transport, const struct weft_link *link)
{
    if (transport->broken)
        return 0;
    int left = 0;
    for (uint32_t i = 0; i < transport->rbufs_count; i++) {
        struct ofi_rbuf *rbuf = transport->rbufs[i];
        if (!rbuf->recalled || (link && rbuf->link != link))
            continue;
        if (!rbuf->posted)
            sink_post(transport, rbuf);
        if (!is_safe(rbuf)) {
            left = 1;
            continue;
        }
        rbuf->recalled = 0;
        if (rbuf->link->closed)
            ofi_rbuf_end(transport, rbuf);
    }
    for (const struct ofi_put *put = transport->active_puts; put && !left; put = put->next)
        left = put->recalled && (!link || put->op.link == link);
    return left;
}

/* Whether no answer will come: the link has failed, its time is over, or the peer has ended the connection. */
static int is_silent(struct weft_link *link, int64_t waited_ns)
{
    return link->state == OFI_LINK_FAILED || waited_ns > (link->heard ? OFI_RECALL_SLOW_NS : OFI_RECALL_NS) ||
           ofi_connection_ended(link, 1);
}

static void cut_silent(struct weft_transport *transport, int64_t waited_ns)
{
    for (uint32_t i = 0; i < transport->links_count; i++) {
        struct weft_link *link = transport->links[i];
        if (link->closed || !is_unsettled(transport, link))
            continue;
        /* What could not be cut yet may have become known, or gone. */
        if (link->sever != OFI_SEVER_SHUT && is_silent(link, waited_ns)) {
            transport->unanswered_withdrawals += link->sever == OFI_SEVER_NOT;
            ofi_sever_begin(link, "ofi: the peer did not answer that it puts no more");
            ofi_progress(transport, OFI_BATCH); /* net forgets connections that end in the same moment */
        }
        if (link->sever == OFI_SEVER_SHUT && ofi_sever_done(link)) {
            link->closed = 1;
            ofi_rbufs_abandon(link);
        }
    }
}

/* Of a device's memory the dma-buf is closed by now. */
static int is_renewable(const struct ofi_rbuf *rbuf)
{
    return rbuf->region && !rbuf->region->is_device;
}

/* Registers the region of a receive buffer anew. */
static int region_renew(struct weft_transport *transport, struct weft_region *region)
{
    if (region->mr)
        fi_close(&region->mr->fid);
    region->mr = NULL;
    return ofi_register(transport, region->memory, region->size, ofi_region_access(transport),
                        ofi_next_key(transport), &region->mr);
}

/* What cutting connections could not save. */
static void save_the_rest(struct weft_transport *transport)
{
    int left = 0;
    for (uint32_t i = 0; i < transport->rbufs_count && !transport->broken; i++) {
        struct ofi_rbuf *rbuf = transport->rbufs[i];
        if (!rbuf->recalled || is_safe(rbuf))
            continue;
        int renewable = transport->use_rma && !transport->own_keys && is_renewable(rbuf);
        if (!renewable || (rbuf->region->mr && region_renew(transport, rbuf->region)))
            left = 1;
        else
            ofi_rbuf_end(transport, rbuf);
    }
    if (is_unsettled(transport, NULL) || left)
        ofi_break(transport,
                  "ofi: closed the endpoint, as a silent peer could still have reached memory that "
                  "was taken back");
}

/* Whether nothing but registering anew helps, which is not worth waiting for. */
static int only_renewal_helps(const struct weft_transport *transport)
{
    if (!transport->use_rma || transport->own_keys)
        return 0;
    for (uint32_t i = 0; i < transport->rbufs_count; i++) {
        const struct ofi_rbuf *rbuf = transport->rbufs[i];
        if (rbuf->recalled && !is_safe(rbuf) &&
            (rbuf->link->sever != OFI_SEVER_CANNOT || !is_renewable(rbuf)))
            return 0;
    }
    for (const struct ofi_put *put = transport->active_puts; put; put = put->next) {
        if (put->recalled)
            return 0;
    }
    return 1;
}

static void probe_all(struct weft_transport *transport)
{
    for (uint32_t i = 0; i < transport->links_count; i++) {
        if (transport->links[i]->state == OFI_LINK_UP && is_unsettled(transport, transport->links[i]))
            ofi_link_want(transport->links[i], OFI_PENDING_FLUSH);
    }
}

void ofi_recall_wait(struct weft_transport *transport)
{
    int64_t start_ns = weft_clock_ns(), look_ns = start_ns, probe_ns = start_ns;
    transport->linger_ns = start_ns + OFI_LINGER_NS; /* with nothing of our own to recall, too */
    if (!transport->recalling)
        return;
    transport->recalling = 0;
    for (uint32_t i = 0; i < transport->links_count; i++)
        transport->links[i]->heard = 0;
    ofi_links_flush(transport);
    for (int turns = 1; is_unsettled(transport, NULL); turns++) {
        int64_t now_ns = weft_clock_ns();
        if (now_ns - start_ns > OFI_RECALL_SLOW_NS + OFI_SEVER_NS || only_renewal_helps(transport)) {
            save_the_rest(transport);
            break;
        }
        if (now_ns >= look_ns) { /* looking for sockets is slow: a fifth of the time at most */
            cut_silent(transport, now_ns - start_ns);
            int64_t took_ns = weft_clock_ns() - now_ns;
            look_ns = now_ns + 5 * (took_ns > OFI_LOOK_NS / 5 ? took_ns : OFI_LOOK_NS / 5);
        }
        if (now_ns - probe_ns > OFI_RECALL_NS / 16) { /* a lost connection shows only when it is used */
            probe_all(transport);
            probe_ns = now_ns;
        }
        ofi_progress(transport, OFI_BATCH);
        if (turns % 64 == 0)
            sched_yield();
    }
}

int ofi_cancels_send(struct weft_link *link)
{
    struct weft_transport *transport = link->transport;
    for (uint32_t i = 0; i < transport->rbufs_count; i++) {
        struct ofi_rbuf *rbuf = transport->rbufs[i];
        if (rbuf->state != OFI_RBUF_WITHDRAWN || rbuf->link != link || !rbuf->cancel_due)
            continue;
        uint32_t immediate = ofi_rbuf_immediate(rbuf);
        int status = ofi_frame_send(link, OFI_CANCEL, &immediate, sizeof immediate, 1);
        if (status)
            return status;
        rbuf->cancel_due = 0;
    }
    return WEFT_OK;
}

static int list_add(uint32_t **list, uint32_t *count, uint32_t *capacity, uint32_t value)
{
    if (*count == *capacity) {
        uint32_t more = *capacity ? *capacity * 2 : 16;
        uint32_t *grown = realloc(*list, more * sizeof *grown);
        if (!grown)
            return WEFT_NOMEM;
        *list = grown;
        *capacity = more;
    }
    (*list)[(*count)++] = value;
    return WEFT_OK;
}

void ofi_cancel_receive(struct weft_link *link, uint32_t immediate)
{
    uint32_t at = 0;
    while (at < link->refused_count && (link->refused[at] & 0xffff) != (immediate & 0xffff))
        at++;
    if (at < link->refused_count)
        link->refused[at] = immediate; /* the slot's earlier token is older still */
    else if (list_add(&link->refused, &link->refused_count, &link->refused_capacity, immediate))
        goto no_memory;
    if (list_add(&link->answers, &link->answers_count, &link->answers_capacity, immediate))
        goto no_memory;
    ofi_link_want(link, OFI_PENDING_CANCELLED);
    return;

no_memory:
    ofi_link_fail(link, WEFT_NOMEM, "ofi: no memory to note a withdrawn receive buffer");
}

static int is_active(const struct weft_link *link, uint32_t immediate)
{
    for (const struct ofi_put *put = link->transport->active_puts; put; put = put->next) {
        if (put->op.link == link && put->immediate == immediate)
            return 1;
    }
    return 0;
}

int ofi_cancelled_send(struct weft_link *link)
{
    for (uint32_t i = link->answers_count; i-- > 0;) {
        uint32_t immediate = link->answers[i];
        if (is_active(link, immediate))
            continue;
        int status = ofi_frame_send(link, OFI_CANCELLED, &immediate, sizeof immediate, 0);
        if (status)
            return status;
        link->answers[i] = link->answers[--link->answers_count];
    }
    return link->answers_count ? WEFT_AGAIN : WEFT_OK;
}

void ofi_cancelled_receive(struct weft_link *link, uint32_t immediate)
{
    struct ofi_rbuf *rbuf = ofi_rbuf_find(link->transport, immediate);
    if (rbuf && rbuf->link == link && rbuf->state == OFI_RBUF_WITHDRAWN)
        ofi_rbuf_end(link->transport, rbuf);
}

void ofi_rbufs_abandon(struct weft_link *link)
{
    struct weft_transport *transport = link->transport;
    for (uint32_t i = 0; i < transport->rbufs_count; i++) {
        struct ofi_rbuf *rbuf = transport->rbufs[i];
        if (rbuf->state == OFI_RBUF_WITHDRAWN && rbuf->link == link && !rbuf->cancel_done &&
            !(rbuf->recalled && rbuf->posted && !rbuf->sink))
            ofi_rbuf_end(transport, rbuf);
    }
}
