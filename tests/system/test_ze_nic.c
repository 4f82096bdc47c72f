/* SPDX-License-Identifier: Apache-2.0 */
/* build: needs verbs ze; with tests/fakes/verbs/; beside ze */
/* Memory of Level Zero's and a NIC in memory, which registers it as dma-bufs: under the real loader, with the fake driver of
 * tests/fakes/ze/, whose memory the host cannot touch. Ranks are threads that have nothing but the NIC. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/fakes/verbs/rdma_fake.h"
#include "tests/support/device_jobs.h"
#include "tests/support/ze_bench.h"

static const struct device_job jobs[] = {
    {"ze: a NIC takes dma-bufs", .bench = &ze_bench, .body = device_job_calls, .ranks = 2, .in_threads = 1,
     .transport = "verbs", .place = device_calls_together, .ways = DEVICE_DIRECT},
};

int main(void)
{
    return device_jobs_run(jobs, sizeof jobs / sizeof *jobs);
}
