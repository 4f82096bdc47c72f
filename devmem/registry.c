/* SPDX-License-Identifier: Apache-2.0 */
#include "devmem/registry.h"

#include <string.h>

#include "base/error.h"
#include "devmem/host.h"

/* Each in a folder of its own, and each with a "struct weft_device". */
extern const struct weft_device_ops weft_cuda_ops, weft_ze_ops;

static const struct weft_device_ops *const built_in[] = {
    &weft_cuda_ops,
    &weft_ze_ops,
    &weft_host_device_ops,
};

const struct weft_device_ops *weft_device_built_in(size_t index)
{
    return index < sizeof built_in / sizeof *built_in ? built_in[index] : NULL;
}

const struct weft_device_ops *weft_device_find(const char *name)
{
    for (size_t i = 0; name && i < sizeof built_in / sizeof *built_in; i++) {
        if (strcmp(built_in[i]->name, name) == 0)
            return built_in[i];
    }
    return NULL;
}

int weft_device_name_is_good(const char *name)
{
    size_t length = strnlen(name, WEFT_DEVICE_NAME_MAX + 1);
    return length >= 1 && length <= WEFT_DEVICE_NAME_MAX && name[0] >= 'a' && name[0] <= 'z' &&
           strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-_") == length;
}

static int absent(const char *what)
{
    return weft_fail(WEFT_UNSUPPORTED, "devices of this kind %s", what);
}

static int absent_export_dmabuf(struct weft_device *device, const void *memory, size_t size, int *fd,
                                uint64_t *offset)
{
    (void)device, (void)memory, (void)size, (void)fd, (void)offset;
    return absent("export no dma-buf");
}

static int absent_export_ipc(struct weft_device *device, const void *memory,
                             struct weft_device_handle *handle, uint64_t *offset)
{
    (void)device, (void)memory, (void)handle, (void)offset;
    return absent("share no memory with other processes");
}

static int absent_import_ipc(struct weft_device *device, int ordinal, const struct weft_device_handle *handle,
                             void **base)
{
    (void)device, (void)ordinal, (void)handle, (void)base;
    return absent("map no memory of other processes");
}

static int absent_unimport(struct weft_device *device, void *base)
{
    (void)device, (void)base;
    return absent("map no memory of other processes");
}

static int absent_reduce(struct weft_device_queue *queue, const struct weft_device_reduction *reduction)
{
    (void)queue, (void)reduction;
    return absent("do not reduce");
}

static int absent_mark_stream(struct weft_device *device, int ordinal, void *stream, uint32_t flags,
                              struct weft_device_event **event)
{
    (void)device, (void)ordinal, (void)stream, (void)flags, (void)event;
    return absent("have no streams");
}

static int absent_await(struct weft_device_queue *queue, struct weft_device_event *event)
{
    (void)queue, (void)event;
    return absent("have no queues that wait for each other");
}

static void absent_event_free(struct weft_device_event *event)
{
    (void)event;
}

static int absent_wait_stream(struct weft_device *device, int ordinal, void *stream,
                              struct weft_device_wait **wait)
{
    (void)device, (void)ordinal, (void)stream, (void)wait;
    return absent("cannot hold a stream");
}

static int absent_wait_open(struct weft_device_wait *wait, struct weft_device_queue *queue)
{
    (void)wait, (void)queue;
    return absent("cannot hold a stream");
}

static void absent_wait_free(struct weft_device_wait *wait)
{
    (void)wait;
}

static int absent_pin(struct weft_device *device, void *memory, size_t size)
{
    (void)device, (void)memory, (void)size;
    return absent("cannot read and write host memory");
}

static int absent_allocate(struct weft_device *device, int ordinal, enum weft_memory_kind kind, size_t size,
                           void **memory)
{
    (void)device, (void)ordinal, (void)kind, (void)size, (void)memory;
    return absent("have no memory that weft could allocate");
}

static int absent_release(struct weft_device *device, void *memory)
{
    (void)device, (void)memory;
    return absent("have no memory that weft could allocate");
}

static int absent_in_use(struct weft_device *device)
{
    (void)device;
    return 1;
}

static int needless_flush_writes(struct weft_device *device, int ordinal)
{
    (void)device, (void)ordinal;
    return WEFT_OK;
}

static int absent_run(struct weft_device_queue *queue, const struct weft_device_collective *collective)
{
    (void)queue, (void)collective;
    return absent("run no device collectives");
}

static int always_reaches(struct weft_device *device, int ordinal, const void *pointer, int may_wait)
{
    (void)device, (void)ordinal, (void)pointer, (void)may_wait;
    return 1;
}

static int absent_elapsed(struct weft_device_event *from, struct weft_device_event *to, double *ns)
{
    (void)from, (void)to, (void)ns;
    return absent("have no clock");
}

/* Takes the default for every operation that the table lacks. */
static void fill(struct weft_device_ops *ops)
{
    ops->export_dmabuf = ops->export_dmabuf ? ops->export_dmabuf : absent_export_dmabuf;
    ops->export_ipc = ops->export_ipc ? ops->export_ipc : absent_export_ipc;
    ops->import_ipc = ops->import_ipc ? ops->import_ipc : absent_import_ipc;
    ops->unimport = ops->unimport ? ops->unimport : absent_unimport;
    ops->reduce = ops->reduce ? ops->reduce : absent_reduce;
    ops->mark_stream = ops->mark_stream ? ops->mark_stream : absent_mark_stream;
    ops->await = ops->await ? ops->await : absent_await;
    ops->event_free = ops->event_free ? ops->event_free : absent_event_free;
    ops->wait_stream = ops->wait_stream ? ops->wait_stream : absent_wait_stream;
    ops->wait_open = ops->wait_open ? ops->wait_open : absent_wait_open;
    ops->wait_free = ops->wait_free ? ops->wait_free : absent_wait_free;
    ops->pin = ops->pin ? ops->pin : absent_pin;
    ops->unpin = ops->unpin ? ops->unpin : absent_pin;
    ops->allocate = ops->allocate ? ops->allocate : absent_allocate;
    ops->release = ops->release ? ops->release : absent_release;
    ops->in_use = ops->in_use ? ops->in_use : absent_in_use;
    ops->flush_writes = ops->flush_writes ? ops->flush_writes : needless_flush_writes;
    ops->run = ops->run ? ops->run : absent_run;
    ops->reaches = ops->reaches ? ops->reaches : always_reaches;
    ops->elapsed = ops->elapsed ? ops->elapsed : absent_elapsed;
}

/* A kind that was left out of this build has nothing but open(), which fails. The rest is never called, and becomes the host's. */
static void fill_left_out(struct weft_device_ops *ops)
{
    const struct weft_device_ops own = *ops;
    *ops = weft_host_device_ops;
    ops->name = own.name;
    ops->open = own.open;
}

int weft_device_complete(const struct weft_device_ops *partial, struct weft_device_ops *complete)
{
    size_t least = offsetof(struct weft_device_ops, name) + sizeof partial->name;
    if (partial->size < least)
        return weft_fail(WEFT_INVALID, "a kind of device has a table of %zu bytes: expected at least %zu",
                         partial->size, least);
    if (partial->abi != WEFT_DEVICE_ABI)
        return weft_fail(WEFT_INVALID, "a kind of device has ABI %u: expected %d", (unsigned)partial->abi,
                         WEFT_DEVICE_ABI);
    struct weft_device_ops ops;
    memset(&ops, 0, sizeof ops);
    memcpy(&ops, partial, partial->size < sizeof ops ? partial->size : sizeof ops);
    ops.size = sizeof ops;
    if (!ops.name || !weft_device_name_is_good(ops.name))
        return weft_fail(WEFT_INVALID,
                         "a kind of device is called '%.40s': expected 1 to %d lower-case letters, digits, "
                         "'-' and '_', a letter first",
                         ops.name ? ops.name : "", WEFT_DEVICE_NAME_MAX);
    if (ops.open && !ops.close && weft_device_find(ops.name) == partial)
        fill_left_out(&ops);
    if (!ops.open || !ops.close || !ops.count || !ops.describe || !ops.identify || !ops.queue_open ||
        !ops.queue_close || !ops.copy || !ops.mark || !ops.test)
        return weft_fail(WEFT_INVALID,
                         "device %s lacks one of open, close, count, describe, identify, queue_open, "
                         "queue_close, copy, mark, test in its table of %zu bytes",
                         ops.name, partial->size);
    fill(&ops);
    *complete = ops;
    return WEFT_OK;
}
