/* SPDX-License-Identifier: Apache-2.0 */
#include "base/net/dial.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/net/socket.h"
#include <weft/weft.h>

#define CHECK_MS 50

static void give_up(struct weft_net_dial *dial, int status)
{
    dial->status = status;
    snprintf(dial->reason, sizeof dial->reason, "%.159s", weft_error_detail());
    weft_net_dial_stop(dial);
}

int weft_net_dial_start(struct weft_net_dial *dial, const struct weft_key *job,
                        const struct weft_net_address *address, const struct weft_auth_claims *claims)
{
    *dial = (struct weft_net_dial){.job = job,
                                   .address = *address,
                                   .claims = *claims,
                                   .state = WEFT_NET_DIAL_CONNECTING,
                                   .fd = -1,
                                   .pause_ms = WEFT_NET_PAUSE_FIRST_MS};
    int status = weft_net_connect_start(address, &dial->fd);
    if (status != WEFT_OK)
        give_up(dial, status);
    return status;
}

short weft_net_dial_events(const struct weft_net_dial *dial)
{
    return dial->state == WEFT_NET_DIAL_CONNECTING || dial->state == WEFT_NET_DIAL_PROVING ? POLLOUT : POLLIN;
}

/* Reads until the block is whole. 1: it is, 0: not yet. */
static int read_block(struct weft_net_dial *dial, unsigned char *block, size_t size)
{
    while (dial->have < size) {
        ssize_t got = weft_fd_recv(dial->fd, block + dial->have, size - dial->have, MSG_DONTWAIT);
        if (got > 0)
            dial->have += (size_t)got;
        else if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return 0;
        else if (got == 0 || errno != EINTR) {
            const char *how = got == 0 ? "closed" : strerror(errno);
            return dial->state == WEFT_NET_DIAL_PROVEN
                       ? weft_fail(WEFT_PEER_FAILED,
                                   "connection ended while this rank proved the job's secret (%s)", how)
                       : weft_fail(WEFT_PEER_FAILED, "connection ended before a handshake (%s)", how);
        }
    }
    dial->have = 0;
    return 1;
}

static int make_proof(struct weft_net_dial *dial)
{
    int status = weft_auth_prove(dial->job, dial->challenge, &dial->claims, dial->proof, &dial->session);
    if (status == WEFT_OK)
        dial->state = WEFT_NET_DIAL_PROVING;
    return status;
}

static int send_proof(struct weft_net_dial *dial)
{
    size_t left = sizeof dial->proof - dial->have;
    ssize_t sent = weft_fd_send(dial->fd, dial->proof + dial->have, left, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
        return WEFT_OK;
    if (sent < 0) {
        weft_fail_errno("connection does not take the proof of the job's secret");
        return WEFT_PEER_FAILED;
    }
    dial->have += (size_t)sent;
    if (dial->have == sizeof dial->proof) {
        dial->have = 0;
        dial->state = WEFT_NET_DIAL_PROVEN;
    }
    return WEFT_OK;
}

static int go_on(struct weft_net_dial *dial)
{
    int status;
    switch (dial->state) {
    case WEFT_NET_DIAL_CONNECTING:
        status = weft_net_connect_finish(dial->fd, &dial->address);
        if (status == WEFT_OK)
            dial->state = WEFT_NET_DIAL_CHALLENGED;
        return status;
    case WEFT_NET_DIAL_CHALLENGED:
        status = read_block(dial, dial->challenge, sizeof dial->challenge);
        if (status == 1)
            status = make_proof(dial);
        return status == WEFT_OK && dial->state == WEFT_NET_DIAL_PROVING ? send_proof(dial) : status;
    case WEFT_NET_DIAL_PROVING:
        return send_proof(dial);
    case WEFT_NET_DIAL_PROVEN:
        status = read_block(dial, dial->welcome, sizeof dial->welcome);
        if (status == 1) {
            status = weft_auth_welcomed(dial->job, dial->challenge, dial->proof, dial->welcome);
            if (status == WEFT_OK)
                dial->state = WEFT_NET_DIAL_WELCOMED;
        }
        return status;
    default:
        return WEFT_OK;
    }
}

int weft_net_dial_step(struct weft_net_dial *dial)
{
    int status = go_on(dial);
    if (status != WEFT_OK)
        weft_net_dial_stop(dial);
    return status;
}

void weft_net_dial_stop(struct weft_net_dial *dial)
{
    if (dial->fd >= 0)
        weft_fd_close(dial->fd);
    dial->fd = -1;
    weft_crypto_wipe(&dial->session, sizeof dial->session);
}

static int is_under_way(const struct weft_net_dial *dial)
{
    return dial->status == WEFT_OK && dial->state != WEFT_NET_DIAL_IDLE &&
           dial->state != WEFT_NET_DIAL_WELCOMED;
}

/* After a failed step: another try where one may help, later. */
static void fall_back(struct weft_net_dial *dial, int status)
{
    if (dial->state == WEFT_NET_DIAL_CONNECTING || status != WEFT_PEER_FAILED) {
        give_up(dial, status); /* nobody is there, or somebody else is */
        return;
    }
    dial->again_ns = weft_clock_ns() + dial->pause_ms * INT64_C(1000000);
    dial->pause_ms = weft_net_longer_pause(dial->pause_ms);
}

static void start_again(struct weft_net_dial *dial)
{
    dial->state = WEFT_NET_DIAL_CONNECTING;
    dial->have = 0;
    int status = weft_net_connect_start(&dial->address, &dial->fd);
    if (status != WEFT_OK)
        give_up(dial, status);
}

/* One look at each dial. Returns how many are still in flight, and when to look again at the latest. */
static int tend(struct weft_net_dial *dials, struct pollfd *wait, int count, int64_t *look_ns)
{
    int left = 0;
    for (int i = 0; i < count; i++) {
        struct weft_net_dial *dial = &dials[i];
        if (!is_under_way(dial))
            continue;
        if (dial->fd < 0 && weft_clock_ns() >= dial->again_ns) {
            start_again(dial);
        } else if (dial->fd >= 0 && wait[i].revents) {
            int status = weft_net_dial_step(dial);
            if (status != WEFT_OK)
                fall_back(dial, status);
        }
        if (!is_under_way(dial))
            continue;
        left++;
        if (dial->fd < 0 && dial->again_ns < *look_ns)
            *look_ns = dial->again_ns;
    }
    return left;
}

int weft_net_dial_all(struct weft_net_dial *dials, int count, int64_t deadline_ns, int (*check)(void *arg),
                      void *arg)
{
    struct pollfd *wait = calloc((size_t)count + 1, sizeof *wait);
    if (!wait)
        return weft_fail(WEFT_NOMEM, "no memory to connect to %d ranks", count);
    int64_t look_ns = deadline_ns;
    int status = WEFT_OK, left = tend(dials, wait, count, &look_ns);
    while (left > 0 && status == WEFT_OK && weft_clock_ns() < deadline_ns) {
        for (int i = 0; i < count; i++)
            wait[i] = (struct pollfd){.fd = is_under_way(&dials[i]) ? dials[i].fd : -1,
                                      .events = weft_net_dial_events(&dials[i])};
        weft_net_poll(wait, (unsigned)count, look_ns, check ? CHECK_MS : 1000);
        look_ns = deadline_ns;
        left = tend(dials, wait, count, &look_ns);
        status = check ? check(arg) : WEFT_OK;
    }
    free(wait);
    for (int i = 0; i < count && status == WEFT_OK; i++) {
        char text[WEFT_NET_ADDRESS_TEXT];
        if (is_under_way(&dials[i]))
            give_up(&dials[i], weft_fail(WEFT_TIMEOUT, "connect to %s: no handshake before the deadline",
                                         weft_net_address_text(&dials[i].address, 1, text)));
    }
    return status;
}
