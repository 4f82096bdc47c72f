/* SPDX-License-Identifier: Apache-2.0 */
/* build: beside drivers */
/* Queues, copies and events, in queues and in the program's streams; and that the program's context stays as it was. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/support/cuda_checks.h"
#include "tests/support/cuda_scene.h"

#define SIZE ((size_t)1 << 16)

static const struct weft_device_ops *ops = &weft_cuda_ops;
static struct cuda_fake *fake;
static struct weft_device *device;
static CUcontext context; /* the program's, on device 1 */

static int setup(void **state)
{
    (void)state;
    return scene_begin(&fake, &device, &context);
}

static int teardown(void **state)
{
    (void)state;
    return scene_end(fake, device, context);
}

static void *get(int ordinal, enum weft_memory_kind kind)
{
    return cuda_check_memory(device, ordinal, kind, SIZE);
}

static void test_copies(void **state)
{
    (void)state;
    struct weft_device_queue *queue = cuda_check_queue(device, 0);
    char *pinned = get(-1, WEFT_MEMORY_PINNED), *back = get(1, WEFT_MEMORY_PINNED);
    void *here = get(0, WEFT_MEMORY_DEVICE), *there = get(1, WEFT_MEMORY_DEVICE);
    for (size_t i = 0; i < SIZE; i++)
        pinned[i] = (char)(i * 7);
    assert_int_equal(ops->copy(queue, here, pinned, SIZE), WEFT_OK);
    assert_int_equal(ops->copy(queue, (char *)there + 8, here, SIZE - 8), WEFT_OK);
    assert_int_equal(ops->copy(queue, back, (char *)there + 8, SIZE - 8), WEFT_OK);
    assert_int_equal(ops->copy(queue, back, pinned, 0), WEFT_OK);
    cuda_check_finish(queue);
    assert_memory_equal(back, pinned, SIZE - 8);
    fake->let_fail("cuMemcpyAsync", 700, 0);
    assert_int_equal(ops->copy(queue, here, pinned, SIZE), WEFT_SYSTEM);
    cuda_check_said("copying 65536 bytes");
    /* Memory that nobody has pinned, or that is not there. */
    char local[16] = "";
    assert_int_equal(ops->copy(queue, here, local, sizeof local), WEFT_INVALID);
    cuda_check_said("has to be pinned first");
    assert_int_equal(ops->copy(queue, NULL, here, 1), WEFT_INVALID);
    assert_int_equal(ops->copy(queue, here, pinned, SIZE_MAX), WEFT_INVALID);
    ops->queue_close(queue);
    assert_int_equal(ops->release(device, pinned), WEFT_OK);
    assert_int_equal(ops->release(device, back), WEFT_OK);
    assert_int_equal(ops->release(device, here), WEFT_OK);
    assert_int_equal(ops->release(device, there), WEFT_OK);
}

/* Two pins of host memory next to each other are two registrations: the driver wants a copy for each. */
static void test_copy_over_pins(void **state)
{
    (void)state;
    struct weft_device_queue *queue = cuda_check_queue(device, 0);
    char *host = aligned_alloc(4096, SIZE);
    void *memory = get(0, WEFT_MEMORY_DEVICE);
    memset(host, 0x5a, SIZE);
    assert_int_equal(ops->pin(device, host, 8192), WEFT_OK);
    assert_int_equal(ops->pin(device, host + 8192, SIZE - 8192), WEFT_OK);
    assert_int_equal(ops->copy(queue, memory, host, SIZE), WEFT_OK);
    cuda_check_finish(queue);
    assert_int_equal(fake->calls("cuMemcpyAsync"), 3);
    assert_memory_equal(fake->look(memory), host, SIZE);
    assert_int_equal(ops->unpin(device, host, 8192), WEFT_OK);
    assert_int_equal(ops->unpin(device, host + 8192, SIZE - 8192), WEFT_OK);
    ops->queue_close(queue);
    ops->release(device, memory);
    free(host);
}

struct latch {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int is_open;
};

static void latch_wait(void *argument)
{
    struct latch *latch = argument;
    pthread_mutex_lock(&latch->lock);
    while (!latch->is_open)
        pthread_cond_wait(&latch->changed, &latch->lock);
    pthread_mutex_unlock(&latch->lock);
}

static void latch_open(struct latch *latch)
{
    pthread_mutex_lock(&latch->lock);
    latch->is_open = 1;
    pthread_cond_broadcast(&latch->changed);
    pthread_mutex_unlock(&latch->lock);
}

/* Neither an event in the stream nor one in a queue that waits for it happens before what the stream held; no call waits. */
static void mark(struct weft_device_queue *queue, CUstream stream)
{
    struct latch latch = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0};
    struct weft_device_event *event, *behind;
    CUcontext now;
    assert_int_equal(CU(cuLaunchHostFunc)(stream, latch_wait, &latch), 0);
    assert_int_equal(ops->mark_stream(device, 1, stream, 0, &event), WEFT_OK);
    assert_int_equal(ops->await(queue, event), WEFT_OK);
    assert_int_equal(ops->mark(queue, &behind), WEFT_OK);
    usleep(5000);
    assert_int_equal(ops->test(event), 0);
    assert_int_equal(ops->test(behind), 0);
    latch_open(&latch);
    assert_int_equal(scene_wait(event), 1);
    assert_int_equal(scene_wait(behind), 1);
    ops->event_free(event);
    ops->event_free(behind);
    CU(cuCtxGetCurrent)(&now);
    assert_ptr_equal(now, context);
}

static void test_mark_stream(void **state)
{
    (void)state;
    CUstream mine, foreign;
    CUcontext other, popped;
    struct weft_device_event *event, *timed;
    struct weft_device_queue *queue = cuda_check_queue(device, 1);
    assert_int_equal(CU(cuStreamCreate)(&mine, 0), 0);
    int made = fake->calls("cuEventCreate"), destroyed = fake->calls("cuEventDestroy_v2");
    mark(queue, mine);
    mark(queue, NULL);
    mark(queue, (CUstream)1);
    mark(queue, (CUstream)2);
    assert_int_equal(fake->calls("cuEventCreate"), made + 2); /* are used again */
    assert_int_equal(ops->mark_stream(device, 1, mine, WEFT_DEVICE_EVENT_TIMED, &timed), WEFT_OK);
    assert_int_equal(fake->calls("cuEventCreate"), made + 3); /* but for what measures the time */
    /* A stream of another context: the program made one of its own. The event is of that, and goes before it does. */
    assert_int_equal(CU(cuCtxCreate_v2)(&other, 0, 100), 0);
    assert_int_equal(CU(cuStreamCreate)(&foreign, 0), 0);
    assert_int_equal(CU(cuCtxPopCurrent_v2)(&popped), 0);
    mark(queue, foreign);
    assert_int_equal(fake->calls("cuEventCreate"), made + 4);
    assert_int_equal(fake->calls("cuEventDestroy_v2"), destroyed + 1);
    double ns;
    assert_int_equal(ops->mark_stream(device, 1, foreign, WEFT_DEVICE_EVENT_TIMED, &event), WEFT_OK);
    assert_int_equal(ops->elapsed(timed, event, &ns), WEFT_INVALID);
    cuda_check_said("expected events of one context");
    fake->let_fail("cuCtxPushCurrent_v2", 201, 0);
    assert_int_equal(ops->test(event), WEFT_SYSTEM);
    ops->event_free(event);
    ops->event_free(timed);
    fake->let_fail("cuEventCreate", 2, 0);
    assert_int_equal(ops->mark_stream(device, 1, foreign, 0, &event), WEFT_NOMEM);
    fake->let_fail("cuCtxPushCurrent_v2", 201, 1);
    assert_int_equal(ops->mark_stream(device, 1, foreign, 0, &event), WEFT_SYSTEM);
    CU(cuStreamDestroy_v2)(foreign);
    CU(cuCtxDestroy_v2)(other);
    fake->capturing = mine;
    assert_int_equal(ops->mark_stream(device, 1, mine, 0, &event), WEFT_UNSUPPORTED);
    cuda_check_said("is being captured into a graph");
    fake->capturing = NULL;
    assert_int_equal(ops->mark_stream(device, 1, (void *)0x1234, 0, &event),
                     WEFT_SYSTEM); /* no stream at all */
    cuda_check_said("CUDA_ERROR_INVALID_HANDLE");
    assert_int_equal(ops->mark_stream(device, 7, NULL, 0, &event), WEFT_INVALID);
    CU(cuStreamDestroy_v2)(mine);
    ops->queue_close(queue);
}

/* The highest priority there is, and nothing to do with the legacy stream. */
static void test_streams(void **state)
{
    (void)state;
    int priority = 0;
    struct weft_device_queue *queue = cuda_check_queue(device, 1);
    struct {
        struct weft_device *device;
        int ordinal;
        void *stream;
    } *inside = (void *)queue;
    assert_int_equal(fake->stream_flags(inside->stream, &priority), 1);
    assert_int_equal(priority, -5);
    ops->queue_close(queue);
}

/* Queues run beside each other; await() orders them, over devices too. */
static void test_await(void **state)
{
    (void)state;
    struct latch latch = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0};
    struct weft_device_queue *first = cuda_check_queue(device, 0), *second = cuda_check_queue(device, 1);
    struct weft_device_event *event, *later;
    CUcontext other, popped;
    assert_int_equal(scene_enter(0, &other), 0);
    assert_int_equal(CU(cuLaunchHostFunc)(NULL, latch_wait, &latch), 0);
    CU(cuCtxPopCurrent_v2)(&popped);
    cuda_check_follow(first, device, 0, NULL);
    assert_int_equal(ops->mark(first, &event), WEFT_OK);
    cuda_check_finish(second);
    assert_int_equal(ops->await(second, event), WEFT_OK);
    assert_int_equal(ops->mark(second, &later), WEFT_OK);
    usleep(5000);
    assert_int_equal(ops->test(later), 0);
    latch_open(&latch);
    assert_int_equal(scene_wait(later), 1);
    assert_int_equal(ops->test(event), 1);
    ops->event_free(event);
    ops->event_free(later);
    ops->queue_close(first);
    ops->queue_close(second);
    CU(cuDevicePrimaryCtxRelease_v2)(100);
}

/* A kernel of the program's that goes wrong takes the device with it: every event says so. */
static void test_broken(void **state)
{
    (void)state;
    struct weft_device_queue *queue = cuda_check_queue(device, 1);
    struct weft_device_event *event;
    assert_int_equal(ops->mark(queue, &event), WEFT_OK);
    fake->break_device(1, 700);
    assert_int_equal(scene_wait(event), WEFT_SYSTEM);
    cuda_check_said("work on device 1 has failed: CUDA_ERROR_ILLEGAL_ADDRESS, 700");
    assert_int_equal(ops->mark(queue, &event), WEFT_SYSTEM);
    assert_int_equal(ops->test(event), WEFT_SYSTEM);
    ops->event_free(event);
    ops->queue_close(queue);
}

struct answer {
    const char *call;
    int result, after, status;
};

/* What a call of the driver's may answer, one after the other. */
static void test_errors_of_opening(void **state)
{
    (void)state;
    static const struct answer answers[] = {
        {"cuDevicePrimaryCtxRetain", 2, 0, WEFT_NOMEM},
        {"cuThreadExchangeStreamCaptureMode", 1, 0, WEFT_INVALID},
        {"cuCtxPushCurrent_v2", 201, 0, WEFT_SYSTEM},
        {"cuCtxPushCurrent_v2", 700, 0, WEFT_SYSTEM},
        {"cuCtxGetStreamPriorityRange", 801, 0, WEFT_UNSUPPORTED},
        {"cuStreamCreateWithPriority", 46, 0, WEFT_NOT_FOUND},
        {"cuEventCreate", 800, 0, WEFT_ACCESS},
    };
    struct weft_device_queue *queue;
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
        fake->let_fail(answers[i].call, answers[i].result, answers[i].after);
        assert_int_equal(ops->queue_open(device, 0, &queue), answers[i].status);
    }
    assert_int_equal(ops->queue_open(device, 2, &queue), WEFT_INVALID);
    assert_int_equal(ops->queue_open(device, -1, &queue), WEFT_INVALID);
}

static void test_errors(void **state)
{
    (void)state;
    static const struct answer working[] = {
        {"cuStreamIsCapturing", 906, 0, WEFT_UNSUPPORTED},
        {"cuStreamGetCtx", 400, 0, WEFT_SYSTEM},
        {"cuEventRecord", 999, 0, WEFT_SYSTEM},
    };
    struct weft_device_queue *queue;
    struct weft_device_event *event;
    CUstream stream;
    queue = cuda_check_queue(device, 1);
    fake->let_fail("cuEventCreate", 2, 0);
    assert_int_equal(ops->mark(queue, &event), WEFT_NOMEM);
    assert_int_equal(CU(cuStreamCreate)(&stream, 0), 0);
    for (size_t i = 0; i < sizeof working / sizeof *working; i++) {
        fake->let_fail(working[i].call, working[i].result, working[i].after);
        assert_int_equal(ops->mark_stream(device, 1, stream, 0, &event), working[i].status);
        cuda_check_said("stream");
    }
    fake->let_fail("cuEventRecord", 999, 0);
    assert_int_equal(ops->mark(queue, &event), WEFT_SYSTEM);
    assert_int_equal(ops->mark(queue, &event), WEFT_OK);
    fake->let_fail("cuStreamWaitEvent", 999, 0);
    assert_int_equal(ops->await(queue, event), WEFT_SYSTEM);
    fake->let_fail("cuEventRecord", 999, 0); /* behind the wait */
    assert_int_equal(ops->await(queue, event), WEFT_SYSTEM);
    struct weft_device_event *timed;
    double ns;
    assert_int_equal(ops->mark_stream(device, 1, stream, WEFT_DEVICE_EVENT_TIMED, &timed), WEFT_OK);
    fake->let_fail("cuEventElapsedTime", 700, 0);
    assert_int_equal(ops->elapsed(timed, timed, &ns), WEFT_SYSTEM);
    fake->let_fail("cuCtxPushCurrent_v2", 201, 0);
    assert_int_equal(ops->elapsed(timed, timed, &ns), WEFT_SYSTEM);
    ops->event_free(timed);
    fake->let_fail("cuEventQuery", 700, 0);
    assert_int_equal(ops->test(event), WEFT_SYSTEM);
    fake->let_fail("cuEventQuery", 900, 0);
    assert_int_equal(ops->test(event), WEFT_UNSUPPORTED);
    /* A context that cannot be entered stops every operation, and is left by none. */
    char *pinned = get(-1, WEFT_MEMORY_PINNED);
    int status[5], wanted[5] = {WEFT_SYSTEM, WEFT_SYSTEM, WEFT_SYSTEM, WEFT_SYSTEM, WEFT_SYSTEM};
    for (int i = 0; i < 5; i++) {
        struct weft_device_event *other;
        fake->let_fail("cuCtxPushCurrent_v2", 201, 0);
        status[i] = i == 0   ? ops->test(event)
                    : i == 1 ? ops->mark(queue, &other)
                    : i == 2 ? ops->await(queue, event)
                    : i == 3 ? ops->mark_stream(device, 1, stream, 0, &other)
                             : ops->copy(queue, pinned, pinned + 8, 1);
    }
    assert_memory_equal(status, wanted, sizeof wanted);
    ops->release(device, pinned);
    ops->event_free(event);
    CU(cuStreamDestroy_v2)(stream);
    fake->let_fail("cuStreamSynchronize", 700, 0);
    ops->queue_close(queue);
}

/* A thread without any context has none afterwards; and several work at once. */
static void *worker(void *argument)
{
    CUcontext now = context;
    int ordinal = (int)(intptr_t)argument % 2;
    struct weft_device_queue *queue = cuda_check_queue(device, ordinal);
    void *memory = get(ordinal, WEFT_MEMORY_DEVICE), *pinned = get(-1, WEFT_MEMORY_PINNED);
    for (int i = 0; i < 20; i++) {
        struct weft_device_span span = {.size = sizeof span};
        assert_int_equal(ops->copy(queue, memory, pinned, SIZE), WEFT_OK);
        assert_int_equal(ops->identify(device, memory, &span), WEFT_OK);
        assert_int_equal(span.ordinal, ordinal);
        cuda_check_finish(queue);
    }
    ops->release(device, memory);
    ops->release(device, pinned);
    ops->queue_close(queue);
    CU(cuCtxGetCurrent)(&now);
    assert_null(now);
    assert_int_equal(fake->capture_mode(), 0);
    return NULL;
}

static void test_threads(void **state)
{
    (void)state;
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, worker, (void *)(intptr_t)i), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
}

int main(void)
{
#define SCENE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
    const struct CMUnitTest tests[] = {
        SCENE(test_copies),  SCENE(test_copy_over_pins), SCENE(test_mark_stream),       SCENE(test_streams),
        SCENE(test_await),   SCENE(test_broken),         SCENE(test_errors_of_opening), SCENE(test_errors),
        SCENE(test_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
