/* SPDX-License-Identifier: Apache-2.0 */
/* build: beside drivers */
/* What weft declares of CUDA's driver API, against cuda.h where there is one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#if defined __has_include && __has_include(<cuda.h>)
#define HAS_CUDA 1
#include <cuda.h>
#endif

#ifdef HAS_CUDA
/* Names that both have; what weft means by them comes below. */
#define CUDA_SUCCESS weft_CUDA_SUCCESS
#include "devmem/cuda/driver.h"
#undef CUDA_SUCCESS

#define SAME(mine, theirs) _Static_assert((long long)(mine) == (long long)(theirs), #mine " is " #theirs)
#define RESULT(name)       SAME(CUDA_##name, CUDA_ERROR_##name)

SAME(weft_CUDA_SUCCESS, 0);
RESULT(INVALID_VALUE);
RESULT(OUT_OF_MEMORY);
RESULT(NOT_INITIALIZED);
RESULT(DEINITIALIZED);
RESULT(STUB_LIBRARY);
RESULT(DEVICE_UNAVAILABLE);
RESULT(NO_DEVICE);
RESULT(INVALID_DEVICE);
RESULT(INVALID_CONTEXT);
RESULT(MAP_FAILED);
RESULT(ALREADY_MAPPED);
RESULT(NO_BINARY_FOR_GPU);
RESULT(ECC_UNCORRECTABLE);
RESULT(PEER_ACCESS_UNSUPPORTED);
RESULT(NVLINK_UNCORRECTABLE);
RESULT(UNSUPPORTED_PTX_VERSION);
RESULT(CONTAINED);
RESULT(OPERATING_SYSTEM);
RESULT(INVALID_HANDLE);
RESULT(NOT_FOUND);
RESULT(NOT_READY);
RESULT(ILLEGAL_ADDRESS);
RESULT(PEER_ACCESS_ALREADY_ENABLED);
RESULT(HOST_MEMORY_ALREADY_REGISTERED);
RESULT(HOST_MEMORY_NOT_REGISTERED);
RESULT(NOT_PERMITTED);
RESULT(NOT_SUPPORTED);
RESULT(SYSTEM_NOT_READY);
RESULT(SYSTEM_DRIVER_MISMATCH);
RESULT(COMPAT_NOT_SUPPORTED_ON_DEVICE);
RESULT(UNKNOWN);
SAME(CUDA_CAPTURE_UNSUPPORTED, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
SAME(CUDA_CAPTURE_WRONG_THREAD, CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);

SAME(CUDA_DEVICE_MULTIPROCESSORS, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
SAME(CUDA_DEVICE_COMPUTE_MAJOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
SAME(CUDA_DEVICE_COMPUTE_MINOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
SAME(CUDA_DEVICE_CONCURRENT_MANAGED, CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS);
SAME(CUDA_DEVICE_USES_HOST_POINTER, CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM);
SAME(CUDA_DEVICE_STREAM_MEMORY_OPERATIONS_V1, CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_MEM_OPS_V1);
SAME(CUDA_DEVICE_FLUSHES_REMOTE_WRITES, CU_DEVICE_ATTRIBUTE_CAN_FLUSH_REMOTE_WRITES);
SAME(CUDA_DEVICE_DMABUF, CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED);

SAME(CUDA_POINTER_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_MEMORY_TYPE);
SAME(CUDA_POINTER_DEVICE_POINTER, CU_POINTER_ATTRIBUTE_DEVICE_POINTER);
SAME(CUDA_POINTER_SYNC_MEMOPS, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS);
SAME(CUDA_POINTER_BUFFER_ID, CU_POINTER_ATTRIBUTE_BUFFER_ID);
SAME(CUDA_POINTER_IS_MANAGED, CU_POINTER_ATTRIBUTE_IS_MANAGED);
SAME(CUDA_POINTER_ORDINAL, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL);
SAME(CUDA_POINTER_LEGACY_IPC, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE);
SAME(CUDA_POINTER_RANGE_START, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR);
SAME(CUDA_POINTER_RANGE_SIZE, CU_POINTER_ATTRIBUTE_RANGE_SIZE);
SAME(CUDA_POINTER_MAPPED, CU_POINTER_ATTRIBUTE_MAPPED);
SAME(CUDA_POINTER_HANDLE_TYPES, CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES);
SAME(CUDA_POINTER_RDMA, CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE);
SAME(CUDA_POINTER_POOL, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE);
SAME(CUDA_POINTER_MAPPING_SIZE, CU_POINTER_ATTRIBUTE_MAPPING_SIZE);
SAME(CUDA_POINTER_MAPPING_BASE, CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR);
SAME(CUDA_POINTER_BLOCK_ID, CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID);

SAME(CUDA_MEMORY_HOST, CU_MEMORYTYPE_HOST);
SAME(CUDA_MEMORY_DEVICE, CU_MEMORYTYPE_DEVICE);
/* weft's CUDA_STREAM_NON_BLOCKING and the like have no namesakes in cuda.h. */
SAME(CUDA_STREAM_NON_BLOCKING, CU_STREAM_NON_BLOCKING);
SAME(CUDA_CAPTURE_NONE, CU_STREAM_CAPTURE_STATUS_NONE);
SAME(CUDA_CAPTURE_MODE_RELAXED, CU_STREAM_CAPTURE_MODE_RELAXED);
SAME(CUDA_EVENT_DISABLE_TIMING, CU_EVENT_DISABLE_TIMING);
SAME(CUDA_WAIT_GEQ, CU_STREAM_WAIT_VALUE_GEQ);
SAME(CUDA_WAIT_FLUSH, CU_STREAM_WAIT_VALUE_FLUSH);
SAME(CUDA_WRITE_DEFAULT, CU_STREAM_WRITE_VALUE_DEFAULT);
SAME(CUDA_HOST_PORTABLE, CU_MEMHOSTALLOC_PORTABLE);
SAME(CUDA_HOST_DEVICEMAP, CU_MEMHOSTALLOC_DEVICEMAP);
SAME(CUDA_HOST_PORTABLE, CU_MEMHOSTREGISTER_PORTABLE);
SAME(CUDA_HOST_DEVICEMAP, CU_MEMHOSTREGISTER_DEVICEMAP);
SAME(CUDA_IPC_LAZY_PEER_ACCESS, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
SAME(CUDA_HANDLE_POSIX_FD, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
SAME(CUDA_HANDLE_FABRIC, CU_MEM_HANDLE_TYPE_FABRIC);
SAME(CUDA_RANGE_DMABUF, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD);
SAME(CUDA_LOCATION_DEVICE, CU_MEM_LOCATION_TYPE_DEVICE);
SAME(CUDA_ACCESS_READ_WRITE, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
SAME(CUDA_JIT_ERROR_LOG, CU_JIT_ERROR_LOG_BUFFER);
SAME(CUDA_JIT_ERROR_LOG_BYTES, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES);

SAME(sizeof(struct cuda_ipc_handle), sizeof(CUipcMemHandle));
SAME(sizeof(struct cuda_ipc_handle), sizeof(CUmemFabricHandle));
SAME(sizeof(struct cuda_ipc_handle), sizeof(CUmemPoolPtrExportData));
SAME(sizeof(struct cuda_access), sizeof(CUmemAccessDesc));
SAME(offsetof(struct cuda_access, ordinal), offsetof(CUmemAccessDesc, location.id));
SAME(offsetof(struct cuda_access, flags), offsetof(CUmemAccessDesc, flags));
SAME(sizeof(cuda_pointer), sizeof(CUdeviceptr));
SAME(sizeof(cuda_allocation), sizeof(CUmemGenericAllocationHandle));
SAME(sizeof(CUuuid), 16);
SAME(sizeof(int), sizeof(CUdevice));
SAME(sizeof(int), sizeof(CUpointer_attribute));
SAME(sizeof(int), sizeof(CUresult));
SAME(sizeof(uint32_t), sizeof(cuuint32_t));

/* The names that cuda.h gives these, with their versions, are among those that are looked up. */
#define TEXT_(name) #name
#define TEXT(name)  TEXT_(name)
static const char *const theirs[] = {
    TEXT(cuDeviceTotalMem),
    TEXT(cuDeviceGetUuid),
    TEXT(cuDevicePrimaryCtxRelease),
    TEXT(cuCtxPushCurrent),
    TEXT(cuCtxPopCurrent),
    TEXT(cuMemAlloc),
    TEXT(cuMemFree),
    TEXT(cuMemGetAddressRange),
    TEXT(cuMemHostRegister),
    TEXT(cuStreamDestroy),
    TEXT(cuMemHostGetDevicePointer),
    TEXT(cuStreamWaitValue32),
    TEXT(cuStreamWriteValue32),
    TEXT(cuEventDestroy),
    TEXT(cuIpcOpenMemHandle),
    TEXT(cuMemcpyAsync),
    TEXT(cuEventRecord),
    TEXT(cuStreamWaitEvent),
    TEXT(cuLaunchKernel),
    TEXT(cuMemHostAlloc),
    TEXT(cuCtxEnablePeerAccess),
    TEXT(cuModuleLoadDataEx),
    TEXT(cuMemPoolImportPointer),
    TEXT(cuStreamGetCtx),
};
static const char *const mine[] = {
#define NAME(field, symbol, is_needed, arguments) symbol,
    WEFT_CUDA_FUNCTIONS(NAME)
#undef NAME
};

/* Each function takes as many arguments, each as large. */
#define SIZES(field, function, ...)                                                                          \
    _Static_assert(sizeof(((struct weft_cuda_driver *)0)->field __VA_ARGS__) ==                              \
                       sizeof(function __VA_ARGS__),                                                         \
                   #function)
SIZES(init, cuInit, (0));
SIZES(copy, cuMemcpyAsync, (0, 0, 0, NULL));
SIZES(pointer_get_all, cuPointerGetAttributes, (0, NULL, NULL, 0));
SIZES(pointer_get, cuPointerGetAttribute, (NULL, 0, 0));
SIZES(pointer_set, cuPointerSetAttribute, (NULL, 0, 0));
SIZES(get_range, cuMemGetAddressRange, (NULL, NULL, 0));
SIZES(stream_create, cuStreamCreateWithPriority, (NULL, 0, 0));
SIZES(stream_wait_event, cuStreamWaitEvent, (NULL, NULL, 0));
SIZES(event_elapsed, cuEventElapsedTime, (NULL, NULL, NULL));
SIZES(stream_get_context, cuStreamGetCtx, (NULL, NULL));
SIZES(stream_is_capturing, cuStreamIsCapturing, (NULL, NULL));
SIZES(wait_value, cuStreamWaitValue32, (NULL, 0, 0, 0));
SIZES(write_value, cuStreamWriteValue32, (NULL, 0, 0, 0));
SIZES(host_register, cuMemHostRegister, (NULL, 0, 0));
SIZES(get_range_handle, cuMemGetHandleForAddressRange, (NULL, 0, 0, 0, 0));
SIZES(flush_writes, cuFlushGPUDirectRDMAWrites, (0, 0));
SIZES(export_allocation, cuMemExportToShareableHandle, (NULL, 0, 0, 0));
SIZES(import_allocation, cuMemImportFromShareableHandle, (NULL, NULL, 0));
SIZES(reserve, cuMemAddressReserve, (NULL, 0, 0, 0, 0));
SIZES(map, cuMemMap, (0, 0, 0, 0, 0));
SIZES(set_access, cuMemSetAccess, (0, 0, NULL, 0));
SIZES(pool_export, cuMemPoolExportToShareableHandle, (NULL, NULL, 0, 0));
SIZES(pool_import, cuMemPoolImportFromShareableHandle, (NULL, NULL, 0, 0));
SIZES(pool_import_pointer, cuMemPoolImportPointer, (NULL, NULL, NULL));
SIZES(pool_set_access, cuMemPoolSetAccess, (NULL, NULL, 0));
SIZES(module_load, cuModuleLoadDataEx, (NULL, NULL, 0, NULL, NULL));
#if CUDA_VERSION >= 12040
SIZES(function_load, cuFuncLoad, (NULL));
#endif
SIZES(launch, cuLaunchKernel, (NULL, 0, 0, 0, 0, 0, 0, 0, NULL, NULL, NULL));

static void test_names(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof theirs / sizeof *theirs; i++) {
        int found = 0;
        for (size_t j = 0; j < sizeof mine / sizeof *mine; j++)
            found |= strcmp(theirs[i], mine[j]) == 0;
        if (!found)
            fail_msg("cuda.h says %s, which is not looked up", theirs[i]);
    }
}
#else
#include "tests/support/skip.h"

static void test_names(void **state)
{
    (void)state;
    TEST_SKIP("no cuda.h under /usr/local/cuda* to compare with");
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_names)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
