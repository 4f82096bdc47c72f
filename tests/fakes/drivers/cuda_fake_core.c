/* SPDX-License-Identifier: Apache-2.0 */
/* The fake libcuda.so.1: calls, devices and contexts. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "tests/fakes/drivers/cuda_fake_sim.h"

#define CALLS 128
#define DEPTH 16

struct sim sim = {.lock = PTHREAD_MUTEX_INITIALIZER, .next_id = 1000};

static struct {
    const char *name;
    int count, fail_result, fail_after; /* fail_result 0: does not fail */
} calls[CALLS];
static pthread_mutex_t calls_lock = PTHREAD_MUTEX_INITIALIZER;

static __thread CUcontext stack[DEPTH];
static __thread int depth;
static __thread int capture_mode;

/* --- what tests set and see */

static int call_index(const char *name)
{
    for (int i = 0; i < CALLS; i++) {
        if (!calls[i].name)
            calls[i].name = strdup(name);
        if (strcmp(calls[i].name, name) == 0)
            return i;
    }
    abort();
}

static void fake_let_fail(const char *call, int result, int after)
{
    pthread_mutex_lock(&calls_lock);
    int index = call_index(call);
    calls[index].fail_result = result;
    calls[index].fail_after = after;
    pthread_mutex_unlock(&calls_lock);
}

static int fake_calls(const char *call)
{
    pthread_mutex_lock(&calls_lock);
    int count = calls[call_index(call)].count;
    pthread_mutex_unlock(&calls_lock);
    return count;
}

int sim_call(const char *name)
{
    pthread_mutex_lock(&calls_lock);
    int index = call_index(name), result = SUCCESS;
    calls[index].count++;
    if (calls[index].fail_result && calls[index].fail_after-- == 0) {
        result = calls[index].fail_result;
        calls[index].fail_result = 0;
    }
    pthread_mutex_unlock(&calls_lock);
    pthread_mutex_lock(&sim.lock);
    if (sim.is_down)
        result = DEINITIALIZED;
    else if (strcmp(name, "cuInit") != 0 && (!sim.pid || sim.pid != getpid()))
        result = NOT_INITIALIZED;
    pthread_mutex_unlock(&sim.lock);
    return result;
}

/* As the driver goes by it; here only how many are named matters. */
static int visible_devices(void)
{
    const char *names = getenv("CUDA_VISIBLE_DEVICES");
    int count = names && *names;
    for (; names && *names; names++)
        count += *names == ',';
    return names ? count : 2;
}

static void fake_reset(void)
{
    pthread_mutex_lock(&calls_lock);
    for (int i = 0; i < CALLS; i++)
        calls[i].count = calls[i].fail_result = 0;
    pthread_mutex_unlock(&calls_lock);
    memset(sim.results, 0, sizeof sim.results);
    sim.is_down = sim.pid = sim.late_loads = 0;
    cuda_fake.version = 13000;
    cuda_fake.devices = visible_devices();
    cuda_fake.init_result = SUCCESS;
    cuda_fake.knows_mappings = cuda_fake.has_dmabuf = cuda_fake.has_flush = cuda_fake.has_peers = 1;
    cuda_fake.flush_options = 3;
    cuda_fake.writes_ordering = 100;
    cuda_fake.has_concurrent_managed = cuda_fake.uses_host_pointers = 1;
    cuda_fake.has_memory_operations = cuda_fake.needs_context = 0;
    cuda_fake.major = 9;
    cuda_fake.capturing = NULL;
    cuda_fake.run = NULL;
    cuda_fake.run_collective = NULL;
    if (sim_kernels_run)
        sim_kernels_run(&cuda_fake);
}

static void fake_break(int device, int result)
{
    pthread_mutex_lock(&sim.lock);
    sim.results[device] = result;
    pthread_mutex_unlock(&sim.lock);
    sim_wake();
}

static void fake_shut_down(int is_down)
{
    pthread_mutex_lock(&sim.lock);
    sim.is_down = is_down;
    pthread_mutex_unlock(&sim.lock);
    sim_wake();
}

static int fake_left(void)
{
    pthread_mutex_lock(&sim.lock);
    int left = sim.streams + sim.events + sim.modules + sim.contexts + sim.blocks;
    for (struct sim_memory *memory = sim.memory; memory; memory = memory->next)
        left++;
    for (int i = 0; i < SIM_DEVICES; i++)
        left += sim.primary[i].references;
    pthread_mutex_unlock(&sim.lock);
    return left;
}

static int fake_memories(void)
{
    int count = 0;
    pthread_mutex_lock(&sim.lock);
    for (struct sim_memory *memory = sim.memory; memory; memory = memory->next)
        count += memory->kind != SIM_REGISTERED;
    pthread_mutex_unlock(&sim.lock);
    return count;
}

static int fake_late_loads(void)
{
    pthread_mutex_lock(&sim.lock);
    int late_loads = sim.late_loads;
    pthread_mutex_unlock(&sim.lock);
    return late_loads;
}

static void *fake_look(const void *memory)
{
    size_t room;
    pthread_mutex_lock(&sim.lock);
    struct sim_memory *found = sim_find((uintptr_t)memory);
    pthread_mutex_unlock(&sim.lock);
    return found ? sim_touch((uintptr_t)memory, &room) : NULL;
}

static int fake_capture_mode(void)
{
    return capture_mode;
}

static int fake_is_synchronous(const void *memory)
{
    pthread_mutex_lock(&sim.lock);
    struct sim_memory *found = sim_find((uintptr_t)memory);
    int is_synchronous = found && found->is_synchronous;
    pthread_mutex_unlock(&sim.lock);
    return is_synchronous;
}

struct cuda_fake cuda_fake __attribute__((visibility("default"))) = {
    .version = 13000,
    .devices = 2,
    .reset = fake_reset,
    .let_fail = fake_let_fail,
    .calls = fake_calls,
    .break_device = fake_break,
    .shut_down = fake_shut_down,
    .look = fake_look,
    .left = fake_left,
    .memories = fake_memories,
    .is_idle = sim_stream_is_idle,
    .stream_flags = sim_stream_flags,
    .late_loads = fake_late_loads,
    .capture_mode = fake_capture_mode,
    .is_synchronous = fake_is_synchronous,
};

__attribute__((constructor)) static void begin(void)
{
    fake_reset();
    pthread_mutex_lock(&sim.lock); /* who loads it later sees that, also in a sanitizer's eyes */
    pthread_mutex_unlock(&sim.lock);
}

/* --- errors */

static const struct {
    int code;
    const char *name, *text;
} errors[] = {
    {INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {DEINITIALIZED, "CUDA_ERROR_DEINITIALIZED", "driver shutting down"},
    {100, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {209, "CUDA_ERROR_NO_BINARY_FOR_GPU", "no kernel image is available for execution on the device"},
    {INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {700, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    {803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
     "system has unsupported display driver / cuda driver combination"},
};

static int error_index(int error)
{
    for (int i = 0; i < (int)(sizeof errors / sizeof *errors); i++) {
        if (errors[i].code == error)
            return i;
    }
    return -1;
}

int cuGetErrorName(int error, const char **text)
{
    int index = error_index(error);
    *text = index < 0 ? NULL : errors[index].name;
    return index < 0 ? INVALID_VALUE : SUCCESS;
}

int cuGetErrorString(int error, const char **text)
{
    int index = error_index(error);
    *text = index < 0 ? NULL : errors[index].text;
    return index < 0 ? INVALID_VALUE : SUCCESS;
}

/* --- devices */

int cuDriverGetVersion(int *version)
{
    pthread_mutex_lock(&sim.lock); /* loading, which another thread may have done, is seen */
    *version = cuda_fake.version;
    pthread_mutex_unlock(&sim.lock);
    return *version ? SUCCESS : INVALID_VALUE;
}

/* In a process that was forked from one that has initialised CUDA there is no CUDA. */
int cuInit(unsigned flags)
{
    CALL();
    if (flags)
        return INVALID_VALUE;
    if (cuda_fake.init_result)
        return cuda_fake.init_result;
    pthread_mutex_lock(&sim.lock);
    int result = sim.pid && sim.pid != getpid() ? NOT_INITIALIZED : SUCCESS;
    if (!result)
        sim.pid = getpid();
    pthread_mutex_unlock(&sim.lock);
    return result;
}

int cuDeviceGetCount(int *count)
{
    CALL();
    *count = cuda_fake.devices;
    return SUCCESS;
}

/* CUdevice is the ordinal, which nothing promises: here it is not. */
#define DEVICE_OF(ordinal) ((ordinal) + 100)
#define ORDINAL_OF(device) ((device)-100)
#define IS_DEVICE(device)  ((device) >= 100 && (device) < 100 + cuda_fake.devices)

int cuDeviceGet(int *device, int ordinal)
{
    CALL();
    if (ordinal < 0 || ordinal >= cuda_fake.devices)
        return INVALID_DEVICE;
    *device = DEVICE_OF(ordinal);
    return SUCCESS;
}

int cuDeviceGetName(char *name, int size, int device)
{
    CALL();
    if (!IS_DEVICE(device))
        return INVALID_DEVICE;
    snprintf(name, (size_t)size, "NVIDIA Fake %d", ORDINAL_OF(device));
    return SUCCESS;
}

/* A MIG instance's own identity is the second version's. */
int cuDeviceGetUuid(void *uuid, int device)
{
    CALL();
    memset(uuid, 0x10, 16);
    return IS_DEVICE(device) ? SUCCESS : INVALID_DEVICE;
}

int cuDeviceGetUuid_v2(void *uuid, int device)
{
    CALL();
    memset(uuid, 0x20 + ORDINAL_OF(device), 16);
    return IS_DEVICE(device) ? SUCCESS : INVALID_DEVICE;
}

int cuDeviceGetPCIBusId(char *pci, int size, int device)
{
    CALL();
    if (!IS_DEVICE(device))
        return INVALID_DEVICE;
    snprintf(pci, (size_t)size, "0000:%02X:00.0", 0x3b + ORDINAL_OF(device));
    return SUCCESS;
}

int cuDeviceTotalMem_v2(size_t *bytes, int device)
{
    CALL();
    *bytes = (size_t)80 << 30;
    return IS_DEVICE(device) ? SUCCESS : INVALID_DEVICE;
}

int cuDeviceGetAttribute(int *value, int attribute, int device)
{
    CALL();
    if (!IS_DEVICE(device))
        return INVALID_DEVICE;
    switch (attribute) {
    case 16: /* MULTIPROCESSOR_COUNT */
        *value = 12;
        return SUCCESS;
    case 75: /* COMPUTE_CAPABILITY_MAJOR */
        *value = cuda_fake.major;
        return SUCCESS;
    case 76: /* COMPUTE_CAPABILITY_MINOR */
        *value = 0;
        return SUCCESS;
    case 89: /* CONCURRENT_MANAGED_ACCESS */
        *value = cuda_fake.has_concurrent_managed;
        return SUCCESS;
    case 91: /* CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM */
        *value = cuda_fake.uses_host_pointers;
        return SUCCESS;
    case 92: /* CAN_USE_STREAM_MEM_OPS_V1 */
        *value = cuda_fake.has_memory_operations;
        return SUCCESS;
    case 98: /* CAN_FLUSH_REMOTE_WRITES */
        *value = cuda_fake.has_flush;
        return SUCCESS;
    case 117: /* GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS */
        *value = cuda_fake.flush_options;
        return SUCCESS;
    case 118: /* GPU_DIRECT_RDMA_WRITES_ORDERING */
        *value = cuda_fake.writes_ordering;
        return SUCCESS;
    case 124: /* DMA_BUF_SUPPORTED */
        *value = cuda_fake.has_dmabuf;
        return SUCCESS;
    default:
        return INVALID_VALUE;
    }
}

int cuDeviceCanAccessPeer(int *can, int device, int peer)
{
    CALL();
    *can = cuda_fake.has_peers && device != peer;
    return IS_DEVICE(device) && IS_DEVICE(peer) ? SUCCESS : INVALID_DEVICE;
}

/* --- contexts */

CUcontext sim_current(void)
{
    return depth ? stack[depth - 1] : NULL;
}

int cuDevicePrimaryCtxRetain(CUcontext *context, int device)
{
    CALL();
    if (!IS_DEVICE(device))
        return INVALID_DEVICE;
    pthread_mutex_lock(&sim.lock);
    struct sim_context *primary = &sim.primary[ORDINAL_OF(device)];
    if (!primary->is_primary) { /* from then on others read it */
        primary->device = ORDINAL_OF(device);
        primary->is_primary = 1;
    }
    primary->references++;
    *context = primary;
    pthread_mutex_unlock(&sim.lock);
    return SUCCESS;
}

/* Registrations of host memory end with the context that they were made in. */
static void context_end(CUcontext context)
{
    sim_streams_end(context);
    pthread_mutex_lock(&sim.lock);
    for (struct sim_memory *memory = sim.memory, *next; memory; memory = next) {
        next = memory->next;
        if (memory->kind == SIM_REGISTERED && memory->context == context)
            sim_remove(memory);
    }
    context->peers = 0;
    pthread_mutex_unlock(&sim.lock);
}

int cuDevicePrimaryCtxRelease_v2(int device)
{
    CALL();
    pthread_mutex_lock(&sim.lock);
    struct sim_context *primary = &sim.primary[ORDINAL_OF(device)];
    int is_last = primary->references == 1, was_there = primary->references > 0;
    if (was_there)
        primary->references--;
    pthread_mutex_unlock(&sim.lock);
    if (is_last)
        context_end(primary);
    return was_there ? SUCCESS : INVALID_CONTEXT;
}

int cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active)
{
    CALL();
    if (!IS_DEVICE(device))
        return INVALID_DEVICE;
    pthread_mutex_lock(&sim.lock);
    *flags = 0;
    *active = sim.primary[ORDINAL_OF(device)].references > 0;
    pthread_mutex_unlock(&sim.lock);
    return SUCCESS;
}

int cuCtxPushCurrent_v2(CUcontext context)
{
    CALL();
    if (!context || depth == DEPTH)
        return INVALID_CONTEXT;
    stack[depth++] = context;
    return SUCCESS;
}

int cuCtxPopCurrent_v2(CUcontext *context)
{
    CALL();
    if (!depth)
        return INVALID_CONTEXT;
    *context = stack[--depth];
    return SUCCESS;
}

int cuCtxGetCurrent(CUcontext *context)
{
    CALL();
    *context = sim_current();
    return SUCCESS;
}

/* Becomes current, as the real one does. */
int cuCtxCreate_v2(CUcontext *context, unsigned flags, int device)
{
    CALL();
    (void)flags;
    *context = calloc(1, sizeof **context);
    (*context)->device = ORDINAL_OF(device);
    pthread_mutex_lock(&sim.lock);
    sim.contexts++;
    pthread_mutex_unlock(&sim.lock);
    return cuCtxPushCurrent_v2(*context);
}

int cuCtxDestroy_v2(CUcontext context)
{
    CALL();
    if (depth && stack[depth - 1] == context)
        depth--;
    context_end(context);
    free(context);
    pthread_mutex_lock(&sim.lock);
    sim.contexts--;
    pthread_mutex_unlock(&sim.lock);
    return SUCCESS;
}

int cuCtxEnablePeerAccess(CUcontext peer, unsigned flags)
{
    CALL();
    CUcontext context = sim_current();
    if (!context || flags)
        return INVALID_VALUE;
    pthread_mutex_lock(&sim.lock);
    int was_enabled = context->peers >> peer->device & 1;
    context->peers |= 1U << peer->device;
    pthread_mutex_unlock(&sim.lock);
    return was_enabled ? PEER_ALREADY_ENABLED : SUCCESS;
}

int cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
    CALL();
    *least = 0;
    *greatest = -5;
    return sim_current() ? SUCCESS : INVALID_CONTEXT;
}

int cuThreadExchangeStreamCaptureMode(int *mode)
{
    CALL();
    int before = capture_mode;
    capture_mode = *mode;
    *mode = before;
    return SUCCESS;
}
