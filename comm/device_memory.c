/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/device_memory.h"

#include "base/error.h"
#include "base/log.h"
#include "comm/comm.h"
#include "devmem/lane_surplus.h"
#include "devmem/share.h"

/* What counts: memory that only a device can be asked to work on. */
static int is_device(const struct weft_device_span *span)
{
    return span->kind == WEFT_MEMORY_DEVICE || span->kind == WEFT_MEMORY_MANAGED;
}

/* Whether the device that works reaches a buffer, which may be another one's of its kind. */
static int reaches(const struct weft_where *where, const void *buffer, const struct weft_device_span *span)
{
    return span->kind != WEFT_MEMORY_DEVICE || span->ordinal == where->ordinal ||
           weft_lanes_reach(where->kind, where->ordinal, buffer);
}

int weft_where_look(struct weft_context *context, const void *input, const void *output,
                    enum weft_where_work work, struct weft_where *where)
{
    struct weft_device_span spans[2] = {{.kind = WEFT_MEMORY_HOST}, {.kind = WEFT_MEMORY_HOST}};
    const struct weft_device_kind *kinds[2] = {NULL, NULL};
    const void *buffers[2] = {input, output};
    where->kind = NULL;
    if (!weft_devices_in_use(context->devices))
        return WEFT_OK;
    for (int b = 0; b < 2; b++) {
        if (!buffers[b])
            continue;
        if (b && buffers[1] == buffers[0]) {
            kinds[1] = kinds[0];
            spans[1] = spans[0];
            continue;
        }
        kinds[b] = weft_devices_identify(context->devices, buffers[b], &spans[b]);
    }
    int first = is_device(&spans[0]) ? 0 : 1;
    if (!is_device(&spans[first]))
        return WEFT_OK;
    if (is_device(&spans[1 - first]) && kinds[0] != kinds[1])
        return weft_fail(
            WEFT_UNSUPPORTED,
            "the input is memory of a device of kind '%s', the output of kind '%s': expected one kind",
            kinds[0]->name, kinds[1]->name);
    where->kind = kinds[first];
    where->ordinal = spans[is_device(&spans[1]) ? 1 : 0].ordinal;
    if (where->ordinal < 0) /* managed memory may be of no device in particular */
        where->ordinal = is_device(&spans[0]) && spans[0].ordinal >= 0 ? spans[0].ordinal : 0;
    where->on_host = 0;
    int other_reaches = !buffers[1 - first] || is_device(&spans[1 - first]) ||
                        (spans[1 - first].kind == WEFT_MEMORY_PINNED && kinds[1 - first] == where->kind);
    if (work == WEFT_WHERE_REDUCES && other_reaches)
        other_reaches = reaches(where, input, &spans[0]) && reaches(where, output, &spans[1]);
    if (work == WEFT_WHERE_HOST || !other_reaches)
        where->on_host =
            (is_device(&spans[0]) ? WEFT_SHADOW_INPUT : 0) | (is_device(&spans[1]) ? WEFT_SHADOW_OUTPUT : 0);
    return WEFT_OK;
}

int weft_where_is_device(struct weft_context *context, const void *memory)
{
    struct weft_where where;
    return weft_where_look(context, memory, NULL, WEFT_WHERE_COPIES, &where) == WEFT_OK && where.kind;
}

static int make_lanes(struct weft_context *context)
{
    return context->lanes ? WEFT_OK : weft_lanes_create(&context->lanes);
}

int weft_where_next_lane(struct weft_context *context, const struct weft_where *where,
                         struct weft_lane **lane)
{
    int status = make_lanes(context);
    return status == WEFT_OK ? weft_lane_get(context->lanes, where->kind, where->ordinal, lane) : status;
}

int weft_where_lane(struct weft_context *context, const struct weft_where *where, struct weft_lane **lane)
{
    int status = make_lanes(context);
    if (status != WEFT_OK || context->progressing ||
        weft_lanes_know(context->lanes, where->kind, where->ordinal))
        return status == WEFT_OK ? weft_where_next_lane(context, where, lane) : status;
    weft_context_unlock(context);
    status = weft_lane_open(where->kind, where->ordinal, lane);
    weft_context_lock(context);
    if (status == WEFT_OK)
        weft_lanes_join(context->lanes, *lane);
    return status;
}

void weft_where_prepare(struct weft_context *context, const struct weft_where *where)
{
    struct weft_lane *lane = NULL;
    weft_context_lock(context);
    if ((!context->lanes || !weft_lanes_know(context->lanes, where->kind, where->ordinal)) &&
        weft_where_lane(context, where, &lane) != WEFT_OK)
        weft_error_clear();
    weft_lane_put(lane);
    weft_context_unlock(context);
}

struct weft_shares *weft_where_shares(void *arg)
{
    struct weft_context *context = arg;
    if (!context->shares && weft_shares_open(NULL, &context->shares) != WEFT_OK) {
        weft_log_once(WEFT_LOG_WARN, "device memory is not shared: %s", weft_error_detail());
        weft_error_clear();
    }
    return context->shares;
}

static int is_peer_process(const struct weft_comm *comm, uint64_t process)
{
    for (int r = 0; r < comm->ranks; r++) {
        if (comm->members[r].process == process)
            return 1;
    }
    return 0;
}

void weft_where_forget(const struct weft_comm *comm)
{
    const struct weft_context *context = comm->context;
    for (int r = 0; r < comm->ranks && comm->members && context->shares; r++) {
        uint64_t process = comm->members[r].process;
        int is_needed = 0;
        for (uint32_t i = 0; i < context->comm_count && !is_needed; i++)
            is_needed = context->all[i] != comm && is_peer_process(context->all[i], process);
        if (!is_needed)
            weft_share_forget(context->shares, process);
    }
}

static void trim(void *shares)
{
    weft_shares_trim(shares);
}

void weft_where_tidy(struct weft_context *context)
{
    if (context->shares)
        weft_lanes_without_gates(trim, context->shares);
    struct weft_lane_surplus *surplus = context->lanes ? *weft_lanes_surplus(context->lanes, 0) : NULL;
    if (surplus) {
        *weft_lanes_surplus(context->lanes, 0) = NULL;
        weft_context_unlock(context);
        weft_lane_surplus_release(&surplus);
        weft_context_lock(context);
        if (context->lanes)
            weft_lane_surplus_join(weft_lanes_surplus(context->lanes, 0), surplus);
        else /* the context is being closed */
            weft_lane_surplus_end(&surplus);
    }
    atomic_store(&context->has_surplus, context->lanes && *weft_lanes_surplus(context->lanes, 0));
}
