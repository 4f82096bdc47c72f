/* SPDX-License-Identifier: Apache-2.0 */
/* A library that was built without nvcc has no kernels. */
#include "devmem/cuda/kernels.h"

const void *weft_kernel_image(size_t *size)
{
    *size = 0;
    return NULL;
}
