/* SPDX-License-Identifier: Apache-2.0 */
/* Operations, the window, and the run loop.
 *
 * Admission walks the plan in program order. A step enters the window as a flight when fewer than `window`
 * steps lie between it and the oldest unfinished one, and waits for those that it has a hazard with (exec_hazard.c).
 * SLOTs are renamed instead: each RECV into a slot owns its data, and the REDUCE or COPY that empties the slot is
 * bound to that RECV, so reusing a slot number never waits.
 *
 * Operations that a window gains nothing do without: exec_small.c.
 *
 * Nothing is scanned to find work: an event (a message, a landing, progress of a flight that others wait for)
 * sets bits in `runnable`, and the run loop takes the oldest first. A full link sets `blocked` instead, which
 * is retried once per progress call.
 */
#include "comm/exec_votes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

static void free_tables(struct weft_exec *exec)
{
    free(exec->peers);
    free(exec->senders);
    free(exec->early_counts);
    free(exec->credits);
}

int weft_exec_create(const struct weft_exec_options *options, struct weft_exec **created)
{
    if (options->window < WEFT_WINDOW_MIN || options->window > WEFT_WINDOW_MAX)
        return weft_fail(WEFT_INVALID, "window is %u: expected %d to %d", options->window, WEFT_WINDOW_MIN,
                         WEFT_WINDOW_MAX);
    struct weft_exec *exec = calloc(1, sizeof *exec);
    if (!exec)
        return weft_fail(WEFT_NOMEM, "no memory for an executor");
    exec->options = *options;
    exec->next_sequence = options->first_sequence;
    exec->early_tail = &exec->early;
    exec->peers = calloc(options->ranks, sizeof *exec->peers);
    exec->senders = calloc(options->ranks, sizeof *exec->senders);
    exec->early_counts = calloc(options->ranks, sizeof *exec->early_counts);
    exec->credits = calloc(options->ranks, sizeof *exec->credits);
    if (!exec->peers || !exec->senders || !exec->early_counts || !exec->credits) {
        free_tables(exec);
        free(exec);
        return weft_fail(WEFT_NOMEM, "no memory for %u peers", options->ranks);
    }
    for (uint32_t r = 0; r < options->ranks; r++)
        exec->credits[r].seen = options->first_sequence - 1;
    *created = exec;
    return WEFT_OK;
}

static void free_op(struct weft_exec_op *op)
{
    if (!op)
        return;
    for (uint32_t i = 0; i < op->peer_count; i++)
        free(op->peers[i]);
    free(op->peers);
    free(op->by_rank);
    free(op->window);
    free(op->ballot);
    weft_layout_close(&op->layout);
    free(op);
}

void weft_exec_destroy(struct weft_exec *exec)
{
    if (!exec)
        return;
    weft_exec_fail(exec, WEFT_CANCELLED, "the communicator was destroyed");
    weft_programs_free(exec);
    weft_early_drop(exec, exec->early);
    weft_transfers_free(exec);
    free_op(exec->spare_ops);
    weft_early_trim(exec);
    for (int i = 0; i < WEFT_STEP_SOURCES_MAX; i++)
        free(exec->scratch[i]);
    free_tables(exec);
    free(exec);
}

int weft_exec_connect(struct weft_exec *exec, uint32_t rank, struct weft_exec_peer **found)
{
    struct weft_exec_peer *peer = &exec->peers[rank];
    if (!peer->link) {
        int status = exec->options.hooks.connect(exec->options.hooks.comm, rank, peer);
        if (status != WEFT_OK)
            return status;
    }
    *found = peer;
    return WEFT_OK;
}

struct weft_link *weft_exec_link(const struct weft_exec *exec, uint32_t rank)
{
    return exec->peers[rank].link;
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

/* On a device a dependent may have ended before the flight that it depended on: what that has queued was enough. */
void weft_flight_wake(struct weft_exec_op *op, struct weft_flight *flight)
{
    op->runnable |= flight->dependents & op->active;
}

void weft_flight_finish(struct weft_exec_op *op, struct weft_flight *flight)
{
    uint64_t bit = 1ULL << flight->index;
    for (uint64_t mask = flight->dependents; mask; mask &= mask - 1)
        op->flights[__builtin_ctzll(mask)].waits &= ~bit;
    op->active &= ~bit;
    op->runnable |= flight->dependents & op->active;
    op->runnable &= ~bit;
    op->blocked &= ~bit;
    if (op->window && op->window->touches[flight->index])
        weft_hazards_leave(op, flight);
    if (flight->step.kind == WEFT_STEP_SEND)
        weft_send_release(op, flight);
    else if (flight->step.kind == WEFT_STEP_RECV)
        weft_recv_release(op, flight);
    while (op->head != op->tail && !(op->active >> op->head_index & 1)) {
        op->head++;
        op->head_index = (uint8_t)(op->head_index + 1u == op->exec->options.window ? 0 : op->head_index + 1);
    }
}

static int admit_message(struct weft_exec_op *op, struct weft_flight *flight)
{
    flight->peer = weft_op_peer_find(op, (uint32_t)flight->step.peer, 1);
    if (!flight->peer) {
        op->active &= ~(1ULL << flight->index); /* nothing of it is set up, nothing to release */
        return weft_fail(WEFT_NOMEM, "no memory for the state of rank %d", flight->step.peer);
    }
    int status = weft_flight_open(op, flight, (uint32_t)flight->step.peer);
    if (status != WEFT_OK)
        return status;
    if (flight->step.kind == WEFT_STEP_SEND) {
        flight->message = flight->peer->sends++;
        flight->peer->send_flight[flight->message % WEFT_WINDOW_MAX] = flight->index;
    } else {
        flight->message = flight->peer->receives++;
        flight->peer->receive_flight[flight->message % WEFT_WINDOW_MAX] = flight->index;
        flight->into_slot = flight->step.destination.buffer == WEFT_BUFFER_SLOT;
        if (flight->into_slot)
            op->window->slot_writer[flight->step.destination.slot] = flight->index;
        if (flight->mode == WEFT_MODE_EAGER)
            status = weft_eager_admit(op, flight->peer);
        if (status != WEFT_OK)
            return status;
    }
    return flight->peer->early ? weft_early_claim(op, flight) : WEFT_OK;
}

/* Binds a REDUCE or COPY to the RECVs behind its slots. */
static void bind_slots(struct weft_exec_op *op, struct weft_flight *flight)
{
    for (int i = 0; i < flight->step.source_count; i++) {
        flight->bound[i] = WEFT_NONE;
        if (flight->step.sources[i].buffer != WEFT_BUFFER_SLOT)
            continue;
        uint8_t writer = op->window->slot_writer[flight->step.sources[i].slot];
        flight->bound[i] = writer;
        op->flights[writer].dependents |= 1ULL << flight->index;
    }
}

static int admit_step(struct weft_exec_op *op, struct weft_flight *flight)
{
    flight->index = op->tail_index;
    flight->sequence = op->tail;
    flight->done = flight->visible = 0;
    flight->dependents = 0;
    flight->into_slot = 0;
    weft_hazards_enter(op, flight);
    op->active |= 1ULL << flight->index;
    op->runnable |= 1ULL << flight->index;
    op->tail++;
    op->tail_index = (uint8_t)(op->tail_index + 1u == op->exec->options.window ? 0 : op->tail_index + 1);
    if (flight->step.kind == WEFT_STEP_SEND || flight->step.kind == WEFT_STEP_RECV)
        return admit_message(op, flight);
    bind_slots(op, flight);
    return WEFT_OK;
}

static int admit(struct weft_exec_op *op)
{
    while (!op->exhausted && op->tail - op->head < op->exec->options.window) {
        struct weft_flight *flight = &op->flights[op->tail_index];
        if (!weft_cursor_next(&op->cursor, &flight->step)) {
            op->exhausted = 1;
            break;
        }
        weft_layout_place(&op->layout, flight);
        if (flight->length == 0 && !(op->layout.sized && flight->step.kind <= WEFT_STEP_RECV))
            continue;
        int status = admit_step(op, flight);
        if (status != WEFT_OK)
            return status;
    }
    return WEFT_OK;
}

static int advance(struct weft_exec_op *op, struct weft_flight *flight)
{
    switch (flight->step.kind) {
    case WEFT_STEP_SEND:
        return weft_send_advance(op, flight);
    case WEFT_STEP_RECV:
        return weft_recv_advance(op, flight);
    default:
        return op->device ? weft_device_compute(op, flight) : weft_compute_advance(op, flight);
    }
}

void weft_op_release(struct weft_exec_op *op)
{
    if (op->request.lane)
        weft_device_end(op);
    for (uint64_t mask = op->active; mask; mask &= mask - 1) {
        struct weft_flight *flight = &op->flights[__builtin_ctzll(mask)];
        if (flight->step.kind == WEFT_STEP_SEND)
            weft_send_release(op, flight);
        else if (flight->step.kind == WEFT_STEP_RECV)
            weft_recv_release(op, flight);
    }
    op->active = op->runnable = op->blocked = 0;
    for (uint32_t i = 0; i < op->peer_count; i++) {
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
    op->has_regions = 0;
    memset(op->refused, 0, sizeof op->refused);
}

static void op_end(struct weft_exec_op *op, int status)
{
    if (!op->window) {
        weft_transfer_end(op, status);
        return;
    }
    uint32_t slot = op->sequence % WEFT_OPS_MAX;
    op->status = status;
    op->exec->ops[slot] = NULL;
    op->exec->running &= ~(1ULL << slot);
    op->exec->stats.operations += status == WEFT_OK;
    weft_op_release(op);
}

void weft_op_fail(struct weft_exec_op *op, int status)
{
    struct weft_exec *exec = op->exec;
    weft_exec_fail(exec, status, weft_error_detail());
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
        status = advance(op, &op->flights[index]);
        if (status != WEFT_OK)
            break;
    }
    return status;
}

void weft_op_run(struct weft_exec_op *op)
{
    int status = op->phase ? weft_device_run(op) : op->small ? weft_small_run(op) : weft_window_run(op);
    int ends = status == WEFT_OK && op->exhausted && op->head == op->tail && !op->phase;
    if (ends)
        status = weft_early_left(op);
    if (status != WEFT_OK)
        weft_op_fail(op, status);
    else if (ends)
        op_end(op, WEFT_OK);
    else if (!op->window)
        weft_transfer_queue(op);
}

static void reset_peer(struct weft_op_peer *peer)
{
    peer->sends = peer->receives = 0;
    peer->eager_sent = peer->eager_known = 0;
    peer->eager_admitted = peer->eager_consumed = peer->eager_told = 0;
    peer->waiting = 0;
}

static int op_get(struct weft_exec *exec, struct weft_exec_op **got)
{
    struct weft_exec_op *op = exec->spare_ops;
    exec->spare_ops = NULL;
    if (!op) {
        op = calloc(1, sizeof *op);
        struct weft_op_window *window = calloc(1, sizeof *window);
        struct weft_op_peer **by_rank = calloc(exec->options.ranks, sizeof(struct weft_op_peer *));
        if (!op || !window || !by_rank) {
            free(op);
            free(window);
            free(by_rank);
            return weft_fail(WEFT_NOMEM, "no memory for an operation");
        }
        op->exec = exec;
        op->window = window;
        op->flights = window->flights;
        op->by_rank = by_rank;
    }
    for (uint32_t i = 0; i < op->peer_count; i++)
        reset_peer(op->peers[i]);
    op->head = op->tail = 0;
    op->head_index = op->tail_index = 0;
    op->runnable = op->blocked = op->active = 0;
    op->exhausted = op->at_step = 0;
    op->device = op->phase = op->vote = 0;
    *got = op;
    return WEFT_OK;
}

/* Finds out where everything lies, and whether the window is needed: a call without elements gets one first. */
static int op_place(struct weft_exec_op *op)
{
    op->small = !op->request.lane && weft_small_is(&op->request);
    if (op->small) {
        weft_small_place(op);
        return WEFT_OK;
    }
    int status = weft_layout_open(&op->layout, &op->request);
    op->small = !op->request.lane && weft_small_is(&op->request);
    if (!op->small) {
        memset(op->window->buckets, 0, sizeof op->window->buckets);
        memset(op->window->cell_users, 0, sizeof op->window->cell_users);
    }
    return status == WEFT_OK && op->request.lane ? weft_device_begin(op) : status;
}

int weft_exec_is_full(const struct weft_exec *exec)
{
    return exec->ops[exec->next_sequence % WEFT_OPS_MAX] != NULL;
}

int weft_exec_start(struct weft_exec *exec, const struct weft_exec_request *request,
                    struct weft_exec_op **started)
{
    if (exec->status != WEFT_OK)
        return weft_fail(WEFT_REVOKED, "the communicator was revoked: %s", exec->failure);
    uint32_t slot = exec->next_sequence % WEFT_OPS_MAX;
    if (exec->ops[slot])
        return weft_fail(WEFT_AGAIN, "%d operations are in flight already", WEFT_OPS_MAX);
    if (request->plan->slots > WEFT_SLOTS_MAX)
        return weft_fail(WEFT_INVALID, "the plan names %u slots: expected at most %d", request->plan->slots,
                         WEFT_SLOTS_MAX);
    struct weft_exec_op *op = NULL;
    int status = op_get(exec, &op);
    if (status != WEFT_OK)
        return status;
    op->request = *request;
    op->in_place = request->plan->in_place != 0;
    status = op_place(op);
    if (status != WEFT_OK) {
        free_op(op);
        return status;
    }
    op->status = WEFT_AGAIN;
    op->sequence = exec->next_sequence++;
    op->count = weft_call_count(&request->call);
    exec->past[slot] = (struct weft_past_op){op->sequence, request->digest, request->call};
    op->look = (struct weft_exec_look){0};
    weft_cursor_start(&op->cursor, request->plan);
    exec->ops[slot] = op;
    exec->running |= 1ULL << slot;
    *started = op;
    status = exec->early ? weft_early_adopt(op) : WEFT_OK;
    if (status != WEFT_OK)
        weft_op_fail(op, status);
    else
        weft_op_run(op);
    if (exec->debts)
        weft_credit_pay(exec);
    return WEFT_OK;
}

int weft_exec_op_status(const struct weft_exec_op *op)
{
    return op->status;
}

void weft_exec_op_free(struct weft_exec_op *op)
{
    struct weft_exec *exec = op->exec;
    if (op->status == WEFT_AGAIN) {
        weft_recalls_await(exec, weft_op_recall(op));
        op_end(op, WEFT_CANCELLED);
    }
    weft_layout_end(&op->layout);
    if (exec->spare_ops)
        free_op(op);
    else
        exec->spare_ops = op;
}

int weft_exec_progress(struct weft_exec *exec)
{
    int moved = 0;
    if (exec->debts | (uint32_t)exec->tells_blocked)
        weft_credit_pay(exec);
    for (uint64_t mask = exec->running; mask; mask &= mask - 1) {
        struct weft_exec_op *op = exec->ops[__builtin_ctzll(mask)];
        if (!op || !(op->blocked | op->runnable | op->phase))
            continue;
        if (op->phase) {
            moved += weft_device_look(op);
            if (op->status != WEFT_AGAIN)
                continue;
        }
        moved += op->runnable != 0;
        op->runnable |= op->blocked;
        op->blocked = 0;
        weft_op_run(op);
    }
    const struct weft_transfer_table *transfers = &exec->transfers;
    return transfers->head || transfers->spare_count ? moved + weft_transfers_progress(exec) : moved;
}

int weft_exec_is_blocked(const struct weft_exec *exec)
{
    if (exec->debts_blocked | exec->tells_blocked)
        return 1;
    for (uint64_t mask = exec->running; mask; mask &= mask - 1) {
        const struct weft_exec_op *op = exec->ops[__builtin_ctzll(mask)];
        if (op->blocked | op->phase) /* a device tells nobody, either */
            return 1;
    }
    return weft_transfers_blocked(exec);
}

void weft_exec_fail(struct weft_exec *exec, int status, const char *text)
{
    if (exec->status == WEFT_OK) {
        exec->status = status;
        snprintf(exec->failure, sizeof exec->failure, "%s", text);
    }
    for (int i = 0; i < WEFT_OPS_MAX; i++) {
        if (exec->ops[i])
            weft_op_recall(exec->ops[i]);
    }
    weft_transfers_recall(exec);
    weft_programs_stop(exec);
    weft_recalls_await(exec, ~0u); /* where nothing is recalled too: peers are about to ask */
    weft_device_stop(exec);
    for (int i = 0; i < WEFT_OPS_MAX; i++) {
        if (exec->ops[i])
            op_end(exec->ops[i], exec->status);
    }
    weft_transfers_fail(exec, exec->status);
}

const char *weft_exec_failure(const struct weft_exec *exec, int *status)
{
    *status = exec->status;
    return exec->status == WEFT_OK ? NULL : exec->failure;
}

const struct weft_exec_stats *weft_exec_get_stats(const struct weft_exec *exec)
{
    return &exec->stats;
}
