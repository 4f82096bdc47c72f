/* SPDX-License-Identifier: Apache-2.0 */
/* The listening side of handshakes (docs/bootstrap.md, section 3).
 *
 * Everything hangs on one epoll set, which is itself pollable: the listener, the connections that have not proven
 * anything ("guests", oldest first), and a timer for deadlines. Two rules keep strangers from using up this
 * process or its time. There are at most so many guests: when all places are taken, the oldest goes, once it has had a
 * moment to answer if it was challenged. And when descriptors run short, guests go first: an accepted descriptor
 * of a high number says that few are left. An honest dialer that had to go comes again.
 */
#include "comm/boot_accept.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/log.h"
#include "comm/boot_net.h"
#include <weft/weft.h>

#define STRANGERS_MAX 1024
#define HANDSHAKE_NS  INT64_C(5000000000) /* for a proof to arrive */
#define MOMENT_NS     INT64_C(1000000)    /* whoever was challenged is not displaced before */
#define RETRY_NS      INT64_C(100000000)  /* after descriptors have run out */
#define BATCH         64
#define CHALLENGES    16
#define MANY          16 /* more than this are many */
#define RESERVE_MAX   64 /* descriptors left to the rest of this process */

struct guest {
    struct guest *next, *previous;
    int fd;
    int64_t since_ns;
    int challenged; /* and watched */
    size_t have;
    unsigned char challenge[WEFT_AUTH_CHALLENGE_BYTES];
    unsigned char proof[WEFT_AUTH_PROOF_BYTES];
};

struct weft_boot_accept {
    int listener, poll_fd, timer_fd;
    struct weft_key job;
    struct weft_boot_strangers *strangers;
    struct guest *first, *last;
    int guests, guests_max;
    int fd_high;      /* an accepted descriptor from here on says that they run short */
    int listening;    /* the listener is being watched */
    int more;         /* there are guests who were not challenged yet */
    int64_t armed_ns; /* when the timer fires, WEFT_NEVER_NS off */
};

/* Closing the descriptor is not enough: the set keeps it while there is a copy of the open file, as between another
 * thread's fork() and the child's exec. */
static void unwatch(struct weft_boot_accept *accept, const struct guest *guest)
{
    if (guest->challenged)
        weft_fd_unpoll(accept->poll_fd, guest->fd);
}

static void unlink_guest(struct weft_boot_accept *accept, struct guest *guest)
{
    if (guest->previous)
        guest->previous->next = guest->next;
    else
        accept->first = guest->next;
    if (guest->next)
        guest->next->previous = guest->previous;
    else
        accept->last = guest->previous;
    accept->guests--;
    free(guest);
}

/* The first is said aloud. For the others not even a name is looked up: there may be very many. */
static void note_stranger(struct weft_boot_accept *accept, const struct guest *guest, const char *why)
{
    enum weft_log_level level = accept->strangers->count++ ? WEFT_LOG_DEBUG : WEFT_LOG_WARN;
    char text[WEFT_BOOT_ADDRESS_TEXT] = "somewhere", reason[WEFT_DETAIL_MAX];
    struct weft_boot_address peer;
    if (!weft_log_enabled(level))
        return;
    snprintf(reason, sizeof reason, "%s", why); /* which may be the detail that the next call overwrites */
    if (weft_boot_peer_address(guest->fd, &peer) == WEFT_OK)
        weft_boot_address_text(&peer, 1, text);
    weft_log(level,
             "bootstrap: dropped a connection from %s that is no rank of this job: %s; more of them are "
             "counted, but not logged",
             text, reason);
}

static void show_out(struct weft_boot_accept *accept, struct guest *guest, const char *why)
{
    note_stranger(accept, guest, why);
    unwatch(accept, guest);
    weft_fd_close(guest->fd);
    unlink_guest(accept, guest);
}

/* Reads once, never more than a proof. 1: all of it is here, 0: not yet, negative: it is gone. */
static int read_proof(struct guest *guest)
{
    ssize_t got;
    do
        got = weft_fd_recv(guest->fd, guest->proof + guest->have, sizeof guest->proof - guest->have,
                           MSG_DONTWAIT);
    while (got < 0 && errno == EINTR);
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        return 0;
    if (got < 0)
        return weft_fail_errno("the connection broke before it had proven the job's secret");
    if (got == 0)
        return weft_fail(WEFT_PEER_FAILED, "it closed the connection before it had proven the job's secret");
    guest->have += (size_t)got;
    return guest->have == sizeof guest->proof;
}

/* 1: proven and handed out, 0: nothing to hand out. The guest may be gone. */
static int hear(struct weft_boot_accept *accept, struct guest *guest, struct weft_boot_proven *proven)
{
    int status = read_proof(guest);
    if (status == 0)
        return 0;
    struct weft_boot_proven made = {.fd = guest->fd};
    if (status == 1)
        status = weft_auth_verify(&accept->job, guest->challenge, guest->proof, &made.claims, &made.session,
                                  made.welcome);
    if (status < 0) {
        show_out(accept, guest, weft_error_detail());
        return 0;
    }
    unwatch(accept, guest);
    unlink_guest(accept, guest);
    *proven = made;
    weft_crypto_wipe(&made, sizeof made);
    return 1;
}

static void watch_listener(struct weft_boot_accept *accept, int on)
{
    struct epoll_event event = {.events = on ? EPOLLIN : 0, .data.ptr = &accept->listener};
    if (accept->listening == on)
        return;
    if (epoll_ctl(accept->poll_fd, EPOLL_CTL_MOD, accept->listener, &event) == 0)
        accept->listening = on;
}

static void add_guest(struct weft_boot_accept *accept, int fd)
{
    if (accept->guests == MANY)
        weft_limits_make_room(accept->timer_fd, accept->guests_max);
    struct guest *guest = calloc(1, sizeof *guest);
    if (!guest) {
        weft_fd_close(fd); /* an honest dialer comes again */
        return;
    }
    guest->fd = fd;
    guest->since_ns = weft_clock_ns();
    guest->previous = accept->last;
    if (accept->last)
        accept->last->next = guest;
    else
        accept->first = guest;
    accept->last = guest;
    accept->guests++;
}

static void challenge(struct weft_boot_accept *accept, struct guest *guest)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = guest};
    weft_auth_challenge(guest->challenge);
    if (epoll_ctl(accept->poll_fd, EPOLL_CTL_ADD, guest->fd, &event) != 0) {
        weft_fd_close(guest->fd);
        unlink_guest(accept, guest);
        return;
    }
    guest->challenged = 1;
    ssize_t sent;
    do
        sent =
            weft_fd_send(guest->fd, guest->challenge, sizeof guest->challenge, MSG_DONTWAIT | MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    if (sent != (ssize_t)sizeof guest->challenge)
        show_out(accept, guest, "it did not take the challenge");
}

/* The oldest guest leaves; an answer that has just come still counts. 1: handed out. */
static int displace(struct weft_boot_accept *accept, struct weft_boot_proven *proven)
{
    struct guest *oldest = accept->first;
    int guests = accept->guests;
    if (oldest->challenged && hear(accept, oldest, proven))
        return 1;
    if (accept->guests == guests)
        show_out(accept, oldest, "others wait, and it had not proven the job's secret");
    return 0;
}

/* Whether the oldest was challenged only just now, and so has not had the time to answer. */
static int is_answering(const struct weft_boot_accept *accept)
{
    return accept->first->challenged && weft_clock_ns() - accept->first->since_ns < MOMENT_NS;
}

/* accept() without a descriptor to spare fails before it looks whether anybody is there. */
static int somebody_waits(const struct weft_boot_accept *accept)
{
    struct pollfd knock = {.fd = accept->listener, .events = POLLIN};
    return poll(&knock, 1, 0) > 0;
}

/* Accepts who waits. When there are more than places, the oldest leave before anything was spent on them: honest
 * dialers, who come again at once, then find the queue empty. Returns like weft_boot_accept_step(). */
static int let_in(struct weft_boot_accept *accept, struct weft_boot_proven *proven)
{
    for (int i = 0; i < WEFT_BOOT_BACKLOG; i++) {
        int fd = -1, full = accept->guests >= accept->guests_max;
        if (!full) {
            int status = weft_boot_accept(accept->listener, &fd);
            full = status != WEFT_OK && (errno == EMFILE || errno == ENFILE) && accept->guests > 0;
            if (status != WEFT_OK && !full)
                return status;
            if (!full && fd < 0)
                return 0;
        }
        if (full && !somebody_waits(accept))
            return 0;
        if (fd >= 0)
            add_guest(accept, fd);
        else if (is_answering(accept)) {
            watch_listener(accept, 0);
            return 0;
        }
        if ((full || (fd >= accept->fd_high && accept->guests > 1)) && displace(accept, proven))
            return 1;
    }
    return 0;
}

/* A few at a time, so that those who answer are heard in between, and the youngest first: behind a thousand who were
 * there before, an honest dialer is among them. 1: there are more. */
static int challenge_some(struct weft_boot_accept *accept)
{
    struct guest *each = accept->last, *previous;
    for (int i = 0; each && i < CHALLENGES; each = previous) {
        previous = each->previous;
        if (!each->challenged) {
            challenge(accept, each);
            i++;
        }
    }
    while (each && each->challenged)
        each = each->previous;
    return each != NULL;
}

static void expire(struct weft_boot_accept *accept)
{
    int64_t now_ns = weft_clock_ns();
    while (accept->first && now_ns - accept->first->since_ns >= HANDSHAKE_NS)
        show_out(accept, accept->first, "it did not prove the job's secret within 5 s");
}

/* Sets the timer for the next deadline, or for when the oldest may be displaced. */
static void arm(struct weft_boot_accept *accept)
{
    int64_t due_ns = WEFT_NEVER_NS;
    if (accept->first)
        due_ns = accept->first->since_ns + (accept->listening ? HANDSHAKE_NS : MOMENT_NS);
    else if (!accept->listening)
        due_ns = weft_clock_ns() + RETRY_NS;
    if (accept->more)
        due_ns = 1; /* at once */
    if (due_ns == accept->armed_ns)
        return;
    struct itimerspec when = {{0, 0}, {0, 0}};
    if (due_ns != WEFT_NEVER_NS)
        when.it_value = (struct timespec){.tv_sec = due_ns / 1000000000, .tv_nsec = due_ns % 1000000000};
    if (timerfd_settime(accept->timer_fd, TFD_TIMER_ABSTIME, &when, NULL) == 0)
        accept->armed_ns = due_ns;
}

int weft_boot_accept_step(struct weft_boot_accept *accept, struct weft_boot_proven *proven)
{
    struct epoll_event events[BATCH];
    int count = epoll_wait(accept->poll_fd, events, BATCH, 0);
    int knock = 0, status = 0;
    for (int i = 0; i < count && status == 0; i++) {
        if (events[i].data.ptr == &accept->listener) {
            knock = 1;
        } else if (events[i].data.ptr == &accept->timer_fd) {
            uint64_t times;
            ssize_t got = weft_fd_read(accept->timer_fd, &times, sizeof times);
            accept->armed_ns = got > 0 ? WEFT_NEVER_NS : accept->armed_ns;
            knock |= !accept->listening;
        } else {
            status = hear(accept, events[i].data.ptr, proven);
        }
    }
    if (status == 0) {
        expire(accept);
        if (!accept->listening && accept->guests < accept->guests_max)
            knock = 1;
        if (knock) {
            watch_listener(accept, 1);
            status = let_in(accept, proven);
            if (status < 0)
                watch_listener(accept, 0);
            accept->more = 1;
        }
        if (accept->more)
            accept->more = challenge_some(accept);
    }
    arm(accept);
    return status;
}

/* How many descriptors of this process may be strangers' is decided by its limit. */
static void set_limits(struct weft_boot_accept *accept, int expected)
{
    struct rlimit limit;
    int most = 65536;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < (rlim_t)most)
        most = (int)limit.rlim_cur;
    accept->guests_max = (STRANGERS_MAX < most / 4 ? STRANGERS_MAX : most / 4) + 1 + expected;
    accept->fd_high = most - (most / 8 < RESERVE_MAX ? most / 8 : RESERVE_MAX);
}

int weft_boot_accept_open(int listener, const struct weft_key *job, int expected,
                          struct weft_boot_strangers *strangers, struct weft_boot_accept **result)
{
    struct weft_boot_accept *accept = calloc(1, sizeof *accept);
    if (!accept)
        return weft_fail(WEFT_NOMEM, "bootstrap: no memory for a listener");
    *accept = (struct weft_boot_accept){
        .listener = listener, .job = *job, .strangers = strangers, .listening = 1, .armed_ns = WEFT_NEVER_NS};
    set_limits(accept, expected);
    accept->poll_fd = weft_fd_add(epoll_create1(EPOLL_CLOEXEC));
    accept->timer_fd = weft_fd_add(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC));
    struct epoll_event knock = {.events = EPOLLIN, .data.ptr = &accept->listener};
    struct epoll_event late = {.events = EPOLLIN, .data.ptr = &accept->timer_fd};
    if (accept->poll_fd < 0 || accept->timer_fd < 0 ||
        epoll_ctl(accept->poll_fd, EPOLL_CTL_ADD, listener, &knock) != 0 ||
        epoll_ctl(accept->poll_fd, EPOLL_CTL_ADD, accept->timer_fd, &late) != 0) {
        int status = weft_fail_errno("bootstrap: cannot watch a listener");
        weft_boot_accept_close(accept);
        return status;
    }
    *result = accept;
    return WEFT_OK;
}

int weft_boot_accept_fd(const struct weft_boot_accept *accept)
{
    return accept->poll_fd;
}

void weft_boot_accept_stop(struct weft_boot_accept *accept)
{
    weft_fd_close(accept->timer_fd);
    weft_fd_close(accept->poll_fd);
    accept->timer_fd = accept->poll_fd = -1;
    weft_crypto_wipe(&accept->job, sizeof accept->job);
}

int weft_boot_accept_sweep(struct weft_boot_accept *accept, int most)
{
    for (; accept->first && most > 0; most--) {
        weft_fd_close(accept->first->fd);
        unlink_guest(accept, accept->first);
    }
    return accept->guests;
}

void weft_boot_accept_close(struct weft_boot_accept *accept)
{
    if (!accept)
        return;
    weft_boot_accept_stop(accept);
    weft_boot_accept_sweep(accept, INT_MAX);
    free(accept);
}

int weft_boot_welcome(const struct weft_boot_proven *proven)
{
    weft_boot_tune(proven->fd);
    ssize_t sent;
    do
        sent = weft_fd_send(proven->fd, proven->welcome, sizeof proven->welcome, MSG_DONTWAIT | MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    if (sent != (ssize_t)sizeof proven->welcome)
        return weft_fail(WEFT_PEER_FAILED, "connection does not take the welcome");
    return WEFT_OK;
}
