/* SPDX-License-Identifier: Apache-2.0 */
/* build: with tests/fakes/drivers/cuda_kernels.c */
/* run: unthreaded (runs kernels thread by thread, in one thread) */
/* The CUDA kernels themselves, compiled as C and run thread by thread: every family of types and operations, head, vectors and tail at
 * every alignment, sources askew, batches, results in two places and in place, bit for bit as the host's kernels. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "devmem/cuda/kernels.h"
#include "devmem/reduce.h"
#include "tests/fakes/drivers/cuda_kernels.h"
#include "tests/support/bits.h"
#include "tests/support/reduce_reference.h"

#define COUNT_MAX  70000
#define GUARD      64
#define GUARD_BYTE 0xa5
#define SEPARATE   (-1)

static int kernel_ran[WEFT_KERNEL_COUNT];

static void launch_run(const struct weft_kernel_launch *launch, int backwards)
{
    kernel_ran[launch->kernel] = 1;
    cuda_kernels_launch(launch->kernel, launch->grid, launch->block, &launch->batch, backwards);
}

static const struct weft_kernel_device device = {.multiprocessors = 3, .major = 9, .minor = 0};

struct job {
    weft_dtype dtype;
    weft_op op;
    uint32_t source_count;
    int alias;        /* the source that the first destination is, or SEPARATE */
    int second;       /* bytes by which a second destination is askew, or SEPARATE for none */
    int second_alias; /* the source that this one is, or SEPARATE */
    size_t count;
    uint32_t finish;
    int scaled;
    size_t skew_to, skew_from; /* bytes */
    int backwards;
};

/* Room for all combinations of three special elements of any type, too. */
#define BUFFER_BYTES (REFERENCE_SPECIALS * REFERENCE_SPECIALS * REFERENCE_SPECIALS * 16 + 2 * GUARD + 64)
static unsigned char inputs[WEFT_KERNEL_SOURCES][BUFFER_BYTES] __attribute__((aligned(64)));
static unsigned char outputs[2][BUFFER_BYTES] __attribute__((aligned(64)));
static unsigned char wanted[BUFFER_BYTES], scaled[BUFFER_BYTES];

/* What the host makes of it. */
static void job_expect(const struct job *job, const void *const *sources, const void *scalar)
{
    const void *from[WEFT_KERNEL_SOURCES];
    memcpy(from, sources, sizeof from);
    if (job->scaled) {
        assert_int_equal(weft_scale(job->dtype, scaled, sources[0], job->count, scalar), WEFT_OK);
        from[0] = scaled;
    }
    weft_reduce_find(job->dtype, job->op)(wanted, from, (int)job->source_count, job->count, job->finish);
}

static void guard_set(unsigned char *to, size_t size)
{
    memset(to - GUARD, GUARD_BYTE, GUARD);
    memset(to + size, GUARD_BYTE, GUARD);
}

static void result_check(const struct job *job, const unsigned char *to, size_t size, int kernel)
{
    size_t element = weft_dtype_size(job->dtype), i = 0;
    while (i < size && to[i] == wanted[i])
        i++;
    if (i < size)
        fail_msg("WRONG: %s, %s %s: %u sources, alias %d, finish %u, skews %zu and %zu: element %zu of %zu "
                 "differs",
                 weft_kernel_name(kernel), weft_dtype_name(job->dtype), weft_op_name(job->op),
                 (unsigned)job->source_count, job->alias, (unsigned)job->finish, job->skew_to, job->skew_from,
                 i / element, job->count);
    for (i = 0; i < GUARD; i++)
        if (to[-1 - (ptrdiff_t)i] != GUARD_BYTE || to[size + i] != GUARD_BYTE)
            fail_msg("WRONG: %s wrote outside of %zu elements", weft_kernel_name(kernel), job->count);
}

/* The same by the one step of a program, in several blocks. A copy is no reduction, and what is computed in place is done once. */
static void collective_check(const struct job *job, const struct weft_device_reduction *reduction)
{
    static const struct weft_kernel_device large = {.multiprocessors = 12, .major = 9};
    static const uint64_t stop;
    struct weft_kernel_collective_launch launch;
    struct weft_device_step step = {.source_count = reduction->source_count,
                                    .destination_count = reduction->destination_count,
                                    .finish = reduction->finish,
                                    .count = reduction->count};
    size_t size = job->count * weft_dtype_size(job->dtype);
    if (job->scaled || job->alias != SEPARATE || job->second_alias != SEPARATE ||
        (job->source_count == 1 && !job->finish))
        return;
    memcpy(step.sources, reduction->sources, step.source_count * sizeof *step.sources);
    memcpy(step.destinations, reduction->destinations, step.destination_count * sizeof *step.destinations);
    const struct weft_device_collective collective = {
        sizeof collective, job->dtype, job->op, 1, 0, &step, NULL};
    assert_int_equal(weft_kernel_collective(&launch, &large, &collective, 0), 1);
    kernel_ran[launch.kernel] = 1;
    launch.collective.meeting = 5;
    launch.collective.stop = &stop;
    for (uint32_t d = 0; d < step.destination_count; d++) {
        memset(step.destinations[d], 0, size);
        guard_set(step.destinations[d], size);
    }
    cuda_kernels_launch_collective(launch.kernel, launch.grid, &launch.collective);
    for (uint32_t d = 0; d < step.destination_count; d++)
        result_check(job, step.destinations[d], size, launch.kernel);
}

/* Runs a job on what lies in the inputs, or where fresh is set on new elements. */
static void job_check(const struct job *job, int fresh)
{
    static uint64_t random = 7;
    const void *sources[WEFT_KERNEL_SOURCES] = {0};
    void *destinations[2];
    unsigned char scalar[16];
    size_t element = weft_dtype_size(job->dtype), size = job->count * element;
    struct weft_kernel_launch launch;
    destinations[0] = outputs[0] + GUARD + job->skew_to;
    destinations[1] = outputs[1] + GUARD + job->skew_to + (job->second > 0 ? (size_t)job->second : 0);
    for (uint32_t s = 0; s < job->source_count; s++) {
        unsigned char *from = inputs[s] + GUARD + (job->skew_from + s * (job->skew_from % 5)) % 32;
        if (job->alias == (int)s)
            from = destinations[0];
        else if (job->second != SEPARATE && job->second_alias == (int)s)
            from = destinations[1];
        sources[s] = from;
        for (size_t i = 0; fresh && i < job->count; i++)
            reference_set(job->dtype, from, i, reference_element(job->dtype, &random));
    }
    reference_set(job->dtype, scalar, 0, reference_element(job->dtype, &random));
    job_expect(job, sources, scalar);
    struct weft_device_reduction reduction = {sizeof reduction,
                                              job->dtype,
                                              job->op,
                                              job->source_count,
                                              job->second == SEPARATE ? 1 : 2,
                                              sources,
                                              destinations,
                                              job->count,
                                              job->finish,
                                              0,
                                              job->scaled ? scalar : NULL};
    cuda_kernels_forbid();
    for (uint32_t s = 0; s < job->source_count; s++)
        cuda_kernels_allow(sources[s], size, 0);
    for (uint32_t d = 0; d < reduction.destination_count; d++) {
        cuda_kernels_allow(destinations[d], size, 1);
        guard_set(destinations[d], size);
    }
    assert_int_equal(weft_kernel_reduce(&launch, &device, &reduction, 1), 1);
    launch_run(&launch, job->backwards);
    for (uint32_t d = 0; d < reduction.destination_count; d++)
        result_check(job, destinations[d], size, launch.kernel);
    collective_check(job, &reduction);
}

static void each_pair(void (*check)(struct job job))
{
    for (int t = 0; t < REFERENCE_TYPES; t++)
        for (weft_op op = 0; op < WEFT_OP_COUNT; op++)
            if (reference_pair(reference_types[t], op))
                check((struct job){.dtype = reference_types[t],
                                   .op = op,
                                   .source_count = 2,
                                   .alias = SEPARATE,
                                   .second = SEPARATE,
                                   .second_alias = SEPARATE});
}

/* Numbers of sources with all the rest that a reduction can have. */
static void check_forms(struct job job)
{
    static const uint32_t finishes[] = {0, 1, 2, 7, 300, 100003, 0x80000000, 0xffffffff};
    static const size_t counts[] = {1, 5, 37, 67, 131, 300};
    int sums = job.op == WEFT_SUM || job.op == WEFT_AVG;
    for (job.source_count = 1; job.source_count <= WEFT_KERNEL_SOURCES; job.source_count++) {
        for (size_t i = 0; i < 24; i++) {
            job.count = counts[i % 6];
            job.finish = job.op == WEFT_AVG ? finishes[(i + job.source_count) % 8] : 0;
            job.alias = (int)(i % (job.source_count + 1)) - 1;
            job.second = i % 3 == 1 ? (int)(i % 2 * 16) : SEPARATE;
            job.second_alias = (int)(i / 3 % (job.source_count + 1)) - 1;
            job.scaled = sums && job.dtype != WEFT_BOOL && i % 4 == 3;
            job.skew_to = i / 8 % 2 * 16 + (i % 8 ? 0 : weft_dtype_size(job.dtype) % 16);
            job.skew_from = i % 5 == 0 ? job.skew_to : 0;
            job.backwards = i / 6 % 2;
            job_check(&job, 1);
        }
    }
}

static void every_number_of_sources(void **state)
{
    (void)state;
    each_pair(check_forms);
}

/* Every alignment of the destination against every one of the source, whatever the size of an element. */
static void check_alignments(struct job job)
{
    static const size_t counts[] = {1, 3, 16, 40, 130};
    uint32_t dense = job.dtype == WEFT_FLOAT16 || job.dtype == WEFT_FLOAT32 || job.dtype == WEFT_UINT8;
    size_t step = job.op == WEFT_SUM && dense ? 1 : 5;
    for (size_t i = 0; i < 256; i += step) {
        job.skew_to = i % 16;
        job.skew_from = i / 16;
        job.source_count = 2 + i % 2;
        job.count = counts[i % 5] + i % 4;
        job.second = i % 7 == 0 ? (int)(i % 16) : SEPARATE;
        job.second_alias = (int)(i % 3) - 1;
        job.backwards = i % 2;
        job_check(&job, 1);
    }
}

static void every_alignment(void **state)
{
    (void)state;
    each_pair(check_alignments);
}

/* Counts from nothing to several hundred, of which no vector is left out and none is done twice. */
static void every_count(void **state)
{
    (void)state;
    static const weft_dtype types[] = {WEFT_INT8, WEFT_BFLOAT16, WEFT_FLOAT32, WEFT_COMPLEX64,
                                       WEFT_COMPLEX128};
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        struct job job = {.dtype = types[t], .op = WEFT_SUM, .source_count = 2};
        job.second = job.second_alias = SEPARATE;
        for (job.count = 0; job.count <= 400; job.count += 1 + job.count / 100) {
            job.skew_to = job.count % 3 == 1 ? weft_dtype_size(types[t]) % 16 : 0;
            job.skew_from = job.count % 3 == 2 ? 4 : job.skew_to;
            job.backwards = job.count % 2;
            job.alias = job.count % 5 == 0 ? 0 : SEPARATE;
            job_check(&job, 1);
        }
    }
}

/* Tiles of several blocks, the last one not whole, and blocks that go round more than once. */
static void large_counts(void **state)
{
    (void)state;
    static const struct {
        weft_dtype dtype;
        weft_op op;
        uint32_t source_count;
        size_t count;
    } jobs[] = {
        {WEFT_FLOAT32, WEFT_SUM, 2, 33333},    {WEFT_FLOAT32, WEFT_SUM, 2, 32768},
        {WEFT_FLOAT16, WEFT_SUM, 3, 66666},    {WEFT_BFLOAT16, WEFT_PROD, 2, 70000},
        {WEFT_FLOAT64, WEFT_MIN, 2, 16500},    {WEFT_FLOAT8_E4M3, WEFT_SUM, 4, 69999},
        {WEFT_COMPLEX128, WEFT_PROD, 2, 4000}, {WEFT_BOOL, WEFT_XOR, 2, 65537},
        {WEFT_UINT8, WEFT_SUM, 2, 70000},
    };
    for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++) {
        struct job job = {.dtype = jobs[i].dtype, .op = jobs[i].op, .source_count = jobs[i].source_count};
        job.second = job.second_alias = SEPARATE;
        job.count = jobs[i].count;
        for (int round = 0; round < 3; round++) {
            job.skew_to = round == 1 ? weft_dtype_size(job.dtype) % 16 : 0;
            job.skew_from = round == 2 ? 1 : job.skew_to;
            job.alias = round == 1 ? 1 : SEPARATE;
            job.backwards = round == 1;
            job_check(&job, 1);
        }
    }
}

/* Sources 0 and 1 hold all pairs of bytes, or all numbers of 16 bits and partners. */
static void all_pairs_lie_in_inputs(weft_dtype dtype, int round)
{
    static const uint16_t partners[] = {0x0000, 0x3c00, 0x3800, 0x7bff, 0x8001, 0x0401, 0x3f80, 0x7f7f};
    static uint64_t random = 99;
    for (size_t i = 0; i < 65536; i++) {
        if (weft_dtype_size(dtype) == 1) {
            inputs[0][GUARD + i] = (unsigned char)i;
            inputs[1][GUARD + i] = (unsigned char)(i / 256);
            continue;
        }
        uint16_t a = (uint16_t)i, b = round < 8 ? partners[round] : (uint16_t)reference_random(&random);
        memcpy(inputs[0] + GUARD + 2 * i, &a, 2);
        memcpy(inputs[1] + GUARD + 2 * i, &b, 2);
    }
}

static void check_all_pairs(struct job job)
{
    size_t size = weft_dtype_size(job.dtype);
    job.count = 65536;
    if (size > 2)
        return;
    for (int round = 0; round < (size == 1 ? 1 : 10); round++) {
        all_pairs_lie_in_inputs(job.dtype, round);
        for (job.source_count = round ? 2 : 1; job.source_count <= 2; job.source_count++) {
            job.finish = 0;
            job_check(&job, 0);
            job.finish = job.op == WEFT_AVG ? 3 : 0;
            if (job.finish)
                job_check(&job, 0);
            job.scaled = job.op == WEFT_SUM && job.dtype != WEFT_BOOL;
            for (int scalars = 0; job.scaled && scalars < 3; scalars++)
                job_check(&job, 0);
            job.scaled = 0;
        }
    }
}

static void every_pair_of_small_elements(void **state)
{
    (void)state;
    each_pair(check_all_pairs);
}

/* All combinations of special elements, and what the scalar reference makes of them. */
static void check_specials(struct job job)
{
    reference_bits specials[REFERENCE_SPECIALS];
    size_t count = reference_specials(job.dtype, specials);
    job.source_count = 3;
    job.count = count * count * count;
    for (size_t i = 0; i < job.count; i++) {
        reference_set(job.dtype, inputs[0] + GUARD, i, specials[i % count]);
        reference_set(job.dtype, inputs[1] + GUARD, i, specials[i / count % count]);
        reference_set(job.dtype, inputs[2] + GUARD, i, specials[i / count / count]);
    }
    job_check(&job, 0);
    for (size_t i = 0; i < job.count; i += 7) {
        reference_bits elements[] = {specials[i % count], specials[i / count % count],
                                     specials[i / count / count]};
        assert_bits(reference_get(job.dtype, outputs[0] + GUARD, i) ==
                    reference_reduce(job.dtype, job.op, elements, 3, 0));
    }
}

static void special_elements(void **state)
{
    (void)state;
    each_pair(check_specials);
}

/* Pieces of different sizes, alignments and numbers of sources in one launch, an empty one among them: more than fit in. */
static void batches(void **state)
{
    (void)state;
    enum { PIECES = 20, FLOATS = 2000 };
    static float from[PIECES][3][FLOATS], to[PIECES][FLOATS];
    static const void *sources[PIECES][3];
    static void *destinations[PIECES][1];
    struct weft_device_reduction reductions[PIECES];
    struct weft_kernel_launch launch;
    cuda_kernels_forbid();
    for (size_t p = 0; p < PIECES; p++) {
        uint64_t count = p == 3 ? 0 : 1 + p * p * 4;
        for (size_t s = 0; s < 3; s++) {
            sources[p][s] = from[p][s] + p % 3;
            for (size_t i = 0; i < FLOATS; i++)
                from[p][s][i] = (float)(p * 100 + s * 10 + i);
        }
        destinations[p][0] = to[p] + 1 + p % 2;
        reductions[p] = (struct weft_device_reduction){
            sizeof *reductions, WEFT_FLOAT32, WEFT_SUM, 2 + p % 2, 1,   sources[p],
            destinations[p],    count,        0,        0,         NULL};
    }
    cuda_kernels_allow(from, sizeof from, 0);
    cuda_kernels_allow(to, sizeof to, 1);
    for (size_t done = 0, taken; done < PIECES; done += taken) {
        taken = (size_t)weft_kernel_reduce(&launch, &device, reductions + done, PIECES - done);
        assert_int_equal(taken, done ? PIECES - WEFT_KERNEL_PIECES - 1 : WEFT_KERNEL_PIECES + 1);
        launch_run(&launch, 1);
    }
    for (size_t p = 0; p < PIECES; p++) {
        const float *result = destinations[p][0];
        for (size_t i = 0; i < reductions[p].count; i++) {
            const float *a = sources[p][0], *b = sources[p][1], *c = sources[p][2];
            assert_bits(result[i] == (p % 2 ? a[i] + b[i] + c[i] : a[i] + b[i]));
        }
        assert_bits(result[-1] == 0 && result[reductions[p].count] == 0);
    }
}

static void copies(void **state)
{
    (void)state;
    struct weft_kernel_launch launch;
    for (size_t i = 0; i < 400; i++) {
        size_t sizes[] = {i, 1 + i * 331 % 60000, 17 * (i % 5)};
        struct weft_kernel_copy jobs[3];
        cuda_kernels_forbid();
        for (size_t p = 0; p < 3; p++) {
            unsigned char *from = inputs[p] + GUARD + i % 16;
            unsigned char *to = inputs[3 + p] + GUARD + (i % 3 ? i / 16 % 16 : i % 16);
            for (size_t k = 0; k < sizes[p]; k++)
                from[k] = (unsigned char)(k * 7 + i + p);
            jobs[p] = (struct weft_kernel_copy){to, from, sizes[p]};
            guard_set(to, sizes[p]);
            cuda_kernels_allow(from, sizes[p], 0);
            cuda_kernels_allow(to, sizes[p], 1);
        }
        assert_int_equal(weft_kernel_copy(&launch, &device, jobs, 3), 3);
        launch_run(&launch, (int)(i % 2));
        for (size_t p = 0; p < 3; p++) {
            const unsigned char *to = jobs[p].destination;
            assert_memory_equal(to, jobs[p].source, sizes[p]);
            assert_bits(to[-1] == GUARD_BYTE && to[sizes[p]] == GUARD_BYTE);
        }
    }
    static unsigned char from[40000], to[40000];
    cuda_kernels_forbid();
    cuda_kernels_allow(from, sizeof from, 0);
    cuda_kernels_allow(to, sizeof to, 1);
    memset(from, 3, sizeof from);
    struct weft_kernel_copy whole = {to, from, sizeof to};
    assert_int_equal(weft_kernel_copy(&launch, &device, &whole, 1), 1);
    launch_run(&launch, 0);
    assert_memory_equal(to, from, sizeof to);
}

static void all_kernels_ran(void **state)
{
    (void)state;
    for (int k = 0; k < WEFT_KERNEL_COUNT; k++)
        if (!kernel_ran[k])
            fail_msg("%s has not run", weft_kernel_name(k));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_number_of_sources),
        cmocka_unit_test(every_alignment),
        cmocka_unit_test(every_count),
        cmocka_unit_test(large_counts),
        cmocka_unit_test(every_pair_of_small_elements),
        cmocka_unit_test(special_elements),
        cmocka_unit_test(batches),
        cmocka_unit_test(copies),
        cmocka_unit_test(all_kernels_ran),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
