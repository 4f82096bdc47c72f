/* SPDX-License-Identifier: Apache-2.0 */
/* build: wrap process_vm_writev */
/* Messages of four pieces. An owner that has not helped, and then helps with all of them but the last, is found out: it is not always asked
 * for the same piece. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/uio.h>
#include <cmocka.h>

#include "tests/support/job.h"
#include "tests/support/ranks.h"

#define PIECE    (512u << 10) /* one read */
#define PIECES   4
#define UNHELPED 2 /* messages at first */
#define MESSAGES 2000

static const uint8_t *refused; /* from here on, of the owner's memory */

ssize_t __real_process_vm_writev(pid_t pid, const struct iovec *local, unsigned long locals,
                                 const struct iovec *remote, unsigned long remotes, unsigned long flags);
ssize_t __wrap_process_vm_writev(pid_t pid, const struct iovec *local, unsigned long locals,
                                 const struct iovec *remote, unsigned long remotes, unsigned long flags);
ssize_t __wrap_process_vm_writev(pid_t pid, const struct iovec *local, unsigned long locals,
                                 const struct iovec *remote, unsigned long remotes, unsigned long flags)
{
    if ((const uint8_t *)local->iov_base < refused)
        return __real_process_vm_writev(pid, local, locals, remote, remotes, flags);
    errno = ENOMEM;
    return -1;
}

static int body(int rank, int ranks, void *arg)
{
    struct job job;
    uint8_t *memory = calloc(PIECES, PIECE);
    int helped = 0;
    (void)ranks, (void)arg;
    CHECK(memory);
    setenv("WEFT_WAY_SHM", "pull", 1);
    setenv("WEFT_SPIN_US", "1000000", 1); /* who waits does not sleep */
    CHECK_OK(job_open(&job, "shm", NULL));
    CHECK_OK(job_greet(job.comm));
    for (int i = 0; i < MESSAGES && !helped; i++) {
        weft_comm_stats stats = WEFT_COMM_STATS_INIT;
        refused = i < UNHELPED ? memory : memory + (PIECES - 1) * PIECE;
        CHECK_OK(weft_barrier(job.comm, NULL));
        if (rank == 0)
            CHECK_OK(weft_send(job.comm, memory, PIECES * PIECE, WEFT_UINT8, 1, 0, NULL));
        else
            CHECK_OK(weft_recv(job.comm, memory, PIECES * PIECE, WEFT_UINT8, 0, 0, NULL, NULL));
        CHECK_OK(weft_comm_get_stats(job.comm, &stats));
        CHECK(i >= UNHELPED || !stats.bytes_helped);
        helped = rank == 1 && stats.bytes_helped;
        CHECK_OK(weft_broadcast(job.comm, &helped, &helped, 1, WEFT_INT32, 1, NULL));
    }
    CHECK(helped);
    CHECK_OK(job_close(&job));
    free(memory);
    return 0;
}

static void test_pieces(void **state)
{
    (void)state;
    assert_int_equal(test_ranks_fork(2, body, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_pieces)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
