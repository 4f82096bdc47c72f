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

#include <cmocka.h>

#include "tests/support/job.h"
#include "tests/support/ranks.h"

#define COUNT 4000
#define RANKS 4

struct scene {
    const char *transport;
    unsigned started; /* ranks that start the call, as bits */
};

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shm),
        cmocka_unit_test(test_tcp),
    };
    setenv("WEFT_LOG", "none", 0);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
