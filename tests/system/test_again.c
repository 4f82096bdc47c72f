/* SPDX-License-Identifier: Apache-2.0 */
/* run: elsewhere (tests/system/test_collectives) */
/* Small allreduces one after the other, each like the one before but for one thing: what a communicator keeps of the last
 * call (plan, request, digest) fits the next one, or is made anew. Over tcp, as ranks that share memory have
 * another way for these. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/job.h"
#include "tests/support/ranks.h"

#define CALLS  600
#define MOST   40000 /* elements */
#define STARTS 8

/* One call; which may differ from rank to rank in `in_place` only. */
struct call {
    size_t count;
    weft_dtype dtype;
    weft_op op;
    int in_place;
};

static void call_change(struct call *call, unsigned change, int rank)
{
    static const size_t counts[] = {0, 1, 2, 8, 15, 16, 17, 64, 65, 3000, MOST};
    static const weft_dtype dtypes[] = {WEFT_INT32, WEFT_FLOAT32, WEFT_FLOAT64};
    static const weft_op ops[] = {WEFT_SUM, WEFT_MAX, WEFT_MIN};
    switch (change % 5) {
    case 0:
        call->count = counts[(change >> 8) % 11];
        break;
    case 1:
        call->dtype = dtypes[(change >> 8) % 3];
        break;
    case 2:
        call->op = ops[(change >> 8) % 3];
        break;
    case 3:
        call->in_place = (int)(change >> (8 + rank)) & 1;
        break;
    default: /* the same once more */
        break;
    }
}

static int call_check(weft_comm *comm, const struct call *call, int number)
{
    static unsigned char send[MOST * 8], recv[MOST * 8];
    unsigned char *from = call->in_place ? recv : send;
    memset(recv, 0xee, sizeof recv);
    job_fill(from, call->dtype, weft_comm_rank(comm), call->count);
    CHECK_OK(weft_allreduce(comm, from, recv, call->count, call->dtype, call->op, NULL));
    if (job_wrong(recv, call->dtype, call->op, weft_comm_size(comm), call->count) == 0)
        return 0;
    fprintf(stderr, "WRONG: call %d: %zu of type %d, operation %d, in place %d\n", number, call->count,
            (int)call->dtype, (int)call->op, call->in_place);
    return 1;
}

/* A blocking call among started ones. */
static int calls_mix(weft_comm *comm, const struct call *call, int number)
{
    int32_t send[STARTS][4], recv[STARTS][4];
    weft_work *works[STARTS];
    for (int i = 0; i < STARTS; i++) {
        job_fill(send[i], WEFT_INT32, weft_comm_rank(comm), 4);
        CHECK_OK(weft_allreduce(comm, send[i], recv[i], 4, WEFT_INT32, WEFT_SUM, WEFT_START(&works[i])));
    }
    CHECK(call_check(comm, call, number) == 0);
    for (int i = 0; i < STARTS; i++) {
        CHECK_OK(weft_work_wait(works[i], -1));
        CHECK_OK(weft_work_free(works[i]));
        CHECK_BITS(job_wrong(recv[i], WEFT_INT32, WEFT_SUM, weft_comm_size(comm), 4) == 0);
    }
    return 0;
}

static int body(int rank, int ranks, void *arg)
{
    struct job job;
    struct call call = {1, WEFT_INT32, WEFT_SUM, 0};
    unsigned seed = 20261122;
    (void)ranks, (void)arg;
    CHECK_OK(job_open(&job, "tcp", NULL));
    for (int i = 0; i < CALLS; i++) {
        call_change(&call, (unsigned)rand_r(&seed), rank);
        CHECK(call_check(job.comm, &call, i) == 0);
        if (i % 11 == 10)
            CHECK_OK(weft_barrier(job.comm, NULL));
        if (i % 37 == 36)
            CHECK(calls_mix(job.comm, &call, i) == 0);
        if (i % 200 == 199) { /* another communicator in between */
            weft_comm *other;
            CHECK_OK(weft_comm_split(job.comm, 0, rank, &other, NULL));
            CHECK(call_check(other, &call, i) == 0);
            CHECK_OK(weft_comm_destroy(other));
        }
    }
    CHECK_OK(job_close(&job));
    return 0;
}

static void calls_differ_in_one_thing(void **state)
{
    (void)state;
    assert_int_equal(test_ranks_fork(3, body, NULL), 0);
    assert_int_equal(test_ranks_fork(4, body, NULL), 0);
}

/* What each change alone leads to, in the shortest form. */
static int two_body(int rank, int ranks, void *arg)
{
    struct job job;
    static const struct call calls[] = {
        {4, WEFT_INT32, WEFT_SUM, 0},   {4, WEFT_INT32, WEFT_MAX, 0},   {4, WEFT_INT32, WEFT_SUM, 0},
        {4, WEFT_FLOAT32, WEFT_SUM, 0}, {4, WEFT_FLOAT32, WEFT_SUM, 1}, {5, WEFT_FLOAT32, WEFT_SUM, 1},
        {5, WEFT_FLOAT32, WEFT_MIN, 1}, {5, WEFT_FLOAT32, WEFT_MIN, 0},
    };
    (void)rank, (void)ranks, (void)arg;
    CHECK_OK(job_open(&job, "tcp", NULL));
    for (int i = 0; i < 56; i++) { /* forth and back, so that each differs from the one before in one thing */
        int at = i % 14 < 8 ? i % 14 : 14 - i % 14;
        CHECK(call_check(job.comm, &calls[at], i) == 0);
    }
    CHECK_OK(job_close(&job));
    return 0;
}

static void two_ranks_change_each_thing(void **state)
{
    (void)state;
    assert_int_equal(test_ranks_fork(2, two_body, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_ranks_change_each_thing),
        cmocka_unit_test(calls_differ_in_one_thing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
