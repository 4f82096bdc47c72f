/* SPDX-License-Identifier: Apache-2.0 */
/* run: elsewhere (tests/system/test_collectives) */
/* Lists of tensors: small ones that travel together and large ones of their own, of all three kinds, in place, started,
 * more than may be in flight at once, none at all; and lists that differ. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/support/collective_case.h"
#include "tests/support/golden.h"
#include "tests/support/job.h"
#include "tests/support/ranks.h"
#include "tests/support/effort.h"

#define TENSORS_MAX 90

struct list {
    size_t tensors;
    struct case_shape shapes[TENSORS_MAX];
    struct case_rank made[TENSORS_MAX];
    const void *sends[TENSORS_MAX];
    void *recvs[TENSORS_MAX];
    size_t counts[TENSORS_MAX];
};

static const enum weft_collective kinds[] = {WEFT_ALLREDUCE, WEFT_ALLGATHER, WEFT_REDUCE_SCATTER};

static void list_make(struct list *list, int rank, int ranks, int kind, const size_t *counts, size_t tensors)
{
    list->tensors = tensors;
    for (size_t t = 0; t < tensors; t++) {
        list->shapes[t] = (struct case_shape){.collective = kinds[kind],
                                              .ranks = (uint32_t)ranks,
                                              .root = -1,
                                              .count = counts[t],
                                              .in_place = t % 3 == 1,
                                              .seed = (uint32_t)(t * 31 + (size_t)kind)};
        case_make(&list->shapes[t], (uint32_t)rank, &list->made[t]);
        list->sends[t] = list->made[t].input.memory;
        list->recvs[t] = list->made[t].output.memory;
        list->counts[t] = counts[t];
    }
}

static size_t list_end(struct list *list, int rank)
{
    size_t wrong = 0;
    for (size_t t = 0; t < list->tensors; t++) {
        wrong += case_wrong(&list->shapes[t], (uint32_t)rank, &list->made[t]);
        case_free(&list->made[t]);
    }
    return wrong;
}

static int list_run(weft_comm *comm, struct list *list, int kind, weft_work **work)
{
    const weft_dtype type = WEFT_INT32;
    size_t n = list->tensors;
    if (kind == 0)
        return weft_allreduce_list(comm, n, list->sends, list->recvs, list->counts, type, WEFT_SUM,
                                   WEFT_START(work));
    if (kind == 1)
        return weft_allgather_list(comm, n, list->sends, list->recvs, list->counts, type, WEFT_START(work));
    return weft_reduce_scatter_list(comm, n, list->sends, list->recvs, list->counts, type, WEFT_SUM,
                                    WEFT_START(work));
}

static int check_list(weft_comm *comm, const size_t *counts, size_t tensors, int kind, int started)
{
    static struct list lists[2];
    struct list *list = &lists[kind & 1];
    int rank = weft_comm_rank(comm);
    weft_work *work = NULL;
    list_make(list, rank, weft_comm_size(comm), kind, counts, tensors);
    CHECK_OK(list_run(comm, list, kind, started ? &work : NULL));
    for (size_t t = 0; t < tensors; t++)
        list->counts[t] = 0; /* read during the call only */
    if (work)
        CHECK_OK(weft_work_wait(work, -1));
    CHECK_OK(weft_work_free(work));
    CHECK_BITS(list_end(list, rank) == 0);
    return 0;
}

struct setup {
    const char *transports, *provider;
};

static int lists_body(int rank, int ranks, void *arg)
{
    (void)rank, (void)ranks;
    const struct setup *setup = arg;
    static const size_t mixed[] = {7, 0, 1, 20000, 1000, 1, 70001, 16384, 16385, 3, 0, 333};
    size_t many[TENSORS_MAX], small[TENSORS_MAX];
    struct job job;
    int failed = 0;
    CHECK_OK(job_open(&job, setup->transports, setup->provider));
    for (size_t t = 0; t < TENSORS_MAX; t++) {
        many[t] = 17000 + t;
        small[t] = t;
    }
    for (int kind = 0; kind < 3 && !failed; kind++) {
        for (int started = 0; started < 2 && !failed; started++) {
            failed |= check_list(job.comm, mixed, sizeof mixed / sizeof *mixed, kind, started);
            failed |= check_list(job.comm, small, TENSORS_MAX, kind, started);
            if (test_effort() == TEST_LONG || started == kind % 2) /* the costly one */
                failed |= check_list(job.comm, many, TENSORS_MAX, kind, started);
            failed |= check_list(job.comm, mixed + 1, 1, kind, started);
            failed |= check_list(job.comm, NULL, 0, kind, started);
        }
    }
    weft_work *work;
    CHECK(weft_allreduce_list(job.comm, 2, NULL, NULL, mixed, WEFT_INT32, WEFT_SUM, NULL) == WEFT_INVALID);
    CHECK(golden_matches("list-sends-null"));
    const void *sends[2] = {&work, NULL};
    void *recvs[2] = {&work, &work};
    CHECK(weft_allreduce_list(job.comm, 2, sends, recvs, mixed + 4, WEFT_INT8, WEFT_SUM, NULL) ==
          WEFT_INVALID);
    CHECK(golden_matches("list-send-null", "1", "2"));
    CHECK_OK(job_close(&job));
    return failed;
}

static void test_lists(void **state)
{
    (void)state;
    static const struct setup shm = {"shm", NULL}, tcp = {"tcp", NULL};
    for (int ranks = 1; ranks <= 4; ranks += test_is_sanitized() ? 2 : 1)
        assert_int_equal(test_ranks_fork(ranks, lists_body, (void *)(uintptr_t)&shm), 0);
    assert_int_equal(test_ranks_fork(3, lists_body, (void *)(uintptr_t)&tcp), 0);
}

/* Reductions beyond the sum, with the last rank late: what each rank multiplies by, the mean, and in strict mode the bits
 * of a call for each tensor. */
enum reduction { PREMUL, MEAN, STRICT, REDUCTIONS };

struct reduced {
    enum reduction reduction;
    int scatters, started;
};

#define REDUCED 40

/* Every tensor's input, exact for PREMUL and MEAN. */
static void reduced_fill(void *memory, enum reduction reduction, int rank, size_t tensor, size_t count)
{
    uint32_t random = (uint32_t)(tensor * 131 + (size_t)rank * 7919 + 5);
    for (size_t i = 0; i < count; i++) {
        random = random * 1664525u + 1013904223u;
        if (reduction == PREMUL)
            ((int32_t *)memory)[i] = (rank + 1) * (int32_t)(i % 97 + tensor);
        else if (reduction == MEAN)
            ((float *)memory)[i] = (float)(8 * rank + (int)(i % 97 + tensor));
        else
            ((float *)memory)[i] = (float)((double)(int32_t)random * (i % 3 ? 1e-3 : 1e15));
    }
}

/* Makes what must come out, of the whole tensor. */
static int reduced_expect(weft_comm *comm, enum reduction reduction, const void *send, void *result,
                          size_t tensor, size_t count)
{
    int ranks = weft_comm_size(comm), sum = 0;
    if (reduction == STRICT)
        return weft_allreduce(comm, send, result, count, WEFT_FLOAT32, WEFT_SUM, NULL);
    for (int r = 0; r < ranks; r++)
        sum += reduction == PREMUL ? (r + 1) * (r + 2) : 8 * r;
    for (size_t i = 0; i < count; i++) {
        int32_t value = (int32_t)(i % 97 + tensor);
        if (reduction == PREMUL)
            ((int32_t *)result)[i] = sum * value;
        else
            ((float *)result)[i] = (float)(sum / ranks + value);
    }
    return WEFT_OK;
}

static int reduced_body(int rank, int ranks, void *arg)
{
    const struct reduced *way = arg;
    struct job job;
    const int32_t scalar = rank + 2;
    const void *sends[REDUCED];
    void *recvs[REDUCED], *expected[REDUCED];
    size_t counts[REDUCED], blocks = way->scatters ? (size_t)ranks : 1, wrong = 0;
    weft_op op = way->reduction == MEAN ? WEFT_AVG : WEFT_SUM;
    weft_dtype type = way->reduction == PREMUL ? WEFT_INT32 : WEFT_FLOAT32;
    weft_work *work;
    CHECK_OK(job_open(&job, "shm", NULL));
    if (way->reduction == PREMUL)
        CHECK_OK(job_make_scaling(job.context, WEFT_INT32, &scalar, &op));
    for (size_t t = 0; t < REDUCED; t++) { /* every fifth is too large to be packed */
        counts[t] = t % 5 == 2 ? 16385 + t : t * 3;
        size_t all = counts[t] * blocks;
        uint8_t *send = malloc(all * 4 + 1);
        recvs[t] = malloc(counts[t] * 4 + 1);
        expected[t] = malloc(all * 4 + 1);
        CHECK(send && recvs[t] && expected[t]);
        reduced_fill(send, way->reduction, rank, t, all);
        CHECK_OK(reduced_expect(job.comm, way->reduction, send, expected[t], t, all));
        sends[t] = send;
        if (t % 4 >= 2) { /* in place */
            free(recvs[t]);
            recvs[t] = send + (way->scatters ? (size_t)rank * counts[t] * 4 : 0);
        }
    }
    if (rank == ranks - 1)
        usleep(100000);
    if (way->scatters)
        CHECK_OK(weft_reduce_scatter_list(job.comm, REDUCED, sends, recvs, counts, type, op,
                                          WEFT_START(way->started ? &work : NULL)));
    else
        CHECK_OK(weft_allreduce_list(job.comm, REDUCED, sends, recvs, counts, type, op,
                                     WEFT_START(way->started ? &work : NULL)));
    if (way->started) {
        CHECK_OK(weft_work_wait(work, -1));
        CHECK_OK(weft_work_free(work));
    }
    for (size_t t = 0; t < REDUCED; t++) {
        size_t first = way->scatters ? (size_t)rank * counts[t] * 4 : 0;
        wrong += memcmp(recvs[t], (const uint8_t *)expected[t] + first, counts[t] * 4) != 0;
        if (t % 4 < 2)
            free(recvs[t]);
        free((void *)(uintptr_t)sends[t]);
        free(expected[t]);
    }
    CHECK_BITS(wrong == 0);
    CHECK_OK(job_close(&job));
    return 0;
}

static void test_reductions(void **state)
{
    (void)state;
    for (int i = 0; i < REDUCTIONS * 4; i++) {
        struct reduced way = {(enum reduction)(i / 4), i & 1, i >> 1 & 1};
        setenv("WEFT_STRICT", way.reduction == STRICT ? "1" : "0", 1);
        for (int ranks = 2; ranks <= 4; ranks += way.reduction == MEAN ? 2 : 1) {
            if (test_is_sanitized() && ranks % 2 != i % 2 && way.reduction != MEAN)
                continue;
            assert_int_equal(test_ranks_fork(ranks, reduced_body, &way), 0);
        }
    }
    unsetenv("WEFT_STRICT");
}

/* arg: 0 a tensor is longer at rank 1, 1 rank 1 has one more, 2 it passes the same as an allreduce. */
static int differing_body(int rank, int ranks, void *arg)
{
    (void)ranks;
    int way = *(const int *)arg;
    static int32_t a[60000], b[60000];
    const void *sends[3] = {a, a + 100, a + 300};
    void *recvs[3] = {b, b + 100, b + 300};
    size_t counts[3] = {50, rank == 1 && way == 0 ? 30001 : 30000, 2},
           tensors = rank == 1 && way == 1 ? 3 : 2;
    struct job job;
    CHECK_OK(job_open(&job, "shm", NULL));
    recvs[2] = b + 50000;
    int status = rank == 1 && way == 2 ? weft_allreduce(job.comm, a, b, 50, WEFT_INT32, WEFT_SUM, NULL)
                                       : weft_allreduce_list(job.comm, tensors, sends, recvs, counts,
                                                             WEFT_INT32, WEFT_SUM, NULL);
    CHECK(status == WEFT_MISMATCH);
    CHECK(strstr(weft_error_detail(), way == 2 ? "allreduce_list" : "counts"));
    CHECK(strstr(weft_error_detail(), "#1") && strstr(weft_error_detail(), "rank 1"));
    CHECK_OK(job_close(&job));
    return 0;
}

static void test_differing(void **state)
{
    (void)state;
    for (int way = 0; way < 3; way++) {
        for (int ranks = 2; ranks <= 3; ranks++)
            assert_int_equal(test_ranks_fork(ranks, differing_body, &way), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_lists), cmocka_unit_test(test_reductions),
                                       cmocka_unit_test(test_differing)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
