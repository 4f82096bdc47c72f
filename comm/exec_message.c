/* SPDX-License-Identifier: Apache-2.0 */
/* Messages in, and those that come before the step or the operation that wants them.
 *
 * A peer may be ahead by a window of steps, or by a whole operation. What cannot be delivered yet is copied
 * into a pooled buffer and kept with the operation's peer, or with the executor when the operation has not
 * started here; the order of arrival is kept.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "comm/exec_votes.h"

static uint32_t source_of(const struct weft_early *early)
{
    const struct weft_wire_header *header = (const void *)early->data;
    return header->source;
}

void weft_early_drop(struct weft_exec *exec, struct weft_early *list)
{
    for (const struct weft_early *early = list; early; early = early->next)
        exec->early_counts[source_of(early)]--;
    weft_early_free_list(exec, list);
}

struct weft_op_peer *weft_op_peer_find(struct weft_exec_op *op, uint32_t rank, int create)
{
    struct weft_op_peer *peer = op->by_rank[rank];
    if (peer || !create)
        return peer;
    if (op->peer_count == op->peer_capacity) {
        uint32_t capacity = op->peer_capacity ? 2 * op->peer_capacity : 4;
        struct weft_op_peer **peers = realloc(op->peers, capacity * sizeof(struct weft_op_peer *));
        if (!peers)
            return NULL;
        op->peers = peers;
        op->peer_capacity = capacity;
    }
    peer = calloc(1, sizeof *peer);
    if (!peer)
        return NULL;
    peer->rank = rank;
    peer->early_tail = &peer->early;
    op->peers[op->peer_count++] = peer;
    op->by_rank[rank] = peer;
    return peer;
}

int weft_wire_is_answer(const struct weft_wire_header *header)
{
    return header->kind == WEFT_WIRE_TAKEN || header->kind == WEFT_WIRE_LANDING ||
           header->kind == WEFT_WIRE_REFUSE;
}

int weft_answer_deliver(struct weft_exec_op *op, struct weft_flight *flight,
                        const struct weft_wire_header *header, const void *payload)
{
    if (header->kind == WEFT_WIRE_LANDING) {
        struct weft_token token;
        if (header->size != sizeof token)
            return weft_fail(WEFT_PROTOCOL, "rank %u sent a landing of %u bytes: expected %zu",
                             header->source, header->size, sizeof token);
        memcpy(&token, payload, sizeof token);
        return weft_send_landing(op, flight, header->slice, &token);
    }
    if (header->kind == WEFT_WIRE_REFUSE)
        return weft_direct_refused(op, flight);
    if (flight->mode == WEFT_MODE_EAGER && flight->peer && header->slice <= flight->told &&
        header->slice > flight->taken) {
        flight->taken = header->slice;
        weft_flight_again(op, flight);
        return WEFT_OK;
    }
    if (flight->mode != WEFT_MODE_READ || header->slice > flight->told ||
        header->slice <= weft_slices_within(flight, flight->done))
        return weft_fail(WEFT_PROTOCOL, "rank %u took %u slices of message %u: %u were offered",
                         header->source, header->slice, header->message, flight->told);
    weft_send_taken(op, flight, header->slice);
    return WEFT_OK;
}

static int belongs(const struct weft_exec_op *op, const struct weft_wire_header *header)
{
    return header->digest == op->request.digest &&
           (op->layout.sized ? weft_call_same_root(header->count, op->count) : header->count == op->count);
}

/* What ranks disagree on, with the values where they are known. */
static void word_difference(uint32_t digest, const struct weft_call *call,
                            const struct weft_wire_header *header, uint32_t rank, char *text, size_t capacity)
{
    const char *difference = weft_digest_difference(digest, header->digest);
    uint64_t count = weft_call_count(call), theirs = header->count;
    int same = digest == header->digest, hashed = weft_call_is_hashed(call);
    if (same && call->root >= 0 && !weft_call_same_root(theirs, count))
        difference = "root";
    else if (same && hashed)
        difference = "counts";
    int used = snprintf(text, capacity, "rank %u and rank %u disagree on the %s of call #%" PRIu64,
                        header->source, rank, difference, call->sequence);
    if (strcmp(difference, "root") == 0) /* of one collective, then */
        snprintf(text + used, capacity - (size_t)used, ": %" PRId64 " and %" PRId32,
                 (int64_t)(theirs >> WEFT_CALL_ROOT_SHIFT) - 1, call->root);
    else if (same && !hashed)
        snprintf(text + used, capacity - (size_t)used, ": %" PRIu64 " and %" PRIu64,
                 call->root >= 0 ? weft_call_without_root(theirs) : theirs, call->count);
}

/* past: the call here, when it is over. */
static int disagree(struct weft_exec *exec, const char *text, const struct weft_call *past)
{
    const struct weft_exec_hooks *hooks = &exec->options.hooks;
    return hooks->differs ? hooks->differs(hooks->comm, text, past) : weft_fail(WEFT_MISMATCH, "%s", text);
}

/* A message is for another call than the one of its number here. */
static int refuse(struct weft_exec *exec, uint32_t digest, const struct weft_call *call, int is_past,
                  const struct weft_wire_header *header)
{
    char text[200];
    word_difference(digest, call, header, exec->options.rank, text, sizeof text);
    return disagree(exec, text, is_past ? call : NULL);
}

static int refuse_for(struct weft_exec_op *op, const struct weft_wire_header *header)
{
    return refuse(op->exec, op->request.digest, &op->request.call, 0, header);
}

/* Calls in which a rank knows only its own sizes: who sends and who receives must mean the same. */
static int wrong_size(const struct weft_exec_op *op, const struct weft_flight *flight,
                      const struct weft_wire_header *header)
{
    size_t element_bytes = op->request.element_bytes;
    int sends = flight->step.kind == WEFT_STEP_SEND;
    uint32_t here = op->exec->options.rank, sender = sends ? here : header->source;
    uint64_t theirs = weft_call_without_root(header->count);
    uint64_t sent = sends ? flight->length : theirs, expected = sends ? theirs : flight->length;
    return weft_fail(WEFT_MISMATCH,
                     "%s #%" PRIu64 ": rank %u sends %" PRIu64 " elements to rank %u, which expects %" PRIu64,
                     weft_call_name(&op->request.call), op->request.call.sequence, sender,
                     sent / element_bytes, sends ? header->source : here, expected / element_bytes);
}

static int deliver(struct weft_exec_op *op, struct weft_flight *flight, const struct weft_wire_header *header,
                   const void *payload, struct weft_early *early, int *kept)
{
    if (!belongs(op, header))
        return refuse_for(op, header);
    if (op->layout.sized && weft_call_without_root(header->count) != flight->length)
        return wrong_size(op, flight, header);
    return weft_wire_is_answer(header) ? weft_answer_deliver(op, flight, header, payload)
                                       : weft_recv_message(op, flight, header, payload, early, kept);
}

/* The active flight that a message is for, or NULL when it has not been admitted yet. *past is set when it
 * has finished already. */
static struct weft_flight *find_flight(struct weft_exec_op *op, struct weft_op_peer *peer,
                                       const struct weft_wire_header *header, int *past)
{
    int answer = weft_wire_is_answer(header);
    uint32_t count = answer ? peer->sends : peer->receives;
    *past = 0;
    if ((int32_t)(header->message - count) >= 0)
        return NULL;
    const uint8_t *table = answer ? peer->send_flight : peer->receive_flight;
    uint8_t index = table[header->message % WEFT_WINDOW_MAX];
    struct weft_flight *flight = &op->flights[index];
    if (op->active >> index & 1 && flight->message == header->message && flight->peer == peer &&
        (flight->step.kind == WEFT_STEP_SEND) == answer)
        return flight;
    *past = 1;
    return NULL;
}

static void append(struct weft_exec *exec, struct weft_early ***tail, struct weft_early *early)
{
    exec->early_counts[source_of(early)]++;
    early->next = NULL;
    **tail = early;
    *tail = &early->next;
}

static void detach(struct weft_exec *exec, struct weft_early **at)
{
    exec->early_counts[source_of(*at)]--;
    *at = (*at)->next;
}

/* READY says nothing but how far an OFFER goes that may be kept here already: then it is put in there, so that each
 * message leaves one. */
static int widen(struct weft_early *list, const struct weft_wire_header *header)
{
    for (; list; list = list->next) {
        struct weft_wire_header *kept = (void *)list->data;
        if (kept->kind == WEFT_WIRE_OFFER && kept->source == header->source && kept->op == header->op &&
            kept->message == header->message && kept->digest == header->digest &&
            kept->count == header->count && kept->slice < header->slice) {
            kept->slice = header->slice;
            return 1;
        }
    }
    return 0;
}

/* Keeps a message for later. early: it is kept already, in no list; otherwise it is copied. */
static int keep(struct weft_exec *exec, const struct weft_wire_header *header, const void *payload,
                struct weft_early *early, struct weft_early **list, struct weft_early ***tail)
{
    if (header->kind == WEFT_WIRE_READY && !early && widen(*list, header))
        return WEFT_OK;
    if (exec->early_counts[header->source] >= WEFT_EARLY_MAX)
        return weft_fail(WEFT_PROTOCOL,
                         "rank %u has sent %u messages that no step here waits for yet: expected no more",
                         header->source, exec->early_counts[header->source]);
    if (!early)
        early = weft_early_copy(exec, header, payload);
    if (!early)
        return weft_fail(WEFT_NOMEM, "no memory to keep %u bytes from rank %u", header->size, header->source);
    append(exec, tail, early);
    return WEFT_OK;
}

static int op_message(struct weft_exec_op *op, const struct weft_wire_header *header, const void *payload,
                      struct weft_early *early, int *kept)
{
    struct weft_op_peer *peer = weft_op_peer_find(op, header->source, 1);
    if (!peer)
        return weft_fail(WEFT_NOMEM, "no memory for the state of rank %u", header->source);
    int past;
    struct weft_flight *flight = find_flight(op, peer, header, &past);
    if (flight)
        return deliver(op, flight, header, payload, early, kept);
    if (!belongs(op, header))
        return refuse_for(op, header);
    if (past)
        return weft_fail(WEFT_PROTOCOL, "rank %u sent kind %u for message %u of operation %u, which is over",
                         header->source, header->kind, header->message, op->sequence);
    int status = keep(op->exec, header, payload, early, &peer->early, &peer->early_tail);
    *kept = status == WEFT_OK;
    return status;
}

int weft_early_claim(struct weft_exec_op *op, struct weft_flight *flight)
{
    int answers = flight->step.kind == WEFT_STEP_SEND, status = WEFT_OK;
    struct weft_early **at = &flight->peer->early;
    while (*at && status == WEFT_OK) {
        struct weft_early *early = *at;
        const struct weft_wire_header *header = (const void *)early->data;
        if (weft_wire_is_answer(header) != answers || header->message != flight->message) {
            at = &early->next;
            continue;
        }
        detach(op->exec, at);
        int kept = 0;
        status = deliver(op, flight, header, header + 1, early, &kept);
        if (!kept)
            weft_early_free(op->exec, early);
    }
    while (*at)
        at = &(*at)->next;
    flight->peer->early_tail = at;
    return status;
}

int weft_early_left(struct weft_exec_op *op)
{
    for (uint32_t i = 0; i < op->peer_count; i++) {
        const struct weft_early *early = op->peers[i]->early;
        if (!early)
            continue;
        const struct weft_wire_header *header = (const void *)early->data;
        char text[200];
        snprintf(text, sizeof text,
                 "rank %u has sent rank %u message %u of call #%" PRIu64 " (%s), in which it expects %u",
                 header->source, op->exec->options.rank, header->message, op->request.call.sequence,
                 weft_call_name(&op->request.call),
                 weft_wire_is_answer(header) ? op->peers[i]->sends : op->peers[i]->receives);
        return disagree(op->exec, text, &op->request.call);
    }
    return WEFT_OK;
}

static int vote_for(struct weft_exec_op *op, const struct weft_wire_header *header, const void *payload)
{
    if (header->size && !belongs(op, header)) /* an answer says nothing but no */
        return refuse_for(op, header);
    return weft_vote_take(op, header, payload);
}

int weft_early_adopt(struct weft_exec_op *op)
{
    struct weft_exec *exec = op->exec;
    struct weft_early **at = &exec->early;
    int status = WEFT_OK;
    while (*at && status == WEFT_OK) {
        struct weft_early *early = *at;
        const struct weft_wire_header *header = (const void *)early->data;
        if (header->op != op->sequence) {
            at = &early->next;
            continue;
        }
        detach(exec, at);
        int kept = 0;
        status = header->kind == WEFT_WIRE_VOTE ? vote_for(op, header, header + 1)
                                                : op_message(op, header, header + 1, early, &kept);
        if (!kept)
            weft_early_free(exec, early);
    }
    while (*at)
        at = &(*at)->next;
    exec->early_tail = at;
    return status;
}

/* Whether it is for a SEND or RECV. */
static int is_of_step(const struct weft_wire_header *header)
{
    return header->kind <= WEFT_WIRE_LANDING || header->kind == WEFT_WIRE_REFUSE;
}

/* Whether the bytes can be a message of this executor at all. */
static int check_header(const struct weft_exec *exec, const struct weft_wire_header *header, size_t size)
{
    if (header->version != WEFT_WIRE_VERSION)
        return weft_fail(WEFT_PROTOCOL, "a message has version %u: expected %d", header->version,
                         WEFT_WIRE_VERSION);
    if (header->source >= exec->options.ranks || header->size != size - sizeof *header ||
        header->kind < WEFT_WIRE_EAGER || header->kind > WEFT_WIRE_MAILBOX ||
        (!is_of_step(header) && header->flags & WEFT_WIRE_TRANSFER))
        return weft_fail(WEFT_PROTOCOL, "a message of kind %u, %zu bytes from rank %u of %u is malformed",
                         header->kind, size, header->source, exec->options.ranks);
    return WEFT_OK;
}

/* Whether the link that the message came over is that of the rank it names. */
static int check_sender(struct weft_exec *exec, const struct weft_wire_header *header, const void *sender)
{
    const struct weft_exec_hooks *hooks = &exec->options.hooks;
    if (exec->senders[header->source] == sender || !sender || !hooks->sent_by)
        return WEFT_OK;
    if (hooks->sent_by(hooks->comm, header->source, sender)) {
        exec->senders[header->source] = sender;
        return WEFT_OK;
    }
    for (uint32_t r = 0; r < exec->options.ranks; r++) {
        if (hooks->sent_by(hooks->comm, r, sender))
            return weft_fail(WEFT_PROTOCOL, "a message in the name of rank %u came from rank %u",
                             header->source, r);
    }
    return weft_fail(WEFT_PROTOCOL, "a message in the name of rank %u came from outside the communicator",
                     header->source);
}

/* For an operation that is over: then the sender may have meant another call. */
static int too_late(struct weft_exec *exec, const struct weft_wire_header *header)
{
    const struct weft_past_op *past = &exec->past[header->op % WEFT_OPS_MAX];
    uint64_t count = weft_call_count(&past->call);
    int same = past->digest == header->digest &&
               (weft_call_is_sized(&past->call) ? weft_call_same_root(count, header->count)
                                                : count == header->count);
    if (past->sequence == header->op && !same)
        return refuse(exec, past->digest, &past->call, 1, header);
    return weft_fail(WEFT_PROTOCOL, "rank %u sent kind %u for operation %u, which is over", header->source,
                     header->kind, header->op);
}

/* Of an operation that may not have begun here, or be over. */
static int pass_vote(struct weft_exec *exec, const struct weft_wire_header *header, const void *payload)
{
    int32_t ahead = (int32_t)(header->op - exec->next_sequence);
    struct weft_exec_op *op = exec->ops[header->op % WEFT_OPS_MAX];
    const struct weft_past_op *past = &exec->past[header->op % WEFT_OPS_MAX];
    int status = weft_vote_check(exec, header, ahead);
    if (status != WEFT_OK)
        return status;
    weft_credit_seen(exec, header->source, header->op);
    if (ahead >= 0)
        return keep(exec, header, payload, NULL, &exec->early, &exec->early_tail);
    if (op && op->sequence == header->op) {
        status = vote_for(op, header, payload);
        if (status == WEFT_OK && op->status == WEFT_AGAIN)
            weft_op_run(op);
        return status;
    }
    if (!header->size)
        return WEFT_OK;
    if (past->sequence == header->op &&
        (past->digest != header->digest || weft_call_count(&past->call) != header->count))
        return too_late(exec, header);
    return weft_vote_refuse(exec, header->source, header->op);
}

/* What is not for an operation's steps. */
static int pass_other(struct weft_exec *exec, const struct weft_wire_header *header, const void *payload)
{
    if (header->flags & WEFT_WIRE_TRANSFER)
        return weft_transfer_message(exec, header, payload);
    if (header->kind == WEFT_WIRE_VOTE)
        return pass_vote(exec, header, payload);
    if (header->kind == WEFT_WIRE_MAILBOX)
        return weft_mailbox_take(exec, header, payload);
    if (header->kind < WEFT_WIRE_TAGGED || header->kind == WEFT_WIRE_CONSUMED)
        return weft_credit_message(exec, header);
    const struct weft_exec_hooks *hooks = &exec->options.hooks;
    if (!hooks->tagged)
        return weft_fail(WEFT_PROTOCOL, "rank %u sent kind %u, which nobody here takes", header->source,
                         header->kind);
    return hooks->tagged(hooks->comm, header, payload);
}

void weft_exec_message(struct weft_exec *exec, const void *sender, const void *data, size_t size)
{
    if (exec->status != WEFT_OK)
        return;
    if (size < sizeof(struct weft_wire_header)) {
        weft_exec_fail(exec, WEFT_PROTOCOL, "a message is shorter than its header");
        return;
    }
    /* Copied once: data may lie where the peer can still write. */
    struct weft_wire_header copy;
    memcpy(&copy, data, sizeof copy);
    const struct weft_wire_header *header = &copy;
    const void *payload = (const uint8_t *)data + sizeof copy;
    int status = check_header(exec, header, size), kept = 0;
    if (status == WEFT_OK)
        status = check_sender(exec, header, sender);
    if (status == WEFT_OK && (header->flags & WEFT_WIRE_TRANSFER || !is_of_step(header))) {
        status = pass_other(exec, header, payload);
        if (status != WEFT_OK)
            weft_exec_fail(exec, status, weft_error_detail());
        return;
    }
    int32_t ahead = (int32_t)(header->op - exec->next_sequence);
    struct weft_exec_op *op = exec->ops[header->op % WEFT_OPS_MAX];
    if (status == WEFT_OK && ahead >= WEFT_OPS_MAX)
        status = weft_fail(WEFT_PROTOCOL, "rank %u is %d operations further: expected fewer than %d",
                           header->source, ahead, WEFT_OPS_MAX);
    if (status == WEFT_OK)
        weft_credit_seen(exec, header->source, header->op);
    if (status == WEFT_OK && ahead >= 0) {
        status = keep(exec, header, payload, NULL, &exec->early, &exec->early_tail);
    } else if (status == WEFT_OK && op && op->sequence == header->op) {
        status = op_message(op, header, payload, NULL, &kept);
        if (status == WEFT_OK && op->status == WEFT_AGAIN)
            weft_op_run(op);
    } else if (status == WEFT_OK) {
        status = too_late(exec, header);
    }
    if (status != WEFT_OK)
        weft_exec_fail(exec, status, weft_error_detail());
}

/* The running operation or transfer that a cookie names. */
static struct weft_exec_op *find_op(struct weft_exec *exec, uint64_t cookie)
{
    if (cookie >> 31 & 1)
        return weft_transfer_by_cookie(exec, cookie);
    for (uint64_t mask = exec->running; mask; mask &= mask - 1) {
        struct weft_exec_op *op = exec->ops[__builtin_ctzll(mask)];
        if ((op->sequence & 0x7ff) == (cookie >> 20 & 0x7ff))
            return op;
    }
    return NULL;
}

void weft_exec_io_done(struct weft_exec *exec, uint64_t cookie, int status)
{
    struct weft_exec_op *op = find_op(exec, cookie);
    for (uint64_t mask = op ? op->active : 0; mask; mask &= mask - 1) {
        struct weft_flight *flight = &op->flights[__builtin_ctzll(mask)];
        if (op->window &&
            (flight->step.kind > WEFT_STEP_RECV || (flight->sequence & 0xfff) != (cookie >> 8 & 0xfff)))
            continue;
        if (status != WEFT_OK) {
            weft_fail(status, "%s rank %u failed in operation %u",
                      flight->step.kind == WEFT_STEP_SEND ? "writing to" : "receiving from", flight->rank,
                      op->sequence);
            weft_op_fail(op, status);
            return;
        }
        /* Eight bits of the slice travel in the cookie; the flight knows the rest. */
        uint32_t base =
            flight->step.kind == WEFT_STEP_SEND ? flight->told : weft_slices_within(flight, flight->visible);
        uint32_t slice = base + (uint8_t)((cookie & 0xff) - (base & 0xff));
        if (flight->mode != WEFT_MODE_PUT || slice >= flight->landed)
            return; /* of an earlier one with the same bits */
        if (flight->step.kind == WEFT_STEP_SEND)
            weft_send_put_done(op, flight, slice);
        else
            status = weft_recv_landed(op, flight, slice);
        if (status == WEFT_OK)
            weft_op_run(op);
        else
            weft_op_fail(op, status);
        return;
    }
}
