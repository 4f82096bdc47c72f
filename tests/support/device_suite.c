/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/device_suite.h"
#include "tests/support/patience.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"

#define LIMIT_NS  test_patient(20000000000)
#define TESTS_MAX 64

const struct device_row *device_row(void **state)
{
    return *state;
}

void device_open(struct device_world *world, const struct device_row *row)
{
    char options[256];
    memset(world, 0, sizeof *world);
    world->row = row;
    if (row->plugin && test_plugin_put(row->plugin, &world->plugin) != 0)
        fail_msg("%s: no plug-in %s", row->label, row->plugin);
    test_leak_take(&world->before);
    snprintf(options, sizeof options, "%s:%s", row->kind, row->options ? row->options : "");
    DEVICE_OK(weft_devices_create(row->kind, world->plugin.path, options, &world->devices));
    world->kind = weft_devices_find(world->devices, row->kind);
    if (!world->kind)
        fail_msg("%s: %s", row->label,
                 weft_devices_kind(world->devices, weft_devices_count(world->devices) - 1)->reason);
    world->ops = &world->kind->ops;
    world->device = world->kind->device;
    world->count = world->ops->count(world->device);
    assert_true(world->count >= 1);
    if (row->streams)
        row->streams(world->kind, &world->streams);
}

void device_close(struct device_world *world)
{
    if (world->mover) {
        world->ops->queue_close(world->mover);
        DEVICE_OK(world->ops->release(world->device, world->staging));
    }
    if (world->row->check_empty)
        world->row->check_empty(world->kind);
    weft_devices_destroy(world->devices);
    if (world->row->check_closed)
        world->row->check_closed();
    if (!world->row->keeps)
        assert_int_equal(test_leak_check(&world->before), 0);
    if (world->row->plugin)
        test_plugin_remove(&world->plugin);
}

void *device_allocate(struct device_world *world, int ordinal, enum weft_memory_kind kind, size_t size)
{
    void *memory = NULL;
    DEVICE_OK(world->ops->allocate(world->device, ordinal, kind, size, &memory));
    assert_non_null(memory);
    return memory;
}

struct weft_device_queue *device_queue(struct device_world *world, int ordinal)
{
    struct weft_device_queue *queue = NULL;
    DEVICE_OK(world->ops->queue_open(world->device, ordinal, &queue));
    assert_non_null(queue);
    return queue;
}

int device_wait(struct device_world *world, struct weft_device_event *event)
{
    int64_t deadline_ns = weft_clock_ns() + LIMIT_NS;
    int state;
    while ((state = world->ops->test(event)) == 0) {
        if (weft_clock_ns() > deadline_ns)
            fail_msg("%s: an event does not happen", world->row->label);
        usleep(20);
    }
    return state;
}

int device_finish(struct device_world *world, struct weft_device_queue *queue)
{
    struct weft_device_event *event;
    DEVICE_OK(world->ops->mark(queue, &event));
    int state = device_wait(world, event);
    world->ops->event_free(event);
    return state;
}

void device_follow(struct device_world *world, struct weft_device_queue *queue, int ordinal, void *stream)
{
    struct weft_device_event *event;
    DEVICE_OK(world->ops->mark_stream(world->device, ordinal, stream, 0, &event));
    DEVICE_OK(world->ops->await(queue, event));
    world->ops->event_free(event);
}

void device_prepare(struct device_world *world, size_t size)
{
    world->staging = device_allocate(world, -1, WEFT_MEMORY_PINNED, size);
    world->mover = device_queue(world, 0);
}

static void move(struct device_world *world, void *to, const void *from, size_t size, int is_put)
{
    if (size == 0)
        return;
    char *staging = world->mover ? world->staging : device_allocate(world, -1, WEFT_MEMORY_PINNED, size);
    struct weft_device_queue *queue = world->mover ? world->mover : device_queue(world, 0);
    if (is_put)
        memcpy(staging, from, size);
    DEVICE_OK(world->ops->copy(queue, is_put ? to : staging, is_put ? staging : from, size));
    assert_int_equal(device_finish(world, queue), 1);
    if (!is_put)
        memcpy(to, staging, size);
    if (world->mover)
        return;
    world->ops->queue_close(queue);
    DEVICE_OK(world->ops->release(world->device, staging));
}

void device_put(struct device_world *world, void *to, const void *from, size_t size)
{
    move(world, to, from, size, 1);
}

void device_get(struct device_world *world, void *to, const void *from, size_t size)
{
    move(world, to, from, size, 0);
}

int device_suite_run(const struct device_row *rows, size_t count)
{
    int failed = 0;
    size_t absent = 0;
    for (size_t r = 0; r < count; r++) {
        const struct device_row *row = &rows[r];
        const char *reason = row->absent ? row->absent() : NULL;
        if (reason) {
            printf("SKIP: %s: %s\n", row->label, reason);
            absent++;
            continue;
        }
        struct CMUnitTest tests[TESTS_MAX];
        size_t used = 0;
        if (row->fails) {
            used += device_failure_tests(row, tests + used);
            used += device_collective_failure_tests(row, tests + used);
        } else {
            used += device_share_tests(row, tests + used); /* first: it forks */
            used += device_memory_tests(row, tests + used);
            used += device_work_tests(row, tests + used);
            used += row->no_reductions ? 0 : device_reduce_tests(row, tests + used);
            used += device_collective_tests(row, tests + used);
            used += device_stream_tests(row, tests + used);
        }
        for (size_t i = 0; i < used; i++)
            tests[i].initial_state = (void *)(uintptr_t)row;
        failed += _cmocka_run_group_tests(row->label, tests, used, NULL, NULL);
    }
    return absent == count ? 77 : failed;
}
