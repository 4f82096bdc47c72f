/* SPDX-License-Identifier: Apache-2.0 */
/* run: unthreaded (kernels) */
/* The same bits everywhere: special values in all combinations, all instruction sets, other processors (by a
 * checksum written down here), and whatever floating-point environment the caller has. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <fenv.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "devmem/reduce.h"
#include "tests/support/reduce_reference.h"

#ifdef __x86_64__
#include <xmmintrin.h>
#endif

/* FNV-1a over all results of checksum(), first computed on x86-64: of the first types there were, and of those
 * that came later. */
#define OLD_TYPES  4
#define GOLDEN_OLD 0x694f0f0ba4b7a41au
#define GOLDEN_NEW 0xbf8286651109159bu

/* All pairs (and triples) of special values. */
static void check_specials(const char *isa, weft_dtype dtype, weft_op op)
{
    enum { TRIPLES = REFERENCE_SPECIALS * REFERENCE_SPECIALS * REFERENCE_SPECIALS };
    static reference_bits a[TRIPLES], b[TRIPLES], c[TRIPLES], got[TRIPLES];
    const void *sources[] = {a, b, c};
    reference_bits bits[REFERENCE_SPECIALS];
    size_t special_count = reference_specials(dtype, bits);
    weft_reduce_function *kernel = weft_reduce_find_isa(isa, dtype, op);
    size_t count = special_count * special_count * special_count;
    for (size_t i = 0; i < count; i++) {
        reference_set(dtype, a, i, bits[i % special_count]);
        reference_set(dtype, b, i, bits[i / special_count % special_count]);
        reference_set(dtype, c, i, bits[i / special_count / special_count]);
    }
    for (int source_count = 1; source_count <= 3; source_count++) {
        for (uint32_t finish = 0; finish <= (op == WEFT_AVG ? 3 : 0); finish += 3) {
            kernel(got, sources, source_count, count, finish);
            for (size_t i = 0; i < count; i++) {
                reference_bits elements[] = {reference_get(dtype, a, i), reference_get(dtype, b, i),
                                             reference_get(dtype, c, i)};
                reference_bits wanted = reference_reduce(dtype, op, elements, source_count, finish);
                if (reference_get(dtype, got, i) != wanted)
                    fail_msg("%s %s %s of %#llx %#llx %#llx: %#llx, wanted %#llx", isa,
                             weft_dtype_name(dtype), weft_op_name(op), (unsigned long long)elements[0],
                             (unsigned long long)elements[1], (unsigned long long)elements[2],
                             (unsigned long long)reference_get(dtype, got, i), (unsigned long long)wanted);
            }
        }
    }
}

static void special_values(void **state)
{
    (void)state;
    for (int isa = 0; isa < REFERENCE_ISAS; isa++)
        for (int t = 0; t < REFERENCE_TYPES && reference_isa_runs(reference_isas[isa]); t++)
            for (weft_op op = 0; op < WEFT_OP_COUNT; op++)
                if (reference_pair(reference_types[t], op))
                    check_specials(reference_isas[isa], reference_types[t], op);
}

/* What the contract promises in words, with numbers written out. */
static void promises(void **state)
{
    (void)state;
    static const struct {
        weft_op op;
        uint32_t a, b, result;
    } cases[] = {
        {WEFT_MIN, 0x80000000, 0x00000000, 0x80000000}, {WEFT_MIN, 0x00000000, 0x80000000, 0x80000000},
        {WEFT_MAX, 0x80000000, 0x00000000, 0x00000000}, {WEFT_MAX, 0x00000000, 0x80000000, 0x00000000},
        {WEFT_MIN, 0xffc01234, 0xff800000, 0x7fc00000}, {WEFT_MAX, 0x7f800000, 0x7f800001, 0x7fc00000},
        {WEFT_SUM, 0x7f800000, 0xff800000, 0x7fc00000}, {WEFT_PROD, 0xff800000, 0x00000000, 0x7fc00000},
        {WEFT_SUM, 0x80000000, 0x80000000, 0x80000000}, {WEFT_SUM, 0x00000001, 0x00000001, 0x00000002},
        {WEFT_SUM, 0x7f7fffff, 0x7f7fffff, 0x7f800000}, {WEFT_PROD, 0x00800000, 0x3f000000, 0x00400000},
    };
    for (int isa = 0; isa < REFERENCE_ISAS; isa++) {
        for (size_t i = 0; i < sizeof cases / sizeof *cases && reference_isa_runs(reference_isas[isa]); i++) {
            uint32_t result;
            const void *sources[] = {&cases[i].a, &cases[i].b};
            weft_reduce_find_isa(reference_isas[isa], WEFT_FLOAT32, cases[i].op)(&result, sources, 2, 1, 0);
            assert_int_equal(result, cases[i].result);
        }
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
            fail_msg("%s: checksums are %#llx, %#llx, expected %#llx, %#llx", reference_isas[isa],
                     (unsigned long long)old, (unsigned long long)new, (unsigned long long)GOLDEN_OLD,
                     (unsigned long long)GOLDEN_NEW);
    }
}

static void rounding_modes_do_not_matter(void **state)
{
    (void)state;
    static const int modes[] = {
        FE_TONEAREST,
#ifdef FE_UPWARD
        FE_UPWARD,
#endif
#ifdef FE_DOWNWARD
        FE_DOWNWARD,
#endif
#ifdef FE_TOWARDZERO
        FE_TOWARDZERO,
#endif
    };
    /* 1 + 3/4 of a unit, 1 + 1/4, -1 - 3/4, -1 - 1/4 */
    const float a[] = {1, 1, -1, -1}, b[] = {0x1.8p-24f, 0x1p-25f, -0x1.8p-24f, -0x1p-25f};
    const float wanted[] = {0x1.000002p0f, 1, -0x1.000002p0f, -1};
    const void *sources[] = {a, b};
    for (int isa = 0; isa < REFERENCE_ISAS; isa++) {
        for (size_t m = 0; m < sizeof modes / sizeof *modes && reference_isa_runs(reference_isas[isa]); m++) {
            float result[4];
            fesetround(modes[m]);
            weft_reduce_find_isa(reference_isas[isa], WEFT_FLOAT32, WEFT_SUM)(result, sources, 2, 4, 0);
            int after = fegetround();
            fesetround(FE_TONEAREST);
            assert_int_equal(after, modes[m]);
            assert_memory_equal(result, wanted, sizeof wanted);
        }
    }
}

#if defined(__x86_64__)

/* FTZ, DAZ, both, FTZ with upward rounding: MXCSR */
static const unsigned flushing[] = {0x9f80, 0x1fc0, 0x9fc0, 0xdf80};

static void environment_set(unsigned control)
{
    _mm_setcsr(control ? control : 0x1f80);
}

static unsigned environment_get(void)
{
    return _mm_getcsr() & 0xffc0;
}

#elif defined(__aarch64__)

/* FZ, and with upward rounding: FPCR */
static const unsigned flushing[] = {1u << 24, 1u << 24 | 1u << 22};

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

static void denormals_survive_flushing_callers(void **state)
{
    (void)state;
#if defined(__x86_64__) || defined(__aarch64__)
    const uint32_t a[] = {0x00000001, 0x00800000, 0x007fffff}, b[] = {0x00000001, 0x80000001, 0x80000001};
    const uint32_t wanted[] = {0x00000002, 0x007fffff, 0x007ffffe};
    const void *sources[] = {a, b};
    for (int isa = 0; isa < REFERENCE_ISAS; isa++) {
        if (!reference_isa_runs(reference_isas[isa]))
            continue;
        weft_reduce_function *kernel = weft_reduce_find_isa(reference_isas[isa], WEFT_FLOAT32, WEFT_SUM);
        for (size_t c = 0; c < sizeof flushing / sizeof *flushing; c++) {
            uint32_t result[3];
            environment_set(flushing[c]);
            kernel(result, sources, 2, 3, 0);
            unsigned after = environment_get();
            environment_set(0);
            assert_int_equal(after, flushing[c]);
            assert_memory_equal(result, wanted, sizeof wanted);
        }
    }
#else
    printf("SKIP: how this processor flushes denormals is not known to the test\n");
    skip();
#endif
}

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
        for (size_t c = 0; c < sizeof flushing / sizeof *flushing; c++) {
            environment_set(flushing[c]);
            kernel(got, (const void *[]){a, b}, 2, COUNT, finish);
            unsigned after = environment_get();
            environment_set(0);
            assert_int_equal(after, flushing[c]);
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
    for (int isa = 0; isa < REFERENCE_ISAS; isa++)
        for (int t = 0; t < REFERENCE_TYPES && reference_isa_runs(reference_isas[isa]); t++)
            for (weft_op op = 0; op < WEFT_OP_COUNT; op++)
                if (reference_pair(reference_types[t], op))
                    check_environments(reference_isas[isa], reference_types[t], op);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(special_values),
        cmocka_unit_test(promises),
        cmocka_unit_test(same_checksum_everywhere),
        cmocka_unit_test(rounding_modes_do_not_matter),
        cmocka_unit_test(denormals_survive_flushing_callers),
        cmocka_unit_test(environments_do_not_matter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
