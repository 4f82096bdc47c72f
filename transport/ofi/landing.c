/* SPDX-License-Identifier: Apache-2.0 */
/* Landings: memory that is ready for one put. Withdrawing them is in withdraw.c. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "transport/ofi/ofi_private.h"

uint32_t ofi_landing_immediate(const struct ofi_landing *landing)
{
    return landing->slot | (uint32_t)landing->generation << 16;
}

struct ofi_landing *ofi_landing_find(struct weft_transport *transport, uint32_t immediate)
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

void ofi_landing_release(struct weft_transport *transport, struct ofi_landing *landing)
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
    landing->recalled = 0;
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

ssize_t ofi_landing_receive(struct weft_transport *transport, struct ofi_landing *landing)
{
    void *memory = landing->sink ? landing->sink : landing->memory;
    struct fid_mr *mr = landing->mr ? landing->mr : landing->region ? landing->region->mr : NULL;
    int is_device = landing->region && landing->region->is_device;
    if (is_device && landing->sink) /* which is the host's */
        mr = NULL;
    void *desc = mr ? fi_mr_desc(mr) : NULL;
    uint64_t tag = OFI_TAG(landing->nonce, ofi_landing_immediate(landing));
    ssize_t error;
    if (landing->prefix) {
        struct iovec iov[2] = {{landing->prefix->memory, transport->prefix}, {memory, landing->size}};
        void *descs[2] = {landing->prefix->desc, desc};
        error = fi_trecvv(transport->ep, iov, transport->local_mr || is_device ? descs : NULL, 2,
                          FI_ADDR_UNSPEC, tag, 0, &landing->op.context);
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
        ssize_t error = ofi_landing_receive(transport, landing);
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
        ssize_t error = ofi_landing_receive(transport, landing);
        if (error && error != -FI_EAGAIN)
            return weft_fail(WEFT_TRANSPORT, "ofi: tagged receive: %s",
                             transport->library->strerror((int)-error));
        landing->state = error ? OFI_LANDING_UNPOSTED : OFI_LANDING_OPEN;
        transport->landings_unposted += error != 0;
        return WEFT_OK;
    }
    landing->state = OFI_LANDING_OPEN;
    token->address = transport->address_keys ? (uint64_t)(uintptr_t)landing->memory : 0;
    if (region) {
        token->key = fi_mr_key(region->mr);
        if (!transport->address_keys)
            token->address = (uint64_t)((uint8_t *)landing->memory - (uint8_t *)region->memory);
        return WEFT_OK;
    }
    landing->key =
        transport->wide_keys ? ofi_random(transport) << 16 | landing->slot : ofi_landing_immediate(landing);
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
    needs_region |= region && region->is_device;
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
    landing->nonce = (uint32_t)ofi_random(transport);
    landing->cancel_due = landing->cancel_done = landing->posted = landing->recalled = 0;
    struct ofi_token token = {
        .magic = OFI_MAGIC,
        .immediate = ofi_landing_immediate(landing),
        .size = size,
        .instance = transport->address.instance,
        .nonce = landing->nonce,
    };
    status = ofi_prefix_take(transport, &landing->prefix);
    if (!status)
        status = landing_open(transport, landing, &token);
    if (status) {
        ofi_landing_release(transport, landing);
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

void ofi_landing_arrived(struct weft_transport *transport, uint64_t data)
{
    struct ofi_landing *landing = ofi_landing_find(transport, (uint32_t)data);
    if (landing && data >> 32 != (transport->wide_data ? landing->nonce : 0))
        landing = NULL;
    if (landing)
        landing_counted(landing);
    if (!landing || landing->state != OFI_LANDING_OPEN) {
        transport->stale_puts++;
        weft_log(WEFT_LOG_DEBUG, "ofi: dropped a put into a landing that is no more");
        if (landing && landing->state == OFI_LANDING_WITHDRAWN)
            ofi_landing_end(transport, landing); /* there is only one put into each */
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
        ofi_landing_release(transport, landing);
}

void ofi_landing_told(struct weft_transport *transport, struct ofi_landing *landing)
{
    ofi_landing_release(transport, landing);
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
