/* SPDX-License-Identifier: Apache-2.0 */
/* Slots of receive buffers: what an immediate names, and the receives that immediates take. */
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "transport/verbs/rbuf.h"

int verbs_rbufs_open(struct weft_transport *transport)
{
    transport->rbufs = calloc(1, sizeof *transport->rbufs);
    return transport->rbufs ? WEFT_OK : weft_fail(WEFT_NOMEM, "verbs: no memory for receive buffers");
}

void verbs_rbufs_free(struct weft_transport *transport)
{
    struct verbs_rbufs *rbufs = transport->rbufs;
    if (!rbufs)
        return;
    for (uint32_t i = 0; i < rbufs->count; i++) {
        free(rbufs->slots[i]->refused);
        free(rbufs->slots[i]);
    }
    free(rbufs->slots);
    free(rbufs);
    transport->rbufs = NULL;
}

uint32_t verbs_rbuf_immediate(const struct verbs_rbuf *rbuf)
{
    return rbuf->slot | (uint32_t)rbuf->generation << 16;
}

struct verbs_rbuf *verbs_rbuf_find(struct weft_transport *transport, uint32_t immediate)
{
    const struct verbs_rbufs *rbufs = transport->rbufs;
    uint32_t slot = immediate & (VERBS_SLOTS - 1);
    struct verbs_rbuf *rbuf = slot < rbufs->count ? rbufs->slots[slot] : NULL;
    if (!rbuf || rbuf->state == VERBS_RBUF_FREE ||
        rbuf->generation != (immediate >> 16 & VERBS_GENERATION_MASK))
        return NULL;
    return rbuf;
}

/* Slots are used again in the order they became free. */
struct verbs_rbuf *verbs_slot_take(struct verbs_rbufs *rbufs)
{
    struct verbs_rbuf *rbuf = rbufs->free;
    if (rbuf) {
        rbufs->free = rbuf->next;
        return rbuf;
    }
    if (rbufs->count == rbufs->capacity) {
        uint32_t capacity = rbufs->capacity ? rbufs->capacity * 2 : 64;
        struct verbs_rbuf **slots =
            capacity > VERBS_SLOTS ? NULL : realloc(rbufs->slots, capacity * sizeof(*slots));
        if (!slots)
            return NULL;
        rbufs->slots = slots;
        rbufs->capacity = capacity;
    }
    rbuf = calloc(1, sizeof *rbuf);
    if (!rbuf)
        return NULL;
    rbuf->slot = (uint16_t)rbufs->count;
    for (int i = 0; i < VERBS_QPS; i++)
        rbuf->parts[i].rbuf = rbuf;
    rbufs->slots[rbufs->count++] = rbuf;
    return rbuf;
}

void verbs_slot_refused(struct verbs_rbuf *rbuf)
{
    if (!rbuf->refused)
        rbuf->refused = calloc(VERBS_GENERATION_WORDS, sizeof *rbuf->refused);
    if (rbuf->refused)
        verbs_generation_set(rbuf->refused, rbuf->generation);
    else
        rbuf->is_last = 1;
}

/* To the next generation that no peer refuses; 0 when there is none. */
static int generation_next(struct verbs_rbuf *rbuf)
{
    for (uint32_t i = 0; i < VERBS_GENERATION_MASK; i++) {
        rbuf->generation = (rbuf->generation + 1) & VERBS_GENERATION_MASK;
        if (!verbs_generation_is(rbuf->refused, rbuf->generation))
            return !rbuf->is_last;
    }
    return 0;
}

void verbs_slot_give(struct verbs_rbufs *rbufs, struct verbs_rbuf *rbuf)
{
    rbuf->state = VERBS_RBUF_FREE;
    rbuf->recalled = 0;
    rbuf->link->cancels -= rbuf->asked;
    rbuf->asked = 0;
    rbuf->region = NULL;
    rbuf->next = NULL;
    if (!generation_next(rbuf))
        return; /* the slot is used up */
    if (rbufs->free)
        rbufs->free_last->next = rbuf;
    else
        rbufs->free = rbuf;
    rbufs->free_last = rbuf;
}

/* Each open receive buffer has a receive for each immediate that can come, or a put would take those that other peers'
 * messages count on. One that has none waits until others end; if there are no others, it goes without: its immediates, one
 * for each of its queue pairs on that rail, are then too many, which the few spare ones take. One that is renewed cannot
 * wait, and what it has none for is not counted: the peer's adapter may have to try again until a receive comes back. */
int verbs_slot_receives_reserve(struct verbs_rbuf *rbuf)
{
    struct verbs_rbufs *rbufs = rbuf->link->transport->rbufs;
    uint32_t own[VERBS_RAILS] = {0}; /* for which it does not wait */
    for (uint32_t bits = rbuf->qps; bits; bits &= bits - 1) {
        int number = __builtin_ctz(bits);
        struct verbs_queues *queues = rbuf->link->qps[number]->queues;
        int rail = queues->rail->number;
        int is_full = rbufs->reserved[rail] >= queues->srq_entries / VERBS_RBUF_SHARE;
        if (!is_full && verbs_receives_reserve(queues, 1) == WEFT_OK) {
            own[rail]++;
            rbufs->reserved[rail]++;
            rbuf->reserved |= (uint8_t)(1u << number);
            continue;
        }
        if (rbufs->reserved[rail] + rbufs->bare[rail] > own[rail])
            return WEFT_AGAIN;
        weft_error_clear();
        own[rail]++;
        rbufs->bare[rail]++;
        rbuf->bare |= (uint8_t)(1u << number);
    }
    return WEFT_OK;
}

void verbs_slot_receives_release(struct verbs_rbuf *rbuf)
{
    struct verbs_rbufs *rbufs = rbuf->link->transport->rbufs;
    for (uint32_t bits = rbuf->reserved; bits; bits &= bits - 1) {
        struct verbs_queues *queues = rbuf->link->qps[__builtin_ctz(bits)]->queues;
        verbs_receives_release(queues, 1);
        rbufs->reserved[queues->rail->number]--;
    }
    for (uint32_t bits = rbuf->bare; bits; bits &= bits - 1)
        rbufs->bare[rbuf->link->qps[__builtin_ctz(bits)]->queues->rail->number]--;
    rbuf->reserved = rbuf->bare = 0;
}
