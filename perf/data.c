/* SPDX-License-Identifier: Apache-2.0 */
#include "perf/data.h"

#include <stdlib.h>
#include <string.h>

int perf_data_prepare(struct perf_data *data, weft_dtype dtype, int op, int rank, int ranks)
{
    size_t size = weft_dtype_size(dtype);
    struct perf_data made = {.dtype = dtype, .op = op, .rank = rank, .ranks = ranks, .element_bytes = size};
    if (size == 0)
        return -1;
    made.input = malloc(PERF_PATTERN * size);
    made.other = malloc(PERF_PATTERN * size);
    if (op != PERF_OP_NONE)
        made.expected = malloc(PERF_PATTERN * size);
    if (!made.input || !made.other || (op != PERF_OP_NONE && !made.expected)) {
        perf_data_release(&made);
        return -1;
    }
    for (size_t i = 0; i < PERF_PATTERN; i++) {
        perf_value_input(dtype, op, rank, ranks, i, made.input + i * size);
        if (op != PERF_OP_NONE)
            perf_value_reduced(dtype, op, ranks, i, made.expected + i * size);
    }
    *data = made;
    return 0;
}

void perf_data_release(struct perf_data *data)
{
    free(data->input);
    free(data->expected);
    free(data->other);
    data->input = data->expected = data->other = NULL;
}

/* The next run of the pattern that starts at *position and covers at most count elements. */
static size_t next_run(size_t *position, size_t count)
{
    *position %= PERF_PATTERN;
    return count < PERF_PATTERN - *position ? count : PERF_PATTERN - *position;
}

void perf_data_fill(const struct perf_data *data, size_t position, void *buffer, size_t count)
{
    unsigned char *at = buffer;
    for (size_t run; count > 0; position += run, count -= run) {
        run = next_run(&position, count);
        memcpy(at, data->input + position * data->element_bytes, run * data->element_bytes);
        at += run * data->element_bytes;
    }
}

void perf_data_fill_fixed(const struct perf_data *data, void *buffer, size_t count)
{
    unsigned char *at = buffer, one[PERF_ELEMENT_BYTES];
    perf_value_fixed(data->dtype, data->op, one);
    for (size_t i = 0; i < count; i++)
        memcpy(at + i * data->element_bytes, one, data->element_bytes);
}

/* How many of count elements differ from the pattern. */
static uint64_t differences(const unsigned char *pattern, size_t size, size_t position, const void *buffer,
                            size_t count)
{
    const unsigned char *at = buffer;
    uint64_t different = 0;
    for (size_t run; count > 0; position += run, count -= run) {
        run = next_run(&position, count);
        const unsigned char *wanted = pattern + position * size;
        if (memcmp(at, wanted, run * size) != 0)
            for (size_t i = 0; i < run; i++)
                different += memcmp(at + i * size, wanted + i * size, size) != 0;
        at += run * size;
    }
    return different;
}

uint64_t perf_data_check(const struct perf_data *data, int source, size_t position, const void *buffer,
                         size_t count)
{
    size_t size = data->element_bytes;
    if (source == PERF_REDUCED)
        return differences(data->expected, size, position, buffer, count);
    if (source == data->rank)
        return differences(data->input, size, position, buffer, count);
    size_t needed = count < PERF_PATTERN ? count : PERF_PATTERN;
    for (size_t i = 0; i < needed; i++) {
        size_t place = (position + i) % PERF_PATTERN;
        perf_value_input(data->dtype, data->op, source, data->ranks, place, data->other + place * size);
    }
    return differences(data->other, size, position, buffer, count);
}
