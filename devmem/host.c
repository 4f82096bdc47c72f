/* SPDX-License-Identifier: Apache-2.0 */
#include "devmem/host.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "devmem/reduce.h"

#define ALIGN_BYTES 4096 /* of what allocate() gives */

struct weft_device {
    struct weft_device_params params;
};

struct weft_device_queue {
    struct weft_device *device;
};

struct weft_device_event {
    char unused;
};

struct weft_device_wait {
    char unused;
};

/* All of them are alike: past, and open. */
static struct weft_device_event past;
static struct weft_device_wait open_always;

static int host_open(const struct weft_device_params *params, struct weft_device **device)
{
    struct weft_device *opened = calloc(1, sizeof *opened);
    if (!opened)
        return params->fail(WEFT_NOMEM, "host: no memory for a device");
    opened->params = *params;
    *device = opened;
    return WEFT_OK;
}

static void host_close(struct weft_device *device)
{
    free(device);
}

static int host_count(struct weft_device *device)
{
    (void)device;
    return 1;
}

static int check_ordinal(struct weft_device *device, int ordinal)
{
    if (ordinal == 0 || ordinal == -1)
        return WEFT_OK;
    return device->params.fail(WEFT_INVALID, "host: there is no device %d: expected 0", ordinal);
}

static int host_describe(struct weft_device *device, int ordinal, struct weft_device_info *info)
{
    struct weft_device_info known = {
        .size = info->size, .name = "host memory", .numa = -1, .flags = WEFT_DEVICE_REDUCES};
    int status = check_ordinal(device, ordinal);
    if (status != WEFT_OK)
        return status;
    const char *isa = weft_reduce_isa();
    memcpy(known.runtime, isa, strlen(isa) + 1);
    long pages = sysconf(_SC_PHYS_PAGES), page_bytes = sysconf(_SC_PAGESIZE);
    if (pages > 0 && page_bytes > 0)
        known.memory_bytes = (uint64_t)pages * (uint64_t)page_bytes;
    memcpy(info, &known, info->size < sizeof known ? info->size : sizeof known);
    return WEFT_OK;
}

void weft_host_span(struct weft_device_span *span)
{
    struct weft_device_span all = {.size = span->size,
                                   .kind = WEFT_MEMORY_HOST,
                                   .flags = WEFT_SPAN_HOST_ACCESS,
                                   .ordinal = -1,
                                   .length = UINT64_MAX};
    memcpy(span, &all, span->size < sizeof all ? span->size : sizeof all);
}

static int host_identify(struct weft_device *device, const void *pointer, struct weft_device_span *span)
{
    (void)device, (void)pointer;
    weft_host_span(span);
    return WEFT_OK;
}

static int host_queue_open(struct weft_device *device, int ordinal, struct weft_device_queue **queue)
{
    int status = check_ordinal(device, ordinal);
    if (status != WEFT_OK)
        return status;
    struct weft_device_queue *opened = calloc(1, sizeof *opened);
    if (!opened)
        return device->params.fail(WEFT_NOMEM, "host: no memory for a queue");
    opened->device = device;
    *queue = opened;
    return WEFT_OK;
}

static void host_queue_close(struct weft_device_queue *queue)
{
    free(queue);
}

static int host_copy(struct weft_device_queue *queue, void *destination, const void *source, size_t size)
{
    (void)queue;
    if (size > 0 && destination != source)
        weft_copy(destination, source, size);
    return WEFT_OK;
}

/* Block by block, so that what is scaled, and what goes to a second place, is still in the cache. Since a destination is
 * a source as a whole or not at all, no block's results are another block's inputs. */
static void reduce_blocks(const struct weft_device_reduction *reduction, weft_reduce_function *kernel)
{
    enum { BLOCK_BYTES = 16384 };
    char scaled[BLOCK_BYTES];
    const void *sources[WEFT_DEVICE_SOURCES_MAX];
    size_t element = weft_dtype_size(reduction->dtype), block = BLOCK_BYTES / element;
    for (size_t at = 0, piece; at < reduction->count; at += piece) {
        piece = reduction->count - at < block ? (size_t)reduction->count - at : block;
        for (uint32_t i = 0; i < reduction->source_count; i++)
            sources[i] = (const char *)reduction->sources[i] + at * element;
        if (reduction->scalar) {
            weft_scale(reduction->dtype, scaled, sources[0], piece, reduction->scalar);
            sources[0] = scaled;
        }
        char *first = (char *)reduction->destinations[0] + at * element;
        kernel(first, sources, (int)reduction->source_count, piece, reduction->finish);
        if (reduction->destination_count == 2)
            memcpy((char *)reduction->destinations[1] + at * element, first, piece * element);
    }
}

static int host_reduce(struct weft_device_queue *queue, const struct weft_device_reduction *reduction)
{
    const struct weft_device_params *params = &queue->device->params;
    if (reduction->source_count < 1 || reduction->source_count > WEFT_DEVICE_SOURCES_MAX ||
        reduction->destination_count < 1 || reduction->destination_count > WEFT_DEVICE_DESTINATIONS_MAX)
        return params->fail(
            WEFT_INVALID, "host: a reduction of %u sources to %u destinations: expected 1 to %d, and 1 to %d",
            reduction->source_count, reduction->destination_count, WEFT_DEVICE_SOURCES_MAX,
            WEFT_DEVICE_DESTINATIONS_MAX);
    weft_reduce_function *kernel = weft_reduce_find(reduction->dtype, reduction->op);
    if (!kernel || (reduction->scalar && reduction->dtype == WEFT_BOOL))
        return params->fail(WEFT_UNSUPPORTED, "%s of %s%s is not supported", weft_op_name(reduction->op),
                            kernel ? "scaled " : "", weft_dtype_name(reduction->dtype));
    if (reduction->scalar || reduction->destination_count > 1)
        reduce_blocks(reduction, kernel);
    else if (reduction->count > 0)
        kernel(reduction->destinations[0], reduction->sources, (int)reduction->source_count,
               (size_t)reduction->count, reduction->finish);
    return WEFT_OK;
}

static int check_stream(struct weft_device *device, const void *stream)
{
    if (!stream)
        return WEFT_OK;
    return device->params.fail(WEFT_UNSUPPORTED, "host: memory without a device has no streams");
}

static int host_mark(struct weft_device_queue *queue, struct weft_device_event **event)
{
    (void)queue;
    *event = &past;
    return WEFT_OK;
}

static int host_mark_stream(struct weft_device *device, int ordinal, void *stream, uint32_t flags,
                            struct weft_device_event **event)
{
    (void)flags;
    int status = check_ordinal(device, ordinal);
    if (status == WEFT_OK)
        status = check_stream(device, stream);
    if (status == WEFT_OK)
        *event = &past;
    return status;
}

static int host_test(struct weft_device_event *event)
{
    (void)event;
    return 1;
}

static int host_await(struct weft_device_queue *queue, struct weft_device_event *event)
{
    (void)queue, (void)event;
    return WEFT_OK;
}

static int host_wait_stream(struct weft_device *device, int ordinal, void *stream,
                            struct weft_device_wait **wait)
{
    int status = check_ordinal(device, ordinal);
    if (status == WEFT_OK)
        status = check_stream(device, stream);
    if (status == WEFT_OK)
        *wait = &open_always;
    return status;
}

static int host_wait_open(struct weft_device_wait *wait, struct weft_device_queue *queue)
{
    (void)wait, (void)queue;
    return WEFT_OK;
}

static int host_pin(struct weft_device *device, void *memory, size_t size)
{
    (void)device, (void)memory, (void)size;
    return WEFT_OK;
}

static int host_allocate(struct weft_device *device, int ordinal, enum weft_memory_kind kind, size_t size,
                         void **memory)
{
    (void)kind; /* one is as good as another */
    int status = check_ordinal(device, ordinal);
    if (status != WEFT_OK)
        return status;
    size_t whole = size < ALIGN_BYTES ? ALIGN_BYTES : (size + ALIGN_BYTES - 1) / ALIGN_BYTES * ALIGN_BYTES;
    void *found = whole >= size ? aligned_alloc(ALIGN_BYTES, whole) : NULL;
    if (!found)
        return device->params.fail(WEFT_NOMEM, "host: no memory for %zu bytes", size);
    *memory = found;
    return WEFT_OK;
}

static int host_release(struct weft_device *device, void *memory)
{
    (void)device;
    free(memory);
    return WEFT_OK;
}

const struct weft_device_ops weft_host_device_ops = {
    .size = sizeof(struct weft_device_ops),
    .abi = WEFT_DEVICE_ABI,
    .name = "host",
    .open = host_open,
    .close = host_close,
    .count = host_count,
    .describe = host_describe,
    .identify = host_identify,
    .queue_open = host_queue_open,
    .queue_close = host_queue_close,
    .copy = host_copy,
    .reduce = host_reduce,
    .mark_stream = host_mark_stream,
    .mark = host_mark,
    .test = host_test,
    .await = host_await,
    .wait_stream = host_wait_stream,
    .wait_open = host_wait_open,
    .pin = host_pin,
    .unpin = host_pin,
    .allocate = host_allocate,
    .release = host_release,
};
