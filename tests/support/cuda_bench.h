/* SPDX-License-Identifier: Apache-2.0 */
/* The fake CUDA driver (tests/fakes/drivers/cuda_fake.h) as a bench (device_seat.h), with weft's kernels compiled as C. For programs that
 * are linked with --wrap=weft_kernel_image (cuda_scene.h). */
#ifndef WEFT_TESTS_CUDA_BENCH_H
#define WEFT_TESTS_CUDA_BENCH_H

#include "tests/support/cuda_scene.h"
#include "tests/support/device_seat.h"

extern struct cuda_fake *cuda_bench_fake; /* in a process of ranks */

/* The second one's devices do not reach each other. */
extern const struct device_bench cuda_bench, cuda_bench_apart;

#endif
