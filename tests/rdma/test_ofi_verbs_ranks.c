/* Ranks over libfabric's provider for RDMA devices: results, messages, a rank that dies, and what a program is told
 * that forks or lacks a setting. Every rank is a process forked before anything has loaded libfabric. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/job.h"
#include "tests/support/ranks.h"
#include "tests/support/rdma_device.h"
#include "transport/registry.h"

#define PROVIDER "verbs;ofi_rxm"
#define LARGE    65536 /* elements: 256 KiB, put in slices */

static const size_t counts[] = {1, 700, 9000, LARGE};

static int reduce(weft_comm *comm, float *send, float *recv, size_t count)
{
    int rank = weft_comm_rank(comm), ranks = weft_comm_size(comm);
    job_fill(send, WEFT_FLOAT32, rank, count);
    memset(recv, 0xcc, count * sizeof *recv);
    CHECK_OK(weft_allreduce(comm, send, recv, count, WEFT_FLOAT32, WEFT_SUM));
    CHECK(job_wrong(recv, WEFT_FLOAT32, WEFT_SUM, ranks, count) == 0);
    return 0;
}

/* Every rank's data to the next one, and its neighbour's back to the start of recv. */
static int pass_on(weft_comm *comm, float *send, float *recv, size_t count)
{
    int rank = weft_comm_rank(comm), ranks = weft_comm_size(comm), left = (rank + ranks - 1) % ranks;
    job_fill(send, WEFT_FLOAT32, rank, count);
    memset(recv, 0xcc, count * sizeof *recv);
    CHECK_OK(
        weft_sendrecv(comm, send, count, (rank + 1) % ranks, 7, recv, count, left, 7, WEFT_FLOAT32, NULL));
    job_fill(send, WEFT_FLOAT32, left, count);
    CHECK(memcmp(send, recv, count * sizeof *recv) == 0);
    return 0;
}

static int results_body(int rank, int ranks, void *arg)
{
    struct job job;
    (void)rank, (void)ranks, (void)arg;
    CHECK_OK(job_open(&job, "ofi", PROVIDER));
    float *send = malloc(LARGE * sizeof *send), *recv = malloc(LARGE * sizeof *recv);
    CHECK(send && recv);
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        for (int turn = 0; turn < 3; turn++) {
            CHECK(reduce(job.comm, send, recv, counts[i]) == 0);
            CHECK(pass_on(job.comm, send, recv, counts[i]) == 0);
        }
    }
    CHECK_OK(job_close(&job));
    free(send);
    free(recv);
    return 0;
}

static void results_are_right(void **state)
{
    (void)state;
    assert_int_equal(test_ranks_fork(2, results_body, NULL), 0);
    assert_int_equal(test_ranks_fork(3, results_body, NULL), 0);
}

/* Rank 1 of three dies between calls, and the others call on until they are told. */
static int death_body(int rank, int ranks, void *arg)
{
    size_t count = *(const size_t *)arg;
    struct job job;
    weft_comm *smaller;
    CHECK_OK(job_open(&job, "ofi", PROVIDER));
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
    CHECK(reduce(smaller, send, recv, count) == 0);
    CHECK(pass_on(smaller, send, recv, count) == 0);
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

static int open_once(void)
{
    struct weft_transport_params params = {.size = sizeof params, .provider = PROVIDER};
    struct weft_transport_ops ops;
    struct weft_transport *transport;
    int status = weft_transport_complete(weft_transport_find("ofi"), &ops);
    if (!status)
        status = ops.open(&params, &transport);
    if (!status)
        ops.close(transport);
    return status;
}

/* Whether opening answers with this status and these words. */
static int is_told(int status, const char *word, const char *other)
{
    if (open_once() == status && strstr(weft_error_detail(), word) && strstr(weft_error_detail(), other))
        return 1;
    fprintf(stderr, "told '%s', expected '%s' and '%s'\n", weft_error_detail(), word, other);
    return 0;
}

static int in_child(int (*function)(void))
{
    int status;
    fflush(NULL);
    pid_t child = fork();
    if (child == 0)
        _exit(function());
    return child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status) ? -1 : WEXITSTATUS(status);
}

static int grandchild(void)
{
    return !is_told(WEFT_UNSUPPORTED, "forked", "exec");
}

/* Has used devices, and put them away in good order. */
static int parent(void)
{
    return open_once() != 0 || in_child(grandchild) != 0;
}

static void children_of_a_user_of_devices_are_told(void **state)
{
    (void)state;
    assert_int_equal(in_child(parent), 0);
}

static int greedy(void)
{
    setenv("FI_UNIVERSE_SIZE", "200000", 1); /* 51 million entries */
    return !is_told(WEFT_TRANSPORT, "FI_UNIVERSE_SIZE", "device");
}

static void too_few_completion_entries_name_the_variable(void **state)
{
    (void)state;
    assert_int_equal(in_child(greedy), 0);
}

static int shared_receives(void)
{
    setenv("FI_OFI_RXM_USE_SRX", "1", 1);
    return !is_told(WEFT_UNSUPPORTED, "FI_OFI_RXM_USE_SRX", "unset");
}

/* libfabric 1.17 loses the completions of writes then. */
static void shared_receives_are_refused(void **state)
{
    (void)state;
    assert_int_equal(in_child(shared_receives), 0);
}

static int absent(void)
{
    return open_once() == WEFT_MISSING;
}

int main(void)
{
    static char address[64];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(results_are_right),
        cmocka_unit_test(a_death_is_named_and_the_others_go_on),
        cmocka_unit_test(children_of_a_user_of_devices_are_told),
        cmocka_unit_test(too_few_completion_entries_name_the_variable),
        cmocka_unit_test(shared_receives_are_refused),
    };
    const char *reason = test_rdma_address(0, address, sizeof address);
    setenv("FI_UNIVERSE_SIZE", "32", 0); /* docs/rdma.md */
    if (!reason && in_child(absent) == 1)
        reason = "libfabric, or its provider " PROVIDER ", is not there";
    if (reason) {
        printf("SKIP: %s\n", reason);
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
