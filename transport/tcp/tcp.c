/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/tcp/tcp.h"

#include <errno.h>
#include <linux/sockios.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/net/socket.h"
#include "transport/tcp/tcp_private.h"

/* Where peers reach this rank: the address that the bootstrap reaches it by, or loopback where all are on this host. */
static int address_make(struct weft_transport *transport, const char *text)
{
    struct tcp_address *own = &transport->address;
    struct weft_net_address address = {.family = 4, .ip = {127, 0, 0, 1}};
    if (text && *text) {
        int read = weft_net_ip_parse(text, &address);
        if (read != WEFT_OK)
            return transport->fail(read, "tcp: the local %s", weft_error_detail());
    }
    transport->scope = address.scope;
    int status = weft_net_listen(&address, &transport->listener, &address.port);
    if (status != WEFT_OK)
        return transport->fail(status, "tcp: %s", weft_error_detail());
    own->magic = TCP_MAGIC;
    own->version_min = own->version_max = TCP_WIRE_VERSION;
    own->family = (uint8_t)address.family;
    own->port = address.port;
    own->instance = weft_net_random();
    own->host = weft_net_host_identity();
    memcpy(own->ip, address.ip, sizeof own->ip);
    weft_crypto_random(&own->key, sizeof own->key);
    return WEFT_OK;
}

static int watch_own(struct weft_transport *transport)
{
    struct epoll_event knock = {.events = EPOLLIN, .data.ptr = &transport->accept};
    struct epoll_event tick = {.events = EPOLLIN, .data.ptr = &transport->timer_fd};
    transport->poll_fd = weft_fd_add(epoll_create1(EPOLL_CLOEXEC));
    transport->timer_fd = weft_fd_add(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC));
    if (transport->poll_fd < 0 || transport->timer_fd < 0 ||
        epoll_ctl(transport->poll_fd, EPOLL_CTL_ADD, weft_net_accept_fd(transport->accept), &knock) != 0 ||
        epoll_ctl(transport->poll_fd, EPOLL_CTL_ADD, transport->timer_fd, &tick) != 0)
        return transport->fail(WEFT_SYSTEM, "tcp: cannot watch descriptors: %s", weft_errno_text(errno));
    return WEFT_OK;
}

static void transport_free(struct weft_transport *transport)
{
    for (uint32_t i = 0; i < transport->links_count; i++)
        tcp_link_free(transport->links[i]);
    free(transport->links);
    tcp_dials_free(transport, 1);
    for (struct tcp_put *lists[2] = {transport->done, transport->free_puts}, **list = lists; list < lists + 2;
         list++) {
        while (*list) {
            struct tcp_put *put = *list;
            *list = put->next;
            free(put);
        }
    }
    tcp_rbufs_free(transport);
    weft_net_accept_close(transport->accept);
    weft_fd_close(transport->timer_fd);
    weft_fd_close(transport->poll_fd);
    weft_fd_close(transport->listener);
    free(transport->place);
    weft_crypto_wipe(transport, sizeof *transport);
    free(transport);
}

static int tcp_open(const struct weft_transport_params *params, struct weft_transport **result)
{
    struct weft_transport *transport = calloc(1, sizeof *transport);
    if (!transport)
        return weft_fail(WEFT_NOMEM, "tcp: no memory for an instance");
    transport->listener = transport->poll_fd = transport->timer_fd = -1;
    transport->fail = params->fail ? params->fail : weft_fail;
    transport->done_end = &transport->done;
    transport->place = aligned_alloc(64, TCP_PLACE_BYTES);
    int status =
        transport->place ? weft_crypto_init() : transport->fail(WEFT_NOMEM, "tcp: no memory to read to");
    if (status == WEFT_OK)
        status = address_make(transport, params->local_address);
    if (status == WEFT_OK)
        status = weft_net_accept_open("tcp", transport->listener, &transport->address.key, TCP_EXPECTED,
                                      &transport->strangers, &transport->accept);
    if (status == WEFT_OK)
        status = watch_own(transport);
    if (status != WEFT_OK) {
        transport_free(transport);
        return status;
    }
    *result = transport;
    return WEFT_OK;
}

/* Reads what the peer still writes, so that it can go on reading. Whether the connection is of use. */
static int drain(struct weft_link *link)
{
    ssize_t got = weft_fd_recv(link->fd, link->transport->place, TCP_PLACE_BYTES, MSG_DONTWAIT);
    return got > 0 || (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR));
}

/* Whether something of the link is still on its way to the peer's system. */
static int is_unsent(struct weft_link *link)
{
    int queued = 0;
    if (link->state != TCP_LINK_UP || link->is_mute)
        return 0;
    tcp_link_write(link);
    if (link->state != TCP_LINK_UP || !drain(link))
        return 0;
    return tcp_has_output(link) || (ioctl(link->fd, SIOCOUTQ, &queued) == 0 && queued > 0);
}

static void tcp_close(struct weft_transport *transport)
{
    int64_t until_ns = weft_clock_ns() + TCP_CLOSE_NS;
    struct pollfd none = {.fd = -1};
    transport->closing = 1;
    for (uint32_t i = 0; i < transport->links_count; i++) {
        if (transport->links[i]->state == TCP_LINK_UP)
            tcp_frame_append(transport->links[i], TCP_BYE, NULL, 0);
    }
    for (int left = 1; left && weft_clock_ns() < until_ns;) {
        left = 0;
        for (uint32_t i = 0; i < transport->links_count; i++)
            left |= is_unsent(transport->links[i]);
        if (left)
            poll(&none, 1, 1);
    }
    transport_free(transport);
}

static void tcp_caps(const struct weft_transport *transport, struct weft_transport_caps *caps)
{
    struct weft_transport_caps own = {.size = sizeof own,
                                      .flags = WEFT_CAP_PUT,
                                      .eager_bytes = TCP_EAGER_BYTES,
                                      .put_bytes = UINT64_C(1) << 40};
    (void)transport;
    size_t size = caps->size < sizeof own ? caps->size : sizeof own;
    own.size = size;
    memcpy(caps, &own, size);
}

static int tcp_address(struct weft_transport *transport, void *address, size_t *size)
{
    if (*size < sizeof transport->address)
        return transport->fail(WEFT_INVALID, "tcp: room for an address of %zu bytes, expected %zu", *size,
                               sizeof transport->address);
    memcpy(address, &transport->address, sizeof transport->address);
    *size = sizeof transport->address;
    return WEFT_OK;
}

const struct weft_transport_ops weft_tcp_ops = {
    .size = sizeof weft_tcp_ops,
    .abi = WEFT_TRANSPORT_ABI,
    .name = "tcp",
    .open = tcp_open,
    .close = tcp_close,
    .caps = tcp_caps,
    .address = tcp_address,
    .reachable = tcp_reachable,
    .connect = tcp_connect,
    .disconnect = tcp_disconnect,
    .send = tcp_send,
    .advertise = tcp_advertise,
    .withdraw = tcp_withdraw,
    .put = tcp_put,
    .poll = tcp_poll,
    .fds = tcp_fds,
    .arm = tcp_arm,
    .link_flags = tcp_link_flags,
    .busy = tcp_busy,
    .recall = tcp_recall,
    .recall_wait = tcp_recall_wait,
    .sent_by = tcp_sent_by,
    .why = tcp_why,
};
