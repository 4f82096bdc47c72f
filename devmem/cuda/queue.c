/* SPDX-License-Identifier: Apache-2.0 */
/* Queues and copies.
 *
 * A queue is a stream of the highest priority that does not synchronise with the legacy default stream. Priority is more
 * than speed: streams of different priority do not share a channel to the device, so that a stream of the program's that stops at a
 * wait cannot hold up the work that opens it.
 *
 * Closing. What a queue waits for may never end, so behind every wait, and every program, an event is recorded: when it has happened, what is left is
 * weft's own work, which ends. When it does not happen in time, the stream is destroyed as it is: the driver returns at once
 * and keeps it until its work is done (cuStreamDestroy in the driver API's reference). Work cannot be taken out of a stream.
 */
#include <stdlib.h>
#include <unistd.h>
#include "base/clock.h"
#include "devmem/cuda/cuda.h"
#include "devmem/cuda/launch.h"

#define CLOSE_POLL_US 50

int weft_cuda_queue_open(struct weft_device *device, int ordinal, struct weft_device_queue **opened)
{
    const struct weft_cuda_driver *driver = &device->driver;
    struct weft_cuda_turn turn;
    int least = 0, greatest = 0;
    int status = weft_cuda_enter(device, ordinal, &turn);
    if (status)
        return status;
    struct weft_device_queue *queue = calloc(1, sizeof *queue);
    if (!queue) {
        status = device->params.fail(WEFT_NOMEM, "no memory for a queue");
        goto leave;
    }
    queue->device = device;
    queue->ordinal = ordinal;
    int result = driver->get_priorities(&least, &greatest);
    if (!result)
        result = driver->stream_create(&queue->stream, CUDA_STREAM_NON_BLOCKING, greatest);
    if (result) {
        status = weft_cuda_fail(device, result, "making a stream on device %d", ordinal);
        goto free_queue;
    }
    result = driver->event_create(&queue->waited, CUDA_EVENT_DISABLE_TIMING);
    if (result) {
        status = weft_cuda_fail(device, result, "making an event on device %d", ordinal);
        goto destroy_stream;
    }
    /* What may wait for the whole device is done here, while no stream wait can be closed for this queue. What of it fails is
     * reported by the operation that needs it. */
    if (device->ordinals[ordinal].has_waits)
        weft_cuda_waits_prepare(device);
    weft_cuda_launcher_open(device, ordinal);
    queue->meeting = weft_cuda_meeting_take(device, ordinal);
    weft_cuda_leave(&turn);
    weft_cuda_reach_peers(device, ordinal);
    *opened = queue;
    return WEFT_OK;

destroy_stream:
    driver->stream_destroy(queue->stream);
free_queue:
    free(queue);
leave:
    weft_cuda_leave(&turn);
    return status;
}

/* Waits for the queue's last wait, for as long as closing may take. CUDA_NOT_READY when that is not enough. */
static int wait_for_waits(const struct weft_device_queue *queue)
{
    int64_t deadline_ns = weft_clock_ns() + WEFT_DEVICE_CLOSE_MS * INT64_C(1000000);
    int result;
    while ((result = queue->device->driver.event_query(queue->waited)) == CUDA_NOT_READY &&
           weft_clock_ns() < deadline_ns)
        usleep(CLOSE_POLL_US);
    return result;
}

void weft_cuda_queue_close(struct weft_device_queue *queue)
{
    struct weft_cuda_turn turn;
    if (weft_cuda_enter(queue->device, queue->ordinal, &turn) == WEFT_OK) {
        const struct weft_cuda_driver *driver = &queue->device->driver;
        int result = wait_for_waits(queue);
        if (result == CUDA_SUCCESS)
            result = driver->stream_synchronize(queue->stream);
        if (weft_cuda_is_fatal(result))
            weft_cuda_waits_rescue(queue->ordinal);
        if (result == CUDA_SUCCESS) /* else a program may go on meeting there */
            weft_cuda_meeting_give(queue->device, queue->ordinal, queue->meeting);
        driver->event_destroy(queue->waited);
        driver->stream_destroy(queue->stream);
        weft_cuda_leave(&turn);
    }
    free(queue);
}

/* Bytes from pointer, which the driver knows, to the end of its span; at most size. */
static size_t left_in_span(struct weft_device *device, const void *pointer, size_t size)
{
    struct weft_cuda_memory memory;
    if (weft_cuda_look(device, pointer, &memory))
        return size;
    uint64_t left = memory.span.base + memory.span.length - (uint64_t)pointer;
    return left < size ? (size_t)left : size;
}

/* The driver refuses a copy that runs over the border between two registrations of host memory. */
static int copy_by_spans(struct weft_device_queue *queue, void *destination, const void *source, size_t size)
{
    int result = CUDA_SUCCESS;
    while (size && !result) {
        size_t piece = left_in_span(queue->device, source, left_in_span(queue->device, destination, size));
        result =
            queue->device->driver.copy((cuda_pointer)destination, (cuda_pointer)source, piece, queue->stream);
        destination = (char *)destination + piece;
        source = (const char *)source + piece;
        size -= piece;
    }
    return result;
}

/* A copy of ordinary host memory would wait for the device, behind the caller's back; so whose memory it is is asked first. */
int weft_cuda_copy(struct weft_device_queue *queue, void *destination, const void *source, size_t size)
{
    struct weft_cuda_turn turn;
    if (!size)
        return WEFT_OK;
    if (!weft_cuda_is_known(queue->device, source, size) ||
        !weft_cuda_is_known(queue->device, destination, size)) {
        int unready = weft_cuda_ready(queue->device);
        return unready ? unready
                       : queue->device->params.fail(WEFT_INVALID,
                                                    "copying %zu bytes from %p to %p: not all of it is "
                                                    "memory that CUDA knows; ordinary host "
                                                    "memory has to be pinned first",
                                                    size, source, destination);
    }
    int status = weft_cuda_enter(queue->device, queue->ordinal, &turn);
    if (status)
        return status;
    int result =
        queue->device->driver.copy((cuda_pointer)destination, (cuda_pointer)source, size, queue->stream);
    if (result == CUDA_INVALID_VALUE)
        result = copy_by_spans(queue, destination, source, size);
    weft_cuda_leave(&turn);
    return result ? weft_cuda_fail(queue->device, result, "copying %zu bytes from %p to %p on device %d",
                                   size, source, destination, queue->ordinal)
                  : WEFT_OK;
}

/* A result of the driver's. */
static int wait_in_queue(struct weft_device_queue *queue, cuda_event event)
{
    const struct weft_cuda_driver *driver = &queue->device->driver;
    int result = driver->stream_wait_event(queue->stream, event, 0);
    return result ? result : driver->event_record(queue->waited, queue->stream);
}

int weft_cuda_await(struct weft_device_queue *queue, struct weft_device_event *event)
{
    struct weft_cuda_turn turn;
    int status = weft_cuda_enter(queue->device, queue->ordinal, &turn);
    if (status)
        return status;
    int result = wait_in_queue(queue, event->event);
    weft_cuda_leave(&turn);
    return result ? weft_cuda_fail(queue->device, result, "waiting for an event of device %d on device %d",
                                   event->ordinal, queue->ordinal)
                  : WEFT_OK;
}
