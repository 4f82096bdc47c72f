/* SPDX-License-Identifier: Apache-2.0 */
/* run: beside (deadlines of a start) */
/* Limits of the process: every message says which one to raise, and nothing ends the process. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/support/built.h"
#include "tests/support/descriptors.h"
#include "tests/support/job.h"
#include "tests/support/lock_right.h"
#include "tests/support/ranks.h"
#include "tests/support/effort.h"
#include "tests/support/skip.h"

#define UNPRIVILEGED 65534

struct limit {
    int which;
    rlim_t value;
    int rank;             /* who has it */
    const char *settings; /* of the context */
    const char *hint;     /* must be in the text of the one who has it */
    int64_t timeout_ms;
};

static int set_limit(int which, rlim_t value)
{
    struct rlimit limit;
    CHECK(getrlimit(which, &limit) == 0);
    limit.rlim_cur = value;
    CHECK(setrlimit(which, &limit) == 0);
    return 0;
}

static int lift_limit(int which)
{
    struct rlimit limit;
    CHECK(getrlimit(which, &limit) == 0);
    return set_limit(which, limit.rlim_max);
}

/* The limit that leaves room for `room` more descriptors. The first 64 are in use. */
static rlim_t limit_for(rlim_t room)
{
    for (int filler = 0; filler >= 0 && filler < 63;)
        filler = dup(STDERR_FILENO);
    return test_descriptors_limit((int)room);
}

/* No error, one with the hint, one without. */
enum { FINE, HINTED, UNHINTED };

static int verdict(const char *call, int status, const char *hint)
{
    if (status == WEFT_OK)
        return FINE;
    int is_wrong = *hint == '!'; /* a hint that would mislead */
    if ((strstr(weft_error_detail(), hint + is_wrong) == NULL) == is_wrong)
        return HINTED;
    fprintf(stderr, "%s: %d '%s' %s '%s'\n", call, status, weft_error_detail(),
            is_wrong ? "mentions" : "does not mention", hint + is_wrong);
    return UNHINTED;
}

static int open_body(int rank, int ranks, void *arg)
{
    const struct limit *limit = arg;
    weft_context *context = NULL;
    (void)rank;
    (void)ranks;
    close(test_ranks_listen_fd());
    CHECK(set_limit(limit->which, limit->which == RLIMIT_NOFILE ? limit_for(limit->value) : limit->value) ==
          0);
    int answer = verdict("weft_context_open", weft_context_open(NULL, &context), limit->hint);
    weft_context_close(context);
    CHECK(lift_limit(limit->which) == 0); /* a sanitizer has work to do at the end */
    return answer == UNHINTED ? 125 : answer + 1;
}

static int exit_of(const int *statuses, int rank)
{
    return statuses[rank] % 256 == 0 ? statuses[rank] / 256 : -1;
}

/* One more descriptor each time, until there are enough. */
static void test_descriptors_context(void **state)
{
    (void)state;
    int statuses[TEST_RANKS_MAX], fine = 0, n = 0;
    for (; n < 32 && !fine; n++) {
        struct limit limit = {.which = RLIMIT_NOFILE, .value = (rlim_t)n, .hint = "ulimit -n"};
        test_ranks_fork_status(1, open_body, &limit, statuses);
        assert_in_range(exit_of(statuses, 0), FINE + 1, HINTED + 1);
        fine = exit_of(statuses, 0) == FINE + 1;
    }
    assert_true(fine);
    assert_true(n > 2);
}

static int job_body(int rank, int ranks, void *arg)
{
    const struct limit *limit = arg;
    weft_context_options context_options = WEFT_CONTEXT_OPTIONS_INIT;
    weft_comm_options options = WEFT_COMM_OPTIONS_INIT;
    weft_context *context;
    weft_comm *comm = NULL;
    static float data[1000];
    context_options.settings = limit->settings;
    test_ranks_options(&options);
    /* The others end first, and it hears of that. */
    options.timeout_ms = rank == limit->rank ? 3 * limit->timeout_ms : limit->timeout_ms;
    CHECK_OK(weft_context_open(&context_options, &context));
    if (rank == limit->rank)
        CHECK(set_limit(limit->which,
                        limit->which == RLIMIT_NOFILE ? limit_for(limit->value) : limit->value) == 0);
    int status = weft_comm_create(context, &options, &comm);
    const char *hint = rank == limit->rank ? limit->hint : ""; /* the others see only a peer that fails */
    int answer = verdict("weft_comm_create", status, hint);
    if (status == WEFT_OK) {
        job_fill(data, WEFT_FLOAT32, rank, 1000);
        status = weft_allreduce(comm, data, data, 1000, WEFT_FLOAT32, WEFT_SUM, NULL);
        answer = verdict("weft_allreduce", status, hint);
    }
    if (status == WEFT_OK)
        CHECK_BITS(job_wrong(data, WEFT_FLOAT32, WEFT_SUM, ranks, 1000) == 0);
    CHECK(status == WEFT_OK || weft_error_detail()[0]);
    weft_comm_destroy(comm);
    CHECK_OK(weft_context_close(context));
    CHECK(lift_limit(limit->which) == 0);
    return answer == UNHINTED ? 125 : answer + 1;
}

/* How the rank that has the limit ends. Deadlines are short, since most runs wait for one; where the machine was
 * only too slow, they are tried again with longer ones. */
static int run_limited(struct limit *limit)
{
    int statuses[TEST_RANKS_MAX], end = -1;
    for (limit->timeout_ms = 1000; limit->timeout_ms <= 16000; limit->timeout_ms *= 4) {
        test_ranks_fork_status(2, job_body, limit, statuses);
        end = exit_of(statuses, limit->rank);
        if (end == FINE + 1 || end == HINTED + 1)
            break;
    }
    return end;
}

static void descriptors_of_rank(int rank, const char *settings, int step)
{
    int fine = 0, hinted = 0;
    for (int n = 0; n < 64 && !fine; n += step) {
        struct limit limit = {RLIMIT_NOFILE, (rlim_t)n, rank, settings, "ulimit -n", 0};
        int end = run_limited(&limit);
        if (end != FINE + 1 && end != HINTED + 1)
            fail_msg("rank %d with room for %d descriptors, %s", rank, n, settings);
        fine = end == FINE + 1;
        hinted += !fine;
    }
    assert_true(fine);
    assert_true(hinted > 0);
}

static void test_descriptors_shm(void **state)
{
    (void)state;
    descriptors_of_rank(0, "transport=shm", 1);
    descriptors_of_rank(1, "transport=shm", 1);
}

static void test_descriptors_ofi(void **state)
{
    (void)state;
    if (!job_has_ofi("tcp;ofi_rxm"))
        skip();
    descriptors_of_rank(0, "transport=ofi,ofi_provider=tcp;ofi_rxm", 3);
    descriptors_of_rank(1, "transport=ofi,ofi_provider=tcp;ofi_rxm", 3);
}

static int threads_body(int rank, int ranks, void *arg)
{
    CHECK(setresgid(UNPRIVILEGED, UNPRIVILEGED, UNPRIVILEGED) == 0);
    CHECK(setresuid(UNPRIVILEGED, UNPRIVILEGED, UNPRIVILEGED) == 0);
    return open_body(rank, ranks, arg);
}

static void test_threads(void **state)
{
    (void)state;
    int statuses[TEST_RANKS_MAX];
    struct limit limit = {.which = RLIMIT_NPROC, .value = 1, .hint = "ulimit -u"};
    if (test_is_sanitized())
        TEST_SKIP("a sanitizer cannot look at a process that has changed its user");
    if (geteuid() != 0)
        TEST_SKIP("only root can become a user whose number of threads is limited");
    test_ranks_fork_status(1, threads_body, &limit, statuses);
    assert_int_equal(exit_of(statuses, 0), HINTED + 1);
}

/* The kernel would send SIGXFSZ, which ends a process. */
static void test_file_size(void **state)
{
    (void)state;
    for (int rank = 0; rank < 2; rank++) {
        struct limit limit = {RLIMIT_FSIZE, 1000, rank, "transport=shm", "ulimit -f", 0};
        assert_int_equal(run_limited(&limit), HINTED + 1);
    }
}

/* Address space for a little, but not for what peers hand over. */
static int space_body(int rank, int ranks, void *arg)
{
    (void)rank;
    (void)ranks;
    weft_context *context;
    void *memory = NULL;
    close(test_ranks_listen_fd());
    CHECK_OK(weft_context_open(NULL, &context));
    CHECK(set_limit(RLIMIT_AS, 1u << 20) == 0);
    int answer = verdict("weft_mem_alloc", weft_mem_alloc(context, 64u << 20, &memory), arg);
    CHECK_OK(weft_context_close(context));
    return answer + 1;
}

static void test_address_space(void **state)
{
    (void)state;
    int statuses[TEST_RANKS_MAX];
    if (test_is_sanitized())
        TEST_SKIP("a sanitizer needs more address space than this test leaves");
    test_ranks_fork_status(1, space_body, (void *)(uintptr_t) "ulimit -v", statuses);
    assert_int_equal(exit_of(statuses, 0), HINTED + 1);
}

/* --- locked memory: a provider of ours registers no more than it may */

static int memlock_body(int rank, int ranks, void *arg)
{
    (void)ranks;
    struct job job;
    enum { COUNT = 400000 };
    float *data = calloc(COUNT, sizeof *data);
    CHECK(data);
    CHECK_OK(job_open(&job, "ofi", "wefttest"));
    int answer = verdict("weft_allreduce",
                         weft_allreduce(job.comm, data, data, COUNT, WEFT_FLOAT32, WEFT_SUM, NULL), arg);
    weft_comm_destroy(job.comm);
    CHECK_OK(weft_context_close(job.context));
    free(data);
    return rank == 0 && answer != HINTED;
}

static void test_locked_memory(void **state)
{
    (void)state;
    if (!test_provider_use("local,memlock=800000"))
        TEST_SKIP("the test provider was not built, as libfabric's headers were missing");
    assert_true(test_lock_right(0) >= 0);
    assert_int_equal(set_limit(RLIMIT_MEMLOCK, 64 << 10), 0); /* what the provider goes by, in words */
    assert_int_equal(test_ranks_threads(2, memlock_body, (void *)(uintptr_t) "ulimit -l"), 0);
    /* A provider that runs out of memory says the same. Then the limit, which is far away, is not to blame. */
    if (set_limit(RLIMIT_MEMLOCK, 4 << 20) == 0)
        assert_int_equal(test_ranks_threads(2, memlock_body, (void *)(uintptr_t) "!ulimit -l"), 0);
    unsetenv("FI_PROVIDER_PATH");
    unsetenv("FI_PROVIDER");
    unsetenv("WEFT_TEST_PROVIDER");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_descriptors_context), cmocka_unit_test(test_descriptors_shm),
        cmocka_unit_test(test_descriptors_ofi),     cmocka_unit_test(test_threads),
        cmocka_unit_test(test_file_size),           cmocka_unit_test(test_address_space),
        cmocka_unit_test(test_locked_memory), /* last: libfabric stays loaded with this provider alone */
    };
    setenv("WEFT_LOG", "none", 0);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
