/* SPDX-License-Identifier: Apache-2.0 */
/* build: with tests/clock/; wrap @tests/clock/wraps */
/* What feeding takes: the memory of a rank that feeds more peers than it has memory for at a time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/clock/clock.h"
#include "tests/support/job.h"
#include "tests/support/pattern.h"
#include "tests/support/proc_kb.h"
#include "tests/support/ranks.h"

#define BYTES (128u << 10) /* one read */

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

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_memory)};
    setenv("WEFT_WAY_SHM", "fed", 1);
    setenv("WEFT_HELP_SHM", "always", 1);
    setenv("WEFT_SPIN_US", "1000000", 1); /* who waits does not sleep */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
