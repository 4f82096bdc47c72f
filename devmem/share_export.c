/* SPDX-License-Identifier: Apache-2.0 */
/* The owner's side: descriptions, and the handles in them. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "devmem/share_private.h"

/* The entry of a span, in front from now on; NULL when there is none. */
static struct weft_share_export *find(struct weft_shares *shares, const struct weft_device_kind *kind,
                                      const struct weft_device_span *span)
{
    for (struct weft_share_export **at = &shares->exports, *entry; (entry = *at); at = &entry->next) {
        if (entry->kind != kind || entry->base != span->base || entry->identity != span->identity)
            continue;
        *at = entry->next;
        entry->next = shares->exports;
        shares->exports = entry;
        return entry;
    }
    return NULL;
}

static void end(struct weft_shares *shares, struct weft_share_export **at)
{
    struct weft_share_export *entry = *at;
    *at = entry->next;
    shares->stats.exports--;
    free(entry);
}

static int is_freed(const struct weft_share_export *entry)
{
    struct weft_device_span span = {.size = sizeof span};
    return entry->kind->ops.identify(entry->kind->device, (const void *)(uintptr_t)entry->base, &span) !=
               WEFT_OK ||
           span.identity != entry->identity;
}

/* Ends those of memory that is freed, and the last ones where there would be too many with one more. */
static void make_room(struct weft_shares *shares)
{
    uint32_t kept = 0;
    for (struct weft_share_export **at = &shares->exports; *at;) {
        if (kept + 1 >= shares->limits.exports_max || is_freed(*at)) {
            end(shares, at);
        } else {
            kept++;
            at = &(*at)->next;
        }
    }
}

static int add(struct weft_shares *shares, const struct weft_device_kind *kind,
               const struct weft_device_span *span, struct weft_share_export **added)
{
    struct weft_device_info info = {.size = sizeof info};
    make_room(shares);
    struct weft_share_export *entry = calloc(1, sizeof *entry);
    if (!entry)
        return weft_fail(WEFT_NOMEM, "no memory to remember described device memory");
    entry->kind = kind;
    entry->base = span->base;
    entry->identity = span->identity;
    int status = span->ordinal >= 0 ? kind->ops.describe(kind->device, span->ordinal, &info) : WEFT_OK;
    if (status != WEFT_OK) {
        free(entry);
        return status;
    }
    memcpy(entry->uuid, info.uuid, sizeof entry->uuid);
    entry->next = shares->exports;
    shares->exports = entry;
    shares->stats.exports++;
    *added = entry;
    return WEFT_OK;
}

static int make_handle(struct weft_shares *shares, struct weft_share_export *entry, const void *memory)
{
    struct weft_device_handle handle = {0};
    uint64_t offset = 0;
    int status = entry->kind->ops.export_ipc(entry->kind->device, memory, &handle, &offset);
    if (status != WEFT_OK)
        return status;
    if (handle.bytes_used < 1 || handle.bytes_used > WEFT_DEVICE_HANDLE_MAX || offset > (uintptr_t)memory)
        return weft_fail(WEFT_UNSUPPORTED,
                         "the kind '%s' has made a handle of %u bytes for memory at offset %llu of %p: "
                         "expected 1 to %d bytes, and an offset within the address",
                         entry->kind->name, handle.bytes_used, (unsigned long long)offset, memory,
                         WEFT_DEVICE_HANDLE_MAX);
    entry->handle = handle;
    entry->handle_base = (uintptr_t)memory - offset;
    shares->stats.exports_made++;
    return WEFT_OK;
}

static int check_span(const struct weft_device_kind *kind, const void *memory, size_t size, int is_for_others,
                      struct weft_device_span *span)
{
    *span = (struct weft_device_span){.size = sizeof *span};
    if (!size)
        return weft_fail(WEFT_INVALID, "device memory of 0 bytes at %p cannot be described", memory);
    const char *wrong = NULL;
    if (kind->ops.identify(kind->device, memory, span) != WEFT_OK)
        wrong = "is not its memory";
    else if (!span->identity)
        wrong = "is memory without an identity";
    else if (size > span->base + span->length - (uintptr_t)memory)
        wrong = "lies in more than one span";
    else if (is_for_others && !(span->flags & WEFT_SPAN_IPC))
        wrong = "cannot be shared with other processes";
    return wrong ? weft_fail(WEFT_UNSUPPORTED,
                             "%zu bytes at %p cannot be described as memory of the kind '%s': it %s", size,
                             memory, kind->name, wrong)
                 : WEFT_OK;
}

int weft_share_describe(struct weft_shares *shares, const struct weft_device_kind *kind, const void *memory,
                        size_t size, int is_for_others, struct weft_share *share)
{
    struct weft_device_span span;
    int status = check_span(kind, memory, size, is_for_others, &span);
    if (status != WEFT_OK)
        return status;
    struct weft_share_export *entry = find(shares, kind, &span);
    int is_hit = entry && (entry->handle.bytes_used || !is_for_others);
    if (!entry)
        status = add(shares, kind, &span, &entry);
    if (status == WEFT_OK && is_for_others && !entry->handle.bytes_used)
        status = make_handle(shares, entry, memory);
    if (status != WEFT_OK)
        return status;
    shares->stats.export_hits += is_hit;
    struct weft_share_content content = {.instance = shares->instance,
                                         .identity = span.identity,
                                         .address = (uintptr_t)memory,
                                         .length = size};
    memcpy(content.kind, kind->name, sizeof content.kind);
    memcpy(content.uuid, entry->uuid, sizeof content.uuid);
    if (is_for_others) {
        content.handle = entry->handle;
        content.offset = (uintptr_t)memory - entry->handle_base;
    }
    return weft_share_write(&content, share);
}

void weft_share_exports_free(struct weft_shares *shares)
{
    while (shares->exports)
        end(shares, &shares->exports);
}
