/* SPDX-License-Identifier: Apache-2.0 */
/* Every collective between real ranks, as processes and as threads, over shared memory and libfabric: blocking and
 * started, roots, in place, no elements, unequal blocks with gaps, against a plain reference, bit for bit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/support/collective_sweep.h"
#include "tests/support/job.h"
#include "tests/support/leak.h"
#include "tests/support/ranks.h"
#include "tests/support/effort.h"

struct setup {
    const char *transports, *provider;
};

/* A sanitizer's build is many times slower, and sees as much in fewer sizes. So do algorithms, each of which has them all. */
static int sweep(weft_comm *comm, uint32_t seed, size_t counts_used)
{
    static const size_t all[] = {0, 1, 3, 100, 1023, 5000, 70001}, some[] = {0, 3, 5000, 70001};
    if (test_is_sanitized())
        return collective_sweep(comm, COLLECTIVES_ALL, seed, some, 3);
    if (test_effort() == TEST_ORDINARY && getenv("WEFT_ALGO"))
        return collective_sweep(comm, COLLECTIVES_ALL, seed, some, sizeof some / sizeof *some);
    return collective_sweep(comm, COLLECTIVES_ALL, seed, all, counts_used);
}

static int sweep_body(int rank, int ranks, void *arg)
{
    (void)rank;
    const struct setup *setup = arg;
    struct job job;
    CHECK_OK(job_open(&job, setup->transports, setup->provider));
    int failed = sweep(job.comm, (uint32_t)ranks * 7, setup->provider ? 6 : 7);
    if (!failed)
        CHECK_OK(job_close(&job));
    return failed;
}

static const int rank_counts[] = {1, 2, 3, 4, 5, 8};

static void test_shm(void **state)
{
    (void)state;
    static const struct setup setup = {"shm", NULL};
    for (size_t r = 0; r < sizeof rank_counts / sizeof *rank_counts; r++)
        assert_int_equal(test_ranks_fork(rank_counts[r], sweep_body, (void *)(uintptr_t)&setup), 0);
}

/* Without the cache-line path, with every algorithm that has a name. */
static void test_algorithms(void **state)
{
    (void)state;
    static const struct setup setup = {"shm", NULL};
    for (int a = WEFT_ALGO_RING; a < WEFT_ALGO_COUNT; a++) {
        setenv("WEFT_ALGO", weft_algorithm_name((enum weft_algorithm)a), 1);
        setenv("WEFT_FAST_PATH", "0", 1);
        assert_int_equal(test_ranks_fork(3 + a % 3, sweep_body, (void *)(uintptr_t)&setup), 0);
    }
    unsetenv("WEFT_ALGO");
    unsetenv("WEFT_FAST_PATH");
}

/* Without ranks that read each other's memory. */
static void test_staged(void **state)
{
    (void)state;
    static const struct setup setup = {"shm", NULL};
    setenv("WEFT_DIRECT", "0", 1);
    setenv("WEFT_SLICE_SHM", "16384", 1);
    assert_int_equal(test_ranks_fork(3, sweep_body, (void *)(uintptr_t)&setup), 0);
    unsetenv("WEFT_DIRECT");
    unsetenv("WEFT_SLICE_SHM");
}

static void test_threads(void **state)
{
    (void)state;
    static const struct setup setup = {"shm", NULL};
    struct test_leak before;
    assert_int_equal(test_ranks_threads(2, sweep_body, (void *)(uintptr_t)&setup), 0);
    test_leak_take(&before);
    for (int ranks = 3; ranks <= 5; ranks++)
        assert_int_equal(test_ranks_threads(ranks, sweep_body, (void *)(uintptr_t)&setup), 0);
    assert_int_equal(test_leak_check(&before), 0);
}

static void test_tcp(void **state)
{
    (void)state;
    struct setup setup = {"tcp", NULL};
    for (int ranks = 2; ranks <= 4; ranks++)
        assert_int_equal(test_ranks_fork(ranks, sweep_body, &setup), 0);
}

static void test_ofi(void **state)
{
    (void)state;
    struct setup setup = {"ofi", "tcp;ofi_rxm"};
    if (!job_has_ofi(setup.provider))
        skip();
    assert_int_equal(test_ranks_fork(3, sweep_body, &setup), 0);
    setup.provider = "net";
    if (job_has_ofi(setup.provider))
        assert_int_equal(test_ranks_fork(3, sweep_body, &setup), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shm),     cmocka_unit_test(test_algorithms), cmocka_unit_test(test_staged),
        cmocka_unit_test(test_threads), cmocka_unit_test(test_tcp),        cmocka_unit_test(test_ofi),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
