/* SPDX-License-Identifier: Apache-2.0 */
/* build: needs ze; beside ze */
/* Streams of the kind "ze" where the conformance suite does not look: pointers that are no stream, the device's clock, failures of the driver,
 * lists that are used again, and a kind that is closed in front of a stream. Each on immediate lists and on command queues. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "devmem/registry.h"
#include "devmem/ze/ze.h"
#include "tests/support/child.h"
#include "tests/support/ze_scene.h"
#include "tests/support/ze_streams.h"

static struct weft_device_ops ops; /* complete */
static struct device_streams streams;
static struct weft_device *device;
static struct ze_fake *fake;
static int on_queues; /* whether streams are command queues */

/* A stream on device 0 that runs until flag is set. 0 on success. */
static int begin(void **stream, const int *flag)
{
    fake = ze_scene_begin(&ops, &device);
    if (!fake)
        return -1;
    fake->no_immediate = (uint32_t)on_queues;
    ze_streams(NULL, &streams);
    struct weft_device_info info = {.size = sizeof info}; /* asked for first, as weft does */
    if (ops.count(device) != 2 || ops.describe(device, 0, &info) != WEFT_OK ||
        !(info.flags & WEFT_DEVICE_STREAM_WAITS) || streams.open(0, stream) != 0)
        return -1;
    return flag ? streams.wait(*stream, flag) : 0;
}

static int end(void *stream)
{
    int failed = streams.close(stream);
    return ze_scene_end(&ops, fake, device) || failed || fake->lists || fake->queues || fake->events;
}

static void set(int *flag)
{
    __atomic_store_n(flag, 1, __ATOMIC_RELEASE);
}

static int await(struct weft_device_event *event)
{
    int state;
    while ((state = ops.test(event)) == 0)
        usleep(20);
    return state;
}

/* --- what a pointer may be */

static int refuse(void)
{
    void *stream;
    struct weft_device_event *event;
    struct weft_device_wait *wait;
    ZE_CHECK(begin(&stream, NULL) == 0);
    const struct weft_ze_driver *driver = &device->driver;
    for (uintptr_t i = 0; i < 2; i++) {
        ZE_CHECK(ops.mark_stream(device, 0, (void *)i, 0, &event) == WEFT_INVALID);
        ZE_CHECK(strstr(ze_said, "Level Zero has no default stream: expected an immediate command list, or a "
                                 "command queue with the lowest bit of its pointer set"));
        ZE_CHECK(ops.wait_stream(device, 0, (void *)i, &wait) == WEFT_INVALID);
    }
    ZE_CHECK(ops.mark_stream(device, 2, stream, 0, &event) == WEFT_INVALID);
    const ze_command_list_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_COMMAND_LIST_DESC};
    ze_command_list_handle_t recorded;
    ZE_CHECK(driver->zeCommandListCreate(device->places[0].context, device->ordinals[0].device, &desc,
                                         &recorded) == ZE_RESULT_SUCCESS);
    /* A loader of API 1.9 says what a list is; the drivers behind it need not. */
    device->driver.zeCommandListIsImmediate = ze_scene_function("ze_fake_list_is_immediate");
    ZE_CHECK(ops.mark_stream(device, 0, recorded, 0, &event) == WEFT_INVALID);
    ZE_CHECK(strstr(ze_said, "is a command list that has to be closed and executed"));
    device->driver.zeCommandListGetDeviceHandle = ze_scene_function("ze_fake_list_device");
    int status = ops.wait_stream(device, 1, stream, &wait);
    if (on_queues) { /* nothing says whose they are */
        ZE_CHECK(status == WEFT_OK && ops.wait_open(wait, NULL) == WEFT_OK);
        ops.wait_free(wait);
    } else {
        ZE_CHECK(status == WEFT_INVALID && strstr(ze_said, "is not one of Level Zero device 1"));
    }
    ZE_CHECK(ops.mark_stream(device, 0, stream, 0, &event) == WEFT_OK && await(event) == 1);
    ops.event_free(event);
    ZE_CHECK(driver->zeCommandListDestroy(recorded) == ZE_RESULT_SUCCESS);
    return end(stream);
}

/* A command queue of another group gets lists of that one, where the driver says which. */
static int find_group(void)
{
    void *unused;
    struct weft_device_event *event;
    ze_command_queue_handle_t commands;
    const ze_command_queue_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_COMMAND_QUEUE_DESC};
    ZE_CHECK(begin(&unused, NULL) == 0);
    const struct weft_ze_driver *driver = &device->driver;
    ZE_CHECK(driver->zeCommandQueueCreate(device->places[0].context, device->ordinals[0].device, &desc,
                                          &commands) == ZE_RESULT_SUCCESS);
    void *stream = (char *)(void *)commands + 1;
    ZE_CHECK(ops.mark_stream(device, 0, stream, 0, &event) == WEFT_INVALID && fake->violations == 1);
    ZE_CHECK(strstr(fake->first_violation, "the list is of another group"));
    fake->violations = 0;
    device->driver.zeCommandQueueGetOrdinal = ze_scene_function("ze_fake_queue_group");
    for (int i = 0; i < 3; i++) { /* lists of both groups are kept side by side */
        ZE_CHECK(ops.mark_stream(device, 0, stream, 0, &event) == WEFT_OK && await(event) == 1);
        ops.event_free(event);
        ZE_CHECK(ops.mark_stream(device, 0, unused, 0, &event) == WEFT_OK && await(event) == 1);
        ops.event_free(event);
    }
    ZE_CHECK(driver->zeCommandQueueDestroy(commands) == ZE_RESULT_SUCCESS);
    return end(unused);
}

/* --- a driver that runs all lists of an index in one order */

static int flags_of(int is_one_index, uint64_t *flags)
{
    struct weft_device_info info = {.size = sizeof info};
    fake = ze_scene_begin(&ops, &device);
    ZE_CHECK(fake);
    *ze_logged = '\0';
    fake->no_immediate = (uint32_t)on_queues;
    fake->one_order = 1;
    fake->one_index = (uint32_t)is_one_index;
    ZE_CHECK(ops.describe(device, 0, &info) == WEFT_OK && ops.describe(device, 0, &info) == WEFT_OK);
    *flags = info.flags;
    return 0;
}

/* A stream in front of weft's queue never goes on, so there are no stream waits. */
static int stand_in_line(void)
{
    static const char why[] = "Level Zero device 0 runs no queue beside a stream that waits";
    uint64_t flags;
    void *stream;
    struct weft_device_event *event;
    struct weft_device_wait *wait;
    ZE_CHECK(flags_of(1, &flags) == 0 && !(flags & WEFT_DEVICE_STREAM_WAITS));
    ZE_CHECK(ze_logged_count(why) == 1);
    ze_streams(NULL, &streams);
    ZE_CHECK(streams.open(0, &stream) == 0);
    ZE_CHECK(ops.mark_stream(device, 0, stream, 0, &event) == WEFT_UNSUPPORTED && strstr(ze_said, why));
    ZE_CHECK(ops.wait_stream(device, 0, stream, &wait) == WEFT_UNSUPPORTED && strstr(ze_said, why));
    return end(stream);
}

/* Of another index than the program's stream it gets by: the queue opens the stream's wait. */
static int stand_beside(void)
{
    uint64_t flags;
    void *stream;
    struct weft_device_wait *wait;
    struct weft_device_queue *queue;
    ZE_CHECK(flags_of(0, &flags) == 0 && (flags & WEFT_DEVICE_STREAM_WAITS));
    ze_streams(NULL, &streams);
    ZE_CHECK(streams.open(0, &stream) == 0 && ops.queue_open(device, 0, &queue) == WEFT_OK);
    ZE_CHECK(ops.wait_stream(device, 0, stream, &wait) == WEFT_OK && ops.wait_open(wait, queue) == WEFT_OK);
    ZE_CHECK(streams.sync(stream) == 0);
    ops.wait_free(wait);
    ops.queue_close(queue);
    return end(stream);
}

/* A device that comes to nothing is busy: asked again, it has stream waits. Three times busy it is not asked any more. */
static int stand_busy(void)
{
    for (int times = 1; times <= 3; times += 2) {
        struct weft_device_info info = {.size = sizeof info};
        fake = ze_scene_begin(&ops, &device);
        ZE_CHECK(fake);
        *ze_logged = '\0';
        fake->no_immediate = (uint32_t)on_queues;
        fake->no_spirv = 1; /* no kernel is tried */
        fake->stalls = 1;
        for (int i = 0; i < times; i++)
            ZE_CHECK(ops.describe(device, 0, &info) == WEFT_OK && !(info.flags & WEFT_DEVICE_STREAM_WAITS));
        fake->stalls = 0;
        ZE_CHECK(ops.describe(device, 0, &info) == WEFT_OK);
        ZE_CHECK(!(info.flags & WEFT_DEVICE_STREAM_WAITS) == (times == 3));
        ZE_CHECK(ze_logged_count("did not come to a command within 500 ms; its streams cannot wait") ==
                 (times == 3));
        ops.close(device);
        ZE_CHECK(!fake->violations && !fake->lists && !fake->queues);
    }
    return 0;
}

/* --- the clock */

static int look_at_the_clock(void)
{
    void *stream;
    struct weft_device_event *events[2];
    double ns = 0, back_ns = 0;
    ZE_CHECK(begin(&stream, NULL) == 0);
    fake->time_bits = 24; /* it begins again between the two */
    fake->times[0] = 0xfffff0;
    fake->times[1] = 0x10;
    fake->time_count = 2;
    for (int i = 0; i < 2; i++)
        ZE_CHECK(ops.mark_stream(device, 0, stream, WEFT_DEVICE_EVENT_TIMED, &events[i]) == WEFT_OK &&
                 await(events[i]) == 1);
    ZE_CHECK(ops.elapsed(events[0], events[1], &ns) == WEFT_OK && ns == 0x20 * 40.0);
    ZE_CHECK(ops.elapsed(events[1], events[0], &back_ns) == WEFT_OK && back_ns == -ns);
    fake->properties_result = ZE_RESULT_ERROR_DEVICE_LOST;
    ZE_CHECK(ops.elapsed(events[0], events[1], &ns) == WEFT_SYSTEM);
    ZE_CHECK(strstr(ze_said, "asking for the clock of device 0"));
    fake->properties_result = 0;
    ops.event_free(events[0]);
    ops.event_free(events[1]);
    ZE_CHECK(fake->allocations == 0);
    return end(stream);
}

/* --- failures */

/* What fails leaves the stream as it was, and nothing behind. */
static int fail_by_the_driver(void)
{
    void *stream;
    struct weft_device_event *event;
    struct weft_device_wait *wait;
    ZE_CHECK(begin(&stream, NULL) == 0);
    fake->pool_result = ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY;
    struct weft_device_event *all[256]; /* that there are without another pool */
    int count = 0;
    while (count < 256 && (all[count] = weft_ze_event_get(device, 0)))
        count++;
    ZE_CHECK(count > 0 && count < 256);
    ZE_CHECK(ops.mark_stream(device, 0, stream, 0, &event) == WEFT_NOMEM);
    ZE_CHECK(ops.wait_stream(device, 0, stream, &wait) == WEFT_NOMEM);
    fake->pool_result = 0;
    while (count)
        weft_ze_event_unused(all[--count]);
    fake->alloc_result = ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY;
    ZE_CHECK(ops.mark_stream(device, 0, stream, WEFT_DEVICE_EVENT_TIMED, &event) == WEFT_NOMEM);
    fake->alloc_result = 0;
    fake->append_result = ZE_RESULT_ERROR_UNKNOWN;
    ZE_CHECK(ops.mark_stream(device, 0, stream, 0, &event) == WEFT_SYSTEM);
    ZE_CHECK(strstr(ze_said, "marking a place in stream"));
    ZE_CHECK(ops.wait_stream(device, 0, stream, &wait) == WEFT_SYSTEM);
    ZE_CHECK(strstr(ze_said, "putting a wait into stream"));
    fake->append_result = 0;
    if (on_queues) {
        fake->list_result = ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY;
        ZE_CHECK(ops.mark_stream(device, 0, stream, 0, &event) == WEFT_NOMEM);
        fake->list_result = 0;
    }
    ZE_CHECK(streams.sync(stream) == 0);
    return end(stream);
}

/* The device of the queue is lost, or the queue takes nothing any more: the host opens what they were to open. */
static int open_all(void)
{
    void *stream;
    struct weft_device_wait *wait;
    struct weft_device_queue *queue;
    struct weft_device_event *behind, *passed, *more;
    int flag = 0;
    ZE_CHECK(begin(&stream, NULL) == 0);
    ZE_CHECK(ops.queue_open(device, 0, &queue) == WEFT_OK);
    ZE_CHECK(ops.wait_stream(device, 0, stream, &wait) == WEFT_OK);
    fake->append_result = ZE_RESULT_ERROR_UNKNOWN;
    ZE_CHECK(ops.wait_open(wait, queue) == WEFT_OK);
    fake->append_result = 0;
    ZE_CHECK(streams.sync(stream) == 0);
    ops.wait_free(wait);

    struct weft_device_event *never = weft_ze_event_get(device, 0); /* the queue stays in front of it */
    ZE_CHECK(never && ops.await(queue, never) == WEFT_OK && ops.mark(queue, &behind) == WEFT_OK);
    ZE_CHECK(ops.wait_stream(device, 0, stream, &wait) == WEFT_OK);
    ZE_CHECK(ops.mark_stream(device, 0, stream, 0, &passed) == WEFT_OK);
    ZE_CHECK(ops.wait_open(wait, queue) == WEFT_OK);
    ops.wait_free(wait);
    usleep(2000);
    ZE_CHECK(ops.test(passed) == 0 && device->waits);
    fake->is_lost = 1;
    ZE_CHECK(ops.test(behind) == WEFT_SYSTEM);
    fake->is_lost = 0;
    ZE_CHECK(ops.mark_stream(device, 0, stream, 0, &more) == WEFT_OK && await(more) == 1);
    ZE_CHECK(ops.test(passed) == 1);
    ops.event_free(more);
    ZE_CHECK(device->driver.zeEventHostSignal(never->handle) == ZE_RESULT_SUCCESS && await(behind) == 1);
    ops.event_free(passed);
    ops.event_free(behind);
    ops.event_free(never);
    ops.queue_close(queue);

    /* And one that nobody has opened when it is freed. */
    ZE_CHECK(streams.wait(stream, &flag) == 0 && ops.wait_stream(device, 0, stream, &wait) == WEFT_OK);
    ops.wait_free(wait);
    set(&flag);
    ZE_CHECK(streams.sync(stream) == 0);
    return end(stream);
}

/* Intel's driver says of an event nothing but whether it is signalled, and of the device that it hangs. */
static int ask_the_device(void)
{
    void *stream;
    struct weft_device_wait *wait;
    struct weft_device_queue *queue;
    struct weft_device_event *behind;
    ZE_CHECK(begin(&stream, NULL) == 0 && ops.queue_open(device, 0, &queue) == WEFT_OK);
    struct weft_device_event *never = weft_ze_event_get(device, 0);
    ZE_CHECK(never && ops.await(queue, never) == WEFT_OK && ops.mark(queue, &behind) == WEFT_OK);
    ZE_CHECK(ops.wait_stream(device, 0, stream, &wait) == WEFT_OK && ops.wait_open(wait, queue) == WEFT_OK);
    ZE_CHECK(ops.test(behind) == 0);
    fake->events_keep_quiet = fake->is_lost = 1;
    int state = 0;
    for (int ms = 0; ms < 5000 && !(state = ops.test(behind)); ms++)
        usleep(1000);
    ZE_CHECK(state == WEFT_SYSTEM && strstr(ze_said, "ZE_RESULT_ERROR_DEVICE_LOST"));
    ZE_CHECK(device->driver.zeEventQueryStatus(wait->opens->handle) == ZE_RESULT_SUCCESS);
    fake->events_keep_quiet = fake->is_lost = 0;
    ZE_CHECK(device->driver.zeEventHostSignal(never->handle) == ZE_RESULT_SUCCESS);
    ops.wait_free(wait);
    ops.event_free(behind);
    ops.event_free(never);
    ops.queue_close(queue);
    ZE_CHECK(streams.sync(stream) == 0);
    return end(stream);
}

static ze_result_t says_nothing(ze_device_handle_t of)
{
    (void)of;
    return ZE_RESULT_SUCCESS;
}

static int waited; /* times */

static ze_result_t says_lost(ze_event_handle_t event, uint64_t timeout_ns)
{
    (void)event, (void)timeout_ns;
    waited++;
    return ZE_RESULT_ERROR_DEVICE_LOST;
}

/* The device is said to be lost, or says it to who waits, as another engine of it hangs. What has not ended keeps its memory, until it does. */
static int close_lost_by(int who_waits)
{
    void *stream, *host;
    struct weft_device_queue *queue;
    ZE_CHECK(begin(&stream, NULL) == 0 && ops.queue_open(device, 0, &queue) == WEFT_OK);
    struct weft_device_event *wakes = weft_ze_event_get(device, 0);
    ZE_CHECK(wakes && ops.allocate(device, -1, WEFT_MEMORY_PINNED, 64, &host) == WEFT_OK);
    ZE_CHECK(ops.allocate(device, 0, WEFT_MEMORY_DEVICE, 64, &queue->borrowed) == WEFT_OK);
    int before = fake->allocations;
    fake->events_keep_quiet = fake->is_lost = 1;
    if (who_waits) {
        device->driver.zeDeviceGetStatus = says_nothing;
        device->driver.zeEventHostSynchronize = says_lost;
    }
    ZE_CHECK(ops.copy(queue, queue->borrowed, host, 64) == WEFT_OK);
    ops.queue_close(queue);
    ZE_CHECK(waited == who_waits);
    ZE_CHECK(device->left == queue && fake->allocations == before && !fake->violations);
    weft_ze_queues_sweep(device);
    ZE_CHECK(device->left == queue && fake->allocations == before && !fake->violations);
    fake->events_keep_quiet = fake->is_lost = 0;
    ZE_CHECK(device->driver.zeEventHostSignal(wakes->handle) == ZE_RESULT_SUCCESS);
    for (int ms = 0; ms < 5000 && device->left; ms++) {
        usleep(1000);
        weft_ze_queues_sweep(device);
    }
    ZE_CHECK(!device->left && fake->allocations == before - 1 && !fake->violations);
    ops.event_free(wakes);
    ZE_CHECK(ops.release(device, host) == WEFT_OK);
    return end(stream);
}

static int close_lost(void)
{
    return close_lost_by(0);
}

static int close_hung(void)
{
    return close_lost_by(1);
}

/* Until the waits that were left to queues are forgotten, for at most so long. */
static int sweep_for(int most_ms)
{
    for (int ms = 0; ms < most_ms && device->waits; ms++) {
        usleep(1000);
        weft_ze_waits_sweep(device, 0);
    }
    return device->waits == NULL;
}

/* A stream on device 0 waits for a queue of device 1: only of that is asked whether it is lost. The host opens the wait then, and the queue may do so
 * again later, so nothing else ever uses the event. */
static int open_twice(void)
{
    enum { MANY = 100 };
    void *stream;
    struct weft_device_wait *wait;
    struct weft_device_queue *queue;
    ZE_CHECK(begin(&stream, NULL) == 0 && ops.queue_open(device, 1, &queue) == WEFT_OK);
    struct weft_device_event *never = weft_ze_event_get(device, 1), *behind;
    ZE_CHECK(never && ops.await(queue, never) == WEFT_OK && ops.mark(queue, &behind) == WEFT_OK);
    ZE_CHECK(ops.wait_stream(device, 0, stream, &wait) == WEFT_OK && ops.wait_open(wait, queue) == WEFT_OK);
    ops.wait_free(wait);
    fake->events_keep_quiet = 1;
    fake->is_lost = 1u << 0;
    ZE_CHECK(!sweep_for(300));
    fake->is_lost = 1u << 1;
    ZE_CHECK(sweep_for(5000));
    ZE_CHECK(streams.sync(stream) == 0);
    for (int i = 0; i < MANY; i++) {
        struct weft_device_event *event = weft_ze_event_get(device, 0);
        ZE_CHECK(event);
        weft_ze_event_unused(event);
    }
    ZE_CHECK(fake->violations == 0);
    fake->is_lost = 0;
    ZE_CHECK(device->driver.zeEventHostSignal(never->handle) == ZE_RESULT_SUCCESS);
    while (!ops.test(behind) || device->driver.zeEventQueryStatus(behind->handle) != ZE_RESULT_SUCCESS)
        usleep(1000);
    ops.event_free(behind);
    ops.event_free(never);
    ops.queue_close(queue);
    return end(stream);
}

/* What waits for an event of a lost device fails, on whatever device it waits, and so does what is marked behind that. */
static int await_lost(void)
{
    void *stream;
    struct weft_device_queue *queues[2];
    struct weft_device_event *never, *marked, *behind;
    ZE_CHECK(begin(&stream, NULL) == 0);
    for (int i = 0; i < 2; i++)
        ZE_CHECK(ops.queue_open(device, i, &queues[i]) == WEFT_OK);
    ZE_CHECK((never = weft_ze_event_get(device, 1)) && ops.await(queues[1], never) == WEFT_OK);
    ZE_CHECK(ops.mark(queues[1], &marked) == WEFT_OK && ops.await(queues[0], marked) == WEFT_OK);
    ZE_CHECK(weft_ze_event_state(queues[0]->waited) == ZE_RESULT_NOT_READY);
    ZE_CHECK(ops.mark(queues[0], &behind) == WEFT_OK && ops.test(behind) == 0);
    fake->events_keep_quiet = 1;
    fake->is_lost = 1u << 1;
    ze_result_t result = ZE_RESULT_NOT_READY;
    for (int ms = 0; ms < 5000 && result == ZE_RESULT_NOT_READY; ms++) {
        usleep(1000);
        result = weft_ze_event_state(queues[0]->waited);
    }
    ZE_CHECK(result == ZE_RESULT_ERROR_DEVICE_LOST);
    ZE_CHECK(ops.test(behind) == WEFT_SYSTEM && strstr(ze_said, "work on device 0 has failed"));
    fake->events_keep_quiet = fake->is_lost = 0;
    ZE_CHECK(device->driver.zeEventHostSignal(never->handle) == ZE_RESULT_SUCCESS);
    ops.event_free(never);
    ops.event_free(marked);
    ops.event_free(behind);
    for (int i = 0; i < 2; i++)
        ops.queue_close(queues[i]);
    return end(stream);
}

/* --- many */

static int use_again(void)
{
    enum { ROUNDS = 500 };
    void *stream;
    struct weft_device_wait *wait;
    struct weft_device_event *event;
    struct weft_device_queue *queue;
    ZE_CHECK(begin(&stream, NULL) == 0 && ops.queue_open(device, 0, &queue) == WEFT_OK);
    for (int i = 0; i < ROUNDS; i++) {
        ZE_CHECK(ops.mark_stream(device, 0, stream, 0, &event) == WEFT_OK);
        ZE_CHECK(ops.wait_stream(device, 0, stream, &wait) == WEFT_OK && await(event) == 1);
        ZE_CHECK(ops.wait_open(wait, i % 2 ? queue : NULL) == WEFT_OK);
        ops.event_free(event);
        ops.wait_free(wait);
    }
    ZE_CHECK(streams.sync(stream) == 0);
    ZE_CHECK(fake->lists < 64 && fake->events <= 128);
    ops.queue_close(queue);
    ZE_CHECK(!device->waits || (weft_ze_waits_sweep(device, 0), !device->waits));
    return end(stream);
}

/* More than one pool of events, all closed at a time. */
static int close_many(void)
{
    enum { MANY = 300 };
    static struct weft_device_wait *waits[MANY];
    void *stream;
    struct weft_device_event *event;
    ZE_CHECK(begin(&stream, NULL) == 0);
    for (int i = 0; i < MANY; i++)
        ZE_CHECK(ops.wait_stream(device, 0, stream, &waits[i]) == WEFT_OK);
    ZE_CHECK(ops.mark_stream(device, 0, stream, 0, &event) == WEFT_OK);
    for (int i = MANY - 1; i >= 0; i--) { /* the stream comes to none but the first */
        ZE_CHECK(ops.test(event) == 0 && ops.wait_open(waits[i], NULL) == WEFT_OK);
        ops.wait_free(waits[i]);
    }
    ZE_CHECK(await(event) == 1);
    ops.event_free(event);
    return end(stream);
}

/* --- a kind that is closed */

/* The events of a stream that has yet to pass stay as they are, with their context. */
static int close_in_front(void)
{
    void *stream;
    struct weft_device_wait *wait;
    int flag = 0;
    ZE_CHECK(begin(&stream, &flag) == 0);
    ZE_CHECK(ops.wait_stream(device, 0, stream, &wait) == WEFT_OK && ops.wait_open(wait, NULL) == WEFT_OK);
    ops.wait_free(wait);
    ops.close(device);
    ZE_CHECK(fake->events > 0 && fake->contexts == 2); /* and the stream's own */
    ZE_CHECK(fake->violations == 0 && !streams.is_idle(stream));
    set(&flag);
    ZE_CHECK(streams.sync(stream) == 0);
    ZE_CHECK(streams.close(stream) == 0 && fake->violations == 0);
    return 0;
}

static void test_both(int (*function)(void))
{
    for (on_queues = 0; on_queues < 2; on_queues++)
        assert_int_equal(test_child(function), 0);
}

#define TEST(name, function)                                                                                 \
    static void name(void **state)                                                                           \
    {                                                                                                        \
        (void)state;                                                                                         \
        test_both(function);                                                                                 \
    }
TEST(test_pointers, refuse)
TEST(test_groups, find_group)
TEST(test_line, stand_in_line)
TEST(test_beside, stand_beside)
TEST(test_clock, look_at_the_clock)
TEST(test_failures, fail_by_the_driver)
TEST(test_opened, open_all)
TEST(test_quiet, ask_the_device)
TEST(test_stalled, stand_busy)
TEST(test_lost, close_lost)
TEST(test_hung, close_hung)
TEST(test_twice, open_twice)
TEST(test_behind_lost, await_lost)
TEST(test_again, use_again)
TEST(test_many, close_many)
TEST(test_closed, close_in_front)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pointers),    cmocka_unit_test(test_groups), cmocka_unit_test(test_clock),
        cmocka_unit_test(test_failures),    cmocka_unit_test(test_opened), cmocka_unit_test(test_again),
        cmocka_unit_test(test_many),        cmocka_unit_test(test_closed), cmocka_unit_test(test_line),
        cmocka_unit_test(test_beside),      cmocka_unit_test(test_quiet),  cmocka_unit_test(test_lost),
        cmocka_unit_test(test_stalled),     cmocka_unit_test(test_twice),  cmocka_unit_test(test_hung),
        cmocka_unit_test(test_behind_lost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
