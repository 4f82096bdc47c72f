/* SPDX-License-Identifier: Apache-2.0 */
/* Sockets and names. */
#include "tests/faults/wrap.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "tests/faults/inject.h"

int fault_socket(int domain, int type, int protocol)
{
    return fault_hit(FAULT_SOCKET) ? -1 : fault_fd_add(socket(domain, type, protocol));
}

int fault_bind(int fd, const struct sockaddr *name, socklen_t length)
{
    return fault_hit(FAULT_BIND) ? -1 : bind(fd, name, length);
}

int fault_listen(int fd, int backlog)
{
    return fault_hit(FAULT_LISTEN) ? -1 : listen(fd, backlog);
}

int fault_accept4(int fd, struct sockaddr *name, socklen_t *length, int flags)
{
    return fault_hit(FAULT_ACCEPT4) ? -1 : fault_fd_add(accept4(fd, name, length, flags));
}

int fault_connect(int fd, const struct sockaddr *name, socklen_t length)
{
    /* Only a call that waits can be interrupted. */
    int waits = !(fcntl(fd, F_GETFL) & O_NONBLOCK);
    int value = waits ? fault_hit(FAULT_CONNECT) : fault_hit_whole(FAULT_CONNECT);
    if (value != EINTR)
        return value ? -1 : connect(fd, name, length);
    /* An interrupted connect goes on in the background. */
    connect(fd, name, length);
    errno = EINTR;
    return -1;
}

int fault_shutdown(int fd, int how)
{
    return fault_hit(FAULT_SHUTDOWN) ? -1 : shutdown(fd, how);
}

int fault_getsockopt(int fd, int level, int option, void *value, socklen_t *length)
{
    return fault_hit(FAULT_GETSOCKOPT) ? -1 : getsockopt(fd, level, option, value, length);
}

int fault_setsockopt(int fd, int level, int option, const void *value, socklen_t length)
{
    return fault_hit(FAULT_SETSOCKOPT) ? -1 : setsockopt(fd, level, option, value, length);
}

int fault_getsockname(int fd, struct sockaddr *name, socklen_t *length)
{
    return fault_hit(FAULT_GETSOCKNAME) ? -1 : getsockname(fd, name, length);
}

int fault_getpeername(int fd, struct sockaddr *name, socklen_t *length)
{
    return fault_hit(FAULT_GETPEERNAME) ? -1 : getpeername(fd, name, length);
}

/* Messages are taken whole or not at all; only a stream's bytes may come in parts. */
static int hit_transfer(enum fault_call call, int fd)
{
    int type = SOCK_STREAM, saved = errno;
    socklen_t length = sizeof type;
    getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &length);
    errno = saved;
    return type == SOCK_STREAM ? fault_hit(call) : fault_hit_whole(call);
}

ssize_t fault_send(int fd, const void *buffer, size_t size, int flags)
{
    int value = hit_transfer(FAULT_SEND, fd);
    if (value == FAULT_SHORT && size > 1)
        return send(fd, buffer, size / 2, flags);
    return value && value != FAULT_SHORT ? -1 : send(fd, buffer, size, flags);
}

ssize_t fault_recv(int fd, void *buffer, size_t size, int flags)
{
    int value = hit_transfer(FAULT_RECV, fd);
    if (value == FAULT_END)
        return 0;
    if (value == FAULT_SHORT && size > 1)
        return recv(fd, buffer, size / 2, flags);
    return value && value != FAULT_SHORT ? -1 : recv(fd, buffer, size, flags);
}

ssize_t fault_sendmsg(int fd, const struct msghdr *message, int flags)
{
    return fault_hit(FAULT_SENDMSG) ? -1 : sendmsg(fd, message, flags);
}

static void add_received(struct msghdr *message)
{
    for (struct cmsghdr *header = CMSG_FIRSTHDR(message); header; header = CMSG_NXTHDR(message, header)) {
        if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS)
            continue;
        for (size_t at = 0; CMSG_LEN(at + sizeof(int)) <= header->cmsg_len; at += sizeof(int)) {
            int fd;
            memcpy(&fd, CMSG_DATA(header) + at, sizeof fd);
            fault_fd_add(fd);
        }
    }
}

ssize_t fault_recvmsg(int fd, struct msghdr *message, int flags)
{
    int value = fault_hit(FAULT_RECVMSG);
    if (value == FAULT_END) {
        message->msg_namelen = 0;
        message->msg_controllen = 0;
        message->msg_flags = 0;
        return 0;
    }
    ssize_t got = value ? -1 : recvmsg(fd, message, flags);
    if (got >= 0)
        add_received(message);
    return got;
}

int fault_getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
                      struct addrinfo **result)
{
    int value = fault_hit(FAULT_GETADDRINFO);
    return value ? value : getaddrinfo(node, service, hints, result);
}

int fault_getifaddrs(struct ifaddrs **result)
{
    return fault_hit(FAULT_GETIFADDRS) ? -1 : getifaddrs(result);
}

int fault_gethostname(char *name, size_t capacity)
{
    return fault_hit(FAULT_GETHOSTNAME) ? -1 : gethostname(name, capacity);
}
