/* SPDX-License-Identifier: Apache-2.0 */
/* Announcements that offer the memory of their message.
 *
 * Where the receiver can map that memory, or pull it and this is faster than a pipe (comm/exec/ways.h), the announcement says where it is. The receiver
 * reads it as soon as a receive takes the message, and answers when it has all of it: MATCHED without an id. That spares the offer and what is said of
 * slices taken, and the sender need not be there: a program may compute, or be stopped, while its message is received.
 *
 * A receiver that cannot use the offer, as its own memory is a device's, answers with an id, and both ends run a transfer as for any other
 * announcement.
 *
 * An offer has a cell of the transport's (transport/shm/cells.c), by which the memory can be taken back, as long as nobody receives the message. There are
 * about 2,000 of them, so a context has no more than OFFERS_MAX offers at a time; what is announced beyond that offers nothing.
 *
 * What is measured is what comes after both ends have met: reading, which the receiver says in its answer, or the transfer by a pipe, from its offer on.
 * What the latter has before, an answer, the former has behind, where nobody waits for it.
 */
#include <stdlib.h>

#include "comm/drive/context.h"
#include "comm/p2p/internal.h"

#define OFFERS_MAX 256

/* Of ordinary memory: what is set, or else what is faster. */
static enum weft_way next_way(struct weft_p2p_peer *peer, const struct weft_exec_peer *link,
                              struct weft_request *request, int *is_timed)
{
    *is_timed = WEFT_UNTIMED;
    if (link->fixed_way >= 0)
        return (enum weft_way)link->fixed_way;
    if (!peer->ways && (peer->ways = malloc(sizeof *peer->ways)))
        weft_ways_open(peer->ways);
    if (!peer->ways)
        return WEFT_WAY_PIPE;
    enum weft_way way = weft_ways_next(peer->ways, request->bytes, is_timed);
    request->is_way_timed = *is_timed != 0;
    return way;
}

void weft_p2p_offer(struct weft_p2p *p2p, struct weft_p2p_peer *peer, const struct weft_exec_peer *link,
                    struct weft_request *request)
{
    struct weft_context *context = p2p->options.context;
    uint32_t flags;
    int is_timed = WEFT_UNTIMED;
    if (request->is_decided || request->where.kind || !context || request->bytes <= link->eager_bytes ||
        !(link->caps & WEFT_CAP_READ) || link->stage_only ||
        link->ops->link_flags(link->link, &flags) != WEFT_OK)
        return;
    request->is_decided = 1;
    int is_mapped =
        flags & WEFT_LINK_PEER_MAPS && weft_memory_is_shared(context, request->memory, request->bytes);
    if (!is_mapped && !(flags & WEFT_LINK_PEER_PULLS))
        return;
    if (!is_mapped) {
        request->way = WEFT_TRANSFER_WAY(next_way(peer, link, request, &is_timed));
        if (request->way == WEFT_TRANSFER_WAY(WEFT_WAY_PIPE))
            return;
    }
    if (context->p2p.offers >= OFFERS_MAX)
        return;
    if (link->ops->expose(link->link, NULL, request->memory, request->bytes, &request->offer) != WEFT_OK) {
        weft_error_clear(); /* nothing has failed: it goes as a transfer, which says what is missing */
        return;
    }
    if (is_timed == WEFT_TIMED_FIRST)
        link->ops->expose_timed(link->link, &request->offer);
    context->p2p.offers++;
    request->is_offered = 1;
}

void weft_p2p_offer_end(struct weft_p2p *p2p, struct weft_request *request, int is_over)
{
    struct weft_exec_peer *link;
    request->is_offered = 0;
    p2p->options.context->p2p.offers--;
    if (weft_exec_connect(p2p->options.exec, (uint32_t)request->peer, &link) == WEFT_OK)
        link->ops->unexpose(link->link, &request->offer, is_over);
}

/* One that has not gone the way that it should have, as no pipe was free, or has not moved at all, says nothing. */
void weft_p2p_went_announced(struct weft_p2p_peer *peer, const struct weft_request *request)
{
    enum weft_way way = request->way == WEFT_TRANSFER_WAY(WEFT_WAY_PULL) ? WEFT_WAY_PULL : WEFT_WAY_PIPE;
    int64_t cost_ns = !request->way || request->took.way == request->way ? request->took.cost_ns : 0;
    if (request->is_inside_timed)
        weft_p2p_inside_observe(peer, request->bytes, cost_ns);
    if (request->is_way_timed && weft_ways_observe(peer->ways, request->bytes, way, cost_ns))
        weft_exec_way_changed(peer->rank, request->bytes, way);
}
