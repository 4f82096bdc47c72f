/* SPDX-License-Identifier: Apache-2.0 */
/* run: unthreaded (kernels) */
/* float16 and float8: every element and, of float8, every pair, against the scalar reference; what the contract
 * promises about rounding, saturation, NaN and denormals with numbers written out. Complex numbers and bool beside
 * them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <string.h>

#include <cmocka.h>

#include "devmem/reduce.h"
#include "tests/support/reduce_reference.h"

#define PAIRS 65536

/* Results over all elements of a and b against the reference. */
static void check_pairs(const char *isa, weft_dtype dtype, weft_op op, const void *a, const void *b,
                        uint32_t finish)
{
    static uint16_t got[PAIRS];
    weft_reduce_find_isa(isa, dtype, op)(got, (const void *[]){a, b}, 2, PAIRS, finish);
    for (size_t i = 0; i < PAIRS; i++) {
        reference_bits elements[] = {reference_get(dtype, a, i), reference_get(dtype, b, i)};
        reference_bits wanted = reference_reduce(dtype, op, elements, 2, finish);
        if (reference_get(dtype, got, i) != wanted)
            fail_msg("%s %s %s of %#x %#x, finish %u: %#x, wanted %#x", isa, weft_dtype_name(dtype),
                     weft_op_name(op), (unsigned)elements[0], (unsigned)elements[1], (unsigned)finish,
                     (unsigned)reference_get(dtype, got, i), (unsigned)wanted);
    }
}

static void check_operations(weft_dtype dtype, const void *a, const void *b)
{
    for (int isa = 0; isa < REFERENCE_ISAS; isa++) {
        if (!reference_isa_runs(reference_isas[isa]))
            continue;
        for (weft_op op = WEFT_SUM; op <= WEFT_AVG; op++)
            check_pairs(reference_isas[isa], dtype, op, a, b, 0);
        check_pairs(reference_isas[isa], dtype, WEFT_AVG, a, b, 3);
    }
}

static void every_pair_of_float8(void **state)
{
    (void)state;
    static uint8_t a[PAIRS], b[PAIRS];
    for (size_t i = 0; i < PAIRS; i++) {
        a[i] = (uint8_t)i;
        b[i] = (uint8_t)(i / 256);
    }
    check_operations(WEFT_FLOAT8_E4M3, a, b);
    check_operations(WEFT_FLOAT8_E5M2, a, b);
}

/* Bytes alone have two values; their operations are those of the values. */
static void every_pair_of_bools(void **state)
{
    (void)state;
    static uint8_t a[PAIRS], b[PAIRS], got[PAIRS];
    for (size_t i = 0; i < PAIRS; i++) {
        a[i] = (uint8_t)i;
        b[i] = (uint8_t)(i / 256);
    }
    for (int isa = 0; isa < REFERENCE_ISAS; isa++) {
        for (weft_op op = 0; op < WEFT_OP_COUNT && reference_isa_runs(reference_isas[isa]); op++) {
            if (op == WEFT_AVG)
                continue;
            weft_reduce_find_isa(reference_isas[isa], WEFT_BOOL, op)(got, (const void *[]){a, b}, 2, PAIRS,
                                                                     0);
            for (size_t i = 0; i < PAIRS; i++) {
                int wanted = a[i] || b[i];
                if (op == WEFT_PROD || op == WEFT_MIN || op == WEFT_AND)
                    wanted = a[i] && b[i];
                else if (op == WEFT_XOR)
                    wanted = !a[i] != !b[i];
                assert_int_equal(got[i], wanted);
            }
        }
    }
}

/* Each alone, which widens and narrows it; with 1, 0.5 and the largest number, and with random others. */
static void every_float16(void **state)
{
    (void)state;
    static const uint16_t partners[] = {0x0000, 0x3c00, 0x3800, 0x7bff, 0x8001, 0x0401};
    static uint16_t a[PAIRS], b[PAIRS], got[PAIRS];
    for (size_t i = 0; i < PAIRS; i++)
        a[i] = (uint16_t)i;
    for (int isa = 0; isa < REFERENCE_ISAS; isa++) {
        if (!reference_isa_runs(reference_isas[isa]))
            continue;
        weft_reduce_find_isa(reference_isas[isa], WEFT_FLOAT16, WEFT_SUM)(got, (const void *[]){a}, 1, PAIRS,
                                                                          0);
        for (size_t i = 0; i < PAIRS; i++)
            assert_int_equal(got[i], (i & 0x7fff) > 0x7c00 ? 0x7e00 : i);
    }
    uint64_t random = 1;
    for (size_t round = 0; round < 8; round++) {
        for (size_t i = 0; i < PAIRS; i++)
            b[i] = round < 6 ? partners[round] : (uint16_t)reference_random(&random);
        check_operations(WEFT_FLOAT16, a, b);
    }
}

static const struct {
    weft_dtype dtype;
    weft_op op;
    uint16_t a, b, result;
} promises[] = {
    /* float16: 1 + 2^-11 and 1 + 3 * 2^-11 are ties, to the even neighbour. */
    {WEFT_FLOAT16, WEFT_SUM, 0x3c00, 0x1000, 0x3c00},
    {WEFT_FLOAT16, WEFT_SUM, 0x3c01, 0x1000, 0x3c02},
    {WEFT_FLOAT16, WEFT_SUM, 0x3c00, 0x1001, 0x3c01},
    /* 65504 + 16 is the tie between 65504 and 65536, which is infinity; just under it rounds down. */
    {WEFT_FLOAT16, WEFT_SUM, 0x7bff, 0x4c00, 0x7c00},
    {WEFT_FLOAT16, WEFT_SUM, 0x7bff, 0x4bff, 0x7bff},
    {WEFT_FLOAT16, WEFT_PROD, 0xfbff, 0x4000, 0xfc00},
    /* Denormals: the smallest two, into the normal numbers, halves of 1 and of 3 units, a negative zero. */
    {WEFT_FLOAT16, WEFT_SUM, 0x0001, 0x0001, 0x0002},
    {WEFT_FLOAT16, WEFT_SUM, 0x03ff, 0x0001, 0x0400},
    {WEFT_FLOAT16, WEFT_PROD, 0x0001, 0x3800, 0x0000},
    {WEFT_FLOAT16, WEFT_PROD, 0x0003, 0x3800, 0x0002},
    {WEFT_FLOAT16, WEFT_PROD, 0x8001, 0x3800, 0x8000},
    {WEFT_FLOAT16, WEFT_SUM, 0x8000, 0x8000, 0x8000},
    {WEFT_FLOAT16, WEFT_MIN, 0x0000, 0x8000, 0x8000},
    {WEFT_FLOAT16, WEFT_MAX, 0x8000, 0x0000, 0x0000},
    {WEFT_FLOAT16, WEFT_SUM, 0x7c00, 0xfc00, 0x7e00},
    {WEFT_FLOAT16, WEFT_MAX, 0xfd23, 0x7c00, 0x7e00},
    /* e4m3: 448 + 448, 448 + 16, -448 * 2 saturate. */
    {WEFT_FLOAT8_E4M3, WEFT_SUM, 0x7e, 0x7e, 0x7e},
    {WEFT_FLOAT8_E4M3, WEFT_SUM, 0x7e, 0x58, 0x7e},
    {WEFT_FLOAT8_E4M3, WEFT_PROD, 0xfe, 0x40, 0xfe},
    {WEFT_FLOAT8_E4M3, WEFT_SUM, 0xff, 0x00, 0x7f},
    {WEFT_FLOAT8_E4M3, WEFT_MIN, 0xff, 0xfe, 0x7f},
    {WEFT_FLOAT8_E4M3, WEFT_SUM, 0x38, 0x18, 0x38},
    {WEFT_FLOAT8_E4M3, WEFT_SUM, 0x39, 0x18, 0x3a},
    {WEFT_FLOAT8_E4M3, WEFT_PROD, 0x01, 0x30, 0x00},
    {WEFT_FLOAT8_E4M3, WEFT_PROD, 0x83, 0x30, 0x82},
    {WEFT_FLOAT8_E4M3, WEFT_SUM, 0x07, 0x01, 0x08},
    {WEFT_FLOAT8_E4M3, WEFT_MAX, 0x80, 0x00, 0x00},
    /* e5m2: 57344 + 57344 saturates, an infinity stays one, infinities that meet are NaN. */
    {WEFT_FLOAT8_E5M2, WEFT_SUM, 0x7b, 0x7b, 0x7b},
    {WEFT_FLOAT8_E5M2, WEFT_PROD, 0xfb, 0x40, 0xfb},
    {WEFT_FLOAT8_E5M2, WEFT_SUM, 0x7c, 0x3c, 0x7c},
    {WEFT_FLOAT8_E5M2, WEFT_PROD, 0x7c, 0xbc, 0xfc},
    {WEFT_FLOAT8_E5M2, WEFT_SUM, 0x7c, 0xfc, 0x7e},
    {WEFT_FLOAT8_E5M2, WEFT_PROD, 0x7c, 0x00, 0x7e},
    {WEFT_FLOAT8_E5M2, WEFT_MIN, 0xfc, 0x7b, 0xfc},
    {WEFT_FLOAT8_E5M2, WEFT_MIN, 0xfd, 0x7b, 0x7e},
    {WEFT_FLOAT8_E5M2, WEFT_SUM, 0x3c, 0x30, 0x3c},
    {WEFT_FLOAT8_E5M2, WEFT_SUM, 0x3d, 0x30, 0x3e},
    {WEFT_FLOAT8_E5M2, WEFT_SUM, 0x03, 0x01, 0x04},
};

static void promised_results(void **state)
{
    (void)state;
    for (int isa = 0; isa < REFERENCE_ISAS; isa++) {
        for (size_t i = 0; i < sizeof promises / sizeof *promises && reference_isa_runs(reference_isas[isa]);
             i++) {
            uint16_t result = 0;
            const void *sources[] = {&promises[i].a, &promises[i].b};
            weft_reduce_find_isa(reference_isas[isa], promises[i].dtype, promises[i].op)(&result, sources, 2,
                                                                                         1, 0);
            if (result != promises[i].result)
                fail_msg("%s, promise %zu: %#x", reference_isas[isa], i, result);
        }
    }
}

/* Rounded after every addition, 2048 + 1 + 1 would be 2048 in float16, and 16 + 1 + 1 16 in e4m3; rounded before
 * the division, averages of largest numbers would be infinite, or half of what they are. */
static void rounding_comes_once_and_last(void **state)
{
    (void)state;
    const uint16_t half_big = 0x6800, half_one = 0x3c00, half_largest = 0x7bff;
    const uint8_t big = 0x58, one = 0x38, e4m3_largest = 0x7e, e5m2_largest = 0x7b;
    for (int isa = 0; isa < REFERENCE_ISAS; isa++) {
        if (!reference_isa_runs(reference_isas[isa]))
            continue;
        uint16_t half;
        uint8_t byte;
        weft_reduce_function *kernel = weft_reduce_find_isa(reference_isas[isa], WEFT_FLOAT16, WEFT_AVG);
        kernel(&half, (const void *[]){&half_big, &half_one, &half_one}, 3, 1, 0);
        assert_int_equal(half, 0x6801);
        kernel(&half, (const void *[]){&half_largest, &half_largest}, 2, 1, 2);
        assert_int_equal(half, half_largest);
        kernel = weft_reduce_find_isa(reference_isas[isa], WEFT_FLOAT8_E4M3, WEFT_AVG);
        kernel(&byte, (const void *[]){&big, &one, &one}, 3, 1, 0);
        assert_int_equal(byte, 0x59);
        kernel(&byte, (const void *[]){&e4m3_largest, &e4m3_largest}, 2, 1, 2);
        assert_int_equal(byte, e4m3_largest);
        kernel = weft_reduce_find_isa(reference_isas[isa], WEFT_FLOAT8_E5M2, WEFT_AVG);
        kernel(&byte, (const void *[]){&e5m2_largest, &e5m2_largest}, 2, 1, 2);
        assert_int_equal(byte, e5m2_largest);
    }
}

static void complex_arithmetic(void **state)
{
    (void)state;
    const float a[] = {1, 2, INFINITY, 0}, b[] = {3, 4, 1, 0};
    const double c[] = {1, 2, 0x1p53, 1}, d[] = {3, 4, 1, 0x1p-53};
    for (int isa = 0; isa < REFERENCE_ISAS; isa++) {
        if (!reference_isa_runs(reference_isas[isa]))
            continue;
        float single[4];
        double wide[4];
        const char *name = reference_isas[isa];
        weft_reduce_find_isa(name, WEFT_COMPLEX64, WEFT_PROD)(single, (const void *[]){a, b}, 2, 2, 0);
        assert_true(single[0] == -5 && single[1] == 10);
        assert_true(isinf(single[2]) && isnan(single[3])); /* no rescue of infinities */
        weft_reduce_find_isa(name, WEFT_COMPLEX128, WEFT_PROD)(wide, (const void *[]){c, d}, 2, 2, 0);
        assert_true(wide[0] == -5 && wide[1] == 10);
        assert_true(wide[2] == 0x1p53 && wide[3] == 2);
        weft_reduce_find_isa(name, WEFT_COMPLEX128, WEFT_AVG)(wide, (const void *[]){c, d}, 2, 1, 4);
        assert_true(wide[0] == 1 && wide[1] == 1.5);
        weft_reduce_find_isa(name, WEFT_COMPLEX64, WEFT_SUM)(single, (const void *[]){a, b}, 2, 1, 0);
        assert_true(single[0] == 4 && single[1] == 6);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_pair_of_float8),
        cmocka_unit_test(every_pair_of_bools),
        cmocka_unit_test(every_float16),
        cmocka_unit_test(promised_results),
        cmocka_unit_test(rounding_comes_once_and_last),
        cmocka_unit_test(complex_arithmetic),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
