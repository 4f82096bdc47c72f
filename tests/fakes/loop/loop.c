/* SPDX-License-Identifier: Apache-2.0 */
/* The loop transport: instances, links, messages, sleeping.
 *
 * Every instance has an inbox, which outlives it while others still hold channels to it. A channel is one
 * direction between two inboxes: a ring of records, and a byte in the receiver's `ready` table. The producer
 * publishes a record, then stores 1 into that byte; poll() reads the table eight bytes at a time and visits
 * only marked channels. A mark stays until a visit finds the ring empty; it is then taken back by an atomic
 * exchange, after which the ring is looked at once more, so that a record published meanwhile is seen or
 * marked again. Nothing on this path locks.
 *
 * The hub (a mutex and a list) serialises what is rare: open, close, connect, disconnect, reference counts.
 */
#include "tests/fakes/loop/loop.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/fence.h"
#include "tests/fakes/loop/loop_private.h"
#include "transport/registry.h"

#define LOOP_CLOSE_NS 1000000000

struct loop_hub loop_hub = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void inbox_release(struct loop_inbox *inbox)
{
    if (--inbox->references > 0)
        return;
    for (size_t i = 0; i < LOOP_RBUFS_MAX / LOOP_RBUFS_BLOCK; i++)
        free(atomic_load_explicit(&inbox->blocks[i], memory_order_relaxed));
    weft_fd_close(inbox->event_fd);
    free(inbox);
}

void loop_channel_release(struct loop_channel *channel)
{
    if (--channel->references > 0)
        return;
    inbox_release(channel->from);
    inbox_release(channel->to);
    free(channel);
}

/* Reads ":oob" and ":storm=SEED", in this order. */
static int parse_suffix(struct weft_transport *transport, const struct weft_transport_params *params,
                        const char *suffix)
{
    if (strncmp(suffix, ":oob", 4) == 0) {
        if (!params->oob_send)
            return transport->fail(WEFT_INVALID,
                                   "loop provider \"%s\": there is no way for out-of-band messages",
                                   params->provider);
        transport->oob_send = params->oob_send;
        transport->oob_arg = params->oob_arg;
        suffix += 4;
    }
    if (!*suffix)
        return WEFT_OK;
    char *end;
    if (strncmp(suffix, ":storm=", 7) != 0)
        return transport->fail(WEFT_INVALID, "loop provider \"%s\": expected MODE[:oob][:storm=SEED]",
                               params->provider);
    transport->storm = (uint32_t)strtoul(suffix + 7, &end, 10) * 2654435761u | 1;
    if (*end || end == suffix + 7)
        return transport->fail(WEFT_INVALID, "loop provider \"%s\": SEED is not a number", params->provider);
    return WEFT_OK;
}

static int parse_mode(struct weft_transport *transport, const struct weft_transport_params *params)
{
    static const struct {
        const char *name;
        uint32_t offers;
        int can_map;
    } modes[] = {
        {"map", WEFT_CAP_READ, 1}, {"pull", WEFT_CAP_READ, 0}, {"put", WEFT_CAP_PUT, 0},
        {"eager", 0, 0},           {"", WEFT_CAP_READ, 1},     {"all", WEFT_CAP_READ | WEFT_CAP_PUT, 1},
    };
    const char *mode = params && params->provider ? params->provider : "";
    const char *suffix = strchr(mode, ':');
    size_t length = suffix ? (size_t)(suffix - mode) : strlen(mode);
    int status = suffix ? parse_suffix(transport, params, suffix) : WEFT_OK;
    if (status)
        return status;
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        if (strlen(modes[i].name) == length && strncmp(modes[i].name, mode, length) == 0) {
            transport->offers = modes[i].offers;
            transport->can_map = modes[i].can_map;
            return WEFT_OK;
        }
    }
    return transport->fail(WEFT_INVALID, "loop provider \"%s\": expected map, pull, put, eager or all", mode);
}

static int loop_open(const struct weft_transport_params *params, struct weft_transport **result)
{
    struct weft_transport *transport = calloc(1, sizeof *transport);
    if (!transport)
        return weft_fail(WEFT_NOMEM, "loop: no memory for an instance");
    transport->fail = params && params->fail ? params->fail : weft_fail;
    int status = parse_mode(transport, params);
    if (status)
        goto free_transport;
    struct loop_inbox *inbox = aligned_alloc(64, sizeof *inbox);
    if (!inbox) {
        status = transport->fail(WEFT_NOMEM, "loop: no memory for an inbox");
        goto free_transport;
    }
    memset(inbox, 0, sizeof *inbox);
    inbox->references = 1;
    inbox->event_fd = weft_fd_add(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
    if (inbox->event_fd < 0) {
        status = transport->fail(WEFT_SYSTEM, "loop: eventfd: %s", strerror(errno));
        goto free_inbox;
    }
    transport->inbox = inbox;
    pthread_mutex_lock(&loop_hub.lock);
    if (!loop_hub.nonce) {
        if (getrandom(&loop_hub.nonce, sizeof loop_hub.nonce, 0) != sizeof loop_hub.nonce)
            loop_hub.nonce = (uint64_t)(uintptr_t)inbox;
        loop_hub.nonce |= 1;
        loop_hub.light = weft_fence_register();
    }
    inbox->id = ++loop_hub.last_id;
    transport->next_open = loop_hub.open;
    loop_hub.open = transport;
    pthread_mutex_unlock(&loop_hub.lock);
    *result = transport;
    return WEFT_OK;

free_inbox:
    free(inbox);
free_transport:
    free(transport);
    return status;
}

static void link_free(struct weft_link *link)
{
    struct loop_channel *channel = link->channel;
    atomic_store_explicit(&channel->sender_gone, 1, memory_order_release);
    if (!atomic_load_explicit(&channel->receiver_gone, memory_order_relaxed))
        loop_ring_bell(channel); /* the receiver drains it and then lets go */
    loop_channel_release(channel);
    free(link);
}

static void loop_close(struct weft_transport *transport)
{
    struct loop_inbox *inbox = transport->inbox;
    int64_t deadline_ns = weft_clock_ns() + LOOP_CLOSE_NS;
    while (transport->put_count && weft_clock_ns() < deadline_ns) {
        if (loop_puts_poll(transport, 1 << 30, NULL, NULL) == 0)
            sched_yield();
    }
    pthread_mutex_lock(&loop_hub.lock);
    struct weft_transport **at = &loop_hub.open;
    while (*at != transport)
        at = &(*at)->next_open;
    *at = transport->next_open;
    while (transport->links) {
        struct weft_link *link = transport->links;
        transport->links = link->next;
        link_free(link);
    }
    for (uint32_t i = 0; i < inbox->inbound_count; i++) {
        struct loop_channel *channel = inbox->inbound[i];
        if (!channel)
            continue;
        atomic_store_explicit(&channel->receiver_gone, 1, memory_order_release);
        atomic_store_explicit(&channel->from->attention, 1, memory_order_release);
        weft_fence_full();
        loop_wake(channel->from);
        inbox->inbound[i] = NULL;
        loop_channel_release(channel);
    }
    inbox_release(inbox);
    pthread_mutex_unlock(&loop_hub.lock);
    free(transport->puts);
    free(transport->filled);
    free(transport);
}

static void loop_caps(const struct weft_transport *transport, struct weft_transport_caps *caps)
{
    struct weft_transport_caps own = {
        .size = sizeof own,
        .flags = transport->offers | WEFT_CAP_SAME_HOST | WEFT_CAP_NOTIFY,
        .eager_bytes = LOOP_EAGER_BYTES,
        .put_bytes = transport->offers & WEFT_CAP_PUT ? 1u << 30 : 0,
    };
    *caps = own;
}

static int loop_address(struct weft_transport *transport, void *address, size_t *size)
{
    struct loop_address own = {LOOP_ADDRESS_MAGIC, loop_hub.nonce, (uint64_t)getpid(), transport->inbox->id};
    if (*size < sizeof own)
        return transport->fail(WEFT_INVALID, "loop: address needs %zu bytes, got %zu", sizeof own, *size);
    memcpy(address, &own, sizeof own);
    *size = sizeof own;
    return WEFT_OK;
}

static int loop_reachable(struct weft_transport *transport, const void *address, size_t size)
{
    (void)transport;
    struct loop_address peer;
    if (size != sizeof peer)
        return 0;
    memcpy(&peer, address, sizeof peer);
    return peer.magic == LOOP_ADDRESS_MAGIC && peer.nonce == loop_hub.nonce && peer.pid == (uint64_t)getpid();
}

/* Under the hub's lock: a channel from one inbox to another. */
static struct loop_channel *channel_make(struct loop_inbox *from, struct loop_inbox *to)
{
    uint32_t slot = 0;
    while (slot < LOOP_PEERS_MAX && to->inbound[slot])
        slot++;
    struct loop_channel *channel = slot < LOOP_PEERS_MAX ? aligned_alloc(64, sizeof *channel) : NULL;
    if (!channel)
        return NULL;
    memset(channel, 0, sizeof *channel);
    channel->from = from;
    channel->to = to;
    channel->slot = slot;
    channel->references = 2;
    from->references++;
    to->references++;
    to->inbound[slot] = channel;
    if (slot >= atomic_load_explicit(&to->inbound_count, memory_order_relaxed))
        atomic_store_explicit(&to->inbound_count, slot + 1, memory_order_release);
    return channel;
}

static int loop_sent_by(struct weft_transport *transport, const void *sender, const void *address,
                        size_t size)
{
    const struct loop_inbox *from = sender;
    struct loop_address peer;
    if (!from || !loop_reachable(transport, address, size))
        return 0;
    memcpy(&peer, address, sizeof peer);
    return from->id == peer.id;
}

static int loop_connect(struct weft_transport *transport, const void *address, size_t size,
                        void *link_context, struct weft_link **result)
{
    struct loop_address peer;
    if (!loop_reachable(transport, address, size))
        return transport->fail(WEFT_INVALID, "loop: not an address of this process (%zu bytes)", size);
    memcpy(&peer, address, sizeof peer);
    for (struct weft_link *link = transport->links; link; link = link->next) {
        if (link->channel->to->id == peer.id && !link->failed) {
            link->count++;
            *result = link;
            return WEFT_OK;
        }
    }
    struct weft_link *link = calloc(1, sizeof *link);
    if (!link)
        return transport->fail(WEFT_NOMEM, "loop: no memory for a link");
    int status = WEFT_PEER_FAILED;
    pthread_mutex_lock(&loop_hub.lock);
    struct weft_transport *other = loop_hub.open;
    while (other && other->inbox->id != peer.id)
        other = other->next_open;
    if (other) {
        link->channel = channel_make(transport->inbox, other->inbox);
        status = link->channel ? WEFT_OK : WEFT_NOMEM;
    }
    pthread_mutex_unlock(&loop_hub.lock);
    if (status) {
        free(link);
        return transport->fail(status, status == WEFT_NOMEM ? "loop: no memory for a channel"
                                                            : "loop: the peer is closed");
    }
    link->transport = transport;
    link->context = link_context;
    link->count = 1;
    link->late = transport->storm ? 3 : 0;
    link->next = transport->links;
    transport->links = link;
    loop_oob_connect(link, &peer);
    *result = link;
    return WEFT_OK;
}

static void loop_disconnect(struct weft_link *link)
{
    struct weft_transport *transport = link->transport;
    if (--link->count > 0)
        return;
    loop_puts_fail(link);
    loop_oob_disconnect(link);
    struct weft_link **at = &transport->links;
    while (*at != link)
        at = &(*at)->next;
    *at = link->next;
    pthread_mutex_lock(&loop_hub.lock);
    link_free(link);
    pthread_mutex_unlock(&loop_hub.lock);
}

static int loop_alloc(struct weft_transport *transport, size_t size, void **memory)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    if (size > SIZE_MAX / 2)
        return transport->fail(WEFT_INVALID, "loop: allocation of %zu bytes", size);
    size_t rounded = size ? (size + page - 1) / page * page : page;
    void *block = aligned_alloc(page, rounded);
    if (!block)
        return transport->fail(WEFT_NOMEM, "loop: no memory for %zu bytes", size);
    memset(block, 0, rounded);
    *memory = block;
    return WEFT_OK;
}

static void loop_free(struct weft_transport *transport, void *memory)
{
    (void)transport;
    free(memory);
}

const struct weft_transport_ops weft_loop_ops = {
    .size = sizeof weft_loop_ops,
    .abi = WEFT_TRANSPORT_ABI,
    .name = "loop",
    .open = loop_open,
    .close = loop_close,
    .caps = loop_caps,
    .address = loop_address,
    .reachable = loop_reachable,
    .connect = loop_connect,
    .disconnect = loop_disconnect,
    .alloc = loop_alloc,
    .free = loop_free,
    .send = loop_send,
    .advertise = loop_advertise,
    .withdraw = loop_withdraw,
    .recall = loop_recall,
    .sent_by = loop_sent_by,
    .put = loop_put,
    .expose = loop_expose,
    .map = loop_map,
    .pull = loop_pull,
    .poll = loop_poll,
    .fds = loop_fds,
    .arm = loop_arm,
    .disarm = loop_disarm,
    .notify = loop_notify,
    .link_flags = loop_link_flags,
    .oob_receive = loop_oob_receive,
    .why = loop_why,
};

const struct weft_transport_ops *loop_find(const char *name)
{
    return strcmp(name, weft_loop_ops.name) == 0 ? &weft_loop_ops : weft_transport_find(name);
}
