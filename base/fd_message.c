/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fd_message.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"

union control {
    struct cmsghdr align;
    char bytes[CMSG_SPACE(WEFT_FD_MESSAGE_FDS * sizeof(int))];
};

int weft_fd_message_send(int socket_fd, const void *data, size_t size, const int *fds, int count)
{
    struct iovec part = {(void *)(uintptr_t)data, size};
    union control control;
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (count > 0) {
        memset(&control, 0, sizeof control);
        message.msg_control = control.bytes;
        message.msg_controllen = CMSG_SPACE((size_t)count * sizeof(int));
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN((size_t)count * sizeof(int));
        memcpy(CMSG_DATA(header), fds, (size_t)count * sizeof(int));
    }
    for (int i = 0; i < count; i++)
        if (!weft_fd_is_own(fds[i])) /* it would be a file of the program's */
            return EBADF;
    ssize_t sent;
    do
        sent = !weft_fd_is_own(socket_fd) ? -1 : sendmsg(socket_fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (sent < 0 && errno == EINTR);
    if (sent == (ssize_t)size)
        return 0;
    return errno == ENOBUFS || errno == ETOOMANYREFS ? EAGAIN : errno;
}

/* Those that do not fit are closed. */
static void take_fds(struct msghdr *message, int *fds)
{
    int count = 0;
    for (struct cmsghdr *header = CMSG_FIRSTHDR(message); header; header = CMSG_NXTHDR(message, header)) {
        if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS)
            continue;
        size_t held = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < held; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(header) + i * sizeof fd, sizeof fd);
            fd = weft_fd_add(fd);
            if (count < WEFT_FD_MESSAGE_FDS)
                fds[count++] = fd;
            else
                weft_fd_close(fd);
        }
    }
}

/* The kernel does not say why descriptors have not come along. */
static int has_room(int socket_fd)
{
    int spare = fcntl(socket_fd, F_DUPFD_CLOEXEC, 0);
    if (spare >= 0)
        close(spare);
    return spare >= 0;
}

ssize_t weft_fd_message_receive(int socket_fd, void *data, size_t size, int *fds, int *is_cut)
{
    struct iovec part = {data, size};
    union control control;
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof control.bytes};
    for (int i = 0; i < WEFT_FD_MESSAGE_FDS; i++)
        fds[i] = -1;
    *is_cut = 0;
    ssize_t got;
    do
        got = !weft_fd_is_own(socket_fd) ? -1 : recvmsg(socket_fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    while (got < 0 && errno == EINTR);
    if (got < 0)
        return -1;
    take_fds(&message, fds);
    *is_cut = (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0;
    if (*is_cut)
        errno = message.msg_flags & MSG_CTRUNC && !has_room(socket_fd) ? EMFILE : 0;
    return got;
}

void weft_fd_message_close(int *fds)
{
    for (int i = 0; i < WEFT_FD_MESSAGE_FDS; i++) {
        if (fds[i] >= 0)
            weft_fd_close(fds[i]);
        fds[i] = -1;
    }
}
