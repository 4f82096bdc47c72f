/* SPDX-License-Identifier: Apache-2.0 */
/* A program's streams: they are marked and held, and nobody waits in a call. Queues wait for them by await(). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <string.h>
#include <unistd.h>
#include <weft/weft.h>

#include "base/clock.h"
#include "tests/support/device_suite.h"

#define BYTES 5000

static void expect_bytes(struct device_world *world, const char *memory, int byte)
{
    char found[BYTES], expected[BYTES];
    device_get(world, found, memory, BYTES);
    memset(expected, byte, BYTES);
    assert_memory_equal(found, expected, BYTES);
}

/* The stream holds a long kernel and then a write; weft reads what was written, and the stream's next write waits for that.
 * All calls return while the kernel still runs: there is one thread here, which sets the flag only afterwards. */
static void calls_are_served_in_the_streams_order(void **state)
{
    struct device_world world;
    struct weft_device_wait *wait;
    struct weft_device_event *event;
    int flag = 0;
    void *stream;
    device_open(&world, device_row(state));
    device_prepare(&world, BYTES);
    struct weft_device_queue *queue = device_queue(&world, 0);
    char *input = device_allocate(&world, 0, WEFT_MEMORY_DEVICE, BYTES);
    char *output = device_allocate(&world, 0, WEFT_MEMORY_DEVICE, BYTES);
    DEVICE_OK(world.streams.open(0, &stream));
    DEVICE_OK(world.streams.fill(stream, input, 1, BYTES));
    DEVICE_OK(world.streams.wait(stream, &flag));
    DEVICE_OK(world.streams.fill(stream, input, 2, BYTES)); /* enqueued before: is seen */
    device_follow(&world, queue, 0, stream);
    DEVICE_OK(world.ops->wait_stream(world.device, 0, stream, &wait));
    DEVICE_OK(world.ops->copy(queue, output, input, BYTES));
    DEVICE_OK(world.ops->mark(queue, &event));
    DEVICE_OK(world.ops->wait_open(wait, queue));
    DEVICE_OK(world.streams.fill(stream, input, 3, BYTES)); /* follows: waits */
    usleep(2000);
    assert_int_equal(world.ops->test(event), 0);
    assert_int_equal(world.streams.is_idle(stream), 0);
    __atomic_store_n(&flag, 1, __ATOMIC_RELEASE);
    assert_int_equal(device_wait(&world, event), 1);
    DEVICE_OK(world.streams.sync(stream));
    expect_bytes(&world, output, 2);
    expect_bytes(&world, input, 3);
    world.ops->event_free(event);
    world.ops->wait_free(wait);
    world.ops->queue_close(queue);
    DEVICE_OK(world.streams.close(stream));
    DEVICE_OK(world.ops->release(world.device, input));
    DEVICE_OK(world.ops->release(world.device, output));
    device_close(&world);
}

/* As when an operation has failed before any work was queued. */
static void a_wait_can_be_opened_at_once(void **state)
{
    struct device_world world;
    struct weft_device_wait *wait;
    void *stream;
    device_open(&world, device_row(state));
    device_prepare(&world, BYTES);
    char *memory = device_allocate(&world, 0, WEFT_MEMORY_DEVICE, BYTES);
    struct weft_device_queue *queue = device_queue(&world, world.count - 1);
    DEVICE_OK(world.streams.open(world.count - 1, &stream));
    DEVICE_OK(world.streams.fill(stream, memory, 1, BYTES));
    device_follow(&world, queue, world.count - 1, stream);
    assert_int_equal(device_finish(&world, queue), 1);
    world.ops->queue_close(queue);
    DEVICE_OK(world.ops->wait_stream(world.device, world.count - 1, stream, &wait));
    DEVICE_OK(world.streams.fill(stream, memory, 2, BYTES));
    usleep(2000);
    assert_int_equal(world.streams.is_idle(stream), 0);
    expect_bytes(&world, memory, 1);
    DEVICE_OK(world.ops->wait_open(wait, NULL));
    world.ops->wait_free(wait); /* it need not have been passed */
    DEVICE_OK(world.streams.sync(stream));
    expect_bytes(&world, memory, 2);
    DEVICE_OK(world.streams.close(stream));
    DEVICE_OK(world.ops->release(world.device, memory));
    device_close(&world);
}

/* Neither queues beside it nor other streams wait for a stream that runs long. */
static void a_long_kernel_holds_up_nobody_else(void **state)
{
    struct device_world world;
    struct weft_device_event *late;
    int flag = 0;
    void *busy, *other;
    device_open(&world, device_row(state));
    device_prepare(&world, BYTES);
    struct weft_device_queue *following = device_queue(&world, 0), *beside = device_queue(&world, 0);
    char *memory = device_allocate(&world, 0, WEFT_MEMORY_DEVICE, BYTES);
    DEVICE_OK(world.streams.open(0, &busy));
    DEVICE_OK(world.streams.open(0, &other));
    DEVICE_OK(world.streams.wait(busy, &flag));
    device_follow(&world, following, 0, busy);
    DEVICE_OK(world.ops->mark(following, &late));
    DEVICE_OK(world.streams.fill(other, memory, 5, BYTES));
    device_follow(&world, beside, 0, other);
    assert_int_equal(device_finish(&world, beside), 1);
    expect_bytes(&world, memory, 5);
    assert_int_equal(world.ops->test(late), 0);
    __atomic_store_n(&flag, 1, __ATOMIC_RELEASE);
    assert_int_equal(device_wait(&world, late), 1);
    world.ops->event_free(late);
    world.ops->queue_close(following);
    world.ops->queue_close(beside);
    DEVICE_OK(world.streams.close(busy));
    DEVICE_OK(world.streams.close(other));
    DEVICE_OK(world.ops->release(world.device, memory));
    device_close(&world);
}

/* Streams that never end do not keep queues open: neither one that waits for such a stream, nor one that waits for that. A stream wait
 * that was left to the queue is opened when the stream goes on. */
static void closing_does_not_wait_for_streams(void **state)
{
    struct device_world world;
    struct weft_device_event *behind, *later;
    struct weft_device_wait *wait;
    int flag = 0;
    void *stuck;
    device_open(&world, device_row(state));
    device_prepare(&world, BYTES);
    struct weft_device_queue *following = device_queue(&world, 0), *waiting = device_queue(&world, 0);
    char *memory = device_allocate(&world, 0, WEFT_MEMORY_DEVICE, BYTES);
    DEVICE_OK(world.streams.open(0, &stuck));
    DEVICE_OK(world.streams.wait(stuck, &flag));
    device_follow(&world, following, 0, stuck);
    DEVICE_OK(world.ops->mark(following, &behind));
    DEVICE_OK(world.ops->wait_stream(world.device, 0, stuck, &wait));
    DEVICE_OK(world.ops->wait_open(wait, following));
    DEVICE_OK(world.ops->await(waiting, behind));
    DEVICE_OK(world.ops->mark(waiting, &later));
    DEVICE_OK(world.streams.fill(stuck, memory, 1, BYTES));
    world.ops->queue_close(waiting);
    world.ops->queue_close(following);
    assert_int_equal(world.streams.is_idle(stuck), 0);
    __atomic_store_n(&flag, 1, __ATOMIC_RELEASE);
    DEVICE_OK(world.streams.sync(stuck));
    expect_bytes(&world, memory, 1);
    assert_int_not_equal(device_wait(&world, behind), 0); /* happened, or dropped */
    assert_int_not_equal(device_wait(&world, later), 0);
    world.ops->event_free(behind);
    world.ops->event_free(later);
    world.ops->wait_free(wait);
    DEVICE_OK(world.streams.close(stuck));
    DEVICE_OK(world.ops->release(world.device, memory));
    device_close(&world);
}

/* Work that is queued before is done, and what is queued behind is done behind the stream, or not at all. */
static void closing_keeps_the_order(void **state)
{
    struct device_world world;
    struct weft_device_event *event;
    int flag = 0;
    void *stuck;
    device_open(&world, device_row(state));
    device_prepare(&world, BYTES);
    struct weft_device_queue *queue = device_queue(&world, 0);
    char *before = device_allocate(&world, 0, WEFT_MEMORY_DEVICE, BYTES);
    char *behind = device_allocate(&world, 0, WEFT_MEMORY_DEVICE, BYTES);
    char *result = device_allocate(&world, 0, WEFT_MEMORY_DEVICE, BYTES);
    DEVICE_OK(world.streams.open(0, &stuck));
    DEVICE_OK(world.streams.fill(stuck, before, 1, BYTES));
    DEVICE_OK(world.streams.fill(stuck, behind, 2, BYTES));
    DEVICE_OK(world.streams.sync(stuck));
    DEVICE_OK(world.streams.wait(stuck, &flag));
    DEVICE_OK(world.ops->copy(queue, result, before, BYTES));
    device_follow(&world, queue, 0, stuck);
    DEVICE_OK(world.ops->copy(queue, result, behind, BYTES));
    DEVICE_OK(world.ops->mark(queue, &event));
    world.ops->queue_close(queue);
    usleep(2000);
    expect_bytes(&world, result, 1);
    __atomic_store_n(&flag, 1, __ATOMIC_RELEASE);
    DEVICE_OK(world.streams.sync(stuck));
    expect_bytes(&world, result, device_wait(&world, event) == 1 ? 2 : 1);
    world.ops->event_free(event);
    DEVICE_OK(world.streams.close(stuck));
    DEVICE_OK(world.ops->release(world.device, before));
    DEVICE_OK(world.ops->release(world.device, behind));
    DEVICE_OK(world.ops->release(world.device, result));
    device_close(&world);
}

/* An event has happened when the stream has come there and not before; it need not have happened when it is freed, and one that
 * is made then is of its own place. */
static void events_are_places_in_streams(void **state)
{
    struct device_world world;
    struct weft_device_event *before, *behind, *given_up;
    int flags[2] = {0, 0}, ordinal;
    void *stream, *other;
    device_open(&world, device_row(state));
    ordinal = world.count - 1;
    DEVICE_OK(world.streams.open(ordinal, &stream));
    DEVICE_OK(world.streams.open(ordinal, &other));
    DEVICE_OK(world.ops->mark_stream(world.device, ordinal, stream, 0, &before));
    assert_int_equal(device_wait(&world, before), 1);
    DEVICE_OK(world.streams.wait(stream, &flags[0]));
    DEVICE_OK(world.streams.wait(other, &flags[1]));
    DEVICE_OK(world.ops->mark_stream(world.device, ordinal, stream, 0, &given_up));
    world.ops->event_free(given_up);
    DEVICE_OK(world.ops->mark_stream(world.device, ordinal, other, 0, &behind));
    __atomic_store_n(&flags[0], 1, __ATOMIC_RELEASE);
    DEVICE_OK(world.streams.sync(stream));
    assert_int_equal(world.ops->test(before), 1);
    assert_int_equal(world.ops->test(behind), 0);
    __atomic_store_n(&flags[1], 1, __ATOMIC_RELEASE);
    assert_int_equal(device_wait(&world, behind), 1);
    world.ops->event_free(before);
    world.ops->event_free(behind);
    DEVICE_OK(world.streams.close(stream));
    DEVICE_OK(world.streams.close(other));
    device_close(&world);
}

/* NULL is a stream, too, and another one of each device. */
static void the_devices_own_stream_is_one(void **state)
{
    struct device_world world;
    struct weft_device_wait *wait;
    struct weft_device_event *before, *behind, *other;
    device_open(&world, device_row(state));
    int last = world.count - 1;
    DEVICE_OK(world.ops->mark_stream(world.device, 0, NULL, 0, &before));
    assert_int_equal(device_wait(&world, before), 1);
    DEVICE_OK(world.ops->wait_stream(world.device, 0, NULL, &wait));
    DEVICE_OK(world.ops->mark_stream(world.device, 0, NULL, 0, &behind));
    DEVICE_OK(world.ops->mark_stream(world.device, last, NULL, 0, &other));
    assert_int_equal(last ? device_wait(&world, other) : 1, 1);
    usleep(2000);
    assert_int_equal(world.ops->test(behind), 0);
    DEVICE_OK(world.ops->wait_open(wait, NULL));
    assert_int_equal(device_wait(&world, behind), 1);
    assert_int_equal(device_wait(&world, other), 1);
    world.ops->wait_free(wait);
    world.ops->event_free(before);
    world.ops->event_free(behind);
    world.ops->event_free(other);
    device_close(&world);
}

static void without_an_own_stream_null_is_refused(void **state)
{
    struct device_world world;
    struct weft_device_wait *wait = NULL;
    struct weft_device_event *event = NULL;
    device_open(&world, device_row(state));
    assert_int_equal(world.ops->mark_stream(world.device, 0, NULL, 0, &event), WEFT_INVALID);
    assert_non_null(strstr(weft_error_detail(), "no default stream"));
    assert_int_equal(world.ops->wait_stream(world.device, 0, NULL, &wait), WEFT_INVALID);
    assert_non_null(strstr(weft_error_detail(), "no default stream"));
    assert_true(!wait && !event);
    device_close(&world);
}

/* The device's time between two events lies between what the host sees from inside and from outside; clocks may differ by a
 * hundredth, and a tick. */
static void the_device_has_the_time(void **state)
{
    struct device_world world;
    struct weft_device_event *from, *to, *plain;
    int flag = 0;
    void *stream;
    double ns = -7, back_ns, none_ns;
    device_open(&world, device_row(state));
    DEVICE_OK(world.streams.open(0, &stream));
    int64_t outside_ns = weft_clock_ns();
    DEVICE_OK(world.ops->mark_stream(world.device, 0, stream, WEFT_DEVICE_EVENT_TIMED, &from));
    DEVICE_OK(world.streams.wait(stream, &flag));
    DEVICE_OK(world.ops->mark_stream(world.device, 0, stream, 0, &plain));
    DEVICE_OK(world.ops->mark_stream(world.device, 0, stream, WEFT_DEVICE_EVENT_TIMED, &to));
    assert_int_equal(device_wait(&world, from), 1);
    int64_t inside_ns = weft_clock_ns();
    assert_int_equal(world.ops->elapsed(from, to, &ns), WEFT_AGAIN);
    assert_int_equal(world.ops->elapsed(from, plain, &ns), WEFT_INVALID);
    usleep(20000);
    inside_ns = weft_clock_ns() - inside_ns;
    __atomic_store_n(&flag, 1, __ATOMIC_RELEASE);
    assert_int_equal(device_wait(&world, to), 1);
    outside_ns = weft_clock_ns() - outside_ns;
    assert_int_equal(device_wait(&world, plain), 1);
    assert_int_equal(world.ops->elapsed(plain, to, &ns), WEFT_INVALID);
    assert_true(ns == -7);
    DEVICE_OK(world.ops->elapsed(from, to, &ns));
    DEVICE_OK(world.ops->elapsed(to, from, &back_ns));
    DEVICE_OK(world.ops->elapsed(to, to, &none_ns));
    if (ns < 0.99 * (double)inside_ns - 1000 || ns > 1.01 * (double)outside_ns + 1000)
        fail_msg("%f ns: expected from %f to %f", ns, (double)inside_ns, (double)outside_ns);
    assert_true(back_ns == -ns && none_ns == 0);
    world.ops->event_free(from);
    world.ops->event_free(plain);
    world.ops->event_free(to);
    DEVICE_OK(world.streams.close(stream));
    device_close(&world);
}

static void without_streams_there_is_no_clock(void **state)
{
    struct device_world world;
    struct weft_device_event *event;
    double ns;
    device_open(&world, device_row(state));
    struct weft_device_queue *queue = device_queue(&world, 0);
    DEVICE_OK(world.ops->mark(queue, &event));
    assert_int_equal(device_wait(&world, event), 1);
    assert_int_equal(world.ops->elapsed(event, event, &ns), WEFT_UNSUPPORTED);
    world.ops->event_free(event);
    world.ops->queue_close(queue);
    device_close(&world);
}

size_t device_stream_tests(const struct device_row *row, struct CMUnitTest *tests)
{
    size_t used = 0;
    if (!row->streams) {
        tests[used++] = (struct CMUnitTest)cmocka_unit_test(without_streams_there_is_no_clock);
        return used;
    }
    tests[used++] = (struct CMUnitTest)cmocka_unit_test(events_are_places_in_streams);
    tests[used++] = row->no_own_stream
                        ? (struct CMUnitTest)cmocka_unit_test(without_an_own_stream_null_is_refused)
                        : (struct CMUnitTest)cmocka_unit_test(the_devices_own_stream_is_one);
    tests[used++] = (struct CMUnitTest)cmocka_unit_test(the_device_has_the_time);
    tests[used++] = (struct CMUnitTest)cmocka_unit_test(calls_are_served_in_the_streams_order);
    tests[used++] = (struct CMUnitTest)cmocka_unit_test(a_wait_can_be_opened_at_once);
    tests[used++] = (struct CMUnitTest)cmocka_unit_test(a_long_kernel_holds_up_nobody_else);
    tests[used++] = (struct CMUnitTest)cmocka_unit_test(closing_does_not_wait_for_streams);
    tests[used++] = (struct CMUnitTest)cmocka_unit_test(closing_keeps_the_order);
    return used;
}
