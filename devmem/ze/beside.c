/* SPDX-License-Identifier: Apache-2.0 */
/* Whether weft's queues get by beside a stream that waits. A queue opens a stream wait, so a driver that runs
 * both one behind the other would let them wait for each other for ever. No call says it. So weft tries it
 * when a device is first described, or has its first queue or stream: a list as programs make them waits for
 * an event, a queue of weft's has to get by, and then the host signals the event, whatever came.
 *
 * Where the queue does not get by in time, the device has no stream waits. A device that does not come to a
 * command in a queue that nothing stands beside is busy, and one that cannot be asked may be short of memory:
 * weft tries again when it is asked next, three times at most (probe.c).
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "devmem/ze/launch.h"

#define POLL_US 20

/* What stands where a program's stream would. */
struct stand {
    struct weft_device_queue stream;
    struct weft_device_event *opens, *passed;
};

int weft_ze_event_is_soon(const struct weft_device_event *event)
{
    int64_t deadline_ns = weft_clock_ns() + WEFT_ZE_SOON_MS * INT64_C(1000000);
    ze_result_t result;
    while ((result = event->device->driver.zeEventQueryStatus(event->handle)) == ZE_RESULT_NOT_READY &&
           weft_clock_ns() < deadline_ns)
        usleep(POLL_US);
    return result == ZE_RESULT_SUCCESS;
}

void weft_ze_late(char text[WEFT_ZE_TEXT], int ordinal, const char *what)
{
    snprintf(text, WEFT_ZE_TEXT, "Level Zero device %d %s within %d ms", ordinal, what, WEFT_ZE_SOON_MS);
}

/* 0: it cannot; nothing is left of it. */
static int begin(struct weft_device *device, int ordinal, struct stand *stand)
{
    memset(stand, 0, sizeof *stand);
    stand->stream = (struct weft_device_queue){
        .device = device, .ordinal = ordinal, .place = device->ordinals[ordinal].place};
    if (weft_ze_channel_open(device, ordinal, 1, &stand->stream.channel) != ZE_RESULT_SUCCESS)
        return 0;
    stand->opens = weft_ze_event_get(device, ordinal);
    stand->passed = stand->opens ? weft_ze_event_get(device, ordinal) : NULL;
    if (stand->passed &&
        weft_ze_channel_append(&stand->stream, &(struct weft_ze_command){.signal = stand->passed->handle,
                                                                         .wait = stand->opens->handle}) ==
            ZE_RESULT_SUCCESS) {
        weft_ze_event_use(stand->opens);
        stand->passed->awaits = stand->opens;
        return 1;
    }
    if (stand->passed)
        weft_ze_event_unused(stand->passed);
    if (stand->opens)
        weft_ze_event_unused(stand->opens);
    weft_ze_channel_close(device, &stand->stream.channel);
    return 0;
}

/* What does not end keeps its list. */
static void end(struct weft_device *device, struct stand *stand)
{
    const struct weft_ze_batch *batch = stand->stream.channel.batches;
    if (weft_ze_event_is_soon(stand->passed) && (!batch || weft_ze_event_is_soon(batch->end)))
        weft_ze_channel_close(device, &stand->stream.channel);
    weft_ze_event_put(stand->opens);
    weft_ze_event_put(stand->passed);
}

/* Whether what the queue has got by now ends soon; negative: it takes no mark. Closing it waits no longer
 * than for what may never come. */
static int gets_by(struct weft_device_queue *queue)
{
    struct weft_device_event *by;
    int status = weft_ze_mark(queue, &by);
    if (status != WEFT_OK)
        return status;
    weft_ze_queue_stands(queue, by);
    return weft_ze_event_is_soon(by);
}

int weft_ze_try_stream(struct weft_device *device, int ordinal, char text[WEFT_ZE_TEXT])
{
    struct stand stand;
    struct weft_device_queue *queue;
    snprintf(text, WEFT_ZE_TEXT,
             "Level Zero device %d did not let it be tried whether streams can wait for queues", ordinal);
    if (weft_ze_queue_make(device, ordinal, &queue) != WEFT_OK)
        return WEFT_ZE_ANSWER_UNTRIED;
    int passes = gets_by(queue), is_tried = passes == 1 && begin(device, ordinal, &stand);
    if (passes == 0)
        weft_ze_late(text, ordinal, "did not come to a command");
    if (is_tried) {
        passes = gets_by(queue);
        device->driver.zeEventHostSignal(stand.opens->handle);
        end(device, &stand);
        if (passes == 0)
            weft_ze_late(text, ordinal, "runs no queue beside a stream that waits,");
    }
    weft_ze_queue_close(queue);
    return !is_tried || passes < 0 ? WEFT_ZE_ANSWER_UNTRIED : passes ? WEFT_ZE_ANSWER_YES : WEFT_ZE_ANSWER_NO;
}
