/* SPDX-License-Identifier: Apache-2.0 */
/* Mappings of dma-bufs that other processes have handed out: one for each dma-buf and device, counted. Private to devmem/ze/.
 *
 * All with device->imports_lock, which is kept while the driver maps and unmaps: what it gives one import cannot be what it takes away
 * for another.
 */
#ifndef WEFT_DEVMEM_ZE_MAPPING_H
#define WEFT_DEVMEM_ZE_MAPPING_H

#include <sys/types.h>

#include "devmem/ze/handle.h"

struct weft_ze_mapping {
    int place, ordinal; /* the driver, and the device that works with it */
    dev_t of_device;    /* which file the dma-buf is; */
    ino_t inode;        /* 0: that is not known */
    char *base;
    uint64_t length; /* that the driver says it has mapped */
    int fd;          /* -1: the driver has closed it */
    unsigned count;
    struct weft_ze_mapping *next;
};

/* One more user of the mapping of the dma-buf, made at need. The descriptor is the mapping's then, or closed, also on failure. It is mapped for
 * the ordinal; owner has the memory. */
int weft_ze_mapping_open(struct weft_device *device, int ordinal, int owner,
                         const struct weft_ze_handle *handle, int fd, struct weft_ze_mapping **mapping);
/* One user less. What the driver says of unmapping it behind the last one. */
ze_result_t weft_ze_mapping_close(struct weft_device *device, struct weft_ze_mapping *mapping);

#endif
