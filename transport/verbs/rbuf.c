/* SPDX-License-Identifier: Apache-2.0 */
/* Receive buffers: memory that is ready for one put (rbuf.h has how). Their slots are in slot.c, withdrawing them in
 * withdraw.c. */
#include "transport/verbs/rbuf.h"
#include <string.h>
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"

#define SETTLE_NS 500000000

int verbs_rbufs_on(const struct weft_link *link)
{
    const struct verbs_rbufs *rbufs = link->transport->rbufs;
    for (uint32_t i = 0; i < rbufs->count; i++) {
        if (rbufs->slots[i]->state != VERBS_RBUF_FREE && rbufs->slots[i]->link == link)
            return 1;
    }
    return 0;
}

uint32_t verbs_token_check(const struct verbs_token *token, uint32_t link_id, size_t size)
{
    struct verbs_token words = *token;
    uint64_t hash = link_id ^ (uint64_t)size << 32 ^ (uint64_t)size >> 32;
    words.check &= 0xff;
    uint64_t values[sizeof words / sizeof(uint64_t)];
    memcpy(values, &words, sizeof words);
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        hash = (hash ^ values[i]) * UINT64_C(0x9e3779b97f4a7c15);
        hash ^= hash >> 29;
    }
    return words.check | (uint32_t)(hash >> 32 << 8);
}

int verbs_region_check(const struct weft_transport *transport, const struct weft_region *region,
                       const void *memory, size_t size)
{
    if (size == 0 || size > transport->put_bytes)
        return weft_fail(WEFT_INVALID, "verbs: put of %zu bytes, expected 1 to %llu", size,
                         (unsigned long long)transport->put_bytes);
    uintptr_t start = region ? (uintptr_t)region->memory : 0, wanted = (uintptr_t)memory;
    if (!region || wanted < start || wanted - start > region->size || size > region->size - (wanted - start))
        return weft_fail(WEFT_INVALID, "verbs: a put needs a region that covers the memory");
    return WEFT_OK;
}

void verbs_rbuf_release(struct verbs_rbuf *rbuf)
{
    int over = rbuf->state == VERBS_RBUF_FILLED ||
               (rbuf->state == VERBS_RBUF_WITHDRAWN && !rbuf->cancel_due && verbs_rbuf_is_quiet(rbuf));
    int awaits_answer = rbuf->asked && rbuf->ended != rbuf->qps && rbuf->link->state != VERBS_LINK_FAILED;
    if (!over || rbuf->posts || rbuf->bound || rbuf->reporting || awaits_answer)
        return;
    verbs_slot_receives_release(rbuf);
    verbs_slot_give(rbuf->link->transport->rbufs, rbuf);
}

/* The queue pairs that a put of this size takes. */
static uint8_t qps_choose(struct weft_link *link, size_t size)
{
    uint32_t qps = link->live, count = (uint32_t)__builtin_popcount(qps);
    if (count < 2)
        return (uint8_t)qps;
    if (size < (uint64_t)link->transport->settings.stripe_bytes) {
        for (uint32_t turn = link->rbuf_turn++ % count; turn; turn--)
            qps &= qps - 1;
        return (uint8_t)(qps & -qps);
    }
    size_t offset;
    for (; verbs_stripe(size, count, count - 1, &offset) == 0; count--)
        qps &= ~(1u << (31 - __builtin_clz(qps)));
    return (uint8_t)qps;
}

/* Takes a window for each queue pair, if the region is made for them. WEFT_AGAIN: some device has none left; they come back as
 * receive buffers end. */
static int windows_take(struct verbs_rbuf *rbuf)
{
    const struct weft_link *link = rbuf->link;
    uint32_t bits = rbuf->region->is_windowed ? rbuf->qps : 0;
    for (; bits; bits &= bits - 1) {
        int number = __builtin_ctz(bits);
        const struct verbs_qp *qp = link->qps[number];
        struct verbs_rail *rail = qp->queues->rail;
        struct verbs_part *part = &rbuf->parts[number];
        part->window = verbs_qp_free(qp, VERBS_PUT_RESERVE) ? verbs_window_take(rail) : NULL;
        if (!part->window)
            return WEFT_AGAIN;
    }
    return WEFT_OK;
}

/* A window that was not bound goes back. */
static void window_give(struct verbs_rbuf *rbuf, int number)
{
    struct verbs_qp *qp = rbuf->link->qps[number];
    struct verbs_part *part = &rbuf->parts[number];
    if (rbuf->to_bind & 1u << number) {
        rbuf->to_bind &= (uint8_t) ~(1u << number);
        qp->draining--;
        rbuf->link->unbound--;
    }
    if (part->window)
        verbs_window_give(qp->queues->rail, part->window);
    part->window = NULL;
}

static void windows_give(struct verbs_rbuf *rbuf)
{
    for (uint32_t bits = rbuf->qps & ~(uint32_t)rbuf->bound; bits; bits &= bits - 1)
        window_give(rbuf, __builtin_ctz(bits));
}

static void rbuf_list(struct verbs_rbuf *rbuf)
{
    struct verbs_rbufs *rbufs = rbuf->link->transport->rbufs;
    if (rbuf->listed)
        return;
    rbuf->listed = 1;
    rbuf->next_due = rbufs->due;
    rbufs->due = rbuf;
}

/* Binds a window on the part of one queue pair. Messages wait for those that they could overtake. */
static int window_bind(struct verbs_rbuf *rbuf, int number)
{
    struct weft_link *link = rbuf->link;
    struct verbs_qp *qp = link->qps[number];
    struct verbs_part *part = &rbuf->parts[number];
    uint32_t before = (uint32_t)__builtin_popcount(rbuf->qps & ((1u << number) - 1));
    size_t offset, size = verbs_stripe(rbuf->size, (uint32_t)__builtin_popcount(rbuf->qps), before, &offset);
    struct ibv_send_wr entry;
    memset(&entry, 0, sizeof entry);
    verbs_window_bind(part->window, rbuf->region->mr[qp->queues->rail->number], rbuf->memory + offset, size,
                      &entry);
    int other = number != link->first;
    struct verbs_post post = {other ? VERBS_POST_BIND : VERBS_POST_NONE, part};
    int status = verbs_qp_post(qp, &entry, 1, post, VERBS_PUT_RESERVE, other);
    if (status)
        return status;
    verbs_window_bound(part->window, &entry);
    rbuf->bound |= (uint8_t)(1u << number);
    rbuf->posts = (uint16_t)(rbuf->posts + other);
    link->unbound += (uint32_t)other;
    return WEFT_OK;
}

/* Later, when the device can do it. */
static int window_defer(struct verbs_rbuf *rbuf, int number)
{
    rbuf->to_bind |= (uint8_t)(1u << number);
    rbuf->link->qps[number]->draining++;
    rbuf->link->unbound++;
    rbuf_list(rbuf);
    return WEFT_OK;
}

/* Binds what was deferred, as far as that is possible now. */
static void windows_bind(struct verbs_rbuf *rbuf)
{
    struct weft_link *link = rbuf->link;
    for (uint32_t bits = rbuf->to_bind; bits && link->state == VERBS_LINK_UP; bits &= bits - 1) {
        int number = __builtin_ctz(bits);
        struct verbs_qp *qp = link->qps[number];
        if (!verbs_qp_binds(qp)) {
            verbs_qp_drain(qp);
        } else if (window_bind(rbuf, number) == WEFT_OK) {
            rbuf->to_bind &= (uint8_t) ~(1u << number);
            qp->draining--;
            link->unbound--;
        }
    }
    if (rbuf->to_bind)
        rbuf_list(rbuf);
}

/* Opens the memory to the peer and writes the keys. */
static int parts_open(struct verbs_rbuf *rbuf, struct verbs_token *token)
{
    uint32_t index = 0;
    for (uint32_t bits = rbuf->qps; bits; bits &= bits - 1, index++) {
        int number = __builtin_ctz(bits), status = WEFT_OK;
        const struct verbs_qp *qp = rbuf->link->qps[number];
        const struct verbs_window *window = rbuf->parts[number].window;
        token->keys[index] =
            window ? verbs_window_next_key(window) : rbuf->region->mr[qp->queues->rail->number]->rkey;
        if (window)
            status = verbs_qp_binds(qp) ? window_bind(rbuf, number) : window_defer(rbuf, number);
        if (status)
            return status;
    }
    return WEFT_OK;
}

/* The end of a receive buffer that could not be opened; some of its windows may be bound. */
static void rbuf_undo(struct verbs_rbuf *rbuf)
{
    if (rbuf->state == VERBS_RBUF_FREE)
        return; /* the link has failed, and everything on it */
    windows_give(rbuf);
    rbuf->state = VERBS_RBUF_WITHDRAWN;
    rbuf->known = 0;
    verbs_rbuf_close(rbuf, rbuf->qps);
    verbs_rbuf_release(rbuf);
}

int verbs_advertise(struct weft_link *link, struct weft_region *region, void *memory, size_t size,
                    uint64_t cookie, struct weft_token *result)
{
    struct weft_transport *transport = link->transport;
    if (link->state != VERBS_LINK_UP || link->leave)
        return link->state == VERBS_LINK_FAILED ? weft_fail(link->status, "%s", link->why) : WEFT_AGAIN;
    int status = verbs_region_check(transport, region, memory, size);
    if (!status && region->is_source)
        status = weft_fail(
            WEFT_INVALID,
            "verbs: cannot receive %zu bytes at %p: when the memory was registered it was read-only", size,
            memory);
    if (status)
        return status;
    struct verbs_rbuf *rbuf = verbs_slot_take(transport->rbufs);
    if (!rbuf)
        return transport->rbufs->count == VERBS_SLOTS
                   ? WEFT_AGAIN
                   : weft_fail(WEFT_NOMEM, "verbs: no room for another receive buffer beside %u",
                               transport->rbufs->count);
    rbuf->link = link;
    rbuf->region = region;
    rbuf->memory = memory;
    rbuf->size = size;
    rbuf->cookie = cookie;
    rbuf->sent_at = link->sent;
    rbuf->qps = qps_choose(link, size);
    rbuf->arrived = rbuf->ended = rbuf->to_bind = rbuf->bound = 0;
    rbuf->closing = rbuf->to_close = 0;
    rbuf->known = rbuf->cancel_due = rbuf->reporting = 0;
    rbuf->stale = rbuf->announced = 0;
    rbuf->state = VERBS_RBUF_OPEN;
    struct verbs_token token;
    memset(&token, 0, sizeof token);
    status = verbs_slot_receives_reserve(rbuf);
    if (!status)
        status = windows_take(rbuf);
    if (!status)
        status = parts_open(rbuf, &token);
    if (status) {
        rbuf_undo(rbuf);
        return status;
    }
    token.immediate = verbs_rbuf_immediate(rbuf);
    token.address = (uint64_t)(uintptr_t)memory;
    token.check = rbuf->qps;
    token.check = verbs_token_check(&token, verbs_token_link(link->id, link->round), size);
    memcpy(result, &token, sizeof token);
    return WEFT_OK;
}

void verbs_rbuf_bound(struct verbs_part *part)
{
    part->rbuf->link->unbound--;
    part->rbuf->posts--;
    verbs_rbuf_release(part->rbuf);
}

static int part_close(struct verbs_rbuf *rbuf, int number)
{
    struct ibv_send_wr entry;
    memset(&entry, 0, sizeof entry);
    verbs_window_invalidate(rbuf->parts[number].window, &entry);
    struct verbs_post post = {VERBS_POST_CLOSE, &rbuf->parts[number]};
    int status = verbs_qp_post(rbuf->link->qps[number], &entry, 1, post, VERBS_SEND_CONTROL / 2, 1);
    if (status)
        return status;
    rbuf->posts++;
    rbuf->closing |= (uint8_t)(1u << number);
    return WEFT_OK;
}

void verbs_rbuf_close(struct verbs_rbuf *rbuf, uint32_t qps)
{
    if (rbuf->link->state != VERBS_LINK_UP)
        return; /* the windows end with the queue pairs */
    for (uint32_t bits = qps & rbuf->to_bind; bits; bits &= bits - 1)
        window_give(rbuf, __builtin_ctz(bits));
    for (uint32_t bits = qps & rbuf->bound & ~(uint32_t)rbuf->closing; bits; bits &= bits - 1) {
        int number = __builtin_ctz(bits), status = part_close(rbuf, number);
        if (rbuf->link->state == VERBS_LINK_FAILED)
            return;
        if (status)
            rbuf->to_close |= (uint8_t)(1u << number);
        else
            rbuf->to_close &= (uint8_t) ~(1u << number);
    }
    if (rbuf->to_close)
        rbuf_list(rbuf);
}

void verbs_rbufs_poll(struct weft_transport *transport)
{
    struct verbs_rbuf *rbuf = transport->rbufs->due;
    transport->rbufs->due = NULL;
    while (rbuf) {
        struct verbs_rbuf *next = rbuf->next_due;
        rbuf->listed = 0;
        windows_bind(rbuf);
        verbs_rbuf_close(rbuf, rbuf->to_close);
        rbuf = next;
    }
}

int verbs_rbufs_are_due(const struct verbs_rbufs *rbufs)
{
    for (const struct verbs_rbuf *rbuf = rbufs->due; rbuf; rbuf = rbuf->next_due) {
        int is_awaited = !rbuf->to_close;
        for (uint32_t bits = rbuf->to_bind; bits; bits &= bits - 1) {
            const struct verbs_qp *qp = rbuf->link->qps[__builtin_ctz(bits)];
            is_awaited &= !verbs_qp_binds(qp) && verbs_qp_will_bind(qp);
        }
        if (!is_awaited)
            return 1;
    }
    return 0;
}

void verbs_rbuf_closed(struct verbs_part *part, int status)
{
    struct verbs_rbuf *rbuf = part->rbuf;
    uint8_t bit = (uint8_t)(1u << (part - rbuf->parts));
    rbuf->posts--;
    rbuf->closing &= (uint8_t)~bit;
    if (part->window && status == WEFT_OK) {
        verbs_window_give(rbuf->link->qps[part - rbuf->parts]->queues->rail, part->window);
        part->window = NULL;
        rbuf->bound &= (uint8_t)~bit;
    }
    verbs_rbuf_release(rbuf);
}

void verbs_rbuf_arrived(struct verbs_queues *queues, uint32_t qp_number, uint32_t immediate)
{
    struct weft_transport *transport = queues->transport;
    struct verbs_rbuf *rbuf = verbs_rbuf_find(transport, immediate);
    const struct verbs_qp *qp = rbuf ? verbs_link_qp(rbuf->link, queues, qp_number) : NULL;
    uint8_t bit = qp ? (uint8_t)(1u << qp->number) : 0;
    if (!(bit && rbuf->qps & bit) || (immediate >> 28 & 7) != qp->number ||
        (rbuf->arrived & bit && !(immediate & VERBS_IMMEDIATE_END))) {
        transport->stale_immediates++;
        weft_log(WEFT_LOG_DEBUG, "verbs: dropped an immediate for a receive buffer that is no more");
        return;
    }
    rbuf->link->heard = 1;
    if (immediate & VERBS_IMMEDIATE_END)
        rbuf->ended |= bit;
    else
        rbuf->arrived |= bit;
    if (rbuf->state == VERBS_RBUF_OPEN && rbuf->ended) {
        verbs_link_fail(rbuf->link, WEFT_PROTOCOL,
                        "verbs: the peer ended a put that it was not asked to end");
        return;
    }
    verbs_rbuf_close(rbuf, bit);
    if (rbuf->state == VERBS_RBUF_OPEN && rbuf->arrived == rbuf->qps) {
        rbuf->state = VERBS_RBUF_FILLED;
        rbuf->reporting = 1;
        verbs_notice_push(transport, &rbuf->notice, WEFT_EVENT_FILLED, WEFT_OK);
    }
    verbs_rbuf_release(rbuf);
}

uint64_t verbs_rbuf_reported(struct verbs_notice *notice)
{
    struct verbs_rbuf *rbuf = VERBS_NOTICE_OF(notice, struct verbs_rbuf);
    rbuf->reporting = 0;
    verbs_rbuf_release(rbuf);
    return rbuf->cookie;
}

/* The queue pairs are in error: invalidating windows is no more possible, freeing them is. */
static void windows_drop(struct verbs_rbuf *rbuf)
{
    for (uint32_t bits = rbuf->qps; bits; bits &= bits - 1) {
        int number = __builtin_ctz(bits);
        if (rbuf->parts[number].window)
            verbs_window_drop(rbuf->link->qps[number]->queues->rail, rbuf->parts[number].window);
        rbuf->parts[number].window = NULL;
    }
    rbuf->link->unbound -= (uint32_t)__builtin_popcount(rbuf->to_bind);
    rbuf->to_bind = rbuf->bound = rbuf->closing = rbuf->to_close = rbuf->cancel_due = 0;
    verbs_slot_receives_release(rbuf);
}

static void rbuf_cut(struct verbs_rbuf *rbuf)
{
    windows_drop(rbuf);
    if (rbuf->state == VERBS_RBUF_OPEN)
        rbuf->state = VERBS_RBUF_WITHDRAWN;
    verbs_rbuf_release(rbuf);
}

void verbs_rbufs_link_failed(struct weft_link *link)
{
    struct verbs_rbufs *rbufs = link->transport->rbufs;
    for (uint32_t i = 0; i < rbufs->count; i++) {
        if (rbufs->slots[i]->state != VERBS_RBUF_FREE && rbufs->slots[i]->link == link)
            rbuf_cut(rbufs->slots[i]);
    }
}

void verbs_rbufs_turn(struct weft_link *link)
{
    struct verbs_rbufs *rbufs = link->transport->rbufs;
    for (uint32_t i = 0; i < rbufs->count; i++) {
        struct verbs_rbuf *rbuf = rbufs->slots[i];
        if (rbuf->state == VERBS_RBUF_FREE || rbuf->link != link)
            continue;
        windows_drop(rbuf);
        rbuf->qps = rbuf->arrived = rbuf->ended = 0;
        rbuf->stale = rbuf->state == VERBS_RBUF_OPEN;
        verbs_rbuf_release(rbuf);
    }
}

/* The link has new queue pairs, the receive buffer gets its part of them. WEFT_AGAIN: no room yet. */
int verbs_rbuf_renew(struct verbs_rbuf *rbuf, struct verbs_token *token)
{
    struct weft_link *link = rbuf->link;
    rbuf->qps = qps_choose(link, rbuf->size);
    int status = windows_take(rbuf);
    if (status) {
        windows_give(rbuf);
        rbuf->qps = 0;
        return status;
    }
    memset(token, 0, sizeof *token);
    status = parts_open(rbuf, token);
    if (status) { /* some are bound: once more, with other queue pairs */
        verbs_qp_trouble(link->qps[link->first], status, "verbs: a memory window cannot be bound");
        return WEFT_AGAIN;
    }
    (void)verbs_slot_receives_reserve(
        rbuf); /* it is open already; without, its peer's adapter may have to wait */
    rbuf->stale = 0;
    token->immediate = verbs_rbuf_immediate(rbuf);
    token->address = (uint64_t)(uintptr_t)rbuf->memory;
    token->check = rbuf->qps;
    token->check = verbs_token_check(token, verbs_token_link(link->id, link->round), rbuf->size);
    return WEFT_OK;
}

/* A receive buffer with a window on the region, or NULL. While the instance closes there are none any more. */
static struct verbs_rbuf *rbuf_bound_on(const struct weft_region *region)
{
    const struct verbs_rbufs *rbufs = region->transport->rbufs;
    for (uint32_t i = 0; rbufs && i < rbufs->count; i++) {
        struct verbs_rbuf *rbuf = rbufs->slots[i];
        if (rbuf->state != VERBS_RBUF_FREE && rbuf->region == region &&
            (rbuf->to_bind || rbuf->bound || rbuf->stale))
            return rbuf;
    }
    return NULL;
}

void verbs_region_settle(struct weft_region *region)
{
    struct weft_transport *transport = region->transport;
    int64_t start_ns = weft_clock_ns();
    struct verbs_rbuf *rbuf;
    while ((rbuf = rbuf_bound_on(region))) {
        if (weft_clock_ns() - start_ns > SETTLE_NS || rbuf->state == VERBS_RBUF_OPEN) {
            verbs_link_fail(rbuf->link, WEFT_TRANSPORT,
                            rbuf->state == VERBS_RBUF_OPEN
                                ? "verbs: memory was deregistered while the peer could write into it"
                                : "verbs: the adapter does not take back the peer's key for memory");
            continue;
        }
        verbs_rbufs_poll(transport);
        verbs_progress(transport);
    }
}
