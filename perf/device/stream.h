/* SPDX-License-Identifier: Apache-2.0 */
/* The stream that calls are made in by --clock device. weft-perf is the program here, so the stream is its own: of CUDA, of the simulated
 * device and of plug-ins the one that NULL names, of Level Zero, which has no such stream, one that is made for it.
 *
 * Threads: one at a time.
 */
#ifndef WEFT_PERF_DEVICE_STREAM_H
#define WEFT_PERF_DEVICE_STREAM_H

#include "perf/device/memory.h"

struct perf_stream {
    void *handle; /* what calls are given; NULL: the runtime's own */
    void *context, *commands;
    int is_list; /* commands is an immediate command list, not a command queue */
};

/* 0, or -1 after a message. End with perf_stream_close(), before the device is closed. */
int perf_stream_open(struct perf_stream *stream, const struct perf_device *device);

/* Waits a while for what the stream still holds. A stream that does not end is left. */
void perf_stream_close(struct perf_stream *stream, const struct perf_device *device);

#endif
