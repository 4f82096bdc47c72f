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

int weft_net_address_is_link_local6(const struct weft_net_address *address)
{
    return address->family == 6 && address->ip[0] == 0xfe && (address->ip[1] & 0xc0) == 0x80;
}

static int is_link_local(const struct weft_net_address *address)
{
    if (address->family == 4)
        return address->ip[0] == 169 && address->ip[1] == 254;
    return weft_net_address_is_link_local6(address);
}

int weft_net_address_same(const struct weft_net_address *a, const struct weft_net_address *b)
{
    return a->family == b->family && a->port == b->port && a->scope == b->scope &&
           memcmp(a->ip, b->ip, sizeof a->ip) == 0;
}

const char *weft_net_address_text(const struct weft_net_address *address, int with_port,
                                  char text[WEFT_NET_ADDRESS_TEXT])
{
    char ip[INET6_ADDRSTRLEN + IF_NAMESIZE + 1] = "*", name[IF_NAMESIZE];
    if (address->family != 0)
        inet_ntop(address->family == 4 ? AF_INET : AF_INET6, address->ip, ip, sizeof ip);
    size_t used = strlen(ip);
    if (address->scope && if_indextoname(address->scope, name))
        snprintf(ip + used, sizeof ip - used, "%%%s", name);
    else if (address->scope) /* an interface that is no more */
        snprintf(ip + used, sizeof ip - used, "%%%u", (unsigned)address->scope);
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

/* An interface of this host by name, or else by number. 0: there is none. */
static uint32_t scope_read(const char *text)
{
    char name[IF_NAMESIZE];
    uint32_t scope = if_nametoindex(text);
    if (scope || *text < '0' || *text > '9')
        return scope;
    char *end;
    errno = 0;
    unsigned long number = strtoul(text, &end, 10);
    return errno == 0 && !*end && number <= UINT32_MAX && if_indextoname((unsigned)number, name)
               ? (uint32_t)number
               : 0;
}

/* The number in front of a scope, which *scope is left at ("eth0"; NULL: none). Whether there is one. */
static int ip_read(const char *text, struct weft_net_address *address, const char **scope)
{
    char ip[INET6_ADDRSTRLEN];
    const char *percent = strchr(text, '%');
    size_t length = percent ? (size_t)(percent - text) : strlen(text);
    memset(address, 0, sizeof *address);
    if (length >= sizeof ip)
        return 0;
    memcpy(ip, text, length);
    ip[length] = '\0';
    *scope = percent ? percent + 1 : NULL;
    if (inet_pton(AF_INET, ip, address->ip) == 1)
        address->family = 4;
    else if (inet_pton(AF_INET6, ip, address->ip) == 1)
        address->family = 6;
    return address->family;
}

int weft_net_ip_parse(const char *text, struct weft_net_address *address)
{
    struct weft_net_address read;
    const char *scope;
    if (!ip_read(text, &read, &scope) || (scope && !weft_net_address_is_link_local6(&read)))
        return weft_fail(WEFT_INVALID, "address '%s': expected a numeric one", text);
    read.scope = scope ? scope_read(scope) : 0;
    if (scope && !read.scope)
        return weft_fail(WEFT_INVALID, "address '%s': this host has no interface '%s'", text, scope);
    *address = read;
    return WEFT_OK;
}

int weft_net_address_parse(const char *text, struct weft_net_address *address)
{
    char host[WEFT_NET_HOSTPORT_MAX];
    struct weft_net_address read;
    uint16_t port;
    int status = weft_net_hostport_split(text, host, &port);
    if (status == WEFT_OK)
        status = weft_net_ip_parse(host, &read);
    if (status != WEFT_OK)
        return status;
    *address = read;
    address->port = port;
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
        address->scope = weft_net_address_is_link_local6(address) ? in6->sin6_scope_id : 0;
    }
    return address->family;
}

static int is_here(const struct ifaddrs *each, struct weft_net_address *address)
{
    return each->ifa_addr && each->ifa_flags & IFF_UP && weft_net_address_from(each->ifa_addr, address);
}

/* Those that have a link-local address, or all there are, up or down. */
static int list_scopes(int link_local, uint32_t scopes[WEFT_NET_SCOPES_MAX])
{
    struct ifaddrs *list = NULL;
    int count = 0;
    if (getifaddrs(&list) != 0)
        return 0;
    for (struct ifaddrs *each = list; each && count < WEFT_NET_SCOPES_MAX; each = each->ifa_next) {
        struct weft_net_address address;
        uint32_t scope = !link_local               ? if_nametoindex(each->ifa_name)
                         : is_here(each, &address) ? address.scope
                                                   : 0;
        for (int i = 0; i < count && scope; i++)
            scope = scopes[i] == scope ? 0 : scope;
        if (scope)
            scopes[count++] = scope;
    }
    freeifaddrs(list);
    return count;
}

int weft_net_scopes(uint32_t scopes[WEFT_NET_SCOPES_MAX])
{
    return list_scopes(1, scopes);
}

/* "one, two", of interfaces; count 0: none. */
static void list_names(const uint32_t *scopes, int count, char *text, size_t capacity)
{
    size_t used = 0;
    snprintf(text, capacity, "none");
    for (int i = 0; i < count && used < capacity; i++) {
        char name[IF_NAMESIZE];
        if (if_indextoname(scopes[i], name))
            used += (size_t)snprintf(text + used, capacity - used, "%s%s", used ? ", " : "", name);
    }
}

static int refuse_unscoped(const char *text, const char *host)
{
    uint32_t scopes[WEFT_NET_SCOPES_MAX];
    char names[256];
    int count = weft_net_scopes(scopes);
    list_names(scopes, count, names, sizeof names);
    return weft_fail(
        WEFT_INVALID,
        "address of rank 0 is '%s': a link-local address needs this host's interface to its link "
        "behind it: expected '%s%%%.*s' (interfaces with such an address here: %s)",
        text, host, count ? (int)strcspn(names, ",") : 4, count ? names : "eth0", names);
}

int weft_net_hostport_read(const char *text, struct weft_net_address *address)
{
    char host[WEFT_NET_HOSTPORT_MAX], names[256];
    const char *scope;
    uint32_t scopes[WEFT_NET_SCOPES_MAX];
    uint16_t port;
    struct weft_net_address read;
    int status = weft_net_hostport_split(text, host, &port);
    if (status != WEFT_OK)
        return status;
    if (!ip_read(host, &read, &scope))
        return 0;
    if (scope && !weft_net_address_is_link_local6(&read))
        return weft_fail(WEFT_INVALID,
                         "address of rank 0 is '%s': expected no '%%%s' behind an address that is not "
                         "link-local (fe80::/10)",
                         text, scope);
    read.scope = scope ? scope_read(scope) : 0;
    if (scope && !read.scope) {
        list_names(scopes, list_scopes(0, scopes), names, sizeof names);
        return weft_fail(WEFT_INVALID,
                         "address of rank 0 is '%s': this host has no interface '%s' (it has: %s)", text,
                         scope, names);
    }
    if (weft_net_address_is_link_local6(&read) && !read.scope)
        return refuse_unscoped(text, host);
    *address = read;
    address->port = port;
    return 1;
}

void weft_net_addresses_spread(struct weft_net_addresses *addresses)
{
    struct weft_net_addresses from = *addresses;
    uint32_t scopes[WEFT_NET_SCOPES_MAX];
    int count = -1; /* not asked for yet */
    addresses->count = 0;
    for (int i = 0; i < from.count; i++) {
        struct weft_net_address *address = &from.at[i];
        if (address->scope || !weft_net_address_is_link_local6(address)) {
            add(addresses, address);
            continue;
        }
        count = count < 0 ? weft_net_scopes(scopes) : count;
        for (int s = 0; s < count; s++) {
            address->scope = scopes[s];
            add(addresses, address);
        }
    }
}

static int resolve_name(const char *host, uint16_t port, struct weft_net_addresses *addresses)
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    int error = getaddrinfo(host, NULL, &hints, &found);
    if (error)
        return weft_fail(WEFT_RANKS_ABSENT, "cannot resolve host '%s': %s", host,
                         error == EAI_SYSTEM ? weft_errno_text(errno) : gai_strerror(error));
    for (struct addrinfo *each = found; each; each = each->ai_next) {
        struct weft_net_address address;
        if (!weft_net_address_from(each->ai_addr, &address))
            continue;
        address.port = port;
        add(addresses, &address);
    }
    freeaddrinfo(found);
    weft_net_addresses_spread(addresses);
    return addresses->count ? WEFT_OK : weft_fail(WEFT_RANKS_ABSENT, "host '%s' has no IP address", host);
}

int weft_net_hostport_resolve(const char *text, struct weft_net_addresses *addresses)
{
    char host[WEFT_NET_HOSTPORT_MAX];
    uint16_t port;
    addresses->count = 0;
    int status = weft_net_hostport_read(text, &addresses->at[0]);
    if (status < 0)
        return status;
    if (status == 1) {
        addresses->count = 1;
        return WEFT_OK;
    }
    status = weft_net_hostport_split(text, host, &port);
    return status == WEFT_OK ? resolve_name(host, port, addresses) : status;
}

uint32_t weft_net_scope_of(const struct weft_net_address *address)
{
    struct ifaddrs *list = NULL;
    uint32_t scope = 0;
    if (getifaddrs(&list) != 0)
        return 0;
    for (struct ifaddrs *each = list; each && !scope; each = each->ifa_next) {
        struct weft_net_address here;
        if (is_here(each, &here) && here.family == address->family && memcmp(here.ip, address->ip, 16) == 0)
            scope = here.scope;
    }
    freeifaddrs(list);
    return scope;
}

enum interface_kind { LOOPBACK, GLOBAL, LINK_LOCAL6, OTHER };

static enum interface_kind kind_of(const struct weft_net_address *address)
{
    if (weft_net_address_is_loopback(address))
        return LOOPBACK;
    if (weft_net_address_is_link_local6(address))
        return LINK_LOCAL6;
    return is_link_local(address) ? OTHER : GLOBAL;
}

static void add_kind(struct weft_net_addresses *addresses, const struct ifaddrs *list,
                     enum interface_kind kind)
{
    for (const struct ifaddrs *each = list; each; each = each->ifa_next) {
        struct weft_net_address address;
        if (!is_here(each, &address) || kind_of(&address) != kind)
            continue;
        address.port = 0;
        address.scope = 0;
        add(addresses, &address);
    }
}

void weft_net_interfaces(struct weft_net_addresses *addresses)
{
    struct ifaddrs *list = NULL;
    addresses->count = 0;
    if (getifaddrs(&list) != 0)
        list = NULL;
    add_kind(addresses, list, LOOPBACK);
    int loopbacks = addresses->count;
    add_kind(addresses, list, GLOBAL);
    if (addresses->count == loopbacks)
        add_kind(addresses, list, LINK_LOCAL6);
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
