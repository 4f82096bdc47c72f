/* SPDX-License-Identifier: Apache-2.0 */
/* build: wrap weft_kernel_image; beside drivers */
/* The contract for kinds of devices on the kind "cuda", with the fake driver (tests/fakes/drivers/cuda_fake.h) and weft's kernels
 * compiled as C. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "tests/support/cuda_scene.h"
#include "tests/support/cuda_streams.h"
#include "tests/support/device_suite.h"

static struct cuda_fake *fake;

/* --- rows */

static const char *warm_up(void)
{
    scene_computes = 1;
    return scene_warm_up(&fake);
}

static const char *warm_up_one(void)
{
    const char *reason = warm_up();
    if (fake) {
        fake->devices = 1;
        fake->has_dmabuf = 0;
    }
    return reason;
}

/* Contexts are given back when the kind is closed, and so are the words of stream waits. */
static void check_empty(const struct weft_device_kind *kind)
{
    (void)kind;
    assert_int_equal(fake->memories(), 0);
}

#define CUDA                                                                                                 \
    .kind = "cuda", .owns = 1, .faults = 1, .reuses = 1, .shares = 1, .scales_sums = 1,                      \
    .streams = cuda_streams, .collectives = 1, .check_empty = check_empty

static const struct device_row rows[] = {
    {.label = "cuda", CUDA, .dmabufs = 1, .absent = warm_up},
    {.label = "cuda, one device", CUDA, .absent = warm_up_one},
};

int main(void)
{
    setenv("WEFT_LOG", "error", 0);
    return device_suite_run(rows, sizeof rows / sizeof *rows);
}
