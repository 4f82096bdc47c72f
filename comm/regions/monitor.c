/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/regions/monitor.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "comm/regions/mappings.h"
#include "base/service.h"

/* What the installed headers may be too old to have. */
#define USER_MODE_ONLY 1
#define FEATURE_WP     (1u << 0)
#define FEATURES_5_18  (1u << 11) /* UFFD_FEATURE_EXACT_ADDRESS, of which nothing is used but its age */
#define EVENTS         (UFFD_FEATURE_EVENT_UNMAP | UFFD_FEATURE_EVENT_REMOVE | UFFD_FEATURE_EVENT_REMAP)
#define NEEDED         (FEATURE_WP | FEATURES_5_18 | EVENTS)
#define REGISTER_WP    (UINT64_C(1) << 1)
#define DEVICE_NEW     _IO(0xAA, 0x00) /* USERFAULTFD_IOC_NEW */
#define MESSAGES       16

struct protect_arguments { /* struct uffdio_writeprotect */
    struct uffdio_range range;
    uint64_t mode;
};
#define PROTECT _IOWR(UFFDIO, 0x06, struct protect_arguments)

struct weft_monitor {
    int fd, maps_fd;
    struct weft_service *service;
    pthread_mutex_t *lock;
    weft_monitor_gone *gone;
    void *arg;
};

static void report(const struct weft_monitor *monitor, const struct uffd_msg *message)
{
    if (message->event == UFFD_EVENT_UNMAP) {
        monitor->gone(monitor->arg, (uintptr_t)message->arg.remove.start, (uintptr_t)message->arg.remove.end,
                      0);
    } else if (message->event == UFFD_EVENT_REMOVE) {
        monitor->gone(monitor->arg, (uintptr_t)message->arg.remove.start, (uintptr_t)message->arg.remove.end,
                      1);
    } else if (message->event == UFFD_EVENT_REMAP) {
        uintptr_t from = (uintptr_t)message->arg.remap.from, to = (uintptr_t)message->arg.remap.to;
        uintptr_t size = (uintptr_t)message->arg.remap.len;
        monitor->gone(monitor->arg, from, from + size,
                      0); /* whether it is still mapped, another event says */
        monitor->gone(monitor->arg, to, to + size, 1);
    }
}

static void on_events(void *arg, int fd)
{
    const struct weft_monitor *monitor = arg;
    struct uffd_msg messages[MESSAGES];
    ssize_t got;
    /* read() lets the threads go that wait for it: the lock comes first (see the header). */
    pthread_mutex_lock(monitor->lock);
    while ((got = read(fd, messages, sizeof messages)) > 0) {
        for (size_t i = 0; i < (size_t)got / sizeof *messages; i++)
            report(monitor, &messages[i]);
    }
    pthread_mutex_unlock(monitor->lock);
}

static int open_descriptor(void)
{
    int flags = O_CLOEXEC | O_NONBLOCK;
    int fd = (int)syscall(SYS_userfaultfd, flags | USER_MODE_ONLY);
    if (fd < 0 && errno != EMFILE && errno != ENFILE) {
        /* A container's filter of system calls may forbid that one and still have given us the device. */
        int error = errno, device = open("/dev/userfaultfd", O_RDWR | O_CLOEXEC);
        if (device >= 0) {
            fd = ioctl(device, DEVICE_NEW, flags);
            close(device);
        }
        errno = error;
    }
    return weft_fd_add(fd);
}

/* A descriptor is asked once what it can and once for it, so what there is must be known from another one. */
static int features_missing(void)
{
    struct uffdio_api offered = {.api = UFFD_API};
    int fd = open_descriptor();
    if (fd < 0)
        return weft_fail(WEFT_UNSUPPORTED, "userfaultfd: %s", weft_errno_text(errno));
    int error = ioctl(fd, UFFDIO_API, &offered) == 0 ? 0 : errno;
    weft_fd_close(fd);
    if (error || (offered.features & NEEDED) != NEEDED)
        return weft_fail(WEFT_UNSUPPORTED,
                         "userfaultfd: the kernel lacks write protection or events as of Linux 5.18");
    return WEFT_OK;
}

static int open_monitor(struct weft_monitor *monitor)
{
    int status = features_missing();
    if (status != WEFT_OK)
        return status;
    monitor->fd = open_descriptor();
    if (monitor->fd < 0)
        return weft_fail(WEFT_UNSUPPORTED, "userfaultfd: %s", weft_errno_text(errno));
    struct uffdio_api wanted = {.api = UFFD_API, .features = FEATURE_WP | EVENTS};
    if (ioctl(monitor->fd, UFFDIO_API, &wanted) != 0) {
        status = weft_fail(WEFT_UNSUPPORTED, "userfaultfd: %s", weft_errno_text(errno));
        goto close_fd;
    }
    monitor->maps_fd = weft_mappings_open();
    if (monitor->maps_fd < 0) {
        status = weft_fail(WEFT_UNSUPPORTED, "/proc/self/maps: %s", weft_errno_text(errno));
        goto close_fd;
    }
    return WEFT_OK;

close_fd:
    weft_fd_close(monitor->fd);
    return status;
}

int weft_monitor_start(pthread_mutex_t *lock, weft_monitor_gone *gone, void *arg,
                       struct weft_monitor **result)
{
    struct weft_monitor *monitor = calloc(1, sizeof *monitor);
    if (!monitor)
        return weft_fail(WEFT_NOMEM, "no memory to watch memory");
    monitor->lock = lock;
    monitor->gone = gone;
    monitor->arg = arg;
    int status = open_monitor(monitor);
    if (status != WEFT_OK)
        goto free_monitor;
    status = weft_service_start("weft-cache", &monitor->service);
    if (status != WEFT_OK)
        goto close_descriptors;
    /* Before anything is watched: this allocates with the service's lock held. */
    status = weft_service_watch(monitor->service, monitor->fd, on_events, monitor);
    if (status != WEFT_OK)
        goto stop_service;
    *result = monitor;
    return WEFT_OK;

stop_service:
    weft_service_stop(monitor->service);
close_descriptors:
    weft_fd_close(monitor->maps_fd);
    weft_fd_close(monitor->fd);
free_monitor:
    free(monitor);
    return status;
}

void weft_monitor_stop(struct weft_monitor *monitor)
{
    if (!monitor)
        return;
    /* With nothing that could free memory in between: a thread that unmaps what is still watched waits from the first line to
     * the second, where the kernel forgets it all. */
    weft_service_unwatch(monitor->service, monitor->fd);
    weft_fd_close(monitor->fd);
    weft_service_stop(monitor->service);
    weft_fd_close(monitor->maps_fd);
    free(monitor);
}

int weft_monitor_add(const struct weft_monitor *monitor, uintptr_t begin, uintptr_t end)
{
    struct uffdio_register wanted = {.range = {begin, end - begin}, .mode = REGISTER_WP};
    return ioctl(monitor->fd, UFFDIO_REGISTER, &wanted) == 0 ? 0 : -1;
}

void weft_monitor_remove(const struct weft_monitor *monitor, uintptr_t begin, uintptr_t end)
{
    struct uffdio_range range = {begin, end - begin};
    (void)ioctl(monitor->fd, UFFDIO_UNREGISTER, &range); /* fails where nothing is mapped */
}

int weft_monitor_quiet(const struct weft_monitor *monitor)
{
    /* No memory at all, which is refused as invalid if it comes to that. */
    struct protect_arguments nothing = {{0, 0}, 0};
    int quiet = ioctl(monitor->fd, PROTECT, &nothing) != 0 && errno == EINVAL;
    atomic_thread_fence(memory_order_seq_cst);
    return quiet;
}

int weft_monitor_is_private(const struct weft_monitor *monitor, uintptr_t begin, uintptr_t end)
{
    return weft_mappings_are_private(monitor->maps_fd, begin, end);
}
