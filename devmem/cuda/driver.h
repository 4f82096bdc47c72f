/* SPDX-License-Identifier: Apache-2.0 */
/* The part of CUDA's driver API that weft uses, declared here so that the library builds without CUDA.
 *
 * Names of symbols, values of constants and layouts of structures are the ABI of libcuda.so.1 (CUDA Driver API reference;
 * cuda.h of CUDA 13.0); tests/devmem/test_cuda_abi.c compares them with cuda.h where there is one. Symbols are asked for by
 * the names that carry their version ("cuMemAlloc_v2"), which a driver keeps for ever, so dlsym() is enough.
 *
 * Two levels. weft_cuda_driver_find() looks for a libcuda.so.1 that the program has loaded already: it loads nothing and
 * initialises nothing, and while there is none, no pointer can be CUDA's. weft_cuda_driver_load() loads it.
 */
#ifndef WEFT_DEVMEM_CUDA_DRIVER_H
#define WEFT_DEVMEM_CUDA_DRIVER_H

#include <stddef.h>
#include <stdint.h>

/* CUDA 11.4, R470: the oldest driver branch that was still maintained when this was written. */
#define WEFT_CUDA_VERSION_MIN 11040

typedef void *cuda_context;
typedef void *cuda_stream;
typedef void *cuda_event;
typedef void *cuda_module;
typedef void *cuda_function;
typedef void *cuda_pool;
typedef uint64_t cuda_pointer;    /* CUdeviceptr */
typedef uint64_t cuda_allocation; /* CUmemGenericAllocationHandle */

enum cuda_result {
    CUDA_SUCCESS = 0,
    CUDA_INVALID_VALUE = 1,
    CUDA_OUT_OF_MEMORY = 2,
    CUDA_NOT_INITIALIZED = 3,
    CUDA_DEINITIALIZED = 4,
    CUDA_STUB_LIBRARY = 34,
    CUDA_DEVICE_UNAVAILABLE = 46,
    CUDA_NO_DEVICE = 100,
    CUDA_INVALID_DEVICE = 101,
    CUDA_INVALID_CONTEXT = 201,
    CUDA_MAP_FAILED = 205,
    CUDA_ALREADY_MAPPED = 208,
    CUDA_NO_BINARY_FOR_GPU = 209,
    CUDA_ECC_UNCORRECTABLE = 214,
    CUDA_PEER_ACCESS_UNSUPPORTED = 217,
    CUDA_NVLINK_UNCORRECTABLE = 220,
    CUDA_UNSUPPORTED_PTX_VERSION = 222,
    CUDA_CONTAINED = 226,
    CUDA_OPERATING_SYSTEM = 304,
    CUDA_INVALID_HANDLE = 400,
    CUDA_NOT_FOUND = 500,
    CUDA_NOT_READY = 600,
    CUDA_ILLEGAL_ADDRESS = 700,
    CUDA_PEER_ACCESS_ALREADY_ENABLED = 704,
    CUDA_HOST_MEMORY_ALREADY_REGISTERED = 712,
    CUDA_HOST_MEMORY_NOT_REGISTERED = 713,
    CUDA_NOT_PERMITTED = 800,
    CUDA_NOT_SUPPORTED = 801,
    CUDA_SYSTEM_NOT_READY = 802,
    CUDA_SYSTEM_DRIVER_MISMATCH = 803,
    CUDA_COMPAT_NOT_SUPPORTED_ON_DEVICE = 804,
    CUDA_CAPTURE_UNSUPPORTED = 900, /* first and last of stream capture's errors */
    CUDA_CAPTURE_WRONG_THREAD = 908,
    CUDA_UNKNOWN = 999,
};

enum cuda_device_attribute {
    CUDA_DEVICE_MULTIPROCESSORS = 16,
    CUDA_DEVICE_COMPUTE_MAJOR = 75,
    CUDA_DEVICE_COMPUTE_MINOR = 76,
    CUDA_DEVICE_CONCURRENT_MANAGED = 89,
    CUDA_DEVICE_USES_HOST_POINTER = 91,
    CUDA_DEVICE_STREAM_MEMORY_OPERATIONS_V1 = 92,
    CUDA_DEVICE_FLUSHES_REMOTE_WRITES = 98,
    CUDA_DEVICE_FLUSH_OPTIONS = 117, /* of writes by GPUDirect RDMA: */
    CUDA_DEVICE_WRITES_ORDERING = 118,
    CUDA_DEVICE_DMABUF = 124,
};

enum cuda_pointer_attribute {
    CUDA_POINTER_MEMORY_TYPE = 2,
    CUDA_POINTER_DEVICE_POINTER = 3,
    CUDA_POINTER_SYNC_MEMOPS = 6,
    CUDA_POINTER_BUFFER_ID = 7,
    CUDA_POINTER_IS_MANAGED = 8,
    CUDA_POINTER_ORDINAL = 9,
    CUDA_POINTER_LEGACY_IPC = 10,
    CUDA_POINTER_RANGE_START = 11,
    CUDA_POINTER_RANGE_SIZE = 12,
    CUDA_POINTER_MAPPED = 13,
    CUDA_POINTER_HANDLE_TYPES = 14,
    CUDA_POINTER_RDMA = 15,
    CUDA_POINTER_POOL = 17,
    CUDA_POINTER_MAPPING_SIZE = 18,
    CUDA_POINTER_MAPPING_BASE = 19,
    CUDA_POINTER_BLOCK_ID = 20,
};

enum {
    CUDA_MEMORY_HOST = 1,
    CUDA_MEMORY_DEVICE = 2,

    CUDA_FLUSH_BY_HOST = 1,
    CUDA_FLUSH_THIS_CONTEXT = 0, /* a target, and a scope: */
    CUDA_ORDERED_FOR_OWNER = 100,

    CUDA_STREAM_NON_BLOCKING = 1,
    CUDA_CAPTURE_NONE = 0,
    CUDA_CAPTURE_MODE_RELAXED = 2,
    CUDA_EVENT_DISABLE_TIMING = 2,
    CUDA_WAIT_GEQ = 0,
    CUDA_WAIT_FLUSH = 1 << 30,
    CUDA_WRITE_DEFAULT = 0,

    CUDA_HOST_PORTABLE = 1, /* of cuMemHostAlloc and cuMemHostRegister */
    CUDA_HOST_DEVICEMAP = 2,

    CUDA_IPC_LAZY_PEER_ACCESS = 1,
    CUDA_HANDLE_POSIX_FD = 1,
    CUDA_HANDLE_FABRIC = 8,
    CUDA_RANGE_DMABUF = 1,
    CUDA_LOCATION_DEVICE = 1,
    CUDA_ACCESS_READ_WRITE = 3,

    CUDA_JIT_ERROR_LOG = 5,
    CUDA_JIT_ERROR_LOG_BYTES = 6,
};

/* Handles of streams that are not pointers; NULL is the legacy one, too. */
#define CUDA_STREAM_LEGACY     ((cuda_stream)1)
#define CUDA_STREAM_PER_THREAD ((cuda_stream)2)

#define CUDA_IPC_BYTES 64 /* of a legacy handle, a fabric handle, and a pool pointer's export */

struct cuda_ipc_handle {
    unsigned char bytes[CUDA_IPC_BYTES];
};

struct cuda_access {
    int location; /* CUmemLocation: type, id */
    int ordinal;
    int flags;
};

/* X(field, symbol, is needed, arguments). */
#define WEFT_CUDA_FUNCTIONS(X)                                                                               \
    X(get_error_name, "cuGetErrorName", 1, (int error, const char **text))                                   \
    X(get_error_string, "cuGetErrorString", 1, (int error, const char **text))                               \
    X(driver_get_version, "cuDriverGetVersion", 1, (int *version))                                           \
    X(init, "cuInit", 1, (unsigned flags))                                                                   \
    X(device_get_count, "cuDeviceGetCount", 1, (int *count))                                                 \
    X(device_get, "cuDeviceGet", 1, (int *device, int ordinal))                                              \
    X(device_get_name, "cuDeviceGetName", 1, (char *name, int size, int device))                             \
    X(device_get_uuid, "cuDeviceGetUuid", 1, (void *uuid, int device))                                       \
    X(device_get_uuid_v2, "cuDeviceGetUuid_v2", 0, (void *uuid, int device))                                 \
    X(device_get_pci, "cuDeviceGetPCIBusId", 1, (char *pci, int size, int device))                           \
    X(device_get_memory, "cuDeviceTotalMem_v2", 1, (size_t * bytes, int device))                             \
    X(device_get_attribute, "cuDeviceGetAttribute", 1, (int *value, int attribute, int device))              \
    X(device_can_access_peer, "cuDeviceCanAccessPeer", 1, (int *can, int device, int peer))                  \
    X(primary_retain, "cuDevicePrimaryCtxRetain", 1, (cuda_context * context, int device))                   \
    X(primary_release, "cuDevicePrimaryCtxRelease_v2", 1, (int device))                                      \
    X(primary_get_state, "cuDevicePrimaryCtxGetState", 1, (int device, unsigned *flags, int *is_active))     \
    X(push, "cuCtxPushCurrent_v2", 1, (cuda_context context))                                                \
    X(pop, "cuCtxPopCurrent_v2", 1, (cuda_context * context))                                                \
    X(enable_peer, "cuCtxEnablePeerAccess", 1, (cuda_context peer, unsigned flags))                          \
    X(get_priorities, "cuCtxGetStreamPriorityRange", 1, (int *least, int *greatest))                         \
    X(exchange_capture_mode, "cuThreadExchangeStreamCaptureMode", 1, (int *mode))                            \
    X(pointer_get, "cuPointerGetAttribute", 1, (void *value, int attribute, cuda_pointer pointer))           \
    X(pointer_get_all, "cuPointerGetAttributes", 1,                                                          \
      (unsigned count, const int *attributes, void **values, cuda_pointer pointer))                          \
    X(pointer_set, "cuPointerSetAttribute", 1, (const void *value, int attribute, cuda_pointer pointer))     \
    X(get_range, "cuMemGetAddressRange_v2", 1, (cuda_pointer * base, size_t * size, cuda_pointer pointer))   \
    X(allocate, "cuMemAlloc_v2", 1, (cuda_pointer * memory, size_t size))                                    \
    X(release, "cuMemFree_v2", 1, (cuda_pointer memory))                                                     \
    X(host_allocate, "cuMemHostAlloc", 1, (void **memory, size_t size, unsigned flags))                      \
    X(host_release, "cuMemFreeHost", 1, (void *memory))                                                      \
    X(host_register, "cuMemHostRegister_v2", 1, (void *memory, size_t size, unsigned flags))                 \
    X(host_unregister, "cuMemHostUnregister", 1, (void *memory))                                             \
    X(host_get_pointer, "cuMemHostGetDevicePointer_v2", 1,                                                   \
      (cuda_pointer * pointer, void *memory, unsigned flags))                                                \
    X(copy, "cuMemcpyAsync", 1,                                                                              \
      (cuda_pointer destination, cuda_pointer source, size_t size, cuda_stream stream))                      \
    X(stream_create, "cuStreamCreateWithPriority", 1, (cuda_stream * stream, unsigned flags, int priority))  \
    X(stream_destroy, "cuStreamDestroy_v2", 1, (cuda_stream stream))                                         \
    X(stream_synchronize, "cuStreamSynchronize", 1, (cuda_stream stream))                                    \
    X(stream_wait_event, "cuStreamWaitEvent", 1, (cuda_stream stream, cuda_event event, unsigned flags))     \
    X(stream_get_context, "cuStreamGetCtx", 1, (cuda_stream stream, cuda_context * context))                 \
    X(stream_is_capturing, "cuStreamIsCapturing", 1, (cuda_stream stream, int *status))                      \
    X(wait_value, "cuStreamWaitValue32_v2", 0,                                                               \
      (cuda_stream stream, cuda_pointer word, uint32_t value, unsigned flags))                               \
    X(write_value, "cuStreamWriteValue32_v2", 0,                                                             \
      (cuda_stream stream, cuda_pointer word, uint32_t value, unsigned flags))                               \
    X(wait_value_v1, "cuStreamWaitValue32", 0,                                                               \
      (cuda_stream stream, cuda_pointer word, uint32_t value, unsigned flags))                               \
    X(write_value_v1, "cuStreamWriteValue32", 0,                                                             \
      (cuda_stream stream, cuda_pointer word, uint32_t value, unsigned flags))                               \
    X(event_create, "cuEventCreate", 1, (cuda_event * event, unsigned flags))                                \
    X(event_destroy, "cuEventDestroy_v2", 1, (cuda_event event))                                             \
    X(event_record, "cuEventRecord", 1, (cuda_event event, cuda_stream stream))                              \
    X(event_query, "cuEventQuery", 1, (cuda_event event))                                                    \
    X(event_elapsed, "cuEventElapsedTime", 1, (float *ms, cuda_event from, cuda_event to))                   \
    X(ipc_get, "cuIpcGetMemHandle", 1, (struct cuda_ipc_handle * handle, cuda_pointer memory))               \
    X(ipc_open, "cuIpcOpenMemHandle_v2", 1,                                                                  \
      (cuda_pointer * memory, struct cuda_ipc_handle handle, unsigned flags))                                \
    X(ipc_close, "cuIpcCloseMemHandle", 1, (cuda_pointer memory))                                            \
    X(get_range_handle, "cuMemGetHandleForAddressRange", 0,                                                  \
      (void *handle, cuda_pointer memory, size_t size, int type, unsigned long long flags))                  \
    X(flush_writes, "cuFlushGPUDirectRDMAWrites", 1, (int target, int scope))                                \
    X(retain_allocation, "cuMemRetainAllocationHandle", 1, (cuda_allocation * allocation, void *memory))     \
    X(release_allocation, "cuMemRelease", 1, (cuda_allocation allocation))                                   \
    X(export_allocation, "cuMemExportToShareableHandle", 1,                                                  \
      (void *handle, cuda_allocation allocation, int type, unsigned long long flags))                        \
    X(import_allocation, "cuMemImportFromShareableHandle", 1,                                                \
      (cuda_allocation * allocation, void *handle, int type))                                                \
    X(reserve, "cuMemAddressReserve", 1,                                                                     \
      (cuda_pointer * memory, size_t size, size_t alignment, cuda_pointer hint, unsigned long long flags))   \
    X(unreserve, "cuMemAddressFree", 1, (cuda_pointer memory, size_t size))                                  \
    X(map, "cuMemMap", 1,                                                                                    \
      (cuda_pointer memory, size_t size, size_t offset, cuda_allocation allocation,                          \
       unsigned long long flags))                                                                            \
    X(unmap, "cuMemUnmap", 1, (cuda_pointer memory, size_t size))                                            \
    X(set_access, "cuMemSetAccess", 1,                                                                       \
      (cuda_pointer memory, size_t size, const struct cuda_access *access, size_t count))                    \
    X(pool_export, "cuMemPoolExportToShareableHandle", 1,                                                    \
      (void *handle, cuda_pool pool, int type, unsigned long long flags))                                    \
    X(pool_import, "cuMemPoolImportFromShareableHandle", 1,                                                  \
      (cuda_pool * pool, void *handle, int type, unsigned long long flags))                                  \
    X(pool_export_pointer, "cuMemPoolExportPointer", 1,                                                      \
      (struct cuda_ipc_handle * data, cuda_pointer memory))                                                  \
    X(pool_import_pointer, "cuMemPoolImportPointer", 1,                                                      \
      (cuda_pointer * memory, cuda_pool pool, struct cuda_ipc_handle * data))                                \
    X(pool_set_access, "cuMemPoolSetAccess", 1,                                                              \
      (cuda_pool pool, const struct cuda_access *access, size_t count))                                      \
    X(pool_destroy, "cuMemPoolDestroy", 1, (cuda_pool pool))                                                 \
    X(module_load, "cuModuleLoadDataEx", 1,                                                                  \
      (cuda_module * module, const void *image, unsigned count, const int *options, void **values))          \
    X(module_unload, "cuModuleUnload", 1, (cuda_module module))                                              \
    X(module_get_function, "cuModuleGetFunction", 1,                                                         \
      (cuda_function * function, cuda_module module, const char *name))                                      \
    X(function_load, "cuFuncLoad", 0, (cuda_function function))                                              \
    X(launch, "cuLaunchKernel", 1,                                                                           \
      (cuda_function function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,          \
       unsigned block_y, unsigned block_z, unsigned shared_bytes, cuda_stream stream, void **arguments,      \
       void **extra))

/* All return an enum cuda_result. Functions that are not needed may be NULL. */
struct weft_cuda_driver {
#define WEFT_CUDA_FIELD(field, symbol, is_needed, arguments) int(*field) arguments;
    WEFT_CUDA_FUNCTIONS(WEFT_CUDA_FIELD)
#undef WEFT_CUDA_FIELD
    int version; /* 1000 * major + 10 * minor: the newest CUDA that the driver serves */
};

/* Fills the table from a library that is in the process already. 1: done; 0: there is none; a negative status with its
 * reason in text (WEFT_NOT_FOUND: too old, or a function is missing). */
int weft_cuda_driver_find(struct weft_cuda_driver *driver, char *text, size_t size);

/* The same; loads the library where need be, for good, and leaves what signals do as it was. Never 0. */
int weft_cuda_driver_load(struct weft_cuda_driver *driver, char *text, size_t size);

#endif
