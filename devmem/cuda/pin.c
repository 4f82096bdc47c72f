/* SPDX-License-Identifier: Apache-2.0 */
/* Pinning host memory: registering its pages with the driver.
 *
 * The driver registers a page once and unregisters what was registered as a whole, while weft's callers pin any ranges
 * they like, several times over. So two lists, common to the process because the driver's registrations are: pins, each a
 * range of pages that somebody asked for, and segments, each a registration. A pin registers the parts of its pages that no segment
 * covers; a segment goes when no pin touches it any more. Pages that the program has registered itself, or
 * allocated pinned, count as covered, without a segment. One copy over several segments is split by weft_cuda_copy().
 */
#include <stdlib.h>
#include <unistd.h>
#include "devmem/cuda/cuda.h"

struct range {
    uintptr_t begin, end;
    struct range *next;
};

static struct {
    pthread_mutex_t lock;
    struct range *pins, *segments;
} host = {.lock = PTHREAD_MUTEX_INITIALIZER};

static int overlap(const struct range *a, const struct range *b)
{
    return a->begin < b->end && b->begin < a->end;
}

static struct range pages_of(const void *memory, size_t size)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    return (struct range){(uintptr_t)memory & ~(page - 1),
                          ((uintptr_t)memory + size + page - 1) & ~(page - 1), NULL};
}

static struct range *range_add(struct range **list, uintptr_t begin, uintptr_t end)
{
    struct range *range = malloc(sizeof *range);
    if (range) {
        *range = (struct range){begin, end, *list};
        *list = range;
    }
    return range;
}

/* How far from begin on, at most to end, pages are the program's own pinned ones; begin when the first one is not. */
static uintptr_t skip_foreign(struct weft_device *device, uintptr_t begin, uintptr_t end)
{
    struct weft_cuda_memory memory;
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    if (weft_cuda_look(device, (const void *)begin, &memory) || memory.span.kind != WEFT_MEMORY_PINNED)
        return begin;
    uintptr_t skipped = (uintptr_t)(memory.span.base + memory.span.length) & ~(page - 1);
    return skipped >= end ? end : skipped > begin ? skipped : begin + page;
}

/* Registers [begin, end), which no segment touches. Pages of the program's may lie in it: then it goes page by page up to
 * them. A result of the driver's. */
static int cover(struct weft_device *device, uintptr_t begin, uintptr_t end)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    while (begin < end) {
        uintptr_t past = skip_foreign(device, begin, end), until = end;
        if (past > begin) {
            begin = past;
            continue;
        }
        struct range *segment = range_add(&host.segments, begin, end);
        if (!segment)
            return CUDA_OUT_OF_MEMORY;
        int result = device->driver.host_register((void *)begin, until - begin,
                                                  CUDA_HOST_PORTABLE | CUDA_HOST_DEVICEMAP);
        if (result == CUDA_HOST_MEMORY_ALREADY_REGISTERED) {
            for (until = begin + page; until < end && skip_foreign(device, until, end) == until;)
                until += page;
            result = device->driver.host_register((void *)begin, until - begin,
                                                  CUDA_HOST_PORTABLE | CUDA_HOST_DEVICEMAP);
        }
        if (result) {
            host.segments = segment->next;
            free(segment);
            return result;
        }
        segment->end = until;
        begin = until;
    }
    return CUDA_SUCCESS;
}

/* Registers what of the pin's pages is not. */
static int cover_gaps(struct weft_device *device, const struct range *pin)
{
    uintptr_t begin = pin->begin;
    while (begin < pin->end) {
        uintptr_t end = pin->end, past = begin;
        for (const struct range *segment = host.segments; segment; segment = segment->next) {
            if (segment->begin <= begin && segment->end > begin)
                past = segment->end;
            else if (segment->begin > begin && segment->begin < end)
                end = segment->begin;
        }
        if (past == begin) {
            int result = cover(device, begin, end);
            if (result)
                return result;
            past = end;
        }
        begin = past;
    }
    return CUDA_SUCCESS;
}

/* Unregisters the segments that only this pin, which is in no list any more, has touched. The first bad result of the
 * driver's. */
static int uncover(struct weft_device *device, const struct range *pin)
{
    int result = CUDA_SUCCESS;
    struct range **link = &host.segments, *segment;
    while ((segment = *link)) {
        int is_used = !overlap(segment, pin);
        for (const struct range *other = host.pins; other && !is_used; other = other->next)
            is_used = overlap(segment, other);
        if (is_used) {
            link = &segment->next;
            continue;
        }
        int answer = device->driver.host_unregister((void *)segment->begin);
        if (!result)
            result = answer;
        *link = segment->next;
        free(segment);
    }
    return result;
}

int weft_cuda_pin(struct weft_device *device, void *memory, size_t size)
{
    struct weft_cuda_turn turn;
    struct range pages = pages_of(memory, size);
    if (!size || pages.end <= pages.begin)
        return device->params.fail(WEFT_INVALID, "%zu bytes at %p cannot be pinned", size, memory);
    int status = weft_cuda_enter(device, weft_cuda_some_ordinal(device), &turn);
    if (status)
        return status;
    if (!device->uses_host_pointers) {
        weft_cuda_leave(&turn);
        return device->params.fail(WEFT_UNSUPPORTED,
                                   "host memory cannot be pinned: some device sees it at other addresses");
    }
    int result = CUDA_OUT_OF_MEMORY;
    pthread_mutex_lock(&host.lock);
    struct range *pin = range_add(&host.pins, pages.begin, pages.end);
    if (pin)
        result = cover_gaps(device, pin);
    if (pin && result) {
        host.pins = pin->next;
        uncover(device, pin);
        free(pin);
    }
    pthread_mutex_unlock(&host.lock);
    weft_cuda_leave(&turn);
    return result ? weft_cuda_fail(device, result, "pinning %zu bytes at %p", size, memory) : WEFT_OK;
}

int weft_cuda_unpin(struct weft_device *device, void *memory, size_t size)
{
    struct weft_cuda_turn turn;
    struct range pages = pages_of(memory, size);
    int status = weft_cuda_enter(device, weft_cuda_some_ordinal(device), &turn);
    if (status)
        return status;
    int result = CUDA_SUCCESS;
    pthread_mutex_lock(&host.lock);
    struct range **link = &host.pins;
    while (*link && ((*link)->begin != pages.begin || (*link)->end != pages.end))
        link = &(*link)->next;
    struct range *pin = *link;
    if (pin) {
        *link = pin->next;
        result = uncover(device, pin);
        free(pin);
    }
    pthread_mutex_unlock(&host.lock);
    weft_cuda_leave(&turn);
    if (!pin)
        return device->params.fail(WEFT_INVALID, "%zu bytes at %p have not been pinned", size, memory);
    return result ? weft_cuda_fail(device, result, "unpinning %zu bytes at %p", size, memory) : WEFT_OK;
}
