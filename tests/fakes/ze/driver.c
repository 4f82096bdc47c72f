/* SPDX-License-Identifier: Apache-2.0 */
/* Initialisation and drivers. */
#include <stdlib.h>
#include <string.h>

#include "tests/fakes/ze/fake.h"

struct ze_fake ze_fake __attribute__((visibility("default")));
_Atomic int fake_is_ready;

/* "NAME=NUMBER,...": numbers as strtoul() reads them, results in hexadecimal. */
static void read_environment(void)
{
    const char *at = getenv("WEFT_TEST_ZE"), *rank = getenv("LOCAL_RANK");
    uint32_t one_each = 0;
    const struct {
        const char *name;
        uint32_t *value;
        int base;
    } words[] = {
        {"one_each=", &one_each, 10},
        {"drivers=", &ze_fake.driver_count, 10},
        {"devices=", &ze_fake.device_count, 10},
        {"cpu=", &ze_fake.devices[0].type, 10},
        {"init=", &ze_fake.init_result, 16},
        {"properties=", &ze_fake.properties_result, 16},
        {"no_pci=", &ze_fake.no_pci, 10},
        {"no_immediate=", &ze_fake.no_immediate, 10},
        {"one_order=", &ze_fake.one_order, 10},
        {"one_engine=", &ze_fake.one_engine, 10},
        {"no_spirv=", &ze_fake.no_spirv, 10},
        {"no_float64=", &ze_fake.no_float64, 10},
        {"no_denormals=", &ze_fake.no_denormals, 10},
        {"no_division=", &ze_fake.no_division, 10},
        {"one_at_a_time=", &ze_fake.one_at_a_time, 10},
        {"one_index=", &ze_fake.one_index, 10},
        {"no_peers=", &ze_fake.no_peers, 10},
        {"no_dmabuf=", &ze_fake.no_dmabuf, 10},
        {"no_import=", &ze_fake.no_import, 10},
        {"tiles=", &ze_fake.devices[0].tiles, 10},
        {"module=", &ze_fake.module_result, 16},
    };
    while (at && *at) {
        for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
            size_t length = strlen(words[i].name);
            if (strncmp(at, words[i].name, length) == 0)
                *words[i].value = (uint32_t)strtoul(at + length, NULL, words[i].base);
        }
        at += strcspn(at, ",");
        at += *at == ',';
    }
    if (one_each) { /* as with a ZE_AFFINITY_MASK of its own for each rank: another device for each */
        ze_fake.device_count = 1;
        ze_fake.devices[0].number = 1 + (rank ? (uint32_t)strtoul(rank, NULL, 10) : 0);
    }
}

ze_result_t fake_init(ze_init_flags_t flags)
{
    if (!fake_is_ready && !ze_fake.device_count)
        read_environment();
    if (!fake_expect((flags & ~(ze_init_flags_t)(ZE_INIT_FLAG_GPU_ONLY | ZE_INIT_FLAG_VPU_ONLY)) == 0,
                     "zeInit", "zeInit, Parameters", "flags that are none"))
        return ZE_RESULT_ERROR_INVALID_ENUMERATION;
    ze_fake.inits++;
    if (ze_fake.init_result)
        return (ze_result_t)ze_fake.init_result;
    fake_is_ready = 1;
    return ZE_RESULT_SUCCESS;
}

/* A handle is the address of a byte of these. */
static char handles[ZE_FAKE_DRIVERS];

static uint32_t drivers_now(void)
{
    return ze_fake.driver_count ? ze_fake.driver_count : 1;
}

static int index_of(ze_driver_handle_t driver)
{
    for (uint32_t i = 0; i < drivers_now(); i++) {
        if ((void *)driver == &handles[i])
            return (int)i;
    }
    return -1;
}

static int is_driver(ze_driver_handle_t driver, const char *call)
{
    return fake_expect_ready(call) && fake_expect(index_of(driver) >= 0, call, "Fundamentals, Object Handles",
                                                  "this is no driver's handle");
}

ze_result_t fake_driver_get(uint32_t *count, ze_driver_handle_t *drivers)
{
    if (!fake_expect_ready("zeDriverGet"))
        return ZE_RESULT_ERROR_UNINITIALIZED;
    if (!fake_expect(count != NULL, "zeDriverGet", "zeDriverGet, Parameters", "pCount is NULL"))
        return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
    if (*count == 0 || *count > drivers_now())
        *count = drivers_now();
    for (uint32_t i = 0; drivers && i < *count; i++)
        drivers[i] = (ze_driver_handle_t)(void *)&handles[i];
    return ZE_RESULT_SUCCESS;
}

ze_result_t fake_driver_version(ze_driver_handle_t driver, ze_api_version_t *version)
{
    if (!is_driver(driver, "zeDriverGetApiVersion"))
        return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
    *version = ZE_API_VERSION_1_3;
    return ZE_RESULT_SUCCESS;
}

ze_result_t fake_driver_properties(ze_driver_handle_t driver, ze_driver_properties_t *properties)
{
    if (!is_driver(driver, "zeDriverGetProperties"))
        return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
    if (!fake_expect_struct(properties, ZE_STRUCTURE_TYPE_DRIVER_PROPERTIES, "zeDriverGetProperties"))
        return ZE_RESULT_ERROR_INVALID_ARGUMENT;
    properties->driverVersion = 17001234u + (uint32_t)index_of(driver);
    return ZE_RESULT_SUCCESS;
}

ze_result_t fake_driver_extensions(ze_driver_handle_t driver, uint32_t *count,
                                   ze_driver_extension_properties_t *extensions)
{
    (void)extensions;
    if (!is_driver(driver, "zeDriverGetExtensionProperties"))
        return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
    *count = 0;
    return ZE_RESULT_SUCCESS;
}

ze_result_t fake_driver_function(ze_driver_handle_t driver, const char *name, void **address)
{
    (void)name, (void)address;
    if (!is_driver(driver, "zeDriverGetExtensionFunctionAddress"))
        return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
    return ZE_RESULT_ERROR_INVALID_ARGUMENT;
}

int fake_driver_index(ze_driver_handle_t driver, const char *call)
{
    return is_driver(driver, call) ? index_of(driver) : -1;
}
