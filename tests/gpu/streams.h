/* SPDX-License-Identifier: Apache-2.0 */
/* A program that uses CUDA beside weft, on whatever libcuda.so.1 the loader finds: a machine's driver, or the fake
 * (tests/fakes/drivers/). Needs neither CUDA's headers nor its runtime.
 *
 * Streams are of their device's primary context, as those of CUDA's runtime are. Threads: any.
 */
#ifndef WEFT_TESTS_GPU_STREAMS_H
#define WEFT_TESTS_GPU_STREAMS_H

#include "tests/fakes/drivers/cuda_fake_api.h"
#include "tests/support/device_suite.h"

/* The driver's functions. Ends the program with a message where there is none. */
#define CU(name) ((__typeof__(&name))gpu_symbol(#name))
void *gpu_symbol(const char *name);

/* What the machine has, found out by a process of its own, so that this one may still fork before it starts the driver. */
struct gpu_machine {
    int devices; /* 0: none that weft can use; reason says why */
    int has_dmabuf, has_kernels, has_waits, has_collectives;
    char reason[600];
};
void gpu_machine_ask(struct gpu_machine *machine);

/* For a row of the suite for kinds of devices. */
void gpu_streams(const struct weft_device_kind *kind, struct device_streams *found);

/* A stream of this priority: 0, or below for a higher one. 0 or the driver's error. End with gpu_stream_close(). */
int gpu_stream_open(int ordinal, int priority, void **stream);
int gpu_stream_close(void *stream);
/* The lowest and the highest priority that streams may have. */
int gpu_priorities(int ordinal, int *least, int *greatest);

#endif
