/* SPDX-License-Identifier: Apache-2.0 */
/* Loading the kernels and launching reductions.
 *
 * Loading may wait for the whole device, which may have a stream at a closed wait, and then for ever where that is to be opened by the
 * thread that loads. A stream's wait is put there by a queue's owner, so all is loaded when a device's first queue is opened: the module, and
 * each function, since drivers load functions late as well (CUDA_MODULE_LOADING=LAZY is what they do from CUDA 12.2 on): when the
 * function is asked for, or else by cuFuncLoad, which drivers have from CUDA 12.4 on. For the whole process, as ranks that are
 * threads share the device's context: another rank's first queue would load beside the first one's stream waits. A failure is kept, with its
 * text, and reported by reduce().
 *
 * A kernel that touches what its device cannot reach ends in an error that kills the whole context, the program's included. So
 * the driver is asked whose memory each pointer is.
 */
#include "devmem/cuda/launch.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define JIT_LOG_BYTES 512

/* Of each device, while a set of kinds uses it. */
static struct {
    pthread_mutex_t lock;
    pid_t pid; /* whose: a forked child loads its own */
    struct weft_cuda_launcher *launchers[WEFT_CUDA_ORDINALS_MAX];
} loaded = {.lock = PTHREAD_MUTEX_INITIALIZER};

int weft_cuda_has_kernels(void)
{
    size_t size;
    return weft_kernel_image(&size) != NULL;
}

/* The text names what was to fit: the device's architecture and the driver's version. */
static void note_failure(struct weft_device *device, int ordinal, struct weft_cuda_launcher *launcher,
                         int result, const char *what, const char *log)
{
    const struct weft_cuda_driver *driver = &device->driver;
    const char *name = NULL;
    launcher->status = weft_cuda_status(result);
    if (driver->get_error_name(result, &name) != CUDA_SUCCESS || !name)
        name = "an unknown error";
    snprintf(launcher->text, sizeof launcher->text,
             "loading %s on device %d (sm_%d%d) with a driver for CUDA %d.%d: %s, %d%s%.200s", what, ordinal,
             launcher->geometry.major, launcher->geometry.minor, driver->version / 1000,
             driver->version % 1000 / 10, name, result, log[0] ? ": " : "", log);
}

static void functions_load(struct weft_device *device, int ordinal, struct weft_cuda_launcher *launcher)
{
    const struct weft_cuda_driver *driver = &device->driver;
    for (int kernel = 0; kernel < WEFT_KERNEL_COUNT; kernel++) {
        cuda_function *function = &launcher->functions[kernel];
        int result = driver->module_get_function(function, launcher->module, weft_kernel_name(kernel));
        if (!result && driver->function_load)
            result = driver->function_load(*function);
        if (result) {
            note_failure(device, ordinal, launcher, result, weft_kernel_name(kernel), "");
            driver->module_unload(launcher->module);
            launcher->module = NULL;
            return;
        }
    }
}

static void module_load(struct weft_device *device, int ordinal, struct weft_cuda_launcher *launcher)
{
    char log[JIT_LOG_BYTES] = "";
    size_t size;
    const int options[] = {CUDA_JIT_ERROR_LOG, CUDA_JIT_ERROR_LOG_BYTES};
    void *values[] = {log, (void *)(uintptr_t)sizeof log};
    const void *image = weft_kernel_image(&size);
    if (!image) {
        launcher->status = WEFT_UNSUPPORTED;
        snprintf(launcher->text, sizeof launcher->text,
                 "this libweft was built without nvcc and has no kernels for CUDA devices");
        return;
    }
    int result = device->driver.module_load(&launcher->module, image, 2, options, values);
    if (!result) {
        functions_load(device, ordinal, launcher);
        return;
    }
    log[sizeof log - 1] = '\0';
    launcher->module = NULL;
    note_failure(device, ordinal, launcher, result, "the kernels", log);
}

/* With the lock. NULL: no memory. */
static struct weft_cuda_launcher *launcher_new(struct weft_device *device, int ordinal)
{
    struct weft_cuda_launcher *launcher = calloc(1, sizeof *launcher);
    if (!launcher)
        return NULL;
    const struct weft_cuda_driver *driver = &device->driver;
    struct weft_kernel_device *geometry = &launcher->geometry;
    int place = device->ordinals[ordinal].device;
    driver->device_get_attribute(&geometry->multiprocessors, CUDA_DEVICE_MULTIPROCESSORS, place);
    driver->device_get_attribute(&geometry->major, CUDA_DEVICE_COMPUTE_MAJOR, place);
    driver->device_get_attribute(&geometry->minor, CUDA_DEVICE_COMPUTE_MINOR, place);
    module_load(device, ordinal, launcher);
    return launcher;
}

void weft_cuda_launcher_open(struct weft_device *device, int ordinal)
{
    struct weft_cuda_ordinal *place = &device->ordinals[ordinal];
    pthread_mutex_lock(&loaded.lock);
    if (loaded.pid != getpid()) { /* what is there is the parent's, and remains so */
        memset(loaded.launchers, 0, sizeof loaded.launchers);
        loaded.pid = getpid();
    }
    if (!place->launcher) {
        struct weft_cuda_launcher **launcher = &loaded.launchers[ordinal];
        if (!*launcher)
            *launcher = launcher_new(device, ordinal);
        if (*launcher)
            (*launcher)->users++;
        place->launcher = *launcher;
    }
    pthread_mutex_unlock(&loaded.lock);
}

void weft_cuda_launcher_close(struct weft_device *device, int ordinal, int is_there)
{
    struct weft_cuda_launcher *launcher = device->ordinals[ordinal].launcher;
    pthread_mutex_lock(&loaded.lock);
    if (launcher && --launcher->users == 0) {
        if (loaded.launchers[ordinal] == launcher)
            loaded.launchers[ordinal] = NULL;
        if (is_there && launcher->module)
            device->driver.module_unload(launcher->module);
        free(launcher);
    }
    pthread_mutex_unlock(&loaded.lock);
}

int weft_cuda_check_reach(struct weft_device_queue *queue, const void *pointer, const char *prefix,
                          struct weft_device_span *span)
{
    struct weft_device *device = queue->device;
    struct weft_cuda_memory memory;
    if (weft_cuda_look(device, pointer, &memory))
        return device->params.fail(WEFT_INVALID,
                                   "%s%p is memory that CUDA device %d cannot use: it has to be pinned first",
                                   prefix, pointer, queue->ordinal);
    *span = memory.span;
    if (weft_cuda_is_reached(device, queue->ordinal, pointer, &memory))
        return WEFT_OK;
    return device->params.fail(WEFT_UNSUPPORTED, "%sCUDA device %d cannot reach memory on device %d at %p",
                               prefix, queue->ordinal, memory.span.ordinal, pointer);
}

static int check_reaches(struct weft_device_queue *queue, const struct weft_device_reduction *reduction)
{
    struct weft_device_span span;
    int status = WEFT_OK;
    for (uint32_t i = 0; i < reduction->source_count && !status; i++)
        status = weft_cuda_check_reach(queue, reduction->sources[i], "", &span);
    for (uint32_t i = 0; i < reduction->destination_count && !status; i++)
        status = weft_cuda_check_reach(queue, reduction->destinations[i], "", &span);
    return status;
}

struct weft_cuda_launcher *weft_cuda_launcher(struct weft_device_queue *queue, int *status)
{
    struct weft_device *device = queue->device;
    struct weft_cuda_launcher *launcher = device->ordinals[queue->ordinal].launcher;
    *status = WEFT_OK;
    if (launcher && launcher->module)
        return launcher;
    *status = launcher ? device->params.fail(launcher->status, "%s", launcher->text)
                       : device->params.fail(WEFT_NOMEM, "no memory to load the kernels");
    return NULL;
}

int weft_cuda_launch(struct weft_device_queue *queue, struct weft_cuda_launcher *launcher, int kernel,
                     uint32_t grid, uint32_t block, void *parameter)
{
    const struct weft_cuda_driver *driver = &queue->device->driver;
    struct weft_cuda_turn turn;
    void *arguments[] = {parameter};
    int status = weft_cuda_enter(queue->device, queue->ordinal, &turn);
    if (status)
        return status;
    int result = driver->launch(launcher->functions[kernel], grid, 1, 1, block, 1, 1, 0, queue->stream,
                                arguments, NULL);
    weft_cuda_leave(&turn);
    return result ? weft_cuda_fail(queue->device, result, "launching %s on device %d",
                                   weft_kernel_name(kernel), queue->ordinal)
                  : WEFT_OK;
}

int weft_cuda_reduce(struct weft_device_queue *queue, const struct weft_device_reduction *reduction)
{
    struct weft_device *device = queue->device;
    struct weft_kernel_launch prepared;
    int status;
    if (!reduction->source_count || reduction->source_count > WEFT_DEVICE_SOURCES_MAX ||
        !reduction->destination_count || reduction->destination_count > WEFT_DEVICE_DESTINATIONS_MAX)
        return device->params.fail(WEFT_INVALID, "a reduction from %u sources (1 to %d) into %u (1 to %d)",
                                   reduction->source_count, WEFT_DEVICE_SOURCES_MAX,
                                   reduction->destination_count, WEFT_DEVICE_DESTINATIONS_MAX);
    struct weft_cuda_launcher *launcher = weft_cuda_launcher(queue, &status);
    if (!launcher)
        return status;
    status = weft_kernel_reduce(&prepared, &launcher->geometry, reduction, 1);
    if (status < 0)
        return device->params.fail(
            status, "device %d (sm_%d%d) does not reduce %s by %s from %u sources into %u%s", queue->ordinal,
            launcher->geometry.major, launcher->geometry.minor, weft_dtype_name(reduction->dtype),
            weft_op_name(reduction->op), reduction->source_count, reduction->destination_count,
            reduction->scalar ? ", scaled" : "");
    if (prepared.grid == 0)
        return WEFT_OK;
    status = check_reaches(queue, reduction);
    return status ? status
                  : weft_cuda_launch(queue, launcher, prepared.kernel, prepared.grid, prepared.block,
                                     &prepared.batch);
}
