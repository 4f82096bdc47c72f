/* SPDX-License-Identifier: Apache-2.0 */
/* Announced messages, once a receive has taken them: turns, answers and transfers. */
#include "comm/p2p/internal.h"

#include "base/clock.h"
#include "base/error.h"

#define AT_ONCE_BYTES (64u << 10) /* up to here a transfer costs more than a few percent of the copy */

/* MATCHED: the id is that of the receive's transfer, 0: nothing moves any more. */
static int send_matched(struct weft_p2p *p2p, const struct weft_p2p_peer *peer,
                        const struct weft_request *receive, uint32_t id)
{
    struct weft_exec_peer *link;
    int status = weft_exec_connect(p2p->options.exec, peer->rank, &link);
    struct weft_wire_header header = {
        .op = receive->peer_id,
        .message = id,
        .slice = receive->is_taken && receive->is_asked ? (uint32_t)receive->read_ns : 0};
    return status == WEFT_OK ? weft_p2p_post(p2p, link, WEFT_WIRE_MATCHED, &header, NULL, 0) : status;
}

/* What was offered has been read: the sender is to hear of it. Where the link is full that is the peer's next turn. */
static void take_offer(struct weft_p2p *p2p, struct weft_p2p_peer *peer, struct weft_request *request)
{
    request->is_taken = 1;
    request->id = 0;
    if (request->is_asked) {
        int64_t read_ns = weft_clock_ns() - request->read_ns;
        request->read_ns = read_ns < 1 ? 1 : read_ns < UINT32_MAX ? read_ns : UINT32_MAX;
    }
    if (send_matched(p2p, peer, request, 0) == WEFT_OK) {
        weft_request_end(p2p, request, WEFT_OK);
        return;
    }
    request->state = WEFT_REQUEST_TURN;
    request->after = peer->turns.head;
    peer->turns.head = request;
    if (!request->after)
        peer->turns.tail = request;
    weft_p2p_pend(p2p, peer);
}

static void transfer_ended(void *arg, int status)
{
    struct weft_request *request = arg;
    struct weft_p2p *p2p = request->p2p;
    struct weft_p2p_peer *peer = p2p->peers[request->sends ? request->peer : request->found];
    weft_command_queue_put(request->commands);
    request->commands = NULL;
    if (!request->sends) {
        peer->moving--;
        if (peer->turns.head)
            weft_p2p_pend(p2p, peer);
        if (request->is_offered && status == WEFT_OK) {
            take_offer(p2p, peer, request);
            return;
        }
    } else if (request->is_timed && status == WEFT_OK) {
        weft_p2p_inside_observe(peer, request->bytes, request->took_ns);
    }
    weft_request_end(p2p, request, status);
}

/* Where this fails the request goes on until the communicator ends it. */
static int start_transfer(struct weft_p2p *p2p, struct weft_request *request, uint32_t rank)
{
    uint64_t bytes = request->sends ? request->bytes : request->found_bytes;
    struct weft_exec_transfer wanted = {
        .source = request->sends ? request->memory : NULL,
        .destination = request->sends ? NULL : request->memory,
        .bytes = bytes,
        .peer = rank,
        .peer_id = request->peer_id,
        .on_host = request->where.on_host,
        .took_ns = request->sends && request->is_timed ? &request->took_ns : NULL,
        .offered = request->sends || !request->is_offered ? NULL : &request->offer,
        .ended = transfer_ended,
        .arg = request};
    request->state = WEFT_REQUEST_MOVING;
    if (request->where.kind) {
        int status = weft_where_next_command_queue(p2p->options.context, &request->where, &request->commands);
        if (status != WEFT_OK)
            return status;
        wanted.commands = request->commands;
    }
    weft_exec_transfer_start(p2p->options.exec, request->id, &wanted);
    return WEFT_OK;
}

int weft_request_go(struct weft_p2p *p2p, struct weft_request *request, uint32_t peer_id, uint32_t read_ns)
{
    request->peer_id = peer_id;
    if (peer_id) {
        if (request->is_offered)
            weft_p2p_offer_end(p2p, request, 1);
        return start_transfer(p2p, request, (uint32_t)request->peer);
    }
    weft_exec_transfer_release(p2p->options.exec, request->id);
    if (request->is_timed)
        weft_p2p_inside_observe(p2p->peers[request->peer], request->bytes, request->is_offered ? read_ns : 0);
    weft_request_end(p2p, request, WEFT_OK);
    return WEFT_OK;
}

static int is_read_at_once(const struct weft_exec_peer *link, const struct weft_request *request)
{
    return request->is_offered && request->found_bytes <= AT_ONCE_BYTES && !request->where.kind &&
           !request->id && weft_exec_may_take(link, request->found_bytes);
}

/* Where reading fails the request goes on until the communicator ends it, and is not read again: a helper may still write. */
static int read_at_once(struct weft_p2p *p2p, struct weft_p2p_peer *peer, const struct weft_exec_peer *link,
                        struct weft_request *request)
{
    weft_p2p_dequeue(&peer->turns);
    request->state = WEFT_REQUEST_MOVING;
    if (request->is_asked)
        request->read_ns = weft_clock_ns();
    int status = weft_exec_read_offered(p2p->options.exec, link, &request->offer, request->memory,
                                        request->found_bytes);
    if (status == WEFT_OK)
        take_offer(p2p, peer, request);
    return status;
}

int weft_p2p_begin_turn(struct weft_p2p *p2p, struct weft_p2p_peer *peer)
{
    struct weft_request *request = peer->turns.head;
    int moves = request->found_bytes && request->found_bytes <= request->bytes && !request->is_taken;
    if (moves && peer->moving >= WEFT_P2P_TURNS)
        return WEFT_P2P_LATER;
    struct weft_exec_peer *link;
    int status = weft_exec_connect(p2p->options.exec, peer->rank, &link);
    if (status == WEFT_OK && moves && is_read_at_once(link, request))
        return read_at_once(p2p, peer, link, request);
    if (status == WEFT_OK && moves && !request->id)
        status = weft_exec_transfer_reserve(p2p->options.exec, request, &request->id);
    if (status != WEFT_OK)
        return status;
    if (!moves || request->where.kind || !weft_exec_may_take(link, request->found_bytes))
        request->is_offered = 0;
    if (!request->is_offered)
        status = send_matched(p2p, peer, request, request->id);
    if (status != WEFT_OK)
        return status;
    weft_p2p_dequeue(&peer->turns);
    if (moves) {
        peer->moving++;
        if (request->is_asked)
            request->read_ns = weft_clock_ns();
        return start_transfer(p2p, request, peer->rank);
    }
    if (request->is_taken)
        weft_request_end(p2p, request, WEFT_OK);
    else
        weft_request_deliver(p2p, request, NULL);
    return WEFT_OK;
}

void weft_request_turn(struct weft_p2p *p2p, struct weft_p2p_peer *peer, struct weft_request *request,
                       uint32_t peer_id)
{
    request->peer_id = peer_id;
    if (weft_request_is_held(request)) {
        weft_request_keep(request, NULL);
        return;
    }
    request->state = WEFT_REQUEST_TURN;
    weft_p2p_enqueue(&peer->turns, request);
    weft_p2p_pend(p2p, peer);
}
