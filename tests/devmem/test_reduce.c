/* SPDX-License-Identifier: Apache-2.0 */
/* run: unthreaded (kernels) */
/* Every kernel against the scalar reference: counts, alignments, numbers of sources, sources overwritten in place, special values, every
 * element of types of 8 and 16 bits, nothing touched outside the destination. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "devmem/reduce.h"
#include "tests/support/bits.h"
#include "tests/support/reduce_reference.h"

#define COUNT_MAX  4200
#define GUARD      64
#define GUARD_BYTE 0xa5
#define SEPARATE   (-1)

typedef weft_reduce_function *finder(const char *isa, weft_dtype dtype, weft_op op);

struct job {
    const char *isa;
    finder *find;
    weft_dtype dtype;
    weft_op op;
    int source_count;
    int alias; /* the source that is the destination, or SEPARATE */
    size_t count;
    uint32_t finish;
    size_t skew_to, skew_from; /* bytes */
};

static unsigned char memory[WEFT_REDUCE_SOURCES_MAX + 1][COUNT_MAX * 16 + 2 * GUARD + 128]
    __attribute__((aligned(64)));

/* Runs one job on fresh data and compares every byte of the destination and around it. */
static void job_check(const struct job *job)
{
    static reference_bits wanted[COUNT_MAX];
    reference_bits elements[WEFT_REDUCE_SOURCES_MAX];
    uint64_t state = job->count * 1009 + (uint64_t)job->op;
    const void *sources[WEFT_REDUCE_SOURCES_MAX];
    size_t size = job->count * weft_dtype_size(job->dtype);
    unsigned char *to = memory[WEFT_REDUCE_SOURCES_MAX] + GUARD + job->skew_to;
    for (int s = 0; s < job->source_count; s++)
        sources[s] = s == job->alias ? to : memory[s] + GUARD + job->skew_from + (size_t)s * 2;
    memset(to - GUARD, GUARD_BYTE, size + 2 * GUARD);
    for (size_t i = 0; i < job->count; i++) {
        for (int s = 0; s < job->source_count; s++) {
            elements[s] = reference_element(job->dtype, &state);
            reference_set(job->dtype, (void *)(uintptr_t)sources[s], i, elements[s]);
        }
        wanted[i] = reference_reduce(job->dtype, job->op, elements, job->source_count, job->finish);
    }
    job->find(job->isa, job->dtype, job->op)(to, sources, job->source_count, job->count, job->finish);
    for (size_t i = 0; i < job->count; i++) {
        reference_bits got = reference_get(job->dtype, to, i);
        if (got != wanted[i])
            fail_msg("WRONG: %s %s %s, %d sources, alias %d, finish %u, element %zu of %zu: got %#llx, "
                     "wanted %#llx",
                     job->isa, weft_dtype_name(job->dtype), weft_op_name(job->op), job->source_count,
                     job->alias, (unsigned)job->finish, i, job->count, (unsigned long long)got,
                     (unsigned long long)wanted[i]);
    }
    for (size_t i = 0; i < GUARD; i++)
        if (to[-1 - (ptrdiff_t)i] != GUARD_BYTE || to[size + i] != GUARD_BYTE)
            fail_msg("WRONG: %s %s %s wrote outside %zu elements", job->isa, weft_dtype_name(job->dtype),
                     weft_op_name(job->op), job->count);
}

/* Calls check for every instruction set here, type and operation. */
static void each_kernel(void (*check)(struct job job))
{
    for (int i = 0; i < REFERENCE_ISAS; i++) {
        if (!reference_isa_runs(reference_isas[i]))
            continue;
        for (int t = 0; t < REFERENCE_TYPES; t++)
            for (weft_op op = 0; op < WEFT_OP_COUNT; op++)
                if (reference_pair(reference_types[t], op))
                    check((struct job){.isa = reference_isas[i],
                                       .find = weft_reduce_find_isa,
                                       .dtype = reference_types[t],
                                       .op = op,
                                       .source_count = 2,
                                       .alias = SEPARATE});
    }
}

static void check_counts(struct job job)
{
    for (job.count = 0; job.count <= 130; job.count++) {
        job_check(&job);
        job.skew_to = job.count % 67;
        job.skew_from = job.count * 5 % 61;
    }
    static const size_t counts[] = {255, 256, 257, 1000, 1023, 1024, 1025, 4097};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        job.count = counts[i];
        job_check(&job);
        job.skew_to = 4 * i;
    }
}

static void every_count_and_alignment(void **state)
{
    (void)state;
    each_kernel(check_counts);
}

/* Longer than eight vectors of any width, so that destinations are brought to alignment. */
static void check_alignments(struct job job)
{
    job.count = 301;
    for (job.skew_to = 0; job.skew_to < 64; job.skew_to++) {
        job.skew_from = job.skew_to;
        job_check(&job);
        job.alias = (int)(job.skew_to % 3) - 1;
    }
}

static void every_alignment(void **state)
{
    (void)state;
    each_kernel(check_alignments);
}

static void check_sources(struct job job)
{
    static const size_t counts[] = {1, 5, 16, 37, 131, 515};
    static const uint32_t finishes[] = {0, 1, 2, 7, 64, 100003};
    for (job.source_count = 1; job.source_count <= WEFT_REDUCE_SOURCES_MAX; job.source_count++) {
        for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
            job.count = counts[i];
            job.finish = job.op == WEFT_AVG ? finishes[(i + (size_t)job.source_count) % 6] : 0;
            for (job.alias = SEPARATE; job.alias < job.source_count; job.alias++) {
                job.skew_to = job.alias > 0 ? 8 : 0;
                job_check(&job);
            }
        }
    }
}

static void every_number_of_sources_and_alias(void **state)
{
    (void)state;
    each_kernel(check_sources);
}

static void check_streaming(struct job job)
{
    job.find = weft_reduce_find_streaming_isa;
    for (job.count = 0; job.count < COUNT_MAX - 100; job.count += 1 + job.count * 3 / 4) {
        for (job.source_count = 1; job.source_count <= 4; job.source_count++) {
            job.finish = job.op == WEFT_AVG && job.count % 2 ? 3 : 0;
            job_check(&job);
            job.skew_to = (job.skew_to + 12) % 64;
            job.alias = (int)(job.count % 3) < job.source_count ? (int)(job.count % 3) - 1 : SEPARATE;
        }
        job.alias = SEPARATE;
    }
}

static void streaming_stores_give_the_same(void **state)
{
    (void)state;
    each_kernel(check_streaming);
}

/* Buffers that end where memory ends, and begin where it begins: one byte too far is a fault. */
static void nothing_outside_is_read(void **state)
{
    (void)state;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    unsigned char *pages[3];
    for (int i = 0; i < 3; i++) {
        pages[i] = mmap(NULL, 3 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        assert_true(pages[i] != MAP_FAILED);
        assert_int_equal(mprotect(pages[i] + page, page, PROT_READ | PROT_WRITE), 0);
        memset(pages[i] + page, i, page);
    }
    for (int isa = 0; isa < REFERENCE_ISAS; isa++) {
        for (int t = 0; t < REFERENCE_TYPES && reference_isa_runs(reference_isas[isa]); t++) {
            weft_reduce_function *kernel =
                weft_reduce_find_isa(reference_isas[isa], reference_types[t], WEFT_PROD);
            for (size_t count = 0; count <= 160; count++) {
                size_t at = page - count * weft_dtype_size(reference_types[t]);
                kernel(pages[2] + page, (const void *[]){pages[0] + page, pages[1] + page}, 2, count, 0);
                kernel(pages[2] + page + at, (const void *[]){pages[0] + page + at, pages[1] + page + at}, 2,
                       count, 0);
            }
        }
    }
    for (int i = 0; i < 3; i++)
        munmap(pages[i], 3 * page);
}

/* Results over so many elements of so many sources against the reference. */
static void compare(const struct job *job, const reference_bits *const *inputs)
{
    enum { MOST = 65536 };
    static unsigned char from[3][MOST * 16], to[MOST * 16];
    const void *sources[] = {from[0], from[1], from[2]};
    for (int s = 0; s < job->source_count; s++)
        for (size_t i = 0; i < job->count; i++)
            reference_set(job->dtype, from[s], i, inputs[s][i]);
    job->find(job->isa, job->dtype, job->op)(to, sources, job->source_count, job->count, job->finish);
    for (size_t i = 0; i < job->count; i++) {
        reference_bits elements[3] = {0};
        for (int s = 0; s < job->source_count; s++)
            elements[s] = inputs[s][i];
        reference_bits got = reference_get(job->dtype, to, i);
        reference_bits wanted =
            reference_reduce(job->dtype, job->op, elements, job->source_count, job->finish);
        if (got != wanted)
            fail_msg("WRONG: %s %s %s of %#llx %#llx %#llx, finish %u: %#llx, wanted %#llx", job->isa,
                     weft_dtype_name(job->dtype), weft_op_name(job->op), (unsigned long long)elements[0],
                     (unsigned long long)elements[1], (unsigned long long)elements[2], (unsigned)job->finish,
                     (unsigned long long)got, (unsigned long long)wanted);
    }
}

static void check_finishes(struct job job)
{
    const uint32_t finishes[] = {1,   2,   3,     7,           64,          127,        128,
                                 255, 256, 65537, 2147483647u, 2147483648u, 4294967295u};
    static reference_bits elements[256];
    uint64_t state = 1;
    if (job.op != WEFT_AVG || !reference_pair(job.dtype, WEFT_XOR))
        return;
    for (size_t i = 0; i < 256; i++)
        elements[i] = i % 2
                          ? reference_element(job.dtype, &state)
                          : reference_random(&state) & (UINT64_MAX >> (64 - 8 * weft_dtype_size(job.dtype)));
    job.source_count = 1;
    job.count = 256;
    for (size_t f = 0; f < sizeof finishes / sizeof *finishes; f++) {
        job.finish = finishes[f];
        compare(&job, (const reference_bits *[]){elements});
    }
}

static void every_finish_of_integers(void **state)
{
    (void)state;
    each_kernel(check_finishes);
}

/* All pairs and triples of special values. */
static void check_specials(struct job job)
{
    enum { TRIPLES = REFERENCE_SPECIALS * REFERENCE_SPECIALS * REFERENCE_SPECIALS };
    static reference_bits a[TRIPLES], b[TRIPLES], c[TRIPLES];
    reference_bits bits[REFERENCE_SPECIALS];
    size_t special_count = reference_specials(job.dtype, bits);
    job.count = special_count * special_count * special_count;
    for (size_t i = 0; i < job.count; i++) {
        a[i] = bits[i % special_count];
        b[i] = bits[i / special_count % special_count];
        c[i] = bits[i / special_count / special_count];
    }
    for (job.source_count = 1; job.source_count <= 3; job.source_count++)
        for (job.finish = 0; job.finish <= (job.op == WEFT_AVG ? 3 : 0); job.finish += 3)
            compare(&job, (const reference_bits *[]){a, b, c});
}

static void special_values(void **state)
{
    (void)state;
    each_kernel(check_specials);
}

/* Of types of a byte all pairs; of float16 every element alone, which widens and narrows it, with special and with random ones. */
static void check_every_element(struct job job)
{
    enum { PAIRS = 65536 };
    static const uint16_t partners[] = {0x0000, 0x3c00, 0x3800, 0x7bff, 0x8001, 0x0401};
    static reference_bits a[PAIRS], b[PAIRS];
    const int is_half = job.dtype == WEFT_FLOAT16, is_bool = job.dtype == WEFT_BOOL;
    uint64_t random = 1;
    if (!is_half && !is_bool && job.dtype != WEFT_FLOAT8_E4M3 && job.dtype != WEFT_FLOAT8_E5M2)
        return;
    job.count = PAIRS;
    for (size_t round = 0; round < (is_half ? 8 : 1); round++) {
        for (size_t i = 0; i < PAIRS; i++) {
            a[i] = is_half ? i : i % 256;
            b[i] = !is_half ? i / 256 : round < 6 ? partners[round] : (uint16_t)reference_random(&random);
        }
        for (job.source_count = 1; job.source_count <= 2; job.source_count++)
            for (job.finish = 0; job.finish <= (job.op == WEFT_AVG ? 3 : 0); job.finish += 3)
                compare(&job, (const reference_bits *[]){a, b});
    }
}

static void every_element(void **state)
{
    (void)state;
    each_kernel(check_every_element);
}

static void check_scale(weft_dtype dtype, size_t count, size_t skew)
{
    static unsigned char from[COUNT_MAX * 16 + 64], to[COUNT_MAX * 16 + 64], scalar[16];
    uint64_t state = count + skew;
    size_t size = count * weft_dtype_size(dtype);
    reference_bits elements[2] = {0, reference_element(dtype, &state)};
    reference_set(dtype, scalar, 0, elements[1]);
    for (size_t i = 0; i < count; i++)
        reference_set(dtype, from + skew, i, reference_element(dtype, &state));
    for (int in_place = 0; in_place < 2; in_place++) {
        unsigned char *result = in_place ? from + skew : to + skew / 2;
        static unsigned char before[COUNT_MAX * 16];
        memcpy(before, from + skew, size);
        unsigned char guard = result[size] = GUARD_BYTE;
        assert_int_equal(weft_scale(dtype, result, from + skew, count, scalar), WEFT_OK);
        assert_bits(result[size] == guard);
        for (size_t i = 0; i < count; i++) {
            elements[0] = reference_get(dtype, before, i);
            assert_bits(reference_get(dtype, result, i) ==
                        reference_reduce(dtype, WEFT_PROD, elements, 2, 0));
        }
    }
}

static void scaling(void **state)
{
    (void)state;
    static const size_t counts[] = {0, 1, 3, 17, 100, 255, 256, 257, 1025, 4100};
    for (int t = 0; t < REFERENCE_TYPES; t++)
        for (size_t i = 0; reference_types[t] != WEFT_BOOL && i < sizeof counts / sizeof *counts; i++)
            check_scale(reference_types[t], counts[i], i * 3);
    const int16_t ints[] = {300, -300}, factor = 300;
    int16_t products[2];
    assert_int_equal(weft_scale(WEFT_INT16, products, ints, 2, &factor), WEFT_OK);
    assert_bits(products[0] == 24464 && products[1] == -24464); /* 90000 - 65536 */
    unsigned char byte = 1, untouched = 7;
    assert_int_equal(weft_scale(WEFT_BOOL, &untouched, &byte, 1, &byte), WEFT_UNSUPPORTED);
    assert_int_equal(weft_scale((weft_dtype)-1, &untouched, &byte, 1, &byte), WEFT_UNSUPPORTED);
    assert_int_equal(weft_scale(WEFT_DTYPE_COUNT, &untouched, &byte, 1, &byte), WEFT_UNSUPPORTED);
    assert_bits(untouched == 7);
}

static void unsupported_pairs_are_null(void **state)
{
    (void)state;
    for (int dtype = -1; dtype <= WEFT_DTYPE_COUNT; dtype++) {
        for (int op = -1; op <= WEFT_OP_COUNT; op++) {
            int wanted = reference_pair((weft_dtype)dtype, (weft_op)op);
            assert_int_equal(weft_reduce_find((weft_dtype)dtype, (weft_op)op) != NULL, wanted);
            assert_int_equal(weft_reduce_find_streaming((weft_dtype)dtype, (weft_op)op) != NULL, wanted);
            for (int isa = 0; isa < REFERENCE_ISAS; isa++)
                if (reference_isa_runs(reference_isas[isa]))
                    assert_int_equal(
                        weft_reduce_find_isa(reference_isas[isa], (weft_dtype)dtype, (weft_op)op) != NULL,
                        wanted);
        }
    }
    assert_null(weft_reduce_find(WEFT_COMPLEX64, WEFT_MIN));
    assert_null(weft_reduce_find(WEFT_BOOL, WEFT_AVG));
    assert_null(weft_reduce_find(WEFT_FLOAT8_E4M3, WEFT_AND));
    assert_non_null(weft_reduce_find(WEFT_UINT64, WEFT_XOR));
    assert_null(weft_reduce_find_isa("vax", WEFT_FLOAT32, WEFT_SUM));
    assert_non_null(weft_reduce_find_isa(weft_reduce_isa(), WEFT_FLOAT32, WEFT_SUM));
}

static void copies_copy(void **state)
{
    (void)state;
    static void (*const copies[])(void *, const void *, size_t) = {weft_copy, weft_copy_streaming};
    unsigned char *from = memory[0], *to = memory[1];
    for (size_t i = 0; i < sizeof memory[0]; i++)
        from[i] = (unsigned char)(i * 167 + i / 256);
    for (size_t size = 0; size < COUNT_MAX * 8; size += 1 + size / 9) {
        for (size_t c = 0; c < 2; c++) {
            size_t skew = GUARD + size % 64, back = size % 7;
            memset(to, GUARD_BYTE, sizeof memory[1]);
            copies[c](to + skew, from + back, size);
            assert_memory_equal(to + skew, from + back, size);
            for (size_t i = 1; i <= GUARD; i++)
                assert_bits(to[skew - i] == GUARD_BYTE && to[skew + size + i - 1] == GUARD_BYTE);
        }
    }
}

static void large_copies_copy(void **state)
{
    (void)state;
    size_t size = 40u << 20;
    unsigned char *from = malloc(size + 64), *to = malloc(size + 64);
    assert_non_null(from);
    assert_non_null(to);
    for (size_t i = 0; i < size + 64; i++)
        from[i] = (unsigned char)(i * 31 + i / 4096);
    memset(to, GUARD_BYTE, size + 64);
    weft_copy(to + 3, from + 5, size);
    assert_bits(memcmp(to + 3, from + 5, size) == 0);
    assert_bits(to[2] == GUARD_BYTE && to[size + 3] == GUARD_BYTE);
    free(from);
    free(to);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_count_and_alignment),
        cmocka_unit_test(every_alignment),
        cmocka_unit_test(every_number_of_sources_and_alias),
        cmocka_unit_test(streaming_stores_give_the_same),
        cmocka_unit_test(nothing_outside_is_read),
        cmocka_unit_test(every_finish_of_integers),
        cmocka_unit_test(special_values),
        cmocka_unit_test(every_element),
        cmocka_unit_test(scaling),
        cmocka_unit_test(unsupported_pairs_are_null),
        cmocka_unit_test(copies_copy),
        cmocka_unit_test(large_copies_copy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
