/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/ze_bench.h"

#include <stdio.h>

#include "tests/support/ze_scene.h"

static struct ze_fake *fake;

static int begin(void)
{
    fake = ze_scene_load();
    CHECK(fake);
    fake->device_count = 2;
    return 0;
}

static int count_left(const struct device_seat *seat)
{
    (void)seat;
    if (fake->violations)
        fprintf(stderr, "%u calls that are forbidden, the first: %s\n", fake->violations,
                fake->first_violation);
    if (fake->allocations || fake->lists || fake->queues)
        fprintf(stderr, "left on the fake: %d allocations, %d command lists\n", fake->allocations,
                fake->lists);
    return fake->violations || fake->allocations || fake->lists || fake->queues;
}

const struct device_bench ze_bench = {.kind = "ze", .begin = begin, .left = count_left};
