/* SPDX-License-Identifier: Apache-2.0 */
/* Reductions one element at a time, written from the contract in devmem/reduce.h alone, and data to try them
 * on. Elements are bit patterns, right-aligned.
 */
#ifndef WEFT_TESTS_REDUCE_REFERENCE_H
#define WEFT_TESTS_REDUCE_REFERENCE_H

#include <stddef.h>
#include <stdint.h>
#include <weft/weft.h>

#define REFERENCE_TYPES WEFT_DTYPE_COUNT
#define REFERENCE_ISAS  3

/* Wide enough for complex128. */
typedef unsigned __int128 reference_bits;

extern const weft_dtype reference_types[REFERENCE_TYPES];
extern const char *const reference_isas[REFERENCE_ISAS];

/* Whether the instruction set runs here. Says once which ones do not. */
int reference_isa_runs(const char *isa);

/* Whether the operation exists for the type. */
int reference_pair(weft_dtype dtype, weft_op op);

/* ((s0 op s1) op s2) ..., divided by finish if not 0, as one element. */
reference_bits reference_reduce(weft_dtype dtype, weft_op op, const reference_bits *elements, int count,
                                uint32_t finish);

/* The elements worth trying in all combinations: zeros, denormals, extremes, infinities, NaNs of all kinds. At
 * most REFERENCE_SPECIALS. */
#define REFERENCE_SPECIALS 24
size_t reference_specials(weft_dtype dtype, reference_bits bits[REFERENCE_SPECIALS]);

/* A well-mixed 64-bit number; changes the state. */
uint64_t reference_random(uint64_t *state);

/* An element: often ordinary, sometimes special, sometimes any bits at all. */
reference_bits reference_element(weft_dtype dtype, uint64_t *state);

/* Element i of an array without any alignment. */
reference_bits reference_get(weft_dtype dtype, const void *array, size_t i);
void reference_set(weft_dtype dtype, void *array, size_t i, reference_bits bits);

/* The value of an element that is no complex number as float64 (exact but for integers of 64 bits). */
double reference_value(weft_dtype dtype, reference_bits bits);

/* The element of a float type nearest to a value, by the rules for a result. */
reference_bits reference_round(weft_dtype dtype, double value);

#endif
