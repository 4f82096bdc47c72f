/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of another device that device collectives use. Their addresses are in steps, so kernels reach only what a driver has let them into as a whole. Intel's
 * driver lets them into what is the kernel's own device's, whosever context it is of, and into the driver's host and shared memory. Memory of
 * another device it maps for the kernel's when it is a kernel's parameter, or is made resident; earlier releases map it somewhere else then, and
 * refuse to make it resident. So it is made resident, once for each identity, and where that fails device collectives do not reach it.
 *
 * Of a part of a pool the driver would map the pool, at the part's address. Such parts are refused, the first one as well.
 *
 * Source: oneAPI Level Zero Specification, zeContextMakeMemoryResident, zeContextEvictMemory: freed memory is evicted by itself.
 */
#include <stdlib.h>
#include <unistd.h>

#include "devmem/ze/ze.h"

struct weft_ze_resident {
    int ordinal; /* that it is resident for */
    uint64_t base, identity;
    size_t length;
    struct weft_ze_resident *next;
};

int weft_ze_is_resident(struct weft_device *device, int ordinal, const struct weft_device_span *span)
{
    if (span->kind != WEFT_MEMORY_DEVICE || span->ordinal == ordinal)
        return 1;
    pthread_mutex_lock(&device->lock);
    const struct weft_ze_resident *known = device->residents;
    while (known &&
           (known->ordinal != ordinal || known->base != span->base || known->identity != span->identity))
        known = known->next;
    pthread_mutex_unlock(&device->lock);
    return known != NULL;
}

static int is_there(struct weft_device *device, const struct weft_ze_resident *resident)
{
    struct weft_device_span span;
    int place;
    return weft_ze_look(device, (const void *)(uintptr_t)resident->base, &span, &place) &&
           span.identity == resident->identity;
}

/* Changes the list, of which others may look at each entry. */
static void set(struct weft_device *device, struct weft_ze_resident **at, struct weft_ze_resident *to)
{
    pthread_mutex_lock(&device->lock);
    *at = to;
    pthread_mutex_unlock(&device->lock);
}

/* What has been freed is forgotten. With residents_lock: nobody else changes the list. */
static void add(struct weft_device *device, struct weft_ze_resident *added)
{
    struct weft_ze_resident **at = &device->residents, *one;
    while ((one = *at)) {
        if (is_there(device, one)) {
            at = &one->next;
        } else {
            set(device, at, one->next);
            free(one);
        }
    }
    set(device, at, added);
}

/* Whether the driver has memory with the same number right in front, or right behind. */
static int is_in_pool(const struct weft_device *device, int ordinal, const struct weft_device_span *span)
{
    const uint64_t addresses[] = {span->base, span->base - 1, span->base + span->length};
    ze_memory_allocation_properties_t properties[3];
    for (int i = 0; i < 3; i++) {
        properties[i] =
            (ze_memory_allocation_properties_t){.stype = ZE_STRUCTURE_TYPE_MEMORY_ALLOCATION_PROPERTIES};
        if (device->driver.zeMemGetAllocProperties(weft_ze_context_of(device, ordinal),
                                                   (const void *)(uintptr_t)addresses[i], &properties[i],
                                                   NULL) != ZE_RESULT_SUCCESS)
            properties[i].type = ZE_MEMORY_TYPE_UNKNOWN;
    }
    for (int i = 1; i < 3; i++) {
        if (properties[i].type != ZE_MEMORY_TYPE_UNKNOWN && properties[i].id == properties[0].id)
            return 1;
    }
    return 0;
}

/* With residents_lock. */
static ze_result_t make(struct weft_device *device, int ordinal, const struct weft_device_span *span)
{
    void *base = (void *)(uintptr_t)span->base;
    struct weft_ze_resident *added = malloc(sizeof *added);
    if (!added)
        return ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY;
    *added = (struct weft_ze_resident){ordinal, span->base, span->identity, span->length, NULL};
    ze_result_t result = is_in_pool(device, ordinal, span)
                             ? ZE_RESULT_ERROR_UNSUPPORTED_FEATURE
                             : device->driver.zeContextMakeMemoryResident(weft_ze_context_of(device, ordinal),
                                                                          device->ordinals[ordinal].device,
                                                                          base, span->length);
    if (result == ZE_RESULT_SUCCESS)
        add(device, added);
    else
        free(added);
    return result;
}

/* What another attempt may change is not said. */
static void say_why(struct weft_device *device, int ordinal, const struct weft_device_span *span,
                    ze_result_t result)
{
    const struct weft_ze_resident tried = {.base = span->base, .identity = span->identity};
    char text[WEFT_ZE_TEXT];
    int status =
        weft_ze_word(result, text, "making memory on device %d at %p resident for Level Zero device %d",
                     span->ordinal, (void *)(uintptr_t)span->base, ordinal);
    if (status != WEFT_NOMEM && is_there(device, &tried) &&
        !atomic_exchange(&device->ordinals[ordinal].is_resident_said, 1))
        device->params.log(WEFT_DEVICE_LOG_INFO, "%s; such memory is used by copies alone", text);
}

/* Once, also where two threads ask. */
static int make_resident(struct weft_device *device, int ordinal, const struct weft_device_span *span)
{
    pthread_mutex_lock(&device->residents_lock);
    ze_result_t result =
        weft_ze_is_resident(device, ordinal, span) ? ZE_RESULT_SUCCESS : make(device, ordinal, span);
    pthread_mutex_unlock(&device->residents_lock);
    if (result != ZE_RESULT_SUCCESS)
        say_why(device, ordinal, span, result);
    return result == ZE_RESULT_SUCCESS;
}

int weft_ze_reaches(struct weft_device *device, int ordinal, const void *pointer, int may_wait)
{
    struct weft_device_span span;
    int place;
    if (weft_ze_check(device, ordinal) != WEFT_OK || !weft_ze_look(device, pointer, &span, &place) ||
        place < 0)
        return 0; /* of what is pinned the driver knows nothing: pin.c */
    if (span.kind != WEFT_MEMORY_DEVICE)
        return place == device->ordinals[ordinal].place;
    if (span.ordinal < 0 || !weft_ze_reaches_peer(device, ordinal, span.ordinal, may_wait))
        return 0;
    return !weft_ze_meets(device, ordinal) || weft_ze_is_resident(device, ordinal, &span) ||
           (may_wait && make_resident(device, ordinal, &span));
}

void weft_ze_residents_end(struct weft_device *device, int is_here)
{
    struct weft_ze_resident *one;
    while ((one = device->residents)) {
        device->residents = one->next;
        if (is_here && is_there(device, one))
            device->driver.zeContextEvictMemory(weft_ze_context_of(device, one->ordinal),
                                                device->ordinals[one->ordinal].device,
                                                (void *)(uintptr_t)one->base, one->length);
        free(one);
    }
}
