/* SPDX-License-Identifier: Apache-2.0 */
/* The parameters of the kernels in devmem/cuda/reduce.cu. One is up to WEFT_KERNEL_PIECES pieces (devmem/kernels/piece.h) of one launch, which
 * devmem/cuda/kernels.c fills.
 *
 * The other one is a device collective, or as much of it as a parameter holds, which are 4 KiB: its steps (devmem/kernels/steps.h).
 */
#ifndef WEFT_DEVMEM_CUDA_PARAMETERS_H
#define WEFT_DEVMEM_CUDA_PARAMETERS_H

#include "devmem/kernels/piece.h"
#include "devmem/kernels/steps.h"

#define WEFT_KERNEL_RESIDENT 4 /* blocks that fit on a multiprocessor by their registers, at least */
#define WEFT_KERNEL_PIECES   16

struct weft_kernel_batch {
    struct weft_kernel_piece pieces[WEFT_KERNEL_PIECES];
    uint32_t piece_count;
    uint32_t reserved;
};

#define WEFT_KERNEL_COLLECTIVE_THREADS 512 /* of every block */
#define WEFT_KERNEL_COLLECTIVE_BLOCKS  8   /* at most */
#define WEFT_KERNEL_COLLECTIVE_WORDS   508
#define WEFT_KERNEL_MEETINGS           64 /* queues of a device whose device collectives may have several blocks */

struct weft_kernel_collective {
    uint32_t word_count;
    uint32_t meeting;     /* of the queue, below WEFT_KERNEL_MEETINGS; of no matter with one block */
    const uint64_t *stop; /* of the host */
    uint64_t words[WEFT_KERNEL_COLLECTIVE_WORDS];
};

#endif
