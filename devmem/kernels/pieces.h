/* SPDX-License-Identifier: Apache-2.0 */
/* From a reduction to what a kernel is given: the family that computes it, and where the head, vectors and tail lie. Arithmetic on the host, for all
 * kinds of devices that have kernels; launching is theirs. docs/kernels.md describes the kernels.
 *
 * Ownership: nothing is allocated; the structs given may go when a call returns. Threads: any. Errors: a negative enum weft_status,
 * without a text.
 */
#ifndef WEFT_DEVMEM_KERNELS_PIECES_H
#define WEFT_DEVMEM_KERNELS_PIECES_H

#include <stddef.h>
#include <stdint.h>
#include <weft/device.h>

#include "devmem/kernels/families.h"
#include "devmem/kernels/piece.h"
#include "devmem/kernels/steps.h"

/* Numbers of the families. */
#define WEFT_KERNEL_FAMILY_NUMBER(name, ...) WEFT_KERNEL_##name,
enum weft_kernel_family {
    WEFT_KERNEL_FAMILIES(WEFT_KERNEL_FAMILY_NUMBER, WEFT_KERNEL_FAMILY_NUMBER) WEFT_KERNEL_FAMILY_COUNT
};
#undef WEFT_KERNEL_FAMILY_NUMBER

/* The family of a type and operation; WEFT_UNSUPPORTED when they do not exist (as weft_reduce_find() has it). */
int weft_kernel_family(weft_dtype dtype, weft_op op);
/* The same of a reduction: WEFT_UNSUPPORTED also when it has a scalar and is neither sum nor avg; WEFT_INVALID for a struct of an older
 * size, or a number of sources or destinations out of range. */
int weft_kernel_family_of(const struct weft_device_reduction *reduction);
/* Bytes that a family goes by outside of whole vectors. */
size_t weft_kernel_edge_bytes(int family);

/* Fills a piece whose memory is all 0 with a reduction of that family. */
void weft_kernel_piece_reduce(struct weft_kernel_piece *piece, const struct weft_device_reduction *reduction,
                              int family);
/* Lays out head, vectors and tail of size bytes for what goes by edge bytes: all but sources and destinations follows from them. */
void weft_kernel_piece_lay_out(struct weft_kernel_piece *piece, size_t edge, uint64_t size);
/* Threads that a piece keeps busy with one step each. */
uint64_t weft_kernel_piece_steps(const struct weft_kernel_piece *piece);

/* A step of a device collective as words for a kernel of that family (devmem/kernels/steps.h): how many, at most WEFT_KERNEL_STEP_WORDS_MAX;
 * 0 for one without elements. Steps are well-formed. */
#define WEFT_KERNEL_STEP_WORDS_MAX                                                                           \
    (WEFT_KERNEL_STEP_WORDS + WEFT_DEVICE_SOURCES_MAX + WEFT_DEVICE_DESTINATIONS_MAX)
uint32_t weft_kernel_step_encode(uint64_t *words, const struct weft_device_collective *collective,
                                 const struct weft_device_step *step, int family);

#endif
