/* Reductions by weft's kernels (devmem/cuda/kernels.h). Private to devmem/cuda/. */
#ifndef WEFT_DEVMEM_CUDA_LAUNCH_H
#define WEFT_DEVMEM_CUDA_LAUNCH_H

#include "devmem/cuda/cuda.h"

/* Whether the library was built with kernels. */
int weft_cuda_has_kernels(void);

/* Loads the kernels into the current context, the ordinal's, unless that has been tried. What fails is told by reduce. */
void weft_cuda_launcher_open(struct weft_device *device, int ordinal);
/* Forgets them; unloads them, when the ordinal's context is there and current. */
void weft_cuda_launcher_close(struct weft_device *device, int ordinal, int is_there);

int weft_cuda_reduce(struct weft_device_queue *queue, const struct weft_device_reduction *reduction);

#endif
