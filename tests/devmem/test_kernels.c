/* SPDX-License-Identifier: Apache-2.0 */
/* run: unthreaded (computes) */
/* How launches of the CUDA kernels look: which kernel, how many blocks, where vectors begin and end, and what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "devmem/cuda/kernels.h"
#include "devmem/reduce.h"

#define ADDRESS(number) ((void *)(uintptr_t)(number))

static const struct weft_kernel_device hopper = {.multiprocessors = 132, .major = 9, .minor = 0};

/* A reduction that nobody runs: addresses are numbers. */
struct asked {
    const void *sources[WEFT_KERNEL_SOURCES];
    void *destinations[2];
    struct weft_device_reduction reduction;
};

static struct weft_device_reduction *asked_make(struct asked *asked, weft_dtype dtype, weft_op op,
                                                uint64_t count)
{
    memset(asked, 0, sizeof *asked);
    for (uintptr_t s = 0; s < WEFT_KERNEL_SOURCES; s++)
        asked->sources[s] = ADDRESS(0x100000000 * (s + 1));
    asked->destinations[0] = ADDRESS(0x1000000000);
    asked->destinations[1] = ADDRESS(0x2000000000);
    asked->reduction = (struct weft_device_reduction){
        sizeof asked->reduction, dtype, op, 2, 1, asked->sources, asked->destinations, count, 0, 0, NULL};
    return &asked->reduction;
}

static void names_are_all_different(void **state)
{
    (void)state;
    for (int k = 0; k < WEFT_KERNEL_COUNT; k++)
        for (int other = 0; other < k; other++)
            assert_string_not_equal(weft_kernel_name(k), weft_kernel_name(other));
    assert_string_equal(weft_kernel_name(WEFT_KERNEL_float32_sum_2), "weft_cuda_float32_sum_2");
    assert_null(weft_kernel_name(-1));
    assert_null(weft_kernel_name(WEFT_KERNEL_COUNT));
}

/* The device reduces what the host does, and nothing else. */
static void pairs_are_those_of_the_host(void **state)
{
    (void)state;
    struct weft_kernel_launch launch;
    struct asked asked;
    for (int dtype = -1; dtype <= WEFT_DTYPE_COUNT; dtype++) {
        for (int op = -1; op <= WEFT_OP_COUNT; op++) {
            int exists = weft_reduce_find((weft_dtype)dtype, (weft_op)op) != NULL;
            int got = weft_kernel_reduce(&launch, &hopper,
                                         asked_make(&asked, (weft_dtype)dtype, (weft_op)op, 5), 1);
            assert_int_equal(got, exists ? 1 : WEFT_UNSUPPORTED);
        }
    }
}

static void what_is_refused(void **state)
{
    (void)state;
    static const struct weft_kernel_device turing = {.multiprocessors = 40, .major = 7, .minor = 5};
    const float scalar = 2;
    struct weft_kernel_launch launch;
    struct asked asked;
    struct weft_device_reduction *reduction = asked_make(&asked, WEFT_FLOAT32, WEFT_SUM, 5);
    struct weft_kernel_copy copy = {ADDRESS(16), ADDRESS(32), 16};
    assert_int_equal(weft_kernel_reduce(&launch, &turing, reduction, 1), WEFT_UNSUPPORTED);
    assert_int_equal(weft_kernel_copy(&launch, &turing, &copy, 1), WEFT_UNSUPPORTED);
    assert_int_equal(weft_kernel_reduce(&launch, &hopper, reduction, 0), WEFT_INVALID);
    assert_int_equal(weft_kernel_copy(&launch, &hopper, &copy, 0), WEFT_INVALID);
    reduction->size--;
    assert_int_equal(weft_kernel_reduce(&launch, &hopper, reduction, 1), WEFT_INVALID);
    reduction->size++;
    reduction->source_count = 0;
    assert_int_equal(weft_kernel_reduce(&launch, &hopper, reduction, 1), WEFT_INVALID);
    reduction->source_count = 9;
    assert_int_equal(weft_kernel_reduce(&launch, &hopper, reduction, 1), WEFT_INVALID);
    reduction->source_count = 8;
    reduction->destination_count = 0;
    assert_int_equal(weft_kernel_reduce(&launch, &hopper, reduction, 1), WEFT_INVALID);
    reduction->destination_count = 3;
    assert_int_equal(weft_kernel_reduce(&launch, &hopper, reduction, 1), WEFT_INVALID);
    reduction->destination_count = 2;
    reduction->scalar = &scalar;
    assert_int_equal(weft_kernel_reduce(&launch, &hopper, reduction, 1), 1);
    reduction->op = WEFT_MAX;
    assert_int_equal(weft_kernel_reduce(&launch, &hopper, reduction, 1), WEFT_UNSUPPORTED);
    reduction->op = WEFT_SUM;
    reduction->dtype = WEFT_BOOL;
    assert_int_equal(weft_kernel_reduce(&launch, &hopper, reduction, 1), WEFT_UNSUPPORTED);
}

static void kernels_for_fixed_numbers_of_sources(void **state)
{
    (void)state;
    struct weft_kernel_launch launch;
    struct asked asked;
    struct weft_device_reduction *reduction = asked_make(&asked, WEFT_FLOAT32, WEFT_AVG, 4096);
    weft_kernel_reduce(&launch, &hopper, reduction, 1);
    assert_int_equal(launch.kernel, WEFT_KERNEL_float32_sum_2);
    reduction->source_count = 3;
    weft_kernel_reduce(&launch, &hopper, reduction, 1);
    assert_int_equal(launch.kernel, WEFT_KERNEL_float32_sum_3);
    reduction->finish = 3;
    weft_kernel_reduce(&launch, &hopper, reduction, 1);
    assert_int_equal(launch.kernel, WEFT_KERNEL_float32_sum);
    assert_int_equal(launch.batch.pieces[0].finish, 3);
    reduction->op = WEFT_SUM; /* finish is for avg alone */
    weft_kernel_reduce(&launch, &hopper, reduction, 1);
    assert_int_equal(launch.kernel, WEFT_KERNEL_float32_sum_3);
    assert_int_equal(launch.batch.pieces[0].finish, 0);
    asked.sources[1] = ADDRESS(0x200000004); /* askew */
    weft_kernel_reduce(&launch, &hopper, reduction, 1);
    assert_int_equal(launch.kernel, WEFT_KERNEL_float32_sum);
    asked.sources[0] = ADDRESS(0x100000004);
    asked.sources[2] = ADDRESS(0x300000004);
    asked.destinations[0] = ADDRESS(0x1000000004); /* all alike again */
    weft_kernel_reduce(&launch, &hopper, reduction, 1);
    assert_int_equal(launch.kernel, WEFT_KERNEL_float32_sum_3);
    assert_int_equal(launch.batch.pieces[0].head_bytes, 12);
    assert_int_equal(launch.batch.pieces[0].vectors, 1023);
}

/* From 8 bytes to terabytes: enough blocks, none without work, never more than a few for each multiprocessor. */
static void grids_follow_counts(void **state)
{
    (void)state;
    struct weft_kernel_launch launch;
    struct asked asked;
    weft_kernel_reduce(&launch, &hopper, asked_make(&asked, WEFT_FLOAT32, WEFT_SUM, 0), 1);
    assert_int_equal(launch.grid, 0);
    for (uint64_t count = 1; count <= 1024; count *= 2) {
        weft_kernel_reduce(&launch, &hopper, asked_make(&asked, WEFT_FLOAT32, WEFT_SUM, count), 1);
        assert_int_equal(launch.grid, 1);
        assert_int_equal(launch.block, WEFT_KERNEL_THREADS);
    }
    weft_kernel_reduce(&launch, &hopper, asked_make(&asked, WEFT_FLOAT32, WEFT_SUM, 256 * 1024), 1);
    assert_int_equal(launch.grid, 64);
    for (uint64_t count = (uint64_t)1 << 24; count < (uint64_t)1 << 42; count *= 4) {
        weft_kernel_reduce(&launch, &hopper, asked_make(&asked, WEFT_FLOAT32, WEFT_SUM, count), 1);
        assert_int_equal(launch.grid, 132 * 8);
        assert_int_equal(launch.batch.pieces[0].vectors, count / 4);
    }
    /* Nothing can be aligned: element by element. */
    asked_make(&asked, WEFT_FLOAT32, WEFT_SUM, 1 << 20);
    asked.destinations[0] = ADDRESS(0x1000000002);
    weft_kernel_reduce(&launch, &hopper, &asked.reduction, 1);
    assert_int_equal(launch.grid, 1024);
    assert_int_equal(launch.batch.pieces[0].vectors, 0);
    assert_int_equal(launch.batch.pieces[0].flags, WEFT_KERNEL_BYTEWISE);
}

/* Blocks follow one another without a gap and share the device by size. */
static void batches_share_the_device(void **state)
{
    (void)state;
    enum { ASKED = WEFT_KERNEL_PIECES + 3 };
    struct asked asked[ASKED];
    struct weft_device_reduction reductions[ASKED];
    struct weft_kernel_launch launch;
    for (size_t i = 0; i < ASKED; i++)
        reductions[i] = *asked_make(&asked[i], WEFT_BFLOAT16, WEFT_SUM, i == 2 ? 0 : (uint64_t)1 << (10 + i));
    assert_int_equal(weft_kernel_reduce(&launch, &hopper, reductions, ASKED), WEFT_KERNEL_PIECES + 1);
    assert_int_equal(launch.batch.piece_count, WEFT_KERNEL_PIECES);
    assert_int_equal(launch.kernel, WEFT_KERNEL_bfloat16_sum_2);
    assert_int_equal(launch.batch.pieces[0].first_block, 0);
    for (uint32_t p = 1; p < WEFT_KERNEL_PIECES; p++)
        assert_true(launch.batch.pieces[p].first_block > launch.batch.pieces[p - 1].first_block);
    assert_true(launch.grid > launch.batch.pieces[WEFT_KERNEL_PIECES - 1].first_block);
    assert_in_range(launch.grid, 132 * 8 - WEFT_KERNEL_PIECES, 132 * 8 + WEFT_KERNEL_PIECES);
    /* One askew: the launch takes the kernel that can do all. Another type ends the batch. */
    asked[1].sources[0] = ADDRESS(0x100000002);
    reductions[5].dtype = WEFT_FLOAT32;
    assert_int_equal(weft_kernel_reduce(&launch, &hopper, reductions, ASKED), 5);
    assert_int_equal(launch.kernel, WEFT_KERNEL_bfloat16_sum);
    reductions[1].op = WEFT_AVG; /* the same kernels */
    reductions[2].op = WEFT_MAX;
    assert_int_equal(weft_kernel_reduce(&launch, &hopper, reductions, ASKED), 2);
}

static void copies_of_all_sizes(void **state)
{
    (void)state;
    struct weft_kernel_copy copies[WEFT_KERNEL_PIECES + 2];
    struct weft_kernel_launch launch;
    for (size_t i = 0; i < WEFT_KERNEL_PIECES + 2; i++)
        copies[i] = (struct weft_kernel_copy){ADDRESS(0x1000 * i), ADDRESS(0x100000000 * (i + 1)), i};
    assert_int_equal(weft_kernel_copy(&launch, &hopper, copies, WEFT_KERNEL_PIECES + 2),
                     WEFT_KERNEL_PIECES + 1);
    assert_int_equal(launch.grid, WEFT_KERNEL_PIECES);
    copies[0].size = (uint64_t)1 << 30;
    assert_int_equal(weft_kernel_copy(&launch, &hopper, copies, 1), 1);
    assert_int_equal(launch.kernel, WEFT_KERNEL_copy_1);
    assert_int_equal(launch.grid, 132 * 8);
    copies[0].source = ADDRESS(0x100000003);
    assert_int_equal(weft_kernel_copy(&launch, &hopper, copies, 1), 1);
    assert_int_equal(launch.kernel, WEFT_KERNEL_copy);
}

/* As many steps as there is room for, in launches one behind the other. */
static void collectives_are_cut_into_launches(void **state)
{
    (void)state;
    static struct weft_device_step steps[WEFT_DEVICE_STEPS_MAX];
    struct weft_kernel_collective_launch launch;
    struct weft_device_collective collective = {
        sizeof collective, WEFT_FLOAT32, WEFT_SUM, WEFT_DEVICE_STEPS_MAX, 0, steps, NULL};
    for (int s = 0; s < WEFT_DEVICE_STEPS_MAX; s++)
        steps[s] = (struct weft_device_step){.source_count = 2,
                                             .destination_count = 1,
                                             .count = 8 + (uint64_t)s,
                                             .sources = {ADDRESS(0x1000), ADDRESS(0x2000)},
                                             .destinations = {ADDRESS(0x3000)}};
    uint32_t done = 0, launches = 0;
    for (; done < WEFT_DEVICE_STEPS_MAX; launches++) {
        int taken = weft_kernel_collective(&launch, &hopper, &collective, done);
        assert_in_range(taken, 1, 71);
        assert_string_equal(weft_kernel_name(launch.kernel), "weft_cuda_float32_sum_collective");
        assert_int_equal(launch.collective.word_count, 7 * taken);
        assert_int_equal(launch.collective.words[2], 8 + done);
        done += (uint32_t)taken;
    }
    assert_int_equal(done, WEFT_DEVICE_STEPS_MAX);
    assert_int_equal(launches, 58);
    struct weft_kernel_device old = hopper;
    old.major = 7;
    assert_int_equal(weft_kernel_collective(&launch, &old, &collective, 0), WEFT_UNSUPPORTED);
    collective.op = WEFT_XOR;
    assert_int_equal(weft_kernel_collective(&launch, &hopper, &collective, 0), WEFT_UNSUPPORTED);
}

static void steps_are_encoded(void **state)
{
    (void)state;
    struct weft_kernel_collective_launch launch;
    struct weft_device_step steps[] = {
        {.kind = WEFT_DEVICE_STEP_AWAIT, .word = ADDRESS(0x88), .value = 5},
        {.source_count = 1, .destination_count = 1}, /* nothing */
        {.source_count = 1,
         .destination_count = 2,
         .count = 100,
         .sources = {ADDRESS(0x1008)},
         .destinations = {ADDRESS(0x2008), ADDRESS(0x3008)}},
        {.source_count = 1,
         .destination_count = 1,
         .finish = 3,
         .count = 100,
         .sources = {ADDRESS(0x1000)},
         .destinations = {ADDRESS(0x2000)}},
        {.kind = WEFT_DEVICE_STEP_SIGNAL, .word = ADDRESS(0x90), .value = 6},
    };
    const struct weft_device_collective collective = {
        sizeof collective, WEFT_FLOAT32, WEFT_AVG, 5, 0, steps, NULL};
    const uint64_t expected[] = {4,
                                 0x88,
                                 5, /* AWAIT */
                                 2 | 1 << 8 | 2 << 16 | 8 << 24,
                                 0,
                                 400,
                                 24,
                                 0x2008,
                                 0x3008,
                                 0x1008,
                                 1 | 1 << 8 | 1 << 16,
                                 3,
                                 100,
                                 25,
                                 0x2000,
                                 0x1000, /* an average's end */
                                 3,
                                 0x90,
                                 6};
    assert_int_equal(weft_kernel_collective(&launch, &hopper, &collective, 0), 5);
    assert_int_equal(launch.collective.word_count, sizeof expected / sizeof *expected);
    assert_memory_equal(launch.collective.words, expected, sizeof expected);
}

/* Blocks of a program wait for each other: never more than are sure to be there at a time. */
static void collectives_have_few_blocks(void **state)
{
    (void)state;
    static const struct {
        uint64_t bytes;
        int multiprocessors;
        uint32_t grid;
    } rows[] = {{16, 132, 1},     {16384, 132, 1}, {16400, 132, 2}, {65536, 132, 4}, {1 << 30, 132, 8},
                {1 << 30, 16, 4}, {1 << 30, 8, 2}, {1 << 30, 4, 1}, {1 << 30, 0, 1}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct weft_kernel_device device = {rows[i].multiprocessors, 9, 0};
        struct weft_kernel_collective_launch launch;
        struct weft_device_step step = {.source_count = 1,
                                        .destination_count = 1,
                                        .count = rows[i].bytes,
                                        .sources = {ADDRESS(0x100000000)},
                                        .destinations = {ADDRESS(0x200000000)}};
        const struct weft_device_collective collective = {
            sizeof collective, WEFT_INT8, WEFT_MAX, 1, 0, &step, NULL};
        assert_int_equal(weft_kernel_collective(&launch, &device, &collective, 0), 1);
        assert_int_equal(launch.grid, rows[i].grid);
        assert_int_equal(launch.block, WEFT_KERNEL_COLLECTIVE_THREADS);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(collectives_are_cut_into_launches),
        cmocka_unit_test(steps_are_encoded),
        cmocka_unit_test(collectives_have_few_blocks),
        cmocka_unit_test(names_are_all_different),
        cmocka_unit_test(pairs_are_those_of_the_host),
        cmocka_unit_test(what_is_refused),
        cmocka_unit_test(kernels_for_fixed_numbers_of_sources),
        cmocka_unit_test(grids_follow_counts),
        cmocka_unit_test(batches_share_the_device),
        cmocka_unit_test(copies_of_all_sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
