/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/exec/fastpath_slots.h"

#include <stdlib.h>

#include "base/demote.h"
#include "base/fence.h"
#include "comm/drive/progress.h"
#include "comm/exec/internal.h"

#define BANK_PLACES 16 /* communicators whose slots lie in one buffer of the pool */

/* A buffer of the pool costs a descriptor, so several communicators share one. A place is the slots of one of them. */
struct weft_slot_bank {
    struct weft_slot_bank *next;
    const struct weft_transport *owner;
    uint8_t *memory;
    size_t place_bytes;
    uint32_t used; /* a bit for each place */
};

static struct weft_slot_bank *make_bank(struct weft_context *context, size_t place_bytes)
{
    struct weft_slot_bank *bank = calloc(1, sizeof *bank);
    if (!bank)
        return NULL;
    bank->memory = weft_memory_buffer_get(context, WEFT_SHM, BANK_PLACES * place_bytes, NULL);
    if (!bank->memory) {
        free(bank);
        return NULL;
    }
    bank->owner = context->transports[WEFT_SHM].instance;
    bank->place_bytes = place_bytes;
    bank->next = context->regions.slot_banks;
    context->regions.slot_banks = bank;
    return bank;
}

static uint8_t *take_slots(struct weft_context *context, size_t bytes)
{
    struct weft_slot_bank *bank = context->regions.slot_banks;
    while (bank && (bank->place_bytes != bytes || bank->owner != context->transports[WEFT_SHM].instance ||
                    bank->used == (1u << BANK_PLACES) - 1))
        bank = bank->next;
    if (!bank)
        bank = make_bank(context, bytes);
    if (!bank)
        return NULL;
    int place = __builtin_ctz(~bank->used);
    bank->used |= 1u << place;
    return bank->memory + (size_t)place * bytes;
}

static void give_slots(struct weft_context *context, const uint8_t *slots)
{
    struct weft_slot_bank **at = &context->regions.slot_banks, *bank;
    while ((bank = *at) && (slots < bank->memory || slots >= bank->memory + BANK_PLACES * bank->place_bytes))
        at = &bank->next;
    if (!bank)
        return;
    bank->used &= ~(1u << (size_t)(slots - bank->memory) / bank->place_bytes);
    if (bank->used)
        return;
    *at = bank->next;
    weft_memory_buffer_put(context, WEFT_SHM, bank->memory, BANK_PLACES * bank->place_bytes);
    free(bank);
}

static size_t partial_bytes(const struct weft_fastpath *fastpath)
{
    return (fastpath->bytes_max + 63) / 64 * 64 * (fastpath->ranks / 2 + 1);
}

/* Peers notice by the slots themselves: confirm(). */
static void unexpose(struct weft_fastpath *fastpath)
{
    for (uint32_t r = 0; r < fastpath->ranks; r++) {
        if (fastpath->links[r])
            fastpath->ops->unexpose(fastpath->links[r], &fastpath->tokens[r], 1);
    }
}

static void erase_word(const struct weft_fastpath *fastpath, size_t at)
{
    atomic_store_explicit((_Atomic uint64_t *)(fastpath->own + at), 0, memory_order_release);
}

/* The slots hold no operation: peers that still look for one see that its owner has given up, before the memory is used
 * for anything else. */
static void erase(const struct weft_fastpath *fastpath)
{
    for (uint32_t i = 0; i < 2; i++) {
        erase_word(fastpath, weft_slot_exchanged(fastpath, i));
        erase_word(fastpath, weft_slot_part(fastpath, weft_slot_exchanged(fastpath, i)));
    }
    for (uint32_t i = 0; i < WEFT_SLOTS_GIVEN; i++) {
        erase_word(fastpath, weft_slot_marked(fastpath, i));
        erase_word(fastpath, weft_slot_given(fastpath, i));
    }
    weft_fence_full();
}

static size_t place_bytes(const struct weft_fastpath *fastpath)
{
    return weft_slot_given_data(fastpath, WEFT_SLOTS_GIVEN - 1) + WEFT_SLOT_GIVEN_BYTES;
}

int weft_fastpath_open(struct weft_context *context, struct weft_exec *exec, size_t bytes_max,
                       struct weft_token *tokens, struct weft_fastpath **opened)
{
    struct weft_open_transport *shm = &context->transports[WEFT_SHM];
    struct weft_fastpath *fastpath = calloc(1, sizeof *fastpath);
    if (!fastpath)
        return weft_fail(WEFT_NOMEM, "no memory for the fast path");
    fastpath->context = context;
    fastpath->ranks = exec->options.ranks;
    fastpath->rank = exec->options.rank;
    fastpath->bytes_max = bytes_max;
    fastpath->demotes = weft_demote_works();
    fastpath->slot_bytes =
        (sizeof(struct weft_slot) + bytes_max + sizeof(struct weft_slot_part) + 127) / 128 * 128;
    fastpath->ops = &shm->ops;
    fastpath->sequence =
        exec->options.id & INT32_MAX; /* fastpath.h; not near the wrap, where it would be an erased word */
    int status = WEFT_NOMEM;
    fastpath->partial = aligned_alloc(64, partial_bytes(fastpath));
    if (!fastpath->partial)
        goto free_fastpath;
    uint8_t *own = take_slots(context, place_bytes(fastpath));
    if (!own)
        goto free_partial;
    fastpath->own = own;
    erase(fastpath);
    for (uint32_t r = 0; r < fastpath->ranks; r++) {
        if (r == fastpath->rank)
            continue;
        struct weft_exec_peer *peer;
        status = weft_exec_connect(exec, r, &peer);
        if (status == WEFT_OK)
            status = shm->ops.expose(peer->link, NULL, own, place_bytes(fastpath), &tokens[r]);
        if (status != WEFT_OK)
            goto free_own;
        fastpath->links[r] = peer->link;
        fastpath->tokens[r] = tokens[r];
    }
    *opened = fastpath;
    return WEFT_OK;

free_own:
    unexpose(fastpath);
    give_slots(context, own);
free_partial:
    free(fastpath->partial);
free_fastpath:
    free(fastpath);
    return status == WEFT_NOMEM ? weft_fail(WEFT_NOMEM, "no memory for the fast path") : status;
}

int weft_fastpath_map(struct weft_fastpath *fastpath, const struct weft_token *tokens)
{
    for (uint32_t r = 0; r < fastpath->ranks; r++) {
        const void *mapped = fastpath->own;
        if (r != fastpath->rank) {
            int status = fastpath->ops->map(fastpath->links[r], &tokens[r], place_bytes(fastpath), &mapped);
            if (status != WEFT_OK)
                return status;
            if ((uintptr_t)mapped % _Alignof(struct weft_slot))
                return weft_fail(WEFT_PROTOCOL, "rank %u's slots are not aligned to %zu bytes", r,
                                 _Alignof(struct weft_slot));
        }
        fastpath->published[r] = mapped;
    }
    return WEFT_OK;
}

void weft_fastpath_close(struct weft_fastpath *fastpath)
{
    if (!fastpath)
        return;
    erase(fastpath);
    unexpose(fastpath);
    give_slots(fastpath->context, fastpath->own);
    free(fastpath->partial);
    free(fastpath);
}

size_t weft_fastpath_bytes_max(const struct weft_fastpath *fastpath)
{
    return fastpath->bytes_max;
}

size_t weft_fastpath_bytes(const struct weft_fastpath *fastpath)
{
    return sizeof *fastpath + partial_bytes(fastpath);
}
