/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/boot/net.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include "base/error.h"
#include "base/fd.h"
#include "base/net/socket.h"

void weft_boot_link_open(struct weft_boot_link *link, int fd, const struct weft_auth_session *session,
                         uint64_t accepts)
{
    link->fd = fd;
    link->send = session->send;
    weft_boot_reader_init(&link->reader, accepts, &session->receive);
}

void weft_boot_link_close(struct weft_boot_link *link)
{
    weft_fd_close(link->fd);
    weft_boot_reader_clear(&link->reader);
    weft_crypto_wipe(link, sizeof *link);
    link->fd = -1;
}

int weft_boot_receive(struct weft_boot_link *link, int *idle)
{
    void *place;
    size_t room;
    *idle = 0;
    int status = weft_boot_reader_space(&link->reader, &place, &room);
    if (status != WEFT_OK)
        return status;
    ssize_t got;
    do
        got = weft_fd_recv(link->fd, place, room, MSG_DONTWAIT);
    while (got < 0 && errno == EINTR);
    if (got > 0)
        return weft_boot_reader_advance(&link->reader, (size_t)got);
    if (got == 0)
        return weft_fail(WEFT_PEER_FAILED, "connection closed");
    /* That the program has taken the descriptor is no fault of the peer's: the service thread finds it and says so. */
    if (errno == EAGAIN || errno == EWOULDBLOCK || !weft_fd_is_own(link->fd)) {
        *idle = 1;
        return 0;
    }
    weft_fail_errno("connection broke");
    return WEFT_PEER_FAILED;
}

int weft_boot_send(struct weft_boot_link *link, int type, const struct weft_boot_writer *body)
{
    unsigned char frame[WEFT_BOOT_HEADER_BYTES + 1024 + WEFT_TAG_BYTES];
    unsigned char *place = frame + WEFT_BOOT_HEADER_BYTES;
    if (body->failed || body->size > 1024)
        return weft_fail(WEFT_NOMEM, "bootstrap: no memory for a frame");
    if (body->size)
        memcpy(place, body->data, body->size);
    weft_boot_frame_seal(&link->send, type, 0, frame, place, body->size, place + body->size);
    size_t size = WEFT_BOOT_HEADER_BYTES + body->size + WEFT_TAG_BYTES;
    if (!weft_net_send_bytes(link->fd, frame, size))
        return weft_fail(WEFT_PEER_FAILED, "connection does not take %zu bytes", size);
    return WEFT_OK;
}
