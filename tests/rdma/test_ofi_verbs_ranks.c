/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks over libfabric's provider for RDMA devices: results, messages, a rank that dies or stands still, and what a program hears
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
#include "tests/support/lost_rank.h"
#include "tests/support/ranks.h"
#include "tests/support/rdma_device.h"
#include "tests/support/read_only.h"
#include "transport/registry.h"

#define PROVIDER "verbs;ofi_rxm"
#define LARGE    65536 /* elements: 256 KiB, put in slices */

static const size_t counts[] = {1, 700, 9000, LARGE};

static int results_body(int rank, int ranks, void *arg)
{
    struct job job;
    (void)rank, (void)ranks, (void)arg;
    CHECK_OK(job_open(&job, "ofi", PROVIDER));
    float *send = malloc(LARGE * sizeof *send), *recv = malloc(LARGE * sizeof *recv);
    CHECK(send && recv);
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        for (int turn = 0; turn < 3; turn++) {
            CHECK(job_reduce(job.comm, send, recv, counts[i], WEFT_FLOAT32) == 0);
            CHECK(job_pass_on(job.comm, send, recv, counts[i], WEFT_FLOAT32) == 0);
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

/* Sent from; received into by one that hears so, which ends the communicator. */
static int read_only_body(int rank, int ranks, void *arg)
{
    struct job job;
    (void)ranks, (void)arg;
    CHECK_OK(job_open(&job, "ofi", PROVIDER));
    CHECK(read_only_is_sent_from(&job) == 0);
    float *bytes = calloc(LARGE, sizeof *bytes);
    float *memory = read_only_make(READ_ONLY_OWN, bytes, LARGE * sizeof *bytes);
    CHECK(bytes && memory);
    if (rank == 0) {
        memset(bytes, 0xcc, LARGE * sizeof *bytes);
        CHECK(weft_send(job.comm, bytes, LARGE, WEFT_FLOAT32, 1, 6, NULL) != WEFT_OK);
    } else {
        int status = weft_recv(job.comm, memory, LARGE, WEFT_FLOAT32, 0, 6, NULL, NULL);
        CHECK(status == WEFT_INVALID && strstr(weft_error_detail(), "it is read-only"));
        CHECK_BITS(memcmp(memory, bytes, LARGE * sizeof *bytes) == 0);
    }
    job_close(&job);
    free(bytes);
    return 0;
}

static void read_only_memory_is_sent_from(void **state)
{
    (void)state;
    assert_int_equal(test_ranks_fork(2, read_only_body, NULL), 0);
}

static void a_death_is_named_and_the_others_go_on(void **state)
{
    (void)state;
    lost_rank_is_named("ofi", PROVIDER, SIGKILL, 2);
    lost_rank_is_named("ofi", PROVIDER, SIGKILL, LARGE);
}

static void a_silent_rank_is_named_and_the_others_go_on(void **state)
{
    (void)state;
    lost_rank_is_named("ofi", PROVIDER, SIGSTOP, LARGE);
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
static int is_reported(int status, const char *word, const char *other)
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
    return !is_reported(WEFT_UNSUPPORTED, "forked", "exec");
}

/* Has used devices, and put them away in good order. */
static int parent(void)
{
    return open_once() != 0 || in_child(grandchild) != 0;
}

static void children_of_a_user_of_devices_are_reported(void **state)
{
    (void)state;
    assert_int_equal(in_child(parent), 0);
}

static int greedy(void)
{
    setenv("FI_UNIVERSE_SIZE", "200000", 1); /* 51 million entries */
    return !is_reported(WEFT_TRANSPORT, "FI_UNIVERSE_SIZE", "device");
}

static void too_few_completion_entries_name_the_variable(void **state)
{
    (void)state;
    assert_int_equal(in_child(greedy), 0);
}

static int shared_receives(void)
{
    setenv("FI_OFI_RXM_USE_SRX", "1", 1);
    return !is_reported(WEFT_UNSUPPORTED, "FI_OFI_RXM_USE_SRX", "unset");
}

/* libfabric 1.17 loses the completions of writes then. */
static void shared_receives_are_refused(void **state)
{
    (void)state;
    assert_int_equal(in_child(shared_receives), 0);
}

static int absent(void)
{
    return open_once() == WEFT_NOT_FOUND;
}

int main(void)
{
    static char address[64];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(results_are_right),
        cmocka_unit_test(read_only_memory_is_sent_from),
        cmocka_unit_test(a_death_is_named_and_the_others_go_on),
        cmocka_unit_test(a_silent_rank_is_named_and_the_others_go_on),
        cmocka_unit_test(children_of_a_user_of_devices_are_reported),
        cmocka_unit_test(too_few_completion_entries_name_the_variable),
        cmocka_unit_test(shared_receives_are_refused),
    };
    const char *reason = test_rdma_address(0, address, sizeof address);
    setenv("FI_UNIVERSE_SIZE", "32", 0); /* docs/providers.md */
    if (!reason && in_child(absent) == 1)
        reason = "libfabric, or its provider " PROVIDER ", is not there";
    if (reason) {
        printf("SKIP: %s\n", reason);
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
