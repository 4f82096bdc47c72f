/* SPDX-License-Identifier: Apache-2.0 */
/* When ranks die, differ or do not come: every other rank's call answers, and names the culprit. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/clock.h"
#include "tests/support/job.h"
#include "tests/support/leak.h"
#include "tests/support/ranks.h"

#define NOTICE_NS 1000000000

struct plan {
    const char *transports, *provider;
    int victim, after;
    size_t count;
    _Atomic int64_t *killed_ns; /* shared by the processes */
};

/* Ends the process from beside, while its main thread is inside operations. */
static void *kill_soon(void *arg)
{
    const struct plan *plan = arg;
    usleep(700 + 300 * (unsigned)plan->after);
    *plan->killed_ns = weft_clock_ns();
    kill(getpid(), SIGKILL);
    return NULL;
}

static int killed_body(int rank, int ranks, void *arg)
{
    const struct plan *plan = arg;
    struct job job;
    CHECK_OK(job_open(&job, plan->transports, plan->provider));
    float *send = calloc(plan->count, 4), *recv = calloc(plan->count, 4);
    (void)ranks;
    int status = WEFT_OK;
    for (int i = 0; status == WEFT_OK && i < 1000000; i++) {
        pthread_t killer;
        if (rank == plan->victim && i == plan->after)
            CHECK(pthread_create(&killer, NULL, kill_soon, arg) == 0);
        status = weft_allreduce(job.comm, send, recv, plan->count, WEFT_FLOAT32, WEFT_SUM);
    }
    int64_t noticed_ns = weft_clock_ns() - *plan->killed_ns;
    char expected[32], host[64] = "";
    snprintf(expected, sizeof expected, "rank %d", plan->victim);
    gethostname(host, sizeof host - 1);
    if (status != WEFT_PEER_FAILED || !strstr(weft_error_detail(), expected) ||
        !strstr(weft_error_detail(), host) || noticed_ns > NOTICE_NS) {
        fprintf(stderr, "rank %d: status %d, %lld ms, '%s': expected %d, '%s' and '%s' within 1 s\n", rank,
                status, (long long)(noticed_ns / 1000000), weft_error_detail(), WEFT_PEER_FAILED, expected,
                host);
        return 1;
    }
    CHECK(weft_allreduce(job.comm, send, recv, plan->count, WEFT_FLOAT32, WEFT_SUM) == WEFT_REVOKED);
    CHECK(strstr(weft_error_detail(), expected));
    CHECK_OK(job_close(&job));
    free(send);
    free(recv);
    return 0;
}

static void kill_everywhere(const char *transports, const char *provider)
{
    static const size_t counts[] = {2, 3000, 300000};
    _Atomic int64_t *shared =
        mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(shared != MAP_FAILED);
    for (int ranks = 2; ranks <= 5; ranks += ranks == 3 ? 2 : 1) {
        for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
            struct plan plan = {transports, provider,  (ranks + (int)c) % ranks,
                                5 + (int)c, counts[c], shared};
            int statuses[TEST_RANKS_MAX];
            test_ranks_fork_status(ranks, killed_body, &plan, statuses);
            for (int r = 0; r < ranks; r++) {
                if (r != plan.victim && statuses[r] != 0)
                    fail_msg("%s, %d ranks, %zu elements: rank %d ended with %d", transports, ranks,
                             counts[c], r, statuses[r]);
            }
        }
    }
    munmap((void *)(uintptr_t)shared, sizeof *shared);
}

static void test_killed_shm(void **state)
{
    (void)state;
    struct test_leak before;
    test_leak_take(&before);
    kill_everywhere("shm", NULL);
    assert_int_equal(test_leak_check(&before), 0);
}

static int all_killed_body(int rank, int ranks, void *arg)
{
    (void)rank;
    (void)ranks;
    struct job job;
    CHECK_OK(job_open(&job, "shm", arg));
    void *data;
    CHECK_OK(weft_mem_alloc(job.context, 4 << 20, &data));
    for (int i = 0;; i++) {
        if (i == 20)
            raise(SIGKILL);
        if (weft_allreduce(job.comm, data, data, 1 << 20, WEFT_FLOAT32, WEFT_SUM) != WEFT_OK)
            raise(SIGKILL);
    }
}

/* Every rank dies in the middle: nothing has a name that could stay behind. */
static void test_all_killed(void **state)
{
    (void)state;
    struct test_leak before;
    int statuses[TEST_RANKS_MAX];
    test_leak_take(&before);
    test_ranks_fork_status(3, all_killed_body, NULL, statuses);
    for (int r = 0; r < 3; r++)
        assert_int_equal(statuses[r] & 0x7f, SIGKILL);
    assert_int_equal(test_leak_check(&before), 0);
}

static void test_killed_ofi(void **state)
{
    (void)state;
    if (!job_has_ofi("tcp;ofi_rxm"))
        skip();
    kill_everywhere("ofi", "tcp;ofi_rxm");
    if (job_has_ofi("net"))
        kill_everywhere("ofi", "net");
}

static int deadline_body(int rank, int ranks, void *arg)
{
    (void)ranks;
    size_t count = arg ? 100000 : 4;
    weft_context *context;
    weft_comm *comm;
    weft_comm_options options = WEFT_COMM_OPTIONS_INIT;
    test_ranks_options(&options);
    options.timeout_ms = 1500; /* bounds the start too: a loaded machine must manage that */
    CHECK_OK(weft_context_open(NULL, &context));
    CHECK_OK(weft_comm_create(context, &options, &comm));
    float *data = calloc(count, 4);
    CHECK_OK(weft_allreduce(comm, data, data, count, WEFT_FLOAT32, WEFT_SUM));
    if (rank == 1) {
        /* Absent for longer than the others wait; then it learns that the communicator is gone. */
        usleep(3000000);
        int status = weft_allreduce(comm, data, data, count, WEFT_FLOAT32, WEFT_SUM);
        CHECK(status != WEFT_OK && status != WEFT_TIMEOUT);
        CHECK(strstr(weft_error_detail(), "rank"));
    } else {
        int64_t start_ns = weft_clock_ns();
        int status = weft_allreduce(comm, data, data, count, WEFT_FLOAT32, WEFT_SUM);
        int64_t took_ns = weft_clock_ns() - start_ns;
        CHECK(status == WEFT_TIMEOUT || status == WEFT_REVOKED);
        CHECK(took_ns >= 1000000000 && took_ns < 10000000000);
        if (status == WEFT_TIMEOUT)
            CHECK(strstr(weft_error_detail(), "rank 1"));
        CHECK(weft_allreduce(comm, data, data, count, WEFT_FLOAT32, WEFT_SUM) == WEFT_REVOKED);
    }
    free(data);
    CHECK_OK(weft_comm_destroy(comm));
    CHECK_OK(weft_context_close(context));
    return 0;
}

static void test_deadline(void **state)
{
    (void)state;
    assert_int_equal(test_ranks_fork(2, deadline_body, NULL), 0);
    assert_int_equal(test_ranks_fork(2, deadline_body, "large"), 0);
    assert_int_equal(test_ranks_fork(3, deadline_body, "large"), 0);
}

/* Rank 0 gives up and destroys the communicator, its memory included, while the others are still in an
 * operation: they get an error, not a signal. */
static int deserted_body(int rank, int ranks, void *arg)
{
    (void)ranks;
    size_t count = *(const size_t *)arg;
    weft_context *context;
    weft_comm *comm;
    weft_comm_options options = WEFT_COMM_OPTIONS_INIT;
    test_ranks_options(&options);
    options.timeout_ms = rank == 0 ? 1500 : 20000;
    CHECK_OK(weft_context_open(NULL, &context));
    CHECK_OK(weft_comm_create(context, &options, &comm));
    void *data;
    CHECK_OK(weft_mem_alloc(context, count * 4, &data));
    CHECK_OK(weft_allreduce(comm, data, data, count, WEFT_FLOAT32, WEFT_SUM));
    if (rank == 2)
        usleep(3000000); /* so that rank 1 waits for it while rank 0 goes */
    if (rank == 0) {
        weft_work *work = NULL;
        CHECK_OK(weft_allreduce_start(comm, data, data, count, WEFT_FLOAT32, WEFT_SUM, &work));
        CHECK(weft_work_wait(work, -1) == WEFT_TIMEOUT);
        weft_work_free(work);
    } else {
        int64_t start_ns = weft_clock_ns();
        weft_work *work = NULL;
        int status = weft_allreduce_start(comm, data, data, count, WEFT_FLOAT32, WEFT_SUM, &work);
        if (status == WEFT_OK)
            status = weft_work_wait(work, -1);
        CHECK(status != WEFT_OK);
        CHECK(strstr(weft_error_detail(), "rank 0"));
        CHECK(weft_clock_ns() - start_ns < 5000000000);
        weft_work_free(work);
    }
    weft_comm_destroy(comm);
    CHECK_OK(weft_mem_free(context, data));
    CHECK_OK(weft_context_close(context));
    return 0;
}

static void test_deserted(void **state)
{
    (void)state;
    static const size_t counts[] = {4, 300000};
    for (size_t c = 0; c < 2; c++)
        assert_int_equal(test_ranks_fork(3, deserted_body, (void *)(uintptr_t)&counts[c]), 0);
}

static int unequal_body(int rank, int ranks, void *arg)
{
    (void)ranks;
    const size_t *pair = arg;
    struct job job;
    CHECK_OK(job_open(&job, "shm", NULL));
    float *data = calloc(pair[0] + pair[1], 4);
    int status = weft_allreduce(job.comm, data, data, pair[rank == 1], WEFT_FLOAT32, WEFT_SUM);
    CHECK(status == WEFT_MISMATCH || status == WEFT_REVOKED);
    CHECK(strstr(weft_error_detail(), "count"));
    free(data);
    CHECK_OK(job_close(&job));
    return 0;
}

/* 6 and 10952 have the same hash in the digest. */
static void test_unequal_counts(void **state)
{
    (void)state;
    static const size_t pairs[][2] = {{1, 2}, {6, 10952}, {1000, 100000}, {100000, 100001}};
    for (size_t p = 0; p < sizeof pairs / sizeof *pairs; p++) {
        setenv("WEFT_FAST_PATH", "65536", 1);
        assert_int_equal(test_ranks_fork(2, unequal_body, (void *)(uintptr_t)pairs[p]), 0);
        unsetenv("WEFT_FAST_PATH");
    }
}

static int settings_body(int rank, int ranks, void *arg)
{
    (void)ranks;
    if (rank == 2)
        setenv("WEFT_SLICE_SHM", "8192", 1);
    (void)arg;
    struct job job;
    int status = job_open(&job, "shm", NULL);
    CHECK(status == WEFT_SETTINGS);
    CHECK(strstr(weft_error_detail(), "rank 2"));
    CHECK(strstr(weft_error_detail(), "WEFT_SLICE_SHM"));
    return 0;
}

static void test_settings(void **state)
{
    (void)state;
    assert_int_equal(test_ranks_fork(4, settings_body, NULL), 0);
}

static int bad_setting_body(int rank, int ranks, void *arg)
{
    (void)rank;
    (void)ranks;
    (void)arg;
    weft_context *context;
    setenv("WEFT_WINDOW", "many", 1);
    CHECK(weft_context_open(NULL, &context) == WEFT_INVALID);
    CHECK(strstr(weft_error_detail(), "WEFT_WINDOW is 'many': expected a whole number from 4 to 64"));
    unsetenv("WEFT_WINDOW");
    setenv("WEFT_ALGO", "best", 1);
    CHECK(weft_context_open(NULL, &context) == WEFT_INVALID);
    CHECK(strstr(weft_error_detail(), "WEFT_ALGO is 'best'"));
    return 0;
}

static void test_bad_setting(void **state)
{
    (void)state;
    assert_int_equal(test_ranks_fork(1, bad_setting_body, NULL), 0);
}

static int absent_body(int rank, int ranks, void *arg)
{
    (void)ranks;
    (void)arg;
    if (rank == 1)
        return 0;
    weft_context *context;
    weft_comm *comm;
    weft_comm_options options = WEFT_COMM_OPTIONS_INIT;
    test_ranks_options(&options);
    options.timeout_ms = 2000;
    CHECK_OK(weft_context_open(NULL, &context));
    CHECK(weft_comm_create(context, &options, &comm) == WEFT_ABSENT);
    CHECK(strstr(weft_error_detail(), "rank 1"));
    if (rank == 0)
        CHECK(fcntl(options.listen_fd, F_GETFD) == -1 &&
              errno == EBADF); /* weft's to close, whatever happens */
    CHECK_OK(weft_context_close(context));
    return 0;
}

static void test_absent(void **state)
{
    (void)state;
    assert_int_equal(test_ranks_fork(3, absent_body, NULL), 0);
}

static int mismatch_body(int rank, int ranks, void *arg)
{
    (void)ranks;
    size_t count = *(const size_t *)arg;
    struct job job;
    CHECK_OK(job_open(&job, "shm", NULL));
    float *data = calloc(count + 1, 4);
    weft_dtype dtype = rank == 1 ? WEFT_INT32 : WEFT_FLOAT32;
    int status = weft_allreduce(job.comm, data, data, count, dtype, WEFT_SUM);
    CHECK(status == WEFT_MISMATCH || status == WEFT_REVOKED);
    CHECK(strstr(weft_error_detail(), "rank 1"));
    CHECK(strstr(weft_error_detail(), "type int32"));
    free(data);
    CHECK_OK(job_close(&job));
    return 0;
}

static void test_mismatch(void **state)
{
    (void)state;
    static const size_t counts[] = {1, 1000, 100000};
    for (size_t c = 0; c < 3; c++)
        assert_int_equal(test_ranks_fork(2, mismatch_body, (void *)(uintptr_t)&counts[c]), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_killed_shm), cmocka_unit_test(test_all_killed),
        cmocka_unit_test(test_killed_ofi), cmocka_unit_test(test_deadline),
        cmocka_unit_test(test_settings),   cmocka_unit_test(test_bad_setting),
        cmocka_unit_test(test_absent),     cmocka_unit_test(test_mismatch),
        cmocka_unit_test(test_deserted),   cmocka_unit_test(test_unequal_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
