/* Collectives on the simulated device as programs of it, between real ranks: by what the setting says, in processes and threads,
 * with several communicators at once, and when a rank is killed or gives up while the others' devices wait. */
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
#include "tests/support/plugins.h"
#include "tests/support/ranks.h"

#define COUNT 3000
#define BYTES (COUNT * sizeof(int32_t))

static struct test_plugin plugin;

struct job {
    collective_place *place;
    uint64_t low, high; /* how many programs there are */
    int is_abort;
};

struct place { /* one rank's */
    struct weft_devices *devices;
    const struct weft_device_kind *sim;
    weft_context *context;
    weft_comm *comm;
};

static int place_open(struct place *place)
{
    weft_comm_options options = WEFT_COMM_OPTIONS_INIT;
    test_ranks_options(&options);
    CHECK_OK(weft_devices_create("", plugin.path, "sim:seed=1", &place->devices));
    place->sim = weft_devices_find(place->devices, "sim");
    CHECK(place->sim);
    CHECK_OK(weft_context_open(NULL, &place->context));
    CHECK_OK(weft_comm_create(place->context, &options, &place->comm));
    return 0;
}

static int place_close(struct place *place)
{
    CHECK_OK(weft_comm_destroy(place->comm));
    CHECK_OK(weft_context_close(place->context));
    weft_devices_destroy(place->devices);
    return 0;
}

static int sweep(int rank, int ranks, void *arg)
{
    (void)rank, (void)ranks;
    const struct job *job = arg;
    weft_comm_stats stats = WEFT_COMM_STATS_INIT;
    struct weft_devices *devices;
    CHECK_OK(weft_devices_create("", plugin.path, "sim:seed=1", &devices));
    CHECK(device_calls_check(weft_devices_find(devices, "sim"), job->place, &stats) == 0);
    if (stats.programs < job->low || stats.programs > job->high)
        fprintf(stderr, "%llu programs\n", (unsigned long long)stats.programs);
    CHECK(stats.programs >= job->low && stats.programs <= job->high);
    weft_devices_destroy(devices);
    return 0;
}

static void run_by(const char *setting, struct job job, int ranks, int in_threads)
{
    setenv("WEFT_DEVICE_PROGRAM", setting, 1);
    setenv("WEFT_FAST_PATH", "0", 1); /* small calls, too */
    assert_int_equal(
        in_threads ? test_ranks_threads(ranks, sweep, &job) : test_ranks_fork(ranks, sweep, &job), 0);
    unsetenv("WEFT_FAST_PATH");
    unsetenv("WEFT_DEVICE_PROGRAM");
}

static void always(void **state)
{
    (void)state;
    run_by("always", (struct job){.place = device_calls_together, .low = 50, .high = UINT64_MAX}, 2, 0);
    run_by("always", (struct job){.place = device_calls_together, .low = 50, .high = UINT64_MAX}, 3, 1);
}

static void always_mixed(void **state)
{
    (void)state;
    run_by("always", (struct job){.place = device_calls_scatter, .high = UINT64_MAX}, 3, 0);
}

static void automatic(void **state)
{
    (void)state;
    run_by("auto", (struct job){.place = device_calls_together, .low = 3, .high = UINT64_MAX}, 2, 0);
}

static void never(void **state)
{
    (void)state;
    run_by("never", (struct job){.place = device_calls_together}, 2, 0);
    setenv("WEFT_DEVICE_PROGRAM_BYTES", "0", 1);
    run_by("always", (struct job){.place = device_calls_together}, 2, 0);
    unsetenv("WEFT_DEVICE_PROGRAM_BYTES");
}

/* --- several communicators, and started calls */

static int fill(const struct place *place, int ordinal, int32_t value, void **memory)
{
    int32_t values[COUNT];
    for (int i = 0; i < COUNT; i++)
        values[i] = value + i;
    CHECK_OK(place->sim->ops.allocate(place->sim->device, ordinal, WEFT_MEMORY_DEVICE, BYTES, memory));
    case_device_move(place->sim, ordinal, *memory, values, BYTES);
    return 0;
}

static int several(int rank, int ranks, void *arg)
{
    (void)arg;
    enum { COMMS = 3, CALLS = 4, ROUNDS = 6 };
    struct place place;
    weft_comm *comms[COMMS];
    weft_work *works[COMMS][CALLS];
    void *inputs[COMMS][CALLS], *outputs[COMMS][CALLS];
    uint64_t programs = 0;
    CHECK(place_open(&place) == 0);
    comms[0] = place.comm;
    for (int c = 1; c < COMMS; c++)
        CHECK_OK(weft_comm_dup(place.comm, &comms[c]));
    for (int i = 0; i < COMMS * CALLS; i++) {
        CHECK(fill(&place, rank % 2, rank + i, &inputs[i / CALLS][i % CALLS]) == 0);
        CHECK(fill(&place, rank % 2, 0, &outputs[i / CALLS][i % CALLS]) == 0);
    }
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < COMMS * CALLS; i++) {
            int c = (i + rank) % COMMS, k = i / COMMS; /* ranks take communicators in different order */
            CHECK_OK(weft_allreduce_start(comms[c], inputs[c][k], outputs[c][k], COUNT, WEFT_INT32, WEFT_SUM,
                                          &works[c][k]));
        }
        for (int i = 0; i < COMMS * CALLS; i++) {
            int32_t found[COUNT];
            int c = i / CALLS, k = i % CALLS;
            CHECK_OK(weft_work_wait(works[c][k], -1));
            CHECK_OK(weft_work_free(works[c][k]));
            case_device_move(place.sim, rank % 2, found, outputs[c][k], BYTES);
            for (int e = 0; e < COUNT; e++)
                CHECK(found[e] == ranks * (ranks - 1) / 2 + ranks * (i + e));
        }
    }
    for (int i = 0; i < COMMS * CALLS; i++) {
        CHECK_OK(place.sim->ops.release(place.sim->device, inputs[i / CALLS][i % CALLS]));
        CHECK_OK(place.sim->ops.release(place.sim->device, outputs[i / CALLS][i % CALLS]));
    }
    for (int c = 0; c < COMMS; c++) {
        weft_comm_stats stats = WEFT_COMM_STATS_INIT;
        CHECK_OK(weft_comm_get_stats(comms[c], &stats));
        programs += stats.programs;
        if (c)
            CHECK_OK(weft_comm_destroy(comms[c]));
    }
    CHECK(programs > 0);
    return place_close(&place);
}

static void several_at_once(void **state)
{
    (void)state;
    setenv("WEFT_DEVICE_PROGRAM", "always", 1);
    assert_int_equal(test_ranks_fork(3, several, NULL), 0);
    assert_int_equal(test_ranks_threads(3, several, NULL), 0);
    unsetenv("WEFT_DEVICE_PROGRAM");
}

/* --- a rank without calls */

/* Rank 0 gives from the host's memory what the others take with their devices, and then waits for them without a call, as a program does
 * that computes or waits for others by means of its own. Their votes are answered. */
static int go_idle(int rank, int ranks, void *arg)
{
    enum { CALLS = 20, FEW = 16 };
    atomic_int *done = arg;
    int32_t few[FEW] = {4, 7};
    struct place place;
    void *input, *output;
    CHECK(place_open(&place) == 0);
    CHECK(fill(&place, rank % 2, rank, &input) == 0 && fill(&place, rank % 2, 0, &output) == 0);
    for (int call = 0; call < CALLS; call++)
        CHECK_OK(weft_allreduce(place.comm, input, output, COUNT, WEFT_INT32, WEFT_SUM));
    CHECK_OK(weft_broadcast(place.comm, rank ? NULL : few, rank ? output : (void *)few, FEW, WEFT_INT32, 0));
    atomic_fetch_add(done, 1);
    while (rank == 0 && atomic_load(done) < ranks)
        usleep(1000);
    if (rank)
        case_device_move(place.sim, rank % 2, few, output, sizeof few);
    CHECK(few[0] == 4 && few[1] == 7);
    CHECK_OK(place.sim->ops.release(place.sim->device, input));
    CHECK_OK(place.sim->ops.release(place.sim->device, output));
    return place_close(&place);
}

static void votes_for_an_idle_rank(void **state)
{
    (void)state;
    atomic_int *done = mmap(NULL, sizeof *done, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(done, MAP_FAILED);
    setenv("WEFT_DEVICE_PROGRAM", "always", 1);
    setenv("WEFT_FAST_PATH", "0", 1);
    assert_int_equal(test_ranks_fork(3, go_idle, done), 0);
    atomic_store(done, 0);
    assert_int_equal(test_ranks_threads(3, go_idle, done), 0);
    unsetenv("WEFT_FAST_PATH");
    unsetenv("WEFT_DEVICE_PROGRAM");
    munmap(done, sizeof *done);
}

/* --- the end of a rank */

/* Rank 1 goes without a word, or gives up, after calls of all; the others hear who it was, and their devices write nothing
 * later. */
static int lose_rank(int rank, int ranks, void *arg)
{
    enum { LOST = 1, CALLS = 20 };
    const struct job *job = arg;
    int32_t then[COUNT], later[COUNT];
    struct place place;
    void *input, *output;
    int status = WEFT_OK;
    (void)ranks;
    CHECK(place_open(&place) == 0);
    CHECK(fill(&place, rank % 2, rank, &input) == 0 && fill(&place, rank % 2, 0, &output) == 0);
    for (int call = 0; status == WEFT_OK; call++) {
        if (rank == LOST && call == CALLS && !job->is_abort)
            raise(SIGKILL);
        if (rank == LOST && call == CALLS)
            CHECK_OK(weft_comm_abort(place.comm, "rank 1 has had enough"));
        status = weft_allreduce(place.comm, input, output, COUNT, WEFT_INT32, WEFT_SUM);
    }
    CHECK(rank == LOST || strstr(weft_error_detail(), "rank 1"));
    case_device_move(place.sim, rank % 2, then, output, BYTES);
    usleep(50000);
    case_device_move(place.sim, rank % 2, later, output, BYTES);
    CHECK(memcmp(then, later, BYTES) == 0);
    CHECK_OK(place.sim->ops.release(place.sim->device, input));
    CHECK_OK(place.sim->ops.release(place.sim->device, output));
    return place_close(&place);
}

static void killed_rank(void **state)
{
    (void)state;
    struct job job = {0};
    int statuses[3];
    setenv("WEFT_DEVICE_PROGRAM", "always", 1);
    test_ranks_fork_status(3, lose_rank, &job, statuses);
    assert_int_equal(statuses[0], 0);
    assert_int_equal(statuses[2], 0);
    assert_true(WIFSIGNALED(statuses[1]) && WTERMSIG(statuses[1]) == SIGKILL);
    unsetenv("WEFT_DEVICE_PROGRAM");
}

static void abort_of_a_rank(void **state)
{
    (void)state;
    struct job job = {.is_abort = 1};
    setenv("WEFT_DEVICE_PROGRAM", "always", 1);
    assert_int_equal(test_ranks_fork(3, lose_rank, &job), 0);
    assert_int_equal(test_ranks_threads(3, lose_rank, &job), 0);
    unsetenv("WEFT_DEVICE_PROGRAM");
}

static int set_up(void **state)
{
    (void)state;
    if (test_plugin_put("examples/device-sim/device-sim.so", &plugin) != 0)
        return -1;
    setenv("WEFT_DEVICE_PLUGIN", plugin.path, 1);
    setenv("WEFT_DEVICE_OPTIONS", "sim:seed=1", 1);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    test_plugin_remove(&plugin);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(always),          cmocka_unit_test(always_mixed),
        cmocka_unit_test(automatic),       cmocka_unit_test(never),
        cmocka_unit_test(several_at_once), cmocka_unit_test(killed_rank),
        cmocka_unit_test(abort_of_a_rank), cmocka_unit_test(votes_for_an_idle_rank),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
