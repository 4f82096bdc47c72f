/* SPDX-License-Identifier: Apache-2.0 */
/* Whether weft's queues get on beside a stream that waits. A stream wait is opened by a queue, so a driver that runs both one behind the other would let
 * them wait for each other for ever. No call says it. So it is tried when the device is first described, or has its first queue or stream: a
 * list as programs make them waits for an event, a queue of weft's has to get by, and then the host signals the event, whatever came.
 *
 * Where the queue does not get by in time, or it cannot be tried, the device has no stream waits.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "devmem/ze/launch.h"

#define PROBE_MS 500
#define POLL_US  20

/* What stands where a program's stream would. */
struct stand {
    struct weft_device_queue stream;
    struct weft_device_event *opens, *passed;
};

static int is_soon(const struct weft_device *device, const struct weft_device_event *event)
{
    int64_t deadline_ns = weft_clock_ns() + PROBE_MS * INT64_C(1000000);
    ze_result_t result;
    while ((result = device->driver.zeEventQueryStatus(event->handle)) == ZE_RESULT_NOT_READY &&
           weft_clock_ns() < deadline_ns)
        usleep(POLL_US);
    return result == ZE_RESULT_SUCCESS;
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
    if (is_soon(device, stand->passed) && (!batch || is_soon(device, batch->end)))
        weft_ze_channel_close(device, &stand->stream.channel);
    weft_ze_event_put(stand->opens);
    weft_ze_event_put(stand->passed);
}

/* 1, 0, or -1: it could not be tried. */
static int run(struct weft_device *device, int ordinal)
{
    struct stand stand;
    struct weft_device_queue *queue;
    struct weft_device_event *by = NULL;
    if (weft_ze_queue_make(device, ordinal, &queue) != WEFT_OK)
        return -1;
    int passes = begin(device, ordinal, &stand) ? 1 : -1;
    if (passes == 1) {
        passes = weft_ze_mark(queue, &by) == WEFT_OK ? is_soon(device, by) : -1;
        device->driver.zeEventHostSignal(stand.opens->handle);
        end(device, &stand);
    }
    if (by)
        weft_ze_event_free(by);
    weft_ze_queue_close(queue);
    return passes;
}

int weft_ze_streams_wait(struct weft_device *device, int ordinal, char text[WEFT_ZE_TEXT])
{
    struct weft_ze_launcher *launcher = weft_ze_launcher_look(device, ordinal);
    snprintf(text, WEFT_ZE_TEXT, "no memory to see whether streams of device %d can wait", ordinal);
    if (!launcher)
        return 0;
    pthread_mutex_unlock(&launcher->lock);
    pthread_mutex_lock(&launcher->probe_lock);
    if (launcher->passes == WEFT_ZE_ANSWER_UNTRIED) {
        int passes = run(device, ordinal);
        snprintf(text, WEFT_ZE_TEXT,
                 passes < 0
                     ? "Level Zero device %d did not let it be tried whether streams can wait for queues"
                     : "Level Zero device %d runs no queue beside a stream that waits, within %d ms",
                 ordinal, PROBE_MS);
        if (passes < 1 && strcmp(text, launcher->passes_text) != 0)
            device->params.log(WEFT_DEVICE_LOG_INFO, "%s; its streams cannot wait for calls", text);
        memcpy(launcher->passes_text, text, sizeof launcher->passes_text);
        if (passes >= 0)
            launcher->passes = passes ? WEFT_ZE_ANSWER_YES : WEFT_ZE_ANSWER_NO;
    }
    int passes = launcher->passes == WEFT_ZE_ANSWER_YES;
    memcpy(text, launcher->passes_text, WEFT_ZE_TEXT);
    pthread_mutex_unlock(&launcher->probe_lock);
    return passes;
}
