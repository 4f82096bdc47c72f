/* SPDX-License-Identifier: Apache-2.0 */
#include "base/net/socket.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"

#define KEEPALIVE_IDLE_S      5
#define KEEPALIVE_INTERVAL_S  2
#define KEEPALIVE_PROBES      5
#define UNACKNOWLEDGED_MAX_MS 30000

static socklen_t to_sockaddr(const struct weft_net_address *address, struct sockaddr_storage *storage)
{
    memset(storage, 0, sizeof *storage);
    if (address->family == 4) {
        struct sockaddr_in *in = (struct sockaddr_in *)storage;
        in->sin_family = AF_INET;
        in->sin_port = htons(address->port);
        memcpy(&in->sin_addr, address->ip, 4);
        return sizeof *in;
    }
    struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)storage;
    in6->sin6_family = AF_INET6;
    in6->sin6_port = htons(address->port);
    memcpy(&in6->sin6_addr, address->ip, 16);
    in6->sin6_scope_id = address->scope;
    return sizeof *in6;
}

static int end_of(int fd, int is_peer, struct weft_net_address *address)
{
    struct sockaddr_storage storage;
    socklen_t size = sizeof storage;
    memset(&storage, 0, sizeof storage);
    int failed = is_peer ? getpeername(fd, (struct sockaddr *)&storage, &size)
                         : getsockname(fd, (struct sockaddr *)&storage, &size);
    if (failed)
        return weft_fail_errno("%s", is_peer ? "getpeername" : "getsockname");
    if (!weft_net_address_from((struct sockaddr *)&storage, address))
        return weft_fail(WEFT_UNSUPPORTED, "socket of address family %d, expected IPv4 or IPv6",
                         (int)storage.ss_family);
    return WEFT_OK;
}

int weft_net_local_address(int fd, struct weft_net_address *address)
{
    return end_of(fd, 0, address);
}

int weft_net_peer_address(int fd, struct weft_net_address *address)
{
    return end_of(fd, 1, address);
}

/* None of them is worth failing for. */
void weft_net_tune(int fd)
{
    int on = 1, idle = KEEPALIVE_IDLE_S, interval = KEEPALIVE_INTERVAL_S, probes = KEEPALIVE_PROBES;
    unsigned unacknowledged = UNACKNOWLEDGED_MAX_MS;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof interval);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &unacknowledged, sizeof unacknowledged);
}

static int bind_and_listen(int family, const struct weft_net_address *address, int *result)
{
    struct sockaddr_storage storage;
    socklen_t size = to_sockaddr(address, &storage);
    int fd = weft_fd_add(socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (fd < 0)
        return weft_fail_errno("cannot make a socket");
    int on = 1, off = 0;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (family == AF_INET6)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    if (bind(fd, (struct sockaddr *)&storage, size) != 0 || listen(fd, WEFT_NET_BACKLOG) != 0) {
        char text[WEFT_NET_ADDRESS_TEXT];
        int saved = errno;
        weft_fd_close(fd);
        errno = saved;
        weft_fail_errno("cannot listen on %s", weft_net_address_text(address, 1, text));
        errno = saved;
        return WEFT_SYSTEM;
    }
    *result = fd;
    return WEFT_OK;
}

int weft_net_listen(const struct weft_net_address *address, int *fd, uint16_t *port)
{
    int status, made;
    if (address->family != 0) {
        status = bind_and_listen(address->family == 4 ? AF_INET : AF_INET6, address, &made);
    } else {
        struct weft_net_address any = {.family = 6, .port = address->port};
        status = bind_and_listen(AF_INET6, &any, &made);
        if (status != WEFT_OK && errno != EADDRINUSE) { /* IPv6 may be switched off */
            any.family = 4;
            status = bind_and_listen(AF_INET, &any, &made);
        }
    }
    if (status != WEFT_OK)
        return status;
    struct weft_net_address bound;
    status = weft_net_local_address(made, &bound);
    if (status != WEFT_OK) {
        weft_fd_close(made);
        return status;
    }
    *fd = made;
    *port = bound.port;
    return WEFT_OK;
}

/* Connections lost before they were accepted, in a row. */
#define LOST_MAX 64

int weft_net_accept(int listener, int *accepted)
{
    for (int lost = 0; lost < LOST_MAX; lost++) {
        int fd = weft_fd_is_own(listener)
                     ? weft_fd_add(accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC))
                     : -1;
        if (fd >= 0) {
            *accepted = fd;
            return WEFT_OK;
        }
        switch (errno) {
        case EAGAIN:
            *accepted = -1;
            return WEFT_OK;
        case EMFILE:
        case ENFILE:
            return weft_fail_errno("cannot accept another rank (one descriptor each)");
        case EINTR:
        case ECONNABORTED: /* these and the rest concern the connection that was lost, not the listener */
        case EPROTO:
        case ENETDOWN:
        case ENOPROTOOPT:
        case EHOSTDOWN:
        case ENONET:
        case EHOSTUNREACH:
        case ENETUNREACH:
        case ETIMEDOUT:
        case EPERM:
            break;
        default:
            return weft_fail_errno("cannot accept");
        }
    }
    *accepted = -1; /* the caller looks at its clock, and comes again */
    return WEFT_OK;
}

int weft_net_connect_start(const struct weft_net_address *address, int *result)
{
    struct sockaddr_storage storage;
    socklen_t size = to_sockaddr(address, &storage);
    char text[WEFT_NET_ADDRESS_TEXT];
    if (weft_net_address_is_link_local6(address) && !address->scope)
        return weft_fail(WEFT_PEER_FAILED,
                         "connect to %s: a link-local address, and no interface here is known "
                         "to lead to its link",
                         weft_net_address_text(address, 1, text));
    int fd = weft_fd_add(socket(storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (fd < 0)
        return weft_fail_errno("cannot make a socket");
    weft_net_tune(fd);
    if (connect(fd, (struct sockaddr *)&storage, size) != 0 && errno != EINPROGRESS && errno != EINTR) {
        int saved = errno;
        weft_fd_close(fd);
        errno = saved;
        weft_fail_errno("connect to %s", weft_net_address_text(address, 1, text));
        return WEFT_PEER_FAILED;
    }
    *result = fd;
    return WEFT_OK;
}

int weft_net_connect_finish(int fd, const struct weft_net_address *address)
{
    char text[WEFT_NET_ADDRESS_TEXT];
    int error = 0;
    socklen_t size = sizeof error;
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0)
        error = errno;
    /* TCP on one host can connect a socket to itself when the port it was given is the one it asks for. */
    struct weft_net_address local, peer;
    if (!error && weft_net_local_address(fd, &local) == WEFT_OK &&
        weft_net_peer_address(fd, &peer) == WEFT_OK && weft_net_address_same(&local, &peer))
        error = ECONNREFUSED;
    if (!error)
        return WEFT_OK;
    errno = error;
    weft_fail_errno("connect to %s", weft_net_address_text(address, 1, text));
    return WEFT_PEER_FAILED;
}

int weft_net_send_bytes(int fd, const void *bytes, size_t size)
{
    ssize_t sent;
    do
        sent = weft_fd_send(fd, bytes, size, MSG_DONTWAIT | MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    return sent == (ssize_t)size;
}

int weft_net_poll(struct pollfd *fds, unsigned count, int64_t deadline_ns, int cap_ms)
{
    int ready = poll(fds, count, weft_clock_left_ms(deadline_ns, cap_ms));
    if (ready > 0)
        return ready;
    for (unsigned i = 0; i < count; i++)
        fds[i].revents = 0;
    return 0;
}

int weft_net_longer_pause(int pause_ms)
{
    int longer_ms = pause_ms * 3 / 2 + 1;
    return longer_ms > WEFT_NET_PAUSE_LONGEST_MS ? WEFT_NET_PAUSE_LONGEST_MS : longer_ms;
}

void weft_net_pause(int *pause_ms, int64_t deadline_ns)
{
    struct pollfd none = {.fd = -1};
    weft_net_poll(&none, 1, deadline_ns, *pause_ms);
    *pause_ms = weft_net_longer_pause(*pause_ms);
}
