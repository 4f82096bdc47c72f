/* SPDX-License-Identifier: Apache-2.0 */
/* build: wrap process_vm_readv weft_p2p_went_inside weft_p2p_inside_observe weft_choice_next */
/* Which way ordinary memory takes between ranks of one host: what WEFT_WAY_SHM says, and otherwise what the reader finds faster by trying. Seen by
 * the system calls. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/choice.h"
#include "comm/p2p/internal.h"
#include "tests/support/job.h"
#include "tests/support/process_vm.h"
#include "tests/support/ranks.h"
#include "tests/support/skip.h"

#define BYTES  (96u << 10)
#define ROUNDS 100
#define PAGE   4096 /* less is read when ranks look whether they can */

static struct {
    atomic_int pulled, refused, forbids, is_full;
} * seen;

ssize_t __wrap_process_vm_readv(pid_t pid, const struct iovec *local, unsigned long locals,
                                const struct iovec *remote, unsigned long remotes, unsigned long flags)
{
    errno = EPERM;
    ssize_t got = seen->forbids ? -1 : __real_process_vm_readv(pid, local, locals, remote, remotes, flags);
    if (local->iov_len >= PAGE)
        seen->pulled++;
    else if (got < 0)
        seen->refused++;
    return got;
}

static int body(int rank, int ranks, void *arg)
{
    (void)arg;
    struct job job;
    uint8_t *send = malloc(BYTES), *recv = malloc(BYTES);
    CHECK(send && recv);
    CHECK_OK(job_open(&job, "shm", NULL));
    for (int round = 0; round < ROUNDS; round++) {
        memset(send, round + rank, BYTES);
        memset(recv, 0xff, BYTES);
        CHECK_OK(weft_sendrecv(job.comm, send, BYTES, (rank + 1) % ranks, 0, recv, BYTES, (rank + 1) % ranks,
                               0, WEFT_UINT8, NULL, NULL));
        for (size_t i = 0; i < BYTES; i++)
            CHECK(recv[i] == (uint8_t)(round + (rank + 1) % ranks));
    }
    CHECK_OK(job_close(&job));
    free(send);
    free(recv);
    return 0;
}

static void run(const char *way)
{
    memset((void *)seen, 0, sizeof *seen);
    setenv("WEFT_WAY_SHM", way, 1);
    int failed = test_ranks_fork(2, body, NULL);
    unsetenv("WEFT_WAY_SHM");
    assert_int_equal(failed, 0);
}

static void test_pull(void **state)
{
    (void)state;
    run("pull");
    if (seen->refused)
        TEST_SKIP("the kernel lets no process read another one's memory here");
    assert_in_range(seen->pulled, 2 * ROUNDS, INT32_MAX);
}

/* The kernel first. */
static void test_auto(void **state)
{
    (void)state;
    run("auto");
    if (seen->refused)
        TEST_SKIP("the kernel lets no process read another one's memory here");
    assert_in_range(seen->pulled, 2 * 8, INT32_MAX);
}

/* --- what weft says of it */

/* By what way, and for what reason; and the counters agree. */
static int said(const struct job *job, const void *memory, size_t bytes, int rank, const char *way,
                const char *reason)
{
    weft_description description = WEFT_DESCRIPTION_INIT;
    CHECK_OK(
        weft_comm_describe(job->comm, "send", memory, NULL, bytes, WEFT_UINT8, WEFT_SUM, rank, &description));
    if (strcmp(description.algorithm, way) == 0 && strstr(description.why, reason))
        return 0;
    fprintf(stderr, "%zu bytes to rank %d: %s (%s), expected %s (... %s ...)\n", bytes, rank,
            description.algorithm, description.why, way, reason);
    return 1;
}

static int pass(const struct job *job, int rank, uint8_t *memory, int times)
{
    for (int i = 0; i < times; i++) {
        if (rank == 0)
            CHECK_OK(weft_send(job->comm, memory, BYTES, WEFT_UINT8, 1, 0, NULL));
        else
            CHECK_OK(weft_recv(job->comm, memory, BYTES, WEFT_UINT8, 0, 0, NULL, NULL));
    }
    return 0;
}

/* arg: the setting. */
static int described_body(int rank, int ranks, void *arg)
{
    struct job job;
    weft_comm_stats stats = WEFT_COMM_STATS_INIT;
    weft_description description = WEFT_DESCRIPTION_INIT;
    uint8_t *ordinary = calloc(1, BYTES);
    void *mapped;
    (void)ranks;
    CHECK(ordinary);
    CHECK_OK(job_open(&job, "shm", NULL));
    CHECK_OK(weft_mem_alloc(job.context, BYTES, &mapped));
    CHECK_OK(job_greet(job.comm));
    CHECK_OK(
        weft_comm_describe(job.comm, "recv", NULL, NULL, 4096, WEFT_UINT8, WEFT_SUM, !rank, &description));
    CHECK(strcmp(description.algorithm, "-") == 0 && strstr(description.why, "4096 bytes"));
    CHECK_OK(weft_comm_describe(job.comm, "allreduce", NULL, NULL, 8, WEFT_UINT8, WEFT_SUM, 0, &description));
    CHECK(strstr(description.why, "cache-line path"));
    CHECK(weft_comm_describe(job.comm, "send", ordinary, NULL, 1, WEFT_UINT8, WEFT_SUM, 2, &description) ==
          WEFT_INVALID);
    CHECK(weft_comm_describe(job.comm, "send", ordinary, NULL, SIZE_MAX, WEFT_FLOAT64, WEFT_SUM, 1,
                             &description) == WEFT_INVALID);
    CHECK(said(&job, ordinary, BYTES, rank, "copied", "itself") == 0);
    CHECK(said(&job, ordinary, 100, !rank, "inside", "4096 bytes") == 0);
    CHECK(said(&job, mapped, BYTES, !rank, "mapped", "weft_mem_alloc") == 0);
    CHECK(pass(&job, rank, mapped, 5) == 0 && pass(&job, rank, ordinary, 40) == 0);
    CHECK_OK(weft_comm_get_stats(job.comm, &stats));
    CHECK(stats.bytes_mapped == (rank ? 5 * BYTES : 0));
    CHECK((stats.bytes_pulled ? stats.bytes_pulled : stats.bytes_staged) ==
          (rank == !seen->refused ? 40 * BYTES : 0));
    if (seen->refused) {
        CHECK(said(&job, ordinary, BYTES, !rank, "staged", "cannot read") == 0);
    } else {
        int is_auto = strcmp(arg, "auto") == 0, is_fed = strcmp(arg, "fed") == 0 || strcmp(arg, "past") == 0;
        CHECK(is_auto || is_fed || stats.bytes_fed == 0);
        CHECK(said(&job, ordinary, BYTES, !rank, "pulled", is_auto ? "finds faster" : "WEFT_WAY_SHM") == 0);
        CHECK_OK(weft_comm_describe(job.comm, "recv", NULL, NULL, BYTES, WEFT_UINT8, WEFT_SUM, !rank,
                                    &description));
        CHECK(rank == 0 || is_auto || (strcmp(description.algorithm, "fed") == 0) == is_fed);
    }
    CHECK_OK(weft_mem_free(job.context, mapped));
    CHECK_OK(job_close(&job));
    free(ordinary);
    return 0;
}

static void test_described(void **state)
{
    static const char *const ways[] = {"pull", "fed", "past", "auto"};
    (void)state;
    setenv("WEFT_HELP_SHM", "always", 1); /* or it may be by the kernel next, as the sender was not there */
    for (int i = 0; i < 8; i++) {
        memset((void *)seen, 0, sizeof *seen);
        seen->forbids = i >= 4; /* as a container's kernel may */
        setenv("WEFT_WAY_SHM", ways[i % 4], 1);
        assert_int_equal(test_ranks_fork(2, described_body, (void *)(uintptr_t)ways[i % 4]), 0);
    }
    unsetenv("WEFT_WAY_SHM");
    unsetenv("WEFT_HELP_SHM");
}

static int undirect_body(int rank, int ranks, void *arg)
{
    struct job job;
    weft_description description = WEFT_DESCRIPTION_INIT;
    (void)ranks, (void)arg;
    CHECK_OK(job_open(&job, "shm", NULL));
    CHECK_OK(job_greet(job.comm));
    CHECK(said(&job, &job, BYTES, !rank, "staged", "WEFT_DIRECT is 0") == 0);
    CHECK_OK(
        weft_comm_describe(job.comm, "recv", NULL, NULL, BYTES, WEFT_UINT8, WEFT_SUM, !rank, &description));
    CHECK(strcmp(description.algorithm, "-") == 0 && strstr(description.why, "WEFT_DIRECT is 0"));
    CHECK_OK(
        weft_comm_describe(job.comm, "allreduce", NULL, NULL, BYTES, WEFT_UINT8, WEFT_SUM, 0, &description));
    CHECK(strstr(description.why, "WEFT_DIRECT is 0"));
    CHECK_OK(job_close(&job));
    return 0;
}

static void test_described_staged(void **state)
{
    (void)state;
    setenv("WEFT_DIRECT", "0", 1);
    assert_int_equal(test_ranks_fork(2, undirect_body, NULL), 0);
    unsetenv("WEFT_DIRECT");
}

/* --- a little above the eager limit: inside a message, or announced */

#define LITTLE  8192
#define SLOW_NS 10000000 /* longer than anything here takes */
#define QUEUED  60       /* messages, of which a ring has room for a few */

/* What either way takes, in place of what it did take; 0: what it did. */
static int64_t inside_ns, announced_ns;
static int asked; /* how a message goes */

void __real_weft_p2p_went_inside(struct weft_p2p_peer *peer, size_t bytes, int64_t taken_ns);
void __wrap_weft_p2p_went_inside(struct weft_p2p_peer *peer, size_t bytes, int64_t taken_ns);
void __wrap_weft_p2p_went_inside(struct weft_p2p_peer *peer, size_t bytes, int64_t taken_ns)
{
    __real_weft_p2p_went_inside(peer, bytes, inside_ns ? inside_ns : taken_ns);
}

void __real_weft_p2p_inside_observe(struct weft_p2p_peer *peer, size_t bytes, int64_t cost_ns);
void __wrap_weft_p2p_inside_observe(struct weft_p2p_peer *peer, size_t bytes, int64_t cost_ns);
void __wrap_weft_p2p_inside_observe(struct weft_p2p_peer *peer, size_t bytes, int64_t cost_ns)
{
    __real_weft_p2p_inside_observe(peer, bytes, cost_ns && announced_ns ? announced_ns : cost_ns);
}

uint8_t __real_weft_choice_next(struct weft_choice *choice, int *is_timed);
uint8_t __wrap_weft_choice_next(struct weft_choice *choice, int *is_timed);
uint8_t __wrap_weft_choice_next(struct weft_choice *choice, int *is_timed)
{
    asked++;
    return __real_weft_choice_next(choice, is_timed);
}

static int exchange_little(const struct job *job, int rank)
{
    uint8_t send[LITTLE], recv[LITTLE];
    for (int round = 0; round < ROUNDS; round++) {
        memset(send, round + rank, LITTLE);
        memset(recv, 0xff, LITTLE);
        if (rank == 0)
            CHECK_OK(weft_send(job->comm, send, LITTLE, WEFT_UINT8, 1, 0, NULL));
        CHECK_OK(weft_recv(job->comm, recv, LITTLE, WEFT_UINT8, !rank, 0, NULL, NULL));
        if (rank == 1)
            CHECK_OK(weft_send(job->comm, send, LITTLE, WEFT_UINT8, 0, 0, NULL));
        for (int i = 0; i < LITTLE; i++)
            CHECK(recv[i] == (uint8_t)(round + !rank));
    }
    return 0;
}

static int is_pulled(void)
{
    return getenv("WEFT_WAY_SHM") != NULL;
}

static int little_body(int rank, int ranks, void *arg)
{
    (void)ranks;
    struct job job;
    weft_comm_stats stats = WEFT_COMM_STATS_INIT;
    CHECK_OK(job_open(&job, "shm", NULL));
    CHECK(exchange_little(&job, rank) == 0);
    const char *way = !inside_ns ? "inside" : seen->refused ? "staged" : "pulled";
    CHECK(is_pulled() ||
          said(&job, &job, LITTLE, !rank, way, *way == 's' ? "cannot read" : "measured: ") == 0);
    CHECK_OK(weft_comm_get_stats(job.comm, &stats));
    ((uint64_t *)arg)[rank] = stats.bytes_eager;
    CHECK_OK(job_close(&job));
    return 0;
}

static void test_little(void **state)
{
    (void)state;
    uint64_t *bytes = test_ranks_shared(2 * sizeof *bytes);
    seen->forbids = seen->refused = 0;
    setenv("WEFT_WAY_SHM", "pull", 1);
    assert_int_equal(test_ranks_fork(2, little_body, bytes), 0);
    assert_int_equal(bytes[0] + bytes[1], 0);
    unsetenv("WEFT_WAY_SHM");
    announced_ns = SLOW_NS;
    assert_int_equal(test_ranks_fork(2, little_body, bytes), 0);
    for (int rank = 0; rank < 2; rank++)
        assert_in_range(bytes[rank], ROUNDS * LITTLE / 4 * 3, ROUNDS * LITTLE);
    inside_ns = SLOW_NS;
    announced_ns = 1000;
    assert_int_equal(test_ranks_fork(2, little_body, bytes), 0);
    for (int rank = 0; rank < 2; rank++)
        assert_in_range(bytes[rank], 3 * LITTLE, ROUNDS * LITTLE / 8);
    inside_ns = announced_ns = 0;
}

/* --- it is asked once how a message goes, however often that is tried before the link has room */

static int queued_body(int rank, int ranks, void *arg)
{
    static uint8_t memory[QUEUED][LITTLE];
    weft_work *works[QUEUED] = {NULL};
    struct job job;
    (void)ranks, (void)arg;
    CHECK_OK(job_open(&job, "shm", NULL));
    CHECK(exchange_little(&job, rank) == 0);
    asked = 0;
    for (int i = 0; rank == 0 && i < QUEUED; i++) {
        memset(memory[i], i, LITTLE);
        CHECK_OK(weft_send(job.comm, memory[i], LITTLE, WEFT_UINT8, 1, 0, WEFT_START(&works[i])));
    }
    for (int i = 0; rank == 0 && i < 1000; i++)
        CHECK(weft_work_wait(works[QUEUED - 1], 0) == WEFT_AGAIN);
    if (rank == 0)
        seen->is_full = 1;
    for (int i = 0; i < 20000 && !seen->is_full; i++)
        usleep(1000);
    CHECK(seen->is_full);
    for (int i = 0; rank == 1 && i < QUEUED; i++) {
        CHECK_OK(weft_recv(job.comm, memory[i], LITTLE, WEFT_UINT8, 0, 0, NULL, NULL));
        for (int at = 0; at < LITTLE; at++)
            CHECK(memory[i][at] == (uint8_t)i);
    }
    for (int i = 0; rank == 0 && i < QUEUED; i++) {
        CHECK_OK(weft_work_wait(works[i], -1));
        CHECK_OK(weft_work_free(works[i]));
    }
    CHECK(rank || asked == QUEUED);
    CHECK_OK(job_close(&job));
    return 0;
}

static void test_asked_once(void **state)
{
    (void)state;
    seen->is_full = 0;
    announced_ns = SLOW_NS;
    assert_int_equal(test_ranks_fork(2, queued_body, NULL), 0);
    announced_ns = 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pull),      cmocka_unit_test(test_auto),
        cmocka_unit_test(test_described), cmocka_unit_test(test_described_staged),
        cmocka_unit_test(test_little),    cmocka_unit_test(test_asked_once),
    };
    seen = test_ranks_shared(sizeof *seen);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
