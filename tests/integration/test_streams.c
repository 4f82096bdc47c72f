/* SPDX-License-Identifier: Apache-2.0 */
/* build: beside device-sim */
/* run: early */
/* Calls in the order of streams of the simulated device, between real ranks: over shared memory and over tcp, with processes and with
 * threads that share devices; those that end early; one rank; and a thread that exits in its scope. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>
#include <pthread.h>

#include "tests/support/device_calls.h"
#include "tests/support/ranks.h"
#include "tests/support/sim_seat.h"
#include "tests/support/stream_calls.h"

static int body(int rank, int ranks, void *arg)
{
    (void)rank;
    const int *ends = arg; /* 0: the calls; else 1 + which end */
    struct device_seat seat;
    device_seat_take(&seat, &sim_bench);
    if (*ends)
        CHECK(stream_ends_check(seat.kind, &seat.streams, *ends - 1) == 0);
    else
        CHECK(stream_calls_check(seat.kind, &seat.streams,
                                 ranks > 2 ? device_calls_scatter : device_calls_together) == 0);
    device_seat_leave(&seat);
    return 0;
}

static void run(int ranks, int in_threads, const char *options, int ends)
{
    sim_seats_prepare(options);
    int failed = device_bench_run(&sim_bench, ranks, in_threads, body, &ends);
    assert_int_equal(sim_seats_end(), 0);
    assert_int_equal(failed, 0);
}

static void processes_on_shm(void **state)
{
    (void)state;
    run(2, 0, "sim:seed=1", 0);
    run(3, 0, "sim:seed=2,delay=20", 0);
}

static void processes_on_tcp(void **state)
{
    (void)state;
    setenv("WEFT_TRANSPORT", "ofi", 1);
    run(2, 0, "sim:seed=3", 0);
    unsetenv("WEFT_TRANSPORT");
}

static void threads_share_devices(void **state)
{
    (void)state;
    run(4, 1, "sim:seed=4", 0);
}

static void one_rank(void **state)
{
    (void)state;
    run(1, 0, "sim:seed=5", 0);
}

static void ends_early(void **state)
{
    (void)state;
    for (int way = 0; way < 3; way++)
        run(2, 0, "sim:seed=6,delay=500", 1 + way);
}

/* Group, scope and call are left by a thread that exits: the call goes on. */
struct leaving {
    weft_context *context;
    weft_comm *comm;
    void *stream;
    uint8_t *in, *out;
    int status;
};

static void *leave(void *arg)
{
    struct leaving *leaving = arg;
    leaving->status = weft_stream_begin(leaving->context, "sim", 0, leaving->stream);
    leaving->status |= weft_group_start();
    leaving->status |= weft_allreduce(leaving->comm, leaving->in, leaving->out, 64, WEFT_UINT8, WEFT_SUM);
    return NULL;
}

static int leave_body(int rank, int ranks, void *arg)
{
    (void)rank, (void)ranks, (void)arg;
    struct device_seat seat;
    struct leaving leaving = {0};
    weft_comm_options options = WEFT_COMM_OPTIONS_INIT;
    pthread_t thread;
    uint8_t found[64];
    device_seat_take(&seat, &sim_bench);
    const struct device_streams *streams = &seat.streams;
    test_ranks_options(&options);
    CHECK_OK(weft_context_open(NULL, &leaving.context));
    CHECK_OK(weft_comm_create(leaving.context, &options, &leaving.comm));
    CHECK(streams->open(0, &leaving.stream) == 0);
    leaving.in = device_seat_get(&seat, 0, 64);
    leaving.out = device_seat_get(&seat, 0, 64);
    CHECK(streams->fill(leaving.stream, leaving.in, 7, 64) == 0);
    CHECK(pthread_create(&thread, NULL, leave, &leaving) == 0 && pthread_join(thread, NULL) == 0);
    CHECK(leaving.status == 0);
    CHECK(streams->sync(leaving.stream) == 0);
    CHECK_OK(weft_comm_destroy(leaving.comm));
    device_seat_load(&seat, 0, found, leaving.out, 64);
    CHECK(found[0] == 14 && found[63] == 14);
    CHECK_OK(weft_context_close(leaving.context));
    CHECK(streams->close(leaving.stream) == 0);
    device_seat_put(&seat, 0, leaving.in);
    device_seat_put(&seat, 0, leaving.out);
    device_seat_leave(&seat);
    return 0;
}

static void a_thread_leaves(void **state)
{
    (void)state;
    sim_seats_prepare("sim:seed=7");
    int failed = device_bench_run(&sim_bench, 2, 0, leave_body, NULL);
    assert_int_equal(sim_seats_end(), 0);
    assert_int_equal(failed, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(processes_on_shm),
        cmocka_unit_test(processes_on_tcp),
        cmocka_unit_test(threads_share_devices),
        cmocka_unit_test(one_rank),
        cmocka_unit_test(ends_early),
        cmocka_unit_test(a_thread_leaves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
