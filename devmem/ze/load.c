/* SPDX-License-Identifier: Apache-2.0 */
/* Loading kernels. A driver compiles a module when it is made, which takes time: a group's is made when a device first reduces one of its
 * types, which happens in the call that asks whether it can. It is kept as long as the kind is open.
 *
 * A driver may also do arithmetic that is not the host's. It says so (ze_device_fp_flags_t), and what it lacks is left to the host:
 * denormals, rounding to nearest, and 64-bit floats, of which the module may not even be made. Division of 32-bit floats need not be
 * rounded correctly, and is done by integers (devmem/kernels/arithmetic.h). Kernels use no atomic operations and no 16-bit floats.
 *
 * Source: oneAPI Level Zero Specification, "Core Programming Guide", Modules and Kernels; "SPIR-V Programming Guide".
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

/* NULL, or what the device lacks for a group of kernels. */
static const char *lacks(const struct weft_ze_launcher *launcher, int group)
{
    const ze_device_fp_flags_t needed =
        ZE_DEVICE_FP_FLAG_DENORM | ZE_DEVICE_FP_FLAG_INF_NAN | ZE_DEVICE_FP_FLAG_ROUND_TO_NEAREST;
    const ze_device_module_properties_t *has = &launcher->properties;
    int bits = weft_ze_group_float_bits(group);
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

/* Says once why a group is the host's. Another attempt may go well where memory was short. */
static void refuse(const struct weft_device *device, struct weft_ze_launcher *launcher, int group,
                   const char *text, int level, int is_final)
{
    struct weft_ze_module *module = &launcher->modules[group];
    int is_said = 0;
    for (int g = 0; g < WEFT_ZE_GROUP_COUNT; g++)
        is_said |= strncmp(launcher->modules[g].text, text, sizeof module->text - 1) == 0;
    if (!is_said)
        device->params.log(level, "%s; the host reduces", text);
    snprintf(module->text, sizeof module->text, "%.*s", (int)sizeof module->text - 1, text);
    module->state = is_final ? WEFT_ZE_MODULE_REFUSED : WEFT_ZE_MODULE_UNTRIED;
}

static void unload(const struct weft_device *device, struct weft_ze_launcher *launcher, int group)
{
    struct weft_ze_module *module = &launcher->modules[group];
    for (int family = 0; family < WEFT_KERNEL_copy; family++) {
        if (launcher->kernels[family] && weft_ze_group_of(family) == group) {
            device->driver.zeKernelDestroy(launcher->kernels[family]);
            launcher->kernels[family] = NULL;
        }
    }
    if (module->handle)
        device->driver.zeModuleDestroy(module->handle);
    module->handle = NULL;
}

static ze_result_t make_kernels(const struct weft_device *device, struct weft_ze_launcher *launcher,
                                int group)
{
    ze_result_t result = ZE_RESULT_SUCCESS;
    for (int family = 0; family < WEFT_KERNEL_copy && result == ZE_RESULT_SUCCESS; family++) {
        const ze_kernel_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_KERNEL_DESC,
                                       .pKernelName = weft_ze_kernel_name(family)};
        ze_kernel_handle_t *kernel = &launcher->kernels[family];
        if (weft_ze_group_of(family) != group)
            continue;
        result = device->driver.zeKernelCreate(launcher->modules[group].handle, &desc, kernel);
        if (result != ZE_RESULT_SUCCESS)
            *kernel = NULL;
        else
            result = device->driver.zeKernelSetGroupSize(*kernel, WEFT_KERNEL_THREADS, 1, 1);
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

static void load(const struct weft_device *device, int ordinal, struct weft_ze_launcher *launcher, int group)
{
    struct weft_ze_module *module = &launcher->modules[group];
    const char *name = weft_ze_group_name(group), *lacking = lacks(launcher, group);
    char text[WEFT_ZE_TEXT + BUILD_LOG_BYTES];
    ze_module_build_log_handle_t log = NULL;
    ze_module_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_MODULE_DESC,
                             .format = ZE_MODULE_FORMAT_IL_SPIRV,
                             .pBuildFlags = build_flags};
    desc.pInputModule = weft_ze_module_image(group, &desc.inputSize);
    if (!desc.pInputModule || lacking) {
        if (lacking)
            snprintf(text, sizeof text, "Level Zero device %d has no %s, as kernels for %s need", ordinal,
                     lacking, name);
        else
            snprintf(text, sizeof text,
                     "this libweft was built without clang or llvm-spirv and has no kernels "
                     "for Level Zero");
        refuse(device, launcher, group, text, WEFT_DEVICE_LOG_INFO, 1);
        return;
    }
    ze_result_t result = build(device, ordinal, &desc, &module->handle, &log);
    if (result != ZE_RESULT_SUCCESS)
        module->handle = NULL;
    else
        result = make_kernels(device, launcher, group);
    if (result == ZE_RESULT_SUCCESS) {
        module->state = WEFT_ZE_MODULE_LOADED;
    } else {
        weft_ze_word(result, text, "loading kernels for %s on device %d", name, ordinal);
        add_build_log(device, log, text, sizeof text);
        refuse(device, launcher, group, text, WEFT_DEVICE_LOG_WARN, weft_ze_status(result) != WEFT_NOMEM);
        unload(device, launcher, group);
    }
    if (log)
        device->driver.zeModuleBuildLogDestroy(log);
}

/* --- launchers */

static struct weft_ze_launcher *launcher_of(struct weft_device *device, int ordinal)
{
    struct weft_ze_ordinal *known = &device->ordinals[ordinal];
    pthread_mutex_lock(&device->lock);
    if (!known->launcher && (known->launcher = calloc(1, sizeof *known->launcher)))
        pthread_mutex_init(&known->launcher->lock, NULL);
    struct weft_ze_launcher *launcher = known->launcher;
    pthread_mutex_unlock(&device->lock);
    return launcher;
}

/* Double-precision division is rounded correctly where the device says so. */
static int divides(const struct weft_ze_launcher *launcher, int group, weft_op op)
{
    return op != WEFT_AVG || weft_ze_group_float_bits(group) != 64 ||
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

struct weft_ze_launcher *weft_ze_launcher_lock(struct weft_device_queue *queue, int family, weft_op op,
                                               int *status)
{
    struct weft_device *device = queue->device;
    struct weft_ze_launcher *launcher = launcher_of(device, queue->ordinal);
    int group = weft_ze_group_of(family);
    if (!launcher) {
        *status = device->params.fail(WEFT_NOMEM, "no memory to load the kernels");
        return NULL;
    }
    pthread_mutex_lock(&launcher->lock);
    if (!launcher->is_known)
        look(device, queue->ordinal, launcher);
    struct weft_ze_module *module = &launcher->modules[group];
    if (module->state == WEFT_ZE_MODULE_UNTRIED)
        load(device, queue->ordinal, launcher, group);
    if (module->state == WEFT_ZE_MODULE_LOADED && divides(launcher, group, op))
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
    struct weft_ze_launcher *launcher = weft_ze_has_kernels() ? launcher_of(device, ordinal) : NULL;
    if (!launcher)
        return 0;
    pthread_mutex_lock(&launcher->lock);
    if (!launcher->is_known)
        look(device, ordinal, launcher);
    int reduces = !lacks(launcher, WEFT_ZE_GROUP_int32);
    pthread_mutex_unlock(&launcher->lock);
    return reduces;
}

void weft_ze_launcher_close(struct weft_device *device, int ordinal, int is_there)
{
    struct weft_ze_launcher *launcher = device->ordinals[ordinal].launcher;
    if (!launcher)
        return;
    for (int group = 0; group < WEFT_ZE_GROUP_COUNT && is_there; group++)
        unload(device, launcher, group);
    pthread_mutex_destroy(&launcher->lock);
    free(launcher);
    device->ordinals[ordinal].launcher = NULL;
}
