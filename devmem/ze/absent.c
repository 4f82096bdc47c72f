/* SPDX-License-Identifier: Apache-2.0 */
/* Level Zero, left out of this build. Nothing but open() is ever called. */
#include <weft/device.h>

static int ze_open(const struct weft_device_params *params, struct weft_device **device)
{
    (void)device;
    return params->fail(WEFT_NOT_FOUND, "built without Level Zero (WITH_ZE=no)");
}

static void ze_close(struct weft_device *device)
{
    (void)device;
}

static int ze_count(struct weft_device *device)
{
    (void)device;
    return WEFT_NOT_FOUND;
}

static int ze_describe(struct weft_device *device, int ordinal, struct weft_device_info *info)
{
    (void)device, (void)ordinal, (void)info;
    return WEFT_NOT_FOUND;
}

static int ze_identify(struct weft_device *device, const void *pointer, struct weft_device_span *span)
{
    (void)device, (void)pointer, (void)span;
    return WEFT_NOT_FOUND;
}

static int ze_queue_open(struct weft_device *device, int ordinal, struct weft_device_queue **queue)
{
    (void)device, (void)ordinal, (void)queue;
    return WEFT_NOT_FOUND;
}

static void ze_queue_close(struct weft_device_queue *queue)
{
    (void)queue;
}

static int ze_copy(struct weft_device_queue *queue, void *destination, const void *source, size_t size)
{
    (void)queue, (void)destination, (void)source, (void)size;
    return WEFT_NOT_FOUND;
}

static int ze_mark(struct weft_device_queue *queue, struct weft_device_event **event)
{
    (void)queue, (void)event;
    return WEFT_NOT_FOUND;
}

static int ze_test(struct weft_device_event *event)
{
    (void)event;
    return WEFT_NOT_FOUND;
}

extern const struct weft_device_ops weft_ze_ops;
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
};
