/* SPDX-License-Identifier: Apache-2.0 */
/* What a set of devmem/share.h has. Both lists begin with what was used last. */
#ifndef WEFT_DEVMEM_SHARE_PRIVATE_H
#define WEFT_DEVMEM_SHARE_PRIVATE_H

#include "devmem/share_wire.h"

/* A span of this process that was described. */
struct weft_share_export {
    struct weft_share_export *next;
    const struct weft_device_kind *kind;
    uint64_t base, identity;
    uint8_t uuid[16];
    struct weft_device_handle handle; /* bytes_used 0: not made so far */
    uint64_t handle_base;             /* address here of what the handle maps */
};

/* A span of another process that is mapped. */
struct weft_share_import {
    struct weft_share_import *next;
    const struct weft_device_kind *kind;
    int ordinal;
    uint64_t peer, base_there, identity;
    struct weft_device_handle handle;
    char *base;
    uint64_t length;
    uint32_t users;
    int is_dead; /* is found no more */
};

struct weft_shares {
    uint64_t instance;
    struct weft_share_limits limits;
    struct weft_share_export *exports;
    struct weft_share_import *imports;
    struct weft_share_stats stats;
};

/* share_export.c */
void weft_share_exports_free(struct weft_shares *shares);

#endif
