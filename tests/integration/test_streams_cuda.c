/* SPDX-License-Identifier: Apache-2.0 */
/* build: wrap weft_kernel_image; beside drivers */
/* run: early */
/* Calls in the order of streams of the kind "cuda", between real ranks, with the stand-in for the driver (tests/drivers/cuda_fake.h) and
 * weft's kernels compiled as C. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

/* One call more than the kind has gates for: it fails, with its communicator and what waits there, and nothing hangs or counts as done. */
static int too_many_body(int rank, int ranks, void *arg)
{
    (void)rank, (void)ranks, (void)arg;
    enum { GATES = 4096, BYTES = 64 };
    static weft_work *works[GATES + 1];
    weft_comm_options options = WEFT_COMM_OPTIONS_INIT;
    struct device_seat seat;
    weft_context *context;
    weft_comm *comm;
    void *stream;
    int flag = 0, made = 0, status = WEFT_OK;
    device_seat_take(&seat, &cuda_bench);
    void *in = device_seat_get(&seat, 0, BYTES), *out = device_seat_get(&seat, 0, BYTES);
    test_ranks_options(&options);
    CHECK_OK(weft_context_open(NULL, &context));
    CHECK_OK(weft_comm_create(context, &options, &comm));
    CHECK(seat.streams.open(0, &stream) == 0 && seat.streams.wait(stream, &flag) == 0);
    CHECK_OK(weft_stream_begin(context, "cuda", 0, stream));
    while (made <= GATES && status == WEFT_OK) {
        status = weft_allreduce_start(comm, in, out, BYTES, WEFT_UINT8, WEFT_SUM, &works[made]);
        made += status == WEFT_OK;
    }
    CHECK((made == GATES && status == WEFT_NOMEM) || status == WEFT_REVOKED); /* the other one was faster */
    CHECK(made <= GATES && strstr(weft_error_detail(), "4096 gates are closed"));
    CHECK_OK(weft_stream_end(context));
    for (int w = 0; w < made; w++) {
        status = weft_work_wait(works[w], -1);
        CHECK(status == WEFT_NOMEM || status == WEFT_REVOKED);
        weft_work_free(works[w]);
    }
    __atomic_store_n(&flag, 1, __ATOMIC_RELEASE);
    CHECK(seat.streams.sync(stream) == 0);
    weft_comm_destroy(comm); /* which may tell of the failure */
    CHECK_OK(weft_context_close(context));
    CHECK(seat.streams.close(stream) == 0);
    device_seat_put(&seat, 0, in);
    device_seat_put(&seat, 0, out);
    device_seat_leave(&seat);
    return 0;
}

static void too_many(void **state)
{
    (void)state;
    assert_int_equal(device_bench_run(&cuda_bench, 2, 0, too_many_body, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(processes_on_shm),
        cmocka_unit_test(processes_on_tcp),
        cmocka_unit_test(threads_share_devices),
        cmocka_unit_test(one_rank),
        cmocka_unit_test(ends_early),
        cmocka_unit_test(too_many),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
