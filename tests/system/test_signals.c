/* SPDX-License-Identifier: Apache-2.0 */
/* Signals: a timer's handler that runs 1,000 times a second through start-up, a sweep and the end changes nothing,
 * and weft changes nothing about the program's signals. */
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/clock.h"
#include "tests/support/job.h"
#include "tests/support/ranks.h"

#define COUNT_MAX 200000
#define RESTORER  0x04000000 /* set by the C library itself whenever a disposition is written */

struct plan {
    const char *transports, *provider;
    int flags; /* of the handler: SA_RESTART or 0 */
};

static volatile sig_atomic_t alarms;

static void on_alarm(int signal)
{
    (void)signal;
    alarms++;
}

/* --- what the program's signals are */

struct dispositions {
    struct sigaction actions[NSIG];
    sigset_t mask;
    stack_t stack;
};

static void take(struct dispositions *now)
{
    memset(now, 0, sizeof *now);
    for (int s = 1; s < NSIG; s++)
        sigaction(s, NULL, &now->actions[s]);
    sigprocmask(SIG_SETMASK, NULL, &now->mask);
    sigaltstack(NULL, &now->stack);
}

/* Only the members of a set count: the rest of its bytes is whatever was on the stack. */
static int same_set(const sigset_t *a, const sigset_t *b)
{
    for (int s = 1; s < NSIG; s++) {
        if (sigismember(a, s) != sigismember(b, s))
            return 0;
    }
    return 1;
}

static int same(const struct dispositions *before, const char *when)
{
    struct dispositions now;
    int differ = 0;
    take(&now);
    for (int s = 1; s < NSIG; s++) {
        const struct sigaction *a = &before->actions[s], *b = &now.actions[s];
        int handled = a->sa_handler != SIG_DFL && a->sa_handler != SIG_IGN;
        if (a->sa_handler == b->sa_handler && !((a->sa_flags ^ b->sa_flags) & ~RESTORER) &&
            (!handled || same_set(&a->sa_mask, &b->sa_mask)))
            continue;
        fprintf(stderr, "%s: the disposition of signal %d (%s) has changed\n", when, s, strsignal(s));
        differ++;
    }
    differ += !same_set(&before->mask, &now.mask);
    differ += before->stack.ss_sp != now.stack.ss_sp;
    return differ == 0;
}

/* --- the sweep */

static void timer(int interval_us)
{
    struct itimerval every = {{0, interval_us}, {0, interval_us}};
    setitimer(ITIMER_REAL, &every, NULL);
}

static int check_one(const struct job *job, int rank, int ranks, size_t count, float *send, float *recv)
{
    job_fill(send, WEFT_FLOAT32, rank, count);
    CHECK_OK(weft_allreduce(job->comm, send, recv, count, WEFT_FLOAT32, WEFT_SUM, NULL));
    CHECK_BITS(job_wrong(recv, WEFT_FLOAT32, WEFT_SUM, ranks, count) == 0);
    weft_work *work;
    CHECK_OK(weft_allreduce(job->comm, send, recv, count, WEFT_FLOAT32, WEFT_PROD, WEFT_START(&work)));
    CHECK_OK(weft_work_wait(work, -1));
    CHECK_OK(weft_work_free(work));
    CHECK_BITS(job_wrong(recv, WEFT_FLOAT32, WEFT_PROD, ranks, count) == 0);
    return 0;
}

static int life(int rank, int ranks, const struct plan *plan, const struct dispositions *before)
{
    static const size_t counts[] = {1, 3, 12, 100, 500, 3000, 5000, 20000, 70001, COUNT_MAX};
    struct job job;
    CHECK_OK(job_open(&job, plan->transports, plan->provider));
    CHECK(same(before, "with a communicator"));
    float *own[2] = {malloc(COUNT_MAX * sizeof(float)), malloc(COUNT_MAX * sizeof(float))}, *mapped[2];
    CHECK(own[0] && own[1]);
    for (int i = 0; i < 2; i++)
        CHECK_OK(weft_mem_alloc(job.context, COUNT_MAX * sizeof(float), (void **)&mapped[i]));
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
        CHECK(check_one(&job, rank, ranks, counts[c], own[0], own[1]) == 0);
        CHECK(check_one(&job, rank, ranks, counts[c], mapped[0], mapped[1]) == 0);
    }
    /* Somebody sleeps for the slow one: interrupted waits go on. */
    if (rank == ranks - 1) {
        for (int64_t until_ns = weft_deadline_ns(60); weft_clock_ns() < until_ns;)
            usleep(1000);
    }
    CHECK(check_one(&job, rank, ranks, 12, own[0], own[1]) == 0);
    CHECK(same(before, "after a sweep"));
    for (int i = 0; i < 2; i++) {
        free(own[i]);
        CHECK_OK(weft_mem_free(job.context, mapped[i]));
    }
    CHECK_OK(job_close(&job));
    CHECK(same(before, "after the end"));
    return 0;
}

static int alarm_body(int rank, int ranks, void *arg)
{
    const struct plan *plan = arg;
    struct dispositions before;
    struct sigaction action = {.sa_handler = on_alarm, .sa_flags = plan->flags};
    sigaction(SIGALRM, &action, NULL);
    take(&before);
    timer(1000);
    int failed = life(rank, ranks, plan, &before);
    timer(0);
    CHECK(alarms > 20); /* or this has tested nothing */
    return failed;
}

static void alarms_through(const char *transports, const char *provider)
{
    static const int flags[] = {0, SA_RESTART};
    for (int f = 0; f < 2; f++) {
        struct plan plan = {transports, provider, flags[f]};
        for (int ranks = 2; ranks <= 3; ranks++)
            assert_int_equal(test_ranks_fork(ranks, alarm_body, &plan), 0);
    }
}

static void test_alarms_shm(void **state)
{
    (void)state;
    alarms_through("shm", NULL);
}

static void test_alarms_tcp(void **state)
{
    (void)state;
    alarms_through("tcp", NULL);
}

static void test_alarms_ofi(void **state)
{
    (void)state;
    if (!job_has_ofi("tcp;ofi_rxm"))
        skip();
    alarms_through("ofi", "tcp;ofi_rxm");
}

/* All signals with a disposition that is neither the default nor libfabric's idea of one. */
static int untouched_body(int rank, int ranks, void *arg)
{
    struct dispositions before;
    struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_NODEFER};
    for (int s = 1; s < NSIG; s++) {
        if (s % 2 == rank % 2 && s != SIGSEGV && s != SIGBUS && s != SIGKILL && s != SIGSTOP)
            sigaction(s, &action, NULL);
    }
    take(&before);
    return life(rank, ranks, arg, &before);
}

static void test_untouched(void **state)
{
    (void)state;
    struct plan shm = {"shm", NULL, 0}, ofi = {"ofi", "tcp;ofi_rxm", 0};
    assert_int_equal(test_ranks_fork(2, untouched_body, &shm), 0);
    if (job_has_ofi(ofi.provider))
        assert_int_equal(test_ranks_fork(2, untouched_body, &ofi), 0);
}

/* A listening socket of the program's may be shared, with a parent that has its own signals for it: the open file keeps its own. */
static int listener_body(int rank, int ranks, void *arg)
{
    (void)ranks, (void)arg;
    struct job job;
    int shared = rank == 0 ? dup(test_ranks_listen_fd()) : -1;
    CHECK(rank != 0 || (shared >= 0 && fcntl(shared, F_GETSIG) == 0));
    CHECK_OK(job_open(&job, "tcp", NULL));
    CHECK(rank != 0 || fcntl(shared, F_GETSIG) == 0);
    CHECK_OK(job_close(&job));
    CHECK(rank != 0 || (fcntl(shared, F_GETSIG) == 0 && close(shared) == 0));
    return 0;
}

static void test_listener(void **state)
{
    (void)state;
    assert_int_equal(test_ranks_fork(2, listener_body, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_alarms_shm), cmocka_unit_test(test_alarms_tcp),
        cmocka_unit_test(test_alarms_ofi), cmocka_unit_test(test_untouched),
        cmocka_unit_test(test_listener),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
