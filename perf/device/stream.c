/* SPDX-License-Identifier: Apache-2.0 */
/* A stream of Level Zero: an immediate command list, or a command queue where the driver has no such lists, of index 0 of the first group
 * that computes and copies, and in a context of weft-perf's own, as programs have theirs. The device is found by its uuid.
 *
 * Source: oneAPI Level Zero Specification, "Core Programming Guide", Command Queues and Command Lists.
 */
#include "perf/device/stream.h"

#include "devmem/devices.h"

#if __has_include(<level_zero/ze_api.h>)

#include <dlfcn.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <level_zero/ze_api.h>

#include "base/clock.h"
#include "base/runtime.h"

enum { MANY = 32, CLOSE_MS = 2000 };
#define QUEUE_BIT 1 /* in the pointer of a command queue: docs/levelzero.md */

struct library {
    __typeof__(zeDriverGet) *driver_get;
    __typeof__(zeDeviceGet) *device_get;
    __typeof__(zeDeviceGetProperties) *device_properties;
    __typeof__(zeDeviceGetCommandQueueGroupProperties) *device_groups;
    __typeof__(zeContextCreate) *context_create;
    __typeof__(zeContextDestroy) *context_destroy;
    __typeof__(zeCommandListCreateImmediate) *list_create;
    __typeof__(zeCommandListDestroy) *list_destroy;
    __typeof__(zeCommandQueueCreate) *queue_create;
    __typeof__(zeCommandQueueDestroy) *queue_destroy;
};

/* The loader that the kind has loaded, and keeps. */
static int load(struct library *ze)
{
    static const char *const names[] = {"zeDriverGet",
                                        "zeDeviceGet",
                                        "zeDeviceGetProperties",
                                        "zeDeviceGetCommandQueueGroupProperties",
                                        "zeContextCreate",
                                        "zeContextDestroy",
                                        "zeCommandListCreateImmediate",
                                        "zeCommandListDestroy",
                                        "zeCommandQueueCreate",
                                        "zeCommandQueueDestroy"};
    void *found[sizeof names / sizeof *names];
    void *loader = dlopen(WEFT_RUNTIME_ZE, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
    _Static_assert(sizeof found == sizeof *ze, "a name for each function");
    if (!loader)
        return -1;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        found[i] = dlsym(loader, names[i]);
    dlclose(loader);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (!found[i])
            return -1;
    }
    memcpy(ze, found, sizeof *ze);
    return 0;
}

static int find_in(const struct library *ze, ze_driver_handle_t driver, const uint8_t uuid[16],
                   ze_device_handle_t *device)
{
    ze_device_handle_t devices[MANY];
    uint32_t count = MANY;
    if (ze->device_get(driver, &count, devices) != ZE_RESULT_SUCCESS)
        return -1;
    for (uint32_t i = 0; i < count && i < MANY; i++) {
        ze_device_properties_t properties = {.stype = ZE_STRUCTURE_TYPE_DEVICE_PROPERTIES};
        if (ze->device_properties(devices[i], &properties) != ZE_RESULT_SUCCESS ||
            memcmp(properties.uuid.id, uuid, sizeof properties.uuid.id) != 0)
            continue;
        *device = devices[i];
        return 0;
    }
    return -1;
}

static int find(const struct library *ze, const uint8_t uuid[16], ze_driver_handle_t *driver,
                ze_device_handle_t *device)
{
    static const uint8_t unknown[16]; /* is no device's */
    ze_driver_handle_t drivers[MANY];
    uint32_t count = MANY;
    if (memcmp(uuid, unknown, sizeof unknown) == 0 || ze->driver_get(&count, drivers) != ZE_RESULT_SUCCESS)
        return -1;
    for (uint32_t i = 0; i < count && i < MANY; i++) {
        *driver = drivers[i];
        if (find_in(ze, drivers[i], uuid, device) == 0)
            return 0;
    }
    return -1;
}

static uint32_t group_of(const struct library *ze, ze_device_handle_t device)
{
    const ze_command_queue_group_property_flags_t both =
        ZE_COMMAND_QUEUE_GROUP_PROPERTY_FLAG_COMPUTE | ZE_COMMAND_QUEUE_GROUP_PROPERTY_FLAG_COPY;
    ze_command_queue_group_properties_t groups[MANY];
    uint32_t count = MANY;
    for (int i = 0; i < MANY; i++)
        groups[i] =
            (ze_command_queue_group_properties_t){.stype = ZE_STRUCTURE_TYPE_COMMAND_QUEUE_GROUP_PROPERTIES};
    if (ze->device_groups(device, &count, groups) != ZE_RESULT_SUCCESS)
        return 0;
    for (uint32_t i = 0; i < count && i < MANY; i++) {
        if ((groups[i].flags & both) == both)
            return i;
    }
    return 0;
}

static ze_result_t make(const struct library *ze, ze_driver_handle_t driver, ze_device_handle_t device,
                        struct perf_stream *made)
{
    const ze_context_desc_t plain = {.stype = ZE_STRUCTURE_TYPE_CONTEXT_DESC};
    const ze_command_queue_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_COMMAND_QUEUE_DESC,
                                          .ordinal = group_of(ze, device),
                                          .mode = ZE_COMMAND_QUEUE_MODE_ASYNCHRONOUS};
    ze_context_handle_t context;
    ze_command_list_handle_t list;
    ze_command_queue_handle_t queue;
    ze_result_t result = ze->context_create(driver, &plain, &context);
    if (result != ZE_RESULT_SUCCESS)
        return result;
    if (ze->list_create(context, device, &desc, &list) == ZE_RESULT_SUCCESS) {
        *made = (struct perf_stream){.handle = list, .context = context, .commands = list, .is_list = 1};
        return ZE_RESULT_SUCCESS;
    }
    result = ze->queue_create(context, device, &desc, &queue);
    if (result == ZE_RESULT_SUCCESS)
        *made = (struct perf_stream){
            .handle = (char *)(void *)queue + QUEUE_BIT, .context = context, .commands = queue};
    else
        ze->context_destroy(context);
    return result;
}

static int is_ze(const struct perf_device *device)
{
    return strcmp(device->kind->name, "ze") == 0;
}

int perf_stream_open(struct perf_stream *stream, const struct perf_device *device)
{
    struct weft_device_info info = {.size = sizeof info};
    struct library ze;
    ze_driver_handle_t driver;
    ze_device_handle_t found;
    *stream = (struct perf_stream){0};
    if (!is_ze(device))
        return 0;
    int status = device->kind->ops.describe(device->kind->device, device->ordinal, &info);
    if (status != 0)
        return perf_device_complain(device, "--clock 'device'", status);
    if (load(&ze) != 0 || find(&ze, info.uuid, &driver, &found) != 0) {
        fprintf(stderr, "weft-perf: --clock 'device': %s has no device with the uuid of ze:%d\n",
                WEFT_RUNTIME_ZE, device->ordinal);
        return -1;
    }
    ze_result_t result = make(&ze, driver, found, stream);
    if (result == ZE_RESULT_SUCCESS)
        return 0;
    fprintf(stderr, "weft-perf: --clock 'device': ze:%d makes no stream: Level Zero's result is 0x%x\n",
            device->ordinal, (unsigned)result);
    return -1;
}

/* Whether the stream has done all that is in it. What takes no mark has not taken a call either: where the device's streams cannot wait, nothing has
 * been put into it. */
static int is_idle(const struct perf_stream *stream, const struct perf_device *device)
{
    const struct weft_device_ops *ops = &device->kind->ops;
    struct weft_device_event *end;
    int status = ops->mark_stream(device->kind->device, device->ordinal, stream->handle, 0, &end);
    if (status != 0)
        return status == WEFT_UNSUPPORTED;
    int64_t deadline_ns = weft_clock_ns() + CLOSE_MS * INT64_C(1000000);
    int state;
    while ((state = ops->test(end)) == 0 && weft_clock_ns() < deadline_ns)
        sched_yield();
    ops->event_free(end);
    return state == 1;
}

void perf_stream_close(struct perf_stream *stream, const struct perf_device *device)
{
    struct library ze;
    if (!stream->commands || !is_idle(stream, device) || load(&ze) != 0)
        return;
    if (stream->is_list)
        ze.list_destroy(stream->commands);
    else
        ze.queue_destroy(stream->commands);
    ze.context_destroy(stream->context);
}

#else

int perf_stream_open(struct perf_stream *stream, const struct perf_device *device)
{
    (void)device;
    *stream = (struct perf_stream){0};
    return 0;
}

void perf_stream_close(struct perf_stream *stream, const struct perf_device *device)
{
    (void)stream;
    (void)device;
}

#endif
