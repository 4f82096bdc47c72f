/* SPDX-License-Identifier: Apache-2.0 */
/* run: elsewhere (tests/system/test_collectives) */
/* The calls themselves: what is wrong with arguments, the cache-line path against the plan that it stands for, a root that is far ahead of the others, plans that are kept, groups of calls, more than 2^31
 * elements. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "algos/plan.h"
#include "tests/support/golden.h"
#include "tests/support/job.h"
#include "tests/support/proc_kb.h"
#include "tests/support/ranks.h"
#include "tests/support/skip.h"

/* Behind the call: the line's name and the facts of tests/golden/errors.txt. */
#define REFUSED(call, ...)                                                                                   \
    do {                                                                                                     \
        CHECK((call) == WEFT_INVALID);                                                                       \
        CHECK(golden_matches(__VA_ARGS__));                                                                  \
    } while (0)

#define F WEFT_FLOAT32

/* What is refused sends nothing, so that the communicator goes on. */
static int arguments_body(int rank, int ranks, void *arg)
{
    (void)arg;
    struct job job;
    CHECK_OK(job_open(&job, "shm", NULL));
    weft_comm *comm = job.comm;
    float a[64] = {0}, b[64] = {0};
    const size_t three[2] = {3, 3}, apart[2] = {0, 3}, meeting[2] = {0, 2}, huge[2] = {1, SIZE_MAX / 4},
                 one[2] = {rank == 0, rank == 0}, nowhere[2] = {0, SIZE_MAX / 2}, first[2] = {1, 0};
    weft_description description = WEFT_DESCRIPTION_INIT;
    CHECK(ranks == 2);
    REFUSED(weft_broadcast(NULL, a, b, 1, F, 0, NULL), "comm-null");
    REFUSED(weft_barrier(NULL, NULL), "comm-null");
    REFUSED(weft_broadcast(comm, a, b, 1, F, 2, NULL), "call-root", "2", "1");
    REFUSED(weft_broadcast(comm, a, b, 1, F, -1, NULL), "call-root", "-1", "1");
    REFUSED(weft_broadcast(comm, a, NULL, 1, F, 0, NULL), "call-buffer-null", "recv", "1");
    REFUSED(weft_gather(comm, NULL, b, 2, F, 0, NULL), "call-buffer-null", "send", "2");
    REFUSED(weft_alltoall(comm, a, b, 1, (weft_dtype)77, NULL), "call-dtype", "77");
    REFUSED(weft_reduce(comm, a, b, 1, F, (weft_op)9, 0, NULL), "call-op", "9");
    REFUSED(weft_reduce_scatter(comm, a, b, 1, F, (weft_op)17, NULL), "call-op", "17");
    REFUSED(weft_allgather(comm, a, b, SIZE_MAX / 9, F, NULL), "call-too-many", NULL, "4", "2");
    REFUSED(weft_allgather(comm, a, a + 1, 3, F, NULL), "call-in-place");
    REFUSED(weft_alltoall(comm, a, a + 1, 3, F, NULL), "call-overlap");
    REFUSED(weft_reduce_scatter(comm, a, a + (rank ? 0 : 3), 3, F, WEFT_SUM, NULL), "call-in-place");
    REFUSED(weft_allgather(comm, a + (rank ? 0 : 3), a, 3, F, NULL), "call-in-place");
    REFUSED(weft_allgatherv(comm, a, 3, b, NULL, NULL, F, NULL), "call-counts-null", "counts");
    REFUSED(weft_allgatherv(comm, a, 2, b, three, apart, F, NULL), "allgatherv-count-differs", "2",
            rank ? "1" : "0", "3");
    REFUSED(weft_allgatherv(comm, a, 3, b, three, meeting, F, NULL), "call-parts-overlap", "0", "1");
    REFUSED(weft_allgatherv(comm, a, 1, b, huge, NULL, F, NULL), "call-count-large", "1");
    REFUSED(weft_alltoallv(comm, a, NULL, NULL, b, three, NULL, F, NULL), "call-counts-null", "send_counts");
    REFUSED(weft_alltoallv(comm, a, three, NULL, b, NULL, NULL, F, NULL), "call-counts-null", "recv_counts");
    REFUSED(weft_alltoallv(comm, a, three, meeting, b, three, meeting, F, NULL), "call-parts-overlap", "0",
            "1");
    if (rank == 1) /* the others do not know it, and would wait */
        REFUSED(weft_scatterv(comm, a, NULL, NULL, b, 3, F, 1, NULL), "call-counts-null", "counts");
    REFUSED(weft_comm_describe(comm, "allsum", NULL, NULL, 1, F, WEFT_SUM, 0, &description),
            "describe-operation", "allsum");
    REFUSED(weft_comm_describe(comm, "broadcast", NULL, NULL, 1, F, WEFT_SUM, 7, &description), "call-root",
            "7", "1");
    CHECK_OK(weft_comm_describe(comm, "allgather", NULL, NULL, 1 << 20, F, WEFT_SUM, 0, &description));
    CHECK(strcmp(description.transport, "shm") == 0 && strcmp(description.algorithm, "copy") != 0);
    CHECK(weft_reduce(comm, a, b, 1, WEFT_COMPLEX64, WEFT_MAX, 0, NULL) == WEFT_UNSUPPORTED);
    /* Buffers that are not used may be anything; so may those without elements. */
    CHECK_OK(weft_broadcast(comm, rank == 0 ? a : NULL, b, 4, F, 0, NULL));
    CHECK_OK(weft_gather(comm, a, rank == 1 ? b : NULL, 4, F, 1, NULL));
    CHECK_OK(weft_alltoall(comm, NULL, NULL, 0, F, NULL));
    /* Where a block of no elements lies means nothing. */
    CHECK_OK(weft_allgatherv(comm, a, first[rank], b, first, nowhere, F, NULL));
    CHECK_OK(weft_alltoallv(comm, a, first, nowhere, b, one, NULL, F, NULL));
    CHECK_OK(job_close(&job));
    return 0;
}

static void test_arguments(void **state)
{
    (void)state;
    assert_int_equal(test_ranks_fork(2, arguments_body, NULL), 0);
}

/* In place with blocks that come out further on, over what has not been read yet; large enough for streaming. */
static int shifted_body(int rank, int ranks, void *arg)
{
    const size_t count = *(const size_t *)arg, shift = 5;
    struct job job;
    size_t counts[2] = {count, count}, from[2] = {0, count + 7}, to[2] = {shift, count + 7 + shift};
    int32_t *data = malloc((count + 7 + shift) * (size_t)ranks * sizeof *data);
    CHECK(data);
    CHECK_OK(job_open(&job, "shm", NULL));
    for (size_t b = 0; b < (size_t)ranks; b++) {
        for (size_t i = 0; i < count; i++)
            data[from[b] + i] = (int32_t)(i * 4 + b * 2 + (size_t)rank);
    }
    CHECK_OK(weft_alltoallv(job.comm, data, counts, from, data, counts, to, WEFT_INT32, NULL));
    for (size_t b = 0; b < (size_t)ranks; b++) {
        for (size_t i = 0; i < count; i++)
            CHECK_BITS(data[to[b] + i] == (int32_t)(i * 4 + (size_t)rank * 2 + b));
    }
    CHECK_OK(job_close(&job));
    free(data);
    return 0;
}

static void test_shifted(void **state)
{
    (void)state;
    static size_t counts[] = {1, 100, 100000, 4 << 20};
    for (int c = 0; c < 4; c++) {
        for (int ranks = 1; ranks <= 2; ranks++)
            assert_int_equal(test_ranks_fork(ranks, shifted_body, &counts[c]), 0);
    }
}

/* What the cache-line path takes: reductions to all, to each root, and in blocks. */
struct reduction {
    const char *algorithm; /* of the plan */
    enum weft_collective collective;
};

static int reduce_by(weft_comm *comm, enum weft_collective collective, int form, const float *send,
                     float *recv, size_t count, weft_work **work)
{
    if (collective == WEFT_ALLREDUCE)
        return weft_allreduce(comm, send, recv, count, F, (weft_op)form, WEFT_START(work));
    if (collective == WEFT_REDUCE)
        return weft_reduce(comm, send, recv, count, F, WEFT_SUM, form, WEFT_START(work));
    return weft_reduce_scatter(comm, send, recv, count, F, WEFT_SUM, WEFT_START(work));
}

static uint64_t fast_calls(weft_comm *comm)
{
    weft_comm_stats stats = WEFT_COMM_STATS_INIT;
    return weft_comm_get_stats(comm, &stats) == WEFT_OK ? stats.fast_path : UINT64_MAX;
}

/* Values whose sum depends on the order: the cache-line path, in calls that block and in started ones, and the plan it stands for give the
 * same bits. */
static int equivalence_body(int rank, int ranks, void *arg)
{
    enum { COUNT = 60 };
    const struct reduction *reduction = arg;
    float send[8 * COUNT], fast[8 * COUNT], started[8 * COUNT], planned[8 * COUNT];
    uint32_t random = 77u + (uint32_t)rank;
    for (int i = 0; i < ranks * COUNT; i++) {
        random = random * 1664525u + 1013904223u;
        send[i] = (float)((double)(int32_t)random * (i % 3 ? 1e-3 : 1e20));
    }
    struct job job, plain;
    CHECK_OK(job_open(&job, "shm", NULL));
    CHECK_OK(job_open_beside(&plain, &job, "fast_path=0"));
    const enum weft_collective collective = reduction->collective;
    const int forms = collective == WEFT_ALLREDUCE ? WEFT_AVG + 1 : collective == WEFT_REDUCE ? ranks : 1;
    for (int form = 0; form < forms; form++) { /* each operation, each root */
        weft_work *work;
        memset(fast, 0, sizeof fast);
        memset(started, 0, sizeof started);
        memset(planned, 0, sizeof planned);
        uint64_t before = fast_calls(job.comm);
        CHECK_OK(reduce_by(job.comm, collective, form, send, fast, COUNT, NULL));
        CHECK_OK(reduce_by(job.comm, collective, form, send, started, COUNT, &work));
        CHECK_OK(weft_work_wait(work, -1));
        CHECK_OK(weft_work_free(work));
        CHECK(fast_calls(job.comm) == before + 2);
        CHECK_OK(reduce_by(plain.comm, collective, form, send, planned, COUNT, NULL));
        CHECK(fast_calls(plain.comm) == 0);
        CHECK_BITS(memcmp(fast, planned, sizeof fast) == 0 && memcmp(started, planned, sizeof fast) == 0);
    }
    CHECK_OK(job_close(&plain));
    CHECK_OK(job_close(&job));
    return 0;
}

static void test_fast_path_equals_plan(void **state)
{
    (void)state;
    static const struct reduction reductions[] = {
        {"rd", WEFT_ALLREDUCE}, {"binomial", WEFT_REDUCE}, {"halving", WEFT_REDUCE_SCATTER}};
    for (int strict = 0; strict < 2; strict++) {
        setenv("WEFT_STRICT", strict ? "1" : "0", 1);
        for (int n = 0; n < 3; n++) {
            setenv("WEFT_ALGO", reductions[n].algorithm, 1);
            for (int ranks = 2; ranks <= 7; ranks++)
                assert_int_equal(test_ranks_fork(ranks, equivalence_body, (void *)(uintptr_t)&reductions[n]),
                                 0);
        }
    }
    unsetenv("WEFT_ALGO");
    unsetenv("WEFT_STRICT");
}

/* The root of many small broadcasts is through with all before the others begin; and then the other way round. */
static int far_ahead_body(int rank, int ranks, void *arg)
{
    enum { CALLS = 700, COUNT = 40 };
    struct job job;
    int32_t data[COUNT];
    CHECK_OK(job_open(&job, arg, NULL));
    for (int root = 0; root < ranks; root++) {
        if (rank != root)
            usleep(30000);
        for (int call = 0; call < CALLS; call++) {
            for (int i = 0; i < COUNT; i++)
                data[i] = rank == root ? call * 1000 + i : -1;
            CHECK_OK(weft_broadcast(job.comm, data, data, COUNT, WEFT_INT32, root, NULL));
            for (int i = 0; i < COUNT; i++)
                CHECK_BITS(data[i] == call * 1000 + i);
        }
    }
    CHECK_OK(job_close(&job));
    return 0;
}

static void test_far_ahead(void **state)
{
    (void)state;
    setenv("WEFT_FAST_PATH", "0", 1);
    assert_int_equal(test_ranks_fork(4, far_ahead_body, "shm"), 0);
    assert_int_equal(test_ranks_fork(3, far_ahead_body, "tcp"), 0);
    unsetenv("WEFT_FAST_PATH");
}

/* More roots and forms than plans are kept; works in flight keep theirs. */
static int many_plans_body(int rank, int ranks, void *arg)
{
    enum { WORKS = 60 };
    (void)arg;
    struct job job;
    CHECK_OK(job_open(&job, "shm", NULL));
    int32_t mine = 100 + rank, got[WORKS];
    weft_work *works[WORKS];
    for (int round = 0; round < 3; round++) {
        for (int w = 0; w < WORKS; w++) {
            int root = (w + round * 7) % ranks;
            got[w] = -1;
            CHECK_OK(
                w % 2 ? weft_broadcast(job.comm, &mine, &got[w], 1, WEFT_INT32, root, WEFT_START(&works[w]))
                      : weft_reduce(job.comm, &mine, &got[w], 1, WEFT_INT32, WEFT_MAX, root,
                                    WEFT_START(&works[w])));
        }
        for (int w = 0; w < WORKS; w++) {
            int root = (w + round * 7) % ranks, expected = w % 2          ? 100 + root
                                                           : rank == root ? 100 + ranks - 1
                                                                          : -1;
            CHECK_OK(weft_work_wait(works[w], -1));
            CHECK_BITS(got[w] == expected);
            CHECK_OK(weft_work_free(works[w]));
        }
    }
    weft_comm_stats stats = WEFT_COMM_STATS_INIT;
    CHECK_OK(weft_comm_get_stats(job.comm, &stats));
    CHECK(stats.operations == 3 * WORKS);
    CHECK_OK(job_close(&job));
    return 0;
}

static void test_many_plans(void **state)
{
    (void)state;
    assert_int_equal(test_ranks_fork(3, many_plans_body, NULL), 0);
    assert_int_equal(test_ranks_fork(40, many_plans_body, NULL), 0);
}

static int group_body(int rank, int ranks, void *arg)
{
    (void)arg;
    struct job job;
    CHECK_OK(job_open(&job, "shm", NULL));
    int32_t mine = rank, root = -1, all[8], sum = 0;
    CHECK_OK(weft_group_start());
    CHECK_OK(weft_broadcast(job.comm, &mine, &root, 1, WEFT_INT32, ranks - 1, NULL));
    CHECK_OK(weft_allgather(job.comm, &mine, all, 1, WEFT_INT32, NULL));
    CHECK_OK(weft_allreduce(job.comm, &mine, &sum, 1, WEFT_INT32, WEFT_SUM, NULL));
    CHECK_OK(weft_barrier(job.comm, NULL));
    CHECK_OK(weft_group_end());
    CHECK_BITS(root == ranks - 1 && sum == ranks * (ranks - 1) / 2);
    for (int r = 0; r < ranks; r++)
        CHECK_BITS(all[r] == r);
    CHECK_OK(job_close(&job));
    return 0;
}

/* More calls than may be in flight at a time: each rank waits where it has to, and none is refused. */
static int many_body(int rank, int ranks, void *arg)
{
    enum { CALLS = 200, MANY = 3000 };
    struct job job;
    static int32_t values[CALLS][MANY];
    weft_work *works[CALLS];
    const int grouped = arg != NULL;
    for (int i = 0; i < CALLS * MANY; i++)
        values[i / MANY][i % MANY] = i * (rank + 1);
    CHECK_OK(job_open(&job, "shm", NULL));
    if (grouped)
        CHECK_OK(weft_group_start());
    for (int i = 0; i < CALLS; i++) {
        CHECK_OK(weft_allreduce(job.comm, values[i], values[i], MANY, WEFT_INT32, WEFT_SUM,
                                WEFT_START(grouped ? NULL : &works[i])));
    }
    if (grouped)
        CHECK_OK(weft_group_end());
    for (int i = 0; i < CALLS && !grouped; i++) {
        CHECK_OK(weft_work_wait(works[i], -1));
        CHECK_OK(weft_work_free(works[i]));
    }
    for (int i = 0; i < CALLS * MANY; i++)
        CHECK_BITS(values[i / MANY][i % MANY] == i * (ranks * (ranks + 1) / 2));
    CHECK_OK(job_close(&job));
    return 0;
}

static void test_many_in_flight(void **state)
{
    (void)state;
    assert_int_equal(test_ranks_fork(3, many_body, NULL), 0);
    assert_int_equal(test_ranks_fork(3, many_body, (void *)(uintptr_t) "grouped"), 0);
}

static void test_group(void **state)
{
    (void)state;
    for (int ranks = 1; ranks <= 3; ranks++)
        assert_int_equal(test_ranks_fork(ranks, group_body, NULL), 0);
}

/* In place, so that there is one buffer per rank. */
#define HUGE_COUNT ((size_t)2 * 1024 * 1024 * 1024 + 1000)

static int huge_body(int rank, int ranks, void *arg)
{
    (void)arg, (void)ranks;
    struct job job;
    CHECK_OK(job_open(&job, "shm", NULL));
    int8_t *data = calloc(HUGE_COUNT, 1);
    CHECK(data);
    static const size_t marks[] = {
        0, 1, (size_t)1 << 30, ((size_t)1 << 31) - 1, (size_t)1 << 31, HUGE_COUNT - 1};
    for (size_t m = 0; m < sizeof marks / sizeof *marks && rank == 0; m++)
        data[marks[m]] = (int8_t)(m + 1);
    CHECK_OK(weft_broadcast(job.comm, data, data, HUGE_COUNT, WEFT_INT8, 0, NULL));
    for (size_t m = 0; m < sizeof marks / sizeof *marks; m++)
        CHECK_BITS(data[marks[m]] == (int8_t)(m + 1));
    size_t set = 0;
    for (size_t i = 0; i < HUGE_COUNT; i += sizeof(uint64_t)) {
        uint64_t word;
        memcpy(&word, data + i, sizeof word);
        for (; word; word >>= 8)
            set += (word & 0xff) != 0;
    }
    CHECK_BITS(set == sizeof marks / sizeof *marks);
    CHECK_OK(job_close(&job));
    free(data);
    return 0;
}

static size_t available_bytes(void)
{
    long kb = test_proc_kb("/proc/meminfo", "MemAvailable");
    return kb < 0 ? 0 : (size_t)kb << 10;
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

static void test_huge(void **state)
{
    (void)state;
    if (SANITIZED || available_bytes() < (size_t)6 << 30)
        TEST_SKIP("two ranks with 2 GiB each need 6 GiB of memory%s, %zu MiB are available",
                  SANITIZED ? " without a sanitizer" : "", available_bytes() >> 20);
    assert_int_equal(test_ranks_fork(2, huge_body, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_arguments), cmocka_unit_test(test_fast_path_equals_plan),
        cmocka_unit_test(test_far_ahead), cmocka_unit_test(test_many_plans),
        cmocka_unit_test(test_group),     cmocka_unit_test(test_many_in_flight),
        cmocka_unit_test(test_huge),      cmocka_unit_test(test_shifted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
