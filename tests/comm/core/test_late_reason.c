/* SPDX-License-Identifier: Apache-2.0 */
/* build: with tests/clock/; wrap @tests/clock/wraps */
/* Something of a communicator breaks, and for a moment nobody can say why. Whoever waits for that keeps nobody of the same context from
 * anything, and answers with the reason as soon as it comes. */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "comm/core/comm.h"
#include "tests/clock/clock.h"
#include "tests/support/job.h"
#include "tests/support/ranks.h"

#define COUNT  100000
#define ROUNDS 100
#define SLOWER 10000 /* the moment lasts longer than the test may */
#define WORDS  "rank 1 has something to say"

/* How the broken one is waited for. */
enum way { BY_CALL, BY_WORK, BY_MESSAGE, WAYS };

struct waiter {
    weft_comm *comm;
    enum way way;
    int status;
    char words[WEFT_DETAIL_MAX];
};

static void *wait_for_broken(void *arg)
{
    static float send[COUNT], recv[COUNT];
    struct waiter *waiter = arg;
    weft_work *work = NULL;
    if (waiter->way == BY_CALL)
        waiter->status = weft_allreduce(waiter->comm, send, recv, COUNT, WEFT_FLOAT32, WEFT_SUM, NULL);
    else if (waiter->way == BY_WORK)
        waiter->status =
            weft_allreduce(waiter->comm, send, recv, COUNT, WEFT_FLOAT32, WEFT_SUM, WEFT_START(&work));
    else
        waiter->status = weft_recv(waiter->comm, recv, COUNT, WEFT_FLOAT32, 1, 7, NULL, NULL);
    if (work)
        waiter->status = weft_work_wait(work, -1);
    strcpy(waiter->words, weft_error_detail());
    weft_work_free(work);
    return NULL;
}

/* Whether somebody is in a call. */
static int is_waited_for(weft_comm *comm)
{
    struct weft_exec_op *ops[WEFT_OPS_MAX];
    weft_context_lock(comm->context);
    int found =
        weft_exec_running(comm->exec, ops) > 0 || comm->stall.waiting || weft_p2p_oldest(comm->p2p) != NULL;
    weft_context_unlock(comm->context);
    return found;
}

static int break_one(enum way way, weft_comm *broken, weft_comm *other)
{
    struct waiter waiter = {.comm = broken, .way = way};
    pthread_t thread;
    test_clock_slow(SLOWER);
    weft_context_lock(broken->context);
    weft_exec_stop(broken->exec, weft_fail(WEFT_PEER_FAILED, "reading the memory of rank 1 has failed"));
    weft_context_unlock(broken->context);
    CHECK(pthread_create(&thread, NULL, wait_for_broken, &waiter) == 0);
    while (!is_waited_for(broken))
        sched_yield();
    for (int round = 0; round < ROUNDS; round++) {
        int32_t sum = 1;
        CHECK_OK(weft_allreduce(other, &sum, &sum, 1, WEFT_INT32, WEFT_SUM, NULL));
        CHECK_BITS(sum == 2);
    }
    CHECK(atomic_load(&broken->failure.status) == WEFT_OK);
    CHECK_OK(weft_barrier(other, NULL)); /* which lets rank 1 go on */
    pthread_join(thread, NULL);
    test_clock_hurry(1);
    CHECK(waiter.status == WEFT_MISMATCH);
    CHECK(strcmp(waiter.words, WORDS) == 0);
    return 0;
}

static int body(int rank, int ranks, void *arg)
{
    const enum way *way = arg;
    struct job job;
    weft_comm *broken;
    (void)ranks;
    CHECK_OK(job_open(&job, "shm", NULL));
    CHECK_OK(weft_comm_split(job.comm, 0, rank, &broken, NULL));
    if (rank == 0) {
        CHECK_OK(break_one(*way, broken, job.comm));
    } else {
        for (int round = 0; round < ROUNDS; round++) {
            int32_t sum = 1;
            CHECK_OK(weft_allreduce(job.comm, &sum, &sum, 1, WEFT_INT32, WEFT_SUM, NULL));
        }
        CHECK_OK(weft_barrier(job.comm, NULL));
        weft_bootstrap_revoke_as(broken->bootstrap, WEFT_MISMATCH, WORDS);
    }
    CHECK_OK(weft_barrier(job.comm, NULL));
    CHECK_OK(weft_comm_destroy(broken));
    CHECK_OK(job_close(&job));
    return 0;
}

static void test_others_go_on(void **state)
{
    (void)state;
    for (int at = 0; at < WAYS; at++) {
        enum way way = (enum way)at;
        assert_int_equal(test_ranks_fork(2, body, &way), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_others_go_on)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
