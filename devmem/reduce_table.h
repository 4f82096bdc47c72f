/* SPDX-License-Identifier: Apache-2.0 */
/* What one instruction set offers: filled in by devmem/reduce_kernel.h, compiled once per instruction set. */
#ifndef WEFT_DEVMEM_REDUCE_TABLE_H
#define WEFT_DEVMEM_REDUCE_TABLE_H

#include "devmem/reduce.h"

/* A pair that is not supported has no entry. */
struct weft_reduce_table {
    const char *isa;
    weft_reduce_function *kernels[WEFT_DTYPE_COUNT][WEFT_OP_COUNT];
    weft_reduce_function *streaming[WEFT_DTYPE_COUNT][WEFT_OP_COUNT];
    void (*copy_streaming)(void *destination, const void *source, size_t size);
};

extern const struct weft_reduce_table weft_reduce_portable;
extern const struct weft_reduce_table weft_reduce_avx2;   /* x86-64 only */
extern const struct weft_reduce_table weft_reduce_avx512; /* x86-64 only */

#endif
