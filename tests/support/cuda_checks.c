/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/cuda_checks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "tests/support/cuda_scene.h"

void cuda_check_said(const char *part)
{
    const char *text = scene_text();
    if (!strstr(text, part))
        fail_msg("'%s' is not in '%s'", part, text);
}

struct weft_device_queue *cuda_check_queue(struct weft_device *device, int ordinal)
{
    struct weft_device_queue *queue;
    assert_int_equal(weft_cuda_ops.queue_open(device, ordinal, &queue), WEFT_OK);
    return queue;
}

void *cuda_check_memory(struct weft_device *device, int ordinal, enum weft_memory_kind kind, size_t size)
{
    void *memory;
    assert_int_equal(weft_cuda_ops.allocate(device, ordinal, kind, size, &memory), WEFT_OK);
    return memory;
}

void cuda_check_finish(struct weft_device_queue *queue)
{
    struct weft_device_event *event;
    assert_int_equal(weft_cuda_ops.mark(queue, &event), WEFT_OK);
    assert_int_equal(scene_wait(event), 1);
    weft_cuda_ops.event_free(event);
}

void cuda_check_follow(struct weft_device_queue *queue, struct weft_device *device, int ordinal, void *stream)
{
    struct weft_device_event *event;
    assert_int_equal(weft_cuda_ops.mark_stream(device, ordinal, stream, 0, &event), WEFT_OK);
    assert_int_equal(weft_cuda_ops.await(queue, event), WEFT_OK);
    weft_cuda_ops.event_free(event);
}
