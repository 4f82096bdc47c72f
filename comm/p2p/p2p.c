/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/p2p/internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"

#define ROUND_BYTES  (256u << 10) /* of one peer, read in a row where it is offered */
#define CREDIT_PARTS 4            /* of the credit: one is owed before it is announced */

int weft_p2p_open(const struct weft_p2p_options *options, struct weft_p2p **opened)
{
    struct weft_p2p *p2p = calloc(1, sizeof *p2p);
    if (!p2p)
        return weft_fail(WEFT_NOMEM, "no memory for point-to-point messages");
    p2p->options = *options;
    p2p->send_ids_max = options->ranks < WEFT_TRANSFERS_MAX / 2 / WEFT_P2P_TURNS
                            ? WEFT_TRANSFERS_MAX - options->ranks * WEFT_P2P_TURNS
                            : WEFT_TRANSFERS_MAX / 2;
    *opened = p2p;
    return WEFT_OK;
}

static void drop_arrived(struct weft_p2p *p2p)
{
    for (int space = WEFT_SPACE_USER; space <= WEFT_SPACE_INTERNAL; space++) {
        struct weft_arrived *arrived;
        while ((arrived = weft_match_next(&p2p->match, space, NULL))) {
            weft_match_remove(&p2p->match, arrived);
            free(arrived);
        }
    }
}

struct weft_comm *weft_p2p_comm(const struct weft_p2p *p2p)
{
    return p2p->options.comm;
}

void weft_p2p_close(struct weft_p2p *p2p)
{
    if (!p2p)
        return;
    weft_p2p_fail(p2p, WEFT_CANCELLED);
    weft_match_close(&p2p->match);
    for (uint32_t r = 0; r < p2p->options.ranks && p2p->peers; r++)
        free(p2p->peers[r]);
    free(p2p->peers);
    free(p2p);
}

static int revoked(const struct weft_p2p *p2p)
{
    return p2p->status ? weft_fail(WEFT_REVOKED, "the communicator was revoked") : WEFT_OK;
}

/* --- sending */

/* Whether the message goes inside one of the link's. *is_timed: as weft_p2p_goes_inside(). */
static inline int fits(struct weft_p2p *p2p, struct weft_p2p_peer *peer, const struct weft_exec_peer *link,
                       int space, const void *memory, size_t bytes, int *is_timed)
{
    size_t most = space == WEFT_SPACE_INTERNAL ? WEFT_P2P_OOB_MAX : link->eager_bytes;
    *is_timed = 0;
    if (bytes + WEFT_P2P_COST > peer->credit[space])
        return 0;
    if (__builtin_expect(bytes <= most, 1))
        return 1;
    return space == WEFT_SPACE_USER && bytes <= link->inside_bytes &&
           weft_p2p_goes_inside(p2p, peer, memory, bytes, is_timed);
}

static inline int post_tagged(struct weft_p2p *p2p, struct weft_p2p_peer *peer,
                              const struct weft_exec_peer *link, int64_t tag, int space, const void *memory,
                              size_t bytes, int is_timed)
{
    int64_t begun_ns = __builtin_expect(is_timed, 0) ? weft_clock_ns() : 0;
    struct weft_wire_header header = {.count = (uint64_t)tag,
                                      .flags = space == WEFT_SPACE_INTERNAL ? WEFT_WIRE_INTERNAL : 0};
    int status = weft_p2p_post(p2p, link, WEFT_WIRE_TAGGED, &header, memory, bytes);
    if (status == WEFT_OK)
        peer->credit[space] -= (uint32_t)bytes + WEFT_P2P_COST;
    if (__builtin_expect(peer->decided, 0) && status == WEFT_OK && space == WEFT_SPACE_USER) {
        peer->decided = WEFT_P2P_UNDECIDED;
        if (is_timed)
            weft_p2p_went_inside(peer, bytes, weft_clock_ns() - begun_ns);
    }
    return status;
}

int weft_p2p_send_now(struct weft_p2p *p2p, int32_t rank, int64_t tag, int space, const void *memory,
                      size_t bytes)
{
    if ((uint32_t)rank == p2p->options.rank || p2p->status)
        return WEFT_AGAIN;
    struct weft_p2p_peer *peer = p2p->peers ? p2p->peers[rank] : NULL;
    if (!peer || (peer->sends.head && space == WEFT_SPACE_USER))
        return WEFT_AGAIN;
    struct weft_exec_peer *link;
    int status = weft_exec_connect(p2p->options.exec, peer->rank, &link);
    if (status != WEFT_OK)
        return status;
    int is_timed;
    if (!fits(p2p, peer, link, space, memory, bytes, &is_timed))
        return WEFT_AGAIN;
    status = post_tagged(p2p, peer, link, tag, space, memory, bytes, is_timed);
    p2p->stats.sends += status == WEFT_OK && space == WEFT_SPACE_USER;
    return status;
}

/* An id for a send. HELD: other sends have all of them, and the peer stands in the queue for one. */
static int reserve_for_send(struct weft_p2p *p2p, struct weft_p2p_peer *peer, struct weft_request *request)
{
    if (p2p->send_ids < p2p->send_ids_max) {
        int status = weft_exec_transfer_reserve(p2p->options.exec, request, &request->id);
        p2p->send_ids += status == WEFT_OK;
        return status;
    }
    if (!peer->starved) {
        peer->starved = 1;
        peer->next_starved = NULL;
        *(p2p->starved ? &p2p->starved_last->next_starved : &p2p->starved) = peer;
        p2p->starved_last = peer;
    }
    return WEFT_P2P_LATER;
}

/* Whether a peer waits for an id, and there is one. */
static int can_feed(const struct weft_p2p *p2p)
{
    return p2p->starved && p2p->send_ids < p2p->send_ids_max;
}

/* The peer that has waited longest may try; one whose link is full keeps the next from it for one round. */
static void feed(struct weft_p2p *p2p)
{
    struct weft_p2p_peer *peer = p2p->starved;
    p2p->starved = peer->next_starved;
    peer->starved = 0;
    weft_p2p_pend(p2p, peer);
}

static int announce(struct weft_p2p *p2p, struct weft_p2p_peer *peer, const struct weft_exec_peer *link,
                    struct weft_request *request)
{
    weft_p2p_offer(p2p, link, request);
    request->is_timed = peer->decided == WEFT_P2P_DECIDED_ANNOUNCED && peer->is_decided_timed &&
                        request->bytes <= link->inside_bytes;
    request->took_ns = 0;
    struct weft_wire_announce announce = {.bytes = request->bytes};
    if (request->is_offered)
        announce.token = request->offer;
    struct weft_wire_header header = {
        .op = request->id, .count = (uint64_t)request->tag, .slice = request->is_timed};
    int status =
        weft_p2p_post(p2p, link, WEFT_WIRE_ANNOUNCE, &header, &announce,
                      request->is_offered ? sizeof announce : offsetof(struct weft_wire_announce, token));
    if (status == WEFT_OK) {
        request->state = WEFT_REQUEST_ANNOUNCED;
        peer->decided = WEFT_P2P_UNDECIDED;
        peer->waiting++;
    }
    return status;
}

/* The request leaves this rank, as a message or announced. WEFT_AGAIN: the link is full. HELD. */
static int send_out(struct weft_p2p *p2p, struct weft_p2p_peer *peer, struct weft_request *request)
{
    if (weft_request_is_held(request))
        return WEFT_P2P_LATER;
    struct weft_exec_peer *link;
    int status = weft_exec_connect(p2p->options.exec, peer->rank, &link);
    if (status != WEFT_OK)
        return status;
    int is_timed = 0;
    if (!request->id && !request->where.kind &&
        fits(p2p, peer, link, request->space, request->memory, request->bytes, &is_timed)) {
        status = post_tagged(p2p, peer, link, request->tag, request->space, request->memory, request->bytes,
                             is_timed);
        if (status == WEFT_OK)
            weft_request_end(p2p, request, WEFT_OK);
        return status;
    }
    if (peer->waiting >= WEFT_P2P_ANNOUNCE_MAX)
        return WEFT_P2P_LATER; /* until MATCHED comes */
    if (!request->id)
        status = reserve_for_send(p2p, peer, request);
    if (status != WEFT_OK)
        return status;
    return announce(p2p, peer, link, request);
}

int weft_p2p_send(struct weft_p2p *p2p, struct weft_request *request)
{
    int status = revoked(p2p);
    if (status != WEFT_OK)
        return status;
    if ((uint32_t)request->peer == p2p->options.rank)
        return weft_p2p_send_local(p2p, request);
    struct weft_p2p_peer *peer = weft_p2p_peer_find(p2p, (uint32_t)request->peer);
    if (!peer)
        return weft_fail(WEFT_NOMEM, "no memory for the state of rank %d", request->peer);
    weft_request_begin(p2p, request, WEFT_REQUEST_QUEUED);
    status = peer->sends.head ? WEFT_P2P_LATER : send_out(p2p, peer, request);
    if (status == WEFT_AGAIN || status == WEFT_P2P_LATER) {
        weft_p2p_enqueue(&peer->sends, request);
        if (status == WEFT_AGAIN)
            weft_p2p_pend(p2p, peer);
        return WEFT_OK;
    }
    if (status != WEFT_OK) {
        weft_request_leave(p2p, request);
        if (request->is_offered)
            weft_p2p_offer_end(p2p, request, 0);
        p2p->send_ids -= request->id != 0;
        weft_exec_transfer_release(p2p->options.exec, request->id);
    }
    return status;
}

void weft_p2p_owe(struct weft_p2p *p2p, struct weft_p2p_peer *peer, int space, uint32_t cost)
{
    if (peer->rank == p2p->options.rank) {
        peer->credit[space] += cost;
        return;
    }
    peer->owed[space] += cost;
    if (peer->owed[space] >= weft_p2p_budget(space) / CREDIT_PARTS)
        weft_p2p_pend(p2p, peer);
}

/* --- receiving */

/* A receive takes a message that has waited for it. */
static void take(struct weft_p2p *p2p, struct weft_request *request, struct weft_p2p_arrived *arrived)
{
    struct weft_p2p_peer *peer = p2p->peers[arrived->match.source];
    weft_match_remove(&p2p->match, &arrived->match);
    request->found = arrived->match.source;
    request->found_tag = arrived->match.tag;
    request->found_bytes = arrived->bytes;
    if (arrived->id) {
        peer->announced--;
        if (arrived->is_offered)
            weft_request_offered(request, arrived->payload, arrived->is_asked);
        weft_request_turn(p2p, peer, request, arrived->id);
    } else if (arrived->sender) {
        weft_p2p_meet(p2p, request, arrived->sender);
    } else {
        uint32_t cost = (uint32_t)arrived->bytes + WEFT_P2P_COST;
        peer->held[request->space] -= peer->rank == p2p->options.rank ? 0 : cost;
        weft_p2p_owe(p2p, peer, request->space, cost);
        weft_request_deliver(p2p, request, arrived->payload);
    }
    free(arrived);
}

int weft_p2p_receive(struct weft_p2p *p2p, struct weft_request *request)
{
    int status = revoked(p2p);
    if (status != WEFT_OK)
        return status;
    struct weft_arrived *arrived = weft_match_find(&p2p->match, request->space, request->peer, request->tag);
    if (arrived) {
        weft_request_begin(p2p, request, WEFT_REQUEST_POSTED);
        take(p2p, request, (struct weft_p2p_arrived *)arrived);
        if (p2p->pending && weft_p2p_progress(p2p))
            p2p->news = 1;
        return WEFT_OK;
    }
    request->posted.space = request->space;
    request->posted.source = request->peer;
    request->posted.tag = request->tag;
    status = weft_match_post(&p2p->match, &request->posted);
    if (status == WEFT_OK)
        weft_request_begin(p2p, request, WEFT_REQUEST_POSTED);
    return status;
}

static int awaits(const struct weft_request *request, int32_t rank, int nobody_else)
{
    if (request->commands || (request->state == WEFT_REQUEST_HELD && !request->peer_id))
        return 0; /* a device's copies may take long; and what is kept is here */
    if (!request->sends && request->found >= 0)
        return request->found == rank;
    return request->peer == rank || (request->peer == WEFT_MATCH_ANY && nobody_else);
}

int weft_p2p_awaits(const struct weft_p2p *p2p, int32_t rank, int nobody_else)
{
    for (const struct weft_request *request = p2p->head; request; request = request->next) {
        if (awaits(request, rank, nobody_else))
            return 1;
    }
    return 0;
}

/* A send that nobody else knows of. */
static int take_back(struct weft_p2p *p2p, struct weft_request *request)
{
    if (request->state != WEFT_REQUEST_QUEUED || !request->sends || request->id)
        return 0;
    struct weft_p2p_queue *sends = &p2p->peers[request->peer]->sends;
    struct weft_request **at = &sends->head, *last = NULL;
    for (; *at && *at != request; at = &(*at)->after)
        last = *at;
    if (!*at)
        return 0;
    *at = request->after;
    if (sends->tail == request)
        sends->tail = last;
    request->own = 1;
    weft_request_end(p2p, request, WEFT_PEER_FAILED);
    return 1;
}

int weft_p2p_give_up(struct weft_p2p *p2p, int32_t rank, int nobody_else)
{
    int left = 0;
    for (struct weft_request *next, *request = p2p->head; request; request = next) {
        next = request->next;
        if (awaits(request, rank, nobody_else) && !take_back(p2p, request))
            left |= weft_p2p_withdraw(p2p, request, WEFT_PEER_FAILED) != WEFT_OK;
    }
    return left;
}

int weft_p2p_withdraw(struct weft_p2p *p2p, struct weft_request *request, int status)
{
    if (request->state == WEFT_REQUEST_POSTED) {
        weft_match_withdraw(&p2p->match, &request->posted);
    } else if (request->state == WEFT_REQUEST_LOCAL) {
        weft_match_remove(&p2p->match, request->local);
        free(request->local);
    } else {
        return WEFT_BUSY;
    }
    request->own = 1;
    weft_request_end(p2p, request, status);
    return WEFT_OK;
}

/* --- progress */

static int announce_credit(struct weft_p2p *p2p, struct weft_p2p_peer *peer, int space)
{
    int is_due = peer->is_read_due && space == WEFT_SPACE_USER && peer->owed[space];
    if (peer->owed[space] < weft_p2p_budget(space) / CREDIT_PARTS && !is_due)
        return WEFT_OK;
    struct weft_exec_peer *link;
    int status = weft_exec_connect(p2p->options.exec, peer->rank, &link);
    struct weft_wire_header header = {.count = peer->owed[space],
                                      .slice = space == WEFT_SPACE_USER ? peer->read_ns : 0,
                                      .flags = space == WEFT_SPACE_INTERNAL ? WEFT_WIRE_INTERNAL : 0};
    if (status == WEFT_OK)
        status = weft_p2p_post(p2p, link, WEFT_WIRE_ROOM, &header, NULL, 0);
    if (status == WEFT_OK)
        peer->owed[space] = 0;
    if (status == WEFT_OK && space == WEFT_SPACE_USER)
        peer->read_ns = peer->is_read_due = 0;
    return status;
}

/* Everything that one peer may want, until its link takes no more. */
static int serve(struct weft_p2p *p2p, struct weft_p2p_peer *peer, int *moved)
{
    const struct weft_exec *exec = p2p->options.exec;
    if (!weft_exec_link(exec, peer->rank) && weft_exec_has_left(exec, peer->rank))
        return WEFT_OK; /* no link will come: answers are for nobody, and what it is needed for waits */
    int status = announce_credit(p2p, peer, WEFT_SPACE_INTERNAL);
    if (status == WEFT_OK)
        status = announce_credit(p2p, peer, WEFT_SPACE_USER);
    for (uint64_t read = 0; status == WEFT_OK && peer->turns.head;) {
        const struct weft_request *next = peer->turns.head;
        if (read >= ROUND_BYTES) { /* the next round goes on */
            weft_p2p_pend(p2p, peer);
            break;
        }
        read += next->is_offered && !next->is_taken ? next->found_bytes : 0;
        status = weft_p2p_begin_turn(p2p, peer);
        *moved += status == WEFT_OK;
    }
    if (status == WEFT_P2P_LATER)
        status = WEFT_OK;
    while (status == WEFT_OK && peer->sends.head) {
        struct weft_request *request = peer->sends.head, *after = request->after;
        status = send_out(p2p, peer, request);
        if (status == WEFT_OK) { /* the request may be gone */
            peer->sends.head = after;
            if (!after)
                peer->sends.tail = NULL;
            (*moved)++;
        }
    }
    return status == WEFT_P2P_LATER ? WEFT_OK : status;
}

int weft_p2p_is_blocked(const struct weft_p2p *p2p)
{
    return p2p->pending || can_feed(p2p);
}

static int serve_pending(struct weft_p2p *p2p)
{
    int moved = 0;
    if (can_feed(p2p))
        feed(p2p);
    struct weft_p2p_peer *peer = p2p->pending;
    p2p->pending = NULL;
    while (peer) {
        struct weft_p2p_peer *next = peer->next_pending;
        peer->pending = 0;
        int status = p2p->status ? WEFT_OK : serve(p2p, peer, &moved);
        if (status == WEFT_AGAIN)
            weft_p2p_pend(p2p, peer);
        else if (status != WEFT_OK)
            weft_exec_stop(p2p->options.exec, status);
        peer = next;
    }
    return moved;
}

int weft_p2p_progress(struct weft_p2p *p2p)
{
    return weft_p2p_is_blocked(p2p) ? serve_pending(p2p) : 0;
}

int weft_p2p_take_news(struct weft_p2p *p2p)
{
    int news = p2p->news;
    p2p->news = 0;
    return news;
}

void weft_p2p_fail(struct weft_p2p *p2p, int status)
{
    if (!p2p->status)
        p2p->status = status;
    p2p->starved = NULL;
    weft_p2p_copies_stop(p2p);
    for (uint32_t r = 0; r < p2p->options.ranks && p2p->peers; r++) {
        if (p2p->peers[r])
            p2p->peers[r]->sends = p2p->peers[r]->turns = (struct weft_p2p_queue){0};
    }
    while (p2p->head) {
        struct weft_request *request = p2p->head;
        if (request->state == WEFT_REQUEST_POSTED)
            weft_match_withdraw(&p2p->match, &request->posted);
        if (request->id)
            weft_exec_transfer_release(p2p->options.exec, request->id);
        weft_request_end(p2p, request, p2p->status);
    }
    drop_arrived(p2p);
}

const struct weft_p2p_stats *weft_p2p_get_stats(const struct weft_p2p *p2p)
{
    return &p2p->stats;
}

struct weft_request *weft_p2p_oldest(const struct weft_p2p *p2p)
{
    return p2p->head;
}
