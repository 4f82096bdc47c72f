/* SPDX-License-Identifier: Apache-2.0 */
/* Gates of this process's lanes, counted: what makes a driver wait for a whole device must not be done while one is closed. */
#include <pthread.h>

#include "base/error.h"
#include "base/log.h"
#include "devmem/lane.h"

/* Of the whole process: a driver that waits for a device waits for all streams there. */
static pthread_mutex_t gates_lock = PTHREAD_MUTEX_INITIALIZER;
static uint32_t gates_closed;

int weft_gate_close(const struct weft_device_kind *kind, int ordinal, void *stream,
                    struct weft_device_gate **gate)
{
    pthread_mutex_lock(&gates_lock);
    int status = kind->ops.hold(kind->device, ordinal, stream, gate);
    gates_closed += status == WEFT_OK;
    pthread_mutex_unlock(&gates_lock);
    return status;
}

int weft_gate_open_now(const struct weft_device_kind *kind, int ordinal, struct weft_device_gate *gate)
{
    int status = kind->ops.open_gate(gate, NULL);
    if (status != WEFT_OK)
        weft_log(WEFT_LOG_ERROR, "a stream on %s device %d stays closed: %s", kind->name, ordinal,
                 weft_error_detail());
    return status;
}

void weft_gate_forget(const struct weft_device_kind *kind, struct weft_device_gate *gate)
{
    kind->ops.gate_free(gate);
    pthread_mutex_lock(&gates_lock);
    gates_closed--;
    pthread_mutex_unlock(&gates_lock);
}

void weft_gate_open(const struct weft_device_kind *kind, int ordinal, struct weft_device_gate *gate)
{
    weft_gate_open_now(kind, ordinal, gate);
    weft_gate_forget(kind, gate);
}

void weft_gates_count(int change)
{
    pthread_mutex_lock(&gates_lock);
    gates_closed += (uint32_t)change;
    pthread_mutex_unlock(&gates_lock);
}

void weft_lanes_without_gates(void (*act)(void *arg), void *arg)
{
    pthread_mutex_lock(&gates_lock);
    if (!gates_closed)
        act(arg);
    pthread_mutex_unlock(&gates_lock);
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

int weft_lanes_reach(const struct weft_device_kind *kind, int ordinal, const void *memory)
{
    struct reach reach = {kind, ordinal, memory, 0};
    if (kind->ops.reaches(kind->device, ordinal, memory, 0))
        return 1;
    weft_lanes_without_gates(make_reach, &reach);
    return reach.is_reached;
}
