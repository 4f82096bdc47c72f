/* Landings and puts.
 *
 * Withdrawing. Once unland() returns no byte may arrive. A provider that works in software looks at a
 * registration when a write's header arrives, and then copies on until the write ends, whatever becomes of
 * the registration; so taking it away is not enough. unland() therefore
 *   1. makes the key lead to a sink, so that a write that begins later does no harm and breaks no connection;
 *   2. asks the peer by CANCEL to put no more; its CANCELLED comes after everything that it has put;
 *   3. waits for that answer, if the peer can have learnt of the token at all. A peer that does not answer
 *      within OFI_WITHDRAW_NS is taken for dead: its link fails, and its address is removed, which makes the
 *      provider close the connection.
 * The sink stays until the answer. With keys of the provider's making (hardware) there is no sink: when the
 * answer does not come the region is registered anew, which makes every key given out for it worthless.
 */
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "transport/ofi/ofi_private.h"

static uint32_t immediate_of(const struct ofi_landing *landing)
{
    return landing->slot | (uint32_t)landing->generation << 16;
}

static struct ofi_landing *landing_find(struct weft_transport *transport, uint32_t immediate)
{
    uint32_t slot = immediate & 0xffff;
    struct ofi_landing *landing = slot < transport->landings_count ? transport->landings[slot] : NULL;
    if (!landing || landing->state == OFI_LANDING_FREE || landing->generation != immediate >> 16)
        return NULL;
    return landing;
}

/* Slots are reused in the order they were freed, so that generations last. */
static struct ofi_landing *landing_take(struct weft_transport *transport)
{
    struct ofi_landing *landing = transport->free_landings;
    if (landing) {
        transport->free_landings = landing->next;
        return landing;
    }
    if (transport->landings_count == transport->landings_capacity) {
        uint32_t capacity = transport->landings_capacity ? transport->landings_capacity * 2 : 64;
        if (capacity > 0x10000)
            return NULL;
        struct ofi_landing **landings = realloc(transport->landings, capacity * sizeof(*landings));
        if (!landings)
            return NULL;
        transport->landings = landings;
        transport->landings_capacity = capacity;
    }
    landing = calloc(1, sizeof *landing);
    if (!landing)
        return NULL;
    landing->slot = (uint16_t)transport->landings_count;
    landing->op.kind = OFI_OP_LAND;
    transport->landings[transport->landings_count++] = landing;
    return landing;
}

static void landing_release(struct weft_transport *transport, struct ofi_landing *landing)
{
    if (landing->mr)
        fi_close(&landing->mr->fid);
    if (landing->sink)
        munmap(landing->sink, landing->size);
    if (landing->prefix) {
        ofi_send_return(transport, landing->prefix);
        transport->sends_limit--;
    }
    if (transport->data_buffers)
        transport->receives_wanted--;
    landing->mr = NULL;
    landing->sink = NULL;
    landing->prefix = NULL;
    landing->state = OFI_LANDING_FREE;
    landing->generation++;
    landing->next = NULL;
    if (transport->free_landings)
        transport->free_landings_last->next = landing;
    else
        transport->free_landings = landing;
    transport->free_landings_last = landing;
}

int ofi_prefix_take(struct weft_transport *transport, struct ofi_buffer **prefix)
{
    if (!transport->prefix || transport->use_rma)
        return WEFT_OK;
    transport->sends_limit++;
    *prefix = ofi_send_take(transport);
    if (*prefix)
        return WEFT_OK;
    transport->sends_limit--;
    return weft_fail(WEFT_NOMEM, "ofi: no memory for a message prefix");
}

/* Posts the tagged receive of a landing, into its memory or its sink. */
static ssize_t tagged_receive(struct weft_transport *transport, struct ofi_landing *landing)
{
    void *memory = landing->sink ? landing->sink : landing->memory;
    struct fid_mr *mr = landing->mr ? landing->mr : landing->region ? landing->region->mr : NULL;
    void *desc = mr ? fi_mr_desc(mr) : NULL;
    uint64_t tag = OFI_TAG(immediate_of(landing));
    ssize_t error;
    if (landing->prefix) {
        struct iovec iov[2] = {{landing->prefix->memory, transport->prefix}, {memory, landing->size}};
        void *descs[2] = {landing->prefix->desc, desc};
        error = fi_trecvv(transport->ep, iov, transport->local_mr ? descs : NULL, 2, FI_ADDR_UNSPEC, tag, 0,
                          &landing->op.context);
    } else {
        error = fi_trecv(transport->ep, memory, landing->size, desc, FI_ADDR_UNSPEC, tag, 0,
                         &landing->op.context);
    }
    landing->posted = error == 0;
    return error;
}

void ofi_landings_post(struct weft_transport *transport)
{
    for (uint32_t i = 0; transport->landings_unposted && i < transport->landings_count; i++) {
        struct ofi_landing *landing = transport->landings[i];
        if (landing->state != OFI_LANDING_UNPOSTED)
            continue;
        ssize_t error = tagged_receive(transport, landing);
        if (error == -FI_EAGAIN)
            return;
        transport->landings_unposted--;
        landing->state = OFI_LANDING_OPEN;
        if (error)
            ofi_landing_completed(transport, landing, WEFT_TRANSPORT, 0);
    }
}

/* Makes the memory reachable for the peer. */
static int landing_open(struct weft_transport *transport, struct ofi_landing *landing,
                        struct ofi_token *token)
{
    struct weft_region *region = landing->region;
    if (!transport->use_rma) {
        ssize_t error = tagged_receive(transport, landing);
        if (error && error != -FI_EAGAIN)
            return weft_fail(WEFT_TRANSPORT, "ofi: tagged receive: %s",
                             transport->library->strerror((int)-error));
        landing->state = error ? OFI_LANDING_UNPOSTED : OFI_LANDING_OPEN;
        transport->landings_unposted += error != 0;
        return WEFT_OK;
    }
    landing->state = OFI_LANDING_OPEN;
    token->address = transport->address_keys ? (uint64_t)(uintptr_t)landing->memory : 0;
    if (!transport->own_keys) {
        token->key = fi_mr_key(region->mr);
        if (!transport->address_keys)
            token->address = (uint64_t)((uint8_t *)landing->memory - (uint8_t *)region->memory);
        return WEFT_OK;
    }
    landing->key = transport->key_base | immediate_of(landing);
    int status =
        ofi_register(transport, landing->memory, landing->size, FI_REMOTE_WRITE, landing->key, &landing->mr);
    if (status)
        return status;
    token->key = fi_mr_key(landing->mr);
    return WEFT_OK;
}

static int region_covers(const struct weft_region *region, const void *memory, size_t size)
{
    uintptr_t start = (uintptr_t)region->memory, wanted = (uintptr_t)memory;
    return wanted >= start && wanted - start <= region->size && size <= region->size - (wanted - start);
}

int ofi_region_check(const struct weft_transport *transport, int needed, const struct weft_region *region,
                     const void *memory, size_t size)
{
    if (size == 0 || size > transport->put_bytes)
        return weft_fail(WEFT_INVALID, "ofi: put of %zu bytes, expected 1 to %llu", size,
                         (unsigned long long)transport->put_bytes);
    if (needed && (!region || !region->mr || !region_covers(region, memory, size)))
        return weft_fail(WEFT_INVALID, "ofi: provider %s needs a region that covers the memory",
                         transport->info->fabric_attr->prov_name);
    return WEFT_OK;
}

int ofi_land(struct weft_link *link, struct weft_region *region, void *memory, size_t size, uint64_t cookie,
             struct weft_token *result)
{
    struct weft_transport *transport = link->transport;
    if (link->state == OFI_LINK_FAILED)
        return weft_fail(link->status, "%s", link->why);
    int needs_region = transport->use_rma ? !transport->own_keys : transport->local_mr;
    int status = ofi_region_check(transport, needs_region, region, memory, size);
    if (status)
        return status;
    if (transport->data_buffers)
        status = ofi_receives_grow(transport, 1);
    if (status)
        return status;
    struct ofi_landing *landing = landing_take(transport);
    if (!landing)
        return weft_fail(WEFT_NOMEM, "ofi: no room for another landing beside %u", transport->landings_count);
    landing->link = landing->op.link = link;
    landing->region = needs_region ? region : NULL;
    landing->memory = memory;
    landing->size = size;
    landing->cookie = cookie;
    landing->sent_at = link->sent;
    landing->cancel_due = landing->cancel_done = landing->posted = 0;
    struct ofi_token token = {
        .magic = OFI_MAGIC,
        .immediate = immediate_of(landing),
        .size = size,
        .instance = transport->address.instance,
    };
    status = ofi_prefix_take(transport, &landing->prefix);
    if (!status)
        status = landing_open(transport, landing, &token);
    if (status) {
        landing_release(transport, landing);
        return status;
    }
    memset(result, 0, sizeof *result);
    memcpy(result, &token, sizeof token);
    return WEFT_OK;
}

static void landing_counted(struct ofi_landing *landing)
{
    struct weft_transport *transport = landing->link->transport;
    landing->link->landed++;
    if (!transport->owing) {
        transport->owing = 1;
        transport->owing_since_ns = 0;
    }
}

void ofi_landing_arrived(struct weft_transport *transport, uint64_t immediate)
{
    struct ofi_landing *landing =
        immediate <= UINT32_MAX ? landing_find(transport, (uint32_t)immediate) : NULL;
    if (landing)
        landing_counted(landing);
    if (!landing || landing->state != OFI_LANDING_OPEN) {
        transport->stale_puts++;
        weft_log(WEFT_LOG_DEBUG, "ofi: dropped a put into a landing that is no more");
        return;
    }
    if (landing->mr) { /* one put only */
        fi_close(&landing->mr->fid);
        landing->mr = NULL;
    }
    landing->state = OFI_LANDING_FILLED;
    ofi_event_push(transport, &landing->event, WEFT_EVENT_LANDED, WEFT_OK);
}

void ofi_landing_completed(struct weft_transport *transport, struct ofi_landing *landing, int status,
                           size_t size)
{
    landing->posted = 0;
    if (status == WEFT_OK)
        landing_counted(landing);
    if (landing->state == OFI_LANDING_OPEN) {
        if (status == WEFT_OK && size != landing->size)
            status = weft_fail(WEFT_PROTOCOL, "ofi: a put of %zu bytes arrived where %zu were expected", size,
                               landing->size);
        landing->state = OFI_LANDING_FILLED;
        ofi_event_push(transport, &landing->event, WEFT_EVENT_LANDED, status);
        return;
    }
    if (status == WEFT_OK)
        transport->stale_puts++;
    if (landing->cancel_done)
        landing_release(transport, landing);
}

void ofi_landing_told(struct weft_transport *transport, struct ofi_landing *landing)
{
    landing_release(transport, landing);
}

/* Lets the memory go: what begins to arrive from now on goes to a sink. */
static void landing_redirect(struct weft_transport *transport, struct ofi_landing *landing)
{
    if (!transport->use_rma) {
        if (landing->state == OFI_LANDING_UNPOSTED)
            transport->landings_unposted--;
        landing->state = OFI_LANDING_WITHDRAWN;
        if (landing->posted)
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
    tagged_receive(transport, landing);
}

/* Nothing of this landing can arrive any more: forgets it, once libfabric lets go of it. */
static void landing_end(struct weft_transport *transport, struct ofi_landing *landing)
{
    landing->cancel_done = 1;
    if (landing->posted)
        fi_cancel(&transport->ep->fid, &landing->op.context);
    else
        landing_release(transport, landing);
}

/* The last resort against a peer that does not answer. */
static void link_sever(struct weft_link *link, struct weft_region *region)
{
    struct weft_transport *transport = link->transport;
    transport->unanswered_withdrawals++;
    ofi_link_fail(link, WEFT_PEER_FAILED, "ofi: the peer did not answer within %d ms that it puts no more",
                  (int)(OFI_WITHDRAW_NS / 1000000));
    if (link->inserted)
        fi_av_remove(transport->av, &link->to, 1, 0);
    link->inserted = 0;
    if (!region || !region->mr)
        return;
    fi_close(&region->mr->fid);
    region->mr = NULL;
    if (ofi_register(transport, region->memory, region->size, ofi_region_access(transport),
                     ofi_next_key(transport), &region->mr))
        region->mr = NULL;
}

/* Progress until nothing can reach the landing's memory; 0 when that did not come to be. */
static int withdraw_wait(struct weft_link *link, struct ofi_landing *landing, uint32_t immediate,
                         int answered)
{
    struct weft_transport *transport = link->transport;
    int64_t deadline_ns = weft_clock_ns() + OFI_WITHDRAW_NS;
    for (int turns = 1;; turns++) {
        if (landing_find(transport, immediate) != landing)
            return 1;
        int in_memory = landing->posted && !landing->sink;
        if (!in_memory)
            sink_post(transport, landing);
        if (!in_memory && (!answered || landing->cancel_done || link->state == OFI_LINK_FAILED))
            return 1;
        if (transport->broken || weft_clock_ns() > deadline_ns)
            return 0;
        ofi_progress(transport, OFI_BATCH);
        if (turns % 256 == 0)
            sched_yield();
    }
}

void ofi_unland(struct weft_link *link, const struct weft_token *bytes)
{
    struct weft_transport *transport = link->transport;
    struct ofi_token token;
    memcpy(&token, bytes, sizeof token);
    struct ofi_landing *landing = landing_find(transport, token.immediate);
    if (!landing || landing->link != link || landing->state == OFI_LANDING_WITHDRAWN)
        return;
    if (landing->state == OFI_LANDING_FILLED) {
        landing->event.withdrawn = 1;
        return;
    }
    struct weft_region *region = transport->use_rma ? landing->region : NULL;
    landing_redirect(transport, landing);
    int told = link->state == OFI_LINK_UP && link->sent != landing->sent_at;
    if (link->state == OFI_LINK_UP) {
        landing->cancel_due = 1;
        ofi_link_want(link, OFI_PENDING_CANCEL);
        ofi_links_flush(transport);
    }
    if (!withdraw_wait(link, landing, token.immediate, told))
        link_sever(link, region);
    if (landing_find(transport, token.immediate) == landing && link->state != OFI_LINK_UP)
        landing_end(transport, landing);
}

int ofi_cancels_send(struct weft_link *link)
{
    struct weft_transport *transport = link->transport;
    for (uint32_t i = 0; i < transport->landings_count; i++) {
        struct ofi_landing *landing = transport->landings[i];
        if (landing->state != OFI_LANDING_WITHDRAWN || landing->link != link || !landing->cancel_due)
            continue;
        uint32_t immediate = immediate_of(landing);
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
    struct ofi_landing *landing = landing_find(link->transport, immediate);
    if (landing && landing->link == link && landing->state == OFI_LANDING_WITHDRAWN)
        landing_end(link->transport, landing);
}

void ofi_landings_abandon(struct weft_link *link)
{
    struct weft_transport *transport = link->transport;
    for (uint32_t i = 0; i < transport->landings_count; i++) {
        struct ofi_landing *landing = transport->landings[i];
        if (landing->state == OFI_LANDING_WITHDRAWN && landing->link == link && !landing->cancel_done)
            landing_end(transport, landing);
    }
}

void ofi_landings_close(struct weft_transport *transport)
{
    for (uint32_t i = 0; i < transport->landings_count; i++) {
        struct ofi_landing *landing = transport->landings[i];
        if (landing->mr)
            fi_close(&landing->mr->fid);
        landing->mr = NULL;
    }
}

void ofi_landings_free(struct weft_transport *transport)
{
    for (uint32_t i = 0; i < transport->landings_count; i++) {
        struct ofi_landing *landing = transport->landings[i];
        if (landing->sink)
            munmap(landing->sink, landing->size);
        free(landing);
    }
    free(transport->landings);
}
