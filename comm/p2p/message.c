/* SPDX-License-Identifier: Apache-2.0 */
/* What peers say. Everything is checked: a peer that is wrong ends the communicator, and nothing else. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "comm/p2p/internal.h"

static int space_of(const struct weft_wire_header *header)
{
    return header->flags & WEFT_WIRE_INTERNAL ? WEFT_SPACE_INTERNAL : WEFT_SPACE_USER;
}

/* Keeps a message until a receive takes it, with `copied` bytes: its payload, or of an announced one the token, if it has one. */
static int keep(struct weft_p2p *p2p, const struct weft_wire_header *header, uint64_t bytes,
                const void *payload, size_t copied)
{
    int is_announced = header->kind == WEFT_WIRE_ANNOUNCE;
    struct weft_p2p_arrived *arrived = malloc(sizeof *arrived + copied);
    if (!arrived)
        return weft_fail(WEFT_NOMEM, "no memory to keep a message of %zu bytes from rank %u", copied,
                         header->source);
    arrived->match.space = space_of(header);
    arrived->match.source = (int32_t)header->source;
    arrived->match.tag = (int64_t)header->count;
    arrived->bytes = bytes;
    arrived->id = is_announced ? header->op : 0;
    arrived->is_offered = is_announced && copied;
    arrived->is_asked = header->slice != 0;
    arrived->sender = NULL;
    if (copied)
        memcpy(arrived->payload, payload, copied);
    int status = weft_match_keep(&p2p->match, &arrived->match);
    if (status != WEFT_OK)
        free(arrived);
    else
        p2p->stats.bytes_kept += is_announced ? 0 : copied;
    return status;
}

/* The receive that a message is for, if one waits, with what it has found. */
static struct weft_request *claim(struct weft_p2p *p2p, const struct weft_wire_header *header, uint64_t bytes)
{
    struct weft_posted *posted =
        weft_match_claim(&p2p->match, space_of(header), (int32_t)header->source, (int64_t)header->count);
    if (!posted)
        return NULL;
    struct weft_request *request = weft_request_of(posted);
    request->found = (int32_t)header->source;
    request->found_tag = (int64_t)header->count;
    request->found_bytes = bytes;
    return request;
}

static int take_tagged(struct weft_p2p *p2p, struct weft_p2p_peer *peer,
                       const struct weft_wire_header *header, const void *payload)
{
    int space = space_of(header);
    uint64_t cost = (uint64_t)header->size + WEFT_P2P_COST;
    uint64_t used = cost + peer->held[space] + peer->owed[space], budget = weft_p2p_budget(space);
    if (used > budget)
        return weft_fail(WEFT_PROTOCOL, "rank %u has sent %llu bytes that it was given no credit for",
                         peer->rank, (unsigned long long)(used - budget));
    struct weft_request *request = claim(p2p, header, header->size);
    if (request) {
        weft_p2p_owe(p2p, peer, space, (uint32_t)cost);
        weft_request_deliver(p2p, request, payload);
        return WEFT_OK;
    }
    int status = keep(p2p, header, header->size, payload, header->size);
    peer->held[space] += status == WEFT_OK ? (uint32_t)cost : 0;
    return status;
}

/* Now and then with a look at how long it takes, where senders choose whether a message comes so. */
static int take_inside(struct weft_p2p *p2p, struct weft_p2p_peer *peer,
                       const struct weft_wire_header *header, const void *payload)
{
    if (__builtin_expect(header->size < WEFT_P2P_TIMED_BYTES, 1) || header->flags & WEFT_WIRE_INTERNAL)
        return take_tagged(p2p, peer, header, payload);
    if (peer->until_timed) {
        peer->until_timed--;
        return take_tagged(p2p, peer, header, payload);
    }
    int64_t begun_ns = weft_clock_ns();
    int status = take_tagged(p2p, peer, header, payload);
    weft_p2p_inside_read(peer, header->size, weft_clock_ns() - begun_ns);
    if (peer->is_read_due)
        weft_p2p_pend(p2p, peer);
    return status;
}

static int take_announce(struct weft_p2p *p2p, struct weft_p2p_peer *peer,
                         const struct weft_wire_header *header, const void *payload)
{
    struct weft_wire_announce announce;
    const size_t without = offsetof(struct weft_wire_announce, token);
    if ((header->size != without && header->size != sizeof announce) || header->op == 0)
        return weft_fail(WEFT_PROTOCOL, "rank %u announced message %08x with %u bytes: expected %zu or %zu",
                         peer->rank, header->op, header->size, without, sizeof announce);
    memcpy(&announce, payload, header->size);
    size_t token_bytes = header->size - without;
    struct weft_request *request = claim(p2p, header, announce.bytes);
    if (request) {
        if (token_bytes)
            weft_request_offered(request, &announce.token, header->slice != 0);
        weft_request_turn(p2p, peer, request, header->op);
        return WEFT_OK;
    }
    if (peer->announced >= WEFT_P2P_ANNOUNCE_MAX)
        return weft_fail(WEFT_PROTOCOL,
                         "rank %u has announced %u messages that no receive has taken: expected no more",
                         peer->rank, peer->announced);
    int status = keep(p2p, header, announce.bytes, &announce.token, token_bytes);
    peer->announced += status == WEFT_OK;
    return status;
}

static int take_matched(struct weft_p2p *p2p, struct weft_p2p_peer *peer,
                        const struct weft_wire_header *header)
{
    struct weft_request *request = weft_exec_transfer_arg(p2p->options.exec, header->op);
    if (header->size || !request || !request->sends || request->state != WEFT_REQUEST_ANNOUNCED ||
        request->peer != (int32_t)peer->rank || (request->bytes == 0 && header->message))
        return weft_fail(WEFT_PROTOCOL, "rank %u matched message %08x, which was not announced to it",
                         peer->rank, header->op);
    peer->waiting--;
    if (peer->sends.head)
        weft_p2p_pend(p2p, peer);
    return weft_request_go(p2p, request, header->message, header->slice);
}

static int take_credit(struct weft_p2p *p2p, struct weft_p2p_peer *peer,
                       const struct weft_wire_header *header)
{
    int space = space_of(header);
    uint32_t used = weft_p2p_budget(space) - peer->credit[space];
    if (header->size || header->count == 0 || header->count > used)
        return weft_fail(WEFT_PROTOCOL, "rank %u gave back %llu bytes of credit: %u were used", peer->rank,
                         (unsigned long long)header->count, used);
    peer->credit[space] += (uint32_t)header->count;
    if (header->slice)
        peer->their_read_ns = header->slice;
    if (peer->sends.head)
        weft_p2p_pend(p2p, peer);
    return WEFT_OK;
}

int weft_p2p_message(struct weft_p2p *p2p, const struct weft_wire_header *header, const void *payload)
{
    int has_tag = header->kind == WEFT_WIRE_TAGGED || header->kind == WEFT_WIRE_ANNOUNCE;
    int may_be_own = header->kind == WEFT_WIRE_TAGGED || header->kind == WEFT_WIRE_ROOM;
    if (header->flags & ~(may_be_own ? WEFT_WIRE_INTERNAL : 0) || header->source == p2p->options.rank ||
        (has_tag && (int64_t)header->count < 0))
        return weft_fail(WEFT_PROTOCOL, "a message of kind %u, flags %u, tag %lld from rank %u is malformed",
                         header->kind, header->flags, (long long)header->count, header->source);
    struct weft_p2p_peer *peer = weft_p2p_peer_find(p2p, header->source);
    if (!peer)
        return weft_fail(WEFT_NOMEM, "no memory for the state of rank %u", header->source);
    switch (header->kind) {
    case WEFT_WIRE_TAGGED:
        return take_inside(p2p, peer, header, payload);
    case WEFT_WIRE_ANNOUNCE:
        return take_announce(p2p, peer, header, payload);
    case WEFT_WIRE_MATCHED:
        return take_matched(p2p, peer, header);
    case WEFT_WIRE_ROOM:
        return take_credit(p2p, peer, header);
    default:
        return weft_fail(WEFT_PROTOCOL, "rank %u sent kind %u", header->source, header->kind);
    }
}
