/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/cuda_bench.h"

#include <stdio.h>

#include "tests/support/cuda_streams.h"

struct cuda_fake *cuda_bench_fake;

static int begin(int rank)
{
    (void)rank;
    scene_computes = 1;
    CHECK(scene_warm_up(&cuda_bench_fake) == NULL);
    return 0;
}

static int begin_apart(int rank)
{
    CHECK(begin(rank) == 0);
    cuda_bench_fake->has_peers = 0;
    return 0;
}

static int count_left(const struct device_seat *seat)
{
    (void)seat;
    int memories = cuda_bench_fake->memories(), late_loads = cuda_bench_fake->late_loads();
    if (memories)
        fprintf(stderr, "left on the fake: %d times memory\n", memories);
    if (late_loads)
        fprintf(stderr, "kernels were loaded %d times while a stream waited\n", late_loads);
    return memories || late_loads;
}

const struct device_bench cuda_bench = {
    .kind = "cuda", .begin = begin, .streams = cuda_streams, .left = count_left};
const struct device_bench cuda_bench_apart = {
    .kind = "cuda", .begin = begin_apart, .streams = cuda_streams, .left = count_left};
