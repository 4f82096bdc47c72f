/* SPDX-License-Identifier: Apache-2.0 */
/* A receive and its message have met, and the payload is here: the host copies it, or a device. A device does so on this rank with what
 * came inside a message, and with messages of the rank to itself.
 *
 * Device memory is touched by that device alone, through a command queue for each end that is a device's. A message that came inside
 * a message is copied into pinned staging at once, as the transport wants its memory back, and from there by the command queue. A
 * message to the rank itself goes
 *   within one kind of device: by one copy;
 *   else: in pieces, from the sender's memory (by its command queue into staging, or as it is) to the receiver's (by the host's hand into
 *   staging and by its command queue, or as it is).
 * A piece at a time is in flight; the next one begins when the mark behind it has happened, which every round of progress asks for. The
 * copy stands in the receive, which the context's list holds until it has ended.
 *
 * What fails when a copy begins is reported by the next round: who begins one is in the middle of something.
 */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "comm/drive/context.h"
#include "comm/p2p/internal.h"

#define PIECE_BYTES ((size_t)1 << 20)
#define STOP_MS     2000 /* how long work that has been queued may take to end */

static int stage(struct weft_context *context, struct weft_copy_end *end, const struct weft_where *where,
                 size_t bytes)
{
    end->staging = weft_memory_buffer_get(context, WEFT_SHM, bytes, where->kind);
    if (!end->staging)
        return weft_fail(WEFT_NOMEM, "no staging memory of %zu bytes for %s device %d", bytes,
                         where->kind->name, where->ordinal);
    end->staging_bytes = bytes;
    return WEFT_OK;
}

/* A command queue and staging for one end. */
static int equip(struct weft_context *context, struct weft_copy_end *end, const struct weft_where *where,
                 size_t bytes)
{
    int status = weft_where_next_command_queue(context, where, &end->commands);
    return status == WEFT_OK && bytes ? stage(context, end, where, bytes) : status;
}

static int queue(struct weft_command_queue *commands, void *to, const void *from, size_t size)
{
    static const struct weft_command_queue_note note = {0};
    int status = weft_command_queue_copy(commands, to, from, size);
    if (status == WEFT_OK)
        status = weft_command_queue_note(commands, &note);
    return status == WEFT_OK ? weft_command_queue_flush(commands) : status;
}

static uint8_t *target_of(const struct weft_request *receive)
{
    return (uint8_t *)receive->memory + receive->copy.position;
}

/* From staging to the receiver's memory. */
static int put_piece(struct weft_request *receive)
{
    struct weft_p2p_copy *copy = &receive->copy;
    copy->at = &copy->to;
    return queue(copy->to.commands, target_of(receive), copy->to.staging, copy->piece);
}

static int begin_piece(struct weft_request *receive)
{
    struct weft_p2p_copy *copy = &receive->copy;
    const uint8_t *source = (const uint8_t *)copy->sender->memory + copy->position;
    copy->piece = receive->found_bytes - copy->position;
    copy->at = copy->from.commands ? &copy->from : &copy->to;
    if (!copy->at->staging) /* within one kind */
        return queue(copy->to.commands, target_of(receive), source, copy->piece);
    if (copy->piece > PIECE_BYTES)
        copy->piece = PIECE_BYTES;
    if (copy->from.commands)
        return queue(copy->from.commands, copy->from.staging, source, copy->piece);
    memcpy(copy->to.staging, source, copy->piece);
    return put_piece(receive);
}

/* A mark has happened. */
static int go_on(struct weft_request *receive)
{
    struct weft_p2p_copy *copy = &receive->copy;
    if (copy->at == &copy->from) {
        memcpy(copy->to.commands ? copy->to.staging : target_of(receive), copy->from.staging, copy->piece);
        if (copy->to.commands)
            return put_piece(receive);
    }
    copy->position += copy->piece;
    return copy->position < receive->found_bytes ? begin_piece(receive) : WEFT_OK;
}

/* Puts it on the list, with what beginning it has come to. */
static void enlist(struct weft_p2p *p2p, struct weft_request *receive, int status)
{
    struct weft_context *context = p2p->options.context;
    receive->state = WEFT_REQUEST_MOVING;
    receive->copy.status = status;
    if (status != WEFT_OK)
        snprintf(p2p->trouble, sizeof p2p->trouble, "%s", weft_error_detail());
    receive->copy.next = context->p2p.copies;
    context->p2p.copies = receive;
}

/* A receive on device memory has met a message of found_bytes, which is copied before this returns. */
static void copy_payload(struct weft_p2p *p2p, struct weft_request *receive, const void *payload)
{
    struct weft_p2p_copy *copy = &receive->copy;
    *copy = (struct weft_p2p_copy){.piece = receive->found_bytes};
    int status = equip(p2p->options.context, &copy->to, &receive->where, copy->piece);
    if (status == WEFT_OK) {
        memcpy(copy->to.staging, payload, copy->piece);
        status = put_piece(receive);
    }
    enlist(p2p, receive, status);
}

void weft_request_deliver(struct weft_p2p *p2p, struct weft_request *request, const void *payload)
{
    if (weft_request_is_held(request)) {
        weft_request_keep(request, payload);
        return;
    }
    int fits_in = request->found_bytes <= request->bytes, moves = fits_in && payload && request->found_bytes;
    if (moves && request->where.kind) {
        copy_payload(p2p, request, payload);
        return;
    }
    if (moves)
        memcpy(request->memory, payload, request->found_bytes);
    request->own = !fits_in;
    weft_request_end(p2p, request, fits_in ? WEFT_OK : WEFT_MISMATCH);
}

void weft_p2p_copy_local(struct weft_p2p *p2p, struct weft_request *receive, struct weft_request *send)
{
    struct weft_context *context = p2p->options.context;
    struct weft_p2p_copy *copy = &receive->copy;
    *copy = (struct weft_p2p_copy){.sender = send};
    int within = send->where.kind == receive->where.kind, status = WEFT_OK;
    size_t bytes = receive->found_bytes < PIECE_BYTES ? receive->found_bytes : PIECE_BYTES;
    if (send->where.kind && !within)
        status = equip(context, &copy->from, &send->where, bytes);
    if (status == WEFT_OK && receive->where.kind)
        status = equip(context, &copy->to, &receive->where, within ? 0 : bytes);
    if (status == WEFT_OK)
        status = begin_piece(receive);
    send->state = WEFT_REQUEST_MOVING;
    enlist(p2p, receive, status);
}

/* Waits for its work to end, if there is some, and gives everything back. */
static void release_end(struct weft_context *context, struct weft_copy_end *end)
{
    if (!end->commands)
        return;
    if (!weft_command_queue_is_idle(end->commands) &&
        weft_command_queue_drain(end->commands, STOP_MS) == WEFT_TIMEOUT)
        weft_log(WEFT_LOG_ERROR,
                 "%s device %d still works on a message that was given up: its memory may be written later",
                 weft_command_queue_kind(end->commands)->name, weft_command_queue_ordinal(end->commands));
    if (end->staging)
        weft_command_queue_keep(end->commands, weft_memory_buffer_put, context, WEFT_SHM, end->staging,
                                end->staging_bytes);
    weft_command_queue_put(end->commands);
    *end = (struct weft_copy_end){0};
}

static void release(struct weft_request *receive)
{
    struct weft_context *context = receive->p2p->options.context;
    release_end(context, &receive->copy.from);
    release_end(context, &receive->copy.to);
}

void weft_p2p_copies_stop(struct weft_p2p *p2p)
{
    struct weft_request **at = p2p->options.context ? &p2p->options.context->p2p.copies : NULL, *receive;
    while (at && (receive = *at)) {
        if (receive->p2p != p2p) {
            at = &receive->copy.next;
            continue;
        }
        *at = receive->copy.next;
        release(receive);
    }
}

/* 1: something has happened, 0: nothing, or what the copy has failed with. */
static int look(struct weft_request *receive)
{
    struct weft_p2p_copy *copy = &receive->copy;
    struct weft_command_queue_note note;
    if (copy->status != WEFT_OK) {
        weft_error_set_detail(receive->p2p->trouble);
        return copy->status;
    }
    int due = weft_command_queue_poll(copy->at->commands, &note);
    if (due <= 0)
        return due;
    int status = go_on(receive);
    return status == WEFT_OK ? 1 : status;
}

/* The requests stay until the communicator ends them. */
static void give_up(struct weft_request *receive, int status)
{
    struct weft_p2p *p2p = receive->p2p;
    char text[WEFT_DETAIL_MAX];
    snprintf(text, sizeof text, "%s", weft_error_detail());
    release(receive);
    p2p->options.fail(p2p->options.comm, status, text);
}

int weft_p2p_copies_progress(struct weft_context *context)
{
    int moved = 0;
    for (struct weft_request **at = &context->p2p.copies, *receive; (receive = *at);) {
        int status = look(receive);
        moved += status != 0;
        if (status >= 0 && receive->copy.position < receive->found_bytes) {
            at = &receive->copy.next;
            continue;
        }
        *at = receive->copy.next;
        if (status < 0) {
            give_up(receive, status);
            break; /* the list may have changed */
        }
        struct weft_request *send = receive->copy.sender;
        struct weft_p2p *p2p = receive->p2p;
        release(receive);
        weft_request_end(p2p, receive, WEFT_OK);
        if (send)
            weft_request_end(p2p, send, WEFT_OK);
    }
    return moved;
}
