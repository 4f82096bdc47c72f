/* SPDX-License-Identifier: Apache-2.0 */
/* run: elsewhere (tests/system/test_collectives) */
/* Strict mode: bits that depend on nothing but the number of ranks, whatever the algorithm, the call, the size, the
 * slicing and the path. Compared with the association that docs/operations.md names, computed here. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "devmem/reduce.h"
#include "tests/support/job.h"
#include "tests/support/ranks.h"

#define RANKS_MAX 8
#define ELEMENTS  (RANKS_MAX * 840) /* a whole block per rank for 2 to 8 ranks */

static const weft_dtype types[] = {WEFT_FLOAT32, WEFT_FLOAT16, WEFT_BFLOAT16};

/* Numbers whose sum depends on the order of the additions: of very different size, and of both signs. */
static void fill(void *memory, weft_dtype dtype, int rank, size_t first, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint64_t x = ((first + i) * 0x9e3779b97f4a7c15u) ^ ((uint64_t)rank + 1) * 0xbf58476d1ce4e5b9u;
        x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
        x ^= x >> 27;
        uint32_t mantissa = x & 0x7fffff, sign = x >> 23 & 1, exponent = 120 + (x >> 24) % 14;
        uint32_t word = sign << 31 | exponent << 23 | mantissa;
        if (dtype == WEFT_FLOAT32)
            memcpy((char *)memory + 4 * i, &word, 4);
        uint16_t half =
            (uint16_t)(dtype == WEFT_BFLOAT16 ? word >> 16
                                              : sign << 15 | (exponent - 112) << 10 | mantissa >> 13);
        if (dtype != WEFT_FLOAT32)
            memcpy((char *)memory + 2 * i, &half, 2);
    }
}

static void add(void *to, const void *left, const void *right, weft_dtype dtype, size_t count)
{
    const void *pair[2] = {left, right};
    weft_reduce_find_isa("portable", dtype, WEFT_SUM)(to, pair, 2, count, 0);
}

/* Guests into their hosts, then partners half of what is left apart, the lower one first. */
static void reduce_strictly(char values[RANKS_MAX][ELEMENTS * 4], int ranks, weft_dtype dtype)
{
    int places = 1, guests;
    while (2 * places <= ranks)
        places *= 2;
    guests = ranks - places;
    for (int place = 0; place < places; place++) {
        if (place < guests)
            add(values[place], values[2 * place], values[2 * place + 1], dtype, ELEMENTS);
        else
            memmove(values[place], values[place + guests], sizeof values[0]);
    }
    for (int half = places / 2; half > 0; half /= 2)
        for (int place = 0; place < half; place++)
            add(values[place], values[place], values[place + half], dtype, ELEMENTS);
}

struct setup {
    const char *transports, *algorithm, *fast_path, *slice;
};

/* What a rank has: its data from first on, where results go, and what they should be. */
struct rank {
    weft_comm *comm;
    weft_dtype dtype;
    size_t size;
    char *input, *output, *expected;
};

static int same(const struct rank *rank, size_t first, size_t count, const char *what)
{
    if (memcmp(rank->output, rank->expected + first * rank->size, count * rank->size) == 0)
        return 1;
    fprintf(stderr, "WRONG: rank %d of %d: %s of %zu %s from element %zu on has other bits\n",
            weft_comm_rank(rank->comm), weft_comm_size(rank->comm), what, count, weft_dtype_name(rank->dtype),
            first);
    return 0;
}

static int check_pieces(const struct rank *r)
{
    static const size_t pieces[][2] = {{0, ELEMENTS}, {17, 1}, {5, 7}, {100, 640}, {3, ELEMENTS - 3}};
    int ranks = weft_comm_size(r->comm), self = weft_comm_rank(r->comm);
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
        size_t first = pieces[i][0], count = pieces[i][1];
        const char *input = r->input + first * r->size;
        CHECK_OK(weft_allreduce(r->comm, input, r->output, count, r->dtype, WEFT_SUM, NULL));
        CHECK(same(r, first, count, "allreduce"));
        memcpy(r->output, input, count * r->size);
        CHECK_OK(weft_allreduce(r->comm, r->output, r->output, count, r->dtype, WEFT_SUM, NULL));
        CHECK(same(r, first, count, "allreduce in place"));
        for (int root = 0; root < ranks; root++) {
            CHECK_OK(weft_reduce(r->comm, input, r->output, count, r->dtype, WEFT_SUM, root, NULL));
            CHECK(self != root || same(r, first, count, "reduce"));
        }
        size_t block = count / (size_t)ranks;
        CHECK_OK(weft_reduce_scatter(r->comm, input, r->output, block, r->dtype, WEFT_SUM, NULL));
        CHECK(same(r, first + (size_t)self * block, block, "reduce_scatter"));
    }
    return 0;
}

static int body(int rank, int ranks, void *arg)
{
    const struct setup *setup = arg;
    struct job job;
    struct rank r = {0};
    char(*values)[ELEMENTS * 4] = malloc(RANKS_MAX * sizeof *values);
    r.input = malloc(ELEMENTS * 4);
    r.output = malloc(ELEMENTS * 4);
    CHECK(values && r.input && r.output);
    CHECK_OK(job_open(&job, setup->transports, "tcp"));
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        for (int other = 0; other < ranks; other++)
            fill(values[other], types[t], other, 0, ELEMENTS);
        reduce_strictly(values, ranks, types[t]);
        fill(r.input, types[t], rank, 0, ELEMENTS);
        r.comm = job.comm;
        r.dtype = types[t];
        r.size = weft_dtype_size(types[t]);
        r.expected = values[0];
        if (check_pieces(&r) != 0)
            return 1;
    }
    CHECK_OK(job_close(&job));
    free(values);
    free(r.input);
    free(r.output);
    return 0;
}

static void run(const struct setup *setup, int ranks)
{
    setenv("WEFT_STRICT", "1", 1);
    setenv("WEFT_ALGO", setup->algorithm, 1);
    setenv("WEFT_FAST_PATH", setup->fast_path, 1);
    setenv("WEFT_SLICE_SHM", setup->slice, 1);
    setenv("WEFT_SLICE_OFI", setup->slice, 1);
    if (test_ranks_fork(ranks, body, (void *)(uintptr_t)setup) != 0)
        fail_msg("%d ranks, %s, algorithm %s, fast path %s, slices of %s", ranks, setup->transports,
                 setup->algorithm, setup->fast_path, setup->slice);
}

static void test_same_bits(void **state)
{
    (void)state;
    static const struct setup setups[] = {
        {"shm", "auto", "16384", "131072"}, {"shm", "auto", "0", "4096"},
        {"shm", "rd", "0", "131072"},       {"shm", "rab", "0", "4096"},
        {"shm", "halving", "0", "4096"},    {"shm", "binomial", "64", "8192"},
    };
    for (size_t i = 0; i < sizeof setups / sizeof *setups; i++) {
        for (int ranks = 2; ranks <= RANKS_MAX; ranks = ranks == 5 ? 8 : ranks + 1)
            run(&setups[i], ranks);
    }
}

static void test_same_bits_over_tcp(void **state)
{
    (void)state;
    static const struct setup setup = {"tcp", "auto", "0", "4096"};
    run(&setup, 3);
}

/* An algorithm that cannot keep the order is not taken, though it is asked for. */
static void test_ring_is_not_taken(void **state)
{
    (void)state;
    static const struct setup setup = {"shm", "ring", "0", "131072"};
    run(&setup, 4);
}

/* Other data would not distinguish one association from another. */
static void test_data_separate_orders(void **state)
{
    (void)state;
    char(*values)[ELEMENTS * 4] = malloc(RANKS_MAX * sizeof *values);
    char *line = malloc(ELEMENTS * 4);
    assert_true(values && line);
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        for (int rank = 0; rank < 4; rank++)
            fill(values[rank], types[t], rank, 0, ELEMENTS);
        memcpy(line, values[0], sizeof *values);
        for (int rank = 1; rank < 4; rank++)
            add(line, line, values[rank], types[t], ELEMENTS);
        reduce_strictly(values, 4, types[t]);
        size_t different = 0, size = weft_dtype_size(types[t]);
        for (size_t i = 0; i < ELEMENTS; i++)
            different += memcmp(line + i * size, values[0] + i * size, size) != 0;
        assert_true(different > ELEMENTS / 20);
    }
    free(values);
    free(line);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_data_separate_orders),
        cmocka_unit_test(test_same_bits),
        cmocka_unit_test(test_ring_is_not_taken),
        cmocka_unit_test(test_same_bits_over_tcp),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
