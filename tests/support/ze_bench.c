/* SPDX-License-Identifier: Apache-2.0 */
/* build: needs ze */
#include "tests/support/ze_bench.h"

#include <stdio.h>
#include <stdlib.h>

#include "devmem/ze/ze.h"
#include "tests/support/ze_scene.h"
#include "tests/support/ze_streams.h"

static struct ze_fake *fake;

static int begin(int rank)
{
    (void)rank;
    fake = ze_scene_load();
    CHECK(fake);
    fake->device_count = 2;
    return 0;
}

static int begin_masked(int rank)
{
    CHECK(begin(rank) == 0);
    for (uint32_t i = 0; i < fake->device_count; i++)
        fake->devices[i].number = 1 + (uint32_t)rank * fake->device_count + i;
    return 0;
}

static int begin_addressed(int rank)
{
    CHECK(begin(rank) == 0);
    fake->numbers_by_address = 1;
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
    if (fake->copies_waited)
        fprintf(stderr, "%u copies waited in the driver\n", fake->copies_waited);
    return fake->violations || fake->allocations || fake->lists || fake->queues || fake->copies_waited;
}

static int check_imports(const struct device_seat *seat, int wanted)
{
    int is_right = (fake->imports > 0) == wanted;
    if (!is_right)
        fprintf(stderr, "memory of other processes was mapped %d times\n", fake->imports);
    return count_left(seat) || !is_right;
}

static int left_of_sharing(const struct device_seat *seat)
{
    return check_imports(seat, 1);
}

/* What comes from the others lies in pinned memory, and the devices reduce all the same. */
static int left_of_masked(const struct device_seat *seat)
{
    int reduces = fake->launches > 0 || !weft_ze_has_kernels();
    if (!reduces)
        fprintf(stderr, "no kernel has run\n");
    return check_imports(seat, 0) || !reduces;
}

static int begin_queues(int rank)
{
    CHECK(begin(rank) == 0);
    fake->no_immediate = 1;
    return 0;
}

static int begin_alone(int rank)
{
    CHECK(begin(rank) == 0);
    fake->one_at_a_time = 1;
    return setenv("WEFT_DEVICE_COLLECTIVE", "always", 1);
}

const struct device_bench ze_alone_bench = {.kind = "ze", .begin = begin_alone, .left = count_left};
const struct device_bench ze_bench = {
    .kind = "ze", .begin = begin, .streams = ze_streams, .left = count_left};
const struct device_bench ze_queues_bench = {
    .kind = "ze", .begin = begin_queues, .streams = ze_streams, .left = count_left};
const struct device_bench ze_sharing_bench = {.kind = "ze", .begin = begin, .left = left_of_sharing};
const struct device_bench ze_addressed_bench = {
    .kind = "ze", .begin = begin_addressed, .left = left_of_sharing};
const struct device_bench ze_masked_bench = {.kind = "ze", .begin = begin_masked, .left = left_of_masked};
