/* SPDX-License-Identifier: Apache-2.0 */
/* build: with tests/gpu/streams.c */
/* Calls on memory of the kind "cuda" with the driver that this machine has: collectives, stream-ordered calls, messages and
 * programs, between 1, 2 and 4 ranks that share its devices, as processes and as threads, over shared memory and over libfabric's tcp:
 * test_calls_gpu [calls|streams|messages|programs]
 *
 * The same tests pass on the fake driver and on the simulated device (tests/system/test_device_*.c, test_streams.c). This process never touches
 * the driver, which does not outlive a fork: all ranks of all tests are processes of their own, or threads of such a one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/gpu/streams.h"
#include "tests/support/device_messages.h"
#include "tests/support/device_collectives.h"
#include "tests/support/device_jobs.h"
#include "tests/support/job.h"
#include "tests/support/skip.h"

#define LIMIT_S 300

static struct gpu_machine machine;
static struct device_bench bench = {.kind = "cuda"},
                           bench_with_streams = {.kind = "cuda", .streams = gpu_streams};

/* --- ways: cmocka hands one to each test */

struct way {
    int ranks, in_threads, over_tcp;
};

static void run(const struct way *way, struct device_job job)
{
    if (way->over_tcp && !job_has_ofi("tcp"))
        skip();
    job.ranks = way->ranks;
    job.in_threads = way->in_threads;
    job.on_tcp = way->over_tcp;
    assert_int_equal(device_job_run(&job), 0);
}

#define CALLS   .bench = &bench, .body = device_job_calls
#define STREAMS .bench = &bench_with_streams, .body = device_job_streams

/* Ranks on one device copy from each other's memory, by CUDA's IPC where they are processes. */
static void calls(void **state)
{
    const struct way *way = *state;
    run(way, (struct device_job){CALLS, .place = device_calls_together,
                                 .ways = way->ranks == 1 ? DEVICE_ANY_WAY
                                         : way->over_tcp ? DEVICE_NOT_DIRECT
                                                         : DEVICE_DIRECT});
}

static void calls_mixed(void **state)
{
    run(*state, (struct device_job){CALLS, .place = device_calls_scatter});
}

static void skip_without_waits(void)
{
    if (!machine.has_waits)
        TEST_SKIP("the driver has no memory operations in streams, which stream waits need");
}

static void in_streams(void **state)
{
    const struct way *way = *state;
    skip_without_waits();
    bench_with_streams.keeps = way->in_threads;
    run(way, (struct device_job){STREAMS, .place = device_calls_together});
}

static void in_streams_mixed(void **state)
{
    const struct way *way = *state;
    skip_without_waits();
    bench_with_streams.keeps = way->in_threads;
    run(way, (struct device_job){STREAMS, .place = device_calls_scatter});
}

static void streams_end_early(void **state)
{
    skip_without_waits();
    bench_with_streams.keeps = 0;
    for (int end = 0; end < 3; end++)
        run(*state, (struct device_job){STREAMS, .ends = 1 + end});
}

static void run_messages(const struct way *way, enum device_messages_case which)
{
    const struct device_messages messages = {
        .bench = &bench, .provider = way->over_tcp ? "tcp" : NULL, .in_threads = way->in_threads};
    if (way->over_tcp && !job_has_ofi("tcp"))
        skip();
    assert_int_equal(device_messages_run(&messages, which), 0);
}

static void message_pairs(void **state)
{
    run_messages(*state, DEVICE_MESSAGES_PAIRS);
}

static void message_order(void **state)
{
    run_messages(*state, DEVICE_MESSAGES_ORDER);
    run_messages(*state, DEVICE_MESSAGES_GROUPS);
}

static void messages_refused_and_aborted(void **state)
{
    run_messages(*state, DEVICE_MESSAGES_REFUSED);
    run_messages(*state, DEVICE_MESSAGES_ABORT);
}

/* --- tables */

static struct way ways[] = {
    {1, 0, 0}, {2, 0, 0}, {4, 0, 0}, {2, 1, 0}, {4, 1, 0}, {2, 0, 1}, {4, 0, 1}, {2, 1, 1}, {4, 1, 1},
};

enum { WAYS = sizeof ways / sizeof *ways, MOST = 4 * WAYS };

struct table {
    struct CMUnitTest tests[MOST];
    char names[MOST][80];
    size_t count;
};

/* A test for each way with at least `least` ranks and at most `most`. */
static void add(struct table *table, const char *name, CMUnitTestFunction test, int least, int most,
                int threads)
{
    for (size_t w = 0; w < WAYS; w++) {
        if (ways[w].ranks < least || ways[w].ranks > most || (ways[w].in_threads && !threads))
            continue;
        snprintf(table->names[table->count], sizeof *table->names, "%s, %d %s, %s", name, ways[w].ranks,
                 ways[w].in_threads ? "threads" : "processes", ways[w].over_tcp ? "tcp" : "shm");
        table->tests[table->count] = (struct CMUnitTest){
            .name = table->names[table->count], .test_func = test, .initial_state = &ways[w]};
        table->count++;
    }
}

static int run_group(const char *name, const char *wanted, void (*fill)(struct table *table))
{
    static struct table table;
    if (wanted && strcmp(wanted, name) != 0)
        return 0;
    memset(&table, 0, sizeof table);
    fill(&table);
    return _cmocka_run_group_tests(name, table.tests, table.count, NULL, NULL);
}

static void fill_calls(struct table *table)
{
    add(table, "calls", calls, 1, 4, 1);
    add(table, "calls, some on the host", calls_mixed, 2, 4, 1);
}

static void fill_streams(struct table *table)
{
    add(table, "calls in streams", in_streams, 1, 4, 1);
    add(table, "calls in streams, some on the host", in_streams_mixed, 4, 4, 0);
    add(table, "calls in streams that end early", streams_end_early, 2, 2, 0);
}

static void fill_messages(struct table *table)
{
    add(table, "messages of every size", message_pairs, 2, 2, 1);
    add(table, "order of messages", message_order, 2, 2, 1);
    add(table, "messages refused, aborted", messages_refused_and_aborted, 2, 2, 1);
}

int main(int argc, char **argv)
{
    const char *wanted = argc > 1 ? argv[1] : NULL;
    setenv("WEFT_LOG", "error", 0);
    gpu_machine_ask(&machine);
    if (!machine.devices || !machine.has_kernels) {
        printf("SKIP: %s\n", machine.devices ? "the library was built without CUDA kernels" : machine.reason);
        return 77;
    }
    test_ranks_limit(LIMIT_S);
    int failed = run_group("calls", wanted, fill_calls);
    failed += run_group("streams", wanted, fill_streams);
    failed += run_group("messages", wanted, fill_messages);
    const struct device_collectives collectives = {.bench = &bench, .many = 4};
    if (!machine.has_collectives)
        printf("SKIP: programs: the device does not run them\n");
    else if (!wanted || strcmp(wanted, "programs") == 0)
        failed += device_collectives_run(&collectives);
    return failed;
}
