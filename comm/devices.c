/* SPDX-License-Identifier: Apache-2.0 */
/* The devices that a context knows, for tools. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/fork.h"
#include "comm/context.h"
#include "devmem/devices.h"

/* Where the entries go, and how many there have been. */
struct list {
    weft_device_entry *entries;
    size_t size; /* of each: the program may have been built with another weft.h */
    int capacity, count;
};

static void append(struct list *list, const weft_device_entry *entry)
{
    if (list->count < list->capacity) {
        char *place = (char *)list->entries + (size_t)list->count * list->size;
        memcpy(place, entry, list->size < sizeof *entry ? list->size : sizeof *entry);
        memcpy(place, &list->size, sizeof list->size);
    }
    list->count++;
}

/* One device; one that its kind cannot describe is an entry with the reason. */
static void describe(const struct weft_device_kind *kind, int ordinal, weft_device_entry *entry)
{
    struct weft_device_info info = {.size = sizeof info, .numa = -1};
    int status = kind->ops.describe(kind->device, ordinal, &info);
    entry->ordinal = ordinal;
    entry->status = status;
    if (status != WEFT_OK) {
        snprintf(entry->reason, sizeof entry->reason, "%s", weft_error_detail());
        return;
    }
    snprintf(entry->name, sizeof entry->name, "%.*s", (int)sizeof info.name - 1, info.name);
    snprintf(entry->pci, sizeof entry->pci, "%.*s", (int)sizeof info.pci - 1, info.pci);
    snprintf(entry->runtime, sizeof entry->runtime, "%.*s", (int)sizeof info.runtime - 1, info.runtime);
    entry->memory_bytes = info.memory_bytes;
    entry->numa = info.numa;
    entry->flags = info.flags;
}

static void list_kind(const struct weft_device_kind *kind, struct list *list)
{
    weft_device_entry entry = WEFT_DEVICE_ENTRY_INIT;
    snprintf(entry.kind, sizeof entry.kind, "%s", kind->name);
    snprintf(entry.source, sizeof entry.source, "%s", kind->source);
    int devices = kind->status == WEFT_OK ? kind->ops.count(kind->device) : 0;
    if (devices < 1) {
        entry.status = kind->status == WEFT_OK && devices < 0 ? devices : kind->status;
        if (entry.status == WEFT_OK)
            entry.status = WEFT_MISSING;
        snprintf(entry.reason, sizeof entry.reason, "%s",
                 kind->status != WEFT_OK ? kind->reason
                 : devices < 0           ? weft_error_detail()
                                         : "the kind works, but has no device here");
        append(list, &entry);
    }
    for (int i = 0; i < devices; i++) {
        weft_device_entry device = entry;
        describe(kind, i, &device);
        append(list, &device);
    }
}

int weft_context_devices(weft_context *context, weft_device_entry *entries, int capacity, int *count)
{
    weft_error_clear();
    if (weft_fork_is_child())
        return weft_fork_refuse();
    if (!context || !count || (!entries && capacity > 0))
        return weft_fail(WEFT_INVALID, "%s is NULL", !context ? "context" : !count ? "count" : "entries");
    if (capacity > 0 && entries->size < sizeof(size_t))
        return weft_fail(WEFT_INVALID, "weft_device_entry.size is %zu: use WEFT_DEVICE_ENTRY_INIT",
                         entries->size);
    struct list list = {entries, capacity > 0 ? entries->size : 0, capacity, 0};
    for (int i = 0; i < weft_devices_count(context->devices); i++)
        list_kind(weft_devices_kind(context->devices, i), &list);
    weft_error_clear();
    *count = list.count;
    return WEFT_OK;
}
