/* SPDX-License-Identifier: Apache-2.0 */
/* Files, pipes, events and waiting. */
#include "tests/faults/wrap.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/timerfd.h>

#include "tests/faults/inject.h"

int fault_open(const char *path, int flags, ...)
{
    va_list args;
    va_start(args, flags);
    mode_t mode = flags & O_CREAT ? va_arg(args, mode_t) : 0;
    va_end(args);
    int value = strncmp(path, "/proc/", 6) == 0 ? fault_hit_whole(FAULT_OPEN) : fault_hit(FAULT_OPEN);
    return value ? -1 : fault_fd_add(open(path, flags, mode));
}

/* Nobody makes files with it. */
int fault_openat(int folder, const char *path, int flags, ...)
{
    return fault_hit(FAULT_OPENAT) ? -1 : fault_fd_add(openat(folder, path, flags));
}

/* The descriptor is gone whatever close() answers. */
int fault_close(int fd)
{
    fault_fd_remove(fd); /* before: another thread may get the same number at once */
    int result = close(fd);
    return fault_hit(FAULT_CLOSE) ? -1 : result;
}

/* Writing to an event can only fail while it is readable anyway, and a lost wake-up would be no fault that
 * exists: events are left alone. Regular files are read and written whole. */
static int hit_transfer(enum fault_call call, int fd)
{
    char path[40], target[64];
    struct stat about;
    int saved = errno;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(path, target, sizeof target);
    int event = length > 0 && strncmp(target, "anon_inode:[eventfd]", (size_t)length) == 0;
    int regular = fstat(fd, &about) == 0 && S_ISREG(about.st_mode);
    errno = saved;
    return event ? FAULT_NONE : regular ? fault_hit_whole(call) : fault_hit(call);
}

ssize_t fault_read(int fd, void *buffer, size_t size)
{
    int value = hit_transfer(FAULT_READ, fd);
    if (value == FAULT_SHORT && size > 1)
        return read(fd, buffer, size / 2);
    return value && value != FAULT_SHORT ? -1 : read(fd, buffer, size);
}

ssize_t fault_pread(int fd, void *buffer, size_t size, off_t offset)
{
    return hit_transfer(FAULT_PREAD, fd) ? -1 : pread(fd, buffer, size, offset);
}

ssize_t fault_write(int fd, const void *buffer, size_t size)
{
    int value = hit_transfer(FAULT_WRITE, fd);
    if (value == FAULT_SHORT && size > 1)
        return write(fd, buffer, size / 2);
    return value && value != FAULT_SHORT ? -1 : write(fd, buffer, size);
}

int fault_fcntl(int fd, int command, ...)
{
    va_list args;
    va_start(args, command);
    long arg = va_arg(args, long);
    va_end(args);
    int result = fault_hit(FAULT_FCNTL) ? -1 : fcntl(fd, command, arg);
    return command == F_DUPFD_CLOEXEC || command == F_DUPFD ? fault_fd_add(result) : result;
}

int fault_ioctl(int fd, unsigned long request, ...)
{
    va_list args;
    va_start(args, request);
    void *arg = va_arg(args, void *);
    va_end(args);
    return fault_hit(FAULT_IOCTL) ? -1 : ioctl(fd, request, arg);
}

int fault_fstat(int fd, struct stat *about)
{
    return fault_hit(FAULT_FSTAT) ? -1 : fstat(fd, about);
}

int fault_stat(const char *path, struct stat *about)
{
    return fault_hit(FAULT_STAT) ? -1 : stat(path, about);
}

int fault_lstat(const char *path, struct stat *about)
{
    return fault_hit(FAULT_LSTAT) ? -1 : lstat(path, about);
}

DIR *fault_opendir(const char *path)
{
    return fault_hit(FAULT_OPENDIR) ? NULL : opendir(path);
}

ssize_t fault_readlinkat(int folder, const char *path, char *target, size_t size)
{
    return fault_hit(FAULT_READLINKAT) ? -1 : readlinkat(folder, path, target, size);
}

int fault_rename(const char *from, const char *to)
{
    return fault_hit(FAULT_RENAME) ? -1 : rename(from, to);
}

int fault_renameat2(int from_folder, const char *from, int to_folder, const char *to, unsigned flags)
{
    return fault_hit(FAULT_RENAMEAT2) ? -1 : renameat2(from_folder, from, to_folder, to, flags);
}

int fault_link(const char *from, const char *to)
{
    return fault_hit(FAULT_LINK) ? -1 : link(from, to);
}

/* Fails as when somebody else was quicker, so that no file stays. */
int fault_unlink(const char *path)
{
    int result = unlink(path);
    return fault_hit(FAULT_UNLINK) ? -1 : result;
}

int fault_pipe2(int ends[2], int flags)
{
    if (fault_hit(FAULT_PIPE2) || pipe2(ends, flags) != 0)
        return -1;
    fault_fd_add(ends[0]);
    fault_fd_add(ends[1]);
    return 0;
}

int fault_eventfd(unsigned count, int flags)
{
    return fault_hit(FAULT_EVENTFD) ? -1 : fault_fd_add(eventfd(count, flags));
}

int fault_timerfd_create(int clock, int flags)
{
    return fault_hit(FAULT_TIMERFD_CREATE) ? -1 : fault_fd_add(timerfd_create(clock, flags));
}

int fault_epoll_create1(int flags)
{
    return fault_hit(FAULT_EPOLL_CREATE1) ? -1 : fault_fd_add(epoll_create1(flags));
}

/* Only adding needs anything; changing and removing what is there cannot fail. */
int fault_epoll_ctl(int epoll, int operation, int fd, struct epoll_event *event)
{
    if (operation == EPOLL_CTL_ADD && fault_hit(FAULT_EPOLL_CTL))
        return -1;
    return epoll_ctl(epoll, operation, fd, event);
}

int fault_epoll_wait(int epoll, struct epoll_event *events, int capacity, int timeout_ms)
{
    return fault_hit(FAULT_EPOLL_WAIT) ? -1 : epoll_wait(epoll, events, capacity, timeout_ms);
}

int fault_poll(struct pollfd *fds, nfds_t count, int timeout_ms)
{
    return fault_hit(FAULT_POLL) ? -1 : poll(fds, count, timeout_ms);
}
