/* SPDX-License-Identifier: Apache-2.0 */
/* The simulated device, the kind host, and command queues. In a cmocka test: what is wrong fails it. One at a time. */
#ifndef WEFT_TESTS_SIM_SCENE_H
#define WEFT_TESTS_SIM_SCENE_H

#include "tests/support/exec_sweep.h"

struct sim_api;

struct sim_scene {
    struct weft_devices *devices;
    struct weft_command_queues *queues;
    const struct weft_device_kind *sim, *host;
};
extern struct sim_scene sim_scene;

/* options: as WEFT_DEVICE_OPTIONS. */
void sim_scene_open(const char *options);
/* Nothing of the device's is left. */
void sim_scene_close(void);
/* What the device offers to programs: examples/device-sim/sim.h. */
const struct sim_api *sim_scene_sim(void);

/* Both buffers of every rank, on two devices. */
sweep_place sim_scene_on_sim;
/* Some of them are the host's, or the host computes. */
sweep_place sim_scene_anywhere;

#endif
