/* SPDX-License-Identifier: Apache-2.0 */
/* Sysman's view of the devices, whose handles are those of the core where ZES_ENABLE_SYSMAN=1 is set. It has no fabric ports.
 *
 * Source: oneAPI Level Zero Specification, "Sysman Programming Guide", Device Properties; Querying Memory Modules.
 */
#include <stdlib.h>
#include <string.h>
#include <level_zero/zes_api.h>
#include <level_zero/zes_ddi.h>

#include "tests/fakes/ze/fake.h"

static int is_enabled(const char *call)
{
    const char *enabled = getenv("ZES_ENABLE_SYSMAN");
    return fake_expect(enabled && strcmp(enabled, "1") == 0, call, "Sysman Programming Guide, Initialization",
                       "ZES_ENABLE_SYSMAN=1 comes first");
}

static ze_result_t sysman_properties(zes_device_handle_t device, zes_device_properties_t *properties)
{
    uint32_t tiles = 0;
    if (!is_enabled("zesDeviceGetProperties") ||
        !fake_expect_struct(properties, (ze_structure_type_t)ZES_STRUCTURE_TYPE_DEVICE_PROPERTIES,
                            "zesDeviceGetProperties"))
        return ZE_RESULT_ERROR_INVALID_ARGUMENT;
    ze_result_t result = fake_device_properties((ze_device_handle_t)(void *)device, &properties->core);
    if (result == ZE_RESULT_SUCCESS)
        result = fake_device_subdevices((ze_device_handle_t)(void *)device, &tiles, NULL);
    properties->numSubdevices = tiles;
    return result;
}

static ze_result_t sysman_pci(zes_device_handle_t device, zes_pci_properties_t *properties)
{
    ze_pci_ext_properties_t core = {.stype = ZE_STRUCTURE_TYPE_PCI_EXT_PROPERTIES};
    if (!is_enabled("zesDevicePciGetProperties") ||
        !fake_expect_struct(properties, (ze_structure_type_t)ZES_STRUCTURE_TYPE_PCI_PROPERTIES,
                            "zesDevicePciGetProperties"))
        return ZE_RESULT_ERROR_INVALID_ARGUMENT;
    ze_result_t result = fake_device_pci((ze_device_handle_t)(void *)device, &core);
    properties->address = (zes_pci_address_t){core.address.domain, core.address.bus, core.address.device,
                                              core.address.function};
    return result;
}

/* One: its handle is the device's. */
static ze_result_t sysman_memories(zes_device_handle_t device, uint32_t *count, zes_mem_handle_t *memories)
{
    if (!is_enabled("zesDeviceEnumMemoryModules"))
        return ZE_RESULT_ERROR_INVALID_ARGUMENT;
    if (memories && *count > 0)
        memories[0] = (zes_mem_handle_t)(void *)device;
    *count = 1;
    return ZE_RESULT_SUCCESS;
}

static ze_result_t sysman_memory(zes_mem_handle_t memory, zes_mem_properties_t *properties)
{
    ze_device_memory_properties_t core[2] = {{.stype = ZE_STRUCTURE_TYPE_DEVICE_MEMORY_PROPERTIES},
                                             {.stype = ZE_STRUCTURE_TYPE_DEVICE_MEMORY_PROPERTIES}};
    uint32_t count = 2;
    if (!is_enabled("zesMemoryGetProperties") ||
        !fake_expect_struct(properties, (ze_structure_type_t)ZES_STRUCTURE_TYPE_MEM_PROPERTIES,
                            "zesMemoryGetProperties"))
        return ZE_RESULT_ERROR_INVALID_ARGUMENT;
    ze_result_t result = fake_device_memories((ze_device_handle_t)(void *)memory, &count, core);
    properties->location = ZES_MEM_LOC_DEVICE;
    properties->physicalSize = core[0].totalSize + core[1].totalSize;
    return result;
}

#define API __attribute__((visibility("default")))

API ze_result_t zesGetDeviceProcAddrTable(ze_api_version_t version, zes_device_dditable_t *table)
{
    ze_result_t result = fake_table_take(version, table);
    if (result != ZE_RESULT_SUCCESS)
        return result;
    table->pfnGetProperties = sysman_properties;
    table->pfnPciGetProperties = sysman_pci;
    table->pfnEnumMemoryModules = sysman_memories;
    return result;
}

API ze_result_t zesGetMemoryProcAddrTable(ze_api_version_t version, zes_memory_dditable_t *table)
{
    ze_result_t result = fake_table_take(version, table);
    if (result != ZE_RESULT_SUCCESS)
        return result;
    table->pfnGetProperties = sysman_memory;
    return result;
}
