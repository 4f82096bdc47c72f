/* SPDX-License-Identifier: Apache-2.0 */
/* The kind "cuda": opening, finding the driver, describing devices, and the table. */
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/file.h"
#include "base/fork.h"
#include "base/log.h"
#include "base/struct.h"
#include "devmem/cuda/cuda.h"
#include "devmem/cuda/handle.h"
#include "devmem/cuda/launch.h"

/* --- levels */

/* The first object's record holds the linker's counter of what it has loaded; no other is looked at. */
static int count_loads(struct dl_phdr_info *info, size_t size, void *loads)
{
    (void)size;
    *(unsigned long long *)loads = info->dlpi_adds;
    return 1;
}

/* With the lock. */
static int find(struct weft_device *device)
{
    char text[WEFT_CUDA_TEXT] = "";
    int level = atomic_load_explicit(&device->level, memory_order_relaxed);
    if (level != WEFT_CUDA_NOTHING)
        return level;
    struct weft_cuda_driver driver;
    int found = weft_cuda_driver_find(&driver, text, sizeof text);
    if (found == 1) {
        device->driver = driver;
        level = WEFT_CUDA_FOUND;
        atomic_store_explicit(&device->level, level, memory_order_release);
    } else if (found < 0 && !device->said_old) {
        device->said_old = 1;
        device->params.log(WEFT_LOG_WARN, "CUDA memory is taken for host memory: %s", text);
    }
    return level;
}

int weft_cuda_find(struct weft_device *device)
{
    int level = atomic_load_explicit(&device->level, memory_order_acquire);
    if (level != WEFT_CUDA_NOTHING)
        return level;
    unsigned long long loads = 0;
    dl_iterate_phdr(count_loads, &loads);
    if (loads == atomic_load_explicit(&device->library_loads, memory_order_acquire))
        return level;
    pthread_mutex_lock(&device->lock);
    level = find(device);
    atomic_store_explicit(&device->library_loads, loads, memory_order_release);
    pthread_mutex_unlock(&device->lock);
    return level;
}

static int attribute_of(const struct weft_device *device, int place, int attribute)
{
    int value = 0;
    return device->driver.device_get_attribute(&value, attribute, place) == CUDA_SUCCESS ? value : 0;
}

static int ask_ordinals(struct weft_device *device)
{
    const struct weft_cuda_driver *driver = &device->driver;
    device->uses_host_pointers = 1;
    for (int i = 0; i < device->count; i++) {
        struct weft_cuda_ordinal *ordinal = &device->ordinals[i];
        int result = driver->device_get(&ordinal->device, i);
        if (result)
            return weft_cuda_fail(device, result, "asking for device %d", i);
        int place = ordinal->device;
        ordinal->has_dmabuf = driver->get_range_handle && attribute_of(device, place, CUDA_DEVICE_DMABUF);
        ordinal->can_flush = attribute_of(device, place, CUDA_DEVICE_FLUSHES_REMOTE_WRITES);
        ordinal->orders_writes =
            attribute_of(device, place, CUDA_DEVICE_WRITES_ORDERING) >= CUDA_ORDERED_FOR_OWNER;
        ordinal->can_flush_writes =
            attribute_of(device, place, CUDA_DEVICE_FLUSH_OPTIONS) & CUDA_FLUSH_BY_HOST;
        ordinal->has_concurrent_managed = attribute_of(device, place, CUDA_DEVICE_CONCURRENT_MANAGED);
        ordinal->has_waits = driver->wait_value && driver->write_value
                                 ? 1
                                 : driver->wait_value_v1 && driver->write_value_v1 &&
                                       attribute_of(device, place, CUDA_DEVICE_STREAM_MEMORY_OPERATIONS_V1);
        device->uses_host_pointers &= attribute_of(device, place, CUDA_DEVICE_USES_HOST_POINTER) != 0;
    }
    if (!driver->wait_value || !driver->write_value) {
        device->driver.wait_value = driver->wait_value_v1;
        device->driver.write_value = driver->write_value_v1;
    }
    return WEFT_OK;
}

/* With the lock. */
static int initialise(struct weft_device *device)
{
    char text[WEFT_CUDA_TEXT];
    if (find(device) == WEFT_CUDA_NOTHING) {
        int loaded = weft_cuda_driver_load(&device->driver, text, sizeof text);
        if (loaded < 0)
            return device->params.fail(loaded, "%s", text);
        atomic_store_explicit(&device->level, WEFT_CUDA_FOUND, memory_order_release);
    }
    const struct weft_cuda_driver *driver = &device->driver;
    int result = driver->init(0);
    if (!result)
        result = driver->device_get_count(&device->count);
    if (!result && device->count == 0)
        result = CUDA_NO_DEVICE;
    if (result) {
        int status = weft_cuda_fail(device, result, "starting CUDA %d.%d", driver->version / 1000,
                                    driver->version % 1000 / 10);
        return status == WEFT_NOMEM ? status : WEFT_NOT_FOUND; /* the text has been given */
    }
    if (device->count > WEFT_CUDA_ORDINALS_MAX)
        device->count = WEFT_CUDA_ORDINALS_MAX;
    int status = ask_ordinals(device);
    if (!status)
        atomic_store_explicit(&device->level, WEFT_CUDA_READY, memory_order_release);
    return status;
}

int weft_cuda_ready(struct weft_device *device)
{
    if (device->pid != getpid() || weft_fork_is_child())
        return device->params.fail(WEFT_INVALID,
                                   "CUDA cannot be used in a child forked from a process that used it");
    if (atomic_load_explicit(&device->level, memory_order_acquire) == WEFT_CUDA_READY)
        return WEFT_OK;
    pthread_mutex_lock(&device->lock);
    int status = atomic_load_explicit(&device->level, memory_order_relaxed) == WEFT_CUDA_READY
                     ? WEFT_OK
                     : initialise(device);
    pthread_mutex_unlock(&device->lock);
    return status;
}

int weft_cuda_check(struct weft_device *device, int ordinal)
{
    int status = weft_cuda_ready(device);
    if (!status && (ordinal < 0 || ordinal >= device->count))
        return device->params.fail(WEFT_INVALID, "there is no CUDA device %d, there are %d", ordinal,
                                   device->count);
    return status;
}

/* --- open, close */

static int cuda_open(const struct weft_device_params *params, struct weft_device **opened)
{
    struct weft_device *device = calloc(1, sizeof *device);
    if (!device)
        return params->fail(WEFT_NOMEM, "no memory for the CUDA backend");
    memcpy(&device->params, params, params->size < sizeof *params ? params->size : sizeof *params);
    device->pid = getpid();
    pthread_mutex_init(&device->lock, NULL);
    weft_offer_open();
    *opened = device;
    return WEFT_OK;
}

/* A driver that is shut down, at the end of the process, answers with an error, and there is nothing to undo; nor is there in a
 * forked child, whose copy of the driver must not be touched. */
static void ordinal_close(struct weft_device *device, int ordinal)
{
    struct weft_cuda_turn turn;
    int is_there = device->ordinals[ordinal].context && device->pid == getpid() &&
                   weft_cuda_enter(device, ordinal, &turn) == WEFT_OK;
    weft_cuda_launcher_close(device, ordinal, is_there);
    weft_cuda_events_destroy(device, ordinal, is_there);
    if (is_there)
        weft_cuda_leave(&turn);
}

static void cuda_close(struct weft_device *device)
{
    for (int i = 0; i < device->count; i++)
        ordinal_close(device, i);
    for (int i = 0; i < device->count && device->pid == getpid(); i++) {
        if (device->ordinals[i].context)
            device->driver.primary_release(device->ordinals[i].device);
    }
    weft_offer_close();
    pthread_mutex_destroy(&device->lock);
    free(device);
}

/* --- describing */

static int cuda_count(struct weft_device *device)
{
    int status = weft_cuda_ready(device);
    return status ? status : device->count;
}

static void describe_place(struct weft_device *device, int place, struct weft_device_info *info)
{
    char line[64];
    if (device->driver.device_get_pci(info->pci, sizeof info->pci, place) != CUDA_SUCCESS)
        info->pci[0] = '\0';
    for (char *c = info->pci; *c; c++)
        *c = (char)(*c >= 'A' && *c <= 'F' ? *c - 'A' + 'a' : *c);
    info->numa = weft_file_numa(info->pci);
    weft_file_read_line("/sys/module/nvidia/version", line, sizeof line);
    snprintf(info->runtime, sizeof info->runtime, "CUDA %d.%d%s%.24s", device->driver.version / 1000,
             device->driver.version % 1000 / 10, line[0] ? ", driver " : "", line);
}

/* Makes no context. */
static int cuda_describe(struct weft_device *device, int ordinal, struct weft_device_info *out)
{
    struct weft_device_info info = {.size = sizeof info};
    int status = weft_cuda_check(device, ordinal);
    if (status)
        return status;
    const struct weft_cuda_driver *driver = &device->driver;
    const struct weft_cuda_ordinal *known = &device->ordinals[ordinal];
    size_t bytes = 0;
    int result = driver->device_get_name(info.name, sizeof info.name, known->device);
    if (!result)
        result = driver->device_get_memory(&bytes, known->device);
    if (result)
        return weft_cuda_fail(device, result, "describing device %d", ordinal);
    info.memory_bytes = bytes;
    weft_cuda_uuid(device, ordinal, info.uuid);
    describe_place(device, known->device, &info);
    info.flags = WEFT_DEVICE_IPC | (known->has_dmabuf ? WEFT_DEVICE_DMABUF : 0) |
                 (known->has_waits && device->uses_host_pointers ? WEFT_DEVICE_STREAM_WAITS : 0) |
                 (weft_cuda_has_kernels() ? WEFT_DEVICE_REDUCES : 0) |
                 (weft_cuda_has_collectives(device, ordinal) ? WEFT_DEVICE_COLLECTIVES : 0);
    weft_struct_give(out, &info, sizeof info);
    return WEFT_OK;
}

/* The driver is loaded, by whomever. */
static int cuda_in_use(struct weft_device *device)
{
    return weft_cuda_find(device) != WEFT_CUDA_NOTHING;
}

const struct weft_device_ops weft_cuda_ops = {
    .size = sizeof weft_cuda_ops,
    .abi = WEFT_DEVICE_ABI,
    .name = "cuda",
    .open = cuda_open,
    .close = cuda_close,
    .count = cuda_count,
    .describe = cuda_describe,
    .identify = weft_cuda_identify,
    .export_dmabuf = weft_cuda_export_dmabuf,
    .export_ipc = weft_cuda_export_ipc,
    .import_ipc = weft_cuda_import_ipc,
    .unimport = weft_cuda_unimport,
    .queue_open = weft_cuda_queue_open,
    .queue_close = weft_cuda_queue_close,
    .copy = weft_cuda_copy,
    .reduce = weft_cuda_reduce,
    .mark_stream = weft_cuda_mark_stream,
    .mark = weft_cuda_mark,
    .test = weft_cuda_test,
    .await = weft_cuda_await,
    .event_free = weft_cuda_event_free,
    .wait_stream = weft_cuda_wait_stream,
    .wait_open = weft_cuda_wait_open,
    .wait_free = weft_cuda_wait_free,
    .pin = weft_cuda_pin,
    .unpin = weft_cuda_unpin,
    .allocate = weft_cuda_allocate,
    .release = weft_cuda_release,
    .in_use = cuda_in_use,
    .flush_writes = weft_cuda_flush_writes,
    .reaches = weft_cuda_reaches,
    .run = weft_cuda_run,
    .elapsed = weft_cuda_elapsed,
};
