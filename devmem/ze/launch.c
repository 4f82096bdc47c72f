/* SPDX-License-Identifier: Apache-2.0 */
/* Reductions by kernels.
 *
 * A kernel reaches an allocation that it is given an address of, of this driver, and of a device that its own reaches. What else a reduction
 * may have goes through memory of the queue's own, by copies before and behind the kernel: pinned memory, which drivers know nothing
 * of, and an element that lies across two allocations. So a reduction is done in parts, most often one.
 *
 * All of it is looked at before any of it is queued, as what is refused leaves the queue as it was.
 *
 * Source: oneAPI Level Zero Specification, "Core Programming Guide", Kernels, Arguments and Launching.
 */
#include <string.h>

#include "devmem/ze/launch.h"

#define PLACES       (WEFT_DEVICE_SOURCES_MAX + WEFT_DEVICE_DESTINATIONS_MAX)
#define PART_BYTES   ((uint64_t)256 << 10) /* of each place, in the queue's own memory */
#define SLOT_BYTES   (PART_BYTES + WEFT_KERNEL_VECTOR_BYTES)
#define FIRST_RESULT WEFT_DEVICE_SOURCES_MAX

/* So many elements from one on. Sources and then destinations, in the places that those are at most. */
struct part {
    uint64_t count;
    unsigned char *memory[PLACES]; /* NULL: there is none */
    int is_borrowed[PLACES];       /* and has to be copied */
};

/* --- what is reached */

int64_t weft_ze_reached(const struct weft_device_queue *queue, const void *pointer, int is_in_steps,
                        const char *prefix)
{
    struct weft_device *device = queue->device;
    struct weft_device_span span;
    int place;
    if (!weft_ze_look(device, pointer, &span, &place))
        return device->params.fail(
            WEFT_INVALID, "%s%p is memory that Level Zero device %d cannot use: it has to be pinned first",
            prefix, pointer, queue->ordinal);
    if (place < 0)
        return 0;
    if (place != queue->place || (span.kind == WEFT_MEMORY_DEVICE && span.ordinal >= 0 &&
                                  !weft_ze_reaches_peer(device, queue->ordinal, span.ordinal, 0)))
        return device->params.fail(WEFT_UNSUPPORTED,
                                   "%sLevel Zero device %d cannot reach memory on device %d at %p", prefix,
                                   queue->ordinal, span.ordinal, pointer);
    /* Making it so may wait for the device, which a stream may keep until this has been queued. */
    if (is_in_steps && !weft_ze_is_resident(device, queue->ordinal, &span))
        return device->params.fail(
            WEFT_UNSUPPORTED,
            "%sout of reach of device collectives of Level Zero device %d: memory on device %d at %p, which "
            "has not been made resident",
            prefix, queue->ordinal, span.ordinal, pointer);
    return (int64_t)(span.base + span.length - (uint64_t)(uintptr_t)pointer);
}

static unsigned char *place_of(const struct weft_device_reduction *reduction, int place)
{
    uint32_t result = (uint32_t)(place - FIRST_RESULT);
    if (place < FIRST_RESULT)
        return (uint32_t)place < reduction->source_count
                   ? (unsigned char *)(uintptr_t)reduction->sources[place]
                   : NULL;
    return result < reduction->destination_count ? reduction->destinations[result] : NULL;
}

/* The part that begins at an element. */
static int part_look(const struct weft_device_queue *queue, const struct weft_device_reduction *reduction,
                     uint64_t first, struct part *part)
{
    const size_t element = weft_dtype_size(reduction->dtype);
    part->count = reduction->count - first;
    for (int p = 0; p < PLACES; p++) {
        part->memory[p] = place_of(reduction, p);
        part->is_borrowed[p] = 0;
        if (!part->memory[p])
            continue;
        part->memory[p] += first * element;
        int64_t bytes = weft_ze_reached(queue, part->memory[p], 0, "");
        if (bytes < 0)
            return (int)bytes;
        part->is_borrowed[p] = (uint64_t)bytes < element;
        uint64_t most = part->is_borrowed[p] ? PART_BYTES / element : (uint64_t)bytes / element;
        part->count = part->count < most ? part->count : most;
    }
    return WEFT_OK;
}

/* --- queueing */

static int launch(struct weft_device_queue *queue, const struct weft_ze_launcher *launcher, int family,
                  const struct weft_kernel_piece *piece)
{
    const struct weft_ze_driver *driver = &queue->device->driver;
    ze_kernel_handle_t kernel = launcher->kernels[family];
    const uint64_t longs[WEFT_ZE_LONGS] = {piece->count, piece->head_bytes, piece->vectors, piece->scalar[0],
                                           piece->scalar[1]};
    const uint32_t ints[WEFT_ZE_INTS] = {piece->source_count, piece->finish, piece->flags};
    const void *pointers[WEFT_ZE_POINTERS];
    uint32_t at = 0;
    ze_result_t result = ZE_RESULT_SUCCESS;
    memcpy(pointers, piece->sources, sizeof piece->sources);
    memcpy(pointers + WEFT_KERNEL_SOURCES, piece->destinations, sizeof piece->destinations);
    for (int i = 0; i < WEFT_ZE_POINTERS && result == ZE_RESULT_SUCCESS; i++)
        result = driver->zeKernelSetArgumentValue(kernel, at++, sizeof pointers[i],
                                                  pointers[i] ? &pointers[i] : NULL);
    for (int i = 0; i < WEFT_ZE_LONGS && result == ZE_RESULT_SUCCESS; i++)
        result = driver->zeKernelSetArgumentValue(kernel, at++, sizeof longs[i], &longs[i]);
    for (int i = 0; i < WEFT_ZE_INTS && result == ZE_RESULT_SUCCESS; i++)
        result = driver->zeKernelSetArgumentValue(kernel, at++, sizeof ints[i], &ints[i]);
    if (result == ZE_RESULT_SUCCESS && queue->is_open_ended)
        result = weft_ze_channel_append(queue, &(struct weft_ze_command){.signal = NULL});
    uint64_t blocks = (weft_kernel_piece_steps(piece) + WEFT_KERNEL_THREADS - 1) / WEFT_KERNEL_THREADS;
    const struct weft_ze_command command = {
        .kernel = kernel, .blocks = (uint32_t)(blocks < launcher->blocks ? blocks : launcher->blocks)};
    if (result == ZE_RESULT_SUCCESS)
        result = weft_ze_channel_append(queue, &command);
    queue->is_open_ended = 1;
    return result == ZE_RESULT_SUCCESS ? WEFT_OK
                                       : weft_ze_fail(queue->device, result, "launching %s on device %d",
                                                      weft_ze_kernel_name(family), queue->ordinal);
}

/* Where a place's bytes are in the queue's own memory: as far from a vector's begin as the first result is. */
static unsigned char *slot_of(const struct weft_device_queue *queue, const struct part *part, int place)
{
    size_t skew = (uintptr_t)part->memory[FIRST_RESULT] & (WEFT_KERNEL_VECTOR_BYTES - 1);
    return (unsigned char *)queue->borrowed + (size_t)place * SLOT_BYTES + skew;
}

/* Of sources to the queue's own memory; of results back from there. */
static int part_copy(struct weft_device_queue *queue, const struct part *part, size_t bytes, int from, int to)
{
    int status = WEFT_OK;
    for (int p = from; p < to && status == WEFT_OK; p++) {
        if (part->is_borrowed[p] && p < FIRST_RESULT)
            status = weft_ze_copy(queue, slot_of(queue, part, p), part->memory[p], bytes);
        else if (part->is_borrowed[p])
            status = weft_ze_copy(queue, part->memory[p], slot_of(queue, part, p), bytes);
    }
    return status;
}

static int part_reduce(struct weft_device_queue *queue, const struct weft_ze_launcher *launcher, int family,
                       const struct weft_device_reduction *whole, const struct part *part)
{
    const void *sources[WEFT_DEVICE_SOURCES_MAX];
    void *destinations[WEFT_DEVICE_DESTINATIONS_MAX];
    struct weft_device_reduction reduction = *whole;
    struct weft_kernel_piece piece = {.count = 0};
    size_t bytes = part->count * weft_dtype_size(whole->dtype);
    for (int p = 0; p < PLACES; p++) {
        unsigned char *memory = part->is_borrowed[p] ? slot_of(queue, part, p) : part->memory[p];
        if (p < FIRST_RESULT)
            sources[p] = memory;
        else
            destinations[p - FIRST_RESULT] = memory;
    }
    reduction.sources = sources;
    reduction.destinations = destinations;
    reduction.count = part->count;
    weft_kernel_piece_reduce(&piece, &reduction, family);
    int status = part_copy(queue, part, bytes, 0, FIRST_RESULT);
    if (status == WEFT_OK)
        status = launch(queue, launcher, family, &piece);
    return status == WEFT_OK ? part_copy(queue, part, bytes, FIRST_RESULT, PLACES) : status;
}

/* Memory of the queue's own, where a part needs it: as long as the queue is open. */
static int borrow(struct weft_device_queue *queue, const struct part *part)
{
    int is_needed = 0;
    for (int p = 0; p < PLACES; p++)
        is_needed |= part->is_borrowed[p];
    return !is_needed || queue->borrowed ? WEFT_OK
                                         : weft_ze_allocate(queue->device, queue->ordinal, WEFT_MEMORY_DEVICE,
                                                            PLACES * SLOT_BYTES, &queue->borrowed);
}

/* With the launcher's lock. */
static int reduce(struct weft_device_queue *queue, const struct weft_ze_launcher *launcher, int family,
                  const struct weft_device_reduction *reduction)
{
    struct part part = {.count = 0};
    int status = WEFT_OK;
    for (uint64_t done = 0; done < reduction->count && status == WEFT_OK; done += part.count) {
        status = part_look(queue, reduction, done, &part);
        if (status == WEFT_OK)
            status = borrow(queue, &part);
    }
    if (status == WEFT_OK && part.count == reduction->count)
        return reduction->count ? part_reduce(queue, launcher, family, reduction, &part) : WEFT_OK;
    for (uint64_t done = 0; done < reduction->count && status == WEFT_OK; done += part.count) {
        status = part_look(queue, reduction, done, &part); /* once more: there was room for one */
        if (status == WEFT_OK)
            status = part_reduce(queue, launcher, family, reduction, &part);
    }
    return status;
}

int weft_ze_reduce(struct weft_device_queue *queue, const struct weft_device_reduction *reduction)
{
    struct weft_device *device = queue->device;
    int family = weft_kernel_family_of(reduction), status;
    if (!reduction->source_count || reduction->source_count > WEFT_DEVICE_SOURCES_MAX ||
        !reduction->destination_count || reduction->destination_count > WEFT_DEVICE_DESTINATIONS_MAX)
        return device->params.fail(WEFT_INVALID, "a reduction from %u sources (1 to %d) into %u (1 to %d)",
                                   reduction->source_count, WEFT_DEVICE_SOURCES_MAX,
                                   reduction->destination_count, WEFT_DEVICE_DESTINATIONS_MAX);
    if (family < 0)
        return device->params.fail(family, "Level Zero devices do not reduce %s by %s%s",
                                   weft_dtype_name(reduction->dtype), weft_op_name(reduction->op),
                                   reduction->scalar ? ", scaled" : "");
    if ((status = weft_ze_queue_check(queue)) != WEFT_OK)
        return status;
    struct weft_ze_launcher *launcher = weft_ze_launcher_lock(queue, family, reduction->op, &status);
    if (!launcher)
        return status;
    int is_question = !reduction->count && weft_ze_meets(device, queue->ordinal);
    status = reduce(queue, launcher, family, reduction);
    pthread_mutex_unlock(&launcher->lock);
    /* Device collectives of the type have a module of their own. In run() it would be too late to find that it fails, and to have peers wait meanwhile. */
    if (status == WEFT_OK && is_question &&
        (launcher = weft_ze_launcher_lock(queue, WEFT_ZE_COLLECTIVES + family, reduction->op, &status)))
        pthread_mutex_unlock(&launcher->lock);
    return status;
}
