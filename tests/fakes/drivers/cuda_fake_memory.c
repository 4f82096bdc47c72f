/* SPDX-License-Identifier: Apache-2.0 */
/* The fake libcuda.so.1: memory, and questions about pointers. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "tests/fakes/drivers/cuda_fake_sim.h"

/* --- entries */

struct sim_memory *sim_find(uintptr_t pointer)
{
    struct sim_memory *reserved = NULL;
    for (struct sim_memory *memory = sim.memory; memory; memory = memory->next) {
        if (pointer < memory->base || pointer - memory->base >= memory->size)
            continue;
        if (memory->kind != SIM_RESERVED)
            return memory;
        reserved = memory;
    }
    return reserved;
}

struct sim_memory *sim_add(enum sim_kind kind, int device, uintptr_t base, size_t size)
{
    struct sim_memory *memory = calloc(1, sizeof *memory);
    memory->kind = kind;
    memory->device = device;
    memory->base = memory->range = base;
    memory->size = memory->range_size = size;
    memory->id = sim.next_id++;
    memory->context = sim_current();
    memory->next = sim.memory;
    sim.memory = memory;
    return memory;
}

void sim_remove(struct sim_memory *memory)
{
    struct sim_memory **link = &sim.memory;
    while (*link != memory)
        link = &(*link)->next;
    *link = memory->next;
    free(memory);
}

/* Addresses that came back are given out again at once: what remembers memory by its address alone is found out. */
#define KEPT 32
static struct {
    uintptr_t base;
    size_t size;
} kept[KEPT];

static size_t whole_pages(size_t size)
{
    return (size + SIM_PAGE - 1) & ~(SIM_PAGE - 1);
}

uintptr_t sim_reserve(size_t size)
{
    for (int i = 0; i < KEPT; i++) {
        if (kept[i].base && kept[i].size == whole_pages(size)) {
            uintptr_t base = kept[i].base;
            kept[i].base = 0;
            return base;
        }
    }
    void *memory =
        mmap(NULL, whole_pages(size), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return memory == MAP_FAILED ? 0 : (uintptr_t)memory;
}

void sim_unreserve(uintptr_t base, size_t size)
{
    for (int i = 0; i < KEPT; i++) {
        if (!kept[i].base) {
            kept[i].base = base;
            kept[i].size = whole_pages(size);
            return;
        }
    }
    munmap((void *)base, whole_pages(size));
}

struct sim_block *sim_block_new(int fd, int device, size_t size, int handle_types)
{
    if (fd < 0) {
        fd = memfd_create("cuda-fake", MFD_CLOEXEC);
        if (fd < 0 || ftruncate(fd, (off_t)whole_pages(size)) != 0)
            return NULL;
    }
    struct sim_block *block = calloc(1, sizeof *block);
    *block = (struct sim_block){sim.next_id++, fd, device, 1, handle_types, size};
    sim.blocks++;
    return block;
}

void sim_block_put(struct sim_block *block)
{
    if (--block->references)
        return;
    close(block->fd);
    free(block);
    sim.blocks--;
}

int sim_attach(struct sim_memory *memory, struct sim_block *block)
{
    void *alias = mmap(NULL, whole_pages(memory->size), PROT_READ | PROT_WRITE, MAP_SHARED, block->fd, 0);
    if (alias == MAP_FAILED)
        return OUT_OF_MEMORY;
    memory->alias = alias;
    memory->block = block;
    return SUCCESS;
}

void sim_release(struct sim_memory *memory)
{
    munmap(memory->alias, whole_pages(memory->size));
    sim_block_put(memory->block);
    if (memory->kind != SIM_MAPPED)
        sim_unreserve(memory->base, memory->size);
    sim_remove(memory);
}

unsigned char *sim_touch(uintptr_t pointer, size_t *room)
{
    pthread_mutex_lock(&sim.lock);
    struct sim_memory *memory = sim_find(pointer);
    unsigned char *touch = (unsigned char *)pointer;
    *room = SIZE_MAX;
    if (memory && memory->alias) {
        touch = memory->alias + (pointer - memory->base);
        *room = memory->base + memory->size - pointer;
    }
    pthread_mutex_unlock(&sim.lock);
    return touch;
}

void sim_copy(uintptr_t destination, uintptr_t source, size_t size)
{
    while (size) {
        size_t there, here, piece = size;
        unsigned char *to = sim_touch(destination, &there), *from = sim_touch(source, &here);
        piece = piece < there ? piece : there;
        piece = piece < here ? piece : here;
        memmove(to, from, piece);
        destination += piece;
        source += piece;
        size -= piece;
    }
}

void sim_fill(uintptr_t destination, int byte, size_t size)
{
    for (size_t room, piece; size > 0; destination += piece, size -= piece) {
        unsigned char *to = sim_touch(destination, &room);
        piece = size < room ? size : room;
        memset(to, byte, piece);
    }
}

/* --- allocations */

static int device_now(void)
{
    return sim_current() ? sim_current()->device : -1;
}

int cuMemAlloc_v2(CUdeviceptr *memory, size_t size)
{
    CALL();
    if (device_now() < 0)
        return INVALID_CONTEXT;
    if (!size)
        return INVALID_VALUE;
    if (size > (size_t)1 << 40)
        return OUT_OF_MEMORY;
    pthread_mutex_lock(&sim.lock);
    struct sim_memory *made = sim_add(SIM_DEVICE, device_now(), sim_reserve(size), size);
    int result = sim_attach(made, sim_block_new(-1, made->device, size, 0));
    *memory = made->base;
    pthread_mutex_unlock(&sim.lock);
    return result;
}

static int release_kind(uintptr_t base, enum sim_kind kind, enum sim_kind other)
{
    pthread_mutex_lock(&sim.lock);
    struct sim_memory *memory = sim_find(base);
    int is_right = memory && memory->base == base && (memory->kind == kind || memory->kind == other);
    if (is_right && memory->alias && memory->kind != SIM_MANAGED && memory->kind != SIM_PINNED)
        sim_release(memory);
    else if (is_right) {
        munmap((void *)memory->base, whole_pages(memory->size));
        sim_remove(memory);
    }
    pthread_mutex_unlock(&sim.lock);
    return is_right ? SUCCESS : INVALID_VALUE;
}

/* Also of managed memory, and of what was imported from a pool. */
int cuMemFree_v2(CUdeviceptr memory)
{
    CALL();
    if (device_now() < 0)
        return INVALID_CONTEXT;
    if (release_kind(memory, SIM_DEVICE, SIM_MANAGED) == SUCCESS)
        return SUCCESS;
    return release_kind(memory, SIM_POOL, SIM_POOL);
}

static int allocate_host(enum sim_kind kind, size_t size, unsigned flags, void **memory)
{
    if (device_now() < 0)
        return INVALID_CONTEXT;
    void *made = mmap(NULL, whole_pages(size), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (!size || made == MAP_FAILED)
        return size ? OUT_OF_MEMORY : INVALID_VALUE;
    pthread_mutex_lock(&sim.lock);
    sim_add(kind, device_now(), (uintptr_t)made, size)->flags = flags;
    pthread_mutex_unlock(&sim.lock);
    *memory = made;
    return SUCCESS;
}

int cuMemAllocManaged(CUdeviceptr *memory, size_t size, unsigned flags)
{
    CALL();
    void *made = NULL;
    int result = allocate_host(SIM_MANAGED, size, flags, &made);
    *memory = (uintptr_t)made;
    return result;
}

int cuMemHostAlloc(void **memory, size_t size, unsigned flags)
{
    CALL();
    return allocate_host(SIM_PINNED, size, flags, memory);
}

int cuMemFreeHost(void *memory)
{
    CALL();
    return release_kind((uintptr_t)memory, SIM_PINNED, SIM_PINNED);
}

int cuMemHostRegister_v2(void *memory, size_t size, unsigned flags)
{
    CALL();
    uintptr_t begin = (uintptr_t)memory, end = begin + size;
    if (device_now() < 0)
        return INVALID_CONTEXT;
    if (!memory || !size)
        return INVALID_VALUE;
    pthread_mutex_lock(&sim.lock);
    int result = SUCCESS;
    for (struct sim_memory *other = sim.memory; other; other = other->next) {
        if (other->base < end && begin < other->base + other->size)
            result = ALREADY_REGISTERED;
    }
    if (!result)
        sim_add(SIM_REGISTERED, device_now(), begin, size)->flags = flags;
    pthread_mutex_unlock(&sim.lock);
    return result;
}

int cuMemHostUnregister(void *memory)
{
    CALL();
    pthread_mutex_lock(&sim.lock);
    struct sim_memory *found = sim_find((uintptr_t)memory);
    int is_right = found && found->kind == SIM_REGISTERED && found->base == (uintptr_t)memory;
    if (is_right)
        sim_remove(found);
    pthread_mutex_unlock(&sim.lock);
    return is_right ? SUCCESS : NOT_REGISTERED;
}

int cuMemHostGetDevicePointer_v2(CUdeviceptr *pointer, void *memory, unsigned flags)
{
    CALL();
    pthread_mutex_lock(&sim.lock);
    struct sim_memory *found = sim_find((uintptr_t)memory);
    int is_right = !flags && found && (found->kind == SIM_REGISTERED || found->kind == SIM_PINNED);
    pthread_mutex_unlock(&sim.lock);
    *pointer = (uintptr_t)memory;
    return is_right ? SUCCESS : INVALID_VALUE;
}

/* --- memory that is mapped piece by piece */

int cuMemCreate(CUhandle *handle, size_t size, const CUmemAllocationProp *prop, unsigned long long flags)
{
    CALL();
    if (flags || size % SIM_PAGE || !size || prop->type != 1 || prop->location.type != 1)
        return INVALID_VALUE;
    pthread_mutex_lock(&sim.lock);
    struct sim_block *block = sim_block_new(-1, prop->location.id, size, prop->requestedHandleTypes);
    pthread_mutex_unlock(&sim.lock);
    *handle = (uintptr_t)block;
    return block ? SUCCESS : OUT_OF_MEMORY;
}

int cuMemRelease(CUhandle handle)
{
    CALL();
    pthread_mutex_lock(&sim.lock);
    sim_block_put((struct sim_block *)(uintptr_t)handle);
    pthread_mutex_unlock(&sim.lock);
    return SUCCESS;
}

int cuMemRetainAllocationHandle(CUhandle *handle, void *memory)
{
    CALL();
    pthread_mutex_lock(&sim.lock);
    struct sim_memory *found = sim_find((uintptr_t)memory);
    int is_right = found && found->kind == SIM_MAPPED;
    if (is_right) {
        found->block->references++;
        *handle = (uintptr_t)found->block;
    }
    pthread_mutex_unlock(&sim.lock);
    return is_right ? SUCCESS : INVALID_VALUE;
}

int cuMemAddressReserve(CUdeviceptr *memory, size_t size, size_t alignment, CUdeviceptr hint,
                        unsigned long long flags)
{
    CALL();
    if (!size || size % SIM_PAGE || alignment || hint || flags)
        return INVALID_VALUE;
    if (size > (size_t)1 << 40)
        return OUT_OF_MEMORY;
    pthread_mutex_lock(&sim.lock);
    *memory = sim_add(SIM_RESERVED, 0, sim_reserve(size), size)->base;
    pthread_mutex_unlock(&sim.lock);
    return SUCCESS;
}

int cuMemAddressFree(CUdeviceptr memory, size_t size)
{
    CALL();
    pthread_mutex_lock(&sim.lock);
    struct sim_memory *found = sim_find(memory);
    int is_right = found && found->kind == SIM_RESERVED && found->base == memory && found->size == size;
    if (is_right) {
        sim_unreserve(memory, size);
        sim_remove(found);
    }
    pthread_mutex_unlock(&sim.lock);
    return is_right ? SUCCESS : INVALID_VALUE;
}

int cuMemMap(CUdeviceptr memory, size_t size, size_t offset, CUhandle handle, unsigned long long flags)
{
    CALL();
    struct sim_block *block = (struct sim_block *)(uintptr_t)handle;
    int result = INVALID_VALUE;
    pthread_mutex_lock(&sim.lock);
    struct sim_memory *reserved = sim_find(memory);
    if (!offset && !flags && reserved && reserved->kind == SIM_RESERVED && size % SIM_PAGE == 0 &&
        size <= block->size && memory + size <= reserved->base + reserved->size) {
        struct sim_memory *made = sim_add(SIM_MAPPED, block->device, memory, size);
        made->range = reserved->base;
        made->range_size = reserved->size;
        made->id = reserved->id; /* assumed: the identity is that of the range */
        made->context = NULL;
        result = sim_attach(made, block);
        block->references++;
    }
    pthread_mutex_unlock(&sim.lock);
    return result;
}

int cuMemUnmap(CUdeviceptr memory, size_t size)
{
    CALL();
    pthread_mutex_lock(&sim.lock);
    struct sim_memory *found = sim_find(memory);
    int is_right = found && found->kind == SIM_MAPPED && found->base == memory && found->size == size;
    if (is_right)
        sim_release(found);
    pthread_mutex_unlock(&sim.lock);
    return is_right ? SUCCESS : INVALID_VALUE;
}

int cuMemSetAccess(CUdeviceptr memory, size_t size, const CUmemAccessDesc *access, size_t count)
{
    CALL();
    (void)size;
    pthread_mutex_lock(&sim.lock);
    struct sim_memory *found = sim_find(memory);
    int is_right =
        found && found->kind == SIM_MAPPED && count == 1 && access->location.type == 1 && access->flags == 3;
    pthread_mutex_unlock(&sim.lock);
    return is_right ? SUCCESS : INVALID_VALUE;
}

/* --- questions */

/* Assumed where the reference is silent: memory that was imported is not fit for legacy IPC again, RANGE is the
 * reservation for what is mapped and the allocation else, MAPPING of an allocation is what the driver maps at least. */
static uint64_t answer(const struct sim_memory *memory, int attribute, uintptr_t pointer)
{
    int is_host = memory->kind == SIM_PINNED || memory->kind == SIM_REGISTERED;
    int is_there = memory->kind != SIM_RESERVED;
    switch (attribute) {
    case 2: /* MEMORY_TYPE */
        return is_host ? 1 : 2;
    case 3: /* DEVICE_POINTER */
        return is_host && memory->flags & 4 ? pointer + (UINT64_C(1) << 46) : pointer;
    case 7: /* BUFFER_ID */
        return memory->id;
    case 8: /* IS_MANAGED */
        return memory->kind == SIM_MANAGED;
    case 9: /* DEVICE_ORDINAL */
        return (uint32_t)memory->device;
    case 10: /* IS_LEGACY_CUDA_IPC_CAPABLE */
        return memory->kind == SIM_DEVICE;
    case 11: /* RANGE_START_ADDR */
        return memory->range;
    case 12: /* RANGE_SIZE */
        return memory->range_size;
    case 13: /* MAPPED */
        return is_there;
    case 14: /* ALLOWED_HANDLE_TYPES */
        return memory->pool    ? (uint64_t)memory->pool->handle_types
               : memory->block ? (uint64_t)memory->block->handle_types
                               : 0;
    case 15: /* IS_GPU_DIRECT_RDMA_CAPABLE */
        return memory->kind == SIM_DEVICE;
    case 17: /* MEMPOOL_HANDLE */
        return (uint64_t)(uintptr_t)memory->pool;
    case 18: /* MAPPING_SIZE */
        return memory->kind == SIM_MAPPED ? memory->size : whole_pages(memory->size) + 16 * SIM_PAGE;
    case 19: /* MAPPING_BASE_ADDR */
        return memory->base;
    case 20: /* MEMORY_BLOCK_ID */
        return memory->block ? memory->block->id : 0;
    default:
        return 0;
    }
}

static size_t width(int attribute)
{
    return attribute == 2 || attribute == 8 || attribute == 9 || attribute == 10 || attribute == 13 ||
                   attribute == 14 || attribute == 15
               ? 4
               : 8;
}

static int is_known(int attribute)
{
    return attribute >= 1 && attribute <= (cuda_fake.knows_mappings ? 21 : 17);
}

int cuPointerGetAttributes(unsigned count, const int *attributes, void **values, CUdeviceptr pointer)
{
    CALL();
    if (cuda_fake.needs_context && !sim_current())
        return INVALID_CONTEXT;
    for (unsigned i = 0; i < count; i++) {
        if (!is_known(attributes[i]))
            return INVALID_VALUE;
    }
    pthread_mutex_lock(&sim.lock);
    const struct sim_memory *memory = sim_find(pointer);
    for (unsigned i = 0; i < count; i++) {
        uint64_t value = memory               ? answer(memory, attributes[i], pointer)
                         : attributes[i] == 9 ? UINT64_C(0xfffffffe) /* CU_DEVICE_INVALID */
                                              : 0;
        memcpy(values[i], &value, width(attributes[i]));
    }
    pthread_mutex_unlock(&sim.lock);
    return SUCCESS;
}

int cuPointerGetAttribute(void *value, int attribute, CUdeviceptr pointer)
{
    CALL();
    pthread_mutex_lock(&sim.lock);
    struct sim_memory *memory = sim_find(pointer);
    pthread_mutex_unlock(&sim.lock);
    return memory ? cuPointerGetAttributes(1, &attribute, &value, pointer) : INVALID_VALUE;
}

/* Refused for what is not fit for legacy IPC. */
int cuPointerSetAttribute(const void *value, int attribute, CUdeviceptr pointer)
{
    CALL();
    pthread_mutex_lock(&sim.lock);
    struct sim_memory *memory = sim_find(pointer);
    int is_right = memory && memory->kind == SIM_DEVICE && attribute == 6;
    if (is_right)
        memory->is_synchronous = *(const unsigned *)value != 0;
    pthread_mutex_unlock(&sim.lock);
    return is_right ? SUCCESS : NOT_SUPPORTED;
}

int cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *size, CUdeviceptr pointer)
{
    CALL();
    if (!sim_current())
        return INVALID_CONTEXT;
    pthread_mutex_lock(&sim.lock);
    const struct sim_memory *memory = sim_find(pointer);
    if (memory) {
        *base = memory->base;
        *size = memory->size;
    }
    pthread_mutex_unlock(&sim.lock);
    return memory ? SUCCESS : NOT_FOUND;
}
