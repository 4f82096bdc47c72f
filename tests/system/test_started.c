/* SPDX-License-Identifier: Apache-2.0 */
/* build: with tests/clock/clock.c; wrap @tests/clock/wraps */
/* Calls that are started, and for which nobody waits inside of weft: the program hears of their end by a callback. Peers' messages wake the
 * thread that drives them. Here no sleep ends by itself, so that one which only time would end is a hang. */
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

#include "tests/clock/clock.h"
#include "tests/support/job.h"
#include "tests/support/patience.h"
#include "tests/support/ranks.h"

#define COUNT     100000
#define ROUNDS    50
#define ENDLESS   1 /* a sleep of so many milliseconds */
#define PATIENT_S 20

static void has_ended(void *arg, int status, const char *detail)
{
    (void)status, (void)detail;
    sem_post(arg);
}

/* 0 when it has come. The system's clock: the test's own shows the same, and is not asked. */
static int await(sem_t *ended)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += test_patient(PATIENT_S);
    return sem_timedwait(ended, &until);
}

static int start_one(weft_comm *comm, const float *input, float *output, size_t count)
{
    sem_t ended;
    weft_work *work;
    sem_init(&ended, 0, 0);
    CHECK_OK(weft_allreduce(comm, input, output, count, WEFT_FLOAT32, WEFT_SUM, WEFT_START(&work)));
    CHECK_OK(weft_work_set_callback(work, has_ended, &ended));
    CHECK(await(&ended) == 0);
    CHECK_OK(weft_work_free(work));
    for (size_t i = 0; i < count; i++)
        CHECK_BITS(output[i] == (float)weft_comm_size(comm));
    sem_destroy(&ended);
    return 0;
}

static int body(int rank, int ranks, void *arg)
{
    struct job job;
    float *input = calloc(COUNT, sizeof *input), *output = calloc(COUNT, sizeof *output);
    (void)rank, (void)ranks;
    CHECK(input && output);
    for (size_t i = 0; i < COUNT; i++)
        input[i] = 1;
    CHECK_OK(job_open(&job, arg, NULL));
    CHECK(start_one(job.comm, input, output, COUNT) == 0); /* which connects them */
    CHECK_OK(weft_barrier(job.comm, NULL));
    test_clock_no_rescue(ENDLESS);
    for (int round = 0; round < ROUNDS; round++)
        CHECK(start_one(job.comm, input, output, round % 2 ? COUNT : 100) == 0);
    test_clock_no_rescue(0);
    CHECK_OK(weft_barrier(job.comm, NULL));
    CHECK_OK(job_close(&job));
    free(input);
    free(output);
    return 0;
}

static void test_shm(void **state)
{
    (void)state;
    static char transport[] = "shm";
    assert_int_equal(test_ranks_fork(3, body, transport), 0);
}

static void test_tcp(void **state)
{
    (void)state;
    static char transport[] = "tcp";
    assert_int_equal(test_ranks_fork(3, body, transport), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_shm), cmocka_unit_test(test_tcp)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
