/* SPDX-License-Identifier: Apache-2.0 */
/* Puts of the loop transport.
 *
 * Receive buffers live in blocks that are never freed before the inbox is, so that a putter on another thread
 * may look at any of them. In calm weather put() copies at once, publishes a LOOP_FILLED record in the
 * ring and completes at the next poll(). In a storm it only takes note: some later poll() copies, and both
 * ends hear of it late and in any order, so that reusing a source or reading a receive buffer too early
 * shows.
 */
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include "tests/fakes/loop/loop_private.h"

#define LOOP_PUTS_MAX   128u
#define LOOP_RBUF_MAGIC 0x676e69646e616c6cull

struct rbuf_token {
    uint64_t magic;
    uint64_t owner;
    uint64_t slot;
    uint64_t generation;
    uint64_t size;
};

static struct loop_rbuf *rbuf_at(struct loop_inbox *inbox, uint64_t slot)
{
    if (slot >= LOOP_RBUFS_MAX)
        return NULL;
    struct loop_rbuf *block =
        atomic_load_explicit(&inbox->blocks[slot / LOOP_RBUFS_BLOCK], memory_order_acquire);
    return block ? &block[slot % LOOP_RBUFS_BLOCK] : NULL;
}

/* Makes the next block of free receive buffers. */
static int block_make(struct weft_transport *transport)
{
    uint32_t first = transport->rbuf_count;
    if (first == LOOP_RBUFS_MAX)
        return transport->fail(WEFT_NOMEM, "loop: more than %u receive buffers", LOOP_RBUFS_MAX);
    if (!transport->filled)
        transport->filled = calloc(LOOP_RBUFS_MAX, sizeof *transport->filled);
    struct loop_rbuf *block = calloc(LOOP_RBUFS_BLOCK, sizeof *block);
    if (!block || !transport->filled) {
        free(block);
        return transport->fail(WEFT_NOMEM, "loop: no memory for receive buffers");
    }
    for (uint32_t i = LOOP_RBUFS_BLOCK; i > 0; i--) {
        block[i - 1].next_free = transport->rbuf_free;
        transport->rbuf_free = first + i;
    }
    atomic_store_explicit(&transport->inbox->blocks[first / LOOP_RBUFS_BLOCK], block, memory_order_release);
    transport->rbuf_count += LOOP_RBUFS_BLOCK;
    return WEFT_OK;
}

int loop_advertise(struct weft_link *link, struct weft_region *region, void *memory, size_t size,
                   uint64_t cookie, struct weft_token *token)
{
    (void)region;
    struct weft_transport *transport = link->transport;
    if (!(transport->offers & WEFT_CAP_PUT))
        return WEFT_UNSUPPORTED;
    if (!transport->rbuf_free) {
        int status = block_make(transport);
        if (status)
            return status;
    }
    uint32_t slot = transport->rbuf_free - 1;
    struct loop_rbuf *rbuf = rbuf_at(transport->inbox, slot);
    transport->rbuf_free = rbuf->next_free;
    uint64_t generation = (atomic_load_explicit(&rbuf->state, memory_order_relaxed) >> 2) + 1;
    rbuf->peer = link->channel->to->id;
    rbuf->memory = memory;
    rbuf->size = size;
    rbuf->cookie = cookie;
    atomic_store_explicit(&rbuf->state, generation << 2 | LOOP_ARMED, memory_order_release);
    struct rbuf_token own = {LOOP_RBUF_MAGIC, transport->inbox->id, slot, generation, size};
    memset(token, 0, sizeof *token);
    memcpy(token, &own, sizeof own);
    return WEFT_OK;
}

static void rbuf_free(struct weft_transport *transport, struct loop_rbuf *rbuf, uint64_t slot,
                      uint64_t generation)
{
    atomic_store_explicit(&rbuf->state, generation << 2 | LOOP_FREE, memory_order_release);
    rbuf->next_free = transport->rbuf_free;
    transport->rbuf_free = (uint32_t)slot + 1;
}

void loop_withdraw(struct weft_link *link, const struct weft_token *token)
{
    struct weft_transport *transport = link->transport;
    struct rbuf_token own;
    memcpy(&own, token, sizeof own);
    struct loop_rbuf *rbuf = rbuf_at(transport->inbox, own.slot);
    if (own.magic != LOOP_RBUF_MAGIC || own.owner != transport->inbox->id || !rbuf)
        return;
    for (;;) {
        uint64_t state = atomic_load_explicit(&rbuf->state, memory_order_acquire);
        if (state >> 2 != own.generation || (state & 3) == LOOP_FREE)
            return;
        if ((state & 3) == LOOP_WRITING) {
            sched_yield(); /* the putter is in the middle of a copy */
            continue;
        }
        /* Takes it from a putter that comes only now: to it, somebody else is writing there. */
        if (atomic_compare_exchange_strong_explicit(&rbuf->state, &state, own.generation << 2 | LOOP_WRITTEN,
                                                    memory_order_acq_rel, memory_order_relaxed)) {
            rbuf_free(transport, rbuf, own.slot, own.generation);
            return;
        }
    }
}

int loop_recall(struct weft_link *link, const struct weft_token *token, uint64_t cookie)
{
    struct weft_transport *transport = link->transport;
    if (!(transport->offers & WEFT_CAP_PUT))
        return WEFT_UNSUPPORTED;
    if (token) {
        loop_withdraw(link, token);
        return WEFT_OK;
    }
    /* What has not been copied yet never will be, and the receive buffer stays empty. */
    for (uint32_t i = 0; i < transport->put_count; i++) {
        struct loop_put *put = &transport->puts[i];
        if (put->link != link || put->cookie != cookie)
            continue;
        transport->put_count--;
        memmove(put, put + 1, (transport->put_count - i) * sizeof *put);
        break;
    }
    return WEFT_OK;
}

/* Copies and publishes LOOP_FILLED. WEFT_AGAIN when the ring has no room. */
static int put_write(struct loop_put *put)
{
    struct loop_channel *channel = put->link->channel;
    if (atomic_load_explicit(&channel->receiver_gone, memory_order_acquire))
        return loop_link_down(put->link);
    struct loop_record *record = loop_ring_reserve(&channel->ring, sizeof(struct loop_filled));
    if (!record)
        return WEFT_AGAIN;
    struct loop_rbuf *rbuf = put->rbuf;
    uint64_t armed = put->generation << 2 | LOOP_ARMED;
    int status = WEFT_OK;
    if (atomic_compare_exchange_strong_explicit(&rbuf->state, &armed, put->generation << 2 | LOOP_WRITING,
                                                memory_order_acq_rel, memory_order_relaxed)) {
        if (rbuf->size != put->size || rbuf->peer != put->link->transport->inbox->id) {
            status = put->link->transport->fail(
                WEFT_INVALID, "loop: put of %llu bytes does not fit the receive buffer of %llu bytes",
                (unsigned long long)put->size, (unsigned long long)rbuf->size);
            atomic_store_explicit(&rbuf->state, armed, memory_order_release);
        } else {
            memcpy(rbuf->memory, put->memory, put->size);
            atomic_store_explicit(&rbuf->state, put->generation << 2 | LOOP_WRITTEN, memory_order_release);
        }
    } else {
        status = put->link->transport->fail(WEFT_PROTOCOL, "loop: the receive buffer is gone");
    }
    struct loop_filled filled = {put->token_slot, status ? 0 : put->generation};
    memcpy(record + 1, &filled, sizeof filled);
    loop_ring_publish(&channel->ring, record, LOOP_FILLED, sizeof filled);
    loop_ring_bell(channel);
    return status;
}

int loop_put(struct weft_link *link, const struct weft_token *token, struct weft_region *region,
             const void *memory, size_t size, uint64_t cookie)
{
    (void)region;
    struct weft_transport *transport = link->transport;
    struct loop_inbox *to = link->channel->to;
    if (!(transport->offers & WEFT_CAP_PUT))
        return WEFT_UNSUPPORTED;
    if (!transport->puts) {
        transport->puts = calloc(LOOP_PUTS_MAX, sizeof *transport->puts);
        if (!transport->puts)
            return transport->fail(WEFT_NOMEM, "loop: no memory for puts");
    }
    struct rbuf_token peer;
    memcpy(&peer, token, sizeof peer);
    struct loop_rbuf *rbuf = rbuf_at(to, peer.slot);
    if (peer.magic != LOOP_RBUF_MAGIC || peer.owner != to->id || !rbuf || peer.size != size)
        return transport->fail(WEFT_PROTOCOL, "loop: not a receive buffer of %zu bytes at this link's peer",
                               size);
    if (transport->put_count == LOOP_PUTS_MAX || loop_chance(transport, 3))
        return WEFT_AGAIN;
    struct loop_put *put = &transport->puts[transport->put_count];
    *put = (struct loop_put){.link = link,
                             .rbuf = rbuf,
                             .token_slot = peer.slot,
                             .generation = peer.generation,
                             .memory = memory,
                             .size = size,
                             .cookie = cookie};
    if (!transport->storm) {
        int status = put_write(put);
        if (status)
            return status;
        put->written = 1;
    }
    transport->put_count++;
    return WEFT_OK;
}

int loop_puts_poll(struct weft_transport *transport, int budget, weft_event_handler *handler, void *arg)
{
    int events = 0;
    uint32_t i = 0;
    while (i < transport->put_count && events < budget) {
        struct loop_put *put = &transport->puts[i];
        int skip = handler && loop_chance(transport, 2);
        if (!put->written && !skip) {
            put->status = put_write(put);
            put->written = put->status != WEFT_AGAIN;
            skip = handler != NULL; /* reported another time */
        }
        if (skip || !put->written) {
            i++;
            continue;
        }
        struct weft_event event = {.kind = WEFT_EVENT_PUT_DONE, .status = put->status, .cookie = put->cookie};
        /* Calm weather keeps the order, a storm need not. */
        transport->put_count--;
        if (transport->storm)
            *put = transport->puts[transport->put_count];
        else
            memmove(put, put + 1, (transport->put_count - i) * sizeof *put);
        if (handler)
            handler(arg, &event);
        events++;
    }
    return events;
}

void loop_puts_fail(struct weft_link *link)
{
    struct weft_transport *transport = link->transport;
    for (uint32_t i = 0; i < transport->put_count; i++) {
        struct loop_put *put = &transport->puts[i];
        if (put->link != link || put->written)
            continue;
        put->written = 1;
        put->status = WEFT_PEER_FAILED;
    }
}

static int arrival_report(struct weft_transport *transport, const struct loop_filled *filled,
                          weft_event_handler *handler, void *arg)
{
    struct loop_rbuf *rbuf = rbuf_at(transport->inbox, filled->slot);
    if (!rbuf ||
        atomic_load_explicit(&rbuf->state, memory_order_acquire) != (filled->generation << 2 | LOOP_WRITTEN))
        return 0; /* withdrawn meanwhile, or the put failed */
    struct weft_event event = {.kind = WEFT_EVENT_FILLED, .cookie = rbuf->cookie};
    rbuf_free(transport, rbuf, filled->slot, filled->generation);
    handler(arg, &event);
    return 1;
}

int loop_filled(struct weft_transport *transport, const struct loop_filled *filled,
                weft_event_handler *handler, void *arg)
{
    if (!transport->storm || transport->filled_count == LOOP_RBUFS_MAX || !transport->filled)
        return arrival_report(transport, filled, handler, arg);
    transport->filled[transport->filled_count++] = *filled;
    return 0;
}

int loop_filled_poll(struct weft_transport *transport, int budget, weft_event_handler *handler, void *arg)
{
    int events = 0;
    uint32_t i = 0;
    while (i < transport->filled_count && events < budget) {
        if (loop_chance(transport, 2)) {
            i++;
            continue;
        }
        struct loop_filled filled = transport->filled[i];
        transport->filled[i] = transport->filled[--transport->filled_count];
        events += arrival_report(transport, &filled, handler, arg);
    }
    return events;
}
