/* SPDX-License-Identifier: Apache-2.0 */
/* Device collectives: what is checked, and how they are launched.
 *
 * A device collective goes to the device by value, as the parameter of a kernel: nothing has to be allocated, copied or kept for it, whatever
 * becomes of the queue. A parameter holds about 120 steps (devmem/cuda/parameters.h). Longer device collectives are several launches, one behind the other
 * in the queue's stream, without the host in between.
 *
 * The driver is asked whose memory each step uses, once per span.
 *
 * Streams of one process share the hardware's channels to the device (eight, unless CUDA_DEVICE_MAX_CONNECTIONS says otherwise), where
 * a device collective that waits may hold up one that it waits for. So the kind does not promise that they get on beside each other. Device collectives
 * of different processes take turns on a device.
 */
#include <stdio.h>
#include "devmem/cuda/kernels.h"
#include "devmem/cuda/launch.h"
#include "devmem/kernels/check.h"

int weft_cuda_has_collectives(struct weft_device *device, int ordinal)
{
    struct weft_kernel_device geometry = {0};
    struct weft_kernel_collective_launch launch;
    const struct weft_device_collective least = {.dtype = WEFT_UINT8, .op = WEFT_SUM};
    if (!weft_cuda_has_kernels() || !device->uses_host_pointers ||
        device->driver.device_get_attribute(&geometry.major, CUDA_DEVICE_COMPUTE_MAJOR,
                                            device->ordinals[ordinal].device))
        return 0;
    return weft_kernel_collective(&launch, &geometry, &least, 0) >= 0;
}

int weft_cuda_meeting_take(struct weft_device *device, int ordinal)
{
    struct weft_cuda_launcher *launcher = device->ordinals[ordinal].launcher;
    for (int i = 0; launcher && i < WEFT_KERNEL_MEETINGS; i++) {
        if (!(atomic_fetch_or(&launcher->meetings, 1ULL << i) >> i & 1))
            return i;
    }
    return -1;
}

void weft_cuda_meeting_give(struct weft_device *device, int ordinal, int meeting)
{
    if (meeting >= 0)
        atomic_fetch_and(&device->ordinals[ordinal].launcher->meetings, ~(1ULL << meeting));
}

static int reach(void *arg, const void *pointer, const char *prefix, uintptr_t *begin, uintptr_t *end)
{
    struct weft_device_span span;
    int status = weft_cuda_check_reach(arg, pointer, prefix, &span);
    if (status)
        return status;
    *begin = (uintptr_t)span.base;
    *end = *begin + span.length;
    return WEFT_OK;
}

static int stop_check(struct weft_device_queue *queue, const uint64_t *stop)
{
    const struct weft_device_params *params = &queue->device->params;
    struct weft_cuda_memory memory;
    if (weft_cuda_look(queue->device, stop, &memory) || memory.span.kind != WEFT_MEMORY_PINNED)
        return params->fail(WEFT_INVALID, "a device collective's stop is at %p: no pinned memory",
                            (const void *)stop);
    return WEFT_OK;
}

static int collective_check(struct weft_device_queue *queue, const struct weft_device_collective *collective,
                            const struct weft_cuda_launcher *launcher)
{
    const struct weft_device_params *params = &queue->device->params;
    const struct weft_device_collective none = {.dtype = collective->dtype, .op = collective->op};
    struct weft_kernel_collective_launch launch;
    int status = weft_kernel_collective_check(params, collective);
    if (status)
        return status;
    if (weft_kernel_collective(&launch, &launcher->geometry, &none, 0) < 0)
        return params->fail(WEFT_UNSUPPORTED,
                            "device %d (sm_%d%d) does not reduce %s by %s in device collectives",
                            queue->ordinal, launcher->geometry.major, launcher->geometry.minor,
                            weft_dtype_name(collective->dtype), weft_op_name(collective->op));
    status = stop_check(queue, collective->stop);
    return status ? status : weft_kernel_steps_check(params, collective, reach, queue);
}

/* Behind a device collective, as behind what else may never end; see queue.c. */
static int wait_record(struct weft_device_queue *queue)
{
    struct weft_cuda_turn turn;
    int status = weft_cuda_enter(queue->device, queue->ordinal, &turn);
    if (status)
        return status;
    int result = queue->device->driver.event_record(queue->waited, queue->stream);
    weft_cuda_leave(&turn);
    return result ? weft_cuda_fail(queue->device, result,
                                   "marking the end of a device collective on device %d", queue->ordinal)
                  : WEFT_OK;
}

int weft_cuda_run(struct weft_device_queue *queue, const struct weft_device_collective *collective)
{
    struct weft_kernel_collective_launch launch;
    int status;
    struct weft_cuda_launcher *launcher = weft_cuda_launcher(queue, &status);
    if (launcher)
        status = collective_check(queue, collective, launcher);
    for (uint32_t done = 0; !status && done < collective->step_count;) {
        done += (uint32_t)weft_kernel_collective(&launch, &launcher->geometry, collective, done);
        if (!launch.collective.word_count)
            continue;
        launch.grid = queue->meeting < 0 ? 1 : launch.grid;
        launch.collective.meeting = queue->meeting < 0 ? 0 : (uint32_t)queue->meeting;
        launch.collective.stop = collective->stop;
        status =
            weft_cuda_launch(queue, launcher, launch.kernel, launch.grid, launch.block, &launch.collective);
        if (!status)
            status = wait_record(queue);
    }
    return status;
}
