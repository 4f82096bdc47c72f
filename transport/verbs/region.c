/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/verbs/region.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <weft/device.h>
#include "base/error.h"
#include "base/log.h"

/* Where the bytes are: at an address of the process's, or in a dma-buf. */
struct span {
    void *memory;
    size_t size;
    int fd; /* -1: address */
    uint64_t offset;
    int is_device; /* device memory: nothing that can be paged */
};

const char *verbs_pin_text(const char *device, size_t size, int is_over,
                           const struct weft_limits_locked *locked, char *text, size_t capacity)
{
    char limit[128];
    if (is_over) {
        snprintf(text, capacity,
                 "verbs: cannot pin %zu bytes for %s: the limit of locked memory (RLIMIT_MEMLOCK) is %llu "
                 "bytes; raise "
                 "it: ulimit -l unlimited, LimitMEMLOCK=infinity for services (slurmd, kubelet), "
                 "--ulimit memlock=-1 for containers",
                 size, device, (unsigned long long)locked->limit);
        return text;
    }
    snprintf(limit, sizeof limit, "locked memory is not limited");
    if (locked->limit != UINT64_MAX)
        snprintf(limit, sizeof limit, "of %llu bytes of locked memory that it may have this process has %llu",
                 (unsigned long long)locked->limit, (unsigned long long)locked->pinned);
    snprintf(
        text, capacity,
        "verbs: cannot register %zu bytes on %s: out of memory, though %s: the process, the control group "
        "or the machine has no more memory, or the device has no more regions",
        size, device, limit);
    return text;
}

int verbs_fail_memory(const char *device, size_t size)
{
    char text[WEFT_DETAIL_MAX];
    struct weft_limits_locked locked;
    int is_over = weft_limits_locked(size, &locked);
    return weft_fail(WEFT_NOMEM, "%s", verbs_pin_text(device, size, is_over, &locked, text, sizeof text));
}

static int is_unsupported(int error)
{
    return error == EOPNOTSUPP || error == EPROTONOSUPPORT || error == ENOSYS;
}

static int fail_register(const struct verbs_rail *rail, const struct span *span, int error)
{
    const char *what = span->fd >= 0 ? "a dma-buf" : "memory";
    if (error == ENOMEM)
        return verbs_fail_memory(rail->device, span->size);
    if (is_unsupported(error))
        return weft_fail(WEFT_UNSUPPORTED, "verbs: the driver of %s cannot register %s of this kind: %s",
                         rail->device, what, strerror(error));
    if (error == EFAULT || error == EBADF || error == EINVAL)
        return weft_fail(WEFT_INVALID, "verbs: cannot register %s of %zu bytes at %p on %s: %s", what,
                         span->size, span->memory, rail->device, strerror(error));
    return weft_fail(WEFT_TRANSPORT, "verbs: cannot register %s of %zu bytes on %s: %s", what, span->size,
                     rail->device, weft_errno_text(error));
}

static struct ibv_mr *try(const struct verbs_rail *rail, const struct span *span, unsigned access)
{
    uint64_t iova = (uintptr_t)span->memory;
    errno = 0;
    if (span->fd >= 0)
        return rail->verbs->reg_dmabuf_mr(rail->domain, span->offset, span->size, iova, span->fd,
                                          (int)access);
    return rail->verbs->reg_mr(rail->domain, span->memory, span->size, iova, access);
}

/* Registers on one rail. Paging is given up where the driver refuses it, for some kinds of memory or with windows. */
static int add(const struct verbs_rail *rail, const struct span *span, struct weft_region *region)
{
    struct ibv_mr **mr = &region->mr[region->rail_count];
    unsigned access = 0; /* which includes reading */
    if (!region->is_source)
        access |=
            IBV_ACCESS_LOCAL_WRITE | (region->is_windowed ? IBV_ACCESS_MW_BIND : IBV_ACCESS_REMOTE_WRITE);
    if (rail->limits.relaxed)
        access |= IBV_ACCESS_RELAXED_ORDERING;
    if (span->size > rail->limits.region_bytes)
        return weft_fail(WEFT_INVALID, "verbs: %s registers at most %llu bytes at once, not %zu",
                         rail->device, (unsigned long long)rail->limits.region_bytes, span->size);
    *mr = region->is_paged ? try(rail, span, access | IBV_ACCESS_ON_DEMAND) : NULL;
    if (!*mr) {
        region->is_paged = 0;
        *mr = try(rail, span, access);
    }
    if (!*mr)
        return fail_register(rail, span, errno);
    region->rail_count++;
    return WEFT_OK;
}

enum use { USE_WINDOWS, USE_KEY, USE_SOURCE };

static int make(const struct verbs_rail *rails, int count, const struct span *span, enum use use,
                struct weft_region *region)
{
    struct weft_region made = {
        .transport = region->transport, .memory = span->memory, .size = span->size, .verbs = rails[0].verbs};
    made.is_windowed = use == USE_WINDOWS;
    made.is_source = use == USE_SOURCE;
    made.is_paged = !span->is_device;
    for (int i = 0; i < count; i++) {
        made.is_windowed &= rails[i].limits.memory_windows > 0;
        made.is_paged &= rails[i].limits.paging;
    }
    int status = WEFT_OK;
    for (int i = 0; i < count && !status; i++)
        status = add(&rails[i], span, &made);
    if (status) {
        verbs_region_end(&made);
        return status;
    }
    *region = made;
    return WEFT_OK;
}

int verbs_region_make(const struct verbs_rail *rails, int count, void *memory, size_t size,
                      struct weft_region *region)
{
    struct span span = {memory, size, -1, 0, 0};
    return make(rails, count, &span, USE_WINDOWS, region);
}

int verbs_region_source(const struct verbs_rail *rails, int count, void *memory, size_t size,
                        struct weft_region *region)
{
    struct span span = {memory, size, -1, 0, 0};
    return make(rails, count, &span, USE_SOURCE, region);
}

int verbs_region_device(const struct verbs_rail *rails, int count, const struct weft_device_memory *memory,
                        struct weft_region *region)
{
    struct span span = {memory->memory, memory->bytes, memory->fd, memory->offset, 1};
    if (memory->fd < 0 && !(memory->flags & WEFT_SPAN_PEER_MEMORY))
        return weft_fail(WEFT_UNSUPPORTED,
                         "verbs: no driver of RDMA devices is known to take pointers of kind %s",
                         memory->kind);
    for (int i = 0; i < count && memory->fd >= 0; i++) {
        if (!rails[i].verbs->reg_dmabuf_mr)
            return weft_fail(WEFT_UNSUPPORTED,
                             "verbs: this libibverbs cannot register dma-bufs (rdma-core 34 can)");
    }
    return make(rails, count, &span, memory->fd < 0 ? USE_WINDOWS : USE_KEY, region);
}

void verbs_region_end(struct weft_region *region)
{
    for (int i = 0; i < region->rail_count; i++) {
        int error = region->verbs->dereg_mr(region->mr[i]);
        if (error)
            weft_log(WEFT_LOG_WARN, "verbs: memory at %p cannot be deregistered: %s", region->memory,
                     strerror(error));
        region->mr[i] = NULL;
    }
    region->rail_count = 0;
}
