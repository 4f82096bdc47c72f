/* SPDX-License-Identifier: Apache-2.0 */
/* The ports of RDMA devices that a context uses, for tools. */
#include "base/error.h"
#include "base/fork.h"
#include "base/struct.h"
#include "comm/drive/context.h"

#define RAILS_MAX 16

static const struct weft_struct about = WEFT_STRUCT(weft_rail, WEFT_RAIL_INIT, port);

/* [lock] Fills up to RAILS_MAX; returns how many. */
static int find(struct weft_context *context, weft_rail rails[RAILS_MAX])
{
    int count = 0;
    for (int i = 0; i < RAILS_MAX; i++)
        rails[i] = (weft_rail)WEFT_RAIL_INIT;
    for (int t = 0; t < WEFT_TRANSPORT_COUNT && count < RAILS_MAX; t++) {
        const struct weft_open_transport *transport = &context->transports[t];
        if (context->working & 1u << t)
            count += transport->ops.rails(transport->instance, rails + count, RAILS_MAX - count);
    }
    return count < RAILS_MAX ? count : RAILS_MAX;
}

int weft_context_get_rails(weft_context *context, weft_rail *rails, int capacity, int *count)
{
    weft_error_clear();
    if (weft_fork_is_child())
        return weft_fork_refuse();
    if (!context || !count || (!rails && capacity > 0))
        return weft_fail(WEFT_INVALID, "%s is NULL", !context ? "context" : !count ? "count" : "rails");
    int status = capacity > 0 ? weft_struct_check(&about, rails) : WEFT_OK;
    if (status != WEFT_OK)
        return status;
    weft_rail used[RAILS_MAX];
    weft_context_lock(context);
    int found = find(context, used);
    weft_context_unlock(context);
    for (int i = 0; i < found && i < capacity; i++)
        weft_struct_fill(&about, rails, (size_t)i, &used[i]);
    *count = found;
    return WEFT_OK;
}
