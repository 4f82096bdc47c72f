/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/regions/device_regions.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/interval.h"
#include "base/log.h"

#define ENTRIES_MAX 1024

struct entry {
    struct weft_interval span;   /* of the buffer, in its transport's tree; first, so that one is the other */
    struct weft_interval at;     /* of the region's address, in `made` */
    struct entry *newer, *older; /* in the order of use, oldest first; those in use as well */
    struct weft_device_buffer buffer;
    struct weft_region *region; /* NULL: there can be none */
    uint32_t transport, users;
    int dead; /* in no tree of buffers any more */
};

struct weft_device_regions {
    struct weft_device_regions_options options;
    struct weft_intervals buffers[WEFT_DEVICE_REGIONS_TRANSPORTS];
    struct weft_intervals made; /* by their regions' addresses, each of one byte */
    struct entry *newest, *oldest;
    uint64_t bytes, count; /* of those that are not dead */
    uint64_t hits, misses;
};

/* --- whose memory */

static int refuse_buffer(const void *memory, size_t size, const struct weft_device_kind *kind,
                         const char *why)
{
    return weft_fail(WEFT_UNSUPPORTED, "%zu bytes at %p (%s) are not registered: %s", size, memory,
                     kind->name, why);
}

int weft_device_buffer_look(struct weft_devices *devices, const void *memory, size_t size,
                            struct weft_device_buffer *buffer)
{
    struct weft_device_span span;
    uintptr_t begin = (uintptr_t)memory, end = begin + size;
    const struct weft_device_kind *kind = weft_devices_identify(devices, memory, &span);
    if (span.kind == WEFT_MEMORY_HOST || span.kind == WEFT_MEMORY_PINNED)
        return 0;
    if (span.kind != WEFT_MEMORY_DEVICE)
        return refuse_buffer(memory, size, kind, "managed memory moves");
    struct weft_device_buffer found = {(void *)begin, size, kind, span.ordinal, span.flags, span.identity};
    uintptr_t at = span.base + span.length;
    while (at < end) {
        const struct weft_device_kind *other = weft_devices_identify(devices, (const void *)at, &span);
        if (other != kind || span.kind != WEFT_MEMORY_DEVICE || span.ordinal != found.ordinal ||
            span.base + span.length <= at)
            return refuse_buffer(memory, size, kind, "not all of it is memory of one device");
        uint64_t mixed = weft_hash_bytes(found.identity, &span.identity, sizeof span.identity);
        found.identity = found.identity && span.identity ? mixed | UINT64_C(1) << 62 : 0;
        found.flags &= span.flags;
        at = span.base + span.length;
    }
    *buffer = found;
    return 1;
}

/* --- ways */

/* What failed so far, in words. */
struct reasons {
    size_t used;
    char text[WEFT_DETAIL_MAX];
};

static void reason_add(struct reasons *reasons, const char *way, const char *why)
{
    int size = snprintf(reasons->text + reasons->used, sizeof reasons->text - reasons->used, "%s%s: %s",
                        reasons->used ? "; " : "", way, why);
    reasons->used += (size_t)(size > 0 ? size : 0);
    if (reasons->used >= sizeof reasons->text)
        reasons->used = sizeof reasons->text - 1;
}

static int register_dmabuf(const struct weft_device_regions *regions, uint32_t transport,
                           struct weft_device_memory memory, const struct weft_device_kind *kind,
                           struct weft_region **region)
{
    int fd = -1;
    int status = kind->ops.export_dmabuf(kind->device, memory.memory, memory.bytes, &fd, &memory.offset);
    if (status != WEFT_OK)
        return status;
    memory.fd = fd;
    status = regions->options.reg(regions->options.arg, transport, &memory, region);
    close(fd);
    return status;
}

/* WEFT_NOMEM when that was it in any way, otherwise WEFT_UNSUPPORTED. */
static int register_buffer(const struct weft_device_regions *regions, uint32_t transport, uint32_t caps,
                           const struct weft_device_buffer *buffer, struct weft_region **region)
{
    struct reasons reasons = {0};
    struct weft_device_memory memory = {.size = sizeof memory,
                                        .memory = buffer->memory,
                                        .bytes = buffer->size,
                                        .kind = buffer->kind->name,
                                        .ordinal = buffer->ordinal,
                                        .fd = -1,
                                        .flags = buffer->flags};
    int is_short = 0, status = WEFT_UNSUPPORTED;
    if (!(caps & WEFT_CAP_DMABUF))
        reason_add(&reasons, "as a dma-buf", "the transport takes none here");
    else if (!(buffer->flags & WEFT_SPAN_DMABUF))
        reason_add(&reasons, "as a dma-buf", "the device exports none of it");
    else if ((status = register_dmabuf(regions, transport, memory, buffer->kind, region)) != WEFT_OK)
        reason_add(&reasons, "as a dma-buf", weft_error_detail());
    is_short |= status == WEFT_NOMEM;
    if (status != WEFT_OK && !(caps & WEFT_CAP_DEVICE_POINTER))
        reason_add(&reasons, "by its pointer", "the transport takes none here");
    else if (status != WEFT_OK &&
             (status = regions->options.reg(regions->options.arg, transport, &memory, region)) != WEFT_OK)
        reason_add(&reasons, "by its pointer", weft_error_detail());
    is_short |= status == WEFT_NOMEM;
    if (status == WEFT_OK)
        return WEFT_OK;
    return weft_fail(is_short ? WEFT_NOMEM : WEFT_UNSUPPORTED, "memory of %s:%d cannot be registered: %s",
                     buffer->kind->name, (int)buffer->ordinal, reasons.text);
}

/* --- entries */

static struct entry *entry_of(const struct weft_device_regions *regions, const struct weft_region *region)
{
    struct weft_interval *at = weft_intervals_at(&regions->made, (uintptr_t)region, NULL);
    return at ? (struct entry *)(void *)((char *)at - offsetof(struct entry, at)) : NULL;
}

static void order_remove(struct weft_device_regions *regions, struct entry *entry)
{
    *(entry->newer ? &entry->newer->older : &regions->newest) = entry->older;
    *(entry->older ? &entry->older->newer : &regions->oldest) = entry->newer;
}

static void order_add(struct weft_device_regions *regions, struct entry *entry)
{
    entry->newer = NULL;
    entry->older = regions->newest;
    *(entry->older ? &entry->older->newer : &regions->oldest) = entry;
    regions->newest = entry;
}

static void entry_end(struct weft_device_regions *regions, struct entry *entry)
{
    if (entry->region) {
        weft_intervals_remove(&regions->made, &entry->at);
        regions->options.dereg(regions->options.arg, entry->transport, entry->region);
    }
    free(entry);
}

/* It is found no more, and ends when nobody uses it. */
static void entry_retire(struct weft_device_regions *regions, struct entry *entry)
{
    weft_intervals_remove(&regions->buffers[entry->transport], &entry->span);
    order_remove(regions, entry);
    regions->bytes -= entry->region ? entry->buffer.size : 0;
    regions->count--;
    entry->dead = 1;
    if (!entry->users)
        entry_end(regions, entry);
}

static int is_same(const struct weft_device_buffer *a, const struct weft_device_buffer *b)
{
    return a->kind == b->kind && a->identity == b->identity;
}

/* Whether the entry's memory is still what it was. Leaves the thread's error text as it is. */
static int is_current(const struct weft_device_regions *regions, const struct entry *entry)
{
    char detail[WEFT_DETAIL_MAX];
    struct weft_device_buffer now;
    snprintf(detail, sizeof detail, "%s", weft_error_detail());
    int found =
        weft_device_buffer_look(regions->options.devices, entry->buffer.memory, entry->buffer.size, &now);
    weft_error_set_detail(detail);
    return found == 1 && is_same(&entry->buffer, &now);
}

/* One that covers the buffer, or NULL; those of other allocations that did are retired. The entry's identity is another also
 * when the buffer is one of several spans of it. */
static struct entry *entry_find(struct weft_device_regions *regions, uint32_t transport,
                                const struct weft_device_buffer *buffer)
{
    uintptr_t begin = (uintptr_t)buffer->memory, end = begin + buffer->size;
    struct entry *entry;
    while ((entry = (struct entry *)weft_intervals_cover(&regions->buffers[transport], begin, end)) &&
           !is_same(&entry->buffer, buffer) && !is_current(regions, entry))
        entry_retire(regions, entry);
    return entry;
}

/* Retires what the program has freed. */
static void sweep(struct weft_device_regions *regions)
{
    for (struct entry *entry = regions->oldest, *next; entry; entry = next) {
        next = entry->newer;
        if (!is_current(regions, entry))
            entry_retire(regions, entry);
    }
}

/* Whether there is room for one more of that size: the oldest that nobody uses go. */
static int make_room(struct weft_device_regions *regions, uint64_t bytes)
{
    uint64_t bytes_max = regions->options.bytes_max;
    if (!bytes_max || bytes > bytes_max)
        return 0;
    for (struct entry *entry = regions->oldest, *next;
         entry && (regions->bytes > bytes_max - bytes || regions->count >= ENTRIES_MAX); entry = next) {
        next = entry->newer;
        if (!entry->users)
            entry_retire(regions, entry);
    }
    return regions->bytes <= bytes_max - bytes && regions->count < ENTRIES_MAX;
}

/* region NULL: there can be none. NULL: it is not kept. */
static struct entry *entry_add(struct weft_device_regions *regions, uint32_t transport,
                               const struct weft_device_buffer *buffer, struct weft_region *region)
{
    int fits = buffer->identity && make_room(regions, region ? buffer->size : 0);
    struct entry *entry = fits ? calloc(1, sizeof *entry) : NULL;
    if (!entry)
        return NULL;
    entry->span.begin = (uintptr_t)buffer->memory;
    entry->span.end = entry->span.begin + buffer->size;
    entry->buffer = *buffer;
    entry->transport = transport;
    entry->region = region;
    if (region) {
        entry->at.begin = (uintptr_t)region;
        entry->at.end = entry->at.begin + 1;
        weft_intervals_add(&regions->made, &entry->at);
        regions->bytes += buffer->size;
    }
    weft_intervals_add(&regions->buffers[transport], &entry->span);
    order_add(regions, entry);
    regions->count++;
    return entry;
}

int weft_device_regions_make(struct weft_device_regions *regions, uint32_t transport, uint32_t caps,
                             const struct weft_device_buffer *buffer, struct weft_region **region)
{
    sweep(regions);
    int status = register_buffer(regions, transport, caps, buffer, region);
    if (status == WEFT_NOMEM && weft_device_regions_trim(regions))
        status = register_buffer(regions, transport, caps, buffer, region);
    return status;
}

int weft_device_regions_get(struct weft_device_regions *regions, uint32_t transport, uint32_t caps,
                            const struct weft_device_buffer *buffer, struct weft_region **result)
{
    struct entry *entry = buffer->identity ? entry_find(regions, transport, buffer) : NULL;
    if (!entry) {
        struct weft_region *region = NULL;
        int status = weft_device_regions_make(regions, transport, caps, buffer, &region);
        if (status == WEFT_NOMEM)
            return WEFT_UNSUPPORTED;
        entry = entry_add(regions, transport, buffer, region);
        if (entry)
            entry->users += region != NULL;
        regions->misses += entry && region;
        if (status == WEFT_OK)
            *result = region;
        return status;
    }
    order_remove(regions, entry);
    order_add(regions, entry);
    if (!entry->region)
        return weft_fail(WEFT_UNSUPPORTED, "memory of %s:%d cannot be registered, as was found before",
                         buffer->kind->name, (int)buffer->ordinal);
    entry->users++;
    regions->hits++;
    *result = entry->region;
    return WEFT_OK;
}

int weft_device_regions_put(struct weft_device_regions *regions, struct weft_region *region)
{
    struct entry *entry = entry_of(regions, region);
    if (!entry)
        return 0;
    if (--entry->users == 0 && entry->dead)
        entry_end(regions, entry);
    return 1;
}

uint32_t weft_device_regions_trim(struct weft_device_regions *regions)
{
    uint32_t ended = 0;
    for (struct entry *entry = regions->oldest, *next; entry; entry = next) {
        next = entry->newer;
        if (entry->users)
            continue;
        ended += entry->region != NULL;
        entry_retire(regions, entry);
    }
    return ended;
}

void weft_device_regions_forget(struct weft_device_regions *regions, uint32_t transport)
{
    for (struct entry *entry = regions->oldest, *next; entry; entry = next) {
        next = entry->newer;
        if (entry->transport == transport)
            entry_retire(regions, entry);
    }
}

void weft_device_regions_get_stats(const struct weft_device_regions *regions,
                                   struct weft_device_regions_stats *stats)
{
    *stats =
        (struct weft_device_regions_stats){regions->hits, regions->misses, regions->count, regions->bytes};
}

int weft_device_regions_open(const struct weft_device_regions_options *options,
                             struct weft_device_regions **result)
{
    struct weft_device_regions *regions = calloc(1, sizeof *regions);
    if (!regions)
        return weft_fail(WEFT_NOMEM, "no memory for registrations of device memory");
    regions->options = *options;
    *result = regions;
    return WEFT_OK;
}

void weft_device_regions_close(struct weft_device_regions *regions)
{
    if (regions)
        weft_device_regions_trim(regions);
    free(regions);
}
