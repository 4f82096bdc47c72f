/* SPDX-License-Identifier: Apache-2.0 */
/* Mapping dma-bufs of other processes, each once for a device.
 *
 * The dma-buf is mapped by an allocation that imports it. What a driver gives where it is asked again for one that it has mapped already
 * the specification does not say. Releases of Intel's driver differ: older ones give the same address, and the first zeMemFree() ends it
 * for all; newer ones give another. So a dma-buf is mapped once, and counted: it is known by its inode, or, where it has none of its own,
 * by the address that the driver gives.
 *
 * Whether the driver takes the descriptor over the specification does not say either, and releases differ:
 *
 *     they close it at once,
 *     or when the mapping is freed,
 *     or never, and it is weft's to close.
 *
 * So it stays open as long as the mapping lives and is closed then, unless the number is no longer this file's.
 */
#include "devmem/ze/mapping.h"

#include <linux/magic.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/fd.h"

/* Before Linux 5.3 all dma-bufs have one inode, which is that of eventfds and others as well. */
static void find_inode(int fd, struct weft_ze_mapping *mapping)
{
    struct statfs system;
    struct stat file;
    mapping->inode = 0;
    if (fstatfs(fd, &system) != 0 || system.f_type == ANON_INODE_FS_MAGIC || fstat(fd, &file) != 0)
        return;
    mapping->of_device = file.st_dev;
    mapping->inode = file.st_ino;
}

static struct weft_ze_mapping *find_file(const struct weft_device *device,
                                         const struct weft_ze_mapping *wanted)
{
    struct weft_ze_mapping *mapping = wanted->inode ? device->mappings : NULL;
    while (mapping && (mapping->place != wanted->place || mapping->ordinal != wanted->ordinal ||
                       mapping->inode != wanted->inode || mapping->of_device != wanted->of_device))
        mapping = mapping->next;
    return mapping;
}

static struct weft_ze_mapping *find_base(const struct weft_device *device,
                                         const struct weft_ze_mapping *wanted)
{
    struct weft_ze_mapping *mapping = device->mappings;
    while (mapping && (mapping->place != wanted->place || mapping->base != wanted->base))
        mapping = mapping->next;
    return mapping;
}

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

/* Has the driver map it. The descriptor is mapping->fd afterwards, also on failure. */
static ze_result_t map(const struct weft_device *device, uint64_t size, struct weft_ze_mapping *mapping)
{
    const struct weft_ze_driver *driver = &device->driver;
    ze_context_handle_t context = device->places[mapping->place].context;
    const ze_external_memory_import_fd_t imported = {.stype = ZE_STRUCTURE_TYPE_EXTERNAL_MEMORY_IMPORT_FD,
                                                     .flags = ZE_EXTERNAL_MEMORY_TYPE_FLAG_DMA_BUF,
                                                     .fd = mapping->fd};
    const ze_device_mem_alloc_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_DEVICE_MEM_ALLOC_DESC,
                                             .pNext = &imported};
    void *begin = NULL;
    size_t length = 0;
    ze_result_t result = driver->zeMemAllocDevice(
        context, &desc, size, 0, device->ordinals[mapping->ordinal].device, (void **)&mapping->base);
    mapping->fd = forget_closed(mapping->fd);
    if (result == ZE_RESULT_SUCCESS &&
        driver->zeMemGetAddressRange(context, mapping->base, &begin, &length) == ZE_RESULT_SUCCESS &&
        begin == mapping->base)
        mapping->length = length;
    return result;
}

/* What the driver says of a descriptor that is none of its own is the fault of who sent it; not where it is of another device, which it may not
 * be able to attach to. */
static int fail_map(struct weft_device *device, int ordinal, int owner, const struct weft_ze_handle *handle,
                    ze_result_t result)
{
    char text[WEFT_ZE_TEXT];
    int status = weft_ze_word(result, text, "mapping %llu bytes of device memory of process %d on device %d",
                              (unsigned long long)handle->size, handle->offer.pid, ordinal);
    if (status == WEFT_INVALID)
        status = owner == ordinal ? WEFT_PROTOCOL : WEFT_UNSUPPORTED;
    return device->params.fail(status, "%s", text);
}

/* One more user of what is known by its file, or by its address once it is mapped. wanted->fd is its, or closed. */
static int find_or_map(struct weft_device *device, int owner, const struct weft_ze_handle *handle,
                       struct weft_ze_mapping *wanted, struct weft_ze_mapping **found)
{
    struct weft_ze_mapping *made = NULL;
    ze_result_t result = ZE_RESULT_SUCCESS;
    find_inode(wanted->fd, wanted);
    *found = find_file(device, wanted);
    if (!*found) {
        made = malloc(sizeof *made);
        if (!made) {
            descriptor_close(wanted->fd);
            return device->params.fail(WEFT_NOMEM, "no memory to remember mapped device memory");
        }
        result = map(device, handle->size, wanted);
        *found = result == ZE_RESULT_SUCCESS ? find_base(device, wanted) : NULL;
    }
    if (result == ZE_RESULT_SUCCESS && !*found) {
        *made = *wanted;
        made->next = device->mappings;
        *found = device->mappings = made;
    } else {
        descriptor_close(wanted->fd);
        free(made);
    }
    if (result != ZE_RESULT_SUCCESS)
        return fail_map(device, wanted->ordinal, owner, handle, result);
    (*found)->count++;
    return WEFT_OK;
}

int weft_ze_mapping_open(struct weft_device *device, int ordinal, int owner,
                         const struct weft_ze_handle *handle, int fd, struct weft_ze_mapping **mapping)
{
    struct weft_ze_mapping wanted = {.place = device->ordinals[ordinal].place, .ordinal = ordinal, .fd = fd};
    uint64_t bytes = weft_ze_dmabuf_bytes(fd);
    if (bytes != handle->size) {
        descriptor_close(fd);
        return device->params.fail(
            WEFT_PROTOCOL, "the dma-buf that process %d hands out has %llu bytes, expected are %llu",
            handle->offer.pid, (unsigned long long)bytes, (unsigned long long)handle->size);
    }
    int status = find_or_map(device, owner, handle, &wanted, mapping);
    if (status != WEFT_OK)
        return status;
    uint64_t length = (*mapping)->length;
    if (length >= handle->offset + handle->length)
        return WEFT_OK;
    weft_ze_mapping_close(device, *mapping);
    return device->params.fail(WEFT_UNSUPPORTED,
                               "the driver of device %d has not mapped all of %llu bytes of process %d: it "
                               "says that there are %llu",
                               ordinal, (unsigned long long)handle->size, handle->offer.pid,
                               (unsigned long long)length);
}

ze_result_t weft_ze_mapping_close(struct weft_device *device, struct weft_ze_mapping *mapping)
{
    ze_result_t result = ZE_RESULT_SUCCESS;
    if (--mapping->count)
        return result;
    struct weft_ze_mapping **at = &device->mappings;
    while (*at != mapping)
        at = &(*at)->next;
    *at = mapping->next;
    if (device->pid == getpid()) { /* in a forked child there is only the note */
        result = device->driver.zeMemFree(device->places[mapping->place].context, mapping->base);
        descriptor_close(mapping->fd);
    }
    free(mapping);
    return result;
}
