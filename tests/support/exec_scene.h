/* SPDX-License-Identifier: Apache-2.0 */
/* The simulated device and lanes for executors of an exec_world. In a cmocka test: what is wrong fails it. One at a time. */
#ifndef WEFT_TESTS_EXEC_SCENE_H
#define WEFT_TESTS_EXEC_SCENE_H

#include "tests/support/exec_sweep.h"

struct sim_api;

struct exec_scene {
    struct weft_devices *devices;
    struct weft_lanes *lanes;
    const struct weft_device_kind *sim, *host;
};
extern struct exec_scene exec_scene;

/* options: as WEFT_DEVICE_OPTIONS. */
void exec_scene_open(const char *options);
/* Nothing of the device's is left. */
void exec_scene_close(void);
/* What the device offers to programs: examples/device-sim/sim.h. */
const struct sim_api *exec_scene_sim(void);

/* Both buffers of every rank, on two devices. */
sweep_place exec_scene_on_sim;
/* Some of them are the host's, or the host computes. */
sweep_place exec_scene_anywhere;

#endif
