/* SPDX-License-Identifier: Apache-2.0 */
/* Stream-ordered messages.
 *
 * A send stands in its peer's queue until the stream has come to it, and then goes its way as any other; so do those behind it. A
 * receive takes its turn when it is called, as always, but what it has found is not moved before the stream is there: a payload that came
 * inside a message is kept, an announced message is not answered yet. A send of the rank to itself is not copied away, and
 * moves when both ends are there.
 * Who looks at them is the communicator (comm/core/work.c).
 *
 * The stream wait is opened when the request ends, and the deadline counts from when the stream has come there.
 */
#include <stdlib.h>

#include "comm/p2p/internal.h"
#include "comm/exec/stream.h"

/* Requests that wait for their stream, and those that run behind it, are in the context's list. */
void weft_request_follow(struct weft_p2p *p2p, struct weft_request *request)
{
    struct weft_context *context = p2p->options.context;
    request->held_previous = NULL;
    request->held_next = context->p2p.held;
    if (context->p2p.held)
        context->p2p.held->held_previous = request;
    context->p2p.held = request;
    request->is_listed = 1;
}

int weft_request_look(const struct weft_request *request)
{
    if (request->keeping != WEFT_OK)
        return weft_fail(request->keeping, "no memory to keep a message of %llu bytes",
                         (unsigned long long)request->found_bytes);
    return weft_stream_wait_look(request->stream_wait);
}

void weft_request_go_on(struct weft_request *request, int64_t deadline_ns)
{
    struct weft_p2p *p2p = request->p2p;
    request->is_reached = 1;
    request->deadline_ns = deadline_ns;
    struct weft_request *mate = request->mate;
    if (request->state == WEFT_REQUEST_QUEUED) {
        weft_p2p_pend(p2p, p2p->peers[request->peer]);
    } else if (request->state == WEFT_REQUEST_HELD && mate) {
        struct weft_request *receive = request->sends ? mate : request;
        if (!weft_request_is_held(mate)) { /* else that one does it */
            struct weft_request *send = receive->mate;
            receive->mate = send->mate = NULL;
            weft_p2p_meet(p2p, receive, send);
        }
    } else if (request->state == WEFT_REQUEST_HELD && request->peer_id) {
        weft_request_turn(p2p, p2p->peers[request->found], request, request->peer_id);
    } else if (request->state == WEFT_REQUEST_HELD) {
        void *payload = request->payload;
        request->payload = NULL;
        weft_request_deliver(p2p, request, payload);
        free(payload);
    }
}
