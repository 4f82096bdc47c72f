/* SPDX-License-Identifier: Apache-2.0 */
#include "perf/devices.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weft/device.h>
#include <weft/weft.h>

#include "perf/options.h"

static const struct {
    uint32_t flag;
    const char *name;
} abilities[] = {
    {WEFT_DEVICE_REDUCES, "reductions"},
    {WEFT_DEVICE_STREAM_WAITS, "streams"},
    {WEFT_DEVICE_IPC, "IPC"},
    {WEFT_DEVICE_DMABUF, "dma-buf"},
    {WEFT_DEVICE_COLLECTIVES, "device collectives"},
};

static void print_abilities(uint32_t flags)
{
    const char *separator = "";
    for (size_t i = 0; i < sizeof abilities / sizeof *abilities; i++) {
        if (flags & abilities[i].flag) {
            printf("%s%s", separator, abilities[i].name);
            separator = ", ";
        }
    }
    if (!*separator)
        printf("copies");
    putchar('\n');
}

static void print_entry(const weft_device_entry *entry)
{
    printf("%s", *entry->kind ? entry->kind : "plug-in");
    if (entry->ordinal >= 0)
        printf(" %d", entry->ordinal);
    if (entry->status != 0) {
        printf(": none: %s\n", *entry->reason ? entry->reason : weft_strerror(entry->status));
        return;
    }
    printf(": %s, %.1f GiB\n", entry->name, (double)entry->memory_bytes / (1 << 30));
    if (*entry->pci)
        printf("    PCI       %s\n", entry->pci);
    if (entry->numa >= 0)
        printf("    NUMA node %d\n", entry->numa);
    if (*entry->runtime)
        printf("    runtime   %s\n", entry->runtime);
    if (*entry->source == '/')
        printf("    plug-in   %s\n", entry->source);
    printf("    supports  ");
    print_abilities(entry->flags);
}

static int list(weft_context *context)
{
    int count = 0, capacity = 0;
    weft_device_entry *entries = NULL;
    int status = weft_context_get_devices(context, NULL, 0, &count);
    if (status == 0) {
        capacity = count;
        entries = calloc((size_t)capacity + 1, sizeof *entries);
        if (!entries) {
            fprintf(stderr, "weft-perf: no memory for %d devices\n", capacity);
            return PERF_EXIT_FAILED;
        }
        entries[0] = (weft_device_entry)WEFT_DEVICE_ENTRY_INIT;
        status = weft_context_get_devices(context, entries, capacity, &count);
    }
    if (status != 0)
        fprintf(stderr, "weft-perf: the list of devices: %s (%s)\n", weft_error_detail(),
                weft_strerror(status));
    for (int i = 0; status == 0 && i < count && i < capacity; i++)
        print_entry(&entries[i]);
    free(entries);
    return status == 0 ? PERF_EXIT_OK : PERF_EXIT_FAILED;
}

int perf_devices(void)
{
    weft_context *context;
    int status = weft_context_open(NULL, &context);
    if (status != 0) {
        fprintf(stderr, "weft-perf: %s (%s)\n", weft_error_detail(), weft_strerror(status));
        return PERF_EXIT_FAILED;
    }
    int result = list(context);
    weft_context_close(context);
    return result;
}
