/* SPDX-License-Identifier: Apache-2.0 */
/* What a forked child keeps and may do: no descriptor of weft's, none of the user's lost, and no call. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/fd.h"
#include "base/fork.h"
#include "tests/support/job.h"
#include "tests/support/leak.h"
#include "tests/support/ranks.h"

static int is_open(int fd)
{
    return fcntl(fd, F_GETFD) >= 0;
}

/* The exit status of a child that runs function; 255 when it did not exit. */
static int in_child(int (*function)(const int *fds, int count), const int *fds, int count)
{
    int status;
    pid_t child = fork();
    if (child == 0)
        _exit(function(fds, count));
    if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status))
        return 255;
    return WEXITSTATUS(status);
}

/* How many are open, plus 100 when weft may not be called. */
static int count_open(const int *fds, int count)
{
    int open = 0;
    for (int i = 0; i < count; i++)
        open += is_open(fds[i]);
    return open + (weft_fork_is_child() ? 100 : 0);
}

static void test_child_closes(void **state)
{
    (void)state;
    int pair[2], ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    int fds[6] = {
        pair[0], pair[1], ends[0], ends[1], eventfd(0, EFD_CLOEXEC), memfd_create("test", MFD_CLOEXEC)};
    for (int i = 0; i < 6; i++)
        assert_int_equal(weft_fd_add(fds[i]), fds[i]);
    /* One far up, beyond what the table starts with, when the limit lets it. */
    int far = fcntl(fds[0], F_DUPFD_CLOEXEC, 9000);
    assert_int_equal(weft_fd_add(far), far);
    assert_int_equal(in_child(count_open, fds, 6), 100);
    assert_int_equal(in_child(count_open, &far, 1), 100);
    for (int i = 0; i < 6; i++)
        assert_true(is_open(fds[i]));
    assert_int_equal(weft_fork_is_child(), 0);
    for (int i = 0; i < 6; i++)
        weft_fd_close(fds[i]);
    weft_fd_close(far);
    for (int i = 0; i < 6; i++)
        assert_false(is_open(fds[i]));
}

static void test_reused_numbers(void **state)
{
    (void)state;
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    weft_fd_add(pair[0]);
    weft_fd_add(pair[1]);
    weft_fd_close(pair[0]);
    close(pair[1]); /* behind its back */
    int other[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, other), 0);
    assert_true((other[0] == pair[0] && other[1] == pair[1]) || (other[0] == pair[1] && other[1] == pair[0]));
    assert_int_equal(in_child(count_open, other, 2), 2);
    close(other[0]);
    close(other[1]);
}

static void test_bad_descriptors(void **state)
{
    (void)state;
    errno = EMFILE;
    assert_int_equal(weft_fd_add(-1), -1);
    assert_int_equal(errno, EMFILE);
    weft_fd_close(-1);
}

/* --- forks beside threads that open and close --- */

static void *weft_traffic(void *arg)
{
    atomic_int *stop = arg;
    while (!atomic_load(stop)) {
        int fd = weft_fd_add(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
        weft_fd_close(fd);
    }
    return NULL;
}

/* Descriptors of the program's take numbers that were weft's a moment ago: no child may lose one. */
static void test_forks_beside_traffic(void **state)
{
    (void)state;
    atomic_int stop = 0;
    pthread_t threads[2];
    int lost = 0;
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, weft_traffic, &stop);
    for (int i = 0; i < 200; i++) {
        int fds[3];
        for (int k = 0; k < 3; k++)
            fds[k] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        lost += in_child(count_open, fds, 3) % 100 != 3;
        for (int k = 0; k < 3; k++)
            close(fds[k]);
    }
    atomic_store(&stop, 1);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(lost, 0);
}

/* --- public calls --- */

#define COUNT 5000

static float input[COUNT], output[COUNT];

/* How many calls do anything but refuse. */
static int calls_allowed(struct job *job, weft_work *work, void *memory)
{
    weft_context *context = NULL;
    weft_comm *comm = NULL;
    weft_work *started = NULL;
    weft_comm_stats stats = WEFT_COMM_STATS_INIT;
    weft_description description = WEFT_DESCRIPTION_INIT;
    void *more = NULL;
    weft_comm_options options[2] = {WEFT_COMM_OPTIONS_INIT, WEFT_COMM_OPTIONS_INIT};
    int fd, listeners[2] = {dup(STDERR_FILENO), dup(STDERR_FILENO)};
    options[0].listen_fd = listeners[0];
    options[1].listen_fd = listeners[1];
    const int answers[] = {
        weft_context_open(NULL, &context),
        weft_comm_create(job->context, &options[0], &comm),
        weft_comm_grow(job->comm, &options[1], &comm, NULL),
        weft_allreduce(job->comm, input, output, COUNT, WEFT_FLOAT32, WEFT_SUM, NULL),
        weft_allreduce(job->comm, input, output, 1, WEFT_FLOAT32, WEFT_SUM, WEFT_START(&started)),
        weft_comm_describe(job->comm, "allreduce", input, output, 1, WEFT_FLOAT32, WEFT_SUM, 0, &description),
        weft_comm_get_error(job->comm),
        weft_context_get_fd(job->context, &fd),
        weft_work_wait(work, 0),
        weft_work_wait(work, -1),
        weft_work_free(work),
        weft_mem_alloc(job->context, 100, &more),
        weft_mem_free(job->context, memory),
        weft_mem_register(job->context, input, sizeof input),
        weft_mem_deregister(job->context, input),
        weft_comm_get_stats(job->comm, &stats),
        weft_comm_rank(job->comm),
        weft_comm_size(job->comm),
        weft_comm_destroy(job->comm),
        weft_context_close(job->context),
    };
    int allowed = 0;
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++)
        allowed += answers[i] != WEFT_INVALID;
    for (int i = 0; i < 2; i++) /* weft's in any case */
        allowed += fcntl(listeners[i], F_GETFD) != -1;
    return allowed + !strstr(weft_error_detail(), "forked");
}

/* Sockets, pipes, eventfds, epoll sets and memfds of a process. */
static int weft_like_descriptors(void)
{
    int found = 0;
    for (int fd = 3; fd < 1024; fd++) {
        char path[64], target[128];
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        ssize_t length = readlink(path, target, sizeof target - 1);
        if (length <= 0)
            continue;
        target[length] = 0;
        found += strncmp(target, "socket:", 7) == 0 || strncmp(target, "pipe:", 5) == 0 ||
                 strncmp(target, "anon_inode:", 11) == 0 || strncmp(target, "/memfd:weft", 11) == 0;
    }
    return found;
}

static int calls_body(int rank, int ranks, void *arg)
{
    struct job job;
    int before = weft_like_descriptors() - (test_ranks_listen_fd() >= 0); /* weft will close that one */
    CHECK_OK(job_open(&job, arg, NULL));
    void *memory;
    weft_work *work;
    CHECK_OK(weft_mem_alloc(job.context, sizeof input, &memory));
    for (int round = 0; round < 5; round++) {
        job_fill(input, WEFT_FLOAT32, rank, COUNT);
        CHECK_OK(weft_allreduce(job.comm, input, memory, COUNT, WEFT_FLOAT32, WEFT_SUM, WEFT_START(&work)));
        pid_t child = fork();
        if (child == 0) {
            alarm(600); /* longer than the limit of the ranks */
            int kept = weft_like_descriptors() - before;
            _exit(calls_allowed(&job, work, memory) ? 1 : kept ? 2 : 0);
        }
        CHECK_OK(weft_work_wait(work, -1));
        CHECK_OK(weft_work_free(work));
        CHECK_BITS(job_wrong(memory, WEFT_FLOAT32, WEFT_SUM, ranks, COUNT) == 0);
        int status;
        CHECK(waitpid(child, &status, 0) == child);
        if (status) {
            fprintf(stderr, "the child ended with %#x\n", status);
            return 1;
        }
        CHECK_OK(weft_allreduce(job.comm, input, output, COUNT, WEFT_FLOAT32, WEFT_SUM, NULL));
        CHECK_BITS(job_wrong(output, WEFT_FLOAT32, WEFT_SUM, ranks, COUNT) == 0);
    }
    CHECK_OK(weft_mem_free(job.context, memory));
    CHECK_OK(job_close(&job));
    return 0;
}

static void test_calls_refuse(void **state)
{
    (void)state;
    struct test_leak before;
    test_leak_take(&before);
    assert_int_equal(test_ranks_fork(2, calls_body, (void *)(uintptr_t) "shm"), 0);
    assert_int_equal(test_leak_check(&before), 0);
}

static int clean_body(int rank, int ranks, void *arg)
{
    (void)rank;
    (void)ranks;
    struct job job;
    CHECK_OK(job_open(&job, arg, NULL));
    CHECK_OK(job_close(&job));
    pid_t child = fork();
    if (child == 0) {
        weft_context *context;
        _exit(weft_context_open(NULL, &context) || weft_context_close(context));
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    return 0;
}

/* A child forked when everything is closed may use weft. */
static void test_clean_child_may(void **state)
{
    (void)state;
    assert_int_equal(test_ranks_fork(2, clean_body, (void *)(uintptr_t) "shm"), 0);
}

/* --- a dead parent whose child lives on --- */

struct death {
    atomic_int child;
};

static int orphan_body(int rank, int ranks, void *arg)
{
    struct death *death = arg;
    (void)ranks;
    struct job job;
    setenv("WEFT_HEARTBEAT_MS", "600000", 1); /* the connection that ends shows it, and nothing else */
    CHECK_OK(job_open(&job, "shm", NULL));
    int status = WEFT_OK;
    for (int i = 0; status == WEFT_OK; i++) {
        if (rank == 1 && i == 50) {
            pid_t child = fork();
            if (child == 0) {
                alarm(600); /* longer than the limit of the ranks */
                for (;;)
                    pause();
            }
            atomic_store(&death->child, child);
            raise(SIGKILL);
        }
        status = weft_allreduce(job.comm, input, output, i % 2 ? 2 : COUNT, WEFT_FLOAT32, WEFT_SUM, NULL);
    }
    CHECK(status == WEFT_PEER_FAILED);
    CHECK(strstr(weft_error_detail(), "rank 1"));
    CHECK_OK(job_close(&job));
    return 0;
}

static void test_dead_parent_is_noticed(void **state)
{
    (void)state;
    struct death *death =
        mmap(NULL, sizeof *death, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int statuses[TEST_RANKS_MAX];
    assert_true(death != MAP_FAILED);
    test_ranks_fork_status(3, orphan_body, death, statuses);
    int child = atomic_load(&death->child);
    assert_true(child > 0);
    assert_int_equal(kill(child, 0), 0); /* it has lived all the time */
    kill(child, SIGKILL);
    assert_int_equal(statuses[0], 0);
    assert_int_equal(statuses[2], 0);
    munmap(death, sizeof *death);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_child_closes),           cmocka_unit_test(test_reused_numbers),
        cmocka_unit_test(test_bad_descriptors),        cmocka_unit_test(test_forks_beside_traffic),
        cmocka_unit_test(test_calls_refuse),           cmocka_unit_test(test_clean_child_may),
        cmocka_unit_test(test_dead_parent_is_noticed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
