/* SPDX-License-Identifier: Apache-2.0 */
/* Memory for the steps of device collectives: host memory of the driver's, a queue's own. It is used again when the kernel that reads it has ended. */
#include <stdlib.h>

#include "devmem/ze/launch.h"

#define STEPS_BYTES 4096 /* least */

static ze_result_t steps_make(struct weft_device_queue *queue, size_t bytes, struct weft_ze_steps **made)
{
    const ze_host_mem_alloc_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_HOST_MEM_ALLOC_DESC};
    void *words = NULL;
    struct weft_ze_steps *steps = calloc(1, sizeof *steps);
    if (!steps)
        return ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY;
    steps->bytes = bytes > STEPS_BYTES ? bytes : STEPS_BYTES;
    ze_result_t result =
        queue->device->driver.zeMemAllocHost(weft_ze_context_of(queue->device, queue->ordinal), &desc,
                                             steps->bytes, WEFT_KERNEL_VECTOR_BYTES, &words);
    if (result != ZE_RESULT_SUCCESS) {
        free(steps);
        return result;
    }
    steps->words = words;
    steps->next = queue->steps;
    queue->steps = steps;
    *made = steps;
    return result;
}

ze_result_t weft_ze_steps_take(struct weft_device_queue *queue, size_t bytes, struct weft_ze_steps **taken)
{
    for (struct weft_ze_steps *steps = queue->steps; steps; steps = steps->next) {
        if (steps->bytes < bytes || !steps->end ||
            queue->device->driver.zeEventQueryStatus(steps->end->handle) != ZE_RESULT_SUCCESS)
            continue;
        weft_ze_event_put(steps->end);
        steps->end = NULL;
        *taken = steps;
        return ZE_RESULT_SUCCESS;
    }
    return steps_make(queue, bytes, taken);
}

void weft_ze_steps_drop(struct weft_device_queue *queue, struct weft_ze_steps *dropped)
{
    struct weft_ze_steps **at = &queue->steps;
    while (*at != dropped)
        at = &(*at)->next;
    *at = dropped->next;
    queue->device->driver.zeMemFree(weft_ze_context_of(queue->device, queue->ordinal), dropped->words);
    free(dropped);
}

void weft_ze_steps_free(struct weft_device_queue *queue)
{
    struct weft_ze_steps *steps;
    while ((steps = queue->steps)) {
        if (steps->end)
            weft_ze_event_put(steps->end);
        weft_ze_steps_drop(queue, steps);
    }
}
