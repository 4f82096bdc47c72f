/* Point-to-point messages between real ranks, as processes and as threads, over shared memory and libfabric: every way
 * that bytes can travel, order, wildcards, groups, and nothing left behind. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/support/job.h"
#include "tests/support/leak.h"
#include "tests/support/ranks.h"

#define GUARD 64

struct way {
    const char *name, *transports, *provider;
    int mapped; /* memory of weft_mem_alloc() */
    int staged, threads;
};

static const struct way ways[] = {
    {.name = "shm, malloc", .transports = "shm"},
    {.name = "shm, mapped", .transports = "shm", .mapped = 1},
    {.name = "shm, staged", .transports = "shm", .staged = 1},
    {.name = "shm, threads", .transports = "shm", .threads = 1},
    {.name = "tcp", .transports = "ofi", .provider = "tcp"},
    {.name = "tcp;ofi_rxm", .transports = "ofi", .provider = "tcp;ofi_rxm"},
};

/* Runs a body every way that there is here. */
static void each_way(int ranks, test_rank_function *body)
{
    for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
        if (ways[w].provider && !job_has_ofi(ways[w].provider))
            continue;
        if (ways[w].staged)
            setenv("WEFT_DIRECT", "0", 1);
        int (*run)(int, test_rank_function *, void *) =
            ways[w].threads ? test_ranks_threads : test_ranks_fork;
        int failed = run(ranks, body, (void *)(uintptr_t)&ways[w]);
        unsetenv("WEFT_DIRECT");
        if (failed)
            fail_msg("%s: %d ranks failed", ways[w].name, failed);
    }
}

static uint8_t byte_of(uint32_t seed, size_t i)
{
    return (uint8_t)((seed * 2654435761u + (uint32_t)i * 40503u) >> 11);
}

static void fill(uint8_t *memory, uint32_t seed, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        memory[i] = byte_of(seed, i);
}

/* Counts bytes that are not as filled, and guard bytes behind them that have changed. */
static size_t wrong(const uint8_t *memory, uint32_t seed, size_t bytes, uint8_t guard)
{
    size_t count = 0;
    for (size_t i = 0; i < bytes; i++)
        count += memory[i] != byte_of(seed, i);
    for (size_t i = 0; i < GUARD; i++)
        count += memory[bytes + i] != guard;
    return count;
}

static void *get(const struct way *way, struct job *job, size_t bytes)
{
    void *memory = NULL;
    if (!way->mapped)
        return malloc(bytes);
    return weft_mem_alloc(job->context, bytes, &memory) == 0 ? memory : NULL;
}

static void put(const struct way *way, struct job *job, void *memory)
{
    if (way->mapped)
        weft_mem_free(job->context, memory);
    else
        free(memory);
}

/* --- sizes */

static const size_t sizes[] = {0,      1,      8,      63,      64,      65,      4095,   4096,
                               4097,   8151,   8152,   8153,    8191,    8192,    8193,   16383,
                               16384,  16385,  32768,  65535,   65536,   65537,   131072, 262144,
                               262145, 524288, 524289, 1000003, 4194304, 4194305, 9000001};
#define SIZES (sizeof sizes / sizeof *sizes)

/* Rank 0 sends every size to rank 1, which knows it or has more room, posts before or after, and sends it back. */
static int sizes_body(int rank, int ranks, void *arg)
{
    (void)ranks;
    const struct way *way = arg;
    struct job job;
    CHECK_OK(job_open(&job, way->transports, way->provider));
    size_t most = sizes[SIZES - 1] + GUARD;
    uint8_t *memory = get(way, &job, most);
    CHECK(memory);
    for (uint32_t s = 0; s < SIZES; s++) {
        size_t bytes = sizes[s], room = s % 2 ? bytes : sizes[SIZES - 1];
        weft_message info = WEFT_MESSAGE_INIT;
        if (rank == 0) {
            fill(memory, s, bytes);
            CHECK_OK(weft_send(job.comm, memory, bytes, WEFT_UINT8, 1, s));
            memset(memory, 0x77, bytes + GUARD);
            CHECK_OK(weft_recv(job.comm, memory, room, WEFT_UINT8, 1, s + 1000, &info));
            CHECK(info.source == 1 && info.tag == s + 1000 && info.bytes == bytes);
            CHECK(wrong(memory, s + 5, bytes, 0x77) == 0);
        } else {
            memset(memory, 0x77, bytes + GUARD);
            if (s % 3 == 0) {
                CHECK_OK(weft_probe(job.comm, 0, s, -1, &info));
                CHECK(info.source == 0 && info.tag == s && info.bytes == bytes);
            }
            CHECK_OK(weft_recv(job.comm, memory, room, WEFT_UINT8, 0, s, &info));
            CHECK(info.source == 0 && info.tag == s && info.bytes == bytes);
            CHECK(wrong(memory, s, bytes, 0x77) == 0);
            fill(memory, s + 5, bytes);
            CHECK_OK(weft_send(job.comm, memory, bytes, WEFT_UINT8, 0, s + 1000));
        }
    }
    put(way, &job, memory);
    CHECK_OK(job_close(&job));
    return 0;
}

static void test_sizes(void **state)
{
    (void)state;
    each_way(2, sizes_body);
}

/* --- rings */

static int ring_body(int rank, int ranks, void *arg)
{
    const struct way *way = arg;
    static const size_t counts[] = {0, 1, 1000, 100000, 700001};
    struct job job;
    CHECK_OK(job_open(&job, way->transports, way->provider));
    int right = (rank + 1) % ranks, left = (rank + ranks - 1) % ranks;
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
        size_t bytes = counts[c];
        uint8_t *out = get(way, &job, bytes + GUARD), *in = get(way, &job, bytes + GUARD);
        CHECK(out && in);
        fill(out, (uint32_t)rank, bytes);
        memset(in, 0x33, bytes + GUARD);
        weft_message info = WEFT_MESSAGE_INIT;
        CHECK_OK(weft_sendrecv(job.comm, out, bytes, right, 4, in, bytes, left, 4, WEFT_UINT8, &info));
        CHECK(info.source == left && info.bytes == bytes);
        CHECK(wrong(in, (uint32_t)left, bytes, 0x33) == 0);
        put(way, &job, out);
        put(way, &job, in);
    }
    CHECK_OK(job_close(&job));
    return 0;
}

static void test_rings(void **state)
{
    (void)state;
    each_way(1, ring_body);
    each_way(2, ring_body);
    each_way(3, ring_body);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_rings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
