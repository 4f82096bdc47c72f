/* SPDX-License-Identifier: Apache-2.0 */
/* Events and sleeping. Everything hangs on one epoll set: the connections, the set of the handshakes, and a timer that runs while
 * links come up. Where one link only is up, its connection is read without asking epoll first. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include "base/error.h"
#include "base/fd.h"
#include "transport/tcp/tcp_private.h"

#define BATCH 32

void tcp_connecting(struct weft_transport *transport, int change)
{
    transport->connecting += (uint32_t)change;
    int runs = transport->connecting != 0;
    if (runs == transport->timer_runs)
        return;
    long tick_ns = runs ? (long)TCP_TICK_NS : 0;
    struct itimerspec when = {.it_value = {.tv_nsec = tick_ns}, .it_interval = {.tv_nsec = tick_ns}};
    if (weft_fd_is_own(transport->timer_fd) && timerfd_settime(transport->timer_fd, 0, &when, NULL) == 0)
        transport->timer_runs = runs;
}

static int puts_report(struct weft_transport *transport, int budget, weft_event_handler *handler, void *arg)
{
    int events = 0;
    while (transport->done && events < budget) {
        struct tcp_put *put = transport->done;
        struct weft_event event = {.kind = WEFT_EVENT_PUT_DONE, .status = put->status, .cookie = put->cookie};
        int recalled = put->recalled;
        transport->done = put->next;
        if (!transport->done)
            transport->done_end = &transport->done;
        tcp_put_give(transport, put);
        if (recalled)
            continue;
        events++;
        handler(arg, &event);
    }
    return events;
}

static int failures_report(struct weft_transport *transport, int budget, weft_event_handler *handler,
                           void *arg)
{
    int events = 0;
    for (uint32_t i = 0; transport->failed_due && events < budget && i < transport->links_count; i++) {
        struct weft_link *link = transport->links[i];
        if (!link->failed_due)
            continue;
        struct weft_event event = {
            .kind = WEFT_EVENT_LINK_FAILED, .status = link->status, .link_context = link->context};
        link->failed_due = 0;
        transport->failed_due--;
        tcp_link_down(link);
        events++;
        handler(arg, &event);
    }
    return events;
}

static void tick(struct weft_transport *transport)
{
    uint64_t times;
    if (weft_fd_read(transport->timer_fd, &times, sizeof times) > 0)
        tcp_dials_check(transport);
}

static int link_event(struct weft_link *link, uint32_t events, int budget, weft_event_handler *handler,
                      void *arg)
{

    if (link->state != TCP_LINK_UP)
        return 0;
    if (link->is_blocked && events & (EPOLLOUT | EPOLLERR | EPOLLHUP))
        tcp_link_write(link);
    if (!(events & ~(uint32_t)EPOLLOUT) || link->state != TCP_LINK_UP || link->is_kept)
        return 0;
    return tcp_link_read(link, budget, handler, arg);
}

/* The program has closed or replaced the set: nothing reports what comes any more. */
static void lost(struct weft_transport *transport)
{
    for (uint32_t i = 0; i < transport->links_count; i++) {
        if (transport->links[i]->state != TCP_LINK_FAILED)
            tcp_link_fail(transport->links[i], WEFT_SYSTEM,
                          "tcp: the program has closed the descriptor of all connections' events");
    }
}

static int look(struct weft_transport *transport, int budget, weft_event_handler *handler, void *arg)
{
    struct epoll_event ready[BATCH];
    int events = 0, count = weft_fd_epoll_wait(transport->poll_fd, ready, BATCH, 0);
    if (count < 0 && errno == EBADF)
        lost(transport);
    for (int i = 0; i < count && events < budget; i++) {
        void *what = ready[i].data.ptr;
        if (what == &transport->accept)
            tcp_accept(transport);
        else if (what == &transport->timer_fd)
            tick(transport);
        else if ((uintptr_t)what & 1)
            tcp_dial_step(transport, (struct tcp_dial *)(void *)((char *)what - 1));
        else
            events += link_event(what, ready[i].events, budget - events, handler, arg);
    }
    return events;
}

static int input(struct weft_transport *transport, int budget, weft_event_handler *handler, void *arg)
{
    struct weft_link *only = transport->only;
    if (!only || only->is_kept || transport->connecting || transport->blocked ||
        ++transport->idle_polls % TCP_LOOKS == 0)
        return look(transport, budget, handler, arg);
    int events = tcp_link_read(only, budget, handler, arg);
    if (events)
        transport->idle_polls = 0;
    return events;
}

int tcp_poll(struct weft_transport *transport, int budget, weft_event_handler *handler, void *arg)
{
    int events = 0;

    if (transport->over)
        tcp_dials_free(transport, 0);
    if (transport->dirty)
        tcp_links_write(transport);
    if (transport->connecting && !transport->timer_runs)
        tcp_dials_check(transport);
    if (transport->kept)
        events += tcp_links_kept(transport, budget, handler, arg);
    if (events < budget)
        events += input(transport, budget - events, handler, arg);
    if (transport->done && events < budget)
        events += puts_report(transport, budget - events, handler, arg);
    if (transport->failed_due && events < budget)
        events += failures_report(transport, budget - events, handler, arg);
    return events;
}

int tcp_fds(struct weft_transport *transport, int *fds, int capacity)
{
    if (capacity < 1)
        return 0;
    fds[0] = transport->poll_fd;
    return 1;
}

int tcp_arm(struct weft_transport *transport)
{
    if (transport->dirty)
        tcp_links_write(transport);
    int untimed = transport->connecting && !transport->timer_runs; /* the system has no timer to give */
    return transport->dirty || transport->kept || transport->done || transport->failed_due || untimed
               ? WEFT_AGAIN
               : WEFT_OK;
}

int tcp_busy(struct weft_transport *transport)
{
    return transport->dirty || transport->kept || transport->done || transport->failed_due ||
           transport->blocked || transport->connecting;
}
