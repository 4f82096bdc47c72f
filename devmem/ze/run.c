/* SPDX-License-Identifier: Apache-2.0 */
/* Device collectives: what is checked, and how they are launched.
 *
 * A device collective is one launch of one work group (devmem/ze/collective.cl). Its steps lie in host memory of the driver's, which the kernel reads; that
 * is used again when the event behind the kernel has been signalled. All memory that steps name is the driver's own: pinned memory that it
 * did not allocate is refused, as kernels do not reach it.
 *
 * Where it is not known that other queues of the device get on while a kernel waits (probe.c), all are refused.
 *
 * Source: oneAPI Level Zero Specification, "Core Programming Guide", Kernels, Arguments and Launching; Memory, Residency.
 */
#include "devmem/kernels/check.h"
#include "devmem/ze/launch.h"

/* --- checking */

static int reach(void *arg, const void *pointer, const char *prefix, uintptr_t *begin, uintptr_t *end)
{
    const struct weft_device_queue *queue = arg;
    int64_t bytes = weft_ze_reached(queue, pointer, 1, prefix);
    if (bytes == 0)
        return queue->device->params.fail(
            WEFT_UNSUPPORTED,
            "%s%p is pinned memory that Level Zero did not allocate: no kernel can reach it", prefix,
            pointer);
    *begin = (uintptr_t)pointer;
    *end = *begin + (uint64_t)bytes;
    return bytes < 0 ? (int)bytes : WEFT_OK;
}

static int stop_check(const struct weft_device_queue *queue, const uint64_t *stop)
{
    const struct weft_device_params *params = &queue->device->params;
    struct weft_device_span span;
    int place;
    if (!weft_ze_look(queue->device, stop, &span, &place) || span.kind != WEFT_MEMORY_PINNED)
        return params->fail(WEFT_INVALID, "a device collective's stop is at %p: no pinned memory",
                            (const void *)stop);
    if (place != queue->place)
        return params->fail(WEFT_UNSUPPORTED,
                            "a device collective's stop is at %p: pinned memory that the driver of Level "
                            "Zero device %d did not allocate",
                            (const void *)stop, queue->ordinal);
    return WEFT_OK;
}

static int collective_check(struct weft_device_queue *queue, const struct weft_device_collective *collective)
{
    const struct weft_device_params *params = &queue->device->params;
    int status = weft_kernel_collective_check(params, collective);
    if (status == WEFT_OK && weft_kernel_family(collective->dtype, collective->op) < 0)
        return params->fail(WEFT_UNSUPPORTED, "Level Zero devices do not reduce %s by %s",
                            weft_dtype_name(collective->dtype), weft_op_name(collective->op));
    if (status == WEFT_OK)
        status = stop_check(queue, collective->stop);
    return status == WEFT_OK ? weft_kernel_steps_check(params, collective, reach, queue) : status;
}

/* --- running */

static ze_result_t launch(struct weft_device_queue *queue, ze_kernel_handle_t kernel,
                          const struct weft_ze_steps *steps, uint32_t word_count, const uint64_t *stop,
                          const struct weft_device_event *end)
{
    const struct weft_ze_driver *driver = &queue->device->driver;
    ze_result_t result = driver->zeKernelSetArgumentValue(kernel, 0, sizeof steps->words, &steps->words);
    if (result == ZE_RESULT_SUCCESS)
        result = driver->zeKernelSetArgumentValue(kernel, 1, sizeof stop, &stop);
    if (result == ZE_RESULT_SUCCESS)
        result = driver->zeKernelSetArgumentValue(kernel, 2, sizeof word_count, &word_count);
    if (result == ZE_RESULT_SUCCESS && queue->is_open_ended)
        result = weft_ze_channel_append(queue, &(struct weft_ze_command){.signal = NULL});
    if (result == ZE_RESULT_SUCCESS)
        result = weft_ze_channel_append(
            queue, &(struct weft_ze_command){.kernel = kernel, .blocks = 1, .signal = end->handle});
    return result;
}

/* With memory for the steps. The launch itself signals its end, so that none is ever in flight without one. */
static ze_result_t queue_up(struct weft_device_queue *queue, const struct weft_device_collective *collective,
                            int family, ze_kernel_handle_t kernel, struct weft_ze_steps *steps)
{
    struct weft_device_event *end = weft_ze_event_get(queue->device, queue->ordinal);
    ze_result_t result = end ? ZE_RESULT_SUCCESS : ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY;
    uint32_t used = 0;
    for (uint32_t i = 0; i < collective->step_count; i++)
        used += weft_kernel_step_encode(steps->words + used, collective, &collective->steps[i], family);
    if (result == ZE_RESULT_SUCCESS)
        result = launch(queue, kernel, steps, used, collective->stop, end);
    if (result != ZE_RESULT_SUCCESS) {
        if (end)
            weft_ze_channel_drop(queue, end);
        if (queue->broken == ZE_RESULT_SUCCESS)
            weft_ze_steps_drop(queue, steps);
        return result;
    }
    weft_ze_event_use(end);
    steps->end = end;
    weft_ze_queue_stands(queue, end); /* it may never end, as what else is waited for (queue.c) */
    queue->is_open_ended = 1;
    return result;
}

static int refuse(const struct weft_device_queue *queue)
{
    const struct weft_ze_trial *trial =
        &queue->device->ordinals[queue->ordinal].trials[WEFT_ZE_BESIDE_KERNEL];
    int is_known = atomic_load(&trial->answer) == WEFT_ZE_ANSWER_NO;
    return queue->device->params.fail(WEFT_UNSUPPORTED, "Level Zero device %d runs no device collectives%s%s",
                                      queue->ordinal, is_known ? ": " : "", is_known ? trial->text : "");
}

/* Who has switched device collectives off is not bothered. */
static void say_limit(struct weft_device_queue *queue)
{
    atomic_int *limit_ms = &queue->device->ordinals[queue->ordinal].limit_ms;
    int ms = atomic_load(limit_ms) ? atomic_exchange(limit_ms, 0) : 0;
    if (ms)
        queue->device->params.log(
            WEFT_DEVICE_LOG_WARN,
            "the kernel's driver may reset Level Zero device %d when a device collective "
            "waits for a peer for longer than %d ms (docs/levelzero.md, Resets)",
            queue->ordinal, ms);
}

int weft_ze_run(struct weft_device_queue *queue, const struct weft_device_collective *collective)
{
    struct weft_ze_steps *steps;
    if (!weft_ze_meets(queue->device, queue->ordinal))
        return refuse(queue);
    int status = weft_ze_queue_check(queue);
    if (status == WEFT_OK)
        status = collective_check(queue, collective);
    if (status != WEFT_OK)
        return status;
    int family = weft_kernel_family(collective->dtype, collective->op);
    struct weft_ze_launcher *launcher =
        weft_ze_launcher_lock(queue, WEFT_ZE_COLLECTIVES + family, collective->op, &status);
    if (!launcher)
        return status;
    say_limit(queue);
    ze_result_t result = weft_ze_steps_take(
        queue, (size_t)collective->step_count * WEFT_KERNEL_STEP_WORDS_MAX * sizeof(uint64_t), &steps);
    if (result == ZE_RESULT_SUCCESS)
        result = queue_up(queue, collective, family, launcher->kernels[WEFT_ZE_COLLECTIVES + family], steps);
    pthread_mutex_unlock(&launcher->lock);
    return result == ZE_RESULT_SUCCESS
               ? WEFT_OK
               : weft_ze_fail(queue->device, result, "launching a device collective on device %d",
                              queue->ordinal);
}
