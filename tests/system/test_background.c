/* SPDX-License-Identifier: Apache-2.0 */
/* Communicators made without blocking: what can be done meanwhile and what cannot, who hears of the end, errors, and nothing left behind.
 */
#include <fcntl.h>
#include <poll.h>
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

#include "tests/support/job.h"
#include "tests/support/leak.h"
#include "tests/support/ranks.h"

/* Shared by the ranks: how many have got somewhere. */
static _Atomic int *passed;

static void await(int wanted)
{
    while (*passed < wanted)
        usleep(1000);
}

static int sum_is(weft_comm *comm, int expected)
{
    int32_t one = 1, sum = 0;
    CHECK_OK(weft_allreduce(comm, &one, &sum, 1, WEFT_INT32, WEFT_SUM, NULL));
    CHECK_BITS(sum == expected);
    return 0;
}

static int end(weft_work *work)
{
    CHECK_OK(weft_work_wait(work, -1));
    CHECK_OK(weft_work_wait(work, 0));
    CHECK_OK(weft_work_free(work));
    return 0;
}

/* --- each way to make one */

struct heard {
    _Atomic int calls;
    int status;
    char detail[300];
};

static void note(void *arg, int status, const char *detail)
{
    struct heard *heard = arg;
    heard->status = status;
    snprintf(heard->detail, sizeof heard->detail, "%s", detail);
    heard->calls++;
}

/* The options belong to the program again when the call has returned. */
static int create_body(int rank, int ranks, void *arg)
{
    (void)rank, (void)arg;
    struct test_leak before;
    test_leak_take(&before);
    struct heard heard = {.status = 1};
    char address[64], secret[] = TEST_SECRET, name[] = "by the way";
    weft_context *context;
    weft_comm *comm = NULL;
    weft_work *work;
    int fd;
    uint64_t ended;
    weft_comm_options options = WEFT_COMM_OPTIONS_INIT;
    CHECK_OK(weft_context_open(NULL, &context));
    CHECK_OK(weft_context_get_fd(context, &fd));
    test_ranks_options(&options);
    snprintf(address, sizeof address, "%s", options.address);
    options.address = address;
    options.secret = secret;
    options.name = name;
    options.work = &work;
    CHECK_OK(weft_comm_create(context, &options, &comm));
    memset(address, 'x', sizeof address - 1);
    memset(secret, 'x', sizeof secret - 1);
    memset(name, 'x', sizeof name - 1);
    CHECK_OK(weft_work_set_callback(work, note, &heard));
    CHECK(weft_context_close(context) == WEFT_BUSY);
    CHECK(strstr(weft_error_detail(), "1 works of the context that make communicators"));
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    CHECK(poll(&ready, 1, -1) == 1 && read(fd, &ended, sizeof ended) == sizeof ended && ended == 1);
    CHECK(end(work) == 0);
    while (!heard.calls)
        usleep(1000);
    CHECK(heard.calls == 1 && heard.status == WEFT_OK && !*heard.detail);
    CHECK(comm && sum_is(comm, ranks) == 0);
    CHECK_OK(weft_comm_destroy(comm));
    CHECK_OK(weft_context_close(context));
    CHECK(test_leak_check(&before) == 0);
    return 0;
}

static void test_create(void **state)
{
    (void)state;
    assert_int_equal(test_ranks_fork(1, create_body, NULL), 0);
    assert_int_equal(test_ranks_fork(3, create_body, NULL), 0);
}

/* The environment is the program's again, too. How often the thread that makes the communicator comes later than the change is chance. */
static int environment_body(int rank, int ranks, void *arg)
{
    (void)rank, (void)ranks, (void)arg;
    weft_context *context;
    CHECK_OK(weft_context_open(NULL, &context));
    for (int turn = 0; turn < 20; turn++) {
        weft_comm *comm = NULL;
        weft_work *work;
        weft_comm_options options = WEFT_COMM_OPTIONS_INIT;
        options.work = &work;
        CHECK(setenv("RANK", "0", 1) == 0 && setenv("WORLD_SIZE", "1", 1) == 0);
        CHECK_OK(weft_comm_create(context, &options, &comm));
        CHECK(setenv("RANK", "none", 1) == 0 && unsetenv("WORLD_SIZE") == 0);
        CHECK(end(work) == 0);
        CHECK_OK(weft_comm_destroy(comm));
    }
    CHECK_OK(weft_context_close(context));
    return 0;
}

static void test_environment(void **state)
{
    (void)state;
    assert_int_equal(test_ranks_fork(1, environment_body, NULL), 0);
}

/* Some ranks block and others do not: it is one call. */
static int others_body(int rank, int ranks, void *arg)
{
    (void)arg;
    struct job job;
    struct test_leak before;
    int list[2] = {ranks - 1, 0};
    CHECK_OK(job_open(&job, "shm", NULL));
    for (int turn = 0; turn < 3; turn++) {
        weft_comm *half = NULL, *pair = NULL, *same = NULL;
        weft_work *works[3] = {NULL};
        if (turn == 1) {
            CHECK(sum_is(job.comm, ranks) == 0);
            test_leak_take(&before);
        }
        int blocks = (rank + turn) % 2;
        CHECK_OK(weft_comm_split(job.comm, rank % 2, rank, &half, blocks ? NULL : WEFT_START(&works[0])));
        CHECK(!works[0] || end(works[0]) == 0);
        CHECK(sum_is(half, (ranks + (rank + 1) % 2) / 2) == 0);
        if (rank == 0 || rank == ranks - 1) {
            CHECK_OK(weft_comm_subset(job.comm, list, 2, turn, &pair, blocks ? NULL : WEFT_START(&works[1])));
            list[0] = list[1] = -1; /* the program's again */
            CHECK(!works[1] || end(works[1]) == 0);
            list[0] = ranks - 1;
            list[1] = 0;
            CHECK(sum_is(pair, 2) == 0);
        }
        CHECK_OK(weft_comm_shrink(job.comm, &same, blocks ? NULL : WEFT_START(&works[2])));
        CHECK(!works[2] || end(works[2]) == 0);
        CHECK(sum_is(same, ranks) == 0);
        CHECK_OK(weft_comm_destroy(half));
        CHECK_OK(weft_comm_destroy(pair));
        CHECK_OK(weft_comm_destroy(same));
    }
    CHECK(sum_is(job.comm, ranks) == 0);
    CHECK(test_leak_check(&before) == 0);
    CHECK_OK(job_close(&job));
    return 0;
}

static void test_others(void **state)
{
    (void)state;
    assert_int_equal(test_ranks_fork(3, others_body, NULL), 0);
}

/* Rank 0 comes from the communicator that it grows, rank 1 from nowhere; both without blocking. */
static int grow_body(int rank, int ranks, void *arg)
{
    (void)arg;
    weft_context *context;
    weft_comm *alone = NULL, *comm = NULL;
    weft_work *work;
    weft_comm_options options = WEFT_COMM_OPTIONS_INIT;
    CHECK_OK(weft_context_open(NULL, &context));
    test_ranks_options(&options);
    if (rank == 0) {
        weft_comm_options one = WEFT_COMM_OPTIONS_INIT;
        one.rank = 0;
        one.ranks = 1;
        CHECK_OK(weft_comm_create(context, &one, &alone));
        CHECK_OK(weft_comm_grow(alone, &options, &comm, WEFT_START(&work)));
    } else {
        options.work = &work;
        CHECK_OK(weft_comm_create(context, &options, &comm));
    }
    CHECK(end(work) == 0);
    CHECK(weft_comm_rank(comm) == rank && sum_is(comm, ranks) == 0);
    CHECK_OK(weft_comm_destroy(alone));
    CHECK_OK(weft_comm_destroy(comm));
    CHECK_OK(weft_context_close(context));
    return 0;
}

static void test_grow(void **state)
{
    (void)state;
    assert_int_equal(test_ranks_fork(2, grow_body, NULL), 0);
}

/* --- meanwhile */

/* Rank 0 splits, and the others come when it has seen what it may do meanwhile. */
static int meanwhile_body(int rank, int ranks, void *arg)
{
    (void)arg;
    struct job job;
    weft_comm *same = NULL, *other = NULL;
    weft_work *work, *sent;
    int32_t one = 1, sum = 0;
    int self = 0;
    CHECK_OK(job_open(&job, "shm", NULL));
    if (rank == 0) {
        const void *sends[1] = {&one};
        void *recvs[1] = {&sum};
        size_t counts[1] = {1};
        CHECK_OK(weft_comm_split(job.comm, 0, 0, &same, WEFT_START(&work)));
        CHECK(weft_work_wait(work, 0) == WEFT_AGAIN);
        CHECK(weft_work_wait(work, 10) == WEFT_TIMEOUT);
        CHECK(weft_allreduce(job.comm, &one, &sum, 1, WEFT_INT32, WEFT_SUM, NULL) == WEFT_BUSY);
        CHECK(strstr(weft_error_detail(), "rank 0 still makes a communicator from this one"));
        CHECK(weft_allreduce(job.comm, &one, &sum, 1, WEFT_INT32, WEFT_SUM, WEFT_START(&sent)) == WEFT_BUSY);
        CHECK(weft_barrier(job.comm, NULL) == WEFT_BUSY);
        CHECK(weft_allreduce_list(job.comm, 1, sends, recvs, counts, WEFT_INT32, WEFT_SUM, NULL) ==
              WEFT_BUSY);
        CHECK(weft_comm_split(job.comm, 0, 0, &other, NULL) == WEFT_BUSY);
        CHECK(weft_comm_shrink(job.comm, &other, NULL) == WEFT_BUSY);
        CHECK(weft_comm_destroy(job.comm) == WEFT_BUSY);
        CHECK(other == NULL && same == NULL);
        /* What takes no part in the order of collectives goes on. */
        CHECK_OK(weft_send(job.comm, &one, 1, WEFT_INT32, 1, 7, NULL));
        CHECK_OK(weft_comm_subset(job.comm, &self, 1, 7, &other, NULL));
        CHECK_OK(weft_comm_destroy(other));
        ++*passed;
        CHECK(end(work) == 0);
    } else {
        if (rank == 1)
            CHECK_OK(weft_recv(job.comm, &sum, 1, WEFT_INT32, 0, 7, NULL, NULL));
        await(1);
        CHECK_OK(weft_comm_split(job.comm, 0, 0, &same, NULL));
    }
    CHECK(sum_is(job.comm, ranks) == 0 && sum_is(same, ranks) == 0);
    CHECK_OK(weft_comm_destroy(same));
    CHECK_OK(job_close(&job));
    return 0;
}

static void test_meanwhile(void **state)
{
    (void)state;
    *passed = 0;
    assert_int_equal(test_ranks_fork(3, meanwhile_body, NULL), 0);
}

/* --- errors */

static int alone_body(int rank, int ranks, void *arg)
{
    (void)rank, (void)ranks, (void)arg;
    struct test_leak before;
    test_leak_take(&before);
    struct heard heard = {.status = 1};
    weft_context *context;
    weft_comm *comm = NULL;
    weft_work *work;
    weft_comm_options options = WEFT_COMM_OPTIONS_INIT;
    CHECK_OK(weft_context_open(NULL, &context));
    test_ranks_options(&options);
    options.ranks = 2;
    options.timeout_ms = 300;
    options.work = &work;
    CHECK_OK(weft_comm_create(context, &options, &comm));
    CHECK_OK(weft_work_set_callback(work, note, &heard));
    for (int i = 0; i < 2; i++) {
        CHECK(weft_work_wait(work, -1) == WEFT_RANKS_ABSENT);
        CHECK(strstr(weft_error_detail(), "rank 1 of 2 did not arrive"));
    }
    CHECK(weft_work_free(work) == WEFT_RANKS_ABSENT && strstr(weft_error_detail(), "rank 1 of 2"));
    CHECK(comm == NULL && heard.calls == 1 && heard.status == WEFT_RANKS_ABSENT);
    CHECK(strstr(heard.detail, "rank 1 of 2 did not arrive"));
    /* What is wrong from the start is said by the work too, and the listener is gone in any case. */
    options.listen_fd = -1;
    options.ranks = 0;
    CHECK_OK(weft_comm_create(context, &options, &comm));
    CHECK(weft_work_free(work) == WEFT_INVALID && strstr(weft_error_detail(), "number of ranks is 0"));
    CHECK_OK(weft_context_close(context));
    CHECK(test_leak_check(&before) == 0);
    return 0;
}

static void test_alone(void **state)
{
    (void)state;
    assert_int_equal(test_ranks_fork(1, alone_body, NULL), 0);
}

/* What cannot be copied for the thread is refused by the call itself; the listener is gone then, too. */
static int refused_body(int rank, int ranks, void *arg)
{
    (void)rank, (void)ranks, (void)arg;
    struct test_leak before;
    test_leak_take(&before);
    weft_context *context;
    weft_comm *comm = NULL;
    weft_work *work = NULL;
    struct {
        weft_comm_options options;
        size_t later;
    } larger = {WEFT_COMM_OPTIONS_INIT, 1};
    CHECK_OK(weft_context_open(NULL, &context));
    test_ranks_options(&larger.options);
    larger.options.size = sizeof larger;
    int listener = larger.options.listen_fd;
    CHECK(listener >= 0);
    larger.options.size = offsetof(weft_comm_options, ranks); /* there is no listener in it */
    CHECK(weft_comm_create(context, &larger.options, &comm) == WEFT_INVALID);
    CHECK(fcntl(listener, F_GETFD) != -1);
    larger.options.size = sizeof larger;
    CHECK(weft_comm_create(context, &larger.options, &comm) == WEFT_UNSUPPORTED);
    CHECK(fcntl(listener, F_GETFD) == -1);
    larger.options.listen_fd = -1;
    larger.later = 0;
    larger.options.ranks = 2;
    larger.options.work = &work;
    larger.options.secret_size = SIZE_MAX - 100;
    CHECK(weft_comm_create(context, &larger.options, &comm) == WEFT_INVALID);
    CHECK(strstr(weft_error_detail(), "expected 16 to 4096"));
    CHECK(comm == NULL && work == NULL);
    CHECK_OK(weft_context_close(context));
    CHECK(test_leak_check(&before) == 0);
    return 0;
}

static void test_refused(void **state)
{
    (void)state;
    assert_int_equal(test_ranks_fork(1, refused_body, NULL), 0);
}

struct freed {
    weft_work *work;
    int status;
};

static void free_it(void *arg, int status, const char *detail)
{
    struct freed *freed = arg;
    (void)status, (void)detail;
    freed->status = weft_work_free(freed->work);
}

/* The thread that makes the communicator would wait for itself. */
static int own_thread_body(int rank, int ranks, void *arg)
{
    (void)arg;
    weft_context *context;
    weft_comm *comm = NULL;
    struct freed freed = {.status = WEFT_OK};
    weft_comm_options options = WEFT_COMM_OPTIONS_INIT;
    CHECK_OK(weft_context_open(NULL, &context));
    test_ranks_options(&options);
    if (rank == 0) {
        options.work = &freed.work;
        CHECK_OK(weft_comm_create(context, &options, &comm));
        CHECK_OK(weft_work_set_callback(freed.work, free_it, &freed));
        ++*passed; /* it cannot end before */
        CHECK(weft_work_free(freed.work) == WEFT_OK && freed.status == WEFT_BUSY);
    } else {
        await(1);
        CHECK_OK(weft_comm_create(context, &options, &comm));
    }
    CHECK(sum_is(comm, ranks) == 0);
    CHECK_OK(weft_comm_destroy(comm));
    CHECK_OK(weft_context_close(context));
    return 0;
}

static void test_own_thread(void **state)
{
    (void)state;
    *passed = 0;
    assert_int_equal(test_ranks_fork(2, own_thread_body, NULL), 0);
}

/* An abort ends a shrink that was called before, whether its thread runs yet or not. */
static int abort_body(int rank, int ranks, void *arg)
{
    struct job job;
    weft_comm *smaller = NULL;
    weft_work *work;
    (void)ranks, (void)arg;
    CHECK_OK(job_open(&job, "shm", NULL));
    if (rank == 0) {
        CHECK_OK(weft_comm_shrink(job.comm, &smaller, WEFT_CALL(.work = &work, .timeout_ms = 20000)));
        CHECK_OK(weft_comm_abort(job.comm, "enough"));
        int status = weft_work_free(work);
        ++*passed;
        CHECK(status == WEFT_REVOKED && smaller == NULL);
    } else {
        await(1);
    }
    weft_comm_destroy(job.comm);
    CHECK_OK(weft_context_close(job.context));
    return 0;
}

static void test_abort(void **state)
{
    (void)state;
    *passed = 0;
    assert_int_equal(test_ranks_fork(2, abort_body, NULL), 0);
}

/* Calls have deadlines and labels of their own; a rank that does not come to a split ends the communicator, as with any collective. */
static int late_body(int rank, int ranks, void *arg)
{
    (void)ranks, (void)arg;
    struct job job;
    weft_comm *other = NULL;
    weft_work *work;
    int list[2] = {0, 1};
    CHECK_OK(job_open(&job, "shm", NULL));
    if (rank == 0) {
        const weft_call_options brief = {
            .size = sizeof brief, .work = &work, .timeout_ms = 200, .label = "tensor\nparallel"};
        CHECK_OK(weft_comm_subset(job.comm, list, 2, 5, &other, &brief));
        CHECK(weft_work_free(work) == WEFT_TIMEOUT && other == NULL);
        CHECK(strstr(weft_error_detail(), "rank 1 has not come within 200 ms"));
        CHECK(strstr(weft_error_detail(), "'tensor?parallel'"));
        CHECK_OK(weft_comm_split(job.comm, 0, 0, &other, &brief));
        CHECK(weft_work_free(work) == WEFT_TIMEOUT && other == NULL);
        CHECK(strstr(weft_error_detail(), "tensor?parallel") && strstr(weft_error_detail(), "rank 1"));
        ++*passed;
    } else {
        int32_t one = 1, sum;
        await(1);
        CHECK(weft_allreduce(job.comm, &one, &sum, 1, WEFT_INT32, WEFT_SUM, NULL) != WEFT_OK);
    }
    CHECK_OK(job_close(&job));
    return 0;
}

static void test_late(void **state)
{
    (void)state;
    *passed = 0;
    assert_int_equal(test_ranks_fork(2, late_body, NULL), 0);
}

int main(void)
{
    passed = test_ranks_shared(sizeof *passed);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_create),      cmocka_unit_test(test_others),     cmocka_unit_test(test_grow),
        cmocka_unit_test(test_meanwhile),   cmocka_unit_test(test_alone),      cmocka_unit_test(test_late),
        cmocka_unit_test(test_refused),     cmocka_unit_test(test_own_thread), cmocka_unit_test(test_abort),
        cmocka_unit_test(test_environment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
