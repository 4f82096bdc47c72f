/* SPDX-License-Identifier: Apache-2.0 */
/* build: beside device-sim */
/* Collectives on memory of the simulated device, between real ranks: over shared memory and over tcp, with processes and with
 * threads that share devices, all on the device, and mixed with ranks and buffers of the host. The simulated device's memory
 * cannot be touched by the host: a load or store by the library would end the test. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <dlfcn.h>

#include "examples/device-sim/sim.h"
#include "tests/support/device_calls.h"
#include "tests/support/plugins.h"
#include "tests/support/ranks.h"

static struct test_plugin plugin;
static struct weft_devices *devices;
static const struct weft_device_kind *sim;

struct job {
    collective_place *place;
    const char *options;
    int in_process;                        /* the kind has been opened for all ranks */
    enum { ANY, DIRECT, NOT_DIRECT } ways; /* whether ranks reach each other's memory */
};

static int open_sim(const struct job *job)
{
    CHECK_OK(weft_devices_create("", plugin.path, job->options, &devices));
    sim = weft_devices_find(devices, "sim");
    CHECK(sim);
    return 0;
}

static int close_sim(void)
{
    struct sim_counts counts;
    const struct sim_api *api = dlsym(sim->plugin.handle, SIM_API_SYMBOL);
    CHECK(api);
    api->counts(&counts);
    CHECK(counts.spans == 0);
    CHECK(counts.queues == 0);
    CHECK(counts.events == 0);
    CHECK(counts.gates == 0);
    weft_devices_destroy(devices);
    return 0;
}

static int body(int rank, int ranks, void *arg)
{
    (void)rank, (void)ranks;
    const struct job *job = arg;
    weft_comm_stats stats = {.size = sizeof stats};
    if (!job->in_process && open_sim(job))
        return 1;
    CHECK(device_calls_check(sim, job->place, &stats) == 0);
    CHECK(job->ways != DIRECT ||
          stats.bytes_direct > 4 * stats.bytes_staged); /* what is staged are short messages */
    CHECK(job->ways != NOT_DIRECT || stats.bytes_direct == 0);
    return job->in_process ? 0 : close_sim();
}

static int set_up(void **state)
{
    (void)state;
    if (test_plugin_put("examples/device-sim/device-sim.so", &plugin) != 0)
        return -1;
    setenv("WEFT_DEVICE_PLUGIN", plugin.path, 1);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    unsetenv("WEFT_TRANSPORT");
    test_plugin_remove(&plugin);
    return 0;
}

static void run(int ranks, collective_place *place, const char *options)
{
    struct job job = {.place = place, .options = options};
    setenv("WEFT_DEVICE_OPTIONS", options, 1);
    assert_int_equal(test_ranks_fork(ranks, body, &job), 0);
}

static void processes_on_shm(void **state)
{
    (void)state;
    struct job direct = {.place = device_calls_together, .options = "sim:seed=1", .ways = DIRECT};
    setenv("WEFT_DEVICE_OPTIONS", direct.options, 1);
    assert_int_equal(test_ranks_fork(2, body, &direct), 0);
    setenv("WEFT_TIMEOUT_MS", "-1", 1); /* for as long as it takes */
    run(4, device_calls_scatter, "sim:seed=2");
    unsetenv("WEFT_TIMEOUT_MS");
}

static void processes_on_tcp(void **state)
{
    (void)state;
    setenv("WEFT_TRANSPORT", "ofi", 1);
    run(2, device_calls_together, "sim:seed=3");
    run(3, device_calls_scatter, "sim:seed=4,delay=10");
    unsetenv("WEFT_TRANSPORT");
}

static void threads_share_devices(void **state)
{
    (void)state;
    struct job job = {.place = device_calls_scatter, .options = "sim:seed=5", .in_process = 1};
    setenv("WEFT_DEVICE_OPTIONS", job.options, 1);
    assert_int_equal(open_sim(&job), 0);
    assert_int_equal(test_ranks_threads(4, body, &job), 0);
    assert_int_equal(close_sim(), 0);
}

/* Devices that do not reach each other's memory, of one process. */
static void threads_out_of_reach(void **state)
{
    (void)state;
    struct job job = {
        .place = device_calls_together, .options = "sim:seed=7,peers=0", .in_process = 1, .ways = NOT_DIRECT};
    setenv("WEFT_DEVICE_OPTIONS", job.options, 1);
    assert_int_equal(open_sim(&job), 0);
    assert_int_equal(test_ranks_threads(2, body, &job), 0);
    assert_int_equal(close_sim(), 0);
}

static void one_rank(void **state)
{
    (void)state;
    run(1, device_calls_together, "sim:seed=6");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(processes_on_shm),
        cmocka_unit_test(processes_on_tcp),
        cmocka_unit_test(threads_share_devices),
        cmocka_unit_test(threads_out_of_reach),
        cmocka_unit_test(one_rank),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
