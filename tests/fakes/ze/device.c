/* SPDX-License-Identifier: Apache-2.0 */
/* Devices and what they are. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "tests/fakes/ze/fake.h"

#define TILES 8

/* A handle is the address of a byte of these: a device's is the first of its row, its tiles' follow. */
static char handles[ZE_FAKE_DEVICES][1 + TILES];

static uint32_t devices_now(void)
{
    return ze_fake.device_count < ZE_FAKE_DEVICES ? ze_fake.device_count : ZE_FAKE_DEVICES;
}

/* -1, a violation, for what is no device. */
int fake_device_index(ze_device_handle_t device, const char *call)
{
    if (!fake_expect_ready(call))
        return -1;
    for (uint32_t i = 0; i < devices_now(); i++) {
        for (uint32_t t = 0; t <= ze_fake.devices[i].tiles && t <= TILES; t++)
            if ((void *)device == &handles[i][t])
                return (int)i;
    }
    fake_expect(0, call, "Fundamentals, Object Handles", "this is no device's handle");
    return -1;
}

ze_device_handle_t fake_device_handle(int index)
{
    return (ze_device_handle_t)(void *)&handles[index][0];
}

ze_result_t fake_device_get(ze_driver_handle_t driver, uint32_t *count, ze_device_handle_t *devices)
{
    int from = fake_driver_index(driver, "zeDeviceGet");
    uint32_t found = 0, room = count ? *count : 0;
    if (from < 0)
        return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
    if (!fake_expect(count != NULL, "zeDeviceGet", "zeDeviceGet, Parameters", "pCount is NULL"))
        return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
    if (ze_fake.sick_driver == (uint32_t)from + 1)
        return ZE_RESULT_ERROR_DEVICE_LOST;
    if (ze_fake.device_get_result)
        return (ze_result_t)ze_fake.device_get_result;
    for (uint32_t i = 0; i < devices_now(); i++) {
        if (ze_fake.devices[i].driver != (uint32_t)from)
            continue;
        if (devices && found < room)
            devices[found] = (ze_device_handle_t)(void *)&handles[i][0];
        found += !room || found < room;
    }
    *count = found;
    return ZE_RESULT_SUCCESS;
}

ze_result_t fake_device_properties(ze_device_handle_t device, ze_device_properties_t *properties)
{
    int i = fake_device_index(device, "zeDeviceGetProperties");
    if (i < 0)
        return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
    int is_hertz = properties && properties->stype == ZE_STRUCTURE_TYPE_DEVICE_PROPERTIES_1_2;
    if (!fake_expect_struct(properties,
                            is_hertz ? ZE_STRUCTURE_TYPE_DEVICE_PROPERTIES_1_2
                                     : ZE_STRUCTURE_TYPE_DEVICE_PROPERTIES,
                            "zeDeviceGetProperties"))
        return ZE_RESULT_ERROR_INVALID_ARGUMENT;
    if (ze_fake.properties_result)
        return (ze_result_t)ze_fake.properties_result;
    const struct ze_fake_device *known = &ze_fake.devices[i];
    properties->type = known->type ? (ze_device_type_t)known->type : ZE_DEVICE_TYPE_GPU;
    properties->vendorId = known->vendor ? known->vendor : 0x8086;
    properties->numSlices = 1; /* so that two groups of 256 run at a time */
    properties->numSubslicesPerSlice = 2;
    properties->numEUsPerSubslice = 4;
    properties->timerResolution = is_hertz ? 1000000000 / FAKE_TICK_NS : FAKE_TICK_NS;
    properties->timestampValidBits = ze_fake.time_bits ? ze_fake.time_bits : 32;
    properties->numThreadsPerEU = properties->physicalEUSimdWidth = 8;
    memset(properties->uuid.id, 0x5a, sizeof properties->uuid.id);
    uint32_t tile = (uint32_t)((char *)(void *)device - handles[i]);
    properties->uuid.id[14] = (uint8_t)(tile ? tile : known->tile);
    properties->uuid.id[15] = (uint8_t)(known->number ? known->number - 1 : (uint32_t)i);
    if (known->name)
        snprintf(properties->name, sizeof properties->name, "%s", known->name);
    else
        snprintf(properties->name, sizeof properties->name, "Fake GPU %d", i);
    return ZE_RESULT_SUCCESS;
}

uint32_t fake_group_size(void)
{
    return ze_fake.group_size ? ze_fake.group_size : 1024;
}

ze_result_t fake_device_compute(ze_device_handle_t device, ze_device_compute_properties_t *properties)
{
    static const char call[] = "zeDeviceGetComputeProperties";
    if (fake_device_index(device, call) < 0)
        return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
    if (!fake_expect_struct(properties, ZE_STRUCTURE_TYPE_DEVICE_COMPUTE_PROPERTIES, call))
        return ZE_RESULT_ERROR_INVALID_ARGUMENT;
    properties->maxTotalGroupSize = properties->maxGroupSizeX = fake_group_size();
    properties->maxGroupSizeY = properties->maxGroupSizeZ = fake_group_size();
    properties->maxGroupCountX = properties->maxGroupCountY = properties->maxGroupCountZ = UINT32_MAX;
    return ZE_RESULT_SUCCESS;
}

/* As Intel's driver has it: nothing is said of 32-bit division. */
ze_result_t fake_device_modules(ze_device_handle_t device, ze_device_module_properties_t *properties)
{
    static const char call[] = "zeDeviceGetModuleProperties";
    const ze_device_fp_flags_t floats = ZE_DEVICE_FP_FLAG_ROUND_TO_NEAREST | ZE_DEVICE_FP_FLAG_ROUND_TO_ZERO |
                                        ZE_DEVICE_FP_FLAG_ROUND_TO_INF | ZE_DEVICE_FP_FLAG_INF_NAN |
                                        ZE_DEVICE_FP_FLAG_FMA |
                                        (ze_fake.no_denormals ? 0 : ZE_DEVICE_FP_FLAG_DENORM);
    if (fake_device_index(device, call) < 0)
        return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
    if (!fake_expect_struct(properties, ZE_STRUCTURE_TYPE_DEVICE_MODULE_PROPERTIES, call))
        return ZE_RESULT_ERROR_INVALID_ARGUMENT;
    properties->spirvVersionSupported = ze_fake.no_spirv ? 0 : ZE_MAKE_VERSION(1, 2);
    properties->flags = ZE_DEVICE_MODULE_FLAG_FP16 |
                        (ze_fake.no_atomics ? 0 : ZE_DEVICE_MODULE_FLAG_INT64_ATOMICS) |
                        (ze_fake.no_float64 ? 0 : ZE_DEVICE_MODULE_FLAG_FP64);
    properties->fp16flags = properties->fp32flags = floats;
    properties->fp64flags = ze_fake.no_float64 ? 0 : floats;
    if (!ze_fake.no_float64 && !ze_fake.no_division)
        properties->fp64flags |= ZE_DEVICE_FP_FLAG_ROUNDED_DIVIDE_SQRT;
    properties->maxArgumentsSize = 1024;
    return ZE_RESULT_SUCCESS;
}

ze_result_t fake_device_memories(ze_device_handle_t device, uint32_t *count,
                                 ze_device_memory_properties_t *memories)
{
    static const char call[] = "zeDeviceGetMemoryProperties";
    int i = fake_device_index(device, call);
    if (i < 0)
        return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
    if (!fake_expect(count != NULL, call, "zeDeviceGetMemoryProperties, Parameters", "pCount is NULL"))
        return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
    if (ze_fake.no_memories)
        return ZE_RESULT_ERROR_UNSUPPORTED_FEATURE;
    uint64_t bytes = ze_fake.devices[i].memory_bytes ? ze_fake.devices[i].memory_bytes : UINT64_C(16) << 30;
    uint32_t all = 2, wanted = *count && *count < all ? *count : all; /* half in each of two */
    for (uint32_t m = 0; memories && m < wanted; m++) {
        if (!fake_expect_struct(&memories[m], ZE_STRUCTURE_TYPE_DEVICE_MEMORY_PROPERTIES, call))
            return ZE_RESULT_ERROR_INVALID_ARGUMENT;
        memories[m].totalSize = bytes / all;
    }
    *count = wanted;
    return ZE_RESULT_SUCCESS;
}

ze_result_t fake_device_subdevices(ze_device_handle_t device, uint32_t *count, ze_device_handle_t *devices)
{
    int i = fake_device_index(device, "zeDeviceGetSubDevices");
    if (i < 0)
        return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
    uint32_t all = (void *)device == &handles[i][0] ? ze_fake.devices[i].tiles : 0;
    if (*count == 0 || *count > all)
        *count = all;
    for (uint32_t t = 0; devices && t < *count; t++)
        devices[t] = (ze_device_handle_t)(void *)&handles[i][1 + t];
    return ZE_RESULT_SUCCESS;
}

ze_result_t fake_device_pci(ze_device_handle_t device, ze_pci_ext_properties_t *properties)
{
    static const char call[] = "zeDevicePciGetPropertiesExt";
    int i = fake_device_index(device, call);
    if (i < 0)
        return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
    if (!fake_expect_struct(properties, ZE_STRUCTURE_TYPE_PCI_EXT_PROPERTIES, call))
        return ZE_RESULT_ERROR_INVALID_ARGUMENT;
    if (ze_fake.no_pci)
        return ZE_RESULT_ERROR_UNSUPPORTED_FEATURE;
    uint32_t bus = ze_fake.devices[i].bus ? ze_fake.devices[i].bus : 0x10 + (uint32_t)i;
    properties->address = (ze_pci_address_ext_t){.domain = 0, .bus = bus};
    properties->maxSpeed = (ze_pci_speed_ext_t){-1, -1, -1};
    return ZE_RESULT_SUCCESS;
}

ze_result_t fake_device_external(ze_device_handle_t device,
                                 ze_device_external_memory_properties_t *properties)
{
    static const char call[] = "zeDeviceGetExternalMemoryProperties";
    if (fake_device_index(device, call) < 0)
        return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
    if (!fake_expect_struct(properties, ZE_STRUCTURE_TYPE_DEVICE_EXTERNAL_MEMORY_PROPERTIES, call))
        return ZE_RESULT_ERROR_INVALID_ARGUMENT;
    ze_external_memory_type_flags_t types = ze_fake.no_dmabuf ? 0 : ZE_EXTERNAL_MEMORY_TYPE_FLAG_DMA_BUF;
    properties->memoryAllocationExportTypes = types;
    properties->memoryAllocationImportTypes = ze_fake.no_import ? 0 : types;
    properties->imageImportTypes = properties->imageExportTypes = 0;
    return ZE_RESULT_SUCCESS;
}

ze_result_t fake_device_peer(ze_device_handle_t device, ze_device_handle_t peer, ze_bool_t *value)
{
    static const char call[] = "zeDeviceCanAccessPeer";
    int of = fake_device_index(device, call), to = fake_device_index(peer, call);
    if (of < 0 || to < 0)
        return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
    if (!fake_expect(value != NULL, call, "zeDeviceCanAccessPeer, Parameters", "value is NULL") ||
        !fake_expect(ze_fake.devices[of].driver == ze_fake.devices[to].driver, call,
                     "Core Programming Guide, Peer-to-Peer Access and Queries", "devices of two drivers"))
        return ZE_RESULT_ERROR_INVALID_ARGUMENT;
    *value = of == to || !ze_fake.no_peers;
    return ZE_RESULT_SUCCESS;
}

ze_result_t fake_device_status(ze_device_handle_t device)
{
    int of = fake_device_index(device, "zeDeviceGetStatus");
    if (of < 0)
        return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
    return ze_fake.is_lost >> of & 1 ? ZE_RESULT_ERROR_DEVICE_LOST : ZE_RESULT_SUCCESS;
}

uint32_t fake_index_count(void)
{
    return ze_fake.one_index ? 1 : 2;
}

/* One group that computes and copies, behind one that copies alone. */
ze_result_t fake_device_groups(ze_device_handle_t device, uint32_t *count,
                               ze_command_queue_group_properties_t *groups)
{
    static const char call[] = "zeDeviceGetCommandQueueGroupProperties";
    if (fake_device_index(device, call) < 0)
        return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
    uint32_t all = 2, wanted = *count && *count < all ? *count : all;
    for (uint32_t g = 0; groups && g < wanted; g++) {
        if (!fake_expect_struct(&groups[g], ZE_STRUCTURE_TYPE_COMMAND_QUEUE_GROUP_PROPERTIES, call))
            return ZE_RESULT_ERROR_INVALID_ARGUMENT;
        groups[g].flags = ZE_COMMAND_QUEUE_GROUP_PROPERTY_FLAG_COPY |
                          (g ? ZE_COMMAND_QUEUE_GROUP_PROPERTY_FLAG_COMPUTE : 0);
        groups[g].maxMemoryFillPatternSize = 16;
        groups[g].numQueues = fake_index_count();
    }
    *count = wanted;
    return ZE_RESULT_SUCCESS;
}

void fake_note_time(uint64_t *ticks)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    uint64_t ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
    uint64_t time = ns / FAKE_TICK_NS;
    if (ze_fake.time_count) {
        time = ze_fake.times[0];
        ze_fake.times[0] = ze_fake.times[1];
        ze_fake.time_count--;
    }
    *ticks = time & ((UINT64_C(1) << (ze_fake.time_bits ? ze_fake.time_bits : 32)) - 1);
}
