/* SPDX-License-Identifier: Apache-2.0 */
/* Making device memory known to NICs and to other processes, as dma-bufs.
 *
 * The driver's descriptor. Intel's driver has one for each allocation, gives the same number each time, and closes it when the memory is freed. So it is copied
 * at once, and the copy is known to be weft's (base/fd.h) before anything else is done. It is asked for by the external memory properties,
 * which serve memory that was allocated for it, and with Intel's driver other memory as well; where they are refused, or give none, by an IPC handle,
 * out of which newer loaders take it.
 *
 * Where the memory begins. A dma-buf is of what the driver has allocated, which may be a pool that it gives parts of. No call says where in it
 * a part is. But the number of an allocation is then that of its pool. So weft finds the first and the last page with the pool's number; their
 * distance must equal the dma-buf's length. Memory of which that cannot be shown is not shared.
 *
 * Sources: oneAPI Level Zero Specification, "Core Programming Guide", External Memory Import and Export, Inter-Process Communication.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/hash.h"
#include "base/limits.h"
#include "devmem/ze/handle.h"

#define PAGE      UINT64_C(4096) /* that dma-bufs are mapped by, at least */
#define BYTES_MAX (UINT64_C(1) << 47)

static const char owner; /* of this kind's offers, by its address */

/* A span of the device's, and its driver. */
struct shared {
    struct weft_device_span span;
    int place;
    uint64_t id, page_bytes; /* as the driver says of the allocation */
};

struct dmabuf {
    int fd; /* a copy, weft's */
    uint64_t size, offset;
};

/* What has come of asking for a descriptor. */
struct taken {
    ze_result_t result;
    int fd;    /* a copy; -1: none */
    int error; /* of copying it; 0: the driver has given none */
};

uint32_t weft_ze_handle_check(const struct weft_ze_handle *handle)
{
    struct weft_ze_handle copy = *handle;
    copy.check = 0;
    uint64_t hash = weft_hash_bytes(WEFT_HASH_START, &copy, sizeof copy);
    return (uint32_t)(hash ^ hash >> 32);
}

uint64_t weft_ze_dmabuf_bytes(int fd)
{
    off_t end = lseek(fd, 0, SEEK_END);
    return end > 0 && (uint64_t)end <= BYTES_MAX ? (uint64_t)end : 0;
}

/* --- which memory */

static int look(struct weft_device *device, const void *memory, struct shared *shared)
{
    static const char *const kinds[] = {
        [WEFT_MEMORY_PINNED] = "pinned host memory", [WEFT_MEMORY_MANAGED] = "managed memory"};
    if (!weft_ze_look(device, memory, &shared->span, &shared->place))
        return device->params.fail(WEFT_UNSUPPORTED, "%p is not memory of a Level Zero device", memory);
    if (shared->span.kind != WEFT_MEMORY_DEVICE)
        return device->params.fail(WEFT_UNSUPPORTED, "%p is %s: a device's own can be shared", memory,
                                   kinds[shared->span.kind]);
    if (!(shared->span.flags & WEFT_SPAN_IPC))
        return device->params.fail(
            WEFT_UNSUPPORTED,
            "%p of device %d cannot be shared: the driver exports no memory of it as a "
            "dma-buf",
            memory, shared->span.ordinal);
    return WEFT_OK;
}

/* --- its dma-buf */

static void copy(struct taken *taken, int fd)
{
    if (taken->result != ZE_RESULT_SUCCESS || fd < 0)
        return;
    taken->fd = weft_fd_add(fcntl(fd, F_DUPFD_CLOEXEC, 0));
    taken->error = taken->fd < 0 ? errno : 0;
}

static struct taken take_exported(struct weft_device *device, const struct shared *shared)
{
    ze_external_memory_export_fd_t exported = {.stype = ZE_STRUCTURE_TYPE_EXTERNAL_MEMORY_EXPORT_FD,
                                               .flags = ZE_EXTERNAL_MEMORY_TYPE_FLAG_DMA_BUF,
                                               .fd = -1};
    ze_memory_allocation_properties_t properties = {.stype = ZE_STRUCTURE_TYPE_MEMORY_ALLOCATION_PROPERTIES,
                                                    .pNext = &exported};
    struct taken taken = {.fd = -1};
    taken.result = device->driver.zeMemGetAllocProperties(
        device->places[shared->place].context, (const void *)(uintptr_t)shared->span.base, &properties, NULL);
    copy(&taken, exported.fd);
    return taken;
}

static struct taken take_from_handle(struct weft_device *device, const struct shared *shared)
{
    const struct weft_ze_driver *driver = &device->driver;
    ze_context_handle_t context = device->places[shared->place].context;
    ze_ipc_mem_handle_t handle;
    uint64_t number = UINT64_MAX;
    struct taken taken = {.fd = -1};
    taken.result = driver->zeMemGetIpcHandle(context, (const void *)(uintptr_t)shared->span.base, &handle);
    if (taken.result != ZE_RESULT_SUCCESS)
        return taken;
    taken.result = driver->zeMemGetFileDescriptorFromIpcHandleExp(context, handle, &number);
    copy(&taken, number <= INT32_MAX ? (int)number : -1);
    if (driver->zeMemPutIpcHandle)
        driver->zeMemPutIpcHandle(context, handle);
    return taken;
}

/* Only what will be refused again is WEFT_UNSUPPORTED, which others remember. */
static int fail_take(struct weft_device *device, const struct shared *shared, const struct taken *taken)
{
    void *base = (void *)(uintptr_t)shared->span.base;
    const char *hint = device->driver.zeMemGetFileDescriptorFromIpcHandleExp
                           ? ""
                           : "; a newer loader of Level Zero may export it by an IPC handle";
    const int error = taken->error, is_short = error == EMFILE || error == ENFILE || error == ENOMEM;
    char text[WEFT_ZE_TEXT];
    weft_limits_note(error);
    if (error)
        return device->params.fail(is_short ? WEFT_NOMEM : WEFT_UNSUPPORTED,
                                   "the driver's descriptor of %p of device %d cannot be copied: %s", base,
                                   shared->span.ordinal, weft_errno_text(error));
    if (taken->result == ZE_RESULT_SUCCESS)
        return device->params.fail(WEFT_UNSUPPORTED,
                                   "the driver has given no descriptor of %p of device %d%s", base,
                                   shared->span.ordinal, hint);
    int status = weft_ze_word(taken->result, text, "exporting %p of device %d as a dma-buf", base,
                              shared->span.ordinal);
    if (weft_limits_descriptors()) /* the driver needs one as well, and does not say so */
        return device->params.fail(WEFT_NOMEM, "%s: this process has as many descriptors as it may", text);
    return device->params.fail(status, "%s%s", text, hint);
}

static int take(struct weft_device *device, const struct shared *shared, int *fd)
{
    struct taken taken = take_exported(device, shared);
    if (taken.fd < 0 && !taken.error && device->driver.zeMemGetFileDescriptorFromIpcHandleExp)
        taken = take_from_handle(device, shared);
    *fd = taken.fd;
    return taken.fd >= 0 ? WEFT_OK : fail_take(device, shared, &taken);
}

/* --- where in it the span begins */

/* Whether the address belongs to what has the allocation's number. */
static int is_numbered(const struct weft_device *device, const struct shared *shared, uint64_t address)
{
    ze_memory_allocation_properties_t properties = {.stype = ZE_STRUCTURE_TYPE_MEMORY_ALLOCATION_PROPERTIES};
    return device->driver.zeMemGetAllocProperties(device->places[shared->place].context,
                                                  (const void *)(uintptr_t)address, &properties,
                                                  NULL) == ZE_RESULT_SUCCESS &&
           properties.type == ZE_MEMORY_TYPE_DEVICE && properties.id == shared->id;
}

/* The first page that belongs to it, of those in front of the span's begin that the dma-buf has room for. */
static uint64_t first_numbered(const struct weft_device *device, const struct shared *shared, uint64_t size)
{
    const struct weft_device_span *span = &shared->span;
    uint64_t end = span->base + span->length, page = span->base / PAGE;
    uint64_t low = end > size ? (end - size + PAGE - 1) / PAGE : 1;
    if (!is_numbered(device, shared, span->base - 1))
        return span->base;
    while (low < page) {
        uint64_t middle = low + (page - low) / 2;
        if (is_numbered(device, shared, middle * PAGE))
            page = middle;
        else
            low = middle + 1;
    }
    return page * PAGE;
}

static int find_offset(struct weft_device *device, struct shared *shared, struct dmabuf *dmabuf)
{
    const struct weft_device_span *span = &shared->span;
    ze_memory_allocation_properties_t properties = {.stype = ZE_STRUCTURE_TYPE_MEMORY_ALLOCATION_PROPERTIES};
    ze_result_t result = device->driver.zeMemGetAllocProperties(
        device->places[shared->place].context, (const void *)(uintptr_t)span->base, &properties, NULL);
    if (result != ZE_RESULT_SUCCESS)
        return weft_ze_fail(device, result, "asking for %p of device %d", (void *)(uintptr_t)span->base,
                            span->ordinal);
    shared->id = properties.id;
    shared->page_bytes = properties.pageSize > PAGE ? properties.pageSize : PAGE;
    uint64_t size = dmabuf->size;
    uint64_t begin = size >= span->length ? first_numbered(device, shared, size) : 0;
    uint64_t last = size > shared->page_bytes ? size - shared->page_bytes : 0; /* in its last page */
    dmabuf->offset = span->base - begin;
    if (begin && begin % shared->page_bytes == 0 && dmabuf->offset <= size - span->length &&
        !is_numbered(device, shared, begin - 1) && is_numbered(device, shared, begin + last) &&
        !is_numbered(device, shared, begin + size))
        return WEFT_OK;
    return device->params.fail(
        WEFT_UNSUPPORTED,
        "%llu bytes at %p of device %d cannot be shared: it cannot be shown where they begin in "
        "the driver's dma-buf, which has %llu bytes",
        (unsigned long long)span->length, (void *)(uintptr_t)span->base, span->ordinal,
        (unsigned long long)size);
}

static int dmabuf_open(struct weft_device *device, struct shared *shared, struct dmabuf *dmabuf)
{
    int status = take(device, shared, &dmabuf->fd);
    if (status != WEFT_OK)
        return status;
    dmabuf->size = weft_ze_dmabuf_bytes(dmabuf->fd);
    status =
        dmabuf->size
            ? find_offset(device, shared, dmabuf)
            : device->params.fail(WEFT_UNSUPPORTED,
                                  "what the driver exports of %p of device %d does not say how long it is",
                                  (void *)(uintptr_t)shared->span.base, shared->span.ordinal);
    if (status != WEFT_OK)
        weft_fd_close(dmabuf->fd);
    return status;
}

/* --- called by others */

int weft_ze_export_dmabuf(struct weft_device *device, const void *memory, size_t size, int *fd,
                          uint64_t *offset)
{
    struct shared shared;
    struct dmabuf dmabuf;
    int status = look(device, memory, &shared);
    if (status != WEFT_OK)
        return status;
    uint64_t inside = (uint64_t)(uintptr_t)memory - shared.span.base;
    if (!size || size > shared.span.length - inside)
        return device->params.fail(WEFT_INVALID,
                                   "%zu bytes at %p cannot be exported: expected some, of one allocation, of "
                                   "which %llu follow",
                                   size, memory, (unsigned long long)(shared.span.length - inside));
    status = dmabuf_open(device, &shared, &dmabuf);
    if (status != WEFT_OK)
        return status;
    weft_fd_forget(dmabuf.fd); /* the caller's */
    *fd = dmabuf.fd;
    *offset = dmabuf.offset + inside;
    return WEFT_OK;
}

static int is_current(void *arg, const struct weft_offer_memory *offered)
{
    struct weft_device_span span;
    int place;
    return weft_ze_look(arg, (const void *)(uintptr_t)offered->base, &span, &place) &&
           span.identity == offered->identity;
}

/* Puts it up where it is not yet; only then is the driver asked for it. */
static int put_up(struct weft_device *device, struct shared *shared, struct weft_offer_memory *offered,
                  struct weft_offer *offer)
{
    struct dmabuf dmabuf;
    int status = weft_offer_sign(&device->params, offer);
    if (status != WEFT_OK || weft_offer_find(offered, is_current, device, offer))
        return status;
    status = dmabuf_open(device, shared, &dmabuf);
    if (status != WEFT_OK)
        return status;
    offered->offset = dmabuf.offset;
    offered->size = dmabuf.size;
    return weft_offer_put(&device->params, offered, dmabuf.fd, offer);
}

int weft_ze_export_ipc(struct weft_device *device, const void *memory, struct weft_device_handle *exported,
                       uint64_t *offset)
{
    struct shared shared;
    struct weft_offer offer = {.slot = 0};
    int status = look(device, memory, &shared);
    if (status != WEFT_OK)
        return status;
    struct weft_offer_memory offered = {
        .owner = &owner, .base = shared.span.base, .identity = shared.span.identity};
    status = put_up(device, &shared, &offered, &offer);
    if (status != WEFT_OK)
        return status;
    struct weft_ze_handle handle = {.magic = WEFT_ZE_HANDLE_MAGIC,
                                    .version = WEFT_ZE_HANDLE_VERSION,
                                    .base = shared.span.base,
                                    .length = shared.span.length,
                                    .identity = shared.span.identity,
                                    .offset = offered.offset,
                                    .size = offered.size,
                                    .offer = offer};
    memcpy(handle.uuid, device->ordinals[shared.span.ordinal].uuid, sizeof handle.uuid);
    handle.check = weft_ze_handle_check(&handle);
    memcpy(exported->bytes, &handle, sizeof handle);
    exported->bytes_used = sizeof handle;
    *offset = (uint64_t)(uintptr_t)memory - shared.span.base;
    return WEFT_OK;
}
