/* SPDX-License-Identifier: Apache-2.0 */
/* Whose memory a pointer is, and memory of weft's own.
 *
 * Identity. Level Zero numbers its allocations: ze_memory_allocation_properties_t, id. Intel's driver counts them up for the life of the process,
 * so that an allocation at an address that was freed has another number. Drivers count each for itself: the driver's place is
 * mixed in. Memory that it gives out from a pool has the pool's number: what comes next at the same address there is the same memory, and
 * what is cached about it stays true, as long as it is not longer. So the length is mixed in; and the address, as the pool has other parts.
 *
 * Source: oneAPI Level Zero Specification, "Core Programming Guide", Memory and Images, Unified Shared Memory.
 */
#include <stdlib.h>

#include "base/struct.h"
#include "devmem/ze/ze.h"

#define ALIGNMENT 64

static int ordinal_of(const struct weft_device *device, ze_device_handle_t handle)
{
    for (int i = 0; i < device->count; i++) {
        const struct weft_ze_ordinal *known = &device->ordinals[i];
        if (known->device == handle)
            return i;
        for (uint32_t t = 0; t < known->tile_count; t++)
            if (known->tiles[t] == handle)
                return i;
    }
    return -1;
}

/* In bits 40 to 62, which numbers hardly reach, is where in its pool a part is, and how long: of two at one address the lengths differ, and of two that
 * are as long as each other the addresses. The first bit of all is that of pins. */
static uint64_t identity_of(uint64_t id, int place, const void *base, size_t length)
{
    const uint64_t mixed = (uint64_t)(uintptr_t)base / ALIGNMENT * UINT64_C(0x9e3779b1) + length;
    return ((id + 1) * WEFT_ZE_DRIVERS_MAX + (uint64_t)place) ^ (mixed & 0x7fffff) << 40;
}

/* Fills the span where the memory is this driver's. */
static int ask(const struct weft_device *device, int place, const void *pointer,
               struct weft_device_span *span)
{
    const struct weft_ze_driver *driver = &device->driver;
    ze_context_handle_t context = device->places[place].context;
    ze_memory_allocation_properties_t properties = {.stype = ZE_STRUCTURE_TYPE_MEMORY_ALLOCATION_PROPERTIES};
    ze_device_handle_t owner = NULL;
    void *base = NULL;
    size_t length = 0;
    if (driver->zeMemGetAllocProperties(context, pointer, &properties, &owner) != ZE_RESULT_SUCCESS ||
        properties.type == ZE_MEMORY_TYPE_UNKNOWN ||
        driver->zeMemGetAddressRange(context, pointer, &base, &length) != ZE_RESULT_SUCCESS)
        return 0;
    int is_device = properties.type == ZE_MEMORY_TYPE_DEVICE,
        is_host = properties.type == ZE_MEMORY_TYPE_HOST;
    int ordinal = is_host ? -1 : ordinal_of(device, owner);
    uint32_t others =
        ordinal >= 0 && device->ordinals[ordinal].exports ? WEFT_SPAN_IPC | WEFT_SPAN_DMABUF : 0;
    if (ordinal < 0 || device->ordinals[ordinal].is_unlisted)
        others |= WEFT_SPAN_OWN_ORDINAL;
    *span = (struct weft_device_span){
        .size = sizeof *span,
        .kind = is_device ? WEFT_MEMORY_DEVICE
                : is_host ? WEFT_MEMORY_PINNED
                          : WEFT_MEMORY_MANAGED,
        .flags = is_device ? others : WEFT_SPAN_HOST_ACCESS,
        .ordinal = ordinal,
        .base = (uint64_t)(uintptr_t)base,
        .length = length,
        .identity = identity_of(properties.id, place, base, length),
    };
    return 1;
}

int weft_ze_look(struct weft_device *device, const void *pointer, struct weft_device_span *span, int *place)
{
    if (!pointer || !weft_ze_find(device))
        return 0;
    for (*place = 0; *place < device->place_count; ++*place) {
        if (ask(device, *place, pointer, span))
            return 1;
    }
    *place = -1;
    return weft_ze_find_pin(device, pointer, span);
}

int weft_ze_identify(struct weft_device *device, const void *pointer, struct weft_device_span *span)
{
    struct weft_device_span found;
    int place;
    if (!weft_ze_look(device, pointer, &found, &place))
        return WEFT_NOT_FOUND;
    weft_struct_give(span, &found, sizeof found);
    return WEFT_OK;
}

size_t weft_ze_left_in_span(struct weft_device *device, const void *pointer, int *place)
{
    uint64_t at = (uint64_t)(uintptr_t)pointer;
    struct weft_device_span span;
    if (!weft_ze_look(device, pointer, &span, place) || span.base + span.length <= at)
        return 0;
    return (size_t)(span.base + span.length - at);
}

/* --- reach */

int weft_ze_reaches_peer(struct weft_device *device, int ordinal, int peer, int may_wait)
{
    struct weft_ze_ordinal *from = &device->ordinals[ordinal];
    if (ordinal == peer || from->place != device->ordinals[peer].place)
        return ordinal == peer;
    int state = atomic_load_explicit(&from->peers[peer], memory_order_relaxed);
    if (state == WEFT_ZE_PEER_UNASKED && may_wait) { /* drivers try it out */
        ze_bool_t can = 0;
        ze_result_t result =
            device->driver.zeDeviceCanAccessPeer(from->device, device->ordinals[peer].device, &can);
        state = result == ZE_RESULT_SUCCESS && can ? WEFT_ZE_PEER_REACHED : WEFT_ZE_PEER_UNREACHED;
        atomic_store_explicit(&from->peers[peer], (unsigned char)state, memory_order_relaxed);
    }
    return state == WEFT_ZE_PEER_REACHED;
}

/* --- of weft's own */

static ze_result_t allocate(const struct weft_device *device, int ordinal, enum weft_memory_kind kind,
                            size_t size, void **memory)
{
    const struct weft_ze_driver *driver = &device->driver;
    const struct weft_ze_ordinal *known = &device->ordinals[ordinal];
    ze_context_handle_t context = device->places[known->place].context;
    const ze_external_memory_export_desc_t to_others = {.stype =
                                                            ZE_STRUCTURE_TYPE_EXTERNAL_MEMORY_EXPORT_DESC,
                                                        .flags = ZE_EXTERNAL_MEMORY_TYPE_FLAG_DMA_BUF};
    const ze_device_mem_alloc_desc_t of_device = {
        .stype = ZE_STRUCTURE_TYPE_DEVICE_MEM_ALLOC_DESC,
        .pNext = kind == WEFT_MEMORY_DEVICE && known->exports ? &to_others : NULL};
    const ze_host_mem_alloc_desc_t of_host = {.stype = ZE_STRUCTURE_TYPE_HOST_MEM_ALLOC_DESC};
    if (kind == WEFT_MEMORY_DEVICE)
        return driver->zeMemAllocDevice(context, &of_device, size, ALIGNMENT, known->device, memory);
    if (kind == WEFT_MEMORY_PINNED)
        return driver->zeMemAllocHost(context, &of_host, size, ALIGNMENT, memory);
    return driver->zeMemAllocShared(context, &of_device, &of_host, size, ALIGNMENT, known->device, memory);
}

int weft_ze_allocate(struct weft_device *device, int ordinal, enum weft_memory_kind kind, size_t size,
                     void **memory)
{
    static const char *const names[] = {
        [WEFT_MEMORY_PINNED] = "pinned", [WEFT_MEMORY_MANAGED] = "managed", [WEFT_MEMORY_DEVICE] = "device"};
    if (kind != WEFT_MEMORY_DEVICE && kind != WEFT_MEMORY_PINNED && kind != WEFT_MEMORY_MANAGED)
        return device->params.fail(WEFT_UNSUPPORTED, "memory of kind %d cannot be allocated", kind);
    if (!size)
        return device->params.fail(WEFT_INVALID, "no memory is asked for");
    if (kind == WEFT_MEMORY_PINNED && ordinal == -1)
        ordinal = 0; /* host memory is its driver's, and all of that driver's devices reach it */
    int status = weft_ze_check(device, ordinal);
    if (status != WEFT_OK)
        return status;
    struct weft_ze_allocation *allocation = malloc(sizeof *allocation);
    if (!allocation)
        return device->params.fail(WEFT_NOMEM, "no memory to remember an allocation");
    *allocation = (struct weft_ze_allocation){.place = device->ordinals[ordinal].place};
    ze_result_t result = allocate(device, ordinal, kind, size, &allocation->memory);
    if (result != ZE_RESULT_SUCCESS) {
        free(allocation);
        return weft_ze_fail(device, result, "allocating %zu bytes of %s memory on device %d", size,
                            names[kind], ordinal);
    }
    *memory = allocation->memory;
    pthread_mutex_lock(&device->lock);
    allocation->next = device->allocations;
    device->allocations = allocation;
    pthread_mutex_unlock(&device->lock);
    return WEFT_OK;
}

int weft_ze_release(struct weft_device *device, void *memory)
{
    if (weft_ze_is_child(device)) /* its copy is not the driver's */
        return WEFT_OK;
    pthread_mutex_lock(&device->lock);
    struct weft_ze_allocation **at = &device->allocations, *found;
    while (*at && (*at)->memory != memory)
        at = &(*at)->next;
    found = *at;
    if (found)
        *at = found->next;
    pthread_mutex_unlock(&device->lock);
    if (!found)
        return device->params.fail(WEFT_INVALID, "%p was not allocated by weft on a Level Zero device",
                                   memory);
    ze_result_t result = device->driver.zeMemFree(device->places[found->place].context, memory);
    free(found);
    return result == ZE_RESULT_SUCCESS ? WEFT_OK : weft_ze_fail(device, result, "releasing %p", memory);
}
