/* SPDX-License-Identifier: Apache-2.0 */
/* Device memory for other processes.
 *
 * A handle says where the memfd can be opened, /proc/PID/fd/N, and its name, in which there are 128 random bits, the length and the process (whose threads' numbers lead there, too). It comes from a
 * peer who may have written anything into it. So what the link leads to is opened without effect first (O_PATH), and
 * must be a memfd of that name, of that size, sealed against being made smaller. The kernel lets a process open it that
 * could also debug the owner: one of the same user. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sim_private.h"

#define MAGIC 0x214d4953 /* "SIM!" */
#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

struct handle {
    uint32_t magic, version;
    int32_t process, fd;
    uint64_t token[2];
    uint64_t length;
};

_Static_assert(sizeof(struct handle) <= WEFT_DEVICE_HANDLE_MAX, "a handle has room");

static void print_name(const uint64_t token[2], uint64_t length, pid_t process, char *name, size_t capacity)
{
    snprintf(name, capacity, "weft-sim-%016llx%016llx-%llx-%d", (unsigned long long)token[0],
             (unsigned long long)token[1], (unsigned long long)length, (int)process);
}

int sim_memfd(const uint64_t token[2], size_t length)
{
    char name[80];
    print_name(token, length, getpid(), name, sizeof name);
    int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd >= 0 && (ftruncate(fd, (off_t)sim_pages(length)) != 0 || fcntl(fd, F_ADD_SEALS, SEALS) != 0)) {
        close(fd);
        return -1;
    }
    return fd;
}

int sim_export_dmabuf(struct weft_device *device, const void *memory, size_t size, int *fd, uint64_t *offset)
{
    int status = sim_enter(device);
    if (status != WEFT_OK)
        return status;
    struct sim_span *span = sim_span_find(memory, size);
    if (!span || span->fd < 0 || !device->dmabuf) {
        status = device->params.fail(WEFT_UNSUPPORTED, "sim: %p, %zu bytes, cannot be exported as a dma-buf",
                                     memory, size);
    } else if (sim_refuses(device)) {
        status = device->params.fail(WEFT_UNSUPPORTED, "sim: a dma-buf is refused, as the options say");
    } else {
        int copy = fcntl(span->fd, F_DUPFD_CLOEXEC, 0);
        if (copy < 0)
            status = device->params.fail(WEFT_SYSTEM, "sim: a dma-buf: %s", strerror(errno));
        if (copy >= 0) {
            *fd = copy;
            *offset = (uintptr_t)memory - span->base;
        }
    }
    sim_leave();
    return status;
}

int sim_export_ipc(struct weft_device *device, const void *memory, struct weft_device_handle *handle,
                   uint64_t *offset)
{
    int status = sim_enter(device);
    if (status != WEFT_OK)
        return status;
    struct sim_span *span = sim_span_find(memory, 1);
    if (!span || span->fd < 0 || span->is_imported || !device->ipc) {
        status =
            device->params.fail(WEFT_UNSUPPORTED, "sim: %p cannot be shared with other processes", memory);
    } else if (sim_refuses(device)) {
        status = device->params.fail(WEFT_UNSUPPORTED, "sim: a handle is refused, as the options say");
    } else {
        struct handle described = {
            MAGIC, 1, (int32_t)device->process, span->fd, {span->token[0], span->token[1]}, span->length};
        memset(handle, 0, sizeof *handle);
        memcpy(handle->bytes, &described, sizeof described);
        handle->bytes_used = sizeof described;
        *offset = (uintptr_t)memory - span->base;
    }
    sim_leave();
    return status;
}

/* [lock] */
static int is_own(const struct handle *described)
{
    for (struct sim_span *span = sim.spans; span; span = span->next) {
        if (span->fd >= 0 && !span->is_imported &&
            memcmp(span->token, described->token, sizeof span->token) == 0)
            return 1;
    }
    return 0;
}

/* Whether the descriptor is what the handle says, before it is opened for work. */
static int is_described(int fd, const struct handle *described)
{
    char link[64], name[80], expected[120], target[120];
    struct stat about;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    print_name(described->token, described->length, described->process, name, sizeof name);
    int expected_length = snprintf(expected, sizeof expected, "/memfd:%s (deleted)", name);
    ssize_t length = readlink(link, target, sizeof target);
    return length == expected_length && memcmp(target, expected, (size_t)length) == 0 &&
           fstat(fd, &about) == 0 && S_ISREG(about.st_mode) &&
           about.st_size == (off_t)sim_pages((size_t)described->length);
}

/* The memfd, or -1. */
static int open_handle(const struct handle *described)
{
    char path[64];
    if (described->magic != MAGIC || described->version != 1 || described->process <= 0 ||
        described->fd < 0 || described->length == 0 || described->length > (uint64_t)1 << 46)
        return -1;
    snprintf(path, sizeof path, "/proc/%d/fd/%d", described->process, described->fd);
    int place = open(path, O_PATH | O_CLOEXEC);
    if (place < 0)
        return -1;
    int fd = -1;
    if (is_described(place, described)) {
        snprintf(path, sizeof path, "/proc/self/fd/%d", place);
        fd = open(path, O_RDWR | O_CLOEXEC);
    }
    close(place);
    if (fd >= 0 && (fcntl(fd, F_GET_SEALS) & SEALS) != SEALS) {
        close(fd);
        return -1;
    }
    return fd;
}

int sim_import_ipc(struct weft_device *device, int ordinal, const struct weft_device_handle *handle,
                   void **base)
{
    struct handle described;
    if (ordinal < 0 || (unsigned)ordinal >= device->devices)
        return device->params.fail(WEFT_INVALID, "sim: there is no device %d of %u", ordinal,
                                   device->devices);
    if (handle->bytes_used != sizeof described)
        return device->params.fail(WEFT_PROTOCOL, "sim: a handle has %u bytes: expected %zu",
                                   handle->bytes_used, sizeof described);
    memcpy(&described, handle->bytes, sizeof described);
    int status = sim_enter(device);
    if (status != WEFT_OK)
        return status;
    struct sim_span *span;
    int fd = -1;
    if (is_own(&described)) {
        status = device->params.fail(WEFT_UNSUPPORTED, "sim: a handle of this same process: use the pointer");
        goto leave;
    }
    fd = open_handle(&described);
    if (fd < 0) {
        status = device->params.fail(WEFT_PROTOCOL, "sim: a handle leads to no memory of a simulated device");
        goto leave;
    }
    status = sim_refuses(device) ? WEFT_NOMEM : sim_span_map(fd, (size_t)described.length, &span);
    if (status != WEFT_OK) {
        close(fd);
        status =
            device->params.fail(status, "sim: cannot map %llu bytes", (unsigned long long)described.length);
        goto leave;
    }
    span->kind = WEFT_MEMORY_DEVICE;
    span->ordinal = ordinal;
    span->is_imported = 1;
    *base = (void *)span->base;
leave:
    sim_leave();
    return status;
}

int sim_unimport(struct weft_device *device, void *base)
{
    int status = sim_enter(device);
    if (status != WEFT_OK)
        return status;
    struct sim_span *span = sim_span_find(base, 1);
    if (span && span->is_imported && span->base == (uintptr_t)base)
        sim_span_free(span);
    else
        status = device->params.fail(WEFT_INVALID, "sim: %p is no memory that was imported", base);
    sim_leave();
    return status;
}
