/* SPDX-License-Identifier: Apache-2.0 */
/* Memory for puts. Only this instance writes there, when it reads its sockets: taking it back is a matter of a moment. */
#include <stdlib.h>
#include <string.h>
#include "base/crypto.h"
#include "base/error.h"
#include "transport/tcp/tcp_private.h"

static int slot_make(struct weft_transport *transport)
{
    if (transport->rbufs_count == TCP_SLOTS)
        return transport->fail(WEFT_NOMEM, "tcp: more than %u receive buffers", TCP_SLOTS);
    if (transport->rbufs_count == transport->rbufs_capacity) {
        uint32_t capacity = transport->rbufs_capacity ? 2 * transport->rbufs_capacity : 16;
        struct tcp_rbuf **grown = realloc(transport->rbufs, capacity * sizeof(*grown));
        if (!grown)
            return transport->fail(WEFT_NOMEM, "tcp: no memory for %u receive buffers", capacity);
        transport->rbufs = grown;
        transport->rbufs_capacity = capacity;
    }
    struct tcp_rbuf *rbuf = calloc(1, sizeof *rbuf);
    if (!rbuf)
        return transport->fail(WEFT_NOMEM, "tcp: no memory for a receive buffer");
    rbuf->slot = transport->rbufs_count++;
    transport->rbufs[rbuf->slot] = rbuf;
    transport->rbuf_free = rbuf->slot + 1;
    return WEFT_OK;
}

int tcp_advertise(struct weft_link *link, struct weft_region *region, void *memory, size_t size,
                  uint64_t cookie, struct weft_token *bytes)
{
    struct weft_transport *transport = link->transport;
    (void)region;
    if (link->state == TCP_LINK_FAILED)
        return tcp_link_down(link);
    if (!transport->rbuf_free) {
        int status = slot_make(transport);
        if (status != WEFT_OK)
            return status;
    }
    struct tcp_rbuf *rbuf = transport->rbufs[transport->rbuf_free - 1];
    transport->rbuf_free = rbuf->next_free;
    rbuf->link = link;
    rbuf->memory = memory;
    rbuf->size = size;
    rbuf->filled = 0;
    rbuf->cookie = cookie;
    rbuf->generation++;
    rbuf->sent_at = link->sent;
    rbuf->state = TCP_RBUF_OPEN;
    weft_crypto_random(&rbuf->nonce, sizeof rbuf->nonce);
    struct tcp_token token = {.magic = TCP_MAGIC,
                              .name = {rbuf->slot, rbuf->generation, rbuf->nonce},
                              .size = size,
                              .instance = transport->address.instance};
    _Static_assert(sizeof token <= sizeof bytes->bytes, "a token holds it");
    memset(bytes, 0, sizeof *bytes);
    memcpy(bytes, &token, sizeof token);
    return WEFT_OK;
}

struct tcp_rbuf *tcp_rbuf_find(struct weft_link *link, const struct tcp_name *name, int *unknown)
{
    struct weft_transport *transport = link->transport;
    *unknown = name->slot >= transport->rbufs_count ||
               name->generation > transport->rbufs[name->slot]->generation || !name->generation;
    if (*unknown)
        return NULL;
    struct tcp_rbuf *rbuf = transport->rbufs[name->slot];
    if (rbuf->generation != name->generation || rbuf->state == TCP_RBUF_FREE)
        return NULL; /* withdrawn, or filled */
    *unknown = rbuf->nonce != name->nonce || rbuf->link != link;
    return *unknown || rbuf->state == TCP_RBUF_CUT ? NULL : rbuf;
}

void tcp_rbuf_release(struct weft_transport *transport, struct tcp_rbuf *rbuf)
{
    if (rbuf->link->filling == rbuf)
        rbuf->link->filling = NULL; /* what still comes goes nowhere */
    rbuf->state = TCP_RBUF_FREE;
    rbuf->link = NULL;
    rbuf->memory = NULL;
    if (rbuf->generation == UINT32_MAX)
        return; /* it has used up its names */
    rbuf->next_free = transport->rbuf_free;
    transport->rbuf_free = rbuf->slot + 1;
}

int tcp_recall(struct weft_link *link, const struct weft_token *bytes, uint64_t cookie)
{
    struct tcp_token token;
    int unknown;
    if (!bytes) {
        tcp_put_recall(link, cookie);
        return WEFT_OK;
    }
    memcpy(&token, bytes, sizeof token);
    if (token.magic != TCP_MAGIC || token.instance != link->transport->address.instance)
        return WEFT_OK;
    struct tcp_rbuf *rbuf = tcp_rbuf_find(link, &token.name, &unknown);
    if (!rbuf && !unknown && link->transport->rbufs[token.name.slot]->state == TCP_RBUF_CUT &&
        link->transport->rbufs[token.name.slot]->generation == token.name.generation)
        rbuf = link->transport->rbufs[token.name.slot];
    if (!rbuf)
        return WEFT_OK;
    /* That the peer sends no more of it is a favour; without memory for the frame it will. */
    if (link->state == TCP_LINK_UP && rbuf->state == TCP_RBUF_OPEN && link->sent != rbuf->sent_at)
        tcp_frame_append(link, TCP_CANCEL, &token.name, sizeof token.name);
    tcp_rbuf_release(link->transport, rbuf);
    return WEFT_OK;
}

void tcp_withdraw(struct weft_link *link, const struct weft_token *token)
{
    tcp_recall(link, token, 0);
}

void tcp_recall_wait(struct weft_transport *transport)
{
    tcp_links_write(transport);
}

void tcp_rbufs_free(struct weft_transport *transport)
{
    for (uint32_t i = 0; i < transport->rbufs_count; i++)
        free(transport->rbufs[i]);
    free(transport->rbufs);
}
