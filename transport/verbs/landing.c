/* SPDX-License-Identifier: Apache-2.0 */
/* Landings: memory that is ready for one put (landing.h has how). Their slots are in slot.c, withdrawing them in withdraw.c. */
#include "transport/verbs/landing.h"
#include <string.h>
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"

#define SETTLE_NS 500000000

int verbs_landings_on(const struct weft_link *link)
{
    const struct verbs_landings *landings = link->transport->landings;
    for (uint32_t i = 0; i < landings->count; i++) {
        if (landings->slots[i]->state != VERBS_LANDING_FREE && landings->slots[i]->link == link)
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

void verbs_landing_release(struct verbs_landing *landing)
{
    int over =
        landing->state == VERBS_LANDING_FILLED || (landing->state == VERBS_LANDING_WITHDRAWN &&
                                                   !landing->cancel_due && verbs_landing_is_quiet(landing));
    int awaits_answer =
        landing->asked && landing->ended != landing->lanes && landing->link->state != VERBS_LINK_FAILED;
    if (!over || landing->posts || landing->bound || landing->telling || awaits_answer)
        return;
    verbs_slot_receives_release(landing);
    verbs_slot_give(landing->link->transport->landings, landing);
}

/* The lanes that a put of this size takes. */
static uint8_t lanes_choose(struct weft_link *link, size_t size)
{
    uint32_t lanes = link->live, count = (uint32_t)__builtin_popcount(lanes);
    if (count < 2)
        return (uint8_t)lanes;
    if (size < (uint64_t)link->transport->settings.stripe_bytes) {
        for (uint32_t turn = link->land_turn++ % count; turn; turn--)
            lanes &= lanes - 1;
        return (uint8_t)(lanes & -lanes);
    }
    size_t offset;
    for (; verbs_stripe(size, count, count - 1, &offset) == 0; count--)
        lanes &= ~(1u << (31 - __builtin_clz(lanes)));
    return (uint8_t)lanes;
}

/* Takes a window for each lane, if the region is made for them. WEFT_AGAIN: some device has none left; they come back as
 * landings end. */
static int windows_take(struct verbs_landing *landing)
{
    const struct weft_link *link = landing->link;
    uint32_t bits = landing->region->is_windowed ? landing->lanes : 0;
    for (; bits; bits &= bits - 1) {
        int number = __builtin_ctz(bits);
        const struct verbs_lane *lane = link->lanes[number];
        struct verbs_rail *rail = lane->queues->rail;
        struct verbs_part *part = &landing->parts[number];
        part->window = verbs_lane_free(lane, VERBS_PUT_RESERVE) ? verbs_window_take(rail) : NULL;
        if (!part->window)
            return WEFT_AGAIN;
    }
    return WEFT_OK;
}

/* A window that was not bound goes back. */
static void window_give(struct verbs_landing *landing, int number)
{
    struct verbs_lane *lane = landing->link->lanes[number];
    struct verbs_part *part = &landing->parts[number];
    if (landing->to_bind & 1u << number) {
        landing->to_bind &= (uint8_t) ~(1u << number);
        lane->draining--;
        landing->link->unbound--;
    }
    if (part->window)
        verbs_window_give(lane->queues->rail, part->window);
    part->window = NULL;
}

static void windows_give(struct verbs_landing *landing)
{
    for (uint32_t bits = landing->lanes & ~(uint32_t)landing->bound; bits; bits &= bits - 1)
        window_give(landing, __builtin_ctz(bits));
}

static void landing_list(struct verbs_landing *landing)
{
    struct verbs_landings *landings = landing->link->transport->landings;
    if (landing->listed)
        return;
    landing->listed = 1;
    landing->next_due = landings->due;
    landings->due = landing;
}

/* Binds a window on the part of one lane. Messages wait for those that they could overtake. */
static int window_bind(struct verbs_landing *landing, int number)
{
    struct weft_link *link = landing->link;
    struct verbs_lane *lane = link->lanes[number];
    struct verbs_part *part = &landing->parts[number];
    uint32_t before = (uint32_t)__builtin_popcount(landing->lanes & ((1u << number) - 1));
    size_t offset,
        size = verbs_stripe(landing->size, (uint32_t)__builtin_popcount(landing->lanes), before, &offset);
    struct ibv_send_wr entry;
    memset(&entry, 0, sizeof entry);
    verbs_window_bind(part->window, landing->region->mr[lane->queues->rail->number], landing->memory + offset,
                      size, &entry);
    int other = number != link->first;
    struct verbs_post post = {other ? VERBS_POST_BIND : VERBS_POST_NONE, part};
    int status = verbs_lane_post(lane, &entry, 1, post, VERBS_PUT_RESERVE, other);
    if (status)
        return status;
    verbs_window_bound(part->window, &entry);
    landing->bound |= (uint8_t)(1u << number);
    landing->posts = (uint16_t)(landing->posts + other);
    link->unbound += (uint32_t)other;
    return WEFT_OK;
}

/* Later, when the device can do it. */
static int window_defer(struct verbs_landing *landing, int number)
{
    landing->to_bind |= (uint8_t)(1u << number);
    landing->link->lanes[number]->draining++;
    landing->link->unbound++;
    landing_list(landing);
    return WEFT_OK;
}

/* Binds what was deferred, as far as that is possible now. */
static void windows_bind(struct verbs_landing *landing)
{
    struct weft_link *link = landing->link;
    for (uint32_t bits = landing->to_bind; bits && link->state == VERBS_LINK_UP; bits &= bits - 1) {
        int number = __builtin_ctz(bits);
        struct verbs_lane *lane = link->lanes[number];
        if (!verbs_lane_binds(lane)) {
            verbs_lane_drain(lane);
        } else if (window_bind(landing, number) == WEFT_OK) {
            landing->to_bind &= (uint8_t) ~(1u << number);
            lane->draining--;
            link->unbound--;
        }
    }
    if (landing->to_bind)
        landing_list(landing);
}

/* Opens the memory to the peer and writes the keys. */
static int parts_open(struct verbs_landing *landing, struct verbs_token *token)
{
    uint32_t index = 0;
    for (uint32_t bits = landing->lanes; bits; bits &= bits - 1, index++) {
        int number = __builtin_ctz(bits), status = WEFT_OK;
        const struct verbs_lane *lane = landing->link->lanes[number];
        const struct verbs_window *window = landing->parts[number].window;
        token->keys[index] =
            window ? verbs_window_next_key(window) : landing->region->mr[lane->queues->rail->number]->rkey;
        if (window)
            status = verbs_lane_binds(lane) ? window_bind(landing, number) : window_defer(landing, number);
        if (status)
            return status;
    }
    return WEFT_OK;
}

/* The end of a landing that could not be opened; some of its windows may be bound. */
static void landing_undo(struct verbs_landing *landing)
{
    if (landing->state == VERBS_LANDING_FREE)
        return; /* the link has failed, and everything on it */
    windows_give(landing);
    landing->state = VERBS_LANDING_WITHDRAWN;
    landing->known = 0;
    verbs_landing_close(landing, landing->lanes);
    verbs_landing_release(landing);
}

int verbs_land(struct weft_link *link, struct weft_region *region, void *memory, size_t size, uint64_t cookie,
               struct weft_token *result)
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
    struct verbs_landing *landing = verbs_slot_take(transport->landings);
    if (!landing)
        return transport->landings->count == VERBS_SLOTS
                   ? WEFT_AGAIN
                   : weft_fail(WEFT_NOMEM, "verbs: no room for another landing beside %u",
                               transport->landings->count);
    landing->link = link;
    landing->region = region;
    landing->memory = memory;
    landing->size = size;
    landing->cookie = cookie;
    landing->sent_at = link->sent;
    landing->lanes = lanes_choose(link, size);
    landing->arrived = landing->ended = landing->to_bind = landing->bound = 0;
    landing->closing = landing->to_close = 0;
    landing->known = landing->cancel_due = landing->telling = 0;
    landing->stale = landing->told = 0;
    landing->state = VERBS_LANDING_OPEN;
    struct verbs_token token;
    memset(&token, 0, sizeof token);
    status = verbs_slot_receives_reserve(landing);
    if (!status)
        status = windows_take(landing);
    if (!status)
        status = parts_open(landing, &token);
    if (status) {
        landing_undo(landing);
        return status;
    }
    token.immediate = verbs_landing_immediate(landing);
    token.address = (uint64_t)(uintptr_t)memory;
    token.check = landing->lanes;
    token.check = verbs_token_check(&token, verbs_token_link(link->id, link->round), size);
    memcpy(result, &token, sizeof token);
    return WEFT_OK;
}

void verbs_landing_bound(struct verbs_part *part)
{
    part->landing->link->unbound--;
    part->landing->posts--;
    verbs_landing_release(part->landing);
}

static int part_close(struct verbs_landing *landing, int number)
{
    struct ibv_send_wr entry;
    memset(&entry, 0, sizeof entry);
    verbs_window_invalidate(landing->parts[number].window, &entry);
    struct verbs_post post = {VERBS_POST_CLOSE, &landing->parts[number]};
    int status = verbs_lane_post(landing->link->lanes[number], &entry, 1, post, VERBS_SEND_CONTROL / 2, 1);
    if (status)
        return status;
    landing->posts++;
    landing->closing |= (uint8_t)(1u << number);
    return WEFT_OK;
}

void verbs_landing_close(struct verbs_landing *landing, uint32_t lanes)
{
    if (landing->link->state != VERBS_LINK_UP)
        return; /* the windows end with the queue pairs */
    for (uint32_t bits = lanes & landing->to_bind; bits; bits &= bits - 1)
        window_give(landing, __builtin_ctz(bits));
    for (uint32_t bits = lanes & landing->bound & ~(uint32_t)landing->closing; bits; bits &= bits - 1) {
        int number = __builtin_ctz(bits), status = part_close(landing, number);
        if (landing->link->state == VERBS_LINK_FAILED)
            return;
        if (status)
            landing->to_close |= (uint8_t)(1u << number);
        else
            landing->to_close &= (uint8_t) ~(1u << number);
    }
    if (landing->to_close)
        landing_list(landing);
}

void verbs_landings_poll(struct weft_transport *transport)
{
    struct verbs_landing *landing = transport->landings->due;
    transport->landings->due = NULL;
    while (landing) {
        struct verbs_landing *next = landing->next_due;
        landing->listed = 0;
        windows_bind(landing);
        verbs_landing_close(landing, landing->to_close);
        landing = next;
    }
}

int verbs_landings_are_due(const struct verbs_landings *landings)
{
    for (const struct verbs_landing *landing = landings->due; landing; landing = landing->next_due) {
        int is_awaited = !landing->to_close;
        for (uint32_t bits = landing->to_bind; bits; bits &= bits - 1) {
            const struct verbs_lane *lane = landing->link->lanes[__builtin_ctz(bits)];
            is_awaited &= !verbs_lane_binds(lane) && verbs_lane_will_bind(lane);
        }
        if (!is_awaited)
            return 1;
    }
    return 0;
}

void verbs_landing_closed(struct verbs_part *part, int status)
{
    struct verbs_landing *landing = part->landing;
    uint8_t bit = (uint8_t)(1u << (part - landing->parts));
    landing->posts--;
    landing->closing &= (uint8_t)~bit;
    if (part->window && status == WEFT_OK) {
        verbs_window_give(landing->link->lanes[part - landing->parts]->queues->rail, part->window);
        part->window = NULL;
        landing->bound &= (uint8_t)~bit;
    }
    verbs_landing_release(landing);
}

void verbs_landing_arrived(struct verbs_queues *queues, uint32_t qp_number, uint32_t immediate)
{
    struct weft_transport *transport = queues->transport;
    struct verbs_landing *landing = verbs_landing_find(transport, immediate);
    const struct verbs_lane *lane = landing ? verbs_link_lane(landing->link, queues, qp_number) : NULL;
    uint8_t bit = lane ? (uint8_t)(1u << lane->number) : 0;
    if (!(bit && landing->lanes & bit) || (immediate >> 28 & 7) != lane->number ||
        (landing->arrived & bit && !(immediate & VERBS_IMMEDIATE_END))) {
        transport->stale_immediates++;
        weft_log(WEFT_LOG_DEBUG, "verbs: dropped an immediate for a landing that is no more");
        return;
    }
    landing->link->heard = 1;
    if (immediate & VERBS_IMMEDIATE_END)
        landing->ended |= bit;
    else
        landing->arrived |= bit;
    if (landing->state == VERBS_LANDING_OPEN && landing->ended) {
        verbs_link_fail(landing->link, WEFT_PROTOCOL,
                        "verbs: the peer ended a put that it was not asked to end");
        return;
    }
    verbs_landing_close(landing, bit);
    if (landing->state == VERBS_LANDING_OPEN && landing->arrived == landing->lanes) {
        landing->state = VERBS_LANDING_FILLED;
        landing->telling = 1;
        verbs_notice_push(transport, &landing->notice, WEFT_EVENT_LANDED, WEFT_OK);
    }
    verbs_landing_release(landing);
}

uint64_t verbs_landing_told(struct verbs_notice *notice)
{
    struct verbs_landing *landing = VERBS_NOTICE_OF(notice, struct verbs_landing);
    landing->telling = 0;
    verbs_landing_release(landing);
    return landing->cookie;
}

/* The queue pairs are in error: invalidating windows is no more possible, freeing them is. */
static void windows_drop(struct verbs_landing *landing)
{
    for (uint32_t bits = landing->lanes; bits; bits &= bits - 1) {
        int number = __builtin_ctz(bits);
        if (landing->parts[number].window)
            verbs_window_drop(landing->link->lanes[number]->queues->rail, landing->parts[number].window);
        landing->parts[number].window = NULL;
    }
    landing->link->unbound -= (uint32_t)__builtin_popcount(landing->to_bind);
    landing->to_bind = landing->bound = landing->closing = landing->to_close = landing->cancel_due = 0;
    verbs_slot_receives_release(landing);
}

static void landing_cut(struct verbs_landing *landing)
{
    windows_drop(landing);
    if (landing->state == VERBS_LANDING_OPEN)
        landing->state = VERBS_LANDING_WITHDRAWN;
    verbs_landing_release(landing);
}

void verbs_landings_link_failed(struct weft_link *link)
{
    struct verbs_landings *landings = link->transport->landings;
    for (uint32_t i = 0; i < landings->count; i++) {
        if (landings->slots[i]->state != VERBS_LANDING_FREE && landings->slots[i]->link == link)
            landing_cut(landings->slots[i]);
    }
}

void verbs_landings_turn(struct weft_link *link)
{
    struct verbs_landings *landings = link->transport->landings;
    for (uint32_t i = 0; i < landings->count; i++) {
        struct verbs_landing *landing = landings->slots[i];
        if (landing->state == VERBS_LANDING_FREE || landing->link != link)
            continue;
        windows_drop(landing);
        landing->lanes = landing->arrived = landing->ended = 0;
        landing->stale = landing->state == VERBS_LANDING_OPEN;
        verbs_landing_release(landing);
    }
}

/* The link has new lanes, the landing gets its part of them. WEFT_AGAIN: no room yet. */
int verbs_landing_renew(struct verbs_landing *landing, struct verbs_token *token)
{
    struct weft_link *link = landing->link;
    landing->lanes = lanes_choose(link, landing->size);
    int status = windows_take(landing);
    if (status) {
        windows_give(landing);
        landing->lanes = 0;
        return status;
    }
    memset(token, 0, sizeof *token);
    status = parts_open(landing, token);
    if (status) { /* some are bound: once more, with other lanes */
        verbs_lane_trouble(link->lanes[link->first], status, "verbs: a memory window cannot be bound");
        return WEFT_AGAIN;
    }
    (void)verbs_slot_receives_reserve(
        landing); /* it is open already; without, its peer's adapter may have to wait */
    landing->stale = 0;
    token->immediate = verbs_landing_immediate(landing);
    token->address = (uint64_t)(uintptr_t)landing->memory;
    token->check = landing->lanes;
    token->check = verbs_token_check(token, verbs_token_link(link->id, link->round), landing->size);
    return WEFT_OK;
}

/* A landing with a window on the region, or NULL. While the instance closes there are none any more. */
static struct verbs_landing *landing_bound_on(const struct weft_region *region)
{
    const struct verbs_landings *landings = region->transport->landings;
    for (uint32_t i = 0; landings && i < landings->count; i++) {
        struct verbs_landing *landing = landings->slots[i];
        if (landing->state != VERBS_LANDING_FREE && landing->region == region &&
            (landing->to_bind || landing->bound || landing->stale))
            return landing;
    }
    return NULL;
}

void verbs_region_settle(struct weft_region *region)
{
    struct weft_transport *transport = region->transport;
    int64_t start_ns = weft_clock_ns();
    struct verbs_landing *landing;
    while ((landing = landing_bound_on(region))) {
        if (weft_clock_ns() - start_ns > SETTLE_NS || landing->state == VERBS_LANDING_OPEN) {
            verbs_link_fail(landing->link, WEFT_TRANSPORT,
                            landing->state == VERBS_LANDING_OPEN
                                ? "verbs: memory was deregistered while the peer could write into it"
                                : "verbs: the adapter does not take back the peer's key for memory");
            continue;
        }
        verbs_landings_poll(transport);
        verbs_progress(transport);
    }
}
