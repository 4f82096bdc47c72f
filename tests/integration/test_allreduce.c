/* SPDX-License-Identifier: Apache-2.0 */
/* Allreduce between real ranks, as processes and as threads, over shared memory and libfabric: bits, in
 * place, handles, what moved how, and nothing left behind. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <cmocka.h>

#include "tests/support/golden.h"
#include "tests/support/job.h"
#include "tests/support/leak.h"
#include "tests/support/ranks.h"
#include "tests/support/effort.h"

struct setup {
    const char *transports, *provider;
};

static const weft_dtype dtypes[] = {WEFT_FLOAT32, WEFT_FLOAT64, WEFT_BFLOAT16, WEFT_INT32};

static int check_shape(weft_comm *comm, size_t count, weft_dtype dtype, weft_op op, int in_place)
{
    int rank = weft_comm_rank(comm), ranks = weft_comm_size(comm);
    size_t bytes = count * weft_dtype_size(dtype);
    uint8_t *send = malloc(bytes + 64), *recv = in_place ? send : malloc(bytes + 64);
    CHECK(send && recv);
    memset(recv, 0x5a, bytes + 64);
    memset(send + bytes, 0x5a, 64);
    job_fill(send, dtype, rank, count);
    CHECK_OK(weft_allreduce(comm, send, recv, count, dtype, op));
    size_t wrong = job_wrong(recv, dtype, op, ranks, count);
    for (int i = 0; i < 64; i++)
        wrong += recv[bytes + (size_t)i] != 0x5a;
    if (wrong)
        fprintf(stderr, "rank %d of %d: %zu of %zu %s wrong (%s, in place %d)\n", rank, ranks, wrong, count,
                weft_dtype_name(dtype), weft_op_name(op), in_place);
    if (!in_place)
        free(recv);
    free(send);
    return wrong != 0;
}

static int sweep_body(int rank, int ranks, void *arg)
{
    (void)rank;
    const struct setup *setup = arg;
    static const size_t counts[] = {0, 1, 3, 12, 13, 100, 1023, 5000, 70001};
    struct job job;
    CHECK_OK(job_open(&job, setup->transports, setup->provider));
    int failed = 0;
    for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++) {
        for (int op = 0; op <= WEFT_AVG; op++) {
            if (test_is_sanitized() && (d + (size_t)op + (size_t)ranks) % 4)
                continue; /* each pair for another number of ranks */
            for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
                failed |= check_shape(job.comm, counts[c], dtypes[d], op, (int)(c + (size_t)op) % 2);
        }
    }
    CHECK_OK(job_close(&job));
    return failed;
}

static int large_body(int rank, int ranks, void *arg)
{
    (void)rank;
    (void)ranks;
    const struct setup *setup = arg;
    struct job job;
    CHECK_OK(job_open(&job, setup->transports, setup->provider));
    int failed = 0;
    for (int in_place = 0; in_place < 2; in_place++)
        failed |=
            check_shape(job.comm, test_is_sanitized() ? 1200001 : 3000001, WEFT_FLOAT32, WEFT_SUM, in_place);
    CHECK_OK(job_close(&job));
    return failed;
}

/* The same sweep with one algorithm forced, where the caller's environment says so. */
static void sweep(const struct setup *setup)
{
    static const char *const algorithms[] = {"auto", "ring", "tree", "rd", "rab"};
    for (size_t a = 0; a < sizeof algorithms / sizeof *algorithms; a++) {
        setenv("WEFT_ALGO", algorithms[a], 1);
        for (int ranks = 1; ranks <= 5; ranks++) {
            if (!test_is_sanitized() || (a + (size_t)ranks) % 2)
                assert_int_equal(test_ranks_fork(ranks, sweep_body, (void *)(uintptr_t)setup), 0);
        }
    }
    unsetenv("WEFT_ALGO");
}

static void test_shm(void **state)
{
    (void)state;
    static const struct setup setup = {"shm", NULL};
    sweep(&setup);
}

static void test_shm_staged(void **state)
{
    (void)state;
    static const struct setup setup = {"shm", NULL};
    setenv("WEFT_DIRECT", "0", 1);
    setenv("WEFT_SLICE_SHM", "16384", 1);
    for (int ranks = 2; ranks <= 4; ranks++)
        assert_int_equal(test_ranks_fork(ranks, sweep_body, (void *)(uintptr_t)&setup), 0);
    unsetenv("WEFT_DIRECT");
    unsetenv("WEFT_SLICE_SHM");
}

/* Slices larger than a pipe holds, and the smallest ones. */
static void test_shm_slices(void **state)
{
    (void)state;
    static const struct setup setup = {"shm", NULL};
    static const char *const slices[] = {"4096", "4194304"};
    for (size_t s = 0; s < 2; s++) {
        setenv("WEFT_SLICE_SHM", slices[s], 1);
        setenv("WEFT_EAGER_SHM", "64", 1);
        assert_int_equal(test_ranks_fork(3, large_body, (void *)(uintptr_t)&setup), 0);
    }
    unsetenv("WEFT_SLICE_SHM");
    unsetenv("WEFT_EAGER_SHM");
}

static void test_ofi(void **state)
{
    (void)state;
    static const char *const providers[] = {"tcp;ofi_rxm", "net"};
    for (size_t p = 0; p < 2; p++) {
        if (!job_has_ofi(providers[p]))
            skip();
        struct setup setup = {"ofi", providers[p]};
        for (int ranks = 2; ranks <= 4; ranks++)
            assert_int_equal(test_ranks_fork(ranks, sweep_body, &setup), 0);
    }
}

static void test_threads(void **state)
{
    (void)state;
    static const struct setup setup = {"shm", NULL};
    struct test_leak before;
    test_leak_take(&before);
    assert_int_equal(test_ranks_threads(3, sweep_body, (void *)(uintptr_t)&setup), 0);
    assert_int_equal(test_ranks_threads(4, sweep_body, (void *)(uintptr_t)&setup), 0);
    assert_int_equal(test_leak_check(&before), 0);
}

/* The cache-line path and the plan it stands for give the same bits, for values whose sum depends on the
 * order. */
static int equivalence_body(int rank, int ranks, void *arg)
{
    (void)arg;
    enum { COUNT = 700 };
    float send[COUNT], fast[COUNT], planned[COUNT];
    uint32_t random = 77u + (uint32_t)rank;
    for (int i = 0; i < COUNT; i++) {
        random = random * 1664525u + 1013904223u;
        send[i] = (float)((double)(int32_t)random * (i % 3 ? 1e-3 : 1e20));
    }
    struct job job;
    (void)ranks;
    CHECK_OK(job_open(&job, "shm", NULL));
    for (int op = 0; op <= WEFT_AVG; op++) {
        weft_comm_stats stats = WEFT_COMM_STATS_INIT;
        CHECK_OK(weft_comm_get_stats(job.comm, &stats));
        uint64_t before = stats.fast_path;
        CHECK_OK(weft_allreduce(job.comm, send, fast, COUNT, WEFT_FLOAT32, op));
        CHECK_OK(weft_comm_get_stats(job.comm, &stats));
        CHECK(stats.fast_path == before + 1);
        weft_work *work;
        CHECK_OK(weft_allreduce_start(job.comm, send, planned, COUNT, WEFT_FLOAT32, op, &work));
        CHECK_OK(weft_work_wait(work, -1));
        CHECK_OK(weft_work_free(work));
        CHECK_OK(weft_comm_get_stats(job.comm, &stats));
        CHECK(stats.fast_path == before + 1);
        CHECK(memcmp(fast, planned, sizeof fast) == 0);
    }
    CHECK_OK(job_close(&job));
    return 0;
}

static void test_fast_path_equals_plan(void **state)
{
    (void)state;
    setenv("WEFT_ALGO", "rd", 1);
    for (int ranks = 2; ranks <= 7; ranks++)
        assert_int_equal(test_ranks_fork(ranks, equivalence_body, NULL), 0);
    unsetenv("WEFT_ALGO");
}

static int handles_body(int rank, int ranks, void *arg)
{
    const struct setup *setup = arg;
    enum { WORKS = 20, COUNT = 9000 };
    struct job job;
    CHECK_OK(job_open(&job, setup->transports, setup->provider));
    int32_t *send[WORKS], *recv[WORKS];
    weft_work *works[WORKS];
    for (int w = 0; w < WORKS; w++) {
        send[w] = malloc(COUNT * 4);
        recv[w] = malloc(COUNT * 4);
        job_fill(send[w], WEFT_INT32, rank, COUNT);
        CHECK_OK(weft_allreduce_start(job.comm, send[w], recv[w], COUNT, WEFT_INT32, WEFT_SUM, &works[w]));
    }
    CHECK(weft_comm_destroy(job.comm) == WEFT_BUSY);
    for (int w = WORKS - 1; w >= 0; w--) {
        if (w % 2) {
            CHECK_OK(weft_work_wait(works[w], -1));
        } else {
            for (int done = 0; !done;)
                CHECK_OK(weft_work_test(works[w], &done));
        }
        CHECK(job_wrong(recv[w], WEFT_INT32, WEFT_SUM, ranks, COUNT) == 0);
        CHECK_OK(weft_work_free(works[w]));
        free(send[w]);
        free(recv[w]);
    }
    CHECK_OK(job_close(&job));
    return 0;
}

static void test_handles(void **state)
{
    (void)state;
    struct setup setup = {"shm", NULL};
    assert_int_equal(test_ranks_fork(3, handles_body, &setup), 0);
    setup = (struct setup){"ofi", "tcp;ofi_rxm"};
    if (job_has_ofi(setup.provider))
        assert_int_equal(test_ranks_fork(3, handles_body, &setup), 0);
}

/* A rank that starts an operation and goes away to compute must not keep the others waiting. arg counts, in
 * memory that all ranks share, the others who are done. */
static int background_body(int rank, int ranks, void *arg)
{
    enum { COUNT = 400000 };
    atomic_int *others_done = arg;
    struct job job;
    CHECK_OK(job_open(&job, "shm", NULL));
    int32_t *send = malloc(COUNT * 4), *recv = malloc(COUNT * 4);
    job_fill(send, WEFT_INT32, rank, COUNT);
    weft_work *work;
    CHECK_OK(weft_allreduce_start(job.comm, send, recv, COUNT, WEFT_INT32, WEFT_SUM, &work));
    if (rank == 0) {
        /* They get there only when rank 0's service thread has done its part. */
        struct timespec nap = {0, 10000000};
        for (int i = 0; i < 1000 && atomic_load(others_done) < ranks - 1; i++)
            nanosleep(&nap, NULL);
        CHECK(atomic_load(others_done) == ranks - 1);
    }
    CHECK_OK(weft_work_wait(work, -1));
    CHECK(job_wrong(recv, WEFT_INT32, WEFT_SUM, ranks, COUNT) == 0);
    if (rank != 0)
        atomic_fetch_add(others_done, 1);
    CHECK_OK(weft_work_free(work));
    free(send);
    free(recv);
    CHECK_OK(job_close(&job));
    return 0;
}

static void test_background(void **state)
{
    (void)state;
    void *shared = mmap(NULL, sizeof(atomic_int), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(shared, MAP_FAILED);
    assert_int_equal(test_ranks_fork(3, background_body, shared), 0);
    munmap(shared, sizeof(atomic_int));
}

/* What moved: directly, in messages, or through staging. */
static int counters_body(int rank, int ranks, void *arg)
{
    (void)rank;
    enum { COUNT = 1 << 18 };
    struct job job;
    CHECK_OK(job_open(&job, "shm", NULL));
    void *send, *recv;
    CHECK_OK(weft_mem_alloc(job.context, COUNT * 4, &send));
    CHECK_OK(weft_mem_alloc(job.context, COUNT * 4, &recv));
    job_fill(send, WEFT_FLOAT32, rank, COUNT);
    CHECK_OK(weft_allreduce(job.comm, send, recv, COUNT, WEFT_FLOAT32, WEFT_SUM));
    CHECK(job_wrong(recv, WEFT_FLOAT32, WEFT_SUM, ranks, COUNT) == 0);
    weft_comm_stats stats = WEFT_COMM_STATS_INIT;
    CHECK_OK(weft_comm_get_stats(job.comm, &stats));
    CHECK(stats.operations == 1);
    uint64_t expected = (uint64_t)COUNT * 4 / (uint64_t)ranks * 2 * (uint64_t)(ranks - 1);
    if (arg) {
        CHECK(stats.bytes_staged == expected);
        CHECK(stats.bytes_direct == 0);
    } else {
        CHECK(stats.bytes_staged == 0);
        CHECK(stats.bytes_direct == expected);
    }
    CHECK(weft_context_close(job.context) == WEFT_BUSY);
    CHECK_OK(weft_comm_destroy(job.comm));
    CHECK(weft_context_close(job.context) == WEFT_BUSY);
    CHECK_OK(weft_mem_free(job.context, send));
    CHECK_OK(weft_mem_free(job.context, recv));
    CHECK_OK(weft_context_close(job.context));
    return 0;
}

static void test_counters(void **state)
{
    (void)state;
    setenv("WEFT_ALGO", "ring", 1);
    assert_int_equal(test_ranks_fork(4, counters_body, NULL), 0);
    setenv("WEFT_DIRECT", "0", 1);
    assert_int_equal(test_ranks_fork(4, counters_body, "staged"), 0);
    unsetenv("WEFT_DIRECT");
    unsetenv("WEFT_ALGO");
}

static int arguments_body(int rank, int ranks, void *arg)
{
    (void)rank;
    (void)ranks;
    (void)arg;
    struct job job;
    CHECK_OK(job_open(&job, "shm", NULL));
    float data[8] = {0};
    CHECK(weft_allreduce(NULL, data, data, 1, WEFT_FLOAT32, WEFT_SUM) == WEFT_INVALID);
    CHECK(weft_allreduce(job.comm, NULL, data, 1, WEFT_FLOAT32, WEFT_SUM) == WEFT_INVALID);
    CHECK(golden_matches("call-buffer-null", "send", "1"));
    CHECK(weft_allreduce(job.comm, data, data + 1, 4, WEFT_FLOAT32, WEFT_SUM) == WEFT_INVALID);
    CHECK(golden_matches("call-overlap"));
    CHECK(weft_allreduce(job.comm, data, data, 1, (weft_dtype)99, WEFT_SUM) == WEFT_INVALID);
    CHECK(golden_matches("call-dtype", "99"));
    CHECK(weft_allreduce(job.comm, data, data, 1, WEFT_FLOAT32, WEFT_XOR) == WEFT_UNSUPPORTED);
    CHECK(weft_allreduce(job.comm, data, data, 1, WEFT_FLOAT32, (weft_op)-1) == WEFT_INVALID);
    CHECK(weft_allreduce(job.comm, data, data, SIZE_MAX / 2, WEFT_FLOAT32, WEFT_SUM) == WEFT_INVALID);
    CHECK(weft_mem_free(job.context, data) == WEFT_INVALID);
    CHECK(weft_mem_deregister(job.context, data) == WEFT_INVALID);
    CHECK_OK(weft_mem_register(job.context, data, sizeof data));
    CHECK(weft_mem_register(job.context, data, sizeof data) == WEFT_INVALID);
    CHECK_OK(weft_mem_deregister(job.context, data));
    CHECK_OK(weft_allreduce(job.comm, data, data, 8, WEFT_FLOAT32, WEFT_SUM));
    CHECK_OK(job_close(&job));
    return 0;
}

static void test_arguments(void **state)
{
    (void)state;
    assert_int_equal(test_ranks_fork(2, arguments_body, NULL), 0);
}

static int again_body(int rank, int ranks, void *arg)
{
    (void)ranks;
    struct job job;
    CHECK_OK(job_open(&job, arg, NULL));
    int32_t value = rank;
    CHECK_OK(weft_allreduce(job.comm, &value, &value, 1, WEFT_INT32, WEFT_MAX));
    CHECK(value == ranks - 1);
    CHECK_OK(job_close(&job));
    return 0;
}

static void test_no_leaks(void **state)
{
    (void)state;
    assert_int_equal(test_ranks_threads(3, again_body, "shm"), 0);
    struct test_leak before;
    test_leak_take(&before);
    for (int i = 0; i < (test_is_sanitized() ? 10 : 30); i++)
        assert_int_equal(test_ranks_threads(3, again_body, "shm"), 0);
    assert_int_equal(test_leak_check(&before), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shm),
        cmocka_unit_test(test_shm_staged),
        cmocka_unit_test(test_shm_slices),
        cmocka_unit_test(test_ofi),
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_handles),
        cmocka_unit_test(test_fast_path_equals_plan),
        cmocka_unit_test(test_background),
        cmocka_unit_test(test_counters),
        cmocka_unit_test(test_arguments),
        cmocka_unit_test(test_no_leaks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
