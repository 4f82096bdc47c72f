/* SPDX-License-Identifier: Apache-2.0 */
/* The steps of a device collective, as a kernel is given them: one behind the other, each as many words of 64 bits as it needs:
 *
 *     SIGNAL, AWAIT    head, address of the word, value
 *     REDUCE, COPY     head, finish, count, vectors, destinations, sources
 *
 * The head has, from its lowest byte on: kind, number of sources, of destinations, head_bytes, flags. Count, vectors, head_bytes and
 * flags are a piece's (devmem/kernels/piece.h); without vectors head_bytes is 0 and means everything. A copy's elements are bytes.
 */
#ifndef WEFT_DEVMEM_KERNELS_STEPS_H
#define WEFT_DEVMEM_KERNELS_STEPS_H

#include "devmem/kernels/piece.h"

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

#endif
