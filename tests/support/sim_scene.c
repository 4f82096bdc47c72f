/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/sim_scene.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <dlfcn.h>

#include "examples/device-sim/sim.h"
#include "tests/support/plugins.h"

struct sim_scene sim_scene;

static struct test_plugin plugin;

void sim_scene_open(const char *options)
{
    assert_int_equal(test_plugin_put("examples/device-sim/device-sim.so", &plugin), 0);
    assert_int_equal(weft_devices_create("host,sim", plugin.path, options, &sim_scene.devices), 0);
    sim_scene.sim = weft_devices_find(sim_scene.devices, "sim");
    sim_scene.host = weft_devices_find(sim_scene.devices, "host");
    assert_non_null(sim_scene.sim);
    assert_int_equal(weft_command_queues_create(&sim_scene.queues), 0);
}

const struct sim_api *sim_scene_sim(void)
{
    const struct sim_api *api = dlsym(sim_scene.sim->plugin.handle, SIM_API_SYMBOL);
    assert_non_null(api);
    return api;
}

/* Nothing of the device's is left. */
void sim_scene_close(void)
{
    struct sim_counts left, none = {0};
    weft_command_queues_destroy(sim_scene.queues);
    sim_scene_sim()->counts(&left);
    assert_memory_equal(&left, &none, sizeof none);
    weft_devices_destroy(sim_scene.devices);
    test_plugin_remove(&plugin);
}

void sim_scene_on_sim(uint32_t rank, uint32_t *random, struct case_device *device, int *on_host)
{
    (void)random, (void)on_host;
    device->kind = sim_scene.sim;
    device->ordinal = (int)rank % 2;
}

void sim_scene_anywhere(uint32_t rank, uint32_t *random, struct case_device *device, int *on_host)
{
    *random = *random * 1664525u + 1013904223u;
    sim_scene_on_sim(rank, random, device, on_host);
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
