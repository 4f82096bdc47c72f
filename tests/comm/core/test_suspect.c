/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that call different things, where each gets all that it waits for: no rank is left waiting, and so nothing but the messages shows
 * it. Who has seen such a message ends no collective well any more, so no rank gets past the second barrier behind that call.
 *
 * A broadcast by scatter and allgather is such a call: rank 0 is its own root, and the others have another one.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "comm/core/comm.h"
#include "comm/core/work.h"
#include "tests/support/job.h"
#include "tests/support/ranks.h"

#define COUNT 4000
#define RANKS 4

struct scene {
    const char *transport;
    unsigned started; /* ranks that start the call, as bits */
};

/* Until the rank has all that its call waits for, and has seen a message of another one. */
static void await_doubt(weft_comm *comm, const weft_work *work)
{
    for (int there = 0; !there; usleep(1000)) {
        weft_context_lock(comm->context);
        there = weft_stall_has_suspicion(comm) && weft_exec_op_status(work->only.op) != WEFT_AGAIN;
        weft_context_unlock(comm->context);
    }
}

/* Rank 2's handle says that the call runs until it is known who is wrong; one that is freed before leaves nothing behind. */
static int handle_body(int rank, int ranks, void *arg)
{
    const int *frees = arg;
    struct job job;
    weft_work *work;
    float *data = calloc(COUNT, sizeof *data);
    CHECK(data && ranks == RANKS);
    CHECK_OK(job_open(&job, "tcp", NULL));
    CHECK_OK(weft_barrier(job.comm, NULL));
    CHECK_OK(weft_broadcast(job.comm, data, data, COUNT, WEFT_FLOAT32, rank == 0 ? 0 : 1, WEFT_START(&work)));
    int is_freed = rank == 2 && *frees, status = WEFT_AGAIN;
    if (rank == 2) {
        await_doubt(job.comm, work);
        status = weft_work_wait(work, 0);
        CHECK(status == WEFT_AGAIN || status == WEFT_MISMATCH);
        if (status == WEFT_AGAIN && weft_work_wait(work, 1) == WEFT_MISMATCH)
            status = WEFT_MISMATCH;
    }
    if (status == WEFT_AGAIN && !is_freed)
        status = weft_work_wait(work, -1);
    CHECK(is_freed || status == WEFT_MISMATCH || (rank != 2 && status == WEFT_OK));
    weft_work_free(work);
    weft_comm_destroy(job.comm); /* says it where nothing has said it yet */
    CHECK_OK(weft_context_close(job.context));
    free(data);
    return 0;
}

static int differ_body(int rank, int ranks, void *arg)
{
    const struct scene *scene = arg;
    struct job job;
    weft_work *work = NULL;
    char text[600] = "";
    float *data = calloc(COUNT, sizeof *data);
    CHECK(data && ranks == RANKS);
    CHECK_OK(job_open(&job, scene->transport, NULL));
    CHECK_OK(weft_barrier(job.comm, NULL));
    int starts = scene->started >> rank & 1;
    int status = weft_broadcast(job.comm, data, data, COUNT, WEFT_FLOAT32, rank == 0 ? 0 : 1,
                                WEFT_START(starts ? &work : NULL));
    if (status == WEFT_OK && starts)
        status = weft_work_wait(work, -1);
    for (int i = 0; i < 2 && status == WEFT_OK; i++)
        status = weft_barrier(job.comm, NULL);
    snprintf(text, sizeof text, "%s", weft_error_detail());
    weft_work_free(work);
    CHECK(status == WEFT_MISMATCH);
    CHECK(strstr(text, "broadcast #2: rank 0 on host '") && strstr(text, "passes root 0, rank"));
    CHECK_OK(weft_comm_destroy(job.comm));
    CHECK_OK(weft_context_close(job.context));
    free(data);
    return 0;
}

static void differ_over(const char *transport)
{
    static const unsigned started[] = {0, 15, 5};
    setenv("WEFT_ALGO", "sag", 1);
    for (size_t i = 0; i < sizeof started / sizeof *started; i++) {
        struct scene scene = {transport, started[i]};
        assert_int_equal(test_ranks_fork(RANKS, differ_body, &scene), 0);
    }
    unsetenv("WEFT_ALGO");
}

static void test_shm(void **state)
{
    (void)state;
    differ_over("shm");
}

static void test_tcp(void **state)
{
    (void)state;
    differ_over("tcp");
}

static void test_handle(void **state)
{
    (void)state;
    setenv("WEFT_ALGO", "sag", 1);
    for (int frees = 0; frees < 2; frees++)
        assert_int_equal(test_ranks_fork(RANKS, handle_body, &frees), 0);
    unsetenv("WEFT_ALGO");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shm),
        cmocka_unit_test(test_tcp),
        cmocka_unit_test(test_handle),
    };
    setenv("WEFT_LOG", "none", 0);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
