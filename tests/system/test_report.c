/* SPDX-License-Identifier: Apache-2.0 */
/* A call that takes longer than WEFT_REPORT_MS is reported to the log: who waits for whom, and again when fewer are missing. It goes on,
 * and ends well when all have come. Each rank comes when it reads its own name in the others' log. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/support/lines.h"
#include "tests/support/job.h"
#include "tests/support/ranks.h"

enum { RANKS = 3, LATE = 1 };

static char folder[] = "/tmp/weft-test-XXXXXX";

static void log_of(int rank, char path[64])
{
    snprintf(path, 64, "%s/%d", folder, rank);
}

/* How often the log of a rank has words. */
static int count(int rank, const char *words)
{
    char path[64];
    log_of(rank, path);
    return test_lines_with(path, words);
}

static void await(int rank, const char *words)
{
    while (!count(rank, words))
        usleep(1000);
}

static int body(int rank, int ranks, void *arg)
{
    const int started = *(const int *)arg;
    struct job job;
    char path[64];
    weft_work *work = NULL;
    (void)ranks;
    log_of(rank, path);
    setenv("WEFT_REPORT_MS", "50", 1);
    setenv("WEFT_LOG_FILE", path, 1);
    CHECK_OK(job_open(&job, NULL, NULL));
    if (rank == 2)
        await(0, "ranks 1-2 have not called barrier");
    if (rank == LATE) {
        await(0, "rank 1 has not called barrier");
        await(2, "what rank 2 waits for");
    }
    CHECK_OK(weft_barrier(job.comm, started ? WEFT_START(&work) : NULL));
    if (work)
        CHECK_OK(weft_work_wait(work, -1));
    CHECK_OK(weft_work_free(work));
    CHECK_OK(weft_comm_get_error(job.comm));
    return job_close(&job);
}

static void look(int started)
{
    char path[64];
    assert_int_equal(test_ranks_fork(RANKS, body, &started), 0);
    for (int rank = 0; rank < RANKS; rank += 2) {
        assert_int_equal(count(rank, "barrier #1 has taken"), 1);
        assert_true(count(rank, "waits for rank 1") >= 1);
        assert_int_equal(count(rank, "deadline"), 0);
    }
    assert_int_equal(count(0, "ranks 1-2 have not called barrier"), 1);
    assert_int_equal(count(0, "rank 1 has not called barrier"), 1);
    for (int rank = 0; rank < RANKS; rank++) {
        log_of(rank, path);
        unlink(path);
    }
}

static void test_blocking(void **state)
{
    (void)state;
    look(0);
}

static void test_started(void **state)
{
    (void)state;
    look(1);
}

/* --- rank 1 stops in the midst of its call, and goes on when rank 0's log says that */

#define COUNT (1 << 18)

static void stop(void *arg, const void *a, const void *b, void *out, size_t count, weft_dtype dtype)
{
    const int32_t *x = a, *y = b;
    int32_t *sum = out;
    int *stops = arg;
    (void)dtype;
    for (size_t i = 0; i < count; i++)
        sum[i] = x[i] + y[i];
    if (*stops)
        raise(SIGSTOP);
    *stops = 0;
}

static int is_stopped(pid_t pid)
{
    char path[64], state = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *stat = fopen(path, "r");
    int got = stat ? fscanf(stat, "%*d (%*[^)]) %c", &state) : 0;
    if (stat)
        fclose(stat);
    return got == 1 && state == 'T';
}

/* Beside rank 1, which it wakes when it has stopped, and rank 0 has said so; or after a while, and then all fails. */
static pid_t wake_later(void)
{
    pid_t rank = getpid(), child = fork();
    if (child)
        return child;
    int tries = 0;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    while (!(is_stopped(rank) && count(0, "rank 1 has not called allreduce #1, or does not run")) &&
           getppid() == rank && tries++ < 20000)
        usleep(1000);
    kill(rank, SIGCONT);
    _exit(tries >= 20000);
}

static int stopped_body(int rank, int ranks, void *arg)
{
    static int32_t send[COUNT], recv[COUNT];
    struct job job;
    char path[64];
    int stops = rank == 1, status;
    weft_op op;
    weft_op_options options = WEFT_OP_OPTIONS_INIT;
    pid_t waker = stops ? wake_later() : 0;
    (void)ranks, (void)arg;
    options.reduce = stop;
    options.arg = &stops;
    options.commutative = 1;
    log_of(rank, path);
    setenv("WEFT_REPORT_MS", "50", 1);
    setenv("WEFT_LOG_FILE", path, 1);
    CHECK_OK(job_open(&job, "shm", NULL));
    CHECK_OK(weft_op_create(job.context, &options, &op));
    for (int i = 0; i < COUNT; i++)
        send[i] = i + rank;
    CHECK_OK(weft_allreduce(job.comm, send, recv, COUNT, WEFT_INT32, op, NULL));
    for (int i = 0; i < COUNT; i++)
        CHECK(recv[i] == 2 * i + 1);
    CHECK(!waker || (waitpid(waker, &status, 0) == waker && status == 0));
    return job_close(&job);
}

static void test_stopped(void **state)
{
    char path[64];
    (void)state;
    assert_int_equal(test_ranks_fork(2, stopped_body, NULL), 0);
    for (int rank = 0; rank < 2; rank++) {
        log_of(rank, path);
        unlink(path);
    }
}

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_blocking), cmocka_unit_test(test_started),
                                       cmocka_unit_test(test_stopped)};
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
