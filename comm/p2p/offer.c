/* SPDX-License-Identifier: Apache-2.0 */
/* Announcements that offer the memory of their message.
 *
 * Where the receiver can map that memory, or pull it, the announcement says where it is. The receiver
 * reads it as soon as a receive takes the message, and answers when it has all of it: MATCHED without an id. That spares the offer and what is said of
 * slices taken, and the sender need not be there: a program may compute, or be stopped, while its message is received.
 *
 * A receiver that cannot use the offer, as its own memory is a device's, answers with an id, and both ends run a transfer as for any other
 * announcement.
 *
 * An offer has a cell of the transport's (transport/shm/cells.c), by which the memory can be taken back, as long as nobody receives the message. There are
 * about 2,000 of them, so a context has no more than OFFERS_MAX offers at a time; what is announced beyond that offers nothing.
 */
#include "comm/drive/context.h"
#include "comm/p2p/internal.h"

#define OFFERS_MAX 256

void weft_p2p_offer(struct weft_p2p *p2p, const struct weft_exec_peer *link, struct weft_request *request)
{
    struct weft_context *context = p2p->options.context;
    uint32_t flags;
    if (request->is_decided || request->where.kind || !context || request->bytes <= link->eager_bytes ||
        !(link->caps & WEFT_CAP_READ) || link->stage_only ||
        link->ops->link_flags(link->link, &flags) != WEFT_OK)
        return;
    request->is_decided = 1;
    int is_mapped =
        flags & WEFT_LINK_PEER_MAPS && weft_memory_is_shared(context, request->memory, request->bytes);
    if (!is_mapped && !(flags & WEFT_LINK_PEER_PULLS))
        return;
    if (context->p2p.offers >= OFFERS_MAX)
        return;
    if (link->ops->expose(link->link, NULL, request->memory, request->bytes, &request->offer) != WEFT_OK) {
        weft_error_clear(); /* nothing has failed: it goes as a transfer, which says what is missing */
        return;
    }
    link->ops->expose_whole(link->link, &request->offer);
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
