/* SPDX-License-Identifier: Apache-2.0 */
#include "perf/device/memory.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "comm/drive/context.h"
#include "devmem/devices.h"

enum { STAGING_BYTES = 4 << 20 };

int perf_device_complain(const struct perf_device *device, const char *what, int status)
{
    const char *detail = weft_error_detail();
    char ordinal[16] = "";
    if (device->ordinal != PERF_ORDINAL_OF_RANK)
        snprintf(ordinal, sizeof ordinal, ":%d", device->ordinal);
    fprintf(stderr, "weft-perf: %s on device %s%s: %s%s%s\n", what, device->kind->name, ordinal,
            weft_strerror(status), *detail ? ": " : "", detail);
    return -1;
}

static int complain_unusable(const char *name, const char *why)
{
    fprintf(stderr, "weft-perf: --memory '%s': the kind cannot be used: %s\n", name, why);
    return -1;
}

/* Why there is no such kind: those that cannot be used have a reason, plug-ins that did not load may have been meant. */
static int complain_absent(struct weft_devices *devices, const char *name)
{
    for (int i = 0; i < weft_devices_count(devices); i++) {
        const struct weft_device_kind *kind = weft_devices_kind(devices, i);
        if (strcmp(kind->name, name) != 0)
            continue;
        return complain_unusable(name, kind->reason);
    }
    fprintf(stderr,
            "weft-perf: --memory '%s': there is no such kind of devices; weft-perf --devices lists them\n",
            name);
    return -1;
}

/* Which of its host's ranks this is, as its launcher says; 0 where none does. weft-perf is one of them. */
static int local_rank(void)
{
    static const char *const names[] = {"LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID",
                                        "SLURM_LOCALID"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *value = getenv(names[i]);
        char *end;
        long rank = value ? strtol(value, &end, 10) : -1;
        if (rank >= 0 && rank < PERF_RANKS_MAX && end != value && !*end)
            return (int)rank;
    }
    return 0;
}

/* Which of a kind's devices is meant. It need not be there. */
static int ordinal_of(const struct perf_place *place, int count)
{
    return place->ordinal != PERF_ORDINAL_OF_RANK ? place->ordinal : count > 0 ? local_rank() % count : 0;
}

/* Finds the kind and which of its devices is meant. */
static int find(struct perf_device *device, weft_context *context, const struct perf_place *place)
{
    struct perf_device found = {0};
    found.kind = weft_devices_find(context->devices.kinds, place->kind);
    if (!found.kind)
        return complain_absent(context->devices.kinds, place->kind);
    int count = found.kind->ops.count(found.kind->device);
    if (count < 0) {
        const char *detail = weft_error_detail();
        return complain_unusable(place->kind, *detail ? detail : weft_strerror(count));
    }
    found.ordinal = ordinal_of(place, count);
    if (found.ordinal >= count) {
        fprintf(stderr, "weft-perf: --memory '%s:%d': the kind has %d devices here, counted from 0\n",
                place->kind, found.ordinal, count);
        return -1;
    }
    *device = found;
    return 0;
}

static int is_ordinary(const struct perf_place *place)
{
    return strcmp(place->kind, "malloc") == 0 || strcmp(place->kind, "weft") == 0;
}

void perf_device_name(weft_context *context, const struct perf_place *place, char *name, size_t size)
{
    *name = '\0';
    const struct weft_device_kind *kind =
        is_ordinary(place) ? NULL : weft_devices_find(context->devices.kinds, place->kind);
    int count = kind ? kind->ops.count(kind->device) : 0;
    if (count < 1)
        return;
    int ordinal = ordinal_of(place, count);
    struct weft_device_info info = {.size = sizeof info};
    if (ordinal >= count || kind->ops.describe(kind->device, ordinal, &info) != 0)
        return;
    char pci[sizeof info.pci + 4] = "";
    if (*info.pci)
        snprintf(pci, sizeof pci, "[%.*s] ", (int)sizeof info.pci - 1, info.pci);
    snprintf(name, size, "%s:%d %s%.*s", kind->name, ordinal, pci, (int)sizeof info.name - 1, info.name);
}

int perf_device_check(weft_context *context, const struct perf_place *place)
{
    struct perf_device device;
    return is_ordinary(place) ? 0 : find(&device, context, place);
}

int perf_device_open(struct perf_device *device, weft_context *context, const struct perf_place *place)
{
    struct perf_device opened;
    void *staging;
    if (find(&opened, context, place) != 0)
        return -1;
    const struct weft_device_ops *ops = &opened.kind->ops;
    int status = ops->queue_open(opened.kind->device, opened.ordinal, &opened.queue);
    if (status != 0)
        return perf_device_complain(&opened, "opening a queue", status);
    status = ops->allocate(opened.kind->device, -1, WEFT_MEMORY_PINNED, STAGING_BYTES, &staging);
    if (status != 0) {
        perf_device_complain(&opened, "allocating pinned memory", status);
        ops->queue_close(opened.queue);
        return -1;
    }
    opened.staging = staging;
    *device = opened;
    return 0;
}

void perf_device_close(struct perf_device *device)
{
    const struct weft_device_ops *ops = &device->kind->ops;
    ops->queue_close(device->queue);
    ops->release(device->kind->device, device->staging);
}

int perf_device_allocate(struct perf_device *device, size_t size, void **memory)
{
    int status =
        device->kind->ops.allocate(device->kind->device, device->ordinal, WEFT_MEMORY_DEVICE, size, memory);
    if (status == 0)
        return 0;
    char what[64];
    snprintf(what, sizeof what, "allocating %zu bytes", size);
    return perf_device_complain(device, what, status);
}

void perf_device_release(struct perf_device *device, void *memory)
{
    device->kind->ops.release(device->kind->device, memory);
}

int perf_device_finish(struct perf_device *device)
{
    const struct weft_device_ops *ops = &device->kind->ops;
    struct weft_device_event *event;
    int state = ops->mark(device->queue, &event);
    if (state != 0)
        return state;
    while ((state = ops->test(event)) == 0)
        sched_yield();
    ops->event_free(event);
    return state < 0 ? state : 0;
}

static int copy(struct perf_device *device, void *to, const void *from, size_t size)
{
    int status = device->kind->ops.copy(device->queue, to, from, size);
    if (status == 0)
        status = perf_device_finish(device);
    return status == 0 ? 0 : perf_device_complain(device, "a copy", status);
}

int perf_device_put(struct perf_device *device, void *to, const void *from, size_t size)
{
    for (size_t at = 0, piece; at < size; at += piece) {
        piece = size - at < STAGING_BYTES ? size - at : STAGING_BYTES;
        memcpy(device->staging, (const unsigned char *)from + at, piece);
        if (copy(device, (unsigned char *)to + at, device->staging, piece) != 0)
            return -1;
    }
    return 0;
}

int perf_device_get(struct perf_device *device, void *to, const void *from, size_t size)
{
    for (size_t at = 0, piece; at < size; at += piece) {
        piece = size - at < STAGING_BYTES ? size - at : STAGING_BYTES;
        if (copy(device, device->staging, (const unsigned char *)from + at, piece) != 0)
            return -1;
        memcpy((unsigned char *)to + at, device->staging, piece);
    }
    return 0;
}
