/* The parameter of every kernel in devmem/cuda/reduce.cu: up to WEFT_KERNEL_PIECES reductions, or copies, of one launch.
 * devmem/cuda/kernels.c fills it, so that no kernel decides anything about alignment.
 *
 * A piece's elements lie in three parts: a head up to where the destinations are aligned to 16 bytes, whole vectors of 16 bytes, and
 * a tail. Head and tail go element by element. Sources need not be aligned where the destinations are: then a vector is put together
 * from the two aligned ones around it, both within the source. Where no address can be brought to alignment everything is head.
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

#endif
