/* SPDX-License-Identifier: Apache-2.0 */
/* build: wrap dlopen dlsym; beside drivers */
/* Finding and starting CUDA's driver, and what is said when that fails. dlopen() and dlsym() are this file's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>
#include <dlfcn.h>

#include "tests/support/cuda_checks.h"
#include "tests/support/cuda_scene.h"

static const struct weft_device_ops *ops = &weft_cuda_ops;
static struct cuda_fake *fake;
static int is_installed, is_in_process, asked; /* asked: how often the library was looked for */
static const char *hidden;
static char memory[64];

void *__real_dlopen(const char *name, int flags);
void *__wrap_dlopen(const char *name, int flags);
void *__wrap_dlopen(const char *name, int flags)
{
    if (!name || strcmp(name, "libcuda.so.1") != 0)
        return __real_dlopen(name, flags);
    asked++;
    if ((flags & RTLD_NOLOAD) ? !is_in_process : !is_installed)
        return NULL;
    is_in_process = 1;
    return __real_dlopen(scene_library(), flags & ~RTLD_NOLOAD);
}

void *__real_dlsym(void *handle, const char *name);
void *__wrap_dlsym(void *handle, const char *name);
void *__wrap_dlsym(void *handle, const char *name)
{
    return hidden && strcmp(name, hidden) == 0 ? NULL : __real_dlsym(handle, name);
}

static int setup(void **state)
{
    (void)state;
    fake = scene_load();
    is_installed = 1;
    is_in_process = 0;
    hidden = NULL;
    scene_text();
    scene_logged();
    return !fake;
}

static void assert_missing(struct weft_device *device, const char *part)
{
    assert_int_equal(ops->count(device), WEFT_NOT_FOUND);
    cuda_check_said(part);
}

static int identify(struct weft_device *device, const void *pointer)
{
    struct weft_device_span span = {.size = sizeof span};
    return ops->identify(device, pointer, &span);
}

/* Nothing is loaded, or called, for pointers. */
static void test_not_there(void **state)
{
    (void)state;
    struct weft_device *device = scene_open();
    asked = 0;
    assert_int_equal(identify(device, memory), WEFT_NOT_FOUND);
    int once = asked;
    assert_int_equal(identify(device, memory), WEFT_NOT_FOUND);
    assert_int_equal(asked, once); /* nothing was loaded since */
    assert_int_equal(ops->in_use(device), 0);
    assert_string_equal(scene_text(), "");
    assert_int_equal(is_in_process, 0);
    assert_int_equal(fake->calls("cuInit"), 0);
    is_installed = 0;
    assert_missing(device, "libcuda.so.1 cannot be loaded");
    is_installed = 1;
    assert_int_equal(ops->count(device), 2);
    assert_int_equal(fake->calls("cuInit"), 1);
    assert_int_equal(ops->in_use(device), 1);
    ops->close(device);
}

static void test_loaded_later(void **state)
{
    (void)state;
    struct weft_device *device = scene_open();
    assert_int_equal(identify(device, memory), WEFT_NOT_FOUND);
    is_in_process = 1;
    void *other = __real_dlopen("libz.so.1", RTLD_NOW); /* whatever moves the linker's counter */
    if (!other)
        other = __real_dlopen("libutil.so.1", RTLD_NOW);
    CUdeviceptr pointer;
    CUcontext context;
    assert_int_equal(scene_enter(0, &context), 0);
    assert_int_equal(CU(cuMemAlloc_v2)(&pointer, 4096), 0);
    if (other)
        assert_int_equal(identify(device, (void *)(uintptr_t)pointer), WEFT_OK);
    CU(cuMemFree_v2)(pointer);
    assert_int_equal(scene_leave(0, context), 0);
    if (other)
        dlclose(other);
    ops->close(device);
}

static void test_too_old(void **state)
{
    (void)state;
    struct weft_device *device = scene_open();
    fake->version = 10020;
    assert_missing(device, "serves CUDA 10.2, needed is 11.4");
    assert_int_equal(fake->calls("cuInit"), 0);
    is_in_process = 1;
    assert_int_equal(identify(device, memory), WEFT_NOT_FOUND);
    scene_logged();
    ops->close(device);

    device = scene_open(); /* said once, not for each pointer */
    assert_int_equal(identify(device, memory), WEFT_NOT_FOUND);
    cuda_check_said("needed is 11.4");
    void *other = __real_dlopen("libresolv.so.2", RTLD_NOW);
    assert_int_equal(identify(device, memory), WEFT_NOT_FOUND);
    if (other)
        dlclose(other);
    assert_int_equal(scene_logged(), 1);
    fake->version = 0;
    assert_missing(device, "does not report its version");
    ops->close(device);
}

static void test_lacks_functions(void **state)
{
    (void)state;
    struct weft_device *device = scene_open();
    hidden = "cuDriverGetVersion";
    assert_missing(device, "does not report its version");
    hidden = "cuMemcpyAsync";
    assert_missing(device, "of CUDA 13.0, lacks cuMemcpyAsync");
    hidden = "cuMemGetHandleForAddressRange"; /* 11.7's: done without */
    assert_int_equal(ops->count(device), 2);
    struct weft_device_info info = {.size = sizeof info};
    assert_int_equal(ops->describe(device, 1, &info), WEFT_OK);
    assert_int_equal(info.flags & WEFT_DEVICE_DMABUF, 0);
    assert_int_not_equal(info.flags & WEFT_DEVICE_STREAM_WAITS, 0);
    ops->close(device);

    device = scene_open();
    hidden = "cuDeviceGetUuid_v2";
    assert_int_equal(ops->describe(device, 1, &info), WEFT_OK);
    assert_int_equal(info.uuid[0], 0x10);
    ops->close(device);
}

/* Memory operations of the first version work where they are switched on. */
static void test_first_memory_operations(void **state)
{
    (void)state;
    for (int has = 0; has < 2; has++) {
        struct weft_device_info info = {.size = sizeof info};
        struct weft_device_wait *wait;
        struct weft_device *device = scene_open();
        hidden = "cuStreamWaitValue32_v2";
        fake->has_memory_operations = has;
        assert_int_equal(ops->describe(device, 0, &info), WEFT_OK);
        assert_int_equal((info.flags & WEFT_DEVICE_STREAM_WAITS) != 0, has);
        assert_int_equal(ops->wait_stream(device, 0, NULL, &wait), has ? WEFT_OK : WEFT_UNSUPPORTED);
        if (has) {
            assert_int_equal(ops->wait_open(wait, NULL), WEFT_OK);
            scene_drain(NULL);
            ops->wait_free(wait);
        } else
            cuda_check_said("no memory operations in streams");
        ops->close(device);
    }
}

static void test_does_not_start(void **state)
{
    (void)state;
    struct weft_device *device = scene_open();
    fake->init_result = 100;
    assert_missing(device,
                   "starting CUDA 13.0: CUDA_ERROR_NO_DEVICE, 100 (no CUDA-capable device is detected)");
    fake->init_result = 803;
    assert_missing(device, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH");
    fake->init_result = 12345;
    assert_missing(device, "an unknown error, 12345 (the driver has no text for it)");
    fake->init_result = 2;
    assert_int_equal(ops->count(device), WEFT_NOMEM);
    fake->init_result = 0;
    fake->devices = 0;
    assert_missing(device, "no CUDA-capable device");
    fake->devices = 2;
    fake->let_fail("cuDeviceGet", 999, 1);
    assert_int_equal(ops->count(device), WEFT_SYSTEM);
    cuda_check_said("device 1");
    fake->devices = 70;
    assert_int_equal(ops->count(device), 64);
    assert_int_equal(ops->describe(device, 64, &(struct weft_device_info){.size = 8}), WEFT_INVALID);
    cuda_check_said("no CUDA device 64");
    fake->devices = 2;
    ops->close(device);
}

static void test_describe(void **state)
{
    (void)state;
    struct weft_device *device = scene_open();
    struct weft_device_info info, small;
    memset(&info, 0xee, sizeof info);
    info.size = sizeof info;
    assert_int_equal(ops->describe(device, 1, &info), WEFT_OK);
    assert_string_equal(info.name, "NVIDIA Fake 1");
    assert_string_equal(info.pci, "0000:3c:00.0");
    assert_int_equal(strncmp(info.runtime, "CUDA 13.0", 9), 0);
    assert_int_equal(info.uuid[15], 0x21);
    assert_int_equal(info.memory_bytes, (uint64_t)80 << 30);
    assert_true(info.numa >= -1);
    assert_int_equal(info.flags & WEFT_DEVICE_IPC, WEFT_DEVICE_IPC);
    /* An older caller's struct. */
    memset(&small, 0xee, sizeof small);
    small.size = offsetof(struct weft_device_info, pci);
    assert_int_equal(ops->describe(device, 1, &small), WEFT_OK);
    assert_string_equal(small.name, "NVIDIA Fake 1");
    assert_int_equal((unsigned char)small.pci[0], 0xee);
    fake->let_fail("cuDeviceGetName", 999, 0);
    assert_int_equal(ops->describe(device, 1, &info), WEFT_SYSTEM);
    fake->let_fail("cuDeviceGetPCIBusId", 999, 0);
    fake->let_fail("cuDeviceGetUuid_v2", 999, 0);
    assert_int_equal(ops->describe(device, 1, &info), WEFT_OK);
    assert_string_equal(info.pci, "");
    assert_int_equal(info.numa, -1);
    assert_int_equal(info.uuid[0], 0);
    assert_int_equal(fake->calls("cuDevicePrimaryCtxRetain"), 0);
    ops->close(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_not_there, setup),
        cmocka_unit_test_setup(test_loaded_later, setup),
        cmocka_unit_test_setup(test_too_old, setup),
        cmocka_unit_test_setup(test_lacks_functions, setup),
        cmocka_unit_test_setup(test_first_memory_operations, setup),
        cmocka_unit_test_setup(test_does_not_start, setup),
        cmocka_unit_test_setup(test_describe, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
