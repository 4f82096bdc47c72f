/* SPDX-License-Identifier: Apache-2.0 */
/* What a communicator costs, idle and busy: 64 processes on this host each note what they hold, create a communicator or call it, and note
 * again. What a process holds is its proportional share of the pages that it maps (Pss) and the pages of the memory
 * files that it has made and not mapped, which nobody else counts.
 */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/support/job.h"
#include "tests/support/proc_kb.h"
#include "tests/support/ranks.h"
#include "tests/support/skip.h"

#define RANKS   64
#define RANK_KB 8192 /* that must be free for each */
#define MEAN_KB 512  /* the promise: of all ranks, */
#define MOST_KB 1024 /* and of each */
#define IDLE_US 300000

#define BUSY_BYTES   (1u << 20)
#define BUSY_KB      512   /* beside what pairs cost */
#define BUSY_RANK_KB 16384 /* that must be free for each */

#define PAIR_RANKS 8
#define PAIR_KB    96

/* Pages of this process's memory files. Those that it maps as well are counted twice: on the safe side. */
static long memfd_kb(void)
{
    long kb = 0;
    DIR *folder = opendir("/proc/self/fd");
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        char path[300], target[300];
        struct stat status;
        snprintf(path, sizeof path, "/proc/self/fd/%s", entry->d_name);
        ssize_t length = readlink(path, target, sizeof target - 1);
        if (length < 7 || strncmp(target, "/memfd:", 7) != 0 || stat(path, &status) != 0)
            continue;
        kb += (long)(status.st_blocks / 2);
    }
    if (folder)
        closedir(folder);
    return kb;
}

/* Growth of this process by each of two communicators, the second made from the first. */
struct growth {
    long first_kb, second_kb;
};

static long held_kb(void)
{
    return test_proc_kb("/proc/self/smaps_rollup", "Pss") + memfd_kb();
}

static int idle_body(int rank, int ranks, void *arg)
{
    struct growth *growth = (struct growth *)arg + rank;
    weft_context *context;
    weft_comm *comm, *copy;
    weft_comm_options options = WEFT_COMM_OPTIONS_INIT;
    test_ranks_options(&options);
    CHECK_OK(weft_context_open(NULL, &context));
    long before_kb = held_kb();
    CHECK_OK(weft_comm_create(context, &options, &comm));
    CHECK(weft_comm_size(comm) == ranks);
    usleep(IDLE_US);
    growth->first_kb = held_kb() - before_kb;
    before_kb = held_kb();
    CHECK_OK(weft_comm_split(comm, 0, 0, &copy, NULL));
    usleep(IDLE_US);
    growth->second_kb = held_kb() - before_kb;
    CHECK_OK(weft_comm_destroy(copy));
    CHECK_OK(weft_comm_destroy(comm));
    CHECK_OK(weft_context_close(context));
    return 0;
}

/* Skips the test where so many processes have no room, or what they hold cannot be seen. */
static void need(int ranks, long rank_kb)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    TEST_SKIP("a sanitizer's own memory is not told from the program's");
#endif
    if (test_proc_kb("/proc/meminfo", "MemAvailable") < ranks * rank_kb)
        TEST_SKIP("%ld kB of memory are available, %d processes want %ld each",
                  test_proc_kb("/proc/meminfo", "MemAvailable"), ranks, rank_kb);
    if (test_proc_kb("/proc/self/smaps_rollup", "Pss") < 0)
        TEST_SKIP("this kernel does not tell a process's share of its pages (/proc/self/smaps_rollup)");
}

static void test_idle(void **state)
{
    (void)state;
    need(RANKS, RANK_KB);
    struct growth *growths =
        mmap(NULL, RANKS * sizeof *growths, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(growths != MAP_FAILED);
    assert_int_equal(test_ranks_fork(RANKS, idle_body, growths), 0);
    struct growth most = {0, 0}, sum = {0, 0};
    for (int r = 0; r < RANKS; r++) {
        most.first_kb = growths[r].first_kb > most.first_kb ? growths[r].first_kb : most.first_kb;
        most.second_kb = growths[r].second_kb > most.second_kb ? growths[r].second_kb : most.second_kb;
        sum.first_kb += growths[r].first_kb;
        sum.second_kb += growths[r].second_kb;
    }
    munmap(growths, RANKS * sizeof *growths);
    printf(
        "%d ranks: the first communicator %ld kB on average, %ld kB at most; a copy of it %ld kB, %ld kB\n",
        RANKS, sum.first_kb / RANKS, most.first_kb, sum.second_kb / RANKS, most.second_kb);
    assert_in_range(sum.first_kb, 1, RANKS * MEAN_KB - 1);
    assert_in_range(sum.second_kb, 1, RANKS * MEAN_KB - 1);
    assert_in_range(most.first_kb, 1, MOST_KB - 1);
    assert_in_range(most.second_kb, 1, MOST_KB - 1);
}

/* What a rank holds beside its communicator's beginning when it has moved large messages in collectives and to all others: rings,
 * staging, what is known of the peers. */
static int busy_body(int rank, int ranks, void *arg)
{
    long *grown_kb = (long *)arg + rank;
    struct job job;
    size_t count = BUSY_BYTES / sizeof(float);
    float *send = malloc(BUSY_BYTES), *received = malloc(BUSY_BYTES);
    CHECK(send && received);
    memset(send, 0, BUSY_BYTES);
    memset(received, 0, BUSY_BYTES);
    CHECK_OK(job_open(&job, "shm", NULL));
    long before_kb = held_kb();
    CHECK_OK(weft_barrier(job.comm, NULL)); /* all have looked */
    for (int i = 0; i < 4; i++) {
        CHECK_OK(weft_allreduce(job.comm, send, received, count, WEFT_FLOAT32, WEFT_SUM, NULL));
        CHECK_OK(weft_broadcast(job.comm, send, received, count, WEFT_FLOAT32, i, NULL));
        CHECK_OK(weft_alltoall(job.comm, send, received, count / (size_t)ranks, WEFT_FLOAT32, NULL));
    }
    CHECK_OK(job_greet(job.comm));
    CHECK_OK(weft_barrier(job.comm, NULL));
    *grown_kb = held_kb() - before_kb;
    CHECK_OK(weft_barrier(job.comm, NULL));
    CHECK_OK(job_close(&job));
    free(send);
    free(received);
    return 0;
}

static void test_busy(void **state)
{
    (void)state;
    need(RANKS, BUSY_RANK_KB);
    long *grown_kb =
        mmap(NULL, RANKS * sizeof *grown_kb, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(grown_kb != MAP_FAILED);
    assert_int_equal(test_ranks_fork(RANKS, busy_body, grown_kb), 0);
    long sum_kb = 0, most_kb = 0;
    for (int r = 0; r < RANKS; r++) {
        sum_kb += grown_kb[r];
        most_kb = grown_kb[r] > most_kb ? grown_kb[r] : most_kb;
    }
    munmap(grown_kb, RANKS * sizeof *grown_kb);
    printf("%d busy ranks: %ld kB on average, %ld kB at most\n", RANKS, sum_kb / RANKS, most_kb);
    assert_in_range(most_kb, 1, (RANKS - 1) * PAIR_KB + BUSY_KB);
}

/* What a connected pair costs each of its ranks. */
struct pairs {
    atomic_int looked; /* ranks that know what they held before */
    long grown_kb[PAIR_RANKS];
};

static int pair_body(int rank, int ranks, void *arg)
{
    struct pairs *pairs = arg;
    weft_context *context;
    weft_comm *comm;
    weft_comm_options options = WEFT_COMM_OPTIONS_INIT;
    test_ranks_options(&options);
    setenv("WEFT_FAST_PATH", "0", 1); /* it would have connected all already */
    CHECK_OK(weft_context_open(NULL, &context));
    CHECK_OK(weft_comm_create(context, &options, &comm));
    usleep(IDLE_US);
    long before_kb = held_kb();
    atomic_fetch_add(&pairs->looked, 1);
    while (atomic_load(&pairs->looked) < ranks)
        usleep(1000);
    CHECK_OK(job_greet(comm));
    usleep(IDLE_US);
    pairs->grown_kb[rank] = held_kb() - before_kb;
    CHECK_OK(weft_comm_destroy(comm));
    CHECK_OK(weft_context_close(context));
    return 0;
}

static void test_pairs(void **state)
{
    (void)state;
    need(PAIR_RANKS, RANK_KB);
    struct pairs *pairs =
        mmap(NULL, sizeof *pairs, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(pairs != MAP_FAILED);
    assert_int_equal(test_ranks_fork(PAIR_RANKS, pair_body, pairs), 0);
    long most_kb = 0;
    for (int r = 0; r < PAIR_RANKS; r++)
        most_kb = pairs->grown_kb[r] > most_kb ? pairs->grown_kb[r] : most_kb;
    munmap(pairs, sizeof *pairs);
    printf("%d ranks connected: %ld kB at most for each of a rank's %d peers\n", PAIR_RANKS,
           most_kb / (PAIR_RANKS - 1), PAIR_RANKS - 1);
    assert_in_range(most_kb / (PAIR_RANKS - 1), 1, PAIR_KB);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_idle), cmocka_unit_test(test_busy),
                                       cmocka_unit_test(test_pairs)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
