/* SPDX-License-Identifier: Apache-2.0 */
/* build: beside device-sim */
/* Collectives of a host that are so large that others take them in parts, as they come. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/support/device_seat.h"
#include "tests/support/job.h"
#include "tests/support/ranks.h"
#include "tests/support/sim_seat.h"

#define MOST      65536 /* bytes of a block */
#define RANKS_MAX 3
#define PAGE      4096
#define GUARD     0xa5
#define TIMES     4 /* each size, so that slots are used again */

static unsigned number; /* of the call, so that nothing that an earlier one left is right */

/* What byte i of a rank's is in this call: no two parts are alike. */
static uint8_t value(int rank, size_t i)
{
    uint32_t mixed = ((uint32_t)i + 1) * 2654435761u + (uint32_t)rank * 40503u + number * 97u;
    return (uint8_t)((mixed ^ mixed >> 15) * 2246822519u >> 24);
}

static void fill(uint8_t *memory, int rank, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        memory[i] = value(rank, i);
}

static int is_of(const uint8_t *memory, int rank, size_t from, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        if (memory[i] != value(rank, from + i)) {
            fprintf(stderr, "byte %zu of %zu is %u: expected %u of rank %d\n", i, bytes, memory[i],
                    value(rank, from + i), rank);
            return 0;
        }
    }
    return 1;
}

/* --- every size around a part, by every collective that moves data */

struct scene {
    struct job job;
    int rank, ranks;
    uint8_t *send, *recv;
};

/* Nothing behind what the call writes is touched. */
static int is_guarded(const struct scene *scene, size_t bytes)
{
    for (size_t i = 0; i < 64; i++) {
        if (scene->recv[bytes + i] != GUARD)
            return 0;
    }
    return 1;
}

static void prepare(const struct scene *scene, size_t bytes)
{
    number++;
    fill(scene->send, scene->rank, (size_t)scene->ranks * bytes);
    memset(scene->recv, GUARD, (size_t)scene->ranks * bytes + 64);
}

static int by_root(struct scene *scene, size_t bytes, int root)
{
    weft_comm *comm = scene->job.comm;
    int rank = scene->rank, is_root = rank == root;
    prepare(scene, bytes);
    CHECK_OK(weft_broadcast(comm, is_root ? scene->send : NULL, scene->recv, bytes, WEFT_UINT8, root, NULL));
    CHECK_BITS(is_of(scene->recv, root, 0, bytes) && is_guarded(scene, bytes));
    prepare(scene, bytes);
    CHECK_OK(weft_scatter(comm, is_root ? scene->send : NULL, scene->recv, bytes, WEFT_UINT8, root, NULL));
    CHECK_BITS(is_of(scene->recv, root, (size_t)rank * bytes, bytes) && is_guarded(scene, bytes));
    prepare(scene, bytes);
    CHECK_OK(weft_gather(comm, scene->send, is_root ? scene->recv : NULL, bytes, WEFT_UINT8, root, NULL));
    for (int r = 0; r < scene->ranks && is_root; r++)
        CHECK_BITS(is_of(scene->recv + (size_t)r * bytes, r, 0, bytes));
    CHECK(is_guarded(scene, is_root ? (size_t)scene->ranks * bytes : 0));
    return 0;
}

static int by_all(struct scene *scene, size_t bytes)
{
    weft_comm *comm = scene->job.comm;
    int rank = scene->rank;
    size_t all = (size_t)scene->ranks * bytes;
    prepare(scene, bytes);
    CHECK_OK(weft_allgather(comm, scene->send, scene->recv, bytes, WEFT_UINT8, NULL));
    for (int r = 0; r < scene->ranks; r++)
        CHECK_BITS(is_of(scene->recv + (size_t)r * bytes, r, 0, bytes));
    CHECK(is_guarded(scene, all));
    prepare(scene, bytes);
    CHECK_OK(weft_alltoall(comm, scene->send, scene->recv, bytes, WEFT_UINT8, NULL));
    for (int r = 0; r < scene->ranks; r++)
        CHECK_BITS(is_of(scene->recv + (size_t)r * bytes, r, (size_t)rank * bytes, bytes));
    CHECK(is_guarded(scene, all));
    prepare(scene, bytes);
    fill(scene->recv, rank, all);
    CHECK_OK(weft_alltoall(comm, scene->recv, scene->recv, bytes, WEFT_UINT8, NULL));
    for (int r = 0; r < scene->ranks; r++)
        CHECK_BITS(is_of(scene->recv + (size_t)r * bytes, r, (size_t)rank * bytes, bytes));
    CHECK(is_guarded(scene, all));
    return 0;
}

static int sizes_body(int rank, int ranks, void *arg)
{
    static const size_t sizes[] = {1023, 2047, 2048, 2049, 3071,  3072,
                                   3073, 4096, 4097, 8191, 16384, MOST / 3};
    struct scene scene = {.rank = rank, .ranks = ranks};
    weft_comm_stats stats = WEFT_COMM_STATS_INIT;
    (void)arg;
    CHECK_OK(job_open_within(&scene.job, "shm", NULL, 60000));
    scene.send = malloc(RANKS_MAX * MOST);
    scene.recv = malloc(RANKS_MAX * MOST + 64);
    CHECK(scene.send && scene.recv);
    for (size_t i = 0; i < TIMES * sizeof sizes / sizeof *sizes; i++) {
        size_t bytes = sizes[i / TIMES];
        for (int root = 0; root < ranks; root++)
            CHECK(by_root(&scene, bytes, root) == 0);
        CHECK(by_all(&scene, bytes) == 0);
    }
    CHECK_OK(weft_comm_get_stats(scene.job.comm, &stats));
    CHECK(stats.operations > 0 && stats.fast_path == stats.operations);
    free(scene.send);
    free(scene.recv);
    return job_close(&scene.job);
}

static void test_sizes(void **state)
{
    (void)state;
    for (int ranks = 2; ranks <= RANKS_MAX; ranks++)
        assert_int_equal(test_ranks_fork(ranks, sizes_body, NULL), 0);
}

/* --- a root that stands still between two parts */

#define LARGE    (4 * PAGE)
#define TRIES    200 /* where the other rank is put aside before the first part is there, it takes all at once */
#define STAND_MS 50
#define OF_FIRST 1000 /* a byte of the first part, which is not 0 */

enum ending { GOES_ON, DIES };

static struct shared {
    _Alignas(PAGE) uint8_t got[LARGE], apart[LARGE];
    atomic_int seen; /* the other rank had a part while the root stood still */
} * shared;

static uint8_t *input;
static size_t watched =
    OF_FIRST; /* in what the other rank gets, and what is there when it has the first part */
static uint8_t expected;
static enum ending ending;

/* The root copies its input, and comes to a page that it cannot read. It stands there until the other rank has what it has shown before. */
static void stand(int signal_number, siginfo_t *info, void *context)
{
    (void)signal_number, (void)context;
    if ((uint8_t *)info->si_addr < input || (uint8_t *)info->si_addr >= input + LARGE)
        _exit(99);
    for (int i = 0; i < STAND_MS * 10 && !atomic_load(&shared->seen); i++) {
        if (((volatile uint8_t *)shared->got)[watched] == expected)
            atomic_store(&shared->seen, 1);
        else
            usleep(100);
    }
    if (ending == DIES && atomic_load(&shared->seen))
        raise(SIGKILL);
    mprotect(input, LARGE, PROT_READ | PROT_WRITE);
}

static int give_and_stand(struct job *job)
{
    CHECK(mprotect(input + PAGE, LARGE - PAGE, PROT_NONE) == 0);
    CHECK_OK(weft_broadcast(job->comm, input, input, LARGE, WEFT_UINT8, 0, NULL));
    return 0;
}

static int take(struct job *job, int *status)
{
    *status = weft_broadcast(job->comm, NULL, shared->got, LARGE, WEFT_UINT8, 0, NULL);
    CHECK(*status == WEFT_OK ||
          (ending == DIES && *status == WEFT_PEER_FAILED && atomic_load(&shared->seen)));
    CHECK(*status != WEFT_OK || is_of(shared->got, 0, 0, LARGE));
    return 0;
}

static int stands_body(int rank, int ranks, void *arg)
{
    struct sigaction action = {.sa_sigaction = stand, .sa_flags = SA_SIGINFO};
    struct job job;
    int status = WEFT_OK;
    (void)ranks;
    ending = *(enum ending *)arg;
    input = mmap(NULL, LARGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(input != MAP_FAILED && (rank == 1 || sigaction(SIGSEGV, &action, NULL) == 0));
    fill(input, 0, LARGE);
    expected = value(0, OF_FIRST);
    CHECK(expected);
    CHECK_OK(job_open_within(&job, "shm", NULL, 60000));
    for (int i = 0; i < TRIES && status == WEFT_OK && !atomic_load(&shared->seen); i++) {
        if (rank == 1)
            memset(shared->got, 0, LARGE);
        CHECK_OK(weft_barrier(job.comm, NULL));
        CHECK((rank == 0 ? give_and_stand(&job) : take(&job, &status)) == 0);
        if (status == WEFT_OK)
            CHECK_OK(weft_barrier(job.comm, NULL));
    }
    CHECK(atomic_load(&shared->seen) && (ending == GOES_ON || status == WEFT_PEER_FAILED));
    munmap(input, LARGE);
    if (status == WEFT_OK)
        return job_close(&job);
    weft_comm_destroy(job.comm);
    weft_context_close(job.context);
    return 0;
}

static void stands(enum ending how, int *statuses)
{
    memset(shared, 0, sizeof *shared);
    test_ranks_fork_status(2, stands_body, &how, statuses);
}

static void test_goes_on(void **state)
{
    int statuses[2];
    (void)state;
    stands(GOES_ON, statuses);
    assert_true(statuses[0] == 0 && statuses[1] == 0);
}

static void test_dies(void **state)
{
    int statuses[2];
    (void)state;
    stands(DIES, statuses);
    assert_true(WIFSIGNALED(statuses[0]) && WTERMSIG(statuses[0]) == SIGKILL);
    assert_int_equal(statuses[1], 0);
}

/* --- a rank whose memory is a device's starts a call: that goes by a plan, which needs what is exchanged in place */

#define CALLS 3

/* Rank 0 waits while rank 1 stands still behind its first part. If it took that, it would overwrite what the plan sends. */
static int plan_body(int rank, int ranks, void *arg)
{
    struct sigaction action = {.sa_sigaction = stand, .sa_flags = SA_SIGINFO};
    struct job job;
    struct device_seat seat;
    weft_work *work = NULL;
    size_t all = (size_t)ranks * PAGE;
    uint8_t *memory = malloc(all), *place = shared->got, *output = place;
    (void)arg;
    device_seat_take(&seat, &sim_bench);
    CHECK_OK(job_open_within(&job, "shm", NULL, 60000));
    input = mmap(NULL, LARGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(memory && input != MAP_FAILED);
    if (rank > 0)
        output = place = rank == 1 ? input : device_seat_get(&seat, 0, all);
    if (rank == 1)
        output = shared->apart; /* so that it shows parts: what is in place does not go so */
    if (rank == 1)
        CHECK(sigaction(SIGSEGV, &action, NULL) == 0);
    watched = PAGE + OF_FIRST;
    for (int call = 0; call < CALLS; call++) {
        fill(memory, rank + call, all);
        expected = value(1 + call, OF_FIRST);
        CHECK(expected != value(call, PAGE + OF_FIRST));
        device_seat_store(&seat, rank == 2 ? 0 : -1, place, memory, all);
        CHECK_OK(weft_barrier(job.comm, NULL));
        if (rank == 1)
            CHECK(mprotect(input + 2 * (size_t)PAGE, PAGE, PROT_NONE) == 0);
        CHECK_OK(
            weft_alltoall(job.comm, place, output, PAGE, WEFT_UINT8, WEFT_START(rank == 2 ? &work : NULL)));
        CHECK_OK(rank == 2 ? weft_work_wait(work, -1) : WEFT_OK);
        CHECK_OK(rank == 2 ? weft_work_free(work) : WEFT_OK);
        device_seat_load(&seat, rank == 2 ? 0 : -1, memory, output, all);
        for (int r = 0; r < ranks; r++)
            CHECK_BITS(is_of(memory + (size_t)r * PAGE, r + call, (size_t)rank * PAGE, PAGE));
    }
    CHECK_OK(weft_barrier(job.comm, NULL));
    if (rank == 2)
        device_seat_put(&seat, 0, place);
    CHECK_OK(job_close(&job));
    device_seat_leave(&seat);
    munmap(input, LARGE);
    free(memory);
    return 0;
}

static void test_plan(void **state)
{
    (void)state;
    sim_seats_prepare("sim:seed=1");
    assert_int_equal(device_bench_run(&sim_bench, 3, 0, plan_body, NULL), 0);
    assert_int_equal(sim_seats_end(), 0);
}

int main(void)
{
    shared = test_ranks_shared(sizeof *shared);
    setenv("WEFT_FAST_PATH", "65536", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plan), /* before anything is logged in this process */
        cmocka_unit_test(test_sizes), cmocka_unit_test(test_goes_on), cmocka_unit_test(test_dies)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
