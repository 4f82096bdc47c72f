/* Frames going out on the edges of the overlay: queues and non-blocking writes.
 *
 * Whoever has the lock may queue and write. What the socket does not take stays queued, and the service
 * thread writes on when it can. A failed write says nothing about why: the edge is marked broken and the
 * reading side, which sees everything the peer sent before, decides what happened.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include "base/clock.h"
#include "base/error.h"
#include "comm/boot.h"

struct weft_boot_bytes *weft_boot_bytes_new(unsigned char *data, size_t size)
{
    struct weft_boot_bytes *bytes = malloc(sizeof *bytes);
    if (!bytes) {
        free(data);
        weft_fail(WEFT_NOMEM, "bootstrap: no memory");
        return NULL;
    }
    *bytes = (struct weft_boot_bytes){.refs = 1, .size = size, .data = data};
    return bytes;
}

void weft_boot_bytes_drop(struct weft_boot_bytes *bytes)
{
    if (!bytes || --bytes->refs > 0)
        return;
    free(bytes->data);
    free(bytes);
}

static void pop(struct weft_boot_edge *edge)
{
    struct weft_boot_out *out = edge->first;
    edge->first = out->next;
    if (!edge->first)
        edge->last = NULL;
    weft_boot_bytes_drop(out->body);
    free(out);
}

void weft_boot_edge_discard(struct weft_boot_edge *edge)
{
    while (edge->first)
        pop(edge);
}

static void want_output(struct weft_boot_edge *edge, int on)
{
    if (edge->wants_output == on || edge->fd < 0)
        return;
    edge->wants_output = on;
    if (weft_service_want_output(edge->owner->service, edge->fd, on) != WEFT_OK)
        edge->broken = 1;
}

/* Sends what remains of one frame. 1: all of it is gone, 0: the socket is full, -1: it is broken. */
static int send_out(struct weft_boot_edge *edge, struct weft_boot_out *out)
{
    for (;;) {
        const struct iovec whole[3] = {{out->header, sizeof out->header},
                                       {out->body ? out->body->data : NULL, out->body ? out->body->size : 0},
                                       {out->tag, sizeof out->tag}};
        struct iovec parts[3];
        size_t count = 0, gone = out->sent;
        for (int i = 0; i < 3; i++) {
            size_t skip = gone < whole[i].iov_len ? gone : whole[i].iov_len;
            gone -= skip;
            if (skip < whole[i].iov_len)
                parts[count++] =
                    (struct iovec){(unsigned char *)whole[i].iov_base + skip, whole[i].iov_len - skip};
        }
        if (count == 0)
            return 1;
        struct msghdr message = {.msg_iov = parts, .msg_iovlen = count};
        ssize_t sent = sendmsg(edge->fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent >= 0) {
            out->sent += (size_t)sent;
            edge->sent_ns = weft_clock_ns();
        } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
            return 0;
        } else if (errno != EINTR) {
            return -1;
        }
    }
}

void weft_boot_edge_flush(struct weft_boot_edge *edge)
{
    if (!edge->watched || edge->fd < 0)
        return;
    int sent = 1;
    while (!edge->broken && edge->first && (sent = send_out(edge, edge->first)) > 0)
        pop(edge);
    if (sent < 0)
        edge->broken = 1;
    if (edge->broken)
        weft_boot_edge_discard(edge);
    want_output(edge, edge->first != NULL);
}

void weft_boot_edge_adopt(struct weft_boot_edge *edge, int fd, const struct weft_auth_session *session)
{
    edge->fd = fd;
    edge->made = 1;
    edge->send = session->send;
    weft_boot_reader_unseal(&edge->reader, &session->receive);
}

/* What a key has sealed is of no use on another edge, so bytes that others share are copied. */
static struct weft_boot_bytes *copy_of(const struct weft_boot_bytes *bytes)
{
    unsigned char *data = malloc(bytes->size ? bytes->size : 1);
    if (!data) {
        weft_fail(WEFT_NOMEM, "bootstrap: no memory for a frame of %zu bytes", bytes->size);
        return NULL;
    }
    if (bytes->size)
        memcpy(data, bytes->data, bytes->size);
    return weft_boot_bytes_new(data, bytes->size);
}

static int takes_frames(const struct weft_boot_edge *edge)
{
    return edge->fd >= 0 && !edge->said_goodbye && !edge->broken;
}

/* Takes over the reference to body, which nobody else has. */
static int queue_own(struct weft_boot_edge *edge, int type, struct weft_boot_bytes *body)
{
    struct weft_boot_out *out = calloc(1, sizeof *out);
    if (!out) {
        weft_boot_bytes_drop(body);
        return weft_fail(WEFT_NOMEM, "bootstrap: no memory for a frame");
    }
    weft_boot_frame_seal(&edge->send, type, edge->sequence++, out->header, body ? body->data : NULL,
                         body ? body->size : 0, out->tag);
    out->body = body;
    if (edge->last)
        edge->last->next = out;
    else
        edge->first = out;
    edge->last = out;
    if (type == WEFT_BOOT_GOODBYE)
        edge->said_goodbye = 1;
    weft_boot_edge_flush(edge);
    return WEFT_OK;
}

int weft_boot_edge_queue(struct weft_boot_edge *edge, int type, struct weft_boot_bytes *body)
{
    if (!takes_frames(edge))
        return WEFT_OK;
    struct weft_boot_bytes *copy = body ? copy_of(body) : NULL;
    if (body && !copy)
        return WEFT_NOMEM;
    return queue_own(edge, type, copy);
}

int weft_boot_edge_queue_writer(struct weft_boot_edge *edge, int type, struct weft_boot_writer *writer)
{
    if (writer->failed) {
        free(writer->data);
        return weft_fail(WEFT_NOMEM, "bootstrap: no memory for a frame");
    }
    if (!takes_frames(edge)) {
        free(writer->data);
        return WEFT_OK;
    }
    struct weft_boot_bytes *body = weft_boot_bytes_new(writer->data, writer->size);
    return body ? queue_own(edge, type, body) : WEFT_NOMEM;
}
