/* SPDX-License-Identifier: Apache-2.0 */
/* The sending end: made by connect(), brought up on the service thread: challenge, welcome, reply (wire.h). */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/fd.h"
#include "transport/shm/shm_private.h"

/* How long, and how often, a link that is thrown out before it is known dials again. */
#define DIAL_NS       5000000000
#define DIAL_PAUSE_NS 1000000

#define SHM_BLOCK_MAX sizeof(struct shm_challenge)
_Static_assert(sizeof(struct shm_welcome) <= SHM_BLOCK_MAX, "the challenge is the longest block");

int shm_link_down(struct weft_link *link)
{
    return link->transport->params.fail(link->fail_status ? link->fail_status : WEFT_PEER_FAILED,
                                        "shm: the peer process has gone, or refused this one");
}

/* Under the lock. */
static void link_fail(struct weft_link *link, int status)
{
    link->fail_status = status;
    atomic_store_explicit(&link->state, SHM_LINK_FAILED, memory_order_release);
    shm_attention(link->transport);
}

/* Takes what the peer can do, its control pages and its event descriptor. */
static int reply_take(struct weft_link *link, const struct shm_frame *reply, int fds[SHM_FRAME_FDS])
{
    struct weft_transport *transport = link->transport;
    if (reply->kind != SHM_REPLY || reply->nonce != link->nonce || link->control)
        return transport->params.fail(WEFT_PROTOCOL, "shm: unexpected answer of kind %u", reply->kind);
    int status = shm_memfd_check(transport, fds[0], SHM_CONTROL_BYTES);
    if (status)
        return status;
    struct stat found;
    int flags = fcntl(fds[1], F_GETFL);
    /* Writing to a pipe or socket could raise SIGPIPE; to an event descriptor it cannot. */
    if (flags < 0 || fstat(fds[1], &found) || S_ISFIFO(found.st_mode) || S_ISSOCK(found.st_mode) ||
        fcntl(fds[1], F_SETFL, flags | O_NONBLOCK))
        return transport->params.fail(WEFT_PROTOCOL, "shm: a peer's answer lacks its event descriptor");
    void *control;
    status = shm_memfd_map(transport, fds[0], SHM_CONTROL_BYTES, 0, SHM_CONTROL_BYTES, &control);
    if (status)
        return status;
    link->control = control;
    link->wake_fd = fds[1];
    fds[1] = -1;
    link->light = transport->light && (reply->flags & SHM_PEER_LIGHT);
    link->demotes = transport->demotes;
    link->flags |= reply->flags & SHM_PEER_MAPS ? WEFT_LINK_PEER_MAPS : 0;
    if (transport->direct) {
        link->flags |= reply->flags & SHM_PEER_PULLS ? WEFT_LINK_PEER_PULLS : 0;
        link->probe_errno = reply->probe_errno;
    }
    atomic_store_explicit(&link->state, SHM_LINK_UP, memory_order_release);
    shm_attention(transport);
    return WEFT_OK;
}

/* Makes the ring and introduces it. */
static int hello_send(struct weft_link *link)
{
    struct weft_transport *transport = link->transport;
    int ring_fd;
    weft_crypto_random(&link->nonce, sizeof link->nonce);
    weft_crypto_random(&link->ring.key, sizeof link->ring.key);
    link->ring.key |= 1; /* so that an untouched ring holds no stamp: the first one is the key */
    int status = shm_memfd_make(transport, SHM_RING_BYTES, &ring_fd);
    if (status)
        return status;
    void *memory = NULL;
    status = shm_memfd_seal(transport, ring_fd, 0);
    if (!status)
        status = shm_memfd_map(transport, ring_fd, SHM_RING_BYTES, 1, 0, &memory);
    if (status)
        goto close_ring;
    link->ring.memory = memory;
    link->probe = link->nonce;
    struct shm_frame hello = {.magic = SHM_FRAME_MAGIC,
                              .version = SHM_VERSION,
                              .kind = SHM_HELLO,
                              .flags = transport->light ? SHM_PEER_LIGHT : 0,
                              .source = transport->address.identity,
                              .target = link->peer->identity,
                              .nonce = link->nonce,
                              .probe_address = (uint64_t)(uintptr_t)&link->probe,
                              .key = link->ring.key};
    const int fds[] = {ring_fd, transport->control_fd};
    status = shm_frame_send(transport, link->fd, &hello, fds, 2);
    if (status == WEFT_AGAIN)
        status = transport->params.fail(WEFT_TRANSPORT, "shm: a new socket takes no frame");
close_ring:
    weft_fd_close(ring_fd);
    return status;
}

/* Reads a message of exactly this size. */
static int block_receive(struct weft_link *link, void *block, size_t size)
{
    uint8_t raw[SHM_BLOCK_MAX + 1]; /* one more, to see when it is too long */
    ssize_t got = weft_fd_recv(link->fd, raw, size + 1, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return WEFT_AGAIN;
    if (got <= 0)
        return WEFT_PEER_FAILED;
    if (got != (ssize_t)size)
        return link->transport->params.fail(WEFT_PROTOCOL, "shm: %zd bytes of a handshake: expected %zu", got,
                                            size);
    memcpy(block, raw, size);
    return WEFT_OK;
}

static int challenge_take(struct weft_link *link)
{
    struct weft_transport *transport = link->transport;
    int status = block_receive(link, &link->challenge, sizeof link->challenge);
    if (status)
        return status;
    if (link->challenge.magic != SHM_CHALLENGE_MAGIC || link->challenge.version != SHM_VERSION)
        return transport->params.fail(WEFT_PROTOCOL, "shm: a peer's challenge is not of version %u",
                                      SHM_VERSION);
    shm_proof_make(&link->key, &link->challenge, &transport->address.identity, &link->peer->identity,
                   &link->proof);
    link->step = SHM_STEP_WELCOME;
    ssize_t sent = weft_fd_send(link->fd, &link->proof, sizeof link->proof, MSG_NOSIGNAL | MSG_DONTWAIT);
    return sent == (ssize_t)sizeof link->proof ? WEFT_OK : WEFT_PEER_FAILED;
}

static int welcome_take(struct weft_link *link)
{
    struct shm_welcome welcome;
    int status = block_receive(link, &welcome, sizeof welcome);
    if (status)
        return status;
    if (!shm_welcome_check(&link->key, &link->challenge, &link->peer->identity, &link->proof, &welcome))
        return link->transport->params.fail(WEFT_ACCESS,
                                            "shm: who answers at a peer's address does not know its key");
    link->step = SHM_STEP_REPLY;
    return hello_send(link);
}

static int frame_take(struct weft_link *link)
{
    struct shm_frame frame;
    int fds[SHM_FRAME_FDS];
    int status = shm_frame_receive(link->transport, link->fd, &frame, fds);
    if (status)
        return status;
    status = reply_take(link, &frame, fds);
    for (int i = 0; i < SHM_FRAME_FDS; i++)
        weft_fd_close(fds[i]);
    return status;
}

/* Under the lock, on the service thread. */
static void link_lost(struct weft_link *link, int status)
{
    struct weft_transport *transport = link->transport;
    /* Under the lock, so that nobody frees the link before this call is over. */
    link->watched = 0;
    transport->params.unwatch(transport->params.watch_arg, link->fd);
    /* Before the WELCOME it may be that strangers crowd the listener, which then drops the oldest. */
    if (status != WEFT_PEER_FAILED || link->step == SHM_STEP_REPLY || weft_clock_ns() > link->dial_until_ns) {
        link_fail(link, status);
        return;
    }
    weft_fd_close(link->fd);
    link->fd = -1;
    link->dial_ns = weft_clock_ns() + DIAL_PAUSE_NS;
    atomic_store_explicit(&link->state, SHM_LINK_DIALING, memory_order_release);
    shm_attention(transport);
}

static void link_ready(void *arg, int fd)
{
    struct weft_link *link = arg;
    struct weft_transport *transport = link->transport;
    (void)fd;
    pthread_mutex_lock(&transport->lock);
    int status = WEFT_AGAIN;
    if (link->watched)
        status = link->step == SHM_STEP_CHALLENGE ? challenge_take(link)
                 : link->step == SHM_STEP_WELCOME ? welcome_take(link)
                                                  : frame_take(link);
    if (status && status != WEFT_AGAIN)
        link_lost(link, status);
    pthread_mutex_unlock(&transport->lock);
}

/* Reaches the listener. WEFT_AGAIN: its queue is full now, or it is too early to try again. */
static int link_dial(struct weft_link *link)
{
    struct weft_transport *transport = link->transport;
    struct sockaddr_un name;
    int pid, length = shm_socket_name(&link->peer->identity, &name);
    if (link->dial_ns && weft_clock_ns() < link->dial_ns)
        return WEFT_AGAIN;
    if (link->fd < 0)
        link->fd = weft_fd_add(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (link->fd < 0)
        return transport->params.fail(WEFT_SYSTEM, "shm: socket: %s", weft_errno_text(errno));
    if (connect(link->fd, (struct sockaddr *)&name, (socklen_t)length)) {
        if (errno == EAGAIN || errno == EINTR)
            return WEFT_AGAIN;
        return transport->params.fail(WEFT_PEER_FAILED, "shm: connecting to a peer on this host: %s",
                                      weft_errno_text(errno));
    }
    int status = shm_socket_peer(transport, link->fd, &pid);
    if (status)
        return status;
    link->step = SHM_STEP_CHALLENGE;
    link->watched = 1;
    atomic_store_explicit(&link->state, SHM_LINK_WAITING, memory_order_release);
    status = transport->params.watch(transport->params.watch_arg, link->fd, link_ready, link);
    if (status)
        link->watched = 0;
    return status;
}

int shm_link_redial(struct weft_link *link)
{
    struct weft_transport *transport = link->transport;
    int status = link_dial(link);
    if (status && status != WEFT_AGAIN) {
        pthread_mutex_lock(&transport->lock);
        link_fail(link, status);
        pthread_mutex_unlock(&transport->lock);
    }
    return status == WEFT_AGAIN;
}

/* Gives everything of a link back; it is in no list any more. */
static void link_free(struct weft_link *link)
{
    struct weft_transport *transport = link->transport;
    pthread_mutex_lock(&transport->lock);
    int watched = link->watched;
    link->watched = 0;
    pthread_mutex_unlock(&transport->lock);
    if (watched)
        transport->params.unwatch(transport->params.watch_arg, link->fd);
    weft_fd_close(link->fd);
    transport->exposures -= link->exposures;
    shm_feed_end(link);
    if (link->wake_fd >= 0)
        weft_fd_close(link->wake_fd);
    if (link->ring.memory)
        munmap(link->ring.memory, SHM_RING_BYTES);
    if (link->control)
        munmap(link->control, SHM_CONTROL_BYTES);
    pthread_mutex_lock(&transport->lock);
    shm_peer_put(transport, link->peer);
    pthread_mutex_unlock(&transport->lock);
    weft_crypto_wipe(&link->key, sizeof link->key);
    free(link->sent);
    free(link->reads);
    free(link);
}

static int link_make(struct weft_transport *transport, const struct shm_address *address, void *link_context,
                     struct weft_link **result)
{
    struct weft_link *link = calloc(1, sizeof *link);
    if (!link)
        return transport->params.fail(WEFT_NOMEM, "shm: no memory for a link");
    link->transport = transport;
    link->context = link_context;
    link->count = 1;
    link->wake_fd = -1;
    link->fd = -1;
    link->key = address->key;
    link->dial_until_ns = weft_clock_ns() + DIAL_NS;
    pthread_mutex_lock(&transport->lock);
    link->peer = shm_peer_get(transport, &address->identity);
    pthread_mutex_unlock(&transport->lock);
    if (!link->peer) {
        free(link);
        return transport->params.fail(WEFT_NOMEM, "shm: no memory for a peer");
    }
    int status = link_dial(link);
    if (status && status != WEFT_AGAIN) {
        link_free(link);
        return status;
    }
    if (status)
        shm_attention(transport); /* poll() dials again */
    *result = link;
    return WEFT_OK;
}

int shm_connect(struct weft_transport *transport, const void *address, size_t size, void *link_context,
                struct weft_link **result)
{
    struct shm_address peer;
    if (size != sizeof peer || memcmp(address, &transport->address, sizeof peer.magic) != 0)
        return transport->params.fail(WEFT_INVALID, "shm: %zu bytes that are no address of this version",
                                      size);
    memcpy(&peer, address, sizeof peer);
    for (struct weft_link *link = transport->links; link; link = link->next) {
        if (memcmp(&link->peer->identity, &peer.identity, sizeof peer.identity) == 0 &&
            atomic_load_explicit(&link->state, memory_order_relaxed) != SHM_LINK_FAILED) {
            link->count++;
            *result = link;
            return WEFT_OK;
        }
    }
    struct weft_link *link = NULL;
    int status = link_make(transport, &peer, link_context, &link);
    if (status)
        return status;
    link->next = transport->links;
    transport->links = link;
    *result = link;
    return WEFT_OK;
}

void shm_disconnect(struct weft_link *link)
{
    struct weft_link **at = &link->transport->links;
    if (--link->count > 0)
        return;
    while (*at != link)
        at = &(*at)->next;
    *at = link->next;
    link_free(link);
}
