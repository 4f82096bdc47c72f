/* SPDX-License-Identifier: Apache-2.0 */
/* What one kernel does, as the host has laid it out (devmem/kernels/pieces.h), so that no kernel decides anything about alignment.
 *
 * A piece's elements lie in three parts: a head up to where the destinations are aligned to 16 bytes, whole vectors of 16 bytes, and
 * a tail. Head and tail go element by element. Sources need not be aligned where the destinations are: then a vector is put together
 * from the two aligned ones around it, both within the source. Where no address can be brought to alignment everything is head.
 */
#ifndef WEFT_DEVMEM_KERNELS_PIECE_H
#define WEFT_DEVMEM_KERNELS_PIECE_H

#include "devmem/kernels/language.h"

#define WEFT_KERNEL_THREADS      256 /* of every block */
#define WEFT_KERNEL_SOURCES      8
#define WEFT_KERNEL_VECTOR_BYTES 16

enum weft_kernel_flags {
    WEFT_KERNEL_SCALED = 1 << 0, /* sources[0] is multiplied by scalar */
    WEFT_KERNEL_BYTEWISE =
        1 << 1, /* some address is not aligned to the elements: head and tail go byte by byte */
};

struct weft_kernel_piece {
    const WEFT_GLOBAL unsigned char *sources[WEFT_KERNEL_SOURCES];
    WEFT_GLOBAL unsigned char *destinations[2]; /* the second may be NULL */
    uint64_t count;                             /* elements, of the family's edge bits */
    uint64_t head_bytes;                        /* whole elements */
    uint64_t vectors;
    uint64_t scalar[2]; /* the bits of an element, from the lowest on */
    uint32_t source_count;
    uint32_t finish;
    uint32_t flags;
    uint32_t first_block; /* of a launch of several pieces: this one has those up to the next one's */
};

#endif
