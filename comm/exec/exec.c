/* SPDX-License-Identifier: Apache-2.0 */
/* An executor, and its operations from their start to their end. How they run: window.c. */
#include "comm/exec/internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"

_Static_assert(offsetof(struct weft_exec_op, status) == 0, "who asks for the status finds it there");

static void free_tables(struct weft_exec *exec)
{
    free(exec->peers);
    free(exec->senders);
    free(exec->early_counts);
    free(exec->credits);
    free(exec->staging);
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
    int may_stage = options->may_stage && options->ranks > 1;
    exec->staging = may_stage ? malloc(sizeof *exec->staging) : NULL;
    if (!exec->peers || !exec->senders || !exec->early_counts || !exec->credits ||
        (may_stage && !exec->staging)) {
        free_tables(exec);
        free(exec);
        return weft_fail(WEFT_NOMEM, "no memory for %u peers", options->ranks);
    }
    for (uint32_t r = 0; r < options->ranks; r++)
        exec->credits[r].seen = options->first_sequence - 1;
    if (exec->staging)
        weft_staging_open(exec->staging, options->ranks);
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
    weft_exec_fail(exec, WEFT_CANCELLED);
    if (exec->collectives)
        exec->options.devices->close(exec);
    weft_early_drop(exec, exec->early);
    weft_transfers_free(exec);
    free_op(exec->spare_ops);
    for (int i = 0; i < WEFT_STEP_SOURCES_MAX; i++)
        free(exec->scratch[i]);
    free_tables(exec);
    free(exec);
}

struct weft_link *weft_exec_link(const struct weft_exec *exec, uint32_t rank)
{
    return exec->peers[rank].link;
}

static void op_end(struct weft_exec_op *op, int status)
{
    uint32_t slot = op->sequence % WEFT_OPS_MAX;
    weft_trial_end(op, status);
    op->status = status;
    op->exec->ops[slot] = NULL;
    op->exec->running &= ~(1ULL << slot);
    op->exec->stats.operations += status == WEFT_OK;
    weft_op_release(op);
}

static void reset_peer(struct weft_op_peer *peer)
{
    peer->sends = peer->receives = 0;
    peer->eager_sent = peer->eager_known = 0;
    peer->eager_admitted = peer->eager_consumed = peer->eager_reported = 0;
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
        op->in_flight = window->in_flight;
        op->by_rank = by_rank;
        op->end = op_end;
    }
    for (uint32_t i = 0; i < op->peer_count; i++)
        reset_peer(op->peers[i]);
    op->head = op->tail = 0;
    op->head_index = op->tail_index = 0;
    op->runnable = op->blocked = op->active = 0;
    op->exhausted = 0;
    op->device = op->phase = op->vote = 0;
    *got = op;
    return WEFT_OK;
}

static void pay(struct weft_exec *exec)
{
    int status = weft_credit_pay(exec);
    if (status != WEFT_OK)
        weft_exec_stop(exec, status);
}

int weft_exec_is_full(const struct weft_exec *exec)
{
    return exec->ops[exec->next_sequence % WEFT_OPS_MAX] != NULL;
}

int weft_exec_start(struct weft_exec *exec, const struct weft_exec_request *request,
                    struct weft_exec_op **started)
{
    if (exec->status != WEFT_OK)
        return weft_fail(WEFT_REVOKED, "the communicator was revoked");
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
    status = weft_layout_open(&op->layout, &op->request);
    if (status == WEFT_OK && op->request.commands)
        status = exec->options.devices->begin(op);
    if (status != WEFT_OK) {
        free_op(op);
        return status;
    }
    weft_trial_begin(op);
    op->status = WEFT_AGAIN;
    op->sequence = exec->next_sequence++;
    op->count = weft_call_count(&request->call);
    exec->past[slot] = (struct weft_past_op){op->sequence, request->digest, request->call};
    exec->past[slot].call.label = NULL; /* which may go with the call */
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
        pay(exec);
    return WEFT_OK;
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
    if (exec->is_stopped)
        return 0;
    if (exec->debts | (uint32_t)exec->reports_blocked)
        pay(exec);
    for (uint64_t mask = exec->running; mask; mask &= mask - 1) {
        struct weft_exec_op *op = exec->ops[__builtin_ctzll(mask)];
        if (!op || !(op->blocked | op->runnable | op->phase))
            continue;
        moved += weft_op_progress(op);
    }
    const struct weft_transfer_table *transfers = &exec->transfers;
    return transfers->head || transfers->spare_count ? moved + weft_transfers_progress(exec) : moved;
}

int weft_exec_is_blocked(const struct weft_exec *exec)
{
    if (exec->debts_blocked | exec->reports_blocked)
        return 1;
    for (uint64_t mask = exec->running; mask; mask &= mask - 1) {
        const struct weft_exec_op *op = exec->ops[__builtin_ctzll(mask)];
        if (op->blocked | op->phase) /* a device announces nothing, either */
            return 1;
    }
    return weft_transfers_blocked(exec);
}

void weft_exec_fail(struct weft_exec *exec, int status)
{
    if (exec->status == WEFT_OK)
        exec->status = status;
    for (int i = 0; i < WEFT_OPS_MAX; i++) {
        if (exec->ops[i])
            weft_op_recall(exec->ops[i]);
    }
    weft_transfers_recall(exec);
    if (exec->collectives)
        exec->options.devices->stop(exec);
    weft_recalls_await(exec, ~0u); /* where nothing is recalled too: peers are about to ask */
    /* All operations share one wait, so that those on a device that hangs do not add up. */
    exec->stop_ns = weft_clock_ns() + WEFT_STOP_MS * INT64_C(1000000);
    exec->recall_ns = 0;
    for (int i = 0; i < WEFT_OPS_MAX; i++) {
        if (exec->ops[i])
            op_end(exec->ops[i], exec->status);
    }
    weft_transfers_fail(exec, exec->status);
}

const struct weft_exec_stats *weft_exec_get_stats(const struct weft_exec *exec)
{
    return &exec->stats;
}
