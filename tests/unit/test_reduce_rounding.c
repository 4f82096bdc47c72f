/* SPDX-License-Identifier: Apache-2.0 */
/* run: unthreaded (kernels) */
/* bfloat16 is rounded at most once per hop. Sums of 2, 7 and 64 ranks with heavy cancellation, passed on
 * along a ring, combined in a tree, and in hops of several sources, are compared with sums in float64. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <string.h>

#include <cmocka.h>

#include "devmem/reduce.h"
#include "tests/support/reduce_reference.h"

#define RANKS_MAX 64
#define COUNT     257

/* Half a unit in the last place of bfloat16, relative to a number with 8 significant bits. */
#define HALF_UNIT 0x1p-8

/* One partial result: its elements, and how far rounding may have taken each from the exact sum. */
struct partial {
    uint16_t elements[COUNT];
    double error[COUNT];
};

static struct partial ranks[RANKS_MAX];
static double exact[COUNT];

/* Large values that cancel almost entirely over the ranks, with small ones among them. */
static void ranks_fill(int rank_count)
{
    uint64_t state = (uint64_t)rank_count;
    memset(exact, 0, sizeof exact);
    for (int r = 0; r < rank_count; r++) {
        for (size_t i = 0; i < COUNT; i++) {
            double small = (double)(int64_t)reference_random(&state) * 0x1p-63;
            double large = r % 2 ? -reference_value(WEFT_BFLOAT16, ranks[r - 1].elements[i])
                                 : small * (double)(1 << (i % 20));
            float value = (float)(r % 2 && i % 3 ? large * (1 + HALF_UNIT) : large);
            uint32_t bits;
            memcpy(&bits, &value, sizeof bits);
            ranks[r].elements[i] = (uint16_t)(bits >> 16); /* any bfloat16 near it will do */
            ranks[r].error[i] = 0;
            exact[i] += reference_value(WEFT_BFLOAT16, ranks[r].elements[i]);
        }
    }
}

/* One hop: reduces source_count partials into the first. Its own error must be that of one rounding, beside
 * the float32 additions' 2^-24 of what they add up. */
static void hop(weft_reduce_function *kernel, struct partial *const *partials, int source_count)
{
    const void *sources[WEFT_REDUCE_SOURCES_MAX];
    static double sum[COUNT], magnitude[COUNT], error[COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        sum[i] = magnitude[i] = error[i] = 0;
        for (int s = 0; s < source_count; s++) {
            double value = reference_value(WEFT_BFLOAT16, partials[s]->elements[i]);
            sources[s] = partials[s]->elements;
            sum[i] += value; /* exact: the exponents span far less than float64's 53 bits */
            magnitude[i] += fabs(value);
            error[i] += partials[s]->error[i];
        }
    }
    kernel(partials[0]->elements, sources, source_count, COUNT, 0);
    for (size_t i = 0; i < COUNT; i++) {
        double result = reference_value(WEFT_BFLOAT16, partials[0]->elements[i]);
        double once = fabs(sum[i]) * HALF_UNIT + magnitude[i] * source_count * 0x1p-24;
        if (!(fabs(result - sum[i]) <= once))
            fail_msg("element %zu of %d sources: %g, exactly %g: more than one rounding", i, source_count,
                     result, sum[i]);
        partials[0]->error[i] = error[i] + once;
    }
}

/* The whole sum against float64: the hops' roundings together and nothing else. */
static void total_check(const struct partial *total)
{
    for (size_t i = 0; i < COUNT; i++) {
        double result = reference_value(WEFT_BFLOAT16, total->elements[i]);
        if (!(fabs(result - exact[i]) <= total->error[i]))
            fail_msg("element %zu: %g, exactly %g, allowed %g", i, result, exact[i], total->error[i]);
    }
}

static void ring(weft_reduce_function *kernel, int rank_count, int sources_per_hop)
{
    ranks_fill(rank_count);
    for (int r = 1; r < rank_count;) {
        struct partial *partials[WEFT_REDUCE_SOURCES_MAX] = {&ranks[0]};
        int n = 1;
        while (n < sources_per_hop && r < rank_count)
            partials[n++] = &ranks[r++];
        hop(kernel, partials, n);
    }
    total_check(&ranks[0]);
}

static void tree(weft_reduce_function *kernel, int rank_count)
{
    ranks_fill(rank_count);
    for (int distance = 1; distance < rank_count; distance *= 2)
        for (int r = 0; r + distance < rank_count; r += 2 * distance)
            hop(kernel, (struct partial *[]){&ranks[r], &ranks[r + distance]}, 2);
    total_check(&ranks[0]);
}

static void at_most_one_rounding_per_hop(void **state)
{
    (void)state;
    static const int rank_counts[] = {2, 7, 64};
    for (int isa = 0; isa < REFERENCE_ISAS; isa++) {
        for (int r = 0; r < 3 && reference_isa_runs(reference_isas[isa]); r++) {
            weft_reduce_function *kernel = weft_reduce_find_isa(reference_isas[isa], WEFT_BFLOAT16, WEFT_SUM);
            ring(kernel, rank_counts[r], 2);
            ring(kernel, rank_counts[r], 3);
            ring(kernel, rank_counts[r], WEFT_REDUCE_SOURCES_MAX);
            tree(kernel, rank_counts[r]);
        }
    }
}

/* Rounding after every addition would lose the small terms: 256 + 1 is 256 in bfloat16. */
static void several_sources_are_rounded_once(void **state)
{
    (void)state;
    static const uint16_t big = 0x4380, one = 0x3f80, minus_big = 0xc380, seven = 0x40e0;
    const void *sum[] = {&big, &one, &one, &one, &one, &one, &one, &minus_big};
    const void *three[] = {&big, &one, &minus_big};
    for (int isa = 0; isa < REFERENCE_ISAS; isa++) {
        if (!reference_isa_runs(reference_isas[isa]))
            continue;
        weft_reduce_function *kernel = weft_reduce_find_isa(reference_isas[isa], WEFT_BFLOAT16, WEFT_AVG);
        uint16_t result;
        kernel(&result, three, 3, 1, 0);
        assert_int_equal(result, one);
        kernel(&result, sum, 8, 1, 0);
        assert_int_equal(result, 0x40c0); /* 6 */
        kernel(&result, (const void *[]){&big, &one}, 2, 1, 257);
        assert_int_equal(result, one); /* the average divides before rounding */
        kernel(&result, (const void *[]){&seven}, 1, 1, 3);
        assert_int_equal(result, 0x4015); /* 7/3 = 2.3333, between 2.328125 and 2.34375 */
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(at_most_one_rounding_per_hop),
        cmocka_unit_test(several_sources_are_rounded_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
