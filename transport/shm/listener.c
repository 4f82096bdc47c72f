/* SPDX-License-Identifier: Apache-2.0 */
/* The listener: whoever connects is a stranger until it has proven the key. Runs on the service thread, under the
 * lock.
 *
 * A stranger costs one descriptor and a small block. It gets a challenge at once; the one thing read from it is
 * one message of the proof's size, without room for descriptors, and nothing in it is looked at before its HMAC is
 * right. There are never more than SHM_STRANGERS_MAX: the oldest goes, and an honest one that is thrown out with
 * it dials again (link.c). Silent ones go after SHM_PROOF_NS.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/log.h"
#include "transport/shm/shm_private.h"

#define SHM_STRANGERS_MAX 256u
#define SHM_PROOF_NS      2000000000
#define ACCEPTS_PER_CALL  64

struct shm_stranger {
    struct shm_challenge challenge;
    struct weft_transport *transport;
    int fd;
    int64_t since_ns;
    struct shm_stranger *next; /* younger */
};

static void timer_set(struct weft_transport *transport, int on)
{
    struct itimerspec when = {.it_value.tv_sec = on, .it_interval.tv_sec = on};
    if (weft_fd_is_own(transport->timer_fd))
        timerfd_settime(transport->timer_fd, 0, &when, NULL);
}

/* Takes it out of the list; its descriptor stays open. 0 when it is not there any more. */
static int stranger_remove(struct weft_transport *transport, const struct shm_stranger *stranger)
{
    struct shm_stranger **at = &transport->strangers;
    while (*at && *at != stranger)
        at = &(*at)->next;
    if (!*at)
        return 0;
    *at = stranger->next;
    transport->stranger_count--;
    return 1;
}

/* On the service thread, where unwatch() does not wait. */
static void stranger_drop(struct weft_transport *transport, struct shm_stranger *stranger, const char *why)
{
    stranger_remove(transport, stranger);
    if (transport->params.log)
        transport->params.log(transport->strangers_dropped++ ? WEFT_LOG_DEBUG : WEFT_LOG_WARN,
                              "shm: dropped a connection that did not prove this job's secret: %s", why);
    transport->params.unwatch(transport->params.watch_arg, stranger->fd);
    weft_fd_close(stranger->fd);
    free(stranger);
}

/* The proof is right: what remains of the stranger is a channel. */
static void stranger_admit(struct weft_transport *transport, struct shm_stranger *stranger,
                           const struct shm_proof *proof, const struct shm_welcome *welcome)
{
    int fd = stranger->fd;
    stranger_remove(transport, stranger);
    free(stranger);
    transport->params.unwatch(transport->params.watch_arg, fd);
    if (weft_fd_send(fd, welcome, sizeof *welcome, MSG_NOSIGNAL | MSG_DONTWAIT) != (ssize_t)sizeof *welcome ||
        shm_channel_make(transport, fd, &proof->source))
        weft_fd_close(fd);
}

static void stranger_ready(void *arg, int fd)
{
    struct shm_stranger *stranger = arg;
    struct weft_transport *transport = stranger->transport;
    struct shm_proof proof;
    struct shm_welcome welcome;
    uint8_t raw[sizeof proof + 1]; /* one more, to see when it is too long */
    pthread_mutex_lock(&transport->lock);
    if (transport->closing) { /* shm_listener_close() has it */
        pthread_mutex_unlock(&transport->lock);
        return;
    }
    ssize_t got = weft_fd_recv(fd, raw, sizeof raw, MSG_DONTWAIT);
    if (got == (ssize_t)sizeof proof) {
        memcpy(&proof, raw, sizeof proof);
        if (shm_proof_check(&transport->address.key, &stranger->challenge, &transport->address.identity,
                            &proof, &welcome))
            stranger_admit(transport, stranger, &proof, &welcome);
        else
            stranger_drop(transport, stranger, "a wrong proof");
    } else if (got >= 0 || (errno != EAGAIN && errno != EINTR)) {
        stranger_drop(transport, stranger, got > 0 ? "no proof at all" : "it hung up");
    }
    pthread_mutex_unlock(&transport->lock);
}

/* Under the lock. */
static void stranger_add(struct weft_transport *transport, int fd)
{
    int pid;
    struct shm_stranger *stranger = NULL, **tail = &transport->strangers;
    if (shm_socket_peer(transport, fd, &pid) == WEFT_OK)
        stranger = calloc(1, sizeof *stranger);
    if (!stranger)
        goto close_fd;
    stranger->transport = transport;
    stranger->fd = fd;
    stranger->since_ns = weft_clock_ns();
    shm_challenge_make(&stranger->challenge);
    if (weft_fd_send(fd, &stranger->challenge, sizeof stranger->challenge, MSG_NOSIGNAL | MSG_DONTWAIT) !=
            (ssize_t)sizeof stranger->challenge ||
        transport->params.watch(transport->params.watch_arg, fd, stranger_ready, stranger))
        goto free_stranger;
    if (transport->stranger_count == SHM_STRANGERS_MAX)
        stranger_drop(transport, transport->strangers, "too many at once");
    while (*tail)
        tail = &(*tail)->next;
    *tail = stranger;
    if (transport->stranger_count++ == 0)
        timer_set(transport, 1);
    return;

free_stranger:
    free(stranger);
close_fd:
    weft_fd_close(fd);
}

static void timer_ready(void *arg, int fd)
{
    struct weft_transport *transport = arg;
    uint64_t times;
    ssize_t got = weft_fd_read(fd, &times, sizeof times);
    (void)got; /* whoever was late finds it read already */
    pthread_mutex_lock(&transport->lock);
    int64_t old_ns = weft_clock_ns() - SHM_PROOF_NS;
    while (!transport->closing && transport->strangers && transport->strangers->since_ns < old_ns)
        stranger_drop(transport, transport->strangers, "it kept silent");
    if (!transport->strangers)
        timer_set(transport, 0);
    pthread_mutex_unlock(&transport->lock);
}

static void listener_ready(void *arg, int listen_fd)
{
    struct weft_transport *transport = arg;
    int full = 0;
    pthread_mutex_lock(&transport->lock);
    /* A flood must not keep the proofs of those waiting that have come through. */
    for (int i = 0; i < ACCEPTS_PER_CALL && !transport->closing; i++) {
        int fd = weft_fd_add(accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK));
        if (fd >= 0) {
            stranger_add(transport, fd);
        } else if (errno != EINTR && errno != ECONNABORTED) {
            weft_limits_note(errno);
            full = errno == EMFILE || errno == ENFILE;
            break;
        }
    }
    pthread_mutex_unlock(&transport->lock);
    if (full) { /* the listener stays readable: do not let the service thread spin on it */
        weft_log_once(WEFT_LOG_WARN,
                      "shm: no descriptor left to accept a peer: raise the limit of open files "
                      "(ulimit -n)");
        usleep(10000);
    }
}

int shm_listener_watch(struct weft_transport *transport)
{
    const struct weft_transport_params *params = &transport->params;
    transport->timer_fd = weft_fd_add(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
    if (transport->timer_fd < 0)
        return transport->params.fail(WEFT_SYSTEM, "shm: timerfd: %s", weft_errno_text(errno));
    int status = params->watch(params->watch_arg, transport->timer_fd, timer_ready, transport);
    if (status == WEFT_OK) {
        status = params->watch(params->watch_arg, transport->listen_fd, listener_ready, transport);
        if (status)
            params->unwatch(params->watch_arg, transport->timer_fd);
    }
    transport->listening = status == WEFT_OK;
    return status;
}

void shm_listener_close(struct weft_transport *transport)
{
    const struct weft_transport_params *params = &transport->params;
    pthread_mutex_lock(&transport->lock);
    transport->closing = 1; /* callbacks that wait for the lock touch nothing any more */
    pthread_mutex_unlock(&transport->lock);
    if (transport->listening) {
        params->unwatch(params->watch_arg, transport->listen_fd);
        params->unwatch(params->watch_arg, transport->timer_fd);
    }
    while (transport->strangers) {
        struct shm_stranger *stranger = transport->strangers;
        transport->strangers = stranger->next;
        params->unwatch(params->watch_arg, stranger->fd);
        weft_fd_close(stranger->fd);
        free(stranger);
    }
    weft_fd_close(transport->listen_fd);
    weft_fd_close(transport->timer_fd);
}
