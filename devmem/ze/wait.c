/* SPDX-License-Identifier: Apache-2.0 */
/* Stream waits: places where a stream of the program's waits.
 *
 * A stream wait is a barrier in the stream that waits for one event and signals another one behind it. The first is signalled by the
 * host, or by a queue behind what it holds; it is used again when the second says that the stream has passed. Opening needs no memory and
 * takes no lock of the driver's that a stream could have, so it does not fail while the device works.
 *
 * A wait that was left to a queue stays known here, also when its owner has freed it, until it is open: of a device that fails
 * the queue never comes there, and a stream on another device would wait for ever. Whoever learns of the failure opens those from the host (weft_ze_events_rescue()).
 * A queue of a device that is said to be lost may yet go on and signal the event as well, so that one is not used again before the kind is closed.
 *
 * Source: oneAPI Level Zero Specification, "Core Programming Guide", Synchronization Primitives, Events: the host may signal an event
 * that a device waits for.
 */
#include <stdlib.h>

#include "devmem/ze/ze.h"

/* Nobody opens it any more. The stream need not have passed it. What a queue may yet signal is never used for anything else. */
static void forget(struct weft_device_wait *wait)
{
    if (!wait->is_kept)
        weft_ze_event_put(wait->opens);
    weft_ze_event_put(wait->passed);
    free(wait);
}

/* The two events, of which the second keeps the first. 0: there is no memory, with a text. */
static int get_events(struct weft_device *device, int ordinal, struct weft_device_wait *wait)
{
    wait->opens = weft_ze_event_get(device, ordinal);
    wait->passed = wait->opens ? weft_ze_event_get(device, ordinal) : NULL;
    if (wait->opens && !wait->passed)
        weft_ze_event_unused(wait->opens);
    return wait->passed != NULL;
}

int weft_ze_wait_stream(struct weft_device *device, int ordinal, void *given, struct weft_device_wait **made)
{
    struct weft_ze_stream stream;
    int status = weft_ze_stream_find(device, ordinal, given, &stream);
    if (status != WEFT_OK)
        return status;
    weft_ze_waits_sweep(device, 0);
    struct weft_device_wait *wait = calloc(1, sizeof *wait);
    if (!wait)
        return device->params.fail(WEFT_NOMEM, "no memory for a stream wait");
    wait->device = device;
    wait->opener = -1;
    if (!get_events(device, ordinal, wait)) {
        free(wait);
        return WEFT_NOMEM; /* the text has been given */
    }
    ze_result_t result = weft_ze_stream_append(device, ordinal, &stream, wait->passed, wait->opens);
    if (result != ZE_RESULT_SUCCESS && !wait->passed->is_loose) {
        weft_ze_event_unused(wait->passed);
        weft_ze_event_unused(wait->opens);
        free(wait);
        return weft_ze_fail(device, result, "putting a wait into stream %p of device %d", given, ordinal);
    }
    weft_ze_event_use(wait->opens);
    wait->passed->awaits = wait->opens;
    if (result != ZE_RESULT_SUCCESS) { /* the stream may yet come there, and must not stay */
        weft_ze_wait_free(wait);
        return weft_ze_fail(device, result, "putting a wait into stream %p of device %d", given, ordinal);
    }
    *made = wait;
    return WEFT_OK;
}

/* Before the queue gets the command, so that whoever learns of a failure finds it. */
static void leave_to(struct weft_device_wait *wait, int opener)
{
    struct weft_device *device = wait->device;
    pthread_mutex_lock(&device->lock);
    wait->opener = opener;
    wait->next = device->waits;
    device->waits = wait;
    pthread_mutex_unlock(&device->lock);
}

/* A queue that cannot do it leaves it to the host: what was before it in the queue has failed, or never will be. test() says. */
int weft_ze_wait_open(struct weft_device_wait *wait, struct weft_device_queue *queue)
{
    struct weft_device *device = wait->device;
    if (weft_ze_is_child(device)) /* a forked child's copy: the stream is the parent's */
        return WEFT_OK;
    if (queue && queue->place == wait->opens->place) {
        leave_to(wait, queue->ordinal);
        if (weft_ze_channel_append(queue, &(struct weft_ze_command){.signal = wait->opens->handle}) ==
            ZE_RESULT_SUCCESS) {
            queue->is_open_ended = 0;
            return WEFT_OK;
        }
        pthread_mutex_lock(&device->lock);
        wait->is_kept = 1;
        pthread_mutex_unlock(&device->lock);
    }
    ze_result_t result = device->driver.zeEventHostSignal(wait->opens->handle);
    return result == ZE_RESULT_SUCCESS
               ? WEFT_OK
               : weft_ze_fail(device, result, "opening a stream wait of device %d", wait->opens->ordinal);
}

void weft_ze_wait_free(struct weft_device_wait *wait)
{
    struct weft_device *device = wait->device;
    if (weft_ze_is_child(device)) {
        free(wait);
        return;
    }
    pthread_mutex_lock(&device->lock);
    int is_left = wait->opener >= 0;
    wait->is_free = 1;
    pthread_mutex_unlock(&device->lock);
    if (is_left) {
        weft_ze_waits_sweep(device, 0);
        return;
    }
    weft_ze_wait_signal(wait); /* one that was never opened must not hang a stream */
    forget(wait);
}

/* Bits: ordinals whose queues have waits to open, and that are lost. */
static uint64_t lost_openers(struct weft_device *device)
{
    uint64_t openers = 0, lost = 0;
    pthread_mutex_lock(&device->lock);
    for (const struct weft_device_wait *wait = device->waits; wait; wait = wait->next)
        openers |= UINT64_C(1) << wait->opener;
    pthread_mutex_unlock(&device->lock);
    for (int i = 0; i < device->count; i++)
        lost |= openers >> i & 1 && weft_ze_is_lost(device, i) ? UINT64_C(1) << i : 0;
    return lost;
}

void weft_ze_waits_sweep(struct weft_device *device, int is_last)
{
    const uint64_t lost = lost_openers(device);
    struct weft_device_wait **at = &device->waits, *wait, *over = NULL;
    _Static_assert(WEFT_ZE_ORDINALS_MAX <= 64, "a bit for each");
    pthread_mutex_lock(&device->lock);
    while ((wait = *at)) {
        int is_coming = !is_last && weft_ze_event_is_ahead(wait->opens) && !(lost >> wait->opener & 1);
        if (!wait->is_free || is_coming) {
            at = &wait->next;
            continue;
        }
        *at = wait->next;
        wait->next = over;
        over = wait;
    }
    pthread_mutex_unlock(&device->lock);
    while ((wait = over)) {
        over = wait->next;
        weft_ze_wait_signal(wait);
        forget(wait);
    }
}
