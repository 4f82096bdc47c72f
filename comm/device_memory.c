#include "comm/device_memory.h"

#include "base/error.h"

/* What counts: memory that only a device can be asked to work on. */
static int is_device(const struct weft_device_span *span)
{
    return span->kind == WEFT_MEMORY_DEVICE || span->kind == WEFT_MEMORY_MANAGED;
}

int weft_where_look(struct weft_context *context, const void *input, const void *output, int host_works,
                    struct weft_where *where)
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
    if (host_works || !other_reaches)
        where->on_host =
            (is_device(&spans[0]) ? WEFT_SHADOW_INPUT : 0) | (is_device(&spans[1]) ? WEFT_SHADOW_OUTPUT : 0);
    return WEFT_OK;
}

int weft_where_is_device(struct weft_context *context, const void *memory)
{
    struct weft_where where;
    return weft_where_look(context, memory, NULL, 0, &where) == WEFT_OK && where.kind;
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
    if (status != WEFT_OK || weft_lanes_know(context->lanes, where->kind, where->ordinal))
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
