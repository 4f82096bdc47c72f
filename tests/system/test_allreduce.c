/* SPDX-License-Identifier: Apache-2.0 */
/* What test_collectives.c does not see of an allreduce between real ranks: slices of extreme sizes, handles, what moved how, and nothing
 * left behind. */
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

/* Large sums, out of place and in place. */
static int large_body(int rank, int ranks, void *arg)
{
    const struct setup *setup = arg;
    const size_t count = test_is_sanitized() ? 1200001 : 3000001;
    struct job job;
    float *send = malloc(count * sizeof *send), *recv = malloc(count * sizeof *recv);
    CHECK(send && recv);
    CHECK_OK(job_open(&job, setup->transports, setup->provider));
    for (int in_place = 0; in_place < 2; in_place++) {
        float *to = in_place ? send : recv;
        job_fill(send, WEFT_FLOAT32, rank, count);
        CHECK_OK(weft_allreduce(job.comm, send, to, count, WEFT_FLOAT32, WEFT_SUM, NULL));
        CHECK_BITS(job_wrong(to, WEFT_FLOAT32, WEFT_SUM, ranks, count) == 0);
    }
    free(send);
    free(recv);
    CHECK_OK(job_close(&job));
    return 0;
}

/* Large slices, and the smallest ones. */
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
        CHECK_OK(
            weft_allreduce(job.comm, send[w], recv[w], COUNT, WEFT_INT32, WEFT_SUM, WEFT_START(&works[w])));
    }
    CHECK(weft_comm_destroy(job.comm) == WEFT_BUSY);
    for (int w = WORKS - 1; w >= 0; w--) {
        if (w % 2) {
            CHECK_OK(weft_work_wait(works[w], -1));
        } else {
            int status;
            while ((status = weft_work_wait(works[w], 0)) == WEFT_AGAIN)
                ;
            CHECK_OK(status);
        }
        CHECK_BITS(job_wrong(recv[w], WEFT_INT32, WEFT_SUM, ranks, COUNT) == 0);
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
    setup = (struct setup){"tcp", NULL};
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
    CHECK_OK(weft_allreduce(job.comm, send, recv, COUNT, WEFT_INT32, WEFT_SUM, WEFT_START(&work)));
    if (rank == 0) {
        /* They get there only when rank 0's service thread has done its part. */
        struct timespec nap = {0, 10000000};
        for (int i = 0; i < 1000 && atomic_load(others_done) < ranks - 1; i++)
            nanosleep(&nap, NULL);
        CHECK(atomic_load(others_done) == ranks - 1);
    }
    CHECK_OK(weft_work_wait(work, -1));
    CHECK_BITS(job_wrong(recv, WEFT_INT32, WEFT_SUM, ranks, COUNT) == 0);
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
    CHECK_OK(weft_allreduce(job.comm, send, recv, COUNT, WEFT_FLOAT32, WEFT_SUM, NULL));
    CHECK_BITS(job_wrong(recv, WEFT_FLOAT32, WEFT_SUM, ranks, COUNT) == 0);
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
    CHECK(weft_allreduce(NULL, data, data, 1, WEFT_FLOAT32, WEFT_SUM, NULL) == WEFT_INVALID);
    CHECK(weft_allreduce(job.comm, NULL, data, 1, WEFT_FLOAT32, WEFT_SUM, NULL) == WEFT_INVALID);
    CHECK(golden_matches("call-buffer-null", "send", "1"));
    CHECK(weft_allreduce(job.comm, data, data + 1, 4, WEFT_FLOAT32, WEFT_SUM, NULL) == WEFT_INVALID);
    CHECK(golden_matches("call-overlap"));
    CHECK(weft_allreduce(job.comm, data, data, 1, (weft_dtype)99, WEFT_SUM, NULL) == WEFT_INVALID);
    CHECK(golden_matches("call-dtype", "99"));
    CHECK(weft_allreduce(job.comm, data, data, 1, WEFT_FLOAT32, WEFT_XOR, NULL) == WEFT_UNSUPPORTED);
    CHECK(weft_allreduce(job.comm, data, data, 1, WEFT_FLOAT32, (weft_op)-1, NULL) == WEFT_INVALID);
    CHECK(weft_allreduce(job.comm, data, data, SIZE_MAX / 2, WEFT_FLOAT32, WEFT_SUM, NULL) == WEFT_INVALID);
    CHECK(weft_mem_free(job.context, data) == WEFT_INVALID);
    CHECK(weft_mem_deregister(job.context, data) == WEFT_INVALID);
    CHECK_OK(weft_mem_register(job.context, data, sizeof data));
    CHECK(weft_mem_register(job.context, data, sizeof data) == WEFT_INVALID);
    CHECK_OK(weft_mem_deregister(job.context, data));
    CHECK_OK(weft_allreduce(job.comm, data, data, 8, WEFT_FLOAT32, WEFT_SUM, NULL));
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
    CHECK_OK(weft_allreduce(job.comm, &value, &value, 1, WEFT_INT32, WEFT_MAX, NULL));
    CHECK_BITS(value == ranks - 1);
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
        cmocka_unit_test(test_shm_slices), cmocka_unit_test(test_handles),
        cmocka_unit_test(test_background), cmocka_unit_test(test_counters),
        cmocka_unit_test(test_arguments),  cmocka_unit_test(test_no_leaks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
