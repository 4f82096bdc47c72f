/* SPDX-License-Identifier: Apache-2.0 */
/* The parameters of the kernels in devmem/cuda/reduce.cu. One is up to WEFT_KERNEL_PIECES pieces (devmem/kernels/piece.h) of one launch, which
 * devmem/cuda/kernels.c fills.
 *
 * The other one is a device collective, or as much of it as a parameter holds, which are 4 KiB. Its steps lie one behind the other, each as many
 * words of 64 bits as it needs:
 *
 *     SIGNAL, AWAIT    head, address of the word, value
 *     REDUCE, COPY     head, finish, count, vectors, destinations, sources
 *
 * The head has, from its lowest byte on: kind, number of sources, of destinations, head_bytes, flags. Count, vectors, head_bytes and
 * flags are a piece's; without vectors head_bytes is 0 and means everything. A copy's elements are bytes.
 */
#ifndef WEFT_DEVMEM_CUDA_PARAMETERS_H
#define WEFT_DEVMEM_CUDA_PARAMETERS_H

#include "devmem/kernels/piece.h"

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

enum weft_kernel_step_kind {
    WEFT_KERNEL_STEP_END = 0,
    WEFT_KERNEL_STEP_REDUCE = 1,
    WEFT_KERNEL_STEP_COPY = 2,
    WEFT_KERNEL_STEP_SIGNAL = 3,
    WEFT_KERNEL_STEP_AWAIT = 4,
};

/* Of a step's head: */
#define WEFT_KERNEL_STEP_KIND(head)         ((uint32_t)(head)&0xff)
#define WEFT_KERNEL_STEP_SOURCES(head)      ((uint32_t)((head) >> 8) & 0xff)
#define WEFT_KERNEL_STEP_DESTINATIONS(head) ((uint32_t)((head) >> 16) & 0xff)
#define WEFT_KERNEL_STEP_HEAD(head)         ((uint32_t)((head) >> 24) & 0xff)
#define WEFT_KERNEL_STEP_FLAGS(head)        ((uint32_t)((head) >> 32) & 0xff)
#define WEFT_KERNEL_STEP_WORDS              4 /* of a REDUCE or COPY, before its addresses */
#define WEFT_KERNEL_STEP_LENGTH(head)                                                                        \
    (WEFT_KERNEL_STEP_KIND(head) >= WEFT_KERNEL_STEP_SIGNAL                                                  \
         ? 3U                                                                                                \
         : WEFT_KERNEL_STEP_WORDS + WEFT_KERNEL_STEP_SOURCES(head) + WEFT_KERNEL_STEP_DESTINATIONS(head))

struct weft_kernel_collective {
    uint32_t word_count;
    uint32_t meeting;     /* of the queue, below WEFT_KERNEL_MEETINGS; of no matter with one block */
    const uint64_t *stop; /* of the host */
    uint64_t words[WEFT_KERNEL_COLLECTIVE_WORDS];
};

#endif
