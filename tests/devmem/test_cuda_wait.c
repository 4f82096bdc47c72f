/* SPDX-License-Identifier: Apache-2.0 */
/* build: beside drivers */
/* Stream waits: where the program's streams wait for weft, and that each of them ends. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/support/cuda_checks.h"
#include "tests/support/cuda_scene.h"

static const struct weft_device_ops *ops = &weft_cuda_ops;
static struct cuda_fake *fake;
static struct weft_device *device;
static CUcontext context;
static CUstream stream;
static int passed;

static int setup(void **state)
{
    (void)state;
    passed = 0;
    return scene_begin(&fake, &device, &context) || CU(cuStreamCreate)(&stream, 0) != 0;
}

static int teardown(void **state)
{
    (void)state;
    CU(cuStreamDestroy_v2)(stream);
    return scene_end(fake, device, context);
}

static void pass(void *argument)
{
    (void)argument;
    __atomic_add_fetch(&passed, 1, __ATOMIC_SEQ_CST);
}

static int passes(void)
{
    return __atomic_load_n(&passed, __ATOMIC_SEQ_CST);
}

static struct weft_device_wait *wait_stream(void *where)
{
    struct weft_device_wait *wait;
    assert_int_equal(ops->wait_stream(device, 1, where, &wait), WEFT_OK);
    assert_int_equal(CU(cuLaunchHostFunc)(where, pass, NULL), 0);
    return wait;
}

static void await_pass(int count)
{
    while (passes() < count)
        usleep(100);
    assert_int_equal(passes(), count);
}

static void test_from_host(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        struct weft_device_wait *wait = wait_stream(i == 2 ? NULL : (void *)stream);
        usleep(3000);
        assert_int_equal(passes(), i);
        assert_int_equal(ops->wait_open(wait, NULL), WEFT_OK);
        await_pass(i + 1);
        ops->wait_free(wait);
    }
}

/* Opened by a queue of another device, behind a copy that the stream then sees. */
static void test_from_queue(void **state)
{
    (void)state;
    struct weft_device_queue *queue = cuda_check_queue(device, 0);
    void *from = cuda_check_memory(device, -1, WEFT_MEMORY_PINNED, 4096);
    void *to = cuda_check_memory(device, 1, WEFT_MEMORY_DEVICE, 4096);
    memset(from, 0x77, 4096);
    struct weft_device_wait *wait = wait_stream(stream);
    assert_int_equal(ops->copy(queue, to, from, 4096), WEFT_OK);
    assert_int_equal(ops->wait_open(wait, queue), WEFT_OK);
    ops->wait_free(wait); /* at once: the stream may have yet to come by */
    await_pass(1);
    assert_memory_equal(fake->look(to), from, 4096);
    ops->queue_close(queue);
    ops->release(device, from);
    ops->release(device, to);
}

/* Many at a time in one stream, freed before they are passed, opened in any order: none lets through early. */
static void test_many(void **state)
{
    (void)state;
    struct weft_device_wait *waits[200];
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 200; i++)
            waits[i] = wait_stream(stream);
        for (int i = 199; i > 0; i--) {
            assert_int_equal(ops->wait_open(waits[i], NULL), WEFT_OK);
            ops->wait_free(waits[i]);
        }
        usleep(2000);
        assert_int_equal(passes(), round * 200);
        assert_int_equal(ops->wait_open(waits[0], NULL), WEFT_OK);
        ops->wait_free(waits[0]);
        await_pass((round + 1) * 200);
    }
}

/* All words are used over and over. */
static void test_room(void **state)
{
    (void)state;
    static struct weft_device_wait *waits[4097];
    int count = 0, status;
    while (count < 4097 && (status = ops->wait_stream(device, 1, stream, &waits[count])) == WEFT_OK)
        count++;
    assert_int_equal(count, 4096);
    assert_int_equal(status, WEFT_NOMEM);
    cuda_check_said("4096 stream waits are closed");
    ops->wait_open(waits[7], NULL);
    ops->wait_free(waits[7]);
    assert_int_equal(ops->wait_stream(device, 1, stream, &waits[7]), WEFT_OK);
    for (int i = 0; i < 4096; i++) {
        ops->wait_open(waits[i], NULL);
        ops->wait_free(waits[i]);
    }
    scene_drain(stream);
}

/* The queue's device dies before it ends the stream wait: whoever learns of that does. */
static void test_dead_queue(void **state)
{
    (void)state;
    struct weft_device_queue *queue = cuda_check_queue(device, 0);
    struct weft_device_event *event;
    struct weft_device_wait *first = wait_stream(NULL), *second;
    /* The queue waits for a stream that stands at a stream wait itself, so its own end cannot come before. */
    cuda_check_follow(queue, device, 0, stream);
    second = wait_stream(stream);
    CUcontext other, popped;
    CUstream stuck;
    assert_int_equal(scene_enter(0, &other), 0);
    assert_int_equal(CU(cuStreamCreate)(&stuck, 0), 0);
    CU(cuCtxPopCurrent_v2)(&popped);
    struct weft_device_wait *third;
    assert_int_equal(ops->wait_stream(device, 0, stuck, &third), WEFT_OK);
    cuda_check_follow(queue, device, 0, stuck);
    assert_int_equal(ops->wait_open(first, queue), WEFT_OK);
    assert_int_equal(ops->mark(queue, &event), WEFT_OK);
    assert_int_equal(passes(), 0);
    fake->break_device(0, 719);
    assert_int_equal(scene_wait(event), WEFT_SYSTEM);
    await_pass(1);
    /* From then on a queue of that device is not relied on. */
    assert_int_equal(ops->wait_open(second, queue), WEFT_OK);
    await_pass(2);
    assert_int_equal(ops->wait_open(third, NULL), WEFT_OK);
    ops->wait_free(first);
    ops->wait_free(second);
    ops->wait_free(third);
    ops->event_free(event);
    ops->queue_close(queue);
    CU(cuStreamDestroy_v2)(stuck);
    CU(cuDevicePrimaryCtxRelease_v2)(100);
}

/* A failure that is not the device's opens nothing early. */
static void test_harmless_failure(void **state)
{
    (void)state;
    struct weft_device_queue *queue;
    struct weft_device_event *event;
    struct weft_device_wait *blocker, *wait;
    CUstream behind;
    assert_int_equal(ops->queue_open(device, 1, &queue), WEFT_OK);
    assert_int_equal(CU(cuStreamCreate)(&behind, 0), 0);
    assert_int_equal(ops->wait_stream(device, 1, stream, &blocker), WEFT_OK);
    cuda_check_follow(queue, device, 1, stream);
    wait = wait_stream(behind);
    assert_int_equal(ops->wait_open(wait, queue), WEFT_OK);
    assert_int_equal(ops->mark(queue, &event), WEFT_OK);
    fake->let_fail("cuEventQuery", 400, 0);
    assert_int_equal(ops->test(event), WEFT_SYSTEM);
    /* Nor does the end of a context that the program has made. */
    CUcontext other, popped;
    CUstream foreign;
    struct weft_device_event *place;
    assert_int_equal(CU(cuCtxCreate_v2)(&other, 0, 100), 0);
    assert_int_equal(CU(cuStreamCreate)(&foreign, 0), 0);
    assert_int_equal(CU(cuCtxPopCurrent_v2)(&popped), 0);
    assert_int_equal(ops->mark_stream(device, 1, foreign, 0, &place), WEFT_OK);
    fake->let_fail("cuEventQuery", 709, 0);
    assert_int_equal(ops->test(place), WEFT_SYSTEM);
    fake->let_fail("cuCtxPushCurrent_v2", 709, 0);
    assert_int_equal(ops->test(place), WEFT_SYSTEM);
    ops->event_free(place);
    CU(cuStreamDestroy_v2)(foreign);
    CU(cuCtxDestroy_v2)(other);
    usleep(3000);
    assert_int_equal(passes(), 0);
    assert_int_equal(ops->wait_open(blocker, NULL), WEFT_OK);
    await_pass(1);
    assert_int_equal(scene_wait(event), 1);
    ops->wait_free(blocker);
    ops->wait_free(wait);
    ops->event_free(event);
    ops->queue_close(queue);
    CU(cuStreamDestroy_v2)(behind);
}

static void test_errors(void **state)
{
    (void)state;
    static const struct {
        const char *call;
        int result, status;
    } rows[] = {
        {"cuStreamWaitValue32_v2", 801, WEFT_UNSUPPORTED},
        {"cuMemHostGetDevicePointer_v2", 1, WEFT_INVALID}, /* and registered already */
        {"cuStreamIsCapturing", 906, WEFT_UNSUPPORTED},
        {"cuCtxPushCurrent_v2", 700, WEFT_SYSTEM},
    };
    struct weft_device_wait *wait = wait_stream(stream);
    ops->wait_free(wait); /* never opened: it is now */
    await_pass(1);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        fake->let_fail(rows[i].call, rows[i].result, 0);
        int status = ops->wait_stream(device, 1, stream, &wait);
        if (i == 1)
            assert_int_not_equal(status, WEFT_OK);
        else
            assert_int_equal(status, rows[i].status);
    }
    assert_int_equal(ops->wait_stream(device, 5, stream, &wait), WEFT_INVALID);
    fake->capturing = stream;
    assert_int_equal(ops->wait_stream(device, 1, stream, &wait), WEFT_UNSUPPORTED);
    fake->capturing = NULL;
    /* The failures left no word behind that stays closed. */
    wait = wait_stream(stream);
    ops->wait_open(wait, NULL);
    await_pass(2);
    ops->wait_free(wait);
}

/* A stream passes stream waits of a weft_device that is closed, and words outlive the contexts they were registered in. */
static void test_outlives_device(void **state)
{
    (void)state;
    struct weft_device_wait *first = wait_stream(stream), *second = wait_stream(stream);
    ops->wait_open(second, NULL);
    ops->wait_free(second);
    ops->wait_open(first, NULL);
    ops->wait_free(first);
    ops->close(device);
    device = NULL;
    await_pass(2);
    CU(cuStreamDestroy_v2)(stream);
    assert_int_equal(scene_leave(1, context), 0);
    assert_int_equal(fake->left(), 0);
    assert_int_equal(scene_enter(1, &context), 0);
    assert_int_equal(CU(cuStreamCreate)(&stream, 0), 0);
    device = scene_open();
    first = wait_stream(stream);
    assert_int_equal(ops->wait_open(first, NULL), WEFT_OK);
    await_pass(3);
    ops->wait_free(first);
}

int main(void)
{
#define SCENE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
    const struct CMUnitTest tests[] = {
        SCENE(test_from_host),  SCENE(test_from_queue),       SCENE(test_many),   SCENE(test_room),
        SCENE(test_dead_queue), SCENE(test_harmless_failure), SCENE(test_errors), SCENE(test_outlives_device),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
