/* SPDX-License-Identifier: Apache-2.0 */
/* Requests from their beginning to their end, and the peers that they are about. What other files here do with them is built on this. */
#include <stdlib.h>
#include <string.h>

#include "comm/exec/stream.h"
#include "comm/p2p/internal.h"

struct weft_p2p_peer *weft_p2p_peer_find(struct weft_p2p *p2p, uint32_t rank)
{
    if (!p2p->peers)
        p2p->peers = calloc(p2p->options.ranks, sizeof *p2p->peers);
    if (!p2p->peers)
        return NULL;
    struct weft_p2p_peer *peer = p2p->peers[rank];
    if (!peer) {
        peer = calloc(1, sizeof *peer);
        if (!peer)
            return NULL;
        peer->rank = rank;
        for (int space = WEFT_SPACE_USER; space <= WEFT_SPACE_INTERNAL; space++)
            peer->credit[space] = weft_p2p_budget(space);
        weft_choice_open(&peer->inside, 2);
        p2p->peers[rank] = peer;
    }
    return peer;
}

int weft_p2p_post(struct weft_p2p *p2p, const struct weft_exec_peer *link, enum weft_wire_kind kind,
                  struct weft_wire_header *header, const void *payload, size_t size)
{
    header->source = p2p->options.rank;
    header->size = (uint32_t)size;
    header->kind = (uint8_t)kind;
    header->version = WEFT_WIRE_VERSION;
    return weft_exec_post(p2p->options.exec, link, header, payload);
}

void weft_p2p_pend(struct weft_p2p *p2p, struct weft_p2p_peer *peer)
{
    if (peer->pending)
        return;
    peer->pending = 1;
    peer->next_pending = p2p->pending;
    p2p->pending = peer;
}

int weft_request_is_held(const struct weft_request *request)
{
    return request->stream_wait && !request->is_reached;
}

void weft_request_keep(struct weft_request *request, const void *payload)
{
    size_t bytes = request->found_bytes;
    request->state = WEFT_REQUEST_HELD;
    if (!payload || !bytes || bytes > request->bytes)
        return; /* nothing to be moved */
    request->payload = malloc(bytes);
    if (request->payload)
        memcpy(request->payload, payload, bytes);
    else
        request->keeping = weft_fail(WEFT_NOMEM, "no memory to keep a message of %zu bytes", bytes);
}

/* It ends: opens its stream wait. */
static void unfollow(struct weft_p2p *p2p, struct weft_request *request)
{
    if (request->is_listed) {
        *(request->held_previous ? &request->held_previous->held_next : &p2p->options.context->p2p.held) =
            request->held_next;
        if (request->held_next)
            request->held_next->held_previous = request->held_previous;
    }
    request->is_listed = 0;
    free(request->payload);
    request->payload = NULL;
    weft_stream_wait_put(request->stream_wait);
    request->stream_wait = NULL;
}

void weft_request_begin(struct weft_p2p *p2p, struct weft_request *request, enum weft_request_state state)
{
    request->p2p = p2p;
    request->status = WEFT_AGAIN;
    request->state = (uint8_t)state;
    request->is_offered = request->is_taken = request->is_decided = 0;
    request->is_timed = request->is_asked = 0;
    request->found = -1;
    request->next = NULL;
    request->previous = p2p->tail;
    *(p2p->tail ? &p2p->tail->next : &p2p->head) = request;
    p2p->tail = request;
}

void weft_request_leave(struct weft_p2p *p2p, struct weft_request *request)
{
    *(request->previous ? &request->previous->next : &p2p->head) = request->next;
    *(request->next ? &request->next->previous : &p2p->tail) = request->previous;
}

void weft_request_end(struct weft_p2p *p2p, struct weft_request *request, int status)
{
    weft_request_leave(p2p, request);
    p2p->send_ids -= request->sends && request->id;
    if (request->sends && request->is_offered)
        weft_p2p_offer_end(p2p, request, status == WEFT_OK);
    request->state = WEFT_REQUEST_ENDED;
    request->status = status;
    if (status == WEFT_OK)
        *(request->sends ? &p2p->stats.sends : &p2p->stats.receives) += 1;
    if (request->stream_wait)
        unfollow(p2p, request);
    if (request->ended)
        request->ended(request);
}
