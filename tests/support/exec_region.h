/* SPDX-License-Identifier: Apache-2.0 */
/* Regions of an executor's world (tests/support/exec_world.h) whose transport registers no device memory by itself. */
#ifndef WEFT_TESTS_EXEC_REGION_H
#define WEFT_TESTS_EXEC_REGION_H

#include <stddef.h>
#include <stdint.h>

#include "devmem/devices.h"
#include <weft/transport.h>

/* Memory and where the host sees it. */
struct weft_region {
    const uint8_t *memory;
    uint8_t *seen;
    void *mapped; /* NULL: nothing */
    size_t mapped_bytes;
};

/* Maps the dma-buf of a device's memory. */
int exec_region_map(const struct weft_device_kind *kind, const void *memory, size_t size,
                    struct weft_region *region);
void exec_region_free(struct weft_region *region);

/* advertise() and put() of the loop transport, with the memory as the host sees it. */
int exec_region_advertise(struct weft_link *link, struct weft_region *region, void *memory, size_t size,
                          uint64_t cookie, struct weft_token *token);
int exec_region_put(struct weft_link *link, const struct weft_token *token, struct weft_region *region,
                    const void *memory, size_t size, uint64_t cookie);

#endif
