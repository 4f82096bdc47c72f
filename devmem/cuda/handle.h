/* SPDX-License-Identifier: Apache-2.0 */
/* What travels in a struct weft_device_handle of kind "cuda", and how descriptors get from process to process.
 *
 * A handle is 128 bytes, of pools 192, little-endian as all machines are that CUDA runs on. It describes one span, by one of three methods:
 *   LEGACY  cudaMalloc: the driver's own 64 bytes, in `handle`.
 *   VMM     physical memory mapped piece by piece: one mapping is one handle.
 *   POOL    an allocation from a pool: the pool, and in `pointer` which of its allocations.
 * VMM and pools are exported as a file descriptor, or, where the program allowed fabric handles only, as one of those, which are
 * bytes as well (`handle`).
 *
 * Descriptors are fetched from the exporter's desk: devmem/offer/offer.h. The offer's parts are in the handle.
 */
#ifndef WEFT_DEVMEM_CUDA_HANDLE_H
#define WEFT_DEVMEM_CUDA_HANDLE_H

#include <stdint.h>
#include "devmem/cuda/cuda.h"
#include "devmem/offer/offer.h"

#define WEFT_CUDA_HANDLE_MAGIC   UINT32_C(0x75635457) /* "WTcu" */
#define WEFT_CUDA_HANDLE_VERSION 2

enum weft_cuda_method { WEFT_CUDA_LEGACY = 1, WEFT_CUDA_VMM, WEFT_CUDA_POOL };

struct weft_cuda_handle {
    uint32_t magic;
    uint8_t version;
    uint8_t method; /* enum weft_cuda_method */
    uint8_t type;   /* CUDA_HANDLE_*; 0 for LEGACY */
    uint8_t reserved;
    uint8_t key[WEFT_OFFER_KEY_BYTES]; /* of the exporting process, */
    uint64_t base, length, identity;   /* of the span, there */
    int32_t pid;
    uint32_t serial; /* of its offer, 0 without one */
    uint16_t slot;
    uint16_t device; /* a hash of the device's uuid */
    uint32_t check;  /* a hash of all other bytes: against accidents, not against malice */
    struct cuda_ipc_handle handle, pointer;
};
_Static_assert(sizeof(struct weft_cuda_handle) == WEFT_DEVICE_HANDLE_MAX, "it fits");

struct weft_offer weft_cuda_handle_offer(const struct weft_cuda_handle *handle);
void weft_cuda_handle_set_offer(struct weft_cuda_handle *handle, const struct weft_offer *offer);

/* Bytes that travel: `pointer` does for pools only. */
static inline uint32_t weft_cuda_handle_size(const struct weft_cuda_handle *handle)
{
    return handle->method == WEFT_CUDA_POOL ? sizeof *handle : offsetof(struct weft_cuda_handle, pointer);
}

/* What check has to be. */
uint32_t weft_cuda_handle_check(const struct weft_cuda_handle *handle);

/* The uuid by which other processes know a device, and its hash; all 0 when it is not known. */
uint16_t weft_cuda_uuid_hash(struct weft_device *device, int ordinal);
void weft_cuda_uuid(struct weft_device *device, int ordinal, uint8_t uuid[16]);

#endif
