/* SPDX-License-Identifier: Apache-2.0 */
/* What is read from a connection. Its other end is a rank of this job, but may still write anything. */
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include "base/error.h"
#include "base/fd.h"
#include "transport/tcp/tcp_private.h"

#define READS 4 /* of one connection in a turn */

/* How reading frames goes on, for one link. */
struct reading {
    struct weft_link *link;
    int budget, events;
    weft_event_handler *handler;
    void *arg;
};

static void report(struct reading *in, const struct weft_event *event)
{
    in->events++;
    in->handler(in->arg, event);
}

/* All of a receive buffer's bytes are there. */
static void filled(struct reading *in, struct tcp_rbuf *rbuf)
{
    struct weft_event event = {.kind = WEFT_EVENT_FILLED, .cookie = rbuf->cookie};
    tcp_rbuf_release(in->link->transport, rbuf);
    report(in, &event);
}

/* So many bytes of the PUT have gone where they belong. */
static void filling_took(struct reading *in, size_t size)
{
    struct weft_link *link = in->link;
    struct tcp_rbuf *rbuf = link->filling;
    link->filling_left -= size;
    if (!rbuf)
        return;
    link->filling_at += size;
    rbuf->filled += size;
    if (link->filling_left)
        return;
    link->filling = NULL;
    if (rbuf->filled == rbuf->size)
        filled(in, rbuf);
}

/* WEFT_OK, or why the peer breaks the rules. */
static int put_begin(struct weft_link *link, const struct tcp_put_head *head, uint64_t size)
{
    int unknown = 0;
    struct tcp_rbuf *rbuf = tcp_rbuf_find(link, &head->name, &unknown);
    if (unknown)
        return weft_fail(WEFT_PROTOCOL, "it puts into a receive buffer that there never was");
    if (rbuf && (head->offset != rbuf->filled || size > rbuf->size - rbuf->filled))
        return weft_fail(
            WEFT_PROTOCOL,
            "it puts %llu bytes at %llu of a receive buffer of %llu bytes, of which %llu are here",
            (unsigned long long)size, (unsigned long long)head->offset, (unsigned long long)rbuf->size,
            (unsigned long long)rbuf->filled);
    link->filling = rbuf;
    link->filling_at = rbuf ? rbuf->memory + rbuf->filled : NULL;
    link->filling_left = size;
    return WEFT_OK;
}

/* No more of this put will come. Its receive buffer stays as it is, and is not filled. */
static void put_cut(struct weft_link *link, const struct tcp_name *name)
{
    int unknown = 0;
    struct tcp_rbuf *rbuf = tcp_rbuf_find(link, name, &unknown);
    if (rbuf)
        rbuf->state = TCP_RBUF_CUT;
}

static int name_frame(struct weft_link *link, const struct tcp_frame *frame, const uint8_t *body)
{
    struct tcp_name name;
    if (frame->size != sizeof name)
        return weft_fail(WEFT_PROTOCOL, "a frame of type %u has %u bytes, expected %zu", frame->type,
                         frame->size, sizeof name);
    memcpy(&name, body, sizeof name);
    if (frame->type == TCP_CANCEL)
        tcp_refused(link, &name);
    else
        put_cut(link, &name);
    return WEFT_OK;
}

/* Bytes of a frame that must be here before it can be worked on; 0: no such frame. */
static size_t frame_needs(const struct tcp_frame *frame)
{
    if (frame->mark != TCP_FRAME_MARK)
        return 0;
    switch (frame->type) {
    case TCP_DATA:
        return frame->size <= TCP_EAGER_BYTES ? sizeof *frame + ((frame->size + 7) & ~(size_t)7) : 0;
    case TCP_PUT:
        return frame->size >= sizeof(struct tcp_put_head) ? sizeof *frame + sizeof(struct tcp_put_head) : 0;
    case TCP_CANCEL:
    case TCP_CUT:
    case TCP_BYE:
        return frame->size <= 64 ? sizeof *frame + frame->size : 0;
    default:
        return 0;
    }
}

static void put_frame(struct reading *in, const struct tcp_frame *frame, const uint8_t *body, size_t more,
                      size_t *taken)
{
    struct weft_link *link = in->link;
    struct tcp_put_head head;
    memcpy(&head, body, sizeof head);
    if (put_begin(link, &head, frame->size - sizeof head) != WEFT_OK) {
        tcp_link_fail(link, WEFT_PROTOCOL, "tcp: the peer breaks the rules: %s", weft_error_detail());
        return;
    }
    size_t size = link->filling_left < more ? (size_t)link->filling_left : more;
    if (size && link->filling)
        memcpy(link->filling_at, body + sizeof head, size);
    *taken += size;
    filling_took(in, size);
}

/* One frame at the beginning of bytes, which are aligned to 8. Returns how many bytes it took, 0: it is not whole. */
static size_t frame_read(struct reading *in, const uint8_t *bytes, size_t size)
{
    struct weft_link *link = in->link;
    struct tcp_frame frame;
    if (size < sizeof frame)
        return 0;
    memcpy(&frame, bytes, sizeof frame);
    size_t taken = frame_needs(&frame);
    if (!taken) {
        tcp_link_fail(link, WEFT_PROTOCOL, "tcp: the peer breaks the rules: a frame of type %u and %u bytes",
                      frame.type, frame.size);
        return size;
    }
    if (size < taken)
        return 0;
    const uint8_t *body = bytes + sizeof frame;
    if (frame.type == TCP_DATA) {
        struct weft_event event = {
            .kind = WEFT_EVENT_MESSAGE, .data = body, .data_size = frame.size, .sender = link};
        report(in, &event);
    } else if (frame.type == TCP_PUT) {
        put_frame(in, &frame, body, size - taken, &taken);
    } else if (frame.type == TCP_BYE) {
        link->peer_leaves = 1;
    } else if (name_frame(link, &frame, body) != WEFT_OK) {
        tcp_link_fail(link, WEFT_PROTOCOL, "tcp: the peer breaks the rules: %s", weft_error_detail());
    }
    return taken;
}

/* Works through frames. Returns how many bytes are left at the end of them. Bytes before may be overwritten. */
static size_t frames_read(struct reading *in, uint8_t **bytes, size_t size)
{
    uint8_t *at = *bytes;
    while (size && in->events < in->budget && in->link->state == TCP_LINK_UP) {
        if ((uintptr_t)at & 7) { /* behind a put of an odd size */
            uint8_t *aligned = at - ((uintptr_t)at & 7);
            memmove(aligned, at, size);
            at = aligned;
        }
        size_t taken = frame_read(in, at, size);
        if (!taken)
            break;
        at += taken;
        size -= taken;
    }
    *bytes = at;
    return in->link->state == TCP_LINK_UP ? size : 0;
}

/* Keeps what is left. It may be frames only if the budget is used up. */
static void keep(struct reading *in, const uint8_t *bytes, size_t size)
{
    struct weft_link *link = in->link;
    link->kept.start = link->kept.end = 0;
    if (!size) {
        tcp_bytes_clear(&link->kept);
        return;
    }
    uint8_t *at = tcp_bytes_room(&link->kept, size);
    if (!at) {
        tcp_link_fail(link, WEFT_NOMEM, "tcp: no memory for %zu bytes that have been read", size);
        return;
    }
    memcpy(at, bytes, size);
    link->kept.end = size;
    if (in->events >= in->budget && !link->is_kept) {
        link->is_kept = 1;
        link->next_kept = link->transport->kept;
        link->transport->kept = link;
    }
}

/* Takes what was kept to the beginning of the place. */
static size_t kept_take(struct weft_link *link)
{
    size_t size = link->kept.end - link->kept.start;
    if (size)
        memcpy(link->transport->place, link->kept.bytes + link->kept.start, size);
    return size;
}

static void connection_ended(struct weft_link *link, ssize_t got)
{
    if (got == 0)
        tcp_link_fail(link, WEFT_PEER_FAILED,
                      link->peer_leaves ? "tcp: the peer has closed the link"
                                        : "tcp: the peer's end of the connection is gone");
    else
        tcp_link_fail(link, WEFT_PEER_FAILED, "tcp: the connection to the peer broke: %s",
                      weft_errno_text(errno));
}

/* One read. Returns whether there may be more. */
static int read_once(struct reading *in)
{
    struct weft_link *link = in->link;
    struct weft_transport *transport = link->transport;
    size_t had = kept_take(link), room = TCP_PLACE_BYTES - had;
    struct iovec parts[2] = {{link->filling_at, (size_t)link->filling_left}, {transport->place + had, room}};
    int direct = link->filling && link->filling_left;
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    ssize_t got;
    do
        got = direct ? recvmsg(link->fd, &message, MSG_DONTWAIT)
                     : recv(link->fd, transport->place + had, room, MSG_DONTWAIT);
    while (got < 0 && errno == EINTR);
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        return 0;
    if (got <= 0) {
        connection_ended(link, got);
        return 0;
    }
    size_t left = (size_t)got, whole = room + (direct ? parts[0].iov_len : 0);
    uint8_t *at = transport->place;
    if (direct) {
        size_t size = left < link->filling_left ? left : (size_t)link->filling_left;
        left -= size;
        filling_took(in, size);
    } else if (link->filling_left) { /* to nowhere */
        size_t size = left < link->filling_left ? left : (size_t)link->filling_left;
        left -= size;
        at += size;
        filling_took(in, size);
    }
    left = frames_read(in, &at, had + left);
    if (link->state == TCP_LINK_UP)
        keep(in, at, left);
    return (size_t)got == whole;
}

int tcp_link_read(struct weft_link *link, int budget, weft_event_handler *handler, void *arg)
{
    struct reading in = {.link = link, .budget = budget, .handler = handler, .arg = arg};
    /* Each time: the program may have run since the last one, and put a file of its own under the number. */
    if (!weft_fd_is_own(link->fd)) {
        tcp_link_fail(link, WEFT_SYSTEM, "tcp: the program has closed the link's descriptor");
        return 0;
    }
    for (int reads = 0; reads < READS && link->state == TCP_LINK_UP && in.events < budget; reads++) {
        if (!read_once(&in))
            break;
    }
    return in.events;
}

int tcp_links_kept(struct weft_transport *transport, int budget, weft_event_handler *handler, void *arg)
{
    int events = 0;
    struct weft_link *first = transport->kept;
    transport->kept = NULL;
    while (first) {
        struct weft_link *link = first;
        struct reading in = {.link = link, .budget = budget - events, .handler = handler, .arg = arg};
        first = link->next_kept;
        link->is_kept = 0;
        if (link->state != TCP_LINK_UP)
            continue;
        size_t size = kept_take(link);
        uint8_t *at = transport->place;
        size = frames_read(&in, &at, size);
        if (link->state == TCP_LINK_UP)
            keep(&in, at, size);
        events += in.events;
    }
    return events;
}

void tcp_input_drop(struct weft_link *link)
{
    tcp_bytes_clear(&link->kept);
    link->filling = NULL;
    link->filling_left = 0;
}
