/* SPDX-License-Identifier: Apache-2.0 */
/* Event pools and events. */
#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "tests/fakes/ze/fake.h"

static const char section[] = "Core Programming Guide, Synchronization Primitives, Events";

struct fake_pool {
    struct fake_context *context;
    uint32_t count;
    int live;
    ze_event_pool_flags_t flags;
    struct fake_event *events[];
};

static pthread_condattr_t by_clock;
pthread_cond_t fake_moved;

static void __attribute__((constructor)) make(void)
{
    pthread_condattr_init(&by_clock);
    pthread_condattr_setclock(&by_clock, CLOCK_MONOTONIC);
    pthread_cond_init(&fake_moved, &by_clock);
}

ze_result_t fake_pool_create(ze_context_handle_t context, const ze_event_pool_desc_t *desc,
                             uint32_t device_count, ze_device_handle_t *devices, ze_event_pool_handle_t *pool)
{
    static const char call[] = "zeEventPoolCreate";
    struct fake_context *of = fake_context_find(context, call);
    if (!of)
        return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
    if (!fake_expect_struct(desc, ZE_STRUCTURE_TYPE_EVENT_POOL_DESC, call) ||
        !fake_expect(desc->count > 0, call, "zeEventPoolCreate, Parameters", "count is 0") ||
        !fake_expect(!device_count == !devices, call, "zeEventPoolCreate, Parameters",
                     "numDevices without phDevices"))
        return ZE_RESULT_ERROR_INVALID_ARGUMENT;
    if (ze_fake.pool_result)
        return (ze_result_t)ze_fake.pool_result;
    struct fake_pool *made = calloc(1, sizeof *made + desc->count * sizeof *made->events);
    if (!made)
        return ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY;
    made->context = of;
    made->count = desc->count;
    made->flags = desc->flags;
    fake_context_count(of, 1);
    ze_fake.pools++;
    *pool = (ze_event_pool_handle_t)(void *)made;
    return ZE_RESULT_SUCCESS;
}

ze_result_t fake_pool_destroy(ze_event_pool_handle_t pool)
{
    struct fake_pool *found = (void *)pool;
    if (!fake_expect(found->live == 0, "zeEventPoolDestroy", section, "the pool still has events"))
        return ZE_RESULT_ERROR_HANDLE_OBJECT_IN_USE;
    fake_context_count(found->context, -1);
    ze_fake.pools--;
    free(found);
    return ZE_RESULT_SUCCESS;
}

ze_result_t fake_event_create(ze_event_pool_handle_t pool, const ze_event_desc_t *desc,
                              ze_event_handle_t *event)
{
    static const char call[] = "zeEventCreate";
    struct fake_pool *of = (void *)pool;
    if (!fake_expect_struct(desc, ZE_STRUCTURE_TYPE_EVENT_DESC, call) ||
        !fake_expect(desc->index < of->count, call, "zeEventCreate, Parameters",
                     "index is beyond the pool") ||
        !fake_expect(!of->events[desc->index], call, section, "the pool's place is taken"))
        return ZE_RESULT_ERROR_INVALID_ARGUMENT;
    if (ze_fake.event_result)
        return (ze_result_t)ze_fake.event_result;
    struct fake_event *made = calloc(1, sizeof *made);
    if (!made)
        return ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY;
    made->pool = of;
    made->index = desc->index;
    made->device = -1;
    of->events[desc->index] = made;
    of->live++;
    ze_fake.events++;
    *event = (ze_event_handle_t)(void *)made;
    return ZE_RESULT_SUCCESS;
}

ze_result_t fake_event_destroy(ze_event_handle_t event)
{
    struct fake_event *found = (void *)event;
    pthread_mutex_lock(&fake_lock);
    int is_idle = !found->signals && !found->waits;
    pthread_mutex_unlock(&fake_lock);
    if (!fake_expect(is_idle, "zeEventDestroy", section, "a command in flight uses the event"))
        return ZE_RESULT_ERROR_HANDLE_OBJECT_IN_USE;
    found->pool->events[found->index] = NULL;
    found->pool->live--;
    ze_fake.events--;
    free(found);
    return ZE_RESULT_SUCCESS;
}

int fake_event_driver(const struct fake_event *event)
{
    return event->pool->context->driver;
}

/* What the host asks of an event, or does with it. */
static int is_the_hosts(const struct fake_event *event, const char *call)
{
    return fake_expect((event->pool->flags & ZE_EVENT_POOL_FLAG_HOST_VISIBLE) != 0, call,
                       "ze_event_pool_flag_t, HOST_VISIBLE", "the event is not visible to the host");
}

ze_result_t fake_event_host_signal(ze_event_handle_t event)
{
    struct fake_event *found = (void *)event;
    if (!is_the_hosts(found, "zeEventHostSignal"))
        return ZE_RESULT_ERROR_INVALID_SYNCHRONIZATION_OBJECT;
    pthread_mutex_lock(&fake_lock);
    found->is_signalled = 1;
    pthread_cond_broadcast(&fake_moved);
    pthread_mutex_unlock(&fake_lock);
    return ZE_RESULT_SUCCESS;
}

ze_result_t fake_event_host_reset(ze_event_handle_t event)
{
    struct fake_event *found = (void *)event;
    if (!is_the_hosts(found, "zeEventHostReset"))
        return ZE_RESULT_ERROR_INVALID_SYNCHRONIZATION_OBJECT;
    pthread_mutex_lock(&fake_lock);
    int is_idle = !found->signals && !found->waits;
    if (is_idle)
        found->is_signalled = 0;
    pthread_mutex_unlock(&fake_lock);
    return fake_expect(is_idle, "zeEventHostReset", section, "a command in flight uses the event")
               ? ZE_RESULT_SUCCESS
               : ZE_RESULT_ERROR_HANDLE_OBJECT_IN_USE;
}

static ze_result_t state_of(const struct fake_event *event)
{
    int is_lost = event->device >= 0 && ze_fake.is_lost >> event->device & 1;
    return event->is_signalled                     ? ZE_RESULT_SUCCESS
           : is_lost && !ze_fake.events_keep_quiet ? ZE_RESULT_ERROR_DEVICE_LOST
                                                   : ZE_RESULT_NOT_READY;
}

ze_result_t fake_event_query(ze_event_handle_t event)
{
    if (!is_the_hosts((const struct fake_event *)(const void *)event, "zeEventQueryStatus"))
        return ZE_RESULT_ERROR_INVALID_SYNCHRONIZATION_OBJECT;
    pthread_mutex_lock(&fake_lock);
    ze_result_t result = state_of((const struct fake_event *)(const void *)event);
    pthread_mutex_unlock(&fake_lock);
    return result;
}

ze_result_t fake_event_host_synchronize(ze_event_handle_t event, uint64_t timeout_ns)
{
    const struct fake_event *found = (const void *)event;
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    uint64_t end_ns = (uint64_t)until.tv_sec * 1000000000u + (uint64_t)until.tv_nsec;
    end_ns = timeout_ns > UINT64_MAX / 4 ? UINT64_MAX / 4 : end_ns + timeout_ns;
    until = (struct timespec){(time_t)(end_ns / 1000000000u), (long)(end_ns % 1000000000u)};
    pthread_mutex_lock(&fake_lock);
    ze_result_t result;
    while ((result = state_of(found)) == ZE_RESULT_NOT_READY &&
           pthread_cond_timedwait(&fake_moved, &fake_lock, &until) != ETIMEDOUT)
        ;
    pthread_mutex_unlock(&fake_lock);
    return result;
}
