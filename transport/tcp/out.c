/* SPDX-License-Identifier: Apache-2.0 */
/* What is written to a connection: messages, and puts in pieces.
 *
 * A message is written at once where the connection takes it. What it does not take waits, with all that comes behind it, and goes out
 * together when there is room.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include "base/error.h"
#include "base/fd.h"
#include "transport/tcp/tcp_private.h"

uint8_t *tcp_bytes_room(struct tcp_bytes *bytes, size_t size)
{
    size_t used = bytes->end - bytes->start;
    if (bytes->end + size <= bytes->capacity)
        return bytes->bytes + bytes->end;
    if (used + size > bytes->capacity) {
        size_t capacity = bytes->capacity ? bytes->capacity : 512;
        while (capacity < used + size)
            capacity *= 2;
        uint8_t *grown = malloc(capacity);
        if (!grown)
            return NULL;
        if (used)
            memcpy(grown, bytes->bytes + bytes->start, used);
        free(bytes->bytes);
        bytes->bytes = grown;
        bytes->capacity = capacity;
    } else {
        memmove(bytes->bytes, bytes->bytes + bytes->start, used);
    }
    bytes->start = 0;
    bytes->end = used;
    return bytes->bytes + used;
}

void tcp_bytes_clear(struct tcp_bytes *bytes)
{
    free(bytes->bytes);
    *bytes = (struct tcp_bytes){0};
}

static int is_pending(const struct tcp_piece *piece)
{
    return piece->left || piece->start_done < sizeof piece->start;
}

/* Some of the frame is written: nothing else may come before its end. */
static int is_begun(const struct tcp_piece *piece)
{
    return piece->start_done && is_pending(piece);
}

int tcp_has_output(const struct weft_link *link)
{
    return link->out.end != link->out.start || is_pending(&link->piece) || link->puts;
}

static void want_write(struct weft_link *link)
{
    if (link->is_dirty || link->state != TCP_LINK_UP)
        return;

    link->is_dirty = 1;
    link->next_dirty = link->transport->dirty;
    link->transport->dirty = link;
}

/* The connection takes no more; epoll says when it does. */
static void block(struct weft_link *link)
{
    if (link->is_blocked)
        return;
    link->is_blocked = 1;
    link->transport->blocked++;
    if (tcp_link_watch(link, EPOLLIN | EPOLLOUT) != WEFT_OK)
        tcp_link_fail(link, WEFT_SYSTEM, "tcp: %s", weft_error_detail());
}

static void unblock(struct weft_link *link)
{
    if (!link->is_blocked)
        return;
    link->is_blocked = 0;
    link->transport->blocked--;
    if (link->state == TCP_LINK_UP)
        tcp_link_watch(link, EPOLLIN);
}

/* One system call. A small message costs the kernel less in one piece. */
static ssize_t pass_on(int fd, struct iovec *parts, int count)
{
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = (size_t)count};
    uint8_t small[512];
    size_t total = 0;
    for (int i = 0; i < count; i++)
        total += parts[i].iov_len;
    if (total > sizeof small)
        return sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    uint8_t *at = small;
    for (int i = 0; i < count; i++) {
        if (parts[i].iov_len)
            memcpy(at, parts[i].iov_base, parts[i].iov_len);
        at += parts[i].iov_len;
    }
    return send(fd, small, total, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* Bytes written, 0 when there is no room, negative when the link has failed, or is about to. */
static ssize_t write_out(struct weft_link *link, struct iovec *parts, int count)
{
    if (!weft_fd_is_own(link->fd)) {
        tcp_link_fail(link, WEFT_SYSTEM, "tcp: the program has closed the link's descriptor");
        return -1;
    }
    ssize_t written;
    do
        written = pass_on(link->fd, parts, count);
    while (written < 0 && errno == EINTR);
    if (written >= 0)
        return written;
    if (errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS || errno == ENOMEM)
        return 0;
    link->is_mute = 1; /* the peer may have said something before */
    return -1;
}

void tcp_put_give(struct weft_transport *transport, struct tcp_put *put)
{
    put->next = transport->free_puts;
    transport->free_puts = put;
}

static void put_done(struct tcp_put *put, int status)
{
    struct weft_transport *transport = put->link->transport;
    if (put->recalled) {
        tcp_put_give(transport, put);
        return;
    }
    put->status = status;
    put->next = NULL;
    *transport->done_end = put;
    transport->done_end = &put->next;
}

/* Takes the first put off the row. */
static struct tcp_put *put_take(struct weft_link *link)
{
    struct tcp_put *put = link->puts;
    link->puts = put->next;
    if (!link->puts)
        link->puts_end = &link->puts;
    return put;
}

/* Makes the next frame of the first put. */
static void piece_begin(struct weft_link *link)
{
    struct tcp_piece *piece = &link->piece;
    struct tcp_put *put = link->puts;
    uint64_t left = put->size - put->taken;
    uint32_t size = left < TCP_PIECE_BYTES ? (uint32_t)left : TCP_PIECE_BYTES;
    piece->put = put;
    piece->start.frame = (struct tcp_frame){
        .mark = TCP_FRAME_MARK, .type = TCP_PUT, .size = (uint32_t)sizeof piece->start.head + size};
    piece->start.head = (struct tcp_put_head){put->name, put->taken};
    piece->start_done = 0;
    piece->at = put->memory + put->taken;
    piece->left = size;
    put->taken += size;
}

static void piece_ended(struct weft_link *link)
{
    struct tcp_piece *piece = &link->piece;
    struct tcp_put *put = piece->put;
    free(piece->copy);
    piece->copy = NULL;
    piece->put = NULL;
    if (put && put->taken == put->size)
        put_done(put_take(link), WEFT_OK);
}

static size_t add_piece(struct tcp_piece *piece, struct iovec *parts, int *count)
{
    size_t head = sizeof piece->start - piece->start_done;
    if (head)
        parts[(*count)++] = (struct iovec){(uint8_t *)&piece->start + piece->start_done, head};
    if (piece->left)
        parts[(*count)++] = (struct iovec){(void *)(uintptr_t)piece->at, piece->left};
    return head + piece->left;
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

static void piece_written(struct weft_link *link, size_t *written)
{
    struct tcp_piece *piece = &link->piece;
    size_t head = smaller(*written, sizeof piece->start - piece->start_done);
    size_t body = smaller(*written - head, piece->left);
    piece->start_done += head;
    piece->at += body;
    piece->left -= body;
    *written -= head + body;
    if (!is_pending(piece))
        piece_ended(link);
}

static void bytes_written(struct tcp_bytes *out, size_t *written)
{
    size_t size = smaller(*written, out->end - out->start);
    out->start += size;
    *written -= size;
    if (out->start != out->end)
        return;
    out->start = out->end = 0;
    if (out->capacity > 4096)
        tcp_bytes_clear(out);
}

void tcp_link_write(struct weft_link *link)
{
    for (int pieces = 0; link->state == TCP_LINK_UP && !link->is_mute; pieces++) {
        struct tcp_piece *piece = &link->piece;
        struct tcp_bytes *out = &link->out;
        struct iovec parts[3];
        int count = 0;
        size_t total = 0;
        if (!is_pending(piece) && link->puts)
            piece_begin(link);
        int first = is_begun(piece);
        if (first)
            total += add_piece(piece, parts, &count);
        if (out->end != out->start) {
            parts[count++] = (struct iovec){out->bytes + out->start, out->end - out->start};
            total += out->end - out->start;
        }
        if (!first && is_pending(piece))
            total += add_piece(piece, parts, &count);
        if (!total)
            break;
        if (pieces == TCP_PIECES) {
            want_write(link);
            break;
        }
        ssize_t written = write_out(link, parts, count);
        if (written < 0)
            return;
        size_t left = (size_t)written;
        if (first)
            piece_written(link, &left);
        bytes_written(out, &left);
        if (left)
            piece_written(link, &left);
        if ((size_t)written < total) {
            block(link);
            return;
        }
    }
    unblock(link);
}

void tcp_links_write(struct weft_transport *transport)
{
    while (transport->dirty) {
        struct weft_link *link = transport->dirty;
        transport->dirty = link->next_dirty;
        link->is_dirty = 0;
        if (!link->is_blocked)
            tcp_link_write(link);
    }
}

int tcp_frame_append(struct weft_link *link, int type, const void *body, size_t size)
{
    struct tcp_frame frame = {.mark = TCP_FRAME_MARK, .type = (uint8_t)type, .size = (uint32_t)size};
    uint8_t *at = tcp_bytes_room(&link->out, sizeof frame + size);
    if (!at)
        return WEFT_NOMEM;
    memcpy(at, &frame, sizeof frame);
    if (size)
        memcpy(at + sizeof frame, body, size);
    link->out.end += sizeof frame + size;
    want_write(link);
    return WEFT_OK;
}

/* Appends what of the parts has not been written. */
static int keep_rest(struct weft_link *link, const struct iovec *parts, int count, size_t written)
{
    size_t total = 0;
    for (int i = 0; i < count; i++)
        total += parts[i].iov_len;
    if (written == total)
        return WEFT_OK;
    uint8_t *at = tcp_bytes_room(&link->out, total - written);
    if (!at)
        return WEFT_NOMEM;
    for (int i = 0; i < count; i++) {
        size_t skip = smaller(written, parts[i].iov_len);
        size_t size = parts[i].iov_len - skip;
        if (size)
            memcpy(at, (const uint8_t *)parts[i].iov_base + skip, size);
        at += size;
        written -= skip;
    }
    link->out.end += (size_t)(at - (link->out.bytes + link->out.end));
    return WEFT_OK;
}

int tcp_send(struct weft_link *link, const void *header, size_t header_size, const void *payload,
             size_t payload_size)
{
    static const uint8_t zeros[8];
    size_t size = header_size + payload_size;
    struct weft_transport *transport = link->transport;
    if (link->state != TCP_LINK_UP)
        return link->state == TCP_LINK_FAILED ? tcp_link_down(link) : WEFT_AGAIN;
    if (size > TCP_EAGER_BYTES)
        return transport->fail(WEFT_INVALID, "tcp: message of %zu bytes, expected at most %u", size,
                               TCP_EAGER_BYTES);
    size_t waiting = link->out.end - link->out.start;
    if (waiting >= TCP_OUT_BYTES || link->is_mute)
        return WEFT_AGAIN;
    struct tcp_frame frame = {.mark = TCP_FRAME_MARK, .type = TCP_DATA, .size = (uint32_t)size};
    struct iovec parts[4] = {{&frame, sizeof frame},
                             {(void *)(uintptr_t)header, header_size},
                             {(void *)(uintptr_t)payload, payload_size},
                             {(void *)(uintptr_t)zeros, -size & 7}};
    size_t total = sizeof frame + size + (-size & 7);
    int at_once = !waiting && !link->is_blocked && !is_begun(&link->piece);
    ssize_t written = 0;
    if (at_once) {
        written = write_out(link, parts, 4);
        if (written < 0)
            return link->state == TCP_LINK_FAILED ? tcp_link_down(link) : WEFT_AGAIN;
    }
    if (keep_rest(link, parts, 4, (size_t)written) != WEFT_OK) {
        if (!written)
            return transport->fail(WEFT_NOMEM, "tcp: no memory for a message of %zu bytes", size);
        tcp_link_fail(link, WEFT_NOMEM, "tcp: no memory for the rest of a message of %zu bytes", size);
        return tcp_link_down(link);
    }
    link->sent++;

    if (at_once && (size_t)written < total)
        block(link);
    else if (!at_once && !link->is_blocked)
        tcp_link_write(link);
    return WEFT_OK;
}

static int is_refused(const struct weft_link *link, const struct tcp_name *name)
{
    for (uint32_t i = 0; i < link->refused_count; i++) {
        if (link->refused[i].slot == name->slot)
            return link->refused[i].generation >= name->generation;
    }
    return 0;
}

static struct tcp_put *put_make(struct weft_transport *transport)
{
    struct tcp_put *put = transport->free_puts;
    if (put)
        transport->free_puts = put->next;
    else
        put = malloc(sizeof *put);
    return put;
}

int tcp_put(struct weft_link *link, const struct weft_token *bytes, struct weft_region *region,
            const void *memory, size_t size, uint64_t cookie)
{
    struct weft_transport *transport = link->transport;
    struct tcp_token token;
    (void)region;
    if (link->state != TCP_LINK_UP)
        return link->state == TCP_LINK_FAILED ? tcp_link_down(link) : WEFT_AGAIN;
    memcpy(&token, bytes, sizeof token);
    if (token.magic != TCP_MAGIC || token.instance != link->address.instance || token.size != size)
        return transport->fail(WEFT_PROTOCOL, "tcp: not a receive buffer of %zu bytes at this link's peer",
                               size);
    if (is_refused(link, &token.name))
        return transport->fail(WEFT_CANCELLED, "tcp: the peer has taken the receive buffer back");
    struct tcp_put *put = put_make(transport);
    if (!put)
        return transport->fail(WEFT_NOMEM, "tcp: no memory for a put");
    *put =
        (struct tcp_put){.link = link, .memory = memory, .size = size, .cookie = cookie, .name = token.name};
    *link->puts_end = put;
    link->puts_end = &put->next;
    if (!link->is_blocked)
        tcp_link_write(link);
    return WEFT_OK;
}

/* The rest of the frame that is being written goes as a copy, so that its put's memory is free. */
static int piece_detach(struct weft_link *link)
{
    struct tcp_piece *piece = &link->piece;
    if (piece->left) {
        piece->copy = malloc(piece->left);
        if (!piece->copy)
            return WEFT_NOMEM;
        memcpy(piece->copy, piece->at, piece->left);
        piece->at = piece->copy;
    }
    piece->put = NULL;
    return WEFT_OK;
}

/* Takes a put out of the row; of one that is being written, the peer hears that no more will come. */
static void put_end_early(struct weft_link *link, struct tcp_put **at)
{
    struct tcp_put *put = *at;
    int is_current = link->piece.put == put;
    *at = put->next;
    if (link->puts_end == &put->next)
        link->puts_end = at;
    int status = WEFT_OK;
    if (is_current && is_begun(&link->piece)) {
        status = piece_detach(link);
    } else if (is_current) { /* nothing of this frame is written */
        put->taken -= link->piece.left;
        link->piece = (struct tcp_piece){.start_done = sizeof link->piece.start};
    }
    if (status == WEFT_OK && put->taken)
        status = tcp_frame_append(link, TCP_CUT, &put->name, sizeof put->name);
    if (put->recalled)
        tcp_put_give(link->transport, put);
    else
        put_done(put, WEFT_OK);
    if (status != WEFT_OK)
        tcp_link_fail(link, status, "tcp: no memory to recall a put");
}

void tcp_put_recall(struct weft_link *link, uint64_t cookie)
{
    for (struct tcp_put **at = &link->puts; *at; at = &(*at)->next) {
        if ((*at)->cookie == cookie) {
            (*at)->recalled = 1;
            put_end_early(link, at);
            return;
        }
    }
    for (struct tcp_put *put = link->transport->done; put; put = put->next) {
        if (put->link == link && put->cookie == cookie && !put->recalled) {
            put->recalled = 1;
            return;
        }
    }
}

void tcp_refused(struct weft_link *link, const struct tcp_name *name)
{
    uint32_t i = 0;
    while (i < link->refused_count && link->refused[i].slot != name->slot)
        i++;
    if (i == link->refused_capacity) {
        uint32_t capacity = i ? 2 * i : 16;
        struct tcp_name *grown = realloc(link->refused, capacity * sizeof *grown);
        if (!grown)
            return; /* its puts travel, and are dropped there */
        link->refused = grown;
        link->refused_capacity = capacity;
    }
    link->refused[i] = *name;
    link->refused_count += i == link->refused_count;
    for (struct tcp_put **at = &link->puts; *at; at = &(*at)->next) {
        if (memcmp(&(*at)->name, name, sizeof *name) == 0) {
            put_end_early(link, at);
            return;
        }
    }
}

void tcp_output_drop(struct weft_link *link)
{
    free(link->piece.copy);
    link->piece = (struct tcp_piece){.start_done = sizeof link->piece.start};
    while (link->puts)
        put_done(put_take(link), link->status);
    tcp_bytes_clear(&link->out);
    free(link->refused);
    link->refused = NULL;
    link->refused_count = link->refused_capacity = 0;
    unblock(link);
}
