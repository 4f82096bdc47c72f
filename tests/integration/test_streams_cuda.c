/* Calls in the order of streams of the kind "cuda", between real ranks, with the stand-in for the driver (tests/drivers/cuda_fake.h) and
 * weft's kernels compiled as C. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "tests/support/cuda_bench.h"
#include "tests/support/device_calls.h"
#include "tests/support/stream_calls.h"

static int body(int rank, int ranks, void *arg)
{
    (void)rank, (void)ranks;
    const int *ends = arg; /* 0: the calls; else 1 + which end */
    struct device_seat seat;
    device_seat_take(&seat, &cuda_bench);
    if (*ends)
        CHECK(stream_ends_check(seat.kind, &seat.streams, *ends - 1) == 0);
    else
        CHECK(stream_calls_check(seat.kind, &seat.streams, device_calls_together) == 0);
    CHECK(cuda_bench_fake->calls("cuStreamWaitEvent") == 0); /* no queue waits for a stream */
    device_seat_leave(&seat);
    return 0;
}

static void run(int ranks, int in_threads, int ends)
{
    assert_int_equal(device_bench_run(&cuda_bench, ranks, in_threads, body, &ends), 0);
}

static void processes_on_shm(void **state)
{
    (void)state;
    run(2, 0, 0);
}

static void processes_on_tcp(void **state)
{
    (void)state;
    setenv("WEFT_TRANSPORT", "ofi", 1);
    run(2, 0, 0);
    unsetenv("WEFT_TRANSPORT");
}

static void threads_share_devices(void **state)
{
    (void)state;
    run(2, 1, 0);
}

static void one_rank(void **state)
{
    (void)state;
    run(1, 0, 0);
}

static void ends_early(void **state)
{
    (void)state;
    for (int way = 0; way < 3; way++)
        run(2, 0, 1 + way);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(processes_on_shm),
        cmocka_unit_test(processes_on_tcp),
        cmocka_unit_test(threads_share_devices),
        cmocka_unit_test(one_rank),
        cmocka_unit_test(ends_early),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
