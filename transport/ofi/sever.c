/* Cutting the connection to one peer.
 *
 * libfabric has no call that closes one connection of a reliable-datagram endpoint (removing the peer's
 * address does not, as tests showed), and closing the endpoint takes every other peer with it. Over TCP the
 * connection is a socket of this process, though, and shutdown() ends it: the kernel answers what still comes
 * with a reset, the provider finds the connection gone, gives back what it held for it and closes the socket.
 *
 * Which socket it is has to be known exactly. There are two: the one that this rank has made to the peer's
 * address, found by its remote end right after the first frame has left, and the one that the peer has made
 * to this rank's address, whose remote port the peer tells (SOCKET), as it finds it in the same way. Ports
 * are remembered, not descriptors: those the provider closes when it likes. When nothing was found, or more
 * than one (several ranks as threads of one process), the connection cannot be cut.
 *
 * The connection is over when no such socket exists any more, which implies that the provider has let go. A
 * connection that was replaced silently must not be mistaken for one that is over: so either a socket was
 * seen and cut, or the provider itself has reported that the peer cannot be reached.
 */
#include <dirent.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include "transport/ofi/ofi_private.h"

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

static int ends_of(int fd, union endpoint *local, union endpoint *remote)
{
    int type = 0;
    socklen_t size = sizeof type, local_size = sizeof *local, remote_size = sizeof *remote;
    return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_STREAM &&
           getpeername(fd, &remote->any, &remote_size) == 0 &&
           getsockname(fd, &local->any, &local_size) == 0 &&
           (remote->any.sa_family == AF_INET || remote->any.sa_family == AF_INET6);
}

struct search {
    union endpoint own, peer; /* addresses of the two instances */
    uint16_t own_port, peer_port;
    int cut;             /* shut them down */
    int made, found;     /* sockets to the peer's address; sockets of the link */
    int standing;        /* of these, how many neither end has shut */
    uint16_t port_found; /* local, of the last that was made */
};

static void look_at(struct search *search, int fd)
{
    union endpoint local, remote;
    if (!ends_of(fd, &local, &remote) || !same_host(&remote, &search->peer))
        return;
    int made = port_of(&remote) == port_of(&search->peer);
    if (made) {
        search->made++;
        search->port_found = port_of(&local);
    }
    int is_own = made && search->own_port && port_of(&local) == search->own_port;
    int is_theirs = search->peer_port && port_of(&remote) == search->peer_port &&
                    port_of(&local) == port_of(&search->own);
    if (!is_own && !is_theirs)
        return;
    search->found++;
    struct tcp_info info;
    socklen_t size = sizeof info;
    search->standing +=
        getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) == 0 && info.tcpi_state == TCP_ESTABLISHED;
    if (search->cut)
        shutdown(fd, SHUT_RDWR);
}

/* Looks at every descriptor of this process. 0 when that cannot be. */
static int search_sockets(const struct weft_link *link, struct search *search)
{
    if (!endpoint_of(&link->address, &search->peer) || !endpoint_of(&link->transport->address, &search->own))
        return 0;
    DIR *folder = opendir("/proc/self/fd");
    if (!folder)
        return 0;
    search->own_port = link->own_port;
    search->peer_port = link->peer_port;
    struct dirent *entry;
    while ((entry = readdir(folder)) != NULL) {
        if (entry->d_name[0] >= '0' && entry->d_name[0] <= '9')
            look_at(search, (int)strtol(entry->d_name, NULL, 10));
    }
    closedir(folder);
    return 1;
}

void ofi_socket_note(struct weft_link *link)
{
    struct search search = {.cut = 0};
    if (search_sockets(link, &search) && search.made == 1)
        link->own_port = search.port_found;
}

int ofi_connection_ended(const struct weft_link *link)
{
    struct search search = {.cut = 0};
    return (link->own_port || link->peer_port) && search_sockets(link, &search) && !search.standing;
}

void ofi_sever_begin(struct weft_link *link, const char *why)
{
    ofi_link_fail(link, WEFT_PEER_FAILED, "%s", why);
    struct search search = {.cut = 1};
    int known = link->own_port || link->peer_port;
    if (known && search_sockets(link, &search) && search.found)
        link->sever = OFI_SEVER_SHUT;
    else
        link->sever = link->lost ? OFI_SEVER_SHUT : OFI_SEVER_CANNOT;
}

int ofi_sever_done(struct weft_link *link)
{
    struct search search = {.cut = 1};
    if (!link->own_port && !link->peer_port)
        return 1;
    return search_sockets(link, &search) && !search.found;
}
