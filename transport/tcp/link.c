/* SPDX-License-Identifier: Apache-2.0 */
/* Links and their failure. A failed link stays in the table until the instance closes, without connection and memory: the caller
 * may still hold it. Connecting again makes another. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/net/socket.h"
#include "transport/tcp/tcp_private.h"

int tcp_address_check(const struct weft_transport *transport, const void *bytes, size_t size,
                      struct tcp_address *address)
{
    if (size != sizeof *address)
        return transport->fail(WEFT_PROTOCOL, "tcp: peer address of %zu bytes, expected %zu", size,
                               sizeof *address);
    memcpy(address, bytes, size);
    if (address->magic != TCP_MAGIC || (address->family != 4 && address->family != 6) || !address->port ||
        !address->instance)
        return transport->fail(WEFT_PROTOCOL, "tcp: malformed peer address");
    if (address->version_min > TCP_WIRE_VERSION || address->version_max < TCP_WIRE_VERSION)
        return transport->fail(WEFT_PROTOCOL, "tcp: peer speaks wire versions %u to %u, this side %u",
                               address->version_min, address->version_max, TCP_WIRE_VERSION);
    return WEFT_OK;
}

static int is_loopback(const struct tcp_address *address)
{
    struct weft_net_address ip = {.family = address->family};
    memcpy(ip.ip, address->ip, sizeof ip.ip);
    return weft_net_address_is_loopback(&ip);
}

int tcp_reachable(struct weft_transport *transport, const void *bytes, size_t size)
{
    struct tcp_address address;
    if (tcp_address_check(transport, bytes, size, &address) != WEFT_OK)
        return 0;
    if (address.host && address.host == transport->address.host)
        return 1;
    return !is_loopback(&address) && !is_loopback(&transport->address);
}

struct weft_link *tcp_link_find(struct weft_transport *transport, uint64_t instance)
{
    for (uint32_t i = transport->links_count; i-- > 0;) {
        struct weft_link *link = transport->links[i];
        if (link->address.instance == instance && link->state != TCP_LINK_FAILED)
            return link;
    }
    return NULL;
}

int tcp_link_new(struct weft_transport *transport, const struct tcp_address *address,
                 struct weft_link **result)
{
    if (transport->links_count == transport->links_capacity) {
        uint32_t capacity = transport->links_capacity ? 2 * transport->links_capacity : 16;
        struct weft_link **grown = realloc(transport->links, capacity * sizeof(*grown));
        if (!grown)
            return transport->fail(WEFT_NOMEM, "tcp: no memory for %u links", capacity);
        transport->links = grown;
        transport->links_capacity = capacity;
    }
    struct weft_link *link = calloc(1, sizeof *link);
    if (!link)
        return transport->fail(WEFT_NOMEM, "tcp: no memory for a link");
    link->transport = transport;
    link->address = *address;
    link->fd = -1;
    link->piece.start_done = sizeof link->piece.start;
    link->puts_end = &link->puts;
    link->deadline_ns = weft_clock_ns() + TCP_CONNECT_NS;
    for (uint32_t i = 0; i < transport->links_count; i++) {
        const struct weft_link *before = transport->links[i];
        if (before->address.instance != address->instance)
            continue;
        if (before->dial_number > link->dial_number)
            link->dial_number = before->dial_number;
        if (before->epoch > link->epoch)
            link->epoch = before->epoch;
    }
    transport->links[transport->links_count++] = link;
    tcp_connecting(transport, 1);
    *result = link;
    return WEFT_OK;
}

void tcp_link_free(struct weft_link *link)
{
    tcp_dial_drop(link);
    tcp_input_drop(link);
    tcp_output_drop(link);
    weft_fd_close(link->fd);
    weft_crypto_wipe(link, sizeof *link);
    free(link);
}

int tcp_link_watch(struct weft_link *link, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.ptr = link};
    if (link->watched == events)
        return WEFT_OK;
    if (weft_fd_epoll_ctl(link->transport->poll_fd, link->watched ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, link->fd,
                          &event) != 0)
        return weft_fail_errno("cannot watch a connection");
    link->watched = events;
    return WEFT_OK;
}

static void count_up(struct weft_transport *transport, int change)
{
    transport->links_up += (uint32_t)change;
    transport->only = NULL;
    for (uint32_t i = 0; transport->links_up == 1 && i < transport->links_count; i++) {
        if (transport->links[i]->state == TCP_LINK_UP)
            transport->only = transport->links[i];
    }
}

void tcp_link_up(struct weft_link *link, int fd)
{
    tcp_dial_leave(link);
    link->epoch++;
    link->fd = fd;
    link->watched = 0;
    link->state = TCP_LINK_UP;
    tcp_connecting(link->transport, -1);
    count_up(link->transport, 1);
    if (tcp_link_watch(link, EPOLLIN) != WEFT_OK)
        tcp_link_fail(link, WEFT_SYSTEM, "tcp: %s", weft_error_detail());
}

void tcp_link_fail(struct weft_link *link, int status, const char *format, ...)
{
    if (link->state == TCP_LINK_FAILED)
        return;
    struct weft_transport *transport = link->transport;
    int was_up = link->state == TCP_LINK_UP;
    va_list args;
    va_start(args, format);
    vsnprintf(link->why, sizeof link->why, format, args);
    va_end(args);
    weft_log(WEFT_LOG_INFO, "%s", link->why);
    link->state = TCP_LINK_FAILED;
    link->status = status;
    if (was_up)
        count_up(transport, -1);
    else
        tcp_connecting(transport, -1);
    tcp_dial_drop(link);
    tcp_input_drop(link);
    tcp_output_drop(link);
    if (link->fd >= 0) {
        weft_fd_unpoll(transport->poll_fd, link->fd);
        weft_fd_close(link->fd);
    }
    link->fd = -1;
    if (link->references > 0) {
        link->failed_due = 1;
        transport->failed_due++;
    }
}

int tcp_link_down(struct weft_link *link)
{
    return link->transport->fail(link->status, "%s", link->why);
}

/* Whether the other end of the connection is gone, which nobody has read yet. */
static int has_ended(struct weft_link *link)
{
    char byte;
    ssize_t got = weft_fd_recv(link->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return got == 0 || (got < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR);
}

int tcp_connect(struct weft_transport *transport, const void *bytes, size_t size, void *link_context,
                struct weft_link **result)
{
    struct tcp_address address;
    int status = tcp_address_check(transport, bytes, size, &address);
    if (status != WEFT_OK)
        return status;
    struct weft_link *link = tcp_link_find(transport, address.instance);
    if (link && link->state == TCP_LINK_UP && has_ended(link)) {
        tcp_link_fail(link, WEFT_PEER_FAILED, "tcp: the peer has ended the connection");
        link = NULL;
    }
    if (!link) {
        status = tcp_link_new(transport, &address, &link);
        if (status != WEFT_OK)
            return status;
        link->is_known = 1;
        tcp_dial(link);
    } else if (!link->is_known) {
        link->address = address;
        link->is_known = 1;
    }
    if (link->references++ == 0) {
        link->context = link_context;
        if (link->state == TCP_LINK_FAILED) { /* at once, before anybody could hear of it */
            link->failed_due = 1;
            transport->failed_due++;
        }
    }
    *result = link;
    return WEFT_OK;
}

void tcp_disconnect(struct weft_link *link)
{
    if (link->references == 0 || --link->references > 0)
        return;
    link->context = NULL;
    link->transport->failed_due -= link->failed_due;
    link->failed_due = 0;
}

int tcp_link_flags(struct weft_link *link, uint32_t *flags)
{
    if (link->state == TCP_LINK_FAILED)
        return tcp_link_down(link);
    if (link->state != TCP_LINK_UP)
        return WEFT_AGAIN;
    *flags = 0;
    return WEFT_OK;
}

const char *tcp_why(struct weft_link *link)
{
    return link->state == TCP_LINK_FAILED ? link->why : NULL;
}

int tcp_sent_by(struct weft_transport *transport, const void *sender, const void *bytes, size_t size)
{
    const struct weft_link *link = sender;
    struct tcp_address address;
    return link && tcp_address_check(transport, bytes, size, &address) == WEFT_OK &&
           address.instance == link->address.instance;
}
