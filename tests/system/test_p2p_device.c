/* SPDX-License-Identifier: Apache-2.0 */
/* build: beside device-sim */
/* Messages between real ranks on memory of the simulated device and of the host, mixed, over shared memory and libfabric. To the rank
 * itself: tests/comm/p2p/test_p2p_copy.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/support/device_messages.h"
#include "tests/support/job.h"
#include "tests/support/sim_seat.h"

static const struct {
    const char *name;
    struct device_messages way;
} ways[] = {
    {.name = "shm", .way = {.bench = &sim_bench}},
    {.name = "shm, threads", .way = {.bench = &sim_bench, .in_threads = 1}},
    {.name = "tcp", .way = {.bench = &sim_bench, .provider = "tcp"}},
};

static void each_way_failing(const char *options, enum device_messages_case which, int sends, int is_long)
{
    for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
        struct device_messages way = ways[w].way;
        if (way.provider && !job_has_ofi(way.provider))
            continue;
        way.sends = sends;
        way.is_long = is_long;
        sim_seats_prepare(options);
        int failed = device_messages_run(&way, which);
        assert_int_equal(sim_seats_end(), 0);
        if (failed)
            fail_msg("%s: %d ranks failed", ways[w].name, failed);
    }
}

static void each_way(const char *options, enum device_messages_case which)
{
    each_way_failing(options, which, 0, 0);
}

static void test_pairs(void **state)
{
    (void)state;
    each_way("sim:seed=1", DEVICE_MESSAGES_PAIRS);
}

static void test_pairs_slow(void **state)
{
    (void)state;
    each_way("sim:seed=2,delay=200", DEVICE_MESSAGES_PAIRS);
}

static void test_order(void **state)
{
    (void)state;
    each_way("sim:seed=3,delay=100", DEVICE_MESSAGES_ORDER);
}

static void test_groups(void **state)
{
    (void)state;
    each_way("sim:seed=4,delay=100", DEVICE_MESSAGES_GROUPS);
}

static void test_refused(void **state)
{
    (void)state;
    each_way("sim:seed=5", DEVICE_MESSAGES_REFUSED);
}

static void test_failing(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++)
        each_way_failing("sim:seed=6,fail=1", DEVICE_MESSAGES_FAILING, i / 2, i % 2);
}

static void test_abort(void **state)
{
    (void)state;
    each_way("sim:seed=7,delay=200000", DEVICE_MESSAGES_ABORT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pairs),  cmocka_unit_test(test_pairs_slow), cmocka_unit_test(test_order),
        cmocka_unit_test(test_groups), cmocka_unit_test(test_refused),    cmocka_unit_test(test_failing),
        cmocka_unit_test(test_abort),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
