/* SPDX-License-Identifier: Apache-2.0 */
/* Receive buffers: memory that is ready for one put. Withdrawing them is in withdraw.c. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "transport/ofi/ofi_private.h"

uint32_t ofi_rbuf_immediate(const struct ofi_rbuf *rbuf)
{
    return rbuf->slot | (uint32_t)rbuf->generation << 16;
}

struct ofi_rbuf *ofi_rbuf_find(struct weft_transport *transport, uint32_t immediate)
{
    uint32_t slot = immediate & 0xffff;
    struct ofi_rbuf *rbuf = slot < transport->rbufs_count ? transport->rbufs[slot] : NULL;
    if (!rbuf || rbuf->state == OFI_RBUF_FREE || rbuf->generation != immediate >> 16)
        return NULL;
    return rbuf;
}

/* Slots are reused in the order they were freed, so that generations last. */
static struct ofi_rbuf *rbuf_take(struct weft_transport *transport)
{
    struct ofi_rbuf *rbuf = transport->free_rbufs;
    if (rbuf) {
        transport->free_rbufs = rbuf->next;
        return rbuf;
    }
    if (transport->rbufs_count == transport->rbufs_capacity) {
        uint32_t capacity = transport->rbufs_capacity ? transport->rbufs_capacity * 2 : 64;
        if (capacity > 0x10000)
            return NULL;
        struct ofi_rbuf **rbufs = realloc(transport->rbufs, capacity * sizeof(*rbufs));
        if (!rbufs)
            return NULL;
        transport->rbufs = rbufs;
        transport->rbufs_capacity = capacity;
    }
    rbuf = calloc(1, sizeof *rbuf);
    if (!rbuf)
        return NULL;
    rbuf->slot = (uint16_t)transport->rbufs_count;
    rbuf->op.kind = OFI_OP_RBUF;
    transport->rbufs[transport->rbufs_count++] = rbuf;
    return rbuf;
}

void ofi_rbuf_release(struct weft_transport *transport, struct ofi_rbuf *rbuf)
{
    if (rbuf->mr)
        fi_close(&rbuf->mr->fid);
    if (rbuf->sink)
        munmap(rbuf->sink, rbuf->size);
    if (rbuf->prefix) {
        ofi_send_return(transport, rbuf->prefix);
        transport->sends_limit--;
    }
    if (transport->data_buffers)
        transport->receives_wanted--;
    rbuf->mr = NULL;
    rbuf->sink = NULL;
    rbuf->prefix = NULL;
    rbuf->state = OFI_RBUF_FREE;
    rbuf->recalled = 0;
    rbuf->generation++;
    rbuf->next = NULL;
    if (transport->free_rbufs)
        transport->free_rbufs_last->next = rbuf;
    else
        transport->free_rbufs = rbuf;
    transport->free_rbufs_last = rbuf;
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

ssize_t ofi_rbuf_receive(struct weft_transport *transport, struct ofi_rbuf *rbuf)
{
    void *memory = rbuf->sink ? rbuf->sink : rbuf->memory;
    struct fid_mr *mr = rbuf->mr ? rbuf->mr : rbuf->region ? rbuf->region->mr : NULL;
    int is_device = rbuf->region && rbuf->region->is_device;
    if (is_device && rbuf->sink) /* which is the host's */
        mr = NULL;
    void *desc = mr ? fi_mr_desc(mr) : NULL;
    uint64_t tag = OFI_TAG(rbuf->nonce, ofi_rbuf_immediate(rbuf));
    ssize_t error;
    if (rbuf->prefix) {
        struct iovec iov[2] = {{rbuf->prefix->memory, transport->prefix}, {memory, rbuf->size}};
        void *descs[2] = {rbuf->prefix->desc, desc};
        error = fi_trecvv(transport->ep, iov, transport->local_mr || is_device ? descs : NULL, 2,
                          FI_ADDR_UNSPEC, tag, 0, &rbuf->op.context);
    } else {
        error = fi_trecv(transport->ep, memory, rbuf->size, desc, FI_ADDR_UNSPEC, tag, 0, &rbuf->op.context);
    }
    rbuf->posted = error == 0;
    return error;
}

void ofi_rbufs_post(struct weft_transport *transport)
{
    for (uint32_t i = 0; transport->rbufs_unposted && i < transport->rbufs_count; i++) {
        struct ofi_rbuf *rbuf = transport->rbufs[i];
        if (rbuf->state != OFI_RBUF_UNPOSTED)
            continue;
        ssize_t error = ofi_rbuf_receive(transport, rbuf);
        if (error == -FI_EAGAIN)
            return;
        transport->rbufs_unposted--;
        rbuf->state = OFI_RBUF_OPEN;
        if (error)
            ofi_rbuf_completed(transport, rbuf, WEFT_TRANSPORT, 0);
    }
}

/* Makes the memory reachable for the peer. */
static int rbuf_open(struct weft_transport *transport, struct ofi_rbuf *rbuf, struct ofi_token *token)
{
    struct weft_region *region = rbuf->region;
    if (!transport->use_rma) {
        ssize_t error = ofi_rbuf_receive(transport, rbuf);
        if (error && error != -FI_EAGAIN)
            return weft_fail(WEFT_TRANSPORT, "ofi: tagged receive: %s",
                             transport->library->strerror((int)-error));
        rbuf->state = error ? OFI_RBUF_UNPOSTED : OFI_RBUF_OPEN;
        transport->rbufs_unposted += error != 0;
        return WEFT_OK;
    }
    rbuf->state = OFI_RBUF_OPEN;
    token->address = transport->address_keys ? (uint64_t)(uintptr_t)rbuf->memory : 0;
    if (region) {
        token->key = fi_mr_key(region->mr);
        if (!transport->address_keys)
            token->address = (uint64_t)((uint8_t *)rbuf->memory - (uint8_t *)region->memory);
        return WEFT_OK;
    }
    rbuf->key = transport->wide_keys ? ofi_random(transport) << 16 | rbuf->slot : ofi_rbuf_immediate(rbuf);
    int status = ofi_register(transport, rbuf->memory, rbuf->size, FI_REMOTE_WRITE, rbuf->key, &rbuf->mr);
    if (status)
        return status;
    token->key = fi_mr_key(rbuf->mr);
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

int ofi_advertise(struct weft_link *link, struct weft_region *region, void *memory, size_t size,
                  uint64_t cookie, struct weft_token *result)
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
    struct ofi_rbuf *rbuf = rbuf_take(transport);
    if (!rbuf)
        return weft_fail(WEFT_NOMEM, "ofi: no room for another receive buffer beside %u",
                         transport->rbufs_count);
    rbuf->link = rbuf->op.link = link;
    rbuf->region = needs_region ? region : NULL;
    rbuf->memory = memory;
    rbuf->size = size;
    rbuf->cookie = cookie;
    rbuf->sent_at = link->sent;
    rbuf->nonce = (uint32_t)ofi_random(transport);
    rbuf->cancel_due = rbuf->cancel_done = rbuf->posted = rbuf->recalled = 0;
    struct ofi_token token = {
        .magic = OFI_MAGIC,
        .immediate = ofi_rbuf_immediate(rbuf),
        .size = size,
        .instance = transport->address.instance,
        .nonce = rbuf->nonce,
    };
    status = ofi_prefix_take(transport, &rbuf->prefix);
    if (!status)
        status = rbuf_open(transport, rbuf, &token);
    if (status) {
        ofi_rbuf_release(transport, rbuf);
        return status;
    }
    memset(result, 0, sizeof *result);
    memcpy(result, &token, sizeof token);
    return WEFT_OK;
}

static void rbuf_counted(struct ofi_rbuf *rbuf)
{
    struct weft_transport *transport = rbuf->link->transport;
    rbuf->link->filled++;
    if (!transport->owing) {
        transport->owing = 1;
        transport->owing_since_ns = 0;
    }
}

void ofi_rbuf_arrived(struct weft_transport *transport, uint64_t data)
{
    struct ofi_rbuf *rbuf = ofi_rbuf_find(transport, (uint32_t)data);
    if (rbuf && data >> 32 != (transport->wide_data ? rbuf->nonce : 0))
        rbuf = NULL;
    if (rbuf)
        rbuf_counted(rbuf);
    if (!rbuf || rbuf->state != OFI_RBUF_OPEN) {
        transport->stale_puts++;
        weft_log(WEFT_LOG_DEBUG, "ofi: dropped a put into a receive buffer that is no more");
        if (rbuf && rbuf->state == OFI_RBUF_WITHDRAWN)
            ofi_rbuf_end(transport, rbuf); /* there is only one put into each */
        return;
    }
    if (rbuf->mr) { /* one put only */
        fi_close(&rbuf->mr->fid);
        rbuf->mr = NULL;
    }
    rbuf->state = OFI_RBUF_FILLED;
    ofi_event_push(transport, &rbuf->event, WEFT_EVENT_FILLED, WEFT_OK);
}

void ofi_rbuf_completed(struct weft_transport *transport, struct ofi_rbuf *rbuf, int status, size_t size)
{
    rbuf->posted = 0;
    if (status == WEFT_OK)
        rbuf_counted(rbuf);
    if (rbuf->state == OFI_RBUF_OPEN) {
        if (status == WEFT_OK && size != rbuf->size)
            status = weft_fail(WEFT_PROTOCOL, "ofi: a put of %zu bytes arrived where %zu were expected", size,
                               rbuf->size);
        rbuf->state = OFI_RBUF_FILLED;
        ofi_event_push(transport, &rbuf->event, WEFT_EVENT_FILLED, status);
        return;
    }
    if (status == WEFT_OK)
        transport->stale_puts++;
    if (rbuf->cancel_done)
        ofi_rbuf_release(transport, rbuf);
}

void ofi_rbuf_reported(struct weft_transport *transport, struct ofi_rbuf *rbuf)
{
    ofi_rbuf_release(transport, rbuf);
}

void ofi_rbufs_close(struct weft_transport *transport)
{
    for (uint32_t i = 0; i < transport->rbufs_count; i++) {
        struct ofi_rbuf *rbuf = transport->rbufs[i];
        if (rbuf->mr)
            fi_close(&rbuf->mr->fid);
        rbuf->mr = NULL;
    }
}

void ofi_rbufs_free(struct weft_transport *transport)
{
    for (uint32_t i = 0; i < transport->rbufs_count; i++) {
        struct ofi_rbuf *rbuf = transport->rbufs[i];
        if (rbuf->sink)
            munmap(rbuf->sink, rbuf->size);
        free(rbuf);
    }
    free(transport->rbufs);
}
