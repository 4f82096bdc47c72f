/* SPDX-License-Identifier: Apache-2.0 */
/* build: with tests/clock/; wrap weft_bootstrap_close weft_bootstrap_revoke_as @tests/clock/wraps */
/* The end of a communicator whose rank 0 has just begun to compare calls: nothing decides any more, and nothing is used after it is
 * freed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "algos/plan.h"
#include "base/clock.h"
#include "comm/core/judge.h"
#include "tests/clock/clock.h"
#include "tests/support/job.h"
#include "tests/support/ranks.h"

#define SLOWNESS 1000
#define LATER_MS 50 /* for a thread that wants to decide */

void __real_weft_bootstrap_close(struct weft_bootstrap *bootstrap);
void __wrap_weft_bootstrap_close(struct weft_bootstrap *bootstrap);
void __real_weft_bootstrap_revoke_as(struct weft_bootstrap *bootstrap, int status, const char *text);
void __wrap_weft_bootstrap_revoke_as(struct weft_bootstrap *bootstrap, int status, const char *text);

static atomic_int is_closed, decided_later;

void __wrap_weft_bootstrap_close(struct weft_bootstrap *bootstrap)
{
    __real_weft_bootstrap_close(bootstrap);
    atomic_store(&is_closed, 1);
    test_clock_hurry(SLOWNESS);
    int64_t until_ns = weft_clock_ns() + 2 * WEFT_JUDGE_NS + LATER_MS * INT64_C(1000000) * SLOWNESS;
    while (weft_clock_ns() < until_ns && !atomic_load(&decided_later))
        usleep(1000);
    test_clock_hurry(1);
}

void __wrap_weft_bootstrap_revoke_as(struct weft_bootstrap *bootstrap, int status, const char *text)
{
    if (atomic_load(&is_closed))
        atomic_store(&decided_later, 1);
    else
        __real_weft_bootstrap_revoke_as(bootstrap, status, text);
}

static int body(int rank, int ranks, void *arg)
{
    (void)ranks, (void)arg;
    struct job job;
    CHECK_OK(job_open(&job, "shm", NULL));
    if (rank == 0) { /* two of three have reported: the third is waited for, in vain */
        struct weft_stall_record record = {.magic = WEFT_STALL_MAGIC,
                                           .oldest = 1000,
                                           .call = {.sequence = 1000,
                                                    .root = -1,
                                                    .collective = WEFT_ALLREDUCE,
                                                    .dtype = WEFT_FLOAT32,
                                                    .op = WEFT_SUM}};
        test_clock_slow(SLOWNESS);
        for (int r = 0; r < 2; r++) {
            record.call.count = 5 + (uint64_t)r;
            weft_judge_take(job.comm->judge, r, &record, sizeof record);
        }
    }
    CHECK_OK(weft_comm_destroy(job.comm));
    CHECK_OK(weft_context_close(job.context));
    CHECK(!atomic_load(&decided_later));
    return 0;
}

static void test_judge(void **state)
{
    (void)state;
    assert_int_equal(test_ranks_fork(3, body, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_judge)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
