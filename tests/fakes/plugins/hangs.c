/* SPDX-License-Identifier: Apache-2.0 */
/* A kind whose device takes work and never does any. */
#define KIND_NAME "hangs"
#include "kind.h"

struct weft_device_queue {
    int unused;
};

struct weft_device_event {
    int unused;
};

static int hangs_queue_open(struct weft_device *device, int ordinal, struct weft_device_queue **queue)
{
    (void)device, (void)ordinal;
    *queue = calloc(1, sizeof **queue);
    return *queue ? WEFT_OK : WEFT_NOMEM;
}

static void hangs_queue_close(struct weft_device_queue *queue)
{
    free(queue);
}

static int hangs_copy(struct weft_device_queue *queue, void *destination, const void *source, size_t size)
{
    (void)queue, (void)destination, (void)source, (void)size;
    return WEFT_OK;
}

static int hangs_mark(struct weft_device_queue *queue, struct weft_device_event **event)
{
    (void)queue;
    *event = calloc(1, sizeof **event);
    return *event ? WEFT_OK : WEFT_NOMEM;
}

static int hangs_test(struct weft_device_event *event)
{
    (void)event;
    return 0;
}

static void hangs_event_free(struct weft_device_event *event)
{
    free(event);
}

static int hangs_pin(struct weft_device *device, void *memory, size_t size)
{
    (void)device, (void)memory, (void)size;
    return WEFT_OK;
}

const struct weft_device_ops *weft_device_plugin(void)
{
    static struct weft_device_ops ops;
    ops = kind_ops;
    ops.queue_open = hangs_queue_open;
    ops.queue_close = hangs_queue_close;
    ops.copy = hangs_copy;
    ops.mark = hangs_mark;
    ops.test = hangs_test;
    ops.event_free = hangs_event_free;
    ops.pin = ops.unpin = hangs_pin;
    return &ops;
}
