/* SPDX-License-Identifier: Apache-2.0 */
/* What travels in a struct weft_device_handle of kind "ze": 96 bytes, of one span, little-endian as all machines are that Level Zero runs on.
 *
 * The memory itself is a dma-buf, fetched from the exporter's desk (devmem/offer/offer.h), whose offer is in the handle. Of
 * what the handle says the importer believes nothing: the dma-buf has to be as long as it says, and the span to lie within what the driver
 * has mapped of it. Level Zero's own IPC handles do not travel. Intel's driver reads from such bytes which process to take a descriptor
 * from, and how far behind the mapping's begin the memory is, and checks neither.
 */
#ifndef WEFT_DEVMEM_ZE_HANDLE_H
#define WEFT_DEVMEM_ZE_HANDLE_H

#include "devmem/offer/offer.h"
#include "devmem/ze/ze.h"

#define WEFT_ZE_HANDLE_MAGIC   UINT32_C(0x657a5457) /* "WTze" */
#define WEFT_ZE_HANDLE_VERSION 1

struct weft_ze_handle {
    uint32_t magic;
    uint8_t version, reserved[3];
    uint64_t base, length, identity; /* of the span, in the exporting process */
    uint64_t offset, size;           /* where in the dma-buf it begins, and bytes of that */
    uint8_t uuid[16];                /* of the device */
    struct weft_offer offer;
    uint32_t check; /* a hash of all other bytes: against accidents, not against malice */
};
_Static_assert(sizeof(struct weft_ze_handle) == 96, "no gaps");
_Static_assert(sizeof(struct weft_ze_handle) <= WEFT_DEVICE_HANDLE_MAX, "it fits");

/* What check has to be. */
uint32_t weft_ze_handle_check(const struct weft_ze_handle *handle);

/* Bytes of what the descriptor stands for; 0: it is not such a file. */
uint64_t weft_ze_dmabuf_bytes(int fd);

#endif
