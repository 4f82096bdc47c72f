/* SPDX-License-Identifier: Apache-2.0 */
/* Events.
 *
 * An event that is in flight can be neither reset nor destroyed, and weft's callers may give one back at any time. So each has users:
 * who marked it, and every wait for it in a queue, as long as that is in flight. Without any it is retired; when it has been signalled
 * it is reset and used again.
 *
 * Time. An event that notes the time has a word of host memory, into which the device writes its clock in front of signalling the event. It is not one
 * with a timestamp of its own (ZE_EVENT_POOL_FLAG_KERNEL_TIMESTAMP): the specification says what those note of kernels, but not of barriers.
 *
 * Source: oneAPI Level Zero Specification, "Core Programming Guide", Synchronization Primitives, Events; zeCommandListAppendWriteGlobalTimestamp.
 */
#include <stdlib.h>

#include "base/clock.h"
#include "devmem/ze/ze.h"

#define POOL_EVENTS 64
#define LOOKS       16  /* at retired events, when one is asked for */
#define STATUS_MS   100 /* between asking a device whether it is lost */

/* With the lock. */
static void drop(struct weft_device_event *event)
{
    struct weft_ze_place *place = &event->device->places[event->place];
    if (--event->users > 0)
        return;
    event->next = place->retired;
    place->retired = event;
}

/* Of one that has been signalled: the device has written there. With the lock. */
static void forget_time(struct weft_device_event *event)
{
    if (event->ticks)
        event->device->driver.zeMemFree(event->device->places[event->place].context, event->ticks);
    event->ticks = NULL;
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
        forget_time(event);
        event->is_loose = 0;
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
        event->is_timed = 0;
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

void weft_ze_event_free(struct weft_device_event *event)
{
    struct weft_device *device = event->device;
    if (weft_ze_is_child(device))
        return;
    pthread_mutex_lock(&device->lock);
    if (event->ticks && device->driver.zeEventQueryStatus(event->handle) == ZE_RESULT_SUCCESS)
        forget_time(event);
    drop(event);
    pthread_mutex_unlock(&device->lock);
}

void weft_ze_event_unused(struct weft_device_event *event)
{
    struct weft_device *device = event->device;
    struct weft_ze_place *place = &device->places[event->place];
    struct weft_device_event **to = event->is_loose ? &place->retired : &place->unused;
    pthread_mutex_lock(&device->lock);
    event->users = 0;
    event->next = *to;
    *to = event;
    pthread_mutex_unlock(&device->lock);
}

/* --- asking */

/* Also for a device that is lost, as another one's stream may stand at it. */
void weft_ze_wait_signal(struct weft_device_wait *wait)
{
    const struct weft_ze_driver *driver = &wait->device->driver;
    if (driver->zeEventQueryStatus(wait->opens->handle) == ZE_RESULT_SUCCESS)
        return;
    wait->is_kept |= wait->opener >= 0;
    driver->zeEventHostSignal(wait->opens->handle);
}

void weft_ze_events_rescue(struct weft_device *device, int ordinal)
{
    pthread_mutex_lock(&device->lock);
    for (struct weft_device_wait *wait = device->waits; wait; wait = wait->next) {
        if (wait->opener == ordinal)
            weft_ze_wait_signal(wait);
    }
    pthread_mutex_unlock(&device->lock);
}

/* Intel's driver looks at an event's memory alone when it is asked for it, and says of the device whether it hangs. */
int weft_ze_is_lost(struct weft_device *device, int ordinal)
{
    struct weft_ze_ordinal *known = &device->ordinals[ordinal];
    int64_t now_ns = weft_clock_ns();
    long long last_ns = atomic_load(&known->status_ns);
    if (!atomic_load(&known->is_lost) && now_ns - last_ns >= STATUS_MS * INT64_C(1000000) &&
        atomic_compare_exchange_strong(&known->status_ns, &last_ns, now_ns) &&
        device->driver.zeDeviceGetStatus(known->device) == ZE_RESULT_ERROR_DEVICE_LOST)
        atomic_store(&known->is_lost, 1);
    return atomic_load(&known->is_lost);
}

int weft_ze_event_is_ahead(const struct weft_device_event *event)
{
    return event->device->driver.zeEventQueryStatus(event->handle) == ZE_RESULT_NOT_READY;
}

/* What an event stands behind has users as long as it has. */
ze_result_t weft_ze_event_state(struct weft_device_event *event)
{
    const struct weft_ze_driver *driver = &event->device->driver;
    ze_result_t result = driver->zeEventQueryStatus(event->handle), at_result = result;
    for (const struct weft_device_event *at = event; at_result == ZE_RESULT_NOT_READY;) {
        if (weft_ze_is_lost(at->device, at->ordinal))
            return ZE_RESULT_ERROR_DEVICE_LOST;
        at = at->awaits;
        at_result = at ? driver->zeEventQueryStatus(at->handle) : ZE_RESULT_SUCCESS;
    }
    return at_result == ZE_RESULT_SUCCESS ? result : at_result;
}

int weft_ze_test(struct weft_device_event *event)
{
    if (weft_ze_is_child(event->device))
        return weft_ze_ready(event->device); /* which refuses */
    ze_result_t result = weft_ze_event_state(event);
    if (result == ZE_RESULT_SUCCESS)
        return 1;
    if (result == ZE_RESULT_NOT_READY)
        return 0;
    weft_ze_events_rescue(event->device, event->ordinal);
    return weft_ze_fail(event->device, result, "work on device %d has failed", event->ordinal);
}

/* --- time */

ze_result_t weft_ze_event_time(struct weft_device_event *event)
{
    struct weft_device *device = event->device;
    const ze_host_mem_alloc_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_HOST_MEM_ALLOC_DESC};
    void *ticks = event->ticks;
    ze_result_t result =
        ticks ? ZE_RESULT_SUCCESS
              : device->driver.zeMemAllocHost(device->places[event->place].context, &desc,
                                              sizeof *event->ticks, sizeof *event->ticks, &ticks);
    if (result != ZE_RESULT_SUCCESS)
        return result;
    event->ticks = ticks;
    event->is_timed = 1;
    return result;
}

/* Drivers before API 1.2 know nanoseconds only, and say whole ones. */
static ze_result_t find_clock(const struct weft_device *device, int ordinal, double *ns_per_tick,
                              uint32_t *bits)
{
    const struct weft_ze_driver *driver = &device->driver;
    const struct weft_ze_ordinal *known = &device->ordinals[ordinal];
    ze_api_version_t version = (ze_api_version_t)0;
    ze_device_properties_t properties = {.stype = ZE_STRUCTURE_TYPE_DEVICE_PROPERTIES};
    ze_result_t result = driver->zeDriverGetApiVersion(device->places[known->place].driver, &version);
    int is_hertz = version >= ZE_API_VERSION_1_2;
    if (is_hertz)
        properties.stype = ZE_STRUCTURE_TYPE_DEVICE_PROPERTIES_1_2;
    if (result == ZE_RESULT_SUCCESS)
        result = driver->zeDeviceGetProperties(known->device, &properties);
    if (result == ZE_RESULT_SUCCESS && !properties.timerResolution)
        result = ZE_RESULT_ERROR_UNSUPPORTED_FEATURE;
    if (result == ZE_RESULT_SUCCESS) {
        *ns_per_tick =
            is_hertz ? 1e9 / (double)properties.timerResolution : (double)properties.timerResolution;
        *bits = properties.timestampValidBits;
    }
    return result;
}

int weft_ze_elapsed(struct weft_device_event *from, struct weft_device_event *to, double *ns)
{
    struct weft_device *device = from->device;
    double ns_per_tick = 0;
    uint32_t bits = 0;
    if (!from->is_timed || !to->is_timed || from->ordinal != to->ordinal)
        return device->params.fail(WEFT_INVALID,
                                   "the time between two events: expected events of one device that were "
                                   "marked with WEFT_DEVICE_EVENT_TIMED");
    int states[2] = {weft_ze_test(from), weft_ze_test(to)};
    for (int i = 0; i < 2; i++) {
        if (states[i] < 0)
            return states[i];
    }
    if (!states[0] || !states[1])
        return device->params.fail(WEFT_AGAIN, "the time between two events, one of which has not happened");
    ze_result_t result = find_clock(device, from->ordinal, &ns_per_tick, &bits);
    if (result != ZE_RESULT_SUCCESS)
        return weft_ze_fail(device, result, "asking for the clock of device %d", from->ordinal);
    /* The clock begins again behind its last bit: of the two ways around, the time is the shorter one. */
    uint64_t passed = *to->ticks - *from->ticks;
    int unused = bits && bits < 64 ? 64 - (int)bits : 0;
    *ns = (double)((int64_t)(passed << unused) >> unused) * ns_per_tick;
    return WEFT_OK;
}

/* --- the end */

/* With the lock. */
static int are_signalled(struct weft_device *device, struct weft_ze_place *place)
{
    struct weft_device_event *first = NULL;
    while (place->retired && place->retired != first) { /* as long as there are fewer each time */
        first = place->retired;
        collect(device, place);
    }
    for (const struct weft_device_event *event = place->retired; event; event = event->next) {
        if (device->driver.zeEventQueryStatus(event->handle) == ZE_RESULT_NOT_READY)
            return 0;
    }
    return 1;
}

int weft_ze_events_destroy(struct weft_device *device, struct weft_ze_place *place)
{
    struct weft_ze_pool *pool;
    pthread_mutex_lock(&device->lock);
    int is_idle = are_signalled(device, place);
    pthread_mutex_unlock(&device->lock);
    while (is_idle && (pool = place->pools)) {
        place->pools = pool->next;
        for (uint32_t i = 0; i < pool->made; i++) {
            device->driver.zeEventDestroy(pool->events[i].handle);
            forget_time(&pool->events[i]);
        }
        device->driver.zeEventPoolDestroy(pool->handle);
        free(pool);
    }
    return is_idle;
}
