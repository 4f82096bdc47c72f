/* SPDX-License-Identifier: Apache-2.0 */
/* The part of Level Zero that weft uses: a table of functions that libze_loader.so.1 has.
 *
 * Types and prototypes are those of level_zero/ze_api.h. Debian 12 has that of API 1.4: what is newer is declared here, under names of
 * weft's own, and may be missing where the program runs. Source: oneAPI Level Zero Specification 1.9, "Core API".
 *
 * As with CUDA there are two levels. weft_ze_driver_find() looks for a loader that the program has loaded already; it loads nothing and
 * initialises nothing. weft_ze_driver_load() loads it.
 */
#ifndef WEFT_DEVMEM_ZE_DRIVER_H
#define WEFT_DEVMEM_ZE_DRIVER_H

#include <stddef.h>
#include <stdint.h>
#include <level_zero/ze_api.h>

/* --- newer than API 1.4 */

/* zeInitDrivers(), API 1.9: initialises, and says which drivers there are, in one call. */
enum { WEFT_ZE_STYPE_INIT_DRIVERS = 0x20021, WEFT_ZE_INIT_GPUS = 1 };
struct weft_ze_init_drivers {
    ze_structure_type_t stype;
    const void *pNext;
    uint32_t flags;
};
typedef ze_result_t weft_ze_init_drivers_function(uint32_t *count, ze_driver_handle_t *drivers,
                                                  struct weft_ze_init_drivers *wanted);

/* API 1.6: the descriptor in a handle of zeMemGetIpcHandle(), which stays the driver's; and giving such a handle back. */
typedef ze_result_t weft_ze_ipc_descriptor_function(ze_context_handle_t context, ze_ipc_mem_handle_t handle,
                                                    uint64_t *descriptor);
typedef ze_result_t weft_ze_ipc_put_function(ze_context_handle_t context, ze_ipc_mem_handle_t handle);

/* API 1.9: what a command list is, and which device's; the group of a command queue. */
typedef ze_result_t weft_ze_list_is_immediate_function(ze_command_list_handle_t list,
                                                       ze_bool_t *is_immediate);
typedef ze_result_t weft_ze_list_device_function(ze_command_list_handle_t list, ze_device_handle_t *device);
typedef ze_result_t weft_ze_queue_group_function(ze_command_queue_handle_t queue, uint32_t *group);

/* --- the table */

/* X(symbol, type, whether it is needed) */
#define WEFT_ZE_FUNCTIONS(X)                                                                                 \
    X(zeInit, __typeof__(zeInit), 1)                                                                         \
    X(zeInitDrivers, weft_ze_init_drivers_function, 0)                                                       \
    X(zeDriverGet, __typeof__(zeDriverGet), 1)                                                               \
    X(zeDriverGetApiVersion, __typeof__(zeDriverGetApiVersion), 1)                                           \
    X(zeDriverGetProperties, __typeof__(zeDriverGetProperties), 1)                                           \
    X(zeDeviceGet, __typeof__(zeDeviceGet), 1)                                                               \
    X(zeDeviceGetProperties, __typeof__(zeDeviceGetProperties), 1)                                           \
    X(zeDeviceGetMemoryProperties, __typeof__(zeDeviceGetMemoryProperties), 1)                               \
    X(zeDeviceGetComputeProperties, __typeof__(zeDeviceGetComputeProperties), 1)                             \
    X(zeDeviceGetModuleProperties, __typeof__(zeDeviceGetModuleProperties), 1)                               \
    X(zeDeviceGetExternalMemoryProperties, __typeof__(zeDeviceGetExternalMemoryProperties), 1)               \
    X(zeDeviceCanAccessPeer, __typeof__(zeDeviceCanAccessPeer), 1)                                           \
    X(zeDeviceGetStatus, __typeof__(zeDeviceGetStatus), 1)                                                   \
    X(zeDevicePciGetPropertiesExt, __typeof__(zeDevicePciGetPropertiesExt), 0)                               \
    X(zeDeviceGetSubDevices, __typeof__(zeDeviceGetSubDevices), 1)                                           \
    X(zeDeviceGetCommandQueueGroupProperties, __typeof__(zeDeviceGetCommandQueueGroupProperties), 1)         \
    X(zeContextCreate, __typeof__(zeContextCreate), 1)                                                       \
    X(zeContextDestroy, __typeof__(zeContextDestroy), 1)                                                     \
    X(zeContextMakeMemoryResident, __typeof__(zeContextMakeMemoryResident), 1)                               \
    X(zeContextEvictMemory, __typeof__(zeContextEvictMemory), 1)                                             \
    X(zeMemAllocDevice, __typeof__(zeMemAllocDevice), 1)                                                     \
    X(zeMemAllocHost, __typeof__(zeMemAllocHost), 1)                                                         \
    X(zeMemAllocShared, __typeof__(zeMemAllocShared), 1)                                                     \
    X(zeMemFree, __typeof__(zeMemFree), 1)                                                                   \
    X(zeMemGetAllocProperties, __typeof__(zeMemGetAllocProperties), 1)                                       \
    X(zeMemGetAddressRange, __typeof__(zeMemGetAddressRange), 1)                                             \
    X(zeMemGetIpcHandle, __typeof__(zeMemGetIpcHandle), 1)                                                   \
    X(zeMemPutIpcHandle, weft_ze_ipc_put_function, 0)                                                        \
    X(zeMemGetFileDescriptorFromIpcHandleExp, weft_ze_ipc_descriptor_function, 0)                            \
    X(zeCommandListCreateImmediate, __typeof__(zeCommandListCreateImmediate), 1)                             \
    X(zeCommandListCreate, __typeof__(zeCommandListCreate), 1)                                               \
    X(zeCommandListReset, __typeof__(zeCommandListReset), 1)                                                 \
    X(zeCommandListClose, __typeof__(zeCommandListClose), 1)                                                 \
    X(zeCommandQueueCreate, __typeof__(zeCommandQueueCreate), 1)                                             \
    X(zeCommandQueueDestroy, __typeof__(zeCommandQueueDestroy), 1)                                           \
    X(zeCommandQueueExecuteCommandLists, __typeof__(zeCommandQueueExecuteCommandLists), 1)                   \
    X(zeCommandListDestroy, __typeof__(zeCommandListDestroy), 1)                                             \
    X(zeCommandListAppendBarrier, __typeof__(zeCommandListAppendBarrier), 1)                                 \
    X(zeCommandListAppendMemoryCopy, __typeof__(zeCommandListAppendMemoryCopy), 1)                           \
    X(zeCommandListAppendWriteGlobalTimestamp, __typeof__(zeCommandListAppendWriteGlobalTimestamp), 1)       \
    X(zeCommandListIsImmediate, weft_ze_list_is_immediate_function, 0)                                       \
    X(zeCommandListGetDeviceHandle, weft_ze_list_device_function, 0)                                         \
    X(zeCommandQueueGetOrdinal, weft_ze_queue_group_function, 0)                                             \
    X(zeModuleCreate, __typeof__(zeModuleCreate), 1)                                                         \
    X(zeModuleDestroy, __typeof__(zeModuleDestroy), 1)                                                       \
    X(zeModuleBuildLogGetString, __typeof__(zeModuleBuildLogGetString), 1)                                   \
    X(zeModuleBuildLogDestroy, __typeof__(zeModuleBuildLogDestroy), 1)                                       \
    X(zeKernelCreate, __typeof__(zeKernelCreate), 1)                                                         \
    X(zeKernelDestroy, __typeof__(zeKernelDestroy), 1)                                                       \
    X(zeKernelSetGroupSize, __typeof__(zeKernelSetGroupSize), 1)                                             \
    X(zeKernelSetArgumentValue, __typeof__(zeKernelSetArgumentValue), 1)                                     \
    X(zeKernelSetIndirectAccess, __typeof__(zeKernelSetIndirectAccess), 1)                                   \
    X(zeCommandListAppendLaunchKernel, __typeof__(zeCommandListAppendLaunchKernel), 1)                       \
    X(zeEventPoolCreate, __typeof__(zeEventPoolCreate), 1)                                                   \
    X(zeEventPoolDestroy, __typeof__(zeEventPoolDestroy), 1)                                                 \
    X(zeEventCreate, __typeof__(zeEventCreate), 1)                                                           \
    X(zeEventDestroy, __typeof__(zeEventDestroy), 1)                                                         \
    X(zeEventHostReset, __typeof__(zeEventHostReset), 1)                                                     \
    X(zeEventHostSynchronize, __typeof__(zeEventHostSynchronize), 1)                                         \
    X(zeEventHostSignal, __typeof__(zeEventHostSignal), 1)                                                   \
    X(zeEventQueryStatus, __typeof__(zeEventQueryStatus), 1)

struct weft_ze_driver {
#define FIELD(symbol, type, is_needed) type *symbol;
    WEFT_ZE_FUNCTIONS(FIELD)
#undef FIELD
};

/* Fills the table. 1; 0: no loader is loaded; WEFT_NOT_FOUND with a text where one is and lacks what is needed. */
int weft_ze_driver_find(struct weft_ze_driver *driver, char *text, size_t size);
/* 1, or WEFT_NOT_FOUND with a text. What has been loaded stays: a driver that was initialised cannot be unloaded. */
int weft_ze_driver_load(struct weft_ze_driver *driver, char *text, size_t size);

#endif
