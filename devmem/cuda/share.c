/* SPDX-License-Identifier: Apache-2.0 */
/* Making device memory known to NICs and to other processes. */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>
#include "base/fd.h"
#include "base/hash.h"
#include "devmem/cuda/handle.h"

/* Others will read and write the memory behind the driver's back. From then on calls of the program's that are called synchronous
 * (cudaMemcpy between devices) have to be. Not of VMM and pools, where the driver refuses; nothing follows from that. */
static void synchronise_memory(struct weft_device *device, const struct weft_device_span *span)
{
    unsigned yes = 1;
    device->driver.pointer_set(&yes, CUDA_POINTER_SYNC_MEMOPS, span->base);
}

/* The driver wants whole pages, which may be of several mappings. */
int weft_cuda_export_dmabuf(struct weft_device *device, const void *memory, size_t size, int *fd,
                            uint64_t *offset)
{
    struct weft_cuda_turn turn;
    struct weft_cuda_memory known;
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), begin = (uint64_t)memory & ~(page - 1);
    uint64_t end = ((uint64_t)memory + size + page - 1) & ~(page - 1);
    int status = weft_cuda_look_device(device, memory, &known), made = -1;
    if (status)
        return status;
    if (!size || end <= begin || !weft_cuda_is_known(device, memory, size))
        return device->params.fail(WEFT_INVALID, "%zu bytes at %p cannot be exported", size, memory);
    int ordinal = known.span.ordinal;
    if (!device->ordinals[ordinal].has_dmabuf)
        return device->params.fail(
            WEFT_UNSUPPORTED,
            "device %d with a driver for CUDA %d.%d exports no dma-buf (needed: 11.7, and the "
            "open kernel modules)",
            ordinal, device->driver.version / 1000, device->driver.version % 1000 / 10);
    status = weft_cuda_enter(device, ordinal, &turn);
    if (status)
        return status;
    int result = device->driver.get_range_handle(&made, begin, end - begin, CUDA_RANGE_DMABUF, 0);
    if (!result)
        synchronise_memory(device, &known.span);
    weft_cuda_leave(&turn);
    if (result)
        return weft_cuda_fail(device, result, "exporting %zu bytes at %p of device %d as a dma-buf", size,
                              memory, ordinal);
    fcntl(made, F_SETFD, FD_CLOEXEC);
    *fd = made;
    *offset = (uint64_t)memory - begin;
    return WEFT_OK;
}

/* What the device does not order by itself the driver flushes. Every GPU that kernels are built for does, on the machines that
 * NVIDIA supports. */
int weft_cuda_flush_writes(struct weft_device *device, int ordinal)
{
    struct weft_cuda_turn turn;
    int status = weft_cuda_check(device, ordinal);
    if (status || device->ordinals[ordinal].orders_writes)
        return status;
    if (!device->ordinals[ordinal].can_flush_writes)
        return device->params.fail(
            WEFT_UNSUPPORTED,
            "device %d neither orders what NICs write nor can flush it, so that NICs must not write there",
            ordinal);
    status = weft_cuda_enter(device, ordinal, &turn);
    if (status)
        return status;
    int result = device->driver.flush_writes(CUDA_FLUSH_THIS_CONTEXT, CUDA_ORDERED_FOR_OWNER);
    weft_cuda_leave(&turn);
    return result ? weft_cuda_fail(device, result, "flushing what NICs wrote into device %d", ordinal)
                  : WEFT_OK;
}

void weft_cuda_uuid(struct weft_device *device, int ordinal, uint8_t uuid[16])
{
    const struct weft_cuda_driver *driver = &device->driver;
    int place = device->ordinals[ordinal].device;
    /* The second version gives a MIG instance's own, the first that of the GPU it is a part of. */
    if (driver->device_get_uuid_v2 ? driver->device_get_uuid_v2(uuid, place)
                                   : driver->device_get_uuid(uuid, place))
        memset(uuid, 0, 16);
}

uint32_t weft_cuda_handle_check(const struct weft_cuda_handle *handle)
{
    struct weft_cuda_handle copy = *handle;
    copy.check = 0;
    uint64_t hash = weft_hash_bytes(WEFT_HASH_START, &copy, sizeof copy);
    return (uint32_t)(hash ^ hash >> 32);
}

struct weft_offer weft_cuda_handle_offer(const struct weft_cuda_handle *handle)
{
    struct weft_offer offer = {.serial = handle->serial, .pid = handle->pid, .slot = handle->slot};
    memcpy(offer.key, handle->key, sizeof offer.key);
    return offer;
}

void weft_cuda_handle_set_offer(struct weft_cuda_handle *handle, const struct weft_offer *offer)
{
    memcpy(handle->key, offer->key, sizeof handle->key);
    handle->pid = offer->pid;
    handle->slot = offer->slot;
    handle->serial = offer->serial;
}

uint16_t weft_cuda_uuid_hash(struct weft_device *device, int ordinal)
{
    uint8_t uuid[16];
    weft_cuda_uuid(device, ordinal, uuid);
    uint64_t hash = weft_hash_bytes(WEFT_HASH_START, uuid, sizeof uuid);
    return (uint16_t)(hash ^ hash >> 32);
}

/* A descriptor (*fd) or a fabric handle of the memory or its pool. A result of the driver's. */
static int export_shareable(const struct weft_cuda_driver *driver, const struct weft_cuda_memory *memory,
                            struct weft_cuda_handle *handle, int *fd)
{
    void *place = handle->type == CUDA_HANDLE_POSIX_FD ? (void *)fd : (void *)&handle->handle;
    if (memory->pool)
        return driver->pool_export(place, memory->pool, handle->type, 0);
    cuda_allocation allocation;
    int result = driver->retain_allocation(&allocation, (void *)memory->span.base);
    if (result)
        return result;
    result = driver->export_allocation(place, allocation, handle->type, 0);
    driver->release_allocation(allocation);
    return result;
}

static int is_current(void *arg, const struct weft_offer_memory *offered)
{
    struct weft_cuda_memory memory;
    return weft_cuda_look(arg, (const void *)offered->base, &memory) == WEFT_OK &&
           memory.span.identity == offered->identity;
}

/* VMM and pools; the device's context is current. */
static int export_by_type(struct weft_device *device, const struct weft_cuda_memory *memory,
                          struct weft_cuda_handle *handle, struct weft_offer *offer)
{
    struct weft_offer_memory offered = {
        .owner = &weft_cuda_ops, .base = memory->span.base, .identity = memory->span.identity};
    int fd = -1, result = CUDA_SUCCESS;
    handle->method = memory->pool ? WEFT_CUDA_POOL : WEFT_CUDA_VMM;
    handle->type = memory->handle_types & CUDA_HANDLE_POSIX_FD ? CUDA_HANDLE_POSIX_FD : CUDA_HANDLE_FABRIC;
    if (memory->pool)
        result = device->driver.pool_export_pointer(&handle->pointer, memory->span.base);
    if (!result && handle->type == CUDA_HANDLE_POSIX_FD &&
        weft_offer_find(&offered, is_current, device, offer))
        return WEFT_OK;
    if (!result)
        result = export_shareable(&device->driver, memory, handle, &fd);
    if (result)
        return weft_cuda_fail(device, result, "exporting %p of device %d to other processes",
                              (void *)memory->span.base, memory->span.ordinal);
    if (handle->type != CUDA_HANDLE_POSIX_FD)
        return WEFT_OK;
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    fd = weft_fd_add(fd);
    return fd >= 0 ? weft_offer_put(&device->params, &offered, fd, offer)
                   : device->params.fail(WEFT_NOMEM, "no memory to remember the descriptor of device memory");
}

static int export_legacy(struct weft_device *device, const struct weft_cuda_memory *memory,
                         struct weft_cuda_handle *handle)
{
    handle->method = WEFT_CUDA_LEGACY;
    int result = device->driver.ipc_get(&handle->handle, memory->span.base);
    if (!result)
        synchronise_memory(device, &memory->span);
    return result ? weft_cuda_fail(device, result, "exporting %p of device %d to other processes",
                                   (void *)memory->span.base, memory->span.ordinal)
                  : WEFT_OK;
}

int weft_cuda_export_ipc(struct weft_device *device, const void *memory, struct weft_device_handle *exported,
                         uint64_t *offset)
{
    struct weft_cuda_turn turn;
    struct weft_cuda_memory known;
    struct weft_cuda_handle handle = {.magic = WEFT_CUDA_HANDLE_MAGIC, .version = WEFT_CUDA_HANDLE_VERSION};
    struct weft_offer offer = {.slot = 0};
    int status = weft_cuda_look_device(device, memory, &known);
    if (status)
        return status;
    if (!(known.span.flags & WEFT_SPAN_IPC))
        return device->params.fail(WEFT_UNSUPPORTED,
                                   "%p of device %d cannot be shared with other processes: it was %s", memory,
                                   known.span.ordinal,
                                   known.pool || known.handle_types == 0
                                       ? "allocated without a handle type that allows it"
                                       : "mapped piece by piece, which this driver does not tell apart");
    status = weft_offer_sign(&device->params, &offer);
    if (!status)
        status = weft_cuda_enter(device, known.span.ordinal, &turn);
    if (status)
        return status;
    handle.base = known.span.base;
    handle.length = known.span.length;
    handle.identity = known.span.identity;
    handle.device = weft_cuda_uuid_hash(device, known.span.ordinal);
    status = known.is_legacy_ipc ? export_legacy(device, &known, &handle)
                                 : export_by_type(device, &known, &handle, &offer);
    weft_cuda_leave(&turn);
    if (status)
        return status;
    weft_cuda_handle_set_offer(&handle, &offer);
    handle.check = weft_cuda_handle_check(&handle);
    memcpy(exported->bytes, &handle, sizeof handle);
    exported->bytes_used = weft_cuda_handle_size(&handle);
    *offset = (uint64_t)memory - known.span.base;
    return WEFT_OK;
}
