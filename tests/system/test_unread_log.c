/* SPDX-License-Identifier: Apache-2.0 */
/* run: beside (heartbeats) */
/* Ranks whose stderr is a full pipe that nobody reads. A death is logged by the thread that also sends the heartbeats
 * and passes the news on: it must do both all the same, and nobody else may be taken for dead. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/support/heartbeat.h"
#include "tests/support/job.h"
#include "tests/support/ranks.h"

enum { RANKS = 6, DEAD = 3 };

/* 0, or -1. */
static int fill_stderr(void)
{
    static const char dots[1000];
    int ends[2];
    if (pipe2(ends, O_NONBLOCK) != 0)
        return -1;
    for (size_t size = sizeof dots; size > 0; size /= 2)
        while (write(ends[1], dots, size) > 0)
            ;
    return fcntl(ends[1], F_SETFL, 0) == 0 && dup2(ends[1], 2) == 2 ? 0 : -1;
}

static int sum(weft_comm *comm)
{
    int32_t mine = 1, all = 0;
    int status = weft_allreduce(comm, &mine, &all, 1, WEFT_INT32, WEFT_SUM, NULL);
    return status ? status : all == weft_comm_size(comm) ? 0 : 1;
}

/* Not on stderr, which says nothing here. */
#define SAY(condition)                                                                                       \
    do {                                                                                                     \
        if (!(condition)) {                                                                                  \
            printf("rank %d, line %d: not so: %s (%s)\n", rank, __LINE__, #condition, weft_error_detail());  \
            fflush(stdout);                                                                                  \
            return 1;                                                                                        \
        }                                                                                                    \
    } while (0)

static int body(int rank, int ranks, void *arg)
{
    struct job job;
    weft_comm *rest;
    int status, failed = -1;
    weft_failure failures[RANKS] = {WEFT_FAILURE_INIT};
    (void)arg;
    test_silence_set();
    setenv("WEFT_LOG", "debug", 1);
    unsetenv("WEFT_LOG_FILE");
    SAY(dup2(open("/dev/null", O_WRONLY | O_CLOEXEC), 2) == 2);
    if (rank % 2)
        SAY(fill_stderr() == 0);
    SAY(job_open(&job, NULL, NULL) == 0);
    if (rank % 2 == 0) /* these have said the most by now */
        SAY(fill_stderr() == 0);
    SAY(sum(job.comm) == 0);
    if (rank == DEAD)
        _exit(0);
    while ((status = sum(job.comm)) == 0)
        ;
    SAY(status == WEFT_PEER_FAILED);
    usleep(2 * 1000 * (useconds_t)test_silence_ms());
    SAY(weft_comm_shrink(job.comm, &rest, NULL) == 0);
    SAY(weft_comm_get_failures(job.comm, failures, RANKS, &failed) == 0);
    SAY(failed == 1 && failures[0].rank == DEAD && weft_comm_size(rest) == ranks - 1);
    SAY(sum(rest) == 0);
    usleep(2 * 1000 * (useconds_t)test_silence_ms());
    if (rank == 0) { /* the others may be in that sum still when they hear of the end */
        SAY(sum(rest) == 0);
        SAY(weft_comm_abort(rest, "enough") == 0);
    }
    while ((status = sum(rest)) == 0)
        ;
    SAY(status == WEFT_REVOKED && strstr(weft_error_detail(), "enough"));
    SAY(weft_comm_destroy(rest) == 0);
    SAY(job_close(&job) == 0);
    return 0;
}

static void test_nobody_else_dies(void **state)
{
    (void)state;
    assert_int_equal(test_ranks_fork(RANKS, body, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_nobody_else_dies)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
