/* SPDX-License-Identifier: Apache-2.0 */
/* Mapping device memory of other processes.
 *
 * A handle that is imported again, by any weft_device of the process, gives the same address and is counted: a legacy handle may be
 * opened once per context. Handles are compared as a whole, so what an exporter made of memory that took another's place is
 * another handle (the driver's own handles differ then, says its reference; the offer's serial does, too).
 */
#include <stdlib.h>
#include <string.h>
#include "base/fd.h"
#include "devmem/cuda/handle.h"

#define LENGTH_MAX (UINT64_C(1) << 47)

struct import {
    struct weft_cuda_handle handle;
    int ordinal;
    unsigned count;
    cuda_pointer base;
    cuda_pool pool;
    struct import *next;
};

static struct {
    pthread_mutex_t lock;
    struct import *list;
} imports = {.lock = PTHREAD_MUTEX_INITIALIZER};

static int parse(struct weft_device *device, const struct weft_device_handle *given,
                 struct weft_cuda_handle *handle)
{
    const char *wrong = NULL;
    memset(handle, 0, sizeof *handle);
    memcpy(handle, given->bytes, given->bytes_used < sizeof *handle ? given->bytes_used : sizeof *handle);
    if (given->bytes_used != weft_cuda_handle_size(handle))
        return device->params.fail(WEFT_PROTOCOL, "a handle of CUDA memory has %u bytes, expected are %u",
                                   given->bytes_used, weft_cuda_handle_size(handle));
    int is_legacy = handle->method == WEFT_CUDA_LEGACY;
    if (handle->magic != WEFT_CUDA_HANDLE_MAGIC)
        wrong = "it is not of this kind";
    else if (handle->version != WEFT_CUDA_HANDLE_VERSION)
        wrong = "it is of another version";
    else if (handle->check != weft_cuda_handle_check(handle))
        wrong = "its bytes have changed";
    else if (handle->method < WEFT_CUDA_LEGACY || handle->method > WEFT_CUDA_POOL)
        wrong = "its method is unknown";
    else if (is_legacy ? handle->type != 0
                       : handle->type != CUDA_HANDLE_POSIX_FD && handle->type != CUDA_HANDLE_FABRIC)
        wrong = "its type is unknown";
    else if (handle->length == 0 || handle->length > LENGTH_MAX)
        wrong = "its length is impossible";
    else if (handle->type == CUDA_HANDLE_POSIX_FD &&
             (handle->slot >= WEFT_OFFER_SLOTS || handle->pid <= 0 || !handle->serial))
        wrong = "it names no descriptor";
    return wrong ? device->params.fail(WEFT_PROTOCOL, "a handle of CUDA memory cannot be used: %s", wrong)
                 : WEFT_OK;
}

/* The device that has the memory may be one of this process's, by another number. */
static int check_peer(struct weft_device *device, int ordinal, const struct weft_cuda_handle *handle)
{
    for (int i = 0; i < device->count; i++) {
        int can = 1;
        if (i == ordinal || weft_cuda_uuid_hash(device, i) != handle->device)
            continue;
        device->driver.device_can_access_peer(&can, device->ordinals[ordinal].device,
                                              device->ordinals[i].device);
        if (!can)
            return device->params.fail(WEFT_UNSUPPORTED, "CUDA device %d cannot reach memory on device %d",
                                       ordinal, i);
    }
    return WEFT_OK;
}

/* What the driver says of bytes that are wrong is the fault of who wrote them. */
static int fail_import(struct weft_device *device, const struct import *import, int result)
{
    int status =
        weft_cuda_fail(device, result, "mapping %llu bytes of device memory of process %d on device %d",
                       (unsigned long long)import->handle.length, import->handle.pid, import->ordinal);
    switch (result) {
    case CUDA_INVALID_VALUE:
    case CUDA_INVALID_HANDLE:
    case CUDA_INVALID_CONTEXT:
    case CUDA_MAP_FAILED:
    case CUDA_OPERATING_SYSTEM:
    case CUDA_NOT_FOUND:
        return WEFT_PROTOCOL;
    default:
        return status;
    }
}

static struct cuda_access access_of(int place)
{
    return (struct cuda_access){CUDA_LOCATION_DEVICE, place, CUDA_ACCESS_READ_WRITE};
}

/* A result of the driver's, as below. */
static int map(struct weft_device *device, struct import *import, cuda_allocation allocation)
{
    const struct weft_cuda_driver *driver = &device->driver;
    struct cuda_access access = access_of(device->ordinals[import->ordinal].device);
    uint64_t length = import->handle.length;
    int result = driver->reserve(&import->base, length, 0, 0, 0);
    if (result)
        return result;
    result = driver->map(import->base, length, 0, allocation, 0);
    if (!result) {
        result = driver->set_access(import->base, length, &access, 1);
        if (result)
            driver->unmap(import->base, length);
    }
    if (result)
        driver->unreserve(import->base, length);
    return result;
}

static int open_pool(struct weft_device *device, struct import *import)
{
    const struct weft_cuda_driver *driver = &device->driver;
    struct cuda_access access = access_of(device->ordinals[import->ordinal].device);
    int result = driver->pool_set_access(import->pool, &access, 1);
    if (!result)
        result = driver->pool_import_pointer(&import->base, import->pool, &import->handle.pointer);
    if (result)
        driver->pool_destroy(import->pool);
    return result;
}

/* The driver takes a descriptor as if it were a pointer. */
static int open_shareable(struct weft_device *device, struct import *import, int fd)
{
    const struct weft_cuda_driver *driver = &device->driver;
    cuda_allocation allocation;
    int type = import->handle.type;
    void *shareable = type == CUDA_HANDLE_POSIX_FD ? (void *)(intptr_t)fd : (void *)&import->handle.handle;
    int result;
    if (import->handle.method == WEFT_CUDA_POOL) {
        result = driver->pool_import(&import->pool, shareable, type, 0);
        return result ? result : open_pool(device, import);
    }
    result = driver->import_allocation(&allocation, shareable, type);
    if (result)
        return result;
    result = map(device, import, allocation);
    driver->release_allocation(allocation); /* the mapping keeps it */
    return result;
}

static int import_open(struct weft_device *device, struct import *import)
{
    int result, fd = -1;
    if (import->handle.method == WEFT_CUDA_LEGACY) {
        result = device->driver.ipc_open(&import->base, import->handle.handle, CUDA_IPC_LAZY_PEER_ACCESS);
    } else {
        const struct weft_offer offer = weft_cuda_handle_offer(&import->handle);
        int status = import->handle.type == CUDA_HANDLE_POSIX_FD
                         ? weft_offer_fetch(&device->params, &offer, &fd)
                         : WEFT_OK;
        if (status)
            return status;
        result = open_shareable(device, import, fd);
        if (fd >= 0)
            weft_fd_close(fd);
    }
    return result ? fail_import(device, import, result) : WEFT_OK;
}

/* With the lock. */
static int import_get(struct weft_device *device, int ordinal, const struct weft_cuda_handle *handle,
                      struct import **got)
{
    for (struct import *import = imports.list; import; import = import->next) {
        if (import->ordinal == ordinal && memcmp(&import->handle, handle, sizeof *handle) == 0) {
            import->count++;
            *got = import;
            return WEFT_OK;
        }
    }
    struct import *import = calloc(1, sizeof *import);
    if (!import)
        return device->params.fail(WEFT_NOMEM, "no memory to remember imported device memory");
    import->handle = *handle;
    import->ordinal = ordinal;
    import->count = 1;
    int status = import_open(device, import);
    if (status) {
        free(import);
        return status;
    }
    import->next = imports.list;
    imports.list = import;
    *got = import;
    return WEFT_OK;
}

int weft_cuda_is_imported(int ordinal, const void *pointer)
{
    pthread_mutex_lock(&imports.lock);
    const struct import *import = imports.list;
    while (import && (import->ordinal != ordinal || (cuda_pointer)pointer < import->base ||
                      (cuda_pointer)pointer - import->base >= import->handle.length))
        import = import->next;
    pthread_mutex_unlock(&imports.lock);
    return import != NULL;
}

static int refuse_own(struct weft_device *device, const struct weft_cuda_handle *handle)
{
    struct weft_cuda_memory memory;
    if (weft_cuda_look(device, (const void *)handle->base, &memory) ||
        memory.span.identity != handle->identity)
        return device->params.fail(WEFT_PROTOCOL,
                                   "a handle of device memory of this same process, which is freed");
    return device->params.fail(WEFT_UNSUPPORTED, "device memory of this same process is used by its pointer");
}

int weft_cuda_import_ipc(struct weft_device *device, int ordinal, const struct weft_device_handle *given,
                         void **base)
{
    struct weft_cuda_turn turn;
    struct weft_cuda_handle handle;
    struct import *import = NULL;
    int status = parse(device, given, &handle);
    if (status)
        return status;
    status = weft_cuda_check(device, ordinal);
    const struct weft_offer offer = weft_cuda_handle_offer(&handle);
    if (!status && weft_offer_is_mine(&offer))
        status = refuse_own(device, &handle);
    if (status)
        return status;
    status = weft_cuda_enter(device, ordinal, &turn);
    if (status)
        return status;
    status = check_peer(device, ordinal, &handle);
    if (!status) {
        pthread_mutex_lock(&imports.lock);
        status = import_get(device, ordinal, &handle, &import);
        if (!status)
            *base = (void *)import->base;
        pthread_mutex_unlock(&imports.lock);
    }
    weft_cuda_leave(&turn);
    return status;
}

/* A result of the driver's: the first that is not good. */
static int import_close(struct weft_device *device, const struct import *import)
{
    const struct weft_cuda_driver *driver = &device->driver;
    if (import->handle.method == WEFT_CUDA_LEGACY)
        return driver->ipc_close(import->base);
    if (import->handle.method == WEFT_CUDA_POOL) {
        int released = driver->release(import->base), destroyed = driver->pool_destroy(import->pool);
        return released ? released : destroyed;
    }
    int unmapped = driver->unmap(import->base, import->handle.length);
    int unreserved = driver->unreserve(import->base, import->handle.length);
    return unmapped ? unmapped : unreserved;
}

int weft_cuda_unimport(struct weft_device *device, void *base)
{
    struct weft_cuda_turn turn;
    pthread_mutex_lock(&imports.lock);
    struct import **link = &imports.list, *import;
    while ((import = *link) && import->base != (cuda_pointer)base)
        link = &import->next;
    int is_last = import && --import->count == 0;
    if (is_last)
        *link = import->next;
    pthread_mutex_unlock(&imports.lock);
    if (!import)
        return device->params.fail(WEFT_INVALID, "%p is not device memory that was imported", base);
    if (!is_last)
        return WEFT_OK;
    int result = CUDA_SUCCESS;
    int status = weft_cuda_enter(device, import->ordinal, &turn);
    if (!status) {
        result = import_close(device, import);
        weft_cuda_leave(&turn);
    }
    free(import);
    return result ? weft_cuda_fail(device, result, "unmapping imported device memory at %p", base) : status;
}
