/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of calls on devices between real ranks, as a table of jobs: on which bench, how many ranks, as what, over what. */
#ifndef WEFT_TESTS_DEVICE_JOBS_H
#define WEFT_TESTS_DEVICE_JOBS_H

#include "tests/support/device_calls.h"
#include "tests/support/device_seat.h"

struct device_job {
    const char *name;
    const struct device_bench *bench;
    const char *sim; /* options of the simulated device, "sim:seed=1"; NULL on another bench */
    int ranks, in_threads, on_tcp;
    const char *transport;    /* that ranks have nothing but; NULL: as on_tcp says */
    test_rank_function *body; /* gets the job */
    collective_place *place;
    enum {
        DEVICE_ANY_WAY,
        DEVICE_DIRECT,
        DEVICE_PARTLY_DIRECT, /* the host reduces, on copies */
        DEVICE_NOT_DIRECT
    } ways;   /* whether ranks reach each other's memory */
    int ends; /* of calls in streams: 0, or 1 + which */
};

/* Bodies: device_calls_check(), and stream_calls_check() or stream_ends_check(). */
test_rank_function device_job_calls, device_job_streams;

/* How many processes failed; 1 more where the simulated device has something to complain of. */
int device_job_run(const struct device_job *job);
/* Each job is a test of a group. Number of failed tests. */
int device_jobs_run(const struct device_job *jobs, size_t count);

#endif
