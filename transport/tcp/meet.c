/* SPDX-License-Identifier: Apache-2.0 */
/* How two instances meet: dialing, accepting, and both at once. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/net/socket.h"
#include "transport/tcp/tcp_private.h"

static void aside_drop(struct weft_link *link)
{
    if (!link->aside)
        return;
    weft_fd_close(link->aside->fd);
    weft_crypto_wipe(link->aside, sizeof *link->aside);
    free(link->aside);
    link->aside = NULL;
}

static void *tag(struct tcp_dial *dial)
{
    return (char *)dial + 1;
}

/* Closes it. Another event of the same turn may still name it. */
static void dial_end(struct weft_transport *transport, struct tcp_dial *dial)
{
    if (dial->net.fd >= 0)
        weft_fd_unpoll(transport->poll_fd, dial->net.fd);
    weft_net_dial_stop(&dial->net);
    dial->next = transport->over;
    transport->over = dial;
}

static void link_dial_end(struct weft_link *link)
{
    if (link->dial)
        dial_end(link->transport, link->dial);
    link->dial = NULL;
}

void tcp_dial_drop(struct weft_link *link)
{
    link_dial_end(link);
    aside_drop(link);
}

void tcp_dial_leave(struct weft_link *link)
{
    struct tcp_dial *dial = link->dial;
    if (dial && dial->net.fd >= 0 && dial->net.state < WEFT_NET_DIAL_PROVEN) {
        dial->link = NULL;
        dial->next = link->transport->leaving;
        link->transport->leaving = dial;
        link->dial = NULL;
    }
    tcp_dial_drop(link);
}

void tcp_dials_free(struct weft_transport *transport, int all)
{
    while (all && transport->leaving) {
        struct tcp_dial *dial = transport->leaving;
        transport->leaving = dial->next;
        dial_end(transport, dial);
    }
    while (transport->over) {
        struct tcp_dial *dial = transport->over;
        transport->over = dial->next;
        weft_crypto_wipe(dial, sizeof *dial);
        free(dial);
    }
}

/* Answers a proof that is taken, and has the link up over its connection. */
static void adopt(struct weft_link *link, struct weft_net_proven *proven)
{
    int fd = proven->fd;
    if (weft_net_welcome(proven) != WEFT_OK) {
        weft_fd_close(fd); /* the peer sees it, and dials again */
        return;
    }
    tcp_link_up(link, fd);
}

static int dial_watch(struct weft_transport *transport, struct tcp_dial *dial, int is_new)
{
    struct epoll_event event = {.events = weft_net_dial_events(&dial->net) == POLLOUT ? EPOLLOUT : EPOLLIN,
                                .data.ptr = tag(dial)};
    if (weft_fd_epoll_ctl(transport->poll_fd, is_new ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, dial->net.fd, &event) !=
        0)
        return weft_fail_errno("cannot watch a connection");
    return WEFT_OK;
}

/* Another try later, unless nobody can be there: then the peer's own dial, or the link fails. */
static void dial_failed(struct weft_link *link, int status)
{
    int is_refused = link->dial->net.state == WEFT_NET_DIAL_CONNECTING;
    char why[160];
    snprintf(why, sizeof why, "%.159s", weft_error_detail());
    link_dial_end(link);
    if (link->aside) {
        struct weft_net_proven proven = *link->aside;
        weft_crypto_wipe(link->aside, sizeof *link->aside);
        free(link->aside);
        link->aside = NULL;
        adopt(link, &proven);
        weft_crypto_wipe(&proven, sizeof proven);
        if (link->state == TCP_LINK_UP)
            return;
    }
    if (is_refused || status != WEFT_PEER_FAILED || weft_clock_ns() >= link->deadline_ns) {
        tcp_link_fail(link, status == WEFT_PEER_FAILED ? WEFT_TRANSPORT : status,
                      "tcp: the peer cannot be reached: %s", why);
        return;
    }
    link->again_ns = weft_clock_ns() + WEFT_NET_PAUSE_FIRST_MS * INT64_C(1000000);
}

void tcp_dial(struct weft_link *link)
{
    struct weft_transport *transport = link->transport;
    struct weft_net_address address = {.family = link->address.family, .port = link->address.port};
    const struct weft_auth_claims claims = {.purpose = TCP_PURPOSE,
                                            .nonce = ++transport->dials,
                                            .name_hash = link->address.instance,
                                            .session = transport->address.instance,
                                            .generation = link->epoch};
    memcpy(address.ip, link->address.ip, sizeof address.ip);
    if (weft_net_address_is_link_local6(&address))
        address.scope = transport->scope;
    link->again_ns = 0;
    link->dial = calloc(1, sizeof *link->dial);
    if (!link->dial) {
        tcp_link_fail(link, WEFT_NOMEM, "tcp: no memory to connect");
        return;
    }
    int status = weft_net_dial_start(&link->dial->net, &link->address.key, &address, &claims);
    link->dial->link = link;
    if (status == WEFT_OK)
        status = dial_watch(transport, link->dial, 1);
    if (status != WEFT_OK)
        dial_failed(link, status);
}

/* One that nobody needs any more: it leaves when it has proven itself. */
static void leave(struct weft_transport *transport, struct tcp_dial *dial, int status)
{
    if (status == WEFT_OK && dial->net.state < WEFT_NET_DIAL_PROVEN)
        return;
    struct tcp_dial **at = &transport->leaving;
    while (*at != dial)
        at = &(*at)->next;
    *at = dial->next;
    dial_end(transport, dial);
}

void tcp_dial_step(struct weft_transport *transport, struct tcp_dial *dial)
{
    struct weft_link *link = dial->link;
    enum weft_net_dial_state before = dial->net.state;
    int fd = dial->net.fd;
    if (fd < 0)
        return; /* over, in this very turn */
    int status = weft_net_dial_step(&dial->net);
    if (status == WEFT_OK && dial->net.state != before && dial->net.state != WEFT_NET_DIAL_WELCOMED)
        status = dial_watch(transport, dial, 0);
    if (!link) {
        leave(transport, dial, status);
    } else if (status < 0) {
        dial_failed(link, status);
    } else if (dial->net.state == WEFT_NET_DIAL_WELCOMED) {
        weft_fd_unpoll(transport->poll_fd, fd);
        dial->net.fd = -1;
        tcp_link_up(link, fd);
    }
}

void tcp_dials_check(struct weft_transport *transport)
{
    int64_t now_ns = weft_clock_ns();
    for (uint32_t i = 0; i < transport->links_count && transport->connecting; i++) {
        struct weft_link *link = transport->links[i];
        if (link->state != TCP_LINK_CONNECTING)
            continue;
        if (now_ns >= link->deadline_ns)
            tcp_link_fail(link, WEFT_TRANSPORT, "tcp: no connection to the peer within %d s",
                          (int)(TCP_CONNECT_NS / 1000000000));
        else if (link->again_ns && now_ns >= link->again_ns)
            tcp_dial(link);
    }
}

/* A rank of this job wants a link. Whether the connection has found its place. */
static int take_in(struct weft_transport *transport, struct weft_net_proven *proven)
{
    const struct weft_auth_claims *claims = &proven->claims;
    if (claims->purpose != TCP_PURPOSE || claims->name_hash != transport->address.instance ||
        !claims->session || claims->session == transport->address.instance)
        return 0;
    struct weft_link *link = tcp_link_find(transport, claims->session);
    if (link && claims->nonce <= link->dial_number)
        return 0; /* an old one that was long on its way */
    if (link && link->state == TCP_LINK_UP) {
        if (claims->generation < link->epoch)
            return 0; /* it has crossed this connection */
        tcp_link_fail(link, WEFT_PEER_FAILED, "tcp: the peer gave up this link and made a new one");
        link = NULL;
    }
    if (!link) {
        const struct tcp_address address = {.instance = claims->session};
        if (transport->closing || tcp_link_new(transport, &address, &link) != WEFT_OK)
            return 0;
        if (claims->nonce <= link->dial_number) {
            tcp_link_fail(link, WEFT_PEER_FAILED, "tcp: an old dial of the peer's");
            return 0;
        }
    }
    link->dial_number = claims->nonce;
    if (link->dial && transport->address.instance < claims->session) {
        struct weft_net_proven *aside = malloc(sizeof *aside);
        aside_drop(link);
        if (!aside)
            return 0;
        *aside = *proven;
        link->aside = aside;
        return 1;
    }
    adopt(link, proven);
    if (link->state == TCP_LINK_CONNECTING && !link->dial && !link->again_ns)
        tcp_link_fail(link, WEFT_PEER_FAILED, "tcp: the peer's connection broke at once");
    return 1;
}

void tcp_accept(struct weft_transport *transport)
{
    struct weft_net_proven proven;
    while (weft_net_accept_step(transport->accept, &proven) == 1) {
        if (!take_in(transport, &proven))
            weft_fd_close(proven.fd);
        weft_crypto_wipe(&proven, sizeof proven);
    }
}
