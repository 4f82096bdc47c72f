/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of a context: what the user allocates or registers, regions for operations, and the pool of staging
 * and receive buffers. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/error.h"
#include "base/fork.h"
#include "base/log.h"
#include "comm/drive/context.h"
#include "comm/regions/device_regions.h"
#include "comm/regions/cache.h"
#include "devmem/command_queue.h"
#include "devmem/share.h"

/* Pooled buffers that nobody uses and that exceed this are given back. */
#define POOL_BYTES_MAX (64u << 20)
#define ROUNDED_MAX    ((size_t)1 << 20)

_Static_assert(WEFT_TRANSPORT_COUNT <= WEFT_CACHE_TRANSPORTS &&
                   WEFT_TRANSPORT_COUNT <= WEFT_DEVICE_REGIONS_TRANSPORTS,
               "the caches have room for every transport's regions");

static struct weft_memory *find_covering(struct weft_context *context, const void *memory, size_t size)
{
    uintptr_t begin = (uintptr_t)memory;
    if (size > UINTPTR_MAX - begin)
        return NULL;
    return (struct weft_memory *)weft_intervals_cover(&context->regions.memory_spans, begin, begin + size);
}

static int region_make(void *arg, uint32_t transport, void *memory, size_t size, struct weft_region **region)
{
    struct weft_context *context = arg;
    struct weft_open_transport *open = &context->transports[transport];
    int status = open->ops.reg(open->instance, memory, size, region);
    context->regions.registrations += status == WEFT_OK;
    return status;
}

/* Memory that the program may only read can be sent from; that is found out here, as a message's memory does not say. Such a
 * region is not for the cache, as the program may allow itself to write there at any time. */
static int region_make_source(struct weft_context *context, uint32_t transport, void *memory, size_t size,
                              struct weft_region **region)
{
    struct weft_open_transport *open = &context->transports[transport];
    int status = open->ops.reg_source(open->instance, memory, size, region);
    context->regions.registrations += status == WEFT_OK;
    return status == WEFT_UNSUPPORTED ? WEFT_INVALID : status;
}

/* What the cache keeps for later must not be what there is no room beside. */
static int region_make_room(struct weft_context *context, uint32_t transport, void *memory, size_t size,
                            struct weft_region **region)
{
    int status = region_make(context, transport, memory, size, region);
    if (status == WEFT_INVALID)
        return region_make_source(context, transport, memory, size, region);
    if (status != WEFT_OK && context->regions.cache && weft_region_cache_trim(context->regions.cache))
        status = region_make(context, transport, memory, size, region);
    return status;
}

static void region_end(void *arg, uint32_t transport, struct weft_region *region)
{
    struct weft_context *context = arg;
    context->regions.registrations--;
    context->transports[transport].ops.dereg(region);
}

/* On a thread that must not wait for anybody: the service thread does the rest. */
static void cache_died(void *arg)
{
    struct weft_context *context = arg;
    atomic_store(&context->regions.cache_died, 1);
    weft_service_wake(context->service);
}

void weft_memory_tidy(struct weft_context *context)
{
    if (atomic_exchange(&context->regions.cache_died, 0) && context->regions.cache)
        weft_region_cache_reap(context->regions.cache);
}

static int cache_get(struct weft_context *context, uint32_t transport, const void *memory, size_t size,
                     struct weft_region **region)
{
    if (!context->settings.cache_bytes || !(context->transports[transport].caps.flags & WEFT_CAP_REG_KEEP))
        return WEFT_UNSUPPORTED;
    struct weft_region_cache_options options = {
        .bytes_max = (uint64_t)context->settings.cache_bytes,
        .arg = context,
        .reg = region_make,
        .dereg = region_end,
        .died = cache_died,
    };
    if (!context->regions.cache && weft_region_cache_open(&options, &context->regions.cache) != WEFT_OK)
        return WEFT_UNSUPPORTED;
    return weft_region_cache_get(context->regions.cache, transport, memory, size, region);
}

static int device_region_make(void *arg, uint32_t transport, const struct weft_device_memory *memory,
                              struct weft_region **region)
{
    struct weft_context *context = arg;
    struct weft_open_transport *open = &context->transports[transport];
    int status = open->ops.reg_device(open->instance, memory, region);
    context->regions.registrations += status == WEFT_OK;
    return status;
}

typedef int device_region_getter(struct weft_device_regions *regions, uint32_t transport, uint32_t caps,
                                 const struct weft_device_buffer *buffer, struct weft_region **region);

static int device_region_get(struct weft_context *context, uint32_t transport,
                             const struct weft_device_buffer *buffer, device_region_getter *get,
                             struct weft_region **region)
{
    const struct weft_open_transport *open = &context->transports[transport];
    struct weft_device_regions_options options = {
        .bytes_max = (uint64_t)context->settings.cache_bytes,
        .devices = context->devices.kinds,
        .arg = context,
        .reg = device_region_make,
        .dereg = region_end,
    };
    int status = WEFT_OK;
    if (!context->regions.device_regions)
        status = weft_device_regions_open(&options, &context->regions.device_regions);
    if (status == WEFT_OK)
        status = get(context->regions.device_regions, transport, open->caps.flags, buffer, region);
    if (status != WEFT_OK)
        weft_log_once_each(open->caps.flags & (WEFT_CAP_DMABUF | WEFT_CAP_DEVICE_POINTER) ? WEFT_LOG_WARN
                                                                                          : WEFT_LOG_INFO,
                           buffer->kind->name, open->ops.name, "%s copies through host memory: %s",
                           open->ops.name, weft_error_detail());
    return status == WEFT_OK ? WEFT_OK : WEFT_UNSUPPORTED;
}

static int known_region_make(struct weft_context *context, uint32_t transport, struct weft_memory *known)
{
    struct weft_known_region *made = &known->regions[transport];
    struct weft_device_buffer buffer;
    if (made->refused)
        return weft_fail(WEFT_UNSUPPORTED, "memory at %p cannot be registered, as was found before",
                         known->memory);
    int status = weft_device_buffer_look(context->devices.kinds, known->memory, known->size, &buffer);
    if (status == 1)
        status = device_region_get(context, transport, &buffer, weft_device_regions_make, &made->region);
    else if (status == 0)
        status = region_make_room(context, transport, known->memory, known->size, &made->region);
    made->refused = status == WEFT_UNSUPPORTED;
    if (status != WEFT_OK)
        return status;
    made->memory = known;
    made->at.begin = (uintptr_t)made->region;
    made->at.end = made->at.begin + 1;
    weft_intervals_add(&context->regions.known_regions, &made->at);
    return WEFT_OK;
}

static void known_region_end(struct weft_context *context, uint32_t transport, struct weft_memory *known)
{
    struct weft_known_region *made = &known->regions[transport];
    made->refused = 0;
    if (!made->region)
        return;
    weft_intervals_remove(&context->regions.known_regions, &made->at);
    region_end(context, transport, made->region);
    made->region = NULL;
}

static int region_get_unknown(struct weft_context *context, uint32_t transport, const void *memory,
                              size_t size, struct weft_region **region)
{
    struct weft_device_buffer buffer;
    int status = weft_device_buffer_look(context->devices.kinds, memory, size, &buffer);
    if (status == 1)
        return device_region_get(context, transport, &buffer, weft_device_regions_get, region);
    if (status < 0 || cache_get(context, transport, memory, size, region) == WEFT_OK)
        return status;
    return region_make_room(context, transport, (void *)(uintptr_t)memory, size, region);
}

int weft_memory_region_get(void *arg, uint32_t transport, const void *memory, size_t size,
                           struct weft_region **region)
{
    struct weft_context *context = arg;
    struct weft_memory *known = find_covering(context, memory, size);
    if (!known)
        return region_get_unknown(context, transport, memory, size, region);
    if (!known->regions[transport].region) {
        int status = known_region_make(context, transport, known);
        if (status != WEFT_OK)
            return status;
    }
    known->users++;
    *region = known->regions[transport].region;
    return WEFT_OK;
}

void weft_memory_region_put(void *arg, uint32_t transport, struct weft_region *region)
{
    struct weft_context *context = arg;
    if ((context->regions.cache && weft_region_cache_put(context->regions.cache, transport, region)) ||
        (context->regions.device_regions && weft_device_regions_put(context->regions.device_regions, region)))
        return;
    uintptr_t at = (uintptr_t)region;
    const struct weft_known_region *known =
        (const struct weft_known_region *)weft_intervals_at(&context->regions.known_regions, at, NULL);
    if (known)
        known->memory->users--;
    else
        region_end(context, transport, region);
}

int weft_memory_is_shared(void *arg, const void *memory, size_t size)
{
    struct weft_context *context = arg;
    const struct weft_memory *known = find_covering(context, memory, size);
    return known && known->owner && known->owner == context->transports[WEFT_SHM].instance;
}

static void forget(struct weft_context *context, struct weft_memory *known)
{
    if (known->previous)
        known->previous->next = known->next;
    else
        context->regions.memory = known->next;
    if (known->next)
        known->next->previous = known->previous;
    weft_intervals_remove(&context->regions.memory_spans, &known->span);
    for (uint32_t t = 0; t < WEFT_TRANSPORT_COUNT; t++)
        known_region_end(context, t, known);
    free(known);
}

/* NULL: no memory, which has been said. */
static struct weft_memory *remember(struct weft_context *context, void *memory, size_t size, int allocated,
                                    struct weft_transport *owner)
{
    struct weft_memory *known = calloc(1, sizeof *known);
    if (!known) {
        weft_fail(WEFT_NOMEM, "no memory to note %zu bytes", size);
        return NULL;
    }
    known->span.begin = (uintptr_t)memory;
    known->span.end = known->span.begin + size;
    known->memory = memory;
    known->size = size;
    known->allocated = allocated;
    known->owner = owner;
    known->next = context->regions.memory;
    if (known->next)
        known->next->previous = known;
    context->regions.memory = known;
    weft_intervals_add(&context->regions.memory_spans, &known->span);
    return known;
}

/* What begins there, and was allocated or not. */
static struct weft_memory *find_at(const struct weft_context *context, const void *memory, int allocated)
{
    struct weft_interval *at = NULL;
    while ((at = weft_intervals_at(&context->regions.memory_spans, (uintptr_t)memory, at))) {
        struct weft_memory *known = (struct weft_memory *)at;
        if (known->allocated == allocated)
            return known;
    }
    return NULL;
}

/* Ordinary pages, when peers cannot share memory anyway. */
static int allocate_pages(size_t size, void **memory)
{
    void *pages = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED)
        return weft_fail(WEFT_NOMEM, "no %zu bytes: %s", size, weft_errno_text(errno));
    *memory = pages;
    return WEFT_OK;
}

/* *owner is set in any case: NULL for ordinary pages. */
static int allocate(struct weft_context *context, uint32_t transport, size_t size, void **memory,
                    struct weft_transport **owner)
{
    struct weft_open_transport *open = &context->transports[transport];
    *owner = NULL;
    if (open->instance && open->ops.alloc(open->instance, size, memory) == WEFT_OK) {
        *owner = open->instance;
        return WEFT_OK;
    }
    return allocate_pages(size, memory);
}

static void deallocate(struct weft_context *context, uint32_t transport, void *memory, size_t size,
                       struct weft_transport *owner)
{
    if (owner) /* which may have been set aside since */
        context->transports[transport].ops.free(owner, memory);
    else
        munmap(memory, size);
}

int weft_mem_alloc(weft_context *context, size_t size, void **memory)
{
    weft_error_clear();
    if (weft_fork_is_child())
        return weft_fork_refuse();
    if (!context || !memory)
        return weft_fail(WEFT_INVALID, "%s is NULL", context ? "memory" : "context");
    if (size == 0 || size > SIZE_MAX / 2)
        return weft_fail(WEFT_INVALID, "size is %zu: expected 1 to %zu", size, SIZE_MAX / 2);
    weft_context_lock(context);
    if (!*context->settings.transports || strstr(context->settings.transports, "shm")) {
        if (weft_context_transport(context, WEFT_SHM, NULL) != WEFT_OK)
            weft_log_once(WEFT_LOG_WARN, "weft_mem_alloc gives ordinary memory: %s", weft_error_detail());
    }
    void *block;
    struct weft_transport *owner;
    int status = allocate(context, WEFT_SHM, size, &block, &owner);
    if (status == WEFT_OK) {
        if (remember(context, block, size, 1, owner)) {
            *memory = block;
        } else {
            status = WEFT_NOMEM;
            deallocate(context, WEFT_SHM, block, size, owner);
        }
    }
    weft_context_unlock(context);
    return status;
}

/* Forgets what the program gives back: what it has allocated, or registered. */
static int give_back(weft_context *context, void *memory, int allocated)
{
    weft_context_lock(context);
    int status = WEFT_OK;
    struct weft_memory *known = find_at(context, memory, allocated);
    if (known && known->users) {
        status = weft_fail(WEFT_BUSY, "%p is in use by an operation", memory);
    } else if (known) {
        size_t size = known->size;
        struct weft_transport *owner = known->owner;
        forget(context, known);
        if (allocated)
            deallocate(context, WEFT_SHM, memory, size, owner);
    } else {
        status = weft_fail(WEFT_INVALID, "%p was not %s on this context", memory,
                           allocated ? "allocated by weft_mem_alloc()" : "registered by weft_mem_register()");
    }
    weft_context_unlock(context);
    return status;
}

int weft_mem_free(weft_context *context, void *memory)
{
    weft_error_clear();
    if (weft_fork_is_child())
        return weft_fork_refuse();
    if (!context)
        return weft_fail(WEFT_INVALID, "context is NULL");
    return memory ? give_back(context, memory, 1) : WEFT_OK;
}

int weft_mem_register(weft_context *context, void *memory, size_t size)
{
    weft_error_clear();
    if (weft_fork_is_child())
        return weft_fork_refuse();
    if (!context || !memory || size == 0)
        return weft_fail(WEFT_INVALID, "context, memory and size must not be NULL or 0");
    if (size > UINTPTR_MAX - (uintptr_t)memory)
        return weft_fail(WEFT_INVALID, "%zu bytes at %p are more than there are", size, memory);
    weft_context_lock(context);
    int status = WEFT_OK;
    if (weft_intervals_at(&context->regions.memory_spans, (uintptr_t)memory, NULL))
        status = weft_fail(WEFT_INVALID, "%p is registered already", memory);
    else if (!remember(context, memory, size, 0, NULL))
        status = WEFT_NOMEM;
    weft_context_unlock(context);
    return status;
}

int weft_mem_deregister(weft_context *context, void *memory)
{
    weft_error_clear();
    if (weft_fork_is_child())
        return weft_fork_refuse();
    if (!context)
        return weft_fail(WEFT_INVALID, "context is NULL");
    return give_back(context, memory, 0);
}

/* A buffer of the pool that nobody uses and that is fit; best one that devices of the kind, or none, have been let in already. */
static struct weft_pool_buffer *find_buffer(struct weft_context *context, uint32_t transport, size_t size,
                                            const struct weft_device_kind *kind)
{
    const struct weft_transport *instance = context->transports[transport].instance;
    struct weft_pool_buffer *found = NULL;
    for (struct weft_pool_buffer *buffer = context->regions.buffers; buffer; buffer = buffer->next) {
        if (buffer->used || buffer->transport != transport || buffer->size != size ||
            (buffer->owner && buffer->owner != instance))
            continue;
        if (!kind || buffer->kind == kind)
            return buffer;
        if (!buffer->kind)
            found = buffer;
    }
    return found;
}

/* Lets devices of the kind in. */
static int pin_buffer(struct weft_pool_buffer *buffer, const struct weft_device_kind *kind)
{
    if (!kind || buffer->kind == kind)
        return WEFT_OK;
    int status = kind->ops.pin(kind->device, buffer->memory, buffer->size);
    if (status == WEFT_OK)
        buffer->kind = kind;
    return status;
}

static struct weft_pool_buffer *make_buffer(struct weft_context *context, uint32_t transport, size_t size)
{
    struct weft_pool_buffer *buffer = calloc(1, sizeof *buffer);
    if (!buffer)
        return NULL;
    if (allocate(context, transport, size, &buffer->memory, &buffer->owner) == WEFT_OK)
        buffer->known = remember(context, buffer->memory, size, 0, NULL);
    if (!buffer->known) {
        if (buffer->memory)
            deallocate(context, transport, buffer->memory, size, buffer->owner);
        free(buffer);
        return NULL;
    }
    buffer->size = size;
    buffer->transport = transport;
    buffer->next = context->regions.buffers;
    context->regions.buffers = buffer;
    return buffer;
}

/* Letting a device in is dear, so buffers for devices have few sizes, and serve again. */
static size_t round_size(size_t size)
{
    size_t rounded = 4096;
    if (size > ROUNDED_MAX)
        return (size + ROUNDED_MAX - 1) / ROUNDED_MAX * ROUNDED_MAX;
    while (rounded < size)
        rounded *= 2;
    return rounded;
}

void *weft_memory_buffer_get(void *arg, uint32_t transport, size_t size, const struct weft_device_kind *kind)
{
    struct weft_context *context = arg;
    if (kind)
        size = round_size(size);
    struct weft_pool_buffer *buffer = find_buffer(context, transport, size, kind);
    if (!buffer)
        buffer = make_buffer(context, transport, size);
    if (!buffer || pin_buffer(buffer, kind) != WEFT_OK)
        return NULL;
    buffer->used = 1;
    return buffer->memory;
}

static void free_buffer(struct weft_context *context, struct weft_pool_buffer *buffer)
{
    if (buffer->kind &&
        buffer->kind->ops.unpin(buffer->kind->device, buffer->memory, buffer->size) != WEFT_OK)
        weft_log(WEFT_LOG_WARN, "staging memory of %zu bytes stays pinned: %s", buffer->size,
                 weft_error_detail());
    forget(context, buffer->known);
    deallocate(context, buffer->transport, buffer->memory, buffer->size, buffer->owner);
    free(buffer);
}

void weft_memory_set_aside(struct weft_context *context, enum weft_transport_index transport)
{
    for (struct weft_memory *known = context->regions.memory; known; known = known->next)
        known_region_end(context, transport, known);
    if (context->regions.cache)
        weft_region_cache_forget(context->regions.cache, transport);
    if (context->regions.device_regions)
        weft_device_regions_forget(context->regions.device_regions, transport);
    for (struct weft_pool_buffer **at = &context->regions.buffers; *at;) {
        struct weft_pool_buffer *buffer = *at;
        if (buffer->transport == transport && buffer->owner && !buffer->used) {
            *at = buffer->next;
            free_buffer(context, buffer);
        } else {
            at = &buffer->next;
        }
    }
}

void weft_memory_buffer_put(void *arg, uint32_t transport, void *memory, size_t size)
{
    (void)size;
    struct weft_context *context = arg;
    const struct weft_transport *instance = context->transports[transport].instance;
    size_t idle_bytes = 0;
    for (struct weft_pool_buffer **at = &context->regions.buffers; *at;) {
        struct weft_pool_buffer *buffer = *at;
        int stale = buffer->memory == memory && buffer->owner && buffer->owner != instance;
        if (buffer->memory == memory)
            buffer->used = 0;
        if (stale || (!buffer->used && (idle_bytes += buffer->size) > POOL_BYTES_MAX)) {
            *at = buffer->next;
            free_buffer(context, buffer);
            continue;
        }
        at = &buffer->next;
    }
}

int weft_memory_close(struct weft_context *context)
{
    int held = 0;
    for (struct weft_memory *known = context->regions.memory; known; known = known->next)
        held += known->allocated != 0;
    if (held)
        return weft_fail(WEFT_BUSY, "%d blocks of weft_mem_alloc() have not been freed", held);
    weft_command_queues_destroy(context->devices.queues); /* which may hold some of the buffers */
    context->devices.queues = NULL;
    weft_shares_close(context->devices.shares); /* which the command queues may have held some of */
    context->devices.shares = NULL;
    weft_region_cache_close(context->regions.cache);
    context->regions.cache = NULL;
    weft_device_regions_close(context->regions.device_regions);
    context->regions.device_regions = NULL;
    while (context->regions.buffers) {
        struct weft_pool_buffer *next = context->regions.buffers->next;
        if (context->regions.buffers->used &&
            context->regions.buffers->kind) { /* a device that hangs may write there */
            forget(context, context->regions.buffers->known);
            free(context->regions.buffers);
        } else {
            free_buffer(context, context->regions.buffers);
        }
        context->regions.buffers = next;
    }
    while (context->regions.memory)
        forget(context, context->regions.memory);
    return WEFT_OK;
}
