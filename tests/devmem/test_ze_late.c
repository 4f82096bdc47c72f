/* SPDX-License-Identifier: Apache-2.0 */
/* build: needs ze; beside ze */
/* A driver that says of an append that memory is short, and runs it all the same with what is appended next, as Intel's does where memory is short when
 * commands are submitted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>
#include <level_zero/ze_api.h>

#include "devmem/ze/ze.h"
#include "tests/support/child.h"
#include "tests/support/ze_scene.h"
#include "tests/support/ze_streams.h"

static struct weft_device_ops ops; /* complete */
static struct weft_device *device;
static struct ze_fake *fake;

static int wait_for(struct weft_device_event *event)
{
    int state;
    while ((state = ops.test(event)) == 0)
        usleep(20);
    return state;
}

/* What has failed as memory was short may be in the list all the same, and would run with what is appended next: nothing is. */
static int fail_in_queues(void)
{
    struct weft_device_queue *queues[2];
    struct weft_device_event *before, *event;
    char *memory, *host;
    ZE_CHECK((fake = ze_scene_begin(&ops, &device)) &&
             ops.allocate(device, 0, WEFT_MEMORY_DEVICE, 100, (void **)&memory) == WEFT_OK);
    ZE_CHECK(ops.allocate(device, -1, WEFT_MEMORY_PINNED, 200, (void **)&host) == WEFT_OK);
    for (int i = 0; i < 2; i++)
        ZE_CHECK(ops.queue_open(device, 0, &queues[i]) == WEFT_OK);
    ZE_CHECK(ops.copy(queues[0], memory, host, 100) == WEFT_OK && ops.mark(queues[0], &before) == WEFT_OK);
    fake->append_late = ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY;
    ZE_CHECK(ops.copy(queues[0], host, memory, 100) == WEFT_NOMEM && strstr(ze_said, "copying 100 bytes"));
    ZE_CHECK(ops.mark(queues[1], &event) == WEFT_NOMEM && strstr(ze_said, "marking a place"));
    fake->append_late = 0;
    while (ops.test(before) == 0)
        usleep(20);
    ZE_CHECK(ops.test(before) == 1 && ops.release(device, memory) == WEFT_OK); /* its copy has failed */
    for (int i = 0; i < 2; i++) {
        ZE_CHECK(ops.copy(queues[i], host + 100, host, 100) == WEFT_NOMEM);
        ZE_CHECK(strstr(ze_said, "a queue of device 0 takes nothing any more, as an operation has failed"));
        ZE_CHECK(strstr(ze_said, "ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY"));
        ZE_CHECK(ops.mark(queues[i], &event) == WEFT_NOMEM && strstr(ze_said, "takes nothing any more"));
        ZE_CHECK(ops.await(queues[i], before) == WEFT_NOMEM && strstr(ze_said, "takes nothing any more"));
        ops.queue_close(queues[i]);
    }
    ops.event_free(before);
    struct weft_device_queue *other; /* the device works on, with events of its own */
    ZE_CHECK(ops.queue_open(device, 0, &other) == WEFT_OK);
    ZE_CHECK(ops.copy(other, host + 100, host, 100) == WEFT_OK && ze_scene_finish(&ops, other) == 1);
    ops.queue_close(other);
    ZE_CHECK(ops.release(device, host) == WEFT_OK);
    ops.close(device);
    ZE_CHECK(fake->violations == 0 && fake->lists == 2 && fake->contexts == 1);
    return 0;
}

/* What could not be put into a stream may run with what the program puts there next: it signals what nobody else uses, and waits for what has come. So
 * it is with what was to open a wait. */
static int fail_in_streams(void)
{
    enum { MANY = 100 };
    void *stream;
    struct weft_device_queue *queue;
    struct weft_device_wait *wait;
    struct weft_device_event *event, *opens;
    struct device_streams streams;
    struct weft_device_info info = {.size = sizeof info};
    ZE_CHECK((fake = ze_scene_begin(&ops, &device)));
    ze_streams(NULL, &streams);
    ZE_CHECK(ops.describe(device, 0, &info) == WEFT_OK && streams.open(0, &stream) == 0);
    ZE_CHECK(ops.queue_open(device, 0, &queue) == WEFT_OK);
    fake->append_late = ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY;
    ZE_CHECK(ops.mark_stream(device, 0, stream, 0, &event) == WEFT_NOMEM);
    ZE_CHECK(ops.wait_stream(device, 0, stream, &wait) == WEFT_NOMEM);
    fake->append_late = 0;
    ZE_CHECK(ops.mark_stream(device, 0, stream, 0, &event) == WEFT_OK && wait_for(event) == 1);
    ops.event_free(event);
    ZE_CHECK(ops.wait_stream(device, 0, stream, &wait) == WEFT_OK);
    opens = wait->opens;
    fake->append_late = ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY;
    ZE_CHECK(ops.wait_open(wait, queue) == WEFT_OK);
    fake->append_late = 0;
    ops.wait_free(wait);
    ZE_CHECK(streams.sync(stream) == 0);
    for (int i = 0; i < MANY; i++) {
        ZE_CHECK((event = weft_ze_event_get(device, 0)) && event != opens);
        weft_ze_event_unused(event);
    }
    ops.queue_close(queue);
    ZE_CHECK(streams.close(stream) == 0 && fake->violations == 0 && fake->lists == 1);
    return 0;
}

static void test_queues(void **state)
{
    (void)state;
    assert_int_equal(test_child(fail_in_queues), 0);
}

static void test_streams(void **state)
{
    (void)state;
    assert_int_equal(test_child(fail_in_streams), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_queues), cmocka_unit_test(test_streams)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
