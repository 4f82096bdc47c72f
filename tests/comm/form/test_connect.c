/* SPDX-License-Identifier: Apache-2.0 */
/* When peers connect: with their first message, or at once by WEFT_CONNECT=eager; and what communicators say that they hold. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "comm/drive/context.h"
#include "tests/support/job.h"
#include "tests/support/ranks.h"

#define LARGE 200000

struct way {
    const char *transports;
    int eager;
};
static const struct way shm = {"shm", 0}, tcp = {"tcp", 0};
static const struct way eager_shm = {"shm", 1}, eager_tcp = {"tcp", 1};

static int stats_of(weft_comm *comm, weft_comm_stats *stats)
{
    *stats = (weft_comm_stats)WEFT_COMM_STATS_INIT;
    return weft_comm_get_stats(comm, stats);
}

static int connect_body(int rank, int ranks, void *arg)
{
    const struct way *way = arg;
    struct job job;
    weft_comm *copy;
    weft_comm_stats stats;
    setenv("WEFT_FAST_PATH", "0", 1); /* it would connect all */
    if (way->eager)
        setenv("WEFT_CONNECT", "eager", 1);
    CHECK_OK(job_open(&job, way->transports, NULL));
    CHECK_OK(stats_of(job.comm, &stats));
    CHECK(stats.connections == (way->eager ? (uint64_t)ranks - 1 : 0));
    CHECK_OK(job_greet(job.comm));
    CHECK_OK(stats_of(job.comm, &stats));
    CHECK(stats.connections == (uint64_t)ranks - 1);
    /* Links are the context's: another communicator has none before it asks, and those are there at once. */
    CHECK_OK(weft_comm_split(job.comm, 0, 0, &copy, NULL));
    CHECK_OK(stats_of(copy, &stats));
    CHECK(stats.connections == (way->eager ? (uint64_t)ranks - 1 : 0));
    CHECK_OK(job_greet(copy));
    CHECK_OK(weft_comm_destroy(job.comm));
    CHECK_OK(stats_of(copy, &stats));
    CHECK(stats.connections == (uint64_t)ranks - 1);
    float *memory = calloc(LARGE, sizeof *memory);
    CHECK(memory);
    job_fill(memory, WEFT_FLOAT32, rank, LARGE);
    CHECK_OK(weft_allreduce(copy, memory, memory, LARGE, WEFT_FLOAT32, WEFT_SUM, NULL));
    CHECK_BITS(job_wrong(memory, WEFT_FLOAT32, WEFT_SUM, ranks, LARGE) == 0);
    free(memory);
    CHECK_OK(weft_comm_destroy(copy));
    CHECK_OK(weft_context_close(job.context));
    return 0;
}

static void test_connect_shm(void **state)
{
    (void)state;
    static const int sizes[] = {2, 3, 8};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(test_ranks_fork(sizes[i], connect_body, (void *)(uintptr_t)&shm), 0);
        assert_int_equal(test_ranks_fork(sizes[i], connect_body, (void *)(uintptr_t)&eager_shm), 0);
    }
}

static void test_connect_tcp(void **state)
{
    (void)state;
    assert_int_equal(test_ranks_fork(3, connect_body, (void *)(uintptr_t)&tcp), 0);
    assert_int_equal(test_ranks_fork(4, connect_body, (void *)(uintptr_t)&eager_tcp), 0);
}

/* A communicator of one rank owns next to nothing. */
static int alone_body(int rank, int ranks, void *arg)
{
    (void)rank, (void)ranks, (void)arg;
    struct job job;
    weft_comm_stats stats;
    CHECK_OK(job_open(&job, "shm", NULL));
    CHECK_OK(stats_of(job.comm, &stats));
    CHECK(stats.connections == 0 && stats.registrations == 0 && stats.bytes_pool == 0);
    CHECK(stats.bytes_memory > 0 && stats.bytes_memory < 16384);
    CHECK(stats.p2p_sends == 0 && stats.p2p_receives == 0);
    CHECK_OK(job_close(&job));
    return 0;
}

static void test_alone(void **state)
{
    (void)state;
    assert_int_equal(test_ranks_fork(1, alone_body, NULL), 0);
}

/* Memory shows when it is used, and programs of an older weft get what they know. */
static int memory_body(int rank, int ranks, void *arg)
{
    (void)arg;
    struct job job;
    weft_comm_stats before, after;
    CHECK_OK(job_open(&job, "shm", NULL));
    CHECK_OK(stats_of(job.comm, &before));
    CHECK(before.bytes_memory > 0 && before.bytes_pool > 0); /* the cache lines */
    float *memory = calloc(LARGE, sizeof *memory);
    CHECK(memory);
    job_fill(memory, WEFT_FLOAT32, rank, LARGE);
    CHECK_OK(weft_allreduce(job.comm, memory, memory, LARGE, WEFT_FLOAT32, WEFT_SUM, NULL));
    CHECK_BITS(job_wrong(memory, WEFT_FLOAT32, WEFT_SUM, ranks, LARGE) == 0);
    CHECK_OK(stats_of(job.comm, &after));
    CHECK(after.bytes_memory > before.bytes_memory && after.operations == before.operations + 1);
    weft_comm_stats old;
    memset(&old, 0x5a, sizeof old);
    old.size = offsetof(weft_comm_stats, connections);
    CHECK_OK(weft_comm_get_stats(job.comm, &old));
    CHECK(old.operations == after.operations && old.connections == 0x5a5a5a5a5a5a5a5a);
    free(memory);
    CHECK_OK(job_close(&job));
    return 0;
}

static void test_memory(void **state)
{
    (void)state;
    assert_int_equal(test_ranks_fork(3, memory_body, NULL), 0);
}

static int fake_reg(struct weft_transport *transport, void *memory, size_t size, struct weft_region **region)
{
    (void)transport, (void)size;
    *region = memory;
    return WEFT_OK;
}

static void fake_dereg(struct weft_region *region)
{
    (void)region;
}

static uint64_t registrations(weft_comm *comm)
{
    weft_comm_stats stats;
    return stats_of(comm, &stats) == WEFT_OK ? stats.registrations : UINT64_MAX;
}

/* Regions of a transport that needs them come and go with operations, and stay with what the user has registered. */
static int registrations_body(int rank, int ranks, void *arg)
{
    (void)rank, (void)ranks, (void)arg;
    static char here[4096], there[4096];
    struct job job;
    struct weft_region *first, *second;
    CHECK_OK(job_open(&job, "shm", NULL));
    job.context->transports[WEFT_OFI].ops.reg = fake_reg;
    job.context->transports[WEFT_OFI].ops.dereg = fake_dereg;
    CHECK_OK(weft_mem_register(job.context, here, sizeof here));
    CHECK(registrations(job.comm) == 0);
    CHECK_OK(weft_memory_region_get(job.context, WEFT_OFI, here + 8, 16, &first));
    CHECK_OK(weft_memory_region_get(job.context, WEFT_OFI, there, 16, &second));
    CHECK(registrations(job.comm) == 2);
    weft_memory_region_put(job.context, WEFT_OFI, first);
    weft_memory_region_put(job.context, WEFT_OFI, second);
    CHECK(registrations(job.comm) == 1);
    CHECK_OK(weft_mem_deregister(job.context, here));
    CHECK(registrations(job.comm) == 0);
    CHECK_OK(job_close(&job));
    return 0;
}

static void test_registrations(void **state)
{
    (void)state;
    assert_int_equal(test_ranks_fork(1, registrations_body, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_connect_shm),   cmocka_unit_test(test_connect_tcp),
        cmocka_unit_test(test_alone),         cmocka_unit_test(test_memory),
        cmocka_unit_test(test_registrations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
