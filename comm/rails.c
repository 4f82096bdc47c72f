/* SPDX-License-Identifier: Apache-2.0 */
/* The ports of RDMA devices that a context uses, for tools. */
#include <stdio.h>
#include <string.h>

#include "base/fork.h"
#include "comm/comm.h"

#define RAILS_MAX 16

static weft_rail describe(const struct weft_rail_info *info, size_t size)
{
    weft_rail rail = {.size = size,
                      .port = info->port,
                      .gid_index = info->gid_index,
                      .mtu_bytes = info->mtu_bytes,
                      .active = info->active,
                      .bytes_per_s = info->bytes_per_s};
    snprintf(rail.device, sizeof rail.device, "%s", info->device);
    snprintf(rail.link_layer, sizeof rail.link_layer, "%s", info->link_layer);
    snprintf(rail.gid, sizeof rail.gid, "%s", info->gid);
    return rail;
}

/* [lock] Fills up to RAILS_MAX; returns how many. */
static int find(struct weft_context *context, struct weft_rail_info infos[RAILS_MAX])
{
    int count = 0;
    for (int i = 0; i < RAILS_MAX; i++)
        infos[i] = (struct weft_rail_info){.size = sizeof infos[i]};
    for (int t = 0; t < WEFT_TRANSPORT_COUNT && count < RAILS_MAX; t++) {
        const struct weft_open_transport *transport = &context->transports[t];
        if (context->working & 1u << t)
            count += transport->ops.rails(transport->instance, infos + count, RAILS_MAX - count);
    }
    return count < RAILS_MAX ? count : RAILS_MAX;
}

int weft_context_rails(weft_context *context, weft_rail *rails, int capacity, int *count)
{
    weft_error_clear();
    if (weft_fork_is_child())
        return weft_fork_refuse();
    if (!context || !count || (!rails && capacity > 0))
        return weft_fail(WEFT_INVALID, "%s is NULL", !context ? "context" : !count ? "count" : "rails");
    if (capacity > 0 && rails->size < sizeof(size_t))
        return weft_fail(WEFT_INVALID, "weft_rail.size is %zu: use WEFT_RAIL_INIT", rails->size);
    struct weft_rail_info infos[RAILS_MAX];
    weft_context_lock(context);
    int found = find(context, infos);
    weft_context_unlock(context);
    size_t size =
        capacity > 0 ? rails->size : 0; /* of each: the program may have been built with another weft.h */
    for (int i = 0; i < found && i < capacity; i++) {
        weft_rail rail = describe(&infos[i], size);
        memcpy((char *)rails + (size_t)i * size, &rail, size < sizeof rail ? size : sizeof rail);
    }
    *count = found;
    return WEFT_OK;
}
