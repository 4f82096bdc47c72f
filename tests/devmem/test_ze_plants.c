/* SPDX-License-Identifier: Apache-2.0 */
/* build: needs ze; beside ze */
/* What the fake driver finds of modules, kernels and launches: each thing that the specification forbids, planted. Of memory, lists and events:
 * test_ze_work.c. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/clock.h"
#include "devmem/registry.h"
#include "devmem/ze/launch.h"
#include "tests/support/child.h"
#include "tests/support/skip.h"
#include "tests/support/ze_scene.h"

static struct weft_device_ops ops; /* complete */
static struct weft_device *device;
static struct ze_fake *fake;

static int begin(void)
{
    fake = ze_scene_begin(&ops, &device);
    unsetenv("ZE_ENABLE_VALIDATION_LAYER");
    return fake != NULL;
}

#define PLANT(call, what)                                                                                    \
    do {                                                                                                     \
        fake->violations = 0;                                                                                \
        ZE_CHECK((call) != ZE_RESULT_SUCCESS);                                                               \
        ZE_CHECK(fake->violations == 1 && strstr(fake->first_violation, what));                              \
    } while (0)

static ze_module_desc_t module_of(int group)
{
    ze_module_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_MODULE_DESC, .format = ZE_MODULE_FORMAT_IL_SPIRV};
    desc.pInputModule = weft_ze_module_image(group, &desc.inputSize);
    return desc;
}

static int plant_modules(void)
{
    ze_module_handle_t module;
    ze_module_build_log_handle_t log;
    ze_kernel_handle_t kernel;
    char text[4];
    size_t size;
    ZE_CHECK(begin());
    ZE_CHECK(ops.count(device) == 2);
    const struct weft_ze_driver *driver = &device->driver;
    ze_context_handle_t context = device->places[0].context;
    ze_device_handle_t place = device->ordinals[0].device;
    ze_module_desc_t desc = module_of(WEFT_ZE_GROUP_float32), bad = desc;
    bad.stype = ZE_STRUCTURE_TYPE_KERNEL_DESC;
    PLANT(driver->zeModuleCreate(context, place, &bad, &module, NULL), "stype is another struct's");
    bad = desc;
    bad.format = ZE_MODULE_FORMAT_NATIVE;
    PLANT(driver->zeModuleCreate(context, place, &bad, &module, NULL), "the format is not SPIR-V");
    bad = desc;
    bad.inputSize = 0;
    PLANT(driver->zeModuleCreate(context, place, &bad, &module, NULL), "inputSize is 0");
    bad.inputSize = desc.inputSize - 4; /* in a function */
    PLANT(driver->zeModuleCreate(context, place, &bad, &module, NULL), "the module is no SPIR-V");
    bad = desc;
    bad.pInputModule = NULL;
    PLANT(driver->zeModuleCreate(context, place, &bad, &module, NULL), "pInputModule is NULL");
    bad.pInputModule = (const uint8_t *)"not of that kind of file, by far";
    bad.inputSize = 32;
    PLANT(driver->zeModuleCreate(context, place, &bad, &module, NULL), "the module is no SPIR-V");
    bad = desc;
    bad.pBuildFlags = "-O3";
    PLANT(driver->zeModuleCreate(context, place, &bad, &module, NULL), "an option that is none");
    ZE_CHECK(driver->zeModuleCreate(context, place, &desc, &module, &log) == ZE_RESULT_SUCCESS);
    PLANT(driver->zeModuleBuildLogGetString(log, NULL, text), "pSize is NULL");
    size = 0;
    PLANT(driver->zeModuleBuildLogGetString(log, &size, text), "less room than pSize");
    ZE_CHECK(driver->zeModuleBuildLogDestroy(log) == ZE_RESULT_SUCCESS);
    ze_kernel_desc_t named = {.stype = ZE_STRUCTURE_TYPE_KERNEL_DESC, .pKernelName = "weft_ze_int8_sum"};
    PLANT(driver->zeKernelCreate(module, &named, &kernel), "no entry point of that name");
    named.pKernelName = NULL;
    PLANT(driver->zeKernelCreate(module, &named, &kernel), "pKernelName is NULL");
    named.pKernelName = "weft_ze_float32_sum";
    named.flags = 1u << 9;
    PLANT(driver->zeKernelCreate(module, &named, &kernel), "flags that are none");
    named.flags = 0;
    ZE_CHECK(driver->zeKernelCreate(module, &named, &kernel) == ZE_RESULT_SUCCESS);
    PLANT(driver->zeModuleDestroy(module), "the module still has kernels");
    fake->violations = 0;
    ZE_CHECK(driver->zeKernelDestroy(kernel) == ZE_RESULT_SUCCESS);
    ZE_CHECK(driver->zeModuleDestroy(module) == ZE_RESULT_SUCCESS);
    return ze_scene_end(&ops, fake, device);
}

static int set_arguments(const struct weft_ze_driver *driver, ze_kernel_handle_t kernel, void *memory)
{
    const uint64_t number = 0;
    int status = 0;
    for (uint32_t a = 0; a < WEFT_ZE_ARGUMENTS; a++)
        status |=
            driver->zeKernelSetArgumentValue(kernel, a, a < WEFT_ZE_POINTERS + WEFT_ZE_LONGS ? 8 : 4,
                                             a == 0 ? (const void *)&memory : &number) != ZE_RESULT_SUCCESS;
    return status;
}

static int plant_launches(void)
{
    struct weft_device_queue *queue, *far;
    ze_module_handle_t module;
    ze_kernel_handle_t kernel;
    ze_command_list_handle_t copies;
    void *memory, *freed;
    float host = 0;
    ZE_CHECK(begin());
    ZE_CHECK(ops.allocate(device, 0, WEFT_MEMORY_DEVICE, 100, &memory) == WEFT_OK);
    ZE_CHECK(ops.allocate(device, 0, WEFT_MEMORY_DEVICE, 100, &freed) == WEFT_OK);
    ZE_CHECK(ops.release(device, freed) == WEFT_OK);
    ZE_CHECK(ops.queue_open(device, 0, &queue) == WEFT_OK && ops.queue_open(device, 1, &far) == WEFT_OK);
    const struct weft_ze_driver *driver = &device->driver;
    ze_context_handle_t context = device->places[0].context;
    ze_command_list_handle_t list = queue->channel.list;
    const ze_module_desc_t desc = module_of(WEFT_ZE_GROUP_float32);
    const ze_kernel_desc_t named = {.stype = ZE_STRUCTURE_TYPE_KERNEL_DESC,
                                    .pKernelName = "weft_ze_float32_sum"};
    const ze_command_queue_desc_t of_copies = {.stype = ZE_STRUCTURE_TYPE_COMMAND_QUEUE_DESC};
    ze_group_count_t one = {1, 1, 1}, none = {1, 0, 1};
    ZE_CHECK(driver->zeModuleCreate(context, device->ordinals[0].device, &desc, &module, NULL) == 0 &&
             driver->zeKernelCreate(module, &named, &kernel) == 0);
    ZE_CHECK(driver->zeCommandListCreateImmediate(context, device->ordinals[0].device, &of_copies, &copies) ==
             0);
    PLANT(driver->zeKernelSetGroupSize(kernel, 2048, 1, 1), "larger than the device has them");
    PLANT(driver->zeKernelSetGroupSize(kernel, 128, 1, 1), "demands another group size");
    PLANT(driver->zeKernelSetIndirectAccess(kernel, 8), "flags that are none");
    PLANT(driver->zeKernelSetArgumentValue(kernel, WEFT_ZE_ARGUMENTS, 8, NULL), "no such argument");
    PLANT(driver->zeKernelSetArgumentValue(kernel, 15, 8, NULL), "another size");
    PLANT(driver->zeCommandListAppendLaunchKernel(list, kernel, &one, NULL, 0, NULL),
          "no group size was set");
    ZE_CHECK(driver->zeKernelSetGroupSize(kernel, 256, 1, 1) == ZE_RESULT_SUCCESS);
    PLANT(driver->zeCommandListAppendLaunchKernel(list, kernel, &one, NULL, 0, NULL),
          "an argument was not set");
    ZE_CHECK(set_arguments(driver, kernel, memory) == 0);
    PLANT(driver->zeCommandListAppendLaunchKernel(list, kernel, &none, NULL, 0, NULL), "there are no groups");
    PLANT(driver->zeCommandListAppendLaunchKernel(list, kernel, NULL, NULL, 0, NULL),
          "pLaunchFuncArgs is NULL");
    PLANT(driver->zeCommandListAppendLaunchKernel(far->channel.list, kernel, &one, NULL, 0, NULL),
          "another context or device");
    PLANT(driver->zeCommandListAppendLaunchKernel(copies, kernel, &one, NULL, 0, NULL), "does not compute");
    ZE_CHECK(set_arguments(driver, kernel, freed) == 0);
    PLANT(driver->zeCommandListAppendLaunchKernel(list, kernel, &one, NULL, 0, NULL), "does not reach");
    ZE_CHECK(set_arguments(driver, kernel, &host) == 0);
    PLANT(driver->zeCommandListAppendLaunchKernel(list, kernel, &one, NULL, 0, NULL), "does not reach");
    struct weft_device_event *never = weft_ze_event_get(device, 0);
    ZE_CHECK(never && set_arguments(driver, kernel, memory) == 0);
    fake->violations = 0;
    ZE_CHECK(driver->zeCommandListAppendLaunchKernel(list, kernel, &one, NULL, 1, &never->handle) ==
             ZE_RESULT_SUCCESS);
    PLANT(driver->zeKernelDestroy(kernel), "a command in flight uses the kernel");
    PLANT(driver->zeMemFree(context, memory), "a command in flight uses the memory");
    fake->violations = 0;
    return 0;
}

/* One of two threads that set arguments of one kernel. */
struct setter {
    pthread_t thread;
    const struct weft_ze_driver *driver;
    ze_kernel_handle_t kernel;
    int64_t until_ns;
};

static void *set_again_and_again(void *arg)
{
    const struct setter *setter = arg;
    const uint64_t number = 0;
    while (!fake->violations && weft_clock_ns() < setter->until_ns)
        setter->driver->zeKernelSetArgumentValue(setter->kernel, 10, sizeof number, &number);
    return NULL;
}

static int plant_threads(void)
{
    struct setter setters[2];
    ze_module_handle_t module;
    ze_kernel_handle_t kernel;
    ZE_CHECK(begin() && ops.count(device) == 2);
    const struct weft_ze_driver *driver = &device->driver;
    const ze_module_desc_t desc = module_of(WEFT_ZE_GROUP_bits);
    const ze_kernel_desc_t named = {.stype = ZE_STRUCTURE_TYPE_KERNEL_DESC, .pKernelName = "weft_ze_bits_or"};
    ZE_CHECK(driver->zeModuleCreate(device->places[0].context, device->ordinals[0].device, &desc, &module,
                                    NULL) == 0 &&
             driver->zeKernelCreate(module, &named, &kernel) == 0);
    for (int i = 0; i < 2; i++) {
        setters[i] = (struct setter){.driver = driver, .kernel = kernel};
        setters[i].until_ns = weft_clock_ns() + 20 * INT64_C(1000000000);
        ZE_CHECK(pthread_create(&setters[i].thread, NULL, set_again_and_again, &setters[i]) == 0);
    }
    for (int i = 0; i < 2; i++)
        pthread_join(setters[i].thread, NULL);
    ZE_CHECK(fake->violations && strstr(fake->first_violation, "two threads use one kernel"));
    fake->violations = 0;
    ZE_CHECK(driver->zeKernelDestroy(kernel) == 0 && driver->zeModuleDestroy(module) == 0);
    return ze_scene_end(&ops, fake, device);
}

/* What streams are made of. */
static int plant_streams(void)
{
    const ze_event_pool_desc_t hidden = {.stype = ZE_STRUCTURE_TYPE_EVENT_POOL_DESC, .count = 1};
    const ze_event_desc_t one = {.stype = ZE_STRUCTURE_TYPE_EVENT_DESC};
    struct weft_device_queue *queue, *far;
    ze_event_pool_handle_t pool;
    ze_event_handle_t event;
    uint64_t ticks;
    ZE_CHECK(begin());
    fake->driver_count = 2;
    fake->devices[1].driver = 1;
    ZE_CHECK(ops.queue_open(device, 0, &queue) == WEFT_OK && ops.queue_open(device, 1, &far) == WEFT_OK);
    const struct weft_ze_driver *driver = &device->driver;
    ZE_CHECK(driver->zeEventPoolCreate(device->places[0].context, &hidden, 0, NULL, &pool) == 0 &&
             driver->zeEventCreate(pool, &one, &event) == 0);
    PLANT(driver->zeEventHostSignal(event), "not visible to the host");
    PLANT(driver->zeEventHostReset(event), "not visible to the host");
    PLANT(driver->zeEventQueryStatus(event), "not visible to the host");
    PLANT(driver->zeCommandListAppendBarrier(far->channel.list, event, 0, NULL),
          "an event of another driver");
    PLANT(driver->zeCommandListAppendBarrier(far->channel.list, NULL, 1, &event),
          "an event of another driver");
    PLANT(driver->zeCommandListAppendWriteGlobalTimestamp(queue->channel.list, &ticks, NULL, 0, NULL),
          "does not reach dstptr");
    PLANT(driver->zeCommandListAppendWriteGlobalTimestamp(
              queue->channel.list, (uint64_t *)(void *)((char *)&ticks + 4), NULL, 0, NULL),
          "not aligned to 8 bytes");
    ze_command_queue_handle_t commands;
    const ze_command_queue_desc_t asynchronous = {.stype = ZE_STRUCTURE_TYPE_COMMAND_QUEUE_DESC,
                                                  .mode = ZE_COMMAND_QUEUE_MODE_ASYNCHRONOUS};
    ZE_CHECK(driver->zeCommandQueueCreate(device->places[0].context, device->ordinals[0].device,
                                          &asynchronous, &commands) == 0);
    PLANT(driver->zeCommandListAppendBarrier((void *)commands, NULL, 0, NULL),
          "a command queue is given as a command list");
    PLANT(driver->zeCommandQueueExecuteCommandLists((void *)queue->channel.list, 0, NULL, NULL),
          "a command list is given as a command queue");
    fake->violations = 0;
    ZE_CHECK(driver->zeCommandQueueDestroy(commands) == 0);
    return 0;
}

/* One of two threads that append to one list. */
struct appender {
    pthread_t thread;
    const struct weft_ze_driver *driver;
    ze_command_list_handle_t list;
    int64_t until_ns;
};

static void *append_again_and_again(void *arg)
{
    const struct appender *appender = arg;
    while (!fake->violations && weft_clock_ns() < appender->until_ns)
        appender->driver->zeCommandListAppendBarrier(appender->list, NULL, 0, NULL);
    return NULL;
}

static int plant_appenders(void)
{
    struct appender appenders[2];
    struct weft_device_queue *queue;
    ZE_CHECK(begin() && ops.queue_open(device, 0, &queue) == WEFT_OK);
    for (int i = 0; i < 2; i++) {
        appenders[i] = (struct appender){.driver = &device->driver, .list = queue->channel.list};
        appenders[i].until_ns = weft_clock_ns() + 20 * INT64_C(1000000000);
        ZE_CHECK(pthread_create(&appenders[i].thread, NULL, append_again_and_again, &appenders[i]) == 0);
    }
    for (int i = 0; i < 2; i++)
        pthread_join(appenders[i].thread, NULL);
    ZE_CHECK(fake->violations && strstr(fake->first_violation, "two threads append to one list"));
    fake->violations = 0;
    ops.queue_close(queue);
    return ze_scene_end(&ops, fake, device);
}

static void in_a_child(int (*function)(void))
{
    if (!weft_ze_has_kernels())
        TEST_SKIP("the library was built without clang or llvm-spirv");
    assert_int_equal(test_child(function), 0);
}

static void test_modules(void **state)
{
    (void)state;
    in_a_child(plant_modules);
}

static void test_launches(void **state)
{
    (void)state;
    in_a_child(plant_launches);
}

static void test_setters(void **state)
{
    (void)state;
    in_a_child(plant_threads);
}

static void test_streams(void **state)
{
    (void)state;
    assert_int_equal(test_child(plant_streams), 0);
}

static void test_appenders(void **state)
{
    (void)state;
    assert_int_equal(test_child(plant_appenders), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_setters), cmocka_unit_test(test_modules),
                                       cmocka_unit_test(test_launches), cmocka_unit_test(test_streams),
                                       cmocka_unit_test(test_appenders)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
