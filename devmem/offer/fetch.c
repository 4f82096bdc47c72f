/* SPDX-License-Identifier: Apache-2.0 */
/* The importer's side. */
#include <errno.h>
#include <poll.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/fd_message.h"
#include "devmem/offer/wire.h"

#define PATIENCE_MS 2000

/* ECONNREFUSED also where the desk has gone in between. */
static int fail_reach(const struct weft_device_params *params, const struct weft_offer *offer, int error)
{
    if (error == ECONNREFUSED || error == ECONNRESET || error == EPIPE)
        return params->fail(
            WEFT_UNSUPPORTED,
            "device memory of process %d: nobody hands out its descriptor: the process has ended, "
            "or is in another network namespace",
            offer->pid);
    return params->fail(WEFT_SYSTEM, "device memory of process %d: reaching it for a descriptor: %s",
                        offer->pid, weft_errno_text(error));
}

static int fail_late(const struct weft_device_params *params, const struct weft_offer *offer)
{
    return params->fail(WEFT_UNSUPPORTED,
                        "device memory of process %d: it has not handed out the descriptor within %d ms",
                        offer->pid, PATIENCE_MS);
}

/* Its queue may be full for a moment. 0, or an errno; ETIME. */
static int reach(int socket_fd, const struct weft_offer *offer, int64_t until_ns)
{
    struct sockaddr_un name;
    const int length = offer_socket_name(offer->key, &name);
    while (connect(socket_fd, (struct sockaddr *)&name, (socklen_t)length) != 0) {
        if (errno != EAGAIN && errno != EINTR)
            return errno;
        if (weft_clock_ns() >= until_ns)
            return ETIME;
        poll(NULL, 0, 1);
    }
    return 0;
}

/* Whether something has come, or the other end is gone. */
static int await(int socket_fd, int64_t until_ns)
{
    struct pollfd polled = {.fd = socket_fd, .events = POLLIN};
    int left_ms;
    while ((left_ms = weft_clock_left_ms(until_ns, PATIENCE_MS)) > 0) {
        if (poll(&polled, 1, left_ms) == 1)
            return 1;
    }
    return 0;
}

static int take(const struct weft_device_params *params, const struct weft_offer *offer, int socket_fd,
                const struct offer_ask *ask, int *fd)
{
    struct offer_answer answer;
    uint8_t mac[WEFT_MAC_BYTES];
    int fds[WEFT_FD_MESSAGE_FDS], is_cut, status = WEFT_OK;
    ssize_t got = weft_fd_message_receive(socket_fd, &answer, sizeof answer, fds, &is_cut);
    int error = got < 0 || is_cut ? errno : got == 0 ? ECONNREFUSED : 0;
    if (got == (ssize_t)sizeof answer)
        offer_answer_prove(offer->key, ask, answer.status, mac);
    if (error)
        status = fail_reach(params, offer, error);
    else if (got != (ssize_t)sizeof answer || is_cut || !weft_crypto_equal(mac, answer.mac, sizeof mac))
        status = params->fail(WEFT_PROTOCOL,
                              "device memory of process %d: what answers at its socket is not this process",
                              offer->pid);
    else if (answer.status != OFFER_GIVEN || fds[0] < 0)
        status = params->fail(
            WEFT_PROTOCOL, "a handle of device memory is not, or no longer, one of process %d's", offer->pid);
    if (status == WEFT_OK) {
        *fd = fds[0];
        fds[0] = -1;
    }
    weft_fd_message_close(fds);
    return status;
}

static int ask_for(const struct weft_device_params *params, const struct weft_offer *offer, int socket_fd,
                   int *fd)
{
    const int64_t until_ns = weft_deadline_ns(PATIENCE_MS);
    struct offer_ask ask = {.magic = OFFER_MAGIC, .slot = offer->slot, .serial = offer->serial};
    weft_crypto_random(ask.nonce, sizeof ask.nonce);
    offer_ask_prove(offer->key, &ask,
                    ask.mac); /* before it is a guest there, where it must not be silent for long */
    int error = reach(socket_fd, offer, until_ns);
    if (!error)
        error = weft_fd_message_send(socket_fd, &ask, sizeof ask, NULL, 0);
    if (error && error != ETIME)
        return fail_reach(params, offer, error);
    if (error || !await(socket_fd, until_ns))
        return fail_late(params, offer);
    return take(params, offer, socket_fd, &ask, fd);
}

int weft_offer_fetch(const struct weft_device_params *params, const struct weft_offer *offer, int *fd)
{
    if (weft_crypto_init() != WEFT_OK)
        return params->fail(WEFT_SYSTEM, "%s", "no randomness to ask another process for a descriptor with");
    int socket_fd = weft_fd_add(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (socket_fd < 0)
        return fail_reach(params, offer, errno);
    int status = ask_for(params, offer, socket_fd, fd);
    weft_fd_close(socket_fd);
    return status;
}
