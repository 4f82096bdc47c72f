/* SPDX-License-Identifier: Apache-2.0 */
/* The program's streams. Level Zero has two kinds, both of which SYCL gives out as a queue's native handle: an immediate command list, which
 * runs what is appended, and a command queue, which runs closed lists. A pointer to the second has its lowest bit set; both are
 * addresses of objects, so that the bit is free.
 *
 * What a stream holds is put in order by a barrier, whether the stream is in order by itself or not. A command queue gets a list with
 * the barrier in it, which is used again when its event has been signalled.
 *
 * The specification wants a list and the events in it to be of one context, and the program's streams are of the program's. The events are of
 * weft's all the same, as its queues wait for them too: Intel's driver knows an event by its memory, as it does all memory of its own (ze.h).
 *
 * Appending to a list is for one thread at a time: the program puts nothing into the stream meanwhile.
 *
 * Source: oneAPI Level Zero Specification, "Core Programming Guide", Command Queues and Command Lists; Barriers.
 */
#include <stdlib.h>

#include "devmem/ze/ze.h"

#define IS_COMMAND_QUEUE UINT64_C(1) /* in a pointer */
#define LOOKS            16          /* at lists in command queues, when one is needed */

/* --- what a pointer names */

/* The device of a list, where the driver says it: WEFT_OK where it does not, or it is the ordinal's, or a tile of it. */
static int check_device(struct weft_device *device, int ordinal, const struct weft_ze_stream *stream)
{
    const struct weft_ze_ordinal *known = &device->ordinals[ordinal];
    ze_device_handle_t found = NULL;
    if (!device->driver.zeCommandListGetDeviceHandle ||
        device->driver.zeCommandListGetDeviceHandle(stream->list, &found) != ZE_RESULT_SUCCESS ||
        found == known->device)
        return WEFT_OK;
    for (uint32_t t = 0; t < known->tile_count; t++) {
        if (known->tiles[t] == found)
            return WEFT_OK;
    }
    return device->params.fail(WEFT_INVALID, "stream %p is not one of Level Zero device %d, but another's",
                               stream->given, ordinal);
}

static int check_list(struct weft_device *device, int ordinal, const struct weft_ze_stream *stream)
{
    ze_bool_t is_immediate = 1;
    if (device->driver.zeCommandListIsImmediate &&
        device->driver.zeCommandListIsImmediate(stream->list, &is_immediate) == ZE_RESULT_SUCCESS &&
        !is_immediate)
        return device->params.fail(WEFT_INVALID,
                                   "stream %p is a command list that has to be closed and executed: expected "
                                   "an immediate one, or a command queue",
                                   stream->given);
    return check_device(device, ordinal, stream);
}

int weft_ze_stream_find(struct weft_device *device, int ordinal, void *given, struct weft_ze_stream *found)
{
    uintptr_t address = (uintptr_t)given;
    char text[WEFT_ZE_TEXT];
    int status = weft_ze_check(device, ordinal);
    if (status != WEFT_OK)
        return status;
    if (!weft_ze_streams_wait(device, ordinal, text))
        return device->params.fail(WEFT_UNSUPPORTED, "%s", text);
    *found = (struct weft_ze_stream){.given = given, .group = device->ordinals[ordinal].group};
    if (!(address & ~IS_COMMAND_QUEUE))
        return device->params.fail(WEFT_INVALID,
                                   "Level Zero has no default stream: expected an immediate command list, or "
                                   "a command queue with the lowest bit of its pointer set");
    if (!(address & IS_COMMAND_QUEUE)) {
        found->list = given;
        return check_list(device, ordinal, found);
    }
    found->commands = (ze_command_queue_handle_t)(void *)((char *)given - IS_COMMAND_QUEUE);
    if (device->driver.zeCommandQueueGetOrdinal)
        device->driver.zeCommandQueueGetOrdinal(found->commands, &found->group);
    return WEFT_OK;
}

/* --- lists for command queues */

/* One of the oldest lists of the group, where a command queue is through with it; NULL. */
static struct weft_ze_batch *take(struct weft_device *device, int ordinal, uint32_t group)
{
    struct weft_ze_batch **at = &device->ordinals[ordinal].on_streams, *batch, *taken = NULL;
    pthread_mutex_lock(&device->lock);
    for (int i = 0; i < LOOKS && !taken && (batch = *at); i++) {
        if (batch->group == group &&
            device->driver.zeEventQueryStatus(batch->end->handle) == ZE_RESULT_SUCCESS) {
            *at = batch->next;
            taken = batch;
        } else {
            at = &batch->next;
        }
    }
    pthread_mutex_unlock(&device->lock);
    if (!taken)
        return NULL;
    weft_ze_event_put(taken->end);
    taken->end = NULL;
    if (device->driver.zeCommandListReset(taken->list) == ZE_RESULT_SUCCESS)
        return taken;
    device->driver.zeCommandListDestroy(taken->list);
    free(taken);
    return NULL;
}

static ze_result_t make(struct weft_device *device, int ordinal, uint32_t group, struct weft_ze_batch **made)
{
    const struct weft_ze_ordinal *known = &device->ordinals[ordinal];
    const ze_command_list_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_COMMAND_LIST_DESC,
                                         .commandQueueGroupOrdinal = group};
    struct weft_ze_batch *batch = calloc(1, sizeof *batch);
    if (!batch)
        return ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY;
    ze_result_t result = device->driver.zeCommandListCreate(device->places[known->place].context,
                                                            known->device, &desc, &batch->list);
    batch->group = group;
    if (result == ZE_RESULT_SUCCESS)
        *made = batch;
    else
        free(batch);
    return result;
}

static void keep(struct weft_device *device, int ordinal, struct weft_ze_batch *batch,
                 struct weft_device_event *end)
{
    struct weft_ze_batch **last = &device->ordinals[ordinal].on_streams;
    weft_ze_event_use(end);
    batch->end = end;
    batch->next = NULL;
    pthread_mutex_lock(&device->lock);
    while (*last)
        last = &(*last)->next;
    *last = batch;
    pthread_mutex_unlock(&device->lock);
}

/* --- putting into a stream */

static ze_result_t fill(const struct weft_ze_driver *driver, ze_command_list_handle_t list,
                        const struct weft_device_event *signal, const struct weft_device_event *wait)
{
    struct weft_ze_command command = {.signal = signal->handle, .wait = wait ? wait->handle : NULL};
    if (signal->is_timed) {
        const struct weft_ze_command barrier = {.wait = command.wait};
        ze_result_t result = weft_ze_list_append(driver, list, &barrier);
        if (result != ZE_RESULT_SUCCESS)
            return result;
        command.wait = NULL;
        command.ticks = signal->ticks;
    }
    return weft_ze_list_append(driver, list, &command);
}

ze_result_t weft_ze_stream_append(struct weft_device *device, int ordinal,
                                  const struct weft_ze_stream *stream, struct weft_device_event *signal,
                                  const struct weft_device_event *wait)
{
    const struct weft_ze_driver *driver = &device->driver;
    if (stream->list) {
        ze_result_t filled = fill(driver, stream->list, signal, wait);
        signal->is_loose = weft_ze_may_run(filled);
        return filled;
    }
    struct weft_ze_batch *batch = take(device, ordinal, stream->group);
    ze_result_t result = batch ? ZE_RESULT_SUCCESS : make(device, ordinal, stream->group, &batch);
    if (result != ZE_RESULT_SUCCESS)
        return result;
    result = fill(driver, batch->list, signal, wait);
    if (result == ZE_RESULT_SUCCESS)
        result = driver->zeCommandListClose(batch->list);
    if (result == ZE_RESULT_SUCCESS) {
        result = driver->zeCommandQueueExecuteCommandLists(stream->commands, 1, &batch->list, NULL);
        signal->is_loose = weft_ze_may_run(result);
    }
    if (result == ZE_RESULT_SUCCESS || signal->is_loose) {
        keep(device, ordinal, batch, signal);
        return result;
    }
    driver->zeCommandListDestroy(batch->list);
    free(batch);
    return result;
}

int weft_ze_mark_stream(struct weft_device *device, int ordinal, void *given, uint32_t flags,
                        struct weft_device_event **marked)
{
    struct weft_ze_stream stream;
    int status = weft_ze_stream_find(device, ordinal, given, &stream);
    if (status != WEFT_OK)
        return status;
    struct weft_device_event *event = weft_ze_event_get(device, ordinal);
    if (!event)
        return WEFT_NOMEM; /* the text has been given */
    ze_result_t result = ZE_RESULT_SUCCESS;
    if (flags & WEFT_DEVICE_EVENT_TIMED)
        result = weft_ze_event_time(event);
    if (result == ZE_RESULT_SUCCESS)
        result = weft_ze_stream_append(device, ordinal, &stream, event, NULL);
    if (result != ZE_RESULT_SUCCESS) {
        weft_ze_event_unused(event);
        return weft_ze_fail(device, result, "marking a place in stream %p of device %d", given, ordinal);
    }
    *marked = event;
    return WEFT_OK;
}

int weft_ze_streams_close(struct weft_device *device, int ordinal)
{
    struct weft_ze_batch **at = &device->ordinals[ordinal].on_streams, *batch;
    while ((batch = *at)) {
        if (device->driver.zeEventQueryStatus(batch->end->handle) == ZE_RESULT_NOT_READY) {
            at = &batch->next;
            continue;
        }
        *at = batch->next;
        device->driver.zeCommandListDestroy(batch->list);
        weft_ze_event_put(batch->end);
        free(batch);
    }
    return !device->ordinals[ordinal].on_streams;
}
