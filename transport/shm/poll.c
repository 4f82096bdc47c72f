/* SPDX-License-Identifier: Apache-2.0 */
/* The hot path: sending, polling, sleeping. The picture is in shm.c.
 *
 * poll() looks at a channel by comparing one word of one cache line, which stays in this processor's cache
 * until a message comes. With many peers even that adds up, so only SHM_HOT channels are looked at every
 * time; of the others a few, in turn, and one that has something takes a hot one's place. Senders need ring
 * no bell.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "base/demote.h"
#include "base/log.h"
#include "base/fence.h"
#include "base/fd.h"
#include "base/prefetch.h"
#include "transport/shm/shm_private.h"

#define SHM_HOT  8u
#define SHM_COLD 4u

#define PREFETCH_MIN  256u  /* bytes: a shorter message gained nothing, and one of two lines lost */
#define DEMOTED_BYTES 4096u /* a longer message is a stream by itself */

static int link_not_up(struct weft_link *link, int state)
{
    return state == SHM_LINK_FAILED ? shm_link_down(link) : WEFT_AGAIN;
}

/* A message is likely to be waited for where it answers one of the peer's. One that follows another is written ahead. */
static inline void demote(struct weft_link *link, const struct shm_record *record, size_t size)
{
    uint32_t deliveries = link->peer->deliveries;
    if (link->demotes && size <= DEMOTED_BYTES && deliveries != link->answered)
        weft_demote(record, sizeof *record + size);
    link->answered = deliveries;
}

/* The first line last, which is the one that the receiver looks at: it would fetch it between, and it would have to be got back for the stamp. */
static inline void fill(uint8_t *data, const void *header, size_t header_size, const void *payload,
                        size_t payload_size)
{
    size_t room = SHM_LINE - SHM_RECORD_HEAD;
    size_t first = header_size >= room                 ? 0
                   : room - header_size < payload_size ? room - header_size
                                                       : payload_size;
    if (payload_size > first)
        memcpy(data + header_size + first, (const uint8_t *)payload + first, payload_size - first);
    if (header_size)
        memcpy(data, header, header_size);
    if (first)
        memcpy(data + header_size, payload, first);
}

int shm_send(struct weft_link *link, const void *header, size_t header_size, const void *payload,
             size_t payload_size)
{
    int state = atomic_load_explicit(&link->state, memory_order_acquire);
    if (__builtin_expect(state != SHM_LINK_UP, 0))
        return link_not_up(link, state);
    size_t size = header_size + payload_size;
    if (__builtin_expect(size > SHM_EAGER_BYTES || size < header_size, 0))
        return link->transport->params.fail(WEFT_INVALID, "shm: message of %zu bytes, at most %u", size,
                                            SHM_EAGER_BYTES);
    struct shm_record *record = shm_producer_reserve(&link->ring, size);
    if (__builtin_expect(!record, 0))
        return WEFT_AGAIN;
    if (size >= PREFETCH_MIN)
        weft_prefetch_write((uint8_t *)record + SHM_LINE, size + SHM_RECORD_HEAD - SHM_LINE);
    fill((uint8_t *)(record + 1), header, header_size, payload, payload_size);
    shm_producer_publish(&link->ring, record, SHM_RECORD_DATA, (uint32_t)size, shm_record_lines(size));
    demote(link, record, size);
    weft_fence_hot(link->light);
    uint32_t sleep = atomic_load_explicit(&link->control->sleep, memory_order_relaxed);
    if (__builtin_expect(sleep & 1, 0))
        shm_peer_ring(link, sleep);
    return WEFT_OK;
}

int shm_notify(struct weft_link *link)
{
    int state = atomic_load_explicit(&link->state, memory_order_acquire);
    if (state != SHM_LINK_UP)
        return link_not_up(link, state);
    shm_peer_wake(link);
    return WEFT_OK;
}

int shm_link_flags(struct weft_link *link, uint32_t *flags)
{
    int state = atomic_load_explicit(&link->state, memory_order_acquire);
    if (state != SHM_LINK_UP)
        return link_not_up(link, state);
    *flags = link->flags | (shm_feed_stages_past(link) ? WEFT_LINK_PAST_CACHES : 0);
    return WEFT_OK;
}

/* The peer writes what is no record: nothing of it is believed any more. */
static void channel_break(struct shm_channel *channel)
{
    struct weft_transport *transport = channel->transport;
    channel->broken = 1;
    channel->ring.expected = 0;
    if (transport->params.log)
        transport->params.log(WEFT_LOG_ERROR, "shm: a peer's ring holds a malformed record");
    for (struct weft_link *link = transport->links; link; link = link->next) {
        if (link->peer != channel->peer)
            continue;
        pthread_mutex_lock(&transport->lock);
        link->fail_status = WEFT_PROTOCOL;
        atomic_store_explicit(&link->state, SHM_LINK_FAILED, memory_order_release);
        pthread_mutex_unlock(&transport->lock);
    }
    shm_attention(transport);
}

/* Delivers what lies in one channel. */
static int channel_drain(struct shm_channel *channel, int budget, weft_event_handler *handler, void *arg)
{
    struct shm_consumer *ring = &channel->ring;
    struct weft_event event = {.kind = WEFT_EVENT_MESSAGE, .sender = channel->peer};
    struct shm_record *record;
    int events = 0;
    while (events < budget && (record = shm_consumer_peek(ring))) {
        /* Read once: the peer can write here at any time. */
        uint32_t size = *(volatile uint32_t *)&record->size;
        uint32_t kind = *(volatile uint32_t *)&record->kind;
        uint64_t left = SHM_RING_LINES - ring->head % SHM_RING_LINES;
        if (__builtin_expect(kind == SHM_RECORD_SKIP, 0)) {
            shm_consumer_advance(ring, left);
            continue;
        }
        if (__builtin_expect(
                kind != SHM_RECORD_DATA || size > SHM_EAGER_BYTES || shm_record_lines(size) > left, 0)) {
            channel_break(channel);
            break;
        }
        event.data = record + 1;
        event.data_size = size;
        channel->peer->deliveries++;
        handler(arg, &event);
        events++;
        shm_consumer_advance(ring, shm_record_lines(size));
    }
    return events;
}

static int channel_busy(const struct shm_channel *channel)
{
    return !channel->broken && shm_consumer_peek(&channel->ring) != NULL;
}

/* Looks at a channel beyond the hot ones; what has something to say becomes hot. */
static int cold_poll(struct weft_transport *transport, int budget, weft_event_handler *handler, void *arg)
{
    int events = 0;
    for (uint32_t i = 0; i < SHM_COLD && events < budget; i++) {
        if (transport->cold_next < SHM_HOT || transport->cold_next >= transport->inbound_count)
            transport->cold_next = SHM_HOT;
        struct shm_channel *channel = transport->inbound[transport->cold_next];
        if (channel_busy(channel)) {
            uint32_t victim = transport->hot_next++ % SHM_HOT;
            transport->inbound[transport->cold_next] = transport->inbound[victim];
            transport->inbound[victim] = channel;
            events += channel_drain(channel, budget - events, handler, arg);
        }
        transport->cold_next++;
    }
    return events;
}

static int channel_adopt(struct weft_transport *transport, struct shm_channel *channel)
{
    if (transport->inbound_count == transport->inbound_capacity) {
        uint32_t capacity = transport->inbound_capacity ? transport->inbound_capacity * 2 : SHM_HOT;
        struct shm_channel **grown = realloc(transport->inbound, capacity * sizeof(struct shm_channel *));
        if (!grown)
            return transport->params.fail(WEFT_NOMEM, "shm: no memory for a channel");
        transport->inbound = grown;
        transport->inbound_capacity = capacity;
    }
    transport->inbound[transport->inbound_count++] = channel;
    channel->adopted = 1;
    return WEFT_OK;
}

/* Takes in new channels and lets go of those that are dead and empty. */
static int channels_update(struct weft_transport *transport)
{
    struct shm_channel *gone = NULL;
    int status = WEFT_OK;
    pthread_mutex_lock(&transport->lock);
    shm_mappings_sweep(transport);
    struct shm_channel **at = &transport->channels;
    while (*at) {
        struct shm_channel *channel = *at;
        int state = atomic_load_explicit(&channel->state, memory_order_acquire);
        if (!channel->adopted && channel->ring.memory && state != SHM_CHANNEL_NEW)
            status = status ? status : channel_adopt(transport, channel);
        if (state == SHM_CHANNEL_DEAD && (!channel->adopted || !channel_busy(channel))) {
            *at = channel->next;
            channel->next = gone;
            gone = channel;
            continue;
        }
        if (state == SHM_CHANNEL_DEAD)
            atomic_store_explicit(&transport->attention, 1, memory_order_relaxed); /* until it is empty */
        at = &channel->next;
    }
    pthread_mutex_unlock(&transport->lock);
    while (gone) {
        struct shm_channel *channel = gone;
        gone = channel->next;
        uint32_t i = 0;
        while (i < transport->inbound_count && transport->inbound[i] != channel)
            i++;
        if (i < transport->inbound_count)
            transport->inbound[i] = transport->inbound[--transport->inbound_count];
        shm_channel_free(channel);
    }
    return status;
}

/* Delivers everything of a failed link's peer before the news itself. Returns 0 when the budget is too small.
 */
static int peer_drained(struct weft_transport *transport, const struct shm_peer *peer, int budget,
                        int *events, weft_event_handler *handler, void *arg)
{
    for (uint32_t i = 0; i < transport->inbound_count; i++) {
        struct shm_channel *channel = transport->inbound[i];
        if (channel->peer != peer)
            continue;
        if (!channel->broken)
            *events += channel_drain(channel, budget - *events, handler, arg);
        if (channel_busy(channel))
            return 0;
    }
    return *events < budget;
}

static int links_update(struct weft_transport *transport, int budget, weft_event_handler *handler, void *arg)
{
    int events = 0, again = 0;
    struct weft_link *link = transport->links;
    while (link) {
        struct weft_link *next = link->next;
        int state = atomic_load_explicit(&link->state, memory_order_acquire);
        if (state == SHM_LINK_DIALING) {
            again |= shm_link_redial(link);
        } else if (state == SHM_LINK_FAILED && !link->reported) {
            if (peer_drained(transport, link->peer, budget, &events, handler, arg)) {
                link->reported = 1;
                struct weft_event event = {.kind = WEFT_EVENT_LINK_FAILED,
                                           .status = link->fail_status,
                                           .link_context = link->context};
                handler(arg, &event);
                events++;
                next = transport->links; /* the handler may have disconnected any link */
            } else {
                again = 1;
                break;
            }
        }
        link = next;
    }
    if (again)
        atomic_store_explicit(&transport->attention, 1, memory_order_relaxed);
    return events;
}

int shm_poll(struct weft_transport *transport, int budget, weft_event_handler *handler, void *arg)
{
    int events = 0;
    if (__builtin_expect(atomic_load_explicit(&transport->attention, memory_order_relaxed) != 0, 0)) {
        atomic_exchange_explicit(&transport->attention, 0, memory_order_acq_rel);
        int status = channels_update(transport);
        if (status)
            return status;
        events += links_update(transport, budget, handler, arg);
    }
    uint32_t hot = transport->inbound_count < SHM_HOT ? transport->inbound_count : SHM_HOT;
    for (uint32_t i = 0; i < hot && events < budget; i++) {
        struct shm_channel *channel = transport->inbound[i];
        if (channel_busy(channel))
            events += channel_drain(channel, budget - events, handler, arg);
    }
    if (transport->inbound_count > SHM_HOT)
        events += cold_poll(transport, budget - events, handler, arg);
    if (transport->exposures && !events)
        events = shm_feed_give(transport) || shm_help_give(transport);
    return events;
}

int shm_fds(struct weft_transport *transport, int *fds, int capacity)
{
    if (capacity < 1)
        return 0;
    fds[0] = transport->event_fd;
    return 1;
}

int shm_arm(struct weft_transport *transport)
{
    uint32_t sleep = atomic_load_explicit(&transport->control->sleep, memory_order_relaxed);
    if (!(sleep & 1))
        atomic_store_explicit(&transport->control->sleep, sleep + 1, memory_order_seq_cst);
    if (transport->light)
        weft_fence_heavy();
    else
        weft_fence_full();
    int busy = atomic_load_explicit(&transport->attention, memory_order_acquire);
    for (uint32_t i = 0; i < transport->inbound_count && !busy; i++)
        busy = channel_busy(transport->inbound[i]);
    if (!busy)
        return WEFT_OK;
    atomic_store_explicit(&transport->control->sleep, (sleep | 1) + 1, memory_order_relaxed);
    return WEFT_AGAIN;
}

void shm_disarm(struct weft_transport *transport)
{
    uint32_t sleep = atomic_load_explicit(&transport->control->sleep, memory_order_relaxed);
    if (sleep & 1)
        atomic_store_explicit(&transport->control->sleep, sleep + 1, memory_order_release);
    uint64_t wakes;
    ssize_t got = weft_fd_read(transport->event_fd, &wakes, sizeof wakes);
    (void)got; /* nothing there when a timeout or another descriptor ended the sleep */
}
