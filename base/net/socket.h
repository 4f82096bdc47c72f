/* SPDX-License-Identifier: Apache-2.0 */
/* Sockets: listening, accepting, connecting, waiting with a deadline.
 *
 * Every descriptor is made non-blocking and close-on-exec. EINTR is handled inside. Threads: no shared state.
 */
#ifndef WEFT_BASE_NET_SOCKET_H
#define WEFT_BASE_NET_SOCKET_H

#include "base/net/address.h"

#define WEFT_NET_BACKLOG          4096 /* of listeners, as far as the system allows */
#define WEFT_NET_PAUSE_FIRST_MS   5
#define WEFT_NET_PAUSE_LONGEST_MS 250

/* The ends of a connected socket. */
int weft_net_local_address(int fd, struct weft_net_address *address);
int weft_net_peer_address(int fd, struct weft_net_address *address);

/* Listens on address (family 0: wildcard of both families; port 0: any). The port is in *port. */
int weft_net_listen(const struct weft_net_address *address, int *fd, uint16_t *port);
/* Options that matter on a connection that lasts: no delay, keepalive. Dialed ones have them from the start. */
void weft_net_tune(int fd);
/* Accepts one; *accepted is -1 when nobody waits. WEFT_SYSTEM when descriptors or memory ran out. */
int weft_net_accept(int listener, int *accepted);

/* Begins a connection; *fd is writable once it is decided. WEFT_SYSTEM: this process has no socket for it. WEFT_PEER_FAILED:
 * nobody can be reached there. */
int weft_net_connect_start(const struct weft_net_address *address, int *fd);
/* After it became writable: WEFT_OK, or WEFT_PEER_FAILED with the reason. */
int weft_net_connect_finish(int fd, const struct weft_net_address *address);

/* Sends a few bytes at once or not at all: a peer that does not take them is not waited for. Whether it has. */
int weft_net_send_bytes(int fd, const void *bytes, size_t size);

/* Waits for events; negative fds are ignored. Never beyond the deadline nor cap_ms. */
struct pollfd;
int weft_net_poll(struct pollfd *fds, unsigned count, int64_t deadline_ns, int cap_ms);

/* The pause after one of pause_ms. */
int weft_net_longer_pause(int pause_ms);
/* Sleeps *pause_ms (bounded by the deadline) and lengthens it. */
void weft_net_pause(int *pause_ms, int64_t deadline_ns);

#endif
