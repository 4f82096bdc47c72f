/* SPDX-License-Identifier: Apache-2.0 */
/* A process with the fake libcuda.so.1 (tests/fakes/drivers/cuda_fake.h), a program that uses it, and weft's backend. */
#ifndef WEFT_TESTS_CUDA_SCENE_H
#define WEFT_TESTS_CUDA_SCENE_H

#include <weft/device.h>
#include "tests/fakes/drivers/cuda_fake.h"
#include "tests/fakes/drivers/cuda_fake_api.h"

/* The driver's functions, as the program calls them. */
#define CU(name) ((__typeof__(&name))scene_symbol(#name))

extern const struct weft_device_ops weft_cuda_ops;

/* Set before it is loaded: the fake that has weft's kernels, compiled as C, and runs them. A program that is linked with
 * --wrap=weft_kernel_image has an image for it to load, also where the library was built without nvcc. */
extern int scene_computes;
/* Path of the fake. */
const char *scene_library(void);
/* Loads it, as its reset() leaves it; NULL when it is not there, and why is printed. */
struct cuda_fake *scene_load(void);
void *scene_symbol(const char *name);
/* Loads it for the suite of the contract (tests/support/device_suite.h), which forks and looks for leaks: what a process keeps of
 * the kind once it has used it, the words for stream waits, is made; then the fake forgets that it was started. NULL, or why
 * that does not work. */
const char *scene_warm_up(struct cuda_fake **fake);

/* Opens the kind; NULL when that fails. */
struct weft_device *scene_open(void);

/* The program works on a device: its primary context is retained and current. 0, or a result of the driver's. */
int scene_enter(int ordinal, CUcontext *context);
/* And no more. Not 0 when another context was current. */
int scene_leave(int ordinal, CUcontext context);
/* For a test's setup: the fake, the kind, and a program that uses device 1 (context NULL: none). 0, or not. */
int scene_begin(struct cuda_fake **fake, struct weft_device **device, CUcontext *context);
/* For its teardown. Not 0 when the program's context is not current, or any other (context NULL: any) is, when the thread's
 * capture mode has changed, or when something is left in the fake. */
int scene_end(struct cuda_fake *fake, struct weft_device *device, CUcontext context);
/* What the backend said last in this thread, as failure or in the log; forgotten when asked. */
const char *scene_text(void);
int scene_logged(void); /* lines in the log, of all threads, since asked last */

/* Memory of the program's, one kind for each way in which the driver hands it to other processes. */
#define SCENE_BYTES ((size_t)1 << 20)
enum scene_way {
    SCENE_LEGACY,
    SCENE_MAPPED,
    SCENE_MAPPED_FABRIC,
    SCENE_MAPPED_ALONE,
    SCENE_POOL,
    SCENE_POOL_FABRIC
};
struct scene_memory {
    CUdeviceptr memory; /* SCENE_BYTES; mapped: the second half of range, the first is free */
    CUdeviceptr range;
    CUhandle block;
    CUmemoryPool pool;
};
/* On a device whose context is current. 0, or not. */
int scene_memory_make(struct scene_memory *made, enum scene_way way, int ordinal);
/* A block that the way MAPPED maps. 0, or a result of the driver's. */
int scene_block_make(CUhandle *block, enum scene_way way, int ordinal);
void scene_memory_free(struct scene_memory *memory);

/* Runs out all that a stream holds. */
void scene_drain(CUstream stream);
/* Waits for an event of weft's; its last test() result. */
int scene_wait(struct weft_device_event *event);

#endif
