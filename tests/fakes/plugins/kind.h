/* SPDX-License-Identifier: Apache-2.0 */
/* A kind of device that does nothing but be there, for tests of loading. A plug-in defines KIND_NAME and includes this. Its
 * memory are 64 bytes that the symbol "kind_memory" has. "fail" among its options lets it fail to open. */
#ifndef WEFT_TESTS_PLUGINS_KIND_H
#define WEFT_TESTS_PLUGINS_KIND_H

#include <stdlib.h>
#include <string.h>
#include <weft/device.h>

char kind_memory[64];
char kind_options[64]; /* what the last open() was given */
int kind_open_count;

const struct weft_device_ops *weft_device_plugin(void);

struct weft_device {
    const struct weft_device_params *params;
};

static int kind_open(const struct weft_device_params *params, struct weft_device **device)
{
    strncpy(kind_options, params->options, sizeof kind_options - 1);
    if (strcmp(params->options, "fail") == 0)
        return params->fail(WEFT_NOT_FOUND, "%s: no device of %d", KIND_NAME, 7);
    *device = calloc(1, sizeof **device);
    kind_open_count += *device != NULL;
    return *device ? WEFT_OK : WEFT_NOMEM;
}

static void kind_close(struct weft_device *device)
{
    kind_open_count--;
    free(device);
}

static int kind_count(struct weft_device *device)
{
    (void)device;
    return 0;
}

static int kind_describe(struct weft_device *device, int ordinal, struct weft_device_info *info)
{
    (void)device, (void)ordinal, (void)info;
    return WEFT_INVALID;
}

static int kind_identify(struct weft_device *device, const void *pointer, struct weft_device_span *span)
{
    const char *at = pointer;
    (void)device;
    if (at < kind_memory || at >= kind_memory + sizeof kind_memory)
        return WEFT_NOT_FOUND;
    span->kind = WEFT_MEMORY_DEVICE;
    span->base = (uintptr_t)kind_memory;
    span->length = sizeof kind_memory;
    return WEFT_OK;
}

static int kind_queue_open(struct weft_device *device, int ordinal, struct weft_device_queue **queue)
{
    (void)device, (void)ordinal, (void)queue;
    return WEFT_UNSUPPORTED;
}

static void kind_queue_close(struct weft_device_queue *queue)
{
    (void)queue;
}

static int kind_copy(struct weft_device_queue *queue, void *destination, const void *source, size_t size)
{
    (void)queue, (void)destination, (void)source, (void)size;
    return WEFT_UNSUPPORTED;
}

static int kind_mark(struct weft_device_queue *queue, struct weft_device_event **event)
{
    (void)queue, (void)event;
    return WEFT_UNSUPPORTED;
}

static int kind_test(struct weft_device_event *event)
{
    (void)event;
    return 1;
}

static const struct weft_device_ops kind_ops = {
    .size = sizeof(struct weft_device_ops),
    .abi = WEFT_DEVICE_ABI,
    .name = KIND_NAME,
    .open = kind_open,
    .close = kind_close,
    .count = kind_count,
    .describe = kind_describe,
    .identify = kind_identify,
    .queue_open = kind_queue_open,
    .queue_close = kind_queue_close,
    .copy = kind_copy,
    .mark = kind_mark,
    .test = kind_test,
};

#endif
