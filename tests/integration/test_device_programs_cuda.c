/* SPDX-License-Identifier: Apache-2.0 */
/* build: wrap weft_kernel_image; beside drivers */
/* Collectives on memory of the kind "cuda" as programs of its kernels, between real ranks, with the stand-in for the driver
 * (tests/drivers/cuda_fake.h) and weft's kernels compiled as C. */
#include "tests/support/cuda_bench.h"
#include "tests/support/device_programs.h"

int main(void)
{
    const struct device_programs programs = {.bench = &cuda_bench, .many = 3};
    return device_programs_run(&programs);
}
