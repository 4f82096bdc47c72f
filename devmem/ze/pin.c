/* SPDX-License-Identifier: Apache-2.0 */
/* Host memory that devices may read and write by copies.
 *
 * The specification has no call that registers host memory. Intel's driver takes any host memory in a copy and maps its pages for as long as
 * that takes: SYCL's memcpy() of ordinary memory is such a copy. So a pin is weft's own note that its caller keeps the pages in place, given
 * back as it was made; identify() calls them pinned as long as one covers them. Kernels do not reach such memory, and copies of it are closed
 * lists (channel.c).
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "devmem/ze/ze.h"

#define PINNED (UINT64_C(1) << 63) /* of an identity: no allocation of a driver's */

static atomic_ullong last_serial; /* of the process */

static struct weft_ze_pin pages_of(const void *memory, size_t size)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    return (struct weft_ze_pin){.begin = (uintptr_t)memory & ~(page - 1),
                                .end = ((uintptr_t)memory + size + page - 1) & ~(page - 1)};
}

int weft_ze_pin(struct weft_device *device, void *memory, size_t size)
{
    struct weft_ze_pin pages = pages_of(memory, size);
    if (!size || pages.end <= pages.begin)
        return device->params.fail(WEFT_INVALID, "%zu bytes at %p cannot be pinned", size, memory);
    int status = weft_ze_ready(device);
    if (status != WEFT_OK)
        return status;
    struct weft_ze_pin *pin = malloc(sizeof *pin);
    if (!pin)
        return device->params.fail(WEFT_NOMEM, "no memory to remember what is pinned");
    *pin = pages;
    pthread_mutex_lock(&device->lock);
    pin->serial = atomic_fetch_add(&last_serial, 1) + 1;
    pin->next = device->pins;
    device->pins = pin;
    pthread_mutex_unlock(&device->lock);
    return WEFT_OK;
}

int weft_ze_unpin(struct weft_device *device, void *memory, size_t size)
{
    struct weft_ze_pin pages = pages_of(memory, size);
    if (weft_ze_is_child(device))
        return WEFT_OK;
    pthread_mutex_lock(&device->lock);
    struct weft_ze_pin **at = &device->pins, *found;
    while (*at && ((*at)->begin != pages.begin || (*at)->end != pages.end))
        at = &(*at)->next;
    found = *at;
    if (found)
        *at = found->next;
    pthread_mutex_unlock(&device->lock);
    if (!found)
        return device->params.fail(WEFT_INVALID, "%zu bytes at %p have not been pinned", size, memory);
    free(found);
    return WEFT_OK;
}

int weft_ze_find_pin(struct weft_device *device, const void *pointer, struct weft_device_span *span)
{
    uintptr_t at = (uintptr_t)pointer;
    int is_pinned = 0;
    pthread_mutex_lock(&device->lock);
    for (const struct weft_ze_pin *pin = device->pins; pin && !is_pinned; pin = pin->next) {
        if (at < pin->begin || at >= pin->end)
            continue;
        *span = (struct weft_device_span){.size = sizeof *span,
                                          .kind = WEFT_MEMORY_PINNED,
                                          .flags = WEFT_SPAN_HOST_ACCESS,
                                          .ordinal = -1,
                                          .base = pin->begin,
                                          .length = pin->end - pin->begin,
                                          .identity = PINNED | pin->serial};
        is_pinned = 1;
    }
    pthread_mutex_unlock(&device->lock);
    return is_pinned;
}
