/* SPDX-License-Identifier: Apache-2.0 */
/* Cutting the connection to one peer.
 *
 * libfabric has no call that closes one connection of a reliable-datagram endpoint (removing the peer's
 * address does not, as tests showed), and closing the endpoint takes every other peer with it. Over TCP the
 * connection is a socket of this process, though, and shutdown() ends it: the kernel answers what still comes
 * with a reset, the provider finds the connection gone, gives back what it held for it and closes the socket.
 *
 * Which socket it is has to be known exactly. There are two: the one that this rank has made to the peer's
 * address, found by its remote end right after the first frame has left, and the one that the peer has made
 * to this rank's address, whose remote port the peer announces (SOCKET), as it finds it in the same way. Ports
 * are remembered, not descriptors: those the provider closes when it likes. When nothing was found, or more
 * than one (several ranks as threads of one process), the connection cannot be cut.
 *
 * The connection is over when no such socket exists any more, which implies that the provider has let go. Its
 * state says nothing: a peer that is still writing makes the kernel reset a socket that was shut down, which
 * is then closed as far as TCP goes and has no peer any more, but what it had received can be read all the
 * same, into memory of ours. So what was cut is known by its inode from then on, and the names of the others
 * are asked for in a way that does not mind their state (SO_PEERNAME). A provider that never closes a socket
 * makes recall_wait() go to its last resort.
 *
 * A connection that was replaced silently must not be mistaken for one that is over: so either a socket was
 * seen and cut, or the provider itself has reported that the peer cannot be reached, or no socket is left that
 * could be the replacement: none to the peer's address, and none at this rank's address that comes from the
 * peer's host and is not known to be another link's. That a send could not be started says nothing, as it may
 * be for want of memory.
 *
 * Requests. net may never look at a request to connect (ofi_private.h), and the side that has made it waits for ever,
 * refusing the other's meanwhile. Such a connection is known by that not a byte has come over it: it is disconnected,
 * for the provider to make another. A peer that only looks late loses nothing but the request.
 */
#include <dirent.h>
#include <errno.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>
#include "transport/ofi/ofi_private.h"

#define FDS_LOOKED_AT 65536 /* to count strangers; a limit may be as high as 2^30 */

union endpoint {
    struct sockaddr any;
    struct sockaddr_in in;
    struct sockaddr_in6 in6;
    struct sockaddr_storage storage;
};

/* The internet address in an ofi address; 0 when it has none. */
static int endpoint_of(const struct ofi_address *address, union endpoint *endpoint)
{
    memset(endpoint, 0, sizeof *endpoint);
    if (address->format != FI_SOCKADDR && address->format != FI_SOCKADDR_IN &&
        address->format != FI_SOCKADDR_IN6)
        return 0;
    if (address->name_size < sizeof endpoint->in || address->name_size > sizeof *endpoint)
        return 0;
    memcpy(endpoint, address->name, address->name_size);
    return endpoint->any.sa_family == AF_INET ||
           (endpoint->any.sa_family == AF_INET6 && address->name_size >= sizeof endpoint->in6);
}

static uint16_t port_of(const union endpoint *endpoint)
{
    return ntohs(endpoint->any.sa_family == AF_INET ? endpoint->in.sin_port : endpoint->in6.sin6_port);
}

static int same_host(const union endpoint *a, const union endpoint *b)
{
    if (a->any.sa_family != b->any.sa_family)
        return 0;
    return a->any.sa_family == AF_INET ? a->in.sin_addr.s_addr == b->in.sin_addr.s_addr
                                       : memcmp(&a->in6.sin6_addr, &b->in6.sin6_addr, 16) == 0;
}

/* The addresses of a TCP socket, whatever its state. */
static int ends_of(int fd, union endpoint *local, union endpoint *remote)
{
    int type = 0;
    socklen_t size = sizeof type, local_size = sizeof *local;
    memset(remote, 0, sizeof *remote);
    if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) || type != SOCK_STREAM ||
        getsockname(fd, &local->any, &local_size) ||
        (local->any.sa_family != AF_INET && local->any.sa_family != AF_INET6))
        return 0;
    /* It refuses to write less than what it is given room for. */
    socklen_t remote_size = local->any.sa_family == AF_INET ? sizeof remote->in : sizeof remote->in6;
    return getsockopt(fd, SOL_SOCKET, SO_PEERNAME, remote, &remote_size) == 0;
}

static int state_of(int fd)
{
    struct tcp_info info;
    socklen_t size = sizeof info;
    return getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) == 0 ? info.tcpi_state : TCP_CLOSE;
}

/* Whether nothing has ever come over a connection that stands. The kernel's struct tcp_info: a C library may know less of
 * it, or more. */
static int is_unanswered(int fd)
{
    enum { RECEIVED = 128 }; /* tcpi_bytes_received; tcpi_state is the first byte */
    uint8_t info[RECEIVED + sizeof(uint64_t)];
    uint64_t received;
    socklen_t size = sizeof info;
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, info, &size) != 0 || size != sizeof info)
        return 0;
    memcpy(&received, info + RECEIVED, sizeof received);
    return info[0] == TCP_ESTABLISHED && !received;
}

/* Whether bytes wait to be read; also when that cannot be known. */
static int has_unread(int fd)
{
    uint32_t memory[SK_MEMINFO_VARS];
    socklen_t size = sizeof memory;
    return getsockopt(fd, SOL_SOCKET, SO_MEMINFO, memory, &size) != 0 || memory[SK_MEMINFO_RMEM_ALLOC] > 0;
}

struct search {
    struct weft_link *link;
    union endpoint own, peer; /* addresses of the two instances */
    int cut;                  /* shut them down */
    int requests;             /* only end what the peer has never answered */
    int made, found;          /* connections to the peer's address; sockets of the link */
    int standing;             /* of these, how many neither end has shut */
    int strange;              /* sockets with bytes to come that may be the link's, for all that is known */
    uint16_t port_found;      /* local, of the last that was made */
};

static int was_cut(const struct weft_link *link, ino_t inode)
{
    for (uint32_t i = 0; i < link->cut_count; i++) {
        if (link->cut[i] == inode)
            return 1;
    }
    return 0;
}

/* Whether the peer of another link has made the connection that comes from this port. */
static int is_others(const struct weft_link *link, uint16_t port)
{
    const struct weft_transport *transport = link->transport;
    for (uint32_t i = 0; i < transport->links_count; i++) {
        const struct weft_link *other = transport->links[i];
        if (other != link && other->peer_port == port && other->state == OFI_LINK_UP)
            return 1;
    }
    return 0;
}

/* A socket between the two hosts: whether it is the link's. Counts those of which that is not known. */
static int is_links(struct search *search, int fd, const union endpoint *local, const union endpoint *remote)
{
    const struct weft_link *link = search->link;
    int state = state_of(fd), connected = state != TCP_CLOSE && state != TCP_SYN_SENT;
    int made = port_of(remote) == port_of(&search->peer);
    int taken = port_of(local) == port_of(&search->own);
    if (made && connected) {
        search->made++;
        search->port_found = port_of(local);
    }
    if ((made && link->own_port && port_of(local) == link->own_port) ||
        (taken && link->peer_port && port_of(remote) == link->peer_port))
        return 1;
    if (made || (taken && !is_others(link, port_of(remote))))
        search->strange += connected || has_unread(fd);
    return 0;
}

/* 0: no socket. Answers 0 when that cannot be known. By its name, and not by fstat() and the like: it may be anybody's,
 * who may close it now. */
static int inode_of(DIR *folder, const char *name, ino_t *inode)
{
    static const char prefix[] = "socket:[";
    char target[40];
    ssize_t size = readlinkat(dirfd(folder), name, target, sizeof target - 1);
    *inode = 0;
    if (size < 0)
        return errno == ENOENT;
    if (size < (ssize_t)sizeof prefix || memcmp(target, prefix, sizeof prefix - 1) != 0)
        return 1;
    target[size] = '\0';
    *inode = (ino_t)strtoull(target + sizeof prefix - 1, NULL, 10);
    return 1;
}

/* Disconnecting, not shutting down: the peer, when it looks, finds an error, and nothing that it could accept. */
static void request_drop(const struct search *search, int fd)
{
    union endpoint local, remote;
    struct sockaddr nowhere = {.sa_family = AF_UNSPEC};
    if (ends_of(fd, &local, &remote) && same_host(&remote, &search->peer) &&
        port_of(&remote) == port_of(&search->peer) && is_unanswered(fd))
        connect(fd, &nowhere, sizeof nowhere);
}

static void look_at(struct search *search, int fd, ino_t inode)
{
    struct weft_link *link = search->link;
    union endpoint local, remote;
    if (search->requests) {
        request_drop(search, fd);
        return;
    }
    int cut = was_cut(link, inode);
    if (!cut && (!ends_of(fd, &local, &remote) || !same_host(&remote, &search->peer) ||
                 !is_links(search, fd, &local, &remote)))
        return;
    search->found++;
    search->standing += state_of(fd) == TCP_ESTABLISHED;
    if (!search->cut)
        return;
    shutdown(fd, SHUT_RDWR);
    if (!cut && link->cut_count < sizeof link->cut / sizeof link->cut[0])
        link->cut[link->cut_count++] = inode;
}

/* Looks at every descriptor of this process. 0 when that cannot be. */
static int search_sockets(struct weft_link *link, struct search *search)
{
    search->link = link;
    if (!endpoint_of(&link->address, &search->peer) || !endpoint_of(&link->transport->address, &search->own))
        return 0;
    DIR *folder = opendir("/proc/self/fd");
    if (!folder)
        return 0;
    struct dirent *entry;
    int is_known = 1;
    while (is_known && (entry = readdir(folder)) != NULL) {
        ino_t inode = 0;
        if (entry->d_name[0] != '.')
            is_known = inode_of(folder, entry->d_name, &inode);
        if (inode)
            look_at(search, (int)strtol(entry->d_name, NULL, 10), inode);
    }
    closedir(folder);
    return is_known;
}

unsigned ofi_strangers_connected(const struct weft_transport *transport)
{
    union endpoint own, local, remote;
    struct rlimit limit;
    unsigned taken = 0, links = 0;
    if (!endpoint_of(&transport->address, &own) || getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return 0;
    int end = limit.rlim_cur < FDS_LOOKED_AT ? (int)limit.rlim_cur : FDS_LOOKED_AT;
    for (int fd = 0; fd < end; fd++) /* listing a folder would take a descriptor */
        taken += ends_of(fd, &local, &remote) && port_of(&local) == port_of(&own);
    for (uint32_t i = 0; i < transport->links_count; i++)
        links += transport->links[i]->state == OFI_LINK_UP;
    return taken > links ? taken - links : 0;
}

void ofi_socket_note(struct weft_link *link)
{
    struct search search = {.cut = 0};
    if (!search_sockets(link, &search))
        return;
    link->by_socket = search.made || search.strange;
    link->own_port = search.made == 1 ? search.port_found : 0; /* an earlier one has been replaced */
}

void ofi_requests_drop(struct weft_link *link)
{
    struct search search = {.requests = 1};
    search_sockets(link, &search);
}

int ofi_connection_ended(struct weft_link *link, int surely)
{
    struct search search = {.cut = 0};
    int known = link->own_port || link->peer_port;
    return (known || (surely && link->by_socket)) && search_sockets(link, &search) && !search.standing &&
           !(surely && search.strange);
}

void ofi_sever_begin(struct weft_link *link, const char *why)
{
    ofi_link_fail(link, WEFT_PEER_FAILED, "%s", why);
    struct search search = {.cut = 1};
    int looked = (link->own_port || link->peer_port || link->by_socket) && search_sockets(link, &search);
    if (link->lost || (looked && (search.found || !search.strange)))
        link->sever = OFI_SEVER_SHUT;
    else
        link->sever = OFI_SEVER_CANNOT;
}

int ofi_sever_done(struct weft_link *link)
{
    struct search search = {.cut = 1};
    if (!link->own_port && !link->peer_port && !link->cut_count)
        return 1;
    return search_sockets(link, &search) && !search.found;
}
