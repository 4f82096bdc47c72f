/* SPDX-License-Identifier: Apache-2.0 */
/* build: needs ze; beside ze */
/* run: elsewhere (tests/conform/test_devices_ze) */
/* Stream-ordered calls between real ranks on memory of Level Zero's, as tests/system/test_streams.c has them for other kinds: on streams that
 * are immediate command lists, and on command queues. */
#include "tests/support/device_jobs.h"
#include "tests/support/ze_bench.h"

#define LISTS    .bench = &ze_bench, .body = device_job_streams
#define QUEUES   .bench = &ze_queues_bench, .body = device_job_streams
#define TOGETHER .place = device_calls_together

static const struct device_job jobs[] = {
    {"ze: processes", LISTS, .ranks = 2, TOGETHER},
    {"ze: threads share devices", LISTS, .ranks = 2, .in_threads = 1, TOGETHER},
    {"ze: command queues", QUEUES, .ranks = 2, TOGETHER},
    {"ze: aborted", LISTS, .ranks = 2, .ends = 1},
    {"ze: late", LISTS, .ranks = 2, .ends = 2},
    {"ze: destroyed", LISTS, .ranks = 2, .ends = 3},
    {"ze: command queues, aborted", QUEUES, .ranks = 2, .ends = 1},
};

int main(void)
{
    return device_jobs_run(jobs, sizeof jobs / sizeof *jobs);
}
