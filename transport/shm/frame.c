/* SPDX-License-Identifier: Apache-2.0 */
/* Frames with descriptors over the UNIX sockets between instances. Nothing here blocks. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include "base/fd.h"
#include "transport/shm/shm_private.h"

int shm_socket_name(const struct shm_identity *identity, void *result)
{
    struct sockaddr_un *name = result;
    memset(name, 0, sizeof *name);
    name->sun_family = AF_UNIX;
    /* The first byte stays 0: an abstract name, on no file system. */
    int length =
        snprintf(name->sun_path + 1, sizeof name->sun_path - 1, "weft-%u-%016llx%016llx", SHM_VERSION,
                 (unsigned long long)identity->words[0], (unsigned long long)identity->words[1]);
    return (int)offsetof(struct sockaddr_un, sun_path) + 1 + length;
}

int shm_socket_peer(struct weft_transport *transport, int socket_fd, int *pid)
{
    struct ucred peer;
    socklen_t size = sizeof peer;
    if (getsockopt(socket_fd, SOL_SOCKET, SO_PEERCRED, &peer, &size))
        return transport->params.fail(WEFT_SYSTEM, "shm: SO_PEERCRED: %s", weft_errno_text(errno));
    if (peer.uid != geteuid())
        return transport->params.fail(WEFT_ACCESS, "shm: peer process runs as uid %u, this one as %u",
                                      (unsigned)peer.uid, (unsigned)geteuid());
    *pid = (int)peer.pid;
    return WEFT_OK;
}

int shm_frame_send(struct weft_transport *transport, int socket_fd, const struct shm_frame *frame,
                   const int *fds, int fd_count)
{
    struct iovec data = {(void *)(uintptr_t)frame, sizeof *frame};
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(SHM_FRAME_FDS * sizeof(int))];
    } control;
    struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1};
    if (fd_count > 0) {
        memset(&control, 0, sizeof control);
        message.msg_control = control.bytes;
        message.msg_controllen = CMSG_SPACE((size_t)fd_count * sizeof(int));
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN((size_t)fd_count * sizeof(int));
        memcpy(CMSG_DATA(header), fds, (size_t)fd_count * sizeof(int));
    }
    ssize_t sent;
    do
        sent = !weft_fd_is_own(socket_fd) ? -1 : sendmsg(socket_fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (sent < 0 && errno == EINTR);
    if (sent == (ssize_t)sizeof *frame)
        return WEFT_OK;
    if (errno == EAGAIN || errno == ENOBUFS || errno == ETOOMANYREFS)
        return WEFT_AGAIN;
    return transport->params.fail(WEFT_PEER_FAILED, "shm: sending to a peer's socket: %s",
                                  weft_errno_text(errno));
}

/* Takes the descriptors out of a received message; those that do not fit are closed. */
static void take_fds(struct msghdr *message, int fds[SHM_FRAME_FDS])
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
            if (count < SHM_FRAME_FDS)
                fds[count++] = fd;
            else
                weft_fd_close(fd);
        }
    }
}

int shm_frame_receive(struct weft_transport *transport, int socket_fd, struct shm_frame *frame,
                      int fds[SHM_FRAME_FDS])
{
    struct iovec data = {frame, sizeof *frame};
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(SHM_FRAME_FDS * sizeof(int))];
    } control;
    struct msghdr message = {.msg_iov = &data,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof control.bytes};
    fds[0] = fds[1] = -1;
    ssize_t got;
    do
        got = !weft_fd_is_own(socket_fd) ? -1 : recvmsg(socket_fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    while (got < 0 && errno == EINTR);
    if (got < 0 && errno == EAGAIN)
        return WEFT_AGAIN;
    if (got <= 0)
        return WEFT_PEER_FAILED;
    take_fds(&message, fds);
    if (got == (ssize_t)sizeof *frame && !(message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) &&
        frame->magic == SHM_FRAME_MAGIC && frame->version == SHM_VERSION)
        return WEFT_OK;
    int spare = message.msg_flags & MSG_CTRUNC ? fcntl(socket_fd, F_DUPFD_CLOEXEC, 0) : -2;
    int no_room = spare == -1; /* the kernel could not hand over what came along */
    if (spare >= 0)
        close(spare);
    for (int i = 0; i < SHM_FRAME_FDS; i++) {
        if (fds[i] >= 0)
            weft_fd_close(fds[i]);
        fds[i] = -1;
    }
    if (no_room)
        return transport->params.fail(WEFT_SYSTEM, "shm: taking over a peer's descriptor: %s",
                                      weft_errno_text(EMFILE));
    return transport->params.fail(WEFT_PROTOCOL, "shm: a peer sent a malformed frame of %zd bytes", got);
}
