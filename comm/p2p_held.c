/* SPDX-License-Identifier: Apache-2.0 */
/* Messages in the order of a stream.
 *
 * A send stands in its peer's queue until the stream has come to it, and then goes its way as any other; so do those behind it. A
 * receive takes its turn when it is called, as always, but what it has found is not moved before the stream is there: a payload that came
 * inside a message is kept, an announced message is not answered yet. A send of the rank to itself is not copied away, and
 * moves when both ends are there.
 *
 * The gate is opened when the request ends, and the deadline counts from when the stream has come there.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "comm/comm.h"
#include "comm/p2p_internal.h"
#include "comm/stream.h"

int weft_request_is_held(const struct weft_request *request)
{
    return request->hold && !request->is_reached;
}

/* Requests that wait for their stream, and those that run behind it, are in the context's list. */
void weft_request_follow(struct weft_p2p *p2p, struct weft_request *request)
{
    struct weft_context *context = p2p->options.context;
    request->held_previous = NULL;
    request->held_next = context->held;
    if (context->held)
        context->held->held_previous = request;
    context->held = request;
    request->is_listed = 1;
}

void weft_request_unfollow(struct weft_p2p *p2p, struct weft_request *request)
{
    if (request->is_listed) {
        *(request->held_previous ? &request->held_previous->held_next : &p2p->options.context->held) =
            request->held_next;
        if (request->held_next)
            request->held_next->held_previous = request->held_previous;
    }
    request->is_listed = 0;
    free(request->payload);
    request->payload = NULL;
    weft_hold_put(request->hold);
    request->hold = NULL;
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

/* The stream is there. */
static void go_on(struct weft_request *request)
{
    struct weft_p2p *p2p = request->p2p;
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

static void fail(struct weft_p2p *p2p, int status)
{
    char text[WEFT_DETAIL_MAX];
    snprintf(text, sizeof text, "%s", weft_error_detail());
    p2p->options.fail(p2p->options.comm, status, text);
}

/* WEFT_OK: nothing has happened; 1: something has; else what the request has failed with. */
static int look(struct weft_request *request, int64_t now_ns)
{
    if (request->keeping != WEFT_OK)
        return weft_fail(request->keeping, "no memory to keep a message of %llu bytes",
                         (unsigned long long)request->found_bytes);
    if (request->is_reached) {
        if (now_ns < request->deadline_ns)
            return WEFT_OK;
        request->deadline_ns = WEFT_NEVER_NS;
        weft_request_expire(request->p2p->options.comm, request);
        return 1;
    }
    int reached = weft_hold_look(request->hold);
    if (reached > 0) {
        request->is_reached = 1;
        request->deadline_ns = weft_comm_deadline_ns(request->p2p->options.comm);
        go_on(request);
    }
    return reached;
}

int weft_p2p_held_progress(struct weft_context *context)
{
    int moved = 0;
    int64_t now_ns = weft_clock_ns();
    for (struct weft_request *request = context->held, *next; request; request = next) {
        struct weft_p2p *p2p = request->p2p;
        next = request->held_next;
        if (weft_comm_is_lost(p2p->options.comm) && weft_comm_check_any(p2p->options.comm) != WEFT_OK)
            return 1; /* the list has changed */
        int status = look(request, now_ns);
        if (status < 0)
            fail(p2p, status);
        if (status != WEFT_OK)
            return moved + 1; /* several may have ended, next among them */
    }
    return moved;
}
