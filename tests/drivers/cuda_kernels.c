/* SPDX-License-Identifier: Apache-2.0 */
/* The stand-in for libcuda.so.1 with weft's kernels compiled as C, for programs that find it as their driver: whatever the module holds, launches
 * run these (build/tests/drivers/kernels/libcuda.so.1). */
#include "tests/support/cuda_kernels.h"
#include "tests/drivers/cuda_fake_sim.h"

void sim_kernels_run(void)
{
    cuda_kernels_run(&cuda_fake);
}
