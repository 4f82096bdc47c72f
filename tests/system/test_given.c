/* SPDX-License-Identifier: Apache-2.0 */
/* build: beside device-sim */
/* Small broadcasts and scatters, whose root goes on before the others have come. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/support/device_seat.h"
#include "tests/support/effort.h"
#include "tests/support/job.h"
#include "tests/support/ranks.h"
#include "tests/support/sim_seat.h"

#define AHEAD     14 /* operations that a root may be ahead: comm/exec/fastpath_slots.h */
#define BYTES_MAX 4096
#define RANKS_MAX 5
#define CALLS     400
#define IN_FLIGHT 4

static struct shared {
    atomic_int given; /* calls that the root has ended */
} * shared;

/* What byte i of call `call` is when `rank` gives it. */
static uint8_t value(int call, int rank, size_t i)
{
    return (uint8_t)(call * 31 + rank * 7 + (int)i);
}

static void fill(uint8_t *memory, int call, int rank, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        memory[i] = value(call, rank, i);
}

/* --- ahead */

static int give(const struct job *job, uint8_t *memory, uint8_t *got, int call)
{
    size_t bytes = call % 3 == 0 ? 8 : call % 3 == 1 ? 49 : 1024;
    fill(memory, call, 0, 2 * bytes);
    if (call % 2)
        return weft_scatter(job->comm, memory, got, bytes, WEFT_UINT8, 0, NULL);
    return weft_broadcast(job->comm, memory, got, bytes, WEFT_UINT8, 0, NULL);
}

static int take(const struct job *job, uint8_t *got, int call)
{
    size_t bytes = call % 3 == 0 ? 8 : call % 3 == 1 ? 49 : 1024, from = call % 2 ? bytes : 0;
    memset(got, 0, bytes);
    CHECK_OK(call % 2 ? weft_scatter(job->comm, NULL, got, bytes, WEFT_UINT8, 0, NULL)
                      : weft_broadcast(job->comm, NULL, got, bytes, WEFT_UINT8, 0, NULL));
    for (size_t i = 0; i < bytes; i++)
        CHECK_BITS(got[i] == value(call, 0, from + i));
    return 0;
}

/* The root ends AHEAD calls while the other is in none. The next one it starts, and that waits. */
static int ahead_body(int rank, int ranks, void *arg)
{
    struct job job;
    uint8_t memory[BYTES_MAX], got[BYTES_MAX];
    weft_work *work = NULL;
    (void)ranks, (void)arg;
    CHECK_OK(job_open_within(&job, "shm", NULL, 60000));
    CHECK_OK(weft_barrier(job.comm, NULL));
    if (rank == 0) {
        for (int call = 0; call < AHEAD; call++)
            CHECK_OK(give(&job, memory, got, call));
        fill(memory, AHEAD, 0, 8);
        CHECK_OK(weft_broadcast(job.comm, memory, got, 8, WEFT_UINT8, 0, WEFT_START(&work)));
        for (int i = 0; i < 1000; i++)
            CHECK(weft_work_wait(work, 0) == WEFT_AGAIN);
        atomic_store(&shared->given, AHEAD);
        CHECK_OK(weft_work_wait(work, -1));
        weft_work_free(work);
    } else {
        for (int i = 0; i < 60000 && atomic_load(&shared->given) < AHEAD; i++)
            usleep(1000);
        CHECK(atomic_load(&shared->given) == AHEAD);
        for (int call = 0; call < AHEAD; call++)
            CHECK(take(&job, got, call) == 0);
        CHECK_OK(weft_broadcast(job.comm, NULL, got, 8, WEFT_UINT8, 0, NULL));
        CHECK_BITS(got[0] == value(AHEAD, 0, 0) && got[7] == value(AHEAD, 0, 7));
    }
    CHECK_OK(weft_barrier(job.comm, NULL));
    CHECK_OK(job_close(&job));
    return 0;
}

static void test_ahead(void **state)
{
    (void)state;
    atomic_store(&shared->given, 0);
    assert_int_equal(test_ranks_fork(2, ahead_body, NULL), 0);
}

/* --- among other calls */

static uint64_t next(uint64_t *random)
{
    *random = *random * 6364136223846793005u + 1442695040888963407u;
    return *random >> 33;
}

/* A call that all ranks draw alike, but for how long this one rests before it and whether it starts it. */
struct drawn {
    int what, root;
    size_t bytes;
};

static struct drawn draw(uint64_t *random, int ranks)
{
    static const size_t sizes[] = {1, 8, 48, 49, 128, 2048, 2049, BYTES_MAX};
    struct drawn drawn = {.what = (int)(next(random) % 8), .root = (int)(next(random) % (uint64_t)ranks)};
    drawn.bytes = sizes[next(random) % (sizeof sizes / sizeof *sizes)];
    if (next(random) % 4)
        drawn.root = 0; /* who gives again and again is ahead */
    return drawn;
}

struct pending {
    weft_work *work;
    struct drawn drawn;
    int call;
    uint8_t send[RANKS_MAX * BYTES_MAX], recv[RANKS_MAX * BYTES_MAX];
};

static int make(const struct job *job, struct pending *pending, int rank, int ranks, int starts)
{
    const struct drawn *drawn = &pending->drawn;
    size_t bytes = drawn->bytes;
    const weft_call_options *how = WEFT_START(starts ? &pending->work : NULL);
    pending->work = NULL;
    fill(pending->send, pending->call, rank, (size_t)ranks * bytes);
    memset(pending->recv, 0, (size_t)ranks * bytes);
    switch (drawn->what) {
    case 0:
        return weft_allgather(job->comm, pending->send, pending->recv, bytes, WEFT_UINT8, how);
    case 1:
        return weft_barrier(job->comm, how);
    case 2:
        return weft_allreduce(job->comm, pending->send, pending->recv, bytes, WEFT_UINT8, WEFT_MAX, how);
    case 3:
    case 4:
        return weft_scatter(job->comm, pending->send, pending->recv, bytes, WEFT_UINT8, drawn->root, how);
    default:
        return weft_broadcast(job->comm, pending->send, pending->recv, bytes, WEFT_UINT8, drawn->root, how);
    }
}

static int look(const struct pending *pending, int rank, int ranks)
{
    const struct drawn *drawn = &pending->drawn;
    size_t from = drawn->what == 3 || drawn->what == 4 ? (size_t)rank * drawn->bytes : 0;
    for (size_t i = 0; i < drawn->bytes && drawn->what != 1; i++) {
        uint8_t greatest = 0;
        for (int r = 0; r < ranks; r++)
            greatest = value(pending->call, r, i) > greatest ? value(pending->call, r, i) : greatest;
        uint8_t wanted = drawn->what == 2   ? greatest
                         : drawn->what == 0 ? value(pending->call, 0, i)
                                            : value(pending->call, drawn->root, from + i);
        CHECK_BITS(pending->recv[i] == wanted);
    }
    return 0;
}

static int finish(struct pending *pending, int rank, int ranks)
{
    if (!pending->work)
        return 0;
    CHECK_OK(weft_work_wait(pending->work, -1));
    weft_work_free(pending->work);
    pending->work = NULL;
    return look(pending, rank, ranks);
}

static int mixed_body(int rank, int ranks, void *arg)
{
    struct job job;
    uint64_t seed = *(const uint64_t *)arg, random = seed, own = seed * 977 + (uint64_t)rank;
    struct pending *pending = calloc(IN_FLIGHT, sizeof *pending);
    CHECK(pending);
    CHECK_OK(job_open_within(&job, "shm", NULL, 60000));
    for (int call = 0; call < CALLS; call++) {
        struct pending *one = &pending[call % IN_FLIGHT];
        CHECK(finish(one, rank, ranks) == 0);
        one->drawn = draw(&random, ranks);
        one->call = call;
        for (uint64_t rest = next(&own) % 64 == 0 ? next(&own) % 20000 : 0; rest; rest--)
            atomic_signal_fence(memory_order_seq_cst);
        CHECK_OK(make(&job, one, rank, ranks, next(&own) % 8 == 0));
        CHECK(one->work || look(one, rank, ranks) == 0);
    }
    for (int i = 0; i < IN_FLIGHT; i++)
        CHECK(finish(&pending[(CALLS + i) % IN_FLIGHT], rank, ranks) == 0);
    CHECK_OK(job_close(&job));
    free(pending);
    return 0;
}

static void test_mixed(void **state)
{
    (void)state;
    const char *text = getenv("WEFT_SEED");
    uint64_t seed = text ? strtoull(text, NULL, 10) : 1;
    for (uint64_t i = 0; i < test_by_effort(2, 8, 200); i++, seed++) {
        int ranks = 2 + (int)(i % (RANKS_MAX - 1));
        int failed = i % 3 == 2 ? test_ranks_threads(ranks, mixed_body, &seed)
                                : test_ranks_fork(ranks, mixed_body, &seed);
        if (failed)
            fprintf(stderr, "%d ranks, WEFT_SEED=%llu\n", ranks, (unsigned long long)seed);
        assert_int_equal(failed, 0);
    }
}

/* --- two that take themselves for the root */

static int two_roots_body(int rank, int ranks, void *arg)
{
    struct job job;
    uint8_t memory[8] = {0}, got[8];
    (void)ranks, (void)arg;
    CHECK_OK(job_open_within(&job, "shm", NULL, 60000));
    CHECK_OK(weft_broadcast(job.comm, memory, got, 8, WEFT_UINT8, rank, NULL));
    CHECK(weft_comm_destroy(job.comm) == WEFT_MISMATCH);
    CHECK(strstr(weft_error_detail(), rank == 0
                                          ? "rank 1 and rank 0 disagree on the root of call #1: 1 and 0"
                                          : "rank 0 and rank 1 disagree on the root of call #1: 0 and 1"));
    CHECK_OK(weft_context_close(job.context));
    return 0;
}

/* Each is the root of a call behind that, and takes one. */
static int two_roots_in_turn_body(int rank, int ranks, void *arg)
{
    struct job job;
    uint8_t memory[8] = {0}, got[8];
    (void)ranks, (void)arg;
    CHECK_OK(job_open_within(&job, "shm", NULL, 60000));
    CHECK_OK(weft_broadcast(job.comm, memory, got, 8, WEFT_UINT8, rank, NULL));
    int status = weft_broadcast(job.comm, memory, got, 8, WEFT_UINT8, 1, NULL);
    for (int call = 0; call < 2 && status == WEFT_OK; call++)
        status = weft_broadcast(job.comm, memory, got, 8, WEFT_UINT8, call, NULL);
    if (status == WEFT_OK)
        status = weft_barrier(job.comm, NULL);
    CHECK(status == WEFT_MISMATCH && strstr(weft_error_detail(), "#1") &&
          strstr(weft_error_detail(), "root"));
    CHECK_OK(job_close(&job));
    return 0;
}

/* The other takes the call for one that goes by a plan: a longer broadcast, in which it sends nothing, or a gatherv, which it ends before the
 * root has looked. Nobody would know if ranks did not say what they gave: when they wait, and where they part. */
static int elsewhere_body(int rank, int ranks, void *arg)
{
    struct job job;
    uint8_t *memory = calloc(1, 1 << 20), *got = calloc(1, 1 << 20);
    (void)ranks;
    CHECK(memory && got);
    CHECK_OK(job_open_within(&job, "shm", NULL, 60000));
    int status = rank == 0 ? weft_broadcast(job.comm, memory, got, 8, WEFT_UINT8, 0, NULL)
                 : *(const int *)arg
                     ? weft_broadcast(job.comm, memory, got, 1 << 20, WEFT_UINT8, 0, NULL)
                     : weft_gatherv(job.comm, memory, 8, got, NULL, NULL, WEFT_UINT8, 0, NULL);
    if (status == WEFT_OK && *(const int *)arg)
        status = weft_barrier(job.comm, NULL);
    CHECK(status == WEFT_OK || strstr(weft_error_detail(), "#1"));
    int parted = weft_comm_destroy(job.comm);
    CHECK(status == WEFT_MISMATCH || (status == WEFT_OK && parted == WEFT_MISMATCH));
    CHECK_OK(weft_context_close(job.context));
    free(memory);
    free(got);
    return 0;
}

static void test_elsewhere(void **state)
{
    (void)state;
    for (int large = 0; large < 2; large++)
        assert_int_equal(test_ranks_fork(2, elsewhere_body, &large), 0);
}

static void test_two_roots(void **state)
{
    (void)state;
    assert_int_equal(test_ranks_fork(2, two_roots_body, NULL), 0);
    assert_int_equal(test_ranks_fork(2, two_roots_in_turn_body, NULL), 0);
}

/* --- a device takes it */

static int device_body(int rank, int ranks, void *arg)
{
    struct job job;
    struct device_seat seat;
    uint8_t memory[256], got[256];
    weft_work *work = NULL;
    (void)ranks, (void)arg;
    device_seat_take(&seat, &sim_bench);
    CHECK_OK(job_open_within(&job, "shm", NULL, 60000));
    int ordinal = rank == 0 ? -1 : 0;
    void *place = device_seat_get(&seat, ordinal, sizeof memory);
    for (int call = 0; call < 3 * AHEAD; call++) {
        fill(memory, call, 0, sizeof memory);
        if (rank == 0) {
            CHECK_OK(weft_broadcast(job.comm, memory, place, sizeof memory, WEFT_UINT8, 0, NULL));
            continue;
        }
        CHECK_OK(weft_broadcast(job.comm, NULL, place, sizeof memory, WEFT_UINT8, 0, WEFT_START(&work)));
        CHECK_OK(weft_work_wait(work, -1));
        weft_work_free(work);
        device_seat_load(&seat, ordinal, got, place, sizeof got);
        CHECK_BITS(memcmp(got, memory, sizeof got) == 0);
    }
    CHECK_OK(weft_barrier(job.comm, NULL));
    device_seat_put(&seat, ordinal, place);
    CHECK_OK(job_close(&job));
    device_seat_leave(&seat);
    return 0;
}

static void test_device_takes(void **state)
{
    (void)state;
    sim_seats_prepare("sim:seed=1");
    assert_int_equal(device_bench_run(&sim_bench, 2, 0, device_body, NULL), 0);
    assert_int_equal(sim_seats_end(), 0);
}

int main(void)
{
    shared = test_ranks_shared(sizeof *shared);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_device_takes), /* before anything is logged in this process */
        cmocka_unit_test(test_ahead),        cmocka_unit_test(test_mixed),
        cmocka_unit_test(test_two_roots),    cmocka_unit_test(test_elsewhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
