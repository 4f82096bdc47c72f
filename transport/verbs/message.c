/* SPDX-License-Identifier: Apache-2.0 */
/* Messages, frames and credits: see "Frames" and "Flow control" in verbs_private.h.
 *
 * A small message is one request with the bytes inside: its frame header, the caller's header and payload are
 * gathered by the processor while it writes the request, so nothing of the caller's is used later and no memory of ours
 * is needed. A larger one is copied into a registered buffer, which comes back when its entry has been retired.
 */
#include <string.h>
#include "base/error.h"
#include "base/log.h"
#include "transport/verbs/failover.h"
#include "transport/verbs/verbs_private.h"

/* What is to be sent, in three parts. */
struct outgoing {
    struct verbs_frame frame;
    const void *header, *payload;
    size_t header_size, payload_size;
    uint32_t reserve; /* send entries that it leaves to others */
    int signal;
};

/* The queue pair that messages use: all of them the same, as only one queue pair keeps their order. */
static struct verbs_qp *message_queue_pair(const struct weft_link *link)
{
    return link->qps[link->first];
}

static void frame_fill(const struct weft_link *link, struct verbs_frame *frame, enum verbs_frame_type type,
                       uint32_t sequence, uint16_t qps)
{
    frame->mark = VERBS_FRAME_MARK;
    frame->type = (uint8_t)type;
    frame->qps = qps;
    frame->link = link->peer_id;
    frame->sequence = sequence;
    frame->consumed = link->consumed;
}

/* A send. What only other requests have stays as it is: there is a lot of it. */
static void entry_set(struct ibv_send_wr *entry, struct ibv_sge *parts, unsigned flags)
{
    entry->next = NULL;
    entry->sg_list = parts;
    entry->num_sge = 1;
    entry->opcode = IBV_WR_SEND;
    entry->send_flags = flags;
    entry->imm_data = 0;
}

static void part_set(struct ibv_sge *part, const void *memory, size_t size)
{
    part->addr = (uintptr_t)memory;
    part->length = (uint32_t)size;
    part->lkey = 0;
}

/* The bytes go into the request. */
static int send_inline(struct verbs_qp *qp, const struct outgoing *outgoing)
{
    struct ibv_sge parts[3];
    struct ibv_send_wr entry;
    entry_set(&entry, parts, IBV_SEND_INLINE);
    part_set(&parts[0], &outgoing->frame, sizeof outgoing->frame);
    if (outgoing->header_size)
        part_set(&parts[entry.num_sge++], outgoing->header, outgoing->header_size);
    if (outgoing->payload_size)
        part_set(&parts[entry.num_sge++], outgoing->payload, outgoing->payload_size);
    return verbs_qp_post(qp, &entry, 1, (struct verbs_post){VERBS_POST_NONE, NULL}, outgoing->reserve,
                         outgoing->signal);
}

static int send_copied(struct verbs_qp *qp, const struct outgoing *outgoing)
{
    if (qp->link->sends >= VERBS_LINK_SENDS || !verbs_qp_room(qp, outgoing->reserve))
        return WEFT_AGAIN;
    struct verbs_buffer *buffer = verbs_send_take(qp->queues);
    if (!buffer)
        return WEFT_AGAIN;
    uint8_t *end = buffer->memory;
    memcpy(end, &outgoing->frame, sizeof outgoing->frame);
    end += sizeof outgoing->frame;
    if (outgoing->header_size)
        memcpy(end, outgoing->header, outgoing->header_size);
    end += outgoing->header_size;
    if (outgoing->payload_size)
        memcpy(end, outgoing->payload, outgoing->payload_size);
    end += outgoing->payload_size;
    struct ibv_sge part;
    part_set(&part, buffer->memory, (size_t)(end - buffer->memory));
    part.lkey = buffer->lkey;
    struct ibv_send_wr entry;
    entry_set(&entry, &part, 0);
    int status = verbs_qp_post(qp, &entry, 1, (struct verbs_post){VERBS_POST_FRAME, buffer},
                               outgoing->reserve, outgoing->signal);
    if (status)
        verbs_send_return(qp->queues, buffer);
    else
        qp->link->sends++;
    return status;
}

static int outgoing_send(struct weft_link *link, const struct outgoing *outgoing)
{
    struct verbs_qp *qp = message_queue_pair(link);
    size_t size = sizeof outgoing->frame + outgoing->header_size + outgoing->payload_size;
    int status = size <= qp->inline_bytes ? send_inline(qp, outgoing) : send_copied(qp, outgoing);
    if (!status)
        link->reported = outgoing->frame.consumed;
    return status;
}

int verbs_send(struct weft_link *link, const void *header, size_t header_size, const void *payload,
               size_t payload_size)
{
    if (link->state != VERBS_LINK_UP)
        return link->state == VERBS_LINK_FAILED ? weft_fail(link->status, "%s", link->why) : WEFT_AGAIN;
    size_t size = sizeof(struct verbs_frame) + header_size + payload_size;
    if (size > link->frame_bytes || header_size > size || payload_size > size)
        return weft_fail(WEFT_INVALID, "verbs: message of %zu bytes, expected at most %zu",
                         header_size + payload_size, link->frame_bytes - sizeof(struct verbs_frame));
    if (link->sent - link->acked >= link->peer_window || (link->unbound | link->held | link->leave))
        return WEFT_AGAIN;
    struct outgoing outgoing;
    frame_fill(link, &outgoing.frame, VERBS_DATA, link->sent, 0);
    outgoing.header = header;
    outgoing.header_size = header_size;
    outgoing.payload = payload;
    outgoing.payload_size = payload_size;
    outgoing.reserve = VERBS_SEND_CONTROL;
    outgoing.signal = 0;
    int status =
        link->failover ? verbs_message_keep(link, header, header_size, payload, payload_size) : WEFT_OK;
    if (!status)
        status = outgoing_send(link, &outgoing);
    if (!status)
        link->sent++;
    return status;
}

int verbs_message_replay(struct weft_link *link, uint32_t sequence, const void *bytes, size_t size)
{
    struct outgoing outgoing = {.payload = bytes, .payload_size = size, .reserve = VERBS_SEND_CONTROL};
    frame_fill(link, &outgoing.frame, VERBS_DATA, sequence, 0);
    return outgoing_send(link, &outgoing);
}

int verbs_frame_send_long(struct weft_link *link, enum verbs_frame_type type, const void *bytes, size_t size)
{
    struct outgoing outgoing = {.payload = bytes, .payload_size = size, .signal = 1};
    frame_fill(link, &outgoing.frame, type, 0, 0);
    return outgoing_send(link, &outgoing);
}

int verbs_frame_send(struct weft_link *link, enum verbs_frame_type type, uint32_t sequence, uint16_t qps,
                     int signal)
{
    struct outgoing outgoing = {.signal = signal};
    frame_fill(link, &outgoing.frame, type, sequence, qps);
    return outgoing_send(link, &outgoing);
}

void verbs_message_consume(struct weft_link *link)
{
    link->consumed++;
    if (link->consumed - link->reported >= link->window / 2 && link->state == VERBS_LINK_UP)
        verbs_link_want(link, VERBS_PENDING_CREDIT);
}

/* The link that a frame came on, NULL when it is of no use. The queue pair says whose it is; a peer that has the link's
 * id wrong breaks its own link. */
static struct weft_link *frame_link(struct verbs_queues *queues, const struct verbs_frame *frame,
                                    uint32_t size, uint32_t qp_number)
{
    struct weft_link *link = NULL;
    if (size >= sizeof *frame && frame->mark == VERBS_FRAME_MARK)
        link = verbs_link_find(queues->transport, frame->link);
    const struct verbs_qp *first = link ? link->qps[link->first] : NULL;
    if (first && first->queues == queues && first->ibv->qp_num == qp_number)
        return link->state == VERBS_LINK_FAILED ? NULL : link;
    struct verbs_qp *qp = verbs_qp_by_number(queues, qp_number);
    if (qp)
        verbs_link_fail(qp->link, WEFT_PROTOCOL, "verbs: the peer sent a malformed frame of %u bytes", size);
    return NULL;
}

/* A frame other than DATA. */
static void control_arrived(struct weft_link *link, const struct verbs_frame *frame, uint32_t size)
{
    if (frame->type == VERBS_KEYS || frame->type == VERBS_KEYS_END)
        verbs_keys_receive(link, frame, size);
    if (frame->type >= VERBS_RELEASE && frame->type <= VERBS_KEPT)
        verbs_leave_receive(link, frame->type);
    if (frame->type == VERBS_CANCEL)
        verbs_cancel_receive(link, frame->sequence, frame->qps);
    if (frame->type != VERBS_BYE)
        return; /* CREDIT, and what a later version adds */
    if (frame->sequence != link->expected)
        verbs_link_fail(link, WEFT_PROTOCOL, "verbs: the peer closed after message %u, %u was expected",
                        frame->sequence, link->expected);
    else if (!link->gone) {
        link->gone = 1;
        link->transport->links_leaving++;
    }
}

/* The last message once more. Soft-RoCE can count wrong when it sends something long again and then an acknowledgement of the
 * first time comes: what follows gets packet numbers too high by one, and the peer takes the last message that it has for a
 * new one. More than one cannot come again so, nothing is lost, and all that follows is in order; so it does no harm to
 * pass over it. A message that is missing, or an older one, is an error.
 *
 * It delivers the last message or immediate again and again, too, when its queue pair goes into error between the
 * completion and the acknowledgement (rxe's do_complete(), seen with Linux 6.12: 51 times), for as long as there are receives. */
static int is_repeated(const struct weft_link *link, const struct verbs_frame *frame)
{
    return frame->sequence == link->expected - 1 && link->expected != VERBS_FIRST_SEQUENCE;
}

struct weft_link *verbs_frame_receive(struct verbs_queues *queues, const struct verbs_buffer *buffer,
                                      uint32_t qp_number)
{
    const struct verbs_frame *frame = (const struct verbs_frame *)(const void *)buffer->memory;
    struct weft_link *link = frame_link(queues, frame, buffer->size, qp_number);
    if (!link || !link->ready) {
        queues->transport->stale_frames++;
        return NULL;
    }
    if (link->state == VERBS_LINK_CONNECTING)
        verbs_link_up(link); /* who sends has had our half */
    if ((int32_t)(frame->consumed - link->acked) > 0) {
        if ((int32_t)(link->sent - frame->consumed) < 0) {
            verbs_link_fail(link, WEFT_PROTOCOL,
                            "verbs: the peer acknowledges messages that were never sent");
            return NULL;
        }
        link->acked = frame->consumed;
    }
    if (frame->type != VERBS_DATA) {
        control_arrived(link, frame, buffer->size);
        return NULL;
    }
    if (is_repeated(link, frame)) {
        queues->transport->stale_frames++;
        weft_log(
            verbs_failover_is_turning(link) ? WEFT_LOG_DEBUG : WEFT_LOG_WARN,
            "verbs: the device delivered message %u twice; is WEFT_VERBS_TIMEOUT too short for the network?",
            frame->sequence);
        return NULL;
    }
    if (frame->sequence != link->expected || link->expected - link->reported >= link->window) {
        if (link->failover && (int32_t)(frame->sequence - link->expected) < 0) {
            queues->transport->stale_frames++; /* it has been here */
            return NULL;
        }
        verbs_link_fail(
            link, WEFT_PROTOCOL,
            "verbs: message %u arrived where %u was expected, %u of a window of %u are not consumed",
            frame->sequence, link->expected, link->expected - link->reported, link->window);
        return NULL;
    }
    link->expected++;
    return link;
}
