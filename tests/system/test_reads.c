/* SPDX-License-Identifier: Apache-2.0 */
/* build: with tests/clock/; wrap process_vm_readv weft_copy_streaming @tests/clock/wraps */
/* How much is read at once, and what goes past the caches. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <cmocka.h>

#include "tests/clock/clock.h"
#include "tests/support/job.h"
#include "tests/support/pattern.h"
#include "tests/support/process_vm.h"
#include "tests/support/ranks.h"
#include "tests/support/skip.h"

#define SLICE (128u << 10)
#define READ  (512u << 10)
#define LONG  (8u << 20) /* a message that goes past the caches */
#define PIECE 4096       /* what is read by less is no payload */

static size_t largest; /* read of this rank's, by the kernel */
static struct shared {
    _Atomic size_t streamed;
    _Atomic int refused;
} * shared;

ssize_t __wrap_process_vm_readv(pid_t pid, const struct iovec *local, unsigned long locals,
                                const struct iovec *remote, unsigned long remotes, unsigned long flags)
{
    ssize_t got = __real_process_vm_readv(pid, local, locals, remote, remotes, flags);
    if (got < 0 && errno == EPERM)
        shared->refused = 1;
    if (local->iov_len > largest)
        largest = local->iov_len;
    return got;
}

static const uint8_t *result, *result_end;

void __real_weft_copy_streaming(void *destination, const void *source, size_t size);
void __wrap_weft_copy_streaming(void *destination, const void *source, size_t size);
void __wrap_weft_copy_streaming(void *destination, const void *source, size_t size)
{
    if ((uint8_t *)destination >= result &&
        (uint8_t *)destination < result_end) /* and not what a peer is fed with */
        shared->streamed += size;
    __real_weft_copy_streaming(destination, source, size);
}

/* --- a rank that passes on what it reads does so slice by slice; who does not reads more at once */

#define MOVED (2u << 20)

static int chain_body(int rank, int ranks, void *arg)
{
    struct job job;
    uint8_t *memory = malloc(MOVED);
    (void)arg;
    CHECK(memory);
    CHECK_OK(job_open(&job, "shm", NULL));
    CHECK_OK(job_greet(job.comm));
    largest = 0;
    pattern_fill(memory, MOVED, rank ? 99 : 1);
    CHECK_OK(weft_broadcast(job.comm, memory, memory, MOVED, WEFT_UINT8, 0, NULL));
    CHECK_BITS(pattern_check(memory, MOVED, 1) == 0);
    CHECK(rank == 0 || rank == ranks - 1 || (largest > PIECE && largest <= SLICE));
    if (ranks == 2 && rank == 1)
        CHECK(largest == READ);
    CHECK_OK(job_close(&job));
    free(memory);
    return 0;
}

static void test_at_once(void **state)
{
    (void)state;
    shared->refused = 0;
    setenv("WEFT_WAY_SHM", "pull", 1);
    setenv("WEFT_HELP_SHM", "never", 1);
    setenv("WEFT_ALGO", "chain", 1);
    int failed = test_ranks_fork(2, chain_body, NULL) + test_ranks_fork(3, chain_body, NULL);
    unsetenv("WEFT_ALGO");
    unsetenv("WEFT_HELP_SHM");
    unsetenv("WEFT_WAY_SHM");
    if (shared->refused)
        TEST_SKIP("the kernel lets no process read another one's memory here");
    assert_int_equal(failed, 0);
}

/* --- long messages go past the caches, unless their call measures whether that is faster */

enum call { MESSAGE, BROADCAST, ALLTOALL, CALLS };

struct moved {
    enum call call;
    size_t bytes;
    int is_mapped;
};

static int move(const struct job *job, int rank, const struct moved *moved, void *send, void *recv)
{
    switch (moved->call) {
    case MESSAGE:
        return rank == 0 ? weft_send(job->comm, send, moved->bytes, WEFT_UINT8, 1, 0, NULL)
                         : weft_recv(job->comm, recv, moved->bytes, WEFT_UINT8, 0, 0, NULL, NULL);
    case BROADCAST:
        return weft_broadcast(job->comm, send, recv, moved->bytes, WEFT_UINT8, 0, NULL);
    default:
        return weft_alltoall(job->comm, send, recv, moved->bytes, WEFT_UINT8, NULL);
    }
}

static int streamed_body(int rank, int ranks, void *arg)
{
    const struct moved *moved = arg;
    size_t bytes = moved->bytes * (moved->call == ALLTOALL ? 2 : 1);
    struct job job;
    CHECK_OK(job_open(&job, "shm", NULL));
    CHECK_OK(job_greet(job.comm));
    uint8_t *send = job_memory_get(&job, bytes, moved->is_mapped);
    uint8_t *recv = job_memory_get(&job, bytes, moved->is_mapped);
    CHECK(send && recv);
    result = recv;
    result_end = result + bytes;
    for (size_t block = 0; block < bytes / moved->bytes; block++)
        pattern_fill(send + block * moved->bytes, moved->bytes, rank * 2 + (int)block);
    CHECK_OK(weft_barrier(job.comm, NULL));
    test_clock_slow(300000); /* or a rank that is put aside is not waited for, and the kernel reads */
    CHECK_OK(move(&job, rank, moved, send, recv));
    test_clock_slow(1);
    for (int from = 0; from < ranks && moved->call == ALLTOALL; from++)
        CHECK_BITS(pattern_check(recv + (size_t)from * moved->bytes, moved->bytes, from * 2 + rank) == 0);
    CHECK_BITS(moved->call == ALLTOALL || rank == 0 || pattern_check(recv, bytes, 0) == 0);
    CHECK_OK(weft_barrier(job.comm, NULL));
    job_memory_put(&job, send, moved->is_mapped);
    job_memory_put(&job, recv, moved->is_mapped);
    CHECK_OK(job_close(&job));
    return 0;
}

static void test_past_caches(void **state)
{
    (void)state;
    setenv("WEFT_SPIN_US", "1000000", 1); /* who waits does not sleep */
    for (int call = 0; call < CALLS; call++) {
        setenv("WEFT_WAY_SHM", call == ALLTOALL ? "auto" : "fed",
               1); /* nothing is measured where it is fixed */
        for (int i = 0; i < 4; i++) {
            struct moved moved = {(enum call)call, i % 2 ? LONG : LONG - SLICE, i / 2};
            shared->streamed = 0;
            assert_int_equal(test_ranks_fork(2, streamed_body, &moved), 0);
            assert_int_equal(shared->streamed, call == ALLTOALL || moved.bytes < LONG ? 0 : LONG);
        }
    }
    unsetenv("WEFT_SPIN_US");
    unsetenv("WEFT_WAY_SHM");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_at_once), cmocka_unit_test(test_past_caches)};
    shared = test_ranks_shared(sizeof *shared);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
