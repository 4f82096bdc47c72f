/* SPDX-License-Identifier: Apache-2.0 */
/* Mapping device memory of other processes.
 *
 * The dma-buf is mapped by an allocation that imports it. Whether the driver takes the descriptor over the specification does not say, and releases of Intel's
 * driver differ: they close it at once, or when the mapping is freed, or not at all, and keep its number. So it stays open as long as the
 * mapping lives and is closed then, unless the number is no longer this file's.
 *
 * A handle that is imported again gives the same address and is counted. Handles are compared as a whole: what an exporter made of memory
 * that took another's place is another handle, as its identity and the offer's serial are others.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "devmem/ze/handle.h"

struct weft_ze_import {
    struct weft_ze_handle handle;
    int ordinal; /* that asked for it */
    int place;
    unsigned count;
    int fd;        /* -1: the driver has closed it */
    char *mapping; /* all of the dma-buf */
    struct weft_ze_import *next;
};

static int parse(struct weft_device *device, const struct weft_device_handle *given,
                 struct weft_ze_handle *handle)
{
    const char *wrong = NULL;
    if (given->bytes_used != sizeof *handle)
        return device->params.fail(WEFT_PROTOCOL,
                                   "a handle of Level Zero memory has %u bytes, expected are %zu",
                                   given->bytes_used, sizeof *handle);
    memcpy(handle, given->bytes, sizeof *handle);
    if (handle->magic != WEFT_ZE_HANDLE_MAGIC)
        wrong = "it is not of this kind";
    else if (handle->version != WEFT_ZE_HANDLE_VERSION)
        wrong = "it is of another version";
    else if (handle->check != weft_ze_handle_check(handle))
        wrong = "its bytes have changed";
    else if (!handle->length || handle->length > handle->size)
        wrong = "its length is impossible";
    else if (handle->offset > handle->size - handle->length)
        wrong = "its offset is impossible";
    else if (handle->slot >= WEFT_OFFER_SLOTS || handle->pid <= 0 || !handle->serial)
        wrong = "it names no descriptor";
    return wrong
               ? device->params.fail(WEFT_PROTOCOL, "a handle of Level Zero memory cannot be used: %s", wrong)
               : WEFT_OK;
}

static int refuse_own(struct weft_device *device, const struct weft_ze_handle *handle)
{
    struct weft_device_span span;
    int place;
    if (!weft_ze_look(device, (const void *)(uintptr_t)handle->base, &span, &place) ||
        span.identity != handle->identity)
        return device->params.fail(WEFT_PROTOCOL,
                                   "a handle of device memory of this same process, which is freed");
    return device->params.fail(WEFT_UNSUPPORTED, "device memory of this same process is used by its pointer");
}

/* --- whose memory it is */

/* The device that has the uuid, itself or as one of its tiles; -1. */
static int ordinal_by_uuid(const struct weft_device *device, const uint8_t uuid[16])
{
    static const uint8_t unknown[16];
    if (memcmp(uuid, unknown, sizeof unknown) == 0)
        return -1;
    for (int i = 0; i < device->count; i++) {
        const struct weft_ze_ordinal *known = &device->ordinals[i];
        int is_it = memcmp(known->uuid, uuid, sizeof known->uuid) == 0;
        for (uint32_t t = 0; t < known->tile_count && !is_it; t++)
            is_it = memcmp(known->tile_uuids[t], uuid, sizeof known->tile_uuids[t]) == 0;
        if (is_it)
            return i;
    }
    return -1;
}

/* The device of this process that has the memory, which that ordinal reaches. */
static int find_owner(struct weft_device *device, int ordinal, const struct weft_ze_handle *handle,
                      int *owner)
{
    *owner = ordinal_by_uuid(device, handle->uuid);
    if (*owner < 0)
        return device->params.fail(
            WEFT_UNSUPPORTED,
            "memory of process %d is on a device that this process does not see (its uuid ends in "
            "%02x%02x%02x%02x): ZE_AFFINITY_MASK leaves it out here, or it is a card where tiles are seen",
            handle->pid, handle->uuid[12], handle->uuid[13], handle->uuid[14], handle->uuid[15]);
    if (!weft_ze_reaches_peer(device, ordinal, *owner, 1))
        return device->params.fail(WEFT_UNSUPPORTED, "Level Zero device %d cannot reach memory on device %d",
                                   ordinal, *owner);
    if (!device->ordinals[*owner].imports)
        return device->params.fail(WEFT_UNSUPPORTED,
                                   "the driver of device %d takes no memory of other processes as a dma-buf",
                                   *owner);
    return WEFT_OK;
}

/* --- mapping */

/* The number of a descriptor that the driver has closed may be another file's by now. */
static int forget_closed(int fd)
{
    if (fd < 0 || weft_fd_is_own(fd))
        return fd;
    weft_fd_forget(fd);
    return -1;
}

static void descriptor_close(int fd)
{
    weft_fd_close(forget_closed(fd));
}

/* What the driver says of a descriptor that is none of its own is the fault of who sent it. */
static int fail_map(struct weft_device *device, const struct weft_ze_import *import, ze_result_t result)
{
    char text[WEFT_ZE_TEXT];
    int status = weft_ze_word(result, text, "mapping %llu bytes of device memory of process %d on device %d",
                              (unsigned long long)import->handle.size, import->handle.pid, import->ordinal);
    return device->params.fail(status == WEFT_INVALID ? WEFT_PROTOCOL : status, "%s", text);
}

/* Whether all that the handle speaks of is there. */
static int is_whole(const struct weft_device *device, const struct weft_ze_import *import)
{
    void *begin = NULL;
    size_t length = 0;
    return device->driver.zeMemGetAddressRange(device->places[import->place].context, import->mapping, &begin,
                                               &length) == ZE_RESULT_SUCCESS &&
           begin == import->mapping && length >= import->handle.offset + import->handle.length;
}

static int map(struct weft_device *device, struct weft_ze_import *import, int owner)
{
    const struct weft_ze_driver *driver = &device->driver;
    ze_context_handle_t context = device->places[import->place].context;
    const ze_external_memory_import_fd_t imported = {.stype = ZE_STRUCTURE_TYPE_EXTERNAL_MEMORY_IMPORT_FD,
                                                     .flags = ZE_EXTERNAL_MEMORY_TYPE_FLAG_DMA_BUF,
                                                     .fd = import->fd};
    const ze_device_mem_alloc_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_DEVICE_MEM_ALLOC_DESC,
                                             .pNext = &imported};
    uint64_t bytes = weft_ze_dmabuf_bytes(import->fd);
    if (bytes != import->handle.size)
        return device->params.fail(
            WEFT_PROTOCOL, "the dma-buf that process %d hands out has %llu bytes, expected are %llu",
            import->handle.pid, (unsigned long long)bytes, (unsigned long long)import->handle.size);
    ze_result_t result = driver->zeMemAllocDevice(context, &desc, import->handle.size, 0,
                                                  device->ordinals[owner].device, (void **)&import->mapping);
    import->fd = forget_closed(import->fd);
    if (result != ZE_RESULT_SUCCESS)
        return fail_map(device, import, result);
    if (is_whole(device, import))
        return WEFT_OK;
    driver->zeMemFree(context, import->mapping);
    return device->params.fail(WEFT_UNSUPPORTED,
                               "the driver of device %d has not mapped all of %llu bytes of process %d",
                               owner, (unsigned long long)import->handle.size, import->handle.pid);
}

static int import_open(struct weft_device *device, struct weft_ze_import *import, int owner)
{
    const struct weft_ze_handle *handle = &import->handle;
    struct weft_offer offer = {.serial = handle->serial, .pid = handle->pid, .slot = handle->slot};
    memcpy(offer.key, handle->key, sizeof offer.key);
    int status = weft_offer_fetch(&device->params, &offer, &import->fd);
    if (status != WEFT_OK)
        return status;
    status = map(device, import, owner);
    if (status != WEFT_OK)
        descriptor_close(import->fd);
    return status;
}

/* --- called by others */

/* One that is mapped already, counted; NULL. */
static struct weft_ze_import *find(struct weft_device *device, int ordinal,
                                   const struct weft_ze_handle *handle)
{
    pthread_mutex_lock(&device->lock);
    struct weft_ze_import *import = device->imports;
    while (import && (import->ordinal != ordinal || memcmp(&import->handle, handle, sizeof *handle) != 0))
        import = import->next;
    if (import)
        import->count++;
    pthread_mutex_unlock(&device->lock);
    return import;
}

/* Where two map one handle at the same time each has a mapping of its own. */
static int add(struct weft_device *device, int ordinal, const struct weft_ze_handle *handle,
               struct weft_ze_import **added)
{
    int owner, status = find_owner(device, ordinal, handle, &owner);
    if (status != WEFT_OK)
        return status;
    struct weft_ze_import *import = malloc(sizeof *import);
    if (!import)
        return device->params.fail(WEFT_NOMEM, "no memory to remember imported device memory");
    *import = (struct weft_ze_import){
        .handle = *handle, .ordinal = ordinal, .place = device->ordinals[owner].place, .count = 1, .fd = -1};
    status = import_open(device, import, owner);
    if (status != WEFT_OK) {
        free(import);
        return status;
    }
    pthread_mutex_lock(&device->lock);
    import->next = device->imports;
    device->imports = import;
    pthread_mutex_unlock(&device->lock);
    *added = import;
    return WEFT_OK;
}

int weft_ze_import_ipc(struct weft_device *device, int ordinal, const struct weft_device_handle *given,
                       void **base)
{
    struct weft_ze_handle handle;
    int status = parse(device, given, &handle);
    if (status == WEFT_OK)
        status = weft_ze_check(device, ordinal);
    if (status != WEFT_OK)
        return status;
    struct weft_offer offer = {.pid = handle.pid};
    memcpy(offer.key, handle.key, sizeof offer.key);
    if (weft_offer_is_mine(&offer))
        return refuse_own(device, &handle);
    struct weft_ze_import *import = find(device, ordinal, &handle);
    if (!import)
        status = add(device, ordinal, &handle, &import);
    if (status == WEFT_OK)
        *base = import->mapping + handle.offset;
    return status;
}

/* In a forked child there is only the note. */
int weft_ze_unimport(struct weft_device *device, void *base)
{
    ze_result_t result = ZE_RESULT_SUCCESS;
    pthread_mutex_lock(&device->lock);
    struct weft_ze_import **link = &device->imports, *import;
    while ((import = *link) && import->mapping + import->handle.offset != (char *)base)
        link = &import->next;
    int is_last = import && --import->count == 0;
    if (is_last)
        *link = import->next;
    pthread_mutex_unlock(&device->lock);
    if (!import)
        return device->params.fail(WEFT_INVALID, "%p is not device memory that was imported", base);
    if (!is_last)
        return WEFT_OK;
    if (device->pid == getpid()) {
        result = device->driver.zeMemFree(device->places[import->place].context, import->mapping);
        descriptor_close(import->fd);
    }
    free(import);
    return result == ZE_RESULT_SUCCESS
               ? WEFT_OK
               : weft_ze_fail(device, result, "unmapping imported device memory at %p", base);
}
