/* SPDX-License-Identifier: Apache-2.0 */
/* Sockets for the bootstrap: addresses, listening, connecting, and sending and receiving with a deadline.
 *
 * Every descriptor is made non-blocking and close-on-exec. EINTR is handled inside. Threads: no shared state.
 */
#ifndef WEFT_COMM_BOOT_NET_H
#define WEFT_COMM_BOOT_NET_H

#include <sys/socket.h>
#include "comm/boot_body.h"

#define WEFT_BOOT_ADDRESSES_MAX    32
#define WEFT_BOOT_ADDRESS_TEXT     64   /* "[v6]:port" */
#define WEFT_BOOT_HOSTPORT_MAX     320  /* "host:port" of a caller */
#define WEFT_BOOT_BACKLOG          4096 /* of listeners, as far as the system allows */
#define WEFT_BOOT_PAUSE_FIRST_MS   5
#define WEFT_BOOT_PAUSE_LONGEST_MS 250

struct weft_boot_addresses {
    int count;
    struct weft_boot_address at[WEFT_BOOT_ADDRESSES_MAX];
};

int weft_boot_address_is_loopback(const struct weft_boot_address *address);
int weft_boot_address_same(const struct weft_boot_address *a, const struct weft_boot_address *b);
/* "10.0.0.1:4000", "[fd00::1]:4000"; without the port when with_port is 0 (and then without brackets). */
const char *weft_boot_address_text(const struct weft_boot_address *address, int with_port,
                                   char text[WEFT_BOOT_ADDRESS_TEXT]);
/* Of numeric "ip:port" or "[ip]:port". */
int weft_boot_address_parse(const char *text, struct weft_boot_address *address);

/* Splits "host:port", "[v6]:port"; host has room for WEFT_BOOT_HOSTPORT_MAX. */
int weft_boot_hostport_split(const char *text, char *host, uint16_t *port);
/* Whether it names loopback literally, rather than a host that happens to be here. */
int weft_boot_hostport_is_loopback(const char *text);
/* Resolves "host:port". WEFT_ABSENT with the resolver's reason when the name is not known (yet). */
int weft_boot_hostport_resolve(const char *text, struct weft_boot_addresses *addresses);

/* The ends of a connected socket. IPv4 inside IPv6 is unwrapped. */
int weft_boot_local_address(int fd, struct weft_boot_address *address);
int weft_boot_peer_address(int fd, struct weft_boot_address *address);

/* Addresses of this machine's interfaces that are up, loopback first, link-local ones left out, port 0. */
void weft_boot_interfaces(struct weft_boot_addresses *addresses);

/* Identity of host and network namespace, 0 when not known. */
uint64_t weft_boot_host_identity(void);
/* A random number that is not 0. */
uint64_t weft_boot_random(void);

/* Listens on address (family 0: wildcard of both families; port 0: any). The port is in *port. */
int weft_boot_listen(const struct weft_boot_address *address, int *fd, uint16_t *port);
/* Options that matter on a connection that lasts: no delay, keepalive. Dialed ones have them from the start. */
void weft_boot_tune(int fd);
/* Accepts one; *accepted is -1 when nobody waits. WEFT_SYSTEM when descriptors or memory ran out. */
int weft_boot_accept(int listener, int *accepted);

/* Begins a connection; *fd is writable once it is decided. */
int weft_boot_connect_start(const struct weft_boot_address *address, int *fd);
/* After it became writable: WEFT_OK, or WEFT_SYSTEM with the reason. */
int weft_boot_connect_finish(int fd, const struct weft_boot_address *address);
/* Both, bounded by the deadline. */
int weft_boot_connect(const struct weft_boot_address *address, int64_t deadline_ns, int *fd);

/* Receives once into the reader, which unseals. 1: a frame is complete, 0: not yet (nothing to read now, or more needed and
 * something was read: *idle tells), WEFT_PEER_FAILED when the peer closed or reset, WEFT_PROTOCOL,
 * WEFT_NOMEM. */
int weft_boot_receive(int fd, struct weft_boot_reader *reader, int *idle);

/* Seals and sends a small frame at once or not at all (a peer that does not take a few hundred bytes is not
 * waited for). */
int weft_boot_send(int fd, int type, const struct weft_boot_writer *body, uint32_t *sequence,
                   struct weft_auth_channel *channel);

/* Waits for events; negative fds are ignored. Never beyond the deadline nor cap_ms. */
struct pollfd;
int weft_boot_poll(struct pollfd *fds, unsigned count, int64_t deadline_ns, int cap_ms);

/* The pause after one of pause_ms. */
int weft_boot_longer_pause(int pause_ms);
/* Sleeps *pause_ms (bounded by the deadline) and lengthens it. */
void weft_boot_pause(int *pause_ms, int64_t deadline_ns);

#endif
