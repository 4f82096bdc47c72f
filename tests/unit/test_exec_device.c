/* The executor on memory of devices: every collective by every algorithm on the loop transport, with ranks on the kind
 * "host", on the simulated device in all its tempers, on plain host memory and on the host with shadows, mixed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <dlfcn.h>
#include <weft/weft.h>

#include "base/error.h"
#include "examples/device-sim/sim.h"
#include "tests/support/exec_sweep.h"
#include "tests/support/leak.h"
#include "tests/support/plugins.h"

static const char *const modes[] = {"map", "pull:storm=11", "put:storm=5", "eager:storm=7", "put"};

static struct {
    struct test_plugin plugin;
    struct weft_devices *devices;
    struct weft_lanes *lanes;
    const struct weft_device_kind *sim, *host;
} scene;

static void scene_open(const char *options)
{
    assert_int_equal(test_plugin_put("examples/device-sim/device-sim.so", &scene.plugin), 0);
    assert_int_equal(weft_devices_create("host,sim", scene.plugin.path, options, &scene.devices), 0);
    scene.sim = weft_devices_find(scene.devices, "sim");
    scene.host = weft_devices_find(scene.devices, "host");
    assert_non_null(scene.sim);
    assert_int_equal(weft_lanes_create(&scene.lanes), 0);
}

static const struct sim_api *sim(void)
{
    const struct sim_api *api = dlsym(scene.sim->plugin.handle, SIM_API_SYMBOL);
    assert_non_null(api);
    return api;
}

/* Nothing of the device's is left. */
static void scene_close(void)
{
    struct sim_counts counts;
    weft_lanes_destroy(scene.lanes);
    sim()->counts(&counts);
    assert_int_equal(counts.spans, 0);
    assert_int_equal(counts.queues, 0);
    assert_int_equal(counts.events, 0);
    assert_int_equal(counts.gates, 0);
    weft_devices_destroy(scene.devices);
    test_plugin_remove(&scene.plugin);
}

static void on_host_kind(uint32_t rank, uint32_t *random, struct case_device *device, int *on_host)
{
    (void)rank, (void)random, (void)on_host;
    device->kind = scene.host;
}

static void on_sim(uint32_t rank, uint32_t *random, struct case_device *device, int *on_host)
{
    (void)random, (void)on_host;
    device->kind = scene.sim;
    device->ordinal = (int)rank % 2;
}

static void anywhere(uint32_t rank, uint32_t *random, struct case_device *device, int *on_host)
{
    *random = *random * 1664525u + 1013904223u;
    on_sim(rank, random, device, on_host);
    switch (*random >> 8 & 7) {
    case 0:
        device->kind = NULL;
        break;
    case 1: /* host memory, after a stream and before it */
        device->where = 0;
        *on_host = WEFT_SHADOW_NONE;
        break;
    case 2:
        *on_host = WEFT_SHADOW_INPUT | WEFT_SHADOW_OUTPUT;
        break;
    case 3:
        device->where = CASE_INPUT;
        *on_host = WEFT_SHADOW_INPUT;
        break;
    case 4:
        device->where = CASE_OUTPUT;
        *on_host = WEFT_SHADOW_OUTPUT;
        break;
    default:
        break;
    }
}

static void sweep(sweep_place *place, uint32_t seed)
{
    static const uint32_t rank_counts[] = {2, 3, 5, 8};
    static const size_t counts[] = {1, 333, 5000};
    uint32_t random = seed;
    for (size_t m = 0; m < sizeof modes / sizeof *modes; m++) {
        for (size_t n = 0; n < sizeof rank_counts / sizeof *rank_counts; n++) {
            if (place != on_host_kind && (m + n) % (getenv("WEFT_SANITIZER") ? 5 : 2))
                continue; /* its threads take their time */
            struct exec_world_options options = {.ranks = rank_counts[n],
                                                 .window = n % 2 ? 32 : 4,
                                                 .mode = modes[m],
                                                 .eager_bytes = m % 2 ? 64 : 1024,
                                                 .slice_bytes = n % 3 ? 4096 : 1024,
                                                 .seed = (uint32_t)(m % 2 ? 17 + n : 0)};
            struct exec_sweep all = {.ranks = rank_counts[n],
                                     .mode = modes[m],
                                     .place = place,
                                     .lanes = scene.lanes,
                                     .counts = counts,
                                     .count_count = sizeof counts / sizeof *counts};
            assert_int_equal(exec_world_open(&options, &all.world), 0);
            exec_sweep(&all, &random);
            exec_world_close(all.world);
        }
    }
}

static void test_host_kind(void **state)
{
    (void)state;
    scene_open("sim:seed=1");
    sweep(on_host_kind, 3);
    scene_close();
}

static void test_sim(void **state)
{
    (void)state;
    scene_open("sim:seed=1");
    sweep(on_sim, 5);
    scene_close();
}

static void test_slow_and_mixed(void **state)
{
    (void)state;
    scene_open("sim:seed=2,delay=20");
    sweep(anywhere, 7);
    scene_close();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_host_kind),
        cmocka_unit_test(test_sim),
        cmocka_unit_test(test_slow_and_mixed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
