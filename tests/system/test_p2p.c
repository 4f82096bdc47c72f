/* SPDX-License-Identifier: Apache-2.0 */
/* run: beside (ranks that stay away); early */
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
#include "tests/support/effort.h"

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
    {.name = "tcp", .transports = "tcp"},
    {.name = "ofi tcp", .transports = "ofi", .provider = "tcp"},
    {.name = "tcp;ofi_rxm", .transports = "ofi", .provider = "tcp;ofi_rxm"},
};

/* Runs a body every way that there is here; sanitized, as threads and every second one of the others by turns. */
static void each_way(int ranks, test_rank_function *body)
{
    static size_t turn;
    turn++;
    for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
        if (test_is_sanitized() && !ways[w].threads && (w + turn) % 2)
            continue;
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
                               4097,   8191,   8192,   8193,    8279,    8280,    8281,   16383,
                               16384,  16385,  32768,  65535,   65536,   65537,   131072, 262144,
                               262145, 524288, 524289, 1000003, 4194304, 4194305, 9000001};
#define SIZES (sizeof sizes / sizeof *sizes)

/* How many of them are sent: sanitized those of up to a million bytes. */
static size_t sizes_sent(void)
{
    return test_is_sanitized() ? SIZES - 3 : SIZES;
}

/* Rank 0 sends every size to rank 1, which knows it or has more room, posts before or after, and sends it back. */
static int sizes_body(int rank, int ranks, void *arg)
{
    (void)ranks;
    const struct way *way = arg;
    struct job job;
    CHECK_OK(job_open(&job, way->transports, way->provider));
    size_t most = sizes[sizes_sent() - 1] + GUARD;
    uint8_t *memory = get(way, &job, most);
    CHECK(memory);
    for (uint32_t s = 0; s < sizes_sent(); s++) {
        size_t bytes = sizes[s], room = s % 2 ? bytes : most - GUARD;
        weft_message info = WEFT_MESSAGE_INIT;
        if (rank == 0) {
            fill(memory, s, bytes);
            CHECK_OK(weft_send(job.comm, memory, bytes, WEFT_UINT8, 1, s, NULL));
            memset(memory, 0x77, bytes + GUARD);
            CHECK_OK(weft_recv(job.comm, memory, room, WEFT_UINT8, 1, s + 1000, &info, NULL));
            CHECK(info.source == 1 && info.tag == s + 1000 && info.bytes == bytes);
            CHECK_BITS(wrong(memory, s + 5, bytes, 0x77) == 0);
        } else {
            memset(memory, 0x77, bytes + GUARD);
            if (s % 3 == 0) {
                CHECK_OK(weft_probe(job.comm, 0, s, -1, &info));
                CHECK(info.source == 0 && info.tag == s && info.bytes == bytes);
            }
            CHECK_OK(weft_recv(job.comm, memory, room, WEFT_UINT8, 0, s, &info, NULL));
            CHECK(info.source == 0 && info.tag == s && info.bytes == bytes);
            CHECK_BITS(wrong(memory, s, bytes, 0x77) == 0);
            fill(memory, s + 5, bytes);
            CHECK_OK(weft_send(job.comm, memory, bytes, WEFT_UINT8, 0, s + 1000, NULL));
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
        CHECK_OK(weft_sendrecv(job.comm, out, bytes, right, 4, in, bytes, left, 4, WEFT_UINT8, &info, NULL));
        CHECK(info.source == left && info.bytes == bytes);
        CHECK_BITS(wrong(in, (uint32_t)left, bytes, 0x33) == 0);
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

/* --- order and wildcards */

#define EACH 120

/* Ranks 1 and 2 send numbered messages of all lengths; rank 0 takes whatever comes. None overtakes another of its
 * sender. */
static int order_body(int rank, int ranks, void *arg)
{
    (void)ranks;
    const struct way *way = arg;
    static const size_t lengths[] = {8, 70000, 8, 8, 300000, 9000, 16};
    struct job job;
    CHECK_OK(job_open(&job, way->transports, way->provider));
    uint8_t *memory = calloc(1, 400000);
    CHECK(memory);
    if (rank == 0) {
        uint32_t next[3] = {0};
        for (int i = 0; i < 2 * EACH; i++) {
            weft_message info = WEFT_MESSAGE_INIT;
            uint32_t number;
            CHECK_OK(weft_recv(job.comm, memory, 400000, WEFT_UINT8, WEFT_ANY_SOURCE,
                               i % 3 ? WEFT_ANY_TAG : 5, &info, NULL));
            memcpy(&number, memory, sizeof number);
            CHECK(info.source > 0 && info.tag == 5);
            CHECK_BITS(number == next[info.source]++ && info.bytes == lengths[number % 7] &&
                       memory[info.bytes - 1] == (uint8_t)(number + 1));
        }
    } else {
        weft_work *works[EACH];
        uint8_t *parts = calloc(EACH, 300000);
        CHECK(parts);
        for (uint32_t n = 0; n < EACH; n++) {
            uint8_t *part = parts + n * (size_t)300000;
            memcpy(part, &n, sizeof n);
            part[lengths[n % 7] - 1] = (uint8_t)(n + 1);
            CHECK_OK(weft_send(job.comm, part, lengths[n % 7], WEFT_UINT8, 0, 5, WEFT_START(&works[n])));
        }
        for (int n = 0; n < EACH; n++) {
            CHECK_OK(weft_work_wait(works[n], -1));
            CHECK_OK(weft_work_free(works[n]));
        }
        free(parts);
    }
    free(memory);
    CHECK_OK(job_close(&job));
    return 0;
}

static void test_order(void **state)
{
    (void)state;
    each_way(3, order_body);
}

/* Which of several receives that fit gets a message: the one that was posted first. */
static int wildcards_body(int rank, int ranks, void *arg)
{
    (void)ranks;
    const struct way *way = arg;
    static const struct {
        int source, expected_source;
        int64_t tag, expected_tag;
    } receives[] = {{1, 1, 7, 7},
                    {WEFT_ANY_SOURCE, 1, 5, 5},
                    {1, 1, WEFT_ANY_TAG, 9},
                    {WEFT_ANY_SOURCE, 1, WEFT_ANY_TAG, 5},
                    {1, 1, 5, 5}};
    enum { RECEIVES = sizeof receives / sizeof *receives };
    struct job job;
    CHECK_OK(job_open(&job, way->transports, way->provider));
    int64_t got[RECEIVES], go = 0;
    if (rank == 0) {
        weft_work *works[RECEIVES];
        weft_message infos[RECEIVES];
        for (int i = 0; i < RECEIVES; i++) {
            infos[i] = (weft_message)WEFT_MESSAGE_INIT;
            CHECK_OK(weft_recv(job.comm, &got[i], 1, WEFT_INT64, receives[i].source, receives[i].tag,
                               &infos[i], WEFT_START(&works[i])));
        }
        CHECK_OK(weft_send(job.comm, &go, 1, WEFT_INT64, 1, 1, NULL));
        for (int i = 0; i < RECEIVES; i++) {
            CHECK_OK(weft_work_wait(works[i], -1));
            CHECK(infos[i].source == receives[i].expected_source);
            CHECK(infos[i].tag == receives[i].expected_tag && infos[i].bytes == 8);
            CHECK_OK(weft_work_free(works[i]));
        }
        CHECK_BITS(got[0] == 4 && got[1] == 0 && got[2] == 1 && got[3] == 2 && got[4] == 3);
    } else {
        static const int64_t tags[] = {5, 9, 5, 5, 7};
        CHECK_OK(weft_recv(job.comm, &go, 1, WEFT_INT64, 0, 1, NULL, NULL));
        for (int64_t i = 0; i < 5; i++)
            CHECK_OK(weft_send(job.comm, &i, 1, WEFT_INT64, 0, tags[i], NULL));
    }
    CHECK_OK(job_close(&job));
    return 0;
}

static void test_wildcards(void **state)
{
    (void)state;
    each_way(2, wildcards_body);
}

/* --- too long, cancelled, dropped */

static int long_body(int rank, int ranks, void *arg)
{
    (void)ranks;
    const struct way *way = arg;
    static const size_t lengths[] = {100, 200000, 100, 200000};
    struct job job;
    CHECK_OK(job_open(&job, way->transports, way->provider));
    uint8_t *memory = calloc(1, 200000);
    CHECK(memory);
    for (int i = 0; i < 4; i++) {
        if (rank == 1) {
            CHECK_OK(weft_send(job.comm, memory, lengths[i], WEFT_UINT8, 0, 6, NULL));
            continue;
        }
        uint8_t room[50];
        char length[32];
        weft_message info = WEFT_MESSAGE_INIT;
        memset(room, 0x11, sizeof room);
        snprintf(length, sizeof length, "of %zu bytes", lengths[i]);
        if (i < 2) {
            CHECK(weft_recv(job.comm, room, 50, WEFT_UINT8, 1, 6, &info, NULL) == WEFT_MISMATCH);
        } else {
            weft_work *work;
            CHECK_OK(weft_recv(job.comm, room, 50, WEFT_UINT8, WEFT_ANY_SOURCE, WEFT_ANY_TAG, &info,
                               WEFT_START(&work)));
            CHECK(weft_work_wait(work, -1) == WEFT_MISMATCH);
            CHECK(weft_work_free(work) == WEFT_MISMATCH);
        }
        CHECK(info.source == -1); /* outputs are set only on success */
        CHECK(strstr(weft_error_detail(), "rank 1") && strstr(weft_error_detail(), "tag 6") &&
              strstr(weft_error_detail(), length) && strstr(weft_error_detail(), "50 bytes"));
        for (size_t b = 0; b < sizeof room; b++)
            CHECK_BITS(room[b] == 0x11);
    }
    int32_t one = 1, sum = 0;
    CHECK_OK(weft_allreduce(job.comm, &one, &sum, 1, WEFT_INT32, WEFT_SUM, NULL));
    CHECK_BITS(sum == 2);
    free(memory);
    CHECK_OK(job_close(&job));
    return 0;
}

static void test_too_long(void **state)
{
    (void)state;
    each_way(2, long_body);
}

static int cancel_body(int rank, int ranks, void *arg)
{
    (void)ranks;
    const struct way *way = arg;
    struct job job;
    CHECK_OK(job_open(&job, way->transports, way->provider));
    int32_t first = -1, second = -1, go = 5;
    weft_message info = WEFT_MESSAGE_INIT;
    if (rank == 0) {
        weft_work *work, *other;
        CHECK(weft_probe(job.comm, 1, 3, 0, &info) == WEFT_AGAIN);
        CHECK(strcmp(weft_error_detail(), "there is no message from rank 1, tag 3") == 0);
        CHECK(weft_probe(job.comm, 1, 3, 5, &info) == WEFT_TIMEOUT);
        CHECK(strcmp(weft_error_detail(), "no message from rank 1, tag 3 has come within 5 ms") == 0);
        CHECK(weft_probe(job.comm, WEFT_ANY_SOURCE, 3, 0, &info) == WEFT_AGAIN);
        CHECK(strcmp(weft_error_detail(), "there is no message from any rank, tag 3") == 0);
        CHECK_OK(weft_recv(job.comm, &first, 1, WEFT_INT32, 1, 3, &info, WEFT_START(&work)));
        CHECK_OK(weft_recv(job.comm, &second, 1, WEFT_INT32, 1, 3, NULL, WEFT_START(&other)));
        CHECK(weft_work_wait(work, 0) == WEFT_AGAIN);
        CHECK_OK(weft_work_cancel(work));
        CHECK(weft_work_cancel(work) == WEFT_BUSY);
        CHECK(weft_work_wait(work, -1) == WEFT_CANCELLED && weft_work_wait(work, 0) == WEFT_CANCELLED);
        CHECK(info.source == -1);
        CHECK(weft_work_free(work) == WEFT_CANCELLED);
        CHECK_OK(weft_send(job.comm, &go, 1, WEFT_INT32, 1, 3, NULL));
        CHECK_OK(weft_work_wait(other, -1));
        CHECK(weft_work_cancel(other) == WEFT_BUSY);
        CHECK_OK(weft_work_free(other));
        CHECK_BITS(first == -1 && second == 5);
        CHECK_OK(weft_send(job.comm, &go, 1, WEFT_INT32, 1, 4, WEFT_START(&work)));
        CHECK(weft_work_cancel(work) == WEFT_INVALID);
        CHECK_OK(weft_work_wait(work, -1));
        CHECK_OK(weft_work_free(work));
    } else {
        CHECK_OK(weft_recv(job.comm, &go, 1, WEFT_INT32, 0, 3, NULL, NULL));
        CHECK_OK(weft_send(job.comm, &go, 1, WEFT_INT32, 0, 3, NULL));
        CHECK_OK(weft_recv(job.comm, &go, 1, WEFT_INT32, 0, 4, NULL, NULL));
    }
    CHECK_OK(job_close(&job));
    return 0;
}

static void test_cancel(void **state)
{
    (void)state;
    each_way(2, cancel_body);
}

/* Handles are freed at once; everything arrives all the same before the communicator ends. */
static int dropped_body(int rank, int ranks, void *arg)
{
    const struct way *way = arg;
    enum { COUNT = 40, BYTES = 200000 };
    struct job job;
    CHECK_OK(job_open(&job, way->transports, way->provider));
    int peer = (rank + 1) % ranks, from = (rank + ranks - 1) % ranks;
    uint8_t *out = malloc((size_t)COUNT * BYTES), *in = calloc(COUNT, BYTES);
    float *terms = malloc(4 * BYTES), *sums = calloc(4, BYTES);
    CHECK(out && in && terms && sums);
    weft_work *work;
    for (uint32_t i = 0; i < COUNT; i++) {
        size_t bytes = i % 2 ? BYTES : 100;
        fill(out + i * BYTES, (uint32_t)rank * 100 + i, bytes);
        CHECK_OK(weft_send(job.comm, out + i * BYTES, bytes, WEFT_UINT8, peer, i, WEFT_START(&work)));
        CHECK_OK(weft_work_free(work));
        CHECK_OK(weft_recv(job.comm, in + i * BYTES, bytes, WEFT_UINT8, from, i, NULL, WEFT_START(&work)));
        CHECK_OK(weft_work_free(work));
    }
    job_fill(terms, WEFT_FLOAT32, rank, BYTES);
    CHECK_OK(weft_allreduce(job.comm, terms, sums, BYTES, WEFT_FLOAT32, WEFT_SUM, WEFT_START(&work)));
    CHECK_OK(weft_work_free(work));
    CHECK_OK(job_close(&job));
    for (uint32_t i = 0; i < COUNT; i++) {
        size_t differ = 0, bytes = i % 2 ? BYTES : 100;
        for (size_t b = 0; b < bytes; b++)
            differ += in[i * BYTES + b] != byte_of((uint32_t)from * 100 + i, b);
        CHECK_BITS(differ == 0);
    }
    CHECK_BITS(job_wrong(sums, WEFT_FLOAT32, WEFT_SUM, ranks, BYTES) == 0);
    free(out);
    free(in);
    free(terms);
    free(sums);
    return 0;
}

static void test_dropped(void **state)
{
    (void)state;
    each_way(2, dropped_body);
    each_way(3, dropped_body);
}

/* --- thousands, and more than a peer has credit for */

#define THOUSANDS 4000

/* Receives are posted in the reverse order of the messages, half of which come before them. */
static int many_body(int rank, int ranks, void *arg)
{
    (void)ranks;
    const struct way *way = arg;
    struct job job;
    CHECK_OK(job_open(&job, way->transports, way->provider));
    int64_t *out = calloc(THOUSANDS, 8), *in = calloc(THOUSANDS, 8);
    weft_work **works = calloc(2 * THOUSANDS, sizeof(weft_work *));
    CHECK(out && in && works);
    for (int i = THOUSANDS - 1; i >= THOUSANDS / 2; i--)
        CHECK_OK(weft_recv(job.comm, &in[i], 1, WEFT_INT64, i % 3 ? 1 - rank : WEFT_ANY_SOURCE, i, NULL,
                           WEFT_START(&works[i])));
    for (int i = 0; i < THOUSANDS; i++) {
        out[i] = INT64_C(7) * i + rank;
        CHECK_OK(weft_send(job.comm, &out[i], 1, WEFT_INT64, 1 - rank, i, WEFT_START(&works[THOUSANDS + i])));
    }
    for (int i = THOUSANDS / 2 - 1; i >= 0; i--)
        CHECK_OK(weft_recv(job.comm, &in[i], 1, WEFT_INT64, i % 3 ? 1 - rank : WEFT_ANY_SOURCE, i, NULL,
                           WEFT_START(&works[i])));
    for (int i = 0; i < 2 * THOUSANDS; i++) {
        CHECK_OK(weft_work_wait(works[i], -1));
        CHECK_OK(weft_work_free(works[i]));
    }
    for (int i = 0; i < THOUSANDS; i++)
        CHECK_BITS(in[i] == INT64_C(7) * i + 1 - rank);
    free(out);
    free(in);
    free(works);
    CHECK_OK(job_close(&job));
    return 0;
}

static void test_many(void **state)
{
    (void)state;
    each_way(2, many_body);
}

/* Rank 1 sends 12 MB in short messages that nobody has asked for. Rank 0 keeps a mebibyte of them, the others wait at
 * rank 1, and then all are received in order. */
static int credit_body(int rank, int ranks, void *arg)
{
    (void)ranks;
    const struct way *way = arg;
    enum { COUNT = 1000, BYTES = 4000 };
    struct job job;
    CHECK_OK(job_open(&job, way->transports, way->provider));
    uint8_t *memory = calloc(COUNT, BYTES);
    int32_t done = 0;
    CHECK(memory);
    if (rank == 1) {
        weft_work **works = calloc(COUNT, sizeof(weft_work *));
        CHECK(works);
        for (uint32_t i = 0; i < COUNT; i++) {
            memcpy(memory + i * BYTES, &i, sizeof i);
            CHECK_OK(weft_send(job.comm, memory + i * BYTES, BYTES, WEFT_UINT8, 0, 1, WEFT_START(&works[i])));
        }
        CHECK_OK(weft_send(job.comm, &done, 0, WEFT_INT32, 0, 2, NULL)); /* behind them, and announced */
        for (int i = 0; i < COUNT; i++) {
            CHECK_OK(weft_work_wait(works[i], -1));
            CHECK_OK(weft_work_free(works[i]));
        }
        free(works);
    } else {
        weft_message info = WEFT_MESSAGE_INIT;
        weft_comm_stats stats = WEFT_COMM_STATS_INIT;
        CHECK_OK(weft_comm_get_stats(job.comm, &stats));
        uint64_t before = stats.bytes_memory;
        CHECK_OK(weft_probe(job.comm, 1, 2, -1, &info));
        CHECK(info.bytes == 0);
        CHECK_OK(weft_comm_get_stats(job.comm, &stats));
        CHECK(stats.bytes_memory - before >
              900000); /* of the mebibyte; the rest of each message is bookkeeping */
        CHECK(stats.bytes_memory - before < 3u << 20);
        CHECK_OK(weft_recv(job.comm, &done, 1, WEFT_INT32, 1, 2, NULL, NULL));
        for (uint32_t i = 0; i < COUNT; i++) {
            CHECK_OK(weft_recv(job.comm, memory, BYTES, WEFT_UINT8, 1, 1, NULL, NULL));
            CHECK_BITS(memcmp(memory, &i, sizeof i) == 0);
        }
        CHECK_OK(weft_comm_get_stats(job.comm, &stats));
        CHECK(stats.p2p_receives == COUNT + 1);
    }
    free(memory);
    CHECK_OK(job_close(&job));
    return 0;
}

static void test_credit(void **state)
{
    (void)state;
    each_way(2, credit_body);
}

/* --- groups */

static int group_body(int rank, int ranks, void *arg)
{
    const struct way *way = arg;
    enum { COUNT = 30000 };
    struct job job;
    CHECK_OK(job_open(&job, way->transports, way->provider));
    int32_t *out = malloc((size_t)ranks * COUNT * 4), *in = calloc((size_t)ranks * COUNT, 4), one = 1,
            sum = 0;
    weft_message infos[8];
    CHECK(out && in && ranks <= 8);
    CHECK(weft_group_end() == WEFT_INVALID);
    for (int round = 0; round < 3; round++) {
        size_t count = round == 1 ? 3 : COUNT;
        CHECK_OK(weft_group_start());
        for (int i = 0; i < ranks; i++) {
            int peer = rank % 2 ? i : ranks - 1 - i; /* in another order here than there */
            for (size_t e = 0; e < count; e++)
                out[(size_t)peer * COUNT + e] = rank * 1000 + peer + (int32_t)e;
            infos[peer] = (weft_message)WEFT_MESSAGE_INIT;
            CHECK_OK(weft_group_start());
            CHECK_OK(weft_send(job.comm, out + (size_t)peer * COUNT, count, WEFT_INT32, peer, round, NULL));
            CHECK_OK(weft_recv(job.comm, in + (size_t)peer * COUNT, COUNT, WEFT_INT32, peer, round,
                               &infos[peer], NULL));
            CHECK_OK(weft_group_end());
        }
        CHECK_OK(weft_allreduce(job.comm, &one, &sum, 1, WEFT_INT32, WEFT_SUM, NULL));
        CHECK_OK(weft_group_end());
        CHECK_BITS(sum == ranks);
        for (int peer = 0; peer < ranks; peer++) {
            CHECK(infos[peer].source == peer && infos[peer].bytes == count * 4);
            for (size_t e = 0; e < count; e++)
                CHECK_BITS(in[(size_t)peer * COUNT + e] == peer * 1000 + rank + (int32_t)e);
        }
    }
    /* One receive that is too short: the group says so, and everything else has been done. */
    CHECK_OK(weft_group_start());
    CHECK_OK(weft_send(job.comm, out, COUNT, WEFT_INT32, (rank + 1) % ranks, 8, NULL));
    CHECK_OK(weft_recv(job.comm, in, 10, WEFT_INT32, WEFT_ANY_SOURCE, 8, NULL, NULL));
    CHECK_OK(weft_sendrecv(job.comm, &rank, 1, (rank + 1) % ranks, 9, &sum, 1, (rank + ranks - 1) % ranks, 9,
                           WEFT_INT32, NULL, NULL));
    CHECK(weft_group_end() == WEFT_MISMATCH);
    CHECK(strstr(weft_error_detail(), "tag 8"));
    CHECK_BITS(sum == (rank + ranks - 1) % ranks);
    free(out);
    free(in);
    CHECK_OK(job_close(&job));
    return 0;
}

static void test_groups(void **state)
{
    (void)state;
    each_way(1, group_body);
    each_way(2, group_body);
    each_way(3, group_body);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes),     cmocka_unit_test(test_rings),    cmocka_unit_test(test_order),
        cmocka_unit_test(test_wildcards), cmocka_unit_test(test_too_long), cmocka_unit_test(test_cancel),
        cmocka_unit_test(test_dropped),   cmocka_unit_test(test_many),     cmocka_unit_test(test_credit),
        cmocka_unit_test(test_groups),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
