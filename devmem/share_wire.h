/* SPDX-License-Identifier: Apache-2.0 */
/* The bytes of a description of device memory (devmem/share.h). Little-endian:
 *
 *    0  u8       version, 1
 *    1  u8       bytes of the kind's name, 1 to 31
 *    2  u8       bytes of the handle, up to 192; 0: only ranks of the owner's process reach the memory
 *    3  u8       0
 *    4  u8 x 16  uuid of the device, all 0 unknown
 *   20  u64      instance of the owner's process
 *   28  u64      identity of the span there
 *   36  u64      address of the memory there
 *   44  u64      offset of the memory in what the handle maps; 0 without one
 *   52  u64      length of the memory
 *   60           the name, the handle, and zeros up to 256 bytes
 *
 * There is one way to write a description, so that what is read is written again as it was. */
#ifndef WEFT_DEVMEM_SHARE_WIRE_H
#define WEFT_DEVMEM_SHARE_WIRE_H

#include "devmem/share.h"

struct weft_share_content {
    char kind[WEFT_DEVICE_NAME_MAX + 1];
    uint8_t uuid[16];
    uint64_t instance, identity, address, offset, length;
    struct weft_device_handle handle; /* bytes_used 0: none */
};

/* WEFT_UNSUPPORTED when name and handle do not fit. */
int weft_share_write(const struct weft_share_content *content, struct weft_share *share);
/* WEFT_PROTOCOL for bytes that nobody writes. What is read has a good name, numbers other than 0 where they must be, and ends
 * within the address space, at the owner's and in the mapping. */
int weft_share_read(const struct weft_share *share, struct weft_share_content *content);

#endif
