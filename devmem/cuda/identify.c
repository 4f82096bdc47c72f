/* SPDX-License-Identifier: Apache-2.0 */
/* Whose memory a pointer is, by one question to the driver.
 *
 * What tells the kinds apart:
 *   ordinary host memory   memory type 0. Memory that the device sees at another address than the host (write-combined, or
 *                          registered on a system that cannot share addresses) counts as such, too: kernels cannot use its pointer.
 *   pinned                 memory type HOST, allocated or registered
 *   managed                IS_MANAGED
 *   cudaMalloc             memory type DEVICE, fit for legacy IPC
 *   pool                   has a pool
 *   VMM                    none of these, and mapped
 *
 * Span. Of VMM the driver gives the reserved range as well as the mapping: the mapping is the span, since several of
 * them may lie side by side (PyTorch's expandable segments) and each has its own physical memory. Of everything else
 * it is the allocation: mappings there are blocks of the driver's own, from which it gives out several.
 * Drivers that do not know mappings (MAPPING_BASE, MAPPING_SIZE, BLOCK_ID) refuse the whole question;
 * then the shorter one is asked from there on, and cuMemGetAddressRange() gives the mapping.
 *
 * Identity. BUFFER_ID is unique for the life of the process, says the reference, for every allocation. It does not say what
 * of VMM is an allocation: a range that is mapped, unmapped and mapped again may keep it. So of VMM the identity is a hash of
 * BUFFER_ID, BLOCK_ID (the physical memory's) and the mapping's base, with the topmost bit set; without BLOCK_ID there is none.
 * The same physical memory mapped again at the same address may have its old identity: that is right, as what was
 * registered still is that memory.
 */
#include <string.h>
#include "base/struct.h"
#include "devmem/cuda/cuda.h"

/* The values of all attributes fit into 8 bytes; some are 4 bytes long, which on the little-endian machines that CUDA
 * runs on makes no difference when the rest is zero. */
enum asked {
    TYPE,
    ADDRESS,
    BUFFER,
    MANAGED,
    ORDINAL,
    LEGACY,
    START,
    SIZE,
    MAPPED,
    HANDLES,
    RDMA,
    POOL,
    NARROW,
    MAPPING_SIZE = NARROW,
    MAPPING_BASE,
    BLOCK,
    ASKED
};
static const int attributes[ASKED] = {
    [TYPE] = CUDA_POINTER_MEMORY_TYPE,
    [ADDRESS] = CUDA_POINTER_DEVICE_POINTER,
    [BUFFER] = CUDA_POINTER_BUFFER_ID,
    [MANAGED] = CUDA_POINTER_IS_MANAGED,
    [ORDINAL] = CUDA_POINTER_ORDINAL,
    [LEGACY] = CUDA_POINTER_LEGACY_IPC,
    [START] = CUDA_POINTER_RANGE_START,
    [SIZE] = CUDA_POINTER_RANGE_SIZE,
    [MAPPED] = CUDA_POINTER_MAPPED,
    [HANDLES] = CUDA_POINTER_HANDLE_TYPES,
    [RDMA] = CUDA_POINTER_RDMA,
    [POOL] = CUDA_POINTER_POOL,
    [MAPPING_SIZE] = CUDA_POINTER_MAPPING_SIZE,
    [MAPPING_BASE] = CUDA_POINTER_MAPPING_BASE,
    [BLOCK] = CUDA_POINTER_BLOCK_ID,
};

static int ask_once(struct weft_device *device, const void *pointer, uint64_t values[ASKED])
{
    void *places[ASKED];
    memset(values, 0, ASKED * sizeof *values);
    for (int i = 0; i < ASKED; i++)
        places[i] = &values[i];
    int is_narrow = atomic_load_explicit(&device->is_narrow, memory_order_relaxed);
    int result =
        device->driver.pointer_get_all(is_narrow ? NARROW : ASKED, attributes, places, (cuda_pointer)pointer);
    if (result != CUDA_INVALID_VALUE || is_narrow)
        return result;
    memset(values, 0, ASKED * sizeof *values);
    result = device->driver.pointer_get_all(NARROW, attributes, places, (cuda_pointer)pointer);
    if (!result)
        atomic_store_explicit(&device->is_narrow, 1, memory_order_relaxed);
    return result;
}

/* A thread that has no context may get the answer that it needs one. Any will do that exists; none is made. */
static int ask(struct weft_device *device, const void *pointer, uint64_t values[ASKED])
{
    const struct weft_cuda_driver *driver = &device->driver;
    int result = ask_once(device, pointer, values), count = 0;
    if (result != CUDA_INVALID_CONTEXT || driver->device_get_count(&count))
        return result;
    for (int ordinal = 0; ordinal < count; ordinal++) {
        cuda_context context, popped;
        unsigned flags;
        int place, is_active = 0;
        if (driver->device_get(&place, ordinal) || driver->primary_get_state(place, &flags, &is_active) ||
            !is_active || driver->primary_retain(&context, place))
            continue;
        if (driver->push(context) == CUDA_SUCCESS) {
            result = ask_once(device, pointer, values);
            driver->pop(&popped);
        }
        driver->primary_release(place);
        if (result != CUDA_INVALID_CONTEXT)
            break;
    }
    return result;
}

static uint64_t mix(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * UINT64_C(0x9e3779b97f4a7c15);
    hash = (hash ^ hash >> 32) * UINT64_C(0xd6e8feb86659fd93);
    return hash ^ hash >> 29;
}

static void set_mapping(struct weft_device *device, const void *pointer, uint64_t values[ASKED],
                        struct weft_device_span *span)
{
    uint64_t base = values[MAPPING_BASE], length = values[MAPPING_SIZE];
    if (atomic_load_explicit(&device->is_narrow, memory_order_relaxed)) {
        struct weft_cuda_turn turn;
        cuda_pointer range_base = 0;
        size_t range_length = 0;
        if (weft_cuda_enter(device, span->ordinal, &turn) == WEFT_OK) {
            device->driver.get_range(&range_base, &range_length, (cuda_pointer)pointer);
            weft_cuda_leave(&turn);
        }
        base = range_base;
        length = range_length;
    }
    span->identity = 0;
    if (!length || base > (uint64_t)pointer || (uint64_t)pointer - base >= length || base < values[START] ||
        base + length > values[START] + values[SIZE])
        return; /* it gives the range only */
    span->base = base;
    span->length = length;
    if (values[BLOCK])
        span->identity = mix(mix(mix(0, values[BUFFER]), values[BLOCK]), base) | UINT64_C(1) << 63;
}

static void set_device(struct weft_device *device, const void *pointer, uint64_t values[ASKED],
                       struct weft_cuda_memory *memory)
{
    struct weft_device_span *span = &memory->span;
    memory->pool = (cuda_pool)(uintptr_t)values[POOL];
    memory->handle_types = values[HANDLES];
    memory->is_legacy_ipc = values[LEGACY] != 0;
    span->kind = WEFT_MEMORY_DEVICE;
    if (memory->pool)
        span->flags |= WEFT_SPAN_ORDERED;
    else if (!memory->is_legacy_ipc)
        set_mapping(device, pointer, values, span);
    if (memory->is_legacy_ipc ||
        (span->identity && (values[HANDLES] & (CUDA_HANDLE_POSIX_FD | CUDA_HANDLE_FABRIC))))
        span->flags |= WEFT_SPAN_IPC;
    if (!memory->pool && device->ordinals[span->ordinal].has_dmabuf)
        span->flags |= WEFT_SPAN_DMABUF;
    if (values[RDMA])
        span->flags |= WEFT_SPAN_PEER_MEMORY;
}

int weft_cuda_look(struct weft_device *device, const void *pointer, struct weft_cuda_memory *memory)
{
    uint64_t values[ASKED];
    if (weft_cuda_find(device) == WEFT_CUDA_NOTHING || ask(device, pointer, values) ||
        (values[TYPE] != CUDA_MEMORY_HOST && values[TYPE] != CUDA_MEMORY_DEVICE && !values[MANAGED]) ||
        !values[SIZE])
        return WEFT_NOT_FOUND;
    memset(memory, 0, sizeof *memory);
    memory->span.base = values[START];
    memory->span.length = values[SIZE];
    memory->span.identity = values[BUFFER];
    memory->span.ordinal = (int32_t)values[ORDINAL];
    /* The program has initialised CUDA, or this would not be its memory: nothing that it does not use is started here. */
    if (weft_cuda_check(device, memory->span.ordinal))
        return WEFT_NOT_FOUND;
    if (values[MANAGED]) {
        memory->span.kind = WEFT_MEMORY_MANAGED;
        if (device->ordinals[memory->span.ordinal].has_concurrent_managed)
            memory->span.flags = WEFT_SPAN_HOST_ACCESS;
    } else if (values[TYPE] == CUDA_MEMORY_HOST) {
        if (values[ADDRESS] != (uint64_t)pointer)
            return WEFT_NOT_FOUND;
        memory->span.kind = WEFT_MEMORY_PINNED;
        memory->span.ordinal = -1;
        memory->span.flags = WEFT_SPAN_HOST_ACCESS;
    } else if (!values[MAPPED] && !values[LEGACY] && !values[POOL])
        return WEFT_NOT_FOUND; /* reserved, and nothing there */
    else
        set_device(device, pointer, values, memory);
    return WEFT_OK;
}

int weft_cuda_identify(struct weft_device *device, const void *pointer, struct weft_device_span *span)
{
    struct weft_cuda_memory memory;
    int status = weft_cuda_look(device, pointer, &memory);
    if (!status)
        weft_struct_give(span, &memory.span, sizeof memory.span);
    return status;
}

int weft_cuda_is_known(struct weft_device *device, const void *pointer, size_t size)
{
    uint64_t at = (uint64_t)pointer, end = at + size;
    struct weft_cuda_memory memory;
    if (end < at)
        return 0;
    while (at < end) {
        if (weft_cuda_look(device, (const void *)at, &memory) || memory.span.base + memory.span.length <= at)
            return 0;
        at = memory.span.base + memory.span.length;
    }
    return 1;
}

int weft_cuda_look_device(struct weft_device *device, const void *pointer, struct weft_cuda_memory *memory)
{
    int status = weft_cuda_ready(device);
    if (status)
        return status;
    if (weft_cuda_look(device, pointer, memory))
        return device->params.fail(WEFT_UNSUPPORTED, "%p is not memory of a CUDA device", pointer);
    return memory->span.kind == WEFT_MEMORY_DEVICE
               ? WEFT_OK
               : device->params.fail(WEFT_UNSUPPORTED, "%p is %s memory, which is not exported", pointer,
                                     memory->span.kind == WEFT_MEMORY_MANAGED ? "managed" : "pinned");
}
