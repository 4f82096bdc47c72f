/* SPDX-License-Identifier: Apache-2.0 */
/* Registered memory: one region spans all rails, with a memory region (MR) of the device on each.
 *
 * Where receive buffers are guarded by memory windows (is_windowed) the MR itself gives no remote access: its rkey is
 * worthless, and peers only ever hold keys of windows. Otherwise it allows remote writes, and its rkey travels. That is so when
 * a rail has no windows, and always with dma-bufs, which no kernel so far lets windows be bound to.
 *
 * The address that keys refer to (iova) is the memory's own, also in device memory.
 */
#ifndef WEFT_TRANSPORT_VERBS_REGION_H
#define WEFT_TRANSPORT_VERBS_REGION_H

#include <weft/transport.h>

#include "base/limits.h"
#include "transport/verbs/device.h"

struct weft_region {
    struct weft_transport *transport;    /* for the caller, who sets it, */
    struct weft_region *next, *previous; /* and these */
    void *memory;
    size_t size;
    int rail_count;
    const struct verbs_library *verbs;
    struct ibv_mr *mr[VERBS_RAILS]; /* mr[i]->lkey, mr[i]->rkey */
    int is_windowed; /* on all rails: receive buffers bind windows, and mr[i]->rkey opens nothing */
    int is_source;   /* memory that cannot be written: no put goes there */
    int is_paged;    /* on demand: nothing is pinned */
};

/* Registers [memory, memory + size) on all rails. WEFT_NOMEM with what to raise, WEFT_INVALID beyond what a device
 * registers, WEFT_UNSUPPORTED for memory that cannot be pinned. May block while pages are read in. */
int verbs_region_make(const struct verbs_rail *rails, int count, void *memory, size_t size,
                      struct weft_region *region);

/* The same for memory that the program may only read: for sending from. */
int verbs_region_source(const struct verbs_rail *rails, int count, void *memory, size_t size,
                        struct weft_region *region);

/* The same for device memory, which need not be mapped in the process: from a dma-buf, or by its pointer where peer-memory
 * modules know it (nvidia-peermem). WEFT_UNSUPPORTED where library, kernel or driver cannot. */
int verbs_region_device(const struct verbs_rail *rails, int count, const struct weft_device_memory *memory,
                        struct weft_region *region);

/* Everything bound to it must have been invalidated. */
void verbs_region_end(struct weft_region *region);

/* Pure: what is said when there was no memory (ENOMEM) to register size bytes on a device: is_over says whether they would have
 * gone beyond the limit of locked memory. Returns text. */
const char *verbs_pin_text(const char *device, size_t size, int is_over,
                           const struct weft_limits_locked *locked, char *text, size_t capacity);
/* WEFT_NOMEM with that text, for this process as it is now. */
int verbs_fail_memory(const char *device, size_t size);

#endif
