/* SPDX-License-Identifier: Apache-2.0 */
/* The receiving end of a peer's link. Runs on the service thread, under the lock. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>
#include "base/fd.h"
#include "base/log.h"
#include "transport/shm/shm_private.h"

#define FRAMES_PER_CALL 64

/* Reads the connector's probe. Returns 0, or why this process cannot read that one's memory. */
static int probe_read(int pid, const struct shm_frame *hello)
{
    uint64_t found = 0;
    struct iovec local = {&found, sizeof found};
    struct iovec remote = {(void *)(uintptr_t)hello->probe_address, sizeof found};
    if (pid <= 0)
        return ESRCH; /* another PID namespace */
    if (process_vm_readv(pid, &local, 1, &remote, 1, 0) != (ssize_t)sizeof found)
        return errno ? errno : EPERM;
    return found == hello->nonce ? 0 : ESRCH;
}

/* The peer's control pages, of which one copy is enough. */
static int control_take(struct shm_peer *peer, struct weft_transport *transport, int fd)
{
    void *control;
    if (atomic_load_explicit(&peer->control, memory_order_relaxed))
        return WEFT_OK;
    int status = shm_memfd_map(transport, fd, SHM_CONTROL_BYTES, 0, SHM_CONTROL_BYTES, &control);
    if (status == WEFT_OK)
        atomic_store_explicit(&peer->control, control, memory_order_release);
    return status;
}

/* Checks a HELLO and brings the channel up. */
static int hello_take(struct shm_channel *channel, const struct shm_frame *hello,
                      const int fds[SHM_FRAME_FDS])
{
    struct weft_transport *transport = channel->transport;
    int pid;
    void *memory;
    int status = shm_socket_peer(transport, channel->fd, &pid);
    if (status)
        return status;
    if (memcmp(&hello->target, &transport->address.identity, sizeof hello->target) != 0 ||
        memcmp(&hello->source, &channel->source, sizeof hello->source) != 0)
        return transport->params.fail(WEFT_PROTOCOL, "shm: a peer takes this instance for another");
    status = shm_memfd_check(transport, fds[0], SHM_RING_BYTES);
    if (!status)
        status = shm_memfd_check(transport, fds[1], SHM_CONTROL_BYTES);
    if (status)
        return status;
    /* The receiver touches the pages first, so that they lie near it. */
    status = shm_memfd_map(transport, fds[0], SHM_RING_BYTES, 1,
                           SHM_RING_CONTROL + SHM_RING_RECORDS + SHM_FEED_MARKS_BYTES, &memory);
    if (status)
        return status;
    struct shm_frame reply = {.magic = SHM_FRAME_MAGIC,
                              .version = SHM_VERSION,
                              .kind = SHM_REPLY,
                              .flags = transport->light ? SHM_PEER_LIGHT : 0,
                              .nonce = hello->nonce};
    reply.flags |= SHM_PEER_MAPS;
    if (transport->direct) {
        reply.probe_errno = probe_read(pid, hello);
        reply.flags |= reply.probe_errno ? 0 : SHM_PEER_PULLS;
    }
    struct shm_peer *peer = shm_peer_get(transport, &hello->source);
    if (!peer) {
        munmap(memory, SHM_RING_BYTES);
        return transport->params.fail(WEFT_NOMEM, "shm: no memory for a peer");
    }
    atomic_store_explicit(&peer->pid, reply.flags & SHM_PEER_PULLS ? pid : 0, memory_order_release);
    channel->peer = peer;
    channel->ring =
        (struct shm_consumer){.memory = memory, .key = hello->key, .expected = shm_stamp(hello->key, 0)};
    status = control_take(peer, transport, fds[1]);
    if (status)
        return status; /* the channel's end gives everything back */
    const int own[] = {transport->control_fd, transport->event_fd};
    status = shm_frame_send(transport, channel->fd, &reply, own, 2);
    if (status)
        return status;
    atomic_store_explicit(&channel->state, SHM_CHANNEL_UP, memory_order_release);
    shm_attention(transport);
    return WEFT_OK;
}

static int segment_take(struct shm_channel *channel, const struct shm_frame *frame, int fd)
{
    struct weft_transport *transport = channel->transport;
    for (struct shm_mapping *m = channel->peer->mappings; m; m = m->next) {
        if (m->id == frame->segment)
            return WEFT_OK; /* sent again by a second link of the same peer */
    }
    int status = shm_memfd_check(transport, fd, frame->size);
    if (status)
        return status;
    struct shm_mapping *mapping = calloc(1, sizeof *mapping);
    if (!mapping)
        return transport->params.fail(WEFT_NOMEM, "shm: no memory for a mapping");
    status = shm_memfd_map(transport, fd, frame->size, 0, 0, &mapping->base);
    if (status) {
        free(mapping);
        return status;
    }
    mapping->id = frame->segment;
    mapping->size = frame->size;
    mapping->next = channel->peer->mappings;
    channel->peer->mappings = mapping;
    return WEFT_OK;
}

static void segment_drop(struct shm_channel *channel, uint64_t id)
{
    for (struct shm_mapping *m = channel->peer->mappings; m; m = m->next) {
        if (m->id == id)
            m->freed = 1;
    }
    shm_attention(channel->transport);
}

/* One frame. WEFT_AGAIN: none there. */
static int frame_take(struct shm_channel *channel)
{
    struct weft_transport *transport = channel->transport;
    struct shm_frame frame;
    int fds[SHM_FRAME_FDS];
    int status = shm_frame_receive(transport, channel->fd, &frame, fds);
    if (status)
        return status;
    int up = atomic_load_explicit(&channel->state, memory_order_relaxed) == SHM_CHANNEL_UP;
    if (frame.kind == SHM_HELLO && !up && !channel->peer)
        status = hello_take(channel, &frame, fds);
    else if (frame.kind == SHM_SEGMENT && up)
        status = segment_take(channel, &frame, fds[0]);
    else if (frame.kind == SHM_FREE && up)
        segment_drop(channel, frame.segment);
    else
        status = transport->params.fail(WEFT_PROTOCOL, "shm: unexpected frame of kind %u", frame.kind);
    for (int i = 0; i < SHM_FRAME_FDS; i++) {
        if (fds[i] >= 0)
            weft_fd_close(fds[i]);
    }
    return status == WEFT_AGAIN ? WEFT_TRANSPORT : status;
}

int shm_channel_refresh(struct shm_channel *channel)
{
    int status = WEFT_OK;
    while (atomic_load_explicit(&channel->state, memory_order_relaxed) == SHM_CHANNEL_UP &&
           channel->failure == WEFT_OK && status == WEFT_OK)
        status = frame_take(channel);
    /* The end of the channel is left where it is: the service thread will find it, too. A frame that could not be taken is gone. */
    if (status == WEFT_OK || status == WEFT_AGAIN || status == WEFT_PEER_FAILED)
        return channel->failure;
    channel->failure = status;
    return status;
}

/* Under the lock: after it, the service thread does not touch the channel any more. */
static void channel_die(struct shm_channel *channel, int status)
{
    struct weft_transport *transport = channel->transport;
    if (status != WEFT_PEER_FAILED && transport->params.log)
        transport->params.log(WEFT_LOG_WARN, "shm: refused a peer: status %d", status);
    if (channel->watched)
        transport->params.unwatch(transport->params.watch_arg, channel->fd);
    channel->watched = 0;
    atomic_store_explicit(&channel->state, SHM_CHANNEL_DEAD, memory_order_release);
    shm_attention(transport);
}

static void channel_ready(void *arg, int fd)
{
    (void)fd;
    struct shm_channel *channel = arg;
    struct weft_transport *transport = channel->transport;
    pthread_mutex_lock(&transport->lock);
    int status = channel->failure;
    for (int i = 0; i < FRAMES_PER_CALL && channel->watched && status == WEFT_OK; i++)
        status = frame_take(channel);
    if (channel->watched && status && status != WEFT_AGAIN)
        channel_die(channel, status);
    pthread_mutex_unlock(&transport->lock);
}

int shm_channel_make(struct weft_transport *transport, int fd, const struct shm_identity *source)
{
    struct shm_channel *channel = calloc(1, sizeof *channel);
    if (!channel)
        return transport->params.fail(WEFT_NOMEM, "shm: no memory for a channel");
    channel->transport = transport;
    channel->fd = fd;
    channel->source = *source;
    channel->watched = 1;
    int status = transport->params.watch(transport->params.watch_arg, fd, channel_ready, channel);
    if (status) {
        free(channel);
        return status;
    }
    channel->next = transport->channels;
    transport->channels = channel;
    return WEFT_OK;
}

void shm_channel_free(struct shm_channel *channel)
{
    struct weft_transport *transport = channel->transport;
    pthread_mutex_lock(&transport->lock);
    int watched = channel->watched;
    channel->watched = 0;
    pthread_mutex_unlock(&transport->lock);
    if (watched)
        transport->params.unwatch(transport->params.watch_arg, channel->fd);
    weft_fd_close(channel->fd);
    if (channel->ring.memory)
        munmap(channel->ring.memory, SHM_RING_BYTES);
    pthread_mutex_lock(&transport->lock);
    struct shm_channel **at = &transport->channels;
    while (*at && *at != channel)
        at = &(*at)->next;
    if (*at)
        *at = channel->next;
    if (channel->peer)
        shm_peer_put(transport, channel->peer);
    pthread_mutex_unlock(&transport->lock);
    free(channel);
}
