/* SPDX-License-Identifier: Apache-2.0 */
/* The devices that a context knows, for tools. */
#include <stdio.h>

#include "base/error.h"
#include "base/fork.h"
#include "base/struct.h"
#include "comm/drive/context.h"
#include "devmem/devices.h"

static const struct weft_struct about = WEFT_STRUCT(weft_device_entry, WEFT_DEVICE_ENTRY_INIT, ordinal);

/* Where the entries go, and how many there have been. */
struct list {
    weft_device_entry *entries;
    int capacity, count;
};

static void append(struct list *list, const weft_device_entry *entry)
{
    if (list->count < list->capacity)
        weft_struct_fill(&about, list->entries, (size_t)list->count, entry);
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
            entry.status = WEFT_NOT_FOUND;
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

int weft_context_get_devices(weft_context *context, weft_device_entry *entries, int capacity, int *count)
{
    weft_error_clear();
    if (weft_fork_is_child())
        return weft_fork_refuse();
    if (!context || !count || (!entries && capacity > 0))
        return weft_fail(WEFT_INVALID, "%s is NULL", !context ? "context" : !count ? "count" : "entries");
    int status = capacity > 0 ? weft_struct_check(&about, entries) : WEFT_OK;
    if (status != WEFT_OK)
        return status;
    struct list list = {entries, capacity, 0};
    for (int i = 0; i < weft_devices_count(context->devices.kinds); i++)
        list_kind(weft_devices_kind(context->devices.kinds, i), &list);
    weft_error_clear();
    *count = list.count;
    return WEFT_OK;
}
