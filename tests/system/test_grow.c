/* SPDX-License-Identifier: Apache-2.0 */
/* run: beside (deadlines); early */
/* Communicators that get new ranks: after a death, again and again; a new rank that does not come; old ranks that do not agree; a
 * communicator with a dead rank. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/hash.h"
#include "tests/support/effort.h"
#include "tests/support/job.h"
#include "tests/support/leak.h"
#include "tests/support/ranks.h"

#define COUNT      20000
#define TIMEOUT_MS 60000
#define ABSENT_MS  4000 /* that a rank waits for one that does not come */

static char folder[64];

/* Shared by the ranks: how many have got somewhere. */
static _Atomic int *passed;

static void await(int wanted)
{
    while (*passed < wanted)
        usleep(1000);
}

static void place_of(int round, char path[128])
{
    snprintf(path, 128, "%s/round-%d", folder, round);
}

/* Ranks that meet at the place of a round. settings: of the context. */
static int enter(struct job *job, int round, int rank, int ranks, const char *settings)
{
    char path[128];
    weft_context_options context_options = WEFT_CONTEXT_OPTIONS_INIT;
    weft_comm_options options = WEFT_COMM_OPTIONS_INIT;
    context_options.settings = settings;
    place_of(round, path);
    options.rank = rank;
    options.ranks = ranks;
    options.file = path;
    options.timeout_ms = TIMEOUT_MS;
    CHECK_OK(weft_context_open(&context_options, &job->context));
    CHECK_OK(weft_comm_create(job->context, &options, &job->comm));
    return 0;
}

/* The same bits on all ranks, and the right ones where the sum is exact. */
static int compute(weft_comm *comm)
{
    int rank = weft_comm_rank(comm), ranks = weft_comm_size(comm);
    float *send = calloc(COUNT, sizeof *send), *recv = calloc(COUNT, sizeof *recv);
    uint64_t hashes[TEST_RANKS_MAX];
    CHECK(send && recv);
    for (size_t count = 3; count <= COUNT; count = count == 3 ? COUNT : COUNT + 1) {
        job_fill(send, WEFT_FLOAT32, rank, count);
        CHECK_OK(weft_allreduce(comm, send, recv, count, WEFT_FLOAT32, WEFT_SUM, NULL));
        CHECK_BITS(job_wrong(recv, WEFT_FLOAT32, WEFT_SUM, ranks, count) == 0);
        for (size_t i = 0; i < count; i++)
            send[i] = 1.0f / (float)(rank + 3 + (int)(i % 7));
        CHECK_OK(weft_allreduce(comm, send, recv, count, WEFT_FLOAT32, WEFT_SUM, NULL));
        uint64_t hash = weft_hash_bytes(WEFT_HASH_START, recv, count * sizeof *recv);
        CHECK_OK(weft_allgather(comm, &hash, hashes, 1, WEFT_UINT64, NULL));
        for (int r = 0; r < ranks; r++)
            CHECK_BITS(hashes[r] == hash);
    }
    free(send);
    free(recv);
    return 0;
}

/* --- death, shrink, a new process, grow */

struct cycle {
    const char *settings; /* of the context */
    int ranks, rounds;
};

static int victim_of(const struct cycle *cycle, int round)
{
    return (round * 3 + 1) % cycle->ranks;
}

/* What is left of *comm gets a new last rank. */
static int mend(const struct cycle *cycle, int round, weft_comm **comm)
{
    char path[128];
    int32_t one = 1, sum;
    weft_comm *smaller, *larger;
    weft_comm_options place = WEFT_COMM_OPTIONS_INIT;
    place_of(round, path);
    place.ranks = cycle->ranks;
    place.file = path;
    while (weft_allreduce(*comm, &one, &sum, 1, WEFT_INT32, WEFT_SUM, NULL) == WEFT_OK)
        ;
    CHECK_OK(weft_comm_shrink(*comm, &smaller, NULL));
    CHECK_OK(weft_comm_destroy(*comm));
    int rank = weft_comm_rank(smaller);
    CHECK(weft_comm_size(smaller) == cycle->ranks - 1);
    CHECK_OK(weft_comm_grow(smaller, &place, &larger, NULL));
    CHECK(weft_comm_size(larger) == cycle->ranks && weft_comm_rank(larger) == rank);
    CHECK_OK(weft_comm_destroy(smaller));
    *comm = larger;
    return 0;
}

static int live(const struct cycle *cycle, int rank, int round)
{
    struct job job;
    CHECK(enter(&job, round, rank, cycle->ranks, cycle->settings) == 0);
    for (;; round++) {
        CHECK(compute(job.comm) == 0);
        ++*passed;
        if (round == cycle->rounds)
            break;
        if (weft_comm_rank(job.comm) == victim_of(cycle, round)) {
            await((round + 1) * cycle->ranks); /* what it has sent must have arrived */
            raise(SIGKILL);
        }
        CHECK(mend(cycle, round + 1, &job.comm) == 0);
    }
    CHECK_OK(job_close(&job));
    return 0;
}

static pid_t start(const struct cycle *cycle, int rank, int round)
{
    pid_t parent = getpid(), pid = fork();
    if (pid != 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    exit(live(cycle, rank, round)); /* not _exit(): sanitizers look for leaks there */
}

/* A new process for each that is killed, until all of a round have ended by themselves. */
static void run_cycle(const struct cycle *cycle)
{
    int killed = 0, ended = 0, failed = 0;
    *passed = 0;
    for (int r = 0; r < cycle->ranks; r++)
        assert_true(start(cycle, r, 0) > 0);
    while (ended < cycle->ranks) {
        int status;
        pid_t pid = waitpid(-1, &status, 0);
        assert_true(pid > 0);
        if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL && killed < cycle->rounds) {
            assert_true(start(cycle, cycle->ranks - 1, ++killed) > 0);
            continue;
        }
        ended++;
        failed += status != 0;
    }
    assert_int_equal(failed, 0);
    assert_int_equal(killed, cycle->rounds);
}

static void cycles(const char *settings)
{
    struct cycle cycle = {.settings = settings};
    cycle.rounds = (int)test_by_effort(1, 2, 50);
    for (cycle.ranks = 2; cycle.ranks <= 4; cycle.ranks += 2)
        run_cycle(&cycle);
}

static void test_cycles_shm(void **state)
{
    (void)state;
    struct test_leak before;
    test_leak_take(&before);
    cycles("transport=shm");
    assert_int_equal(test_leak_check(&before), 0);
}

static void test_cycles_tcp(void **state)
{
    (void)state;
    cycles("transport=tcp");
}

/* --- what goes wrong */

/* A communicator of the old ranks, which meet in a file too. */
static int open_old(struct job *job, int rank, int ranks)
{
    return enter(job, 1000, rank, ranks, NULL);
}

static int sum_is(weft_comm *comm, int expected)
{
    int32_t one = 1, sum = 0;
    CHECK_OK(weft_allreduce(comm, &one, &sum, 1, WEFT_INT32, WEFT_SUM, NULL));
    CHECK_BITS(sum == expected);
    return 0;
}

/* Nobody comes to the first place, and a new rank to the second. */
static int absent_body(int rank, int ranks, void *arg)
{
    (void)arg;
    int old = ranks - 1;
    struct job job;
    weft_comm *larger = NULL;
    char path[128];
    weft_comm_options place = WEFT_COMM_OPTIONS_INIT;
    place.ranks = ranks;
    place.file = path;
    place_of(2, path);
    if (rank == old) { /* not before it is wanted */
        await(old);
        CHECK(enter(&job, 2, rank, ranks, NULL) == 0);
        larger = job.comm;
    } else {
        CHECK(open_old(&job, rank, old) == 0);
        place_of(1, path);
        CHECK(weft_comm_grow(job.comm, &place, &larger,
                             WEFT_CALL(.timeout_ms = ABSENT_MS, .label = "more")) == WEFT_RANKS_ABSENT);
        CHECK(larger == NULL && strstr(weft_error_detail(), "rank 2") &&
              strstr(weft_error_detail(), "'more'"));
        CHECK(sum_is(job.comm, old) == 0);
        ++*passed;
        place_of(2, path);
        CHECK_OK(weft_comm_grow(job.comm, &place, &larger, NULL));
        CHECK(sum_is(job.comm, old) == 0);
        CHECK_OK(weft_comm_destroy(job.comm));
    }
    CHECK(weft_comm_rank(larger) == rank && sum_is(larger, ranks) == 0);
    CHECK_OK(weft_comm_destroy(larger));
    CHECK_OK(weft_context_close(job.context));
    return 0;
}

static void test_absent(void **state)
{
    (void)state;
    *passed = 0;
    assert_int_equal(test_ranks_fork(3, absent_body, NULL), 0);
}

/* One rank wants another number, be it one that cannot be, another place, another name: all hear which rank, and at once. */
static int differ_body(int rank, int ranks, void *arg)
{
    (void)arg;
    struct job job;
    char path[128], address[32] = "127.0.0.1:1";
    static const int wanted[6] = {6, 5, 5, 5, 4, 2};
    CHECK(open_old(&job, rank, ranks) == 0);
    for (int what = 0; what < 6; what++) {
        weft_comm *larger = NULL;
        weft_comm_options place = WEFT_COMM_OPTIONS_INIT;
        int odd = rank == 2;
        place.ranks = odd ? wanted[what] : ranks + 1;
        place_of(what == 1 && odd ? 11 : 10, path);
        place.file = what == 2 && odd ? NULL : path;
        place.address = what == 2 && odd ? address : NULL;
        place.name = what == 3 && odd ? "other" : "name";
        CHECK(weft_comm_grow(job.comm, &place, &larger, NULL) == WEFT_MISMATCH && larger == NULL);
        CHECK(strstr(weft_error_detail(), "weft_comm_grow: rank 2 on host '"));
        CHECK(strstr(weft_error_detail(), what == 0   ? "passes 6 ranks, rank 0 passes 5"
                                          : what == 1 ? "/round-11' as 'name', rank 0 at file '"
                                          : what == 2
                                              ? "meets at address '127.0.0.1:1' as 'name', rank 0 at file '"
                                          : what == 3 ? "as 'other', rank 0 at"
                                          : what == 4 ? "passes 4 ranks, rank 0 passes 5"
                                                      : "passes 2 ranks, rank 0 passes 5"));
        CHECK(sum_is(job.comm, ranks) == 0);
    }
    CHECK_OK(job_close(&job));
    return 0;
}

static void test_ranks_differ(void **state)
{
    (void)state;
    assert_int_equal(test_ranks_fork(4, differ_body, NULL), 0);
}

/* One rank cannot say where it would meet: all hear that, and at once. */
static int refused_body(int rank, int ranks, void *arg)
{
    (void)arg;
    struct job job;
    weft_comm *larger = NULL;
    char path[128];
    weft_comm_options place = WEFT_COMM_OPTIONS_INIT;
    CHECK(open_old(&job, rank, ranks) == 0);
    place_of(15, path);
    place.ranks = ranks + 1;
    place.file = rank == 2 ? NULL : path;
    CHECK(weft_comm_grow(job.comm, &place, &larger, NULL) == WEFT_INVALID && larger == NULL);
    CHECK(strstr(weft_error_detail(), "MASTER_ADDR is not set"));
    CHECK(rank == 2 || strstr(weft_error_detail(), "weft_comm_grow: rank 2 on host '"));
    CHECK(sum_is(job.comm, ranks) == 0);
    CHECK_OK(job_close(&job));
    return 0;
}

static void test_rank_refused(void **state)
{
    (void)state;
    assert_int_equal(test_ranks_fork(3, refused_body, NULL), 0);
}

static int dead_body(int rank, int ranks, void *arg)
{
    (void)arg;
    struct job job;
    weft_comm *larger = NULL;
    char path[128];
    weft_comm_options place = WEFT_COMM_OPTIONS_INIT;
    CHECK(open_old(&job, rank, ranks) == 0);
    CHECK(sum_is(job.comm, ranks) == 0);
    ++*passed;
    await(ranks);
    if (rank == 1)
        raise(SIGKILL);
    place_of(20, path);
    place.ranks = ranks + 1;
    place.file = path;
    CHECK(weft_comm_grow(job.comm, &place, &larger, NULL) == WEFT_PEER_FAILED && larger == NULL);
    CHECK(strstr(weft_error_detail(), "rank 1 on host '"));
    CHECK(weft_comm_grow(job.comm, &place, &larger, NULL) == WEFT_REVOKED && larger == NULL);
    CHECK_OK(job_close(&job));
    return 0;
}

static void test_dead_rank(void **state)
{
    (void)state;
    int statuses[3];
    *passed = 0;
    assert_int_equal(test_ranks_fork_status(3, dead_body, NULL, statuses), 1);
    assert_true(WIFSIGNALED(statuses[1]));
}

static int arguments_body(int rank, int ranks, void *arg)
{
    (void)arg;
    struct job job;
    weft_comm *larger = NULL;
    char path[128];
    weft_comm_options place = WEFT_COMM_OPTIONS_INIT;
    CHECK(open_old(&job, rank, ranks) == 0);
    place_of(30, path);
    place.ranks = ranks;
    place.file = path;
    CHECK(weft_comm_grow(NULL, &place, &larger, NULL) == WEFT_INVALID);
    CHECK(weft_comm_grow(job.comm, NULL, &larger, NULL) == WEFT_INVALID);
    CHECK(weft_comm_grow(job.comm, &place, NULL, NULL) == WEFT_INVALID);
    CHECK(weft_comm_grow(job.comm, &place, &larger, NULL) == WEFT_INVALID && larger == NULL);
    CHECK(sum_is(job.comm, ranks) == 0); /* what was refused was no call */
    CHECK_OK(job_close(&job));
    return 0;
}

static void test_arguments(void **state)
{
    (void)state;
    assert_int_equal(test_ranks_fork(1, arguments_body, NULL), 0);
    assert_int_equal(test_ranks_fork(3, arguments_body, NULL), 0);
}

int main(void)
{
    passed = test_ranks_shared(sizeof *passed);
    snprintf(folder, sizeof folder, "/tmp/weft-grow-XXXXXX");
    if (!mkdtemp(folder))
        return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cycles_shm),   cmocka_unit_test(test_cycles_tcp),
        cmocka_unit_test(test_absent),       cmocka_unit_test(test_ranks_differ),
        cmocka_unit_test(test_dead_rank),    cmocka_unit_test(test_arguments),
        cmocka_unit_test(test_rank_refused),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    if (rmdir(folder) != 0) /* rank 0 removes what it has made */
        perror(folder);
    return failed;
}
