/* SPDX-License-Identifier: Apache-2.0 */
/* build: wrap process_vm_readv vmsplice */
/* Which way ordinary memory takes between ranks of one host: what WEFT_WAY_SHM says, and otherwise both, as the faster one is found by trying. Seen by
 * the system calls. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <cmocka.h>

#include "tests/support/job.h"
#include "tests/support/ranks.h"
#include "tests/support/skip.h"

#define BYTES  (96u << 10)
#define ROUNDS 100
#define PAGE   4096 /* less is read when ranks look whether they can */

static struct {
    atomic_int pulled, piped, refused;
} * seen;

ssize_t __real_process_vm_readv(pid_t, const struct iovec *, unsigned long, const struct iovec *,
                                unsigned long, unsigned long);
ssize_t __wrap_process_vm_readv(pid_t, const struct iovec *, unsigned long, const struct iovec *,
                                unsigned long, unsigned long);
ssize_t __real_vmsplice(int, const struct iovec *, size_t, unsigned);
ssize_t __wrap_vmsplice(int, const struct iovec *, size_t, unsigned);

ssize_t __wrap_process_vm_readv(pid_t pid, const struct iovec *local, unsigned long locals,
                                const struct iovec *remote, unsigned long remotes, unsigned long flags)
{
    ssize_t got = __real_process_vm_readv(pid, local, locals, remote, remotes, flags);
    if (local->iov_len >= PAGE)
        seen->pulled++;
    else if (got < 0)
        seen->refused++;
    return got;
}

ssize_t __wrap_vmsplice(int fd, const struct iovec *pages, size_t count, unsigned flags)
{
    seen->piped += pages->iov_len >= PAGE;
    return __real_vmsplice(fd, pages, count, flags);
}

static int body(int rank, int ranks, void *arg)
{
    (void)arg;
    struct job job;
    uint8_t *send = malloc(BYTES), *recv = malloc(BYTES);
    CHECK(send && recv);
    CHECK_OK(job_open(&job, "shm", NULL));
    for (int round = 0; round < ROUNDS; round++) {
        memset(send, round + rank, BYTES);
        memset(recv, 0xff, BYTES);
        CHECK_OK(weft_sendrecv(job.comm, send, BYTES, (rank + 1) % ranks, 0, recv, BYTES, (rank + 1) % ranks,
                               0, WEFT_UINT8, NULL, NULL));
        for (size_t i = 0; i < BYTES; i++)
            CHECK(recv[i] == (uint8_t)(round + (rank + 1) % ranks));
    }
    CHECK_OK(job_close(&job));
    free(send);
    free(recv);
    return 0;
}

static void run(const char *way)
{
    memset((void *)seen, 0, sizeof *seen);
    setenv("WEFT_WAY_SHM", way, 1);
    int failed = test_ranks_fork(2, body, NULL);
    unsetenv("WEFT_WAY_SHM");
    assert_int_equal(failed, 0);
}

static void test_pipe(void **state)
{
    (void)state;
    run("pipe");
    assert_int_equal(seen->pulled, 0);
    assert_in_range(seen->piped, 2 * ROUNDS, INT32_MAX);
}

static void test_pull(void **state)
{
    (void)state;
    run("pull");
    if (seen->refused)
        TEST_SKIP("the kernel lets no process read another one's memory here");
    assert_int_equal(seen->piped, 0);
    assert_in_range(seen->pulled, 2 * ROUNDS, INT32_MAX);
}

/* A pipe first, and a trial of three messages before a hundred have gone. */
static void test_auto(void **state)
{
    (void)state;
    run("auto");
    assert_in_range(seen->piped, 2 * 8, INT32_MAX);
    if (seen->refused)
        TEST_SKIP("the kernel lets no process read another one's memory here");
    assert_in_range(seen->pulled, 2 * 3, INT32_MAX);
}

/* --- a little above the eager limit: inside a message, or announced */

#define LITTLE 8192

static int little_body(int rank, int ranks, void *arg)
{
    (void)ranks;
    struct job job;
    uint8_t send[LITTLE], recv[LITTLE];
    weft_comm_stats stats = WEFT_COMM_STATS_INIT;
    CHECK_OK(job_open(&job, "shm", NULL));
    for (int round = 0; round < ROUNDS; round++) {
        memset(send, round + rank, LITTLE);
        memset(recv, 0xff, LITTLE);
        if (rank == 0)
            CHECK_OK(weft_send(job.comm, send, LITTLE, WEFT_UINT8, 1, 0, NULL));
        CHECK_OK(weft_recv(job.comm, recv, LITTLE, WEFT_UINT8, !rank, 0, NULL, NULL));
        if (rank == 1)
            CHECK_OK(weft_send(job.comm, send, LITTLE, WEFT_UINT8, 0, 0, NULL));
        for (int i = 0; i < LITTLE; i++)
            CHECK(recv[i] == (uint8_t)(round + !rank));
    }
    CHECK_OK(weft_comm_get_stats(job.comm, &stats));
    ((uint64_t *)arg)[rank] = stats.bytes_eager;
    CHECK_OK(job_close(&job));
    return 0;
}

static void test_little(void **state)
{
    (void)state;
    uint64_t *bytes = test_ranks_shared(2 * sizeof *bytes);
    setenv("WEFT_WAY_SHM", "pipe", 1);
    assert_int_equal(test_ranks_fork(2, little_body, bytes), 0);
    assert_int_equal(bytes[0] + bytes[1], 0);
    unsetenv("WEFT_WAY_SHM");
    assert_int_equal(test_ranks_fork(2, little_body, bytes), 0);
    assert_in_range(bytes[0] + bytes[1], 2 * 3 * LITTLE, 2 * ROUNDS * LITTLE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pipe),
        cmocka_unit_test(test_pull),
        cmocka_unit_test(test_auto),
        cmocka_unit_test(test_little),
    };
    seen = test_ranks_shared(sizeof *seen);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
