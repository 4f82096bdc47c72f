/* SPDX-License-Identifier: Apache-2.0 */
/* build: wrap weft_exec_start */
/* A call that this rank cannot start. Where no other rank has heard of it, it has not been: the next one takes its place. Where they
 * have, the communicator ends, for they would wait. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/error.h"
#include "comm/exec/exec.h"
#include "tests/support/job.h"
#include "tests/support/ranks.h"

#define COUNT 100000 /* more than what the cache-line path carries */

int __real_weft_exec_start(struct weft_exec *exec, const struct weft_exec_request *request,
                           struct weft_exec_op **op);
int __wrap_weft_exec_start(struct weft_exec *exec, const struct weft_exec_request *request,
                           struct weft_exec_op **op);

static int fails;

int __wrap_weft_exec_start(struct weft_exec *exec, const struct weft_exec_request *request,
                           struct weft_exec_op **op)
{
    if (fails && fails--)
        return weft_fail(WEFT_NOMEM, "no memory for an operation");
    return __real_weft_exec_start(exec, request, op);
}

static int reduce(struct job *job, int32_t *data)
{
    for (int i = 0; i < COUNT; i++)
        data[i] = i;
    return weft_allreduce(job->comm, data, data, COUNT, WEFT_INT32, WEFT_SUM, NULL);
}

static int body(int rank, int ranks, void *arg)
{
    int others_know = *(int *)arg;
    struct job job;
    int32_t *data = malloc(COUNT * sizeof *data);
    CHECK(data);
    setenv("WEFT_FAST_PATH", others_know ? "1" : "0", 1);
    CHECK_OK(job_open(&job, "shm", NULL));
    CHECK_OK(reduce(&job, data));
    if (rank == 0) {
        fails = 1;
        CHECK(reduce(&job, data) == WEFT_NOMEM);
        CHECK(strstr(weft_error_detail(), "no memory for an operation"));
    }
    if (others_know) {
        CHECK(reduce(&job, data) == WEFT_REVOKED);
        CHECK(strstr(weft_error_detail(), "no memory for an operation"));
    } else {
        CHECK_OK(reduce(&job, data));
        for (int i = 0; i < COUNT; i++)
            CHECK_BITS(data[i] == i * ranks);
    }
    weft_comm_destroy(job.comm);
    CHECK_OK(weft_context_close(job.context));
    free(data);
    return 0;
}

static void test_nobody_knows(void **state)
{
    (void)state;
    assert_int_equal(test_ranks_fork(2, body, &(int){0}), 0);
}

static void test_others_know(void **state)
{
    (void)state;
    assert_int_equal(test_ranks_fork(2, body, &(int){1}), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nobody_knows),
        cmocka_unit_test(test_others_know),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
