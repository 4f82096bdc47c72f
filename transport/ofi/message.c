/* SPDX-License-Identifier: Apache-2.0 */
/* Messages and control frames: see ofi_private.h for the frames, credits and order. */
#include <string.h>
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "transport/ofi/ofi_private.h"

static uint32_t owed(const struct weft_link *link)
{
    return link->consumed - link->reported;
}

static void frame_fill(struct weft_link *link, struct ofi_frame *frame, enum ofi_frame_type type)
{
    frame->mark = OFI_FRAME_MARK;
    frame->type = (uint8_t)type;
    frame->filled = link->filled;
    frame->link = link->peer_id;
    frame->pass = link->peer_pass;
    frame->sequence = type == OFI_FLUSH ? link->flushes : type == OFI_CREDIT ? link->flushed : link->sent;
    frame->consumed = link->consumed;
}

static void frame_sent(struct weft_link *link)
{
    link->stuck_ns = 0;
    link->reported = link->consumed;
    link->filled_reported = link->filled;
}

/* What a connection of ofi_rxm registers at least: its buffers. */
#define OFI_CONNECTION_BYTES (64u << 10)

/* WEFT_AGAIN for a full queue; anything else has failed the link. */
static int send_failed(struct weft_link *link, ssize_t error)
{
    if (error == -FI_EAGAIN)
        return ofi_link_stuck(link);
    if (ofi_hello_again(link))
        return WEFT_AGAIN;
    /* Connections of ofi_rxm register memory of their own. */
    char limit[OFI_LIMIT_TEXT];
    int registers = error == -FI_ENOMEM && link->transport->local_mr;
    ofi_limit_reached(link->transport, (int)error, registers ? OFI_CONNECTION_BYTES : 0, limit, sizeof limit);
    ofi_link_fail(link, link->state == OFI_LINK_UP && !*limit ? WEFT_PEER_FAILED : WEFT_TRANSPORT,
                  "ofi: sending failed: %s%s", link->transport->library->strerror((int)-error), limit);
    return weft_fail(link->status, "%s", link->why);
}

/* When ofi_rxm closes a connection, be it that the peer has ended it or that the endpoint closes, it then takes what
 * this peer had sent before from the completion queue, posting each buffer again at what it has just closed: it
 * crashes (seen with 1.17; open upstream as issue 11828). So nothing may be unread then.
 *
 * Connecting looks for ended connections at once: the queue is emptied before. Polling reads the queue first. At the
 * end BYE goes both ways, as the last frame of either side: who closes has read the other's, and waits a moment after
 * its own, so that it is read, too (ofi.c). */
void ofi_queue_settle(struct weft_transport *transport)
{
    /* Nothing is taken: it only makes progress, by one completion unless FI_OFI_RXM_COMP_PER_PROGRESS says more, and
     * whether there was one is not known. */
    for (int i = 0; i < 4 * OFI_BATCH; i++)
        fi_cq_read(transport->cq, NULL, 0);
}

static void prepare_connect(struct weft_link *link)
{
    if (link->transport->fragile && (link->state == OFI_LINK_CONNECTING || link->stuck_ns))
        ofi_queue_settle(link->transport);
}

/* Up to inject_bytes: libfabric copies, and reports nothing. */
static int frame_inject(struct weft_link *link, enum ofi_frame_type type, const void *header,
                        size_t header_size, const void *payload, size_t payload_size)
{
    struct weft_transport *transport = link->transport;
    uint8_t *start = transport->scratch + transport->prefix;
    frame_fill(link, (struct ofi_frame *)start, type);
    start += sizeof(struct ofi_frame);
    if (header_size)
        memcpy(start, header, header_size);
    if (payload_size)
        memcpy(start + header_size, payload, payload_size);
    size_t size = transport->prefix + sizeof(struct ofi_frame) + header_size + payload_size;
    prepare_connect(link);
    ssize_t error = fi_inject(transport->ep, transport->scratch, size, link->to);
    return error ? send_failed(link, error) : WEFT_OK;
}

/* Sends size bytes of a buffer, which comes back with the completion. */
static int buffer_post(struct weft_link *link, struct ofi_buffer *buffer, size_t size)
{
    struct weft_transport *transport = link->transport;
    buffer->op.link = link;
    prepare_connect(link);
    ssize_t error = fi_send(transport->ep, buffer->memory, transport->prefix + size, buffer->desc, link->to,
                            &buffer->op.context);
    if (!error) {
        ofi_link_started(link);
        return WEFT_OK;
    }
    ofi_send_return(transport, buffer);
    return send_failed(link, error);
}

/* From a registered buffer. */
static int frame_post(struct weft_link *link, enum ofi_frame_type type, const void *header,
                      size_t header_size, const void *payload, size_t payload_size)
{
    struct weft_transport *transport = link->transport;
    struct ofi_buffer *buffer = ofi_send_take(transport);
    if (!buffer)
        return WEFT_AGAIN;
    uint8_t *start = buffer->memory + transport->prefix;
    frame_fill(link, (struct ofi_frame *)start, type);
    start += sizeof(struct ofi_frame);
    if (header_size)
        memcpy(start, header, header_size);
    if (payload_size)
        memcpy(start + header_size, payload, payload_size);
    buffer->control = 0;
    return buffer_post(link, buffer, sizeof(struct ofi_frame) + header_size + payload_size);
}

int ofi_frame_send(struct weft_link *link, enum ofi_frame_type type, const void *body, size_t body_size,
                   int watched)
{
    int status;
    if (!watched && sizeof(struct ofi_frame) + body_size <= link->transport->inject_bytes)
        status = frame_inject(link, type, body, body_size, NULL, 0);
    else
        status = frame_post(link, type, body, body_size, NULL, 0);
    if (!status)
        frame_sent(link);
    return status;
}

int ofi_bye_send(struct weft_link *link)
{
    int status = ofi_frame_send(link, OFI_BYE, NULL, 0, 1);
    if (status)
        return status;
    link->parted = 1;
    link->transport->parted_ns = weft_clock_ns();
    return WEFT_OK;
}

int ofi_frame_send_raw(struct weft_link *link, const void *frame, size_t size)
{
    struct weft_transport *transport = link->transport;
    struct ofi_buffer *buffer = ofi_send_take(transport);
    if (!buffer)
        return WEFT_AGAIN;
    memcpy(buffer->memory + transport->prefix, frame, size);
    buffer->control = 1;
    return buffer_post(link, buffer, size);
}

int ofi_send(struct weft_link *link, const void *header, size_t header_size, const void *payload,
             size_t payload_size)
{
    struct weft_transport *transport = link->transport;
    if (link->state != OFI_LINK_UP)
        return link->state != OFI_LINK_FAILED ? WEFT_AGAIN : weft_fail(link->status, "%s", link->why);
    size_t size = sizeof(struct ofi_frame) + header_size + payload_size;
    if (size > transport->frame_bytes || size < header_size)
        return weft_fail(WEFT_INVALID, "ofi: message of %zu bytes, expected at most %zu",
                         header_size + payload_size, transport->frame_bytes - sizeof(struct ofi_frame));
    if (link->sent - link->acked >= link->peer_window)
        return WEFT_AGAIN;
    int status;
    if (size <= transport->inject_bytes)
        status = frame_inject(link, OFI_DATA, header, header_size, payload, payload_size);
    else
        status = frame_post(link, OFI_DATA, header, header_size, payload, payload_size);
    if (status)
        return status;
    link->sent++;
    frame_sent(link);
    return WEFT_OK;
}

void ofi_buffer_repost(struct weft_transport *transport, struct ofi_buffer *buffer)
{
    buffer->next = transport->unposted;
    transport->unposted = buffer;
    ofi_receives_post(transport);
}

void ofi_message_consume(struct weft_link *link, struct ofi_buffer *buffer)
{
    struct weft_transport *transport = link->transport;
    ofi_buffer_repost(transport, buffer);
    link->consumed++;
    if (owed(link) >= (link->window + 1) / 2)
        ofi_link_want(link, OFI_PENDING_CREDIT);
    else if (!transport->owing) {
        transport->owing = 1;
        transport->owing_since_ns = 0;
    }
}

void ofi_acks_want(struct weft_transport *transport)
{
    transport->owing = 0;
    for (uint32_t i = 0; i < transport->links_count; i++) {
        struct weft_link *link = transport->links[i];
        if (owed(link) || link->filled != link->filled_reported)
            ofi_link_want(link, OFI_PENDING_CREDIT);
    }
}

/* Takes over what the peer says it is done with. Frames may have overtaken each other. */
static void counters_read(struct weft_link *link, const struct ofi_frame *frame)
{
    if ((int32_t)(frame->consumed - link->acked) > 0) {
        if ((int32_t)(link->sent - frame->consumed) < 0) {
            ofi_link_fail(link, WEFT_PROTOCOL, "ofi: the peer acknowledges messages that were never sent");
            return;
        }
        link->acked = frame->consumed;
    }
    if ((int16_t)(uint16_t)(frame->filled - link->puts_acked) > 0)
        link->puts_acked = frame->filled;
}

/* Numbers that have arrived without a gap become events. */
static void message_arrived(struct weft_link *link, struct ofi_buffer *buffer, uint32_t sequence)
{
    struct weft_transport *transport = link->transport;
    uint32_t ahead = sequence - link->expected;
    if (ahead >= link->window || (ahead && transport->ordered) || link->held[sequence % OFI_WINDOW]) {
        ofi_buffer_repost(transport, buffer);
        ofi_link_fail(link, WEFT_PROTOCOL, "ofi: message %u arrived where %u was expected", sequence,
                      link->expected);
        return;
    }
    buffer->op.link = link;
    link->held[sequence % OFI_WINDOW] = buffer;
    while ((buffer = link->held[link->expected % OFI_WINDOW]) != NULL) {
        link->held[link->expected++ % OFI_WINDOW] = NULL;
        ofi_event_push(transport, &buffer->event, WEFT_EVENT_MESSAGE, WEFT_OK);
    }
}

/* After the last message of a peer that said BYE its link is over. */
static void end_check(struct weft_link *link)
{
    if (link->gone && link->expected == link->last) {
        link->lost = 1;
        ofi_link_fail(link, WEFT_PEER_FAILED, "ofi: the peer has closed its end");
    }
}

/* How many messages the peer has sent before a FLUSH or CREDIT: all of them are here, or lost. */
static void sent_read(struct weft_link *link, uint32_t size, uint32_t sent)
{
    if (!link->wary || !link->transport->ordered || size < sizeof(struct ofi_frame) + sizeof sent ||
        sent == link->expected)
        return;
    ofi_link_fail(link, WEFT_PEER_FAILED,
                  "ofi: provider %s lost messages of the peer's: %u arrived of %u, then another connection "
                  "took the place of theirs",
                  link->transport->info->fabric_attr->prov_name, link->expected - OFI_FIRST_SEQUENCE,
                  sent - OFI_FIRST_SEQUENCE);
}

/* A frame of an established link, other than DATA. */
static void control_arrived(struct weft_link *link, const struct ofi_frame *frame, uint32_t size)
{
    uint32_t immediate = 0;
    if (size >= sizeof *frame + sizeof immediate)
        memcpy(&immediate, frame + 1, sizeof immediate);
    else if (frame->type == OFI_CANCEL || frame->type == OFI_CANCELLED || frame->type == OFI_SOCKET)
        return;
    if (frame->type == OFI_FLUSH || frame->type == OFI_CREDIT)
        sent_read(link, size, immediate);
    switch (frame->type) {
    case OFI_CREDIT:
        /* Whatever was put before the FLUSH has arrived by now, or found no receive buffer. */
        if (link->flushes && frame->sequence == link->flushes &&
            (int16_t)(uint16_t)(link->puts_flushed - link->puts_acked) > 0)
            link->puts_acked = link->puts_flushed;
        break;
    case OFI_SOCKET:
        link->peer_port = (uint16_t)immediate;
        break;
    case OFI_FLUSH:
        if ((int32_t)(frame->sequence - link->flushed) > 0)
            link->flushed = frame->sequence;
        ofi_link_want(link, OFI_PENDING_CREDIT);
        break;
    case OFI_CANCEL:
        ofi_cancel_receive(link, immediate);
        break;
    case OFI_CANCELLED:
        ofi_cancelled_receive(link, immediate);
        break;
    case OFI_BYE:
        link->gone = 1;
        link->last = frame->sequence;
        if (link->transport->fragile && !link->parted && link->state == OFI_LINK_UP)
            ofi_bye_send(link); /* now or never: the link ends here */
        break;
    default: /* what a later version adds is not for us */
        break;
    }
}

/* The link that a frame is for. Until the pass is known to be right, nothing else of the frame counts. */
static struct weft_link *frame_link(struct weft_transport *transport, const struct ofi_frame *frame)
{
    struct weft_link *link = ofi_link_find(transport, frame->link);
    if (!link || !weft_crypto_equal(&link->pass, &frame->pass, sizeof link->pass)) {
        ofi_stranger(transport);
        return NULL;
    }
    /* The peer knows the pass, so it has had our HELLO; its own may have been overtaken. */
    return link->state == OFI_LINK_FAILED ? NULL : link;
}

void ofi_frame_receive(struct weft_transport *transport, struct ofi_buffer *buffer)
{
    const struct ofi_frame *frame = (const struct ofi_frame *)(buffer->memory + transport->prefix);
    struct weft_link *link = NULL;
    if (buffer->size < sizeof *frame || frame->mark != OFI_FRAME_MARK) {
        ofi_stranger(transport);
        goto drop;
    }
    if (frame->type == OFI_HELLO) {
        ofi_hello_receive(transport, frame, buffer->size);
        ofi_buffer_repost(transport, buffer);
        return;
    }
    link = frame_link(transport, frame);
    if (!link)
        goto drop;
    link->probed_ns = 0;
    link->heard = 1;
    ofi_link_answered(link);
    counters_read(link, frame);
    if (link->state == OFI_LINK_FAILED)
        goto drop;
    if (frame->type == OFI_DATA) {
        message_arrived(link, buffer, frame->sequence);
    } else {
        control_arrived(link, frame, buffer->size);
        ofi_buffer_repost(transport, buffer);
    }
    end_check(link);
    return;

drop:
    transport->stale_frames++;
    ofi_buffer_repost(transport, buffer);
}
