/* SPDX-License-Identifier: Apache-2.0 */
/* The kind "ze": opening, describing devices, and the table. */
#include "devmem/ze/ze.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/fork.h"
#include "base/runtime.h"
#include "base/signals.h"
#include "base/struct.h"
#include "devmem/offer/offer.h"

/* --- open, close */

static int ze_open(const struct weft_device_params *params, struct weft_device **opened)
{
    struct weft_device *device = calloc(1, sizeof *device);
    if (!device)
        return params->fail(WEFT_NOMEM, "no memory for the Level Zero backend");
    memcpy(&device->params, params, params->size < sizeof *params ? params->size : sizeof *params);
    device->pid = getpid();
    device->root = "";
    pthread_mutex_init(&device->lock, NULL);
    pthread_mutex_init(&device->imports_lock, NULL);
    pthread_mutex_init(&device->residents_lock, NULL);
    weft_offer_open();
    *opened = device;
    return WEFT_OK;
}

/* In a forked child nothing of the driver's may be touched. What was left in flight keeps its events, and the
 * context they are of; and so does a stream of the program's that has yet to pass a stream wait. */
static void place_close(struct weft_device *device, struct weft_ze_place *place)
{
    int is_idle = !device->left;
    for (int i = 0; i < device->count; i++)
        is_idle &= &device->places[device->ordinals[i].place] != place || weft_ze_streams_close(device, i);
    if (is_idle && weft_ze_events_destroy(device, place))
        device->driver.zeContextDestroy(place->context);
}

static void ze_close(struct weft_device *device)
{
    int is_here = device->pid == getpid();
    if (is_here) {
        weft_ze_queues_end(device);
        weft_ze_waits_sweep(device, 1);
    }
    weft_ze_residents_end(device, is_here && !device->left);
    for (int i = 0; i < device->count; i++) /* kernels of queues that were left may be in flight */
        weft_ze_launcher_close(device, i, is_here && !device->left);
    if (is_here) {
        for (int i = 0; i < device->place_count; i++)
            place_close(device, &device->places[i]);
    }
    weft_offer_close();
    pthread_mutex_destroy(&device->residents_lock);
    pthread_mutex_destroy(&device->imports_lock);
    pthread_mutex_destroy(&device->lock);
    free(device);
}

/* --- describing */

static int ze_count(struct weft_device *device)
{
    int status = weft_ze_ready(device);
    return status != WEFT_OK ? status : device->count;
}

/* Of all its memories together; 0: not known. */
static uint64_t memory_of(const struct weft_ze_driver *driver, ze_device_handle_t place)
{
    enum { MEMORIES = 16 };
    ze_device_memory_properties_t memories[MEMORIES];
    uint32_t count = MEMORIES;
    uint64_t bytes = 0;
    memset(memories, 0, sizeof memories);
    for (int i = 0; i < MEMORIES; i++)
        memories[i].stype = ZE_STRUCTURE_TYPE_DEVICE_MEMORY_PROPERTIES;
    if (driver->zeDeviceGetMemoryProperties(place, &count, memories) != ZE_RESULT_SUCCESS)
        return 0;
    for (uint32_t i = 0; i < count && i < MEMORIES; i++)
        bytes += memories[i].totalSize;
    return bytes;
}

static void describe_driver(const struct weft_ze_driver *driver, ze_driver_handle_t from,
                            struct weft_device_info *info)
{
    ze_driver_properties_t properties = {.stype = ZE_STRUCTURE_TYPE_DRIVER_PROPERTIES};
    ze_api_version_t version = (ze_api_version_t)0;
    if (driver->zeDriverGetApiVersion(from, &version) != ZE_RESULT_SUCCESS ||
        driver->zeDriverGetProperties(from, &properties) != ZE_RESULT_SUCCESS)
        return;
    snprintf(info->runtime, sizeof info->runtime, "Level Zero %u.%u, driver %u",
             (unsigned)ZE_MAJOR_VERSION((unsigned)version), (unsigned)ZE_MINOR_VERSION((unsigned)version),
             properties.driverVersion);
}

static int ze_describe(struct weft_device *device, int ordinal, struct weft_device_info *out)
{
    struct weft_device_info info = {.size = sizeof info, .numa = -1};
    int status = weft_ze_check(device, ordinal);
    if (status != WEFT_OK)
        return status;
    const struct weft_ze_ordinal *known = &device->ordinals[ordinal];
    ze_device_properties_t properties = {.stype = ZE_STRUCTURE_TYPE_DEVICE_PROPERTIES};
    char text[WEFT_ZE_TEXT];
    weft_ze_probe(device, ordinal);
    ze_result_t result = device->driver.zeDeviceGetProperties(known->device, &properties);
    if (result != ZE_RESULT_SUCCESS)
        return weft_ze_fail(device, result, "describing device %d", ordinal);
    info.flags = (weft_ze_streams_wait(device, ordinal, text) ? WEFT_DEVICE_STREAM_WAITS : 0) |
                 (known->exports ? WEFT_DEVICE_IPC | WEFT_DEVICE_DMABUF : 0) |
                 (weft_ze_reduces(device, ordinal) ? WEFT_DEVICE_REDUCES : 0) |
                 (weft_ze_meets(device, ordinal) ? WEFT_DEVICE_COLLECTIVES : 0);
    snprintf(info.name, sizeof info.name, "%.*s", (int)sizeof info.name - 1, properties.name);
    _Static_assert(sizeof info.uuid == sizeof properties.uuid.id, "both have 16 bytes");
    memcpy(info.uuid, properties.uuid.id, sizeof info.uuid);
    info.memory_bytes = memory_of(&device->driver, known->device);
    weft_ze_pci(&device->driver, known->device, info.pci, sizeof info.pci);
    info.numa = weft_file_numa(info.pci);
    describe_driver(&device->driver, device->places[known->place].driver, &info);
    weft_struct_give(out, &info, sizeof info);
    return WEFT_OK;
}

static int ze_in_use(struct weft_device *device)
{
    return weft_ze_find(device);
}

const struct weft_device_ops weft_ze_ops = {
    .size = sizeof weft_ze_ops,
    .abi = WEFT_DEVICE_ABI,
    .name = "ze",
    .open = ze_open,
    .close = ze_close,
    .count = ze_count,
    .describe = ze_describe,
    .identify = weft_ze_identify,
    .export_dmabuf = weft_ze_export_dmabuf,
    .export_ipc = weft_ze_export_ipc,
    .import_ipc = weft_ze_import_ipc,
    .unimport = weft_ze_unimport,
    .queue_open = weft_ze_queue_open,
    .queue_close = weft_ze_queue_close,
    .copy = weft_ze_copy,
    .reduce = weft_ze_reduce,
    .mark_stream = weft_ze_mark_stream,
    .mark = weft_ze_mark,
    .test = weft_ze_test,
    .await = weft_ze_await,
    .event_free = weft_ze_event_free,
    .wait_stream = weft_ze_wait_stream,
    .wait_open = weft_ze_wait_open,
    .wait_free = weft_ze_wait_free,
    .allocate = weft_ze_allocate,
    .release = weft_ze_release,
    .pin = weft_ze_pin,
    .unpin = weft_ze_unpin,
    .in_use = ze_in_use,
    .run = weft_ze_run,
    .reaches = weft_ze_reaches,
    .elapsed = weft_ze_elapsed,
};
