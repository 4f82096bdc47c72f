/* SPDX-License-Identifier: Apache-2.0 */
#include "base/net/address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"

int weft_net_address_is_loopback(const struct weft_net_address *address)
{
    static const unsigned char loopback6[16] = {[15] = 1};
    if (address->family == 4)
        return address->ip[0] == 127;
    return address->family == 6 && memcmp(address->ip, loopback6, 16) == 0;
}

static int is_link_local(const struct weft_net_address *address)
{
    if (address->family == 4)
        return address->ip[0] == 169 && address->ip[1] == 254;
    return address->ip[0] == 0xfe && (address->ip[1] & 0xc0) == 0x80;
}

int weft_net_address_same(const struct weft_net_address *a, const struct weft_net_address *b)
{
    return a->family == b->family && a->port == b->port && memcmp(a->ip, b->ip, sizeof a->ip) == 0;
}

const char *weft_net_address_text(const struct weft_net_address *address, int with_port,
                                  char text[WEFT_NET_ADDRESS_TEXT])
{
    char ip[INET6_ADDRSTRLEN] = "*";
    if (address->family != 0)
        inet_ntop(address->family == 4 ? AF_INET : AF_INET6, address->ip, ip, sizeof ip);
    if (with_port)
        snprintf(text, WEFT_NET_ADDRESS_TEXT, address->family == 6 ? "[%s]:%u" : "%s:%u", ip,
                 (unsigned)address->port);
    else
        snprintf(text, WEFT_NET_ADDRESS_TEXT, "%s", ip);
    return text;
}

int weft_net_hostport_split(const char *text, char *host, uint16_t *port)
{
    const char *colon = strrchr(text, ':');
    size_t length = colon ? (size_t)(colon - text) : 0;
    const char *from = text;
    if (length >= 2 && text[0] == '[' && text[length - 1] == ']') {
        from++;
        length -= 2;
    } else if (colon && memchr(text, ':', length)) {
        length = 0; /* an IPv6 address without brackets: where it ends is anyone's guess */
    }
    char *end = NULL;
    unsigned long number = colon && colon[1] >= '0' && colon[1] <= '9' ? strtoul(colon + 1, &end, 10) : 0;
    if (length == 0 || length >= WEFT_NET_HOSTPORT_MAX || number == 0 || number > 65535 || *end)
        return weft_fail(WEFT_INVALID, "address of rank 0 is '%s': expected host:port or [IPv6]:port", text);
    memcpy(host, from, length);
    host[length] = '\0';
    *port = (uint16_t)number;
    return WEFT_OK;
}

int weft_net_address_parse(const char *text, struct weft_net_address *address)
{
    char host[WEFT_NET_HOSTPORT_MAX];
    struct weft_net_address read;
    memset(&read, 0, sizeof read);
    int status = weft_net_hostport_split(text, host, &read.port);
    if (status != WEFT_OK)
        return status;
    if (inet_pton(AF_INET, host, read.ip) == 1)
        read.family = 4;
    else if (inet_pton(AF_INET6, host, read.ip) == 1)
        read.family = 6;
    else
        return weft_fail(WEFT_INVALID, "address '%s': expected a numeric one", text);
    *address = read;
    return WEFT_OK;
}

int weft_net_hostport_is_loopback(const char *text)
{
    char host[WEFT_NET_HOSTPORT_MAX];
    uint16_t port;
    struct weft_net_address numeric;
    if (weft_net_hostport_split(text, host, &port) != WEFT_OK)
        return 0;
    if (strcmp(host, "localhost") == 0)
        return 1;
    return weft_net_address_parse(text, &numeric) == WEFT_OK && weft_net_address_is_loopback(&numeric);
}

static void add(struct weft_net_addresses *list, const struct weft_net_address *address)
{
    for (int i = 0; i < list->count; i++) {
        if (weft_net_address_same(&list->at[i], address))
            return;
    }
    if (list->count < WEFT_NET_ADDRESSES_MAX)
        list->at[list->count++] = *address;
}

int weft_net_address_from(const struct sockaddr *from, struct weft_net_address *address)
{
    memset(address, 0, sizeof *address);
    if (from->sa_family == AF_INET) {
        const struct sockaddr_in *in = (const struct sockaddr_in *)(const void *)from;
        address->family = 4;
        address->port = ntohs(in->sin_port);
        memcpy(address->ip, &in->sin_addr, 4);
    } else if (from->sa_family == AF_INET6) {
        const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)(const void *)from;
        int is_mapped = IN6_IS_ADDR_V4MAPPED(&in6->sin6_addr);
        address->family = is_mapped ? 4 : 6;
        address->port = ntohs(in6->sin6_port);
        memcpy(address->ip, in6->sin6_addr.s6_addr + (is_mapped ? 12 : 0), is_mapped ? 4 : 16);
    }
    return address->family;
}

int weft_net_hostport_resolve(const char *text, struct weft_net_addresses *addresses)
{
    char host[WEFT_NET_HOSTPORT_MAX];
    uint16_t port;
    int status = weft_net_hostport_split(text, host, &port);
    if (status != WEFT_OK)
        return status;
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    int error = getaddrinfo(host, NULL, &hints, &found);
    if (error)
        return weft_fail(WEFT_RANKS_ABSENT, "cannot resolve host '%s': %s", host,
                         error == EAI_SYSTEM ? weft_errno_text(errno) : gai_strerror(error));
    addresses->count = 0;
    for (struct addrinfo *each = found; each; each = each->ai_next) {
        struct weft_net_address address;
        if (!weft_net_address_from(each->ai_addr, &address))
            continue;
        address.port = port;
        add(addresses, &address);
    }
    freeaddrinfo(found);
    return addresses->count ? WEFT_OK : weft_fail(WEFT_RANKS_ABSENT, "host '%s' has no IP address", host);
}

void weft_net_interfaces(struct weft_net_addresses *addresses)
{
    struct ifaddrs *list = NULL;
    addresses->count = 0;
    if (getifaddrs(&list) != 0)
        list = NULL;
    for (int loopback = 1; loopback >= 0; loopback--) {
        for (struct ifaddrs *each = list; each; each = each->ifa_next) {
            struct weft_net_address address;
            if (!each->ifa_addr || !(each->ifa_flags & IFF_UP) ||
                !weft_net_address_from(each->ifa_addr, &address) || is_link_local(&address))
                continue;
            address.port = 0;
            if (weft_net_address_is_loopback(&address) == loopback)
                add(addresses, &address);
        }
    }
    if (list)
        freeifaddrs(list);
    if (addresses->count == 0) {
        static const struct weft_net_address loopback4 = {.family = 4, .ip = {127, 0, 0, 1}};
        add(addresses, &loopback4);
    }
}

uint64_t weft_net_host_identity(void)
{
    char boot_id[64];
    struct stat space;
    ssize_t size = weft_file_read("/proc/sys/kernel/random/boot_id", boot_id, sizeof boot_id);
    if (size <= 0 || stat("/proc/self/ns/net", &space) != 0)
        return 0;
    uint64_t hash = weft_hash_bytes(WEFT_HASH_START, boot_id, (size_t)size);
    hash = weft_hash_bytes(hash, &space.st_ino, sizeof space.st_ino);
    return hash ? hash : 1;
}

uint64_t weft_net_random(void)
{
    uint64_t value = 0;
    if (getrandom(&value, sizeof value, GRND_NONBLOCK) != sizeof value || value == 0)
        value = weft_hash_bytes((uint64_t)weft_clock_ns(), &(int){getpid()}, sizeof(int)) | 1;
    return value;
}
