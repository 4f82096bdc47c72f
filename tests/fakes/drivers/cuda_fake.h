/* SPDX-License-Identifier: Apache-2.0 */
/* A fake libcuda.so.1 (built from cuda_fake_*.c): what tests set and see. The library has it under the name cuda_fake.
 *
 * It serves the driver functions that weft uses and those that a program uses to make memory, streams and contexts for weft to find.
 * Device memory lies at real addresses that the host may not touch; copies and kernels work on a second mapping of it. Streams are
 * threads. Memory is shared with other processes that have the fake loaded. It was written from the driver API's reference;
 * where the reference leaves something open, the comment there says what was assumed. No real driver has confirmed it: that is
 * what tests/gpu/cuda_record.c is for.
 */
#ifndef WEFT_TESTS_DRIVERS_CUDA_FAKE_H
#define WEFT_TESTS_DRIVERS_CUDA_FAKE_H

#include <stddef.h>
#include <stdint.h>

struct weft_kernel_batch;
struct weft_kernel_collective;

struct cuda_fake {
    /* What the driver is like. cuda_fake.reset() sets: version 13.0, two devices that reach each other (or as
     * many as CUDA_VISIBLE_DEVICES names), everything supported. */
    int version, devices;
    int init_result;
    int knows_mappings; /* pointer attributes 18 to 20 */
    int needs_context;  /* questions about pointers do */
    int has_dmabuf, has_flush, has_peers, has_concurrent_managed, uses_host_pointers;
    int flush_options, writes_ordering; /* of GPUDirect RDMA */
    int has_memory_operations;          /* of the first version */
    int major;                          /* compute capability */
    void *capturing;                    /* stream that is being captured */
    /* Runs a kernel: pieces' addresses are such that the host may touch them. NULL: launches are only counted. */
    void (*run)(const char *kernel, unsigned grid, unsigned block, const struct weft_kernel_batch *batch);
    /* Likewise one that works through a program, whose name ends so. */
    void (*run_collective)(const char *kernel, unsigned grid,
                           const struct weft_kernel_collective *collective);

    /* Also forgets that the driver was started, so that a process forked afterwards may start it. */
    void (*reset)(void);
    /* The call of this name fails with result, once, after so many that do not. */
    void (*let_fail)(const char *call, int result, int after);
    int (*calls)(const char *call); /* how often it was called since reset() */
    /* Work of the device ends with this result, CUDA_ERROR_ILLEGAL_ADDRESS say, and so does everything from then on. 0 mends it. */
    void (*break_device)(int device, int result);
    void (*shut_down)(int is_down); /* as at the process's end: CUDA_ERROR_DEINITIALIZED */
    /* Where the host may touch device memory; NULL: not there. */
    void *(*look)(const void *memory);
    /* What has not been given back: primary contexts, streams, events, modules, memory, registrations, imports. */
    int (*left)(void);
    int (*memories)(void); /* of these, device and pinned memory and what was imported */
    int (*is_idle)(void *stream);
    int (*stream_flags)(void *stream, int *priority);
    /* How often since reset() the kernels were loaded, or one of them, while a stream of the same context waited for a word, or was to. A driver
     * may wait for the device then. It loads a function late: by cuFuncLoad, or else with the first launch. */
    int (*late_loads)(void);
    int (*capture_mode)(void);                 /* of the calling thread */
    int (*is_synchronous)(const void *memory); /* SYNC_MEMOPS was set */
};

#endif
