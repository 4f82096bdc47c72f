/* SPDX-License-Identifier: Apache-2.0 */
/* Communicators from communicators: who is in which group and in what order, groups of groups, parents and children that
 * work at the same time or end in any order, calls that do not belong together, and ranks that cannot take part or die.
 */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/support/dying.h"
#include "tests/support/effort.h"
#include "tests/support/golden.h"
#include "tests/support/job.h"
#include "tests/support/leak.h"
#include "tests/support/ranks.h"

#define LARGE 70000

struct way {
    const char *transports, *provider;
};
static const struct way shm = {"shm", NULL}, tcp = {"tcp", NULL};

/* The sum of (member + 1) over the members, by which ranks see that they compute with the right ones: each passes its
 * rank in the job. Small and large, so that the cache-line path and plans have their turn. */
static int sum_is(weft_comm *comm, int member, int expected)
{
    static const size_t counts[] = {3, LARGE};
    for (int c = 0; c < 2; c++) {
        int32_t *send = calloc(counts[c], 4), *recv = calloc(counts[c], 4);
        CHECK(send && recv);
        for (size_t i = 0; i < counts[c]; i++)
            send[i] = (member + 1) * (int32_t)(i % 5 + 1);
        CHECK_OK(weft_allreduce(comm, send, recv, counts[c], WEFT_INT32, WEFT_SUM, NULL));
        for (size_t i = 0; i < counts[c]; i++)
            CHECK_BITS(recv[i] == expected * (int32_t)(i % 5 + 1));
        free(send);
        free(recv);
    }
    return 0;
}

static int run_all(weft_comm *comm, int member, int ranks)
{
    return sum_is(comm, member, ranks * (ranks + 1) / 2);
}

/* --- groups */

static int thirds_body(int rank, int ranks, void *arg)
{
    const struct way *way = arg;
    struct job job;
    CHECK_OK(job_open(&job, way->transports, way->provider));
    weft_comm *third = NULL, *again = NULL, *half = NULL;
    int members = 0, below = 0, sum = 0;
    for (int r = rank % 3; r < ranks; r += 3) {
        members++;
        below += r < rank;
        sum += r + 1;
    }
    /* Keys that turn the order round. */
    CHECK_OK(weft_comm_split(job.comm, rank % 3, -rank, &third, NULL));
    CHECK(third && weft_comm_size(third) == members);
    CHECK(weft_comm_rank(third) == members - 1 - below);
    CHECK_BITS(sum_is(third, rank, sum) == 0);
    /* A group of a group, ordered by rank where keys are equal. */
    CHECK_OK(weft_comm_split(third, weft_comm_rank(third) / 2, 7, &half, NULL));
    CHECK(weft_comm_rank(half) == weft_comm_rank(third) % 2);
    CHECK(weft_comm_size(half) == (weft_comm_rank(third) / 2 * 2 + 1 < members ? 2 : 1));
    CHECK_OK(weft_comm_split(half, 0, 0, &again, NULL));
    CHECK(weft_comm_size(again) == weft_comm_size(half) && weft_comm_rank(again) == weft_comm_rank(half));
    /* Parents go before their children. */
    CHECK_OK(weft_comm_destroy(third));
    CHECK(run_all(again, weft_comm_rank(again), weft_comm_size(again)) == 0);
    CHECK_OK(weft_comm_destroy(half));
    CHECK(run_all(job.comm, rank, ranks) == 0);
    CHECK_OK(weft_comm_destroy(job.comm));
    CHECK(run_all(again, weft_comm_rank(again), weft_comm_size(again)) == 0);
    CHECK_OK(weft_comm_destroy(again));
    CHECK_OK(weft_context_close(job.context));
    return 0;
}

static void test_groups_shm(void **state)
{
    (void)state;
    static const int sizes[] = {1, 2, 3, 5, 8};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        assert_int_equal(test_ranks_fork(sizes[i], thirds_body, (void *)(uintptr_t)&shm), 0);
    assert_int_equal(test_ranks_threads(5, thirds_body, (void *)(uintptr_t)&shm), 0);
}

static void test_groups_tcp(void **state)
{
    (void)state;
    assert_int_equal(test_ranks_fork(2, thirds_body, (void *)(uintptr_t)&tcp), 0);
    assert_int_equal(test_ranks_fork(5, thirds_body, (void *)(uintptr_t)&tcp), 0);
}

/* Nobody, one, and the rest. */
static int undefined_body(int rank, int ranks, void *arg)
{
    (void)arg;
    struct job job;
    weft_comm *group = (weft_comm *)(uintptr_t)8;
    CHECK_OK(job_open(&job, "shm", NULL));
    int colour = rank == 0 ? WEFT_UNDEFINED : rank == 1 ? INT32_MAX : 0;
    CHECK_OK(weft_comm_split(job.comm, colour, 0, &group, NULL));
    if (rank == 0) {
        CHECK(group == NULL);
    } else {
        CHECK(weft_comm_size(group) == (rank == 1 ? 1 : ranks - 2));
        CHECK_BITS(sum_is(group, rank, rank == 1 ? 2 : ranks * (ranks + 1) / 2 - 3) == 0);
    }
    CHECK_OK(weft_comm_destroy(group));
    CHECK_OK(weft_comm_split(job.comm, WEFT_UNDEFINED, rank, &group, NULL));
    CHECK(group == NULL);
    CHECK(run_all(job.comm, rank, ranks) == 0);
    CHECK_OK(job_close(&job));
    return 0;
}

static void test_undefined(void **state)
{
    (void)state;
    assert_int_equal(test_ranks_fork(4, undefined_body, NULL), 0);
}

static int arguments_body(int rank, int ranks, void *arg)
{
    (void)rank;
    (void)arg;
    struct job job;
    weft_comm *group = NULL;
    CHECK_OK(job_open(&job, "shm", NULL));
    CHECK(weft_comm_split(NULL, 0, 0, &group, NULL) == WEFT_INVALID);
    CHECK(weft_comm_split(job.comm, 0, 0, NULL, NULL) == WEFT_INVALID);
    CHECK(weft_comm_split(job.comm, -2, 0, &group, NULL) == WEFT_INVALID &&
          strstr(weft_error_detail(), "-2"));
    CHECK(weft_comm_split(NULL, 0, 0, &group, NULL) == WEFT_INVALID);
    CHECK(weft_comm_split(job.comm, 0, 0, NULL, NULL) == WEFT_INVALID);
    CHECK(group == NULL);
    /* What was refused was no call. */
    CHECK(run_all(job.comm, rank, ranks) == 0);
    CHECK_OK(weft_comm_split(job.comm, 0, 0, &group, NULL));
    CHECK(run_all(group, rank, ranks) == 0); /* all have it: an abort would outrun it */
    CHECK_OK(weft_comm_abort(job.comm, "enough"));
    weft_comm *further = NULL;
    int status = weft_comm_split(job.comm, 0, 0, &further, NULL);
    CHECK(status == WEFT_REVOKED && further == NULL && strstr(weft_error_detail(), "enough"));
    CHECK(weft_comm_split(job.comm, 0, 0, &further, NULL) == WEFT_REVOKED && further == NULL);
    /* The parent's end is not the child's. */
    CHECK(run_all(group, rank, ranks) == 0);
    CHECK_OK(weft_comm_destroy(group));
    CHECK_OK(job_close(&job));
    return 0;
}

static void test_arguments(void **state)
{
    (void)state;
    assert_int_equal(test_ranks_fork(1, arguments_body, NULL), 0);
    assert_int_equal(test_ranks_fork(3, arguments_body, NULL), 0);
}

/* --- at the same time */

static int busy_parent_body(int rank, int ranks, void *arg)
{
    const struct way *way = arg;
    struct job job;
    weft_comm *copy;
    weft_work *work;
    enum { COUNT = 1000000 };
    float *send = calloc(COUNT, 4), *recv = calloc(COUNT, 4);
    CHECK(send && recv);
    CHECK_OK(job_open(&job, way->transports, way->provider));
    job_fill(send, WEFT_FLOAT32, rank, COUNT);
    CHECK_OK(weft_allreduce(job.comm, send, recv, COUNT, WEFT_FLOAT32, WEFT_SUM, WEFT_START(&work)));
    CHECK_OK(weft_comm_split(job.comm, 0, 0, &copy, NULL));
    CHECK(run_all(copy, rank, ranks) == 0);
    CHECK_OK(weft_work_wait(work, -1));
    CHECK_OK(weft_work_free(work));
    CHECK_BITS(job_wrong(recv, WEFT_FLOAT32, WEFT_SUM, ranks, COUNT) == 0);
    CHECK(job_close(&job) == WEFT_BUSY); /* the copy still needs the context */
    CHECK(run_all(copy, rank, ranks) == 0);
    CHECK_OK(weft_comm_destroy(copy));
    CHECK_OK(weft_context_close(job.context));
    free(send);
    free(recv);
    return 0;
}

static void test_dup_while_parent_works(void **state)
{
    (void)state;
    assert_int_equal(test_ranks_fork(4, busy_parent_body, (void *)(uintptr_t)&shm), 0);
    assert_int_equal(test_ranks_fork(3, busy_parent_body, (void *)(uintptr_t)&tcp), 0);
}

struct worker {
    weft_comm *comm;
    int rank, ranks, result;
};

static void *work_on(void *arg)
{
    struct worker *worker = arg;
    for (int i = 0; i < 20 && worker->result == 0; i++) {
        weft_comm *copy;
        worker->result = run_all(worker->comm, worker->rank, worker->ranks);
        if (i % 7 == 6 && worker->result == 0) {
            worker->result = weft_comm_split(worker->comm, 0, 0, &copy, NULL) != WEFT_OK ||
                             run_all(copy, worker->rank, worker->ranks) != 0 ||
                             weft_comm_destroy(copy) != WEFT_OK;
        }
    }
    return NULL;
}

/* Parent and child from two threads, which make communicators of their own too. */
static int two_threads_body(int rank, int ranks, void *arg)
{
    (void)arg;
    struct job job;
    weft_comm *child;
    pthread_t thread;
    CHECK_OK(job_open(&job, "shm", NULL));
    CHECK_OK(weft_comm_split(job.comm, 0, ranks - rank, &child, NULL));
    struct worker with_parent = {job.comm, rank, ranks, 0};
    struct worker with_child = {child, weft_comm_rank(child), ranks, 0};
    CHECK(pthread_create(&thread, NULL, work_on, &with_child) == 0);
    work_on(&with_parent);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(with_parent.result == 0 && with_child.result == 0);
    CHECK_OK(weft_comm_destroy(child));
    CHECK_OK(job_close(&job));
    return 0;
}

static void test_two_threads(void **state)
{
    (void)state;
    assert_int_equal(test_ranks_fork(3, two_threads_body, NULL), 0);
    assert_int_equal(test_ranks_threads(2, two_threads_body, NULL), 0);
}

/* --- calls that do not belong together */

enum deed { SPLIT, TINY, BIG, START, DESTROY };

struct quarrel {
    enum deed right, wrong;
    int who;
};

static int do_deed(weft_comm *comm, enum deed deed, weft_comm **made)
{
    static int32_t send[LARGE], recv[LARGE];
    weft_work *work;
    int status;
    switch (deed) {
    case SPLIT:
        return weft_comm_split(comm, 0, 0, made, NULL);
    case TINY:
        return weft_allreduce(comm, send, recv, 3, WEFT_INT32, WEFT_SUM, NULL);
    case BIG:
        return weft_allreduce(comm, send, recv, LARGE, WEFT_INT32, WEFT_SUM, NULL);
    case START: /* and then a call like the others' */
        status = weft_allreduce(comm, send, recv, 3, WEFT_INT32, WEFT_SUM, WEFT_START(&work));
        if (status == WEFT_OK)
            status = weft_comm_split(comm, 0, 0, made, NULL);
        weft_work_free(work);
        return status;
    default:
        return weft_comm_destroy(comm);
    }
}

static int quarrel_body(int rank, int ranks, void *arg)
{
    const struct quarrel *quarrel = arg;
    struct job job;
    weft_comm *made = NULL;
    static const char *const calls[] = {"weft_comm_split", "allreduce", "allreduce", "allreduce",
                                        "weft_comm_destroy"};
    char who[16];
    CHECK_OK(job_open(&job, "shm", NULL));
    enum deed deed = rank == quarrel->who ? quarrel->wrong : quarrel->right;
    int status = do_deed(job.comm, deed, &made);
    snprintf(who, sizeof who, "%d", quarrel->who);
    int fine = made == NULL &&
               (deed == START ? status == WEFT_MISMATCH || status == WEFT_REVOKED : status == WEFT_MISMATCH);
    if (deed != START) /* there the work's own text has come between */
        fine = fine &&
               golden_matches("calls-differ", who, NULL, calls[quarrel->wrong], "0", calls[quarrel->right]);
    if (!fine)
        fprintf(stderr, "rank %d of %d: status %d\n", rank, ranks, status);
    if (deed != DESTROY)
        CHECK_OK(weft_comm_destroy(job.comm));
    CHECK_OK(weft_context_close(job.context));
    return !fine;
}

static void test_quarrels(void **state)
{
    (void)state;
    static const struct quarrel quarrels[] = {
        {SPLIT, TINY, 2},  {SPLIT, BIG, 1},     {BIG, SPLIT, 2},
        {SPLIT, START, 1}, {SPLIT, DESTROY, 1}, {DESTROY, SPLIT, 2},
    };
    for (size_t i = 0; i < sizeof quarrels / sizeof *quarrels; i++)
        assert_int_equal(test_ranks_fork(3, quarrel_body, (void *)(uintptr_t)&quarrels[i]), 0);
}

/* --- ranks that cannot, and ranks that die */

/* Rank 3 has no descriptors left: those of its colour hear of it, the others have their communicator. */
static int crowded_body(int rank, int ranks, void *arg)
{
    (void)arg;
    struct job job;
    weft_comm *group = NULL;
    struct rlimit limit, before;
    CHECK(getrlimit(RLIMIT_NOFILE, &before) == 0);
    CHECK_OK(job_open_within(&job, "shm", NULL, 4000));
    CHECK(run_all(job.comm, rank, ranks) == 0);
    if (rank == 3) {
        limit = before;
        limit.rlim_cur = 4;
        CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    }
    int status = weft_comm_split(job.comm, rank % 2, 0, &group, NULL);
    CHECK(setrlimit(RLIMIT_NOFILE, &before) == 0);
    if (rank % 2) {
        CHECK(status != WEFT_OK && group == NULL);
        CHECK(rank == 3 || strstr(weft_error_detail(), "rank 3") || strstr(weft_error_detail(), "rank 1"));
    } else {
        CHECK_OK(status);
        CHECK_BITS(sum_is(group, rank, 1 + 3) == 0);
        CHECK_OK(weft_comm_destroy(group));
    }
    CHECK(run_all(job.comm, rank, ranks) == 0); /* nothing has happened to the parent */
    CHECK_OK(job_close(&job));
    return 0;
}

static void test_no_descriptors(void **state)
{
    (void)state;
    assert_int_equal(test_ranks_fork(4, crowded_body, NULL), 0);
}

struct death {
    int who;
    unsigned delay_us;
    atomic_int *open; /* ranks whose job is open; shared */
};

/* Everybody splits until it fails, which it does at all who are left; those of them that hold a group cannot use it with
 * the dead one in it. */
static int death_body(int rank, int ranks, void *arg)
{
    const struct death *death = arg;
    struct job job;
    CHECK_OK(job_open(&job, "shm", NULL));
    atomic_fetch_add(death->open, 1);
    while (rank == death->who && atomic_load(death->open) < ranks) /* nobody dies while others still open */
        usleep(100);
    if (rank == death->who)
        CHECK(test_die_soon(death->delay_us) == 0);
    int status = WEFT_OK;
    while (status == WEFT_OK) {
        weft_comm *group = NULL;
        status = weft_comm_split(job.comm, rank == 0, ranks - rank, &group, NULL);
        if (status != WEFT_OK)
            CHECK(group == NULL);
        else
            weft_comm_destroy(group);
    }
    CHECK(status == WEFT_PEER_FAILED || status == WEFT_REVOKED);
    CHECK_OK(weft_comm_destroy(job.comm));
    CHECK_OK(weft_context_close(job.context));
    return 0;
}

static void test_death(void **state)
{
    (void)state;
    atomic_int *open = test_ranks_shared(sizeof *open);
    for (unsigned i = 0; i < 16; i++) {
        struct death death = {(int)(i % 4), 2000 * i, open};
        atomic_store(open, 0);
        int statuses[4];
        int failed = test_ranks_fork_status(4, death_body, &death, statuses);
        assert_int_equal(failed, 1);
        assert_true(WIFSIGNALED(statuses[death.who]));
    }
}

/* --- what remains */

/* Resident memory of this process in kB. */
static long resident_kb(void)
{
    long pages = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file || fscanf(file, "%ld %ld", &pages, &resident) != 2)
        resident = 0;
    if (file)
        fclose(file);
    return resident * (sysconf(_SC_PAGESIZE) / 1024);
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define MEASURE 0 /* sanitizers keep what was freed */
#else
#define MEASURE 1
#endif

static int cycles_body(int rank, int ranks, void *arg)
{
    (void)arg;
    struct job job;
    struct test_leak before;
    const int cycles = (int)test_by_effort(100, 300, 1000);
    const long growth_kb = cycles < 1000 ? 512 : 1024;
    long before_kb = 0;
    CHECK_OK(job_open(&job, "shm", NULL));
    for (int i = -20; i < cycles; i++) {
        weft_comm *copy, *group;
        if (i == 0) {
            test_leak_take(&before);
            before_kb = resident_kb();
        }
        CHECK_OK(weft_comm_split(job.comm, 0, 0, &copy, NULL));
        CHECK_OK(weft_comm_split(copy, rank == (i + 30) % ranks, rank, &group, NULL));
        int32_t one = 1, sum = 0;
        CHECK_OK(weft_allreduce(group, &one, &sum, 1, WEFT_INT32, WEFT_SUM, NULL));
        CHECK_BITS(sum == weft_comm_size(group));
        CHECK_OK(weft_comm_destroy(i % 2 ? copy : group));
        CHECK_OK(weft_comm_destroy(i % 2 ? group : copy));
    }
    CHECK(test_leak_check(&before) == 0);
    if (MEASURE)
        printf("rank %d: %ld kB more after %d cycles\n", rank, resident_kb() - before_kb, cycles);
    CHECK(!MEASURE || resident_kb() - before_kb <= growth_kb);
    CHECK_OK(job_close(&job));
    return 0;
}

static void test_cycles(void **state)
{
    (void)state;
    test_ranks_limit(240);
    assert_int_equal(test_ranks_fork(3, cycles_body, NULL), 0);
    test_ranks_limit(120);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_groups_shm),
        cmocka_unit_test(test_groups_tcp),
        cmocka_unit_test(test_undefined),
        cmocka_unit_test(test_arguments),
        cmocka_unit_test(test_dup_while_parent_works),
        cmocka_unit_test(test_two_threads),
        cmocka_unit_test(test_quarrels),
        cmocka_unit_test(test_no_descriptors),
        cmocka_unit_test(test_death),
        cmocka_unit_test(test_cycles),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
