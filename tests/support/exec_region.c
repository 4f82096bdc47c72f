/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/exec_region.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/error.h"
#include "tests/fakes/loop/loop.h"

int exec_region_map(const struct weft_device_kind *kind, const void *memory, size_t size,
                    struct weft_region *region)
{
    uint64_t offset;
    int fd, status = kind->ops.export_dmabuf(kind->device, memory, size, &fd, &offset);
    if (status != WEFT_OK)
        return status;
    region->mapped_bytes = offset + size;
    region->mapped = mmap(NULL, region->mapped_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    region->seen = (uint8_t *)region->mapped + offset;
    return region->mapped == MAP_FAILED ? weft_fail(WEFT_SYSTEM, "a dma-buf cannot be mapped") : WEFT_OK;
}

void exec_region_free(struct weft_region *region)
{
    if (region->mapped)
        munmap(region->mapped, region->mapped_bytes);
    free(region);
}

static uint8_t *seen(const struct weft_region *region, const void *memory)
{
    return region ? region->seen + ((const uint8_t *)memory - region->memory) : (uint8_t *)(uintptr_t)memory;
}

int exec_region_advertise(struct weft_link *link, struct weft_region *region, void *memory, size_t size,
                          uint64_t cookie, struct weft_token *token)
{
    return weft_loop_ops.advertise(link, NULL, seen(region, memory), size, cookie, token);
}

int exec_region_put(struct weft_link *link, const struct weft_token *token, struct weft_region *region,
                    const void *memory, size_t size, uint64_t cookie)
{
    return weft_loop_ops.put(link, token, NULL, seen(region, memory), size, cookie);
}
