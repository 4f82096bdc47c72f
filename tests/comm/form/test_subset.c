/* SPDX-License-Identifier: Apache-2.0 */
/* build: with tests/clock/; wrap @tests/clock/wraps */
/* Communicators that only the listed ranks make: orders, several at once, lists that differ, ranks that do not come, and
 * the program's own messages meanwhile.
 *
 * Deadlines are a minute. A rank that is to see one pass hurries its clock; who comes late waits until it has.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/clock.h"
#include "comm/core/oob.h"
#include "tests/clock/clock.h"
#include "tests/support/golden.h"
#include "tests/support/job.h"
#include "tests/support/leak.h"
#include "tests/support/ranks.h"

#define TIMEOUT_MS 60000
#define HURRY      100

/* Shared by the ranks: how many have got somewhere. */
static _Atomic int *passed;

static void await(int wanted)
{
    while (*passed < wanted)
        usleep(1000);
}

struct way {
    const char *transports;
};
static const struct way shm = {"shm"}, tcp = {"tcp"};

/* Each member passes its rank in the job. */
static int sum_is(weft_comm *comm, int member, int expected)
{
    int32_t mine = member, sum = -1;
    CHECK_OK(weft_allreduce(comm, &mine, &sum, 1, WEFT_INT32, WEFT_SUM, NULL));
    CHECK_BITS(sum == expected);
    return 0;
}

/* Even ranks backwards, the rest not at all; the program's messages with the same tag stay the program's. */
static int even_body(int rank, int ranks, void *arg)
{
    const struct way *way = arg;
    struct job job;
    int list[16], count = 0, sum = 0;
    weft_comm *even = NULL, *inner = NULL;
    weft_work *work;
    CHECK_OK(job_open(&job, way->transports, NULL));
    for (int r = (ranks - 1) / 2 * 2; r >= 0; r -= 2) {
        list[count++] = r;
        sum += r;
    }
    int64_t sent = rank, received = -1;
    int from = (rank + ranks - 1) % ranks;
    CHECK_OK(weft_recv(job.comm, &received, 1, WEFT_INT64, WEFT_ANY_SOURCE, WEFT_ANY_TAG, NULL,
                       WEFT_START(&work)));
    if (rank % 2 == 0) {
        CHECK_OK(weft_comm_subset(job.comm, list, count, 3, &even, NULL));
        CHECK(weft_comm_size(even) == count && weft_comm_rank(even) == (ranks - 1) / 2 - rank / 2);
        CHECK_BITS(sum_is(even, rank, sum) == 0);
        /* One of itself, which needs nobody. */
        int self = weft_comm_rank(even);
        CHECK_OK(weft_comm_subset(even, &self, 1, 3, &inner, NULL));
        CHECK_BITS(weft_comm_size(inner) == 1 && sum_is(inner, rank, rank) == 0);
        CHECK_OK(weft_comm_destroy(inner));
    }
    CHECK_OK(weft_send(job.comm, &sent, 1, WEFT_INT64, (rank + 1) % ranks, 3, NULL));
    CHECK_OK(weft_work_wait(work, -1));
    CHECK_BITS(received == from);
    CHECK_OK(weft_work_free(work));
    CHECK_BITS(sum_is(job.comm, rank, ranks * (ranks - 1) / 2) == 0);
    CHECK_OK(weft_comm_destroy(job.comm));
    if (even) {
        CHECK_BITS(sum_is(even, rank, sum) == 0);
        CHECK_OK(weft_comm_destroy(even));
    }
    CHECK_OK(weft_context_close(job.context));
    return 0;
}

static void test_even(void **state)
{
    (void)state;
    static const int sizes[] = {1, 2, 3, 4, 7};
    for (int i = 0; i < 5; i++)
        assert_int_equal(test_ranks_fork(sizes[i], even_body, (void *)(uintptr_t)&shm), 0);
    assert_int_equal(test_ranks_threads(4, even_body, (void *)(uintptr_t)&shm), 0);
}

static void test_even_tcp(void **state)
{
    (void)state;
    assert_int_equal(test_ranks_fork(5, even_body, (void *)(uintptr_t)&tcp), 0);
}

/* Pairs in a ring, each rank in two of them, one after the other, all with one tag: and nothing stays behind. */
static int ring_body(int rank, int ranks, void *arg)
{
    (void)arg;
    struct job job;
    struct test_leak before;
    CHECK_OK(job_open(&job, "shm", NULL));
    for (int round = 0; round < 12; round++) {
        int right = (rank + 1) % ranks, left = (rank + ranks - 1) % ranks;
        int with_right[2] = {rank, right}, with_left[2] = {left, rank};
        weft_comm *first, *second;
        if (round == 2) {
            CHECK_BITS(sum_is(job.comm, 0, 0) == 0);
            test_leak_take(&before);
        }
        CHECK_OK(weft_comm_subset(job.comm, rank % 2 ? with_left : with_right, 2, 9, &first, NULL));
        CHECK_OK(weft_comm_subset(job.comm, rank % 2 ? with_right : with_left, 2, 9, &second, NULL));
        CHECK_BITS(sum_is(first, rank, rank + (rank % 2 ? left : right)) == 0);
        CHECK_BITS(sum_is(second, rank, rank + (rank % 2 ? right : left)) == 0);
        CHECK_OK(weft_comm_destroy(first));
        CHECK_OK(weft_comm_destroy(second));
    }
    CHECK_BITS(sum_is(job.comm, 0, 0) == 0);
    CHECK(test_leak_check(&before) == 0);
    CHECK_OK(job_close(&job));
    return 0;
}

static void test_ring(void **state)
{
    (void)state;
    assert_int_equal(test_ranks_fork(4, ring_body, NULL), 0);
}

static int arguments_body(int rank, int ranks, void *arg)
{
    (void)arg;
    struct job job;
    weft_comm *out = NULL;
    CHECK_OK(job_open(&job, "shm", NULL));
    int good[3] = {0, 1, 2}, beyond[2] = {rank, ranks}, negative[2] = {-1, rank}, twice[3] = {rank, 2, rank};
    int without[1] = {(rank + 1) % ranks};
    CHECK(weft_comm_subset(NULL, good, 3, 0, &out, NULL) == WEFT_INVALID);
    CHECK(weft_comm_subset(job.comm, NULL, 3, 0, &out, NULL) == WEFT_INVALID);
    CHECK(weft_comm_subset(job.comm, good, 3, 0, NULL, NULL) == WEFT_INVALID);
    CHECK(weft_comm_subset(job.comm, good, 3, -1, &out, NULL) == WEFT_INVALID);
    CHECK(weft_comm_subset(job.comm, good, 0, 0, &out, NULL) == WEFT_INVALID);
    CHECK(weft_comm_subset(job.comm, good, 4, 0, &out, NULL) == WEFT_INVALID);
    CHECK(weft_comm_subset(job.comm, beyond, 2, 0, &out, NULL) == WEFT_INVALID);
    CHECK(golden_matches("subset-rank-beyond", "1", "3"));
    CHECK(weft_comm_subset(job.comm, negative, 2, 0, &out, NULL) == WEFT_INVALID);
    CHECK(weft_comm_subset(job.comm, twice, 3, 0, &out, NULL) == WEFT_INVALID);
    CHECK(golden_matches("subset-rank-twice"));
    CHECK(weft_comm_subset(job.comm, without, 1, 0, &out, NULL) == WEFT_INVALID);
    CHECK(golden_matches("subset-without-caller"));
    CHECK(out == NULL);
    CHECK_OK(weft_comm_subset(job.comm, good, 3, 0, &out, NULL));
    CHECK_BITS(sum_is(out, rank, 3) == 0);
    CHECK_OK(weft_comm_destroy(out));
    CHECK_OK(job_close(&job));
    return 0;
}

static void test_arguments(void **state)
{
    (void)state;
    assert_int_equal(test_ranks_fork(3, arguments_body, NULL), 0);
}

/* Rank 2 passes another order, and then a longer list: all members hear of it, and the communicator goes on. */
static int differ_body(int rank, int ranks, void *arg)
{
    (void)arg;
    struct job job;
    weft_comm *out = NULL;
    CHECK_OK(job_open(&job, "shm", NULL));
    int list[4] = {0, 1, 2, 3}, other[4] = {0, 2, 1, 3};
    CHECK(weft_comm_subset(job.comm, rank == 2 ? other : list, 3, 1, &out, NULL) ==
          (rank == 3 ? WEFT_INVALID : WEFT_MISMATCH));
    CHECK(rank == 3 || golden_matches("subset-order-differs", "1", "2", "2", "1", "0", "1"));
    if (rank < 3) {
        CHECK(weft_comm_subset(job.comm, list, rank == 2 ? 4 : 3, 2, &out, NULL) == WEFT_MISMATCH);
        CHECK(golden_matches("subset-size-differs", "2", "2", "4", "0", "3"));
    }
    CHECK(out == NULL);
    CHECK_BITS(sum_is(job.comm, rank, ranks * (ranks - 1) / 2) == 0);
    CHECK_OK(weft_comm_subset(job.comm, list, 4, 3, &out, NULL));
    CHECK_BITS(sum_is(out, rank, 6) == 0);
    CHECK_OK(weft_comm_destroy(out));
    CHECK_OK(job_close(&job));
    return 0;
}

static void test_lists_differ(void **state)
{
    (void)state;
    assert_int_equal(test_ranks_fork(4, differ_body, NULL), 0);
}

static int open_job(struct job *job)
{
    weft_comm_options options = WEFT_COMM_OPTIONS_INIT;
    test_ranks_options(&options);
    options.timeout_ms = TIMEOUT_MS;
    CHECK_OK(weft_context_open(NULL, &job->context));
    CHECK_OK(weft_comm_create(job->context, &options, &job->comm));
    return 0;
}

/* The call of this rank, in which its deadline passes; or that of the leader, which says so. */
static int times_out(weft_comm *comm, const int *list, int count, int64_t tag)
{
    weft_comm *out = NULL;
    int64_t start_ns = weft_clock_ns();
    test_clock_hurry(HURRY);
    int status = weft_comm_subset(comm, list, count, tag, &out, NULL);
    int64_t took_ns = weft_clock_ns() - start_ns;
    test_clock_hurry(1);
    CHECK(status == WEFT_TIMEOUT && out == NULL);
    CHECK(took_ns >= TIMEOUT_MS * INT64_C(1000000) || strstr(weft_error_detail(), "has not come within"));
    return 0;
}

/* A rank does not come: the others say which, and go on; with another tag it can be tried again. The leader, which is
 * rank 0, hurries and announces it to the others; where it is the one that does not come, the others do. */
static int absent_body(int rank, int ranks, void *arg)
{
    const int absent = *(int *)arg;
    struct job job;
    weft_comm *out = NULL;
    CHECK(open_job(&job) == 0);
    int list[3] = {0, 1, 2};
    char expected[32];
    snprintf(expected, sizeof expected, "rank %d", absent);
    if (rank == absent) {
        await(2);
    } else {
        if (rank == 0 || absent == 0)
            CHECK(times_out(job.comm, list, 3, 1) == 0);
        else
            CHECK(weft_comm_subset(job.comm, list, 3, 1, &out, NULL) == WEFT_TIMEOUT);
        CHECK(out == NULL && strstr(weft_error_detail(), expected));
        ++*passed;
    }
    CHECK_BITS(sum_is(job.comm, rank, ranks * (ranks - 1) / 2) == 0);
    CHECK_OK(weft_comm_subset(job.comm, list, 3, 2, &out, NULL));
    CHECK_BITS(sum_is(out, rank, 3) == 0);
    CHECK_OK(weft_comm_destroy(out));
    CHECK_OK(job_close(&job));
    return 0;
}

static void test_absent(void **state)
{
    (void)state;
    for (int absent = 0; absent < 2; absent++) {
        *passed = 0;
        assert_int_equal(test_ranks_fork(3, absent_body, &absent), 0);
    }
}

static int is_clear(weft_comm *comm)
{
    weft_context_lock(comm->context);
    int clear = weft_p2p_oob_next_of_all(comm->p2p, NULL) == NULL;
    weft_context_unlock(comm->context);
    return clear;
}

/* The program's messages have used up all that one rank may send to the other inside messages; with `tiny` that is next
 * to nothing. First the leader comes not at all; then both do, before anything has been received. */
static int flood_body(int rank, int ranks, void *arg)
{
    enum { FLOOD = WEFT_P2P_CREDIT / (1 + WEFT_P2P_COST) };
    const int tiny = *(int *)arg;
    (void)ranks;
    struct job job;
    weft_comm *out = NULL;
    int list[2] = {0, 1};
    char byte = 7, other;
    weft_work *work;
    if (tiny)
        setenv("WEFT_EAGER_SHM", "0", 1);
    CHECK(open_job(&job) == 0);
    if (rank == 0) /* so that what comes is taken from the ring meanwhile */
        CHECK_OK(weft_recv(job.comm, &other, 1, WEFT_INT8, 1, 99, NULL, WEFT_START(&work)));
    for (int i = 0; i < FLOOD && rank == 1; i++)
        CHECK_OK(weft_send(job.comm, &byte, 1, WEFT_INT8, 0, 5, NULL));
    if (rank == 1) {
        CHECK(times_out(job.comm, list, 2, 1) == 0);
        CHECK(strstr(weft_error_detail(), "weft_comm_subset with tag 1: no answer from rank 0"));
        ++*passed;
    } else {
        await(1);
        CHECK_OK(weft_work_cancel(work));
        CHECK(weft_work_free(work) == WEFT_CANCELLED);
    }
    CHECK_BITS(sum_is(job.comm, rank, 1) == 0);
    CHECK_OK(weft_comm_subset(job.comm, list, 2, 2, &out, NULL));
    CHECK_BITS(sum_is(out, rank, 1) == 0);
    CHECK_OK(weft_comm_destroy(out));
    for (int i = 0; i < FLOOD && rank == 0; i++) {
        byte = 0;
        CHECK_OK(weft_recv(job.comm, &byte, 1, WEFT_INT8, 1, 5, NULL, NULL));
        CHECK_BITS(byte == 7);
    }
    CHECK_OK(job_close(&job));
    return 0;
}

static void test_flood(void **state)
{
    (void)state;
    for (int tiny = 0; tiny < 2; tiny++) {
        *passed = 0;
        assert_int_equal(test_ranks_fork(2, flood_body, &tiny), 0);
    }
}

/* One rank comes when the deadline of the others has passed: it learns at once that the tag is used up, as they know already, and nothing
 * stays of what has failed. With another tag all goes well. */
static int used_body(int rank, int ranks, void *arg)
{
    const int late = *(int *)arg;
    struct job job;
    weft_comm *out = NULL;
    int list[3] = {0, 1, 2};
    CHECK(open_job(&job) == 0);
    if (rank != late) {
        if (rank == 0 || late == 0)
            CHECK(times_out(job.comm, list, 3, 4) == 0);
        else
            CHECK(weft_comm_subset(job.comm, list, 3, 4, &out, NULL) == WEFT_TIMEOUT);
        ++*passed;
    }
    await(ranks - 1);
    CHECK_BITS(sum_is(job.comm, rank, ranks * (ranks - 1) / 2) == 0); /* what was on its way has arrived */
    for (int i = 0; i < 2; i++) { /* the clock does not hurry: it would be a minute else */
        CHECK(weft_comm_subset(job.comm, list, 3, 4, &out, NULL) == WEFT_TIMEOUT && out == NULL);
        CHECK((rank == late && i == 0) || golden_matches("subset-tag-used", "4"));
    }
    CHECK_OK(weft_comm_subset(job.comm, list, 3, 5, &out, NULL));
    CHECK_BITS(sum_is(out, rank, 3) == 0);
    CHECK_OK(weft_comm_destroy(out));
    CHECK_BITS(sum_is(job.comm, rank, ranks * (ranks - 1) / 2) == 0);
    CHECK(is_clear(job.comm));
    CHECK_OK(job_close(&job));
    return 0;
}

static void test_tag_used_up(void **state)
{
    (void)state;
    for (int late = 0; late < 3; late++) {
        *passed = 0;
        assert_int_equal(test_ranks_fork(3, used_body, &late), 0);
    }
}

/* So much of weft's own lies at the leader that no more may be sent to it: the call fails, and nothing else. Once the
 * leader has looked there is room again. */
static int full_body(int rank, int ranks, void *arg)
{
    (void)arg;
    static const char junk[WEFT_P2P_OOB_MAX];
    struct job job;
    weft_comm *out = NULL;
    int list[2] = {0, 1}, status = WEFT_OK, sent = 0;
    CHECK(open_job(&job) == 0);
    if (rank == 1) {
        test_clock_hurry(HURRY);
        while (status == WEFT_OK && sent++ < 1000)
            status = weft_oob_send(job.comm, junk, sizeof junk, 0, 6, weft_deadline_ns(TIMEOUT_MS));
        CHECK(status == WEFT_TIMEOUT && sent < 1000);
        CHECK(times_out(job.comm, list, 2, 2) == 0);
        CHECK(strstr(weft_error_detail(), "weft_comm_subset with tag 2: rank 0 on host"));
        CHECK(strstr(weft_error_detail(), "takes no messages"));
        ++*passed;
    } else {
        await(1);
    }
    CHECK_BITS(sum_is(job.comm, rank, ranks * (ranks - 1) / 2) == 0);
    CHECK_OK(weft_comm_subset(job.comm, list, 2, 3, &out, NULL));
    CHECK_BITS(sum_is(out, rank, 1) == 0);
    CHECK(is_clear(job.comm));
    CHECK_OK(weft_comm_destroy(out));
    CHECK_OK(job_close(&job));
    return 0;
}

static void test_full(void **state)
{
    (void)state;
    *passed = 0;
    assert_int_equal(test_ranks_fork(2, full_body, NULL), 0);
}

/* A member dies instead of coming. */
static int death_body(int rank, int ranks, void *arg)
{
    const int dead = *(int *)arg;
    (void)ranks;
    struct job job;
    weft_comm *out = NULL;
    CHECK_OK(job_open(&job, "shm", NULL));
    int list[3] = {0, 1, 2};
    if (rank == dead) {
        await(2);
        _exit(3);
    }
    ++*passed;
    int status = weft_comm_subset(job.comm, list, 3, 1, &out, NULL);
    CHECK((status == WEFT_PEER_FAILED || status == WEFT_REVOKED) && out == NULL);
    CHECK_OK(job_close(&job));
    return 0;
}

static void test_death(void **state)
{
    (void)state;
    for (int dead = 0; dead < 3; dead++) {
        int statuses[3];
        *passed = 0;
        assert_int_equal(test_ranks_fork_status(3, death_body, &dead, statuses), 1);
        assert_int_not_equal(statuses[dead], 0);
    }
}

int main(void)
{
    passed = mmap(NULL, sizeof *passed, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (passed == MAP_FAILED)
        return 1;
    setenv("WEFT_HEARTBEAT_MS", "600000", 1); /* a death is noticed by the connection that ends */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_even),      cmocka_unit_test(test_even_tcp),     cmocka_unit_test(test_ring),
        cmocka_unit_test(test_arguments), cmocka_unit_test(test_lists_differ), cmocka_unit_test(test_absent),
        cmocka_unit_test(test_flood),     cmocka_unit_test(test_tag_used_up),  cmocka_unit_test(test_full),
        cmocka_unit_test(test_death),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
