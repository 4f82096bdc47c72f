/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/cache_job.h"

#include <dirent.h>
#include <errno.h>
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/support/job.h"
#include "tests/support/ranks.h"
#include "tests/support/effort.h"

#define PAGE  ((size_t)4096)
#define SIZE  ((size_t)300001) /* one mapping of malloc()'s */
#define TURNS 40

int cache_job_watchers(void)
{
    int found = 0;
    DIR *tasks = opendir("/proc/self/task");
    for (struct dirent *task; tasks && (task = readdir(tasks));) {
        char path[300], name[32] = "";
        snprintf(path, sizeof path, "/proc/self/task/%s/comm", task->d_name);
        FILE *file = fopen(path, "re");
        if (file && fgets(name, sizeof name, file))
            found += strcmp(name, "weft-cache\n") == 0;
        if (file)
            fclose(file);
    }
    if (tasks)
        closedir(tasks);
    return found;
}

static int stats_of(weft_comm *comm, weft_comm_stats *stats)
{
    *stats = (weft_comm_stats)WEFT_COMM_STATS_INIT;
    return weft_comm_get_stats(comm, stats);
}

static uint8_t byte_of(int turn, size_t i)
{
    return (uint8_t)((size_t)turn * 31 + i * 7 + (i >> 8));
}

/* One message from rank 0 to rank 1. */
static int pass(weft_comm *comm, int rank, uint8_t *memory, size_t size, int turn)
{
    for (size_t i = 0; i < size; i++)
        memory[i] = rank == 0 ? byte_of(turn, i) : (uint8_t)~byte_of(turn, i);
    if (rank == 0) {
        CHECK_OK(weft_send(comm, memory, size, WEFT_UINT8, 1, turn, NULL));
        return 0;
    }
    CHECK_OK(weft_recv(comm, memory, size, WEFT_UINT8, 0, turn, NULL, NULL));
    size_t wrong = 0;
    for (size_t i = 0; i < size; i++)
        wrong += memory[i] != byte_of(turn, i);
    CHECK_BITS(wrong == 0);
    return 0;
}

/* Whether free() has given the block back to the kernel: at its address there is nothing. */
static int has_gone(uintptr_t block)
{
    unsigned char there;
    return mincore((void *)((block + PAGE - 1) & ~(PAGE - 1)), PAGE, &there) != 0 && errno == ENOMEM;
}

/* Memory that is freed and allocated again between messages, mostly at one address, in several ways. */
static int pass_again(weft_comm *comm, int rank)
{
    uintptr_t last = 0; /* 0, too, when its pages have stayed */
    int same = 0;
    /* And it stays so; without this, malloc() takes such blocks from the heap once one has been freed. */
    mallopt(M_MMAP_THRESHOLD, 128 << 10);
    for (int turn = 0; turn < TURNS; turn++) {
        uint8_t *memory = malloc(SIZE);
        CHECK(memory);
        same += (uintptr_t)memory == last;
        CHECK(pass(comm, rank, memory + turn % 3, SIZE - 3, turn) == 0);
        if (turn % 4 == 1) {
            uint8_t *page = (uint8_t *)(((uintptr_t)memory + PAGE - 1) & ~(PAGE - 1));
            CHECK(madvise(page, 32 * PAGE, MADV_DONTNEED) == 0);
            CHECK(pass(comm, rank, memory, SIZE, turn) == 0);
        }
        if (turn % 4 == 2) {
            memory = realloc(memory, 2 * SIZE);
            CHECK(memory);
            CHECK(pass(comm, rank, memory + SIZE / 2, SIZE, turn) == 0);
        }
        last = (uintptr_t)memory;
        free(memory);
        if (!has_gone(last))
            last = 0;
    }
    CHECK(same > 0 || rank > 0 || test_is_sanitized()); /* else this has shown nothing */
    return 0;
}

/* Memory that is given back while nobody calls weft is not held for longer than a moment. */
static int give_back(weft_comm *comm, int rank)
{
    weft_comm_stats held, now;
    size_t size = 80 * PAGE;
    uint8_t *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED);
    CHECK(pass(comm, rank, memory, size, 3) == 0);
    CHECK_OK(weft_barrier(comm, NULL));
    CHECK_OK(stats_of(comm, &held));
    munmap(memory, size);
    do {
        usleep(1000);
        CHECK_OK(stats_of(comm, &now)); /* for as long as it takes, or this rank's time is up */
    } while (now.registrations == held.registrations);
    CHECK(now.registrations == held.registrations - 1);
    CHECK_OK(weft_barrier(comm, NULL));
    return 0;
}

int cache_job_body(int rank, int ranks, void *arg)
{
    (void)ranks;
    const struct cache_job *expected = arg;
    struct job job;
    weft_comm_stats before, after;
    CHECK_OK(job_open(&job, expected->transports, expected->provider));
    CHECK(pass_again(job.comm, rank) == 0);

    uint8_t *memory = malloc(SIZE);
    float *sums = calloc(SIZE / 4, sizeof *sums);
    CHECK(memory && sums);
    CHECK_OK(weft_barrier(job.comm, NULL));
    CHECK(pass(job.comm, rank, memory, SIZE, 0) == 0);
    CHECK_OK(stats_of(job.comm, &before));
    for (int turn = 1; turn <= 10; turn++)
        CHECK(pass(job.comm, rank, memory, SIZE, turn) == 0);
    CHECK_OK(stats_of(job.comm, &after));
    if (expected->keeps) {
        CHECK(after.cache_hits == before.cache_hits + 10);
        CHECK(after.cache_misses == before.cache_misses);
        CHECK(after.registrations > 0);
        CHECK(cache_job_watchers() > 0);
        CHECK(give_back(job.comm, rank) == 0);
    } else {
        CHECK(after.cache_hits == 0 && after.cache_misses == 0);
        CHECK(cache_job_watchers() == 0);
    }
    /* A communicator of the same context, and a collective, use what is kept. */
    weft_comm *copy;
    CHECK_OK(weft_comm_split(job.comm, 0, 0, &copy, NULL));
    CHECK(pass(copy, rank, memory, SIZE, 5) == 0);
    CHECK_OK(weft_allreduce(job.comm, memory, sums, SIZE / 4, WEFT_UINT32, WEFT_MAX, NULL));
    CHECK_OK(stats_of(copy, &before));
    CHECK(before.cache_hits >= after.cache_hits + (expected->keeps ? 1 : 0));
    CHECK_OK(weft_comm_destroy(copy));
    free(memory); /* freed while it is kept, with everything else still there */
    free(sums);
    CHECK_OK(weft_barrier(job.comm, NULL));
    CHECK_OK(job_close(&job));
    return 0;
}
