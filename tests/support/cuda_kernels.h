/* SPDX-License-Identifier: Apache-2.0 */
/* weft's kernels, compiled as C, for the stand-in of CUDA's driver (tests/drivers/cuda_fake.h). For one file of a program that is
 * linked with -Wl,--wrap=weft_kernel_image: the library finds an image, and the stand-in loads anything. */
#ifndef WEFT_TESTS_CUDA_KERNELS_H
#define WEFT_TESTS_CUDA_KERNELS_H

#include <string.h>

#include "devmem/cuda/kernels.h"
#include "tests/drivers/cuda_fake.h"
#include "tests/support/cuda_shim.h"

#include "devmem/cuda/reduce.cu"

#define ANY_ROW(name, ...)    [WEFT_KERNEL_##name] = weft_cuda_##name,
#define FIXED_ROW(name, n, f) [WEFT_KERNEL_##name##_##n] = weft_cuda_##name##_##n,
static shim_kernel *const kernels[WEFT_KERNEL_PROGRAMS] = {WEFT_KERNEL_FAMILIES(ANY_ROW, ANY_ROW)
                                                               WEFT_KERNEL_FIXED(FIXED_ROW)};

#define PROGRAM_ROW(name, ...) [WEFT_KERNEL_##name] = weft_cuda_##name##_program,
static shim_program *const program_kernels[] = {WEFT_KERNEL_REDUCTIONS(PROGRAM_ROW, PROGRAM_ROW)};

const void *__wrap_weft_kernel_image(size_t *size);
const void *__wrap_weft_kernel_image(size_t *size)
{
    *size = 5;
    return "image";
}

static int kernel_number(const char *name)
{
    int number = 0;
    while (strcmp(weft_kernel_name(number), name) != 0)
        number++;
    return number;
}

/* Both in a stream's thread. */
static void launch_kernel(const char *kernel, unsigned grid, unsigned block,
                          const struct weft_kernel_batch *batch)
{
    shim_launch(kernels[kernel_number(kernel)], grid, block, batch, 0);
}

static void launch_program(const char *kernel, unsigned grid, const struct weft_kernel_program *program)
{
    shim_launch_program(program_kernels[kernel_number(kernel) - WEFT_KERNEL_PROGRAMS], grid, program);
}

/* Launches run from now on, in streams' threads. */
static inline void cuda_kernels_run(struct cuda_fake *fake)
{
    shim_allow((void *)1, SIZE_MAX - 1, 1);
    fake->run = launch_kernel;
    fake->run_program = launch_program;
}

#endif
