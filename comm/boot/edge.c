/* SPDX-License-Identifier: Apache-2.0 */
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
#include "base/crypto.h"
#include "base/error.h"
#include "base/fd.h"
#include "comm/boot/boot.h"

/* Outcomes of agreements carry a secret, and none is longer; larger bodies are gathers, too long to wipe. */
#define WIPED_MAX        weft_boot_body_max(WEFT_BOOT_NEWS)
#define PIECES_PER_FLUSH 2 /* then others get their turn; the socket stays writable */

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

struct weft_boot_bytes *weft_boot_bytes_of(struct weft_boot_writer *writer)
{
    if (!writer->failed)
        return weft_boot_bytes_new(writer->data, writer->size);
    free(writer->data);
    weft_fail(WEFT_NOMEM, "bootstrap: no memory for a frame");
    return NULL;
}

void weft_boot_bytes_drop(struct weft_boot_bytes *bytes)
{
    if (!bytes || --bytes->refs > 0)
        return;
    if (bytes->size <= WIPED_MAX)
        weft_crypto_wipe(bytes->data, bytes->size);
    free(bytes->data);
    free(bytes);
}

static void pop(struct weft_boot_edge *edge)
{
    struct weft_boot_out *out = edge->first;
    edge->first = out->next;
    edge->oobs -= out->type == WEFT_BOOT_OOB;
    if (!edge->first)
        edge->last = NULL;
    weft_boot_bytes_drop(out->body);
    free(out);
}

void weft_boot_edge_discard(struct weft_boot_edge *edge)
{
    while (edge->first)
        pop(edge);
    free(edge->wire);
    edge->wire = NULL;
    edge->wire_capacity = edge->wire_size = edge->wire_sent = 0;
}

static void want_output(struct weft_boot_edge *edge, int on)
{
    if (edge->wants_output == on || edge->link.fd < 0)
        return;
    edge->wants_output = on;
    if (weft_service_want_output(edge->owner->service, edge->link.fd, on) != WEFT_OK)
        edge->broken = 1;
}

/* Makes room for the largest piece of a body. */
static int reserve(struct weft_boot_edge *edge, size_t body_size)
{
    size_t piece = body_size < WEFT_BOOT_PIECE_MAX ? body_size : WEFT_BOOT_PIECE_MAX;
    size_t capacity = WEFT_BOOT_HEADER_BYTES + piece + WEFT_TAG_BYTES;
    if (capacity <= edge->wire_capacity)
        return WEFT_OK;
    unsigned char *grown = realloc(edge->wire, capacity);
    if (!grown)
        return weft_fail(WEFT_NOMEM, "bootstrap: no memory for a frame");
    edge->wire = grown;
    edge->wire_capacity = capacity;
    return WEFT_OK;
}

/* Seals the next piece of the first frame. The body is copied, since others share it, and under a key of its own each
 * edge needs other bytes; piece by piece, so that neither time nor memory depend on its size. */
static void seal_piece(struct weft_boot_edge *edge)
{
    struct weft_boot_out *out = edge->first;
    size_t left = (out->body ? out->body->size : 0) - out->taken;
    size_t size = left < WEFT_BOOT_PIECE_MAX ? left : WEFT_BOOT_PIECE_MAX;
    unsigned char *body = edge->wire + WEFT_BOOT_HEADER_BYTES;
    if (size)
        memcpy(body, out->body->data + out->taken, size);
    weft_boot_frame_seal(&edge->link.send, out->type, left > size, edge->wire, body, size, body + size);
    edge->wire_sent = 0;
    edge->wire_size = WEFT_BOOT_HEADER_BYTES + size + WEFT_TAG_BYTES;
    out->taken += size;
    if (left == size)
        pop(edge);
}

/* Sends what remains of the piece. 1: all of it is gone, -1: the socket is broken. 0: it is full, or the program has taken it,
 * which is no fault of the peer's: the service thread finds that and says so. */
static int send_piece(struct weft_boot_edge *edge)
{
    if (edge->wire_sent < edge->wire_size && !weft_fd_is_own(edge->link.fd))
        return 0;
    while (edge->wire_sent < edge->wire_size) {
        ssize_t sent = send(edge->link.fd, edge->wire + edge->wire_sent, edge->wire_size - edge->wire_sent,
                            MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent >= 0) {
            edge->wire_sent += (size_t)sent;
            edge->sent_ns = weft_clock_ns();
        } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
            return 0;
        } else if (errno != EINTR) {
            return -1;
        }
    }
    return 1;
}

void weft_boot_edge_flush(struct weft_boot_edge *edge)
{
    if (!edge->watched || edge->link.fd < 0)
        return;
    int sent = edge->broken ? -1 : send_piece(edge);
    for (int i = 0; sent > 0 && edge->first && i < PIECES_PER_FLUSH; i++) {
        seal_piece(edge);
        sent = send_piece(edge);
    }
    if (sent < 0) {
        edge->broken = 1;
        weft_boot_edge_discard(edge);
    }
    want_output(edge, weft_boot_edge_pending(edge));
}

void weft_boot_edge_adopt(struct weft_boot_edge *edge, int fd, const struct weft_auth_session *session)
{
    const struct weft_bootstrap *b = edge->owner;
    uint64_t accepts = WEFT_BOOT_EDGES;
    if (edge - b->edges < b->tree_count)
        accepts = edge->rank > b->rank ? WEFT_BOOT_UP : WEFT_BOOT_BIT(WEFT_BOOT_TABLE);
    edge->broken = edge->said_goodbye = edge->heard_goodbye = edge->doomed = 0; /* of the one before */
    weft_boot_link_open(&edge->link, fd, session, accepts);
}

int weft_boot_edge_takes(const struct weft_boot_edge *edge)
{
    return edge->link.fd >= 0 && !edge->said_goodbye && !edge->broken;
}

int weft_boot_edge_queue(struct weft_boot_edge *edge, int type, struct weft_boot_bytes *body)
{
    if (!weft_boot_edge_takes(edge))
        return WEFT_OK;
    if (reserve(edge, body ? body->size : 0) != WEFT_OK)
        return WEFT_NOMEM;
    struct weft_boot_out *out = calloc(1, sizeof *out);
    if (!out)
        return weft_fail(WEFT_NOMEM, "bootstrap: no memory for a frame");
    out->type = type;
    out->body = body;
    if (body)
        body->refs++;
    if (edge->last)
        edge->last->next = out;
    else
        edge->first = out;
    edge->last = out;
    edge->oobs += type == WEFT_BOOT_OOB;
    if (type == WEFT_BOOT_GOODBYE)
        edge->said_goodbye = 1;
    weft_boot_edge_flush(edge);
    return WEFT_OK;
}

int weft_boot_edge_queue_writer(struct weft_boot_edge *edge, int type, struct weft_boot_writer *writer)
{
    struct weft_boot_bytes *body = weft_boot_bytes_of(writer);
    if (!body)
        return WEFT_NOMEM;
    int status = weft_boot_edge_queue(edge, type, body);
    weft_boot_bytes_drop(body);
    return status;
}
