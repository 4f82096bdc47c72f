/* Collectives on memory of the kind "cuda", between real ranks, with the stand-in for the driver (tests/drivers/cuda_fake.h),
 * whose device memory the host cannot touch either, and weft's kernels compiled as C. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "tests/support/cuda_kernels.h"
#include "tests/support/cuda_scene.h"
#include "tests/support/device_calls.h"
#include "tests/support/ranks.h"

struct job {
    collective_place *place;
    enum { ANY, DIRECT, NOT_DIRECT } ways; /* whether devices reach each other's memory */
};

static int body(int rank, int ranks, void *arg)
{
    (void)rank;
    const struct job *job = arg;
    struct weft_devices *devices;
    struct cuda_fake *fake = NULL;
    CHECK(scene_warm_up(&fake) == NULL);
    cuda_kernels_run(fake);
    fake->has_peers = job->ways != NOT_DIRECT;
    CHECK_OK(weft_devices_create("", "", "", &devices));
    const struct weft_device_kind *cuda = weft_devices_find(devices, "cuda");
    CHECK(cuda);
    weft_comm_stats stats = {.size = sizeof stats};
    CHECK(device_calls_check(cuda, job->place, &stats) == 0);
    CHECK(job->ways != DIRECT ||
          stats.bytes_direct > 4 * stats.bytes_staged); /* what is staged are short messages */
    CHECK(job->ways != NOT_DIRECT || stats.bytes_direct == 0);
    CHECK(fake->memories() == 0);
    CHECK(ranks == 1 || fake->calls("cuLaunchKernel") > 0);
    weft_devices_destroy(devices);
    return 0;
}

static void run(int ranks, struct job job)
{
    assert_int_equal(test_ranks_fork(ranks, body, &job), 0);
}

static void processes_on_shm(void **state)
{
    (void)state;
    run(2, (struct job){device_calls_together, DIRECT});
    run(3, (struct job){device_calls_scatter, ANY});
}

static void processes_out_of_reach(void **state)
{
    (void)state;
    run(2, (struct job){device_calls_together, NOT_DIRECT});
}

static void processes_on_tcp(void **state)
{
    (void)state;
    setenv("WEFT_TRANSPORT", "ofi", 1);
    run(2, (struct job){device_calls_together, NOT_DIRECT});
    unsetenv("WEFT_TRANSPORT");
}

static void one_rank(void **state)
{
    (void)state;
    run(1, (struct job){device_calls_together, ANY});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(processes_on_shm),
        cmocka_unit_test(processes_out_of_reach),
        cmocka_unit_test(processes_on_tcp),
        cmocka_unit_test(one_rank),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
