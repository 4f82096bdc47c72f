/* SPDX-License-Identifier: Apache-2.0 */
/* build: with tests/support/cuda_scene.c tests/support/built.c; beside drivers */
/* Fuzz target: handles of CUDA memory from peers, on the fake driver.
 *
 * Another process exports memory of every method, so that there are right handles; the input says which one, and which of its bytes are
 * others. Whatever comes of it, either the import works and is undone, or it is refused with a reason. Where
 * descriptors of other processes may not be fetched, what is behind that is not reached.
 */
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "devmem/cuda/handle.h"
#include "tests/support/cuda_scene.h"

#define METHODS 3

static struct weft_device_handle handles[METHODS];
static struct weft_device *device;
static struct cuda_fake *fake;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv);

__attribute__((noreturn)) static void export_all(int out)
{
    static const enum scene_way ways[METHODS] = {SCENE_LEGACY, SCENE_MAPPED, SCENE_POOL};
    CUcontext context;
    struct scene_memory memory;
    uint64_t offset;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    device = scene_open();
    if (scene_enter(0, &context))
        _exit(1);
    for (int i = 0; i < METHODS; i++) {
        if (scene_memory_make(&memory, ways[i], 0) ||
            weft_cuda_ops.export_ipc(device, (void *)(uintptr_t)memory.memory, &handles[i], &offset))
            _exit(1);
    }
    if (write(out, handles, sizeof handles) != sizeof handles)
        _exit(1);
    for (;;)
        pause();
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    int ends[2];
    (void)argc, (void)argv;
    fake = scene_load();
    if (!fake || pipe(ends) != 0)
        abort();
    pid_t child = fork();
    if (child == 0)
        export_all(ends[1]);
    close(ends[1]);
    if (child < 0 || read(ends[0], handles, sizeof handles) != sizeof handles)
        abort();
    close(ends[0]);
    device = scene_open();
    if (!device)
        abort();
    return 0;
}

/* The first byte: ordinal and method; the second: whether to change the number of bytes, and to
 * make the hash over them right; then pairs of where and what. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    void *base = NULL;
    if (size < 2)
        return 0;
    struct weft_device_handle handle = handles[data[0] / 4 % METHODS];
    if (data[1] & 1)
        handle.bytes_used = data[1];
    for (size_t i = 2; i + 1 < size; i += 2)
        handle.bytes[data[i] % sizeof handle.bytes] ^= data[i + 1];
    if (data[1] & 2) {
        struct weft_cuda_handle inside;
        memcpy(&inside, handle.bytes, sizeof inside);
        inside.check = weft_cuda_handle_check(&inside);
        memcpy(handle.bytes, &inside, sizeof inside);
    }
    int status = weft_cuda_ops.import_ipc(device, data[0] % 4 - 1, &handle, &base);
    if (status == WEFT_OK) {
        if (!fake->look(base) || weft_cuda_ops.unimport(device, base) != WEFT_OK)
            abort();
    } else if (!*scene_text())
        abort();
    return 0;
}
