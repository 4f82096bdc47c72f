/* SPDX-License-Identifier: Apache-2.0 */
/* build: needs verbs; with tests/fakes/verbs/ */
/* Rails that fail under communicators (WEFT_VERBS_FAILOVER), on an RDMA device in memory: ranks are threads, each with
 * two ports, of which one or the other goes down and comes back all the time, while communicators are made, split, used,
 * aborted and destroyed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/fakes/verbs/rdma_fake.h"
#include "tests/support/job.h"
#include "tests/support/ranks.h"

#define RANKS  3
#define COUNT  30001 /* floats of an allreduce: puts over both rails */
#define BYTES  20001
#define FLAPS  12
#define JOBS   6
#define ABORTS 4

static atomic_int flaps, is_over;

/* One port of everybody, and then the other. */
static void *flap(void *arg)
{
    (void)arg;
    while (!is_over) {
        int number = flaps % 2;
        rdma_fake_port(number, 0, 0);
        usleep(20000);
        rdma_fake_port(number, 1, 0);
        usleep(60000 + 10000u * (unsigned)(flaps % 5));
        flaps++;
    }
    return NULL;
}

static int reduce(weft_comm *comm, float *send, float *recv, size_t count)
{
    job_fill(send, WEFT_FLOAT32, weft_comm_rank(comm), count);
    memset(recv, 0xcc, count * sizeof *recv);
    CHECK_OK(weft_allreduce(comm, send, recv, count, WEFT_FLOAT32, WEFT_SUM, NULL));
    CHECK_BITS(job_wrong(recv, WEFT_FLOAT32, WEFT_SUM, weft_comm_size(comm), count) == 0);
    return 0;
}

static int pass_on(weft_comm *comm, uint8_t *out, uint8_t *in, int turn)
{
    int rank = weft_comm_rank(comm), ranks = weft_comm_size(comm), left = (rank + ranks - 1) % ranks;
    size_t size = turn % 2 ? BYTES : 100;
    for (size_t i = 0; i < size; i++)
        out[i] = (uint8_t)(i * 7 + (size_t)(turn * 3 + rank));
    CHECK_OK(
        weft_sendrecv(comm, out, size, (rank + 1) % ranks, 5, in, size, left, 5, WEFT_UINT8, NULL, NULL));
    for (size_t i = 0; i < size; i++)
        CHECK_BITS(in[i] == (uint8_t)(i * 7 + (size_t)(turn * 3 + left)));
    return 0;
}

static int traffic(weft_comm *comm, float *send, float *recv)
{
    int32_t go_on = 1;
    int until = flaps + FLAPS;
    for (int turn = 0; go_on; turn++) {
        int32_t mine = weft_comm_rank(comm) == 0 && flaps < until;
        CHECK(reduce(comm, send, recv, turn % 2 ? COUNT : 7) == 0);
        CHECK(pass_on(comm, (uint8_t *)send, (uint8_t *)recv, turn) == 0);
        CHECK_OK(weft_allreduce(comm, &mine, &go_on, 1, WEFT_INT32, WEFT_SUM, NULL));
    }
    return 0;
}

static int traffic_body(int rank, int ranks, void *arg)
{
    struct job job;
    float *send = malloc(COUNT * sizeof *send), *recv = malloc(COUNT * sizeof *recv);
    (void)rank, (void)ranks, (void)arg;
    CHECK(send && recv);
    CHECK_OK(job_open(&job, "verbs", NULL));
    int failed = traffic(job.comm, send, recv);
    CHECK_OK(job_close(&job));
    free(send);
    free(recv);
    return failed;
}

/* Links are made and let go all the time. */
static int life_body(int rank, int ranks, void *arg)
{
    struct job job;
    weft_comm *pair;
    float *send = malloc(COUNT * sizeof *send), *recv = malloc(COUNT * sizeof *recv);
    (void)ranks, (void)arg;
    CHECK(send && recv);
    CHECK_OK(job_open(&job, "verbs", NULL));
    for (int i = 0; i < 3; i++) {
        CHECK_OK(weft_comm_split(job.comm, rank == i, rank, &pair, NULL));
        CHECK(reduce(pair, send, recv, COUNT) == 0);
        CHECK(reduce(job.comm, send, recv, 5000) == 0);
        CHECK_OK(weft_comm_destroy(pair));
    }
    CHECK_OK(job_close(&job));
    free(send);
    free(recv);
    return 0;
}

/* One rank aborts while the others are in an operation: that ends, and says why, whatever the links are at. */
static int abort_body(int rank, int ranks, void *arg)
{
    struct job job;
    float *send = malloc(COUNT * sizeof *send), *recv = malloc(COUNT * sizeof *recv);
    (void)ranks;
    CHECK(send && recv);
    CHECK_OK(job_open(&job, "verbs", NULL));
    job_fill(send, WEFT_FLOAT32, rank, COUNT);
    int status;
    do
        status = weft_allreduce(job.comm, send, recv, COUNT, WEFT_FLOAT32, WEFT_SUM, NULL);
    while (status == WEFT_OK && rank != 1);
    if (rank == 1) {
        CHECK_OK(status);
        usleep(10000u * (unsigned)*(int *)arg);
        CHECK_OK(weft_comm_abort(job.comm, "enough"));
    } else {
        CHECK(status == WEFT_REVOKED);
        CHECK(strstr(weft_error_detail(), "enough"));
    }
    CHECK_OK(job_close(&job));
    free(send);
    free(recv);
    return 0;
}

static void run(test_rank_function *body, int times)
{
    pthread_t thread;
    is_over = 0;
    assert_int_equal(pthread_create(&thread, NULL, flap, NULL), 0);
    int failed = 0;
    for (int i = 0; i < times; i++)
        failed += test_ranks_threads(RANKS, body, &i);
    is_over = 1;
    pthread_join(thread, NULL);
    assert_int_equal(failed, 0);
    assert_int_equal(rdma_fake_count(), 0);
}

static void traffic_goes_on(void **state)
{
    (void)state;
    run(traffic_body, 1);
}

static void communicators_come_and_go(void **state)
{
    (void)state;
    run(life_body, JOBS);
}

static void aborts_end_what_is_under_way(void **state)
{
    (void)state;
    run(abort_body, ABORTS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(traffic_goes_on),
        cmocka_unit_test(communicators_come_and_go),
        cmocka_unit_test(aborts_end_what_is_under_way),
    };
    setenv("WEFT_VERBS_DEVICE", "2", 1);
    setenv("WEFT_VERBS_FAILOVER", "1", 1);
    setenv("WEFT_VERBS_STRIPE", "8192", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
