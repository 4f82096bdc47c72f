/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/exec/stream.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "comm/exec/group.h"
#include "comm/regions/device_memory.h"
#include "devmem/command_queue.h"
#include "devmem/devices.h"

static _Thread_local struct weft_stream_wait
    *group_waits; /* of the thread's group, which are not placed yet */

/* --- streams */

static void let_go(struct weft_stream *stream)
{
    struct weft_stream **at = &stream->context->exec.streams;
    if (--stream->users)
        return;
    while (*at != stream)
        at = &(*at)->next;
    *at = stream->next;
    free(stream);
}

static struct weft_stream *find_stream(struct weft_context *context, const struct weft_device_kind *kind,
                                       int ordinal, const void *handle)
{
    struct weft_stream *stream = context->exec.streams;
    while (stream && (stream->kind != kind || stream->ordinal != ordinal || stream->handle != handle ||
                      stream->status != WEFT_OK))
        stream = stream->next;
    return stream;
}

/* Calls on the stream will want a command queue of its device. The first one is opened here, since that may wait for the device, which must
 * not wait for a stream. */
static int open_command_queue(struct weft_context *context, const struct weft_device_kind *kind, int ordinal)
{
    struct weft_where where = {.kind = kind, .ordinal = ordinal};
    struct weft_command_queue *commands;
    if (context->devices.queues && weft_command_queues_know(context->devices.queues, kind, ordinal))
        return WEFT_OK;
    int status =
        weft_where_command_queue(context, &where, &commands); /* others may have had the lock meanwhile */
    if (status == WEFT_OK)
        weft_command_queue_put(commands);
    return status;
}

static int open_stream(struct weft_context *context, const struct weft_device_kind *kind, int ordinal,
                       void *handle, struct weft_stream **opened)
{
    struct weft_stream *stream = calloc(1, sizeof *stream);
    if (!stream)
        return weft_fail(WEFT_NOMEM, "no memory for a stream");
    *stream = (struct weft_stream){.next = context->exec.streams,
                                   .context = context,
                                   .kind = kind,
                                   .ordinal = ordinal,
                                   .handle = handle};
    stream->end = &stream->placed;
    *opened = context->exec.streams = stream;
    return WEFT_OK;
}

/* Takes the stream wait, which is there, out of those that the stream has yet to come to. */
static void unplace(struct weft_stream_wait *wait)
{
    struct weft_stream *stream = wait->stream;
    struct weft_stream_wait **at = &stream->placed;
    while (*at != wait)
        at = &(*at)->behind;
    *at = wait->behind;
    if (stream->end == &wait->behind)
        stream->end = at;
    stream->kind->ops.event_free(wait->event);
    wait->event = NULL;
}

int weft_streams_progress(struct weft_context *context)
{
    int moved = 0;
    for (struct weft_stream *stream = context->exec.streams; stream; stream = stream->next) {
        while (stream->placed && stream->status == WEFT_OK) {
            struct weft_stream_wait *wait = stream->placed;
            int happened = stream->kind->ops.test(wait->event);
            if (happened == 0)
                break;
            moved++;
            if (happened < 0) {
                stream->status = happened;
                snprintf(stream->why, sizeof stream->why, "%s", weft_error_detail());
                break;
            }
            wait->is_reached = 1;
            unplace(wait);
        }
    }
    return moved;
}

/* --- holds */

/* Behind what the stream holds now. */
static int place(struct weft_stream_wait *wait)
{
    struct weft_stream *stream = wait->stream;
    const struct weft_device_kind *kind = stream->kind;
    struct weft_device_event *event;
    int status = kind->ops.mark_stream(kind->device, stream->ordinal, stream->handle, 0, &event);
    if (status != WEFT_OK)
        return status;
    status = weft_device_wait_close(kind, stream->ordinal, stream->handle, &wait->closed);
    if (status != WEFT_OK) {
        kind->ops.event_free(event);
        return status;
    }
    wait->event = event;
    *stream->end = wait;
    stream->end = &wait->behind;
    return WEFT_OK;
}

static int make_wait(struct weft_stream *stream, struct weft_stream_wait **made)
{
    struct weft_stream_wait *wait = calloc(1, sizeof *wait);
    if (!wait)
        return weft_fail(WEFT_NOMEM, "no memory for a stream-ordered call");
    wait->stream = stream;
    wait->users = 1;
    stream->users++;
    stream->context->exec.stream_waits++;
    *made = wait;
    return WEFT_OK;
}

static int take_in_group(struct weft_stream *stream, struct weft_stream_wait **taken)
{
    struct weft_stream_wait *wait = group_waits;
    while (wait && wait->stream != stream)
        wait = wait->next;
    if (!wait) {
        int status = make_wait(stream, &wait);
        if (status != WEFT_OK)
            return status;
        wait->next = group_waits;
        group_waits = wait;
    }
    wait->users++;
    *taken = wait;
    return WEFT_OK;
}

int weft_stream_wait_take(struct weft_stream *stream, struct weft_stream_wait **taken)
{
    struct weft_stream_wait *wait = NULL;
    if (weft_group_is_open())
        return take_in_group(stream, taken);
    int status = make_wait(stream, &wait);
    if (status != WEFT_OK)
        return status;
    status = place(wait);
    if (status == WEFT_OK)
        *taken = wait;
    else
        weft_stream_wait_put(wait);
    return status;
}

void weft_stream_wait_put(struct weft_stream_wait *wait)
{
    if (!wait || --wait->users)
        return;
    char why[WEFT_DETAIL_MAX];
    snprintf(why, sizeof why, "%s", weft_error_detail());
    if (wait->event)
        unplace(wait);
    if (wait->closed)
        weft_device_wait_open(wait->stream->kind, wait->stream->ordinal, wait->closed);
    wait->stream->context->exec.stream_waits--;
    let_go(wait->stream);
    free(wait);
    weft_error_set_detail(why);
}

int weft_stream_wait_look(const struct weft_stream_wait *wait)
{
    if (!wait)
        return 1;
    const struct weft_stream *stream = wait->stream;
    if (wait->status != WEFT_OK || stream->status != WEFT_OK)
        return weft_fail(wait->status ? wait->status : stream->status, "%s", stream->why);
    return wait->is_reached;
}

void weft_stream_wait_give(struct weft_stream_wait *wait, struct weft_command_queue *commands)
{
    if (!wait || !wait->closed || wait->users > 1 || !commands ||
        weft_command_queue_kind(commands) != wait->stream->kind ||
        weft_command_queue_ordinal(commands) != wait->stream->ordinal)
        return;
    weft_command_queue_take_wait(commands, wait->closed);
    wait->closed = NULL;
}

void weft_stream_wait_print(const struct weft_stream_wait *wait, char *text, size_t capacity)
{
    snprintf(text, capacity, "the stream that the call was made on, of %s device %d",
             wait->stream->kind->name, wait->stream->ordinal);
}

int weft_group_place_waits(void)
{
    int first = WEFT_OK;
    while (group_waits) {
        struct weft_stream_wait *wait = group_waits;
        struct weft_context *context = wait->stream->context;
        group_waits = wait->next;
        weft_context_lock(context);
        wait->status = wait->users > 1 ? place(wait) : WEFT_OK;
        if (wait->status != WEFT_OK) { /* the calls report it, and so do others that use the stream */
            snprintf(wait->stream->why, sizeof wait->stream->why, "%s", weft_error_detail());
            first = first == WEFT_OK ? wait->status : first;
        }
        weft_stream_wait_put(wait);
        weft_context_unlock(context);
    }
    return first;
}

/* --- calls that are being made */

/* Whether the kind works here, has the device, and streams that can wait. */
static int check_device(struct weft_context *context, const char *name, int ordinal)
{
    const struct weft_device_kind *kind = weft_devices_find(context->devices.kinds, name);
    for (int i = 0; !kind && i < weft_devices_count(context->devices.kinds); i++) {
        const struct weft_device_kind *other = weft_devices_kind(context->devices.kinds, i);
        if (strcmp(other->name, name) == 0)
            return weft_fail(other->status, "devices of kind '%s' cannot be used: %s", name, other->reason);
    }
    if (!kind)
        return weft_fail(WEFT_INVALID, "no kind of devices is called '%s'", name);
    int count = kind->ops.count(kind->device);
    if (count < 0)
        return count;
    if (ordinal < 0 || ordinal >= count)
        return weft_fail(WEFT_INVALID, "ordinal is %d: expected 0 to %d, as kind '%s' has %d devices",
                         ordinal, count - 1, name, count);
    struct weft_device_info info = {.size = sizeof info};
    int status = kind->ops.describe(kind->device, ordinal, &info);
    if (status == WEFT_OK && !(info.flags & WEFT_DEVICE_STREAM_WAITS))
        status =
            weft_fail(WEFT_UNSUPPORTED, "%s device %d has no streams that can wait for calls", name, ordinal);
    return status;
}

/* [lock] */
static int get(struct weft_context *context, const struct weft_device_kind *kind, int ordinal, void *handle,
               struct weft_stream **got)
{
    int status = open_command_queue(context, kind, ordinal);
    if (status != WEFT_OK)
        return status;
    struct weft_stream *stream = find_stream(context, kind, ordinal, handle);
    if (!stream)
        status = open_stream(context, kind, ordinal, handle, &stream);
    if (status != WEFT_OK)
        return status;
    stream->users++;
    *got = stream;
    return WEFT_OK;
}

/* The thread exits inside a group. */
static void leave(void)
{
    weft_group_place_waits();
}

int weft_stream_get(struct weft_context *context, const char *name, int ordinal, void *handle,
                    struct weft_stream **got)
{
    int status = check_device(context, name, ordinal);
    if (status == WEFT_OK && weft_group_is_open())
        status = weft_group_notice_leaving(WEFT_LEAVER_STREAM, leave);
    if (status != WEFT_OK)
        return status;
    weft_devices_use(context->devices.kinds);
    weft_context_lock(context);
    status = get(context, weft_devices_find(context->devices.kinds, name), ordinal, handle, got);
    weft_context_unlock(context);
    return status;
}

void weft_stream_put(struct weft_stream *stream)
{
    if (!stream)
        return;
    struct weft_context *context = stream->context;
    weft_context_lock(context);
    let_go(stream);
    weft_context_unlock(context);
}
