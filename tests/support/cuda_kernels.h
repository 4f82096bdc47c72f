/* weft's kernels, compiled as C, for the stand-in of CUDA's driver (tests/drivers/cuda_fake.h). For one file of a program that is
 * linked with -Wl,--wrap=weft_kernel_image: the library finds an image, and the stand-in loads anything. */
#ifndef WEFT_TESTS_CUDA_KERNELS_H
#define WEFT_TESTS_CUDA_KERNELS_H

#include <pthread.h>
#include <string.h>

#include "devmem/cuda/kernels.h"
#include "tests/drivers/cuda_fake.h"
#include "tests/support/cuda_shim.h"

#include "devmem/cuda/reduce.cu"

#define ANY_ROW(name, ...)    [WEFT_KERNEL_##name] = weft_cuda_##name,
#define FIXED_ROW(name, n, f) [WEFT_KERNEL_##name##_##n] = weft_cuda_##name##_##n,
static shim_kernel *const kernels[WEFT_KERNEL_COUNT] = {WEFT_KERNEL_FAMILIES(ANY_ROW, ANY_ROW)
                                                            WEFT_KERNEL_FIXED(FIXED_ROW)};

const void *__wrap_weft_kernel_image(size_t *size);
const void *__wrap_weft_kernel_image(size_t *size)
{
    *size = 5;
    return "image";
}

/* In a stream's thread; the shim's threads and blocks are common to all. */
static void launch_kernel(const char *kernel, unsigned grid, unsigned block,
                          const struct weft_kernel_batch *batch)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < WEFT_KERNEL_COUNT; i++) {
        if (strcmp(weft_kernel_name(i), kernel) == 0)
            shim_launch(kernels[i], grid, block, batch, 0);
    }
    pthread_mutex_unlock(&lock);
}

/* Launches run from now on, in streams' threads. */
static inline void cuda_kernels_run(struct cuda_fake *fake)
{
    shim_allow((void *)1, SIZE_MAX - 1, 1);
    fake->run = launch_kernel;
}

#endif
