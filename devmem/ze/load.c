/* SPDX-License-Identifier: Apache-2.0 */
/* Loading kernels. A driver compiles a module when it is made, which takes time: a group's is made when a
 * device first reduces one of its types, which happens in the call that asks whether it can. It is kept as
 * long as the kind is open.
 *
 * A driver may also do arithmetic that is not the host's. It says so (ze_device_fp_flags_t), and what it
 * lacks is left to the host: denormals, rounding to nearest, and 64-bit floats, of which the module may not
 * even be made. Division of 32-bit floats need not be rounded correctly, and is done by integers
 * (devmem/kernels/arithmetic.h). Kernels use no 16-bit floats, and no atomic operations.
 *
 * Source: oneAPI Level Zero Specification, "Core Programming Guide", Modules and Kernels; "SPIR-V Programming
 * Guide".
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/signals.h"
#include "devmem/ze/launch.h"

#define BUILD_LOG_BYTES 1024

/* Memory may be larger than 4 GiB, and so may what a kernel adds to an address. */
static const char build_flags[] = "-ze-opt-greater-than-4GB-buffer-required";

int weft_ze_has_kernels(void)
{
    size_t size;
    return weft_ze_module_image(0, &size) != NULL;
}

/* --- what the device is */

static void look(struct weft_device *device, int ordinal, struct weft_ze_launcher *launcher)
{
    const struct weft_ze_driver *driver = &device->driver;
    ze_device_handle_t place = device->ordinals[ordinal].device;
    ze_device_properties_t whole = {.stype = ZE_STRUCTURE_TYPE_DEVICE_PROPERTIES};
    ze_device_compute_properties_t compute = {.stype = ZE_STRUCTURE_TYPE_DEVICE_COMPUTE_PROPERTIES};
    launcher->properties.stype = ZE_STRUCTURE_TYPE_DEVICE_MODULE_PROPERTIES;
    if (driver->zeDeviceGetModuleProperties(place, &launcher->properties) != ZE_RESULT_SUCCESS)
        launcher->properties.spirvVersionSupported = 0;
    if (driver->zeDeviceGetComputeProperties(place, &compute) == ZE_RESULT_SUCCESS)
        launcher->group_size = compute.maxTotalGroupSize < compute.maxGroupSizeX ? compute.maxTotalGroupSize
                                                                                 : compute.maxGroupSizeX;
    if (driver->zeDeviceGetProperties(place, &whole) == ZE_RESULT_SUCCESS)
        launcher->blocks = (uint64_t)whole.numSlices * whole.numSubslicesPerSlice * whole.numEUsPerSubslice *
                           whole.numThreadsPerEU * whole.physicalEUSimdWidth / WEFT_KERNEL_THREADS;
    launcher->blocks = launcher->blocks ? launcher->blocks : 1;
    launcher->is_known = 1;
}

static int is_collective(int module)
{
    return module >= WEFT_ZE_GROUP_COUNT;
}

/* NULL, or what the device lacks for a module. */
static const char *lacks(const struct weft_ze_launcher *launcher, int module)
{
    const ze_device_fp_flags_t needed =
        ZE_DEVICE_FP_FLAG_DENORM | ZE_DEVICE_FP_FLAG_INF_NAN | ZE_DEVICE_FP_FLAG_ROUND_TO_NEAREST;
    const ze_device_module_properties_t *has = &launcher->properties;
    int bits = weft_ze_group_float_bits(module % WEFT_ZE_GROUP_COUNT);
    ze_device_fp_flags_t floats = bits == 64 ? has->fp64flags : bits == 32 ? has->fp32flags : needed;
    if (has->spirvVersionSupported < ZE_MAKE_VERSION(1, 0))
        return "SPIR-V";
    if (launcher->group_size < WEFT_KERNEL_THREADS)
        return "work groups of 256";
    if (bits == 64 && !(has->flags & ZE_DEVICE_MODULE_FLAG_FP64))
        return "64-bit floating-point arithmetic";
    return (floats & needed) == needed ? NULL
                                       : "floating-point arithmetic with denormals that rounds to nearest";
}

/* --- modules */

/* Behind the driver's words, on the same line: the log is made of lines. */
static void add_build_log(const struct weft_device *device, ze_module_build_log_handle_t log, char *text,
                          size_t size)
{
    size_t used = strlen(text), length = 0;
    if (!log || device->driver.zeModuleBuildLogGetString(log, &length, NULL) != ZE_RESULT_SUCCESS ||
        length < 2)
        return;
    char *whole = calloc(1, length + 1);
    if (whole && device->driver.zeModuleBuildLogGetString(log, &length, whole) == ZE_RESULT_SUCCESS) {
        for (char *at = whole; *at; at++)
            *at = *at < ' ' ? ' ' : *at;
        snprintf(text + used, size - used, ": %s", whole);
    }
    free(whole);
}

/* Says once why a module is not used. Another attempt may go well where memory was short. */
static void refuse(const struct weft_device *device, int ordinal, struct weft_ze_launcher *launcher,
                   int number, const char *text, int level, int is_final)
{
    struct weft_ze_module *module = &launcher->modules[number];
    int is_said = 0;
    for (int m = 0; m < WEFT_ZE_MODULE_COUNT; m++)
        is_said |= strncmp(launcher->modules[m].text, text, sizeof module->text - 1) == 0;
    if (number == weft_ze_module_of(WEFT_ZE_PROBE) &&
        atomic_load(&device->ordinals[ordinal].trials[WEFT_ZE_BESIDE_KERNEL].answer) ==
            WEFT_ZE_ANSWER_UNTRIED)
        is_said = 1; /* who probes says it */
    if (!is_said)
        device->params.log(level, "%s; %s", text, "the host reduces");
    snprintf(module->text, sizeof module->text, "%.*s", (int)sizeof module->text - 1, text);
    module->state = is_final ? WEFT_ZE_MODULE_REFUSED : WEFT_ZE_MODULE_UNTRIED;
}

static void unload(const struct weft_device *device, struct weft_ze_launcher *launcher, int number)
{
    struct weft_ze_module *module = &launcher->modules[number];
    for (int kernel = 0; kernel < WEFT_ZE_KERNEL_COUNT; kernel++) {
        if (launcher->kernels[kernel] && weft_ze_module_of(kernel) == number) {
            device->driver.zeKernelDestroy(launcher->kernels[kernel]);
            launcher->kernels[kernel] = NULL;
        }
    }
    if (module->handle)
        device->driver.zeModuleDestroy(module->handle);
    module->handle = NULL;
}

/* The addresses in a device collective's steps are no parameters, so all memory of the driver's is let in. */
static ze_result_t make_kernel(const struct weft_device *device, struct weft_ze_launcher *launcher,
                               int number, int kernel)
{
    const ze_kernel_indirect_access_flags_t all = ZE_KERNEL_INDIRECT_ACCESS_FLAG_HOST |
                                                  ZE_KERNEL_INDIRECT_ACCESS_FLAG_DEVICE |
                                                  ZE_KERNEL_INDIRECT_ACCESS_FLAG_SHARED;
    const ze_kernel_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_KERNEL_DESC,
                                   .pKernelName = weft_ze_kernel_name(kernel)};
    ze_kernel_handle_t *made = &launcher->kernels[kernel];
    ze_result_t result = device->driver.zeKernelCreate(launcher->modules[number].handle, &desc, made);
    if (result != ZE_RESULT_SUCCESS) {
        *made = NULL;
        return result;
    }
    result = device->driver.zeKernelSetGroupSize(*made, WEFT_KERNEL_THREADS, 1, 1);
    if (result == ZE_RESULT_SUCCESS && is_collective(number))
        result = device->driver.zeKernelSetIndirectAccess(*made, all);
    return result;
}

static ze_result_t make_kernels(const struct weft_device *device, struct weft_ze_launcher *launcher,
                                int number)
{
    ze_result_t result = ZE_RESULT_SUCCESS;
    for (int kernel = 0; kernel < WEFT_ZE_KERNEL_COUNT && result == ZE_RESULT_SUCCESS; kernel++) {
        if (weft_ze_module_of(kernel) == number)
            result = make_kernel(device, launcher, number, kernel);
    }
    return result;
}

/* The driver's compiler may install signal handlers. */
static ze_result_t build(const struct weft_device *device, int ordinal, const ze_module_desc_t *desc,
                         ze_module_handle_t *module, ze_module_build_log_handle_t *log)
{
    const struct weft_ze_ordinal *known = &device->ordinals[ordinal];
    struct weft_signals signals;
    weft_signals_save(&signals);
    ze_result_t result =
        device->driver.zeModuleCreate(device->places[known->place].context, known->device, desc, module, log);
    weft_signals_restore(&signals);
    return result;
}

/* With the launcher's lock, which is let go while the driver compiles: calls of other types, and of streams,
 * go on meanwhile. */
static void load(const struct weft_device *device, int ordinal, struct weft_ze_launcher *launcher, int number)
{
    struct weft_ze_module *module = &launcher->modules[number];
    const char *lacking = lacks(launcher, number);
    char text[WEFT_ZE_TEXT + BUILD_LOG_BYTES], name[48];
    ze_module_build_log_handle_t log = NULL;
    ze_module_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_MODULE_DESC,
                             .format = ZE_MODULE_FORMAT_IL_SPIRV,
                             .pBuildFlags = build_flags};
    desc.pInputModule = weft_ze_module_image(number, &desc.inputSize);
    snprintf(name, sizeof name, "%s%s", is_collective(number) ? "device collectives of " : "",
             weft_ze_group_name(number % WEFT_ZE_GROUP_COUNT));
    if (!desc.pInputModule || lacking) {
        if (lacking)
            snprintf(text, sizeof text, "Level Zero device %d has no %s, as kernels for %s need", ordinal,
                     lacking, name);
        else
            snprintf(text, sizeof text,
                     "this libweft was built without clang or llvm-spirv and has no kernels "
                     "for Level Zero");
        refuse(device, ordinal, launcher, number, text, WEFT_DEVICE_LOG_INFO, 1);
        return;
    }
    module->state = WEFT_ZE_MODULE_LOADING;
    pthread_mutex_unlock(&launcher->lock);
    ze_result_t result = build(device, ordinal, &desc, &module->handle, &log);
    if (result != ZE_RESULT_SUCCESS)
        module->handle = NULL;
    else
        result = make_kernels(device, launcher, number);
    pthread_mutex_lock(&launcher->lock);
    if (result == ZE_RESULT_SUCCESS) {
        module->state = WEFT_ZE_MODULE_LOADED;
    } else {
        weft_ze_word(result, text, "loading kernels for %s on device %d", name, ordinal);
        add_build_log(device, log, text, sizeof text);
        refuse(device, ordinal, launcher, number, text, WEFT_DEVICE_LOG_WARN,
               weft_ze_status(result) != WEFT_NOMEM);
        unload(device, launcher, number);
    }
    pthread_cond_broadcast(&launcher->loaded);
    if (log)
        device->driver.zeModuleBuildLogDestroy(log);
}

/* --- launchers */

struct weft_ze_launcher *weft_ze_launcher_of(struct weft_device *device, int ordinal)
{
    struct weft_ze_ordinal *known = &device->ordinals[ordinal];
    pthread_mutex_lock(&device->lock);
    if (!known->launcher && (known->launcher = calloc(1, sizeof *known->launcher))) {
        pthread_mutex_init(&known->launcher->lock, NULL);
        pthread_mutex_init(&known->launcher->probe_lock, NULL);
        pthread_cond_init(&known->launcher->loaded, NULL);
    }
    struct weft_ze_launcher *launcher = known->launcher;
    pthread_mutex_unlock(&device->lock);
    return launcher;
}

/* Double-precision division is rounded correctly where the device says so. */
static int divides(const struct weft_ze_launcher *launcher, int number, weft_op op)
{
    return op != WEFT_AVG || weft_ze_group_float_bits(number % WEFT_ZE_GROUP_COUNT) != 64 ||
           launcher->properties.fp64flags & ZE_DEVICE_FP_FLAG_ROUNDED_DIVIDE_SQRT;
}

static int refuse_division(const struct weft_device_queue *queue, struct weft_ze_launcher *launcher)
{
    static const char text[] = "Level Zero device %d does not round divisions of 64-bit numbers correctly%s";
    if (!launcher->is_division_said)
        queue->device->params.log(WEFT_DEVICE_LOG_INFO, text, queue->ordinal, "; the host averages");
    launcher->is_division_said = 1;
    return queue->device->params.fail(WEFT_UNSUPPORTED, text, queue->ordinal, "");
}

struct weft_ze_launcher *weft_ze_launcher_look(struct weft_device *device, int ordinal)
{
    struct weft_ze_launcher *launcher = weft_ze_launcher_of(device, ordinal);
    if (!launcher)
        return NULL;
    pthread_mutex_lock(&launcher->lock);
    if (!launcher->is_known)
        look(device, ordinal, launcher);
    return launcher;
}

struct weft_ze_launcher *weft_ze_launcher_lock(struct weft_device_queue *queue, int kernel, weft_op op,
                                               int *status)
{
    struct weft_device *device = queue->device;
    struct weft_ze_launcher *launcher = weft_ze_launcher_look(device, queue->ordinal);
    int number = weft_ze_module_of(kernel);
    if (!launcher) {
        *status = device->params.fail(WEFT_NOMEM, "no memory to load the kernels");
        return NULL;
    }
    struct weft_ze_module *module = &launcher->modules[number];
    while (module->state == WEFT_ZE_MODULE_LOADING)
        pthread_cond_wait(&launcher->loaded, &launcher->lock);
    if (module->state == WEFT_ZE_MODULE_UNTRIED)
        load(device, queue->ordinal, launcher, number);
    if (module->state == WEFT_ZE_MODULE_LOADED && divides(launcher, number, op))
        return launcher;
    if (module->state == WEFT_ZE_MODULE_LOADED)
        *status = refuse_division(queue, launcher);
    else
        *status = device->params.fail(WEFT_UNSUPPORTED, "%s", module->text);
    pthread_mutex_unlock(&launcher->lock);
    return NULL;
}

int weft_ze_reduces(struct weft_device *device, int ordinal)
{
    struct weft_ze_launcher *launcher = weft_ze_has_kernels() ? weft_ze_launcher_look(device, ordinal) : NULL;
    if (!launcher)
        return 0;
    int reduces = !lacks(launcher, WEFT_ZE_GROUP_int32);
    pthread_mutex_unlock(&launcher->lock);
    return reduces;
}

void weft_ze_launcher_close(struct weft_device *device, int ordinal, int is_there)
{
    struct weft_ze_launcher *launcher = device->ordinals[ordinal].launcher;
    if (!launcher)
        return;
    for (int i = 0; i < WEFT_ZE_TRIES && is_there; i++) {
        if (launcher->words[i])
            device->driver.zeMemFree(device->places[device->ordinals[ordinal].place].context,
                                     launcher->words[i]);
    }
    for (int number = 0; number < WEFT_ZE_MODULE_COUNT && is_there; number++)
        unload(device, launcher, number);
    pthread_cond_destroy(&launcher->loaded);
    pthread_mutex_destroy(&launcher->probe_lock);
    pthread_mutex_destroy(&launcher->lock);
    free(launcher);
    device->ordinals[ordinal].launcher = NULL;
}
