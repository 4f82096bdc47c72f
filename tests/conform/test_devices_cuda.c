/* The contract for kinds of devices on the kind "cuda", with the stand-in for the driver (tests/drivers/cuda_fake.h) and weft's kernels
 * compiled as C. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <unistd.h>

#include "tests/support/cuda_kernels.h"
#include "tests/support/cuda_scene.h"
#include "tests/support/device_suite.h"

static struct cuda_fake *fake;

/* --- the program's streams */

static CUcontext context_of(int ordinal)
{
    CUcontext context;
    assert_int_equal(CU(cuDevicePrimaryCtxRetain)(&context, 100 + ordinal), 0);
    return context;
}

/* The stream keeps its device's context. */
static int stream_open(int ordinal, void **stream)
{
    CUstream made;
    CUcontext popped;
    int result = CU(cuCtxPushCurrent_v2)(context_of(ordinal));
    result |= CU(cuStreamCreate)(&made, 0) | CU(cuCtxPopCurrent_v2)(&popped);
    *stream = made;
    return result;
}

static int ordinal_of(void *stream)
{
    CUcontext context, primary;
    CU(cuStreamGetCtx)(stream, &context);
    for (int ordinal = 0;; ordinal++) {
        CU(cuDevicePrimaryCtxRetain)(&primary, 100 + ordinal);
        CU(cuDevicePrimaryCtxRelease_v2)(100 + ordinal);
        if (primary == context)
            return ordinal;
    }
}

static int stream_close(void *stream)
{
    int ordinal = ordinal_of(stream);
    return CU(cuStreamDestroy_v2)(stream) | CU(cuDevicePrimaryCtxRelease_v2)(100 + ordinal);
}

static void spin(void *flag)
{
    while (!__atomic_load_n((const int *)flag, __ATOMIC_ACQUIRE))
        usleep(50);
}

static int stream_wait(void *stream, const int *flag)
{
    return CU(cuLaunchHostFunc)(stream, spin, (void *)(uintptr_t)flag);
}

struct fill {
    void *memory;
    int byte;
    size_t size;
};

static void do_fill(void *argument)
{
    struct fill *fill = argument;
    memset(fake->look(fill->memory), fill->byte, fill->size);
    free(fill);
}

static int stream_fill(void *stream, void *memory, int value, size_t size)
{
    struct fill *fill = malloc(sizeof *fill);
    *fill = (struct fill){memory, value, size};
    return CU(cuLaunchHostFunc)(stream, do_fill, fill);
}

static int stream_sync(void *stream)
{
    return CU(cuStreamSynchronize)(stream);
}

static int stream_is_idle(void *stream)
{
    return fake->is_idle(stream);
}

static void streams(const struct weft_device_kind *kind, struct device_streams *found)
{
    (void)kind;
    *found = (struct device_streams){stream_open, stream_close, stream_wait,
                                     stream_fill, stream_sync,  stream_is_idle};
}

/* --- rows */

static const char *warm_up(void)
{
    const char *reason = scene_warm_up(&fake);
    if (fake)
        cuda_kernels_run(fake);
    return reason;
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

/* Contexts are given back when the kind is closed, and so are the words of gates. */
static void check_empty(const struct weft_device_kind *kind)
{
    (void)kind;
    assert_int_equal(fake->memories(), 0);
}

#define CUDA                                                                                                 \
    .kind = "cuda", .owns = 1, .faults = 1, .reuses = 1, .shares = 1, .scales_sums = 1, .streams = streams,  \
    .programs = 1, .check_empty = check_empty

static const struct device_row rows[] = {
    {.label = "cuda", CUDA, .dmabufs = 1, .absent = warm_up},
    {.label = "cuda, one device", CUDA, .absent = warm_up_one},
};

int main(void)
{
    setenv("WEFT_LOG", "error", 0);
    return device_suite_run(rows, sizeof rows / sizeof *rows);
}
