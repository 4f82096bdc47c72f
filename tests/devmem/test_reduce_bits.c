/* SPDX-License-Identifier: Apache-2.0 */
/* run: unthreaded (kernels) */
/* The same bits everywhere: what the contract promises with numbers written out, all instruction sets, other processors (by a checksum
 * written down here), and whatever floating-point environment the caller has. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "devmem/reduce.h"
#include "tests/support/bits.h"
#include "tests/support/reduce_reference.h"

#ifdef __x86_64__
#include <xmmintrin.h>
#endif

/* FNV-1a over all results of checksum(), first computed on x86-64: of the first types there were, and of those
 * that came later. */
#define OLD_TYPES  4
#define GOLDEN_OLD 0x694f0f0ba4b7a41au
#define GOLDEN_NEW 0xbf8286651109159bu

static const struct {
    weft_dtype dtype;
    weft_op op;
    uint32_t a, b, result;
} promises[] = {
    {WEFT_FLOAT32, WEFT_MIN, 0x80000000, 0x00000000, 0x80000000},
    {WEFT_FLOAT32, WEFT_MIN, 0x00000000, 0x80000000, 0x80000000},
    {WEFT_FLOAT32, WEFT_MAX, 0x80000000, 0x00000000, 0x00000000},
    {WEFT_FLOAT32, WEFT_MAX, 0x00000000, 0x80000000, 0x00000000},
    {WEFT_FLOAT32, WEFT_MIN, 0xffc01234, 0xff800000, 0x7fc00000},
    {WEFT_FLOAT32, WEFT_MAX, 0x7f800000, 0x7f800001, 0x7fc00000},
    {WEFT_FLOAT32, WEFT_SUM, 0x7f800000, 0xff800000, 0x7fc00000},
    {WEFT_FLOAT32, WEFT_PROD, 0xff800000, 0x00000000, 0x7fc00000},
    {WEFT_FLOAT32, WEFT_SUM, 0x80000000, 0x80000000, 0x80000000},
    {WEFT_FLOAT32, WEFT_SUM, 0x00000001, 0x00000001, 0x00000002},
    {WEFT_FLOAT32, WEFT_SUM, 0x7f7fffff, 0x7f7fffff, 0x7f800000},
    {WEFT_FLOAT32, WEFT_PROD, 0x00800000, 0x3f000000, 0x00400000},
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
    /* Bytes alone have two values. */
    {WEFT_BOOL, WEFT_SUM, 0, 7, 1},
    {WEFT_BOOL, WEFT_MAX, 0, 0, 0},
    {WEFT_BOOL, WEFT_OR, 4, 0, 1},
    {WEFT_BOOL, WEFT_PROD, 2, 4, 1},
    {WEFT_BOOL, WEFT_MIN, 2, 0, 0},
    {WEFT_BOOL, WEFT_AND, 255, 1, 1},
    {WEFT_BOOL, WEFT_XOR, 2, 4, 0},
    {WEFT_BOOL, WEFT_XOR, 0, 9, 1},
};

static void promised_results(void **state)
{
    (void)state;
    for (int isa = 0; isa < REFERENCE_ISAS; isa++) {
        for (size_t i = 0; i < sizeof promises / sizeof *promises && reference_isa_runs(reference_isas[isa]);
             i++) {
            uint32_t result = 0;
            const void *sources[] = {&promises[i].a, &promises[i].b};
            weft_reduce_find_isa(reference_isas[isa], promises[i].dtype, promises[i].op)(&result, sources, 2,
                                                                                         1, 0);
            if (result != promises[i].result)
                fail_msg("WRONG: %s, promise %zu: %#x", reference_isas[isa], i, result);
        }
    }
}

/* Rounded after every addition, 256 + 1 would be 256 in bfloat16, 2048 + 1 + 1 2048 in float16, and 16 + 1 + 1 16
 * in e4m3; rounded before
 * the division, averages of largest numbers would be infinite, or half of what they are. */
static void rounding_comes_once_and_last(void **state)
{
    (void)state;
    static const uint16_t brain_big = 0x4380, brain_one = 0x3f80, brain_minus = 0xc380, brain_seven = 0x40e0;
    const void *const eight[] = {&brain_big, &brain_one, &brain_one, &brain_one,
                                 &brain_one, &brain_one, &brain_one, &brain_minus};
    const uint16_t half_big = 0x6800, half_one = 0x3c00, half_largest = 0x7bff;
    const uint8_t big = 0x58, one = 0x38, e4m3_largest = 0x7e, e5m2_largest = 0x7b;
    for (int isa = 0; isa < REFERENCE_ISAS; isa++) {
        if (!reference_isa_runs(reference_isas[isa]))
            continue;
        uint16_t half;
        uint8_t byte;
        weft_reduce_function *kernel = weft_reduce_find_isa(reference_isas[isa], WEFT_BFLOAT16, WEFT_AVG);
        kernel(&half, eight, 8, 1, 0);
        assert_int_equal(half, 0x40c0); /* 6 */
        kernel(&half, eight, 2, 1, 257);
        assert_int_equal(half, brain_one);
        kernel(&half, (const void *[]){&brain_seven}, 1, 1, 3);
        assert_int_equal(half, 0x4015); /* 7/3 = 2.3333, between 2.328125 and 2.34375 */
        kernel = weft_reduce_find_isa(reference_isas[isa], WEFT_FLOAT16, WEFT_AVG);
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
        assert_bits(single[0] == -5 && single[1] == 10);
        assert_bits(isinf(single[2]) && isnan(single[3])); /* no rescue of infinities */
        weft_reduce_find_isa(name, WEFT_COMPLEX128, WEFT_PROD)(wide, (const void *[]){c, d}, 2, 2, 0);
        assert_bits(wide[0] == -5 && wide[1] == 10);
        assert_bits(wide[2] == 0x1p53 && wide[3] == 2);
        weft_reduce_find_isa(name, WEFT_COMPLEX128, WEFT_AVG)(wide, (const void *[]){c, d}, 2, 1, 4);
        assert_bits(wide[0] == 1 && wide[1] == 1.5);
        weft_reduce_find_isa(name, WEFT_COMPLEX64, WEFT_SUM)(single, (const void *[]){a, b}, 2, 1, 0);
        assert_bits(single[0] == 4 && single[1] == 6);
    }
}

/* Sums that wrap in an element's own width, and quotients that truncate toward zero. */
static void averages_of_integers(void **state)
{
    (void)state;
    const int8_t a[] = {100, -100, -7, 127}, b[] = {100, -100, 0, 1};
    const uint16_t c[] = {65535, 7}, d[] = {2, 8};
    for (int isa = 0; isa < REFERENCE_ISAS; isa++) {
        if (!reference_isa_runs(reference_isas[isa]))
            continue;
        int8_t signed_results[4];
        uint16_t unsigned_results[2];
        weft_reduce_find_isa(reference_isas[isa], WEFT_INT8, WEFT_AVG)(signed_results, (const void *[]){a, b},
                                                                       2, 4, 2);
        weft_reduce_find_isa(reference_isas[isa], WEFT_UINT16, WEFT_AVG)(unsigned_results,
                                                                         (const void *[]){c, d}, 2, 2, 2);
        assert_bits(signed_results[0] == -28); /* 200 is -56 */
        assert_bits(signed_results[1] == 28);
        assert_bits(signed_results[2] == -3);
        assert_bits(signed_results[3] == -64);
        assert_bits(unsigned_results[0] == 0);
        assert_bits(unsigned_results[1] == 7);
    }
}

static uint64_t hash(uint64_t value, const void *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++)
        value = (value ^ ((const unsigned char *)bytes)[i]) * 0x100000001b3;
    return value;
}

/* Of results over inputs that depend on nothing but this file and the support's tables. */
static uint64_t checksum(const char *isa, int first, int end, weft_op op_end)
{
    enum { COUNT = 3001 };
    static reference_bits inputs[4][COUNT], result[COUNT];
    const void *sources[] = {inputs[0], inputs[1], inputs[2], inputs[3]};
    uint64_t sum = 0xcbf29ce484222325;
    for (int t = first; t < end; t++) {
        weft_dtype dtype = reference_types[t];
        uint64_t state = (uint64_t)dtype;
        for (size_t i = 0; i < 4 * COUNT; i++)
            reference_set(dtype, inputs[i % 4], i / 4, reference_element(dtype, &state));
        for (weft_op op = 0; op < op_end; op++) {
            weft_reduce_function *kernel = weft_reduce_find_isa(isa, dtype, op);
            for (int source_count = 1; kernel && source_count <= 4; source_count++) {
                kernel(result, sources, source_count, COUNT, op == WEFT_AVG ? 7 : 0);
                sum = hash(sum, result, COUNT * weft_dtype_size(dtype));
            }
        }
    }
    return sum;
}

static void same_checksum_everywhere(void **state)
{
    (void)state;
    for (int isa = 0; isa < REFERENCE_ISAS; isa++) {
        if (!reference_isa_runs(reference_isas[isa]))
            continue;
        uint64_t old = checksum(reference_isas[isa], 0, OLD_TYPES, WEFT_AVG + 1);
        uint64_t new = checksum(reference_isas[isa], OLD_TYPES, REFERENCE_TYPES, WEFT_OP_COUNT);
        if (old != GOLDEN_OLD || new != GOLDEN_NEW)
            fail_msg("WRONG: %s: checksums are %#llx, %#llx, expected %#llx, %#llx", reference_isas[isa],
                     (unsigned long long)old, (unsigned long long)new, (unsigned long long)GOLDEN_OLD,
                     (unsigned long long)GOLDEN_NEW);
    }
}

#if defined(__x86_64__)

/* Rounding up, down, toward zero; FTZ, DAZ, both, FTZ with upward rounding: MXCSR */
static const unsigned environments[] = {0x5f80, 0x3f80, 0x7f80, 0x9f80, 0x1fc0, 0x9fc0, 0xdf80};

static void environment_set(unsigned control)
{
    _mm_setcsr(control ? control : 0x1f80);
}

static unsigned environment_get(void)
{
    return _mm_getcsr() & 0xffc0;
}

#elif defined(__aarch64__)

/* Rounding up, down, toward zero; FZ, and with upward rounding: FPCR */
static const unsigned environments[] = {1u << 22, 2u << 22, 3u << 22, 1u << 24, 1u << 24 | 1u << 22};

static void environment_set(unsigned control)
{
    __asm__ volatile("msr fpcr, %0" ::"r"((uint64_t)control) : "memory");
}

static unsigned environment_get(void)
{
    uint64_t control;
    __asm__ volatile("mrs %0, fpcr" : "=r"(control));
    return (unsigned)control;
}

#endif

/* Every type and operation in every environment gives what the default one gives, and leaves it as it was. */
static void check_environments(const char *isa, weft_dtype dtype, weft_op op)
{
#if defined(__x86_64__) || defined(__aarch64__)
    enum { COUNT = 333 };
    static reference_bits a[COUNT], b[COUNT], wanted[COUNT], got[COUNT];
    weft_reduce_function *kernel = weft_reduce_find_isa(isa, dtype, op);
    uint64_t random = 5;
    for (size_t i = 0; i < COUNT; i++) {
        reference_set(dtype, a, i, reference_element(dtype, &random));
        reference_set(dtype, b, i, reference_element(dtype, &random));
    }
    for (uint32_t finish = 0; finish <= (op == WEFT_AVG ? 3 : 0); finish += 3) {
        kernel(wanted, (const void *[]){a, b}, 2, COUNT, finish);
        for (size_t c = 0; c < sizeof environments / sizeof *environments; c++) {
            environment_set(environments[c]);
            kernel(got, (const void *[]){a, b}, 2, COUNT, finish);
            unsigned after = environment_get();
            environment_set(0);
            assert_int_equal(after, environments[c]);
            assert_memory_equal(got, wanted, COUNT * weft_dtype_size(dtype));
        }
    }
#else
    (void)isa, (void)dtype, (void)op;
#endif
}

static void environments_do_not_matter(void **state)
{
    (void)state;
#if !defined(__x86_64__) && !defined(__aarch64__)
    printf("SKIP: how this processor rounds and flushes denormals is not known to the test\n");
    skip();
#endif
    for (int isa = 0; isa < REFERENCE_ISAS; isa++)
        for (int t = 0; t < REFERENCE_TYPES && reference_isa_runs(reference_isas[isa]); t++)
            for (weft_op op = 0; op < WEFT_OP_COUNT; op++)
                if (reference_pair(reference_types[t], op))
                    check_environments(reference_isas[isa], reference_types[t], op);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(promised_results),         cmocka_unit_test(rounding_comes_once_and_last),
        cmocka_unit_test(averages_of_integers),     cmocka_unit_test(complex_arithmetic),
        cmocka_unit_test(same_checksum_everywhere), cmocka_unit_test(environments_do_not_matter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
