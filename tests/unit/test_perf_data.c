/* weft-perf's test data: whatever the order of the additions, the bits are the expected ones. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "perf/data.c" /* a program's file, not in libweft.a */

static uint64_t random_state = 1;

static uint32_t random_below(uint32_t bound)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(random_state >> 33) % bound;
}

static double load_bfloat16(uint16_t bits)
{
    uint32_t wide = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &wide, sizeof value);
    return value;
}

/* Combines two stored elements and stores the result: every step rounds to the element type. */
static void combine_stored(weft_dtype dtype, weft_op op, unsigned char *a, const unsigned char *b)
{
    if (dtype == WEFT_FLOAT32) {
        float x, y;
        memcpy(&x, a, sizeof x);
        memcpy(&y, b, sizeof y);
        store_float(dtype, (float)float_combine(op, x, y), a);
    } else if (dtype == WEFT_FLOAT64) {
        double x, y;
        memcpy(&x, a, sizeof x);
        memcpy(&y, b, sizeof y);
        store_float(dtype, float_combine(op, x, y), a);
    } else if (dtype == WEFT_BFLOAT16) {
        uint16_t x, y;
        memcpy(&x, a, sizeof x);
        memcpy(&y, b, sizeof y);
        store_float(dtype, float_combine(op, load_bfloat16(x), load_bfloat16(y)), a);
    } else {
        int32_t x, y;
        memcpy(&x, a, sizeof x);
        memcpy(&y, b, sizeof y);
        store_integer(dtype, integer_combine(dtype, op, x, y), a);
    }
}

/* Reduces one position of all ranks in a random association and order, in the element type. */
static void reduce_randomly(struct perf_data *inputs, int ranks, size_t position, unsigned char *result)
{
    size_t size = inputs[0].element_bytes;
    unsigned char values[64][8];
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

static void check_pair(weft_dtype dtype, weft_op op, int ranks)
{
    struct perf_data inputs[64];
    unsigned char result[8];
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

static void test_any_order_gives_the_same_bits(void **state)
{
    static const weft_dtype dtypes[] = {WEFT_FLOAT32, WEFT_FLOAT64, WEFT_BFLOAT16, WEFT_INT32};
    static const weft_op ops[] = {WEFT_SUM, WEFT_PROD, WEFT_MAX, WEFT_MIN};
    static const int ranks[] = {1, 2, 3, 7, 17};
    (void)state;
    for (int d = 0; d < 4; d++)
        for (int o = 0; o < 4; o++)
            for (int r = 0; r < 5; r++)
                check_pair(dtypes[d], ops[o], ranks[r]);
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

static void test_half_precision_encodings(void **state)
{
    static const struct {
        float value;
        uint16_t half;
    } known[] = {{0.0f, 0x0000},     {-0.0f, 0x8000},    {1.0f, 0x3c00},     {-2.0f, 0xc000},
                 {65504.0f, 0x7bff}, {65520.0f, 0x7c00}, {0x1p-14f, 0x0400}, {0x1p-24f, 0x0001},
                 {0x1p-25f, 0x0000}, {1.0f / 3, 0x3555}, {2049.0f, 0x6800},  {2051.0f, 0x6802}};
    (void)state;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        assert_int_equal(float16_bits(known[i].value), known[i].half);
    assert_int_equal(float16_bits(INFINITY), 0x7c00);
    assert_int_equal(bfloat16_bits(1.0f), 0x3f80);
    assert_int_equal(bfloat16_bits(257.0f), 0x4380); /* tie to even: 256 */
    assert_int_equal(bfloat16_bits(259.0f), 0x4382); /* tie to even: 260 */
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
    assert_int_equal(perf_data_check(&data, 777, buffer, COUNT), 0); /* one rank: the sum is the input */
    assert_int_equal(perf_data_changed(&data, 777, buffer, COUNT), 0);
    assert_true(perf_data_check(&data, 778, buffer, COUNT) > COUNT / 2);
    buffer[0] += 1;
    buffer[PERF_PATTERN] += 1;
    buffer[COUNT - 1] += 1;
    assert_int_equal(perf_data_check(&data, 777, buffer, COUNT), 3);
    assert_int_equal(perf_data_changed(&data, 777, buffer, COUNT), 3);
    perf_data_release(&data);
    free(buffer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_order_gives_the_same_bits),
        cmocka_unit_test(test_many_ranks_leave_bfloat16_exact),
        cmocka_unit_test(test_average_is_the_exact_sum_divided_once),
        cmocka_unit_test(test_half_precision_encodings),
        cmocka_unit_test(test_check_counts_exactly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
