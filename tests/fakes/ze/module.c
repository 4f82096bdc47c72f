/* SPDX-License-Identifier: Apache-2.0 */
/* Modules, their build logs, and kernels. A module is read as far as to know its kernels (spirv.c); what they do is the same source built as C
 * (ze_kernels.c). */
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/fakes/ze/fake_kernel.h"

static const char create[] = "zeModuleCreate", sections[] = "Core Programming Guide, Modules and Kernels";

struct fake_module {
    struct fake_context *context;
    int device;
    int kernels; /* and build logs, that are there. With fake_lock */
    struct fake_spirv spirv;
};

struct fake_log {
    char text[256];
};

static void count(struct fake_module *module, int kernels)
{
    pthread_mutex_lock(&fake_lock);
    module->kernels += kernels;
    pthread_mutex_unlock(&fake_lock);
}

/* --- modules */

static int has_options(const char *flags)
{
    static const char *const known[] = {"-ze-opt-disable",
                                        "-ze-opt-level",
                                        "-ze-opt-greater-than-4GB-buffer-required",
                                        "-ze-opt-large-register-file",
                                        "-ze-opt-has-buffer-offset-arg",
                                        "-g"};
    int is_known = flags == NULL;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        is_known |= flags && strcmp(flags, known[i]) == 0;
    return is_known;
}

static ze_result_t give_log(ze_module_build_log_handle_t *given, const char *text)
{
    if (!given)
        return ZE_RESULT_SUCCESS;
    struct fake_log *log = calloc(1, sizeof *log);
    if (!log)
        return ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY;
    snprintf(log->text, sizeof log->text, "%s", text);
    ze_fake.logs++;
    *given = (ze_module_build_log_handle_t)(void *)log;
    return ZE_RESULT_SUCCESS;
}

static int check_module(const ze_module_desc_t *desc)
{
    return fake_expect_struct(desc, ZE_STRUCTURE_TYPE_MODULE_DESC, create) &&
           fake_expect(desc->format == ZE_MODULE_FORMAT_IL_SPIRV, create, "zeModuleCreate, Parameters",
                       "the format is not SPIR-V") &&
           fake_expect(desc->inputSize > 0, create, "zeModuleCreate, Parameters", "inputSize is 0") &&
           fake_expect(desc->pInputModule != NULL, create, "zeModuleCreate, Parameters",
                       "pInputModule is NULL") &&
           fake_expect(has_options(desc->pBuildFlags), create, "ze_module_desc_t, pBuildFlags",
                       "an option that is none");
}

ze_result_t fake_module_create(ze_context_handle_t context, ze_device_handle_t device,
                               const ze_module_desc_t *desc, ze_module_handle_t *module,
                               ze_module_build_log_handle_t *log)
{
    struct fake_context *of = fake_context_find(context, create);
    int on = of ? fake_device_index(device, create) : -1;
    if (on < 0)
        return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
    struct fake_module *made = check_module(desc) ? calloc(1, sizeof *made) : NULL;
    if (!made || !fake_expect(fake_spirv_read(desc->pInputModule, desc->inputSize, &made->spirv), create,
                              "SPIR-V Specification, Physical Layout of a SPIR-V Module and Instruction",
                              "the module is no SPIR-V")) {
        free(made);
        return ZE_RESULT_ERROR_INVALID_ARGUMENT;
    }
    ze_fake.builds++;
    ze_fake.compiling++;
    while (ze_fake.compiler_waits)
        usleep(50);
    ze_fake.compiling--;
    ze_result_t result = (ze_result_t)ze_fake.module_result;
    if (made->spirv.uses_float64 && ze_fake.no_float64)
        result = ZE_RESULT_ERROR_MODULE_BUILD_FAILURE;
    for (uint32_t i = 0; i < made->spirv.entry_count && ze_fake.bad_module; i++) {
        const char *name = made->spirv.entries[i].name;
        if (strstr(name, "int32") && strstr(name, "_collective"))
            result = (ze_result_t)ze_fake.bad_module;
    }
    if (made->spirv.uses_atomics && ze_fake.no_atomics)
        result = ZE_RESULT_ERROR_MODULE_BUILD_FAILURE;
    if (result == ZE_RESULT_SUCCESS)
        result = give_log(log, "");
    else if (give_log(log, "error: unknown word\nin line 7") != ZE_RESULT_SUCCESS)
        result = ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY;
    if (result != ZE_RESULT_SUCCESS) {
        free(made);
        return result;
    }
    made->context = of;
    made->device = on;
    fake_context_count(of, 1);
    ze_fake.modules++;
    *module = (ze_module_handle_t)(void *)made;
    return ZE_RESULT_SUCCESS;
}

ze_result_t fake_module_destroy(ze_module_handle_t module)
{
    struct fake_module *found = (void *)module;
    pthread_mutex_lock(&fake_lock);
    int is_idle = found->kernels == 0;
    pthread_mutex_unlock(&fake_lock);
    if (!fake_expect(is_idle, "zeModuleDestroy", sections, "the module still has kernels"))
        return ZE_RESULT_ERROR_HANDLE_OBJECT_IN_USE;
    fake_context_count(found->context, -1);
    ze_fake.modules--;
    free(found);
    return ZE_RESULT_SUCCESS;
}

ze_result_t fake_log_string(ze_module_build_log_handle_t log, size_t *size, char *text)
{
    const struct fake_log *found = (const void *)log;
    if (!fake_expect(size != NULL, "zeModuleBuildLogGetString", "zeModuleBuildLogGetString, Parameters",
                     "pSize is NULL"))
        return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
    size_t length = strlen(found->text) + 1;
    if (text &&
        !fake_expect(*size >= length, "zeModuleBuildLogGetString", "zeModuleBuildLogGetString, Parameters",
                     "there is less room than pSize has said"))
        return ZE_RESULT_ERROR_INVALID_SIZE;
    if (text)
        memcpy(text, found->text, length);
    *size = length;
    return ZE_RESULT_SUCCESS;
}

ze_result_t fake_log_destroy(ze_module_build_log_handle_t log)
{
    ze_fake.logs--;
    free((void *)log);
    return ZE_RESULT_SUCCESS;
}

/* --- kernels */

ze_result_t fake_kernel_create(ze_module_handle_t module, const ze_kernel_desc_t *desc,
                               ze_kernel_handle_t *kernel)
{
    static const char call[] = "zeKernelCreate";
    struct fake_module *of = (void *)module;
    const struct fake_entry *entry = NULL;
    if (!fake_expect_struct(desc, ZE_STRUCTURE_TYPE_KERNEL_DESC, call) ||
        !fake_expect(desc->flags <= 3, call, "zeKernelCreate, Parameters", "flags that are none") ||
        !fake_expect(desc->pKernelName != NULL, call, "zeKernelCreate, Parameters", "pKernelName is NULL"))
        return ZE_RESULT_ERROR_INVALID_ARGUMENT;
    for (uint32_t i = 0; i < of->spirv.entry_count; i++) {
        if (strcmp(of->spirv.entries[i].name, desc->pKernelName) == 0)
            entry = &of->spirv.entries[i];
    }
    if (!fake_expect(entry != NULL, call, sections, "the module has no entry point of that name"))
        return ZE_RESULT_ERROR_INVALID_KERNEL_NAME;
    if (ze_fake.kernel_result)
        return (ze_result_t)ze_fake.kernel_result;
    struct fake_kernel *made = calloc(1, sizeof *made);
    if (!made)
        return ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY;
    *made =
        (struct fake_kernel){.module = of, .entry = entry, .function = fake_function_find(desc->pKernelName)};
    count(of, 1);
    ze_fake.kernels++;
    *kernel = (ze_kernel_handle_t)(void *)made;
    return ZE_RESULT_SUCCESS;
}

ze_result_t fake_kernel_destroy(ze_kernel_handle_t kernel)
{
    struct fake_kernel *found = (void *)kernel;
    pthread_mutex_lock(&fake_lock);
    int is_idle = found->in_flight == 0;
    pthread_mutex_unlock(&fake_lock);
    if (!fake_expect(is_idle, "zeKernelDestroy", "zeKernelDestroy", "a command in flight uses the kernel"))
        return ZE_RESULT_ERROR_HANDLE_OBJECT_IN_USE;
    count(found->module, -1);
    ze_fake.kernels--;
    free(found);
    return ZE_RESULT_SUCCESS;
}

/* Nobody else is changing it or launching it meanwhile, which no lock of the driver's sees to. */
static int enter(struct fake_kernel *kernel, const char *call)
{
    if (fake_expect(kernel->users++ == 0, call, sections, "two threads use one kernel"))
        return 1;
    kernel->users--;
    return 0;
}

ze_result_t fake_kernel_group(ze_kernel_handle_t kernel, uint32_t x, uint32_t y, uint32_t z)
{
    static const char call[] = "zeKernelSetGroupSize";
    struct fake_kernel *found = (void *)kernel;
    if (!enter(found, call))
        return ZE_RESULT_ERROR_INVALID_ARGUMENT;
    uint64_t size = (uint64_t)x * y * z, wanted = found->entry->local_size;
    int is_good = fake_expect(size > 0 && size <= fake_group_size(), call, sections,
                              "the group is larger than the device has them") &&
                  fake_expect(!wanted || (x == wanted && y == 1 && z == 1), call,
                              "SPIR-V Programming Guide, LocalSize", "the kernel demands another group size");
    if (is_good)
        found->group_size = x;
    found->users--;
    return is_good ? ZE_RESULT_SUCCESS : ZE_RESULT_ERROR_INVALID_GROUP_SIZE_DIMENSION;
}

ze_result_t fake_kernel_argument(ze_kernel_handle_t kernel, uint32_t index, size_t size, const void *value)
{
    static const char call[] = "zeKernelSetArgumentValue";
    struct fake_kernel *found = (void *)kernel;
    ze_result_t result = ZE_RESULT_SUCCESS;
    if (!enter(found, call))
        return ZE_RESULT_ERROR_INVALID_ARGUMENT;
    if (!fake_expect(index < found->entry->argument_count, call, "zeKernelSetArgumentValue, Parameters",
                     "the kernel has no such argument")) {
        result = ZE_RESULT_ERROR_INVALID_KERNEL_ARGUMENT_INDEX;
    } else if (!fake_expect(size == found->entry->argument_bytes[index], call,
                            "zeKernelSetArgumentValue, Parameters", "the argument has another size")) {
        result = ZE_RESULT_ERROR_INVALID_KERNEL_ARGUMENT_SIZE;
    } else {
        found->arguments[index] = 0;
        if (value)
            memcpy(&found->arguments[index], value, size);
        found->set |= 1u << index;
    }
    found->users--;
    return result;
}

ze_result_t fake_kernel_indirect(ze_kernel_handle_t kernel, ze_kernel_indirect_access_flags_t flags)
{
    static const char call[] = "zeKernelSetIndirectAccess";
    struct fake_kernel *found = (void *)kernel;
    if (!enter(found, call))
        return ZE_RESULT_ERROR_INVALID_ARGUMENT;
    int is_good =
        fake_expect(flags <= 7, call, "zeKernelSetIndirectAccess, Parameters", "flags that are none");
    if (is_good)
        found->indirect = flags;
    found->users--;
    return is_good ? ZE_RESULT_SUCCESS : ZE_RESULT_ERROR_INVALID_ENUMERATION;
}

int fake_kernel_launch(ze_kernel_handle_t kernel, const struct fake_context *context, int device,
                       const ze_group_count_t *groups, struct fake_launch *launch)
{
    static const char call[] = "zeCommandListAppendLaunchKernel";
    struct fake_kernel *found = (void *)kernel;
    if (!fake_expect(found != NULL, call, "zeCommandListAppendLaunchKernel, Parameters", "hKernel is NULL") ||
        !fake_expect(groups != NULL, call, "zeCommandListAppendLaunchKernel, Parameters",
                     "pLaunchFuncArgs is NULL") ||
        !enter(found, call))
        return 0;
    uint32_t all = (1u << found->entry->argument_count) - 1;
    int is_good = fake_expect(found->module->context == context && found->module->device == device, call,
                              call, "the kernel is of another context or device") &&
                  fake_expect(found->group_size > 0, call, sections, "no group size was set") &&
                  fake_expect((found->set & all) == all, call, sections, "an argument was not set") &&
                  fake_expect(groups->groupCountX && groups->groupCountY && groups->groupCountZ, call,
                              "ze_group_count_t", "there are no groups");
    if (is_good) {
        *launch = (struct fake_launch){.function = found->function,
                                       .device = device,
                                       .groups = groups->groupCountX,
                                       .pointers = found->entry->pointers,
                                       .indirect = found->indirect,
                                       .kernel = found};
        memcpy(launch->arguments, found->arguments, sizeof launch->arguments);
    }
    found->users--;
    return is_good;
}
