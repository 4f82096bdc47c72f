/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/device_jobs.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

#include "tests/support/sim_seat.h"
#include "tests/support/stream_calls.h"

#define JOBS_MAX 32

int device_job_calls(int rank, int ranks, void *arg)
{
    (void)rank, (void)ranks;
    const struct device_job *job = arg;
    struct device_seat seat;
    weft_comm_stats stats = WEFT_COMM_STATS_INIT;
    device_seat_take(&seat, job->bench);
    CHECK(device_calls_check(seat.kind, job->place, &stats) == 0);
    /* What is staged are short messages. */
    CHECK(job->ways != DEVICE_DIRECT || stats.bytes_direct > 4 * stats.bytes_staged);
    CHECK(job->ways != DEVICE_PARTLY_DIRECT || (stats.bytes_direct > 0 && stats.bytes_staged > 0));
    CHECK(job->ways != DEVICE_NOT_DIRECT || stats.bytes_direct == 0);
    device_seat_leave(&seat);
    return 0;
}

int device_job_streams(int rank, int ranks, void *arg)
{
    (void)rank, (void)ranks;
    const struct device_job *job = arg;
    struct device_seat seat;
    device_seat_take(&seat, job->bench);
    if (job->ends)
        CHECK(stream_ends_check(seat.kind, &seat.streams, job->ends - 1) == 0);
    else
        CHECK(stream_calls_check(seat.kind, &seat.streams, job->place) == 0);
    device_seat_leave(&seat);
    return 0;
}

int device_job_run(const struct device_job *job)
{
    if (job->sim)
        sim_seats_prepare(job->sim);
    if (job->on_tcp || job->transport)
        setenv("WEFT_TRANSPORT", job->transport ? job->transport : "ofi", 1);
    int failed = device_bench_run(job->bench, job->ranks, job->in_threads, job->body, (void *)(uintptr_t)job);
    unsetenv("WEFT_TRANSPORT");
    return failed + (job->sim && sim_seats_end() != 0);
}

static void test_job(void **state)
{
    assert_int_equal(device_job_run(*state), 0);
}

int device_jobs_run(const struct device_job *jobs, size_t count)
{
    struct CMUnitTest tests[JOBS_MAX];
    if (count > JOBS_MAX)
        abort();
    for (size_t j = 0; j < count; j++)
        tests[j] = (struct CMUnitTest){
            .name = jobs[j].name, .test_func = test_job, .initial_state = (void *)(uintptr_t)&jobs[j]};
    return _cmocka_run_group_tests("jobs", tests, count, NULL, NULL);
}
