/* SPDX-License-Identifier: Apache-2.0 */
/* Reads of the loop transport: a token names memory of this process, sealed by a check over the process's
 * nonce so that bytes that were never a token answer an error. */
#include <string.h>
#include "tests/fakes/loop/loop_private.h"

#define LOOP_TOKEN_MAGIC 0x65736f7078656c6cull

struct loop_exposed {
    uint64_t magic;
    uint64_t owner;
    uint64_t memory;
    uint64_t size;
    uint64_t check;
};

static uint64_t exposed_check(const struct loop_exposed *exposed)
{
    uint64_t mixed = loop_hub.nonce;
    const uint64_t words[] = {exposed->magic, exposed->owner, exposed->memory, exposed->size};
    for (size_t i = 0; i < 4; i++) {
        mixed = (mixed ^ words[i]) * 0x9e3779b97f4a7c15ull;
        mixed ^= mixed >> 29;
    }
    return mixed;
}

int loop_expose(struct weft_link *link, struct weft_region *region, const void *memory, size_t size,
                struct weft_token *token)
{
    (void)region;
    struct weft_transport *transport = link->transport;
    if (!(transport->offers & WEFT_CAP_READ))
        return WEFT_UNSUPPORTED;
    struct loop_exposed exposed = {
        .magic = LOOP_TOKEN_MAGIC,
        .owner = transport->inbox->id,
        .memory = (uint64_t)(uintptr_t)memory,
        .size = size,
    };
    exposed.check = exposed_check(&exposed);
    memset(token, 0, sizeof *token);
    memcpy(token, &exposed, sizeof exposed);
    return WEFT_OK;
}

static int exposed_read(struct weft_link *link, const struct weft_token *token, struct loop_exposed *exposed)
{
    memcpy(exposed, token, sizeof *exposed);
    if (exposed->magic != LOOP_TOKEN_MAGIC || exposed->check != exposed_check(exposed) ||
        exposed->owner != link->channel->to->id)
        return link->transport->fail(WEFT_PROTOCOL, "loop: not a token of this link's peer");
    if (atomic_load_explicit(&link->channel->receiver_gone, memory_order_acquire))
        return loop_link_down(link);
    return WEFT_OK;
}

int loop_map(struct weft_link *link, const struct weft_token *token, size_t size, const void **memory)
{
    struct loop_exposed exposed;
    if (!link->transport->can_map)
        return WEFT_UNSUPPORTED;
    int status = exposed_read(link, token, &exposed);
    if (status)
        return status;
    if (size > exposed.size)
        return link->transport->fail(WEFT_PROTOCOL, "loop: %zu bytes wanted, the token stands for %llu", size,
                                     (unsigned long long)exposed.size);
    *memory = (const void *)(uintptr_t)exposed.memory;
    return WEFT_OK;
}

int loop_pull(struct weft_link *link, const struct weft_token *token, uint64_t offset, void *destination,
              size_t size, uint32_t flags)
{
    struct loop_exposed exposed;
    (void)flags;
    if (!(link->transport->offers & WEFT_CAP_READ))
        return WEFT_UNSUPPORTED;
    int status = exposed_read(link, token, &exposed);
    if (status)
        return status;
    if (offset > exposed.size || size > exposed.size - offset)
        return link->transport->fail(WEFT_INVALID, "loop: pull of %zu bytes at %llu, exposed are %llu", size,
                                     (unsigned long long)offset, (unsigned long long)exposed.size);
    memcpy(destination, (const uint8_t *)(uintptr_t)exposed.memory + offset, size);
    return WEFT_OK;
}
