/* SPDX-License-Identifier: Apache-2.0 */
/* fork at any time: children come and go while the parents reduce, and change nothing; a dead parent is noticed
 * although a child of it lives on. (What a child may call, and which descriptors it keeps: base/test_fork.) */
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
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/support/golden.h"
#include "tests/support/heartbeat.h"
#include "tests/support/job.h"
#include "tests/support/leak.h"
#include "tests/support/ranks.h"
#include "tests/support/effort.h"

#define COUNT_MAX 200000
#define KINDS     6           /* of children */
#define CHILDREN  (KINDS * 8) /* that a rank of a sweep has at least */

struct plan {
    const char *transports, *provider;
};

struct forker {
    struct job *job;
    float *buffers[2];
    atomic_int stop, children;
    int bad;
};

/* --- children of all kinds */

static int refused(int status)
{
    return status == WEFT_INVALID && golden_matches("forked");
}

/* Ends in the ordinary way; without a leak checker, to which everything of the parent's threads looks lost. */
static void leave(int result)
{
    if (test_is_sanitized())
        _exit(result);
    exit(result);
}

/* What a child does, by its number. Only the call sequence of the last kind runs without weft's handler. */
static void child_main(const struct forker *forker, int kind)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    alarm(30);
    switch (kind) {
    case 0:
        _exit(0);
    case 1:
        execl("/bin/true", "true", (char *)NULL);
        _exit(127);
    case 2: /* weft calls are errors, and harmless */
        _exit(!refused(weft_allreduce(forker->job->comm, forker->buffers[0], forker->buffers[1], 100,
                                      WEFT_FLOAT32, WEFT_SUM, NULL)) ||
              !refused(weft_comm_destroy(forker->job->comm)) ||
              !refused(weft_context_close(forker->job->context)));
    case 3: /* lives a while, and writes to its copies */
        memset(forker->buffers[0], 0x77, COUNT_MAX * sizeof(float));
        memset(forker->buffers[1], 0x77, COUNT_MAX * sizeof(float));
        usleep(30000);
        _exit(0);
    default: /* at-exit handlers and destructors run */
        leave(0);
    }
}

/* The C library's fork without handlers, as vfork-like libraries do: the child must exec or exit. */
static pid_t bare_fork(void)
{
    pid_t child = _Fork();
    if (child == 0) {
        execl("/bin/true", "true", (char *)NULL);
        _exit(127);
    }
    return child;
}

static void *fork_on(void *arg)
{
    struct forker *forker = arg;
    for (int i = 0; !atomic_load(&forker->stop); i++) {
        int kind = i % KINDS, status = 0;
        pid_t child = kind == 5 ? bare_fork() : fork();
        if (child == 0)
            child_main(forker, kind);
        if (child < 0 || waitpid(child, &status, 0) != child || status != 0) {
            fprintf(stderr, "child %d of kind %d ended with %#x\n", i, kind, status);
            forker->bad++;
        }
        atomic_fetch_add(&forker->children, 1);
    }
    return NULL;
}

/* --- a sweep while they come and go */

static int reduce_sizes(const struct job *job, int rank, int ranks, float *send, float *recv)
{
    static const size_t counts[] = {1, 12, 500, 5000, 30000, COUNT_MAX};
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
        job_fill(send, WEFT_FLOAT32, rank, counts[c]);
        CHECK_OK(weft_allreduce(job->comm, send, recv, counts[c], WEFT_FLOAT32, WEFT_SUM, NULL));
        CHECK_BITS(job_wrong(recv, WEFT_FLOAT32, WEFT_SUM, ranks, counts[c]) == 0);
        CHECK_OK(weft_allreduce(job->comm, send, send, counts[c], WEFT_FLOAT32, WEFT_MAX, NULL));
        CHECK_BITS(job_wrong(send, WEFT_FLOAT32, WEFT_MAX, ranks, counts[c]) == 0);
    }
    return 0;
}

/* Until every rank has had its children. All ranks decide together, so that they make the same calls. */
static int again(const struct job *job, struct forker *forker, int *more)
{
    float mine = atomic_load(&forker->children) < CHILDREN, all = 0;
    CHECK_OK(weft_allreduce(job->comm, &mine, &all, 1, WEFT_FLOAT32, WEFT_SUM, NULL));
    *more = all > 0;
    return 0;
}

static int sweep_body(int rank, int ranks, void *arg)
{
    const struct plan *plan = arg;
    struct job job;
    CHECK_OK(job_open(&job, plan->transports, plan->provider));
    float *own[2], *mapped[2];
    for (int i = 0; i < 2; i++) {
        own[i] = malloc(COUNT_MAX * sizeof(float));
        CHECK(own[i]);
        CHECK_OK(weft_mem_alloc(job.context, COUNT_MAX * sizeof(float), (void **)&mapped[i]));
    }
    struct forker forker = {.job = &job, .buffers = {own[0], own[1]}};
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, fork_on, &forker) == 0);
    int failed = 0;
    for (int more = 1; more && !failed;) {
        failed = reduce_sizes(&job, rank, ranks, own[0], own[1]) ||
                 reduce_sizes(&job, rank, ranks, mapped[0], mapped[1]) || again(&job, &forker, &more);
    }
    atomic_store(&forker.stop, 1);
    pthread_join(thread, NULL);
    for (int i = 0; i < 2; i++) {
        free(own[i]);
        CHECK_OK(weft_mem_free(job.context, mapped[i]));
    }
    CHECK_OK(job_close(&job));
    CHECK(forker.bad == 0);
    return failed;
}

static void test_sweep_shm(void **state)
{
    (void)state;
    struct plan plan = {"shm", NULL};
    struct test_leak before;
    test_leak_take(&before);
    assert_int_equal(test_ranks_fork(2, sweep_body, &plan), 0);
    assert_int_equal(test_ranks_fork(3, sweep_body, &plan), 0);
    assert_int_equal(test_leak_check(&before), 0);
}

static void test_sweep_ofi(void **state)
{
    (void)state;
    struct plan plan = {"ofi", "tcp;ofi_rxm"};
    if (!job_has_ofi(plan.provider))
        skip();
    assert_int_equal(test_ranks_fork(2, sweep_body, &plan), 0);
}

/* --- a child that lives through everything, and longer */

static int long_body(int rank, int ranks, void *arg)
{
    const struct plan *plan = arg;
    struct job job;
    int ends[2], status;
    char byte;
    CHECK(pipe(ends) == 0);
    CHECK_OK(job_open(&job, plan->transports, plan->provider));
    float *buffers[2] = {malloc(COUNT_MAX * sizeof(float)), malloc(COUNT_MAX * sizeof(float))};
    CHECK(buffers[0] && buffers[1]);
    pid_t child = fork();
    if (child == 0) { /* reads until the parent lets go of the pipe, then ends in the ordinary way */
        alarm(600);   /* longer than the limit of the ranks */
        close(ends[1]);
        leave(read(ends[0], &byte, 1) != 0);
    }
    close(ends[0]);
    CHECK(reduce_sizes(&job, rank, ranks, buffers[0], buffers[1]) == 0);
    CHECK_OK(job_close(&job));
    free(buffers[0]);
    free(buffers[1]);
    CHECK(waitpid(child, &status, WNOHANG) == 0); /* it has lived all the time */
    close(ends[1]);
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    return 0;
}

static void test_long_child(void **state)
{
    (void)state;
    struct plan shm = {"shm", NULL}, tcp = {"tcp", NULL};
    assert_int_equal(test_ranks_fork(3, long_body, &shm), 0);
    assert_int_equal(test_ranks_fork(2, long_body, &tcp), 0);
}

/* --- death of a parent whose child lives on */

struct death {
    const struct plan *plan;
    int bare; /* the child was made without handlers and holds copies of everything */
    atomic_int child;
};

static int orphan_body(int rank, int ranks, void *arg)
{
    struct death *death = arg;
    (void)ranks;
    struct job job;
    float data[2] = {1, 2}, *large = calloc(COUNT_MAX, sizeof *large);
    CHECK(large);
    /* A connection that ends says so, and nothing else. A bare child keeps the sockets open: then silence alone says so. */
    setenv("WEFT_HEARTBEAT_MS", "600000", 1);
    if (death->bare)
        test_silence_set();
    CHECK_OK(job_open(&job, death->plan->transports, death->plan->provider));
    int status = WEFT_OK;
    for (int i = 0; status == WEFT_OK; i++) {
        if (rank == 1 && i == 20) {
            pid_t child = death->bare ? _Fork() : fork();
            if (child == 0) {
                alarm(600); /* longer than the limit of the ranks */
                for (;;)
                    pause();
            }
            atomic_store(&death->child, child);
            kill(getpid(), SIGKILL);
        }
        status = i % 2 ? weft_allreduce(job.comm, data, data, 2, WEFT_FLOAT32, WEFT_MAX, NULL)
                       : weft_allreduce(job.comm, large, large, COUNT_MAX, WEFT_FLOAT32, WEFT_MAX, NULL);
    }
    if (status != WEFT_PEER_FAILED || !strstr(weft_error_detail(), "rank 1")) {
        fprintf(stderr, "rank %d: %d '%s'\n", rank, status, weft_error_detail());
        return 1;
    }
    free(large);
    CHECK_OK(job_close(&job));
    return 0;
}

static void die(const struct plan *plan, int bare)
{
    struct death *death =
        mmap(NULL, sizeof *death, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int statuses[TEST_RANKS_MAX];
    assert_true(death != MAP_FAILED);
    death->plan = plan;
    death->bare = bare;
    test_ranks_fork_status(3, orphan_body, death, statuses);
    int child = atomic_load(&death->child);
    assert_true(child > 0);
    int alive = kill(child, 0);
    kill(child, SIGKILL);
    munmap(death, sizeof *death);
    assert_int_equal(alive, 0);
    assert_int_equal(statuses[0], 0);
    assert_int_equal(statuses[2], 0);
}

static void test_dead_parent(void **state)
{
    (void)state;
    struct plan shm = {"shm", NULL}, tcp = {"tcp", NULL};
    die(&shm, 0);
    die(&tcp, 0);
}

static void test_dead_parent_of_bare_child(void **state)
{
    (void)state;
    struct plan shm = {"shm", NULL}, tcp = {"tcp", NULL};
    die(&shm, 1);
    die(&tcp, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sweep_shm),
        cmocka_unit_test(test_sweep_ofi),
        cmocka_unit_test(test_long_child),
        cmocka_unit_test(test_dead_parent),
        cmocka_unit_test(test_dead_parent_of_bare_child),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
