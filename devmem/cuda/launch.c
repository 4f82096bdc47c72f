/* Loading the kernels and launching reductions.
 *
 * The module is loaded when a device's first queue is opened, not when the first reduction comes: loading may wait for the whole device,
 * which then may have a stream at a closed gate. A failure is kept, with its text, and told by reduce().
 *
 * A kernel that touches what its device cannot reach ends in an error that kills the whole context, the program's included. So
 * the driver is asked whose memory each pointer is.
 */
#include "devmem/cuda/launch.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define JIT_LOG_BYTES 512

int weft_cuda_has_kernels(void)
{
    size_t size;
    return weft_kernel_image(&size) != NULL;
}

/* The error's text names what was to fit: the device's architecture and the driver's version. */
static void module_load(struct weft_device *device, int ordinal, struct weft_cuda_launcher *launcher)
{
    const struct weft_cuda_driver *driver = &device->driver;
    char log[JIT_LOG_BYTES] = "";
    const char *name = NULL;
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
    int result = driver->module_load(&launcher->module, image, 2, options, values);
    if (!result)
        return;
    log[sizeof log - 1] = '\0';
    launcher->module = NULL;
    launcher->status = weft_cuda_status(result);
    if (driver->get_error_name(result, &name) != CUDA_SUCCESS || !name)
        name = "an unknown error";
    snprintf(launcher->text, sizeof launcher->text,
             "loading the kernels on device %d (sm_%d%d) with a driver for CUDA %d.%d: %s, %d%s%.200s",
             ordinal, launcher->geometry.major, launcher->geometry.minor, driver->version / 1000,
             driver->version % 1000 / 10, name, result, log[0] ? ": " : "", log);
}

void weft_cuda_launcher_open(struct weft_device *device, int ordinal)
{
    struct weft_cuda_ordinal *place = &device->ordinals[ordinal];
    pthread_mutex_lock(&device->lock);
    struct weft_cuda_launcher *launcher = place->launcher ? NULL : calloc(1, sizeof *launcher);
    if (launcher) {
        struct weft_kernel_device *geometry = &launcher->geometry;
        device->driver.device_get_attribute(&geometry->multiprocessors, CUDA_DEVICE_MULTIPROCESSORS,
                                            place->device);
        device->driver.device_get_attribute(&geometry->major, CUDA_DEVICE_COMPUTE_MAJOR, place->device);
        device->driver.device_get_attribute(&geometry->minor, CUDA_DEVICE_COMPUTE_MINOR, place->device);
        module_load(device, ordinal, launcher);
        place->launcher = launcher;
    }
    pthread_mutex_unlock(&device->lock);
}

void weft_cuda_launcher_close(struct weft_device *device, int ordinal, int is_there)
{
    struct weft_cuda_launcher *launcher = device->ordinals[ordinal].launcher;
    if (is_there && launcher && launcher->module)
        device->driver.module_unload(launcher->module);
    free(launcher);
}

static int function_of(struct weft_device *device, struct weft_cuda_launcher *launcher, int kernel,
                       cuda_function *function)
{
    *function = __atomic_load_n(&launcher->functions[kernel], __ATOMIC_ACQUIRE);
    if (*function)
        return WEFT_OK;
    int result = device->driver.module_get_function(function, launcher->module, weft_kernel_name(kernel));
    if (result)
        return weft_cuda_fail(device, result, "looking for kernel %s", weft_kernel_name(kernel));
    __atomic_store_n(&launcher->functions[kernel], *function, __ATOMIC_RELEASE);
    return WEFT_OK;
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
    return device->params.fail(WEFT_UNSUPPORTED,
                               "%sCUDA device %d cannot reach the memory of device %d at %p", prefix,
                               queue->ordinal, memory.span.ordinal, pointer);
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
    cuda_function function;
    void *arguments[] = {parameter};
    int status = weft_cuda_enter(queue->device, queue->ordinal, &turn);
    if (status)
        return status;
    status = function_of(queue->device, launcher, kernel, &function);
    int result = status
                     ? CUDA_SUCCESS
                     : driver->launch(function, grid, 1, 1, block, 1, 1, 0, queue->stream, arguments, NULL);
    weft_cuda_leave(&turn);
    return result ? weft_cuda_fail(queue->device, result, "launching %s on device %d",
                                   weft_kernel_name(kernel), queue->ordinal)
                  : status;
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
