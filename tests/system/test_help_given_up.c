/* SPDX-License-Identifier: Apache-2.0 */
/* build: wrap process_vm_readv process_vm_writev weft_file_read nanosleep clock_gettime */
/* A helper is stopped in the middle, and the reader cannot see that: its /proc is another PID namespace's, or is not there. Nothing is waited for by
 * the system's clock: where the reader would sleep, its own clock goes on instead. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/file.h"
#include "tests/support/job.h"
#include "tests/support/process_vm.h"
#include "tests/support/ranks.h"

#define PIECE   (16u << 10) /* what is read by less is no payload */
#define LOOKS   1000        /* after so many the reader gives up */
#define STEP_NS 3000000     /* what a sleep of the reader's counts */
#define COMES   10          /* or after so many the helper goes on */

enum proc { FOREIGN, MISSING };

struct scene {
    enum proc proc;
    int comes_back;
    size_t bytes; /* one piece: read at once, or by a transfer (comm/p2p/turn.c) */
};

static struct shared {
    _Atomic int helper, begun, ended, looks;
    _Atomic int stops; /* the helper, in its next copy */
} * shared;

/* The reader's. */
static const struct scene *scene; /* while it receives */
static _Atomic int64_t skipped_ns;

ssize_t __real_weft_file_read(const char *path, void *bytes, size_t capacity);
ssize_t __wrap_weft_file_read(const char *path, void *bytes, size_t capacity);
int __real_nanosleep(const struct timespec *time, struct timespec *left);
int __wrap_nanosleep(const struct timespec *time, struct timespec *left);
int __real_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now);

static void wait_for(const _Atomic int *value, int least)
{
    for (int i = 0; i < 20000 && *value < least; i++)
        usleep(1000);
}

/* The reader begins with its own half when the helper has begun. */
ssize_t __wrap_process_vm_readv(pid_t pid, const struct iovec *local, unsigned long locals,
                                const struct iovec *remote, unsigned long remotes, unsigned long flags)
{
    if (local->iov_len >= PIECE && scene && local->iov_len < scene->bytes)
        wait_for(&shared->begun, 1);
    return __real_process_vm_readv(pid, local, locals, remote, remotes, flags);
}

ssize_t __wrap_process_vm_writev(pid_t pid, const struct iovec *local, unsigned long locals,
                                 const struct iovec *remote, unsigned long remotes, unsigned long flags)
{
    shared->helper = getpid();
    shared->begun++;
    if (atomic_exchange(&shared->stops, 0))
        kill(getpid(), SIGSTOP);
    ssize_t got = __real_process_vm_writev(pid, local, locals, remote, remotes, flags);
    shared->ended++;
    return got;
}

ssize_t __wrap_weft_file_read(const char *path, void *bytes, size_t capacity)
{
    static const char other[] = "1 (init) S 0 1 1";
    if (!scene || strcmp(path, "/proc/self/stat") != 0)
        return __real_weft_file_read(path, bytes, capacity);
    if (++shared->looks == COMES && scene->comes_back) {
        kill(shared->helper, SIGCONT);
        wait_for(&shared->ended, 1);
    }
    if (scene->proc == FOREIGN) {
        snprintf(bytes, capacity, "%s", other);
        return (ssize_t)strlen(other);
    }
    errno = ENOENT;
    return -1;
}

int __wrap_nanosleep(const struct timespec *time, struct timespec *left)
{
    if (!scene || shared->ended)
        return __real_nanosleep(time, left);
    skipped_ns += STEP_NS;
    return 0;
}

int __wrap_clock_gettime(clockid_t clock, struct timespec *now)
{
    int status = __real_clock_gettime(clock, now);
    if (clock == CLOCK_MONOTONIC) {
        int64_t ns = now->tv_nsec + skipped_ns;
        now->tv_sec += ns / 1000000000;
        now->tv_nsec = ns % 1000000000;
    }
    return status;
}

static int is_all(const uint8_t *memory, size_t bytes, uint8_t value)
{
    for (size_t i = 0; i < bytes; i++)
        CHECK_BITS(memory[i] == value);
    return 0;
}

/* Fails, naming the process; and what the helper does later does not reach the memory. */
static int give_up(const struct job *job, uint8_t *memory, size_t bytes)
{
    char name[32];
    CHECK(weft_recv(job->comm, memory, bytes, WEFT_UINT8, 0, 0, NULL, NULL) == WEFT_TRANSPORT);
    scene = NULL;
    snprintf(name, sizeof name, "process %d ", shared->helper);
    CHECK(strstr(weft_error_detail(), name) && strstr(weft_error_detail(), "does not end it"));
    CHECK(shared->looks == LOOKS + 1 && !shared->ended);
    memset(memory, 0x55, bytes);
    kill(shared->helper, SIGCONT);
    wait_for(&shared->ended, 1);
    CHECK(shared->ended && is_all(memory, bytes, 0x55) == 0);
    return 0;
}

static int receive(const struct job *job, uint8_t *memory, size_t bytes)
{
    CHECK_OK(weft_recv(job->comm, memory, bytes, WEFT_UINT8, 0, 0, NULL, NULL));
    scene = NULL;
    CHECK(shared->looks >= COMES && shared->looks < LOOKS && shared->ended);
    CHECK(is_all(memory, bytes, 7) == 0);
    return 0;
}

static int body(int rank, int ranks, void *arg)
{
    const struct scene *wanted = arg;
    struct job job;
    uint8_t *memory = malloc(wanted->bytes);
    (void)ranks;
    CHECK(memory);
    memset(memory, rank ? 0 : 7, wanted->bytes);
    CHECK_OK(job_open_within(&job, "shm", NULL, 60000));
    CHECK_OK(weft_barrier(job.comm, NULL));
    scene = rank == 1 ? wanted : NULL;
    int status = rank == 0 ? weft_send(job.comm, memory, wanted->bytes, WEFT_UINT8, 1, 0, NULL) : WEFT_OK;
    int failed = rank == 1 && (wanted->comes_back ? receive : give_up)(&job, memory, wanted->bytes) != 0;
    if (failed && shared->helper)
        kill(shared->helper, SIGCONT); /* or the job would not end */
    CHECK(!failed);
    CHECK(!wanted->comes_back || status == WEFT_OK);
    weft_comm_destroy(job.comm);
    weft_context_close(job.context);
    free(memory);
    return 0;
}

static void run(enum proc proc, int comes_back)
{
    for (size_t bytes = 64u << 10; bytes <= 128u << 10; bytes *= 2) {
        const struct scene wanted = {.proc = proc, .comes_back = comes_back, .bytes = bytes};
        memset((void *)shared, 0, sizeof *shared);
        shared->stops = 1;
        assert_int_equal(test_ranks_fork(2, body, (void *)(uintptr_t)&wanted), 0);
    }
}

static void test_given_up(void **state)
{
    (void)state;
    run(FOREIGN, 0);
    run(MISSING, 0);
}

static void test_comes_back(void **state)
{
    (void)state;
    run(FOREIGN, 1);
    run(MISSING, 1);
}

int main(void)
{
    shared = test_ranks_shared(sizeof *shared);
    setenv("WEFT_WAY_SHM", "pull", 1);
    setenv("WEFT_SPIN_US", "1000000", 1); /* who waits does not sleep */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_given_up),
        cmocka_unit_test(test_comes_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
