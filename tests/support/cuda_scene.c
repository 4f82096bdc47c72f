/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/cuda_scene.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/built.h"

static void *library;
static __thread char text[1024];
static int logged;

int scene_computes;

const char *scene_library(void)
{
    static char path[4096];
    const char *name =
        scene_computes ? "tests/fakes/drivers/kernels/libcuda.so.1" : "tests/fakes/drivers/libcuda.so.1";
    return test_built(name, path, sizeof path) == 0 ? path : "";
}

/* Any bytes: the fake loads everything. */
const void *__wrap_weft_kernel_image(size_t *size) __attribute__((weak)); /* a test may have one of its own */
const void *__wrap_weft_kernel_image(size_t *size)
{
    *size = 5;
    return "image";
}

struct cuda_fake *scene_load(void)
{
    library = dlopen(scene_library(), RTLD_NOW | RTLD_LOCAL);
    struct cuda_fake *fake = library ? dlsym(library, "cuda_fake") : NULL;
    if (fake)
        fake->reset();
    else
        fprintf(stderr, "%s\n", dlerror());
    return fake;
}

void *scene_symbol(const char *name)
{
    void *found = dlsym(library, name);
    if (!found) {
        fprintf(stderr, "the fake driver has no %s\n", name);
        abort();
    }
    return found;
}

static int fail(int status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return status;
}

static void take_log(int level, const char *format, ...)
{
    va_list arguments;
    (void)level;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    __atomic_add_fetch(&logged, 1, __ATOMIC_RELAXED);
}

struct weft_device *scene_open(void)
{
    const struct weft_device_params params = {sizeof params, fail, take_log, ""};
    struct weft_device *device = NULL;
    return weft_cuda_ops.open(&params, &device) == WEFT_OK ? device : NULL;
}

int scene_enter(int ordinal, CUcontext *context)
{
    int result = CU(cuInit)(0);
    if (!result)
        result = CU(cuDevicePrimaryCtxRetain)(context, 100 + ordinal);
    return result ? result : CU(cuCtxPushCurrent_v2)(*context);
}

int scene_leave(int ordinal, CUcontext context)
{
    CUcontext popped;
    int is_other = CU(cuCtxPopCurrent_v2)(&popped) != 0 || popped != context;
    CU(cuDevicePrimaryCtxRelease_v2)(100 + ordinal);
    return is_other;
}

int scene_begin(struct cuda_fake **fake, struct weft_device **device, CUcontext *context)
{
    *fake = scene_load();
    *device = *fake ? scene_open() : NULL;
    return !*device || (context && scene_enter(1, context) != 0);
}

int scene_end(struct cuda_fake *fake, struct weft_device *device, CUcontext context)
{
    CUcontext now = NULL;
    fake->break_device(0, 0);
    fake->break_device(1, 0);
    if (device)
        weft_cuda_ops.close(device);
    int is_bad = context && scene_leave(1, context);
    is_bad |= CU(cuCtxGetCurrent)(&now) == 0 && now;
    return is_bad || fake->capture_mode() != 0 || fake->left() != 0;
}

const char *scene_warm_up(struct cuda_fake **loaded)
{
    struct weft_device_queue *queue;
    struct cuda_fake *fake = scene_load();
    if (!fake)
        return "the fake driver is not built";
    struct weft_device *device = scene_open();
    if (!device || weft_cuda_ops.queue_open(device, 0, &queue))
        return "the fake driver does not work";
    weft_cuda_ops.queue_close(queue);
    weft_cuda_ops.close(device);
    fake->reset();
    *loaded = fake;
    return fake->left() ? "something was left" : NULL;
}

const char *scene_text(void)
{
    static __thread char kept[1024];
    memcpy(kept, text, sizeof kept);
    text[0] = '\0';
    return kept;
}

int scene_logged(void)
{
    return __atomic_exchange_n(&logged, 0, __ATOMIC_RELAXED);
}

int scene_block_make(CUhandle *block, enum scene_way way, int ordinal)
{
    const int types = way == SCENE_MAPPED ? 1 : way == SCENE_MAPPED_FABRIC ? 8 : 0;
    const CUmemAllocationProp prop = {.type = 1, .requestedHandleTypes = types, .location = {1, ordinal}};
    return CU(cuMemCreate)(block, SCENE_BYTES, &prop, 0);
}

int scene_memory_make(struct scene_memory *made, enum scene_way way, int ordinal)
{
    const CUmemPoolProps props = {
        .allocType = 1, .handleTypes = way == SCENE_POOL ? 1 : 8, .location = {1, ordinal}};
    memset(made, 0, sizeof *made);
    if (way == SCENE_LEGACY)
        return CU(cuMemAlloc_v2)(&made->memory, SCENE_BYTES);
    if (way == SCENE_POOL || way == SCENE_POOL_FABRIC)
        return CU(cuMemPoolCreate)(&made->pool, &props) ||
               CU(cuMemAllocFromPoolAsync)(&made->memory, SCENE_BYTES, made->pool, NULL);
    if (CU(cuMemAddressReserve)(&made->range, 2 * SCENE_BYTES, 0, 0, 0) ||
        scene_block_make(&made->block, way, ordinal))
        return 1;
    made->memory = made->range + SCENE_BYTES;
    return CU(cuMemMap)(made->memory, SCENE_BYTES, 0, made->block, 0);
}

void scene_memory_free(struct scene_memory *memory)
{
    if (memory->pool) {
        CU(cuMemFreeAsync)(memory->memory, NULL);
        CU(cuMemPoolDestroy)(memory->pool);
    } else if (memory->range) {
        CU(cuMemUnmap)(memory->memory, SCENE_BYTES);
        CU(cuMemRelease)(memory->block);
        CU(cuMemAddressFree)(memory->range, 2 * SCENE_BYTES);
    } else
        CU(cuMemFree_v2)(memory->memory);
}

void scene_drain(CUstream stream)
{
    CU(cuStreamSynchronize)(stream);
}

int scene_wait(struct weft_device_event *event)
{
    int done;
    while ((done = weft_cuda_ops.test(event)) == 0)
        usleep(100);
    return done;
}
