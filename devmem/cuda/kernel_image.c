/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels, as nvcc made them of devmem/cuda/reduce.cu: the assembler puts the file's bytes here. */
#include "devmem/cuda/kernels.h"

__asm__(".pushsection .rodata.weft_kernel_image, \"a\"\n"
        ".balign 64\n"
        ".local weft_kernel_image_begin\n"
        "weft_kernel_image_begin:\n"
        ".incbin \"" WEFT_KERNEL_IMAGE "\"\n"
        ".local weft_kernel_image_end\n"
        "weft_kernel_image_end:\n"
        ".popsection\n");

extern const unsigned char weft_kernel_image_begin[] __attribute__((visibility("hidden")));
extern const unsigned char weft_kernel_image_end[] __attribute__((visibility("hidden")));

const void *weft_kernel_image(size_t *size)
{
    *size = (size_t)(weft_kernel_image_end - weft_kernel_image_begin);
    return weft_kernel_image_begin;
}
