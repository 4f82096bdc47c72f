/* SPDX-License-Identifier: Apache-2.0 */
/* Whether weft's queues get on beside a stream that waits. A stream wait is opened by a queue, so a driver that runs both one behind the other would let
 * them wait for each other for ever. No call says it. So it is tried when the device is first described, or has its first queue or stream: a
 * list as programs make them waits for an event, a queue of weft's has to get by, and then the host signals the event, whatever came.
 *
 * Where the queue does not get by in time, or it cannot be tried, the device has no stream waits. A device that does not come to a command in a queue that
 * nothing stands beside is busy: it is tried again when it is asked next, three times at most.
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

enum { PASSES_NOT, PASSES, NOT_TRIED, BUSY };

/* Whether what the queue has got by now ends soon. Closing it waits no longer than for what may never come. */
static int gets_by(struct weft_device_queue *queue)
{
    struct weft_device_event *by;
    if (weft_ze_mark(queue, &by) != WEFT_OK)
        return NOT_TRIED;
    weft_ze_queue_stands(queue, by);
    return weft_ze_event_is_soon(by) ? PASSES : PASSES_NOT;
}

static int run(struct weft_device *device, int ordinal)
{
    struct stand stand;
    struct weft_device_queue *queue;
    if (weft_ze_queue_make(device, ordinal, &queue) != WEFT_OK)
        return NOT_TRIED;
    int passes = gets_by(queue);
    if (passes == PASSES_NOT)
        passes = BUSY;
    if (passes == PASSES && !begin(device, ordinal, &stand))
        passes = NOT_TRIED;
    if (passes == PASSES) {
        passes = gets_by(queue);
        device->driver.zeEventHostSignal(stand.opens->handle);
        end(device, &stand);
    }
    weft_ze_queue_close(queue);
    return passes;
}

/* With the probe's lock. */
static void find_out(struct weft_device *device, int ordinal, struct weft_ze_launcher *launcher)
{
    static const char *const texts[] = {
        [PASSES_NOT] = "Level Zero device %d runs no queue beside a stream that waits, within %d ms",
        [PASSES] = "",
        [NOT_TRIED] = "Level Zero device %d did not let it be tried whether streams can wait for queues",
        [BUSY] = "Level Zero device %d did not come to a command within %d ms"};
    char text[WEFT_ZE_TEXT];
    int passes = run(device, ordinal), is_again = passes == BUSY && ++launcher->passes_tries < WEFT_ZE_TRIES;
    snprintf(text, sizeof text, texts[passes], ordinal, WEFT_ZE_SOON_MS);
    int is_said = passes == NOT_TRIED && strcmp(text, launcher->passes_text) == 0;
    if (passes != PASSES && !is_again && !is_said)
        device->params.log(WEFT_DEVICE_LOG_INFO, "%s; its streams cannot wait for calls", text);
    if (!is_again || !*launcher->passes_text)
        memcpy(launcher->passes_text, text, sizeof launcher->passes_text);
    if (passes != NOT_TRIED && !is_again)
        launcher->passes = passes == PASSES ? WEFT_ZE_ANSWER_YES : WEFT_ZE_ANSWER_NO;
}

int weft_ze_streams_wait(struct weft_device *device, int ordinal, char text[WEFT_ZE_TEXT])
{
    struct weft_ze_launcher *launcher = weft_ze_launcher_look(device, ordinal);
    snprintf(text, WEFT_ZE_TEXT, "no memory to see whether streams of device %d can wait", ordinal);
    if (!launcher)
        return 0;
    pthread_mutex_unlock(&launcher->lock);
    pthread_mutex_lock(&launcher->probe_lock);
    if (launcher->passes == WEFT_ZE_ANSWER_UNTRIED)
        find_out(device, ordinal, launcher);
    int passes = launcher->passes == WEFT_ZE_ANSWER_YES;
    memcpy(text, launcher->passes_text, WEFT_ZE_TEXT);
    pthread_mutex_unlock(&launcher->probe_lock);
    return passes;
}
