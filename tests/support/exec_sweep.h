/* SPDX-License-Identifier: Apache-2.0 */
/* Every collective by every algorithm that serves it, on executors of an exec_world, against a plain reference: roots, in
 * place, blocks of unequal size with gaps and empty ones. In a cmocka test: what is wrong fails it. */
#ifndef WEFT_TESTS_EXEC_SWEEP_H
#define WEFT_TESTS_EXEC_SWEEP_H

#include "tests/support/case_device.h"
#include "tests/support/exec_world.h"

#define SWEEP_RANKS_MAX 64

/* Where the ranks' buffers are: sets kind, ordinal and where of device, and how the operation runs (0: on the device,
 * otherwise enum weft_shadows); kind NULL: host memory. */
typedef void sweep_place(uint32_t rank, uint32_t *random, struct case_device *device, int *on_host);

struct exec_sweep {
    struct exec_world *world;
    uint32_t ranks;
    const struct weft_hosts *hosts;     /* NULL, or only what follows their order */
    const char *mode;                   /* for what is said */
    sweep_place *place;                 /* NULL: host memory */
    struct weft_command_queues *queues; /* with place */
    const size_t *counts;
    size_t count_count;
};

void exec_sweep(const struct exec_sweep *sweep, uint32_t *random);
/* The same in a world of its own, at a short and a long count, in which nothing stays registered. What its ranks have moved. */
struct weft_exec_stats exec_sweep_world(const struct exec_world_options *world, sweep_place *place,
                                        struct weft_command_queues *queues, uint32_t *random);

#endif
