/* SPDX-License-Identifier: Apache-2.0 */
/* build: with tests/clock/; wrap shm_feed_look shm_reads_look weft_choices_observe weft_choices_compare shm_pull_fed weft_copy_streaming @tests/clock/wraps */
/* How ordinary memory is read follows at once when processors move, once the reader has been with either. So does whether what is staged goes past
 * the caches. How near the owner is, and what each way costs, the test says, but where looks themselves are tested. What two read that read from each other at
 * once, of what one of them tries, is tested here too. */
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/clock/clock.h"
#include "tests/support/job.h"
#include "tests/support/pattern.h"
#include "tests/support/ranks.h"
#include "transport/shm/shm_private.h"

#define BYTES     (64u << 10)
#define LEARNING  3000 /* messages at most; some 200 where the owner is always there */
#define AT_ONCE   16   /* messages: two looks */
#define LOOKED    400
#define ANEW      300 /* messages: some trials */
#define TURNS     60
#define MOVES     40
#define COUNTED   24  /* calls */
#define SAYING    400 /* messages */
#define SAID      600 /* messages, with trials of what is slower */
#define EXCHANGES 600
#define APART     10  /* messages */
#define TRIALS    200 /* calls, of which some stage for a trial */

enum { KERNEL, FED, PAST };
enum { NEAR, FAR, SLOW }; /* rows of costs_ns; SLOW: feeding takes longer than the kernel */
static const int64_t costs_ns[][3] = {{3000, 1000, 2000}, {2000, 3000, 1000}, {1000, 2000, 3000}};

static struct {
    _Atomic int far, is_found_out, fed[2]; /* as before, past the caches */
    _Atomic int is_real, looks, near_ns;   /* looks that have found the line written anew */
    _Atomic int is_turned;                 /* near costs what far did */
    _Atomic int is_said, wrong; /* what is staged is to go as is_turned says; looks after which it is not */
    _Atomic int wants;          /* how, as of the look before */
    _Atomic int is_unknown;     /* what ways cost, as in trials */
    _Atomic int is_slow;        /* costs are those of SLOW */
    _Atomic int calls, trials;  /* looks, whatever they found; those of reads of trials */
} * shared;

static uint64_t streamed_bytes;
static int likewise; /* reads that are fed as their owner has wanted the same */

void __real_weft_copy_streaming(void *destination, const void *source, size_t size);
void __wrap_weft_copy_streaming(void *destination, const void *source, size_t size);
void __wrap_weft_copy_streaming(void *destination, const void *source, size_t size)
{
    streamed_bytes += size;
    __real_weft_copy_streaming(destination, source, size);
}

int __real_shm_feed_look(struct weft_link *link, struct shm_reads *reads);
int __wrap_shm_feed_look(struct weft_link *link, struct shm_reads *reads);
int __wrap_shm_feed_look(struct weft_link *link, struct shm_reads *reads)
{
    shared->calls++;
    if (shared->is_real) {
        uint64_t before = reads->exposed;
        int moved = __real_shm_feed_look(link, reads);
        shared->looks += reads->exposed != before;
        if (reads->distance.near_ns)
            shared->near_ns = (int)reads->distance.near_ns;
        return moved;
    }
    reads->distance.is_far = shared->far;
    shared->wants = reads->wants_past;
    shared->wrong += shared->is_said && reads->wants_past != shared->is_turned;
    return atomic_exchange(&shared->is_found_out, 0);
}

struct weft_choices *__real_shm_reads_look(struct weft_link *, struct shm_reads *, struct weft_choices *);
struct weft_choices *__wrap_shm_reads_look(struct weft_link *, struct shm_reads *, struct weft_choices *);
struct weft_choices *__wrap_shm_reads_look(struct weft_link *link, struct shm_reads *reads,
                                           struct weft_choices *choices)
{
    shared->trials++;
    return __real_shm_reads_look(link, reads, choices);
}

int __real_weft_choices_observe(struct weft_choices *choices, size_t bytes, uint8_t way, int64_t cost_ns);
int __wrap_weft_choices_observe(struct weft_choices *choices, size_t bytes, uint8_t way, int64_t cost_ns);
int __wrap_weft_choices_observe(struct weft_choices *choices, size_t bytes, uint8_t way, int64_t cost_ns)
{
    return __real_weft_choices_observe(
        choices, bytes, way,
        cost_ns ? costs_ns[shared->is_slow ? SLOW : shared->far ^ shared->is_turned][way] : 0);
}

int __real_weft_choices_compare(const struct weft_choices *choices, uint8_t first, uint8_t second);
int __wrap_weft_choices_compare(const struct weft_choices *choices, uint8_t first, uint8_t second);
int __wrap_weft_choices_compare(const struct weft_choices *choices, uint8_t first, uint8_t second)
{
    return shared->is_unknown ? 0 : __real_weft_choices_compare(choices, first, second);
}

size_t __real_shm_pull_fed(struct weft_link *, const struct shm_token *, uint64_t, void *, size_t,
                           const struct shm_fed_how *, uint32_t);
size_t __wrap_shm_pull_fed(struct weft_link *, const struct shm_token *, uint64_t, void *, size_t,
                           const struct shm_fed_how *, uint32_t);
size_t __wrap_shm_pull_fed(struct weft_link *link, const struct shm_token *token, uint64_t offset,
                           void *destination, size_t size, const struct shm_fed_how *how, uint32_t flags)
{
    shared->fed[how->is_past]++;
    likewise += !how->is_wish;
    return __real_shm_pull_fed(link, token, offset, destination, size, how, flags);
}

static int is_taken(const struct job *job, const char *why, int *is_so)
{
    weft_description said = WEFT_DESCRIPTION_INIT;
    CHECK_OK(weft_comm_describe(job->comm, "recv", NULL, NULL, BYTES, WEFT_UINT8, WEFT_SUM, 0, &said));
    *is_so = strncmp(said.why, "measured: 1000 ns ", 18) == 0 &&
             strncmp(said.why + 18, why, strlen(why)) == 0 && strcmp(said.algorithm, "fed") == 0;
    return 0;
}

static int send_one(const struct job *job, int rank, uint8_t *memory, int seed)
{
    if (rank == 0) {
        pattern_fill(memory, BYTES, seed);
        CHECK_OK(weft_send(job->comm, memory, BYTES, WEFT_UINT8, 1, 0, NULL));
        return 0;
    }
    memset(memory, 0xa5, BYTES);
    CHECK_OK(weft_recv(job->comm, memory, BYTES, WEFT_UINT8, 0, 0, NULL, NULL));
    return pattern_check(memory, BYTES, seed);
}

/* Rank 0 sends until rank 1 says that it reads in that way, and `stays` messages more. Returns how many messages it takes, -1: too many. */
static int send_until(const struct job *job, int rank, uint8_t *memory, const char *why, int stays)
{
    int is_so = 0, sent = 0;
    for (; sent < LEARNING; sent++) {
        if (rank && is_taken(job, why, &is_so) != 0)
            return -1;
        if (weft_broadcast(job->comm, &is_so, &is_so, 1, WEFT_INT32, 1, NULL) != WEFT_OK)
            return -1;
        if (is_so)
            break;
        if (send_one(job, rank, memory, sent) != 0)
            return -1;
    }
    for (int i = 0; i < stays; i++) {
        if (send_one(job, rank, memory, i) != 0)
            return -1;
    }
    return is_so ? sent : -1;
}

static int body(int rank, int ranks, void *arg)
{
    struct job job;
    uint8_t *memory = malloc(BYTES);
    CHECK(memory && ranks == 2 && !arg);
    CHECK_OK(job_open(&job, "shm", NULL));
    CHECK_OK(job_greet(job.comm));
    test_clock_slow(1000); /* an owner that has no processor just then is waited for */
    for (int move = 0; move < MOVES; move++) {
        if (rank == 0)
            shared->far = move % 2;
        int needed =
            send_until(&job, rank, memory, move % 2 ? "fed past the caches," : "fed,", 50 + 13 * move);
        CHECK(needed >= 0 && (move < 2 || needed <= AT_ONCE));
    }
    CHECK(shared->fed[0] > 0 && shared->fed[1] > 0);
    /* What was taken for near turns out to be far, also in the midst of a trial: one that is near is found anew, and the other from what was known. */
    for (int turn = 0; turn < TURNS; turn++) {
        if (rank == 0)
            shared->far = 0;
        CHECK(send_until(&job, rank, memory, "fed,", turn) >= 0);
        if (rank == 0)
            shared->is_found_out = 1;
        CHECK(send_until(&job, rank, memory, "fed,", AT_ONCE) == 0 && !shared->is_found_out);
        int near = send_until(&job, rank, memory, "fed,", turn % 23);
        if (rank == 0)
            shared->far = 1;
        int far = send_until(&job, rank, memory, "fed past the caches,", turn % 29);
        CHECK(near > 0 && near < ANEW && far > AT_ONCE && far < ANEW);
    }
    test_clock_slow(1);
    CHECK_OK(job_close(&job));
    free(memory);
    return 0;
}

static void test_follows(void **state)
{
    (void)state;
    shared->far = shared->is_found_out = shared->fed[0] = shared->fed[1] = 0;
    assert_int_equal(test_ranks_fork(2, body, NULL), 0);
}

/* Rank 0 sends until it has heard from rank 1 whether what is staged is to go past the caches, and that is so. */
static int send_until_said(const struct job *job, int rank, uint8_t *memory, int is_past)
{
    for (int sent = 0; sent < LEARNING; sent++) {
        int is_so = shared->wants == is_past;
        CHECK_OK(weft_broadcast(job->comm, &is_so, &is_so, 1, WEFT_INT32, 1, NULL));
        if (is_so)
            return 0;
        CHECK(send_one(job, rank, memory, sent) == 0);
    }
    return -1;
}

/* An alltoall of ordinary memory. *staged: what this rank has copied into staging memory, *streamed: what has gone past the caches. */
static int exchange(const struct job *job, int rank, uint8_t *memory, int seed, uint64_t *staged,
                    uint64_t *streamed)
{
    weft_comm_stats before = WEFT_COMM_STATS_INIT, after = WEFT_COMM_STATS_INIT;
    uint8_t *recv = memory + 2 * BYTES;
    for (int to = 0; to < 2; to++)
        pattern_fill(memory + (size_t)to * BYTES, BYTES, seed + 2 * rank + to);
    memset(recv, 0xa5, 2 * BYTES);
    CHECK_OK(weft_comm_get_stats(job->comm, &before));
    streamed_bytes = 0;
    CHECK_OK(weft_alltoall(job->comm, memory, recv, BYTES, WEFT_UINT8, NULL));
    *streamed = streamed_bytes;
    CHECK_OK(weft_comm_get_stats(job->comm, &after));
    *staged = after.bytes_staged - before.bytes_staged;
    for (int from = 0; from < 2; from++)
        CHECK(pattern_check(recv + (size_t)from * BYTES, BYTES, seed + 2 * from + rank) == 0);
    return 0;
}

static int says_past(const struct job *job, int *says)
{
    weft_description said = WEFT_DESCRIPTION_INIT;
    CHECK_OK(weft_comm_describe(job->comm, "alltoall", NULL, NULL, BYTES, WEFT_UINT8, WEFT_SUM, 0, &said));
    *says = strstr(said.why, "; staging goes past the caches for 1 rank") != NULL;
    return 0;
}

static int staging_body(int rank, int ranks, void *arg)
{
    struct job job;
    uint8_t *memory = malloc(4 * BYTES);
    uint64_t staged, streamed;
    const char *way = arg;
    CHECK(memory && ranks == 2 && setenv("WEFT_DIRECT", "0", 1) == 0 && setenv("WEFT_WAY_SHM", way, 1) == 0);
    CHECK_OK(job_open(&job, "shm", NULL));
    CHECK_OK(job_greet(job.comm));
    for (int move = 0; move < MOVES; move++) {
        int is_past = strcmp(way, "fed") == 0 ? 0 : strcmp(way, "past") == 0 ? 1 : move % 2, says;
        if (rank == 0)
            shared->far = move % 2;
        CHECK_OK(weft_barrier(job.comm, NULL));
        for (int i = 0; i < AT_ONCE + COUNTED; i++) {
            CHECK(exchange(&job, rank, memory, i, &staged, &streamed) == 0 && staged >= BYTES);
            CHECK(i < AT_ONCE || streamed == (is_past ? staged : 0));
        }
        CHECK(says_past(&job, &says) == 0 && says == is_past);
        CHECK_OK(weft_barrier(job.comm, NULL));
    }
    CHECK_OK(job_close(&job));
    free(memory);
    return 0;
}

/* What is staged goes past the caches while it is read from far, from two looks after a move on; or as the setting says. */
static void test_staging(void **state)
{
    (void)state;
    static const char *const ways[] = {"auto", "pull", "fed", "past"};
    for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
        shared->far = 0;
        assert_int_equal(test_ranks_fork(2, staging_body, (void *)(uintptr_t)ways[w]), 0);
    }
}

static int measured_body(int rank, int ranks, void *arg)
{
    struct job job;
    uint8_t *memory = malloc(4 * BYTES);
    int trials = 0;
    CHECK(memory && ranks == 2 && !arg);
    CHECK_OK(job_open(&job, "shm", NULL));
    CHECK_OK(job_greet(job.comm));
    test_clock_slow(1000);
    int is_past = shared->far ^ shared->is_turned;
    CHECK(send_until(&job, rank, memory, is_past ? "fed past the caches," : "fed,", 0) >= 0);
    CHECK(send_until_said(&job, rank, memory, is_past) == 0);
    for (int i = 0; i < TRIALS; i++) {
        uint64_t staged, streamed;
        CHECK(exchange(&job, rank, memory, i, &staged, &streamed) == 0);
        trials += staged > 0;
        CHECK(rank || !staged || streamed == (is_past ? staged : 0));
    }
    CHECK(trials >= 3);
    test_clock_slow(1);
    CHECK_OK(job_close(&job));
    free(memory);
    return 0;
}

/* Where reads have shown what is faster, that counts, wherever the reader is. Of two ranks one has read. */
static void test_measured(void **state)
{
    (void)state;
    for (int turn = 0; turn < 4; turn++) {
        shared->far = turn / 2;
        shared->is_turned = turn % 2;
        shared->wants = -1;
        assert_int_equal(test_ranks_fork(2, measured_body, NULL), 0);
    }
    shared->is_turned = 0;
}

static int turning_body(int rank, int ranks, void *arg)
{
    struct job job;
    uint8_t *memory = malloc(BYTES);
    CHECK(memory && ranks == 2 && !arg);
    CHECK_OK(job_open(&job, "shm", NULL));
    CHECK_OK(job_greet(job.comm));
    test_clock_slow(1000);
    for (int turn = 0; turn < 4; turn++) {
        if (rank == 0) {
            shared->is_said = 0;
            shared->is_turned = turn % 2;
        }
        CHECK(send_until(&job, rank, memory, turn % 2 ? "fed past the caches," : "fed,", 0) >= 0);
        CHECK(send_until_said(&job, rank, memory, turn % 2) == 0);
        CHECK_OK(weft_barrier(job.comm, NULL));
        shared->is_said = 1;
        for (int i = 0; i < SAID; i++)
            CHECK(send_one(&job, rank, memory, i) == 0);
        CHECK_OK(weft_barrier(job.comm, NULL));
        shared->is_unknown = 1;
        for (int i = 0; i < SAYING; i++)
            CHECK(send_one(&job, rank, memory, i) == 0);
        CHECK_OK(weft_barrier(job.comm, NULL));
        shared->is_unknown = 0;
    }
    test_clock_slow(1);
    CHECK_OK(job_close(&job));
    free(memory);
    return 0;
}

/* It follows what reads cost where nobody moves, and a trial, of which no cost is known yet, changes nothing. */
static void test_turns(void **state)
{
    (void)state;
    shared->far = shared->is_said = shared->wrong = shared->is_unknown = 0;
    shared->wants = -1;
    assert_int_equal(test_ranks_fork(2, turning_body, NULL), 0);
    assert_int_equal(shared->wrong, 0);
    shared->is_turned = shared->is_said = 0;
}

/* Whether two processors that ranks may run on are of different cores. */
static int has_cores(void)
{
    char first[200] = "", path[100], line[200];
    cpu_set_t processors;
    if (sched_getaffinity(0, sizeof processors, &processors) != 0)
        return 0;
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &processors))
            continue;
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu);
        FILE *file = fopen(path, "re");
        int is_read = file && fgets(line, sizeof line, file);
        if (file)
            fclose(file);
        if (is_read && first[0] && strcmp(first, line) != 0)
            return 1;
        if (is_read)
            memcpy(first, line, sizeof first);
    }
    return 0;
}

/* What really is looked at: a line that its owner writes each time. bytes: in the message, or in each of an alltoall that is staged. */
static const struct looking {
    int is_staged;
    size_t bytes;
    int each; /* one message in so many looks */
} lookings[] = {{0, 64u << 10, 8},  {0, 128u << 10, 8}, {0, 256u << 10, 2},
                {1, 128u << 10, 8}, {1, 256u << 10, 2}, {1, 1u << 20, 1}};

static int looking_body(int rank, int ranks, void *arg)
{
    struct job job;
    const struct looking *looking = arg;
    uint8_t *memory = calloc(4, looking->bytes);
    CHECK(memory && ranks == 2 && (!looking->is_staged || setenv("WEFT_DIRECT", "0", 1) == 0));
    CHECK_OK(job_open(&job, "shm", NULL));
    for (int i = 0; i < LOOKED; i++) {
        if (looking->is_staged)
            CHECK_OK(weft_alltoall(job.comm, memory, memory + 2 * looking->bytes, looking->bytes, WEFT_UINT8,
                                   NULL));
        else if (rank == 0)
            CHECK_OK(weft_send(job.comm, memory, looking->bytes, WEFT_UINT8, 1, 0, NULL));
        else
            CHECK_OK(weft_recv(job.comm, memory, looking->bytes, WEFT_UINT8, 0, 0, NULL, NULL));
    }
    CHECK_OK(job_close(&job));
    free(memory);
    return 0;
}

static void test_looks(void **state)
{
    (void)state;
    shared->is_real = 1;
    for (size_t l = 0; l < sizeof lookings / sizeof *lookings; l++) {
        struct looking looking = lookings[l];
        int wanted = (looking.is_staged ? 2 : 1) * LOOKED / looking.each;
        shared->looks = shared->calls = shared->trials = shared->near_ns = 0;
        assert_int_equal(test_ranks_fork(2, looking_body, &looking), 0);
        assert_int_equal(shared->calls - shared->trials, wanted);
        assert_true(shared->looks >= wanted / 5 * 4);
        if (has_cores()) /* else the line is there already */
            assert_in_range(shared->near_ns, 1, 1000000);
    }
    shared->is_real = 0;
}

/* --- two that read from each other */

static int likewise_body(int rank, int ranks, void *arg)
{
    struct job job;
    uint8_t *memory = calloc(2, BYTES);
    CHECK(memory && ranks == 2 && !arg);
    CHECK_OK(job_open(&job, "shm", NULL));
    CHECK_OK(job_greet(job.comm));
    test_clock_slow(10000);
    for (int i = 0; i < APART; i++) /* else both have their trials in the same exchanges */
        CHECK(send_one(&job, rank, memory, i) == 0);
    uint64_t before = job_fed_bytes(&job);
    likewise = 0;
    for (int i = 0; i < EXCHANGES; i++)
        CHECK_OK(weft_sendrecv(job.comm, memory, BYTES, !rank, 0, memory + BYTES, BYTES, !rank, 0, WEFT_UINT8,
                               NULL, NULL));
    test_clock_slow(1);
    CHECK(likewise > 0 && job_fed_bytes(&job) - before <= EXCHANGES / 5 * BYTES);
    CHECK_OK(job_close(&job));
    free(memory);
    return 0;
}

/* Feeding is slow: trials of either have the other do likewise, and nothing of that stays. */
static void test_likewise(void **state)
{
    (void)state;
    shared->is_slow = 1;
    assert_int_equal(test_ranks_fork(2, likewise_body, NULL), 0);
    shared->is_slow = 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_follows),  cmocka_unit_test(test_staging),
                                       cmocka_unit_test(test_measured), cmocka_unit_test(test_turns),
                                       cmocka_unit_test(test_looks),    cmocka_unit_test(test_likewise)};
    shared = test_ranks_shared(sizeof *shared);
    setenv("WEFT_WAY_SHM", "auto", 1);
    setenv("WEFT_HELP_SHM", "always", 1);
    setenv("WEFT_FAST_PATH", "0", 1);     /* else it takes such calls where ranks share a processor */
    setenv("WEFT_SPIN_US", "1000000", 1); /* who waits does not sleep */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
