/* SPDX-License-Identifier: Apache-2.0 */
/* Frames with descriptors over the UNIX sockets between instances. Nothing here blocks. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include "base/fd_message.h"
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

_Static_assert(SHM_FRAME_FDS == WEFT_FD_MESSAGE_FDS, "as many as one message has");

int shm_frame_send(struct weft_transport *transport, int socket_fd, const struct shm_frame *frame,
                   const int *fds, int fd_count)
{
    int error = weft_fd_message_send(socket_fd, frame, sizeof *frame, fds, fd_count);
    if (!error || error == EAGAIN)
        return error ? WEFT_AGAIN : WEFT_OK;
    return transport->params.fail(WEFT_PEER_FAILED, "shm: sending to a peer's socket: %s",
                                  weft_errno_text(error));
}

int shm_frame_receive(struct weft_transport *transport, int socket_fd, struct shm_frame *frame,
                      int fds[SHM_FRAME_FDS])
{
    int is_cut;
    ssize_t got = weft_fd_message_receive(socket_fd, frame, sizeof *frame, fds, &is_cut);
    if (got < 0 && errno == EAGAIN)
        return WEFT_AGAIN;
    if (got < 0)
        return WEFT_PEER_FAILED;
    if (got == (ssize_t)sizeof *frame && !is_cut && frame->magic == SHM_FRAME_MAGIC &&
        frame->version == SHM_VERSION)
        return WEFT_OK;
    int error = is_cut ? errno : 0;
    weft_fd_message_close(fds);
    if (got == 0)
        return WEFT_PEER_FAILED;
    if (error)
        return transport->params.fail(WEFT_SYSTEM, "shm: taking over a peer's descriptor: %s",
                                      weft_errno_text(error));
    return transport->params.fail(WEFT_PROTOCOL, "shm: a peer sent a malformed frame of %zd bytes", got);
}
