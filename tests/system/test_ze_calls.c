/* SPDX-License-Identifier: Apache-2.0 */
/* build: needs ze; beside ze */
/* run: elsewhere (tests/conform/test_devices_ze) */
/* Collectives and messages between real ranks on memory of Level Zero's, alone and mixed with the host's: under the real loader, with the fake
 * driver of tests/fakes/ze/, whose memory the host cannot touch. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/support/device_jobs.h"
#include "tests/support/device_messages.h"
#include "tests/support/ze_bench.h"

#define ZE            .bench = &ze_bench, .body = device_job_calls
#define TOGETHER(how) .place = device_calls_together, .ways = how
#define SCATTERED     .place = device_calls_scatter

static const struct device_job jobs[] = {
    {"ze: processes", .bench = &ze_sharing_bench, .body = device_job_calls, .ranks = 2,
     TOGETHER(DEVICE_ANY_WAY)},
    {"ze: processes that do not see each other's devices", .bench = &ze_masked_bench,
     .body = device_job_calls, .ranks = 2, TOGETHER(DEVICE_ANY_WAY)},
    {"ze: processes, mixed", ZE, .ranks = 3, SCATTERED},
    {"ze: threads share devices", ZE, .ranks = 4, .in_threads = 1, SCATTERED},
    {"ze: tcp", ZE, .ranks = 2, .on_tcp = 1, TOGETHER(DEVICE_ANY_WAY)},
    {"ze: one rank", ZE, .ranks = 1, TOGETHER(DEVICE_ANY_WAY)},
};

static void test_messages(void **state)
{
    static const struct device_messages ways[] = {{.bench = &ze_bench},
                                                  {.bench = &ze_bench, .in_threads = 1}};
    (void)state;
    for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
        assert_int_equal(device_messages_run(&ways[w], DEVICE_MESSAGES_PAIRS), 0);
        assert_int_equal(device_messages_run(&ways[w], DEVICE_MESSAGES_ORDER), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_messages)};
    return device_jobs_run(jobs, sizeof jobs / sizeof *jobs) + cmocka_run_group_tests(tests, NULL, NULL);
}
