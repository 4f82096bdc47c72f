/* SPDX-License-Identifier: Apache-2.0 */
/* build: beside device-sim */
/* run: beside (streams that wait); early */
/* The contract for kinds of devices on host memory and on the simulated device, also when that is slow and fails. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weft/weft.h>

#include "examples/device-sim/sim.h"
#include "tests/support/device_suite.h"

#define PLUGIN "examples/device-sim/device-sim.so"

static const struct sim_api *api(const struct weft_device_kind *kind)
{
    const struct sim_api *found = dlsym(kind->plugin.handle, SIM_API_SYMBOL);
    assert_non_null(found);
    assert_int_equal(found->size, sizeof *found);
    return found;
}

static void sim_streams(const struct weft_device_kind *kind, struct device_streams *streams)
{
    const struct sim_api *sim = api(kind);
    *streams = (struct device_streams){sim->stream_open, sim->stream_close, sim->stream_wait,
                                       sim->stream_fill, sim->stream_sync,  sim->stream_is_idle};
}

static void sim_is_empty(const struct weft_device_kind *kind)
{
    struct sim_counts counts;
    api(kind)->counts(&counts);
    assert_int_equal(counts.spans, 0);
    assert_int_equal(counts.queues, 0);
    assert_int_equal(counts.streams, 0);
    assert_int_equal(counts.events, 0);
    assert_int_equal(counts.waits, 0);
}

#define SIM                                                                                                  \
    .kind = "sim", .plugin = PLUGIN, .streams = sim_streams, .check_empty = sim_is_empty, .owns = 1,         \
    .faults = 1, .managed = 1, .reuses = 1, .collectives = 1, .collectives_beside = 1

static const struct device_row rows[] = {
    {.label = "host", .kind = "host"},
    {.label = "sim", SIM, .options = "seed=1", .shares = 1},
    {.label = "sim slow",
     SIM,
     .options = "seed=2,delay=50,devices=3,dmabuf=1,peers=0",
     .shares = 1,
     .dmabufs = 1},
    {.label = "sim alone", SIM, .options = "seed=3,devices=1,ipc=0"},
    {.label = "sim failing", SIM, .options = "seed=4,fail=1", .fails = 1},
};

/* --- what only the simulated device promises */

static const struct device_row some_fail = {.label = "sim some fail", SIM, .options = "seed=5,fail=4"};
static const struct device_row refuses = {.label = "sim refuses", SIM, .options = "seed=6,refuse=1"};

/* Which of 60 copies, each in a queue of its own, fail: one bit each. */
static uint64_t failures(const struct device_row *row)
{
    struct device_world world;
    uint64_t bits = 0;
    device_open(&world, row);
    char *memory = device_allocate(&world, 0, WEFT_MEMORY_DEVICE, 200);
    for (int i = 0; i < 60; i++) {
        struct weft_device_queue *queue = device_queue(&world, 0);
        DEVICE_OK(world.ops->copy(queue, memory, memory + 100, 100));
        bits |= (uint64_t)(device_finish(&world, queue) < 0) << i;
        world.ops->queue_close(queue);
    }
    DEVICE_OK(world.ops->release(world.device, memory));
    device_close(&world);
    return bits;
}

static void a_seed_decides_what_fails(void **state)
{
    (void)state;
    struct device_row other = some_fail;
    uint64_t bits = failures(&some_fail);
    assert_true(__builtin_popcountll(bits) > 5 && __builtin_popcountll(bits) < 30);
    assert_true(failures(&some_fail) == bits);
    other.options = "seed=77,fail=4";
    assert_true(failures(&other) != bits);
}

static void registrations_are_refused(void **state)
{
    struct device_world world;
    void *memory = NULL;
    char page[100];
    (void)state;
    device_open(&world, &refuses);
    assert_int_equal(world.ops->allocate(world.device, 0, WEFT_MEMORY_DEVICE, 100, &memory), WEFT_NOMEM);
    assert_string_equal(weft_error_detail(), "sim: an allocation is refused, as the options say");
    assert_int_equal(world.ops->pin(world.device, page, sizeof page), WEFT_NOMEM);
    assert_null(memory);
    device_close(&world);
}

/* Work on memory that the program freed meanwhile fails; it does not crash. */
static void freed_memory_fails_the_work(void **state)
{
    struct device_world world;
    const struct device_row row = {.label = "sim", SIM, .options = "seed=8"};
    int flag = 0;
    void *stream;
    (void)state;
    device_open(&world, &row);
    struct weft_device_queue *queue = device_queue(&world, 0);
    char *memory = device_allocate(&world, 0, WEFT_MEMORY_DEVICE, 200);
    DEVICE_OK(world.streams.open(0, &stream));
    DEVICE_OK(world.streams.wait(stream, &flag));
    device_follow(&world, queue, 0, stream);
    DEVICE_OK(world.ops->copy(queue, memory, memory + 100, 100));
    DEVICE_OK(world.ops->release(world.device, memory));
    __atomic_store_n(&flag, 1, __ATOMIC_RELEASE);
    assert_int_equal(device_finish(&world, queue), WEFT_TRANSPORT);
    assert_non_null(strstr(weft_error_detail(), "was freed before the work on it was done"));
    world.ops->queue_close(queue);
    DEVICE_OK(world.streams.close(stream));
    device_close(&world);
}

static void options_are_checked(void **state)
{
    static const char *const bad[] = {"devices=17", "delay", "delay=", "seed=x",
                                      "speed=3",    "ipc=2", "fail=-1"};
    struct test_plugin plugin;
    (void)state;
    assert_int_equal(test_plugin_put(PLUGIN, &plugin), 0);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct weft_devices *devices;
        char options[64], text[200];
        snprintf(options, sizeof options, "sim:seed=1,%s", bad[i]);
        snprintf(text, sizeof text,
                 "sim: option '%s': expected seed, devices (up to 16), delay, fail, refuse, ipc, "
                 "dmabuf or peers=NUMBER",
                 bad[i]);
        DEVICE_OK(weft_devices_create("sim", plugin.path, options, &devices));
        assert_null(weft_devices_find(devices, "sim"));
        const struct weft_device_kind *kind = weft_devices_kind(devices, weft_devices_count(devices) - 1);
        assert_int_equal(kind->status, WEFT_INVALID);
        assert_string_equal(kind->reason, text);
        weft_devices_destroy(devices);
    }
    test_plugin_remove(&plugin);
}

int main(void)
{
    const struct CMUnitTest own[] = {
        cmocka_unit_test(a_seed_decides_what_fails),
        cmocka_unit_test(registrations_are_refused),
        cmocka_unit_test(freed_memory_fails_the_work),
        cmocka_unit_test(options_are_checked),
    };
    setenv("WEFT_LOG", "error", 0);
    int failed = device_suite_run(rows, sizeof rows / sizeof *rows);
    return failed + cmocka_run_group_tests_name("sim itself", own, NULL, NULL);
}
