/* SPDX-License-Identifier: Apache-2.0 */
/* build: with tests/clock/; wrap madvise @tests/clock/wraps */
/* What feeding takes: the memory of a rank that feeds more peers than it has memory for at a time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/clock/clock.h"
#include "tests/support/job.h"
#include "tests/support/pattern.h"
#include "tests/support/proc_kb.h"
#include "tests/support/ranks.h"

#define BYTES (128u << 10) /* one read */
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

static struct {
    _Atomic int is_denied, populated, removed;
} * shared;

int __real_madvise(void *memory, size_t size, int advice);
int __wrap_madvise(void *memory, size_t size, int advice);
int __wrap_madvise(void *memory, size_t size, int advice)
{
    if (advice == MADV_POPULATE_WRITE)
        shared->populated++;
    if (advice == MADV_REMOVE)
        shared->removed++;
    if (advice != MADV_POPULATE_WRITE || !shared->is_denied)
        return __real_madvise(memory, size, advice);
    errno = ENOMEM;
    return -1;
}

/* --- so many links of a rank have memory for it, and what is idle goes to others */

#define RANKS   22
#define LINKS   16
#define LINK_KB (512 + 8) /* and marks */
#define RING_KB 72        /* of each link, which was there before but had not been touched by rank 0 */

static int memory_body(int rank, int ranks, void *arg)
{
    struct job job;
    uint8_t *memory = malloc(BYTES);
    uint64_t first = 0;
    (void)arg;
    CHECK(memory);
    CHECK_OK(job_open(&job, "shm", NULL));
    CHECK_OK(job_greet(job.comm));
    CHECK_OK(weft_barrier(job.comm, NULL));
    long before = test_proc_kb("/proc/self/status", "RssShmem");
    for (int round = 0; round < 2; round++) {
        test_clock_slow(300000);          /* 1.2 s: there are few processors */
        for (int r = 1; r < ranks; r++) { /* the second time the other way round */
            int to = round ? ranks - r : r;
            pattern_fill(memory, BYTES, rank ? 99 : r);
            if (rank == 0)
                CHECK_OK(weft_send(job.comm, memory, BYTES, WEFT_UINT8, to, 0, NULL));
            else if (rank == to)
                CHECK_OK(weft_recv(job.comm, memory, BYTES, WEFT_UINT8, 0, 0, NULL, NULL));
            if (rank == to)
                CHECK_BITS(pattern_check(memory, BYTES, r) == 0);
        }
        test_clock_slow(1);
        if (rank == 0) {
            long grown = test_proc_kb("/proc/self/status", "RssShmem") - before;
            if (grown < LINKS * 512 || grown > LINKS * LINK_KB + RANKS * RING_KB)
                fprintf(stderr, "shared memory has grown by %ld kB\n", grown);
            CHECK(grown >= LINKS * 512 && grown <= LINKS * LINK_KB + RANKS * RING_KB);
        } else if (round == 0) {
            first = job_fed_bytes(&job);
            CHECK(first == (rank <= LINKS ? BYTES : 0));
        } else if (rank > LINKS) {
            CHECK(job_fed_bytes(&job) - first == BYTES); /* of memory that was another link's */
        }
        if (rank == 0) { /* a second passes */
            test_clock_hurry(1000);
            usleep(100000);
            test_clock_hurry(1);
        }
        CHECK_OK(weft_barrier(job.comm, NULL));
    }
    CHECK_OK(job_close(&job));
    free(memory);
    return 0;
}

static void test_memory(void **state)
{
    (void)state;
    assert_int_equal(test_ranks_fork(RANKS, memory_body, NULL), 0);
}

/* --- where there is no memory the kernel reads, and it is not asked for all the time */

#define DENIED 6 /* messages */

static int send_some(const struct job *job, int rank, uint8_t *memory, int count)
{
    for (int i = 0; i < count; i++) {
        pattern_fill(memory, BYTES, rank ? 99 : i);
        if (rank == 0)
            CHECK_OK(weft_send(job->comm, memory, BYTES, WEFT_UINT8, 1, 0, NULL));
        else
            CHECK_OK(weft_recv(job->comm, memory, BYTES, WEFT_UINT8, 0, 0, NULL, NULL));
        CHECK_BITS(rank == 0 || pattern_check(memory, BYTES, i) == 0);
    }
    return 0;
}

static int denied_body(int rank, int ranks, void *arg)
{
    struct job job;
    uint8_t *memory = malloc(BYTES);
    CHECK(memory && ranks == 2 && !arg);
    CHECK_OK(job_open(&job, "shm", NULL));
    CHECK_OK(job_greet(job.comm));
    test_clock_slow(20000); /* 80 ms for an owner to begin */
    CHECK(send_some(&job, rank, memory, DENIED) == 0);
    CHECK(rank == 0 || job_fed_bytes(&job) == 0);
    CHECK(rank == 0 || (shared->populated == 1 && shared->removed == 1));
    CHECK_OK(weft_barrier(job.comm, NULL));
    test_clock_slow(1);
    if (rank == 0) { /* a second passes */
        shared->is_denied = 0;
        test_clock_hurry(1000);
        usleep(100000);
        test_clock_hurry(1);
    }
    CHECK_OK(weft_barrier(job.comm, NULL));
    test_clock_slow(300000);
    CHECK(send_some(&job, rank, memory, 1) == 0);
    test_clock_slow(1);
    CHECK(rank == 0 || (job_fed_bytes(&job) == BYTES && shared->populated == 2));
    CHECK_OK(job_close(&job));
    free(memory);
    return 0;
}

static void test_denied(void **state)
{
    (void)state;
    shared->is_denied = 1;
    shared->populated = shared->removed = 0;
    assert_int_equal(test_ranks_fork(2, denied_body, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_memory), cmocka_unit_test(test_denied)};
    shared = test_ranks_shared(sizeof *shared);
    setenv("WEFT_WAY_SHM", "fed", 1);
    setenv("WEFT_HELP_SHM", "always", 1);
    setenv("WEFT_SPIN_US", "1000000", 1); /* who waits does not sleep */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
