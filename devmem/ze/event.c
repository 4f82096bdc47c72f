/* SPDX-License-Identifier: Apache-2.0 */
/* Events.
 *
 * An event that is in flight can be neither reset nor destroyed, and weft's callers may give one back at any time. So each has users:
 * who marked it, and every wait for it in a queue, as long as that is in flight. Without any it is retired; when it has been signalled
 * it is reset and used again.
 *
 * Source: oneAPI Level Zero Specification, "Core Programming Guide", Synchronization Primitives, Events.
 */
#include <stdlib.h>

#include "devmem/ze/ze.h"

#define POOL_EVENTS 64
#define LOOKS       16 /* at retired events, when one is asked for */

/* With the lock. */
static void drop(struct weft_device_event *event)
{
    struct weft_ze_place *place = &event->device->places[event->place];
    if (--event->users > 0)
        return;
    event->next = place->retired;
    place->retired = event;
}

/* Resets retired events that have been signalled. What one of them stood behind is dropped, and may be next. With the lock. */
static void collect(struct weft_device *device, struct weft_ze_place *place)
{
    struct weft_device_event *kept = NULL, *event;
    for (int i = 0; i < LOOKS && (event = place->retired); i++) {
        place->retired = event->next;
        if (device->driver.zeEventQueryStatus(event->handle) != ZE_RESULT_SUCCESS ||
            device->driver.zeEventHostReset(event->handle) != ZE_RESULT_SUCCESS) {
            event->next = kept;
            kept = event;
            continue;
        }
        event->next = place->unused;
        place->unused = event;
        if (event->awaits)
            drop(event->awaits);
        event->awaits = NULL;
    }
    while ((event = kept)) { /* behind the others, which are looked at next time */
        struct weft_device_event **end = &place->retired;
        kept = event->next;
        event->next = NULL;
        while (*end)
            end = &(*end)->next;
        *end = event;
    }
}

/* With the lock. */
static ze_result_t grow(struct weft_device *device, struct weft_ze_place *place)
{
    const struct weft_ze_driver *driver = &device->driver;
    const ze_event_pool_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_EVENT_POOL_DESC,
                                       .flags = ZE_EVENT_POOL_FLAG_HOST_VISIBLE,
                                       .count = POOL_EVENTS};
    struct weft_ze_pool *pool = calloc(1, sizeof *pool + POOL_EVENTS * sizeof *pool->events);
    if (!pool)
        return ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY;
    ze_result_t result = driver->zeEventPoolCreate(place->context, &desc, 0, NULL, &pool->handle);
    if (result != ZE_RESULT_SUCCESS) {
        free(pool);
        return result;
    }
    pool->next = place->pools;
    place->pools = pool;
    while (pool->made < POOL_EVENTS) {
        const ze_event_desc_t one = {.stype = ZE_STRUCTURE_TYPE_EVENT_DESC,
                                     .index = pool->made,
                                     .signal = ZE_EVENT_SCOPE_FLAG_HOST,
                                     .wait = ZE_EVENT_SCOPE_FLAG_HOST};
        struct weft_device_event *event = &pool->events[pool->made];
        result = driver->zeEventCreate(pool->handle, &one, &event->handle);
        if (result != ZE_RESULT_SUCCESS)
            break;
        pool->made++;
        event->device = device;
        event->place = (int)(place - device->places);
        event->next = place->unused;
        place->unused = event;
    }
    return place->unused ? ZE_RESULT_SUCCESS : result;
}

struct weft_device_event *weft_ze_event_get(struct weft_device *device, int ordinal)
{
    struct weft_ze_place *place = &device->places[device->ordinals[ordinal].place];
    ze_result_t result = ZE_RESULT_SUCCESS;
    pthread_mutex_lock(&device->lock);
    collect(device, place);
    if (!place->unused)
        result = grow(device, place);
    struct weft_device_event *event = place->unused;
    if (event) {
        place->unused = event->next;
        event->ordinal = ordinal;
        event->users = 1;
        event->next = NULL;
    }
    pthread_mutex_unlock(&device->lock);
    if (!event)
        weft_ze_fail(device, result, "making events on device %d", ordinal);
    return event;
}

void weft_ze_event_use(struct weft_device_event *event)
{
    pthread_mutex_lock(&event->device->lock);
    event->users++;
    pthread_mutex_unlock(&event->device->lock);
}

void weft_ze_event_put(struct weft_device_event *event)
{
    struct weft_device *device = event->device;
    pthread_mutex_lock(&device->lock);
    drop(event);
    pthread_mutex_unlock(&device->lock);
}

void weft_ze_event_unused(struct weft_device_event *event)
{
    struct weft_device *device = event->device;
    struct weft_ze_place *place = &device->places[event->place];
    pthread_mutex_lock(&device->lock);
    event->users = 0;
    event->next = place->unused;
    place->unused = event;
    pthread_mutex_unlock(&device->lock);
}

int weft_ze_test(struct weft_device_event *event)
{
    ze_result_t result = event->device->driver.zeEventQueryStatus(event->handle);
    if (result == ZE_RESULT_SUCCESS)
        return 1;
    if (result == ZE_RESULT_NOT_READY)
        return 0;
    return weft_ze_fail(event->device, result, "work on device %d has failed", event->ordinal);
}

void weft_ze_events_destroy(struct weft_device *device, struct weft_ze_place *place)
{
    struct weft_ze_pool *pool;
    while ((pool = place->pools)) {
        place->pools = pool->next;
        for (uint32_t i = 0; i < pool->made; i++)
            device->driver.zeEventDestroy(pool->events[i].handle);
        device->driver.zeEventPoolDestroy(pool->handle);
        free(pool);
    }
}
