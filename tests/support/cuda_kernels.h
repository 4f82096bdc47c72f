/* weft's kernels, compiled as C, for the stand-in of CUDA's driver (tests/drivers/cuda_fake.h). A program with this is linked with
 * -Wl,--wrap=weft_kernel_image: the library finds an image, and the stand-in loads anything. */
#ifndef WEFT_TESTS_CUDA_KERNELS_H
#define WEFT_TESTS_CUDA_KERNELS_H

#include "tests/drivers/cuda_fake.h"

/* Launches run from now on, in streams' threads. */
void cuda_kernels_run(struct cuda_fake *fake);

#endif
