/* Test data whose reduction is known to the last bit, whatever the order of the additions.
 *
 * A pattern of PERF_PATTERN elements (a prime, so that no power-of-two displacement maps it onto itself)
 * depends on position and rank; buffers hold it over and over, starting at a shift that differs from call to
 * call, so that a result left over from an earlier call does not pass. The expected pattern is computed from
 * all ranks' patterns without weft. How the values are chosen, per operation, is said in data.c.
 */
#ifndef WEFT_PERF_DATA_H
#define WEFT_PERF_DATA_H

#include <stddef.h>
#include <stdint.h>
#include <weft/weft.h>

enum { PERF_PATTERN = 16381 };

struct perf_data {
    weft_dtype dtype;
    weft_op op;
    size_t element_bytes;
    unsigned char *input;    /* PERF_PATTERN elements: this rank's contribution */
    unsigned char *expected; /* PERF_PATTERN elements: the result at every rank */
};

/* 0, or -1 when out of memory or the type is unknown. End with perf_data_release(). */
int perf_data_prepare(struct perf_data *data, weft_dtype dtype, weft_op op, int rank, int ranks);
void perf_data_release(struct perf_data *data);

/* Fills count elements with this rank's contribution. */
void perf_data_fill(const struct perf_data *data, size_t shift, void *buffer, size_t count);

/* Fills count elements with values that stay what they are however often they are reduced in place, so that
 * timed loops in place neither overflow nor meet subnormal numbers. */
void perf_data_fill_fixed(const struct perf_data *data, void *buffer, size_t count);

/* How many of count elements differ from the result in at least one bit. */
uint64_t perf_data_check(const struct perf_data *data, size_t shift, const void *buffer, size_t count);

/* How many of count elements are no longer this rank's contribution. */
uint64_t perf_data_changed(const struct perf_data *data, size_t shift, const void *buffer, size_t count);

#endif
