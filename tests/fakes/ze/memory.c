/* SPDX-License-Identifier: Apache-2.0 */
/* Unified shared memory. Device memory is mapped twice: where the program has its address nobody may touch it, the driver has another one.
 * Addresses that were freed come again at once. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/fakes/ze/fake.h"

#define ARENA       ((size_t)1 << 30)
#define ALLOCATIONS 4096

struct allocation {
    char *base;
    size_t size;
    ze_memory_type_t type;
    ze_device_handle_t device; /* NULL: none */
    uint64_t id;
    struct fake_context *context;
    int commands; /* in flight that use it */
};

/* In the order of their addresses, with fake_lock. */
static struct allocation allocations[ALLOCATIONS];
static int allocation_count;
static uint64_t last_id;
static struct arena {
    char *seen, *reached; /* by the program, and by the driver */
} arenas[2];              /* of device memory, and of what the host touches as well */

static int arena_of(ze_memory_type_t type)
{
    return type != ZE_MEMORY_TYPE_DEVICE;
}

static int arena_make(struct arena *arena, int is_touched)
{
    int fd = memfd_create("ze-fake", MFD_CLOEXEC), protection = PROT_READ | PROT_WRITE;
    if (fd < 0 || ftruncate(fd, (off_t)ARENA) != 0)
        return -1;
    arena->reached = mmap(NULL, ARENA, protection, MAP_SHARED | MAP_NORESERVE, fd, 0);
    arena->seen =
        is_touched ? arena->reached : mmap(NULL, ARENA, PROT_NONE, MAP_SHARED | MAP_NORESERVE, fd, 0);
    close(fd);
    return arena->reached == MAP_FAILED || arena->seen == MAP_FAILED ? -1 : 0;
}

static struct allocation *find(const void *memory)
{
    for (int i = 0; i < allocation_count; i++) {
        struct allocation *one = &allocations[i];
        if ((const char *)memory >= one->base && (const char *)memory < one->base + one->size)
            return one;
    }
    return NULL;
}

/* The first gap that is large enough. */
static int place(const struct arena *arena, size_t size, size_t alignment, char **base, int *index)
{
    char *at = arena->seen, *end = arena->seen + ARENA;
    int i = 0;
    while (i < allocation_count && allocations[i].base < arena->seen)
        i++;
    for (; i < allocation_count && allocations[i].base < end; i++) {
        if ((size_t)(allocations[i].base - at) >= size)
            break;
        size_t behind = (size_t)(allocations[i].base - arena->seen) + allocations[i].size;
        at = arena->seen + (behind + alignment - 1) / alignment * alignment;
    }
    *base = at;
    *index = i;
    return (size_t)(end - at) >= size;
}

static ze_result_t allocate(ze_context_handle_t context, ze_memory_type_t type, size_t size, size_t alignment,
                            ze_device_handle_t device, const char *call, void **memory)
{
    struct fake_context *of = fake_context_find(context, call);
    ze_result_t result = ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY;
    char *base;
    int index;
    if (!of)
        return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
    if (!fake_expect(size > 0, call, "Memory, Parameters", "size is 0"))
        return ZE_RESULT_ERROR_UNSUPPORTED_SIZE;
    if (!fake_expect((alignment & (alignment - 1)) == 0, call, "Memory, Parameters",
                     "alignment is no power of two"))
        return ZE_RESULT_ERROR_UNSUPPORTED_ALIGNMENT;
    if (ze_fake.alloc_result)
        return (ze_result_t)ze_fake.alloc_result;
    alignment = alignment > 64 ? alignment : 64;
    pthread_mutex_lock(&fake_lock);
    struct arena *arena = &arenas[arena_of(type)];
    if (allocation_count < ALLOCATIONS && (arena->seen || arena_make(arena, arena_of(type)) == 0) &&
        place(arena, size, alignment, &base, &index)) {
        memmove(&allocations[index + 1], &allocations[index],
                (size_t)(allocation_count++ - index) * sizeof *allocations);
        allocations[index] = (struct allocation){
            .base = base, .size = size, .type = type, .device = device, .id = last_id++, .context = of};
        of->objects++;
        ze_fake.allocations++;
        *memory = base;
        result = ZE_RESULT_SUCCESS;
    }
    pthread_mutex_unlock(&fake_lock);
    return result;
}

ze_result_t fake_alloc_device(ze_context_handle_t context, const ze_device_mem_alloc_desc_t *desc,
                              size_t size, size_t alignment, ze_device_handle_t device, void **memory)
{
    static const char call[] = "zeMemAllocDevice";
    if (fake_device_index(device, call) < 0)
        return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
    if (!fake_expect_struct(desc, ZE_STRUCTURE_TYPE_DEVICE_MEM_ALLOC_DESC, call))
        return ZE_RESULT_ERROR_INVALID_ARGUMENT;
    return allocate(context, ZE_MEMORY_TYPE_DEVICE, size, alignment, device, call, memory);
}

ze_result_t fake_alloc_host(ze_context_handle_t context, const ze_host_mem_alloc_desc_t *desc, size_t size,
                            size_t alignment, void **memory)
{
    static const char call[] = "zeMemAllocHost";
    if (!fake_expect_struct(desc, ZE_STRUCTURE_TYPE_HOST_MEM_ALLOC_DESC, call))
        return ZE_RESULT_ERROR_INVALID_ARGUMENT;
    return allocate(context, ZE_MEMORY_TYPE_HOST, size, alignment, NULL, call, memory);
}

ze_result_t fake_alloc_shared(ze_context_handle_t context, const ze_device_mem_alloc_desc_t *device_desc,
                              const ze_host_mem_alloc_desc_t *host_desc, size_t size, size_t alignment,
                              ze_device_handle_t device, void **memory)
{
    static const char call[] = "zeMemAllocShared";
    if (device && fake_device_index(device, call) < 0)
        return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
    if (!fake_expect_struct(device_desc, ZE_STRUCTURE_TYPE_DEVICE_MEM_ALLOC_DESC, call) ||
        !fake_expect_struct(host_desc, ZE_STRUCTURE_TYPE_HOST_MEM_ALLOC_DESC, call))
        return ZE_RESULT_ERROR_INVALID_ARGUMENT;
    return allocate(context, ZE_MEMORY_TYPE_SHARED, size, alignment, device, call, memory);
}

ze_result_t fake_free(ze_context_handle_t context, void *memory)
{
    static const char call[] = "zeMemFree";
    struct fake_context *of = fake_context_find(context, call);
    if (!of)
        return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
    pthread_mutex_lock(&fake_lock);
    struct allocation *one = find(memory);
    int is_base = one && one->base == memory && one->context == of, is_idle = !one || one->commands == 0;
    if (is_base && is_idle) {
        const struct arena *arena = &arenas[arena_of(one->type)];
        memset(arena->reached + (one->base - arena->seen), 0xdd, one->size < 65536 ? one->size : 65536);
        int index = (int)(one - allocations);
        memmove(one, one + 1, (size_t)(--allocation_count - index) * sizeof *one);
        of->objects--;
        ze_fake.allocations--;
    }
    pthread_mutex_unlock(&fake_lock);
    if (!fake_expect(is_base, call, "zeMemFree, Parameters", "this is no allocation of this context"))
        return ZE_RESULT_ERROR_INVALID_ARGUMENT;
    return fake_expect(is_idle, call, "zeMemFree", "a command in flight uses the memory")
               ? ZE_RESULT_SUCCESS
               : ZE_RESULT_ERROR_HANDLE_OBJECT_IN_USE;
}

/* Of any context of the driver: the real ones find memory by its address. */
ze_result_t fake_alloc_properties(ze_context_handle_t context, const void *memory,
                                  ze_memory_allocation_properties_t *properties, ze_device_handle_t *device)
{
    static const char call[] = "zeMemGetAllocProperties";
    struct fake_context *of = fake_context_find(context, call);
    if (!of)
        return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
    if (!fake_expect(memory != NULL, call, "zeMemGetAllocProperties, Parameters", "ptr is NULL"))
        return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
    if (!fake_expect_struct(properties, ZE_STRUCTURE_TYPE_MEMORY_ALLOCATION_PROPERTIES, call))
        return ZE_RESULT_ERROR_INVALID_ARGUMENT;
    pthread_mutex_lock(&fake_lock);
    const struct allocation *one = find(memory);
    properties->type = ZE_MEMORY_TYPE_UNKNOWN;
    if (one && one->context->driver == of->driver) {
        properties->type = one->type;
        properties->id = one->id;
        properties->pageSize = 4096;
        if (device)
            *device = one->device;
    }
    pthread_mutex_unlock(&fake_lock);
    return ZE_RESULT_SUCCESS;
}

ze_result_t fake_address_range(ze_context_handle_t context, const void *memory, void **base, size_t *size)
{
    static const char call[] = "zeMemGetAddressRange";
    if (!fake_context_find(context, call))
        return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
    pthread_mutex_lock(&fake_lock);
    const struct allocation *one = find(memory);
    if (one && base)
        *base = one->base;
    if (one && size)
        *size = one->size;
    pthread_mutex_unlock(&fake_lock);
    return one ? ZE_RESULT_SUCCESS : ZE_RESULT_ERROR_UNKNOWN;
}

void *fake_reach(const void *memory, size_t size, int driver)
{
    const struct allocation *one = find(memory);
    for (int a = 0; a < 2 && !one; a++) {
        if (arenas[a].seen && (const char *)memory >= arenas[a].seen &&
            (const char *)memory < arenas[a].seen + ARENA)
            return NULL;
    }
    if (!one)
        return (void *)(uintptr_t)memory;
    if (one->context->driver != driver || (size_t)((const char *)memory - one->base) + size > one->size)
        return NULL;
    const struct arena *arena = &arenas[arena_of(one->type)];
    return arena->reached + ((const char *)memory - arena->seen);
}

void fake_use(const void *memory, int commands)
{
    struct allocation *one = find(memory);
    if (one)
        one->commands += commands;
}
