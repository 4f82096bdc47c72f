/* SPDX-License-Identifier: Apache-2.0 */
/* Events, in queues and in the program's streams.
 *
 * Events are used again: making one costs more than recording it, and a record that is pending does not hinder the next one. Those of
 * streams in a context that the program has made are that context's, which may go at any time after the call; they are destroyed.
 *
 * Most events have no time (CU_EVENT_DISABLE_TIMING): the driver's reference says that those are the fastest to query and to wait for,
 * and every stream-ordered call makes one. Whoever measures asks for it.
 */
#include <stdlib.h>
#include "devmem/cuda/cuda.h"

/* Into the event's own context. */
static int enter(const struct weft_device_event *event, struct weft_cuda_turn *turn)
{
    return event->context ? weft_cuda_enter_context(event->device, event->ordinal, event->context, turn)
                          : weft_cuda_enter(event->device, event->ordinal, turn);
}

/* In the current context, which is given where it is not the primary one. NULL with a text. */
static struct weft_device_event *event_make(struct weft_device *device, int ordinal, cuda_context context,
                                            int is_timed)
{
    struct weft_device_event *event = calloc(1, sizeof *event);
    if (!event) {
        device->params.fail(WEFT_NOMEM, "no memory for an event");
        return NULL;
    }
    event->device = device;
    event->ordinal = ordinal;
    event->context = context;
    event->is_timed = is_timed;
    int result = device->driver.event_create(&event->event, is_timed ? 0 : CUDA_EVENT_DISABLE_TIMING);
    if (!result)
        return event;
    weft_cuda_fail(device, result, "making an event on device %d", ordinal);
    free(event);
    return NULL;
}

/* In the primary context, which is current. */
static struct weft_device_event *event_get(struct weft_device *device, int ordinal, int is_timed)
{
    struct weft_device_event **unused = &device->ordinals[ordinal].events[is_timed];
    pthread_mutex_lock(&device->lock);
    struct weft_device_event *event = *unused;
    if (event)
        *unused = event->next;
    pthread_mutex_unlock(&device->lock);
    return event ? event : event_make(device, ordinal, NULL, is_timed);
}

int weft_cuda_mark(struct weft_device_queue *queue, struct weft_device_event **marked)
{
    struct weft_device *device = queue->device;
    struct weft_cuda_turn turn;
    int status = weft_cuda_enter(device, queue->ordinal, &turn);
    if (status)
        return status;
    struct weft_device_event *event = event_get(device, queue->ordinal, 0);
    int result = event ? device->driver.event_record(event->event, queue->stream) : CUDA_SUCCESS;
    weft_cuda_leave(&turn);
    if (event && !result) {
        *marked = event;
        return WEFT_OK;
    }
    if (!event)
        return WEFT_NOMEM; /* the text has been given */
    weft_cuda_event_free(event);
    return weft_cuda_fail(device, result, "marking a place in a queue of device %d", queue->ordinal);
}

int weft_cuda_mark_stream(struct weft_device *device, int ordinal, void *stream, uint32_t flags,
                          struct weft_device_event **marked)
{
    struct weft_cuda_turn turn;
    cuda_context context;
    int is_timed = (flags & WEFT_DEVICE_EVENT_TIMED) != 0;
    int status = weft_cuda_enter_stream(device, ordinal, stream, &context, &turn);
    if (status)
        return status;
    int is_foreign = context != device->ordinals[ordinal].context;
    struct weft_device_event *event =
        is_foreign ? event_make(device, ordinal, context, is_timed) : event_get(device, ordinal, is_timed);
    int result = event ? device->driver.event_record(event->event, stream) : CUDA_SUCCESS;
    weft_cuda_leave(&turn);
    if (event && !result) {
        *marked = event;
        return WEFT_OK;
    }
    if (!event)
        return WEFT_NOMEM;
    weft_cuda_event_free(event);
    return weft_cuda_fail(device, result, "marking a place in stream %p of device %d", stream, ordinal);
}

int weft_cuda_test(struct weft_device_event *event)
{
    struct weft_cuda_turn turn;
    int status = enter(event, &turn);
    if (status)
        return status;
    int result = event->device->driver.event_query(event->event);
    weft_cuda_leave(&turn);
    if (result == CUDA_SUCCESS)
        return 1;
    if (result == CUDA_NOT_READY)
        return 0;
    if (!event->context &&
        weft_cuda_is_fatal(result)) /* another context's end is not that of weft's queues */
        weft_cuda_waits_rescue(event->ordinal);
    return weft_cuda_fail(event->device, result, "work on device %d has failed", event->ordinal);
}

int weft_cuda_elapsed(struct weft_device_event *from, struct weft_device_event *to, double *ns)
{
    struct weft_device *device = from->device;
    struct weft_cuda_turn turn;
    float ms;
    if (!from->is_timed || !to->is_timed || from->ordinal != to->ordinal || from->context != to->context)
        return device->params.fail(WEFT_INVALID,
                                   "the time between two events: expected events of one context that were "
                                   "marked with WEFT_DEVICE_EVENT_TIMED");
    int status = enter(from, &turn);
    if (status)
        return status;
    int result = device->driver.event_elapsed(&ms, from->event, to->event);
    weft_cuda_leave(&turn);
    if (result == CUDA_NOT_READY)
        return device->params.fail(WEFT_AGAIN, "the time between two events, one of which has not happened");
    if (result)
        return weft_cuda_fail(device, result, "the time between two events of device %d", from->ordinal);
    *ns = (double)ms * 1e6;
    return WEFT_OK;
}

/* With the primary context, or the event's own, current. */
static void event_destroy(struct weft_device_event *event)
{
    event->device->driver.event_destroy(event->event);
    free(event);
}

void weft_cuda_event_free(struct weft_device_event *event)
{
    struct weft_device *device = event->device;
    struct weft_cuda_turn turn;
    if (event->context) {
        if (enter(event, &turn) == WEFT_OK) {
            event_destroy(event);
            weft_cuda_leave(&turn);
        } else { /* has gone with its context */
            free(event);
        }
        return;
    }
    struct weft_device_event **unused = &device->ordinals[event->ordinal].events[event->is_timed];
    pthread_mutex_lock(&device->lock);
    event->next = *unused;
    *unused = event;
    pthread_mutex_unlock(&device->lock);
}

void weft_cuda_events_destroy(struct weft_device *device, int ordinal, int is_there)
{
    for (int is_timed = 0; is_timed < 2; is_timed++) {
        struct weft_device_event **unused = &device->ordinals[ordinal].events[is_timed], *event;
        while ((event = *unused)) {
            *unused = event->next;
            if (is_there)
                event_destroy(event);
            else
                free(event);
        }
    }
}
