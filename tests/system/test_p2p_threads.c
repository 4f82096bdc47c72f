/* SPDX-License-Identifier: Apache-2.0 */
/* build: with tests/clock/; wrap @tests/clock/wraps */
/* Point-to-point messages from several threads of each rank on one communicator, while another thread makes collectives
 * on it. Also what the thread sanitizer is run on. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/clock/clock.h"
#include "tests/support/job.h"
#include "tests/support/ranks.h"

#define THREADS 3
#define ROUNDS  60
#define COUNT   30000

struct party {
    weft_comm *comm;
    int number; /* of the thread */
    int failed;
};

static const size_t counts[] = {1, COUNT, 0, 200, 5000};

/* Exchanges with the thread of the same number of the next and the previous rank, in every form of call. */
static int exchange(const struct party *party)
{
    weft_comm *comm = party->comm;
    int rank = weft_comm_rank(comm), ranks = weft_comm_size(comm);
    int right = (rank + 1) % ranks, left = (rank + ranks - 1) % ranks;
    int32_t *out = malloc(COUNT * 4), *in = malloc(COUNT * 4);
    CHECK(out && in);
    for (int round = 0; round < ROUNDS; round++) {
        size_t count = counts[round % 5], room = round % 7 == 6 && count > 1 ? count - 1 : count;
        int64_t tag = party->number * 1000 + round;
        weft_message info = WEFT_MESSAGE_INIT;
        weft_work *send, *recv;
        int status;
        for (size_t i = 0; i < count; i++)
            out[i] = rank * 100000 + party->number * 1000 + round + (int32_t)i;
        switch (round % 3) {
        case 0:
            status =
                weft_sendrecv(comm, out, count, right, tag, in, room, left, tag, WEFT_INT32, &info, NULL);
            break;
        case 1:
            CHECK_OK(weft_recv(comm, in, room, WEFT_INT32, WEFT_ANY_SOURCE, tag, &info, WEFT_START(&recv)));
            CHECK_OK(weft_send(comm, out, count, WEFT_INT32, right, tag, WEFT_START(&send)));
            status = weft_work_wait(recv, -1);
            CHECK_OK(weft_work_wait(send, -1));
            CHECK_OK(weft_work_free(send));
            CHECK(weft_work_free(recv) == status);
            break;
        default:
            CHECK_OK(weft_group_start());
            CHECK_OK(weft_send(comm, out, count, WEFT_INT32, right, tag, NULL));
            CHECK_OK(weft_recv(comm, in, room, WEFT_INT32, left, tag, &info, NULL));
            status = weft_group_end();
        }
        CHECK(status == (room < count ? WEFT_MISMATCH : WEFT_OK));
        if (status != WEFT_OK)
            continue;
        CHECK(info.source == left && info.tag == tag && info.bytes == count * 4);
        for (size_t i = 0; i < count; i++)
            CHECK_BITS(in[i] == left * 100000 + party->number * 1000 + round + (int32_t)i);
    }
    free(out);
    free(in);
    return 0;
}

static void *run(void *arg)
{
    struct party *party = arg;
    party->failed = exchange(party);
    return NULL;
}

static int threads_body(int rank, int ranks, void *arg)
{
    const char *transports = arg;
    struct job job;
    pthread_t threads[THREADS];
    struct party parties[THREADS];
    int failed = 0;
    CHECK_OK(job_open(&job, transports, NULL));
    for (int t = 0; t < THREADS; t++) {
        parties[t] = (struct party){.comm = job.comm, .number = t};
        CHECK(pthread_create(&threads[t], NULL, run, &parties[t]) == 0);
    }
    float *send = malloc(COUNT * 4), *recv = malloc(COUNT * 4);
    char text[500];
    CHECK(send && recv);
    for (int round = 0; round < ROUNDS; round++) {
        size_t count = round % 4 == 3 ? COUNT : 10;
        job_fill(send, WEFT_FLOAT32, rank, count);
        CHECK_OK(weft_allreduce(job.comm, send, recv, count, WEFT_FLOAT32, WEFT_SUM, NULL));
        CHECK_BITS(job_wrong(recv, WEFT_FLOAT32, WEFT_SUM, ranks, count) == 0);
        CHECK_OK(weft_comm_dump(job.comm, text, sizeof text, NULL));
    }
    for (int t = 0; t < THREADS; t++) {
        pthread_join(threads[t], NULL);
        failed |= parties[t].failed;
    }
    free(send);
    free(recv);
    CHECK_OK(job_close(&job));
    return failed;
}

static void test_shm(void **state)
{
    (void)state;
    assert_int_equal(test_ranks_fork(2, threads_body, (void *)(uintptr_t) "shm"), 0);
    assert_int_equal(test_ranks_threads(2, threads_body, (void *)(uintptr_t) "shm"), 0);
}

static void test_tcp(void **state)
{
    (void)state;
    assert_int_equal(test_ranks_fork(2, threads_body, (void *)(uintptr_t) "tcp"), 0);
}

/* --- nobody is forgotten who sleeps. A waiting thread looks again after 100 ms at the latest, which would hide that; here it
 * does not. */

#define STALLS   20
#define BURST    40 /* more than a ring holds */
#define LENGTH   1000
#define TRIPS    20
#define LARGE    500000
#define SLEEP_MS 50 /* sleeps as long as this do not end by themselves */

static void *wait_for_answer(void *arg)
{
    struct party *party = arg;
    int32_t x;
    party->failed = weft_recv(party->comm, &x, 1, WEFT_INT32, 1, 6, NULL, NULL);
    return NULL;
}

/* Sends more than the ring takes while another thread sleeps, which fell asleep before that. */
static int stall(weft_comm *comm, int starts)
{
    static int32_t memory[LENGTH];
    weft_work *works[BURST];
    struct party party = {.comm = comm};
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, wait_for_answer, &party) == 0);
    usleep(3000);
    for (int i = 0; i < BURST; i++) {
        if (starts)
            CHECK_OK(weft_send(comm, memory, LENGTH, WEFT_INT32, 1, 5, WEFT_START(&works[i])));
        else
            CHECK_OK(weft_send(comm, memory, LENGTH, WEFT_INT32, 1, 5, NULL));
    }
    pthread_join(thread, NULL); /* this thread makes no call meanwhile */
    CHECK_OK(party.failed);
    for (int i = 0; starts && i < BURST; i++)
        CHECK_OK(weft_work_free(works[i]));
    return 0;
}

static int stalls_body(int rank, int ranks, void *arg)
{
    (void)ranks, (void)arg;
    static int32_t memory[LENGTH];
    struct job job;
    CHECK_OK(job_open(&job, "shm", NULL));
    test_clock_no_rescue(SLEEP_MS);
    for (int n = 0; n < STALLS; n++) {
        if (rank == 0) {
            CHECK_OK(stall(job.comm, n % 2));
            continue;
        }
        usleep(6000); /* comes late: the ring is full */
        for (int i = 0; i < BURST; i++)
            CHECK_OK(weft_recv(job.comm, memory, LENGTH, WEFT_INT32, 0, 5, NULL, NULL));
        CHECK_OK(weft_send(job.comm, memory, 1, WEFT_INT32, 0, 6, NULL));
    }
    test_clock_no_rescue(0);
    CHECK_OK(job_close(&job));
    return 0;
}

static void test_stalls(void **state)
{
    (void)state;
    assert_int_equal(test_ranks_fork(2, stalls_body, NULL), 0);
}

/* The other end of self_body(): looks first, takes late what the other thread waits in, answers late. */
static void *echo(void *arg)
{
    struct party *party = arg;
    int rank = weft_comm_rank(party->comm);
    int32_t *memory = malloc(LARGE * 4);
    for (int n = 0; n < TRIPS && memory && !party->failed; n++) {
        size_t count = n % 2 ? 1 : LARGE;
        int status = n % 3 ? WEFT_OK : weft_probe(party->comm, rank, 1, -1, NULL);
        if (n % 2 == 0)
            usleep(3000); /* the send cannot end before the receive comes */
        if (status == WEFT_OK)
            status = weft_recv(party->comm, memory, count, WEFT_INT32, rank, 1, NULL, NULL);
        usleep(3000);
        if (status == WEFT_OK)
            status = weft_send(party->comm, memory, 1, WEFT_INT32, rank, 2, NULL);
        party->failed = status;
    }
    party->failed |= !memory;
    free(memory);
    return NULL;
}

/* Two threads of a rank message each other: no peer has a part in it that would wake them. */
static int self_body(int rank, int ranks, void *arg)
{
    (void)ranks, (void)arg;
    struct job job;
    pthread_t thread;
    int32_t *memory = calloc(LARGE, 4), answer;
    CHECK_OK(job_open(&job, "shm", NULL));
    CHECK(memory);
    struct party party = {.comm = job.comm};
    CHECK(pthread_create(&thread, NULL, echo, &party) == 0);
    test_clock_no_rescue(SLEEP_MS);
    for (int n = 0; n < TRIPS; n++) {
        usleep(3000);
        memory[0] = n;
        CHECK_OK(weft_send(job.comm, memory, n % 2 ? 1 : LARGE, WEFT_INT32, rank, 1, NULL));
        CHECK_OK(weft_recv(job.comm, &answer, 1, WEFT_INT32, rank, 2, NULL, NULL));
        CHECK_BITS(answer == n);
    }
    test_clock_no_rescue(0);
    pthread_join(thread, NULL);
    CHECK_OK(party.failed);
    free(memory);
    CHECK_OK(job_close(&job));
    return 0;
}

static void test_self(void **state)
{
    (void)state;
    assert_int_equal(test_ranks_fork(1, self_body, NULL), 0);
    assert_int_equal(test_ranks_fork(2, self_body, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shm),
        cmocka_unit_test(test_tcp),
        cmocka_unit_test(test_stalls),
        cmocka_unit_test(test_self),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
