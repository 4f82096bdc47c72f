/* SPDX-License-Identifier: Apache-2.0 */
/* build: beside drivers; alone */
/* What a CUDA driver answers where its reference leaves it open: cuda_record [LIBRARY] >trace
 *
 * Writes one line per question, "topic: answer", without addresses or other numbers that differ from run to run, so that the
 * trace of a real driver can be laid beside that of the fake (tests/fakes/drivers/cuda_fake.h):
 *     cuda_record >tests/gpu/traces/NAME.txt              on a machine with an NVIDIA GPU
 *     tests/system/test_cuda_record.sh               compares all traces there are with the fake's
 * Needs device 0, a few MiB of it, and nothing else of weft's. Exit status 1 where not even a context can be had.
 */
#include <dlfcn.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/fakes/drivers/cuda_fake_api.h"

#define MIB ((size_t)2 << 20) /* the granularity of mappings */

static void *library;

static void *symbol(const char *name)
{
    void *found = dlsym(library, name);
    if (!found) {
        fprintf(stderr, "the driver has no %s\n", name);
        exit(1);
    }
    return found;
}
#define CU(name) ((__typeof__(&name))symbol(#name))

static void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void say(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    printf("\n");
    fflush(stdout);
}

/* --- pointers */

static unsigned long long attribute(CUdeviceptr pointer, int which, int *result)
{
    unsigned long long value = 0;
    void *place = &value;
    *result = CU(cuPointerGetAttributes)(1, &which, &place, pointer);
    return value;
}

/* What comes out the same every time, of each attribute that weft asks for. */
static void say_pointer(const char *topic, CUdeviceptr base, size_t size)
{
    static const struct {
        int which;
        const char *name;
    } plain[] = {{2, "MEMORY_TYPE"},     {8, "IS_MANAGED"}, {9, "DEVICE_ORDINAL"},
                 {10, "LEGACY_IPC"},     {13, "MAPPED"},    {14, "ALLOWED_HANDLE_TYPES"},
                 {15, "GPU_DIRECT_RDMA"}};
    CUdeviceptr pointer = base + size / 2;
    int result;
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++) {
        unsigned value = (unsigned)attribute(pointer, plain[i].which, &result);
        say("%s %s: %d, result %d", topic, plain[i].name, (int)value, result);
    }
    say("%s DEVICE_POINTER is the pointer: %d", topic, attribute(pointer, 3, &result) == pointer);
    say("%s BUFFER_ID is told: %d", topic, attribute(pointer, 7, &result) != 0);
    say("%s RANGE_START is the base: %d", topic, attribute(pointer, 11, &result) == base);
    say("%s RANGE_SIZE is the size: %d", topic, attribute(pointer, 12, &result) == size);
    say("%s MEMPOOL is told: %d", topic, attribute(pointer, 17, &result) != 0);
    unsigned long long mapping = attribute(pointer, 19, &result);
    say("%s MAPPING_BASE is the base: %d, result %d", topic, mapping == base, result);
    say("%s MAPPING_SIZE is the size: %d", topic, attribute(pointer, 18, &result) == size);
    say("%s BLOCK_ID is told: %d", topic, attribute(pointer, 20, &result) != 0);
    CUdeviceptr found = 0;
    size_t length = 0;
    result = CU(cuMemGetAddressRange_v2)(&found, &length, pointer);
    say("%s cuMemGetAddressRange: %d, is base and size: %d", topic, result, found == base && length == size);
    unsigned yes = 1;
    say("%s set SYNC_MEMOPS: %d", topic, CU(cuPointerSetAttribute)(&yes, 6, base));
    CUblob blob;
    say("%s cuIpcGetMemHandle: %d", topic, CU(cuIpcGetMemHandle)(&blob, base));
    say("%s cuIpcGetMemHandle inside: %d", topic, CU(cuIpcGetMemHandle)(&blob, pointer));
    CUhandle handle = 0;
    result = CU(cuMemRetainAllocationHandle)(&handle, (void *)(uintptr_t)base);
    say("%s cuMemRetainAllocationHandle: %d", topic, result);
    if (!result)
        CU(cuMemRelease)(handle);
    int fd = -1;
    result = CU(cuMemGetHandleForAddressRange)(&fd, base & ~(CUdeviceptr)4095, 4096, 1, 0);
    say("%s dma-buf of a page: %d", topic, result);
    if (!result)
        close(fd);
}

static void record_none(void)
{
    int local, result;
    say("no pointer MEMORY_TYPE: %llu", attribute((uintptr_t)&local, 2, &result));
    int ordinal = (int)attribute((uintptr_t)&local, 9, &result);
    say("no pointer DEVICE_ORDINAL: %d, result %d", ordinal, result);
    say("no pointer cuPointerGetAttribute: %d", CU(cuPointerGetAttribute)(&local, 2, (uintptr_t)&local));
    say("an unknown attribute: %d", (attribute((uintptr_t)&local, 1000, &result), result));
    CUcontext popped;
    CUdeviceptr memory;
    CU(cuMemAlloc_v2)(&memory, MIB);
    CU(cuCtxPopCurrent_v2)(&popped);
    unsigned long long type = attribute(memory, 2, &result);
    say("without a context MEMORY_TYPE: %llu, result %d", type, result);
    unsigned long long size = attribute(memory, 12, &result);
    say("without a context RANGE_SIZE: %llu, result %d", size, result);
    CU(cuCtxPushCurrent_v2)(popped);
    CU(cuMemFree_v2)(memory);
}

static void record_allocations(void)
{
    CUdeviceptr memory, managed;
    void *pinned, *combined, *host = aligned_alloc(4096, MIB);
    int result;
    CU(cuMemAlloc_v2)(&memory, MIB);
    say_pointer("cuMemAlloc", memory, MIB);
    unsigned long long before = attribute(memory, 7, &result);
    CUdeviceptr was = memory;
    CU(cuMemFree_v2)(memory);
    say("cuMemAlloc freed MEMORY_TYPE: %llu", attribute(was, 2, &result));
    CU(cuMemAlloc_v2)(&memory, MIB);
    say("cuMemAlloc again BUFFER_ID is another: %d", attribute(memory, 7, &result) != before);
    CU(cuMemFree_v2)(memory);
    CU(cuMemAlloc_v2)(&memory, 1000); /* one of several in a block of the driver's */
    say_pointer("cuMemAlloc of 1000 bytes", memory, 1000);
    CU(cuMemFree_v2)(memory);
    CU(cuMemAllocManaged)(&managed, MIB, 1);
    say_pointer("managed", managed, MIB);
    CU(cuMemFree_v2)(managed);
    CU(cuMemHostAlloc)(&pinned, MIB, 1);
    say_pointer("cuMemHostAlloc", (uintptr_t)pinned, MIB);
    CU(cuMemFreeHost)(pinned);
    CU(cuMemHostAlloc)(&combined, MIB, 4);
    say_pointer("cuMemHostAlloc write-combined", (uintptr_t)combined, MIB);
    CU(cuMemFreeHost)(combined);
    CU(cuMemHostRegister_v2)(host, MIB / 2, 3);
    say_pointer("cuMemHostRegister", (uintptr_t)host, MIB / 2);
    say("cuMemHostRegister again: %d", CU(cuMemHostRegister_v2)(host, 4096, 3));
    say("cuMemHostRegister overlapping: %d", CU(cuMemHostRegister_v2)(host, MIB, 3));
    say("cuMemHostRegister next to it: %d", CU(cuMemHostRegister_v2)((char *)host + MIB / 2, MIB / 2, 3));
    CU(cuMemAlloc_v2)(&memory, MIB);
    say("copy over two registrations: %d", CU(cuMemcpyAsync)(memory, (uintptr_t)host, MIB, NULL));
    say("copy over the end of an allocation: %d",
        CU(cuMemcpyAsync)(memory + MIB / 2, (uintptr_t)host, MIB, NULL));
    CU(cuStreamSynchronize)(NULL);
    CU(cuMemFree_v2)(memory);
    say("cuMemHostUnregister inside: %d", CU(cuMemHostUnregister)((char *)host + 4096));
    CU(cuMemHostUnregister)((char *)host + MIB / 2);
    say("cuMemHostUnregister: %d", CU(cuMemHostUnregister)(host));
    say("cuMemHostUnregister again: %d", CU(cuMemHostUnregister)(host));
    free(host);
}

static void record_mappings(int device)
{
    const CUmemAllocationProp prop = {.type = 1, .requestedHandleTypes = 1, .location = {1, device}};
    const CUmemAccessDesc access = {{1, device}, 3};
    CUdeviceptr range;
    CUhandle blocks[2];
    int result = CU(cuMemAddressReserve)(&range, 3 * MIB, 0, 0, 0);
    say("cuMemAddressReserve: %d", result);
    if (result)
        return;
    for (size_t i = 0; i < 2; i++) {
        say("cuMemCreate: %d", CU(cuMemCreate)(&blocks[i], MIB, &prop, 0));
        say("cuMemMap: %d", CU(cuMemMap)(range + i * MIB, MIB, 0, blocks[i], 0));
        say("cuMemSetAccess: %d", CU(cuMemSetAccess)(range + i * MIB, MIB, &access, 1));
    }
    say_pointer("mapping", range + MIB, MIB);
    say("mapping RANGE_START is the reservation's: %d", attribute(range + MIB, 11, &result) == range);
    say("mapping RANGE_SIZE is the reservation's: %d", attribute(range + MIB, 12, &result) == 3 * MIB);
    say("mappings' BUFFER_IDs differ: %d",
        attribute(range, 7, &result) != attribute(range + MIB, 7, &result));
    say("mappings' BLOCK_IDs differ: %d",
        attribute(range, 20, &result) != attribute(range + MIB, 20, &result));
    say("reserved, not mapped MEMORY_TYPE: %llu", attribute(range + 2 * MIB, 2, &result));
    say("reserved, not mapped MAPPED: %llu", attribute(range + 2 * MIB, 13, &result));
    int fd = -1;
    result = CU(cuMemGetHandleForAddressRange)(&fd, range, 2 * MIB, 1, 0);
    say("dma-buf over two mappings: %d", result);
    if (!result)
        close(fd);
    unsigned long long id = attribute(range, 7, &result), block = attribute(range, 20, &result);
    CU(cuMemUnmap)(range, MIB);
    say("unmapped MEMORY_TYPE: %llu", attribute(range, 2, &result));
    CU(cuMemMap)(range, MIB, 0, blocks[0], 0);
    CU(cuMemSetAccess)(range, MIB, &access, 1);
    say("mapped again BUFFER_ID is another: %d", attribute(range, 7, &result) != id);
    say("mapped again BLOCK_ID is another: %d", attribute(range, 20, &result) != block);
    CU(cuMemUnmap)(range, MIB);
    CU(cuMemMap)(range, MIB, 0, blocks[1], 0);
    CU(cuMemSetAccess)(range, MIB, &access, 1);
    say("other memory mapped there BUFFER_ID is another: %d", attribute(range, 7, &result) != id);
    say("other memory mapped there BLOCK_ID is another: %d", attribute(range, 20, &result) != block);
    fd = -1;
    say("cuMemExportToShareableHandle: %d", CU(cuMemExportToShareableHandle)(&fd, blocks[0], 1, 0));
    CUhandle imported;
    say("import of a descriptor: %d", CU(cuMemImportFromShareableHandle)(&imported, (void *)(intptr_t)fd, 1));
    CU(cuMemRelease)(imported);
    close(fd);
    say("import of a pipe: %d", CU(cuMemImportFromShareableHandle)(&imported, (void *)0, 1));
    say("import of no descriptor: %d", CU(cuMemImportFromShareableHandle)(&imported, (void *)99999, 1));
    for (size_t i = 0; i < 2; i++) {
        CU(cuMemUnmap)(range + i * MIB, MIB);
        CU(cuMemRelease)(blocks[i]);
    }
    CU(cuMemAddressFree)(range, 3 * MIB);
}

static void record_pools(int device)
{
    CUdeviceptr memory;
    CUmemoryPool pool, other;
    CUblob data;
    int result, fd = -1;
    unsigned long long before;
    for (int types = 0; types < 2; types++) {
        const CUmemPoolProps props = {.allocType = 1, .handleTypes = types, .location = {1, device}};
        const char *topic = types ? "pool to share" : "pool";
        say("%s: %d", topic, CU(cuMemPoolCreate)(&pool, &props));
        CU(cuMemAllocFromPoolAsync)(&memory, MIB, pool, NULL);
        CU(cuStreamSynchronize)(NULL);
        say_pointer(topic, memory, MIB);
        say("%s export: %d", topic, CU(cuMemPoolExportToShareableHandle)(&fd, pool, 1, 0));
        say("%s export a pointer: %d", topic, CU(cuMemPoolExportPointer)(&data, memory));
        before = attribute(memory, 7, &result);
        CU(cuMemFreeAsync)(memory, NULL);
        CU(cuMemAllocFromPoolAsync)(&memory, MIB, pool, NULL);
        CU(cuStreamSynchronize)(NULL);
        say("%s again BUFFER_ID is another: %d", topic, attribute(memory, 7, &result) != before);
        if (types) {
            say("pool import: %d",
                CU(cuMemPoolImportFromShareableHandle)(&other, (void *)(intptr_t)fd, 1, 0));
            CU(cuMemPoolDestroy)(other);
            close(fd);
        }
        CU(cuMemFreeAsync)(memory, NULL);
        CU(cuStreamSynchronize)(NULL);
        CU(cuMemPoolDestroy)(pool);
    }
}

/* --- streams */

/* With timing, and its time from an event on. */
static void record_time(CUevent untimed, CUstream stream)
{
    CUevent from, to;
    float ms = -1;
    say("event with timing: %d", CU(cuEventCreate)(&from, 0));
    CU(cuEventCreate)(&to, 0);
    say("time between events not recorded: %d", CU(cuEventElapsedTime)(&ms, from, to));
    CU(cuEventRecord)(from, stream);
    CU(cuEventRecord)(to, stream);
    CU(cuStreamSynchronize)(stream);
    int got = CU(cuEventElapsedTime)(&ms, from, to);
    say("time between events: %d, is not negative: %d", got, ms >= 0);
    say("time from an event without timing: %d", CU(cuEventElapsedTime)(&ms, untimed, to));
    CU(cuEventDestroy_v2)(from);
    CU(cuEventDestroy_v2)(to);
}

static void record_streams(void)
{
    CUstream stream;
    CUevent event;
    void *words;
    CUcontext context = NULL, current;
    int status = -1, mode = 2;
    CU(cuCtxGetCurrent)(&current);
    say("stream: %d", CU(cuStreamCreateWithPriority)(&stream, 1, -1000));
    say("event: %d", CU(cuEventCreate)(&event, 2));
    say("event not recorded: %d", CU(cuEventQuery)(event));
    for (uintptr_t handle = 0; handle < 3; handle++) {
        int result = CU(cuStreamIsCapturing)((CUstream)handle, &status);
        say("stream %d cuStreamIsCapturing: %d, status %d", (int)handle, result, status);
        say("stream %d record: %d", (int)handle, CU(cuEventRecord)(event, (CUstream)handle));
        say("stream %d wait: %d", (int)handle, CU(cuStreamWaitEvent)(stream, event, 0));
    }
    record_time(event, stream);
    int got = CU(cuStreamGetCtx)(stream, &context);
    say("cuStreamGetCtx: %d, is the current one: %d", got, context == current);
    CU(cuMemHostAlloc)(&words, 4096, 3);
    memset(words, 0, 4096);
    say("wait for a word: %d", CU(cuStreamWaitValue32_v2)(stream, (uintptr_t)words, 1, 0));
    say("wait and flush: %d", CU(cuStreamWaitValue32_v2)(stream, (uintptr_t)words, 1, 1U << 30));
    CU(cuEventRecord)(event, stream);
    say("event behind it: %d", CU(cuEventQuery)(event));
    /* While a stream waits, none of these may. */
    CUstream second, third;
    CUdeviceptr memory;
    say("stream meanwhile: %d", CU(cuStreamCreateWithPriority)(&second, 1, 0));
    CU(cuStreamCreateWithPriority)(&third, 1, 0);
    say("stream that waits for it: %d", CU(cuStreamWaitEvent)(third, event, 0));
    say("destroying that: %d", CU(cuStreamDestroy_v2)(third));
    say("allocation meanwhile: %d", CU(cuMemAlloc_v2)(&memory, MIB));
    say("copy meanwhile: %d", CU(cuMemcpyAsync)(memory, (uintptr_t)words + 64, 64, second));
    say("write a word: %d", CU(cuStreamWriteValue32_v2)(second, (uintptr_t)words, 1, 0));
    say("synchronise: %d", CU(cuStreamSynchronize)(stream));
    say("event: %d", CU(cuEventQuery)(event));
    say("wait for unregistered memory: %d",
        CU(cuStreamWaitValue32_v2)(stream, (uintptr_t)&mode & ~3UL, 0, 0));
    got = CU(cuThreadExchangeStreamCaptureMode)(&mode);
    say("capture mode before: %d, %d", got, mode);
    CU(cuThreadExchangeStreamCaptureMode)(&mode);
    CU(cuMemFree_v2)(memory);
    CU(cuStreamDestroy_v2)(second);
    CU(cuStreamDestroy_v2)(stream);
    CU(cuEventDestroy_v2)(event);
    CU(cuMemFreeHost)(words);
}

/* --- another process */

static int open_device(CUcontext *context, int *device)
{
    return CU(cuInit)(0) || CU(cuDeviceGet)(device, 0) || CU(cuDevicePrimaryCtxRetain)(context, *device) ||
           CU(cuCtxPushCurrent_v2)(*context);
}

/* A word that a stream waits for. It is written after a second, so that a call that waits for the stream comes back. */
static uint32_t *awaited;

static void write_late(int number)
{
    (void)number;
    __atomic_store_n(awaited, 1, __ATOMIC_RELEASE);
}

static void await_word(CUstream stream, uint32_t *word)
{
    awaited = word;
    CU(cuStreamWaitValue32_v2)(stream, (uintptr_t)word, 1, 0);
    alarm(1);
}

/* Whether it took that long. */
static int was_late(CUstream stream)
{
    alarm(0);
    int is_late = __atomic_exchange_n(awaited, 1, __ATOMIC_ACQ_REL) == 1;
    CU(cuStreamSynchronize)(stream);
    return is_late;
}

static void record_import_meanwhile(CUblob handle)
{
    CUstream stream;
    CUdeviceptr memory = 0;
    void *words;
    CU(cuStreamCreateWithPriority)(&stream, 1, 0);
    CU(cuMemHostAlloc)(&words, 4096, 3);
    memset(words, 0, 4096);
    signal(SIGALRM, write_late);
    await_word(stream, words);
    int result = CU(cuIpcOpenMemHandle_v2)(&memory, handle, 1);
    say("cuIpcOpenMemHandle while a stream waits: %d, waits as well: %d", result, was_late(stream));
    await_word(stream, (uint32_t *)words + 1);
    result = CU(cuIpcCloseMemHandle)(memory);
    say("cuIpcCloseMemHandle while a stream waits: %d, waits as well: %d", result, was_late(stream));
    CU(cuStreamDestroy_v2)(stream);
    CU(cuMemFreeHost)(words);
}

static void importer(int in)
{
    CUcontext context;
    CUdeviceptr memory = 0, again = 0;
    CUblob handle, bad;
    int device;
    if (read(in, &handle, sizeof handle) != sizeof handle || open_device(&context, &device))
        return;
    say("cuIpcOpenMemHandle: %d", CU(cuIpcOpenMemHandle_v2)(&memory, handle, 1));
    say_pointer("imported", memory, MIB);
    int result = CU(cuIpcOpenMemHandle_v2)(&again, handle, 1);
    say("cuIpcOpenMemHandle again: %d, the same address: %d", result, again == memory);
    if (!result)
        CU(cuIpcCloseMemHandle)(again);
    memset(&bad, 0x5a, sizeof bad);
    say("cuIpcOpenMemHandle of nonsense: %d", CU(cuIpcOpenMemHandle_v2)(&again, bad, 1));
    say("cuIpcCloseMemHandle: %d", CU(cuIpcCloseMemHandle)(memory));
    say("cuIpcCloseMemHandle again: %d", CU(cuIpcCloseMemHandle)(memory));
    record_import_meanwhile(handle);
}

int main(int argc, char **argv)
{
    CUcontext context;
    CUdeviceptr memory;
    CUblob handle;
    int ends[2], device, version = 0, status;
    library = dlopen(argc > 1 ? argv[1] : "libcuda.so.1", RTLD_NOW);
    if (!library || pipe(ends) != 0) {
        fprintf(stderr, "%s\n", library ? "no pipe" : dlerror());
        return 1;
    }
    pid_t child = fork(); /* before the driver is started */
    if (child == 0) {
        close(ends[1]);
        importer(ends[0]);
        _exit(0);
    }
    close(ends[0]);
    if (open_device(&context, &device)) {
        fprintf(stderr, "no CUDA device can be used\n");
        return 1;
    }
    CU(cuDriverGetVersion)(&version);
    printf("# driver API %d.%d\n", version / 1000, version % 1000 / 10);
    record_none();
    record_allocations();
    record_mappings(device);
    record_pools(device);
    record_streams();
    CU(cuMemAlloc_v2)(&memory, MIB);
    say("cuIpcGetMemHandle: %d", CU(cuIpcGetMemHandle)(&handle, memory));
    say("cuIpcOpenMemHandle in the same process: %d", CU(cuIpcOpenMemHandle_v2)(&memory, handle, 1));
    status = write(ends[1], &handle, sizeof handle) == sizeof handle ? 0 : 1;
    waitpid(child, NULL, 0);
    return status;
}
