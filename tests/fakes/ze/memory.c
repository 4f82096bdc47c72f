/* SPDX-License-Identifier: Apache-2.0 */
/* Unified shared memory. Device memory is mapped twice: where the program has its address nobody may touch it, the driver has another one.
 * Addresses that were freed come again at once. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/fakes/ze/fake_kernel.h"
#include "tests/fakes/ze/fake_memory.h"

#define ARENA       ((size_t)1 << 30)
#define ALLOCATIONS 4096
#define PART_ALIGN  ((size_t)512) /* of a pool */

/* In the order of their addresses. Parts of pools are not among the others. */
struct table {
    struct allocation all[ALLOCATIONS];
    int count;
};

static struct table whole, parts;
static uint64_t last_id;
static struct arena {
    char *seen, *reached; /* by the program, and by the driver */
    int fd;
    pid_t pid; /* whose memory it is */
} arenas[2];   /* of device memory, and of what the host touches as well */

static int arena_of(ze_memory_type_t type)
{
    return type != ZE_MEMORY_TYPE_DEVICE;
}

/* A forked child gets memory of its own, at the same addresses. */
static int arena_make(struct arena *arena, int is_touched)
{
    int protection = PROT_READ | PROT_WRITE, how = MAP_SHARED | MAP_NORESERVE | (arena->seen ? MAP_FIXED : 0);
    if (arena->seen)
        close(arena->fd);
    arena->fd = memfd_create("ze-fake", MFD_CLOEXEC);
    if (arena->fd < 0 || ftruncate(arena->fd, (off_t)ARENA) != 0)
        return -1;
    arena->pid = getpid();
    arena->reached = mmap(arena->reached, ARENA, protection, how, arena->fd, 0);
    arena->seen = is_touched ? arena->reached : mmap(arena->seen, ARENA, PROT_NONE, how, arena->fd, 0);
    return arena->reached == MAP_FAILED || arena->seen == MAP_FAILED ? -1 : 0;
}

/* --- tables */

static struct allocation *find_in(struct table *table, const void *memory)
{
    for (int i = 0; i < table->count; i++) {
        struct allocation *one = &table->all[i];
        if ((const char *)memory >= one->base && (const char *)memory < one->base + one->size)
            return one;
    }
    return NULL;
}

struct allocation *fake_find(const void *memory)
{
    struct allocation *one = find_in(&whole, memory);
    return one && one->is_pool ? find_in(&parts, memory) : one;
}

struct allocation *fake_find_whole(const void *memory)
{
    return find_in(&whole, memory);
}

struct allocation *fake_find_imported(ze_device_handle_t device, uint64_t inode)
{
    for (int i = 0; i < whole.count; i++) {
        struct allocation *one = &whole.all[i];
        if (one->is_imported && one->device == device && one->inode == inode)
            return one;
    }
    return NULL;
}

/* In the first gap between begin and end that is large enough. */
static struct allocation *insert(struct table *table, char *begin, const char *end, size_t size,
                                 size_t alignment)
{
    char *at = begin;
    int i = 0;
    if (table->count == ALLOCATIONS)
        return NULL;
    while (i < table->count && table->all[i].base < begin)
        i++;
    for (; i < table->count && table->all[i].base < end; i++) {
        if (table->all[i].base >= at && (size_t)(table->all[i].base - at) >= size)
            break;
        size_t behind = (size_t)(table->all[i].base - begin) + table->all[i].size;
        at = begin + (behind + alignment - 1) / alignment * alignment;
    }
    if (at > end || (size_t)(end - at) < size)
        return NULL;
    memmove(&table->all[i + 1], &table->all[i], (size_t)(table->count++ - i) * sizeof *table->all);
    table->all[i] = (struct allocation){.base = at, .size = size, .file = -1, .fd = -1};
    return &table->all[i];
}

static void take_out(struct table *table, struct allocation *one)
{
    int index = (int)(one - table->all);
    memmove(one, one + 1, (size_t)(--table->count - index) * sizeof *one);
}

/* --- arenas */

static struct allocation *reserve(ze_memory_type_t type, size_t size, size_t alignment)
{
    struct arena *arena = &arenas[arena_of(type)];
    if ((!arena->seen || arena->pid != getpid()) && arena_make(arena, arena_of(type)) != 0)
        return NULL;
    /* What can be exported has pages of its own. */
    size_t least = type == ZE_MEMORY_TYPE_DEVICE ? FAKE_PAGE : 64;
    struct allocation *one =
        insert(&whole, arena->seen, arena->seen + ARENA, size, alignment > least ? alignment : least);
    if (one) {
        one->type = type;
        one->id = ze_fake.numbers_by_address ? (uint64_t)(one->base - arena->seen) : last_id++;
    }
    return one;
}

struct allocation *fake_reserve(size_t size, size_t alignment)
{
    return reserve(ZE_MEMORY_TYPE_DEVICE, size, alignment);
}

char *fake_reached(const struct allocation *one)
{
    const struct arena *arena = &arenas[arena_of(one->type)];
    return arena->reached + (one->base - arena->seen);
}

int fake_map_file(const struct allocation *one, size_t size, int fd)
{
    return mmap(fake_reached(one), size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED;
}

void fake_map_arena(const struct allocation *one)
{
    const struct arena *arena = &arenas[arena_of(one->type)];
    size_t size = (one->size + FAKE_PAGE - 1) / FAKE_PAGE * FAKE_PAGE;
    mmap(fake_reached(one), size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, arena->fd,
         one->base - arena->seen);
}

void fake_unreserve(struct allocation *one)
{
    take_out(&whole, one);
}

/* A part of a pool of the device's and the context's; of a new one where the others are full. */
static struct allocation *reserve_part(struct fake_context *of, ze_device_handle_t device, size_t size,
                                       size_t alignment)
{
    struct allocation *part = NULL, *pool;
    alignment = alignment > PART_ALIGN ? alignment : PART_ALIGN;
    for (int i = 0; i < whole.count && !part; i++) {
        pool = &whole.all[i];
        if (pool->is_pool && pool->context == of && pool->device == device)
            part = insert(&parts, pool->base, pool->base + pool->size, size, alignment);
    }
    if (part || !(pool = fake_reserve(ze_fake.pool_bytes, FAKE_PAGE)))
        return part;
    fake_external_begin(pool);
    pool->is_pool = 1;
    pool->context = of;
    pool->device = device;
    return insert(&parts, pool->base, pool->base + pool->size, size, alignment);
}

/* --- allocating */

struct wanted {
    ze_memory_type_t type;
    size_t size, alignment;
    ze_device_handle_t device;
    int may_export;
};

static ze_result_t allocate(ze_context_handle_t context, const struct wanted *wanted, const char *call,
                            void **memory)
{
    struct fake_context *of = fake_context_find(context, call);
    if (!of)
        return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
    if (!fake_expect(wanted->size > 0, call, "Memory, Parameters", "size is 0"))
        return ZE_RESULT_ERROR_UNSUPPORTED_SIZE;
    if (!fake_expect((wanted->alignment & (wanted->alignment - 1)) == 0, call, "Memory, Parameters",
                     "alignment is no power of two"))
        return ZE_RESULT_ERROR_UNSUPPORTED_ALIGNMENT;
    if (ze_fake.alloc_result)
        return (ze_result_t)ze_fake.alloc_result;
    pthread_mutex_lock(&fake_lock);
    int is_part = wanted->type == ZE_MEMORY_TYPE_DEVICE && !wanted->may_export &&
                  wanted->size <= ze_fake.pool_bytes / 2;
    struct allocation *one = is_part ? reserve_part(of, wanted->device, wanted->size, wanted->alignment)
                                     : reserve(wanted->type, wanted->size, wanted->alignment);
    if (one) {
        one->type = wanted->type;
        one->id = is_part ? last_id++ : one->id;
        one->device = wanted->device;
        one->context = of;
        one->may_export = wanted->may_export;
        if (one->type == ZE_MEMORY_TYPE_DEVICE && !is_part)
            fake_external_begin(one);
        of->objects++;
        ze_fake.allocations++;
        *memory = one->base;
    }
    pthread_mutex_unlock(&fake_lock);
    return one ? ZE_RESULT_SUCCESS : ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY;
}

/* What a device's allocation may have behind its description: a wish to export it, or what it is to be imported from. */
static int check_export(const ze_external_memory_export_desc_t *wish, const char *call)
{
    const ze_external_memory_type_flags_t known = (1u << 8) - 1;
    return fake_expect((wish->flags & ~known) == 0, call, "ze_external_memory_export_desc_t",
                       "flags that are none") &&
           fake_expect(!ze_fake.no_dmabuf || !wish->flags, call, "External Memory Import and Export",
                       "the device exports no memory of this type");
}

ze_result_t fake_alloc_device(ze_context_handle_t context, const ze_device_mem_alloc_desc_t *desc,
                              size_t size, size_t alignment, ze_device_handle_t device, void **memory)
{
    static const char call[] = "zeMemAllocDevice";
    const void *next = NULL;
    struct wanted wanted = {ZE_MEMORY_TYPE_DEVICE, size, alignment, device, 0};
    if (fake_device_index(device, call) < 0)
        return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
    if (!fake_expect_chain(desc, ZE_STRUCTURE_TYPE_DEVICE_MEM_ALLOC_DESC, &next, call))
        return ZE_RESULT_ERROR_INVALID_ARGUMENT;
    if (next && *(const ze_structure_type_t *)next == ZE_STRUCTURE_TYPE_EXTERNAL_MEMORY_IMPORT_FD)
        return fake_import(context, device, size, next, memory);
    if (next && (!fake_expect_struct(next, ZE_STRUCTURE_TYPE_EXTERNAL_MEMORY_EXPORT_DESC, call) ||
                 !check_export(next, call)))
        return ZE_RESULT_ERROR_INVALID_ARGUMENT;
    wanted.may_export = next != NULL;
    return allocate(context, &wanted, call, memory);
}

ze_result_t fake_alloc_host(ze_context_handle_t context, const ze_host_mem_alloc_desc_t *desc, size_t size,
                            size_t alignment, void **memory)
{
    static const char call[] = "zeMemAllocHost";
    if (!fake_expect_struct(desc, ZE_STRUCTURE_TYPE_HOST_MEM_ALLOC_DESC, call))
        return ZE_RESULT_ERROR_INVALID_ARGUMENT;
    return allocate(context, &(struct wanted){ZE_MEMORY_TYPE_HOST, size, alignment, NULL, 0}, call, memory);
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
    return allocate(context, &(struct wanted){ZE_MEMORY_TYPE_SHARED, size, alignment, device, 0}, call,
                    memory);
}

/* --- residency */

int fake_is_resident(const void *memory, int device)
{
    const struct allocation *one = fake_find(memory);
    return one && (one->type != ZE_MEMORY_TYPE_DEVICE || one->device == NULL ||
                   fake_device_index(one->device, "a kernel") == device || one->residents >> device & 1);
}

/* Of a part of a pool the driver would map the whole pool, where the part is. */
static ze_result_t change_residency(ze_context_handle_t context, ze_device_handle_t device,
                                    const void *memory, size_t size, int is_resident, const char *call)
{
    struct fake_context *of = fake_context_find(context, call);
    int on = of ? fake_device_index(device, call) : -1;
    if (on < 0)
        return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
    ze_fake.resident_calls += is_resident;
    pthread_mutex_lock(&fake_lock);
    struct allocation *one = fake_find(memory), *whole_one = fake_find_whole(memory);
    int is_whole = one && one == whole_one && one->base == memory && size <= one->size &&
                   one->context->driver == of->driver;
    int is_idle = !one || is_resident || !one->commands;
    if (is_whole && is_idle && !(is_resident && ze_fake.resident_result)) {
        ze_fake.residents += is_resident - (int)(one->residents >> on & 1);
        one->residents = (one->residents & ~(1u << on)) | (uint32_t)is_resident << on;
    }
    pthread_mutex_unlock(&fake_lock);
    if (!fake_expect(is_whole, call, "Core Programming Guide, Memory, Residency",
                     "this is no whole allocation of this driver's") ||
        !fake_expect(is_idle, call, call, "a command in flight uses the memory"))
        return ZE_RESULT_ERROR_INVALID_ARGUMENT;
    return is_resident ? (ze_result_t)ze_fake.resident_result : ZE_RESULT_SUCCESS;
}

ze_result_t fake_make_resident(ze_context_handle_t context, ze_device_handle_t device, void *memory,
                               size_t size)
{
    return change_residency(context, device, memory, size, 1, "zeContextMakeMemoryResident");
}

ze_result_t fake_evict(ze_context_handle_t context, ze_device_handle_t device, void *memory, size_t size)
{
    return change_residency(context, device, memory, size, 0, "zeContextEvictMemory");
}

/* With the lock. A pool goes with its last part. */
static void end(struct allocation *one)
{
    struct allocation *pool = find_in(&whole, one->base);
    if (!one->is_imported)
        memset(fake_reached(one), 0xdd, one->size < 65536 ? one->size : 65536);
    one->context->objects--;
    ze_fake.residents -= __builtin_popcount(one->residents);
    ze_fake.allocations--;
    if (pool == one) {
        fake_external_end(one);
        take_out(&whole, one);
        return;
    }
    take_out(&parts, one);
    for (int i = 0; i < parts.count; i++) {
        if (parts.all[i].base >= pool->base && parts.all[i].base < pool->base + pool->size)
            return;
    }
    fake_external_end(pool);
    take_out(&whole, pool);
}

ze_result_t fake_free(ze_context_handle_t context, void *memory)
{
    static const char call[] = "zeMemFree";
    struct fake_context *of = fake_context_find(context, call);
    if (!of)
        return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
    pthread_mutex_lock(&fake_lock);
    struct allocation *one = fake_find(memory);
    int is_base = one && one->base == memory && one->context == of, is_idle = !one || one->commands == 0;
    if (is_base && is_idle)
        end(one);
    pthread_mutex_unlock(&fake_lock);
    if (!fake_expect(is_base, call, "zeMemFree, Parameters", "this is no allocation of this context"))
        return ZE_RESULT_ERROR_INVALID_ARGUMENT;
    return fake_expect(is_idle, call, "zeMemFree", "a command in flight uses the memory")
               ? ZE_RESULT_SUCCESS
               : ZE_RESULT_ERROR_HANDLE_OBJECT_IN_USE;
}

/* Of any context of the driver: the real ones find memory by its address. What is in a pool has the pool's number, as Intel's driver has it, also where
 * nothing of it has been given out. */
ze_result_t fake_alloc_properties(ze_context_handle_t context, const void *memory,
                                  ze_memory_allocation_properties_t *properties, ze_device_handle_t *device)
{
    static const char call[] = "zeMemGetAllocProperties";
    struct fake_context *of = fake_context_find(context, call);
    const void *next = NULL;
    ze_result_t result = ZE_RESULT_SUCCESS;
    if (!of)
        return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
    if (!fake_expect(memory != NULL, call, "zeMemGetAllocProperties, Parameters", "ptr is NULL"))
        return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
    if (!fake_expect_chain(properties, ZE_STRUCTURE_TYPE_MEMORY_ALLOCATION_PROPERTIES, &next, call) ||
        (next && !fake_expect_struct(next, ZE_STRUCTURE_TYPE_EXTERNAL_MEMORY_EXPORT_FD, call)))
        return ZE_RESULT_ERROR_INVALID_ARGUMENT;
    pthread_mutex_lock(&fake_lock);
    struct allocation *one = ze_fake.pool_numbers ? fake_find(memory) : fake_find_whole(memory);
    properties->type = ZE_MEMORY_TYPE_UNKNOWN;
    if (one && one->context->driver == of->driver) {
        properties->type = one->type;
        properties->id = one->id;
        properties->pageSize = FAKE_PAGE;
        if (device)
            *device = one->device;
        if (next && !ze_fake.ignores_export)
            result = fake_export(fake_find_whole(memory), properties->pNext);
    }
    pthread_mutex_unlock(&fake_lock);
    return result;
}

ze_result_t fake_address_range(ze_context_handle_t context, const void *memory, void **base, size_t *size)
{
    static const char call[] = "zeMemGetAddressRange";
    if (!fake_context_find(context, call))
        return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
    pthread_mutex_lock(&fake_lock);
    const struct allocation *one = fake_find(memory);
    if (one && base)
        *base = one->base;
    if (one && size)
        *size = one->size - (one->is_imported ? ze_fake.imported_less : 0);
    pthread_mutex_unlock(&fake_lock);
    return one ? ZE_RESULT_SUCCESS : ZE_RESULT_ERROR_UNKNOWN;
}

void *fake_reach(const void *memory, size_t size, int driver)
{
    const struct allocation *one = fake_find(memory);
    for (int a = 0; a < 2 && !one; a++) {
        if (arenas[a].seen && (const char *)memory >= arenas[a].seen &&
            (const char *)memory < arenas[a].seen + ARENA)
            return NULL;
    }
    if (!one)
        return (void *)(uintptr_t)memory;
    if (one->context->driver != driver || (size_t)((const char *)memory - one->base) + size > one->size)
        return NULL;
    return fake_reached(one) + ((const char *)memory - one->base);
}

int fake_kernel_reach(const void *memory, int device, char **reached, struct fake_span *span)
{
    const struct allocation *one = fake_find(memory);
    int owner =
        one && one->device ? fake_device_index(one->device, "zeCommandListAppendLaunchKernel") : device;
    if (!one || one->context->driver != (int)ze_fake.devices[device].driver ||
        (one->type == ZE_MEMORY_TYPE_DEVICE && owner != device && ze_fake.no_peers))
        return 0;
    span->begin = fake_reached(one);
    span->end = span->begin + one->size;
    *reached = span->begin + ((const char *)memory - one->base);
    return 1;
}

__attribute__((visibility("default"))) void *ze_fake_nic_reach(const void *memory, size_t size, int *number);

/* For a NIC, which is given a pointer and the number of the device in its driver's list. Of the first driver alone. */
void *ze_fake_nic_reach(const void *memory, size_t size, int *number)
{
    pthread_mutex_lock(&fake_lock);
    const struct allocation *one = fake_find(memory);
    int index = one && one->device ? fake_device_index(one->device, "a NIC") : -1;
    void *reached = index >= 0 ? fake_reach(memory, size, 0) : NULL;
    *number = 0;
    for (int i = 0; i < index; i++)
        *number += ze_fake.devices[i].driver == 0;
    pthread_mutex_unlock(&fake_lock);
    return reached;
}

ze_memory_type_t fake_type(const void *memory)
{
    const struct allocation *one = fake_find(memory);
    return one ? one->type : ZE_MEMORY_TYPE_UNKNOWN;
}

void fake_use(const void *memory, int commands)
{
    struct allocation *one = fake_find(memory);
    if (one)
        one->commands += commands;
}
