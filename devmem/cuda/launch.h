/* SPDX-License-Identifier: Apache-2.0 */
/* Reductions and device collectives by weft's kernels (devmem/cuda/kernels.h). Private to devmem/cuda/. */
#ifndef WEFT_DEVMEM_CUDA_LAUNCH_H
#define WEFT_DEVMEM_CUDA_LAUNCH_H

#include "devmem/cuda/cuda.h"
#include "devmem/cuda/kernels.h"

/* A device's, for all that use it in the process. */
struct weft_cuda_launcher {
    int users;          /* ordinals of kinds that are open */
    cuda_module module; /* NULL: not loaded, for the reason below */
    int status;
    char text[2 * WEFT_CUDA_TEXT];
    struct weft_kernel_device geometry;
    atomic_ullong meetings; /* bit per place that is taken */
    cuda_function functions[WEFT_KERNEL_COUNT];
};

/* The launcher of a queue's device, with its kernels loaded; NULL with the status and text of why not. */
struct weft_cuda_launcher *weft_cuda_launcher(struct weft_device_queue *queue, int *status);
/* Queues a launch of blocks with one parameter. */
int weft_cuda_launch(struct weft_device_queue *queue, struct weft_cuda_launcher *launcher, int kernel,
                     uint32_t grid, uint32_t block, void *parameter);
/* Whether kernels of the queue's device may touch the memory at the pointer, and what covers it. A failure's text begins with prefix. */
int weft_cuda_check_reach(struct weft_device_queue *queue, const void *pointer, const char *prefix,
                          struct weft_device_span *span);

/* Whether the library was built with kernels. */
int weft_cuda_has_kernels(void);
/* And whether the device runs those for device collectives. */
int weft_cuda_has_collectives(struct weft_device *device, int ordinal);

/* Loads the kernels into the current context, the ordinal's, unless that has been tried in this process. What fails is reported by
 * reduce. */
void weft_cuda_launcher_open(struct weft_device *device, int ordinal);
/* Has no more use for them; the last one unloads them, when the ordinal's context is there and current. */
void weft_cuda_launcher_close(struct weft_device *device, int ordinal, int is_there);

/* A place for the blocks of a queue's device collectives to meet, -1 when there is none; given back when none of them runs any more. */
int weft_cuda_meeting_take(struct weft_device *device, int ordinal);
void weft_cuda_meeting_give(struct weft_device *device, int ordinal, int meeting);

int weft_cuda_reduce(struct weft_device_queue *queue, const struct weft_device_reduction *reduction);
int weft_cuda_run(struct weft_device_queue *queue, const struct weft_device_collective *collective);

#endif
