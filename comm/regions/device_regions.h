/* SPDX-License-Identifier: Apache-2.0 */
/* Registrations of device memory, and which way they are made.
 *
 * Ways, the first that works: as a dma-buf, which the kind of device exports and the transport takes; by pointer, where the
 * transport's library knows the kind (libfabric's FI_HMEM) or drivers of NICs do (peer-memory modules). Where none works the
 * caller copies through host memory.
 *
 * A region covers what an operation uses and is kept for later ones, by the identity of the allocation (include/weft/device.h)
 * and not by its address: a buffer is looked up with what identify() says now, so what was registered before the
 * program freed the memory is never found again, whatever lies at its address. Entries whose identity is gone are ended
 * when the next registration is made, or when that of a neighbour is found. Entries that no operation uses are kept up to bytes_max and
 * ENTRIES_MAX, the least recently used ones go first. That memory cannot be registered is kept likewise.
 * Memory without an identity is registered each time.
 *
 * Memory may be mapped piece by piece (PyTorch's expandable segments): a buffer across several spans of one device is one
 * buffer, whose identity is made of all of theirs.
 *
 * Threads: the caller serialises (the context's lock).
 */
#ifndef WEFT_COMM_REGIONS_DEVICE_REGIONS_H
#define WEFT_COMM_REGIONS_DEVICE_REGIONS_H

#include <stddef.h>
#include <stdint.h>
#include <weft/transport.h>

#include "devmem/devices.h"

struct weft_device_regions;

#define WEFT_DEVICE_REGIONS_TRANSPORTS 4

/* A buffer in a device's memory. */
struct weft_device_buffer {
    void *memory;
    size_t size;
    const struct weft_device_kind *kind;
    int32_t ordinal;
    uint32_t flags;    /* enum weft_span_flags, of all its spans */
    uint64_t identity; /* of all its spans; 0: not known */
};

/* Whose memory the buffer is. 1: a device's, and *buffer is set; 0: memory to be registered as the host's, pinned by a device or
 * not; WEFT_UNSUPPORTED: memory that is not registered at all, as it moves (managed) or is of several devices. */
int weft_device_buffer_look(struct weft_devices *devices, const void *memory, size_t size,
                            struct weft_device_buffer *buffer);

struct weft_device_regions_options {
    uint64_t bytes_max; /* 0: nothing is kept */
    struct weft_devices *devices;
    void *arg;
    /* As a transport's reg_device() and dereg(), of which there are WEFT_DEVICE_REGIONS_TRANSPORTS at most. */
    int (*reg)(void *arg, uint32_t transport, const struct weft_device_memory *memory,
               struct weft_region **region);
    void (*dereg)(void *arg, uint32_t transport, struct weft_region *region);
};

struct weft_device_regions_stats {
    uint64_t hits, misses;   /* of get(), in regions that are kept */
    uint64_t entries, bytes; /* that can be found */
};

int weft_device_regions_open(const struct weft_device_regions_options *options,
                             struct weft_device_regions **regions);
/* Nothing of it is in use. NULL is allowed. */
void weft_device_regions_close(struct weft_device_regions *regions);

/* A region of the buffer, until put(). caps are the transport's (enum weft_transport_flags). WEFT_UNSUPPORTED: there is none,
 * and the text says what failed in each way. */
int weft_device_regions_get(struct weft_device_regions *regions, uint32_t transport, uint32_t caps,
                            const struct weft_device_buffer *buffer, struct weft_region **region);
/* Whether the region is kept, and the caller has done: 1. Otherwise 0, and it is the caller's to end. */
int weft_device_regions_put(struct weft_device_regions *regions, struct weft_region *region);

/* Makes a region that is the caller's to end. As get(). */
int weft_device_regions_make(struct weft_device_regions *regions, uint32_t transport, uint32_t caps,
                             const struct weft_device_buffer *buffer, struct weft_region **region);

/* Ends what no operation uses; returns how many entries that were. */
uint32_t weft_device_regions_trim(struct weft_device_regions *regions);
/* Ends all regions of a transport, none of which is in use any more. */
void weft_device_regions_forget(struct weft_device_regions *regions, uint32_t transport);

void weft_device_regions_get_stats(const struct weft_device_regions *regions,
                                   struct weft_device_regions_stats *stats);

#endif
