/* SPDX-License-Identifier: Apache-2.0 */
/* The listening side of handshakes (docs/bootstrap.md, section 3).
 *
 * Everything hangs on one epoll set, which is itself pollable: the listener, a timer, and the connections that have not
 * proven anything ("guests", oldest first). Each is challenged when it is accepted. Two rules keep strangers from using up
 * this process or its time. There are at most so many guests: when all places are taken and others wait, the oldest
 * goes, unless it has only just been challenged. And when descriptors run short, guests go first: an accepted
 * descriptor of a high number says that few are left. An honest dialer that had to go comes again.
 */
#include "base/net/accept.h"

#include <errno.h>
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
#include "base/net/socket.h"
#include <weft/weft.h>

#define STRANGERS_MAX 1024
#define HANDSHAKE_NS  INT64_C(5000000000) /* who has not answered for so long never will */
#define MOMENT_NS     INT64_C(1000000)    /* nobody is displaced so soon */
#define BATCH         64                  /* then those who answer are heard */
#define MANY          16                  /* more than this are many */
#define RESERVE_MAX   64                  /* descriptors left to the rest of this process */

struct guest {
    struct guest *next, *previous;
    int fd;
    int64_t since_ns;
    size_t have;
    unsigned char challenge[WEFT_AUTH_CHALLENGE_BYTES];
    unsigned char proof[WEFT_AUTH_PROOF_BYTES];
};

struct weft_net_accept {
    const char *who;
    int listener, poll_fd;
    int timer_fd; /* while the listener is not watched: when it is again */
    int pause_ms; /* of the last, 0: somebody could be accepted */
    struct weft_key job;
    unsigned *strangers;
    struct guest *first, *last;
    int guests, guests_max;
    int fd_high; /* an accepted descriptor from here on says that they run short */
};

static void unlink_guest(struct weft_net_accept *accept, struct guest *guest)
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
static void note_stranger(struct weft_net_accept *accept, const struct guest *guest, const char *why)
{
    enum weft_log_level level = (*accept->strangers)++ ? WEFT_LOG_DEBUG : WEFT_LOG_WARN;
    char text[WEFT_NET_ADDRESS_TEXT] = "somewhere", reason[WEFT_DETAIL_MAX];
    struct weft_net_address peer;
    if (!weft_log_enabled(level))
        return;
    snprintf(reason, sizeof reason, "%s", why); /* which may be the detail that the next call overwrites */
    if (weft_net_peer_address(guest->fd, &peer) == WEFT_OK)
        weft_net_address_text(&peer, 1, text);
    weft_log(level,
             "%s: dropped a connection from %s that is no rank of this job: %s; more of them are "
             "counted, but not logged",
             accept->who, text, reason);
}

static void show_out(struct weft_net_accept *accept, struct guest *guest, const char *why)
{
    note_stranger(accept, guest, why);
    /* Closing is not enough: the set keeps it while there is a copy of the open file, as between another thread's fork() and
     * the child's exec. */
    weft_fd_unpoll(accept->poll_fd, guest->fd);
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
static int hear(struct weft_net_accept *accept, struct guest *guest, struct weft_net_proven *proven)
{
    int status = read_proof(guest);
    if (status == 0)
        return 0;
    struct weft_net_proven made = {.fd = guest->fd};
    if (status == 1)
        status = weft_auth_verify(&accept->job, guest->challenge, guest->proof, &made.claims, &made.session,
                                  made.welcome);
    if (status < 0) {
        show_out(accept, guest, weft_error_detail());
        return 0;
    }
    weft_fd_unpoll(accept->poll_fd, guest->fd);
    unlink_guest(accept, guest);
    *proven = made;
    weft_crypto_wipe(&made, sizeof made);
    return 1;
}

static void challenge(struct weft_net_accept *accept, struct guest *guest)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = guest};
    weft_auth_challenge(guest->challenge);
    if (weft_fd_epoll_ctl(accept->poll_fd, EPOLL_CTL_ADD, guest->fd, &event) != 0) {
        weft_fd_close(guest->fd);
        unlink_guest(accept, guest);
        return;
    }
    if (!weft_net_send_bytes(guest->fd, guest->challenge, sizeof guest->challenge))
        show_out(accept, guest, "it did not take the challenge");
}

static void add_guest(struct weft_net_accept *accept, int fd)
{
    if (accept->guests == MANY)
        weft_limits_make_room(accept->poll_fd, accept->guests_max);
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
    challenge(accept, guest);
}

/* Leaves the listener alone for so long: level-triggered, it would be reported all the time. */
static void pause_listening(struct weft_net_accept *accept, int64_t pause_ns)
{
    struct epoll_event none = {.events = 0, .data.ptr = &accept->listener};
    struct itimerspec when = {.it_value = {.tv_nsec = pause_ns}};
    if (weft_fd_is_own(accept->timer_fd) && timerfd_settime(accept->timer_fd, 0, &when, NULL) == 0)
        weft_fd_epoll_ctl(accept->poll_fd, EPOLL_CTL_MOD, accept->listener, &none);
}

static void listen_again(struct weft_net_accept *accept)
{
    struct epoll_event knock = {.events = EPOLLIN, .data.ptr = &accept->listener};
    uint64_t times;
    if (weft_fd_read(accept->timer_fd, &times, sizeof times) > 0)
        weft_fd_epoll_ctl(accept->poll_fd, EPOLL_CTL_MOD, accept->listener, &knock);
}

/* The oldest guest leaves; an answer that has just come still counts. 1: handed out. */
static int displace(struct weft_net_accept *accept, struct weft_net_proven *proven)
{
    struct guest *oldest = accept->first;
    int guests = accept->guests;
    if (hear(accept, oldest, proven))
        return 1;
    if (accept->guests == guests)
        show_out(accept, oldest, "others wait, and it had not proven the job's secret");
    return 0;
}

static int is_full(const struct weft_net_accept *accept)
{
    return accept->guests >= accept->guests_max || (accept->last && accept->last->fd >= accept->fd_high);
}

/* Somebody waits for the place of the oldest, who may need it only for a moment more. 1: handed out. */
static int make_place(struct weft_net_accept *accept, struct weft_net_proven *proven)
{
    int64_t left_ns = accept->first->since_ns + MOMENT_NS - weft_clock_ns();
    if (left_ns <= 0)
        return displace(accept, proven);
    pause_listening(accept, left_ns);
    return 0;
}

/* Said once; then it is tried again, less and less often. */
static int cannot_accept(struct weft_net_accept *accept, int status)
{
    if (!accept->pause_ms)
        weft_log(WEFT_LOG_WARN, "%s", weft_error_detail());
    accept->pause_ms = accept->pause_ms ? weft_net_longer_pause(accept->pause_ms) : WEFT_NET_PAUSE_FIRST_MS;
    pause_listening(accept, accept->pause_ms * INT64_C(1000000));
    return status;
}

/* The listener is readable: somebody waits, though perhaps no second one. accept() without a descriptor to spare fails
 * before it looks whether anybody is there. Returns like weft_net_accept_step(). */
static int let_in(struct weft_net_accept *accept, struct weft_net_proven *proven)
{
    for (int i = 0; i < BATCH; i++) {
        int fd = -1, full = is_full(accept), status = WEFT_OK;
        if (!full) {
            status = weft_net_accept(accept->listener, &fd);
            full = status != WEFT_OK && (errno == EMFILE || errno == ENFILE) && accept->guests > 0;
        }
        if (full || (status != WEFT_OK && i > 0))
            return i > 0 ? 0 : make_place(accept, proven); /* who waits is still there the next time */
        if (status != WEFT_OK)
            return cannot_accept(accept, status);
        if (fd < 0)
            return 0;
        accept->pause_ms = 0;
        add_guest(accept, fd);
    }
    return 0;
}

int weft_net_accept_step(struct weft_net_accept *accept, struct weft_net_proven *proven)
{
    struct epoll_event events[BATCH];
    int count = weft_fd_epoll_wait(accept->poll_fd, events, BATCH, 0);
    int knock = 0, status = 0;
    for (int i = 0; i < count && status == 0; i++) {
        if (events[i].data.ptr == &accept->listener)
            knock = 1;
        else if (events[i].data.ptr == &accept->timer_fd)
            listen_again(accept);
        else
            status = hear(accept, events[i].data.ptr, proven);
    }
    return status == 0 && knock ? let_in(accept, proven) : status;
}

/* How many descriptors of this process may be strangers' is decided by its limit. */
static void set_limits(struct weft_net_accept *accept, int expected)
{
    struct rlimit limit;
    int most = 65536;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < (rlim_t)most)
        most = (int)limit.rlim_cur;
    accept->guests_max = (STRANGERS_MAX < most / 4 ? STRANGERS_MAX : most / 4) + 1 + expected;
    accept->fd_high = most - (most / 8 < RESERVE_MAX ? most / 8 : RESERVE_MAX);
}

int weft_net_accept_open(const char *who, int listener, const struct weft_key *job, int expected,
                         unsigned *strangers, struct weft_net_accept **result)
{
    struct weft_net_accept *accept = calloc(1, sizeof *accept);
    if (!accept)
        return weft_fail(WEFT_NOMEM, "%s: no memory for a listener", who);
    *accept = (struct weft_net_accept){.who = who, .listener = listener, .job = *job, .strangers = strangers};
    set_limits(accept, expected);
    accept->poll_fd = weft_fd_add(epoll_create1(EPOLL_CLOEXEC));
    accept->timer_fd = weft_fd_add(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC));
    struct epoll_event knock = {.events = EPOLLIN, .data.ptr = &accept->listener};
    struct epoll_event again = {.events = EPOLLIN, .data.ptr = &accept->timer_fd};
    if (accept->poll_fd < 0 || accept->timer_fd < 0 ||
        epoll_ctl(accept->poll_fd, EPOLL_CTL_ADD, listener, &knock) != 0 ||
        epoll_ctl(accept->poll_fd, EPOLL_CTL_ADD, accept->timer_fd, &again) != 0) {
        int status = weft_fail_errno("%s: cannot watch a listener", who);
        weft_net_accept_close(accept);
        return status;
    }
    *result = accept;
    return WEFT_OK;
}

int weft_net_accept_fd(const struct weft_net_accept *accept)
{
    return accept->poll_fd;
}

void weft_net_accept_close(struct weft_net_accept *accept)
{
    if (!accept)
        return;
    weft_fd_close(accept->timer_fd);
    weft_fd_close(accept->poll_fd);
    for (struct guest *guest; (guest = accept->first);) {
        if (weft_clock_ns() - guest->since_ns >= HANDSHAKE_NS)
            note_stranger(accept, guest, "it has not proven the job's secret");
        weft_fd_close(guest->fd);
        unlink_guest(accept, guest);
    }
    weft_crypto_wipe(&accept->job, sizeof accept->job);
    free(accept);
}

int weft_net_welcome(const struct weft_net_proven *proven)
{
    weft_net_tune(proven->fd);
    if (!weft_net_send_bytes(proven->fd, proven->welcome, sizeof proven->welcome))
        return weft_fail(WEFT_PEER_FAILED, "connection does not take the welcome");
    return WEFT_OK;
}
