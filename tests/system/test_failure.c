/* SPDX-License-Identifier: Apache-2.0 */
/* build: with tests/clock/; wrap @tests/clock/wraps */
/* run: beside (deadlines); early */
/* When ranks die, differ or do not come: every other rank's call answers, and names the culprit.
 *
 * Deadlines are a minute. The rank that is to see one pass hurries its clock; who comes late waits until it has. No
 * heartbeat is due in the time that ranks have here, and no deadline but these: what else ends a call is the event itself.
 */
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
#include "tests/clock/clock.h"
#include "tests/support/dying.h"
#include "tests/support/golden.h"
#include "tests/support/job.h"
#include "tests/support/leak.h"
#include "tests/support/ranks.h"

#define TIMEOUT_MS 60000
#define LATER_MS   600000 /* longer than the limit of the ranks */
#define HEARTBEAT  "600000"
#define HURRY      100
#define PATIENCE   4 /* the answers that say for whom the others wait have a second */

struct plan {
    const char *transports, *provider;
    int victim, after;
    size_t count;
};

/* Ranks that have given up; shared by the processes. */
static _Atomic int *left;

static int killed_body(int rank, int ranks, void *arg)
{
    const struct plan *plan = arg;
    struct job job;
    CHECK_OK(job_open(&job, plan->transports, plan->provider));
    CHECK_OK(weft_comm_set_timeout(job.comm, LATER_MS));
    float *send = calloc(plan->count, 4), *recv = calloc(plan->count, 4);
    (void)ranks;
    int status = WEFT_OK;
    for (int i = 0; status == WEFT_OK && i < 1000000; i++) {
        if (rank == plan->victim && i == plan->after) /* while its main thread is inside operations */
            CHECK(test_die_soon(700 + 300 * (unsigned)plan->after) == 0);
        status = weft_allreduce(job.comm, send, recv, plan->count, WEFT_FLOAT32, WEFT_SUM, NULL);
    }
    char expected[32], host[64] = "";
    snprintf(expected, sizeof expected, "rank %d", plan->victim);
    gethostname(host, sizeof host - 1);
    if (status != WEFT_PEER_FAILED || !strstr(weft_error_detail(), expected) ||
        !strstr(weft_error_detail(), host)) {
        fprintf(stderr, "rank %d: status %d, '%s': expected %d, '%s' and '%s'\n", rank, status,
                weft_error_detail(), WEFT_PEER_FAILED, expected, host);
        return 1;
    }
    CHECK(weft_allreduce(job.comm, send, recv, plan->count, WEFT_FLOAT32, WEFT_SUM, NULL) == WEFT_REVOKED);
    CHECK(strstr(weft_error_detail(), expected));
    CHECK_OK(job_close(&job));
    free(send);
    free(recv);
    return 0;
}

static void kill_everywhere(const char *transports, const char *provider)
{
    static const size_t counts[] = {2, 3000, 300000};
    for (int ranks = 2; ranks <= 5; ranks += ranks == 3 ? 2 : 1) {
        for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
            struct plan plan = {transports, provider, (ranks + (int)c) % ranks, 5 + (int)c, counts[c]};
            int statuses[TEST_RANKS_MAX];
            test_ranks_fork_status(ranks, killed_body, &plan, statuses);
            for (int r = 0; r < ranks; r++) {
                if (r != plan.victim && statuses[r] != 0)
                    fail_msg("%s, %d ranks, %zu elements: rank %d ended with %d", transports, ranks,
                             counts[c], r, statuses[r]);
            }
        }
    }
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
        if (weft_allreduce(job.comm, data, data, 1 << 20, WEFT_FLOAT32, WEFT_SUM, NULL) != WEFT_OK)
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

static void test_killed_tcp(void **state)
{
    (void)state;
    kill_everywhere("tcp", NULL);
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

static void await(_Atomic int *value, int wanted)
{
    while (*value < wanted)
        usleep(1000);
}

static int open_with(struct job *job, int64_t timeout_ms)
{
    weft_comm_options options = WEFT_COMM_OPTIONS_INIT;
    test_ranks_options(&options);
    options.timeout_ms = timeout_ms;
    CHECK_OK(weft_context_open(NULL, &job->context));
    CHECK_OK(weft_comm_create(job->context, &options, &job->comm));
    return 0;
}

/* Whether a log has the text. */
static int has_line(const char *path, const char *text)
{
    char line[1000];
    int found = 0;
    FILE *log = fopen(path, "re");
    while (log && !found && fgets(line, sizeof line, log))
        found = strstr(line, text) != NULL;
    if (log)
        fclose(log);
    return found;
}

/* Shared by the ranks of one run. */
struct lateness {
    size_t count;
    char log[64];
};

/* Whether rank 0 is in the call, and has heard that every other rank but rank 1 is. */
struct watched {
    weft_comm *comm;
    const struct lateness *lateness;
};

static int others_are_here(void *arg)
{
    const struct watched *watched = arg;
    char text[4096];
    return weft_comm_dump(watched->comm, text, sizeof text, NULL) == WEFT_OK &&
           strstr(text, "allreduce #2") &&
           (weft_comm_size(watched->comm) == 2 ||
            has_line(watched->lateness->log, "rank 2 reports allreduce #2"));
}

static int gives_up(struct job *job, const struct lateness *lateness, float *data)
{
    struct watched watched = {job->comm, lateness};
    int64_t start_ns = weft_clock_ns();
    test_clock_slow(PATIENCE);
    struct test_clock_jump *jump = test_clock_jump_when(others_are_here, &watched, TIMEOUT_MS);
    CHECK(jump);
    int status = weft_allreduce(job->comm, data, data, lateness->count, WEFT_FLOAT32, WEFT_SUM, NULL);
    int64_t took_ns = weft_clock_ns() - start_ns;
    test_clock_jump_end(jump);
    test_clock_hurry(1);
    CHECK(status == WEFT_TIMEOUT && took_ns >= TIMEOUT_MS * INT64_C(1000000));
    CHECK(strstr(weft_error_detail(), "rank 0 gave up after"));
    CHECK(strstr(weft_error_detail(), "rank 1 "));
    return 0;
}

/* Rank 1 comes when rank 0 has given up; then it learns that the communicator is gone. */
static int deadline_body(int rank, int ranks, void *arg)
{
    const struct lateness *lateness = arg;
    struct job job;
    (void)ranks;
    setenv("WEFT_LOG", "debug", 1);
    setenv("WEFT_LOG_FILE", lateness->log, 1);
    CHECK(open_with(&job, rank == 0 ? TIMEOUT_MS : LATER_MS) == 0);
    float *data = calloc(lateness->count, 4);
    CHECK_OK(weft_allreduce(job.comm, data, data, lateness->count, WEFT_FLOAT32, WEFT_SUM, NULL));
    if (rank == 1)
        await(left, 1);
    if (rank == 0) {
        CHECK(gives_up(&job, lateness, data) == 0);
    } else {
        int status = weft_allreduce(job.comm, data, data, lateness->count, WEFT_FLOAT32, WEFT_SUM, NULL);
        CHECK(status == WEFT_REVOKED);
        CHECK(strstr(weft_error_detail(), "rank 0 gave up after") && strstr(weft_error_detail(), "rank 1 "));
    }
    CHECK(weft_allreduce(job.comm, data, data, lateness->count, WEFT_FLOAT32, WEFT_SUM, NULL) ==
          WEFT_REVOKED);
    *left += rank == 0;
    free(data);
    CHECK_OK(job_close(&job));
    return 0;
}

/* In a log of its own: what is called with its name. */
static int run_with_log(int ranks, test_rank_function *body, struct lateness *lateness)
{
    snprintf(lateness->log, sizeof lateness->log, "/tmp/weft-failure-XXXXXX");
    int fd = mkstemp(lateness->log);
    assert_true(fd >= 0);
    close(fd);
    int failed = test_ranks_fork(ranks, body, lateness);
    unlink(lateness->log);
    return failed;
}

static void test_deadline(void **state)
{
    (void)state;
    static const struct {
        int ranks;
        size_t count;
    } cases[] = {{2, 4}, {2, 100000}, {3, 100000}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct lateness lateness = {.count = cases[c].count};
        *left = 0;
        assert_int_equal(run_with_log(cases[c].ranks, deadline_body, &lateness), 0);
    }
}

/* Rank 0 gives up and destroys the communicator, its memory included, while the others are still in an
 * operation: they get an error, not a signal. */
static int deserted_body(int rank, int ranks, void *arg)
{
    (void)ranks;
    size_t count = *(const size_t *)arg;
    struct job job;
    CHECK(open_with(&job, rank == 0 ? TIMEOUT_MS : LATER_MS) == 0);
    void *data;
    CHECK_OK(weft_mem_alloc(job.context, count * 4, &data));
    CHECK_OK(weft_allreduce(job.comm, data, data, count, WEFT_FLOAT32, WEFT_SUM, NULL));
    weft_work *work = NULL;
    if (rank == 2)
        await(left, 1); /* so that rank 1 waits for it while rank 0 goes */
    if (rank == 0) {
        CHECK_OK(weft_allreduce(job.comm, data, data, count, WEFT_FLOAT32, WEFT_SUM, WEFT_START(&work)));
        test_clock_hurry(HURRY);
        CHECK(weft_work_wait(work, -1) == WEFT_TIMEOUT);
        test_clock_hurry(1);
    } else {
        int status = weft_allreduce(job.comm, data, data, count, WEFT_FLOAT32, WEFT_SUM, WEFT_START(&work));
        if (status == WEFT_OK)
            status = weft_work_wait(work, -1);
        CHECK(status != WEFT_OK);
        CHECK(strstr(weft_error_detail(), "rank 0"));
    }
    weft_work_free(work);
    weft_comm_destroy(job.comm);
    CHECK_OK(weft_mem_free(job.context, data));
    CHECK_OK(weft_context_close(job.context));
    *left += rank == 0;
    return 0;
}

static void test_deserted(void **state)
{
    (void)state;
    static const size_t counts[] = {4, 300000};
    for (size_t c = 0; c < 2; c++) {
        *left = 0;
        assert_int_equal(test_ranks_fork(3, deserted_body, (void *)(uintptr_t)&counts[c]), 0);
    }
}

/* Rank 0 gives up in weft_comm_destroy(), where rank 2 never comes: everybody reads the name of that call, not of a step
 * inside. */
static int undestroyed_body(int rank, int ranks, void *arg)
{
    (void)ranks;
    (void)arg;
    struct job job;
    float data = 0;
    CHECK(open_with(&job, rank == 0 ? TIMEOUT_MS : LATER_MS) == 0);
    CHECK_OK(weft_allreduce(job.comm, &data, &data, 1, WEFT_FLOAT32, WEFT_SUM, NULL));
    if (rank == 2) {
        await(left, 1);
        CHECK(weft_allreduce(job.comm, &data, &data, 1, WEFT_FLOAT32, WEFT_SUM, NULL) == WEFT_REVOKED);
    } else if (rank == 1) {
        CHECK(weft_comm_destroy(job.comm) == WEFT_REVOKED);
    } else {
        test_clock_hurry(HURRY);
        CHECK(weft_comm_destroy(job.comm) == WEFT_TIMEOUT);
        test_clock_hurry(1);
    }
    *left += rank == 0;
    CHECK(strstr(weft_error_detail(), "weft_comm_destroy: deadline passed"));
    if (rank == 2)
        CHECK_OK(weft_comm_destroy(job.comm));
    CHECK_OK(weft_context_close(job.context));
    return 0;
}

static void test_undestroyed(void **state)
{
    (void)state;
    *left = 0;
    assert_int_equal(test_ranks_fork(3, undestroyed_body, NULL), 0);
}

static int unequal_body(int rank, int ranks, void *arg)
{
    (void)ranks;
    const size_t *pair = arg;
    struct job job;
    CHECK_OK(job_open(&job, "shm", NULL));
    float *data = calloc(pair[0] + pair[1], 4);
    int status = weft_allreduce(job.comm, data, data, pair[rank == 1], WEFT_FLOAT32, WEFT_SUM, NULL);
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
    CHECK(golden_matches("settings-differ", "2", NULL, "WEFT_SLICE_SHM", "8192"));
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
    CHECK(golden_matches("setting-window", "many"));
    unsetenv("WEFT_WINDOW");
    setenv("WEFT_ALGO", "best", 1);
    CHECK(weft_context_open(NULL, &context) == WEFT_INVALID);
    CHECK(golden_matches("setting-algo", "best"));
    return 0;
}

static void test_bad_setting(void **state)
{
    (void)state;
    assert_int_equal(test_ranks_fork(1, bad_setting_body, NULL), 0);
}

/* Rank 1 does not come. The clock of rank 0 runs as soon as rank 2 has. */
static void *hurry_when_checked_in(void *log)
{
    while (!has_line(log, "rank 2 on host"))
        usleep(1000);
    test_clock_hurry(HURRY);
    return NULL;
}

static int absent_body(int rank, int ranks, void *arg)
{
    (void)ranks;
    struct lateness *lateness = arg;
    pthread_t thread;
    if (rank == 1)
        return 0;
    if (rank == 0) {
        setenv("WEFT_LOG", "debug", 1);
        setenv("WEFT_LOG_FILE", lateness->log, 1);
        CHECK(pthread_create(&thread, NULL, hurry_when_checked_in, lateness->log) == 0);
    }
    weft_context *context;
    weft_comm *comm;
    weft_comm_options options = WEFT_COMM_OPTIONS_INIT;
    test_ranks_options(&options);
    options.timeout_ms = TIMEOUT_MS;
    int64_t start_ns = weft_clock_ns();
    CHECK_OK(weft_context_open(NULL, &context));
    CHECK(weft_comm_create(context, &options, &comm) == WEFT_RANKS_ABSENT);
    CHECK(strstr(weft_error_detail(), "rank 1"));
    if (rank == 0) {
        CHECK(weft_clock_ns() - start_ns >= TIMEOUT_MS * INT64_C(1000000));
        CHECK(fcntl(options.listen_fd, F_GETFD) == -1 &&
              errno == EBADF); /* weft's to close, whatever happens */
        pthread_join(thread, NULL);
    }
    CHECK_OK(weft_context_close(context));
    return 0;
}

static void test_absent(void **state)
{
    (void)state;
    struct lateness lateness;
    assert_int_equal(run_with_log(3, absent_body, &lateness), 0);
}

static int mismatch_body(int rank, int ranks, void *arg)
{
    (void)ranks;
    size_t count = *(const size_t *)arg;
    struct job job;
    CHECK_OK(job_open(&job, "shm", NULL));
    float *data = calloc(count + 1, 4);
    weft_dtype dtype = rank == 1 ? WEFT_INT32 : WEFT_FLOAT32;
    int status = weft_allreduce(job.comm, data, data, count, dtype, WEFT_SUM, NULL);
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
    left = mmap(NULL, sizeof *left, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (left == MAP_FAILED)
        return 1;
    setenv("WEFT_HEARTBEAT_MS", HEARTBEAT, 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_killed_shm),  cmocka_unit_test(test_all_killed),
        cmocka_unit_test(test_killed_tcp),  cmocka_unit_test(test_killed_ofi),
        cmocka_unit_test(test_deadline),    cmocka_unit_test(test_settings),
        cmocka_unit_test(test_bad_setting), cmocka_unit_test(test_absent),
        cmocka_unit_test(test_mismatch),    cmocka_unit_test(test_undestroyed),
        cmocka_unit_test(test_deserted),    cmocka_unit_test(test_unequal_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
