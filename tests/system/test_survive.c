/* SPDX-License-Identifier: Apache-2.0 */
/* run: beside (deadlines); early */
/* After a death: the survivors agree on who died, make a smaller communicator, and compute on in it. And
 * aborting: every rank's call returns, and says who aborted and why. */
#include <pthread.h>
#include <setjmp.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/support/dying.h"
#include "tests/support/heartbeat.h"
#include "tests/support/job.h"
#include "tests/support/leak.h"
#include "tests/support/ranks.h"
#include "tests/support/effort.h"

#define COUNT 30000

/* Who dies when. */
struct deaths {
    const char *transports, *provider;
    unsigned in_allreduce;  /* bit per rank */
    unsigned before_shrink; /* when the first death is known */
    unsigned within_shrink; /* a moment after the call */
    int times;              /* how often the survivors shrink; in each further one the last rank dies */
    atomic_int *open;       /* ranks whose job is open; shared */
};

/* A rank whose job is open. One that is to die, or to abort, waits for the others: they have something to lose then. */
static void note_open(atomic_int *open, int waits, int ranks)
{
    atomic_fetch_add(open, 1);
    while (waits && atomic_load(open) < ranks)
        usleep(100);
}

/* Allreduces until one fails; with the right bits until then. */
static int compute(weft_comm *comm, int rounds)
{
    int rank = weft_comm_rank(comm), ranks = weft_comm_size(comm), status = WEFT_OK;
    int32_t *send = calloc(COUNT, 4), *recv = calloc(COUNT, 4);
    CHECK(send && recv);
    job_fill(send, WEFT_INT32, rank, COUNT);
    for (int i = 0; i < rounds && status == WEFT_OK; i++) {
        size_t count = i % 2 ? COUNT : 5;
        memset(recv, 0xff, COUNT * sizeof *recv);
        status = weft_allreduce(comm, send, recv, count, WEFT_INT32, WEFT_SUM, NULL);
        if (status == WEFT_OK && !BITS_AGREE(job_wrong(recv, WEFT_INT32, WEFT_SUM, ranks, count) == 0))
            status = 1;
    }
    free(send);
    free(recv);
    return status;
}

/* The list is in order, has plausible times and hosts, and is the same for all that ask for the same deaths. */
static int check_list(weft_comm *comm, uint64_t at_least)
{
    weft_failure failures[16] = {WEFT_FAILURE_INIT};
    char host[64] = "";
    int count = -1, ranks = weft_comm_size(comm);
    uint64_t listed = 0;
    gethostname(host, sizeof host - 1);
    CHECK_OK(
        weft_comm_get_failures(comm, failures, INT_MAX, &count)); /* but there are at most as many as ranks */
    CHECK(count >= 1 && count < ranks);
    for (int i = 0; i < count; i++) {
        CHECK(failures[i].rank >= 0 && failures[i].rank < ranks);
        CHECK(i == 0 || failures[i].rank > failures[i - 1].rank);
        CHECK(strcmp(failures[i].host, host) == 0);
        CHECK(failures[i].reason[0]);
        int64_t age_s = (int64_t)time(NULL) - failures[i].time_ns / 1000000000;
        CHECK(age_s >= -1 && age_s < 120);
        listed |= UINT64_C(1) << failures[i].rank;
    }
    CHECK((listed & at_least) == at_least);
    CHECK_OK(weft_comm_get_failures(comm, NULL, 0, &count));
    return 0;
}

static int bits(unsigned set)
{
    return __builtin_popcount(set);
}

static int shrink_body(int rank, int ranks, void *arg)
{
    const struct deaths *deaths = arg;
    unsigned me = 1u << rank, dead = deaths->in_allreduce | deaths->before_shrink | deaths->within_shrink;
    struct job job;
    CHECK_OK(job_open(&job, deaths->transports, deaths->provider));
    note_open(deaths->open, (deaths->in_allreduce & me) != 0, ranks);
    if (deaths->in_allreduce & me)
        CHECK(test_die_soon(3000) == 0);
    int status = compute(job.comm, 1000000);
    CHECK(status == WEFT_PEER_FAILED);
    while (deaths->in_allreduce & me)
        pause(); /* another died first: this one's own death is on its way, and it shrinks with nobody */
    if (deaths->before_shrink & me)
        raise(SIGKILL);
    if (deaths->within_shrink & me)
        CHECK(test_die_soon(200 + 1500 * (unsigned)(rank % 3)) == 0);
    weft_comm *comm = job.comm;
    for (int t = 0; t < deaths->times; t++) {
        weft_comm *smaller = NULL;
        CHECK_OK(weft_comm_shrink(comm, &smaller, NULL));
        CHECK(check_list(comm, comm == job.comm ? deaths->in_allreduce : 0) == 0);
        CHECK_OK(weft_comm_destroy(comm));
        comm = smaller;
        int last = t + 1 == deaths->times, size = weft_comm_size(comm);
        if (t == 0 && !deaths->within_shrink) {
            if (size != ranks - bits(dead))
                fprintf(stderr, "rank %d of %d: %d are left, of which %#x are to be dead\n", rank, ranks,
                        size, dead);
            CHECK(size == ranks - bits(dead));
            CHECK(weft_comm_rank(comm) == rank - bits(dead & (me - 1)));
        }
        if (!last && weft_comm_rank(comm) == size - 1)
            CHECK(test_die_soon(2000) == 0);
        status = compute(comm, last ? 20 : 1000000);
        if (last && deaths->within_shrink && status == WEFT_PEER_FAILED && size > ranks - bits(dead))
            t--; /* one of those that died within is a member of the new one: once more */
        else
            CHECK(status == (last ? WEFT_OK : WEFT_PEER_FAILED));
    }
    /* Who was to die within the shrink may have been a member all the time, and die now. */
    int may_fail = deaths->within_shrink && weft_comm_size(comm) > ranks - bits(dead);
    job.comm = comm;
    status = job_close(&job);
    CHECK(status == WEFT_OK || (may_fail && status == WEFT_PEER_FAILED));
    return 0;
}

static void shrink_jobs(const char *transports, const char *provider, atomic_int *open)
{
    static const struct {
        int ranks;
        struct deaths deaths;
    } cases[] = {
        {2, {.in_allreduce = 1 << 0, .times = 1}},
        {2, {.in_allreduce = 1 << 1, .times = 1}},
        {3, {.in_allreduce = 1 << 1, .times = 1}},
        {4, {.in_allreduce = 1 << 0, .before_shrink = 1 << 1, .times = 1}},
        {5, {.in_allreduce = 1 << 2, .within_shrink = 1 << 0, .times = 1}},
        {6, {.in_allreduce = 1 << 1, .before_shrink = 1 << 0, .within_shrink = 1 << 3, .times = 1}},
        {6, {.in_allreduce = 1 << 0 | 1 << 5, .times = 2}},
        {7, {.in_allreduce = 1 << 0, .within_shrink = 1 << 1 | 1 << 2, .times = 1}},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct deaths deaths = cases[c].deaths;
        if (test_is_sanitized() && c % 2 == (provider != NULL))
            continue; /* half of them each way */
        int statuses[TEST_RANKS_MAX], ranks = cases[c].ranks;
        deaths.open = open;
        atomic_store(open, 0);
        deaths.transports = transports;
        deaths.provider = provider;
        test_ranks_fork_status(ranks, shrink_body, &deaths, statuses);
        unsigned dying = deaths.in_allreduce | deaths.before_shrink | deaths.within_shrink;
        for (int r = 0, extra = 0; r < ranks; r++) {
            int killed = (statuses[r] & 0x7f) == SIGKILL;
            extra += killed && !(dying >> r & 1);
            if (extra > deaths.times - 1 || (!killed && statuses[r] != 0))
                fail_msg("%s, case %zu: rank %d ended with %d", transports, c, r, statuses[r]);
        }
    }
}

static void test_shrink_shm(void **state)
{
    (void)state;
    struct test_leak before;
    atomic_int *open = test_ranks_shared(sizeof *open);
    test_leak_take(&before);
    shrink_jobs("shm", NULL, open);
    assert_int_equal(test_leak_check(&before), 0);
}

static void test_shrink_tcp(void **state)
{
    (void)state;
    shrink_jobs("tcp", NULL, test_ranks_shared(sizeof(atomic_int)));
}

/* Nothing has failed: all ranks go on, in both communicators' memory of each other. */
static int duplicate_body(int rank, int ranks, void *arg)
{
    (void)arg;
    struct job job;
    CHECK_OK(job_open(&job, "shm", NULL));
    int count = -1;
    CHECK_OK(weft_comm_get_failures(job.comm, NULL, 0, &count));
    CHECK(count == 0);
    weft_comm *same = NULL;
    CHECK_OK(weft_comm_shrink(job.comm, &same, NULL));
    CHECK(weft_comm_rank(same) == rank && weft_comm_size(same) == ranks);
    CHECK_OK(compute(job.comm, 4));
    CHECK_OK(compute(same, 4));
    CHECK_OK(weft_comm_destroy(same));
    CHECK_OK(compute(job.comm, 4));
    CHECK_OK(job_close(&job));
    return 0;
}

static void test_duplicate(void **state)
{
    (void)state;
    for (int ranks = 1; ranks <= 3; ranks++)
        assert_int_equal(test_ranks_fork(ranks, duplicate_body, NULL), 0);
}

/* Shared by the ranks. */
struct abort_call {
    size_t count;
    _Atomic int ended; /* calls */
};

struct aborter {
    weft_comm *comm;
    int status;
};

static void *abort_soon(void *arg)
{
    struct aborter *aborter = arg;
    usleep(20000); /* any moment of the others' calls */
    aborter->status = weft_comm_abort(aborter->comm, "the model diverged");
    return NULL;
}

/* Rank 1 aborts from a thread beside while all others are inside the call. The last rank stays away until their calls have ended. What
 * they gave to the operation may be all there still: then its own first call is good, if it has not heard of the abort. */
static int abort_body(int rank, int ranks, void *arg)
{
    struct abort_call *shared = arg;
    size_t count = shared->count;
    struct job job;
    CHECK_OK(job_open(&job, "shm", NULL));
    struct aborter aborter = {job.comm, 1};
    pthread_t thread;
    int32_t *data = calloc(count, 4);
    CHECK(data);
    if (rank == 1)
        CHECK(pthread_create(&thread, NULL, abort_soon, &aborter) == 0);
    while (rank == ranks - 1 && shared->ended < ranks - 1)
        usleep(1000);
    int status = weft_allreduce(job.comm, data, data, count, WEFT_INT32, WEFT_SUM, NULL);
    if (rank == ranks - 1 && status == WEFT_OK)
        status = weft_allreduce(job.comm, data, data, count, WEFT_INT32, WEFT_SUM, NULL);
    shared->ended++;
    CHECK(status == WEFT_REVOKED);
    CHECK(strstr(weft_error_detail(), "rank 1"));
    CHECK(strstr(weft_error_detail(), "the model diverged"));
    if (rank == 1) {
        pthread_join(thread, NULL);
        CHECK(aborter.status == WEFT_OK);
    }
    CHECK_OK(weft_comm_abort(job.comm, NULL)); /* once more does no harm */
    int dead = -1;
    CHECK_OK(weft_comm_get_failures(job.comm, NULL, 0, &dead));
    CHECK(dead == 0);
    free(data);
    CHECK_OK(job_close(&job));
    return 0;
}

static void test_abort(void **state)
{
    (void)state;
    const size_t counts[] = {2, test_is_sanitized() ? 200000 : 2000000};
    struct abort_call *shared = test_ranks_shared(sizeof *shared);
    for (size_t c = 0; c < 2; c++) {
        for (int ranks = 3; ranks <= 4; ranks++) {
            *shared = (struct abort_call){.count = counts[c]};
            assert_int_equal(test_ranks_fork(ranks, abort_body, shared), 0);
        }
    }
}

static int abort_alone_body(int rank, int ranks, void *arg)
{
    (void)rank;
    (void)ranks;
    (void)arg;
    struct job job;
    int32_t value = 5;
    CHECK_OK(job_open(&job, "shm", NULL));
    CHECK_OK(weft_allreduce(job.comm, &value, &value, 1, WEFT_INT32, WEFT_SUM, NULL));
    CHECK_OK(weft_comm_abort(job.comm, "enough"));
    CHECK(weft_allreduce(job.comm, &value, &value, 1, WEFT_INT32, WEFT_SUM, NULL) == WEFT_REVOKED);
    CHECK(strstr(weft_error_detail(), "enough"));
    CHECK(weft_comm_abort(NULL, NULL) == WEFT_INVALID);
    CHECK(weft_comm_shrink(NULL, NULL, NULL) == WEFT_INVALID);
    CHECK(weft_comm_get_failures(NULL, NULL, 0, NULL) == WEFT_INVALID);
    int count;
    CHECK(weft_comm_get_failures(job.comm, NULL, 3, &count) == WEFT_INVALID);
    CHECK_OK(job_close(&job));
    return 0;
}

static void test_abort_alone(void **state)
{
    (void)state;
    assert_int_equal(test_ranks_fork(1, abort_alone_body, NULL), 0);
}

/* A rank that stands still is left behind; when it goes on it learns so, from every call. */
static int stopped_body(int rank, int ranks, void *arg)
{
    _Atomic int *stopped = arg; /* shared: the pid to wake */
    test_silence_set();
    struct job job;
    CHECK_OK(job_open(&job, "shm", NULL));
    CHECK_OK(compute(job.comm, 2));
    if (rank == 1) {
        *stopped = getpid();
        raise(SIGSTOP);
        int status = compute(job.comm, 1000000);
        CHECK(status == WEFT_PEER_FAILED);
        CHECK(strstr(weft_error_detail(), "declared dead by rank"));
        weft_comm *smaller = NULL;
        CHECK(weft_comm_shrink(job.comm, &smaller, NULL) == WEFT_PEER_FAILED);
        CHECK(strstr(weft_error_detail(), "declared dead by rank"));
    } else {
        CHECK(compute(job.comm, 1000000) == WEFT_PEER_FAILED);
        CHECK(strstr(weft_error_detail(), "rank 1"));
        weft_comm *smaller = NULL;
        CHECK_OK(weft_comm_shrink(job.comm, &smaller, NULL));
        CHECK(weft_comm_size(smaller) == ranks - 1);
        CHECK_OK(compute(smaller, 10));
        CHECK_OK(weft_comm_destroy(smaller));
        if (rank == 0)
            kill(*stopped, SIGCONT);
    }
    CHECK_OK(job_close(&job));
    return 0;
}

static void test_stopped(void **state)
{
    (void)state;
    _Atomic int *stopped = test_ranks_shared(sizeof *stopped);
    assert_int_equal(test_ranks_fork(2, stopped_body, (void *)(uintptr_t)stopped), 0);
    assert_int_equal(test_ranks_fork(4, stopped_body, (void *)(uintptr_t)stopped), 0);
}

/* A rank stands still in the middle of the survivors' meeting: they begin again without it, and do not first wait as
 * long as a meeting may take, which is as long as they have. */
struct stopping {
    _Atomic int pid; /* to wake */
    _Atomic int done;
    atomic_int open;
    unsigned delay_us;
};

static void *stop_soon(void *arg)
{
    struct stopping *stopping = arg;
    usleep(stopping->delay_us);
    stopping->pid = getpid();
    kill(getpid(), SIGSTOP);
    return NULL;
}

static int stopped_within_body(int rank, int ranks, void *arg)
{
    struct stopping *stopping = arg;
    struct job job;
    pthread_t thread;
    test_silence_set();
    CHECK_OK(job_open(&job, "shm", NULL));
    note_open(&stopping->open, rank == ranks - 1, ranks);
    if (rank == ranks - 1)
        CHECK(test_die_soon(2000) == 0);
    CHECK(compute(job.comm, 1000000) == WEFT_PEER_FAILED);
    weft_comm *smaller = NULL;
    if (rank == 1) {
        CHECK(pthread_create(&thread, NULL, stop_soon, stopping) == 0);
        if (weft_comm_shrink(job.comm, &smaller, NULL) == WEFT_OK)
            weft_comm_destroy(smaller);
        pthread_join(thread, NULL);
        job_close(&job);
        return 0;
    }
    weft_comm *comm = job.comm;
    do { /* more than once when the first meeting was over already */
        CHECK_OK(weft_comm_shrink(comm, &smaller, NULL));
        CHECK_OK(weft_comm_destroy(comm));
        comm = smaller;
        int status = compute(comm, weft_comm_size(comm) == ranks - 2 ? 10 : 1000000);
        CHECK(status == (weft_comm_size(comm) == ranks - 2 ? WEFT_OK : WEFT_PEER_FAILED));
    } while (weft_comm_size(comm) > ranks - 2);
    if (++stopping->done == ranks - 2)
        kill(stopping->pid, SIGCONT);
    job.comm = comm;
    CHECK_OK(job_close(&job));
    return 0;
}

static void test_stopped_within(void **state)
{
    (void)state;
    static const unsigned delays_us[] = {0, 500, 1500, 3000};
    struct stopping *stopping = test_ranks_shared(sizeof *stopping);
    for (size_t d = 0; d < sizeof delays_us / sizeof *delays_us; d++) {
        int statuses[4];
        *stopping = (struct stopping){.delay_us = delays_us[d]};
        test_ranks_fork_status(4, stopped_within_body, stopping, statuses);
        for (int r = 0; r < 3; r++)
            if (statuses[r] != 0)
                fail_msg("after %u us: rank %d ended with %d", delays_us[d], r, statuses[r]);
    }
}

/* Two of those who go away before others shrink. */
struct leaving {
    int killed;           /* -1: nobody, the communicator is aborted */
    unsigned leave, late; /* bit per rank: destroys its communicator; a moment after the others call */
    atomic_int *open;
};

static int leaving_body(int rank, int ranks, void *arg)
{
    const struct leaving *leaving = arg;
    struct job job;
    int staying = 0, below = 0;
    CHECK_OK(job_open(&job, "shm", NULL));
    note_open(leaving->open, rank == leaving->killed || leaving->killed < 0, ranks);
    if (rank == leaving->killed)
        CHECK(test_die_soon(3000) == 0);
    if (leaving->killed < 0 && rank == ranks - 1)
        CHECK_OK(weft_comm_abort(job.comm, "that is all"));
    CHECK(compute(job.comm, 1000000) < 0);
    if (leaving->leave >> rank & 1) {
        if (leaving->late >> rank & 1)
            usleep(100000);
        CHECK_OK(job_close(&job));
        return 0;
    }
    for (int r = 0; r < ranks; r++) {
        int stays = r != leaving->killed && !(leaving->leave >> r & 1);
        staying += stays;
        below += stays && r < rank;
    }
    weft_comm *smaller = NULL;
    CHECK_OK(weft_comm_shrink(job.comm, &smaller, NULL));
    CHECK(weft_comm_size(smaller) == staying && weft_comm_rank(smaller) == below);
    CHECK_OK(compute(smaller, 10));
    CHECK_OK(weft_comm_destroy(smaller));
    CHECK_OK(job_close(&job));
    return 0;
}

/* Ranks that have left take no part, and the lowest that stays is rank 0, whether it knew or not. */
static void test_lower_ranks_leave(void **state)
{
    (void)state;
    static const struct {
        int ranks;
        struct leaving leaving;
    } cases[] = {
        {3, {.killed = 2, .leave = 1}},
        {3, {.killed = 2, .leave = 1, .late = 1}},
        {4, {.killed = -1, .leave = 1}},
        {5, {.killed = -1, .leave = 1 | 2, .late = 2}},
    };
    atomic_int *open = test_ranks_shared(sizeof *open);
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        int statuses[TEST_RANKS_MAX], ranks = cases[c].ranks;
        struct leaving leaving = cases[c].leaving;
        leaving.open = open;
        atomic_store(open, 0);
        test_ranks_fork_status(ranks, leaving_body, &leaving, statuses);
        for (int r = 0; r < ranks; r++)
            if (statuses[r] != 0 && (r != cases[c].leaving.killed || (statuses[r] & 0x7f) != SIGKILL))
                fail_msg("case %zu: rank %d ended with %d", c, r, statuses[r]);
    }
}

/* Rank 0 does not shrink: what ends the others' call is an abort by a thread of one of them. */
struct abort_shrink {
    int by;
    _Atomic int ended; /* ranks whose call has */
};

struct repeated {
    weft_comm *comm;
    struct abort_shrink *shared;
    int until, status;
};

/* Again and again, since the others need not have begun yet. */
static void *abort_until_ended(void *arg)
{
    struct repeated *repeated = arg;
    while (repeated->shared->ended < repeated->until && repeated->status == WEFT_OK) {
        usleep(20000);
        repeated->status = weft_comm_abort(repeated->comm, "the model diverged");
    }
    return NULL;
}

static int abort_shrink_body(int rank, int ranks, void *arg)
{
    struct abort_shrink *shared = arg;
    struct job job;
    CHECK_OK(job_open(&job, "shm", NULL));
    struct repeated repeated = {job.comm, shared, ranks - 1, WEFT_OK};
    pthread_t thread;
    weft_comm *smaller = NULL;
    if (rank == ranks - 1) /* what is known before does not end it */
        CHECK_OK(weft_comm_abort(job.comm, "for a start"));
    CHECK(compute(job.comm, 1000000) == WEFT_REVOKED);
    if (rank == shared->by)
        CHECK(pthread_create(&thread, NULL, abort_until_ended, &repeated) == 0);
    if (rank != 0) {
        char who[16];
        snprintf(who, sizeof who, "rank %d ", shared->by);
        int status;
        do /* an abort is one of a shrink for as long as its rank shrinks */
            status = weft_comm_shrink(job.comm, &smaller, NULL);
        while (rank == shared->by && status == WEFT_REVOKED && shared->ended < ranks - 2);
        shared->ended++;
        if (status != WEFT_REVOKED)
            fprintf(stderr, "rank %d: %s (%s)\n", rank, weft_strerror(status), weft_error_detail());
        CHECK(status == WEFT_REVOKED && !smaller);
        CHECK(strstr(weft_error_detail(), who) && strstr(weft_error_detail(), "the model diverged"));
    }
    if (rank == shared->by) {
        pthread_join(thread, NULL);
        CHECK_OK(repeated.status);
    }
    while (shared->ended < ranks - 1) /* rank 0 stays, or the others could do without it */
        usleep(1000);
    CHECK_OK(job_close(&job));
    return 0;
}

static void test_abort_ends_shrink(void **state)
{
    (void)state;
    struct abort_shrink *shared = test_ranks_shared(sizeof *shared);
    for (int ranks = 2; ranks <= 4; ranks += 2) {
        for (int by = 1; by < ranks; by += 2) {
            *shared = (struct abort_shrink){.by = by};
            assert_int_equal(test_ranks_fork(ranks, abort_shrink_body, shared), 0);
        }
    }
}

/* Every rank aborts when it likes, some while others shrink already: that ends nothing. */
static int abort_then_shrink_body(int rank, int ranks, void *arg)
{
    (void)arg;
    struct job job;
    weft_comm *smaller;
    CHECK_OK(job_open(&job, "shm", NULL));
    int status = compute(job.comm, 1); /* once one is through it, all have the communicator */
    CHECK(status == WEFT_OK || status == WEFT_REVOKED);
    usleep((unsigned)(rank * 7 % 5) * 20000);
    CHECK_OK(weft_comm_abort(job.comm, "the model diverged"));
    CHECK_OK(weft_comm_abort(job.comm, "and once more"));
    CHECK_OK(weft_comm_shrink(job.comm, &smaller, NULL));
    CHECK(weft_comm_size(smaller) == ranks && weft_comm_rank(smaller) == rank);
    CHECK_OK(compute(smaller, (int)test_by_effort(50, 200, 1000)));
    CHECK_OK(weft_comm_destroy(smaller));
    CHECK_OK(job_close(&job));
    return 0;
}

static void test_abort_then_shrink(void **state)
{
    (void)state;
    for (int ranks = 2; ranks <= 6; ranks++)
        assert_int_equal(test_ranks_fork(ranks, abort_then_shrink_body, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shrink_shm),        cmocka_unit_test(test_shrink_tcp),
        cmocka_unit_test(test_duplicate),         cmocka_unit_test(test_abort),
        cmocka_unit_test(test_abort_alone),       cmocka_unit_test(test_stopped),
        cmocka_unit_test(test_stopped_within),    cmocka_unit_test(test_lower_ranks_leave),
        cmocka_unit_test(test_abort_ends_shrink), cmocka_unit_test(test_abort_then_shrink),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
