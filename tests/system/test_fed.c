/* SPDX-License-Identifier: Apache-2.0 */
/* build: with tests/clock/; wrap process_vm_readv shm_feed_give shm_feed_ahead shm_pull_fed shm_cell_check @tests/clock/wraps */
/* Ordinary memory that its owner feeds to the reader, instead of the kernel's copy. An owner or a reader stops inside its copy, by a page
 * that it may not touch yet, and goes on, dies or gives up. Time runs slower, so that a busy machine does not end anybody's patience where nobody stops. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/clock/clock.h"
#include "tests/support/job.h"
#include "tests/support/pattern.h"
#include "tests/support/process_vm.h"
#include "tests/support/ranks.h"
#include "transport/shm/shm_private.h"

#ifndef WAY
#define WAY "fed" /* another in test_fed_past.c */
#endif
#define PAGE       4096
#define PIECE      4096         /* what is read by less is no payload */
#define SLOWER     1000000      /* 4 s for an owner to begin, 20 s to go on: nobody stops */
#define SLOW       20000        /* 80 ms, and 400 ms */
#define BYTES      (128u << 10) /* one read */
#define ASKED      (256u << 10) /* a message that is too long to be fed ahead */
#define LONG_BYTES (1u << 20)
#define AT         5 /* the page at which a rank stops: in the second slice */

enum how { GOES_ON, DIES };

static struct shared {
    _Atomic int repeats, polls, asked_before; /* numbers come again; the owner polls until it feeds */
    _Atomic int how, stopped, go, kernel_reads, slow_kernel, feeds_not, asked, refused, ahead;
} * shared;

int __real_shm_feed_give(struct weft_transport *);
int __wrap_shm_feed_give(struct weft_transport *);
size_t __real_shm_pull_fed(struct weft_link *, const struct shm_token *, uint64_t, void *, size_t,
                           const struct shm_fed_how *, uint32_t);
size_t __wrap_shm_pull_fed(struct weft_link *, const struct shm_token *, uint64_t, void *, size_t,
                           const struct shm_fed_how *, uint32_t);
int __real_shm_cell_check(const struct weft_link *, const struct shm_token *);
int __wrap_shm_cell_check(const struct weft_link *, const struct shm_token *);

int __wrap_shm_cell_check(const struct weft_link *link, const struct shm_token *token)
{
    int status = __real_shm_cell_check(link, token);
    shared->refused += status != WEFT_OK;
    return status;
}

uint64_t __real_shm_feed_ahead(struct weft_link *, const void *, size_t, uint32_t);
uint64_t __wrap_shm_feed_ahead(struct weft_link *, const void *, size_t, uint32_t);

uint64_t __wrap_shm_feed_ahead(struct weft_link *link, const void *memory, size_t size, uint32_t cell)
{
    if (shared->repeats && link->feeding.ahead_next % 2 == 0)
        link->feeding.ahead_next = SHM_TOKEN_NUMBER / 2 + 1 - (link->feeding.ahead_next & 2);
    shared->polls = shared->repeats;
    shared->asked_before = shared->asked;
    uint64_t number = __real_shm_feed_ahead(link, memory, size, cell);
    shared->ahead += number != 0;
    return number;
}

int __wrap_shm_feed_give(struct weft_transport *transport)
{
    if (shared->polls > 0 && shared->asked > shared->asked_before)
        shared->polls--;
    return shared->feeds_not || shared->polls > 0 ? 0 : __real_shm_feed_give(transport);
}

size_t __wrap_shm_pull_fed(struct weft_link *link, const struct shm_token *token, uint64_t offset,
                           void *destination, size_t size, const struct shm_fed_how *how, uint32_t flags)
{
    shared->asked++;
    return __real_shm_pull_fed(link, token, offset, destination, size, how, flags);
}

ssize_t __wrap_process_vm_readv(pid_t pid, const struct iovec *local, unsigned long locals,
                                const struct iovec *remote, unsigned long remotes, unsigned long flags)
{
    if (local->iov_len >= PIECE) {
        shared->kernel_reads++;
        if (shared->slow_kernel)
            usleep(2000);
    }
    return __real_process_vm_readv(pid, local, locals, remote, remotes, flags);
}

static void prepare(enum how how)
{
    shared->stopped = shared->go = shared->kernel_reads = shared->slow_kernel = shared->refused =
        shared->ahead = shared->feeds_not = shared->asked = shared->repeats = shared->polls = 0;
    shared->how = how;
}

static int wait_for(const _Atomic int *value, int least)
{
    for (int i = 0; i < 30000 && *value < least; i++)
        usleep(1000);
    return *value >= least;
}

/* --- the bits are right, of every size, also where both ends read */

static const size_t sizes[] = {4097,   8192,   12287,  16384,  32767,  32768,          65536,
                               100001, 131072, 131073, 200000, 262144, (9u << 20) + 13};
#define MOST ((9u << 20) + 64)

static int pass(const struct job *job, int rank, uint8_t *send, uint8_t *recv, size_t bytes, int seed)
{
    pattern_fill(send, bytes, seed + rank);
    memset(recv, 0xa5, bytes + 1);
    if (seed % 2) {
        CHECK_OK(
            weft_sendrecv(job->comm, send, bytes, !rank, 0, recv, bytes, !rank, 0, WEFT_UINT8, NULL, NULL));
    } else {
        if (rank == 0)
            CHECK_OK(weft_send(job->comm, send, bytes, WEFT_UINT8, 1, 0, NULL));
        CHECK_OK(weft_recv(job->comm, recv, bytes, WEFT_UINT8, !rank, 0, NULL, NULL));
        if (rank == 1)
            CHECK_OK(weft_send(job->comm, send, bytes, WEFT_UINT8, 0, 0, NULL));
    }
    CHECK_BITS(pattern_check(recv, bytes, seed + !rank) == 0 && recv[bytes] == 0xa5);
    return 0;
}

/* A short one is not fed. */
static size_t short_rest(size_t bytes, size_t read_bytes)
{
    return bytes % read_bytes < PIECE ? bytes % read_bytes : 0;
}

static int sizes_body(int rank, int ranks, void *arg)
{
    struct job job;
    uint8_t *send = malloc(MOST), *recv = malloc(MOST);
    uint64_t expected = 0;
    (void)ranks;
    CHECK(send && recv);
    CHECK_OK(job_open(&job, "shm", NULL));
    CHECK_OK(job_greet(job.comm));
    test_clock_slow(SLOWER);
    for (int round = 0; round < 4; round++) {
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
            CHECK(pass(&job, rank, send + round * 7, recv + s % 3, sizes[s], round * 2 + (s + round) % 2) ==
                  0);
            expected += sizes[s] - short_rest(sizes[s], *(const size_t *)arg);
        }
    }
    test_clock_slow(1);
    CHECK(job_fed_bytes(&job) == expected);
    CHECK_OK(job_close(&job));
    free(send);
    free(recv);
    return 0;
}

static void test_sizes(void **state)
{
    (void)state;
    static size_t reads[] = {512u << 10, 1u << 20}; /* the longer one has twice the blocks that there are */
    for (int i = 0; i < 2; i++) {
        int count = 0;
        prepare(GOES_ON);
        setenv("WEFT_SLICE_SHM", i ? "1048576" : "131072", 1);
        assert_int_equal(test_ranks_fork(2, sizes_body, &reads[i]), 0);
        assert_int_equal(shared->kernel_reads, 0);
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
            count += (int)((sizes[s] - short_rest(sizes[s], reads[i]) + reads[i] - 1) / reads[i]);
        assert_int_equal(shared->asked, 2 * 4 * count); /* several slices of the executor's are one read */
    }
    unsetenv("WEFT_SLICE_SHM");
}

/* --- what is fed before anybody asks */

#define SHORT   (48u << 10)
#define TAGS    3
#define TURNS   48
#define REPEATS 200 /* messages */

/* Of a tag. In slices of one block (past the caches: two), of four and of two: the second one's marks leave those of the first standing where it overwrites it. */
static const size_t lengths[TAGS] = {20u << 10, ASKED, SHORT};

/* Rank 0's: started, and as far copied as it can be before anybody receives. */
static int start_all(const struct job *job, uint8_t *memory, int turn, weft_work **works)
{
    for (int tag = 0; tag < TAGS; tag++) {
        weft_call_options options = WEFT_CALL_OPTIONS_INIT;
        options.work = &works[tag];
        pattern_fill(memory + (size_t)tag * ASKED, lengths[tag], turn * TAGS + tag);
        CHECK_OK(
            weft_send(job->comm, memory + (size_t)tag * ASKED, lengths[tag], WEFT_UINT8, 1, tag, &options));
    }
    for (int i = 0; i < 8; i++)
        CHECK(weft_work_wait(works[0], 0) == WEFT_AGAIN);
    shared->go = turn + 1;
    return 0;
}

/* Received in another order than they were sent: what was copied ahead may have been overwritten meanwhile. */
static int order_body(int rank, int ranks, void *arg)
{
    struct job job;
    uint8_t *memory = malloc(TAGS * ASKED);
    uint64_t expected = 0;
    CHECK(memory && ranks == 2 && !arg);
    CHECK_OK(job_open(&job, "shm", NULL));
    CHECK_OK(job_greet(job.comm));
    test_clock_slow(SLOWER);
    for (int turn = 0; turn < TURNS; turn++) {
        weft_work *works[TAGS];
        CHECK(rank || start_all(&job, memory, turn, works) == 0);
        CHECK(wait_for(&shared->go, turn + 1));
        for (int k = 0; k < TAGS; k++) {
            int tag = (turn + 2 * k) % TAGS;
            if (rank) {
                CHECK_OK(weft_recv(job.comm, memory, lengths[tag], WEFT_UINT8, 0, tag, NULL, NULL));
                CHECK_BITS(pattern_check(memory, lengths[tag], turn * TAGS + tag) == 0);
            } else {
                CHECK_OK(weft_work_wait(works[tag], -1));
                CHECK_OK(weft_work_free(works[tag]));
            }
            expected += lengths[tag];
        }
        CHECK_OK(weft_barrier(job.comm, NULL));
    }
    test_clock_slow(1);
    CHECK(rank == 0 || job_fed_bytes(&job) == expected);
    CHECK_OK(job_close(&job));
    free(memory);
    return 0;
}

static void test_order(void **state)
{
    (void)state;
    prepare(GOES_ON);
    assert_int_equal(test_ranks_fork(2, order_body, NULL), 0);
    assert_in_range(shared->ahead, 5, TURNS * TAGS);
}

/* From rank 0 to rank 1. */
static int move(const struct job *job, int rank, uint8_t *memory, size_t bytes, int seed)
{
    pattern_fill(memory, bytes, rank ? 99 : seed);
    if (rank == 0)
        CHECK_OK(weft_send(job->comm, memory, bytes, WEFT_UINT8, 1, 0, NULL));
    else
        CHECK_OK(weft_recv(job->comm, memory, bytes, WEFT_UINT8, 0, 0, NULL, NULL));
    CHECK_BITS(pattern_check(memory, bytes, seed) == 0);
    return 0;
}

static int repeating_body(int rank, int ranks, void *arg)
{
    struct job job;
    uint8_t *memory = malloc(SHORT);
    CHECK(memory && ranks == 2 && !arg);
    CHECK_OK(job_open(&job, "shm", NULL));
    CHECK_OK(job_greet(job.comm));
    test_clock_slow(SLOWER);
    for (int seed = 0; seed < REPEATS; seed++)
        CHECK(move(&job, rank, memory, lengths[seed % 2 ? 0 : 2], seed) == 0);
    test_clock_slow(1);
    CHECK_OK(job_close(&job));
    free(memory);
    return 0;
}

/* A mark that was made with the same number before is not taken for the new one, by a reader that is there first. */
static void test_repeats(void **state)
{
    (void)state;
    prepare(GOES_ON);
    shared->repeats = 50;
    assert_int_equal(test_ranks_fork(2, repeating_body, NULL), 0);
    assert_in_range(shared->ahead, REPEATS / 2, REPEATS);
    assert_int_equal(shared->kernel_reads, 0);
}

/* Messages of several slices, which leave before all of them is there. */
static int chain_body(int rank, int ranks, void *arg)
{
    struct job job;
    enum { COUNT = 12000 };
    static int32_t send[COUNT], recv[COUNT];
    (void)arg;
    CHECK_OK(job_open(&job, "shm", NULL));
    CHECK_OK(job_greet(job.comm));
    test_clock_slow(1000);
    for (int round = 0; round < 30; round++) {
        for (int i = 0; i < COUNT; i++)
            send[i] = (i * 7 + round) * (rank + 1);
        CHECK_OK(weft_allreduce(job.comm, send, recv, COUNT, WEFT_INT32, WEFT_SUM, NULL));
        for (int i = 0; i < COUNT; i++)
            CHECK_BITS(recv[i] == (i * 7 + round) * (ranks * (ranks + 1) / 2));
        CHECK_OK(weft_broadcast(job.comm, send, recv, COUNT, WEFT_INT32, round % ranks, NULL));
        for (int i = 0; i < COUNT; i++)
            CHECK_BITS(recv[i] == (i * 7 + round) * (round % ranks + 1));
    }
    test_clock_slow(1);
    CHECK(job_fed_bytes(&job) > 0);
    CHECK_OK(job_close(&job));
    return 0;
}

static void test_chain(void **state)
{
    static const char *const algorithms[] = {"ring", "chain", "tree"};
    (void)state;
    prepare(GOES_ON);
    setenv("WEFT_SLICE_SHM", "8192", 1);
    setenv("WEFT_FAST_PATH", "0", 1);
    for (int a = 0; a < 3; a++) {
        setenv("WEFT_ALGO", algorithms[a], 1);
        assert_int_equal(test_ranks_fork(3, chain_body, NULL), 0);
    }
    unsetenv("WEFT_SLICE_SHM");
    unsetenv("WEFT_FAST_PATH");
    unsetenv("WEFT_ALGO");
}

/* --- one end stops inside its copy */

static uint8_t *trap; /* a page that may not be touched yet */

static void stop_here(int number, siginfo_t *info, void *context)
{
    (void)context;
    if (!trap || (uint8_t *)info->si_addr < trap || (uint8_t *)info->si_addr >= trap + PAGE) {
        signal(number, SIG_DFL);
        return;
    }
    mprotect(trap, PAGE, PROT_READ | PROT_WRITE);
    shared->stopped = 1;
    if (shared->how == DIES)
        kill(getpid(), SIGKILL);
    wait_for(&shared->go, 1);
}

static void arm(uint8_t *memory)
{
    trap = memory + AT * PAGE;
    mprotect(trap, PAGE, PROT_NONE);
}

static uint8_t *trapped(size_t bytes, int is_armed)
{
    struct sigaction action = {.sa_sigaction = stop_here, .sa_flags = SA_SIGINFO};
    uint8_t *memory =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    sigaction(SIGSEGV, &action, NULL);
    pattern_fill(memory, bytes, 1);
    if (is_armed)
        arm(memory);
    return memory;
}

/* The owner stops: the reader reads the rest by the kernel. What the owner writes when it goes on does no harm to what comes next. arg: how
 * long messages are. */
static int owner_body(int rank, int ranks, void *arg)
{
    struct job job;
    size_t bytes = *(const size_t *)arg;
    (void)ranks;
    CHECK_OK(job_open_within(&job, "shm", NULL, 60000));
    CHECK_OK(job_greet(job.comm));
    uint8_t *memory = trapped(bytes, 0);
    test_clock_slow(SLOWER);
    CHECK(move(&job, rank, memory, bytes, 1) == 0); /* the next one is fed ahead, if it is short */
    CHECK_OK(weft_barrier(job.comm, NULL));
    if (rank == 0)
        arm(memory);
    test_clock_slow(SLOW);
    if (rank == 0) {
        CHECK_OK(weft_send(job.comm, memory, bytes, WEFT_UINT8, 1, 0, NULL));
    } else {
        memset(memory, 0, bytes);
        CHECK_OK(weft_recv(job.comm, memory, bytes, WEFT_UINT8, 0, 0, NULL, NULL));
        CHECK(shared->stopped && !shared->go && shared->kernel_reads > 0);
        CHECK_BITS(pattern_check(memory, bytes, 1) == 0);
        CHECK(job_fed_bytes(&job) > bytes && job_fed_bytes(&job) < 2 * bytes);
        shared->go = 1;
    }
    test_clock_slow(SLOWER);
    uint64_t before = job_fed_bytes(&job);
    for (int seed = 2; seed < 8; seed++) {
        CHECK(move(&job, rank, memory, bytes, seed) == 0);
    }
    CHECK(job_fed_bytes(&job) - before == (rank ? 6 * bytes : 0));
    test_clock_slow(1);
    CHECK_OK(job_close(&job));
    munmap(memory, bytes);
    return 0;
}

static void test_owner_stops(void **state)
{
    (void)state;
    static size_t bytes[] = {ASKED, SHORT};
    for (int i = 0; i < 2; i++) {
        prepare(GOES_ON);
        assert_int_equal(test_ranks_fork(2, owner_body, &bytes[i]), 0);
        assert_true((shared->ahead > 0) == i);
    }
}

/* arg: the rank that dies. */
static int dying_body(int rank, int ranks, void *arg)
{
    struct job job;
    int dies = *(const int *)arg;
    (void)ranks;
    CHECK_OK(job_open_within(&job, "shm", NULL, 60000));
    CHECK_OK(job_greet(job.comm));
    uint8_t *memory = trapped(BYTES, rank == dies);
    CHECK_OK(weft_barrier(job.comm, NULL));
    test_clock_slow(SLOW);
    int status = rank == 0 ? weft_send(job.comm, memory, BYTES, WEFT_UINT8, 1, 0, NULL)
                           : weft_recv(job.comm, memory, BYTES, WEFT_UINT8, 0, 0, NULL, NULL);
    test_clock_slow(1);
    CHECK(rank != dies && status == WEFT_PEER_FAILED);
    weft_comm_destroy(job.comm);
    weft_context_close(job.context);
    munmap(memory, BYTES);
    return 0;
}

static void test_dies(void **state)
{
    (void)state;
    for (int dies = 0; dies < 2; dies++) {
        int statuses[2];
        prepare(DIES);
        test_ranks_fork_status(2, dying_body, &dies, statuses);
        assert_int_equal(shared->stopped, 1);
        assert_true(WIFSIGNALED(statuses[dies]) && WTERMSIG(statuses[dies]) == SIGKILL);
        assert_true(WIFEXITED(statuses[!dies]) && WEXITSTATUS(statuses[!dies]) == 0);
    }
}

/* The reader stops, and the owner's send ends by its deadline: the memory is the owner's again, who writes there. The reader may not take that for
 * the message. */
static int taken_back_body(int rank, int ranks, void *arg)
{
    struct job job;
    (void)ranks, (void)arg;
    CHECK_OK(job_open_within(&job, "shm", NULL, 60000));
    CHECK_OK(job_greet(job.comm));
    uint8_t *memory = trapped(LONG_BYTES, rank == 1);
    CHECK_OK(weft_barrier(job.comm, NULL));
    test_clock_slow(SLOW);
    if (rank == 0) {
        weft_work *work;
        weft_call_options options = WEFT_CALL_OPTIONS_INIT;
        options.work = &work;
        CHECK_OK(weft_send(job.comm, memory, LONG_BYTES, WEFT_UINT8, 1, 0, &options));
        while (!shared->stopped)
            CHECK(weft_work_wait(work, 0) == WEFT_AGAIN);
        CHECK_OK(weft_comm_abort(job.comm, "the test"));
        CHECK(weft_work_wait(work, -1) == WEFT_REVOKED);
        memset(memory, 0x77, LONG_BYTES);
        shared->go = 1;
        weft_work_free(work);
    } else {
        CHECK(weft_recv(job.comm, memory, LONG_BYTES, WEFT_UINT8, 0, 0, NULL, NULL) != WEFT_OK);
        CHECK(shared->go);
    }
    weft_comm_destroy(job.comm);
    weft_context_close(job.context);
    munmap(memory, LONG_BYTES);
    return 0;
}

static void test_taken_back(void **state)
{
    (void)state;
    prepare(GOES_ON);
    setenv("WEFT_SLICE_SHM", "1048576", 1); /* all of it is one read, and the owner cannot be far ahead */
    assert_int_equal(test_ranks_fork(2, taken_back_body, NULL), 0);
    unsetenv("WEFT_SLICE_SHM");
    assert_int_equal(shared->refused, 1);
}

/* --- it is taken where it is faster, and what is done can be seen */

#define MESSAGES 5000 /* at most */

/* Whether rank 1 says that it is fed now with so much. */
static int says(const struct job *job, int rank, size_t bytes, int *is_so)
{
    weft_description said = WEFT_DESCRIPTION_INIT;
    CHECK_OK(weft_comm_describe(job->comm, "recv", NULL, NULL, bytes, WEFT_UINT8, WEFT_SUM, !rank, &said));
    *is_so = rank && strcmp(said.algorithm, "fed") == 0;
    CHECK(!*is_so || strncmp(said.why, "measured: ", 10) == 0);
    CHECK_OK(weft_broadcast(job->comm, is_so, is_so, 1, WEFT_INT32, 1, NULL));
    return 0;
}

static int learning_body(int rank, int ranks, void *arg)
{
    struct job job;
    size_t bytes = *(const size_t *)arg;
    uint8_t *memory = malloc(bytes);
    int is_fed = 0;
    CHECK(memory && ranks == 2);
    CHECK_OK(job_open(&job, "shm", NULL));
    CHECK_OK(job_greet(job.comm));
    test_clock_slow(100); /* or a look at the clock says nothing */
    for (int seed = 0; seed < MESSAGES && !is_fed; seed++) {
        CHECK(move(&job, rank, memory, bytes, seed) == 0);
        CHECK(says(&job, rank, bytes, &is_fed) == 0);
    }
    CHECK(is_fed && (rank == 0 || job_fed_bytes(&job)));
    CHECK_OK(job_close(&job));
    free(memory);
    return 0;
}

static void test_learns(void **state)
{
    (void)state;
    static size_t bytes[] = {BYTES, LONG_BYTES}; /* which is two reads */
    for (int i = 0; i < 2; i++) {
        prepare(GOES_ON);
        shared->slow_kernel = 1;
        setenv("WEFT_WAY_SHM", "auto", 1);
        assert_int_equal(test_ranks_fork(2, learning_body, &bytes[i]), 0);
        assert_in_range(shared->kernel_reads, 2, MESSAGES);
    }
    setenv("WEFT_WAY_SHM", WAY, 1);
}

/* --- an owner that never feeds is asked seldom, and one that does so again is found */

#define AWAY 2000

static int away_body(int rank, int ranks, void *arg)
{
    struct job job;
    uint8_t *memory = calloc(1, BYTES);
    int asked = 0, is_over = 0;
    CHECK(memory && ranks == 2 && !arg);
    CHECK_OK(job_open(&job, "shm", NULL));
    CHECK_OK(job_greet(job.comm));
    for (int i = 0; i < 3 * AWAY && !is_over; i++) {
        CHECK(move(&job, rank, memory, BYTES, i) == 0);
        if (rank == 1 && i == AWAY - 1) {
            asked = shared->asked;
            shared->feeds_not = 0;
            test_clock_slow(1000); /* it waits for an owner that has no processor just then */
        }
        is_over = rank && job_fed_bytes(&job);
        CHECK_OK(weft_broadcast(job.comm, &is_over, &is_over, 1, WEFT_INT32, 1, NULL));
    }
    test_clock_slow(1);
    CHECK(rank == 0 || (job_fed_bytes(&job) && asked >= 4 && asked <= 4 + AWAY / 17 + 3 * AWAY / 32));
    CHECK_OK(job_close(&job));
    free(memory);
    return 0;
}

static void test_away(void **state)
{
    (void)state;
    setenv("WEFT_HELP_SHM", "auto", 1);
    for (int is_fixed = 0; is_fixed < 2; is_fixed++) {
        prepare(GOES_ON);
        shared->feeds_not = 1;
        setenv("WEFT_WAY_SHM", is_fixed ? WAY : "auto", 1);
        assert_int_equal(test_ranks_fork(2, away_body, NULL), 0);
    }
    setenv("WEFT_HELP_SHM", "always", 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes), cmocka_unit_test(test_order),  cmocka_unit_test(test_repeats),
        cmocka_unit_test(test_chain), cmocka_unit_test(test_away),   cmocka_unit_test(test_owner_stops),
        cmocka_unit_test(test_dies),  cmocka_unit_test(test_learns), cmocka_unit_test(test_taken_back),
    };
    shared = test_ranks_shared(sizeof *shared);
    setenv("WEFT_WAY_SHM", WAY, 1);
    setenv("WEFT_HELP_SHM", "always", 1);
    setenv("WEFT_SPIN_US", "1000000", 1); /* who waits does not sleep */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
