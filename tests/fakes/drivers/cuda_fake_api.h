/* SPDX-License-Identifier: Apache-2.0 */
/* What the fake libcuda.so.1 exports, written down a second time on purpose: cuda.h of CUDA 13.0, the names that
 * symbols have there. tests/devmem/test_cuda_abi.c compares. */
#ifndef WEFT_TESTS_DRIVERS_CUDA_FAKE_API_H
#define WEFT_TESTS_DRIVERS_CUDA_FAKE_API_H

#include <stddef.h>
#include <stdint.h>

#define API __attribute__((visibility("default")))

typedef struct sim_context *CUcontext;
typedef struct sim_stream *CUstream;
typedef struct sim_event *CUevent;
typedef struct sim_module *CUmodule;
typedef struct sim_function *CUfunction;
typedef struct sim_pool *CUmemoryPool;
typedef unsigned long long CUdeviceptr;
typedef unsigned long long CUhandle; /* CUmemGenericAllocationHandle */

typedef struct {
    char bytes[64];
} CUblob; /* CUipcMemHandle, CUmemFabricHandle, CUmemPoolPtrExportData */

typedef struct {
    int type, id;
} CUmemLocation;

typedef struct {
    CUmemLocation location;
    int flags;
} CUmemAccessDesc;

typedef struct {
    int type, requestedHandleTypes;
    CUmemLocation location;
    void *win32HandleMetaData;
    unsigned char allocFlags[8];
} CUmemAllocationProp;

typedef struct {
    int allocType, handleTypes;
    CUmemLocation location;
    void *win32SecurityAttributes;
    size_t maxSize;
    unsigned char reserved[56];
} CUmemPoolProps;

API int cuGetErrorName(int error, const char **text);
API int cuGetErrorString(int error, const char **text);
API int cuDriverGetVersion(int *version);
API int cuInit(unsigned flags);
API int cuDeviceGetCount(int *count);
API int cuDeviceGet(int *device, int ordinal);
API int cuDeviceGetName(char *name, int size, int device);
API int cuDeviceGetUuid(void *uuid, int device);
API int cuDeviceGetUuid_v2(void *uuid, int device);
API int cuDeviceGetPCIBusId(char *pci, int size, int device);
API int cuDeviceTotalMem_v2(size_t *bytes, int device);
API int cuDeviceGetAttribute(int *value, int attribute, int device);
API int cuDeviceCanAccessPeer(int *can, int device, int peer);
API int cuDevicePrimaryCtxRetain(CUcontext *context, int device);
API int cuDevicePrimaryCtxRelease_v2(int device);
API int cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active);
API int cuCtxCreate_v2(CUcontext *context, unsigned flags, int device);
API int cuCtxDestroy_v2(CUcontext context);
API int cuCtxPushCurrent_v2(CUcontext context);
API int cuCtxPopCurrent_v2(CUcontext *context);
API int cuCtxGetCurrent(CUcontext *context);
API int cuCtxEnablePeerAccess(CUcontext peer, unsigned flags);
API int cuCtxGetStreamPriorityRange(int *least, int *greatest);
API int cuThreadExchangeStreamCaptureMode(int *mode);

API int cuPointerGetAttribute(void *value, int attribute, CUdeviceptr pointer);
API int cuPointerGetAttributes(unsigned count, const int *attributes, void **values, CUdeviceptr pointer);
API int cuPointerSetAttribute(const void *value, int attribute, CUdeviceptr pointer);
API int cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *size, CUdeviceptr pointer);
API int cuMemAlloc_v2(CUdeviceptr *memory, size_t size);
API int cuMemFree_v2(CUdeviceptr memory);
API int cuMemAllocManaged(CUdeviceptr *memory, size_t size, unsigned flags);
API int cuMemHostAlloc(void **memory, size_t size, unsigned flags);
API int cuMemFreeHost(void *memory);
API int cuMemHostRegister_v2(void *memory, size_t size, unsigned flags);
API int cuMemHostUnregister(void *memory);
API int cuMemHostGetDevicePointer_v2(CUdeviceptr *pointer, void *memory, unsigned flags);
API int cuMemCreate(CUhandle *handle, size_t size, const CUmemAllocationProp *prop, unsigned long long flags);
API int cuMemRelease(CUhandle handle);
API int cuMemRetainAllocationHandle(CUhandle *handle, void *memory);
API int cuMemAddressReserve(CUdeviceptr *memory, size_t size, size_t alignment, CUdeviceptr hint,
                            unsigned long long flags);
API int cuMemAddressFree(CUdeviceptr memory, size_t size);
API int cuMemMap(CUdeviceptr memory, size_t size, size_t offset, CUhandle handle, unsigned long long flags);
API int cuMemUnmap(CUdeviceptr memory, size_t size);
API int cuMemSetAccess(CUdeviceptr memory, size_t size, const CUmemAccessDesc *access, size_t count);

API int cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *props);
API int cuMemPoolDestroy(CUmemoryPool pool);
API int cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *access, size_t count);
API int cuMemAllocFromPoolAsync(CUdeviceptr *memory, size_t size, CUmemoryPool pool, CUstream stream);
API int cuMemFreeAsync(CUdeviceptr memory, CUstream stream);
API int cuIpcGetMemHandle(CUblob *handle, CUdeviceptr memory);
API int cuIpcOpenMemHandle_v2(CUdeviceptr *memory, CUblob handle, unsigned flags);
API int cuIpcCloseMemHandle(CUdeviceptr memory);
API int cuMemGetHandleForAddressRange(void *handle, CUdeviceptr memory, size_t size, int type,
                                      unsigned long long flags);
API int cuFlushGPUDirectRDMAWrites(int target, int scope);
API int cuMemExportToShareableHandle(void *shareable, CUhandle handle, int type, unsigned long long flags);
API int cuMemImportFromShareableHandle(CUhandle *handle, void *shareable, int type);
API int cuMemPoolExportToShareableHandle(void *shareable, CUmemoryPool pool, int type,
                                         unsigned long long flags);
API int cuMemPoolImportFromShareableHandle(CUmemoryPool *pool, void *shareable, int type,
                                           unsigned long long flags);
API int cuMemPoolExportPointer(CUblob *data, CUdeviceptr memory);
API int cuMemPoolImportPointer(CUdeviceptr *memory, CUmemoryPool pool, CUblob *data);

API int cuStreamCreate(CUstream *stream, unsigned flags);
API int cuStreamCreateWithPriority(CUstream *stream, unsigned flags, int priority);
API int cuStreamDestroy_v2(CUstream stream);
API int cuStreamSynchronize(CUstream stream);
API int cuStreamQuery(CUstream stream);
API int cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags);
API int cuStreamGetCtx(CUstream stream, CUcontext *context);
API int cuStreamIsCapturing(CUstream stream, int *status);
API int cuStreamWaitValue32(CUstream stream, CUdeviceptr word, uint32_t value, unsigned flags);
API int cuStreamWriteValue32(CUstream stream, CUdeviceptr word, uint32_t value, unsigned flags);
API int cuStreamWaitValue32_v2(CUstream stream, CUdeviceptr word, uint32_t value, unsigned flags);
API int cuStreamWriteValue32_v2(CUstream stream, CUdeviceptr word, uint32_t value, unsigned flags);
API int cuLaunchHostFunc(CUstream stream, void (*function)(void *), void *argument);
API int cuEventCreate(CUevent *event, unsigned flags);
API int cuEventDestroy_v2(CUevent event);
API int cuEventRecord(CUevent event, CUstream stream);
API int cuEventQuery(CUevent event);
API int cuEventElapsedTime(float *ms, CUevent from, CUevent to);
API int cuMemcpyAsync(CUdeviceptr destination, CUdeviceptr source, size_t size, CUstream stream);
API int cuMemsetD8Async(CUdeviceptr destination, unsigned char byte, size_t size, CUstream stream);
API int cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned count, const int *options,
                           void **values);
API int cuModuleUnload(CUmodule module);
API int cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name);
API int cuFuncLoad(CUfunction function);
API int cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                       unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                       CUstream stream, void **arguments, void **extra);

#endif
