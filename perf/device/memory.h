/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of a kind of devices, for buffers and for work on them: cuda, a plug-in's, host.
 *
 * The host may not be able to touch such memory. Bytes go in and out by copies in a queue of the device's, through pinned
 * memory. Kinds are those that the session's context has opened, with its settings. This folder looks inside the library:
 * the contract for devices is public, but who opens them is not.
 *
 * Threads: one at a time for each device that is opened here.
 */
#ifndef WEFT_PERF_DEVICE_MEMORY_H
#define WEFT_PERF_DEVICE_MEMORY_H

#include <stddef.h>
#include <weft/device.h>
#include <weft/weft.h>

#include "perf/options.h"

struct weft_device_kind;

struct perf_device {
    const struct weft_device_kind *kind; /* borrowed from the context */
    int ordinal;
    struct weft_device_queue *queue;
    unsigned char *staging; /* pinned, STAGING_BYTES of memory.c */
    void *stream;           /* that calls are made in: perf/device/stream.h; borrowed */
};

/* Whether a rank's memory can be had: ordinary memory, or a kind of devices that has this one. 0, or -1 after a message. */
int perf_device_check(weft_context *context, const struct perf_place *place);

/* What a rank's device is, for people: "ze:0 [0000:03:00.0] NAME". Empty for ordinary memory, and where there is no such device. */
void perf_device_name(weft_context *context, const struct perf_place *place, char *name, size_t size);

/* Finds the kind and opens a queue. 0, or -1 after a message that says why the kind cannot be used. End with
 * perf_device_close(), before the context is closed. */
int perf_device_open(struct perf_device *device, weft_context *context, const struct perf_place *place);
void perf_device_close(struct perf_device *device);

/* The device's own memory. 0, or -1 after a message. End with perf_device_release(). */
int perf_device_allocate(struct perf_device *device, size_t size, void **memory);
void perf_device_release(struct perf_device *device, void *memory);

/* Copies size bytes from ordinary memory to the device's, and back; they have been copied at the return. 0, or -1 after a
 * message. */
int perf_device_put(struct perf_device *device, void *to, const void *from, size_t size);
int perf_device_get(struct perf_device *device, void *to, const void *from, size_t size);

/* Waits until the queue has done what it holds, by asking without pause. 0, or a negative weft status: see
 * weft_error_detail(). */
int perf_device_finish(struct perf_device *device);

/* Says what has failed, how, and why. Returns -1. */
int perf_device_complain(const struct perf_device *device, const char *what, int status);

#endif
