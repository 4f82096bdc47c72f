/* SPDX-License-Identifier: Apache-2.0 */
/* build: beside plugins device-sim */
/* Started calls over the cache lines that nobody waits for any more: a wait has passed, a callback has been set, the handle is gone. Each
 * ends all the same, and the peers' calls with it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/device_seat.h"
#include "tests/support/job.h"
#include "tests/support/patience.h"
#include "tests/support/ranks.h"
#include "tests/support/sim_seat.h"

struct heard {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int calls, failures;
};

#define HEARD_INIT                                                                                           \
    {                                                                                                        \
        PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, 0                                            \
    }

static void hear(void *arg, int status, const char *detail)
{
    struct heard *heard = arg;
    (void)detail;
    pthread_mutex_lock(&heard->lock);
    heard->calls++;
    heard->failures += status != WEFT_OK;
    pthread_cond_signal(&heard->changed);
    pthread_mutex_unlock(&heard->lock);
}

/* Without any call of weft's. Returns how many have failed. */
static int await_calls(struct heard *heard, int calls)
{
    pthread_mutex_lock(&heard->lock);
    while (heard->calls < calls)
        pthread_cond_wait(&heard->changed, &heard->lock);
    int failures = heard->failures;
    pthread_mutex_unlock(&heard->lock);
    return failures;
}

/* --- one look, which finds that the peer has come; then nobody looks any more */

enum look { LOOKS_NOT, LOOKS_ONCE, LOOK_KINDS };

struct look_test {
    pthread_barrier_t met;
    enum look look;
};

static int look_body(int rank, int ranks, void *arg)
{
    struct look_test *test = arg;
    struct heard heard = HEARD_INIT;
    struct job job;
    weft_work *work;
    int32_t value = rank, sum = -1;
    CHECK_OK(job_open(&job, "shm", NULL));
    if (rank)
        pthread_barrier_wait(&test->met);
    CHECK_OK(weft_allreduce(job.comm, &value, &sum, 1, WEFT_INT32, WEFT_SUM, WEFT_START(&work)));
    if (!rank)
        pthread_barrier_wait(&test->met);
    pthread_barrier_wait(&test->met); /* all have published */
    if (test->look == LOOKS_ONCE) {
        int status = weft_work_wait(work, 0);
        CHECK(status == WEFT_OK || status == WEFT_AGAIN);
    }
    CHECK_OK(weft_work_set_callback(work, hear, &heard));
    CHECK(await_calls(&heard, 1) == 0);
    CHECK_BITS(sum == ranks * (ranks - 1) / 2);
    CHECK_OK(weft_work_free(work));
    CHECK_OK(job_close(&job));
    return 0;
}

static void test_look(void **state)
{
    (void)state;
    for (int ranks = 2; ranks <= 3; ranks++) {
        for (int look = 0; look < LOOK_KINDS; look++) {
            struct look_test test = {.look = (enum look)look};
            pthread_barrier_init(&test.met, NULL, (unsigned)ranks);
            assert_int_equal(test_ranks_threads(ranks, look_body, &test), 0);
            pthread_barrier_destroy(&test.met);
        }
    }
}

/* --- one rank's memory is a device's, so that all make the call by its plan: those too that have turned away */

static int plan_body(int rank, int ranks, void *arg)
{
    int(*done)[2] = arg; /* pipes from rank 0 to each other one */
    struct device_seat seat;
    struct job job;
    char byte = 0;
    weft_work *work;
    device_seat_take(&seat, &sim_bench);
    int place = rank == 0 ? 0 : -1;
    int32_t *memory = device_seat_get(&seat, place, sizeof *memory);
    CHECK_OK(job_open_within(&job, "shm", NULL, test_patient(20000)));
    for (int32_t call = 1; call <= 5; call++) { /* the root is to send before anything comes to it */
        int32_t value = rank == 1 ? call : 0;
        device_seat_store(&seat, place, memory, &value, sizeof value);
        if (rank == 0) {
            CHECK_OK(weft_broadcast(job.comm, memory, memory, 1, WEFT_INT32, 1, NULL));
            for (int r = 1; r < ranks; r++)
                CHECK(write(done[r][1], &byte, 1) == 1);
        } else {
            CHECK_OK(weft_broadcast(job.comm, memory, memory, 1, WEFT_INT32, 1, WEFT_START(&work)));
            CHECK(read(done[rank][0], &byte, 1) == 1); /* no call of weft's before rank 0 has its result */
            CHECK_OK(weft_work_wait(work, -1));
            CHECK_OK(weft_work_free(work));
        }
        device_seat_load(&seat, place, &value, memory, sizeof value);
        CHECK_BITS(value == call);
    }
    CHECK_OK(job_close(&job));
    device_seat_put(&seat, place, memory);
    device_seat_leave(&seat);
    return 0;
}

static void test_plan(void **state)
{
    (void)state;
    for (int ranks = 2; ranks <= 3; ranks++) {
        int done[3][2];
        for (int r = 1; r < ranks; r++)
            assert_int_equal(pipe(done[r]), 0);
        sim_seats_prepare("sim:seed=1");
        int failed = device_bench_run(&sim_bench, ranks, 0, plan_body, done);
        assert_int_equal(sim_seats_end(), 0);
        assert_int_equal(failed, 0);
        for (int r = 1; r < ranks; r++) {
            close(done[r][0]);
            close(done[r][1]);
        }
    }
}

/* --- a peer never comes, and nobody waits: the call's deadline passes all the same */

static int deadline_body(int rank, int ranks, void *arg)
{
    struct job job;
    int32_t value = rank, sum;
    weft_work *work = NULL;
    int status;
    (void)ranks, (void)arg;
    CHECK_OK(job_open_within(&job, "shm", NULL, 600000));
    if (rank == 0)
        CHECK_OK(weft_allreduce(job.comm, &value, &sum, 1, WEFT_INT32, WEFT_SUM,
                                WEFT_CALL(.work = &work, .timeout_ms = 100)));
    while ((status = weft_comm_get_error(job.comm)) == WEFT_OK)
        poll(NULL, 0, 1);
    CHECK(rank != 0 || status == WEFT_TIMEOUT);
    CHECK(strstr(weft_error_detail(), "rank 1 has not called allreduce #1") != NULL);
    weft_work_free(work);
    weft_comm_destroy(job.comm);
    CHECK_OK(weft_context_close(job.context));
    return 0;
}

static void test_deadline(void **state)
{
    (void)state;
    assert_int_equal(test_ranks_fork(2, deadline_body, NULL), 0);
}

/* --- at random */

/* WEFT_TEST_CALLS and WEFT_TEST_SEED: more of them, or the same again. */
enum { CALLS = 800 };

struct random_test {
    uint32_t seed;
    int calls;
};

static uint32_t next(uint32_t *random)
{
    *random = *random * 1664525u + 1013904223u;
    return *random >> 8;
}

static void pause_at_random(uint32_t *random)
{
    if (next(random) % 16)
        return;
    const struct timespec pause = {.tv_nsec = next(random) % 2000000};
    nanosleep(&pause, NULL);
}

/* A started call's end, as programs and bindings see to it. */
static int see_to_it(weft_work *work, uint32_t *random, struct heard *heard, int *expected)
{
    int status, kind = (int)(next(random) % 7);
    if (kind == 0) { /* until it has ended */
        while ((status = weft_work_wait(work, 0)) == WEFT_AGAIN)
            ;
        CHECK_OK(status);
    } else if (kind <= 4) {
        status = weft_work_wait(work, kind == 1 ? 0 : 1);
        CHECK(status == WEFT_OK || status == WEFT_AGAIN || status == WEFT_TIMEOUT);
    } else if (kind == 5) {
        CHECK_OK(weft_work_wait(work, -1));
    }
    kind = (int)(next(random) % 4);
    if (kind < 2) {
        CHECK_OK(weft_work_set_callback(work, hear, heard));
        ++*expected;
        if (kind == 0)
            CHECK(await_calls(heard, *expected) == 0);
    } else if (kind == 2) {
        CHECK_OK(weft_work_wait(work, -1));
    }
    CHECK_OK(weft_work_free(work)); /* it may still run */
    return 0;
}

static int random_body(int rank, int ranks, void *arg)
{
    const struct random_test *test = arg;
    enum { SUMS = 64 };
    struct job job;
    struct heard heard = HEARD_INIT;
    int64_t values[SUMS], sums[SUMS];
    uint32_t random = test->seed + (uint32_t)rank * 7919u;
    int expected = 0;
    CHECK_OK(job_open(&job, "shm", NULL));
    for (int call = 0; call < test->calls; call++) {
        int at = call % SUMS;
        weft_work *work;
        if (at == 0) { /* who waits for it: all before it have ended */
            int64_t one = 1, all = 0;
            CHECK_OK(weft_allreduce(job.comm, &one, &all, 1, WEFT_INT64, WEFT_SUM, NULL));
            CHECK_BITS(all == ranks);
            for (int i = 0; call && i < SUMS; i++)
                CHECK_BITS(sums[i] == (int64_t)(call - SUMS + i) * ranks + ranks * (ranks - 1) / 2);
        }
        values[at] = call + rank;
        pause_at_random(&random);
        if (next(&random) % 4 == 0) {
            CHECK_OK(weft_allreduce(job.comm, &values[at], &sums[at], 1, WEFT_INT64, WEFT_SUM, NULL));
            continue;
        }
        CHECK_OK(
            weft_allreduce(job.comm, &values[at], &sums[at], 1, WEFT_INT64, WEFT_SUM, WEFT_START(&work)));
        pause_at_random(&random);
        CHECK(see_to_it(work, &random, &heard, &expected) == 0);
    }
    CHECK(await_calls(&heard, expected) == 0);
    CHECK_OK(job_close(&job));
    return 0;
}

static void test_random(void **state)
{
    const char *calls = getenv("WEFT_TEST_CALLS"), *seed = getenv("WEFT_TEST_SEED");
    struct random_test test = {.seed = seed                  ? (uint32_t)strtoul(seed, NULL, 10)
                                       : getenv("WEFT_LONG") ? (uint32_t)time(NULL)
                                                             : 1,
                               .calls = calls ? atoi(calls) : CALLS};
    (void)state;
    printf("seed %u, %d calls\n", test.seed, test.calls);
    fflush(stdout);
    for (int ranks = 2; ranks <= 3; ranks++) {
        assert_int_equal(test_ranks_fork(ranks, random_body, &test), 0);
        assert_int_equal(test_ranks_threads(ranks, random_body, &test), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plan), /* first: it has the log */
        cmocka_unit_test(test_look),
        cmocka_unit_test(test_deadline),
        cmocka_unit_test(test_random),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
