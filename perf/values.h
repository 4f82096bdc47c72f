/* SPDX-License-Identifier: Apache-2.0 */
/* The values of weft-perf's test data, one element at a time: what a rank contributes at a position, and what the
 * reduction of all ranks' contributions is to the last bit. values.c says how they are chosen. */
#ifndef WEFT_PERF_VALUES_H
#define WEFT_PERF_VALUES_H

#include <stddef.h>
#include <weft/weft.h>

enum {
    PERF_OP_NONE = -1,       /* data that are only moved: any bits */
    PERF_ELEMENT_BYTES = 16, /* no type's elements are larger */
};

/* The operation's name; "none" where there is none. */
const char *perf_op_name(int op);

/* What rank contributes. */
void perf_value_input(weft_dtype dtype, int op, int rank, int ranks, size_t position, unsigned char *at);

/* What all ranks get; op is not PERF_OP_NONE. */
void perf_value_reduced(weft_dtype dtype, int op, int ranks, size_t position, unsigned char *at);

/* A value that stays what it is however often it is reduced. */
void perf_value_fixed(weft_dtype dtype, int op, unsigned char *at);

#endif
