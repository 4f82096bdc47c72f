/* SPDX-License-Identifier: Apache-2.0 */
/* weft's kernels compiled as C. The fake libcuda.so.1 that has them computes: whatever the module holds, launches run these
 * (build/tests/fakes/drivers/kernels/libcuda.so.1). They take long to compile, so nothing else includes them. */
#include "tests/fakes/drivers/cuda_kernels.h"

#include <string.h>

#include "devmem/cuda/kernels.h"
#include "tests/fakes/drivers/cuda_fake_sim.h"
#include "tests/fakes/drivers/cuda_shim.h"

#include "devmem/cuda/reduce.cu"

#define ANY_ROW(name, ...)    [WEFT_KERNEL_##name] = weft_cuda_##name,
#define FIXED_ROW(name, n, f) [WEFT_KERNEL_##name##_##n] = weft_cuda_##name##_##n,
static shim_kernel *const kernels[WEFT_KERNEL_COLLECTIVES] = {WEFT_KERNEL_FAMILIES(ANY_ROW, ANY_ROW)
                                                                  WEFT_KERNEL_FIXED(FIXED_ROW)};

#define COLLECTIVE_ROW(name, ...) [WEFT_KERNEL_##name] = weft_cuda_##name##_collective,
static shim_collective *const collective_kernels[] = {WEFT_KERNEL_REDUCTIONS(COLLECTIVE_ROW, COLLECTIVE_ROW)};

void cuda_kernels_allow(const void *memory, size_t size, int writable)
{
    shim_allow(memory, size, writable);
}

void cuda_kernels_forbid(void)
{
    shim_span_count = 0;
}

void cuda_kernels_launch(int kernel, unsigned grid, unsigned block, const struct weft_kernel_batch *batch,
                         int backwards)
{
    shim_launch(kernels[kernel], grid, block, batch, backwards);
}

void cuda_kernels_launch_collective(int kernel, unsigned grid,
                                    const struct weft_kernel_collective *collective)
{
    shim_launch_collective(collective_kernels[kernel - WEFT_KERNEL_COLLECTIVES], grid, collective);
}

static int kernel_number(const char *name)
{
    int number = 0;
    while (strcmp(weft_kernel_name(number), name) != 0)
        number++;
    return number;
}

/* Both in a stream's thread. */
static void launch_named(const char *kernel, unsigned grid, unsigned block,
                         const struct weft_kernel_batch *batch)
{
    cuda_kernels_launch(kernel_number(kernel), grid, block, batch, 0);
}

static void launch_collective_named(const char *kernel, unsigned grid,
                                    const struct weft_kernel_collective *collective)
{
    cuda_kernels_launch_collective(kernel_number(kernel), grid, collective);
}

void sim_kernels_run(struct cuda_fake *fake)
{
    cuda_kernels_forbid();
    cuda_kernels_allow((void *)1, SIZE_MAX - 1, 1);
    fake->run = launch_named;
    fake->run_collective = launch_collective_named;
}
