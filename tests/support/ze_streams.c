/* SPDX-License-Identifier: Apache-2.0 */
/* build: needs ze */
#include "tests/support/ze_streams.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/runtime.h"
#include "devmem/ze/ze.h"
#include "tests/support/ze_scene.h"

#define STREAMS 8
#define LISTS   2048 /* that a command queue gets between two that wait for it */

/* A stream, and what is destroyed with it. */
struct stream {
    int is_taken;
    void *handle;
    ze_context_handle_t context;
    ze_device_handle_t device;
    ze_command_list_handle_t list;
    ze_command_queue_handle_t commands;
    ze_command_list_handle_t lists[LISTS]; /* in the command queue */
    int list_count;
};

static struct weft_ze_driver driver;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of which are taken; each is one thread's */
static struct stream streams[STREAMS];

static struct stream *find(const void *handle)
{
    struct stream *found = NULL;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < STREAMS && !found; i++) {
        if (streams[i].is_taken && streams[i].handle == handle)
            found = &streams[i];
    }
    pthread_mutex_unlock(&lock);
    return found;
}

static struct stream *take(void)
{
    struct stream *taken = NULL;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < STREAMS && !taken; i++)
        taken = streams[i].is_taken ? NULL : &streams[i];
    if (taken)
        *taken = (struct stream){.is_taken = 1};
    pthread_mutex_unlock(&lock);
    return taken;
}

static int load(void)
{
    char text[WEFT_ZE_TEXT];
    pthread_mutex_lock(&lock);
    int failed = weft_ze_driver_load(&driver, text, sizeof text) != 1 || driver.zeInit(0) != 0;
    pthread_mutex_unlock(&lock);
    return failed ? -1 : 0;
}

static int stream_open(int ordinal, void **opened)
{
    struct stream *stream = take(), made = {.is_taken = 1};
    ze_driver_handle_t from;
    ze_device_handle_t devices[8];
    uint32_t count = 1, device_count = 8;
    const ze_context_desc_t plain = {.stype = ZE_STRUCTURE_TYPE_CONTEXT_DESC};
    const ze_command_queue_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_COMMAND_QUEUE_DESC,
                                          .ordinal = 1,
                                          .mode = ZE_COMMAND_QUEUE_MODE_ASYNCHRONOUS};
    if (!stream || load() != 0 || driver.zeDriverGet(&count, &from) != 0 ||
        driver.zeDeviceGet(from, &device_count, devices) != 0)
        return -1;
    made.device = devices[ordinal];
    if (driver.zeContextCreate(from, &plain, &made.context) != 0)
        return -1;
    if (driver.zeCommandListCreateImmediate(made.context, made.device, &desc, &made.list) == 0)
        made.handle = made.list;
    else if (driver.zeCommandQueueCreate(made.context, made.device, &desc, &made.commands) == 0)
        made.handle = (char *)(void *)made.commands + 1;
    pthread_mutex_lock(&lock);
    *stream = made;
    pthread_mutex_unlock(&lock);
    *opened = made.handle;
    return stream->handle ? 0 : -1;
}

/* A list to put commands into, behind a barrier; NULL. */
static ze_command_list_handle_t begin(struct stream *stream)
{
    const ze_command_list_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_COMMAND_LIST_DESC,
                                         .commandQueueGroupOrdinal = 1};
    ze_command_list_handle_t list = stream->list;
    if (!list && (stream->list_count == LISTS ||
                  driver.zeCommandListCreate(stream->context, stream->device, &desc, &list) != 0))
        return NULL;
    if (!stream->list)
        stream->lists[stream->list_count++] = list;
    return driver.zeCommandListAppendBarrier(list, NULL, 0, NULL) == 0 ? list : NULL;
}

static int end(const struct stream *stream, ze_command_list_handle_t list)
{
    return stream->list ? 0
                        : driver.zeCommandListClose(list) |
                              driver.zeCommandQueueExecuteCommandLists(stream->commands, 1, &list, NULL);
}

static int stream_wait(void *handle, const int *flag)
{
    ze_result_t (*spin)(ze_command_list_handle_t, const int *) = ze_scene_function("ze_fake_append_spin");
    struct stream *stream = find(handle);
    ze_command_list_handle_t list = begin(stream);
    return !list || spin(list, flag) || end(stream, list);
}

/* By the loader's own call, which weft has no use for. */
static int stream_fill(void *handle, void *memory, int byte, size_t size)
{
    void *loader = dlopen(WEFT_RUNTIME_ZE, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
    __typeof__(zeCommandListAppendMemoryFill) *append =
        loader ? dlsym(loader, "zeCommandListAppendMemoryFill") : NULL;
    struct stream *stream = find(handle);
    ze_command_list_handle_t list = begin(stream);
    const unsigned char pattern = (unsigned char)byte;
    if (loader)
        dlclose(loader);
    return !list || !append || append(list, memory, &pattern, 1, size, NULL, 0, NULL) || end(stream, list);
}

/* The event's own pool goes with it, and so do the lists that the command queue is through with. */
static int stream_sync(void *handle)
{
    struct stream *stream = find(handle);
    const ze_event_pool_desc_t desc = {
        .stype = ZE_STRUCTURE_TYPE_EVENT_POOL_DESC, .flags = ZE_EVENT_POOL_FLAG_HOST_VISIBLE, .count = 1};
    const ze_event_desc_t one = {.stype = ZE_STRUCTURE_TYPE_EVENT_DESC};
    ze_event_pool_handle_t pool;
    ze_event_handle_t event;
    ze_command_list_handle_t list = begin(stream);
    if (!list || driver.zeEventPoolCreate(stream->context, &desc, 0, NULL, &pool) ||
        driver.zeEventCreate(pool, &one, &event) || driver.zeCommandListAppendBarrier(list, event, 0, NULL) ||
        end(stream, list))
        return -1;
    int failed = driver.zeEventHostSynchronize(event, UINT64_MAX) != 0;
    while (stream->list_count > 0)
        failed |= driver.zeCommandListDestroy(stream->lists[--stream->list_count]) != 0;
    return failed | driver.zeEventDestroy(event) | driver.zeEventPoolDestroy(pool);
}

static int stream_is_idle(void *handle)
{
    int (*is_idle)(const void *) = ze_scene_function("ze_fake_is_idle");
    const struct stream *stream = find(handle);
    return is_idle(stream->list ? (const void *)stream->list : (const void *)stream->commands);
}

static int stream_close(void *handle)
{
    struct stream *stream = find(handle);
    int failed = stream_sync(handle);
    failed |= stream->list ? driver.zeCommandListDestroy(stream->list)
                           : driver.zeCommandQueueDestroy(stream->commands);
    failed |= driver.zeContextDestroy(stream->context);
    pthread_mutex_lock(&lock);
    *stream = (struct stream){.is_taken = 0};
    pthread_mutex_unlock(&lock);
    return failed;
}

void ze_streams(const struct weft_device_kind *kind, struct device_streams *found)
{
    (void)kind;
    *found = (struct device_streams){stream_open, stream_close, stream_wait,
                                     stream_fill, stream_sync,  stream_is_idle};
}
