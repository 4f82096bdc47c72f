/* SPDX-License-Identifier: Apache-2.0 */
/* The CUDA kernels that reduce and copy: their image, their names, and how one launch of them looks. Everything here is arithmetic
 * on the host; loading and launching are the backend's. docs/kernels.md describes the kernels.
 *
 * Use: load weft_kernel_image() once per context, look up weft_kernel_name(launch.kernel) in it (the first time it is
 * wanted), and launch it with launch.grid blocks of launch.block threads, no dynamic shared memory, and one parameter, launch.batch:
 *     void *parameters[] = {&launch.batch};
 *     cuLaunchKernel(function, launch.grid, 1, 1, launch.block, 1, 1, 0, stream, parameters, NULL);
 *
 * Pieces of one launch run in no order: none may write what another reads or writes.
 *
 * Ownership: nothing is allocated; the structs given may go when a call returns. Threads: any. Errors: a negative enum weft_status,
 * without a text.
 */
#ifndef WEFT_DEVMEM_CUDA_KERNELS_H
#define WEFT_DEVMEM_CUDA_KERNELS_H

#include <stddef.h>
#include <stdint.h>
#include <weft/device.h>

#include "devmem/cuda/parameters.h"
#include "devmem/kernels/pieces.h"

/* Numbers of the kernels, from 0 to WEFT_KERNEL_COUNT: first the families', for any number of sources, then those for a fixed number. From
 * WEFT_KERNEL_COLLECTIVES on those for device collectives, in the families' order. */
#define WEFT_KERNEL_FIXED_NUMBER(name, sources, in_flight) WEFT_KERNEL_##name##_##sources,
enum weft_kernel {
    WEFT_KERNEL_BEFORE_FIXED = WEFT_KERNEL_FAMILY_COUNT - 1,
    WEFT_KERNEL_FIXED(WEFT_KERNEL_FIXED_NUMBER) WEFT_KERNEL_COLLECTIVES,
    WEFT_KERNEL_COUNT = WEFT_KERNEL_COLLECTIVES + WEFT_KERNEL_copy /* the last family, which has none */
};
#undef WEFT_KERNEL_FIXED_NUMBER

/* What geometry depends on. */
struct weft_kernel_device {
    int multiprocessors;
    int major, minor; /* compute capability */
};

struct weft_kernel_launch {
    int kernel;           /* enum weft_kernel */
    uint32_t grid, block; /* in x; grid 0: nothing to do, and nothing may be launched */
    struct weft_kernel_batch batch;
};

/* As the other: one parameter, device collective. meeting and stop are for the caller to fill in. */
struct weft_kernel_collective_launch {
    int kernel;
    uint32_t grid, block;
    struct weft_kernel_collective collective;
};

struct weft_kernel_copy {
    void *destination;
    const void *source;
    uint64_t size; /* bytes */
};

/* One launch for as many of the reductions, from the first on, as fit in: of the same family of kernels, and no more than
 * WEFT_KERNEL_PIECES that are not empty. Returns how many (at least 1), or of the first one: WEFT_UNSUPPORTED when its type and
 * operation do not exist (as weft_reduce_find() has it), when it has a scalar and is neither sum nor avg, or when the device's compute
 * capability is below 8.0; WEFT_INVALID for a struct of an older size, or a number of sources or destinations out of range. The
 * launch is undefined then. */
int weft_kernel_reduce(struct weft_kernel_launch *launch, const struct weft_kernel_device *device,
                       const struct weft_device_reduction *reductions, size_t count);

/* Likewise one launch for copies. Memory may not overlap. */
int weft_kernel_copy(struct weft_kernel_launch *launch, const struct weft_kernel_device *device,
                     const struct weft_kernel_copy *copies, size_t count);

/* One launch for as many of the device collective's steps, from number first on, as fit into a parameter; returns how many (at least 1), or
 * WEFT_UNSUPPORTED as above. Steps are well-formed and memory is within reach: that is the caller's to see to. Launches of one device collective in
 * one stream follow each other as its steps do. */
int weft_kernel_collective(struct weft_kernel_collective_launch *launch,
                           const struct weft_kernel_device *device,
                           const struct weft_device_collective *collective, uint32_t first);

/* The name by which the image has a kernel; NULL out of range. */
const char *weft_kernel_name(int kernel);

/* What cuModuleLoadData() takes, with kernels for compute capability 8.0 and 9.0 and as PTX for later ones; NULL in a library that
 * was built without nvcc. Lives for ever. */
const void *weft_kernel_image(size_t *size);

#endif
