/* Reductions one element at a time, written from the contract in devmem/reduce.h alone, and data to try them
 * on. Elements are bit patterns in the low bits of a uint64_t.
 */
#ifndef WEFT_TESTS_REDUCE_REFERENCE_H
#define WEFT_TESTS_REDUCE_REFERENCE_H

#include <stddef.h>
#include <stdint.h>
#include <weft/weft.h>

#define REFERENCE_TYPES 4
#define REFERENCE_ISAS  3

extern const weft_dtype reference_types[REFERENCE_TYPES];
extern const char *const reference_isas[REFERENCE_ISAS];

/* Whether the instruction set runs here. Says once which ones do not. */
int reference_isa_runs(const char *isa);

/* ((s0 op s1) op s2) ..., divided by finish if not 0, as one element. */
uint64_t reference_reduce(weft_dtype dtype, weft_op op, const uint64_t *elements, int count, uint32_t finish);

/* The elements worth trying in all combinations: zeros, denormals, extremes, infinities, NaNs of all kinds.
 */
size_t reference_specials(weft_dtype dtype, const uint64_t **bits);

/* A well-mixed 64-bit number; changes the state. */
uint64_t reference_random(uint64_t *state);

/* An element: often ordinary, sometimes special, sometimes any bits at all. */
uint64_t reference_element(weft_dtype dtype, uint64_t *state);

/* Element i of an array without any alignment. */
uint64_t reference_get(weft_dtype dtype, const void *array, size_t i);
void reference_set(weft_dtype dtype, void *array, size_t i, uint64_t bits);

/* The value of an element as float64 (exact for every type here). */
double reference_value(weft_dtype dtype, uint64_t bits);

#endif
