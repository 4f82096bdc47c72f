/* SPDX-License-Identifier: Apache-2.0 */
/* The shm transport: instances, addresses, peers.
 *
 * An instance listens on an abstract socket (wire.h has the handshake). Its links are the sending ends, its
 * channels the receiving ends of peers' links; a peer object joins what belongs to one other instance.
 * Nothing has a name on any file system, so that nothing remains when all processes are killed.
 *
 * Threads. The service thread accepts, shakes hands, takes in segments and notices closed sockets, all under
 * the transport's lock; it then sets `attention`, and the polling thread takes over what has changed at its
 * next poll(). Rings, the list of links, segments and adopted channels belong to the polling thread. A
 * watched descriptor whose socket has closed is unwatched by its own callback under the lock, so that whoever
 * then finds `watched` unset under the lock knows that no callback runs.
 *
 * Sleeping. Peers map this instance's control pages and read its sleep word after each message (fence.h); odd
 * means asleep, and they write to the event descriptor. Every sleep has another number, so that a link
 * rings once per sleep.
 */
#include "transport/shm/shm.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include "base/demote.h"
#include "base/fd.h"
#include "base/file.h"
#include "base/fence.h"
#include "transport/shm/shm_private.h"

#ifndef SO_NETNS_COOKIE
#define SO_NETNS_COOKIE 71
#endif

struct shm_peer *shm_peer_get(struct weft_transport *transport, const struct shm_identity *identity)
{
    for (struct shm_peer *peer = transport->peers; peer; peer = peer->next) {
        if (memcmp(&peer->identity, identity, sizeof *identity) == 0) {
            peer->references++;
            return peer;
        }
    }
    struct shm_peer *peer = calloc(1, sizeof *peer);
    if (!peer)
        return NULL;
    peer->identity = *identity;
    peer->references = 1;
    peer->next = transport->peers;
    transport->peers = peer;
    return peer;
}

void shm_peer_put(struct weft_transport *transport, struct shm_peer *peer)
{
    if (--peer->references > 0)
        return;
    struct shm_peer **at = &transport->peers;
    while (*at != peer)
        at = &(*at)->next;
    *at = peer->next;
    while (peer->mappings) {
        struct shm_mapping *mapping = peer->mappings;
        peer->mappings = mapping->next;
        munmap(mapping->base, mapping->size);
        free(mapping);
    }
    struct shm_control *control = atomic_load_explicit(&peer->control, memory_order_relaxed);
    if (control)
        munmap(control, SHM_CONTROL_BYTES);
    free(peer);
}

void shm_attention(struct weft_transport *transport)
{
    atomic_store_explicit(&transport->attention, 1, memory_order_release);
    weft_fence_full();
    if (atomic_load_explicit(&transport->control->sleep, memory_order_relaxed) & 1) {
        uint64_t one = 1;
        ssize_t written = weft_fd_write(transport->event_fd, &one, sizeof one);
        (void)written; /* a full counter is readable too */
    }
}

/* The kernel's boot id: 32 hexadecimal digits with dashes. Zeros when it cannot be read. */
static void boot_read(uint8_t boot[16])
{
    char text[40] = "";
    ssize_t got = weft_file_read("/proc/sys/kernel/random/boot_id", text, sizeof text);
    size_t digits = 0;
    memset(boot, 0, 16);
    for (ssize_t i = 0; i < got && digits < 32; i++) {
        int c = text[i];
        int value = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
        if (value < 0)
            continue;
        boot[digits / 2] = (uint8_t)(boot[digits / 2] << 4 | value);
        digits++;
    }
}

/* Who and where this instance is. */
static int address_make(struct weft_transport *transport)
{
    struct shm_address *address = &transport->address;
    struct stat net;
    socklen_t size = sizeof address->net_cookie;
    memset(address, 0, sizeof *address);
    address->magic = SHM_ADDRESS_MAGIC;
    address->version = SHM_VERSION;
    address->uid = geteuid();
    boot_read(address->boot);
    if (getsockopt(transport->listen_fd, SOL_SOCKET, SO_NETNS_COOKIE, &address->net_cookie, &size))
        address->net_cookie = 0; /* before Linux 5.14 */
    if (stat("/proc/self/ns/net", &net) == 0)
        address->net_inode = net.st_ino;
    address->identity.words[0] = transport->params.instance;
    int status = weft_crypto_init();
    if (status)
        return status;
    weft_crypto_random(&address->identity.words[1], sizeof address->identity.words[1]);
    weft_crypto_random(&address->key, sizeof address->key);
    return WEFT_OK;
}

static int listener_open(struct weft_transport *transport)
{
    transport->listen_fd = weft_fd_add(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (transport->listen_fd < 0)
        return transport->params.fail(WEFT_SYSTEM, "shm: socket: %s", weft_errno_text(errno));
    int status = address_make(transport);
    if (status)
        return status;
    struct sockaddr_un name;
    int length = shm_socket_name(&transport->address.identity, &name);
    if (bind(transport->listen_fd, (struct sockaddr *)&name, (socklen_t)length) ||
        listen(transport->listen_fd, SOMAXCONN))
        return transport->params.fail(WEFT_SYSTEM, "shm: listening on an abstract socket: %s",
                                      weft_errno_text(errno));
    return WEFT_OK;
}

static int control_open(struct weft_transport *transport)
{
    void *control;
    transport->event_fd = weft_fd_add(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
    if (transport->event_fd < 0)
        return transport->params.fail(WEFT_SYSTEM, "shm: eventfd: %s", weft_errno_text(errno));
    int status = shm_memfd_make(transport, SHM_CONTROL_BYTES, &transport->control_fd);
    if (!status)
        status = shm_memfd_map(transport, transport->control_fd, SHM_CONTROL_BYTES, 1, SHM_CONTROL_BYTES,
                               &control);
    if (status)
        return status;
    transport->control = control;
    transport->exposed = calloc(SHM_CELLS, sizeof *transport->exposed);
    if (!transport->exposed)
        return transport->params.fail(WEFT_NOMEM, "shm: no memory for %zu cells", (size_t)SHM_CELLS);
    shm_cells_init(transport);
    return shm_memfd_seal(transport, transport->control_fd, 1);
}

static void shm_close(struct weft_transport *transport)
{
    shm_listener_close(transport);
    while (transport->links) {
        transport->links->count = 1;
        shm_disconnect(transport->links);
    }
    while (transport->channels)
        shm_channel_free(transport->channels);
    for (uint32_t i = 0; i < transport->segment_count; i++)
        shm_free(transport, transport->segments[i].base);
    if (transport->control)
        munmap(transport->control, SHM_CONTROL_BYTES);
    weft_fd_close(transport->event_fd);
    weft_fd_close(transport->control_fd);
    weft_crypto_wipe(&transport->address, sizeof transport->address);
    pthread_mutex_destroy(&transport->lock);
    free(transport->exposed);
    free(transport->inbound);
    free(transport->segments);
    free(transport);
}

static int shm_open_instance(const struct weft_transport_params *params, struct weft_transport **result)
{
    if (!params || !params->fail)
        return WEFT_INVALID;
    if (!params->watch || !params->unwatch)
        return params->fail(WEFT_INVALID, "shm: needs a service thread (params.watch)");
    struct weft_transport *transport = aligned_alloc(64, (sizeof *transport + 63) / 64 * 64);
    if (!transport)
        return params->fail(WEFT_NOMEM, "shm: no memory for an instance");
    memset(transport, 0, sizeof *transport);
    transport->params = *params;
    transport->direct = params->direct;
    transport->helps = params->help != WEFT_HELP_NEVER;
    transport->light = weft_fence_register();
    transport->demotes = weft_demote_works();
    transport->listen_fd = transport->event_fd = transport->control_fd = transport->timer_fd = -1;
    pthread_mutex_init(&transport->lock, NULL);
    int status = control_open(transport);
    if (!status)
        status = listener_open(transport);
    if (!status)
        status = shm_listener_watch(transport);
    if (status) {
        shm_close(transport);
        return status;
    }
    *result = transport;
    return WEFT_OK;
}

static void shm_caps(const struct weft_transport *transport, struct weft_transport_caps *caps)
{
    (void)transport;
    struct weft_transport_caps own = {
        .size = sizeof own,
        .flags = WEFT_CAP_SAME_HOST | WEFT_CAP_NOTIFY | WEFT_CAP_READ,
        .eager_bytes = SHM_EAGER_BYTES,
    };
    *caps = own;
}

static int shm_address(struct weft_transport *transport, void *address, size_t *size)
{
    if (*size < sizeof transport->address)
        return transport->params.fail(WEFT_INVALID, "shm: address needs %zu bytes, got %zu",
                                      sizeof transport->address, *size);
    memcpy(address, &transport->address, sizeof transport->address);
    *size = sizeof transport->address;
    return WEFT_OK;
}

static int shm_reachable(struct weft_transport *transport, const void *address, size_t size)
{
    static const uint8_t unknown[16];
    const struct shm_address *own = &transport->address;
    struct shm_address peer;
    if (size != sizeof peer)
        return 0;
    memcpy(&peer, address, sizeof peer);
    if (peer.magic != own->magic || peer.version != own->version || peer.uid != own->uid ||
        memcmp(peer.boot, own->boot, sizeof own->boot) != 0 ||
        memcmp(own->boot, unknown, sizeof unknown) == 0)
        return 0;
    if (peer.net_cookie && own->net_cookie)
        return peer.net_cookie == own->net_cookie;
    return peer.net_inode && peer.net_inode == own->net_inode;
}

/* Peers have come, gone or freed memory: what of theirs is mapped here is given back by poll(). */
static int shm_busy(struct weft_transport *transport)
{
    return (int)atomic_load_explicit(&transport->attention, memory_order_relaxed);
}

/* Called by the polling thread with the peer of a channel that is being drained, which lives for so long. */
static int shm_sent_by(struct weft_transport *transport, const void *sender, const void *address, size_t size)
{
    const struct shm_peer *peer = sender;
    struct shm_address from;
    (void)transport;
    if (!peer || size != sizeof from)
        return 0;
    memcpy(&from, address, sizeof from);
    return memcmp(&peer->identity, &from.identity, sizeof from.identity) == 0;
}

const struct weft_transport_ops weft_shm_ops = {
    .size = sizeof weft_shm_ops,
    .abi = WEFT_TRANSPORT_ABI,
    .name = "shm",
    .open = shm_open_instance,
    .close = shm_close,
    .caps = shm_caps,
    .address = shm_address,
    .reachable = shm_reachable,
    .connect = shm_connect,
    .disconnect = shm_disconnect,
    .alloc = shm_alloc,
    .free = shm_free,
    .send = shm_send,
    .expose = shm_expose,
    .map = shm_map,
    .pull = shm_pull,
    .poll = shm_poll,
    .fds = shm_fds,
    .arm = shm_arm,
    .disarm = shm_disarm,
    .busy = shm_busy,
    .notify = shm_notify,
    .link_flags = shm_link_flags,
    .sent_by = shm_sent_by,
    .unexpose = shm_unexpose,
    .exposed = shm_exposed,
    .expose_whole = shm_expose_whole,
    .look = shm_look,
    .link_help = shm_link_help,
};
