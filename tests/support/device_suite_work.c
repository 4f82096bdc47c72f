/* SPDX-License-Identifier: Apache-2.0 */
/* Copies, events and the order of queues; work that fails. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <weft/weft.h>

#include "tests/support/device_suite.h"

#define BYTES   70000
#define THREADS 4
#define ROUNDS  50

static void fill(unsigned char *bytes, size_t size, unsigned seed)
{
    for (size_t i = 0; i < size; i++)
        bytes[i] = (unsigned char)(seed * 31 + i * 7 + (i >> 8) * 13);
}

/* Copies between two places that are filled, and looks at all of both. */
static void copy_and_look(struct device_world *world, char *to, char *from)
{
    static const size_t sizes[] = {0, 1, 3, 16, 255, 4096, 65537};
    static const size_t offsets[][2] = {{0, 0}, {1, 0}, {0, 3}, {5, 2}, {16, 8}};
    static unsigned char source[BYTES], target[BYTES], found[BYTES];
    struct weft_device_queue *queue = device_queue(world, world->count - 1);
    fill(source, BYTES, 1);
    device_put(world, from, source, BYTES);
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        for (size_t o = 0; o < sizeof offsets / sizeof *offsets; o++) {
            size_t to_offset = offsets[o][0], from_offset = offsets[o][1];
            fill(target, BYTES, (unsigned)(s * 8 + o + 2));
            device_put(world, to, target, BYTES);
            DEVICE_OK(world->ops->copy(queue, to + to_offset, from + from_offset, sizes[s]));
            assert_int_equal(device_finish(world, queue), 1);
            memcpy(target + to_offset, source + from_offset, sizes[s]);
            device_get(world, found, to, BYTES);
            assert_memory_equal(found, target, BYTES);
        }
    }
    device_get(world, found, from, BYTES);
    assert_memory_equal(found, source, BYTES);
    world->ops->queue_close(queue);
}

static void copies_in_all_directions(void **state)
{
    struct device_world world;
    char *places[4];
    device_open(&world, device_row(state));
    int count = world.row->managed ? 4 : 3;
    for (int to = 0; to < count; to++) {
        for (int from = 0; from < count; from++) {
            int of[2] = {to, from};
            for (int i = 0; i < 2; i++)
                places[i] =
                    of[i] < 2
                        ? device_allocate(&world, of[i] ? world.count - 1 : 0, WEFT_MEMORY_DEVICE, BYTES)
                        : device_allocate(&world, of[i] == 2 ? -1 : 0,
                                          of[i] == 2 ? WEFT_MEMORY_PINNED : WEFT_MEMORY_MANAGED, BYTES);
            copy_and_look(&world, places[0], places[1]);
            for (int i = 0; i < 2; i++)
                DEVICE_OK(world.ops->release(world.device, places[i]));
        }
    }
    device_close(&world);
}

/* What is no device's memory cannot be copied, and stops nothing. */
static void copies_from_elsewhere_are_refused(void **state)
{
    struct device_world world;
    device_open(&world, device_row(state));
    char *memory = device_allocate(&world, 0, WEFT_MEMORY_DEVICE, 100), here[100] = {1};
    struct weft_device_queue *queue = device_queue(&world, 0);
    assert_int_equal(world.ops->copy(queue, memory, here, 100), WEFT_INVALID);
    assert_int_equal(world.ops->copy(queue, memory + 1, memory, 100), WEFT_INVALID);
    assert_int_equal(device_finish(&world, queue), 1);
    world.ops->queue_close(queue);
    DEVICE_OK(world.ops->release(world.device, memory));
    struct weft_device_queue *none = NULL;
    assert_int_equal(world.ops->queue_open(world.device, world.count, &none), WEFT_INVALID);
    assert_null(none);
    device_close(&world);
}

/* A value goes round over all queues; each waits for the one before by an event alone. */
static void queues_wait_for_events(void **state)
{
    enum { QUEUES = 4 };
    struct device_world world;
    struct weft_device_queue *queues[QUEUES];
    struct weft_device_event *events[ROUNDS * QUEUES];
    char *places[QUEUES], first[1000], last[1000];
    int made = 0;
    device_open(&world, device_row(state));
    memset(first, 42, sizeof first);
    for (int q = 0; q < QUEUES; q++) {
        queues[q] = device_queue(&world, q % world.count);
        places[q] = device_allocate(&world, q % world.count, WEFT_MEMORY_DEVICE, sizeof first);
    }
    device_put(&world, places[0], first, sizeof first);
    for (int i = 0; i < ROUNDS; i++) {
        for (int q = 0; q < QUEUES; q++) {
            if (made > 0)
                DEVICE_OK(world.ops->await(queues[q], events[made - 1]));
            DEVICE_OK(world.ops->copy(queues[q], places[(q + 1) % QUEUES], places[q], sizeof first));
            DEVICE_OK(world.ops->mark(queues[q], &events[made++]));
        }
    }
    assert_int_equal(device_wait(&world, events[made - 1]), 1);
    for (int i = 0; i < made; i++) {
        assert_int_equal(world.ops->test(events[i]), 1);
        world.ops->event_free(events[i]);
    }
    for (int q = 0; q < QUEUES; q++) {
        device_get(&world, last, places[q], sizeof last);
        assert_memory_equal(last, first, sizeof last);
        world.ops->queue_close(queues[q]);
        DEVICE_OK(world.ops->release(world.device, places[q]));
    }
    device_close(&world);
}

/* Closing a queue waits for its work, and an event may go before it has happened. */
static void closing_waits(void **state)
{
    struct device_world world;
    struct weft_device_event *event;
    static char first[BYTES], last[BYTES];
    device_open(&world, device_row(state));
    char *a = device_allocate(&world, 0, WEFT_MEMORY_DEVICE, BYTES);
    char *b = device_allocate(&world, 0, WEFT_MEMORY_DEVICE, BYTES);
    memset(first, 9, BYTES);
    device_put(&world, a, first, BYTES);
    struct weft_device_queue *queue = device_queue(&world, 0);
    for (int i = 0; i < ROUNDS; i++) {
        DEVICE_OK(world.ops->copy(queue, b, a, BYTES));
        DEVICE_OK(world.ops->mark(queue, &event));
        world.ops->event_free(event);
    }
    world.ops->queue_close(queue);
    device_get(&world, last, b, BYTES);
    assert_memory_equal(last, first, BYTES);
    DEVICE_OK(world.ops->release(world.device, a));
    DEVICE_OK(world.ops->release(world.device, b));
    device_close(&world);
}

struct worker {
    struct device_world *world;
    pthread_t thread;
    int number, failed;
};

static void *work(void *arg)
{
    struct worker *worker = arg;
    const struct weft_device_ops *ops = worker->world->ops;
    struct weft_device *device = worker->world->device;
    for (int i = 0; i < ROUNDS && !worker->failed; i++) {
        struct weft_device_queue *queue;
        struct weft_device_event *event;
        struct weft_device_span span = {.size = sizeof span};
        void *here, *there;
        int state = ops->allocate(device, -1, WEFT_MEMORY_PINNED, 5000, &here);
        state |= ops->allocate(device, 0, WEFT_MEMORY_DEVICE, 5000, &there);
        state |= ops->queue_open(device, 0, &queue);
        if (state)
            abort();
        memset(here, worker->number, 5000);
        state |= ops->copy(queue, there, here, 5000) | ops->copy(queue, (char *)here + 2500, there, 2500);
        state |= ops->identify(device, there, &span) | ops->mark(queue, &event);
        while (!state && !(state = ops->test(event)))
            sched_yield();
        worker->failed = state != 1 || ((char *)here)[4999] != worker->number;
        ops->event_free(event);
        ops->queue_close(queue);
        worker->failed |= ops->release(device, here) != 0 || ops->release(device, there) != 0;
    }
    return NULL;
}

static void threads_do_not_meet(void **state)
{
    struct device_world world;
    struct worker workers[THREADS];
    device_open(&world, device_row(state));
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){.world = &world, .number = i + 1};
        assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(workers[i].thread, NULL);
        assert_int_equal(workers[i].failed, 0);
    }
    device_close(&world);
}

size_t device_work_tests(const struct device_row *row, struct CMUnitTest *tests)
{
    size_t used = 0;
    tests[used++] = (struct CMUnitTest)cmocka_unit_test(copies_in_all_directions);
    tests[used++] = (struct CMUnitTest)cmocka_unit_test(queues_wait_for_events);
    tests[used++] = (struct CMUnitTest)cmocka_unit_test(closing_waits);
    tests[used++] = (struct CMUnitTest)cmocka_unit_test(threads_do_not_meet);
    if (row->owns)
        tests[used++] = (struct CMUnitTest)cmocka_unit_test(copies_from_elsewhere_are_refused);
    return used;
}

/* Of a queue whose work fails: events show it, other queues that wait for it fail too, those beside it do not. */
static void failed_work_is_reported(void **state)
{
    struct device_world world;
    struct weft_device_event *before, *event;
    device_open(&world, device_row(state));
    struct weft_device_queue *failing = device_queue(&world, 0), *waiting = device_queue(&world, 0);
    struct weft_device_queue *beside = device_queue(&world, 0);
    char *memory = device_allocate(&world, 0, WEFT_MEMORY_DEVICE, 200);
    DEVICE_OK(world.ops->mark(failing, &before));
    DEVICE_OK(world.ops->copy(failing, memory, memory + 100, 100));
    DEVICE_OK(world.ops->mark(failing, &event));
    DEVICE_OK(world.ops->await(waiting, event));
    assert_true(device_wait(&world, event) < 0);
    assert_true(strlen(weft_error_detail()) > 0);
    assert_true(world.ops->test(event) < 0);
    assert_int_equal(device_wait(&world, before), 1);
    assert_true(device_finish(&world, failing) < 0);
    assert_true(device_finish(&world, waiting) < 0);
    assert_int_equal(device_finish(&world, beside), 1);
    world.ops->event_free(before);
    world.ops->event_free(event);
    world.ops->queue_close(failing);
    world.ops->queue_close(waiting);
    world.ops->queue_close(beside);
    DEVICE_OK(world.ops->release(world.device, memory));
    device_close(&world);
}

/* A stream that is held by work that fails goes on. */
static void failed_work_opens_waits(void **state)
{
    struct device_world world;
    struct weft_device_wait *wait;
    void *stream;
    device_open(&world, device_row(state));
    struct weft_device_queue *queue = device_queue(&world, 0);
    char *memory = device_allocate(&world, 0, WEFT_MEMORY_DEVICE, 200);
    DEVICE_OK(world.streams.open(0, &stream));
    device_follow(&world, queue, 0, stream);
    DEVICE_OK(world.ops->wait_stream(world.device, 0, stream, &wait));
    DEVICE_OK(world.ops->copy(queue, memory, memory + 100, 100));
    DEVICE_OK(world.ops->wait_open(wait, queue));
    DEVICE_OK(world.streams.sync(stream));
    assert_true(device_finish(&world, queue) < 0);
    world.ops->wait_free(wait);
    world.ops->queue_close(queue);
    DEVICE_OK(world.streams.close(stream));
    DEVICE_OK(world.ops->release(world.device, memory));
    device_close(&world);
}

size_t device_failure_tests(const struct device_row *row, struct CMUnitTest *tests)
{
    size_t used = 0;
    tests[used++] = (struct CMUnitTest)cmocka_unit_test(failed_work_is_reported);
    if (row->streams)
        tests[used++] = (struct CMUnitTest)cmocka_unit_test(failed_work_opens_waits);
    return used;
}
