/* SPDX-License-Identifier: Apache-2.0 */
/* run: unthreaded (computes) */
/* weft-perf's test data: whatever the order of the additions, the bits are the expected ones. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "perf/values.c" /* a program's files, not in libweft.a */

#include "perf/data.c"
#include "tests/support/effort.h"

static uint64_t random_state = 1;

static uint32_t random_below(uint32_t bound)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(random_state >> 33) % bound;
}

/* A float with so many stored bits of significand, no infinity and no NaN. */
static double load_small(uint32_t magnitude, int mantissa, int bias)
{
    int exponent = (int)(magnitude >> mantissa);
    uint32_t significand = magnitude & ((1u << mantissa) - 1);
    if (exponent == 0)
        return ldexp(significand, 1 - bias - mantissa);
    return ldexp(significand + (1u << mantissa), exponent - bias - mantissa);
}

static double load_float(weft_dtype dtype, const unsigned char *at)
{
    float single;
    double wide;
    uint16_t half;
    memcpy(&half, at, weft_dtype_size(dtype) > 1 ? sizeof half : 1);
    switch (dtype) {
    case WEFT_FLOAT16:
        wide = half == 0x7c00 || half == 0xfc00 ? INFINITY : load_small(half & 0x7fff, 10, 15);
        return half >> 15 ? -wide : wide;
    case WEFT_BFLOAT16:
        memcpy(&single, (uint16_t[]){0, half}, sizeof single);
        return single;
    case WEFT_FLOAT8_E4M3:
        wide = load_small(*at & 0x7f, 3, 7);
        return *at >> 7 ? -wide : wide;
    case WEFT_FLOAT8_E5M2:
        wide = (*at & 0x7f) == 0x7c ? INFINITY : load_small(*at & 0x7f, 2, 15);
        return *at >> 7 ? -wide : wide;
    case WEFT_FLOAT64:
    case WEFT_COMPLEX128:
        memcpy(&wide, at, sizeof wide);
        return wide;
    default:
        memcpy(&single, at, sizeof single);
        return single;
    }
}

static struct number load_complex(weft_dtype dtype, const unsigned char *at)
{
    return (struct number){load_float(dtype, at), load_float(dtype, at + weft_dtype_size(dtype) / 2)};
}

static int64_t load_integer(weft_dtype dtype, const unsigned char *at)
{
    int64_t value = 0;
    int spare = 64 - 8 * (int)weft_dtype_size(dtype);
    memcpy(&value, at, weft_dtype_size(dtype));
    return kinds[dtype].is_signed ? (int64_t)((uint64_t)value << spare) >> spare : value;
}

/* Combines two stored elements and stores the result: every step rounds to the element type. */
static void combine_stored(weft_dtype dtype, int op, unsigned char *a, const unsigned char *b)
{
    if (dtype == WEFT_BOOL)
        *a = (unsigned char)bool_combine(op, *a, *b);
    else if (is_complex(dtype))
        store_complex(dtype, complex_combine(op, load_complex(dtype, a), load_complex(dtype, b)), a);
    else if (kinds[dtype].is_float)
        store_float(dtype, float_combine(op, load_float(dtype, a), load_float(dtype, b)), a);
    else
        store_integer(dtype, integer_combine(dtype, op, load_integer(dtype, a), load_integer(dtype, b)), a);
}

/* Reduces one position of all ranks in a random association and order, in the element type. */
static void reduce_randomly(struct perf_data *inputs, int ranks, size_t position, unsigned char *result)
{
    size_t size = inputs[0].element_bytes;
    unsigned char values[64][PERF_ELEMENT_BYTES];
    int left = ranks;
    assert_true(ranks <= 64);
    for (int rank = 0; rank < ranks; rank++)
        memcpy(values[rank], inputs[rank].input + position * size, size);
    while (left > 1) {
        int a = (int)random_below((uint32_t)left), b = (int)random_below((uint32_t)left - 1);
        b += b >= a;
        combine_stored(inputs[0].dtype, inputs[0].op, values[a], values[b]);
        left--;
        memcpy(values[b], values[left], size);
    }
    memcpy(result, values[0], size);
}

static void check_pair(weft_dtype dtype, int op, int ranks)
{
    struct perf_data inputs[64];
    unsigned char result[PERF_ELEMENT_BYTES];
    for (int rank = 0; rank < ranks; rank++)
        assert_int_equal(perf_data_prepare(&inputs[rank], dtype, op, rank, ranks), 0);
    for (int i = 0; i < 500; i++) {
        size_t position = random_below(PERF_PATTERN);
        reduce_randomly(inputs, ranks, position, result);
        const unsigned char *expected = inputs[ranks - 1].expected + position * inputs[0].element_bytes;
        if (memcmp(result, expected, inputs[0].element_bytes) != 0)
            fail_msg("%s %s over %d ranks at %zu depends on the order", weft_dtype_name(dtype),
                     weft_op_name(op), ranks, position);
    }
    for (int rank = 0; rank < ranks; rank++)
        perf_data_release(&inputs[rank]);
}

/* Whether the library knows the pair; avg, whose last step rounds, has a test of its own. */
static int is_valid(weft_dtype dtype, int op)
{
    if (op == WEFT_AVG)
        return 0;
    if (is_complex(dtype))
        return op == WEFT_SUM || op == WEFT_PROD;
    return !kinds[dtype].is_float || op < WEFT_AND;
}

static void test_any_order_gives_the_same_bits(void **state)
{
    static const int ranks[] = {1, 2, 3, 7, 17};
    (void)state;
    for (int dtype = 0; dtype < WEFT_DTYPE_COUNT; dtype++)
        for (int op = 0; op < WEFT_OP_COUNT; op++)
            for (int r = 0; r < 5; r++)
                if (is_valid(dtype, op) && !test_left_out((size_t)(dtype + op + r), 2, 2))
                    check_pair(dtype, op, ranks[r]);
}

/* What everybody gets must say something: not one value nearly everywhere. */
static void test_results_differ(void **state)
{
    static const int ranks[] = {2, 5, 16};
    (void)state;
    for (int dtype = 0; dtype < WEFT_DTYPE_COUNT; dtype++)
        for (int op = 0; op < WEFT_OP_COUNT; op++)
            for (int r = 0; r < 3; r++) {
                unsigned char first[PERF_ELEMENT_BYTES], next[PERF_ELEMENT_BYTES];
                int different = 0;
                if (!is_valid(dtype, op))
                    continue;
                perf_value_reduced(dtype, op, ranks[r], 0, first);
                for (size_t position = 1; position < 200; position++) {
                    perf_value_reduced(dtype, op, ranks[r], position, next);
                    different += memcmp(first, next, weft_dtype_size(dtype)) != 0;
                }
                if (different < 20)
                    fail_msg("%s %s over %d ranks: nearly all results are the same", weft_dtype_name(dtype),
                             perf_op_name(op), ranks[r]);
            }
}

/* With more ranks than bfloat16 can count, sums must still be exact: magnitudes add up to at most 256. */
static void test_many_ranks_leave_bfloat16_exact(void **state)
{
    int ranks = 1000, contributions = 0;
    (void)state;
    for (uint64_t position = 0; position < 50; position++) {
        double magnitude = 0;
        for (int rank = 0; rank < ranks; rank++)
            magnitude += fabs(float_input(WEFT_BFLOAT16, WEFT_SUM, rank, ranks, position));
        assert_true(magnitude <= 256);
        contributions += magnitude > 0;
    }
    assert_true(contributions > 40);
}

/* Averages by hand: what the sum is, divided once. */
static void test_average_is_the_exact_sum_divided_once(void **state)
{
    struct perf_data data;
    (void)state;
    assert_int_equal(perf_data_prepare(&data, WEFT_FLOAT32, WEFT_AVG, 0, 3), 0);
    for (size_t i = 0; i < 1000; i++) {
        double sum = 0;
        float value;
        for (int rank = 0; rank < 3; rank++)
            sum += float_input(WEFT_FLOAT32, WEFT_AVG, rank, 3, i);
        memcpy(&value, data.expected + 4 * i, 4);
        assert_true(value == (float)(sum / 3)); /* a double quotient of small numbers rounds the same way */
    }
    perf_data_release(&data);
    assert_int_equal(perf_data_prepare(&data, WEFT_INT32, WEFT_AVG, 0, 3), 0);
    for (size_t i = 0; i < 1000; i++) {
        int64_t sum = 0;
        int32_t value;
        for (int rank = 0; rank < 3; rank++)
            sum += integer_input(WEFT_INT32, WEFT_AVG, rank, 3, i);
        memcpy(&value, data.expected + 4 * i, 4);
        assert_int_equal(value, sum / 3);
    }
    perf_data_release(&data);
}

static uint32_t encoded(weft_dtype dtype, double value)
{
    uint32_t bits = 0;
    store_float(dtype, value, (unsigned char *)&bits);
    return bits;
}

static void test_small_float_encodings(void **state)
{
    static const struct {
        float value;
        uint16_t half;
    } known[] = {{0.0f, 0x0000},     {-0.0f, 0x8000},    {1.0f, 0x3c00},     {-2.0f, 0xc000},
                 {65504.0f, 0x7bff}, {65520.0f, 0x7c00}, {0x1p-14f, 0x0400}, {0x1p-24f, 0x0001},
                 {0x1p-25f, 0x0000}, {1.0f / 3, 0x3555}, {2049.0f, 0x6800},  {2051.0f, 0x6802}};
    (void)state;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        assert_int_equal(encoded(WEFT_FLOAT16, known[i].value), known[i].half);
    static const struct {
        float value;
        uint8_t e4m3, e5m2;
    } eighths[] = {{1.0f, 0x38, 0x3c},     {-1.5f, 0xbc, 0xbe},   {448.0f, 0x7e, 0x5f},
                   {0x1p-6f, 0x08, 0x24},  {0x1p-9f, 0x01, 0x18}, {1.0f / 3, 0x2b, 0x35},
                   {57344.0f, 0x7e, 0x7b}, {0x1p-16f, 0x00, 0x01}};
    for (size_t i = 0; i < sizeof eighths / sizeof *eighths; i++) {
        assert_int_equal(encoded(WEFT_FLOAT8_E4M3, eighths[i].value), eighths[i].e4m3);
        assert_int_equal(encoded(WEFT_FLOAT8_E5M2, eighths[i].value), eighths[i].e5m2);
    }
    assert_int_equal(encoded(WEFT_FLOAT8_E5M2, -INFINITY), 0xfc);
    assert_int_equal(encoded(WEFT_FLOAT16, INFINITY), 0x7c00);
    assert_int_equal(encoded(WEFT_BFLOAT16, 1.0f), 0x3f80);
    assert_int_equal(encoded(WEFT_BFLOAT16, 257.0f), 0x4380); /* tie to even: 256 */
    assert_int_equal(encoded(WEFT_BFLOAT16, 259.0f), 0x4382); /* tie to even: 260 */
}

static void test_check_counts_exactly(void **state)
{
    struct perf_data data;
    enum { COUNT = 3 * PERF_PATTERN + 5 };
    float *buffer = malloc(COUNT * sizeof *buffer);
    (void)state;
    assert_non_null(buffer);
    assert_int_equal(perf_data_prepare(&data, WEFT_FLOAT32, WEFT_SUM, 0, 1), 0);
    perf_data_fill(&data, 777, buffer, COUNT);
    assert_int_equal(perf_data_check(&data, PERF_REDUCED, 777, buffer, COUNT),
                     0); /* one rank: the sum is the input */
    assert_int_equal(perf_data_check(&data, 0, 777, buffer, COUNT), 0);
    assert_true(perf_data_check(&data, PERF_REDUCED, 778, buffer, COUNT) > COUNT / 2);
    buffer[0] += 1;
    buffer[PERF_PATTERN] += 1;
    buffer[COUNT - 1] += 1;
    assert_int_equal(perf_data_check(&data, PERF_REDUCED, 777, buffer, COUNT), 3);
    assert_int_equal(perf_data_check(&data, 0, 777, buffer, COUNT), 3);
    perf_data_release(&data);
    free(buffer);
}

/* What is only moved: any bits, other ones from every rank, and each rank knows all ranks'. */
static void test_another_ranks_data_are_known(void **state)
{
    enum { COUNT = PERF_PATTERN + 100 };
    struct perf_data sender, receiver;
    unsigned char *buffer = malloc(COUNT * (size_t)PERF_ELEMENT_BYTES);
    (void)state;
    assert_non_null(buffer);
    for (int dtype = 0; dtype < WEFT_DTYPE_COUNT; dtype++) {
        assert_int_equal(perf_data_prepare(&sender, dtype, PERF_OP_NONE, 2, 4), 0);
        assert_int_equal(perf_data_prepare(&receiver, dtype, PERF_OP_NONE, 1, 4), 0);
        perf_data_fill(&sender, 16000, buffer, COUNT);
        assert_int_equal(perf_data_check(&receiver, 2, 16000, buffer, COUNT), 0);
        assert_true(perf_data_check(&receiver, 1, 16000, buffer, COUNT) > COUNT / 2);
        assert_true(perf_data_check(&receiver, 2, 16001, buffer, COUNT) > COUNT / 2);
        assert_int_equal(perf_data_check(&receiver, 2, 16000 + 1000, buffer + 1000 * sender.element_bytes, 7),
                         0);
        buffer[7 * sender.element_bytes] ^= 0x80;
        assert_int_equal(perf_data_check(&receiver, 2, 16000, buffer, COUNT), 1);
        perf_data_release(&sender);
        perf_data_release(&receiver);
    }
    free(buffer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_order_gives_the_same_bits),
        cmocka_unit_test(test_many_ranks_leave_bfloat16_exact),
        cmocka_unit_test(test_average_is_the_exact_sum_divided_once),
        cmocka_unit_test(test_small_float_encodings),
        cmocka_unit_test(test_check_counts_exactly),
        cmocka_unit_test(test_results_differ),
        cmocka_unit_test(test_another_ranks_data_are_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
