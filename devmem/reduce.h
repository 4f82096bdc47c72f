/* SPDX-License-Identifier: Apache-2.0 */
/* Reductions on host memory: one vectorised pass over any number of inputs. docs/types.md has the table of types
 * and operations; a pair that is not in it has no kernel.
 *
 * Arithmetic. Float types follow IEEE 754 in their accumulator type (float32 for the types of 8 and 16 bits, the
 * type itself otherwise), evaluated left to right over the sources: ((s0 op s1) op s2) ..., no fused
 * multiply-add, then rounded once (to nearest even) to the element type. float16 and bfloat16 overflow to
 * infinity; float8 saturates at its largest number, 448 or 57344, except that infinities which came into e5m2
 * stay. Integers wrap. min/max propagate NaN and order -0 below +0. A NaN result is always the positive quiet NaN
 * without payload (e4m3: 0x7f). avg adds here and, where finish is given, divides by it: floats by a correctly
 * rounded division in the accumulator type before the only rounding, integers truncating toward zero. Complex
 * numbers are added and divided part by part; their product is (ac - bd) + (ad + bc)i, each product and sum
 * rounded, without the special cases of C's Annex G: an infinity times a number may have NaN parts. bool: any byte
 * but 0 is true; results are 0 or 1.
 *
 * Identical bits on every instruction set: portable, AVX2 (with F16C), AVX-512, aarch64; the best is picked once at
 * run time (WEFT_ISA=portable|avx2|avx512 overrides, for tests). The caller's rounding mode and flushing of
 * denormals play no part; floating-point traps that a caller enabled may fire. Threads: any. destination may equal
 * one of the sources, or not overlap it at all.
 */
#ifndef WEFT_DEVMEM_REDUCE_H
#define WEFT_DEVMEM_REDUCE_H

#include <stddef.h>
#include <stdint.h>
#include <weft/weft.h>

#define WEFT_REDUCE_SOURCES_MAX 8

/* destination[i] = sources[0][i] op sources[1][i] op ... for i in [0, count). */
typedef void weft_reduce_function(void *destination, const void *const *sources, int source_count,
                                  size_t count, uint32_t finish);

/* The kernel for a type and operation, NULL when the pair is not supported. finish: 0, or the number of ranks
 * to divide by (avg's last step). source_count is 1 to WEFT_REDUCE_SOURCES_MAX (1: copy, canonicalising NaN
 * and dividing by finish). */
weft_reduce_function *weft_reduce_find(weft_dtype dtype, weft_op op);

/* The same from one named instruction set ("portable", "avx2", "avx512"); NULL when this machine lacks it. */
weft_reduce_function *weft_reduce_find_isa(const char *isa, weft_dtype dtype, weft_op op);

/* The same with streaming stores: results go past the caches to memory. Pays where the destination is not
 * read again before it would leave the cache, and is not one of the sources; slower otherwise. The bits are
 * the same. */
weft_reduce_function *weft_reduce_find_streaming(weft_dtype dtype, weft_op op);
weft_reduce_function *weft_reduce_find_streaming_isa(const char *isa, weft_dtype dtype, weft_op op);

/* destination[i] = source[i] * scalar, as prod of the two gives it: rounded once, integers wrap. scalar points to
 * one element. destination may equal source. WEFT_UNSUPPORTED, with no detail, for bool. */
int weft_scale(weft_dtype dtype, void *destination, const void *source, size_t count, const void *scalar);

/* Name of the instruction set in use. */
const char *weft_reduce_isa(void);

/* Copies size bytes, with streaming stores where the size makes the destination useless in cache. */
void weft_copy(void *destination, const void *source, size_t size);

/* Copies size bytes with streaming stores: for pieces of a buffer that is larger than the caches, or whose reader shares none. They have arrived when it returns. */
void weft_copy_streaming(void *destination, const void *source, size_t size);

#endif
