/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses of TCP: text, resolving, this machine's interfaces, identity of host and network namespace.
 *
 * Threads: no shared state.
 */
#ifndef WEFT_BASE_NET_ADDRESS_H
#define WEFT_BASE_NET_ADDRESS_H

#include <stdint.h>
#include <sys/socket.h>

#define WEFT_NET_ADDRESSES_MAX 32
#define WEFT_NET_ADDRESS_TEXT  64  /* "[v6]:port" */
#define WEFT_NET_HOSTPORT_MAX  320 /* "host:port" of a caller */

struct weft_net_address {
    int family; /* 0 none, 4, 6 */
    uint16_t port;
    unsigned char ip[16];
};

struct weft_net_addresses {
    int count;
    struct weft_net_address at[WEFT_NET_ADDRESSES_MAX];
};

int weft_net_address_is_loopback(const struct weft_net_address *address);
int weft_net_address_same(const struct weft_net_address *a, const struct weft_net_address *b);
/* "10.0.0.1:4000", "[fd00::1]:4000"; without the port when with_port is 0 (and then without brackets). */
const char *weft_net_address_text(const struct weft_net_address *address, int with_port,
                                  char text[WEFT_NET_ADDRESS_TEXT]);
/* Of numeric "ip:port" or "[ip]:port". */
int weft_net_address_parse(const char *text, struct weft_net_address *address);

/* Splits "host:port", "[v6]:port"; host has room for WEFT_NET_HOSTPORT_MAX. */
int weft_net_hostport_split(const char *text, char *host, uint16_t *port);
/* Whether it names loopback literally, rather than a host that happens to be here. */
int weft_net_hostport_is_loopback(const char *text);
/* Resolves "host:port". WEFT_RANKS_ABSENT with the resolver's reason when the name is not known (yet). */
int weft_net_hostport_resolve(const char *text, struct weft_net_addresses *addresses);

/* IPv4 inside IPv6 is unwrapped. 0: of another family. */
int weft_net_address_from(const struct sockaddr *from, struct weft_net_address *address);
/* Addresses of this machine's interfaces that are up, loopback first, link-local ones left out, port 0. */
void weft_net_interfaces(struct weft_net_addresses *addresses);

/* Identity of host and network namespace, 0 when not known. */
uint64_t weft_net_host_identity(void);
/* A random number that is not 0. */
uint64_t weft_net_random(void);

#endif
