/* SPDX-License-Identifier: Apache-2.0 */
/* The stand-in for CUDA's driver (tests/drivers/cuda_fake.h) as a bench (device_seat.h), with weft's kernels compiled as C. For one file of a
 * program, as cuda_kernels.h is. */
#ifndef WEFT_TESTS_CUDA_BENCH_H
#define WEFT_TESTS_CUDA_BENCH_H

#include "tests/support/cuda_kernels.h"
#include "tests/support/cuda_scene.h"
#include "tests/support/cuda_streams.h"
#include "tests/support/device_seat.h"

static struct cuda_fake *cuda_bench_fake; /* in a process of ranks */
static int cuda_bench_apart;              /* the devices do not reach each other */

static int cuda_bench_begin(void)
{
    CHECK(scene_warm_up(&cuda_bench_fake) == NULL);
    cuda_kernels_run(cuda_bench_fake);
    cuda_bench_fake->has_peers = !cuda_bench_apart;
    return 0;
}

static int cuda_bench_left(const struct device_seat *seat)
{
    (void)seat;
    int memories = cuda_bench_fake->memories(), late_loads = cuda_bench_fake->late_loads();
    if (memories)
        fprintf(stderr, "left on the stand-in: %d times memory\n", memories);
    if (late_loads)
        fprintf(stderr, "kernels were loaded %d times while a stream waited\n", late_loads);
    return memories || late_loads;
}

static const struct device_bench cuda_bench = {
    .kind = "cuda", .begin = cuda_bench_begin, .streams = cuda_streams, .left = cuda_bench_left};

#endif
