/* SPDX-License-Identifier: Apache-2.0 */
/* Queues and copies.
 *
 * Commands may run beside each other, so a barrier stands between two that are in order. Those that mark a place or wait for an event are
 * barriers themselves.
 *
 * Closing. What a queue waits for may never come, so behind every wait stands an event: when it has been signalled, what is left is weft's own work,
 * which ends. Where it is not in time, the list is left: it cannot be destroyed while it runs, and is when its end has been signalled.
 * So it is with a queue that has broken (channel.c), for as long as the process lives.
 * The same where only the device is said to be lost: Intel's driver says so of a device when one of its engines hangs, and the others go on.
 *
 * Source: oneAPI Level Zero Specification, "Core Programming Guide", Barriers.
 */
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "devmem/ze/ze.h"

#define CLOSE_POLL_US 50
#define SYNCHRONIZE_NS                                                                                       \
    600000000 /* Intel's driver looks for a hang of the event's own engine behind half a second */
#define END_MS 10000

int weft_ze_queue_make(struct weft_device *device, int ordinal, struct weft_device_queue **opened)
{
    int status = weft_ze_check(device, ordinal);
    if (status != WEFT_OK)
        return status;
    weft_ze_queues_sweep(device);
    struct weft_device_queue *queue = calloc(1, sizeof *queue);
    if (!queue)
        return device->params.fail(WEFT_NOMEM, "no memory for a queue");
    queue->device = device;
    queue->ordinal = ordinal;
    queue->place = device->ordinals[ordinal].place;
    ze_result_t result = weft_ze_channel_open(device, ordinal, 0, &queue->channel);
    if (result != ZE_RESULT_SUCCESS) {
        free(queue);
        return weft_ze_fail(device, result, "making a command list on device %d", ordinal);
    }
    queue->end = weft_ze_event_get(device, ordinal); /* here, where it may fail */
    if (!queue->end) {
        weft_ze_channel_close(device, &queue->channel);
        free(queue);
        return WEFT_NOMEM; /* the text has been given */
    }
    *opened = queue;
    return WEFT_OK;
}

/* --- closing */

/* What comes of it for as long as closing may take. Of a device that is lost nothing comes any more. */
static ze_result_t state_soon(struct weft_device_event *event)
{
    int64_t deadline_ns = weft_clock_ns() + WEFT_DEVICE_CLOSE_MS * INT64_C(1000000);
    ze_result_t result;
    while ((result = weft_ze_event_state(event)) == ZE_RESULT_NOT_READY && weft_clock_ns() < deadline_ns)
        usleep(CLOSE_POLL_US);
    return result;
}

/* What comes of one that only weft's own work stands in front of: it ends, or the device is lost. */
static ze_result_t state_at_last(struct weft_device_event *event)
{
    int64_t deadline_ns = weft_clock_ns() + END_MS * INT64_C(1000000);
    ze_result_t result;
    while ((result = weft_ze_event_state(event)) == ZE_RESULT_NOT_READY && weft_clock_ns() < deadline_ns) {
        result = event->device->driver.zeEventHostSynchronize(event->handle, SYNCHRONIZE_NS);
        if (result != ZE_RESULT_SUCCESS && result != ZE_RESULT_NOT_READY)
            return result;
        if (result == ZE_RESULT_NOT_READY)
            usleep(CLOSE_POLL_US); /* of a driver that does not wait */
    }
    return result;
}

/* The queue goes on by itself, until its end has been signalled. */
static void leave(struct weft_device_queue *queue)
{
    struct weft_device *device = queue->device;
    pthread_mutex_lock(&device->lock);
    queue->next = device->left;
    device->left = queue;
    pthread_mutex_unlock(&device->lock);
}

/* Nothing of it is in flight. */
static void end(struct weft_device_queue *queue)
{
    weft_ze_channel_close(queue->device, &queue->channel);
    weft_ze_event_put(queue->end);
    if (queue->borrowed)
        weft_ze_release(queue->device, queue->borrowed);
    weft_ze_steps_free(queue);
    free(queue);
}

/* What is known of its end. Where that cannot be appended, nobody can say. */
static ze_result_t await_end(struct weft_device_queue *queue)
{
    ze_result_t result =
        weft_ze_channel_append(queue, &(struct weft_ze_command){.signal = queue->end->handle});
    if (result == ZE_RESULT_SUCCESS && queue->waited)
        result = state_soon(queue->waited);
    return result == ZE_RESULT_SUCCESS ? state_at_last(queue->end) : result;
}

void weft_ze_queue_close(struct weft_device_queue *queue)
{
    if (weft_ze_is_child(queue->device)) { /* a forked child's copy, of which nothing may be touched */
        free(queue);
        return;
    }
    ze_result_t result = await_end(queue);
    if (result == ZE_RESULT_ERROR_DEVICE_LOST ||
        weft_ze_event_state(queue->end) == ZE_RESULT_ERROR_DEVICE_LOST)
        weft_ze_events_rescue(queue->device, queue->ordinal);
    if (queue->waited)
        weft_ze_event_put(queue->waited);
    if (weft_ze_event_is_ahead(queue->end))
        leave(queue);
    else
        end(queue);
}

void weft_ze_queues_sweep(struct weft_device *device)
{
    struct weft_device_queue *over = NULL, *left;
    pthread_mutex_lock(&device->lock);
    for (struct weft_device_queue **at = &device->left; (left = *at);) {
        if (weft_ze_event_is_ahead(left->end)) {
            at = &left->next;
            continue;
        }
        *at = left->next;
        left->next = over;
        over = left;
    }
    pthread_mutex_unlock(&device->lock);
    while ((left = over)) {
        over = left->next;
        end(left);
    }
}

void weft_ze_queues_end(struct weft_device *device)
{
    int64_t deadline_ns = weft_clock_ns() + WEFT_DEVICE_CLOSE_MS * INT64_C(1000000);
    weft_ze_queues_sweep(device);
    while (device->left && weft_clock_ns() < deadline_ns) {
        usleep(CLOSE_POLL_US);
        weft_ze_queues_sweep(device);
    }
}

/* --- work */

int weft_ze_queue_check(const struct weft_device_queue *queue)
{
    if (weft_ze_is_child(queue->device))
        return weft_ze_ready(queue->device); /* which refuses */
    return queue->broken == ZE_RESULT_SUCCESS
               ? WEFT_OK
               : weft_ze_fail(queue->device, queue->broken,
                              "a queue of device %d takes nothing any more, as an operation has failed in it",
                              queue->ordinal);
}

static int refuse(const struct weft_device_queue *queue, void *destination, const void *source, size_t size)
{
    return queue->device->params.fail(WEFT_INVALID,
                                      "copying %zu bytes from %p to %p: not all of it is memory that Level "
                                      "Zero knows; ordinary host memory has to be pinned first",
                                      size, source, destination);
}

/* Of one span on either side; how much that is, at most size. 0: it is not known; -1: another driver's. Notes whether a side is memory that no driver
 * knows. */
static int64_t piece_of(const struct weft_device_queue *queue, const void *destination, const void *source,
                        size_t size, int *is_pinned)
{
    int places[2];
    size_t to = weft_ze_left_in_span(queue->device, destination, &places[0]);
    size_t from = weft_ze_left_in_span(queue->device, source, &places[1]);
    if (!to || !from)
        return 0;
    for (int i = 0; i < 2; i++) {
        if (places[i] >= 0 && places[i] != queue->place)
            return -1;
        *is_pinned |= places[i] < 0;
    }
    size_t least = to < from ? to : from;
    return (int64_t)(least < size ? least : size);
}

/* Looks at all of it before any of it is appended, and again at each piece behind the first. */
int weft_ze_copy(struct weft_device_queue *queue, void *destination, const void *source, size_t size)
{
    struct weft_device *device = queue->device;
    ze_result_t result = ZE_RESULT_SUCCESS;
    int64_t first = 0, piece;
    int is_pinned = 0, status = WEFT_OK;
    if (!size || (status = weft_ze_queue_check(queue)) != WEFT_OK)
        return status;
    for (size_t done = 0; done < size; done += (size_t)piece) {
        piece =
            piece_of(queue, (char *)destination + done, (const char *)source + done, size - done, &is_pinned);
        if (piece < 0)
            return device->params.fail(WEFT_UNSUPPORTED,
                                       "copying from %p to %p on device %d: memory of another driver", source,
                                       destination, queue->ordinal);
        if (!piece)
            return refuse(queue, destination, source, size);
        first = done ? first : piece;
    }
    if (is_pinned)
        result = weft_ze_channel_turn(queue);
    if (result == ZE_RESULT_SUCCESS && queue->is_open_ended)
        result = weft_ze_channel_append(queue, &(struct weft_ze_command){.signal = NULL});
    for (size_t done = 0; done < size && result == ZE_RESULT_SUCCESS; done += (size_t)piece) {
        struct weft_ze_command copy = {.destination = (char *)destination + done,
                                       .source = (const char *)source + done};
        piece = done ? piece_of(queue, copy.destination, copy.source, size - done, &is_pinned) : first;
        if (piece <= 0)
            return refuse(queue, destination, source, size); /* freed just now */
        copy.size = (size_t)piece;
        result = weft_ze_channel_append(queue, &copy);
        queue->is_open_ended = 1;
    }
    return result == ZE_RESULT_SUCCESS
               ? WEFT_OK
               : weft_ze_fail(device, result, "copying %zu bytes from %p to %p on device %d", size, source,
                              destination, queue->ordinal);
}

/* What the queue waits for, as long as that has not come, for an event behind it: where the one is lost the other never comes. NULL. */
static struct weft_device_event *wait_ahead(const struct weft_device_queue *queue)
{
    if (!queue->waited ||
        queue->device->driver.zeEventQueryStatus(queue->waited->handle) == ZE_RESULT_SUCCESS)
        return NULL;
    weft_ze_event_use(queue->waited);
    return queue->waited;
}

int weft_ze_mark(struct weft_device_queue *queue, struct weft_device_event **marked)
{
    int status = weft_ze_queue_check(queue);
    if (status != WEFT_OK)
        return status;
    struct weft_device_event *event = weft_ze_event_get(queue->device, queue->ordinal);
    if (!event)
        return WEFT_NOMEM; /* the text has been given */
    ze_result_t result = weft_ze_channel_append(queue, &(struct weft_ze_command){.signal = event->handle});
    if (result != ZE_RESULT_SUCCESS) {
        weft_ze_channel_drop(queue, event);
        return weft_ze_fail(queue->device, result, "marking a place in a queue of device %d", queue->ordinal);
    }
    queue->is_open_ended = 0;
    event->awaits = wait_ahead(queue);
    *marked = event;
    return WEFT_OK;
}

int weft_ze_await(struct weft_device_queue *queue, struct weft_device_event *event)
{
    struct weft_device *device = queue->device;
    int status = weft_ze_queue_check(queue);
    if (status != WEFT_OK)
        return status;
    if (event->place != queue->place)
        return device->params.fail(
            WEFT_UNSUPPORTED, "device %d cannot wait for an event of device %d, which is another driver's",
            queue->ordinal, event->ordinal);
    struct weft_device_event *behind = weft_ze_event_get(device, queue->ordinal);
    if (!behind)
        return WEFT_NOMEM;
    ze_result_t result = ZE_RESULT_SUCCESS;
    /* A barrier that waits for an event waits for nothing else: the specification of zeCommandListAppendBarrier. */
    if (queue->is_open_ended)
        result = weft_ze_channel_append(queue, &(struct weft_ze_command){.signal = NULL});
    if (result == ZE_RESULT_SUCCESS)
        result = weft_ze_channel_append(
            queue, &(struct weft_ze_command){.signal = behind->handle, .wait = event->handle});
    if (result != ZE_RESULT_SUCCESS) {
        weft_ze_channel_drop(queue, behind);
        return weft_ze_fail(device, result, "waiting for an event of device %d on device %d", event->ordinal,
                            queue->ordinal);
    }
    weft_ze_event_use(event);
    behind->awaits = event;
    weft_ze_queue_stands(queue, behind);
    return WEFT_OK;
}

void weft_ze_queue_stands(struct weft_device_queue *queue, struct weft_device_event *behind)
{
    if (!behind->awaits)
        behind->awaits = wait_ahead(queue);
    if (queue->waited)
        weft_ze_event_put(queue->waited);
    queue->waited = behind;
    queue->is_open_ended = 0;
}
