/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/regions/device_memory.h"

#include "base/error.h"
#include "base/log.h"
#include "devmem/command_queue_surplus.h"
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
           weft_command_queues_reach(where->kind, where->ordinal, buffer);
}

/* Some device is in use. */
static __attribute__((noinline)) int look(struct weft_context *context, const void *input, const void *output,
                                          enum weft_where_work work, struct weft_where *where)
{
    struct weft_device_span spans[2] = {{.kind = WEFT_MEMORY_HOST}, {.kind = WEFT_MEMORY_HOST}};
    const struct weft_device_kind *kinds[2] = {NULL, NULL};
    const void *buffers[2] = {input, output};
    for (int b = 0; b < 2; b++) {
        if (!buffers[b])
            continue;
        if (b && buffers[1] == buffers[0]) {
            kinds[1] = kinds[0];
            spans[1] = spans[0];
            continue;
        }
        kinds[b] = weft_devices_identify(context->devices.kinds, buffers[b], &spans[b]);
    }
    int first = is_device(&spans[0]) ? 0 : 1;
    if (!is_device(&spans[first]))
        return WEFT_OK;
    if (is_device(&spans[1 - first]) && kinds[0] != kinds[1])
        return weft_fail(
            WEFT_UNSUPPORTED,
            "the input is device memory of kind '%s', the output of kind '%s': expected one kind",
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

int weft_where_look(struct weft_context *context, const void *input, const void *output,
                    enum weft_where_work work, struct weft_where *where)
{
    where->kind = NULL;
    return weft_devices_in_use(context->devices.kinds) ? look(context, input, output, work, where) : WEFT_OK;
}

int weft_where_is_device(struct weft_context *context, const void *memory)
{
    struct weft_where where;
    return weft_where_look(context, memory, NULL, WEFT_WHERE_COPIES, &where) == WEFT_OK && where.kind;
}

static int make_queues(struct weft_context *context)
{
    return context->devices.queues ? WEFT_OK : weft_command_queues_create(&context->devices.queues);
}

int weft_where_next_command_queue(struct weft_context *context, const struct weft_where *where,
                                  struct weft_command_queue **commands)
{
    int status = make_queues(context);
    return status == WEFT_OK
               ? weft_command_queue_get(context->devices.queues, where->kind, where->ordinal, commands)
               : status;
}

int weft_where_command_queue(struct weft_context *context, const struct weft_where *where,
                             struct weft_command_queue **commands)
{
    int status = make_queues(context);
    if (status != WEFT_OK || context->progress.progressing ||
        weft_command_queues_know(context->devices.queues, where->kind, where->ordinal))
        return status == WEFT_OK ? weft_where_next_command_queue(context, where, commands) : status;
    weft_context_unlock(context);
    status = weft_command_queue_open(where->kind, where->ordinal, commands);
    weft_context_lock(context);
    if (status == WEFT_OK)
        weft_command_queues_join(context->devices.queues, *commands);
    return status;
}

void weft_where_prepare(struct weft_context *context, const struct weft_where *where)
{
    struct weft_command_queue *commands = NULL;
    weft_context_lock(context);
    if ((!context->devices.queues ||
         !weft_command_queues_know(context->devices.queues, where->kind, where->ordinal)) &&
        weft_where_command_queue(context, where, &commands) != WEFT_OK)
        weft_error_clear();
    weft_command_queue_put(commands);
    weft_context_unlock(context);
}

struct weft_shares *weft_where_shares(void *arg)
{
    struct weft_context *context = arg;
    if (!context->devices.shares && weft_shares_open(NULL, &context->devices.shares) != WEFT_OK) {
        weft_log_once(WEFT_LOG_WARN, "device memory is not shared: %s", weft_error_detail());
        weft_error_clear();
    }
    return context->devices.shares;
}

static void trim(void *shares)
{
    weft_shares_trim(shares);
}

void weft_where_tidy(struct weft_context *context)
{
    if (context->devices.shares)
        weft_command_queues_without_waits(trim, context->devices.shares);
    struct weft_command_queue_surplus *surplus =
        context->devices.queues ? *weft_command_queues_surplus(context->devices.queues, 0) : NULL;
    if (surplus) {
        *weft_command_queues_surplus(context->devices.queues, 0) = NULL;
        weft_context_unlock(context);
        weft_command_queue_surplus_release(&surplus);
        weft_context_lock(context);
        if (context->devices.queues)
            weft_command_queue_surplus_join(weft_command_queues_surplus(context->devices.queues, 0), surplus);
        else /* the context is being closed */
            weft_command_queue_surplus_end(&surplus);
    }
    atomic_store(&context->regions.has_surplus,
                 context->devices.queues && *weft_command_queues_surplus(context->devices.queues, 0));
}
