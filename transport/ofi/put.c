/* SPDX-License-Identifier: Apache-2.0 */
/* The sending side of puts. */
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "transport/ofi/ofi_private.h"

static struct ofi_put *put_take(struct weft_transport *transport)
{
    struct ofi_put *put = transport->free_puts;
    if (put)
        transport->free_puts = put->next;
    else
        put = calloc(1, sizeof *put);
    if (put)
        put->op.kind = OFI_OP_PUT;
    return put;
}

static void put_release(struct weft_transport *transport, struct ofi_put *put)
{
    if (put->prefix) {
        ofi_send_return(transport, put->prefix);
        transport->sends_limit--;
    }
    put->prefix = NULL;
    put->next = transport->free_puts;
    transport->free_puts = put;
}

/* A remote write with the immediate. Where a later message could overtake the bytes, completion means that
 * they are in the peer's memory; otherwise that they are on their way in order is enough. */
static ssize_t write_start(struct ofi_put *put, const struct ofi_token *token, void *desc, const void *memory,
                           size_t size)
{
    struct weft_transport *transport = put->op.link->transport;
    uint64_t data = token->immediate | (transport->wide_data ? (uint64_t)token->nonce << 32 : 0);
    if (transport->info->tx_attr->msg_order & FI_ORDER_SAW)
        return fi_writedata(transport->ep, memory, size, desc, data, put->op.link->to, token->address,
                            token->key, &put->op.context);
    struct iovec iov = {(void *)(uintptr_t)memory, size};
    struct fi_rma_iov remote = {token->address, size, token->key};
    struct fi_msg_rma message = {
        .msg_iov = &iov,
        .desc = desc ? &desc : NULL,
        .iov_count = 1,
        .addr = put->op.link->to,
        .rma_iov = &remote,
        .rma_iov_count = 1,
        .context = &put->op.context,
        .data = data,
    };
    return fi_writemsg(transport->ep, &message, FI_REMOTE_CQ_DATA | FI_DELIVERY_COMPLETE | FI_COMPLETION);
}

static ssize_t tagged_start(struct ofi_put *put, const struct ofi_token *token, void *desc,
                            const void *memory, size_t size)
{
    struct weft_transport *transport = put->op.link->transport;
    uint64_t tag = OFI_TAG(token->nonce, token->immediate);
    if (!put->prefix)
        return fi_tsend(transport->ep, memory, size, desc, put->op.link->to, tag, &put->op.context);
    struct iovec iov[2] = {{put->prefix->memory, transport->prefix}, {(void *)(uintptr_t)memory, size}};
    void *descs[2] = {put->prefix->desc, desc};
    return fi_tsendv(transport->ep, iov, transport->local_mr || desc ? descs : NULL, 2, put->op.link->to, tag,
                     &put->op.context);
}

static int token_check(const struct weft_link *link, const struct ofi_token *token, size_t size)
{
    if (token->magic != OFI_MAGIC || token->instance != link->address.instance)
        return weft_fail(WEFT_INVALID, "ofi: token is not from this link's peer");
    if (token->size != size)
        return weft_fail(WEFT_INVALID, "ofi: put of %zu bytes, the peer expects %llu", size,
                         (unsigned long long)token->size);
    for (uint32_t i = 0; i < link->refused_count; i++) {
        if (link->refused[i] == token->immediate)
            return weft_fail(WEFT_CANCELLED, "ofi: the peer has withdrawn this receive buffer");
    }
    return WEFT_OK;
}

int ofi_put(struct weft_link *link, const struct weft_token *bytes, struct weft_region *region,
            const void *memory, size_t size, uint64_t cookie)
{
    struct weft_transport *transport = link->transport;
    if (link->state != OFI_LINK_UP)
        return link->state != OFI_LINK_FAILED ? WEFT_AGAIN : weft_fail(link->status, "%s", link->why);
    struct ofi_token token;
    memcpy(&token, bytes, sizeof token);
    int needs_region = transport->local_mr || (region && region->is_device);
    int status = token_check(link, &token, size);
    if (!status)
        status = ofi_region_check(transport, needs_region, region, memory, size);
    if (status)
        return status;
    struct ofi_put *put = put_take(transport);
    if (!put)
        return weft_fail(WEFT_NOMEM, "ofi: no memory for a put");
    put->op.link = link;
    put->cookie = cookie;
    put->immediate = token.immediate;
    put->recalled = 0;
    status = ofi_prefix_take(transport, &put->prefix);
    if (status)
        goto release_put;
    void *desc = needs_region ? fi_mr_desc(region->mr) : NULL;
    ssize_t error = transport->use_rma ? write_start(put, &token, desc, memory, size)
                                       : tagged_start(put, &token, desc, memory, size);
    if (error == -FI_EAGAIN) {
        status = ofi_link_stuck(link);
        goto release_put;
    }
    if (error) { /* which does not mean that the connection is over: sever.c */
        ofi_link_fail(link, WEFT_TRANSPORT, "ofi: a put failed: %s",
                      transport->library->strerror((int)-error));
        status = weft_fail(link->status, "%s", link->why);
        goto release_put;
    }
    ofi_link_started(link);
    link->stuck_ns = 0;
    put->previous = NULL;
    put->next = transport->active_puts;
    if (put->next)
        put->next->previous = put;
    transport->active_puts = put;
    return WEFT_OK;

release_put:
    put_release(transport, put);
    return status;
}

void ofi_put_completed(struct weft_transport *transport, struct ofi_put *put, int status)
{
    if (put->previous)
        put->previous->next = put->next;
    else
        transport->active_puts = put->next;
    if (put->next)
        put->next->previous = put->previous;
    put->next = put->previous = NULL;
    ofi_link_ended(put->op.link);
    if (!status)
        put->op.link->puts++;
    ofi_event_push(transport, &put->event, WEFT_EVENT_PUT_DONE, status);
    put->event.withdrawn = put->recalled;
}

void ofi_put_recall(struct weft_link *link, uint64_t cookie)
{
    struct weft_transport *transport = link->transport;
    for (struct ofi_put *put = transport->active_puts; put; put = put->next) {
        if (put->op.link == link && put->cookie == cookie && !put->recalled) {
            put->recalled = 1;
            transport->recalling = 1;
            return;
        }
    }
    for (struct ofi_event *event = transport->events; event; event = event->next) {
        struct ofi_put *put = (struct ofi_put *)(void *)((char *)event - offsetof(struct ofi_put, event));
        if (event->kind == WEFT_EVENT_PUT_DONE && put->op.link == link && put->cookie == cookie)
            event->withdrawn = 1;
    }
}

int ofi_put_is_recalled(const struct weft_link *link)
{
    for (const struct ofi_put *put = link->transport->active_puts; put; put = put->next) {
        if (put->op.link == link && put->recalled)
            return 1;
    }
    return 0;
}

void ofi_put_reported(struct weft_transport *transport, struct ofi_put *put)
{
    put_release(transport, put);
}

void ofi_puts_free(struct weft_transport *transport)
{
    struct ofi_put *lists[2] = {transport->free_puts, transport->active_puts};
    for (int i = 0; i < 2; i++) {
        while (lists[i]) {
            struct ofi_put *put = lists[i];
            lists[i] = put->next;
            free(put);
        }
    }
}
