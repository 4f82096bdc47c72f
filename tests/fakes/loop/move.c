/* SPDX-License-Identifier: Apache-2.0 */
/* The hot path of the loop transport: messages, polling, sleeping. The picture is in loop.c. */
#include <string.h>
#include <unistd.h>
#include "base/fence.h"
#include "tests/fakes/loop/loop_private.h"

void loop_wake(struct loop_inbox *inbox)
{
    if (atomic_exchange_explicit(&inbox->sleeping, 0, memory_order_acq_rel)) {
        uint64_t one = 1;
        ssize_t written = write(inbox->event_fd, &one, sizeof one);
        (void)written; /* a full counter is readable too */
    }
}

void loop_ring_bell(struct loop_channel *channel)
{
    struct loop_inbox *to = channel->to;
    atomic_store_explicit(&to->ready.bytes[channel->slot], 1, memory_order_release);
    weft_fence_hot(loop_hub.light);
    if (__builtin_expect(atomic_load_explicit(&to->sleeping, memory_order_relaxed) != 0, 0))
        loop_wake(to);
}

int loop_link_down(struct weft_link *link)
{
    return link->transport->fail(WEFT_PEER_FAILED, "loop: the peer has closed");
}

int loop_send(struct weft_link *link, const void *header, size_t header_size, const void *payload,
              size_t payload_size)
{
    struct weft_transport *transport = link->transport;
    struct loop_channel *channel = link->channel;
    size_t size = header_size + payload_size;
    if (__builtin_expect(size > LOOP_EAGER_BYTES || size < header_size, 0))
        return transport->fail(WEFT_INVALID, "loop: message of %zu bytes, at most %u", size,
                               LOOP_EAGER_BYTES);
    if (__builtin_expect(atomic_load_explicit(&channel->receiver_gone, memory_order_relaxed) != 0, 0))
        return loop_link_down(link);
    if (__builtin_expect(link->unanswered, 0))
        return WEFT_AGAIN;
    if (__builtin_expect(transport->storm != 0, 0)) {
        if (link->late ? link->late-- > 0 : loop_chance(transport, 3))
            return WEFT_AGAIN;
    }
    struct loop_record *record = loop_ring_reserve(&channel->ring, size);
    if (!record)
        return WEFT_AGAIN;
    uint8_t *data = (uint8_t *)(record + 1);
    if (header_size)
        memcpy(data, header, header_size);
    if (payload_size)
        memcpy(data + header_size, payload, payload_size);
    loop_ring_publish(&channel->ring, record, LOOP_MESSAGE, size);
    loop_ring_bell(channel);
    return WEFT_OK;
}

/* Delivers what lies in one channel. Returns the number of events. */
static int channel_drain(struct weft_transport *transport, struct loop_channel *channel, int budget,
                         weft_event_handler *handler, void *arg)
{
    struct loop_ring *ring = &channel->ring;
    struct loop_record *record;
    struct weft_event event = {.kind = WEFT_EVENT_MESSAGE, .sender = channel->from};
    int events = 0;
    while (events < budget && (record = loop_ring_peek(ring))) {
        if (__builtin_expect(record->kind == LOOP_MESSAGE, 1)) {
            event.data = record + 1;
            event.data_size = record->size;
            handler(arg, &event);
            events++;
        } else {
            events +=
                loop_filled(transport, (const struct loop_filled *)(const void *)(record + 1), handler, arg);
        }
        loop_ring_advance(ring, record);
        if (loop_chance(transport, 4))
            break;
    }
    loop_ring_release(ring);
    return events;
}

/* A visit found nothing: takes the mark back. A record published before the exchange is seen by the second
 * look, one published after it marks the channel again. */
static void channel_rest(struct weft_transport *transport, uint32_t slot)
{
    struct loop_inbox *inbox = transport->inbox;
    struct loop_channel *channel = inbox->inbound[slot];
    atomic_exchange_explicit(&inbox->ready.bytes[slot], 0, memory_order_seq_cst);
    int gone = atomic_load_explicit(&channel->sender_gone, memory_order_acquire) != 0;
    if (loop_ring_peek(&channel->ring)) {
        atomic_store_explicit(&inbox->ready.bytes[slot], 1, memory_order_relaxed);
    } else if (gone) {
        pthread_mutex_lock(&loop_hub.lock);
        inbox->inbound[slot] = NULL;
        loop_channel_release(channel);
        pthread_mutex_unlock(&loop_hub.lock);
    }
}

/* The same for a slot whose channel went between its last mark and now. */
static void slot_rest(struct loop_inbox *inbox, uint32_t slot)
{
    atomic_exchange_explicit(&inbox->ready.bytes[slot], 0, memory_order_seq_cst);
    if (atomic_load_explicit(&inbox->inbound[slot], memory_order_acquire))
        atomic_store_explicit(&inbox->ready.bytes[slot], 1, memory_order_relaxed);
}

/* Reports links whose peer has closed. */
static int links_check(struct weft_transport *transport, int budget, weft_event_handler *handler, void *arg)
{
    int events = 0;
    atomic_store_explicit(&transport->inbox->attention, 0, memory_order_seq_cst);
    struct weft_link *link = transport->links;
    while (link) {
        if (link->failed || !atomic_load_explicit(&link->channel->receiver_gone, memory_order_acquire)) {
            link = link->next;
            continue;
        }
        if (events == budget) {
            atomic_store_explicit(&transport->inbox->attention, 1, memory_order_relaxed);
            break;
        }
        link->failed = 1;
        loop_puts_fail(link);
        loop_oob_disconnect(link);
        struct weft_event event = {
            .kind = WEFT_EVENT_LINK_FAILED, .status = WEFT_PEER_FAILED, .link_context = link->context};
        handler(arg, &event);
        events++;
        link = transport->links; /* the handler may have disconnected any link */
    }
    return events;
}

/* Eight channels of the ready table. */
static int word_poll(struct weft_transport *transport, uint32_t word, int budget, weft_event_handler *handler,
                     void *arg)
{
    struct loop_inbox *inbox = transport->inbox;
    int events = 0;
    for (uint32_t slot = word * 8; slot < word * 8 + 8 && events < budget; slot++) {
        if (!atomic_load_explicit(&inbox->ready.bytes[slot], memory_order_acquire))
            continue;
        struct loop_channel *channel = atomic_load_explicit(&inbox->inbound[slot], memory_order_acquire);
        if (!channel)
            slot_rest(inbox, slot);
        else if (loop_ring_peek(&channel->ring))
            events += channel_drain(transport, channel, budget - events, handler, arg);
        else
            channel_rest(transport, slot);
    }
    return events;
}

int loop_poll(struct weft_transport *transport, int budget, weft_event_handler *handler, void *arg)
{
    struct loop_inbox *inbox = transport->inbox;
    /* Read first: whatever a peer sent before it closed is delivered before the news of that. */
    uint32_t attention = atomic_load_explicit(&inbox->attention, memory_order_acquire);
    int events = 0;
    if (__builtin_expect(transport->unanswered != 0, 0))
        loop_oob_poll(transport);
    if (__builtin_expect(transport->put_count != 0, 0))
        events += loop_puts_poll(transport, budget, handler, arg);
    if (__builtin_expect(transport->filled_count != 0, 0))
        events += loop_filled_poll(transport, budget - events, handler, arg);
    uint32_t words = (atomic_load_explicit(&inbox->inbound_count, memory_order_acquire) + 7) / 8;
    uint32_t start = transport->next_word < words ? transport->next_word : 0;
    for (uint32_t i = 0; i < words && events < budget; i++) {
        uint32_t word = start + i < words ? start + i : start + i - words;
        if (atomic_load_explicit(&inbox->ready.words[word], memory_order_acquire))
            events += word_poll(transport, word, budget - events, handler, arg);
        transport->next_word = events < budget ? start : word;
    }
    if (__builtin_expect(attention != 0, 0) && events < budget)
        events += links_check(transport, budget - events, handler, arg);
    return events;
}

int loop_fds(struct weft_transport *transport, int *fds, int capacity)
{
    if (capacity < 1)
        return 0;
    fds[0] = transport->inbox->event_fd;
    return 1;
}

int loop_arm(struct weft_transport *transport)
{
    struct loop_inbox *inbox = transport->inbox;
    if (transport->put_count || transport->filled_count || transport->unanswered)
        return WEFT_AGAIN;
    atomic_store_explicit(&inbox->sleeping, 1, memory_order_seq_cst);
    if (loop_hub.light)
        weft_fence_heavy();
    else
        weft_fence_full();
    int busy = atomic_load_explicit(&inbox->attention, memory_order_acquire) != 0;
    uint32_t count = atomic_load_explicit(&inbox->inbound_count, memory_order_acquire);
    for (uint32_t slot = 0; slot < count && !busy; slot++)
        busy = atomic_load_explicit(&inbox->ready.bytes[slot], memory_order_acquire) != 0;
    if (!busy)
        return WEFT_OK;
    loop_disarm(transport);
    return WEFT_AGAIN;
}

void loop_disarm(struct weft_transport *transport)
{
    struct loop_inbox *inbox = transport->inbox;
    uint64_t wakes;
    if (atomic_exchange_explicit(&inbox->sleeping, 0, memory_order_acq_rel))
        return;
    ssize_t got = read(inbox->event_fd, &wakes, sizeof wakes);
    (void)got; /* whoever woke us may not have written yet: the next sleep is then a short one */
}

int loop_notify(struct weft_link *link)
{
    struct loop_inbox *to = link->channel->to;
    weft_fence_full();
    if (atomic_load_explicit(&to->sleeping, memory_order_relaxed))
        loop_wake(to);
    return WEFT_OK;
}

const char *loop_why(struct weft_link *link)
{
    return link->failed ? "loop: the peer has closed" : NULL;
}

int loop_link_flags(struct weft_link *link, uint32_t *flags)
{
    if (link->failed)
        return loop_link_down(link);
    if (link->unanswered)
        return WEFT_AGAIN;
    if (link->late) {
        link->late--;
        return WEFT_AGAIN;
    }
    uint32_t maps = link->transport->can_map ? WEFT_LINK_PEER_MAPS : 0;
    *flags = link->transport->offers & WEFT_CAP_READ ? maps | WEFT_LINK_PEER_PULLS : 0;
    return WEFT_OK;
}
