/* SPDX-License-Identifier: Apache-2.0 */
/* Importing device memory of other processes.
 *
 * A handle that is imported again for the same device is not fetched again, and is counted. Handles are compared as a whole: what an exporter made of
 * memory that took another's place is another handle, as its identity and the offer's serial are others. What several imports have in common, all parts
 * of a pool for one, is one mapping (mapping.c).
 *
 * device->imports_lock guards imports and mappings. It is not had while another process is asked for a descriptor.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "devmem/ze/mapping.h"

struct weft_ze_import {
    struct weft_ze_handle handle;
    int ordinal; /* that asked for it */
    unsigned count;
    struct weft_ze_mapping *mapping; /* all of the dma-buf */
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
    else if (handle->offer.slot >= WEFT_OFFER_SLOTS || handle->offer.pid <= 0 || !handle->offer.serial)
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

static int has_uuid(const struct weft_ze_ordinal *known, const uint8_t uuid[16])
{
    int is_it = memcmp(known->uuid, uuid, sizeof known->uuid) == 0;
    for (uint32_t t = 0; t < known->tile_count && !is_it; t++)
        is_it = memcmp(known->tile_uuids[t], uuid, sizeof known->tile_uuids[t]) == 0;
    return is_it;
}

/* The device that has the uuid, itself or as one of its tiles; -1. Two drivers may show one GPU: first that ordinal, then one of its driver's. */
static int ordinal_by_uuid(const struct weft_device *device, int ordinal, const uint8_t uuid[16])
{
    static const uint8_t unknown[16];
    int found = -1, nearest = -1;
    if (memcmp(uuid, unknown, sizeof unknown) == 0)
        return -1;
    for (int i = 0; i < device->count; i++) {
        const struct weft_ze_ordinal *known = &device->ordinals[i];
        int near = i == ordinal ? 2 : known->place == device->ordinals[ordinal].place;
        if (near > nearest && has_uuid(known, uuid)) {
            found = i;
            nearest = near;
        }
    }
    return found;
}

/* The ordinal has to reach the device of this process that has the memory. */
static int check_owner(struct weft_device *device, int ordinal, const struct weft_ze_handle *handle)
{
    int owner = ordinal_by_uuid(device, ordinal, handle->uuid);
    if (owner < 0)
        return device->params.fail(
            WEFT_UNSUPPORTED,
            "memory of process %d is on a device that this process does not see (its uuid ends in "
            "%02x%02x%02x%02x): ZE_AFFINITY_MASK leaves it out here, or it is a card where tiles are seen",
            handle->offer.pid, handle->uuid[12], handle->uuid[13], handle->uuid[14], handle->uuid[15]);
    if (!weft_ze_reaches_peer(device, ordinal, owner, 1))
        return device->params.fail(WEFT_UNSUPPORTED, "Level Zero device %d cannot reach memory on device %d",
                                   ordinal, owner);
    if (!device->ordinals[ordinal].imports)
        return device->params.fail(WEFT_UNSUPPORTED,
                                   "the driver of device %d takes no memory of other processes as a dma-buf",
                                   ordinal);
    return WEFT_OK;
}

/* --- called by others */

/* One that is there already, counted; NULL. With the lock. */
static struct weft_ze_import *find(struct weft_device *device, int ordinal,
                                   const struct weft_ze_handle *handle)
{
    struct weft_ze_import *import = device->imports;
    while (import && (import->ordinal != ordinal || memcmp(&import->handle, handle, sizeof *handle) != 0))
        import = import->next;
    if (import)
        import->count++;
    return import;
}

/* Fetched for it is a descriptor, which is the mapping's then, or closed. With the lock. */
static int add(struct weft_device *device, int ordinal, const struct weft_ze_handle *handle, int fd,
               struct weft_ze_import **added)
{
    struct weft_ze_mapping *mapping;
    int owner = ordinal_by_uuid(device, ordinal, handle->uuid);
    int status = weft_ze_mapping_open(device, ordinal, owner, handle, fd, &mapping);
    if (status != WEFT_OK)
        return status;
    struct weft_ze_import *import = find(device, ordinal, handle); /* another thread's, meanwhile */
    if (import) {
        weft_ze_mapping_close(device, mapping); /* the same one, or an own one of a driver that maps anew */
    } else if ((import = malloc(sizeof *import))) {
        *import = (struct weft_ze_import){*handle, ordinal, 1, mapping, device->imports};
        device->imports = import;
    } else {
        weft_ze_mapping_close(device, mapping);
        return device->params.fail(WEFT_NOMEM, "no memory to remember imported device memory");
    }
    *added = import;
    return WEFT_OK;
}

int weft_ze_import_ipc(struct weft_device *device, int ordinal, const struct weft_device_handle *given,
                       void **base)
{
    struct weft_ze_handle handle;
    struct weft_ze_import *import;
    int fd, status = parse(device, given, &handle);
    if (status == WEFT_OK)
        status = weft_ze_check(device, ordinal);
    if (status != WEFT_OK)
        return status;
    if (weft_offer_is_mine(&handle.offer))
        return refuse_own(device, &handle);
    pthread_mutex_lock(&device->imports_lock);
    import = find(device, ordinal, &handle);
    if (!import) {
        pthread_mutex_unlock(&device->imports_lock);
        status = check_owner(device, ordinal, &handle);
        if (status == WEFT_OK)
            status = weft_offer_fetch(&device->params, &handle.offer, &fd);
        if (status != WEFT_OK)
            return status;
        pthread_mutex_lock(&device->imports_lock);
        status = add(device, ordinal, &handle, fd, &import);
    }
    if (status == WEFT_OK)
        *base = import->mapping->base + handle.offset;
    pthread_mutex_unlock(&device->imports_lock);
    return status;
}

/* Imports with one address have one mapping: which of them it was makes no difference. In a forked child nobody else has the lock, or gives it back. */
int weft_ze_unimport(struct weft_device *device, void *base)
{
    const int is_here = device->pid == getpid();
    ze_result_t result = ZE_RESULT_SUCCESS;
    if (is_here)
        pthread_mutex_lock(&device->imports_lock);
    struct weft_ze_import **link = &device->imports, *import;
    while ((import = *link) && import->mapping->base + import->handle.offset != (char *)base)
        link = &import->next;
    int is_known = import != NULL;
    if (is_known && --import->count == 0) {
        *link = import->next;
        result = weft_ze_mapping_close(device, import->mapping);
        free(import);
    }
    if (is_here)
        pthread_mutex_unlock(&device->imports_lock);
    if (!is_known)
        return device->params.fail(WEFT_INVALID, "%p is not device memory that was imported", base);
    return result == ZE_RESULT_SUCCESS
               ? WEFT_OK
               : weft_ze_fail(device, result, "unmapping imported device memory at %p", base);
}
