/* SPDX-License-Identifier: Apache-2.0 */
/* What a message means for the step that wants it, and those that come before that step or its operation.
 *
 * A peer may be ahead by a window of steps, or by a whole operation. What cannot be delivered yet is copied and kept with the
 * operation's peer, or with the executor when the operation has not started here; the order of arrival is kept.
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "comm/exec/layout.h"
#include "comm/exec/mismatch.h"

static uint32_t source_of(const struct weft_early *early)
{
    const struct weft_wire_header *header = (const void *)early->data;
    return header->source;
}

void weft_early_drop(struct weft_exec *exec, struct weft_early *list)
{
    for (const struct weft_early *early = list; early; early = early->next)
        exec->early_counts[source_of(early)]--;
    weft_early_free_list(list);
}

struct weft_op_peer *weft_op_peer_make(struct weft_exec_op *op, uint32_t rank)
{
    if (op->peer_count == op->peer_capacity) {
        uint32_t capacity = op->peer_capacity ? 2 * op->peer_capacity : 4;
        struct weft_op_peer **peers = realloc(op->peers, capacity * sizeof(struct weft_op_peer *));
        if (!peers)
            return NULL;
        op->peers = peers;
        op->peer_capacity = capacity;
    }
    struct weft_op_peer *peer = calloc(1, sizeof *peer);
    if (!peer)
        return NULL;
    peer->rank = rank;
    peer->early_tail = &peer->early;
    op->peers[op->peer_count++] = peer;
    op->by_rank[rank] = peer;
    return peer;
}

int weft_answer_deliver(struct weft_exec_op *op, struct weft_inflight *inflight,
                        const struct weft_wire_header *header, const void *payload)
{
    if (header->kind == WEFT_WIRE_RBUF) {
        struct weft_token token;
        if (header->size != sizeof token)
            return weft_fail(WEFT_PROTOCOL, "rank %u announced a receive buffer in %u bytes: expected %zu",
                             header->source, header->size, sizeof token);
        memcpy(&token, payload, sizeof token);
        return weft_send_rbuf(op, inflight, header->slice, &token);
    }
    if (header->kind == WEFT_WIRE_REFUSE)
        return weft_send_refused(op, inflight);
    if (inflight->mode == WEFT_MODE_EAGER && inflight->peer && header->slice <= inflight->reported &&
        header->slice > inflight->taken) {
        inflight->taken = header->slice;
        weft_inflight_again(op, inflight);
        return WEFT_OK;
    }
    if (inflight->mode != WEFT_MODE_READ || header->slice > inflight->reported ||
        header->slice <= weft_slices_within(inflight, inflight->done))
        return weft_fail(WEFT_PROTOCOL, "rank %u took %u slices of message %u: %u were offered",
                         header->source, header->slice, header->message, inflight->reported);
    weft_send_taken(op, inflight, header->slice);
    return WEFT_OK;
}

static int belongs(const struct weft_exec_op *op, const struct weft_wire_header *header)
{
    if (header->digest != op->request.digest)
        return 0;
    if (__builtin_expect(!op->layout.sized, 1))
        return header->count == op->count;
    return op->layout.paired || weft_call_same_root(header->count, op->count);
}

/* past: the call here, when it is over. */
static int disagree(struct weft_exec *exec, const char *text, const struct weft_call *past)
{
    const struct weft_exec_hooks *hooks = &exec->options.hooks;
    return hooks->differs ? hooks->differs(hooks->comm, text, past) : weft_fail(WEFT_MISMATCH, "%s", text);
}

int weft_call_refuse(struct weft_exec *exec, uint32_t digest, const struct weft_call *call, int is_past,
                     const struct weft_wire_header *header)
{
    char text[200];
    weft_mismatch_message(digest, call, header, exec->options.rank, text, sizeof text);
    return disagree(exec, text, is_past ? call : NULL);
}

static int refuse_for(struct weft_exec_op *op, const struct weft_wire_header *header)
{
    return weft_call_refuse(op->exec, op->request.digest, &op->request.call, 0, header);
}

static int deliver(struct weft_exec_op *op, struct weft_inflight *inflight,
                   const struct weft_wire_header *header, const void *payload, struct weft_early *early,
                   int *kept)
{
    if (!belongs(op, header))
        return refuse_for(op, header);
    if (header->flags >> WEFT_WIRE_REGRETS_SHIFT && op->window)
        weft_trial_hear(op, header);
    if (op->layout.sized && header->count != weft_layout_expected(&op->layout, op->count, inflight))
        return weft_mismatch_size(op, inflight, header);
    return weft_wire_is_answer(header) ? weft_answer_deliver(op, inflight, header, payload)
                                       : weft_recv_message(op, inflight, header, payload, early, kept);
}

/* The step in flight that a message is for, or NULL when it has not been admitted yet. *past is set when it
 * has finished already. */
static struct weft_inflight *find_inflight(struct weft_exec_op *op, struct weft_op_peer *peer,
                                           const struct weft_wire_header *header, int *past)
{
    int answer = weft_wire_is_answer(header);
    uint32_t count = answer ? peer->sends : peer->receives;
    *past = 0;
    if ((int32_t)(header->message - count) >= 0)
        return NULL;
    const uint8_t *table = answer ? peer->send_index : peer->receive_index;
    uint8_t index = table[header->message % WEFT_WINDOW_MAX];
    struct weft_inflight *inflight = &op->in_flight[index];
    if (op->active >> index & 1 && inflight->message == header->message && inflight->peer == peer &&
        (inflight->step.kind == WEFT_STEP_SEND) == answer)
        return inflight;
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
            kept->flags = weft_trial_flags(kept->flags, header->flags);
            return 1;
        }
    }
    return 0;
}

int weft_early_keep(struct weft_exec *exec, const struct weft_wire_header *header, const void *payload,
                    struct weft_early *early, struct weft_early **list, struct weft_early ***tail)
{
    if (header->kind == WEFT_WIRE_READY && !early && widen(*list, header))
        return WEFT_OK;
    if (exec->early_counts[header->source] >= WEFT_EARLY_MAX)
        return weft_fail(WEFT_PROTOCOL,
                         "rank %u has sent %u messages that no step here waits for yet: expected no more",
                         header->source, exec->early_counts[header->source]);
    if (!early)
        early = weft_early_copy(header, payload);
    if (!early)
        return weft_fail(WEFT_NOMEM, "no memory to keep %u bytes from rank %u", header->size, header->source);
    append(exec, tail, early);
    return WEFT_OK;
}

int weft_op_message(struct weft_exec_op *op, const struct weft_wire_header *header, const void *payload,
                    struct weft_early *early, int *kept)
{
    struct weft_op_peer *peer = weft_op_peer_get(op, header->source);
    if (!peer)
        return weft_fail(WEFT_NOMEM, "no memory for the state of rank %u", header->source);
    int past;
    struct weft_inflight *inflight = find_inflight(op, peer, header, &past);
    if (inflight)
        return deliver(op, inflight, header, payload, early, kept);
    if (!belongs(op, header))
        return refuse_for(op, header);
    if (past)
        return weft_fail(WEFT_PROTOCOL, "rank %u sent kind %u for message %u of operation %u, which is over",
                         header->source, header->kind, header->message, op->sequence);
    int status = weft_early_keep(op->exec, header, payload, early, &peer->early, &peer->early_tail);
    *kept = status == WEFT_OK;
    op->has_early = 1;
    return status;
}

int weft_early_claim(struct weft_exec_op *op, struct weft_inflight *inflight)
{
    int answers = inflight->step.kind == WEFT_STEP_SEND, status = WEFT_OK;
    struct weft_early **at = &inflight->peer->early;
    while (*at && status == WEFT_OK) {
        struct weft_early *early = *at;
        const struct weft_wire_header *header = (const void *)early->data;
        if (weft_wire_is_answer(header) != answers || header->message != inflight->message) {
            at = &early->next;
            continue;
        }
        detach(op->exec, at);
        int kept = 0;
        status = deliver(op, inflight, header, header + 1, early, &kept);
        if (!kept)
            free(early);
    }
    while (*at)
        at = &(*at)->next;
    inflight->peer->early_tail = at;
    return status;
}

int weft_early_left(struct weft_exec_op *op)
{
    for (uint32_t i = 0; i < op->peer_count && op->has_early; i++) {
        const struct weft_early *early = op->peers[i]->early;
        if (!early)
            continue;
        const struct weft_wire_header *header = (const void *)early->data;
        char text[200];
        weft_mismatch_left(op, header,
                           weft_wire_is_answer(header) ? op->peers[i]->sends : op->peers[i]->receives, text,
                           sizeof text);
        return disagree(op->exec, text, &op->request.call);
    }
    return WEFT_OK;
}

int weft_vote_deliver(struct weft_exec_op *op, const struct weft_wire_header *header, const void *payload)
{
    if (header->size && !belongs(op, header)) /* an answer says nothing but no */
        return refuse_for(op, header);
    return op->exec->options.devices->message(op->exec, op, header, payload);
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
        status = header->kind == WEFT_WIRE_VOTE ? weft_vote_deliver(op, header, header + 1)
                                                : weft_op_message(op, header, header + 1, early, &kept);
        if (!kept)
            free(early);
    }
    while (*at)
        at = &(*at)->next;
    exec->early_tail = at;
    return status;
}
