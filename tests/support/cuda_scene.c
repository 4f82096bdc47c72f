#include "tests/support/cuda_scene.h"

#include <dlfcn.h>
#include <libgen.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void *library;
static __thread char text[1024];
static int logged;

const char *scene_library(void)
{
    static char path[2048];
    char self[1024];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    self[length > 0 ? length : 0] = '\0';
    snprintf(path, sizeof path, "%s/../drivers/libcuda.so.1", dirname(self));
    return path;
}

struct cuda_fake *scene_load(void)
{
    library = dlopen(scene_library(), RTLD_NOW | RTLD_LOCAL);
    struct cuda_fake *fake = library ? dlsym(library, "cuda_fake") : NULL;
    if (!fake)
        fprintf(stderr, "%s\n", dlerror());
    return fake;
}

void *scene_symbol(const char *name)
{
    void *found = dlsym(library, name);
    if (!found) {
        fprintf(stderr, "the stand-in has no %s\n", name);
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

const char *scene_warm_up(struct cuda_fake **loaded)
{
    struct weft_device_queue *queue;
    struct cuda_fake *fake = scene_load();
    if (!fake)
        return "the stand-in for the driver is not built";
    fake->reset();
    struct weft_device *device = scene_open();
    if (!device || weft_cuda_ops.queue_open(device, 0, &queue))
        return "the stand-in for the driver does not work";
    weft_cuda_ops.queue_close(queue);
    weft_cuda_ops.close(device);
    fake->reset();
    *loaded = fake;
    return fake->left() ? "something was left" : NULL;
}

const char *scene_text(void)
{
    static __thread char told[1024];
    memcpy(told, text, sizeof told);
    text[0] = '\0';
    return told;
}

int scene_logged(void)
{
    return __atomic_exchange_n(&logged, 0, __ATOMIC_RELAXED);
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
