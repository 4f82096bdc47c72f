/* Ranks over the verbs transport, on the devices of WEFT_RDMA_DEVICE: collectives of several sizes and types and
 * messages bit for bit, on communicators made in every way, with links made at first use and at once; and a rank that dies
 * is named while the others go on. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "tests/support/job.h"
#include "tests/support/ranks.h"
#include "tests/support/rdma_device.h"

#define LARGE 100003 /* elements: several slices, not of equal size */

static const size_t counts[] = {1, 2, 700, 9000, LARGE};
static const weft_dtype types[] = {WEFT_FLOAT32, WEFT_INT32, WEFT_FLOAT64, WEFT_BFLOAT16};
static const size_t type_bytes[] = {4, 4, 8, 2};

static int reduce(weft_comm *comm, uint8_t *send, uint8_t *recv, size_t count, int type)
{
    int rank = weft_comm_rank(comm), ranks = weft_comm_size(comm);
    job_fill(send, types[type], rank, count);
    memset(recv, 0xcc, count * type_bytes[type]);
    CHECK_OK(weft_allreduce(comm, send, recv, count, types[type], WEFT_SUM));
    CHECK(job_wrong(recv, types[type], WEFT_SUM, ranks, count) == 0);
    return 0;
}

/* Every rank's data to the next one, and its neighbour's back to the start of recv. */
static int pass_on(weft_comm *comm, uint8_t *send, uint8_t *recv, size_t count, int type)
{
    int rank = weft_comm_rank(comm), ranks = weft_comm_size(comm), left = (rank + ranks - 1) % ranks;
    job_fill(send, types[type], rank, count);
    memset(recv, 0xcc, count * type_bytes[type]);
    CHECK_OK(
        weft_sendrecv(comm, send, count, (rank + 1) % ranks, 7, recv, count, left, 7, types[type], NULL));
    job_fill(send, types[type], left, count);
    CHECK(memcmp(send, recv, count * type_bytes[type]) == 0);
    return 0;
}

/* Every rank gets everybody's block, whose bytes say whose it is. */
static int gather(weft_comm *comm, uint8_t *send, uint8_t *recv, size_t count)
{
    int rank = weft_comm_rank(comm), ranks = weft_comm_size(comm);
    size_t block = count / (size_t)ranks + 1;
    for (size_t i = 0; i < block; i++)
        send[i] = (uint8_t)((size_t)rank * 37 + i * 11);
    memset(recv, 0xcc, block * (size_t)ranks);
    CHECK_OK(weft_allgather(comm, send, recv, block, WEFT_UINT8));
    for (size_t i = 0; i < block * (size_t)ranks; i++)
        CHECK(recv[i] == (uint8_t)(i / block * 37 + i % block * 11));
    return 0;
}

static int use(weft_comm *comm, size_t most)
{
    uint8_t *send = malloc(LARGE * 8), *recv = malloc(LARGE * 8);
    CHECK(send && recv);
    for (size_t i = 0; i < sizeof counts / sizeof counts[0] && counts[i] <= most; i++) {
        for (int type = 0; type < 4; type++) {
            CHECK(reduce(comm, send, recv, counts[i], type) == 0);
            CHECK(pass_on(comm, send, recv, counts[i], type) == 0);
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
    CHECK_OK(weft_comm_split(job.comm, rank % 2, rank, &half));
    CHECK_OK(weft_comm_dup(job.comm, &copy));
    CHECK(weft_comm_size(half) == ranks / 2 && weft_comm_size(copy) == ranks);
    CHECK(use(half, 700) == 0);
    CHECK(use(copy, 700) == 0);
    if (rank != 1) {
        CHECK_OK(weft_comm_subset(job.comm, members, 3, 5, &some));
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

/* Rank 1 of three dies between calls, and the others call on until they are told. */
static int death_body(int rank, int ranks, void *arg)
{
    size_t count = *(const size_t *)arg;
    struct job job;
    weft_comm *smaller;
    CHECK_OK(job_open(&job, "verbs", NULL));
    float *send = calloc(count, sizeof *send), *recv = calloc(count, sizeof *recv);
    CHECK(send && recv && ranks == 3);
    int status = WEFT_OK;
    for (int i = 0; status == WEFT_OK && i < 1000000; i++) {
        if (rank == 1 && i == 4)
            raise(SIGKILL);
        status = weft_allreduce(job.comm, send, recv, count, WEFT_FLOAT32, WEFT_SUM);
    }
    if (status != WEFT_PEER_FAILED || !strstr(weft_error_detail(), "rank 1 on host")) {
        fprintf(stderr, "rank %d: status %d, '%s', where rank 1 died\n", rank, status, weft_error_detail());
        return 1;
    }
    CHECK_OK(weft_comm_shrink(job.comm, &smaller));
    CHECK(weft_comm_size(smaller) == 2);
    CHECK(use(smaller, 9000) == 0);
    CHECK_OK(weft_comm_destroy(smaller));
    CHECK_OK(job_close(&job));
    free(send);
    free(recv);
    return 0;
}

static void a_death_is_named_and_the_others_go_on(void **state)
{
    static const size_t sizes[] = {2, LARGE};
    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        int statuses[TEST_RANKS_MAX];
        test_ranks_fork_status(3, death_body, (void *)(uintptr_t)&sizes[i], statuses);
        assert_int_equal(statuses[0], 0);
        assert_int_equal(statuses[2], 0);
        assert_true(WIFSIGNALED(statuses[1]));
    }
}

int main(void)
{
    static char address[64];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(results_are_right),
        cmocka_unit_test(links_may_be_made_at_once),
        cmocka_unit_test(relatives_share_links),
        cmocka_unit_test(a_death_is_named_and_the_others_go_on),
    };
    const char *reason = test_rdma_address(0, address, sizeof address);
    if (reason) {
        printf("SKIP: %s\n", reason);
        return 77;
    }
    setenv("WEFT_VERBS_DEVICE", getenv("WEFT_RDMA_DEVICE"), 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
