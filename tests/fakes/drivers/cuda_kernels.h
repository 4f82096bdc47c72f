/* SPDX-License-Identifier: Apache-2.0 */
/* weft's kernels compiled as C, for whoever runs them thread by thread. Kernels are called by their number (enum weft_kernel). */
#ifndef WEFT_TESTS_DRIVERS_CUDA_KERNELS_H
#define WEFT_TESTS_DRIVERS_CUDA_KERNELS_H

#include <stddef.h>

struct weft_kernel_batch;
struct weft_kernel_collective;

/* Memory that kernels may read, or write too, to the byte; a kernel that goes elsewhere ends the process. */
void cuda_kernels_allow(const void *memory, size_t size, int writable);
/* All that was allowed. */
void cuda_kernels_forbid(void);

/* All threads one after the other, the last one first where backwards is set. */
void cuda_kernels_launch(int kernel, unsigned grid, unsigned block, const struct weft_kernel_batch *batch,
                         int backwards);
void cuda_kernels_launch_collective(int kernel, unsigned grid,
                                    const struct weft_kernel_collective *collective);

#endif
