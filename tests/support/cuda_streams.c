/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/cuda_streams.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/cuda_scene.h"

static struct cuda_fake *scene_fake(void)
{
    return scene_symbol("cuda_fake");
}

static CUcontext context_of(int ordinal)
{
    CUcontext context = NULL;
    CU(cuDevicePrimaryCtxRetain)(&context, 100 + ordinal);
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
    memset(scene_fake()->look(fill->memory), fill->byte, fill->size);
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
    return scene_fake()->is_idle(stream);
}

void cuda_streams(const struct weft_device_kind *kind, struct device_streams *found)
{
    (void)kind;
    *found = (struct device_streams){stream_open, stream_close, stream_wait,
                                     stream_fill, stream_sync,  stream_is_idle};
}
