/* SPDX-License-Identifier: Apache-2.0 */
/* build: needs ze; wrap dlopen dlsym; beside ze */
/* Finding Level Zero's loader and its drivers, and what is said where that fails. The loader is the real one, the driver that of
 * tests/fakes/ze/; each case is a process of its own, since a loader finds its drivers once. */
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>
#include <level_zero/ze_api.h>

#include "devmem/ze/ze.h"
#include "tests/support/child.h"
#include "tests/support/ze_scene.h"

static const struct weft_device_ops *const ops = &weft_ze_ops;
static const char *hidden; /* a symbol that no library has */
static int is_installed = 1;

void *__real_dlopen(const char *name, int flags);
void *__wrap_dlopen(const char *name, int flags);
void *__wrap_dlopen(const char *name, int flags)
{
    return name && !is_installed && strcmp(name, "libze_loader.so.1") == 0 ? NULL
                                                                           : __real_dlopen(name, flags);
}

void *__real_dlsym(void *handle, const char *name);
void *__wrap_dlsym(void *handle, const char *name);
void *__wrap_dlsym(void *handle, const char *name)
{
    return hidden && strcmp(name, hidden) == 0 ? NULL : __real_dlsym(handle, name);
}

static int describe(struct weft_device *device, int ordinal, struct weft_device_info *info)
{
    *info = (struct weft_device_info){.size = sizeof *info};
    return ops->describe(device, ordinal, info);
}

/* --- devices */

/* What is said of memory of the device: 1 or 0; -1: nothing. */
static int is_unlisted(struct weft_device *device, int ordinal)
{
    struct weft_device_span span = {.size = sizeof span};
    void *memory;
    if (ops->allocate(device, ordinal, WEFT_MEMORY_DEVICE, 100, &memory) != WEFT_OK)
        return -1;
    int is_known = ops->identify(device, memory, &span) == WEFT_OK && span.ordinal == ordinal;
    ops->release(device, memory);
    return is_known ? (span.flags & WEFT_SPAN_OWN_ORDINAL) != 0 : -1;
}

/* GPUs alone, in the order of drivers and of their devices. */
static int list(void)
{
    struct ze_fake *fake = ze_scene_load();
    ZE_CHECK(fake);
    fake->driver_count = 2;
    fake->device_count = 4;
    fake->devices[0] = (struct ze_fake_device){.driver = 1, .name = "second driver's"};
    fake->devices[1] = (struct ze_fake_device){.type = ZE_DEVICE_TYPE_CPU, .name = "a processor"};
    fake->devices[2] = (struct ze_fake_device){.bus = 0x3b, .memory_bytes = UINT64_C(48) << 30};
    fake->devices[3] = (struct ze_fake_device){.driver = 0};
    struct weft_device *device = ze_scene_open();
    struct weft_device_info info;
    ZE_CHECK(device);
    ZE_CHECK(ops->count(device) == 3);
    ZE_CHECK(describe(device, 0, &info) == WEFT_OK);
    ZE_CHECK(strcmp(info.name, "Fake GPU 2") == 0 && strcmp(info.pci, "0000:3b:00.0") == 0);
    ZE_CHECK(info.memory_bytes == UINT64_C(48) << 30 && info.uuid[0] == 0x5a && info.uuid[15] == 2);
    ZE_CHECK(strstr(info.runtime, "Level Zero 1.3, driver 17001234"));
    ZE_CHECK(describe(device, 1, &info) == WEFT_OK && strcmp(info.name, "Fake GPU 3") == 0);
    ZE_CHECK(describe(device, 2, &info) == WEFT_OK && strcmp(info.name, "second driver's") == 0);
    ZE_CHECK(describe(device, 3, &info) == WEFT_INVALID);
    ZE_CHECK(strstr(ze_said, "there is no Level Zero device 3, there are 3"));
    /* Of the first driver's list the processor is first; the second driver's is in no list of other libraries'. */
    for (int i = 0; i < 3; i++)
        ZE_CHECK(is_unlisted(device, i) == 1);
    ZE_CHECK(describe(device, -1, &info) == WEFT_INVALID);
    ZE_CHECK(fake->inits >= 1 && fake->violations == 0);
    ops->close(device);
    return 0;
}

/* Devices have the numbers that other libraries give them, as long as nothing is in between. */
static int list_of_others(void)
{
    struct ze_fake *fake = ze_scene_load();
    ZE_CHECK(fake);
    fake->driver_count = 2;
    fake->device_count = 5;
    fake->devices[1] = (struct ze_fake_device){.driver = 1};
    fake->devices[3] = (struct ze_fake_device){.type = ZE_DEVICE_TYPE_CPU};
    struct weft_device *device = ze_scene_open();
    ZE_CHECK(device && ops->count(device) == 4);
    ZE_CHECK(is_unlisted(device, 0) == 0 && is_unlisted(device, 1) == 0);
    ZE_CHECK(is_unlisted(device, 2) == 1); /* behind the processor */
    ZE_CHECK(is_unlisted(device, 3) == 1); /* of the other driver */
    ops->close(device);
    return 0;
}

/* The first driver fails: the devices that are left are not those of the list. */
static int list_without_first(void)
{
    struct ze_fake *fake = ze_scene_load();
    ZE_CHECK(fake);
    fake->driver_count = 2;
    fake->device_count = 2;
    fake->devices[1] = (struct ze_fake_device){.driver = 1};
    fake->sick_driver = 1;
    struct weft_device *device = ze_scene_open();
    ZE_CHECK(device && ops->count(device) == 1);
    ZE_CHECK(is_unlisted(device, 0) == 1);
    ops->close(device);
    return 0;
}

static void test_numbers_of_others(void **state)
{
    (void)state;
    assert_int_equal(test_child(list_of_others), 0);
    assert_int_equal(test_child(list_without_first), 0);
}

static void test_list(void **state)
{
    (void)state;
    assert_int_equal(test_child(list), 0);
}

/* What a driver does not say stays empty, and is no failure. */
static int list_little(void)
{
    struct ze_fake *fake = ze_scene_load();
    ZE_CHECK(fake);
    fake->device_count = 1;
    fake->no_pci = fake->no_memories = 1;
    struct weft_device *device = ze_scene_open();
    struct weft_device_info info;
    ZE_CHECK(device && describe(device, 0, &info) == WEFT_OK);
    ZE_CHECK(!*info.pci && info.numa == -1 && info.memory_bytes == 0);
    struct weft_device_info small = {.size = offsetof(struct weft_device_info, pci), .pci = "kept"};
    ZE_CHECK(ops->describe(device, 0, &small) == WEFT_OK);
    ZE_CHECK(strcmp(small.name, "Fake GPU 0") == 0 && strcmp(small.pci, "kept") == 0);
    ZE_CHECK(fake->violations == 0);
    ops->close(device);
    return 0;
}

static void test_list_little(void **state)
{
    (void)state;
    assert_int_equal(test_child(list_little), 0);
}

/* --- what is not there */

/* Nothing is loaded, or started, for pointers. */
static int cost_nothing(void)
{
    struct ze_fake *fake = ze_scene_load();
    ZE_CHECK(fake);
    fake->device_count = 1;
    struct weft_device *device = ze_scene_open();
    struct weft_device_span span = {.size = sizeof span};
    ZE_CHECK(device);
    ZE_CHECK(ops->identify(device, &span, &span) == WEFT_NOT_FOUND && !*ze_said);
    ZE_CHECK(ops->in_use(device) == 0);
    ZE_CHECK(!__real_dlopen("libze_loader.so.1", RTLD_NOW | RTLD_NOLOAD));
    ops->close(device);
    ZE_CHECK(fake->inits == 0);
    return 0;
}

static void test_cost_nothing(void **state)
{
    (void)state;
    assert_int_equal(test_child(cost_nothing), 0);
}

static int miss(void)
{
    struct ze_fake *fake = ze_scene_load();
    ZE_CHECK(fake);
    fake->device_count = 1;
    struct weft_device *device = ze_scene_open();
    ZE_CHECK(device);
    is_installed = 0;
    ZE_CHECK(ops->count(device) == WEFT_NOT_FOUND && strstr(ze_said, "libze_loader.so.1 cannot be loaded"));
    is_installed = 1;
    hidden = "zeDeviceGetProperties";
    ZE_CHECK(ops->count(device) == WEFT_NOT_FOUND &&
             strstr(ze_said, "libze_loader.so.1 lacks zeDeviceGetProperties"));
    hidden = "zeDevicePciGetPropertiesExt"; /* which may be missing */
    ZE_CHECK(ops->count(device) == 1);
    struct weft_device_info info;
    ZE_CHECK(describe(device, 0, &info) == WEFT_OK && !*info.pci);
    ops->close(device);
    return 0;
}

static void test_miss(void **state)
{
    (void)state;
    assert_int_equal(test_child(miss), 0);
}

static int no_driver(void)
{
    setenv("ZE_ENABLE_ALT_DRIVERS", "/there-is-no-such-driver.so", 1);
    struct weft_device *device = ze_scene_open();
    ZE_CHECK(device);
    ZE_CHECK(ops->count(device) == WEFT_NOT_FOUND);
    ZE_CHECK(strstr(ze_said, "libze_loader.so.1 finds no driver that works"));
    ops->close(device);
    return 0;
}

static int no_gpu(void)
{
    struct ze_fake *fake = ze_scene_load();
    ZE_CHECK(fake);
    fake->device_count = 1;
    fake->devices[0].type = ZE_DEVICE_TYPE_VPU;
    struct weft_device *device = ze_scene_open();
    ZE_CHECK(device);
    ZE_CHECK(ops->count(device) == WEFT_NOT_FOUND &&
             strstr(ze_said, "libze_loader.so.1 has 1 driver, and no GPU"));
    ops->close(device);
    return 0;
}

static void test_no_driver(void **state)
{
    (void)state;
    assert_int_equal(test_child(no_driver), 0);
    assert_int_equal(test_child(no_gpu), 0);
}

/* What fails once is tried again. */
static int fail_once(void)
{
    struct ze_fake *fake = ze_scene_load();
    ZE_CHECK(fake);
    fake->device_count = 1;
    struct weft_device *device = ze_scene_open();
    ZE_CHECK(device);
    fake->properties_result = ZE_RESULT_ERROR_DEVICE_LOST;
    ZE_CHECK(ops->count(device) == WEFT_SYSTEM);
    ZE_CHECK(
        strstr(ze_said, "asking for device 0: ZE_RESULT_ERROR_DEVICE_LOST, 0x70000001 (the device hung"));
    fake->properties_result = 0;
    fake->device_get_result = ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY;
    ZE_CHECK(ops->count(device) == WEFT_NOMEM && strstr(ze_said, "asking for devices: "));
    fake->device_get_result = 0x70ffffff;
    ZE_CHECK(ops->count(device) == WEFT_SYSTEM && strstr(ze_said, "an unknown result, 0x70ffffff"));
    fake->device_get_result = 0;
    ZE_CHECK(ops->count(device) == 1 && fake->violations == 0);
    ops->close(device);
    return 0;
}

static void test_fail_once(void **state)
{
    (void)state;
    assert_int_equal(test_child(fail_once), 0);
}

/* Drivers cannot be used in a forked child. */
static int use_in_child(void)
{
    struct ze_fake *fake = ze_scene_load();
    ZE_CHECK(fake);
    fake->device_count = 1;
    struct weft_device *device = ze_scene_open();
    ZE_CHECK(device && ops->count(device) == 1);
    pid_t pid = fork();
    ZE_CHECK(pid >= 0);
    if (pid == 0)
        _exit(ops->count(device) != WEFT_INVALID || !strstr(ze_said, "forked"));
    int status;
    ZE_CHECK(waitpid(pid, &status, 0) == pid && status == 0);
    ZE_CHECK(ops->count(device) == 1);
    ops->close(device);
    return 0;
}

/* A lock that another thread of the parent has had at the fork is never given back in the child, so nothing there may wait for one. */
static int clean_in_child(void)
{
    static char page[4096] __attribute__((aligned(4096)));
    struct ze_fake *fake = ze_scene_load();
    ZE_CHECK(fake);
    fake->device_count = 1;
    struct weft_device *device = ze_scene_open();
    struct weft_device_queue *queue;
    struct weft_device_event *event, *more;
    void *memory;
    int status;
    ZE_CHECK(device && ops->allocate(device, 0, WEFT_MEMORY_DEVICE, 100, &memory) == WEFT_OK);
    ZE_CHECK(ops->pin(device, page, sizeof page) == WEFT_OK && ops->queue_open(device, 0, &queue) == WEFT_OK);
    ZE_CHECK(ops->mark(queue, &event) == WEFT_OK);
    pthread_mutex_lock(&device->lock);
    pid_t pid = fork();
    if (pid == 0) {
        alarm(10); /* instead of waiting for ever */
        int wrong = ops->test(event) != WEFT_INVALID || !strstr(ze_said, "forked");
        wrong |= (ops->mark(queue, &more) != WEFT_INVALID || !strstr(ze_said, "forked")) << 1;
        wrong |= (ops->await(queue, event) != WEFT_INVALID) << 2;
        wrong |= (ops->unpin(device, page, sizeof page) != WEFT_OK) << 3;
        ops->event_free(event);
        ops->queue_close(queue);
        wrong |= (ops->release(device, memory) != WEFT_OK) << 4;
        ops->close(device);
        _exit(wrong);
    }
    pthread_mutex_unlock(&device->lock);
    ZE_CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0);
    ops->event_free(event);
    ops->queue_close(queue);
    ZE_CHECK(ops->unpin(device, page, sizeof page) == WEFT_OK && ops->release(device, memory) == WEFT_OK);
    ops->close(device);
    ZE_CHECK(fake->violations == 0 && !fake->contexts && !fake->allocations);
    return 0;
}

static void test_clean_in_child(void **state)
{
    (void)state;
    assert_int_equal(test_child(clean_in_child), 0);
}

static void test_use_in_child(void **state)
{
    (void)state;
    assert_int_equal(test_child(use_in_child), 0);
}

/* --- the fake driver finds what the specification forbids */

#define PLANT(call, section)                                                                                 \
    do {                                                                                                     \
        fake->violations = 0;                                                                                \
        ZE_CHECK((call) != ZE_RESULT_SUCCESS);                                                               \
        ZE_CHECK(fake->violations == 1 && strstr(fake->first_violation, section));                           \
    } while (0)

static int plant(void)
{
    struct ze_fake *fake = ze_scene_load();
    ZE_CHECK(fake);
    unsetenv("ZE_ENABLE_VALIDATION_LAYER"); /* it would find some of them first */
    fake->device_count = 1;
    struct weft_ze_driver driver;
    ze_driver_handle_t from;
    ze_device_handle_t place;
    uint32_t count = 1;
    ZE_CHECK(weft_ze_driver_load(&driver, ze_said, sizeof ze_said) == 1);
    ZE_CHECK(driver.zeInit(0) == ZE_RESULT_SUCCESS && driver.zeDriverGet(&count, &from) == ZE_RESULT_SUCCESS);
    PLANT(driver.zeInit(1u << 30), "zeInit, Parameters");
    PLANT(driver.zeDriverGet(NULL, NULL), "pCount is NULL");
    ze_driver_properties_t of_driver = {.stype = ZE_STRUCTURE_TYPE_DEVICE_PROPERTIES};
    PLANT(driver.zeDriverGetProperties(from, &of_driver), "Structure Types");
    PLANT(driver.zeDriverGetProperties((ze_driver_handle_t)(void *)&count, &of_driver), "Object Handles");
    count = 1;
    ZE_CHECK(driver.zeDeviceGet(from, &count, &place) == ZE_RESULT_SUCCESS && count == 1);
    ze_device_properties_t of_device = {.stype = ZE_STRUCTURE_TYPE_DEVICE_PROPERTIES, .pNext = &of_driver};
    PLANT(driver.zeDeviceGetProperties(place, &of_device), "Extending Structures");
    PLANT(driver.zeDeviceGetProperties(place, NULL), "a struct is missing");
    PLANT(driver.zeDeviceGetProperties((ze_device_handle_t)(void *)&count, &of_device), "Object Handles");
    ze_device_memory_properties_t memory = {.stype = ZE_STRUCTURE_TYPE_DEVICE_PROPERTIES};
    PLANT(driver.zeDeviceGetMemoryProperties(place, &count, &memory), "Structure Types");
    return 0;
}

static void test_plant(void **state)
{
    (void)state;
    assert_int_equal(test_child(plant), 0);
}

/* The loader's own layer is on where these tests ask for it. */
static int layer(void)
{
    struct ze_fake *fake = ze_scene_load();
    ZE_CHECK(fake);
    fake->device_count = 1;
    struct weft_ze_driver driver;
    uint32_t count = 1;
    ZE_CHECK(weft_ze_driver_load(&driver, ze_said, sizeof ze_said) == 1 &&
             driver.zeInit(0) == ZE_RESULT_SUCCESS);
    ZE_CHECK(driver.zeDeviceGet(NULL, &count, NULL) == ZE_RESULT_ERROR_INVALID_NULL_HANDLE);
    ZE_CHECK(fake->violations == 0); /* it did not get there */
    return 0;
}

static void test_layer(void **state)
{
    (void)state;
    assert_int_equal(test_child(layer), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_list),           cmocka_unit_test(test_numbers_of_others),
        cmocka_unit_test(test_list_little),    cmocka_unit_test(test_cost_nothing),
        cmocka_unit_test(test_miss),           cmocka_unit_test(test_no_driver),
        cmocka_unit_test(test_fail_once),      cmocka_unit_test(test_use_in_child),
        cmocka_unit_test(test_clean_in_child), cmocka_unit_test(test_plant),
        cmocka_unit_test(test_layer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
