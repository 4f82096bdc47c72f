/* SPDX-License-Identifier: Apache-2.0 */
/* build: needs ze; beside ze */
/* run: elsewhere (tests/conform/test_devices_ze) */
/* Device collectives between real ranks on memory of Level Zero's, as tests/system/test_device_collectives.c has them for other kinds; and where the
 * driver does not run two kernels side by side: then calls go the ordinary way. */
#include <stdio.h>

#include "devmem/ze/ze.h"
#include "tests/support/device_collectives.h"
#include "tests/support/device_jobs.h"
#include "tests/support/ze_bench.h"

static const struct device_job jobs[] = {
    {"ze: one kernel at a time", .bench = &ze_alone_bench, .body = device_job_calls, .ranks = 2,
     .place = device_calls_together},
};

int main(void)
{
    const struct device_collectives ze = {.bench = &ze_bench, .many = 3};
    if (!weft_ze_has_kernels()) {
        printf("SKIP: the library was built without clang or llvm-spirv\n");
        return 77;
    }
    return device_collectives_run(&ze) + device_jobs_run(jobs, sizeof jobs / sizeof *jobs);
}
