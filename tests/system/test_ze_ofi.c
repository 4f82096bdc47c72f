/* SPDX-License-Identifier: Apache-2.0 */
/* build: needs ofi ze; beside provider ze */
/* Memory of Level Zero's and libfabric, by the pointer (FI_HMEM_ZE): libfabric itself with the provider of tests/fakes/provider/, which takes
 * the memory as a NIC does, by what it is given; under the real loader, with the fake driver of tests/fakes/ze/. Ranks are threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <level_zero/ze_api.h>
#include <weft/device.h>

#include "devmem/ze/ze.h"
#include "tests/support/built.h"
#include "tests/support/device_jobs.h"
#include "tests/support/ze_bench.h"
#include "tests/support/ze_scene.h"

static int begin(int rank)
{
    struct ze_fake *fake = ze_scene_load();
    (void)rank;
    CHECK(fake);
    fake->device_count = 2;
    return 0;
}

/* What libfabric does not have by its number. */
static int begin_behind_others(int rank)
{
    struct ze_fake *fake = ze_scene_load();
    (void)rank;
    CHECK(fake);
    fake->device_count = 3;
    fake->devices[0].type = ZE_DEVICE_TYPE_CPU; /* which libfabric counts */
    return 0;
}

static const struct device_bench own = {.kind = "ze", .begin = begin},
                                 other = {.kind = "ze", .begin = begin_behind_others};

#define OFI                                                                                                  \
    .body = device_job_calls, .ranks = 2, .in_threads = 1, .transport = "ofi", .place = device_calls_together

static struct device_job jobs[] = {
    {"ze: by the pointer", .bench = &own, OFI},
    {"ze: devices that libfabric counts otherwise", .bench = &other, OFI},
};
static const struct device_job refused = {"ze: libfabric has no Level Zero", .bench = &own, OFI};

/* For tests/system/test_ze_fallbacks.sh, which compares the log on stderr with docs/levelzero.md. */
static int run_without(const char *missing)
{
    static const struct {
        const char *missing, *demands;
        const struct device_job *job;
    } parts[] = {
        {"number", "hmem", &jobs[1]},
        {"memory", "tagged", &refused},
        {"nothing", "hmem", &jobs[0]},
    };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        if (strcmp(parts[i].missing, missing) != 0)
            continue;
        setenv("WEFT_TEST_PROVIDER", parts[i].demands, 1);
        return device_job_run(parts[i].job);
    }
    fprintf(stderr, "'%s' is not known: number, memory or nothing is expected\n", missing);
    return 2;
}

int main(int argc, char **argv)
{
    static const char *const demands[] = {"hmem", "hmem,tagged,local", "hmem,virt_addr,prov_key,local",
                                          "tagged"};
    int failed = 0;
    if (!test_provider_use(NULL)) {
        printf("SKIP: the test provider was not built, as libfabric's headers were missing\n");
        return 77;
    }
    setenv("WEFT_OFI_PROVIDER", "wefttest", 1);
    jobs[0].ways = weft_ze_has_kernels() ? DEVICE_DIRECT : DEVICE_PARTLY_DIRECT;
    if (argc == 2)
        return run_without(argv[1]);
    for (size_t i = 0; i < sizeof demands / sizeof *demands; i++) {
        setenv("WEFT_TEST_PROVIDER", demands[i], 1);
        failed += device_jobs_run(demands[i][0] == 'h' ? jobs : jobs + 1,
                                  demands[i][0] == 'h' ? sizeof jobs / sizeof *jobs : 1);
    }
    return failed;
}
