/* SPDX-License-Identifier: Apache-2.0 */
/* Messages of the rank to itself: copied when the receive and the send meet, or kept in a copy until then. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "comm/p2p/internal.h"

static int keep(struct weft_p2p *p2p, struct weft_p2p_arrived *arrived)
{
    int status = weft_match_keep(&p2p->match, &arrived->match);
    if (status != WEFT_OK)
        free(arrived);
    return status;
}

void weft_p2p_meet(struct weft_p2p *p2p, struct weft_request *receive, struct weft_request *send)
{
    int is_long = send->bytes > p2p->options.local_bytes, fits_in = send->bytes <= receive->bytes;
    receive->found = send->peer;
    receive->found_tag = send->tag;
    receive->found_bytes = send->bytes;
    p2p->news = 1;
    if (weft_request_is_held(receive) || weft_request_is_held(send)) {
        receive->mate = send;
        send->mate = receive;
        receive->state = send->state = WEFT_REQUEST_HELD;
        return;
    }
    if (send->bytes && fits_in && (send->where.kind || (receive->where.kind && is_long))) {
        weft_p2p_copy_local(p2p, receive, send);
        return;
    }
    weft_request_deliver(p2p, receive, send->memory);
    weft_request_end(p2p, send, WEFT_OK);
}

int weft_p2p_send_local(struct weft_p2p *p2p, struct weft_request *request)
{
    int32_t self = (int32_t)p2p->options.rank;
    struct weft_posted *posted = weft_match_claim(&p2p->match, request->space, self, request->tag);
    weft_request_begin(p2p, request, WEFT_REQUEST_LOCAL);
    if (posted) {
        weft_p2p_meet(p2p, weft_request_of(posted), request);
        return WEFT_OK;
    }
    struct weft_p2p_peer *peer = weft_p2p_peer_find(p2p, p2p->options.rank);
    int copied = request->bytes <= p2p->options.local_bytes && peer && !request->where.kind &&
                 !request->stream_wait && request->bytes + WEFT_P2P_COST <= peer->credit[request->space];
    struct weft_p2p_arrived *arrived = malloc(sizeof *arrived + (copied ? request->bytes : 0));
    int status = peer && arrived ? WEFT_OK : weft_fail(WEFT_NOMEM, "no memory for a message to this rank");
    if (status == WEFT_OK) {
        arrived->match.space = request->space;
        arrived->match.source = self;
        arrived->match.tag = request->tag;
        arrived->bytes = request->bytes;
        arrived->id = 0;
        arrived->sender = copied ? NULL : request;
        if (copied && request->bytes)
            memcpy(arrived->payload, request->memory, request->bytes);
        status = keep(p2p, arrived);
    } else {
        free(arrived);
    }
    if (status != WEFT_OK) {
        weft_request_leave(p2p, request);
        return status;
    }
    p2p->news = 1;
    if (copied) {
        peer->credit[request->space] -= (uint32_t)request->bytes + WEFT_P2P_COST;
        p2p->stats.bytes_kept += request->bytes;
        weft_request_end(p2p, request, WEFT_OK);
    } else {
        request->local = &arrived->match;
    }
    return WEFT_OK;
}
