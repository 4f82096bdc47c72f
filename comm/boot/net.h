/* SPDX-License-Identifier: Apache-2.0 */
/* A connection of two ranks once it has proven itself: sealed frames over a socket (base/net/).
 *
 * Threads: no shared state.
 */
#ifndef WEFT_COMM_BOOT_NET_H
#define WEFT_COMM_BOOT_NET_H

#include "base/net/auth.h"
#include "comm/boot/body.h"

/* A connection that has proven itself, with the keys of its handshake. One owner at a time. */
struct weft_boot_link {
    int fd; /* -1: none (any more) */
    struct weft_auth_channel send;
    struct weft_boot_reader reader;
};

/* fd is the link's from here on; accepts: types of frames that may come. */
void weft_boot_link_open(struct weft_boot_link *link, int fd, const struct weft_auth_session *session,
                         uint64_t accepts);
/* Closes and wipes it; also one that is not open. */
void weft_boot_link_close(struct weft_boot_link *link);

/* Receives once into the reader, which unseals. 1: a frame is complete, 0: not yet (nothing to read now, or more needed and
 * something was read: *idle says), WEFT_PEER_FAILED when the peer closed or reset, WEFT_PROTOCOL,
 * WEFT_NOMEM. */
int weft_boot_receive(struct weft_boot_link *link, int *idle);

/* Seals and sends a small frame at once or not at all. */
int weft_boot_send(struct weft_boot_link *link, int type, const struct weft_boot_writer *body);

#endif
