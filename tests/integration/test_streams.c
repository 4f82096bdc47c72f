/* Calls in the order of streams of the simulated device, between real ranks: over shared memory and over tcp, with processes and with
 * threads that share devices; those that end early; one rank; and a thread that exits in its scope. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <dlfcn.h>
#include <pthread.h>

#include "examples/device-sim/sim.h"
#include "tests/support/device_calls.h"
#include "tests/support/ranks.h"
#include "tests/support/sim_seat.h"
#include "tests/support/stream_calls.h"

struct job {
    int ends; /* 0: the calls; else 1 + which end */
    int shared;
};

static void take(struct sim_seat *seat, struct device_streams *streams)
{
    sim_seat_take(seat);
    const struct sim_api *api = dlsym(seat->kind->plugin.handle, SIM_API_SYMBOL);
    *streams = (struct device_streams){api->stream_open, api->stream_close, api->stream_wait,
                                       api->stream_fill, api->stream_sync,  api->stream_is_idle};
}

static _Thread_local const struct weft_device_kind *sim;

static void place(uint32_t rank, uint32_t seed, struct case_device *device)
{
    device_calls_scatter(rank, seed, device);
    device->kind = device->kind ? sim : NULL;
}

static void place_any(uint32_t rank, uint32_t seed, struct case_device *device)
{
    (void)seed;
    device->kind = sim;
    device->ordinal = (int)rank % 2;
}

static int body(int rank, int ranks, void *arg)
{
    (void)rank;
    const struct job *job = arg;
    struct sim_seat seat;
    struct device_streams streams;
    take(&seat, &streams);
    sim = seat.kind;
    if (job->ends)
        CHECK(stream_ends_check(seat.kind, &streams, job->ends - 1) == 0);
    else
        CHECK(stream_calls_check(seat.kind, &streams, ranks > 2 ? place : place_any) == 0);
    CHECK(job->shared || sim_seat_left(&seat) == 0);
    sim_seat_leave(&seat);
    return 0;
}

static void run(int ranks, const char *options, int ends)
{
    struct job job = {.ends = ends};
    sim_seats_prepare(options);
    int failed = test_ranks_fork(ranks, body, &job);
    sim_seats_end();
    assert_int_equal(failed, 0);
}

static void processes_on_shm(void **state)
{
    (void)state;
    run(2, "sim:seed=1", 0);
    run(3, "sim:seed=2,delay=20", 0);
}

static void processes_on_tcp(void **state)
{
    (void)state;
    setenv("WEFT_TRANSPORTS", "ofi", 1);
    run(2, "sim:seed=3", 0);
    unsetenv("WEFT_TRANSPORTS");
}

static void threads_share_devices(void **state)
{
    (void)state;
    struct job job = {.shared = 1};
    sim_seats_prepare("sim:seed=4");
    int failed = test_ranks_threads(4, body, &job);
    sim_seats_end();
    assert_int_equal(failed, 0);
}

static void one_rank(void **state)
{
    (void)state;
    run(1, "sim:seed=5", 0);
}

static void ends_early(void **state)
{
    (void)state;
    for (int way = 0; way < 3; way++)
        run(2, "sim:seed=6,delay=500", 1 + way);
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
    struct sim_seat seat;
    struct device_streams streams;
    struct leaving leaving = {0};
    weft_comm_options options = WEFT_COMM_OPTIONS_INIT;
    pthread_t thread;
    uint8_t found[64];
    take(&seat, &streams);
    test_ranks_options(&options);
    CHECK_OK(weft_context_open(NULL, &leaving.context));
    CHECK_OK(weft_comm_create(leaving.context, &options, &leaving.comm));
    CHECK(streams.open(0, &leaving.stream) == 0);
    leaving.in = sim_seat_get(&seat, 0, 64);
    leaving.out = sim_seat_get(&seat, 0, 64);
    CHECK(streams.fill(leaving.stream, leaving.in, 7, 64) == 0);
    CHECK(pthread_create(&thread, NULL, leave, &leaving) == 0 && pthread_join(thread, NULL) == 0);
    CHECK(leaving.status == 0);
    CHECK(streams.sync(leaving.stream) == 0);
    CHECK_OK(weft_comm_destroy(leaving.comm));
    sim_seat_load(&seat, 0, found, leaving.out, 64);
    CHECK(found[0] == 14 && found[63] == 14);
    CHECK_OK(weft_context_close(leaving.context));
    CHECK(streams.close(leaving.stream) == 0);
    sim_seat_put(&seat, 0, leaving.in);
    sim_seat_put(&seat, 0, leaving.out);
    CHECK(sim_seat_left(&seat) == 0);
    sim_seat_leave(&seat);
    return 0;
}

static void a_thread_leaves(void **state)
{
    (void)state;
    sim_seats_prepare("sim:seed=7");
    int failed = test_ranks_fork(2, leave_body, NULL);
    sim_seats_end();
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
