/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/case_device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"

#define BEHIND 16 /* as in collective_case.c */

static void expect(int status, const char *what)
{
    if (status == WEFT_OK)
        return;
    fprintf(stderr, "%s: %s\n", what, weft_error_detail());
    abort();
}

void case_device_move(const struct weft_device_kind *kind, int ordinal, void *to, const void *from,
                      size_t size)
{
    const struct weft_device_ops *ops = &kind->ops;
    struct weft_device_queue *queue;
    struct weft_device_event *event;
    struct weft_device_span span = {.size = sizeof span};
    int is_put = ops->identify(kind->device, from, &span) == WEFT_NOT_FOUND || !strcmp(kind->name, "host");
    void *staging;
    int state;
    if (!size)
        return;
    expect(ops->allocate(kind->device, -1, WEFT_MEMORY_PINNED, size, &staging), "staging memory");
    expect(ops->queue_open(kind->device, ordinal, &queue), "a queue");
    if (is_put)
        memcpy(staging, from, size);
    expect(ops->copy(queue, is_put ? to : staging, is_put ? staging : from, size), "a copy");
    expect(ops->mark(queue, &event), "an event");
    while ((state = ops->test(event)) == 0)
        usleep(20);
    expect(state < 0 ? state : WEFT_OK, "the copy");
    if (!is_put)
        memcpy(to, staging, size);
    ops->event_free(event);
    ops->queue_close(queue);
    expect(ops->release(kind->device, staging), "giving staging memory back");
}

static void put(struct case_device *device, const struct case_buffer *buffer, void **copy)
{
    size_t size = (buffer->elements + BEHIND) * sizeof(int32_t);
    expect(device->kind->ops.allocate(device->kind->device, device->ordinal, WEFT_MEMORY_DEVICE, size, copy),
           "device memory");
    case_device_move(device->kind, device->ordinal, *copy, buffer->whole, size);
}

/* Where memory is that lies in a buffer which has been copied. */
static void *twin_of(const struct case_buffer *buffer, void *copy, const int32_t *memory)
{
    return copy ? (char *)copy + ((const char *)memory - (const char *)buffer->whole)
                : (void *)(uintptr_t)memory;
}

void case_device_put(struct case_device *device, const struct case_rank *made)
{
    const struct case_buffer *buffers[2] = {&made->input, &made->output};
    device->copies[0] = device->copies[1] = NULL;
    for (int b = 0; b < 2; b++) {
        if (buffers[b]->whole && device->where && (made->in_place || device->where >> b & 1))
            put(device, buffers[b], &device->copies[b]);
    }
    int in = !made->input.whole && made->in_place, out = made->output.whole || !made->in_place;
    device->input = made->input.memory ? twin_of(buffers[in], device->copies[in], made->input.memory) : NULL;
    device->output =
        made->output.memory ? twin_of(buffers[out], device->copies[out], made->output.memory) : NULL;
}

void case_device_get(struct case_device *device, struct case_rank *made)
{
    struct case_buffer *buffers[2] = {&made->input, &made->output};
    for (int b = 0; b < 2; b++) {
        if (!device->copies[b])
            continue;
        case_device_move(device->kind, device->ordinal, buffers[b]->whole, device->copies[b],
                         (buffers[b]->elements + BEHIND) * sizeof(int32_t));
        expect(device->kind->ops.release(device->kind->device, device->copies[b]), "freeing device memory");
    }
}
