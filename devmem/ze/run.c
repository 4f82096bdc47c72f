/* SPDX-License-Identifier: Apache-2.0 */
/* Device collectives: what is checked, and how they are launched.
 *
 * A device collective is one launch of one work group (devmem/ze/collective.cl). Its steps lie in host memory of the driver's, which the kernel reads; that
 * is used again when the event behind the kernel has been signalled. All memory that steps name is the driver's own: pinned memory that it
 * did not allocate is refused, as kernels do not reach it.
 *
 * Where it is not known that kernels in two queues of the device get on beside each other (probe.c), all are refused.
 *
 * Source: oneAPI Level Zero Specification, "Core Programming Guide", Kernels, Arguments and Launching; Memory, Residency.
 */
#include <stdio.h>

#include "devmem/ze/launch.h"

#define SPANS_KNOWN 16

/* --- checking */

/* Memory that the queue's kernels reach. */
struct reach {
    const struct weft_device_queue *queue;
    uint32_t step;        /* that is being checked */
    uint32_t count, next; /* next: to be replaced */
    struct {
        uintptr_t begin, end;
    } known[SPANS_KNOWN];
};

/* How far from an address on; 0: nobody has looked. */
static uint64_t left_in_known(const struct reach *reach, uintptr_t at)
{
    for (uint32_t i = 0; i < reach->count; i++) {
        if (at >= reach->known[i].begin && at < reach->known[i].end)
            return reach->known[i].end - at;
    }
    return 0;
}

static int64_t look(struct reach *reach, uintptr_t at)
{
    char prefix[48];
    snprintf(prefix, sizeof prefix, "step %u of a device collective: ", reach->step);
    int64_t bytes = weft_ze_reached(reach->queue, (const void *)at, prefix);
    if (bytes == 0)
        return reach->queue->device->params.fail(
            WEFT_UNSUPPORTED,
            "%s%p is pinned memory that Level Zero did not allocate: no kernel can reach it", prefix,
            (const void *)at);
    if (bytes < 0)
        return bytes;
    uint32_t place = reach->count < SPANS_KNOWN ? reach->count : reach->next++ % SPANS_KNOWN;
    reach->known[place].begin = at;
    reach->known[place].end = at + (uint64_t)bytes;
    reach->count += place == reach->count;
    return bytes;
}

/* All size bytes, which may lie in several spans. */
static int reach_check(struct reach *reach, const void *pointer, uint64_t size)
{
    uintptr_t at = (uintptr_t)pointer;
    while (size) {
        int64_t left = (int64_t)left_in_known(reach, at);
        if (!left && (left = look(reach, at)) < 0)
            return (int)left;
        uint64_t piece = (uint64_t)left < size ? (uint64_t)left : size;
        at += piece;
        size -= piece;
    }
    return WEFT_OK;
}

static int step_check(struct reach *reach, const struct weft_device_collective *collective, uint32_t number)
{
    const struct weft_device_params *params = &reach->queue->device->params;
    const struct weft_device_step *step = &collective->steps[number];
    uint64_t bytes;
    int status = WEFT_OK;
    reach->step = number;
    if (step->kind > WEFT_DEVICE_STEP_AWAIT)
        return params->fail(WEFT_INVALID, "step %u of a device collective is of kind %u: expected 0 to %d",
                            number, step->kind, WEFT_DEVICE_STEP_AWAIT);
    if (step->kind != WEFT_DEVICE_STEP_REDUCE && (uintptr_t)step->word % sizeof *step->word)
        return params->fail(WEFT_INVALID,
                            "step %u of a device collective has its word at %p: expected a multiple of %zu",
                            number, (void *)step->word, sizeof *step->word);
    if (step->kind != WEFT_DEVICE_STEP_REDUCE)
        return reach_check(reach, step->word, sizeof *step->word);
    if (step->source_count < 1 || step->source_count > WEFT_DEVICE_SOURCES_MAX ||
        step->destination_count < 1 || step->destination_count > WEFT_DEVICE_DESTINATIONS_MAX)
        return params->fail(
            WEFT_INVALID,
            "step %u of a device collective reduces %u sources (1 to %d) to %u destinations (1 to %d)",
            number, step->source_count, WEFT_DEVICE_SOURCES_MAX, step->destination_count,
            WEFT_DEVICE_DESTINATIONS_MAX);
    if (__builtin_mul_overflow(step->count, weft_dtype_size(collective->dtype), &bytes))
        return params->fail(WEFT_INVALID,
                            "step %u of a device collective has %llu elements: more than there is memory",
                            number, (unsigned long long)step->count);
    for (uint32_t i = 0; i < step->source_count && status == WEFT_OK; i++)
        status = reach_check(reach, step->sources[i], bytes);
    for (uint32_t i = 0; i < step->destination_count && status == WEFT_OK; i++)
        status = reach_check(reach, step->destinations[i], bytes);
    return status;
}

static int stop_check(const struct weft_device_queue *queue, const uint64_t *stop)
{
    const struct weft_device_params *params = &queue->device->params;
    struct weft_device_span span;
    int place;
    if ((uintptr_t)stop % sizeof *stop)
        return params->fail(WEFT_INVALID, "a device collective's stop is at %p: expected a multiple of %zu",
                            (const void *)stop, sizeof *stop);
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

static int collective_check(const struct weft_device_queue *queue,
                            const struct weft_device_collective *collective)
{
    const struct weft_device_params *params = &queue->device->params;
    struct reach reach = {.queue = queue};
    if (collective->size < sizeof *collective)
        return params->fail(WEFT_INVALID, "a device collective's struct has %zu bytes: expected %zu",
                            collective->size, sizeof *collective);
    if (collective->step_count < 1 || collective->step_count > WEFT_DEVICE_STEPS_MAX)
        return params->fail(WEFT_INVALID, "a device collective of %u steps: expected 1 to %d",
                            collective->step_count, WEFT_DEVICE_STEPS_MAX);
    if (weft_kernel_family(collective->dtype, collective->op) < 0)
        return params->fail(WEFT_UNSUPPORTED, "Level Zero devices do not reduce %s by %s",
                            weft_dtype_name(collective->dtype), weft_op_name(collective->op));
    int status = stop_check(queue, collective->stop);
    for (uint32_t i = 0; i < collective->step_count && status == WEFT_OK; i++)
        status = step_check(&reach, collective, i);
    return status;
}

/* --- running */

static ze_result_t launch(struct weft_device_queue *queue, ze_kernel_handle_t kernel,
                          const struct weft_ze_steps *steps, uint32_t word_count, const uint64_t *stop)
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
        result = weft_ze_channel_append(queue, &(struct weft_ze_command){.kernel = kernel, .blocks = 1});
    return result;
}

/* Behind a device collective, as behind what else may never end (queue.c). */
static ze_result_t mark_end(struct weft_device_queue *queue, struct weft_ze_steps *steps,
                            struct weft_device_event *behind)
{
    queue->is_open_ended = 1;
    ze_result_t result = weft_ze_channel_append(queue, &(struct weft_ze_command){.signal = behind->handle});
    if (result != ZE_RESULT_SUCCESS) {
        weft_ze_event_unused(behind);
        return result;
    }
    weft_ze_event_use(behind);
    steps->end = behind;
    weft_ze_queue_stands(queue, behind);
    return result;
}

/* With memory for the steps. */
static ze_result_t queue_up(struct weft_device_queue *queue, const struct weft_device_collective *collective,
                            int family, ze_kernel_handle_t kernel, struct weft_ze_steps *steps)
{
    struct weft_device_event *behind = weft_ze_event_get(queue->device, queue->ordinal);
    ze_result_t result = behind ? ZE_RESULT_SUCCESS : ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY;
    uint32_t used = 0;
    for (uint32_t i = 0; i < collective->step_count; i++)
        used += weft_kernel_step_encode(steps->words + used, collective, &collective->steps[i], family);
    if (result == ZE_RESULT_SUCCESS)
        result = launch(queue, kernel, steps, used, collective->stop);
    if (result == ZE_RESULT_SUCCESS)
        return mark_end(queue, steps, behind);
    if (behind)
        weft_ze_event_unused(behind);
    weft_ze_steps_drop(queue, steps);
    return result;
}

static int refuse(const struct weft_device_queue *queue)
{
    char text[WEFT_ZE_TEXT] = "";
    struct weft_ze_launcher *launcher =
        weft_ze_has_kernels() ? weft_ze_launcher_look(queue->device, queue->ordinal) : NULL;
    if (launcher) {
        snprintf(text, sizeof text, "%s", launcher->meets_text);
        pthread_mutex_unlock(&launcher->lock);
    }
    return queue->device->params.fail(WEFT_UNSUPPORTED, "Level Zero device %d runs no device collectives%s%s",
                                      queue->ordinal, *text ? ": " : "", text);
}

int weft_ze_run(struct weft_device_queue *queue, const struct weft_device_collective *collective)
{
    struct weft_ze_steps *steps;
    if (!weft_ze_meets(queue->device, queue->ordinal))
        return refuse(queue);
    int status = collective_check(queue, collective);
    if (status != WEFT_OK)
        return status;
    int family = weft_kernel_family(collective->dtype, collective->op);
    struct weft_ze_launcher *launcher =
        weft_ze_launcher_lock(queue, WEFT_ZE_COLLECTIVES + family, collective->op, &status);
    if (!launcher)
        return status;
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
