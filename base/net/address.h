/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses of TCP: text, resolving, this machine's interfaces, identity of host and network namespace.
 *
 * An IPv6 link-local address (fe80::/10) is one of a link, and means something together with its scope alone: the number of the
 * interface to that link. Hosts number and name their interfaces as they like, so a scope never leaves its host: what others read
 * is the address without it, and each puts the interface in by which it reaches them.
 *
 * Threads: no shared state.
 */
#ifndef WEFT_BASE_NET_ADDRESS_H
#define WEFT_BASE_NET_ADDRESS_H

#include <stdint.h>
#include <sys/socket.h>

#define WEFT_NET_ADDRESSES_MAX 32
#define WEFT_NET_ADDRESS_TEXT  64 /* "[v6]:port", "[fe80::...%interface]:port" */
#define WEFT_NET_SCOPES_MAX    32
#define WEFT_NET_HOSTPORT_MAX  320 /* "host:port" of a caller */

struct weft_net_address {
    int family; /* 0 none, 4, 6 */
    uint16_t port;
    unsigned char ip[16];
    uint32_t
        scope; /* of a link-local IPv6 address: an interface of this host; 0 not known, and of all others */
};

struct weft_net_addresses {
    int count;
    struct weft_net_address at[WEFT_NET_ADDRESSES_MAX];
};

int weft_net_address_is_loopback(const struct weft_net_address *address);
/* Whether it is one that means nothing without a scope. */
int weft_net_address_is_link_local6(const struct weft_net_address *address);
int weft_net_address_same(const struct weft_net_address *a, const struct weft_net_address *b);
/* "10.0.0.1:4000", "[fd00::1]:4000", "[fe80::1%eth0]:4000"; without the port when with_port is 0 (and then without brackets). */
const char *weft_net_address_text(const struct weft_net_address *address, int with_port,
                                  char text[WEFT_NET_ADDRESS_TEXT]);
/* Of a numeric "ip", where a scope is allowed behind link-local ones ("fe80::1%eth0", "fe80::1%2") and need not be there.
 * WEFT_INVALID: it is not numeric, or there is no such interface here. */
int weft_net_ip_parse(const char *text, struct weft_net_address *address);
/* The same of "ip:port" or "[ip]:port". */
int weft_net_address_parse(const char *text, struct weft_net_address *address);

/* Splits "host:port", "[v6]:port"; host has room for WEFT_NET_HOSTPORT_MAX. */
int weft_net_hostport_split(const char *text, char *host, uint16_t *port);
/* Whether it names loopback literally, rather than a host that happens to be here. */
int weft_net_hostport_is_loopback(const char *text);
/* What a caller means by "host:port". 1: an address, which is filled; 0: a name. WEFT_INVALID: it is neither, or an address that
 * cannot be used so: link-local without a scope, or with one that is no interface of this host, or a scope behind another address. */
int weft_net_hostport_read(const char *text, struct weft_net_address *address);
/* Resolves "host:port". WEFT_INVALID as above. WEFT_RANKS_ABSENT with the resolver's reason when the name is not known (yet). */
int weft_net_hostport_resolve(const char *text, struct weft_net_addresses *addresses);

/* IPv4 inside IPv6 is unwrapped. 0: of another family. */
int weft_net_address_from(const struct sockaddr *from, struct weft_net_address *address);
/* Addresses of this machine's interfaces that are up, for other hosts to read: loopback first, port 0. Link-local ones are left
 * out, but where there is nothing but loopback beside them: then those of IPv6 are there, without scope. */
void weft_net_interfaces(struct weft_net_addresses *addresses);
/* The interfaces that are up and have an IPv6 link-local address; returns how many. */
int weft_net_scopes(uint32_t scopes[WEFT_NET_SCOPES_MAX]);
/* Each link-local address without scope becomes one for each of those interfaces: it may be on the link of any. */
void weft_net_addresses_spread(struct weft_net_addresses *addresses);
/* The first of the interfaces that have this address, 0: none. */
uint32_t weft_net_scope_of(const struct weft_net_address *address);

/* Identity of host and network namespace, 0 when not known. */
uint64_t weft_net_host_identity(void);
/* A random number that is not 0. */
uint64_t weft_net_random(void);

#endif
