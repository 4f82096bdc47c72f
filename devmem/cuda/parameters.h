/* SPDX-License-Identifier: Apache-2.0 */
/* The parameters of the kernels in devmem/cuda/reduce.cu. One is up to WEFT_KERNEL_PIECES reductions, or copies, of one launch.
 * devmem/cuda/kernels.c fills it, so that no kernel decides anything about alignment.
 *
 * A piece's elements lie in three parts: a head up to where the destinations are aligned to 16 bytes, whole vectors of 16 bytes, and
 * a tail. Head and tail go element by element. Sources need not be aligned where the destinations are: then a vector is put together
 * from the two aligned ones around it, both within the source. Where no address can be brought to alignment everything is head.
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

#include <stdint.h>

#define WEFT_KERNEL_THREADS      256 /* of every block */
#define WEFT_KERNEL_RESIDENT     4   /* blocks that fit on a multiprocessor by their registers, at least */
#define WEFT_KERNEL_PIECES       16
#define WEFT_KERNEL_SOURCES      8
#define WEFT_KERNEL_VECTOR_BYTES 16

enum weft_kernel_flags {
    WEFT_KERNEL_SCALED = 1 << 0, /* sources[0] is multiplied by scalar */
    WEFT_KERNEL_BYTEWISE =
        1 << 1, /* some address is not aligned to the elements: head and tail go byte by byte */
};

struct weft_kernel_piece {
    const unsigned char *sources[WEFT_KERNEL_SOURCES];
    unsigned char *destinations[2]; /* the second may be NULL */
    uint64_t count;                 /* elements, of the family's edge bits */
    uint64_t head_bytes;            /* whole elements */
    uint64_t vectors;
    uint64_t scalar[2]; /* the bits of an element, from the lowest on */
    uint32_t source_count;
    uint32_t finish;
    uint32_t flags;
    uint32_t first_block; /* of the launch: the piece has those up to the next one's */
};

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
