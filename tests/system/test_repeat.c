/* SPDX-License-Identifier: Apache-2.0 */
/* The same job twice, with the same inputs and settings: floating-point results have the same bits, whoever is late. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/support/job.h"
#include "tests/support/ranks.h"
#include "tests/support/effort.h"

enum { RANKS_MAX = 5, ELEMENTS = 60000, SMALL = 50, CALLS = 5, SLOT = CALLS * ELEMENTS };

struct run {
    float *results; /* shared: [RANKS_MAX][CALLS][ELEMENTS] */
    int number;
    const char *transports;
};

/* Their sum depends on the order: sizes differ by many powers of ten. */
static void fill(float *data, int rank)
{
    uint32_t random = 99u + (uint32_t)rank * 7919u;
    for (int i = 0; i < ELEMENTS; i++) {
        random = random * 1664525u + 1013904223u;
        data[i] = (float)((double)(int32_t)random * (random >> 9 & 1 ? 1e-7 : 1e2));
    }
}

static int repeat_body(int rank, int ranks, void *arg)
{
    const struct run *run = arg;
    float *send = malloc(ELEMENTS * sizeof *send), *to = run->results + (size_t)rank * SLOT;
    struct job job;
    weft_work *work;
    CHECK(send);
    fill(send, rank);
    CHECK_OK(job_open(&job, run->transports, NULL));
    for (int call = 0; call < CALLS; call++, to += ELEMENTS) {
        if ((rank + run->number + call) % ranks == 0)
            usleep(3000); /* another rank in each run */
        const size_t block = (size_t)(ELEMENTS / ranks);
        if (call < 2)
            CHECK_OK(
                weft_allreduce(job.comm, send, to, call ? SMALL : ELEMENTS, WEFT_FLOAT32, WEFT_SUM, NULL));
        else if (call == 2)
            CHECK_OK(weft_reduce(job.comm, send, to, ELEMENTS, WEFT_FLOAT32, WEFT_SUM, 1, NULL));
        else if (call == 3)
            CHECK_OK(weft_reduce_scatter(job.comm, send, to, block, WEFT_FLOAT32, WEFT_SUM, NULL));
        else
            CHECK_OK(
                weft_allreduce(job.comm, send, to, ELEMENTS - 1, WEFT_FLOAT32, WEFT_AVG, WEFT_START(&work)));
    }
    CHECK_OK(weft_work_wait(work, -1));
    CHECK_OK(weft_work_free(work));
    CHECK_OK(job_close(&job));
    free(send);
    return 0;
}

static void compare_runs(const char *transports, const char *algorithm, int ranks)
{
    const size_t bytes = (size_t)RANKS_MAX * SLOT * sizeof(float);
    struct run runs[2];
    setenv("WEFT_ALGO", algorithm, 1);
    for (int r = 0; r < 2; r++) {
        float *results = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        assert_ptr_not_equal(results, MAP_FAILED);
        runs[r] = (struct run){results, r, transports};
        assert_int_equal(test_ranks_fork(ranks, repeat_body, &runs[r]), 0);
    }
    unsetenv("WEFT_ALGO");
    for (int rank = 0; rank < ranks; rank++) {
        const float *first = runs[0].results + (size_t)rank * SLOT,
                    *second = runs[1].results + (size_t)rank * SLOT;
        if (memcmp(first, second, SLOT * sizeof(float)) != 0)
            fail_msg("WRONG: %s, %s, %d ranks: rank %d has other bits in the second run", transports,
                     algorithm, ranks, rank);
    }
    /* And there was something to compare. */
    assert_true(runs[0].results[0] != 0 && runs[0].results[4 * ELEMENTS] != 0);
    for (int r = 0; r < 2; r++)
        munmap(runs[r].results, bytes);
}

static void test_two_runs(void **state)
{
    (void)state;
    static const char *const algorithms[] = {"ring", "tree", "rd", "rab", "auto"};
    for (size_t a = 0; a < sizeof algorithms / sizeof *algorithms; a++) {
        for (int ranks = 2; ranks <= RANKS_MAX; ranks++) {
            if (test_effort() == TEST_LONG || ((size_t)ranks + a) % 2)
                compare_runs("shm", algorithms[a], ranks);
        }
        compare_runs("tcp", algorithms[a], 3);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_two_runs)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
