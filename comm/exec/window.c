/* SPDX-License-Identifier: Apache-2.0 */
/* The window and the run loop.
 *
 * Admission walks the plan in program order. A step enters the window, and is in flight, when fewer than `window`
 * steps lie between it and the oldest unfinished one, and waits for those that it has a hazard with (hazard.c).
 * SLOTs are renamed instead: each RECV into a slot owns its data, and the REDUCE or COPY that empties the slot is
 * bound to that RECV, so reusing a slot number never waits.
 *
 * Nothing is scanned to find work: an event (a message, a receive buffer, progress of a step that others wait for)
 * sets bits in `runnable`, and the run loop takes the oldest first. A full link sets `blocked` instead, which
 * is retried once per progress call.
 *
 * A transfer is an operation of one step, which is in flight from the beginning: the same loop runs it.
 *
 * Of an unequal call steps on empty blocks are run, too. A rank to which nothing else comes hears by their messages that ranks disagree.
 * A SEND leaves when all has ended that it would wait for if there were bytes, so nobody ends the call who depends
 * on a rank that means another one.
 */
#include "comm/exec/hazard.h"
#include "comm/exec/layout.h"

#include <string.h>

#include "base/error.h"

void weft_exec_stop(struct weft_exec *exec, int status)
{
    if (exec->is_stopped || exec->status)
        return;
    exec->is_stopped = 1;
    if (exec->options.hooks.stopped)
        exec->options.hooks.stopped(exec->options.hooks.comm, status, weft_error_detail());
}

static int admit_message(struct weft_exec_op *op, struct weft_inflight *inflight)
{
    inflight->peer = weft_op_peer_get(op, (uint32_t)inflight->step.peer);
    if (!inflight->peer) {
        weft_hazards_leave(op, inflight);
        op->active &= ~(1ULL << inflight->index); /* nothing else of it is set up */
        return weft_fail(WEFT_NOMEM, "no memory for the state of rank %d", inflight->step.peer);
    }
    int status = weft_inflight_open(op, inflight, (uint32_t)inflight->step.peer);
    if (status != WEFT_OK)
        return status;
    if (inflight->step.kind == WEFT_STEP_SEND || inflight->mode == WEFT_MODE_PUT || op->device)
        weft_inflight_again(op, inflight);
    if (inflight->step.kind == WEFT_STEP_SEND) {
        inflight->message = inflight->peer->sends++;
        inflight->peer->send_index[inflight->message % WEFT_WINDOW_MAX] = inflight->index;
    } else {
        inflight->message = inflight->peer->receives++;
        inflight->peer->receive_index[inflight->message % WEFT_WINDOW_MAX] = inflight->index;
        int is_slot = inflight->step.destination.buffer == WEFT_BUFFER_SLOT;
        inflight->into_slot =
            is_slot &&
            inflight->length; /* an empty one has nothing to be fetched, and ends when it has come */
        if (is_slot)
            op->window->slot_writer[inflight->step.destination.slot] = inflight->index;
        if (inflight->mode == WEFT_MODE_EAGER)
            status = weft_eager_admit(op, inflight->peer);
        if (status != WEFT_OK)
            return status;
    }
    return inflight->peer->early ? weft_early_claim(op, inflight) : WEFT_OK;
}

/* An empty one waits for the end of the RECVs that have not come yet. */
static void admit_empty(struct weft_exec_op *op, struct weft_inflight *inflight)
{
    for (int i = 0; i < inflight->step.source_count; i++) {
        const struct weft_ref *source = &inflight->step.sources[i];
        if (source->buffer != WEFT_BUFFER_SLOT)
            continue;
        uint8_t writer = op->window->slot_writer[source->slot];
        struct weft_inflight *from = &op->in_flight[writer];
        if (!(op->active >> writer & 1) || from->step.kind != WEFT_STEP_RECV ||
            from->step.destination.buffer != WEFT_BUFFER_SLOT || from->step.destination.slot != source->slot)
            continue;
        inflight->waits |= 1ULL << writer;
        from->dependents |= 1ULL << inflight->index;
    }
    weft_inflight_again(op, inflight);
}

/* Binds a REDUCE or COPY to the RECVs behind its slots, which wake it when there is something. */
static void admit_compute(struct weft_exec_op *op, struct weft_inflight *inflight)
{
    int can_begin = 1;
    for (int i = 0; i < inflight->step.source_count; i++) {
        inflight->bound[i] = WEFT_NONE;
        if (inflight->step.sources[i].buffer != WEFT_BUFFER_SLOT)
            continue;
        uint8_t writer = op->window->slot_writer[inflight->step.sources[i].slot];
        inflight->bound[i] = writer;
        op->in_flight[writer].dependents |= 1ULL << inflight->index;
        can_begin &= op->in_flight[writer].visible != 0;
    }
    if (can_begin || op->device)
        weft_inflight_again(op, inflight);
}

static int admit_step(struct weft_exec_op *op, struct weft_inflight *inflight)
{
    inflight->index = op->tail_index;
    inflight->sequence = op->tail;
    inflight->done = inflight->visible = 0;
    inflight->dependents = 0;
    inflight->into_slot = 0;
    weft_hazards_enter(op, inflight);
    op->active |= 1ULL << inflight->index;
    op->tail++;
    op->tail_index = (uint8_t)(op->tail_index + 1u == op->exec->options.window ? 0 : op->tail_index + 1);
    if (inflight->step.kind == WEFT_STEP_SEND || inflight->step.kind == WEFT_STEP_RECV)
        return admit_message(op, inflight);
    if (inflight->length)
        admit_compute(op, inflight);
    else
        admit_empty(op, inflight);
    return WEFT_OK;
}

/* Admits steps up to a SEND that may leave at once: what follows it is worked out while its bytes are on their way. */
static int admit(struct weft_exec_op *op)
{
    while (!op->exhausted && op->tail - op->head < op->exec->options.window) {
        struct weft_inflight *inflight = &op->in_flight[op->tail_index];
        if (!weft_cursor_next(&op->cursor, &inflight->step)) {
            op->exhausted = 1;
            break;
        }
        weft_layout_place(&op->layout, inflight);
        if (inflight->length == 0 && !op->layout.unequal)
            continue;
        int status = admit_step(op, inflight);
        if (status != WEFT_OK || (inflight->step.kind == WEFT_STEP_SEND && !inflight->waits))
            return status;
    }
    return WEFT_OK;
}

static int advance(struct weft_exec_op *op, struct weft_inflight *inflight)
{
    if (__builtin_expect(!inflight->length, 0) && inflight->step.kind != WEFT_STEP_RECV) {
        if (inflight->waits)
            return WEFT_OK;
        if (inflight->step.kind != WEFT_STEP_SEND) {
            weft_inflight_finish(op, inflight);
            return WEFT_OK;
        }
    }
    switch (inflight->step.kind) {
    case WEFT_STEP_SEND:
        return weft_send_advance(op, inflight);
    case WEFT_STEP_RECV:
        return weft_recv_advance(op, inflight);
    default:
        return op->device ? op->exec->options.devices->compute(op, inflight)
                          : weft_compute_advance(op, inflight);
    }
}

void weft_op_release(struct weft_exec_op *op)
{
    if (op->request.commands)
        op->exec->options.devices->end(op);
    for (uint64_t mask = op->active; mask; mask &= mask - 1) {
        struct weft_inflight *inflight = &op->in_flight[__builtin_ctzll(mask)];
        if (op->window)
            weft_hazards_leave(op, inflight);
        weft_inflight_release(op, inflight);
    }
    op->active = op->runnable = op->blocked = 0;
    for (uint32_t i = 0; i < op->peer_count && op->has_early; i++) {
        if (!op->peers[i]->early)
            continue;
        weft_early_drop(op->exec, op->peers[i]->early);
        op->peers[i]->early = NULL;
        op->peers[i]->early_tail = &op->peers[i]->early;
    }
    const struct weft_exec_hooks *hooks = &op->exec->options.hooks;
    for (uint32_t t = 0; t < WEFT_TRANSPORTS_MAX && op->has_regions; t++) {
        for (int b = 0; b < WEFT_BUFFERS; b++) {
            if (op->regions[t][b])
                hooks->region_put(hooks->arg, t, op->regions[t][b]);
            op->regions[t][b] = NULL;
        }
    }
    op->has_regions = op->has_early = 0;
    memset(op->refused, 0, sizeof op->refused);
}

void weft_op_fail(struct weft_exec_op *op, int status)
{
    weft_exec_stop(op->exec, status);
}

int weft_window_run(struct weft_exec_op *op)
{
    int status = WEFT_OK;
    op->work_bytes = 0;
    for (;;) {
        if (!op->exhausted && op->tail - op->head < op->exec->options.window) {
            status = admit(op);
            if (status != WEFT_OK)
                break;
        }
        if (!op->runnable || op->work_bytes >= WEFT_WORK_BYTES)
            break;
        uint64_t from_head = op->runnable >> op->head_index << op->head_index;
        int index = __builtin_ctzll(from_head ? from_head : op->runnable);
        op->runnable &= ~(1ULL << index);
        status = advance(op, &op->in_flight[index]);
        if (status != WEFT_OK)
            break;
    }
    return status;
}

void weft_op_run(struct weft_exec_op *op)
{
    if (op->exec->is_stopped)
        return;
    int status = op->phase ? op->exec->options.devices->run(op) : weft_window_run(op);
    int ends = status == WEFT_OK && op->exhausted && op->head == op->tail && !op->phase;
    if (ends)
        status = weft_early_left(op);
    if (status != WEFT_OK)
        weft_op_fail(op, status);
    else if (ends)
        op->end(op, WEFT_OK);
    else if (op->stay)
        op->stay(op);
}

int weft_op_progress(struct weft_exec_op *op)
{
    int moved = op->phase ? op->exec->options.devices->look(op) : 0;
    if (op->status != WEFT_AGAIN)
        return moved;
    moved += op->runnable != 0;
    op->runnable |= op->blocked;
    op->blocked = 0;
    weft_op_run(op);
    return moved;
}

int weft_op_run_on(struct weft_exec_op *op, const struct weft_wire_header *header, const void *payload)
{
    if (op->status == WEFT_AGAIN)
        weft_op_run(op);
    return weft_recv_keep(op, header, payload);
}
