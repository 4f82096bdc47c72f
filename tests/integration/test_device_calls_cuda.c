/* SPDX-License-Identifier: Apache-2.0 */
/* build: wrap weft_kernel_image; beside drivers */
/* Collectives on memory of the kind "cuda", between real ranks, with the stand-in for the driver (tests/drivers/cuda_fake.h),
 * whose device memory the host cannot touch either, and weft's kernels compiled as C. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "tests/support/cuda_bench.h"
#include "tests/support/device_calls.h"

struct job {
    collective_place *place;
    enum { ANY, DIRECT, NOT_DIRECT } ways; /* whether devices reach each other's memory */
};

static int body(int rank, int ranks, void *arg)
{
    (void)rank;
    const struct job *job = arg;
    struct device_seat seat;
    weft_comm_stats stats = {.size = sizeof stats};
    device_seat_take(&seat, &cuda_bench);
    CHECK(device_calls_check(seat.kind, job->place, &stats) == 0);
    CHECK(job->ways != DIRECT ||
          stats.bytes_direct > 4 * stats.bytes_staged); /* what is staged are short messages */
    CHECK(job->ways != NOT_DIRECT || stats.bytes_direct == 0);
    CHECK(ranks == 1 || cuda_bench_fake->calls("cuLaunchKernel") > 0);
    device_seat_leave(&seat);
    return 0;
}

static void run(int ranks, int in_threads, struct job job)
{
    cuda_bench_apart = job.ways == NOT_DIRECT;
    assert_int_equal(device_bench_run(&cuda_bench, ranks, in_threads, body, &job), 0);
}

static void processes_on_shm(void **state)
{
    (void)state;
    run(2, 0, (struct job){device_calls_together, DIRECT});
    run(3, 0, (struct job){device_calls_scatter, ANY});
}

static void processes_out_of_reach(void **state)
{
    (void)state;
    run(2, 0, (struct job){device_calls_together, NOT_DIRECT});
}

static void processes_on_tcp(void **state)
{
    (void)state;
    setenv("WEFT_TRANSPORT", "ofi", 1);
    run(2, 0, (struct job){device_calls_together, NOT_DIRECT});
    unsetenv("WEFT_TRANSPORT");
}

static void threads_share_devices(void **state)
{
    (void)state;
    run(4, 1, (struct job){device_calls_scatter, ANY});
}

static void one_rank(void **state)
{
    (void)state;
    run(1, 0, (struct job){device_calls_together, ANY});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(processes_on_shm), cmocka_unit_test(processes_out_of_reach),
        cmocka_unit_test(processes_on_tcp), cmocka_unit_test(threads_share_devices),
        cmocka_unit_test(one_rank),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
