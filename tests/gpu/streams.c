/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/gpu/streams.h"

#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"

enum { STREAMS_MAX = 1024 };

/* Streams that are open, to know their devices. */
static pthread_mutex_t streams_lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
    void *stream;
    int ordinal;
} streams[STREAMS_MAX];

void *gpu_symbol(const char *name)
{
    void *library =
        dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL); /* counted: it stays, or is there already */
    void *found = library ? dlsym(library, name) : NULL;
    if (!found) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
    return found;
}

/* --- the machine */

static void ask(struct gpu_machine *machine)
{
    struct weft_devices *devices;
    struct weft_device_info info = {.size = sizeof info};
    int status = weft_devices_create("cuda", "", "", &devices);
    const struct weft_device_kind *kind = status ? NULL : weft_devices_find(devices, "cuda");
    int count = kind ? kind->ops.count(kind->device) : -1;
    if (count > 0)
        status = kind->ops.describe(kind->device, 0, &info);
    if (count <= 0 || status) {
        snprintf(machine->reason, sizeof machine->reason, "%s",
                 count == 0 ? "the driver knows no device" : weft_error_detail());
        return;
    }
    machine->devices = count;
    machine->has_dmabuf = (info.flags & WEFT_DEVICE_DMABUF) != 0;
    machine->has_kernels = (info.flags & WEFT_DEVICE_REDUCES) != 0;
    machine->has_waits = (info.flags & WEFT_DEVICE_STREAM_WAITS) != 0;
    machine->has_collectives = (info.flags & WEFT_DEVICE_COLLECTIVES) != 0;
}

void gpu_machine_ask(struct gpu_machine *machine)
{
    int ends[2];
    memset(machine, 0, sizeof *machine);
    snprintf(machine->reason, sizeof machine->reason, "the process that asked the driver has died");
    fflush(NULL);
    if (pipe(ends) != 0)
        return;
    pid_t pid = fork();
    if (pid == 0) {
        ask(machine);
        _exit(write(ends[1], machine, sizeof *machine) != sizeof *machine);
    }
    close(ends[1]);
    struct gpu_machine found;
    if (pid > 0 && read(ends[0], &found, sizeof found) == sizeof found)
        *machine = found;
    close(ends[0]);
    if (pid > 0)
        waitpid(pid, NULL, 0);
}

/* --- streams */

static int enter(int ordinal)
{
    CUcontext context;
    int device, result = CU(cuInit)(0);
    if (!result)
        result = CU(cuDeviceGet)(&device, ordinal);
    if (!result)
        result = CU(cuDevicePrimaryCtxRetain)(&context, device);
    return result ? result : CU(cuCtxPushCurrent_v2)(context);
}

static int leave(int ordinal)
{
    CUcontext context;
    int device, result = CU(cuCtxPopCurrent_v2)(&context);
    result |= CU(cuDeviceGet)(&device, ordinal);
    return result | CU(cuDevicePrimaryCtxRelease_v2)(device);
}

int gpu_priorities(int ordinal, int *least, int *greatest)
{
    int result = enter(ordinal);
    if (result)
        return result;
    result = CU(cuCtxGetStreamPriorityRange)(least, greatest);
    return result | leave(ordinal);
}

/* With the lock. */
static int slot_of(const void *stream)
{
    int slot = 0;
    while (slot < STREAMS_MAX && streams[slot].stream != stream)
        slot++;
    return slot;
}

static int ordinal_of(const void *stream)
{
    pthread_mutex_lock(&streams_lock);
    int ordinal = streams[slot_of(stream)].ordinal;
    pthread_mutex_unlock(&streams_lock);
    return ordinal;
}

/* 0, or there is no room. */
static int put_down(void *stream, int ordinal)
{
    pthread_mutex_lock(&streams_lock);
    int slot = slot_of(NULL);
    if (slot < STREAMS_MAX) {
        streams[slot].stream = stream;
        streams[slot].ordinal = ordinal;
    }
    pthread_mutex_unlock(&streams_lock);
    return slot == STREAMS_MAX;
}

static void strike_out(const void *stream)
{
    pthread_mutex_lock(&streams_lock);
    streams[slot_of(stream)].stream = NULL;
    pthread_mutex_unlock(&streams_lock);
}

/* Retains the context until the stream is closed. */
int gpu_stream_open(int ordinal, int priority, void **stream)
{
    CUstream made;
    CUcontext popped;
    int result = enter(ordinal);
    if (result)
        return result;
    result = CU(cuStreamCreateWithPriority)(&made, 0, priority);
    if (!result && put_down(made, ordinal)) {
        CU(cuStreamDestroy_v2)(made);
        result = 1;
    }
    if (result)
        return result | leave(ordinal);
    *stream = made;
    return CU(cuCtxPopCurrent_v2)(&popped);
}

int gpu_stream_close(void *stream)
{
    int ordinal = ordinal_of(stream), device, result = enter(ordinal);
    strike_out(stream); /* before another one may get its address */
    result |= CU(cuStreamDestroy_v2)(stream);
    result |= leave(ordinal) | CU(cuDeviceGet)(&device, ordinal);
    return result | CU(cuDevicePrimaryCtxRelease_v2)(device);
}

static int stream_open(int ordinal, void **stream)
{
    return gpu_stream_open(ordinal, 0, stream);
}

static void spin(void *flag)
{
    while (!__atomic_load_n((const int *)flag, __ATOMIC_ACQUIRE))
        usleep(50);
}

static int stream_wait(void *stream, const int *flag)
{
    return CU(cuLaunchHostFunc)(stream, spin, (void *)(uintptr_t)flag);
}

static int stream_fill(void *stream, void *memory, int byte, size_t size)
{
    int ordinal = ordinal_of(stream), result = enter(ordinal);
    if (result)
        return result;
    result = CU(cuMemsetD8Async)((CUdeviceptr)(uintptr_t)memory, (unsigned char)byte, size, stream);
    return result | leave(ordinal);
}

static int stream_sync(void *stream)
{
    return CU(cuStreamSynchronize)(stream);
}

static int stream_is_idle(void *stream)
{
    return CU(cuStreamQuery)(stream) == 0;
}

void gpu_streams(const struct weft_device_kind *kind, struct device_streams *found)
{
    (void)kind;
    *found = (struct device_streams){stream_open, gpu_stream_close, stream_wait,
                                     stream_fill, stream_sync,      stream_is_idle};
}
