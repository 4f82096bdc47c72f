/* SPDX-License-Identifier: Apache-2.0 */
/* Test data whose outcome is known to the last bit, whatever the order of the additions.
 *
 * A pattern of PERF_PATTERN elements (a prime, so that no power-of-two displacement maps it onto itself)
 * depends on position and rank; buffers hold it over and over, starting at a shift that differs from call to
 * call, so that a result left over from an earlier call does not pass. What is expected is computed from the ranks'
 * patterns without weft. values.h has the elements.
 */
#ifndef WEFT_PERF_DATA_H
#define WEFT_PERF_DATA_H

#include <stddef.h>
#include <stdint.h>
#include <weft/weft.h>

#include "perf/values.h"

enum { PERF_PATTERN = 16381, PERF_REDUCED = -1 };

struct perf_data {
    weft_dtype dtype;
    int op; /* or PERF_OP_NONE */
    int rank, ranks;
    size_t element_bytes;
    unsigned char *input;    /* PERF_PATTERN elements: this rank's contribution */
    unsigned char *expected; /* PERF_PATTERN elements: the reduction; NULL with PERF_OP_NONE */
    unsigned char *other;    /* PERF_PATTERN elements: room for some of another rank's contribution */
};

/* 0, or -1 when out of memory or the type is unknown. End with perf_data_release(). */
int perf_data_prepare(struct perf_data *data, weft_dtype dtype, int op, int rank, int ranks);
void perf_data_release(struct perf_data *data);

/* Fills count elements with this rank's contribution, from position on. */
void perf_data_fill(const struct perf_data *data, size_t position, void *buffer, size_t count);

/* Fills count elements with values that stay what they are however often they are reduced in place, so that
 * timed loops in place neither overflow nor meet subnormal numbers. */
void perf_data_fill_fixed(const struct perf_data *data, void *buffer, size_t count);

/* How many of count elements differ in at least one bit from what source contributed from position on, or, where
 * source is PERF_REDUCED, from the reduction. */
uint64_t perf_data_check(const struct perf_data *data, int source, size_t position, const void *buffer,
                         size_t count);

#endif
