/* Every kernel against the scalar reference: counts, alignments, numbers of sources, sources overwritten in
 * place, nothing touched outside the destination. */
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

static unsigned char memory[WEFT_REDUCE_SOURCES_MAX + 1][COUNT_MAX * 8 + 2 * GUARD + 128]
    __attribute__((aligned(64)));

/* Runs one job on fresh data and compares every byte of the destination and around it. */
static void job_check(const struct job *job)
{
    static uint64_t wanted[COUNT_MAX];
    uint64_t elements[WEFT_REDUCE_SOURCES_MAX], state = job->count * 1009 + (uint64_t)job->op;
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
        uint64_t got = reference_get(job->dtype, to, i);
        if (got != wanted[i])
            fail_msg("%s %s %s, %d sources, alias %d, finish %u, element %zu of %zu: got %#llx, wanted %#llx",
                     job->isa, weft_dtype_name(job->dtype), weft_op_name(job->op), job->source_count,
                     job->alias, (unsigned)job->finish, i, job->count, (unsigned long long)got,
                     (unsigned long long)wanted[i]);
    }
    for (size_t i = 0; i < GUARD; i++)
        if (to[-1 - (ptrdiff_t)i] != GUARD_BYTE || to[size + i] != GUARD_BYTE)
            fail_msg("%s %s %s wrote outside %zu elements", job->isa, weft_dtype_name(job->dtype),
                     weft_op_name(job->op), job->count);
}

/* Calls check for every instruction set here, type and operation. */
static void each_kernel(void (*check)(struct job job))
{
    for (int i = 0; i < REFERENCE_ISAS; i++) {
        if (!reference_isa_runs(reference_isas[i]))
            continue;
        for (int t = 0; t < REFERENCE_TYPES; t++)
            for (weft_op op = 0; op <= WEFT_AVG; op++)
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
                weft_reduce_find_isa(reference_isas[isa], reference_types[t], WEFT_SUM);
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

static void every_finish_of_integers(void **state)
{
    (void)state;
    const int32_t values[] = {INT32_MIN, INT32_MIN + 1, -65536, -8, -7, -1, 0, 1, 7, 8, 65535, INT32_MAX};
    const uint32_t finishes[] = {1, 2, 3, 7, 64, 65537, 2147483647u, 2147483648u, 4294967295u};
    for (int isa = 0; isa < REFERENCE_ISAS; isa++) {
        if (!reference_isa_runs(reference_isas[isa]))
            continue;
        weft_reduce_function *kernel = weft_reduce_find_isa(reference_isas[isa], WEFT_INT32, WEFT_AVG);
        for (size_t f = 0; f < sizeof finishes / sizeof *finishes; f++) {
            int32_t result[sizeof values / sizeof *values];
            const void *sources[] = {values};
            kernel(result, sources, 1, sizeof values / sizeof *values, finishes[f]);
            for (size_t i = 0; i < sizeof values / sizeof *values; i++)
                assert_int_equal(result[i], values[i] / (int64_t)finishes[f]);
        }
    }
}

static void unsupported_pairs_are_null(void **state)
{
    (void)state;
    for (int dtype = -1; dtype <= WEFT_DTYPE_COUNT; dtype++) {
        int known = 0;
        for (int t = 0; t < REFERENCE_TYPES; t++)
            known |= reference_types[t] == (weft_dtype)dtype;
        for (int op = -1; op <= WEFT_OP_COUNT; op++) {
            int wanted = known && op >= 0 && op <= WEFT_AVG;
            assert_int_equal(weft_reduce_find((weft_dtype)dtype, (weft_op)op) != NULL, wanted);
            assert_int_equal(weft_reduce_find_streaming((weft_dtype)dtype, (weft_op)op) != NULL, wanted);
            assert_int_equal(weft_reduce_find_isa("portable", (weft_dtype)dtype, (weft_op)op) != NULL,
                             wanted);
        }
    }
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
                assert_true(to[skew - i] == GUARD_BYTE && to[skew + size + i - 1] == GUARD_BYTE);
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
    assert_int_equal(memcmp(to + 3, from + 5, size), 0);
    assert_true(to[2] == GUARD_BYTE && to[size + 3] == GUARD_BYTE);
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
        cmocka_unit_test(unsupported_pairs_are_null),
        cmocka_unit_test(copies_copy),
        cmocka_unit_test(large_copies_copy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
