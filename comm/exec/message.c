/* SPDX-License-Identifier: Apache-2.0 */
/* Messages and completions in: whose they are, and which operation or transfer they are for. */
#include <string.h>

#include "base/error.h"
#include "comm/exec/internal.h"

/* Whether it is for a SEND or RECV. */
static int is_of_step(const struct weft_wire_header *header)
{
    return header->kind <= WEFT_WIRE_RBUF || header->kind == WEFT_WIRE_REFUSE;
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
               (weft_call_is_paired(&past->call)  ? 1
                : weft_call_is_sized(&past->call) ? weft_call_same_root(count, header->count)
                                                  : count == header->count);
    if (past->sequence == header->op && !same)
        return weft_call_refuse(exec, past->digest, &past->call, 1, header);
    return weft_fail(WEFT_PROTOCOL, "rank %u sent kind %u for operation %u, which is over", header->source,
                     header->kind, header->op);
}

/* Of an operation that may not have begun here, or be over. */
static int take_vote(struct weft_exec *exec, const struct weft_wire_header *header, const void *payload)
{
    int32_t ahead = (int32_t)(header->op - exec->next_sequence);
    struct weft_exec_op *op = exec->ops[header->op % WEFT_OPS_MAX];
    const struct weft_past_op *past = &exec->past[header->op % WEFT_OPS_MAX];
    int status = exec->options.devices->vote_check(exec, header, ahead);
    if (status != WEFT_OK)
        return status;
    weft_credit_seen(exec, header->source, header->op);
    if (ahead >= 0)
        return weft_early_keep(exec, header, payload, NULL, &exec->early, &exec->early_tail);
    if (op && op->sequence == header->op) {
        status = weft_vote_deliver(op, header, payload);
        if (status == WEFT_OK && op->status == WEFT_AGAIN)
            weft_op_run(op);
        return status;
    }
    if (!header->size)
        return WEFT_OK;
    if (past->sequence == header->op &&
        (past->digest != header->digest || weft_call_count(&past->call) != header->count))
        return too_late(exec, header);
    return exec->options.devices->message(exec, NULL, header, payload);
}

static int take_of_devices(struct weft_exec *exec, const struct weft_wire_header *header, const void *payload)
{
    if (!exec->options.devices)
        return weft_fail(WEFT_PROTOCOL, "rank %u sent kind %u: expected none, for there are no devices here",
                         header->source, header->kind);
    return header->kind == WEFT_WIRE_VOTE ? take_vote(exec, header, payload)
                                          : exec->options.devices->message(exec, NULL, header, payload);
}

/* What is not for an operation's steps. */
static int pass_other(struct weft_exec *exec, const struct weft_wire_header *header, const void *payload)
{
    if (header->flags & WEFT_WIRE_TRANSFER)
        return weft_transfer_message(exec, header, payload);
    if (header->kind == WEFT_WIRE_VOTE || header->kind == WEFT_WIRE_MAILBOX)
        return take_of_devices(exec, header, payload);
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
    if (exec->status != WEFT_OK || exec->is_stopped)
        return;
    if (size < sizeof(struct weft_wire_header)) {
        weft_exec_stop(exec, weft_fail(WEFT_PROTOCOL, "a message is shorter than its header"));
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
            weft_exec_stop(exec, status);
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
        status = weft_early_keep(exec, header, payload, NULL, &exec->early, &exec->early_tail);
    } else if (status == WEFT_OK && op && op->sequence == header->op) {
        status = weft_op_message(op, header, payload, NULL, &kept);
        if (status == WEFT_OK)
            status = weft_op_run_on(op, header, payload);
    } else if (status == WEFT_OK) {
        status = too_late(exec, header);
    }
    if (status != WEFT_OK)
        weft_exec_stop(exec, status);
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
        struct weft_inflight *inflight = &op->in_flight[__builtin_ctzll(mask)];
        if (op->window &&
            (inflight->step.kind > WEFT_STEP_RECV || (inflight->sequence & 0xfff) != (cookie >> 8 & 0xfff)))
            continue;
        if (status != WEFT_OK) {
            weft_fail(status, "%s rank %u failed in operation %u",
                      inflight->step.kind == WEFT_STEP_SEND ? "writing to" : "receiving from", inflight->rank,
                      op->sequence);
            weft_op_fail(op, status);
            return;
        }
        /* Eight bits of the slice travel in the cookie; the step knows the rest. */
        uint32_t base = inflight->step.kind == WEFT_STEP_SEND
                            ? inflight->reported
                            : weft_slices_within(inflight, inflight->visible);
        uint32_t slice = base + (uint8_t)((cookie & 0xff) - (base & 0xff));
        if (inflight->mode != WEFT_MODE_PUT || slice >= inflight->next_rbuf)
            return; /* of an earlier one with the same bits */
        if (inflight->step.kind == WEFT_STEP_SEND)
            weft_send_put_done(op, inflight, slice);
        else
            status = weft_recv_filled(op, inflight, slice);
        if (status == WEFT_OK)
            weft_op_run(op);
        else
            weft_op_fail(op, status);
        return;
    }
}
