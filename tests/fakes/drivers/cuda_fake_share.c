/* SPDX-License-Identifier: Apache-2.0 */
/* The fake libcuda.so.1: memory of other processes, pools and dma-bufs. Handles that are bytes say which process has
 * the memory open under which descriptor. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include "tests/fakes/drivers/cuda_fake_sim.h"

#define MAGIC 0x656b6166u

struct ticket {
    unsigned magic;
    int pid, fd, device;
    unsigned long long id;
    size_t size;
};
_Static_assert(sizeof(struct ticket) <= sizeof(CUblob), "fits");

static CUblob ticket_of(const struct sim_block *block)
{
    struct ticket ticket = {MAGIC, getpid(), block->fd, block->device, block->id, block->size};
    CUblob blob = {{0}};
    memcpy(&blob, &ticket, sizeof ticket);
    return blob;
}

/* The memory that a ticket is for; negative: a result. */
static int ticket_open(const CUblob *blob, struct ticket *ticket)
{
    char path[64];
    struct stat found;
    memcpy(ticket, blob, sizeof *ticket);
    if (ticket->magic != MAGIC || !ticket->size)
        return -INVALID_VALUE;
    snprintf(path, sizeof path, "/proc/%d/fd/%d", ticket->pid, ticket->fd);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return -INVALID_HANDLE;
    if (fstat(fd, &found) != 0 || (size_t)found.st_size < ticket->size) {
        close(fd);
        return -INVALID_HANDLE;
    }
    return fd;
}

/* --- legacy */

int cuIpcGetMemHandle(CUblob *handle, CUdeviceptr memory)
{
    CALL();
    pthread_mutex_lock(&sim.lock);
    const struct sim_memory *found = sim_find(memory);
    int is_right = found && found->kind == SIM_DEVICE && found->base == memory;
    if (is_right)
        *handle = ticket_of(found->block);
    pthread_mutex_unlock(&sim.lock);
    return is_right ? SUCCESS : INVALID_VALUE;
}

/* A handle that is open in the context already is refused, as older drivers do; today's reference says that it is counted. */
int cuIpcOpenMemHandle_v2(CUdeviceptr *memory, CUblob handle, unsigned flags)
{
    CALL();
    struct ticket ticket;
    if (!sim_current())
        return INVALID_CONTEXT;
    int fd = flags == 1 ? ticket_open(&handle, &ticket) : -INVALID_VALUE;
    if (fd < 0)
        return -fd;
    int result = ticket.pid == getpid() ? INVALID_CONTEXT : SUCCESS;
    pthread_mutex_lock(&sim.lock);
    for (const struct sim_memory *other = sim.memory; other; other = other->next) {
        if (other->kind == SIM_IMPORT && other->context == sim_current() &&
            memcmp(&other->handle, &handle, sizeof handle) == 0)
            result = ALREADY_MAPPED;
    }
    if (result) {
        pthread_mutex_unlock(&sim.lock);
        close(fd);
        return result;
    }
    struct sim_memory *made = sim_add(SIM_IMPORT, ticket.device, sim_reserve(ticket.size), ticket.size);
    made->handle = handle;
    result = sim_attach(made, sim_block_new(fd, ticket.device, ticket.size, 0));
    *memory = made->base;
    pthread_mutex_unlock(&sim.lock);
    return result;
}

int cuIpcCloseMemHandle(CUdeviceptr memory)
{
    CALL();
    pthread_mutex_lock(&sim.lock);
    struct sim_memory *found = sim_find(memory);
    int is_right = found && found->kind == SIM_IMPORT && found->context == sim_current();
    if (is_right)
        sim_release(found);
    pthread_mutex_unlock(&sim.lock);
    return is_right ? SUCCESS : INVALID_VALUE;
}

/* --- a descriptor or a fabric handle */

static int shareable_of(const struct sim_block *block, int types, int type, void *shareable)
{
    if (!(types & type))
        return INVALID_VALUE;
    if (type == 8) {
        CUblob blob = ticket_of(block);
        memcpy(shareable, &blob, sizeof blob);
        return SUCCESS;
    }
    int fd = dup(block->fd);
    memcpy(shareable, &fd, sizeof fd);
    return fd < 0 ? 304 /* OPERATING_SYSTEM */ : SUCCESS;
}

/* The driver refuses what is not its own; here that is anything but a memory file of whole pages. */
static int shareable_open(void *shareable, int type, struct ticket *ticket)
{
    struct stat found;
    if (type == 8)
        return ticket_open(shareable, ticket);
    int fd = fcntl((int)(intptr_t)shareable, F_DUPFD_CLOEXEC, 0);
    if (fd < 0)
        return -INVALID_VALUE;
    if (fstat(fd, &found) != 0 || !S_ISREG(found.st_mode) || !found.st_size ||
        found.st_size % (off_t)SIM_PAGE) {
        close(fd);
        return -INVALID_VALUE;
    }
    *ticket = (struct ticket){.size = (size_t)found.st_size};
    return fd;
}

int cuMemExportToShareableHandle(void *shareable, CUhandle handle, int type, unsigned long long flags)
{
    CALL();
    struct sim_block *block = (struct sim_block *)(uintptr_t)handle;
    return flags ? INVALID_VALUE : shareable_of(block, block->handle_types, type, shareable);
}

int cuMemImportFromShareableHandle(CUhandle *handle, void *shareable, int type)
{
    CALL();
    struct ticket ticket;
    int fd = shareable_open(shareable, type, &ticket);
    if (fd < 0)
        return -fd;
    pthread_mutex_lock(&sim.lock);
    *handle = (uintptr_t)sim_block_new(fd, ticket.device, ticket.size, type);
    pthread_mutex_unlock(&sim.lock);
    return SUCCESS;
}

int cuMemGetHandleForAddressRange(void *handle, CUdeviceptr memory, size_t size, int type,
                                  unsigned long long flags)
{
    CALL();
    if (type != 1 || flags || memory % SIM_PAGE || size % SIM_PAGE || !size)
        return INVALID_VALUE;
    if (!cuda_fake.has_dmabuf)
        return NOT_SUPPORTED;
    /* A copy, as several mappings have several files. Pages are whole, also where an allocation ends in the middle. */
    int fd = memfd_create("cuda-fake-dmabuf", 0), result = SUCCESS;
    if (fd < 0 || ftruncate(fd, (off_t)size) != 0)
        return OUT_OF_MEMORY;
    unsigned char *bytes = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (bytes == MAP_FAILED)
        return OUT_OF_MEMORY;
    pthread_mutex_lock(&sim.lock);
    for (CUdeviceptr at = memory; at < memory + size && !result; at += SIM_PAGE) {
        const struct sim_memory *found = sim_find(at);
        if (found && (found->kind == SIM_DEVICE || found->kind == SIM_MAPPED))
            memcpy(bytes + (at - memory), found->alias + (at - found->base), SIM_PAGE);
        else
            result = INVALID_VALUE;
    }
    pthread_mutex_unlock(&sim.lock);
    munmap(bytes, size);
    if (result) {
        close(fd);
        return result;
    }
    memcpy(handle, &fd, sizeof fd);
    return SUCCESS;
}

int cuFlushGPUDirectRDMAWrites(int target, int scope)
{
    CALL();
    if (target != 0 || (scope != 100 && scope != 200))
        return INVALID_VALUE;
    if (!sim_current())
        return INVALID_CONTEXT;
    return cuda_fake.flush_options & 1 ? SUCCESS : NOT_SUPPORTED;
}

/* --- pools */

static struct sim_pool *pool_new(int fd, int device, int handle_types, int is_import)
{
    struct sim_pool *pool = calloc(1, sizeof *pool);
    *pool =
        (struct sim_pool){.device = device, .handle_types = handle_types, .fd = fd, .is_import = is_import};
    pthread_mutex_lock(&sim.lock);
    pool->next = sim.pools;
    sim.pools = pool;
    sim.blocks++;
    pthread_mutex_unlock(&sim.lock);
    return pool;
}

/* What names a pool is the first number of its file. */
int cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *props)
{
    CALL();
    unsigned magic = MAGIC;
    if (props->allocType != 1 || props->location.type != 1)
        return INVALID_VALUE;
    int fd = memfd_create("cuda-fake-pool", MFD_CLOEXEC);
    if (fd < 0 || pwrite(fd, &magic, sizeof magic, 0) != sizeof magic || ftruncate(fd, (off_t)SIM_PAGE) != 0)
        return OUT_OF_MEMORY;
    *pool = pool_new(fd, props->location.id, props->handleTypes, 0);
    return SUCCESS;
}

int cuMemPoolDestroy(CUmemoryPool pool)
{
    CALL();
    pthread_mutex_lock(&sim.lock);
    struct sim_pool **link = &sim.pools;
    while (*link != pool)
        link = &(*link)->next;
    *link = pool->next;
    sim.blocks--;
    pthread_mutex_unlock(&sim.lock);
    close(pool->fd);
    free(pool);
    return SUCCESS;
}

int cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *access, size_t count)
{
    CALL();
    if (count != 1 || access->location.type != 1 || access->flags != 3)
        return INVALID_VALUE;
    pool->access = 1;
    return SUCCESS;
}

int cuMemAllocFromPoolAsync(CUdeviceptr *memory, size_t size, CUmemoryPool pool, CUstream stream)
{
    CALL();
    (void)stream;
    if (pool->is_import)
        return INVALID_VALUE;
    pthread_mutex_lock(&sim.lock);
    struct sim_memory *made = sim_add(SIM_POOL, pool->device, sim_reserve(size), size);
    made->pool = pool;
    made->context = NULL;
    int result = sim_attach(made, sim_block_new(-1, pool->device, size, 0));
    *memory = made->base;
    pthread_mutex_unlock(&sim.lock);
    return result;
}

int cuMemFreeAsync(CUdeviceptr memory, CUstream stream)
{
    (void)stream;
    return cuMemFree_v2(memory);
}

int cuMemPoolExportToShareableHandle(void *shareable, CUmemoryPool pool, int type, unsigned long long flags)
{
    CALL();
    struct sim_block block = {.fd = pool->fd, .device = pool->device, .size = SIM_PAGE};
    return flags ? INVALID_VALUE : shareable_of(&block, pool->handle_types, type, shareable);
}

int cuMemPoolImportFromShareableHandle(CUmemoryPool *pool, void *shareable, int type,
                                       unsigned long long flags)
{
    CALL();
    struct ticket ticket = {0};
    unsigned magic = 0;
    int fd = flags ? -INVALID_VALUE : shareable_open(shareable, type, &ticket);
    if (fd < 0)
        return -fd;
    if (pread(fd, &magic, sizeof magic, 0) != sizeof magic || magic != MAGIC) {
        close(fd);
        return INVALID_VALUE;
    }
    *pool = pool_new(fd, ticket.device, 0, 1);
    return SUCCESS;
}

int cuMemPoolExportPointer(CUblob *data, CUdeviceptr memory)
{
    CALL();
    pthread_mutex_lock(&sim.lock);
    const struct sim_memory *found = sim_find(memory);
    int is_right = found && found->kind == SIM_POOL && found->base == memory && found->pool->handle_types;
    if (is_right)
        *data = ticket_of(found->block);
    pthread_mutex_unlock(&sim.lock);
    return is_right ? SUCCESS : INVALID_VALUE;
}

int cuMemPoolImportPointer(CUdeviceptr *memory, CUmemoryPool pool, CUblob *data)
{
    CALL();
    struct ticket ticket;
    int fd = pool->access ? ticket_open(data, &ticket) : -INVALID_VALUE;
    if (fd < 0)
        return -fd;
    pthread_mutex_lock(&sim.lock);
    struct sim_memory *made = sim_add(SIM_POOL, ticket.device, sim_reserve(ticket.size), ticket.size);
    made->pool = pool;
    int result = sim_attach(made, sim_block_new(fd, ticket.device, ticket.size, 0));
    *memory = made->base;
    pthread_mutex_unlock(&sim.lock);
    return result;
}
