/* SPDX-License-Identifier: Apache-2.0 */
/* Steps in the window: a message's state, in a collective's step or a transfer of its own, what its control messages and
 * completions are called; and how a step ends. */
#include <string.h>

#include "base/error.h"
#include "comm/exec/hazard.h"
#include "comm/exec/layout.h"

uint64_t weft_inflight_cookie(const struct weft_exec_op *op, const struct weft_inflight *inflight,
                              uint32_t slice)
{
    uint32_t which = op->window ? (op->sequence & 0x7ff) << 12 | (inflight->sequence & 0xfff)
                                : 1u << 23 | (op->sequence & 0x7fffff);
    return (uint64_t)op->exec->options.id << 32 | which << 8 | (slice & 0xff);
}

int weft_inflight_send(struct weft_exec_op *op, struct weft_inflight *inflight, enum weft_wire_kind kind,
                       uint32_t flags, uint32_t slice, const void *payload, uint32_t size)
{
    struct weft_exec *exec = op->exec;
    const struct weft_exec_peer *peer = &exec->peers[inflight->rank];
    struct weft_wire_header header = {
        .comm = exec->options.id,
        .op = op->window ? op->sequence : op->peer_id,
        .source = exec->options.rank,
        .message = inflight->message,
        .slice = slice,
        .digest = op->request.digest,
        .count = weft_layout_count(&op->layout, op->count, inflight),
        .size = size,
        .kind = (uint8_t)kind,
        .version = WEFT_WIRE_VERSION,
        .flags = (uint16_t)(op->window ? flags | op->window->trial.regrets << WEFT_WIRE_REGRETS_SHIFT
                                       : flags | WEFT_WIRE_TRANSFER),
    };
    int status = peer->ops->send(peer->link, &header, sizeof header, payload, size);
    if (status == WEFT_OK)
        exec->stats.messages++;
    else if (status != WEFT_AGAIN)
        status = weft_exec_unsent(exec, inflight->rank, &header, status);
    return status;
}

int weft_inflight_open(struct weft_exec_op *op, struct weft_inflight *inflight, uint32_t rank)
{
    inflight->rank = rank;
    memset((char *)inflight + offsetof(struct weft_inflight, reported), 0,
           offsetof(struct weft_inflight, offered_ns) - offsetof(struct weft_inflight, reported));
    int status = weft_mode_choose(op, inflight);
    if (status == WEFT_OK && (inflight->mode == WEFT_MODE_PUT || op->device))
        memset(inflight->rbufs, 0, sizeof inflight->rbufs);
    return status == WEFT_OK && op->device ? op->exec->options.devices->open(op, inflight) : status;
}

int weft_op_region(struct weft_exec_op *op, const struct weft_exec_peer *peer, unsigned buffer,
                   struct weft_region **region)
{
    if (op->in_place && buffer == WEFT_BUFFER_INPUT)
        buffer = WEFT_BUFFER_OUTPUT;
    if (buffer == WEFT_BUFFER_CELL)
        buffer = WEFT_BUFFER_TEMP;
    struct weft_region **slot = &op->regions[peer->transport][buffer];
    if (!*slot) {
        const struct weft_exec_hooks *hooks = &op->exec->options.hooks;
        const struct weft_extent *extent = &op->layout.extents[buffer];
        int status = hooks->region_get(hooks->arg, peer->transport, extent->memory, extent->bytes, slot);
        op->has_regions = 1;
        if (status != WEFT_OK)
            return status;
    }
    *region = *slot;
    return WEFT_OK;
}

/* What a SEND has exposed or staged. */
static void send_release(struct weft_exec_op *op, struct weft_inflight *inflight)
{
    const struct weft_exec_peer *peer = &op->exec->peers[inflight->rank];
    if (inflight->have_token)
        peer->ops->unexpose(peer->link, &inflight->token, inflight->done == inflight->length);
    inflight->have_token = 0;
    if (inflight->guard)
        op->exec->options.devices->release(op, inflight);
    if (!inflight->stage_buffer)
        return;
    weft_stage_put(op, peer->transport, inflight->stage_buffer, WEFT_STAGES * inflight->slice_bytes);
    inflight->stage_buffer = NULL;
    op->exec->staged -= inflight->is_chosen;
    inflight->is_chosen = 0;
}

/* What a RECV has kept, imported or received by puts. */
static void recv_release(struct weft_exec_op *op, struct weft_inflight *inflight)
{
    weft_early_free_list(inflight->held);
    inflight->held = NULL;
    if (inflight->shared)
        op->exec->options.devices->release(op, inflight);
    if (inflight->mode != WEFT_MODE_PUT && !op->device)
        return;
    const struct weft_exec_peer *peer = &op->exec->peers[inflight->rank];
    for (int i = 0; i < WEFT_RBUFS; i++) {
        struct weft_rbuf *rbuf = &inflight->rbufs[i];
        if (rbuf->buffer)
            weft_stage_put(op, peer->transport, rbuf->buffer, inflight->slice_bytes);
        memset(rbuf, 0, sizeof *rbuf);
    }
}

void weft_inflight_release(struct weft_exec_op *op, struct weft_inflight *inflight)
{
    if (inflight->step.kind == WEFT_STEP_SEND)
        send_release(op, inflight);
    else if (inflight->step.kind == WEFT_STEP_RECV)
        recv_release(op, inflight);
}

/* On a device a dependent may have ended before the step that it depended on: what that has queued was enough. */
void weft_inflight_wake(struct weft_exec_op *op, struct weft_inflight *inflight)
{
    op->runnable |= inflight->dependents & op->active;
}

void weft_inflight_finish(struct weft_exec_op *op, struct weft_inflight *inflight)
{
    uint64_t bit = 1ULL << inflight->index;
    for (uint64_t mask = inflight->dependents; mask; mask &= mask - 1)
        op->in_flight[__builtin_ctzll(mask)].waits &= ~bit;
    op->active &= ~bit;
    op->runnable = (op->runnable | inflight->dependents) & op->active;
    op->blocked &= ~bit;
    if (op->window && op->window->touches[inflight->index])
        weft_hazards_leave(op, inflight);
    if (weft_inflight_holds(op, inflight))
        weft_inflight_release(op, inflight);
    while (op->head != op->tail && !(op->active >> op->head_index & 1)) {
        op->head++;
        op->head_index = (uint8_t)(op->head_index + 1u == op->exec->options.window ? 0 : op->head_index + 1);
    }
}

int weft_exec_unsent(const struct weft_exec *exec, uint32_t rank, const struct weft_wire_header *header,
                     int status)
{
    if (!weft_exec_has_left(exec, rank))
        return status;
    int is_step = header->kind <= WEFT_WIRE_RBUF || header->kind == WEFT_WIRE_REFUSE;
    int is_needed = is_step ? !weft_wire_is_answer(header)
                            : header->kind == WEFT_WIRE_TAGGED || header->kind == WEFT_WIRE_ANNOUNCE;
    return is_needed ? WEFT_AGAIN : WEFT_OK;
}

int weft_exec_post(struct weft_exec *exec, const struct weft_exec_peer *peer, struct weft_wire_header *header,
                   const void *payload)
{
    if (exec->status != WEFT_OK)
        return weft_fail(WEFT_REVOKED, "the communicator was revoked");
    if (exec->is_stopped)
        return WEFT_AGAIN;
    header->comm = exec->options.id;
    int status = peer->ops->send(peer->link, header, sizeof *header, payload, header->size);
    if (status == WEFT_OK) {
        exec->stats.messages++;
        exec->stats.bytes_eager += header->kind == WEFT_WIRE_TAGGED ? header->size : 0;
    } else if (status != WEFT_AGAIN) {
        status = weft_exec_unsent(exec, (uint32_t)(peer - exec->peers), header, status);
    }
    return status;
}
