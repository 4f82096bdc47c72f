/* SPDX-License-Identifier: Apache-2.0 */
/* Stream waits of this process's command queues, counted: what makes a driver wait for a whole device must not be done while
 * one is closed. */
#include <pthread.h>

#include "base/error.h"
#include "base/log.h"
#include "devmem/command_queue.h"

/* Of the whole process: a driver that waits for a device waits for all streams there. */
static pthread_mutex_t waits_lock = PTHREAD_MUTEX_INITIALIZER;
static uint32_t waits_closed;

int weft_device_wait_close(const struct weft_device_kind *kind, int ordinal, void *stream,
                           struct weft_device_wait **wait)
{
    pthread_mutex_lock(&waits_lock);
    int status = kind->ops.wait_stream(kind->device, ordinal, stream, wait);
    waits_closed += status == WEFT_OK;
    pthread_mutex_unlock(&waits_lock);
    return status;
}

int weft_device_wait_open_now(const struct weft_device_kind *kind, int ordinal, struct weft_device_wait *wait)
{
    int status = kind->ops.wait_open(wait, NULL);
    if (status != WEFT_OK)
        weft_log(WEFT_LOG_ERROR, "a stream on %s device %d stays closed: %s", kind->name, ordinal,
                 weft_error_detail());
    return status;
}

void weft_device_wait_forget(const struct weft_device_kind *kind, struct weft_device_wait *wait)
{
    kind->ops.wait_free(wait);
    pthread_mutex_lock(&waits_lock);
    waits_closed--;
    pthread_mutex_unlock(&waits_lock);
}

void weft_device_wait_open(const struct weft_device_kind *kind, int ordinal, struct weft_device_wait *wait)
{
    weft_device_wait_open_now(kind, ordinal, wait);
    weft_device_wait_forget(kind, wait);
}

void weft_device_waits_count(int change)
{
    pthread_mutex_lock(&waits_lock);
    waits_closed += (uint32_t)change;
    pthread_mutex_unlock(&waits_lock);
}

void weft_command_queues_without_waits(void (*act)(void *arg), void *arg)
{
    pthread_mutex_lock(&waits_lock);
    if (!waits_closed)
        act(arg);
    pthread_mutex_unlock(&waits_lock);
}

struct reach {
    const struct weft_device_kind *kind;
    int ordinal;
    const void *memory;
    int is_reached;
};

static void make_reach(void *arg)
{
    struct reach *reach = arg;
    const struct weft_device_ops *ops = &reach->kind->ops;
    reach->is_reached = ops->reaches(reach->kind->device, reach->ordinal, reach->memory, 1);
}

int weft_command_queues_reach(const struct weft_device_kind *kind, int ordinal, const void *memory)
{
    struct reach reach = {kind, ordinal, memory, 0};
    if (kind->ops.reaches(kind->device, ordinal, memory, 0))
        return 1;
    weft_command_queues_without_waits(make_reach, &reach);
    return reach.is_reached;
}
