/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/stream.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fork.h"
#include "base/log.h"
#include "comm/group_calls.h"
#include "devmem/devices.h"
#include "devmem/lane.h"

static _Thread_local struct weft_stream *scope;     /* of the calling thread */
static _Thread_local struct weft_hold *group_holds; /* of its group, which are not placed yet */

struct weft_stream *weft_stream_of(const struct weft_comm *comm)
{
    return scope && scope->context == comm->context ? scope : NULL;
}

/* --- streams */

static void stream_put(struct weft_stream *stream)
{
    struct weft_stream **at = &stream->context->streams;
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
    struct weft_stream *stream = context->streams;
    while (stream && (stream->kind != kind || stream->ordinal != ordinal || stream->handle != handle ||
                      stream->status != WEFT_OK))
        stream = stream->next;
    return stream;
}

/* Calls on the stream will want a lane of its device. The first one is opened here, since that may wait for the device, which must
 * not wait for a gate. */
static int open_lane(struct weft_context *context, const struct weft_device_kind *kind, int ordinal)
{
    struct weft_where where = {.kind = kind, .ordinal = ordinal};
    struct weft_lane *lane;
    if (context->lanes && weft_lanes_know(context->lanes, kind, ordinal))
        return WEFT_OK;
    int status = weft_where_lane(context, &where, &lane); /* others may have had the lock meanwhile */
    if (status == WEFT_OK)
        weft_lane_put(lane);
    return status;
}

static int open_stream(struct weft_context *context, const struct weft_device_kind *kind, int ordinal,
                       void *handle, struct weft_stream **opened)
{
    struct weft_stream *stream = calloc(1, sizeof *stream);
    if (!stream)
        return weft_fail(WEFT_NOMEM, "no memory for a stream");
    *stream = (struct weft_stream){
        .next = context->streams, .context = context, .kind = kind, .ordinal = ordinal, .handle = handle};
    stream->end = &stream->placed;
    *opened = context->streams = stream;
    return WEFT_OK;
}

/* Takes the hold, which is there, out of those that the stream has yet to come to. */
static void unplace(struct weft_hold *hold)
{
    struct weft_stream *stream = hold->stream;
    struct weft_hold **at = &stream->placed;
    while (*at != hold)
        at = &(*at)->behind;
    *at = hold->behind;
    if (stream->end == &hold->behind)
        stream->end = at;
    stream->kind->ops.event_free(hold->event);
    hold->event = NULL;
}

int weft_streams_progress(struct weft_context *context)
{
    int moved = 0;
    if (!context->holds)
        return 0;
    for (struct weft_stream *stream = context->streams; stream; stream = stream->next) {
        while (stream->placed && stream->status == WEFT_OK) {
            struct weft_hold *hold = stream->placed;
            int happened = stream->kind->ops.test(hold->event);
            if (happened == 0)
                break;
            moved++;
            if (happened < 0) {
                stream->status = happened;
                snprintf(stream->why, sizeof stream->why, "%s", weft_error_detail());
                break;
            }
            hold->is_reached = 1;
            unplace(hold);
        }
    }
    return moved;
}

/* --- holds */

/* Behind what the stream holds now. */
static int place(struct weft_hold *hold)
{
    struct weft_stream *stream = hold->stream;
    const struct weft_device_kind *kind = stream->kind;
    struct weft_device_event *event;
    int status = kind->ops.mark_stream(kind->device, stream->ordinal, stream->handle, 0, &event);
    if (status != WEFT_OK)
        return status;
    status = weft_gate_close(kind, stream->ordinal, stream->handle, &hold->gate);
    if (status != WEFT_OK) {
        kind->ops.event_free(event);
        return status;
    }
    hold->event = event;
    *stream->end = hold;
    stream->end = &hold->behind;
    return WEFT_OK;
}

static int make_hold(struct weft_stream *stream, struct weft_hold **made)
{
    struct weft_hold *hold = calloc(1, sizeof *hold);
    if (!hold)
        return weft_fail(WEFT_NOMEM, "no memory for a call in the order of a stream");
    hold->stream = stream;
    hold->users = 1;
    stream->users++;
    stream->context->holds++;
    *made = hold;
    return WEFT_OK;
}

static int take_in_group(struct weft_stream *stream, struct weft_hold **taken)
{
    struct weft_hold *hold = group_holds;
    while (hold && hold->stream != stream)
        hold = hold->next;
    if (!hold) {
        int status = make_hold(stream, &hold);
        if (status != WEFT_OK)
            return status;
        hold->next = group_holds;
        group_holds = hold;
    }
    hold->users++;
    *taken = hold;
    return WEFT_OK;
}

int weft_hold_take(struct weft_stream *stream, struct weft_hold **taken)
{
    struct weft_hold *hold = NULL;
    if (weft_group_is_open())
        return take_in_group(stream, taken);
    int status = make_hold(stream, &hold);
    if (status != WEFT_OK)
        return status;
    status = place(hold);
    if (status == WEFT_OK)
        *taken = hold;
    else
        weft_hold_put(hold);
    return status;
}

void weft_hold_put(struct weft_hold *hold)
{
    if (!hold || --hold->users)
        return;
    char why[WEFT_DETAIL_MAX];
    snprintf(why, sizeof why, "%s", weft_error_detail());
    if (hold->event)
        unplace(hold);
    if (hold->gate)
        weft_gate_open(hold->stream->kind, hold->stream->ordinal, hold->gate);
    hold->stream->context->holds--;
    stream_put(hold->stream);
    free(hold);
    weft_error_set_detail(why);
}

int weft_hold_look(const struct weft_hold *hold)
{
    if (!hold)
        return 1;
    const struct weft_stream *stream = hold->stream;
    if (hold->status != WEFT_OK || stream->status != WEFT_OK)
        return weft_fail(hold->status ? hold->status : stream->status, "%s", stream->why);
    return hold->is_reached;
}

void weft_hold_give(struct weft_hold *hold, struct weft_lane *lane)
{
    if (!hold || !hold->gate || hold->users > 1 || !lane || weft_lane_kind(lane) != hold->stream->kind ||
        weft_lane_ordinal(lane) != hold->stream->ordinal)
        return;
    weft_lane_take_gate(lane, hold->gate);
    hold->gate = NULL;
}

void weft_hold_print(const struct weft_hold *hold, char *text, size_t capacity)
{
    snprintf(text, capacity, "the stream that the call was made on, of %s device %d",
             hold->stream->kind->name, hold->stream->ordinal);
}

int weft_group_place_holds(void)
{
    int first = WEFT_OK;
    while (group_holds) {
        struct weft_hold *hold = group_holds;
        struct weft_context *context = hold->stream->context;
        group_holds = hold->next;
        weft_context_lock(context);
        hold->status = hold->users > 1 ? place(hold) : WEFT_OK;
        if (hold->status != WEFT_OK) { /* the calls tell it, and so do others that use the stream */
            snprintf(hold->stream->why, sizeof hold->stream->why, "%s", weft_error_detail());
            first = first == WEFT_OK ? hold->status : first;
        }
        weft_hold_put(hold);
        weft_context_unlock(context);
    }
    return first;
}

/* --- scopes */

/* Whether the kind works here, has the device, and streams that can wait. */
static int check_device(struct weft_context *context, const char *name, int ordinal)
{
    const struct weft_device_kind *kind = weft_devices_find(context->devices, name);
    for (int i = 0; !kind && i < weft_devices_count(context->devices); i++) {
        const struct weft_device_kind *other = weft_devices_kind(context->devices, i);
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
    if (status == WEFT_OK && !(info.flags & WEFT_DEVICE_GATES))
        status =
            weft_fail(WEFT_UNSUPPORTED, "%s device %d has no streams that can wait for calls", name, ordinal);
    return status;
}

/* [lock] */
static int enter(struct weft_context *context, const struct weft_device_kind *kind, int ordinal, void *handle)
{
    int status = open_lane(context, kind, ordinal);
    if (status != WEFT_OK)
        return status;
    struct weft_stream *stream = find_stream(context, kind, ordinal, handle);
    if (!stream)
        status = open_stream(context, kind, ordinal, handle, &stream);
    if (status != WEFT_OK)
        return status;
    stream->users++;
    scope = stream;
    weft_group_depth |= WEFT_SCOPE_IS_OPEN;
    atomic_fetch_add(&context->scopes, 1);
    return WEFT_OK;
}

int weft_stream_begin(weft_context *context, const char *kind, int ordinal, void *stream)
{
    weft_error_clear();
    if (weft_fork_is_child())
        return weft_fork_refuse();
    if (!context || !kind)
        return weft_fail(WEFT_INVALID, "%s is NULL", context ? "kind" : "context");
    if (scope)
        return weft_fail(WEFT_INVALID, "weft_stream_begin() in a scope that this thread has begun: scopes do "
                                       "not nest, weft_stream_end() comes first");
    int status = check_device(context, kind, ordinal);
    if (status == WEFT_OK)
        status = weft_group_notice_leaving();
    if (status != WEFT_OK)
        return status;
    weft_devices_use(context->devices);
    weft_context_lock(context);
    status = enter(context, weft_devices_find(context->devices, kind), ordinal, stream);
    weft_context_unlock(context);
    return status;
}

void weft_stream_leave(void)
{
    struct weft_stream *stream = scope;
    if (!stream)
        return;
    struct weft_context *context = stream->context;
    scope = NULL;
    weft_group_depth &= ~WEFT_SCOPE_IS_OPEN;
    weft_context_lock(context);
    stream_put(stream);
    weft_context_unlock(context);
    atomic_fetch_sub(&context->scopes, 1);
}

int weft_stream_end(weft_context *context)
{
    weft_error_clear();
    if (weft_fork_is_child())
        return weft_fork_refuse();
    if (!context)
        return weft_fail(WEFT_INVALID, "context is NULL");
    if (!scope || scope->context != context)
        return weft_fail(WEFT_INVALID, "weft_stream_end() without weft_stream_begin() of this thread on the "
                                       "same context");
    weft_stream_leave();
    return WEFT_OK;
}
