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
 * Descriptors are fetched by the importer with pidfd_getfd(), which needs the right to trace the exporter. Two numbers, process
 * and descriptor, could be anybody's by then, so they are checked. Every exporting process has one board, a sealed memory file:
 *     magic, token (64 random bits, the process's name), then SLOTS slots of 64 bits: serial << 32 | descriptor + 1, or 0.
 * A handle names process, the board's descriptor, slot and serial. The importer fetches the board, which must carry the
 * handle's token; reads the slot, which must have the serial; fetches the descriptor in it; and reads the slot again, which must be as
 * it was. The exporter clears a slot before it closes its descriptor. Process numbers mean something only within one
 * PID namespace, whose inode is in the handle.
 *
 * A descriptor keeps its memory from being freed. It is closed when its slot's identity is no longer that of the address,
 * which is looked at with every export, and with the board, when the last device of the process is closed.
 */
#ifndef WEFT_DEVMEM_CUDA_HANDLE_H
#define WEFT_DEVMEM_CUDA_HANDLE_H

#include <stdint.h>
#include "devmem/cuda/cuda.h"

#define WEFT_CUDA_HANDLE_MAGIC   UINT32_C(0x75635457) /* "WTcu" */
#define WEFT_CUDA_HANDLE_VERSION 1
#define WEFT_CUDA_BOARD_MAGIC    UINT64_C(0x3164726165777563)
#define WEFT_CUDA_BOARD_SLOTS    4096

enum weft_cuda_method { WEFT_CUDA_LEGACY = 1, WEFT_CUDA_VMM, WEFT_CUDA_POOL };

struct weft_cuda_handle {
    uint32_t magic;
    uint8_t version;
    uint8_t method; /* enum weft_cuda_method */
    uint8_t type;   /* CUDA_HANDLE_*; 0 for LEGACY */
    uint8_t reserved;
    uint64_t token;                  /* of the exporting process */
    uint64_t base, length, identity; /* of the span, there */
    uint32_t pid_space;
    int32_t pid, board;
    uint32_t serial;
    uint16_t slot;
    uint16_t device; /* a hash of the device's uuid */
    uint32_t check;  /* a hash of all other bytes: against accidents, not against malice */
    struct cuda_ipc_handle handle, pointer;
};
_Static_assert(sizeof(struct weft_cuda_handle) == WEFT_DEVICE_HANDLE_MAX, "it fits");

struct weft_cuda_board {
    uint64_t magic, token;
    uint64_t slots[WEFT_CUDA_BOARD_SLOTS];
};

/* The board lasts until every device that was opened has been closed. */
void weft_cuda_board_open(void);
void weft_cuda_board_close(void);

/* Process, board and token of this process, which get made at the first call. */
int weft_cuda_board_sign(struct weft_device *device, struct weft_cuda_handle *handle);
/* Whether this process made the handle. */
int weft_cuda_board_is_mine(const struct weft_cuda_handle *handle);

/* Finds the slot of a span that has been put up before; closes those whose memory is gone. 0 when there is none. */
int weft_cuda_board_find(struct weft_device *device, const struct weft_device_span *span,
                         struct weft_cuda_handle *handle);
/* Puts a descriptor up, and owns it from then on, also on failure. */
int weft_cuda_board_put(struct weft_device *device, const struct weft_device_span *span, int fd,
                        struct weft_cuda_handle *handle);

/* Fetches the descriptor of a handle from its process; the caller closes it. */
int weft_cuda_board_fetch(struct weft_device *device, const struct weft_cuda_handle *handle, int *fd);

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
