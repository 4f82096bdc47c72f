/* SPDX-License-Identifier: Apache-2.0 */
/* build: wrap weft_kernel_image; beside device-sim drivers */
/* run: early */
/* Stream-ordered calls between real ranks: over shared memory and over tcp, with processes and with threads that share devices; those that
 * end early; one rank; a thread that exits in its group; and more than a kind has stream waits for. On streams of the simulated device,
 * and of the kind "cuda" with the fake driver (tests/fakes/drivers/cuda_fake.h). */
#include <pthread.h>
#include <string.h>

#include "tests/support/cuda_bench.h"
#include "tests/support/device_jobs.h"
#include "tests/support/sim_seat.h"

/* Group and call are left by a thread that exits: the call goes on. */
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
    leaving->status = weft_group_start();
    leaving->status |= weft_allreduce(leaving->comm, leaving->in, leaving->out, 64, WEFT_UINT8, WEFT_SUM,
                                      WEFT_ON(leaving->stream));
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
    CHECK_BITS(found[0] == 14 && found[63] == 14);
    CHECK_OK(weft_context_close(leaving.context));
    CHECK(streams->close(leaving.stream) == 0);
    device_seat_put(&seat, 0, leaving.in);
    device_seat_put(&seat, 0, leaving.out);
    device_seat_leave(&seat);
    return 0;
}

/* One call more than the kind has stream waits for: it fails, with its communicator and what waits there, and nothing hangs or counts as done. */
static int too_many_body(int rank, int ranks, void *arg)
{
    (void)rank, (void)ranks, (void)arg;
    enum { WAITS = 4096, BYTES = 64 };
    static weft_work *works[WAITS + 1];
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
    while (made <= WAITS && status == WEFT_OK) {
        status = weft_allreduce(comm, in, out, BYTES, WEFT_UINT8, WEFT_SUM,
                                WEFT_CALL(.work = &works[made], .stream = stream));
        made += status == WEFT_OK;
    }
    CHECK((made == WAITS && status == WEFT_NOMEM) || status == WEFT_REVOKED); /* the other one was faster */
    CHECK(made <= WAITS && strstr(weft_error_detail(), "4096 stream waits are closed"));
    for (int w = 0; w < made; w++) {
        status = weft_work_wait(works[w], -1);
        CHECK(status == WEFT_NOMEM || status == WEFT_REVOKED);
        weft_work_free(works[w]);
    }
    __atomic_store_n(&flag, 1, __ATOMIC_RELEASE);
    CHECK(seat.streams.sync(stream) == 0);
    weft_comm_destroy(comm); /* which may report the failure */
    CHECK_OK(weft_context_close(context));
    CHECK(seat.streams.close(stream) == 0);
    device_seat_put(&seat, 0, in);
    device_seat_put(&seat, 0, out);
    device_seat_leave(&seat);
    return 0;
}

/* And no queue waits for a stream. */
static int on_cuda(int rank, int ranks, void *arg)
{
    CHECK(device_job_streams(rank, ranks, arg) == 0);
    CHECK(cuda_bench_fake->calls("cuStreamWaitEvent") == 0);
    return 0;
}

#define SIM(options) .bench = &sim_bench, .sim = options, .body = device_job_streams
#define CUDA         .bench = &cuda_bench, .body = on_cuda
#define TOGETHER     .place = device_calls_together

static const struct device_job jobs[] = {
    {"sim: processes", SIM("sim:seed=1"), .ranks = 2, TOGETHER},
    {"sim: processes, mixed", SIM("sim:seed=2,delay=20"), .ranks = 3, .place = device_calls_scatter},
    {"sim: tcp", SIM("sim:seed=3"), .ranks = 2, .on_tcp = 1, TOGETHER},
    {"sim: threads share devices", SIM("sim:seed=4"), .ranks = 4, .in_threads = 1,
     .place = device_calls_scatter},
    {"sim: one rank", SIM("sim:seed=5"), .ranks = 1, TOGETHER},
    {"sim: aborted", SIM("sim:seed=6,delay=500"), .ranks = 2, .ends = 1},
    {"sim: late", SIM("sim:seed=6,delay=500"), .ranks = 2, .ends = 2},
    {"sim: destroyed", SIM("sim:seed=6,delay=500"), .ranks = 2, .ends = 3},
    {"sim: a thread leaves", .bench = &sim_bench, .sim = "sim:seed=7", .ranks = 2, .body = leave_body},
    {"cuda: processes", CUDA, .ranks = 2, TOGETHER},
    {"cuda: threads share devices", CUDA, .ranks = 2, .in_threads = 1, TOGETHER},
    {"cuda: aborted", CUDA, .ranks = 2, .ends = 1},
    {"cuda: late", CUDA, .ranks = 2, .ends = 2},
    {"cuda: destroyed", CUDA, .ranks = 2, .ends = 3},
    {"cuda: too many", .bench = &cuda_bench, .ranks = 2, .body = too_many_body},
};

int main(void)
{
    return device_jobs_run(jobs, sizeof jobs / sizeof *jobs);
}
