/* SPDX-License-Identifier: Apache-2.0 */
/* User-defined operations: functions whose order counts, in calls of no elements too, and sums of what each rank
 * multiplies by its own number. */
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

/* x -> scale * x + shift, put together from left to right: associative, but who comes first matters. */
struct map {
    uint32_t scale, shift;
};

static void follow(void *arg, const void *left, const void *right, void *result, size_t count,
                   weft_dtype dtype)
{
    const struct map *first = left, *then = right;
    struct map *both = result;
    if (dtype != WEFT_UINT64 || arg != &follow)
        return; /* the result will be wrong */
    for (size_t i = 0; i < count; i++) {
        struct map one = {first[i].scale * then[i].scale, first[i].shift * then[i].scale + then[i].shift};
        both[i] = one;
    }
}

static struct map map_of(int rank, size_t i)
{
    return (struct map){(uint32_t)(2 * rank + 3) * 2654435761u | 1,
                        (uint32_t)i * 40503u + (uint32_t)rank * 77u};
}

static size_t maps_wrong(const struct map *maps, int ranks, size_t from, size_t count)
{
    size_t wrong = 0;
    for (size_t i = from; i < from + count; i++) {
        struct map all = map_of(0, i);
        for (int r = 1; r < ranks; r++) {
            struct map then = map_of(r, i);
            all = (struct map){all.scale * then.scale, all.shift * then.scale + then.shift};
        }
        wrong += memcmp(&maps[i - from], &all, sizeof all) != 0;
    }
    return wrong;
}

static int own_op_body(int rank, int ranks, void *arg)
{
    struct job job;
    weft_op op;
    CHECK_OK(job_open(&job, arg, NULL));
    CHECK_OK(job_make_op(job.context, follow, (void *)&follow, 0, &op));
    for (size_t count = 1; count < 20000; count = count * 7 + 1) {
        size_t all = count * (size_t)ranks;
        struct map *send = malloc(all * sizeof *send), *recv = malloc(all * sizeof *recv);
        for (size_t i = 0; i < all; i++)
            send[i] = map_of(rank, i);
        CHECK_OK(weft_allreduce(job.comm, send, recv, count, WEFT_UINT64, op, NULL));
        CHECK_BITS(maps_wrong(recv, ranks, 0, count) == 0);
        for (int root = 0; root < ranks; root++) {
            memset(recv, 0, count * sizeof *recv);
            CHECK_OK(weft_reduce(job.comm, send, recv, count, WEFT_UINT64, op, root, NULL));
            CHECK_BITS(rank != root || maps_wrong(recv, ranks, 0, count) == 0);
        }
        CHECK_OK(weft_reduce_scatter(job.comm, send, recv, count, WEFT_UINT64, op, NULL));
        CHECK_BITS(maps_wrong(recv, ranks, (size_t)rank * count, count) == 0);
        CHECK_OK(weft_allreduce(job.comm, send, send, all, WEFT_UINT64, op, NULL));
        CHECK_BITS(maps_wrong(send, ranks, 0, all) == 0);
        free(send);
        free(recv);
    }
    CHECK_OK(weft_op_free(job.context, op));
    CHECK(weft_op_free(job.context, op) == WEFT_INVALID);
    CHECK_OK(job_close(&job));
    return 0;
}

static void test_own_ops(void **state)
{
    (void)state;
    for (int ranks = 1; ranks <= 5; ranks++)
        assert_int_equal(test_ranks_fork(ranks, own_op_body, "shm"), 0);
    assert_int_equal(test_ranks_fork(3, own_op_body, "tcp"), 0);
}

/* A function of the caller's sees the caller's elements only: none, in a call without any. */
static void count_elements(void *arg, const void *left, const void *right, void *result, size_t count,
                           weft_dtype dtype)
{
    (void)left, (void)right, (void)result, (void)dtype;
    *(size_t *)arg += count;
}

static int no_elements_body(int rank, int ranks, void *arg)
{
    (void)arg, (void)rank;
    struct job job;
    weft_op op;
    size_t seen = 0, none[8] = {0};
    weft_work *work;
    const void *sends[1] = {NULL};
    void *recvs[1] = {NULL};
    CHECK_OK(job_open(&job, "shm", NULL));
    CHECK_OK(job_make_op(job.context, count_elements, &seen, 1, &op));
    CHECK_OK(weft_allreduce(job.comm, NULL, NULL, 0, WEFT_INT32, op, NULL));
    CHECK_OK(weft_allreduce(job.comm, NULL, NULL, 0, WEFT_INT32, op, WEFT_START(&work)));
    CHECK_OK(weft_work_wait(work, -1));
    CHECK_OK(weft_work_free(work));
    CHECK_OK(weft_reduce(job.comm, NULL, NULL, 0, WEFT_INT32, op, ranks - 1, NULL));
    CHECK_OK(weft_reduce_scatter(job.comm, NULL, NULL, 0, WEFT_INT32, op, NULL));
    CHECK_OK(weft_reduce_scatterv(job.comm, NULL, NULL, none, WEFT_INT32, op, NULL));
    CHECK_OK(weft_allreduce_list(job.comm, 1, sends, recvs, none, WEFT_INT32, op, NULL));
    CHECK(seen == 0);
    int32_t one[3] = {0};
    CHECK_OK(weft_allreduce(job.comm, one, one, 3, WEFT_INT32, op, NULL));
    uint64_t mine = seen, all;
    CHECK_OK(weft_allreduce(job.comm, &mine, &all, 1, WEFT_UINT64, WEFT_SUM, NULL));
    CHECK(all >= 3 * (uint64_t)(ranks - 1)); /* and those it does see */
    CHECK_OK(job_close(&job));
    return 0;
}

static void test_no_elements(void **state)
{
    (void)state;
    for (int ranks = 1; ranks <= 4; ranks++)
        assert_int_equal(test_ranks_fork(ranks, no_elements_body, NULL), 0);
}

enum premul_form {
    PREMUL_ALLREDUCE,
    PREMUL_ALLREDUCE_IN_PLACE,
    PREMUL_STARTED,
    PREMUL_STARTED_IN_PLACE,
    PREMUL_LIST,
    PREMUL_LIST_IN_PLACE,
    PREMUL_REDUCE,
    PREMUL_REDUCE_IN_PLACE, /* at root; the others have one buffer */
    PREMUL_SCATTER,
    PREMUL_SCATTER_IN_PLACE,
    PREMUL_FORMS
};

static int premul_is_in_place(enum premul_form form)
{
    return form == PREMUL_ALLREDUCE_IN_PLACE || form == PREMUL_STARTED_IN_PLACE ||
           form == PREMUL_LIST_IN_PLACE || form == PREMUL_REDUCE_IN_PLACE || form == PREMUL_SCATTER_IN_PLACE;
}

/* Has the result of count elements in recv (in send, in place) from element first on. */
static int premul_run(weft_comm *comm, enum premul_form form, int32_t *send, int32_t *recv, size_t count,
                      size_t first, weft_op op)
{
    const int root = weft_comm_size(comm) - 1;
    const weft_dtype type = WEFT_INT32;
    weft_work *work = NULL;
    int32_t *out = premul_is_in_place(form) ? send : recv;
    const void *sends[3] = {send, send + 100, send + 100};
    void *recvs[3] = {out, out + 100, out + 100};
    const size_t counts[3] = {100, count - 100, 0};
    switch (form) {
    case PREMUL_ALLREDUCE:
    case PREMUL_ALLREDUCE_IN_PLACE:
        return weft_allreduce(comm, send, out, count, type, op, NULL);
    case PREMUL_STARTED:
    case PREMUL_STARTED_IN_PLACE:
        CHECK_OK(weft_allreduce(comm, send, out, count, type, op, WEFT_START(&work)));
        CHECK_OK(weft_work_wait(work, -1));
        return weft_work_free(work);
    case PREMUL_LIST:
    case PREMUL_LIST_IN_PLACE:
        return weft_allreduce_list(comm, 3, sends, recvs, counts, type, op, NULL);
    case PREMUL_REDUCE:
    case PREMUL_REDUCE_IN_PLACE:
        return weft_reduce(comm, send, weft_comm_rank(comm) == root ? out : NULL, count, type, op, root,
                           NULL);
    default:
        return weft_reduce_scatter(comm, send, out + first, count, type, op, NULL);
    }
}

/* Every rank multiplies by its own number. */
static int premul_form_check(weft_comm *comm, enum premul_form form, int whole, weft_op op)
{
    int rank = weft_comm_rank(comm), ranks = weft_comm_size(comm);
    int scatters = form >= PREMUL_SCATTER, in_place = premul_is_in_place(form);
    int reduces = form == PREMUL_REDUCE || form == PREMUL_REDUCE_IN_PLACE,
        has = !reduces || rank == ranks - 1;
    size_t all = (size_t)whole, count = scatters ? all / (size_t)ranks : all,
           first = scatters ? (size_t)rank * count : 0;
    int32_t *send = malloc(all * 4), *recv = calloc(all, 4), sum = 0;
    CHECK(send && recv);
    for (int r = 0; r < ranks; r++)
        sum += (r + 1) * (r + 2);
    for (size_t i = 0; i < all; i++)
        send[i] = (rank + 1) * (int32_t)(i % 50);
    CHECK_OK(premul_run(comm, form, send, recv, count, first, op));
    const int32_t *out = in_place ? send : recv;
    for (size_t i = first; i < first + count && has; i++)
        CHECK_BITS(out[i] == sum * (int32_t)(i % 50));
    for (size_t i = 0; i < all && !(in_place && has); i++) /* what is not the result stays */
        CHECK_BITS(send[i] == (rank + 1) * (int32_t)(i % 50));
    free(send);
    free(recv);
    return 0;
}

static int premul_body(int rank, int ranks, void *arg)
{
    (void)arg, (void)ranks;
    struct job job;
    weft_op op, other;
    int32_t scalar = rank + 2;
    CHECK_OK(job_open(&job, "shm", NULL));
    if (rank == 1) /* the operation has another number here */
        CHECK_OK(job_make_scaling(job.context, WEFT_INT32, &scalar, &other));
    CHECK_OK(job_make_scaling(job.context, WEFT_INT32, &scalar, &op));
    CHECK(job_make_scaling(job.context, WEFT_BOOL, &scalar, &other) == WEFT_UNSUPPORTED);
    scalar = 0; /* it was copied */
    CHECK(weft_allreduce(job.comm, &scalar, &scalar, 1, WEFT_FLOAT32, op, NULL) == WEFT_INVALID);
    CHECK(golden_matches("op-dtype", "float32", "int32"));
    for (enum premul_form form = 0; form < PREMUL_FORMS; form++) {
        CHECK(premul_form_check(job.comm, form, 6000, op) == 0);
        CHECK(premul_form_check(job.comm, form, 120000, op) == 0);
    }
    CHECK_OK(job_close(&job)); /* frees the operation */
    return 0;
}

static void test_premul(void **state)
{
    (void)state;
    for (int ranks = 1; ranks <= 4; ranks++)
        assert_int_equal(test_ranks_fork(ranks, premul_body, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_own_ops), cmocka_unit_test(test_no_elements),
                                       cmocka_unit_test(test_premul)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
