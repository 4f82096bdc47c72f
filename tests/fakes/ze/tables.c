/* SPDX-License-Identifier: Apache-2.0 */
/* What the loader asks a driver for: tables of functions. It asks for those of the tools (zet) and of Sysman (zes) too, and takes no driver that
 * has none. */
#include "tests/fakes/ze/fake.h"

#define API __attribute__((visibility("default")))

/* Of the tables that a loader brings it fills what it has room for by itself: it begins with none. */
ze_result_t fake_table_take(ze_api_version_t version, const void *table)
{
    if (!table)
        return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
    return ZE_MAJOR_VERSION((unsigned)version) == 1 ? ZE_RESULT_SUCCESS : ZE_RESULT_ERROR_UNSUPPORTED_VERSION;
}

API ze_result_t zeGetGlobalProcAddrTable(ze_api_version_t version, ze_global_dditable_t *table)
{
    ze_result_t result = fake_table_take(version, table);
    if (result == ZE_RESULT_SUCCESS)
        table->pfnInit = fake_init;
    return result;
}

API ze_result_t zeGetDriverProcAddrTable(ze_api_version_t version, ze_driver_dditable_t *table)
{
    ze_result_t result = fake_table_take(version, table);
    if (result != ZE_RESULT_SUCCESS)
        return result;
    table->pfnGet = fake_driver_get;
    table->pfnGetApiVersion = fake_driver_version;
    table->pfnGetProperties = fake_driver_properties;
    table->pfnGetExtensionProperties = fake_driver_extensions;
    table->pfnGetExtensionFunctionAddress = fake_driver_function;
    return result;
}

API ze_result_t zeGetDeviceProcAddrTable(ze_api_version_t version, ze_device_dditable_t *table)
{
    ze_result_t result = fake_table_take(version, table);
    if (result != ZE_RESULT_SUCCESS)
        return result;
    table->pfnGet = fake_device_get;
    table->pfnGetSubDevices = fake_device_subdevices;
    table->pfnGetProperties = fake_device_properties;
    table->pfnGetMemoryProperties = fake_device_memories;
    table->pfnGetComputeProperties = fake_device_compute;
    table->pfnGetModuleProperties = fake_device_modules;
    table->pfnGetExternalMemoryProperties = fake_device_external;
    table->pfnCanAccessPeer = fake_device_peer;
    table->pfnGetStatus = fake_device_status;
    table->pfnPciGetPropertiesExt = fake_device_pci;
    table->pfnGetCommandQueueGroupProperties = fake_device_groups;
    return result;
}

API ze_result_t zeGetContextProcAddrTable(ze_api_version_t version, ze_context_dditable_t *table)
{
    ze_result_t result = fake_table_take(version, table);
    if (result != ZE_RESULT_SUCCESS)
        return result;
    table->pfnCreate = fake_context_create;
    table->pfnDestroy = fake_context_destroy;
    table->pfnMakeMemoryResident = fake_make_resident;
    table->pfnEvictMemory = fake_evict;
    return result;
}

API ze_result_t zeGetMemProcAddrTable(ze_api_version_t version, ze_mem_dditable_t *table)
{
    ze_result_t result = fake_table_take(version, table);
    if (result != ZE_RESULT_SUCCESS)
        return result;
    table->pfnAllocDevice = fake_alloc_device;
    table->pfnAllocHost = fake_alloc_host;
    table->pfnAllocShared = fake_alloc_shared;
    table->pfnFree = fake_free;
    table->pfnGetAllocProperties = fake_alloc_properties;
    table->pfnGetAddressRange = fake_address_range;
    table->pfnGetIpcHandle = fake_ipc_get;
    return result;
}

API ze_result_t zeGetEventPoolProcAddrTable(ze_api_version_t version, ze_event_pool_dditable_t *table)
{
    ze_result_t result = fake_table_take(version, table);
    if (result != ZE_RESULT_SUCCESS)
        return result;
    table->pfnCreate = fake_pool_create;
    table->pfnDestroy = fake_pool_destroy;
    return result;
}

API ze_result_t zeGetEventProcAddrTable(ze_api_version_t version, ze_event_dditable_t *table)
{
    ze_result_t result = fake_table_take(version, table);
    if (result != ZE_RESULT_SUCCESS)
        return result;
    table->pfnCreate = fake_event_create;
    table->pfnDestroy = fake_event_destroy;
    table->pfnHostSignal = fake_event_host_signal;
    table->pfnHostReset = fake_event_host_reset;
    table->pfnHostSynchronize = fake_event_host_synchronize;
    table->pfnQueryStatus = fake_event_query;
    return result;
}

API ze_result_t zeGetCommandQueueProcAddrTable(ze_api_version_t version, ze_command_queue_dditable_t *table)
{
    ze_result_t result = fake_table_take(version, table);
    if (result != ZE_RESULT_SUCCESS)
        return result;
    table->pfnCreate = fake_queue_create;
    table->pfnDestroy = fake_queue_destroy;
    table->pfnExecuteCommandLists = fake_queue_execute;
    return result;
}

API ze_result_t zeGetCommandListProcAddrTable(ze_api_version_t version, ze_command_list_dditable_t *table)
{
    ze_result_t result = fake_table_take(version, table);
    if (result != ZE_RESULT_SUCCESS)
        return result;
    table->pfnCreateImmediate = fake_list_immediate;
    table->pfnCreate = fake_list_create;
    table->pfnClose = fake_list_close;
    table->pfnReset = fake_list_reset;
    table->pfnDestroy = fake_list_destroy;
    table->pfnAppendBarrier = fake_append_barrier;
    table->pfnAppendMemoryCopy = fake_append_copy;
    table->pfnAppendMemoryFill = fake_append_fill;
    table->pfnAppendWriteGlobalTimestamp = fake_append_time;
    table->pfnAppendLaunchKernel = fake_append_launch;
    return result;
}

API ze_result_t zeGetModuleProcAddrTable(ze_api_version_t version, ze_module_dditable_t *table)
{
    ze_result_t result = fake_table_take(version, table);
    if (result != ZE_RESULT_SUCCESS)
        return result;
    table->pfnCreate = fake_module_create;
    table->pfnDestroy = fake_module_destroy;
    return result;
}

API ze_result_t zeGetModuleBuildLogProcAddrTable(ze_api_version_t version,
                                                 ze_module_build_log_dditable_t *table)
{
    ze_result_t result = fake_table_take(version, table);
    if (result != ZE_RESULT_SUCCESS)
        return result;
    table->pfnGetString = fake_log_string;
    table->pfnDestroy = fake_log_destroy;
    return result;
}

API ze_result_t zeGetKernelProcAddrTable(ze_api_version_t version, ze_kernel_dditable_t *table)
{
    ze_result_t result = fake_table_take(version, table);
    if (result != ZE_RESULT_SUCCESS)
        return result;
    table->pfnCreate = fake_kernel_create;
    table->pfnDestroy = fake_kernel_destroy;
    table->pfnSetGroupSize = fake_kernel_group;
    table->pfnSetArgumentValue = fake_kernel_argument;
    table->pfnSetIndirectAccess = fake_kernel_indirect;
    return result;
}

/* Tables without a function in them yet. */
#define EMPTY(name)                                                                                          \
    API ze_result_t name(ze_api_version_t version, void *table);                                             \
    API ze_result_t name(ze_api_version_t version, void *table)                                              \
    {                                                                                                        \
        return fake_table_take(version, table);                                                              \
    }
#define EMPTY_TABLES(X)                                                                                      \
    X(zetGetContextProcAddrTable)                                                                            \
    X(zetGetCommandListProcAddrTable)                                                                        \
    X(zetGetDebugProcAddrTable)                                                                              \
    X(zetGetDeviceProcAddrTable)                                                                             \
    X(zetGetKernelProcAddrTable)                                                                             \
    X(zetGetMetricProcAddrTable)                                                                             \
    X(zetGetMetricGroupProcAddrTable)                                                                        \
    X(zetGetMetricGroupExpProcAddrTable)                                                                     \
    X(zetGetMetricQueryProcAddrTable)                                                                        \
    X(zetGetMetricQueryPoolProcAddrTable)                                                                    \
    X(zetGetMetricStreamerProcAddrTable)                                                                     \
    X(zetGetModuleProcAddrTable)                                                                             \
    X(zetGetTracerExpProcAddrTable)                                                                          \
    X(zesGetDiagnosticsProcAddrTable)                                                                        \
    X(zesGetDriverProcAddrTable)                                                                             \
    X(zesGetEngineProcAddrTable)                                                                             \
    X(zesGetFabricPortProcAddrTable)                                                                         \
    X(zesGetFanProcAddrTable)                                                                                \
    X(zesGetFirmwareProcAddrTable)                                                                           \
    X(zesGetFrequencyProcAddrTable)                                                                          \
    X(zesGetLedProcAddrTable)                                                                                \
    X(zesGetPerformanceFactorProcAddrTable)                                                                  \
    X(zesGetPowerProcAddrTable)                                                                              \
    X(zesGetPsuProcAddrTable)                                                                                \
    X(zesGetRasProcAddrTable)                                                                                \
    X(zesGetSchedulerProcAddrTable)                                                                          \
    X(zesGetStandbyProcAddrTable)                                                                            \
    X(zesGetTemperatureProcAddrTable)
EMPTY_TABLES(EMPTY)

/* The same of the core, whose prototypes the header has. */
#define EMPTY_OF(name, type)                                                                                 \
    API ze_result_t name(ze_api_version_t version, type *table)                                              \
    {                                                                                                        \
        return fake_table_take(version, table);                                                              \
    }
EMPTY_OF(zeGetDeviceExpProcAddrTable, ze_device_exp_dditable_t)
EMPTY_OF(zeGetImageProcAddrTable, ze_image_dditable_t)
EMPTY_OF(zeGetImageExpProcAddrTable, ze_image_exp_dditable_t)
EMPTY_OF(zeGetFenceProcAddrTable, ze_fence_dditable_t)
EMPTY_OF(zeGetEventExpProcAddrTable, ze_event_exp_dditable_t)
EMPTY_OF(zeGetKernelExpProcAddrTable, ze_kernel_exp_dditable_t)
EMPTY_OF(zeGetSamplerProcAddrTable, ze_sampler_dditable_t)
EMPTY_OF(zeGetPhysicalMemProcAddrTable, ze_physical_mem_dditable_t)
EMPTY_OF(zeGetVirtualMemProcAddrTable, ze_virtual_mem_dditable_t)
EMPTY_OF(zeGetFabricVertexExpProcAddrTable, ze_fabric_vertex_exp_dditable_t)
EMPTY_OF(zeGetFabricEdgeExpProcAddrTable, ze_fabric_edge_exp_dditable_t)
