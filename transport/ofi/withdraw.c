/* Withdrawing landings.
 *
 * Once unland() returns no byte may arrive. A provider that works in software looks at a registration when a
 * write's header arrives, and then copies on until the write ends, whatever becomes of the registration; so
 * taking it away is not enough. unland() therefore
 *   1. makes the key lead to a sink, so that a write that begins later does no harm and breaks no connection;
 *   2. asks the peer by CANCEL to put no more; its CANCELLED comes after everything that it has put;
 *   3. waits for that answer, or for the put's end, if the peer can have learnt of the token at all. The link
 *      may turn out to be lost meanwhile; then its connection is closed, and nothing of it arrives any more.
 * A peer that is connected and says nothing for OFI_WITHDRAW_NS (it was stopped, or the network broke) leaves
 * one way to be sure: libfabric cannot close one connection of an endpoint (removing its address does not, as
 * tests showed), so the endpoint is closed, and the instance with all its links is broken.
 *
 * The sink stays until the answer. With keys of the provider's making (hardware) there is no sink: when the
 * answer does not come the region is registered anew, which makes every key given out for it worthless, and
 * only the link fails.
 */
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "transport/ofi/ofi_private.h"

/* Lets the memory go: what begins to arrive from now on goes to a sink. */
static void landing_redirect(struct weft_transport *transport, struct ofi_landing *landing)
{
    if (!transport->use_rma) {
        if (landing->state == OFI_LANDING_UNPOSTED)
            transport->landings_unposted--;
        landing->state = OFI_LANDING_WITHDRAWN;
        if (landing->posted && !transport->broken)
            fi_cancel(&transport->ep->fid, &landing->op.context);
        return;
    }
    landing->state = OFI_LANDING_WITHDRAWN;
    if (!landing->mr)
        return;
    fi_close(&landing->mr->fid);
    landing->mr = NULL;
    if (transport->address_keys)
        return;
    void *sink =
        mmap(NULL, landing->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (sink == MAP_FAILED)
        return;
    landing->sink = sink;
    if (ofi_register(transport, sink, landing->size, FI_REMOTE_WRITE, landing->key, &landing->mr))
        landing->mr = NULL;
}

/* A tagged put that is on its way needs a receive to end in. */
static void sink_post(struct weft_transport *transport, struct ofi_landing *landing)
{
    if (transport->use_rma || transport->local_mr || landing->posted || landing->sink)
        return;
    void *sink =
        mmap(NULL, landing->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (sink == MAP_FAILED)
        return;
    landing->sink = sink;
    ofi_landing_receive(transport, landing);
}

void ofi_landing_end(struct weft_transport *transport, struct ofi_landing *landing)
{
    landing->cancel_done = 1;
    if (landing->posted && !transport->broken)
        fi_cancel(&transport->ep->fid, &landing->op.context);
    else
        ofi_landing_release(transport, landing);
}

/* The last resort against a peer that does not answer. */
static void link_sever(struct weft_link *link, struct weft_region *region)
{
    struct weft_transport *transport = link->transport;
    transport->unanswered_withdrawals++;
    ofi_link_fail(link, WEFT_PEER_FAILED, "ofi: the peer did not answer within %d ms that it puts no more",
                  (int)(OFI_WITHDRAW_NS / 1000000));
    if (!region || !region->mr) {
        ofi_break(transport,
                  "ofi: closed the endpoint, as a silent peer could still have written into memory "
                  "that was taken back");
        return;
    }
    fi_close(&region->mr->fid);
    region->mr = NULL;
    if (ofi_register(transport, region->memory, region->size, ofi_region_access(transport),
                     ofi_next_key(transport), &region->mr))
        region->mr = NULL;
}

/* Progress until nothing can reach the landing's memory; 0 when that did not come to be. With answered the
 * peer's word is needed for that. */
static int withdraw_wait(struct weft_link *link, struct ofi_landing *landing, uint32_t immediate,
                         int answered)
{
    struct weft_transport *transport = link->transport;
    int64_t start_ns = weft_clock_ns(), probe_ns = start_ns;
    for (int turns = 1;; turns++) {
        if (transport->broken || ofi_landing_find(transport, immediate) != landing)
            return 1;
        int in_memory = landing->posted && !landing->sink;
        if (!in_memory)
            sink_post(transport, landing);
        if (!in_memory && (!answered || landing->cancel_done || link->state == OFI_LINK_FAILED))
            return 1;
        int64_t now_ns = weft_clock_ns();
        if (now_ns - start_ns > OFI_WITHDRAW_NS)
            return 0;
        if (now_ns - probe_ns > OFI_WITHDRAW_NS / 16) { /* a lost connection shows only when it is used */
            ofi_link_want(link, OFI_PENDING_FLUSH);
            probe_ns = now_ns;
        }
        ofi_progress(transport, OFI_BATCH);
        if (turns % 64 == 0)
            sched_yield();
    }
}

static void withdraw(struct weft_transport *transport, struct ofi_landing *landing)
{
    struct weft_link *link = landing->link;
    uint32_t immediate = ofi_landing_immediate(landing);
    struct weft_region *region = transport->use_rma ? landing->region : NULL;
    landing_redirect(transport, landing);
    int told = link->state == OFI_LINK_UP && link->sent != landing->sent_at;
    if (link->state == OFI_LINK_UP) {
        landing->cancel_due = 1;
        ofi_link_want(link, OFI_PENDING_CANCEL);
        ofi_links_flush(transport);
    }
    if (!withdraw_wait(link, landing, immediate, told))
        link_sever(link, region);
    if (ofi_landing_find(transport, immediate) == landing && link->state != OFI_LINK_UP)
        ofi_landing_end(transport, landing);
}

void ofi_unland(struct weft_link *link, const struct weft_token *bytes)
{
    struct ofi_token token;
    memcpy(&token, bytes, sizeof token);
    struct ofi_landing *landing = ofi_landing_find(link->transport, token.immediate);
    if (!landing || landing->link != link)
        return;
    if (landing->state == OFI_LANDING_FILLED)
        landing->event.withdrawn = 1;
    else if (landing->state != OFI_LANDING_WITHDRAWN)
        withdraw(link->transport, landing);
}

void ofi_landings_withdraw(struct weft_transport *transport)
{
    for (uint32_t i = 0; i < transport->landings_count; i++) {
        struct ofi_landing *landing = transport->landings[i];
        if (landing->state == OFI_LANDING_OPEN || landing->state == OFI_LANDING_UNPOSTED)
            withdraw(transport, landing);
    }
}

int ofi_cancels_send(struct weft_link *link)
{
    struct weft_transport *transport = link->transport;
    for (uint32_t i = 0; i < transport->landings_count; i++) {
        struct ofi_landing *landing = transport->landings[i];
        if (landing->state != OFI_LANDING_WITHDRAWN || landing->link != link || !landing->cancel_due)
            continue;
        uint32_t immediate = ofi_landing_immediate(landing);
        int status = ofi_frame_send(link, OFI_CANCEL, &immediate, sizeof immediate, 1);
        if (status)
            return status;
        landing->cancel_due = 0;
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
    ofi_link_fail(link, WEFT_NOMEM, "ofi: no memory to note a withdrawn landing");
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
    struct ofi_landing *landing = ofi_landing_find(link->transport, immediate);
    if (landing && landing->link == link && landing->state == OFI_LANDING_WITHDRAWN)
        ofi_landing_end(link->transport, landing);
}

void ofi_landings_abandon(struct weft_link *link)
{
    struct weft_transport *transport = link->transport;
    for (uint32_t i = 0; i < transport->landings_count; i++) {
        struct ofi_landing *landing = transport->landings[i];
        if (landing->state == OFI_LANDING_WITHDRAWN && landing->link == link && !landing->cancel_done)
            ofi_landing_end(transport, landing);
    }
}
