/* SPDX-License-Identifier: Apache-2.0 */
/* Data for the plan interpreter: what the callers' buffers hold, how they are laid out, and what a collective makes of
 * them; computed from the collective's meaning, without plans.
 *
 * An element carries several values side by side, each combined in its own way, so that one run checks them all:
 *   whole   64-bit sums modulo 2^64; finishing maps x to 3x + 7, so that it shows how often it was done
 *   real    float32 sums; finishing divides
 *   order   a hash that is neither commutative nor associative: the expression itself
 *   text    associative but not commutative (strings put together, as a polynomial's value): the order of operands
 *   bits    or: contributions that may come twice (barrier)
 * Memory that nobody has filled holds random values, and that outside of a rank's windows, or in the gaps between
 * unequal blocks, has to be as before in the end.
 */
#ifndef WEFT_TESTS_PLAN_DATA_H
#define WEFT_TESTS_PLAN_DATA_H

#include <stddef.h>
#include <stdint.h>

#include "algos/plan.h"

struct element {
    uint64_t whole, order, text, power, bits;
    float real;
    uint32_t zero; /* no padding: elements are compared as bytes */
};

/* Where each chunk lies in a buffer, in elements. */
struct layout {
    size_t *at, *size; /* by chunk */
    size_t total;
};

/* One rank's memory. In place, input and output are the same. */
struct plan_memory {
    struct layout input_layout, output_layout, temp_layout;
    struct element *input, *output, *temp, *cells;
    struct element *input_kept, *output_kept; /* as they were */
    size_t cell_size;
};

struct plan_data {
    uint32_t collective, ranks, chunks;
    int32_t root;
    int unequal;
    size_t count; /* elements; of blocks: in each block, at most where they are unequal */
    uint64_t seed, random;
    struct plan_memory *memories;
};

uint64_t plan_data_draw(struct plan_data *data);

/* Lays out and fills the memory of all ranks. */
void plan_data_open(struct plan_data *data, const struct weft_plan *const *plans, size_t count,
                    uint64_t seed);
void plan_data_close(struct plan_data *data);

/* Whether chunk belongs to the caller's buffer at rank. */
int plan_data_in_window(const struct plan_data *data, uint32_t rank, unsigned buffer, uint32_t chunk);

/* *sum = *sum op *right. */
void plan_data_combine(struct element *sum, const struct element *right);
void plan_data_finish(const struct plan_data *data, struct element *element);

/* NULL when every rank has what the collective promises; otherwise what is wrong. strict, ordered: in which order sums
 * must have been put together. */
const char *plan_data_judge(const struct plan_data *data, int strict, int ordered);

#endif
