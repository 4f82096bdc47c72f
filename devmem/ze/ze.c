/* SPDX-License-Identifier: Apache-2.0 */
/* The kind "ze": opening, finding drivers and devices, describing them, and the table. */
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

/* --- drivers and devices */

/* Drivers may install signal handlers as well. */
static ze_result_t start(const struct weft_ze_driver *driver, uint32_t *count, ze_driver_handle_t *drivers)
{
    struct weft_ze_init_drivers wanted = {.stype = (ze_structure_type_t)WEFT_ZE_STYPE_INIT_DRIVERS,
                                          .flags = WEFT_ZE_INIT_GPUS};
    struct weft_signals signals;
    weft_signals_save(&signals);
    ze_result_t result = driver->zeInitDrivers ? driver->zeInitDrivers(count, drivers, &wanted)
                                               : driver->zeInit(ZE_INIT_FLAG_GPU_ONLY);
    weft_signals_restore(&signals);
    if (result == ZE_RESULT_SUCCESS && !driver->zeInitDrivers)
        result = driver->zeDriverGet(count, drivers);
    return result;
}

/* The GPUs of one driver, behind those of the others. */
static int add_devices(struct weft_device *device, ze_driver_handle_t from)
{
    const struct weft_ze_driver *driver = &device->driver;
    ze_device_handle_t found[WEFT_ZE_ORDINALS_MAX];
    uint32_t count = WEFT_ZE_ORDINALS_MAX;
    ze_result_t result = driver->zeDeviceGet(from, &count, found);
    if (result != ZE_RESULT_SUCCESS)
        return weft_ze_fail(device, result, "asking for devices");
    for (uint32_t i = 0; i < count && device->count < WEFT_ZE_ORDINALS_MAX; i++) {
        ze_device_properties_t properties = {.stype = ZE_STRUCTURE_TYPE_DEVICE_PROPERTIES};
        result = driver->zeDeviceGetProperties(found[i], &properties);
        if (result != ZE_RESULT_SUCCESS)
            return weft_ze_fail(device, result, "asking for device %u", i);
        if (properties.type == ZE_DEVICE_TYPE_GPU)
            device->ordinals[device->count++] = (struct weft_ze_ordinal){from, found[i]};
    }
    return WEFT_OK;
}

/* With the lock. */
static int initialise(struct weft_device *device)
{
    char text[160];
    ze_driver_handle_t drivers[WEFT_ZE_DRIVERS_MAX];
    uint32_t count = WEFT_ZE_DRIVERS_MAX;
    int loaded = weft_ze_driver_load(&device->driver, text, sizeof text);
    if (loaded < 0)
        return device->params.fail(loaded, "%s", text);
    ze_result_t result = start(&device->driver, &count, drivers);
    if (result == ZE_RESULT_ERROR_UNINITIALIZED)
        return device->params.fail(WEFT_NOT_FOUND, "%s finds no driver that works", WEFT_RUNTIME_ZE);
    if (result != ZE_RESULT_SUCCESS) {
        int status = weft_ze_fail(device, result, "starting the drivers of %s", WEFT_RUNTIME_ZE);
        return status == WEFT_NOMEM ? status : WEFT_NOT_FOUND;
    }
    device->count = 0;
    int status = WEFT_OK;
    for (uint32_t i = 0; i < count && status == WEFT_OK; i++)
        status = add_devices(device, drivers[i]);
    if (status == WEFT_OK && device->count == 0)
        status = device->params.fail(WEFT_NOT_FOUND, "%s has %u driver%s, and no GPU", WEFT_RUNTIME_ZE, count,
                                     count == 1 ? "" : "s");
    if (status == WEFT_OK)
        atomic_store_explicit(&device->is_ready, 1, memory_order_release);
    return status;
}

int weft_ze_ready(struct weft_device *device)
{
    if (device->pid != getpid() || weft_fork_is_child())
        return device->params.fail(WEFT_INVALID, "Level Zero cannot be used in a child forked from a process "
                                                 "that used it");
    if (atomic_load_explicit(&device->is_ready, memory_order_acquire))
        return WEFT_OK;
    pthread_mutex_lock(&device->lock);
    int status = atomic_load_explicit(&device->is_ready, memory_order_relaxed) ? WEFT_OK : initialise(device);
    pthread_mutex_unlock(&device->lock);
    return status;
}

int weft_ze_check(struct weft_device *device, int ordinal)
{
    int status = weft_ze_ready(device);
    if (status == WEFT_OK && (ordinal < 0 || ordinal >= device->count))
        return device->params.fail(WEFT_INVALID, "there is no Level Zero device %d, there are %d", ordinal,
                                   device->count);
    return status;
}

/* --- open, close */

static int ze_open(const struct weft_device_params *params, struct weft_device **opened)
{
    struct weft_device *device = calloc(1, sizeof *device);
    if (!device)
        return params->fail(WEFT_NOMEM, "no memory for the Level Zero backend");
    memcpy(&device->params, params, params->size < sizeof *params ? params->size : sizeof *params);
    device->pid = getpid();
    pthread_mutex_init(&device->lock, NULL);
    *opened = device;
    return WEFT_OK;
}

static void ze_close(struct weft_device *device)
{
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

/* What is not known stays empty. */
static void describe_place(const struct weft_ze_driver *driver, ze_device_handle_t place,
                           struct weft_device_info *info)
{
    ze_pci_ext_properties_t pci = {.stype = ZE_STRUCTURE_TYPE_PCI_EXT_PROPERTIES};
    if (!driver->zeDevicePciGetPropertiesExt ||
        driver->zeDevicePciGetPropertiesExt(place, &pci) != ZE_RESULT_SUCCESS)
        return;
    snprintf(info->pci, sizeof info->pci, "%04x:%02x:%02x.%x", pci.address.domain & 0xffff,
             pci.address.bus & 0xff, pci.address.device & 0xff, pci.address.function & 0xf);
    info->numa = weft_file_numa(info->pci);
}

static void describe_driver(const struct weft_ze_driver *driver, ze_driver_handle_t from,
                            struct weft_device_info *info)
{
    ze_driver_properties_t properties = {.stype = ZE_STRUCTURE_TYPE_DRIVER_PROPERTIES};
    ze_api_version_t version = (ze_api_version_t)0;
    if (driver->zeDriverGetApiVersion(from, &version) != ZE_RESULT_SUCCESS ||
        driver->zeDriverGetProperties(from, &properties) != ZE_RESULT_SUCCESS)
        return;
    snprintf(info->runtime, sizeof info->runtime, "Level Zero %u.%u, driver %u: listed, not used yet",
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
    ze_result_t result = device->driver.zeDeviceGetProperties(known->device, &properties);
    if (result != ZE_RESULT_SUCCESS)
        return weft_ze_fail(device, result, "describing device %d", ordinal);
    snprintf(info.name, sizeof info.name, "%.*s", (int)sizeof info.name - 1, properties.name);
    _Static_assert(sizeof info.uuid == sizeof properties.uuid.id, "both have 16 bytes");
    memcpy(info.uuid, properties.uuid.id, sizeof info.uuid);
    info.memory_bytes = memory_of(&device->driver, known->device);
    describe_place(&device->driver, known->device, &info);
    describe_driver(&device->driver, known->driver, &info);
    weft_struct_give(out, &info, sizeof info);
    return WEFT_OK;
}

/* --- not yet: memory and work */

static int ze_identify(struct weft_device *device, const void *pointer, struct weft_device_span *span)
{
    (void)device, (void)pointer, (void)span;
    return WEFT_NOT_FOUND;
}

static int ze_in_use(struct weft_device *device)
{
    (void)device;
    return 0;
}

static int refuse(struct weft_device *device)
{
    return device->params.fail(
        WEFT_UNSUPPORTED, "this version of weft lists Level Zero's devices, and uses no memory of theirs");
}

static int ze_queue_open(struct weft_device *device, int ordinal, struct weft_device_queue **queue)
{
    (void)ordinal, (void)queue;
    return refuse(device);
}

static void ze_queue_close(struct weft_device_queue *queue)
{
    (void)queue;
}

static int ze_copy(struct weft_device_queue *queue, void *destination, const void *source, size_t size)
{
    (void)queue, (void)destination, (void)source, (void)size;
    return WEFT_UNSUPPORTED;
}

static int ze_mark(struct weft_device_queue *queue, struct weft_device_event **event)
{
    (void)queue, (void)event;
    return WEFT_UNSUPPORTED;
}

static int ze_test(struct weft_device_event *event)
{
    (void)event;
    return WEFT_UNSUPPORTED;
}

const struct weft_device_ops weft_ze_ops = {
    .size = sizeof weft_ze_ops,
    .abi = WEFT_DEVICE_ABI,
    .name = "ze",
    .open = ze_open,
    .close = ze_close,
    .count = ze_count,
    .describe = ze_describe,
    .identify = ze_identify,
    .queue_open = ze_queue_open,
    .queue_close = ze_queue_close,
    .copy = ze_copy,
    .mark = ze_mark,
    .test = ze_test,
    .in_use = ze_in_use,
};
