/* SPDX-License-Identifier: Apache-2.0 */
/* Pipe lending: ordinary memory that a peer reads through a pipe.
 *
 * process_vm_readv() looks up every page of the other process the slow way, about twice the cost of the copy.
 * A pipe can carry references to pages instead: the owner puts them in with vmsplice(), which pins its own
 * pages the fast way, and the peer reads the pipe, which is the one copy. It also works where the peer cannot
 * see this process.
 *
 * The owner makes a pipe, keeps both ends and hands the reading end to the peer once, over the link's socket;
 * the token names it. A pipe serves one message at a time and is empty again when the message has been taken.
 * One whose message broke off is closed, never used again. WEFT_AGAIN when a link's few pipes are all in use:
 * the caller then exposes its memory for process_vm_readv(), so nobody waits for a pipe.
 *
 * Source: vmsplice(2), pipe(7).
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>
#include "base/fd.h"
#include "transport/shm/shm_private.h"

#define PIPE_BYTES     (1 << 20) /* what an unprivileged process may ask for */
#define PIPE_BYTES_MIN (1 << 16)

static void pipe_close(struct shm_pipe *pipe)
{
    weft_fd_close(pipe->read_fd);
    if (pipe->write_fd >= 0)
        weft_fd_close(pipe->write_fd);
    memset(pipe, 0, sizeof *pipe);
}

void shm_pipes_close(struct weft_link *link)
{
    for (uint32_t i = 0; i < SHM_PIPES; i++) {
        if (link->pipes[i].id)
            pipe_close(&link->pipes[i]);
    }
}

static int pipe_open(int ends[2])
{
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK))
        return -1;
    ends[0] = weft_fd_add(ends[0]);
    ends[1] = weft_fd_add(ends[1]);
    if (ends[0] >= 0 && ends[1] >= 0)
        return 0;
    weft_fd_close(ends[0]);
    weft_fd_close(ends[1]);
    return -1;
}

static int pipe_make(struct weft_link *link, struct shm_pipe *pipe)
{
    struct weft_transport *transport = link->transport;
    int ends[2];
    if (pipe_open(ends))
        return WEFT_UNSUPPORTED; /* no descriptors left: there are other ways */
    int size = PIPE_BYTES;
    while (fcntl(ends[1], F_SETPIPE_SZ, size) < 0 && size > PIPE_BYTES_MIN)
        size /= 2;
    size = fcntl(ends[1], F_GETPIPE_SZ); /* little, when this user's processes have many pipes */
    *pipe = (struct shm_pipe){.id = ++transport->last_segment,
                              .read_fd = ends[0],
                              .write_fd = ends[1],
                              .capacity = size > 0 ? (size_t)size : 0};
    struct shm_frame frame = {
        .magic = SHM_FRAME_MAGIC, .version = SHM_VERSION, .kind = SHM_PIPE, .segment = pipe->id};
    int status = shm_frame_send(transport, link->fd, &frame, &pipe->read_fd, 1);
    if (status)
        pipe_close(pipe);
    return status;
}

/* Whether this kernel lets pages into pipes: tried once, on a pipe of its own. */
static int pipes_work(struct weft_transport *transport)
{
    int ends[2];
    if (transport->pipes_tried)
        return transport->pipes_tried > 0;
    transport->pipes_tried = -1;
    if (!transport->direct || pipe_open(ends))
        return 0;
    uint64_t sent = transport->address.identity.words[1], got = 0;
    struct iovec page = {&sent, sizeof sent};
    if (vmsplice(ends[1], &page, 1, SPLICE_F_NONBLOCK) == (ssize_t)sizeof sent &&
        read(ends[0], &got, sizeof got) == (ssize_t)sizeof got && got == sent)
        transport->pipes_tried = 1;
    weft_fd_close(ends[0]);
    weft_fd_close(ends[1]);
    return transport->pipes_tried > 0;
}

int shm_pipe_open(struct weft_link *link, const void *memory, size_t size, size_t slice_bytes,
                  struct weft_token *result, uint32_t *pipe_index)
{
    struct weft_transport *transport = link->transport;
    int state = atomic_load_explicit(&link->state, memory_order_acquire);
    if (state != SHM_LINK_UP)
        return state == SHM_LINK_FAILED ? shm_link_down(link) : WEFT_AGAIN;
    if (!pipes_work(transport) || shm_segment_covers(transport, memory, size))
        return WEFT_UNSUPPORTED;
    uint32_t index = 0;
    while (index < SHM_PIPES && link->pipes[index].used)
        index++;
    if (index == SHM_PIPES)
        return WEFT_AGAIN;
    struct shm_pipe *pipe = &link->pipes[index];
    int status = pipe->id ? WEFT_OK : pipe_make(link, pipe);
    if (status)
        return status;
    /* A slice is announced when all of it is in the pipe; memory that is not aligned needs one page more. */
    if (pipe->capacity < (slice_bytes < size ? slice_bytes : size) + SHM_PAGE)
        return WEFT_UNSUPPORTED;
    pipe->used = 1;
    struct shm_token token = {.kind = SHM_TOKEN_PIPE,
                              .owner = transport->address.identity.words[1],
                              .segment = pipe->id,
                              .size = size};
    memset(result, 0, sizeof *result);
    memcpy(result, &token, sizeof token);
    *pipe_index = index;
    return WEFT_OK;
}

int shm_pipe_put(struct weft_link *link, uint32_t pipe_index, const void *memory, size_t size, size_t *taken)
{
    size_t done = 0;
    int fd = link->pipes[pipe_index].write_fd, own = weft_fd_is_own(fd); /* else errno is EBADF */
    while (done < size) {
        struct iovec pages = {(uint8_t *)(uintptr_t)memory + done, size - done};
        ssize_t got = own ? vmsplice(fd, &pages, 1, SPLICE_F_NONBLOCK) : -1;
        if (got > 0)
            done += (size_t)got;
        else if (got < 0 && errno == EAGAIN)
            break;
        else if (errno != EINTR)
            return link->transport->params.fail(WEFT_SYSTEM, "shm: pipe lending of %zu bytes to a peer: %s",
                                                size - done, weft_errno_text(errno));
    }
    *taken = done;
    return done ? WEFT_OK : WEFT_AGAIN;
}

/* In one call, in which nobody else reads: between two the peer could read the end of one slice and the beginning of the next, and take that
 * for one. */
static void pipe_empty(int fd)
{
    uint8_t scratch[SHM_PAGE]; /* that nobody reads */
    struct iovec all[PIPE_BYTES / SHM_PAGE];
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        all[i] = (struct iovec){scratch, sizeof scratch};
    ssize_t got = 1;
    while (got > 0 || (got < 0 && errno == EINTR))
        got = weft_fd_is_own(fd) ? readv(fd, all, sizeof all / sizeof *all) : 0;
}

void shm_pipe_close(struct weft_link *link, uint32_t pipe_index, int taken)
{
    struct shm_pipe *pipe = &link->pipes[pipe_index];
    pipe->used = 0;
    if (taken)
        return;
    /* The peer holds the reading end too: emptied, so that nobody can read this memory any more. It must find the
     * writing end closed when it finds too little. */
    weft_fd_close(pipe->write_fd);
    pipe->write_fd = -1;
    pipe_empty(pipe->read_fd);
    struct shm_frame frame = {
        .magic = SHM_FRAME_MAGIC, .version = SHM_VERSION, .kind = SHM_FREE, .segment = pipe->id};
    shm_frame_send(link->transport, link->fd, &frame, NULL, 0);
    pipe_close(pipe);
}

int shm_pipe_take(struct weft_transport *transport, struct shm_peer *peer, uint64_t id, int *fd)
{
    struct stat found;
    if (*fd < 0 || fstat(*fd, &found) || !S_ISFIFO(found.st_mode))
        return transport->params.fail(WEFT_PROTOCOL, "shm: a peer sent something that is no pipe");
    struct shm_taken_pipe *taken_pipe = calloc(1, sizeof *taken_pipe);
    if (!taken_pipe)
        return transport->params.fail(WEFT_NOMEM, "shm: no memory for a pipe");
    *taken_pipe = (struct shm_taken_pipe){.id = id, .fd = *fd, .next = peer->taken_pipe};
    peer->taken_pipe = taken_pipe;
    *fd = -1;
    return WEFT_OK;
}

void shm_pipe_drop(struct shm_peer *peer, uint64_t id)
{
    struct shm_taken_pipe **at = &peer->taken_pipe;
    while (*at) {
        struct shm_taken_pipe *taken_pipe = *at;
        if (id && taken_pipe->id != id) {
            at = &taken_pipe->next;
            continue;
        }
        *at = taken_pipe->next;
        weft_fd_close(taken_pipe->fd);
        free(taken_pipe);
    }
}

/* Under the lock. */
static int pipe_find(const struct shm_peer *peer, uint64_t id)
{
    for (const struct shm_taken_pipe *taken_pipe = peer->taken_pipe; taken_pipe;
         taken_pipe = taken_pipe->next) {
        if (taken_pipe->id == id)
            return taken_pipe->fd;
    }
    return -1;
}

static int has_no_writer(int fd)
{
    struct pollfd pipe = {.fd = fd};
    return poll(&pipe, 1, 0) == 1 && (pipe.revents & POLLHUP);
}

/* How many bytes came. Announced bytes are there; a peer that lies about it must not make this thread wait, and only this end's own word
 * is believed: the other end shares the flags of the open file. */
static size_t pipe_read(int fd, uint8_t *destination, size_t size)
{
    static atomic_int
        asks_first; /* a kernel before 6.4 takes no RWF_NOWAIT for pipes, or somebody forbids it */
    size_t done = 0;
    int there = 0;
    while (done < size) {
        struct iovec rest = {destination + done, size - done};
        int asks = atomic_load_explicit(&asks_first, memory_order_relaxed);
        if (asks && !there && (ioctl(fd, FIONREAD, &there) || there < 0 || (size_t)there < size - done))
            break;
        ssize_t got = asks ? read(fd, rest.iov_base, rest.iov_len) : preadv2(fd, &rest, 1, -1, RWF_NOWAIT);
        if (got > 0)
            done += (size_t)got;
        else if (got < 0 && !asks &&
                 (errno == EOPNOTSUPP || errno == ENOSYS || errno == EPERM || errno == EINVAL))
            atomic_store_explicit(&asks_first, 1, memory_order_relaxed);
        else if (got == 0 || errno != EINTR)
            break;
    }
    return done;
}

int shm_pull_pipe(struct weft_link *link, uint64_t id, void *destination, size_t size)
{
    struct weft_transport *transport = link->transport;
    size_t done = 0;
    pthread_mutex_lock(&transport->lock);
    int status = WEFT_OK, fd = pipe_find(link->peer, id);
    for (struct shm_channel *c = transport->channels; c && fd < 0 && status == WEFT_OK; c = c->next) {
        if (c->peer == link->peer) {
            status = shm_channel_refresh(c);
            fd = pipe_find(link->peer, id);
        }
    }
    /* A peer that has died or given up has taken the bytes away, which is for others to explain. */
    if (fd >= 0 && weft_fd_is_own(fd))
        done = pipe_read(fd, destination, size);
    int gone = done < size && (fd < 0 || has_no_writer(fd));
    pthread_mutex_unlock(&transport->lock);
    if (done == size)
        return WEFT_OK;
    if (fd < 0 && status != WEFT_OK)
        return status; /* in the words of what is missing here */
    if (gone)
        return transport->params.fail(WEFT_PEER_FAILED, "shm: a peer has taken back what was in a pipe");
    return transport->params.fail(WEFT_PROTOCOL, "shm: a peer put %zu of %zu bytes into a pipe", done, size);
}
