/* SPDX-License-Identifier: Apache-2.0 */
/* The library's system calls, counted. Calls that only wait (epoll_wait, poll) are left out: how often they are made
 * is chance, and dying in one is dying behind the call before. */
#include <pthread.h>
#include <stddef.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <fcntl.h>
#include <unistd.h>

#include "tests/kill/point.h"

#define DESCRIPTORS 1024

/* Descriptors that the library has opened itself, as opposed to libraries below it. */
static _Atomic unsigned char opened[DESCRIPTORS];

static int note_opened(int fd)
{
    if (fd >= 0 && fd < DESCRIPTORS)
        opened[fd] = 1;
    return fd;
}

int kill_descriptors_left(void)
{
    int left = 0;
    for (int fd = 0; fd < DESCRIPTORS; fd++)
        left += opened[fd] && fcntl(fd, F_GETFD) >= 0;
    return left;
}

int __real_socket(int domain, int type, int protocol);
int __wrap_socket(int domain, int type, int protocol);
int __wrap_socket(int domain, int type, int protocol)
{
    kill_at_call(0);
    int result = __real_socket(domain, type, protocol);
    kill_at_call(1);
    return note_opened(result);
}

int __real_bind(int fd, const struct sockaddr *address, socklen_t size);
int __wrap_bind(int fd, const struct sockaddr *address, socklen_t size);
int __wrap_bind(int fd, const struct sockaddr *address, socklen_t size)
{
    kill_at_call(0);
    int result = __real_bind(fd, address, size);
    kill_at_call(1);
    return result;
}

int __real_listen(int fd, int backlog);
int __wrap_listen(int fd, int backlog);
int __wrap_listen(int fd, int backlog)
{
    kill_at_call(0);
    int result = __real_listen(fd, backlog);
    kill_at_call(1);
    return result;
}

int __real_connect(int fd, const struct sockaddr *address, socklen_t size);
int __wrap_connect(int fd, const struct sockaddr *address, socklen_t size);
int __wrap_connect(int fd, const struct sockaddr *address, socklen_t size)
{
    kill_at_call(0);
    int result = __real_connect(fd, address, size);
    kill_at_call(1);
    return result;
}

int __real_accept4(int fd, struct sockaddr *address, socklen_t *size, int flags);
int __wrap_accept4(int fd, struct sockaddr *address, socklen_t *size, int flags);
int __wrap_accept4(int fd, struct sockaddr *address, socklen_t *size, int flags)
{
    kill_at_call(0);
    int result = __real_accept4(fd, address, size, flags);
    kill_at_call(1);
    return note_opened(result);
}

int __real_getsockopt(int fd, int level, int name, void *value, socklen_t *size);
int __wrap_getsockopt(int fd, int level, int name, void *value, socklen_t *size);
int __wrap_getsockopt(int fd, int level, int name, void *value, socklen_t *size)
{
    kill_at_call(0);
    int result = __real_getsockopt(fd, level, name, value, size);
    kill_at_call(1);
    return result;
}

ssize_t __real_send(int fd, const void *data, size_t size, int flags);
ssize_t __wrap_send(int fd, const void *data, size_t size, int flags);
ssize_t __wrap_send(int fd, const void *data, size_t size, int flags)
{
    kill_at_call(0);
    ssize_t result = __real_send(fd, data, size, flags);
    kill_at_call(1);
    return result;
}

ssize_t __real_sendmsg(int fd, const struct msghdr *message, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags)
{
    kill_at_call(0);
    ssize_t result = __real_sendmsg(fd, message, flags);
    kill_at_call(1);
    return result;
}

ssize_t __real_recv(int fd, void *data, size_t size, int flags);
ssize_t __wrap_recv(int fd, void *data, size_t size, int flags);
ssize_t __wrap_recv(int fd, void *data, size_t size, int flags)
{
    kill_at_call(0);
    ssize_t result = __real_recv(fd, data, size, flags);
    kill_at_call(1);
    return result;
}

ssize_t __real_recvmsg(int fd, struct msghdr *message, int flags);
ssize_t __wrap_recvmsg(int fd, struct msghdr *message, int flags);
ssize_t __wrap_recvmsg(int fd, struct msghdr *message, int flags)
{
    kill_at_call(0);
    ssize_t result = __real_recvmsg(fd, message, flags);
    kill_at_call(1);
    return result;
}

ssize_t __real_read(int fd, void *data, size_t size);
ssize_t __wrap_read(int fd, void *data, size_t size);
ssize_t __wrap_read(int fd, void *data, size_t size)
{
    kill_at_call(0);
    ssize_t result = __real_read(fd, data, size);
    kill_at_call(1);
    return result;
}

ssize_t __real_write(int fd, const void *data, size_t size);
ssize_t __wrap_write(int fd, const void *data, size_t size);
ssize_t __wrap_write(int fd, const void *data, size_t size)
{
    kill_at_call(0);
    ssize_t result = __real_write(fd, data, size);
    kill_at_call(1);
    return result;
}

int __real_close(int fd);
int __wrap_close(int fd);
int __wrap_close(int fd)
{
    kill_at_call(0);
    if (fd >= 0 && fd < DESCRIPTORS)
        opened[fd] = 0;
    int result = __real_close(fd);
    kill_at_call(1);
    return result;
}

int __real_epoll_create1(int flags);
int __wrap_epoll_create1(int flags);
int __wrap_epoll_create1(int flags)
{
    kill_at_call(0);
    int result = __real_epoll_create1(flags);
    kill_at_call(1);
    return note_opened(result);
}

int __real_epoll_ctl(int epoll, int what, int fd, struct epoll_event *event);
int __wrap_epoll_ctl(int epoll, int what, int fd, struct epoll_event *event);
int __wrap_epoll_ctl(int epoll, int what, int fd, struct epoll_event *event)
{
    kill_at_call(0);
    int result = __real_epoll_ctl(epoll, what, fd, event);
    kill_at_call(1);
    return result;
}

int __real_eventfd(unsigned value, int flags);
int __wrap_eventfd(unsigned value, int flags);
int __wrap_eventfd(unsigned value, int flags)
{
    kill_at_call(0);
    int result = __real_eventfd(value, flags);
    kill_at_call(1);
    return note_opened(result);
}

int __real_pipe2(int fds[2], int flags);
int __wrap_pipe2(int fds[2], int flags);
int __wrap_pipe2(int fds[2], int flags)
{
    kill_at_call(0);
    int result = __real_pipe2(fds, flags);
    kill_at_call(1);
    if (result == 0) {
        note_opened(fds[0]);
        note_opened(fds[1]);
    }
    return result;
}

ssize_t __real_vmsplice(int fd, const struct iovec *pieces, size_t count, unsigned flags);
ssize_t __wrap_vmsplice(int fd, const struct iovec *pieces, size_t count, unsigned flags);
ssize_t __wrap_vmsplice(int fd, const struct iovec *pieces, size_t count, unsigned flags)
{
    kill_at_call(0);
    ssize_t result = __real_vmsplice(fd, pieces, count, flags);
    kill_at_call(1);
    return result;
}

ssize_t __real_process_vm_readv(pid_t pid, const struct iovec *here, unsigned long here_count,
                                const struct iovec *there, unsigned long there_count, unsigned long flags);
ssize_t __wrap_process_vm_readv(pid_t pid, const struct iovec *here, unsigned long here_count,
                                const struct iovec *there, unsigned long there_count, unsigned long flags);
ssize_t __wrap_process_vm_readv(pid_t pid, const struct iovec *here, unsigned long here_count,
                                const struct iovec *there, unsigned long there_count, unsigned long flags)
{
    kill_at_call(0);
    ssize_t result = __real_process_vm_readv(pid, here, here_count, there, there_count, flags);
    kill_at_call(1);
    return result;
}

int __real_memfd_create(const char *name, unsigned flags);
int __wrap_memfd_create(const char *name, unsigned flags);
int __wrap_memfd_create(const char *name, unsigned flags)
{
    kill_at_call(0);
    int result = __real_memfd_create(name, flags);
    kill_at_call(1);
    return note_opened(result);
}

int __real_ftruncate(int fd, off_t size);
int __wrap_ftruncate(int fd, off_t size);
int __wrap_ftruncate(int fd, off_t size)
{
    kill_at_call(0);
    int result = __real_ftruncate(fd, size);
    kill_at_call(1);
    return result;
}

void *__real_mmap(void *at, size_t size, int protection, int flags, int fd, off_t offset);
void *__wrap_mmap(void *at, size_t size, int protection, int flags, int fd, off_t offset);
void *__wrap_mmap(void *at, size_t size, int protection, int flags, int fd, off_t offset)
{
    kill_at_call(0);
    void *result = __real_mmap(at, size, protection, flags, fd, offset);
    kill_at_call(1);
    return result;
}

int __real_munmap(void *memory, size_t size);
int __wrap_munmap(void *memory, size_t size);
int __wrap_munmap(void *memory, size_t size)
{
    kill_at_call(0);
    int result = __real_munmap(memory, size);
    kill_at_call(1);
    return result;
}

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*main)(void *),
                          void *arg);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*main)(void *),
                          void *arg);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*main)(void *),
                          void *arg)
{
    kill_at_call(0);
    int result = __real_pthread_create(thread, attributes, main, arg);
    kill_at_call(1);
    return result;
}
