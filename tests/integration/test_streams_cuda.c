/* Calls in the order of streams of the kind "cuda", between real ranks, with the stand-in for the driver (tests/drivers/cuda_fake.h) and
 * weft's kernels compiled as C. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "tests/support/cuda_kernels.h"
#include "tests/support/cuda_scene.h"
#include "tests/support/cuda_streams.h"
#include "tests/support/ranks.h"
#include "tests/support/stream_calls.h"

static const struct weft_device_kind *cuda;

static void place(uint32_t rank, uint32_t seed, struct case_device *device)
{
    (void)seed;
    device->kind = cuda;
    device->ordinal = (int)rank % 2;
}

static int body(int rank, int ranks, void *arg)
{
    (void)rank, (void)ranks;
    const int *ends = arg;
    struct weft_devices *devices;
    struct device_streams streams;
    struct cuda_fake *fake = NULL;
    CHECK(scene_warm_up(&fake) == NULL);
    cuda_kernels_run(fake);
    CHECK_OK(weft_devices_create("", "", "", &devices));
    cuda = weft_devices_find(devices, "cuda");
    CHECK(cuda && cuda->ops.count(cuda->device) == 2); /* the driver is started */
    cuda_streams(cuda, &streams);
    if (*ends)
        CHECK(stream_ends_check(cuda, &streams, *ends - 1) == 0);
    else
        CHECK(stream_calls_check(cuda, &streams, place) == 0);
    CHECK(fake->memories() == 0);
    CHECK(fake->calls("cuStreamWaitEvent") == 0); /* no queue waits for a stream */
    weft_devices_destroy(devices);
    return 0;
}

static void run(int ranks, int ends)
{
    assert_int_equal(test_ranks_fork(ranks, body, &ends), 0);
}

static void processes_on_shm(void **state)
{
    (void)state;
    run(2, 0);
}

static void processes_on_tcp(void **state)
{
    (void)state;
    setenv("WEFT_TRANSPORTS", "ofi", 1);
    run(2, 0);
    unsetenv("WEFT_TRANSPORTS");
}

static void one_rank(void **state)
{
    (void)state;
    run(1, 0);
}

static void ends_early(void **state)
{
    (void)state;
    for (int way = 0; way < 3; way++)
        run(2, 1 + way);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(processes_on_shm),
        cmocka_unit_test(processes_on_tcp),
        cmocka_unit_test(one_rank),
        cmocka_unit_test(ends_early),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
