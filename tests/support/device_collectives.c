/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/device_collectives.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/device_calls.h"
#include "tests/support/effort.h"

#define COUNT 3000
#define BYTES (COUNT * sizeof(int32_t))
#define LOST  1 /* the rank that is */

struct job {
    const struct device_bench *bench;
    collective_place *place;
    uint64_t low, high; /* how many programs there are */
    int is_abort;
    atomic_int *done; /* ranks */
};

struct place { /* one rank's */
    struct device_seat seat;
    weft_context *context;
    weft_comm *comm;
};

static int place_open(struct place *place, const struct job *job)
{
    weft_comm_options options = WEFT_COMM_OPTIONS_INIT;
    test_ranks_options(&options);
    device_seat_take(&place->seat, job->bench);
    CHECK_OK(weft_context_open(NULL, &place->context));
    CHECK_OK(weft_comm_create(place->context, &options, &place->comm));
    return 0;
}

static int place_close(struct place *place)
{
    CHECK_OK(weft_comm_destroy(place->comm));
    CHECK_OK(weft_context_close(place->context));
    device_seat_leave(&place->seat);
    return 0;
}

static int sweep(int rank, int ranks, void *arg)
{
    (void)rank, (void)ranks;
    const struct job *job = arg;
    weft_comm_stats stats = WEFT_COMM_STATS_INIT;
    struct device_seat seat;
    device_seat_take(&seat, job->bench);
    CHECK(device_calls_check(seat.kind, job->place, &stats) == 0);
    if (stats.device_collectives < job->low || stats.device_collectives > job->high)
        fprintf(stderr, "%llu device collectives\n", (unsigned long long)stats.device_collectives);
    CHECK(stats.device_collectives >= job->low && stats.device_collectives <= job->high);
    device_seat_leave(&seat);
    return 0;
}

/* --- several communicators, and started calls */

static int fill(const struct place *place, int ordinal, int32_t value, void **memory)
{
    int32_t values[COUNT];
    for (int i = 0; i < COUNT; i++)
        values[i] = value + i;
    *memory = device_seat_get(&place->seat, ordinal, BYTES);
    device_seat_store(&place->seat, ordinal, *memory, values, BYTES);
    return 0;
}

static int several(int rank, int ranks, void *arg)
{
    const struct job *job = arg;
    enum { COMMS = 3, CALLS = 4, ROUNDS = 6 };
    struct place place;
    weft_comm *comms[COMMS];
    weft_work *works[COMMS][CALLS];
    void *inputs[COMMS][CALLS], *outputs[COMMS][CALLS];
    uint64_t collectives = 0;
    CHECK(place_open(&place, job) == 0);
    comms[0] = place.comm;
    for (int c = 1; c < COMMS; c++)
        CHECK_OK(weft_comm_split(place.comm, 0, 0, &comms[c], NULL));
    for (int i = 0; i < COMMS * CALLS; i++) {
        CHECK(fill(&place, rank, rank + i, &inputs[i / CALLS][i % CALLS]) == 0);
        CHECK(fill(&place, rank, 0, &outputs[i / CALLS][i % CALLS]) == 0);
    }
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < COMMS * CALLS; i++) {
            int c = (i + rank) % COMMS, k = i / COMMS; /* ranks take communicators in different order */
            CHECK_OK(weft_allreduce(comms[c], inputs[c][k], outputs[c][k], COUNT, WEFT_INT32, WEFT_SUM,
                                    WEFT_START(&works[c][k])));
        }
        for (int i = 0; i < COMMS * CALLS; i++) {
            int32_t found[COUNT];
            int c = i / CALLS, k = i % CALLS;
            CHECK_OK(weft_work_wait(works[c][k], -1));
            CHECK_OK(weft_work_free(works[c][k]));
            device_seat_load(&place.seat, rank, found, outputs[c][k], BYTES);
            for (int e = 0; e < COUNT; e++)
                CHECK_BITS(found[e] == ranks * (ranks - 1) / 2 + ranks * (i + e));
        }
    }
    for (int i = 0; i < COMMS * CALLS; i++) {
        device_seat_put(&place.seat, 0, inputs[i / CALLS][i % CALLS]);
        device_seat_put(&place.seat, 0, outputs[i / CALLS][i % CALLS]);
    }
    for (int c = 0; c < COMMS; c++) {
        weft_comm_stats stats = WEFT_COMM_STATS_INIT;
        CHECK_OK(weft_comm_get_stats(comms[c], &stats));
        collectives += stats.device_collectives;
        if (c)
            CHECK_OK(weft_comm_destroy(comms[c]));
    }
    CHECK(collectives >= job->low && collectives <= job->high);
    return place_close(&place);
}

/* --- a rank without calls */

/* Rank 0 gives from the host's memory what the others take with their devices, and then waits for them without a call, as a program does
 * that computes or waits for others by means of its own. Their votes are answered. */
static int go_idle(int rank, int ranks, void *arg)
{
    enum { CALLS = 20, FEW = 16 };
    const struct job *job = arg;
    int32_t few[FEW] = {4, 7};
    struct place place;
    void *input, *output;
    CHECK(place_open(&place, job) == 0);
    CHECK(fill(&place, rank, rank, &input) == 0 && fill(&place, rank, 0, &output) == 0);
    for (int call = 0; call < CALLS; call++)
        CHECK_OK(weft_allreduce(place.comm, input, output, COUNT, WEFT_INT32, WEFT_SUM, NULL));
    CHECK_OK(
        weft_broadcast(place.comm, rank ? NULL : few, rank ? output : (void *)few, FEW, WEFT_INT32, 0, NULL));
    atomic_fetch_add(job->done, 1);
    while (rank == 0 && atomic_load(job->done) < ranks)
        usleep(1000);
    if (rank)
        device_seat_load(&place.seat, rank, few, output, sizeof few);
    CHECK_BITS(few[0] == 4 && few[1] == 7);
    device_seat_put(&place.seat, 0, input);
    device_seat_put(&place.seat, 0, output);
    return place_close(&place);
}

/* Rank 0 is through with calls that send only before the others have made a mailbox, and makes no call until they are through, too: of
 * their mailboxes, and votes, it hears in between. */
static int go_idle_first(int rank, int ranks, void *arg)
{
    enum { CALLS = 6 };
    const struct job *job = arg;
    int32_t found[COUNT];
    struct place place;
    void *memory;
    int status = WEFT_OK;
    CHECK(place_open(&place, job) == 0);
    CHECK(fill(&place, rank, 10 * rank, &memory) == 0);
    CHECK_OK(weft_barrier(place.comm, NULL)); /* links are there */
    while (rank && !atomic_load(job->done))
        usleep(1000);
    for (int call = 0; call < CALLS && status == WEFT_OK; call++)
        status = weft_broadcast(place.comm, memory, memory, COUNT / 10, WEFT_INT32, 0, NULL);
    atomic_fetch_add(job->done, 1);
    CHECK_OK(status);
    while (rank == 0 && atomic_load(job->done) < ranks)
        usleep(1000);
    device_seat_load(&place.seat, rank, found, memory, BYTES);
    for (int i = 0; i < COUNT; i++)
        CHECK_BITS(found[i] == (i < COUNT / 10 ? 0 : 10 * rank) + i);
    device_seat_put(&place.seat, 0, memory);
    return place_close(&place);
}

/* --- the end of a rank */

/* Rank 1 goes without a word, or gives up, after calls of all; the others hear who it was, and their devices write nothing
 * later. */
static int lose_rank(int rank, int ranks, void *arg)
{
    enum { CALLS = 20 };
    const struct job *job = arg;
    int32_t then[COUNT], later[COUNT];
    struct place place;
    void *input, *output;
    int status = WEFT_OK;
    (void)ranks;
    CHECK(place_open(&place, job) == 0);
    CHECK(fill(&place, rank, rank, &input) == 0 && fill(&place, rank, 0, &output) == 0);
    for (int call = 0; status == WEFT_OK; call++) {
        if (rank == LOST && call == CALLS && !job->is_abort)
            raise(SIGKILL);
        if (rank == LOST && call == CALLS)
            CHECK_OK(weft_comm_abort(place.comm, "rank 1 has had enough"));
        status = weft_allreduce(place.comm, input, output, COUNT, WEFT_INT32, WEFT_SUM, NULL);
    }
    CHECK(rank == LOST || strstr(weft_error_detail(), "rank 1"));
    device_seat_load(&place.seat, rank, then, output, BYTES);
    usleep(50000);
    device_seat_load(&place.seat, rank, later, output, BYTES);
    CHECK_BITS(memcmp(then, later, BYTES) == 0);
    device_seat_put(&place.seat, 0, input);
    device_seat_put(&place.seat, 0, output);
    return place_close(&place);
}

/* Rank 1 gives up in the middle of a program, and is gone at once with all that it had: nobody's device touches that later. */
static int leave_in_the_middle(int rank, int ranks, void *arg)
{
    enum { CALLS = 4 };
    const struct job *job = arg;
    struct place place;
    void *input, *output;
    weft_work *work = NULL;
    int status = WEFT_OK;
    (void)ranks;
    CHECK(place_open(&place, job) == 0);
    CHECK(fill(&place, rank, rank, &input) == 0 && fill(&place, rank, 0, &output) == 0);
    for (int call = 0; status == WEFT_OK; call++) {
        status = weft_allreduce(place.comm, input, output, COUNT, WEFT_INT32, WEFT_SUM, WEFT_START(&work));
        if (rank == LOST && call == CALLS) {
            usleep(10000);
            CHECK_OK(weft_comm_abort(place.comm, "rank 1 has had enough"));
        }
        if (status == WEFT_OK) {
            status = weft_work_wait(work, -1);
            weft_work_free(work);
        }
    }
    CHECK(rank == LOST || strstr(weft_error_detail(), "rank 1 has had enough"));
    device_seat_put(&place.seat, 0, input);
    device_seat_put(&place.seat, 0, output);
    return place_close(&place);
}

/* --- the tests */

static const struct device_collectives *row;

/* Ranks whose bodies failed. */
static int run(const char *setting, int ranks, int in_threads, test_rank_function *body, struct job job)
{
    job.bench = row->bench;
    setenv("WEFT_DEVICE_COLLECTIVE", setting, 1);
    setenv("WEFT_FAST_PATH", "0", 1); /* small calls, too */
    int failed = device_bench_run(row->bench, ranks, in_threads, body, &job);
    unsetenv("WEFT_FAST_PATH");
    unsetenv("WEFT_DEVICE_COLLECTIVE");
    return failed;
}

static void run_sweep(const char *setting, int ranks, collective_place *place, uint64_t low, uint64_t high)
{
    const struct job job = {.place = place, .low = low, .high = high};
    assert_int_equal(run(setting, ranks, 0, sweep, job), 0);
}

/* As processes, and as threads, which have programs only where these get on beside each other. */
static void run_both(test_rank_function *body, struct job job)
{
    assert_int_equal(run("always", row->many, 0, body, job), 0);
    job.low = row->beside ? job.low : 0;
    assert_int_equal(run("always", row->many, 1, body, job), 0);
}

static void always(void **state)
{
    const uint64_t low = test_is_sanitized() ? 15 : 50; /* of a sweep with a fourth of the calls */
    (void)state;
    run_sweep("always", 2, device_calls_together, low, UINT64_MAX);
    run_both(sweep, (struct job){.place = device_calls_together, .low = low, .high = UINT64_MAX});
}

static void always_mixed(void **state)
{
    (void)state;
    run_sweep("always", row->many, device_calls_scatter, 0, UINT64_MAX);
}

static void automatic(void **state)
{
    (void)state;
    run_sweep("auto", 2, device_calls_together, 3, UINT64_MAX);
}

/* Where the setting says so, and where no call is small enough. */
static void never(void **state)
{
    (void)state;
    assert_int_equal(run("never", 2, 0, several, (struct job){0}), 0);
    setenv("WEFT_DEVICE_COLLECTIVE_BYTES", "0", 1);
    assert_int_equal(run("always", 2, 0, several, (struct job){0}), 0);
    unsetenv("WEFT_DEVICE_COLLECTIVE_BYTES");
}

/* Ranks take communicators in different order: programs that do not get on beside each other may find no turn. */
static void several_at_once(void **state)
{
    (void)state;
    run_both(several, (struct job){.low = row->beside != 0, .high = UINT64_MAX});
}

static void run_idle(test_rank_function *body)
{
    atomic_int *done = mmap(NULL, sizeof *done, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(done, MAP_FAILED);
    setenv("WEFT_TIMEOUT_MS", "30000", 1);
    for (int in_threads = 0; in_threads < 2; in_threads++) {
        atomic_store(done, 0);
        assert_int_equal(run("always", row->many, in_threads, body, (struct job){.done = done}), 0);
    }
    unsetenv("WEFT_TIMEOUT_MS");
    munmap(done, sizeof *done);
}

static void votes_for_an_idle_rank(void **state)
{
    (void)state;
    run_idle(go_idle);
}

static void votes_after_the_last_call(void **state)
{
    (void)state;
    run_idle(go_idle_first);
}

static void killed_rank(void **state)
{
    (void)state;
    struct job job = {.bench = row->bench};
    int statuses[TEST_RANKS_MAX];
    setenv("WEFT_DEVICE_COLLECTIVE", "always", 1);
    device_bench_run_status(row->bench, row->many, lose_rank, &job, statuses);
    unsetenv("WEFT_DEVICE_COLLECTIVE");
    for (int rank = 0; rank < row->many; rank++) {
        if (rank != LOST)
            assert_int_equal(statuses[rank], 0);
        else
            assert_true(WIFSIGNALED(statuses[rank]) && WTERMSIG(statuses[rank]) == SIGKILL);
    }
}

static void abort_of_a_rank(void **state)
{
    (void)state;
    run_both(lose_rank, (struct job){.is_abort = 1});
}

static void leaving(void **state)
{
    (void)state;
    run_both(leave_in_the_middle, (struct job){0});
}

int device_collectives_run_slow(const struct device_collectives *collectives)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(leaving)};
    row = collectives;
    return cmocka_run_group_tests_name("slow programs", tests, NULL, NULL);
}

int device_collectives_run(const struct device_collectives *collectives)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(always),
        cmocka_unit_test(always_mixed),
        cmocka_unit_test(automatic),
        cmocka_unit_test(never),
        cmocka_unit_test(several_at_once),
        cmocka_unit_test(killed_rank),
        cmocka_unit_test(abort_of_a_rank),
        cmocka_unit_test(votes_for_an_idle_rank),
        cmocka_unit_test(votes_after_the_last_call),
    };
    row = collectives;
    return cmocka_run_group_tests_name("programs", tests, NULL, NULL);
}
