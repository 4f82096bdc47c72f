/* SPDX-License-Identifier: Apache-2.0 */
/* What many communicators of one context cost in descriptors: a connection of the overlay to each neighbour, and nothing else that grows with
 * their number, but one for the slots of sixteen. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/support/job.h"
#include "tests/support/leak.h"
#include "tests/support/ranks.h"

#define GROUPS 32
#define SHARED (GROUPS / 16 + 1) /* slots for tiny calls; a group that is there already uses some */
#define LARGE  100000

static int use(weft_comm *comm, float *data, size_t count)
{
    for (size_t i = 0; i < count; i++)
        data[i] = 1;
    CHECK_OK(weft_allreduce(comm, data, data, count, WEFT_FLOAT32, WEFT_SUM, NULL));
    for (size_t i = 0; i < count; i++)
        CHECK_BITS(data[i] == (float)weft_comm_size(comm));
    return 0;
}

static int body(int rank, int ranks, void *arg)
{
    const char *transports = arg;
    struct job job;
    struct test_leak before, with;
    weft_comm *groups[GROUPS];
    int all[TEST_RANKS_MAX];
    float *data = calloc(LARGE, sizeof *data);
    CHECK(data);
    CHECK_OK(job_open(&job, transports, NULL));
    for (int r = 0; r < ranks; r++)
        all[r] = r;
    CHECK(use(job.comm, data, 1) == 0 && use(job.comm, data, LARGE) == 0);
    test_leak_take(&before);
    for (int g = 0; g < GROUPS; g++) {
        CHECK_OK(weft_comm_subset(job.comm, all, ranks, g, &groups[g], NULL));
        CHECK(use(groups[g], data, 1) == 0 && use(groups[g], data, LARGE) == 0);
    }
    test_leak_take(&with);
    int grown = with.descriptors - before.descriptors;
    if (grown > GROUPS * (ranks - 1) + SHARED)
        fprintf(stderr, "rank %d of %d: %d descriptors for %d groups over %s\n", rank, ranks, grown, GROUPS,
                transports);
    CHECK(grown <= GROUPS * (ranks - 1) + SHARED);
    for (int g = 0; g < GROUPS; g++)
        CHECK_OK(weft_comm_destroy(groups[g]));
    CHECK(use(job.comm, data, 1) == 0);
    CHECK_OK(job_close(&job));
    free(data);
    return 0;
}

static void test_descriptors(void **state)
{
    (void)state;
    static char shm[] = "shm", tcp[] = "tcp";
    assert_int_equal(test_ranks_fork(2, body, shm), 0);
    assert_int_equal(test_ranks_fork(2, body, tcp), 0);
    assert_int_equal(test_ranks_fork(4, body, shm), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_descriptors)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
