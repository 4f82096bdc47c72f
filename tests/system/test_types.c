/* SPDX-License-Identifier: Apache-2.0 */
/* run: elsewhere (tests/system/test_collectives) */
/* Every type and operation between real ranks, and every pair that does not exist refused on all of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/golden.h"
#include "tests/support/job.h"
#include "tests/support/ranks.h"
#include "tests/support/reduce_reference.h"
#include "tests/support/effort.h"

#define RANKS  3
#define PERIOD 997 /* elements, after which data repeat */

/* Integers and bools: any bits. Floats: so small that no order of evaluation rounds, even in three bits of
 * significand. Complex numbers: neither part 0, or the order would show in the sign of zeros. */
static reference_bits input(weft_dtype dtype, int rank, size_t i)
{
    static const double values[] = {1, 2, -1, -2};
    uint64_t state = (uint64_t)(rank * PERIOD) + i % PERIOD, random = reference_random(&state);
    double value = values[random >> 20 & 3], other = values[random >> 30 & 3];
    if (dtype == WEFT_COMPLEX64)
        return reference_round(WEFT_FLOAT32, other) << 32 | reference_round(WEFT_FLOAT32, value);
    if (dtype == WEFT_COMPLEX128)
        return reference_round(WEFT_FLOAT64, other) << 64 | reference_round(WEFT_FLOAT64, value);
    if (dtype == WEFT_BOOL)
        return random >> 40 & 1 ? random >> 50 & 0xff : 0;
    return reference_pair(dtype, WEFT_XOR) ? random : reference_round(dtype, value);
}

static int check_count(weft_comm *comm, weft_dtype dtype, weft_op op, size_t count, int in_place)
{
    size_t size = weft_dtype_size(dtype), wrong = 0;
    unsigned char *send = malloc(count * size), *recv = in_place ? send : calloc(count, size);
    static unsigned char wanted[PERIOD * 16];
    CHECK(send && recv);
    for (size_t i = 0; i < count; i++)
        reference_set(dtype, send, i, input(dtype, weft_comm_rank(comm), i));
    for (size_t i = 0; i < PERIOD; i++) {
        reference_bits inputs[RANKS];
        for (int rank = 0; rank < RANKS; rank++) {
            unsigned char element[16];
            reference_set(dtype, element, 0, input(dtype, rank, i));
            inputs[rank] = reference_get(dtype, element, 0);
        }
        reference_set(dtype, wanted, i,
                      reference_reduce(dtype, op, inputs, RANKS, op == WEFT_AVG ? RANKS : 0));
    }
    CHECK_OK(weft_allreduce(comm, send, recv, count, dtype, op, NULL));
    for (size_t i = 0; i < count; i++)
        wrong += memcmp(recv + i * size, wanted + i % PERIOD * size, size) != 0;
    if (wrong)
        fprintf(stderr, "WRONG: %zu of %zu elements: %s %s\n", wrong, count, weft_dtype_name(dtype),
                weft_op_name(op));
    if (!in_place)
        free(recv);
    free(send);
    return wrong != 0;
}

static int check_refused(weft_comm *comm, weft_dtype dtype, weft_op op)
{
    unsigned char send[16] = {1}, recv[16] = {2}, before[16] = {2};
    weft_work *work = NULL;
    CHECK(weft_allreduce(comm, send, recv, 1, dtype, op, NULL) == WEFT_UNSUPPORTED);
    CHECK(golden_matches("op-unsupported", weft_op_name(op), weft_dtype_name(dtype)));
    CHECK(weft_allreduce(comm, send, recv, 1, dtype, op, WEFT_START(&work)) == WEFT_UNSUPPORTED);
    CHECK(golden_matches("op-unsupported", weft_op_name(op), weft_dtype_name(dtype)));
    CHECK(!work);
    CHECK_BITS(memcmp(recv, before, sizeof recv) == 0);
    return 0;
}

static int every_pair_body(int rank, int ranks, void *transports)
{
    static const size_t counts[] = {1, 9, 1000, 30011};
    struct job job;
    int failed = 0;
    (void)rank;
    CHECK(ranks == RANKS);
    CHECK_OK(job_open(&job, transports ? transports : "shm", NULL));
    for (weft_dtype dtype = 0; dtype < WEFT_DTYPE_COUNT; dtype++)
        for (weft_op op = 0; op < WEFT_OP_COUNT; op++) {
            if (!reference_pair(dtype, op))
                failed |= check_refused(job.comm, dtype, op);
            for (size_t c = 0; c < sizeof counts / sizeof *counts && reference_pair(dtype, op); c++) {
                if (test_is_sanitized() && ((size_t)dtype + (size_t)op + c) % 4)
                    continue;
                failed |= check_count(job.comm, dtype, op, counts[c], (int)(c + (size_t)op) % 2);
            }
        }
    CHECK_OK(job_close(&job));
    return failed;
}

static void every_pair_over_shm(void **state)
{
    (void)state;
    assert_int_equal(test_ranks_fork(RANKS, every_pair_body, NULL), 0);
}

/* Each ends a reduction, and divides, at another place. */
static void every_algorithm(void **state)
{
    (void)state;
    static const char *const algorithms[] = {"ring", "tree", "rd", "rab"};
    for (int a = 0; a < 4; a++) {
        setenv("WEFT_ALGO", algorithms[a], 1);
        assert_int_equal(test_ranks_fork(RANKS, every_pair_body, NULL), 0);
    }
    unsetenv("WEFT_ALGO");
}

static void every_pair_over_tcp(void **state)
{
    (void)state;
    assert_int_equal(test_ranks_fork(RANKS, every_pair_body, (void *)(uintptr_t) "tcp"), 0);
}

/* One rank alone gets what a reduction gives: one form of NaN, bools of 0 and 1. */
static int alone_body(int rank, int ranks, void *arg)
{
    (void)rank;
    (void)ranks;
    (void)arg;
    const unsigned char bools[] = {0, 1, 2, 0xff}, wanted[] = {0, 1, 1, 1}, nan = 0xff;
    unsigned char got[4];
    struct job job;
    CHECK_OK(job_open(&job, "shm", NULL));
    CHECK_OK(weft_allreduce(job.comm, bools, got, 4, WEFT_BOOL, WEFT_SUM, NULL));
    CHECK_BITS(memcmp(got, wanted, 4) == 0);
    CHECK_OK(weft_allreduce(job.comm, &nan, got, 1, WEFT_FLOAT8_E4M3, WEFT_MAX, NULL));
    CHECK_BITS(got[0] == 0x7f);
    CHECK_OK(job_close(&job));
    return 0;
}

static void one_rank_alone(void **state)
{
    (void)state;
    assert_int_equal(test_ranks_fork(1, alone_body, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_pair_over_shm),
        cmocka_unit_test(every_algorithm),
        cmocka_unit_test(every_pair_over_tcp),
        cmocka_unit_test(one_rank_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
