/* SPDX-License-Identifier: Apache-2.0 */
/* build: beside plugins device-sim */
/* run: beside (deadlines) */
/* Calls on a device's memory that end early while the device still copies: their buffers are the program's again when they return. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/support/device_seat.h"
#include "tests/support/job.h"
#include "tests/support/plugins.h"
#include "tests/support/sim_seat.h"

#define COUNT   8 /* few enough for the cache lines */
#define BYTES   (COUNT * sizeof(int32_t))
#define SLOW_US 400000 /* what a copy takes at most */
#define LATE_MS 2
#define ROUNDS  20 /* in one of them the device must be slower than the deadline */

struct early {
    int from_host, to_host; /* that buffer is the host's */
    int by_function;        /* a reduction of the program's */
    atomic_int *late;       /* ranks whose call ended early; shared */
};

static void add(void *arg, const void *left, const void *right, void *result, size_t count, weft_dtype dtype)
{
    (void)arg, (void)dtype;
    for (size_t i = 0; i < count; i++)
        ((int32_t *)result)[i] = ((const int32_t *)left)[i] + ((const int32_t *)right)[i];
}

static int late(int rank, int ranks, void *arg)
{
    static const int32_t next[COUNT] = {1, 2, 3, 4, 5, 6, 7, 8};
    const struct early *early = arg;
    int from = early->from_host ? -1 : 0, to = early->to_host ? -1 : 0;
    int32_t found[COUNT];
    weft_context *context;
    weft_comm *comm;
    weft_comm_options options = WEFT_COMM_OPTIONS_INIT;
    weft_op op = WEFT_SUM;
    struct device_seat seat;
    (void)rank;
    device_seat_take(&seat, &sim_bench);
    void *input = device_seat_get(&seat, from, BYTES), *output = device_seat_get(&seat, to, BYTES);
    test_ranks_options(&options);
    CHECK_OK(weft_context_open(NULL, &context));
    CHECK_OK(weft_comm_create(context, &options, &comm));
    CHECK_OK(weft_comm_set_timeout(comm, LATE_MS));
    if (early->by_function)
        CHECK_OK(job_make_op(context, add, NULL, 1, &op));
    int status = weft_allreduce(comm, input, output, COUNT, WEFT_INT32, op, NULL);
    CHECK(status == WEFT_OK || status == WEFT_TIMEOUT || (ranks > 1 && status == WEFT_REVOKED));
    if (status != WEFT_OK)
        atomic_fetch_add(early->late, 1);
    CHECK(ranks > 1 || status == WEFT_OK ||
          (strstr(weft_error_detail(), "rank 0 gave up after 2 ms in allreduce #1") &&
           strstr(weft_error_detail(), "waits for sim device 0")));
    device_seat_store(&seat, to, output, next, BYTES);
    device_seat_put(&seat, from, input);
    usleep(SLOW_US);
    device_seat_load(&seat, to, found, output, BYTES);
    CHECK_BITS(memcmp(found, next, BYTES) == 0); /* the program's alone */
    device_seat_put(&seat, to, output);
    weft_comm_destroy(comm);
    weft_context_close(context);
    device_seat_leave(&seat);
    return 0;
}

/* A device draws how long a copy takes. When all its copies were faster than the deadline nothing is shown: once more. */
static void run(int ranks, struct early early)
{
    early.late = mmap(NULL, sizeof *early.late, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(early.late != MAP_FAILED);
    for (int round = 0; round < ROUNDS && !atomic_load(early.late); round++) {
        char options[64];
        snprintf(options, sizeof options, "sim:seed=%d,delay=%d", 5 + round, SLOW_US);
        sim_seats_prepare(options);
        int failed = device_bench_run(&sim_bench, ranks, 0, late, &early);
        int lost = sim_seats_end(); /* memory that the device was to work on and found gone */
        assert_int_equal(lost, 0);
        assert_int_equal(failed, 0);
    }
    assert_true(atomic_load(early.late) > 0);
    munmap(early.late, sizeof *early.late);
}

static void test_alone(void **state)
{
    (void)state;
    run(1, (struct early){0});
}

/* The host computes on copies. */
static void test_copies(void **state)
{
    (void)state;
    run(1, (struct early){.from_host = 1});
    run(1, (struct early){.to_host = 1});
    run(1, (struct early){.by_function = 1});
}

static void test_cache_lines(void **state)
{
    (void)state;
    run(2, (struct early){0});
    run(2, (struct early){.from_host = 1});
    run(2, (struct early){.to_host = 1});
}

/* --- a device that never gets on */

static int aborted(int rank, int ranks, void *arg)
{
    const struct test_plugin *plugin = arg;
    weft_context *context;
    weft_comm *comm;
    weft_comm_options options = WEFT_COMM_OPTIONS_INIT;
    int32_t host[COUNT] = {0};
    (void)ranks;
    void *library = dlopen(plugin->path, RTLD_NOW), *memory = library ? dlsym(library, "kind_memory") : NULL;
    CHECK(memory);
    test_ranks_options(&options);
    options.timeout_ms = -1;
    CHECK_OK(weft_context_open(NULL, &context));
    CHECK_OK(weft_comm_create(context, &options, &comm));
    if (rank == 0) {
        CHECK(weft_allreduce(comm, memory, host, COUNT, WEFT_INT32, WEFT_SUM, NULL) == WEFT_REVOKED);
        CHECK(strstr(weft_error_detail(), "the test says so"));
    } else {
        usleep(100000); /* usually rank 0 waits for its device by then */
        CHECK_OK(weft_comm_abort(comm, "the test says so"));
    }
    weft_comm_destroy(comm); /* which may report the failure */
    CHECK_OK(weft_context_close(context));
    return 0;
}

/* Another rank's abort ends a call that waits for a device. */
static void test_aborted(void **state)
{
    (void)state;
    struct test_plugin plugin;
    assert_int_equal(test_plugin_put("tests/fakes/plugins/hangs.so", &plugin), 0);
    setenv("WEFT_DEVICE_PLUGIN", plugin.path, 1);
    setenv("WEFT_LOG", "none", 1);
    int failed = test_ranks_fork(2, aborted, &plugin);
    unsetenv("WEFT_DEVICE_PLUGIN");
    unsetenv("WEFT_LOG");
    test_plugin_remove(&plugin);
    assert_int_equal(failed, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_alone),
        cmocka_unit_test(test_copies),
        cmocka_unit_test(test_cache_lines),
        cmocka_unit_test(test_aborted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
