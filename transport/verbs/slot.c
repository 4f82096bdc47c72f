/* SPDX-License-Identifier: Apache-2.0 */
/* Slots of landings: what an immediate names, and the receive buffers that immediates take. */
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "transport/verbs/landing.h"

int verbs_landings_open(struct weft_transport *transport)
{
    transport->landings = calloc(1, sizeof *transport->landings);
    return transport->landings ? WEFT_OK : weft_fail(WEFT_NOMEM, "verbs: no memory for landings");
}

void verbs_landings_free(struct weft_transport *transport)
{
    struct verbs_landings *landings = transport->landings;
    if (!landings)
        return;
    for (uint32_t i = 0; i < landings->count; i++) {
        free(landings->slots[i]->refused);
        free(landings->slots[i]);
    }
    free(landings->slots);
    free(landings);
    transport->landings = NULL;
}

uint32_t verbs_landing_immediate(const struct verbs_landing *landing)
{
    return landing->slot | (uint32_t)landing->generation << 16;
}

struct verbs_landing *verbs_landing_find(struct weft_transport *transport, uint32_t immediate)
{
    const struct verbs_landings *landings = transport->landings;
    uint32_t slot = immediate & (VERBS_SLOTS - 1);
    struct verbs_landing *landing = slot < landings->count ? landings->slots[slot] : NULL;
    if (!landing || landing->state == VERBS_LANDING_FREE ||
        landing->generation != (immediate >> 16 & VERBS_GENERATION_MASK))
        return NULL;
    return landing;
}

/* Slots are used again in the order they became free. */
struct verbs_landing *verbs_slot_take(struct verbs_landings *landings)
{
    struct verbs_landing *landing = landings->free;
    if (landing) {
        landings->free = landing->next;
        return landing;
    }
    if (landings->count == landings->capacity) {
        uint32_t capacity = landings->capacity ? landings->capacity * 2 : 64;
        struct verbs_landing **slots =
            capacity > VERBS_SLOTS ? NULL : realloc(landings->slots, capacity * sizeof(*slots));
        if (!slots)
            return NULL;
        landings->slots = slots;
        landings->capacity = capacity;
    }
    landing = calloc(1, sizeof *landing);
    if (!landing)
        return NULL;
    landing->slot = (uint16_t)landings->count;
    for (int i = 0; i < VERBS_LANES; i++)
        landing->parts[i].landing = landing;
    landings->slots[landings->count++] = landing;
    return landing;
}

void verbs_slot_refused(struct verbs_landing *landing)
{
    if (!landing->refused)
        landing->refused = calloc(VERBS_GENERATION_WORDS, sizeof *landing->refused);
    if (landing->refused)
        verbs_generation_set(landing->refused, landing->generation);
    else
        landing->is_last = 1;
}

/* To the next generation that no peer refuses; 0 when there is none. */
static int generation_next(struct verbs_landing *landing)
{
    for (uint32_t i = 0; i < VERBS_GENERATION_MASK; i++) {
        landing->generation = (landing->generation + 1) & VERBS_GENERATION_MASK;
        if (!verbs_generation_is(landing->refused, landing->generation))
            return !landing->is_last;
    }
    return 0;
}

void verbs_slot_give(struct verbs_landings *landings, struct verbs_landing *landing)
{
    landing->state = VERBS_LANDING_FREE;
    landing->recalled = 0;
    landing->link->cancels -= landing->asked;
    landing->asked = 0;
    landing->region = NULL;
    landing->next = NULL;
    if (!generation_next(landing))
        return; /* the slot is used up */
    if (landings->free)
        landings->free_last->next = landing;
    else
        landings->free = landing;
    landings->free_last = landing;
}

/* Each open landing has a receive for each immediate that can come, or a put would take those that other peers' messages
 * count on. One that has none waits until others end; if there are no others, it goes without: its immediates, one for
 * each of its lanes on that rail, are then too many, which the few spare ones take. One that is renewed cannot wait, and what
 * it has none for is not counted: the peer's adapter may have to try again until a receive comes back. */
int verbs_slot_receives_reserve(struct verbs_landing *landing)
{
    struct verbs_landings *landings = landing->link->transport->landings;
    uint32_t own[VERBS_RAILS] = {0}; /* for which it does not wait */
    for (uint32_t bits = landing->lanes; bits; bits &= bits - 1) {
        int number = __builtin_ctz(bits);
        struct verbs_queues *queues = landing->link->lanes[number]->queues;
        int rail = queues->rail->number;
        int is_full = landings->reserved[rail] >= queues->srq_entries / VERBS_LANDING_SHARE;
        if (!is_full && verbs_receives_reserve(queues, 1) == WEFT_OK) {
            own[rail]++;
            landings->reserved[rail]++;
            landing->reserved |= (uint8_t)(1u << number);
            continue;
        }
        if (landings->reserved[rail] + landings->bare[rail] > own[rail])
            return WEFT_AGAIN;
        weft_error_clear();
        own[rail]++;
        landings->bare[rail]++;
        landing->bare |= (uint8_t)(1u << number);
    }
    return WEFT_OK;
}

void verbs_slot_receives_release(struct verbs_landing *landing)
{
    struct verbs_landings *landings = landing->link->transport->landings;
    for (uint32_t bits = landing->reserved; bits; bits &= bits - 1) {
        struct verbs_queues *queues = landing->link->lanes[__builtin_ctz(bits)]->queues;
        verbs_receives_release(queues, 1);
        landings->reserved[queues->rail->number]--;
    }
    for (uint32_t bits = landing->bare; bits; bits &= bits - 1)
        landings->bare[landing->link->lanes[__builtin_ctz(bits)]->queues->rail->number]--;
    landing->reserved = landing->bare = 0;
}
