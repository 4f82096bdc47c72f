/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks over the verbs transport, on the devices of WEFT_RDMA_DEVICE: collectives of several sizes and types and
 * messages bit for bit, on communicators made in every way, with links made at first use and at once; and a rank that dies
 * or stands still is named while the others go on. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/job.h"
#include "tests/support/lost_rank.h"
#include "tests/support/ranks.h"
#include "tests/support/rdma_device.h"
#include "tests/support/skip.h"

#define LARGE 100003 /* elements: several slices, not of equal size */

static const size_t counts[] = {1, 2, 700, 9000, LARGE};
static const weft_dtype types[] = {WEFT_FLOAT32, WEFT_INT32, WEFT_FLOAT64, WEFT_BFLOAT16};

/* Every rank gets everybody's block, whose bytes say whose it is. */
static int gather(weft_comm *comm, uint8_t *send, uint8_t *recv, size_t count)
{
    int rank = weft_comm_rank(comm), ranks = weft_comm_size(comm);
    size_t block = count / (size_t)ranks + 1;
    for (size_t i = 0; i < block; i++)
        send[i] = (uint8_t)((size_t)rank * 37 + i * 11);
    memset(recv, 0xcc, block * (size_t)ranks);
    CHECK_OK(weft_allgather(comm, send, recv, block, WEFT_UINT8, NULL));
    for (size_t i = 0; i < block * (size_t)ranks; i++)
        CHECK_BITS(recv[i] == (uint8_t)(i / block * 37 + i % block * 11));
    return 0;
}

static int use(weft_comm *comm, size_t most)
{
    uint8_t *send = malloc(LARGE * 8), *recv = malloc(LARGE * 8);
    CHECK(send && recv);
    for (size_t i = 0; i < sizeof counts / sizeof counts[0] && counts[i] <= most; i++) {
        for (int type = 0; type < 4; type++) {
            CHECK(job_reduce(comm, send, recv, counts[i], types[type]) == 0);
            CHECK(job_pass_on(comm, send, recv, counts[i], types[type]) == 0);
        }
        CHECK(gather(comm, send, recv, counts[i]) == 0);
    }
    free(send);
    free(recv);
    return 0;
}

static int results_body(int rank, int ranks, void *arg)
{
    struct job job;
    (void)rank, (void)ranks;
    if (arg)
        setenv("WEFT_CONNECT", arg, 1);
    CHECK_OK(job_open(&job, "verbs", NULL));
    CHECK(use(job.comm, LARGE) == 0);
    CHECK_OK(job_close(&job));
    return 0;
}

static void results_are_right(void **state)
{
    (void)state;
    assert_int_equal(test_ranks_fork(2, results_body, NULL), 0);
    assert_int_equal(test_ranks_fork(3, results_body, NULL), 0);
}

static void links_may_be_made_at_once(void **state)
{
    (void)state;
    assert_int_equal(test_ranks_fork(4, results_body, (void *)(uintptr_t) "eager"), 0);
}

/* Communicators share links; each has its own traffic. */
static int relatives_body(int rank, int ranks, void *arg)
{
    struct job job;
    weft_comm *half, *copy, *some;
    const int members[] = {0, 2, 3};
    (void)arg;
    CHECK_OK(job_open(&job, "verbs", NULL));
    CHECK_OK(weft_comm_split(job.comm, rank % 2, rank, &half, NULL));
    CHECK_OK(weft_comm_split(job.comm, 0, 0, &copy, NULL));
    CHECK(weft_comm_size(half) == ranks / 2 && weft_comm_size(copy) == ranks);
    CHECK(use(half, 700) == 0);
    CHECK(use(copy, 700) == 0);
    if (rank != 1) {
        CHECK_OK(weft_comm_subset(job.comm, members, 3, 5, &some, NULL));
        CHECK(use(some, 700) == 0);
        CHECK_OK(weft_comm_destroy(some));
    }
    CHECK_OK(weft_comm_destroy(half));
    CHECK(use(job.comm, 9000) == 0);
    CHECK_OK(weft_comm_destroy(copy));
    CHECK_OK(job_close(&job));
    return 0;
}

static void relatives_share_links(void **state)
{
    (void)state;
    assert_int_equal(test_ranks_fork(4, relatives_body, NULL), 0);
}

/* As the kernel counts, while the process lives on. */
static int closing_body(int rank, int ranks, void *arg)
{
    (void)rank, (void)ranks, (void)arg;
    struct job job;
    CHECK_OK(job_open(&job, "verbs", NULL));
    CHECK(use(job.comm, 9000) == 0);
    int during = test_rdma_held();
    CHECK_OK(job_close(&job));
    int after = test_rdma_held();
    if (during < 6 || after)
        fprintf(stderr, "rank %d held %d things of devices, and %d after its context was closed\n", rank,
                during, after);
    return during < 6 || after; /* one of each kind */
}

static void closing_leaves_nothing(void **state)
{
    (void)state;
    if (test_rdma_held() < 0) {
        TEST_SKIP("iproute2's rdma cannot count here");
    }
    assert_int_equal(test_ranks_fork(2, closing_body, NULL), 0);
}

/* Each copy is the only one that uses the link: its queue pairs come and go with it. */
static int copies_body(int rank, int ranks, void *arg)
{
    struct job job;
    (void)rank, (void)ranks;
    setenv("WEFT_VERBS_WINDOWS", arg, 1);
    CHECK_OK(job_open(&job, "verbs", NULL));
    for (int i = 0; i < 12; i++) {
        weft_comm *copy;
        uint8_t send[2048], recv[4096];
        CHECK_OK(weft_comm_split(job.comm, 0, 0, &copy, NULL));
        CHECK(gather(copy, send, recv, 2000) == 0);
        CHECK_OK(weft_comm_destroy(copy));
    }
    CHECK(use(job.comm, 700) == 0);
    CHECK_OK(job_close(&job));
    return 0;
}

static void copies_come_and_go(void **state)
{
    (void)state;
    assert_int_equal(test_ranks_fork(2, copies_body, (void *)(uintptr_t) "1"), 0);
    assert_int_equal(test_ranks_fork(2, copies_body, (void *)(uintptr_t) "0"), 0);
}

/* Nobody names devices: the ranks of a host share them out. */
static int share_body(int rank, int ranks, void *arg)
{
    struct job job;
    weft_rail rails[3] = {WEFT_RAIL_INIT, WEFT_RAIL_INIT, WEFT_RAIL_INIT};
    char device[64];
    int count, port = test_rdma_device(rank, device, sizeof device);
    (void)ranks, (void)arg;
    unsetenv("WEFT_VERBS_DEVICE");
    CHECK_OK(job_open(&job, "verbs", NULL));
    CHECK(use(job.comm, 9000) == 0);
    CHECK_OK(weft_context_get_rails(job.context, rails, 3, &count));
    if (count != 1 || strcmp(rails[0].device, device) != 0 || rails[0].port != port) {
        fprintf(stderr, "rank %d has %d rails, the first of %s\n", rank, count, rails[0].device);
        return 1;
    }
    CHECK_OK(job_close(&job));
    return 0;
}

static void each_rank_has_a_device_of_its_own(void **state)
{
    (void)state;
    if (!getenv("WEFT_VM") || test_rdma_absent(1)) {
        TEST_SKIP("no second device on the same network is known: not in a machine of tests/vm");
    }
    assert_int_equal(test_ranks_fork(2, share_body, NULL), 0);
}

static void a_death_is_named_and_the_others_go_on(void **state)
{
    (void)state;
    lost_rank_is_named("verbs", NULL, SIGKILL, 2);
    lost_rank_is_named("verbs", NULL, SIGKILL, LARGE);
}

static void a_silent_rank_is_named_and_the_others_go_on(void **state)
{
    (void)state;
    lost_rank_is_named("verbs", NULL, SIGSTOP, 2);
    lost_rank_is_named("verbs", NULL, SIGSTOP, LARGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(results_are_right),
        cmocka_unit_test(links_may_be_made_at_once),
        cmocka_unit_test(relatives_share_links),
        cmocka_unit_test(closing_leaves_nothing),
        cmocka_unit_test(copies_come_and_go),
        cmocka_unit_test(each_rank_has_a_device_of_its_own),
        cmocka_unit_test(a_death_is_named_and_the_others_go_on),
        cmocka_unit_test(a_silent_rank_is_named_and_the_others_go_on),
    };
    const char *reason = test_rdma_absent(0);
    if (reason) {
        printf("SKIP: %s\n", reason);
        return 77;
    }
    setenv("WEFT_VERBS_DEVICE", getenv("WEFT_RDMA_DEVICE"), 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
