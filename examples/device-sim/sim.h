/* SPDX-License-Identifier: Apache-2.0 */
/* The programs' side of the simulated device: what a vendor's runtime is for a real one.
 *
 * The plug-in "sim" makes devices out of this process: memory that the host cannot touch, and threads that can. This is how a
 * program makes streams on them. It finds the table by dlsym(handle, "sim_api"), handle being that of the plug-in.
 *
 * Each device has a stream of its own as well, which is NULL where weft takes streams; programs reach it through weft alone.
 *
 * Threads: any. A stream is used by one thread at a time.
 */
#ifndef WEFT_SIM_H
#define WEFT_SIM_H

#include <stddef.h>
#include <stdint.h>

/* What exists in this process at the moment. */
struct sim_counts {
    int spans; /* allocations, imports and pinned ranges */
    int queues, streams, events, waits;
};

/* All calls but counts() return 0 or a negative enum weft_status. */
struct sim_api {
    size_t size;
    int (*stream_open)(int ordinal, void **stream);
    /* Waits for what the stream holds. */
    int (*stream_close)(void *stream);
    /* A kernel that ends when *flag is not 0. */
    int (*stream_wait)(void *stream, const int *flag);
    /* Kernels on device, pinned or managed memory. */
    int (*stream_fill)(void *stream, void *memory, int byte, size_t size);
    int (*stream_copy)(void *stream, void *destination, const void *source, size_t size);
    /* Waits until the stream holds nothing; its first failure. */
    int (*stream_sync)(void *stream);
    /* 1: it holds nothing, 0: it does. */
    int (*stream_is_idle)(void *stream);
    void (*counts)(struct sim_counts *counts);
};

#define SIM_API_SYMBOL "sim_api"

#endif
