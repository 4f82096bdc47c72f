/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of weft's own, for staging, tests and tools. */
#include <stdlib.h>
#include "devmem/cuda/cuda.h"

int weft_cuda_allocate(struct weft_device *device, int ordinal, enum weft_memory_kind kind, size_t size,
                       void **memory)
{
    const struct weft_cuda_driver *driver = &device->driver;
    struct weft_cuda_turn turn;
    cuda_pointer pointer = 0;
    void *host = NULL;
    int result;
    if (kind != WEFT_MEMORY_DEVICE && kind != WEFT_MEMORY_PINNED)
        return device->params.fail(WEFT_UNSUPPORTED, "memory of kind %d cannot be allocated", kind);
    if (!size)
        return device->params.fail(WEFT_INVALID, "no memory is asked for");
    if (kind == WEFT_MEMORY_PINNED && ordinal == -1)
        ordinal = weft_cuda_some_ordinal(device);
    int status = weft_cuda_enter(device, ordinal, &turn);
    if (status)
        return status;
    struct weft_cuda_allocation *allocation = malloc(sizeof *allocation);
    if (!allocation) {
        weft_cuda_leave(&turn);
        return device->params.fail(WEFT_NOMEM, "no memory to remember an allocation");
    }
    if (kind == WEFT_MEMORY_DEVICE)
        result = driver->allocate(&pointer, size);
    else
        result = driver->host_allocate(&host, size, CUDA_HOST_PORTABLE | CUDA_HOST_DEVICEMAP);
    weft_cuda_leave(&turn);
    if (result) {
        free(allocation);
        return weft_cuda_fail(device, result, "allocating %zu bytes of %s memory on device %d", size,
                              kind == WEFT_MEMORY_DEVICE ? "device" : "pinned", ordinal);
    }
    *allocation = (struct weft_cuda_allocation){kind == WEFT_MEMORY_DEVICE ? (void *)pointer : host, ordinal,
                                                kind, NULL};
    *memory = allocation->memory;
    pthread_mutex_lock(&device->lock);
    allocation->next = device->allocations;
    device->allocations = allocation;
    pthread_mutex_unlock(&device->lock);
    return WEFT_OK;
}

static struct weft_cuda_allocation *forget(struct weft_device *device, const void *memory)
{
    pthread_mutex_lock(&device->lock);
    struct weft_cuda_allocation **link = &device->allocations, *found;
    while (*link && (*link)->memory != memory)
        link = &(*link)->next;
    found = *link;
    if (found)
        *link = found->next;
    pthread_mutex_unlock(&device->lock);
    return found;
}

int weft_cuda_release(struct weft_device *device, void *memory)
{
    struct weft_cuda_turn turn;
    struct weft_cuda_allocation *allocation = forget(device, memory);
    if (!allocation)
        return device->params.fail(WEFT_INVALID, "%p was not allocated by weft on a CUDA device", memory);
    int status = weft_cuda_enter(device, allocation->ordinal, &turn);
    int result = CUDA_SUCCESS;
    if (!status) {
        result = allocation->kind == WEFT_MEMORY_DEVICE ? device->driver.release((cuda_pointer)memory)
                                                        : device->driver.host_release(memory);
        weft_cuda_leave(&turn);
    }
    free(allocation);
    return result ? weft_cuda_fail(device, result, "releasing %p", memory) : status;
}
