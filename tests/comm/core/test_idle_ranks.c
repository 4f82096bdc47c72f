/* SPDX-License-Identifier: Apache-2.0 */
/* build: beside provider device-sim */
/* A rank whose work has ended makes no call for as long as another one needs what it has sent.
 *
 * Ranks are threads, over a libfabric provider of ours that moves what a rank has sent only while that rank looks at its queue: as one
 * does whose socket is full, or whose connection is still being made. Most messages take a hundred looks, more than a call's end
 * has; the service thread is there for the others.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "comm/core/comm.h"
#include "tests/support/built.h"
#include "tests/support/job.h"
#include "tests/support/sim_seat.h"
#include "tests/support/skip.h"

#define COUNT      64
#define TAG        5
#define TIMEOUT_MS 10000 /* of the rank that waits: fewer looks than a hundred, where nobody drives */

/* How rank 0's broadcast ends, or its message. */
enum way { TESTED, WAITED, FREED, GROUPED, STREAMED, BLOCKING, MESSAGE, MESSAGE_FREED };

struct scene {
    enum way way;
    atomic_int is_over;  /* at rank 0 */
    atomic_int has_come; /* at rank 1, or it has given up */
};

static void await(atomic_int *flag)
{
    while (!atomic_load(flag))
        usleep(1000);
}

/* Nothing is counted that the service thread would look at the network for all the time. */
static void await_rest(const struct job *job)
{
    while (atomic_load(&job->context->progress.background))
        usleep(1000);
}

static int end_work(weft_work *work, enum way way)
{
    while (way == TESTED && weft_work_wait(work, 0) == WEFT_AGAIN)
        ;
    if (way == WAITED)
        CHECK_OK(weft_work_wait(work, -1));
    CHECK_OK(weft_work_free(work));
    return 0;
}

static int give_in_group(weft_comm *comm, int32_t *data)
{
    CHECK_OK(weft_group_start());
    CHECK_OK(weft_broadcast(comm, data, data, COUNT, WEFT_INT32, 0, NULL));
    CHECK_OK(weft_group_end());
    return 0;
}

static int give_in_stream(const struct job *job, int32_t *data)
{
    struct device_seat seat;
    void *stream;
    device_seat_take(&seat, &sim_bench);
    CHECK(seat.streams.open(0, &stream) == 0);
    CHECK_OK(weft_broadcast(job->comm, data, data, COUNT, WEFT_INT32, 0,
                            WEFT_CALL(.stream = stream, .stream_kind = "sim")));
    CHECK(seat.streams.sync(stream) == 0);
    CHECK(seat.streams.close(stream) == 0);
    device_seat_leave(&seat);
    return 0;
}

/* *kept: what the rank is to free in the end. */
static int give(const struct job *job, int32_t *data, enum way way, weft_work **kept)
{
    weft_work *work;
    if (way == GROUPED)
        return give_in_group(job->comm, data);
    if (way == STREAMED)
        return give_in_stream(job, data);
    if (way != MESSAGE && way != MESSAGE_FREED) {
        CHECK_OK(weft_broadcast(job->comm, data, data, COUNT, WEFT_INT32, 0,
                                WEFT_START(way == BLOCKING ? NULL : &work)));
        return way == BLOCKING ? 0 : end_work(work, way);
    }
    CHECK_OK(weft_send(job->comm, data, COUNT, WEFT_INT32, 1, TAG, WEFT_START(kept)));
    if (way == MESSAGE_FREED) {
        CHECK_OK(weft_work_free(*kept));
        *kept = NULL;
    }
    return 0;
}

/* A status. */
static int take(weft_comm *comm, int32_t *data, enum way way)
{
    weft_work *work = NULL;
    if (way >= MESSAGE)
        return weft_recv(comm, data, COUNT, WEFT_INT32, 0, TAG, NULL, NULL);
    if (way == BLOCKING)
        return weft_broadcast(comm, data, data, COUNT, WEFT_INT32, 0, NULL);
    int status = weft_broadcast(comm, data, data, COUNT, WEFT_INT32, 0, WEFT_START(&work));
    if (status == WEFT_OK)
        status = weft_work_wait(work, -1);
    weft_work_free(work);
    return status;
}

static int body(int rank, int ranks, void *arg)
{
    struct scene *scene = arg;
    struct job job;
    int32_t data[COUNT];
    (void)ranks;
    for (int i = 0; i < COUNT; i++)
        data[i] = rank ? 0 : i;
    CHECK_OK(job_open(&job, "ofi", "wefttest"));
    CHECK_OK(weft_comm_set_timeout(job.comm, TIMEOUT_MS));
    /* Without a barrier the first message has to wait for the link, and is sent by the service thread. */
    if (scene->way < MESSAGE)
        CHECK_OK(weft_barrier(job.comm, NULL));
    await_rest(&job);
    weft_work *kept = NULL;
    int status = WEFT_OK;
    if (rank == 0) {
        CHECK(give(&job, data, scene->way, &kept) == 0);
        atomic_store(&scene->is_over, 1);
        await(&scene->has_come);
    } else {
        if (scene->way < MESSAGE)
            await(&scene->is_over);
        status = take(job.comm, data, scene->way);
        atomic_store(&scene->has_come, 1);
    }
    CHECK_OK(status);
    for (int i = 0; i < COUNT; i++)
        CHECK_BITS(data[i] == i);
    CHECK_OK(weft_work_free(kept));
    CHECK_OK(job_close(&job));
    return 0;
}

static void run(enum way way, const char *provider)
{
    struct scene scene = {.way = way};
    if (!test_provider_use(provider))
        TEST_SKIP("the test provider was not built, as libfabric's headers were missing");
    sim_seats_prepare("sim:seed=1");
    int failed = device_bench_run(&sim_bench, 2, 1, body, &scene);
    assert_int_equal(sim_seats_end(), 0);
    assert_int_equal(failed, 0);
}

/* The provider reports when each message has left; it leaves late. */
static void run_reported(enum way way)
{
    run(way, "manual,delay=100,inject=0");
}

static void tested(void **state)
{
    (void)state;
    run_reported(TESTED);
}

static void waited(void **state)
{
    (void)state;
    run_reported(WAITED);
}

static void freed(void **state)
{
    (void)state;
    run_reported(FREED);
}

static void grouped(void **state)
{
    (void)state;
    run_reported(GROUPED);
}

static void streamed(void **state)
{
    (void)state;
    run_reported(STREAMED);
}

static void message(void **state)
{
    (void)state;
    run_reported(MESSAGE);
}

static void message_freed(void **state)
{
    (void)state;
    run_reported(MESSAGE_FREED);
}

/* The provider copies the message, reports nothing of it any more, and has not got rid of it when the call ends. */
static void unreported(void **state)
{
    (void)state;
    run(BLOCKING, "manual,delay=1,inject=4096");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tested),        cmocka_unit_test(waited),     cmocka_unit_test(freed),
        cmocka_unit_test(grouped),       cmocka_unit_test(streamed),   cmocka_unit_test(message),
        cmocka_unit_test(message_freed), cmocka_unit_test(unreported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
