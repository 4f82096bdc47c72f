/* SPDX-License-Identifier: Apache-2.0 */
/* Transfers: operations of one step, addressed by id.
 *
 * They share everything behind weft_send_advance() and weft_recv_advance() with the steps of plans. Nothing here
 * waits for anything else: a transfer starts when both ends want it, so that each one runs as fast as its peer. Those
 * that want to run stand in a queue, of which every round of progress serves the first few and puts them behind the
 * others again: many transfers keep neither each other nor a collective from moving. A short message that is offered needs none: it is read at once.
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "comm/exec/internal.h"

#define ROUND       8  /* transfers per round of progress */
#define SPARE_MAX   64 /* ended transfers that are kept for the next ones */
#define INDEX_BITS  17
#define COOKIE_BITS 23 /* of the id */

_Static_assert(WEFT_TRANSFERS_MAX == 1u << INDEX_BITS, "an id holds an index");

static struct weft_transfer *transfer_of(struct weft_exec_op *op)
{
    return (struct weft_transfer *)op;
}

static struct weft_transfer_slot *find_slot(const struct weft_exec *exec, uint32_t id)
{
    uint32_t index = id & (WEFT_TRANSFERS_MAX - 1);
    if (index >= exec->transfers.capacity || id == 0 || exec->transfers.slots[index].id != id)
        return NULL;
    return &exec->transfers.slots[index];
}

static int grow(struct weft_transfer_table *table)
{
    if (table->capacity == WEFT_TRANSFERS_MAX)
        return weft_fail(WEFT_AGAIN, "%u messages are in flight already", WEFT_TRANSFERS_MAX);
    uint32_t capacity = table->capacity ? 2 * table->capacity : 64;
    struct weft_transfer_slot *slots = realloc(table->slots, capacity * sizeof *slots);
    if (!slots)
        return weft_fail(WEFT_NOMEM, "no memory for %u messages", capacity);
    for (uint32_t i = table->capacity; i < capacity; i++)
        slots[i] = (struct weft_transfer_slot){.next_free = i + 1 < capacity ? i + 1 : WEFT_TRANSFERS_MAX};
    table->slots = slots;
    table->free = table->capacity;
    table->capacity = capacity;
    return WEFT_OK;
}

int weft_exec_transfer_reserve(struct weft_exec *exec, void *arg, uint32_t *id)
{
    struct weft_transfer_table *table = &exec->transfers;
    if (exec->status != WEFT_OK)
        return weft_fail(WEFT_REVOKED, "the communicator was revoked");
    if (table->capacity == 0 || table->free == WEFT_TRANSFERS_MAX) {
        int status = grow(table);
        if (status != WEFT_OK)
            return status;
    }
    uint32_t index = table->free;
    struct weft_transfer_slot *slot = &table->slots[index];
    table->free = slot->next_free;
    slot->generation = slot->generation % ((1u << (32 - INDEX_BITS)) - 1) + 1; /* never 0 */
    slot->id = slot->generation << INDEX_BITS | index;
    slot->arg = arg;
    slot->transfer = NULL;
    *id = slot->id;
    return WEFT_OK;
}

void *weft_exec_transfer_arg(const struct weft_exec *exec, uint32_t id)
{
    const struct weft_transfer_slot *slot = find_slot(exec, id);
    return slot ? slot->arg : NULL;
}

void weft_exec_transfer_release(struct weft_exec *exec, uint32_t id)
{
    struct weft_transfer_slot *slot = find_slot(exec, id);
    if (!slot)
        return;
    slot->id = 0;
    slot->arg = NULL;
    slot->transfer = NULL;
    slot->next_free = exec->transfers.free;
    exec->transfers.free = (uint32_t)(slot - exec->transfers.slots);
}

/* It wants to run again, perhaps. */
static void stay(struct weft_exec_op *op)
{
    struct weft_transfer *transfer = transfer_of(op);
    struct weft_transfer_table *table = &op->exec->transfers;
    if (transfer->queued || !(op->runnable | op->blocked | op->phase))
        return;
    transfer->queued = 1;
    transfer->next = NULL;
    transfer->previous = table->tail;
    *(table->tail ? &table->tail->next : &table->head) = transfer;
    table->tail = transfer;
}

static void dequeue(struct weft_transfer *transfer)
{
    struct weft_transfer_table *table = &transfer->op.exec->transfers;
    if (!transfer->queued)
        return;
    transfer->queued = 0;
    *(transfer->previous ? &transfer->previous->next : &table->head) = transfer->next;
    *(transfer->next ? &transfer->next->previous : &table->tail) = transfer->previous;
}

static struct weft_transfer *transfer_get(struct weft_exec *exec)
{
    struct weft_transfer_table *table = &exec->transfers;
    struct weft_transfer *transfer = table->spare;
    if (!transfer)
        return calloc(1, sizeof *transfer);
    table->spare = transfer->next;
    table->spare_count--;
    memset(transfer, 0, sizeof *transfer);
    return transfer;
}

/* The transfer's memory stays until the next round: its callers still look at it. */
static void end(struct weft_exec_op *op, int status)
{
    struct weft_transfer *transfer = transfer_of(op);
    struct weft_exec *exec = op->exec;
    op->status = status;
    weft_op_release(op);
    dequeue(transfer);
    weft_exec_transfer_release(exec, op->sequence);
    exec->transfers.running--;
    transfer->next = exec->transfers.spare;
    exec->transfers.spare = transfer;
    exec->transfers.spare_count++;
    transfer->ended(transfer->arg, status);
}

static void trim_spare(struct weft_transfer_table *table, uint32_t keep)
{
    while (table->spare_count > keep) {
        struct weft_transfer *transfer = table->spare;
        table->spare = transfer->next;
        table->spare_count--;
        free(transfer);
    }
}

void weft_exec_transfer_start(struct weft_exec *exec, uint32_t id, const struct weft_exec_transfer *wanted)
{
    struct weft_transfer_slot *slot = find_slot(exec, id);
    struct weft_transfer *transfer = transfer_get(exec);
    if (!transfer) {
        weft_exec_transfer_release(exec, id);
        int status = weft_fail(WEFT_NOMEM, "no memory for a message");
        weft_exec_stop(exec, status);
        wanted->ended(wanted->arg, status);
        return;
    }
    struct weft_exec_op *op = &transfer->op;
    struct weft_inflight *inflight = &transfer->inflight;
    op->exec = exec;
    op->in_flight = inflight;
    op->end = end;
    op->stay = stay;
    op->sequence = id;
    op->peer_id = wanted->peer_id;
    op->status = WEFT_AGAIN;
    op->exhausted = 1;
    op->tail = 1;
    op->active = op->runnable = 1;
    op->request.commands = wanted->commands;
    op->request.on_host = wanted->on_host;
    op->device = wanted->commands && !wanted->on_host;
    inflight->step.kind = wanted->source ? WEFT_STEP_SEND : WEFT_STEP_RECV;
    inflight->step.peer = (int32_t)wanted->peer;
    inflight->step.span = 1;
    inflight->step.source_count = wanted->source != NULL;
    inflight->step.sources[0].buffer = WEFT_BUFFER_INPUT;
    inflight->step.destination.buffer = WEFT_BUFFER_OUTPUT;
    inflight->sources[0] = wanted->source;
    inflight->target = wanted->destination;
    op->layout.extents[wanted->source ? WEFT_BUFFER_INPUT : WEFT_BUFFER_OUTPUT] = (struct weft_extent){
        wanted->source ? (uint8_t *)(uintptr_t)wanted->source : wanted->destination, wanted->bytes};
    inflight->length = wanted->bytes;
    inflight->rank = wanted->peer;
    transfer->ended = wanted->ended;
    transfer->arg = wanted->arg;
    slot->transfer = transfer;
    exec->transfers.running++;
    int status = weft_inflight_open(op, inflight, wanted->peer);
    inflight->took_ns = wanted->took_ns;
    if (status == WEFT_OK && wanted->offered)
        status = weft_recv_offered(op, inflight, wanted->offered);
    if (status == WEFT_OK && wanted->commands)
        status = exec->options.devices->begin(op);
    if (status != WEFT_OK)
        weft_op_fail(op, status);
    else
        weft_op_run(op);
}

int weft_exec_read_offered(struct weft_exec *exec, const struct weft_exec_peer *peer,
                           const struct weft_token *token, void *destination, size_t bytes)
{
    const void *mapped;
    if (exec->is_stopped)
        return WEFT_CANCELLED; /* as transfers do not move then */
    int status = peer->ops->map(peer->link, token, bytes, &mapped);
    int is_mapped = status == WEFT_OK;
    if (is_mapped) {
        weft_copy(destination, mapped, bytes);
        status = peer->ops->exposed(peer->link, token);
    } else if (status == WEFT_UNSUPPORTED) {
        status = peer->ops->pull(peer->link, token, 0, destination, bytes, 0);
    }
    if (status != WEFT_OK)
        return status;
    exec->stats.bytes_direct += bytes;
    *(is_mapped ? &exec->stats.bytes_mapped : &exec->stats.bytes_pulled) += bytes;
    return WEFT_OK;
}

int weft_transfers_progress(struct weft_exec *exec)
{
    struct weft_transfer_table *table = &exec->transfers;
    int moved = 0;
    if (table->spare_count > SPARE_MAX)
        trim_spare(table, SPARE_MAX);
    struct weft_transfer *last = table->tail, *transfer = NULL;
    for (int i = 0; i < ROUND && table->head && transfer != last; i++) {
        transfer = table->head;
        dequeue(transfer);
        moved += weft_op_progress(&transfer->op);
    }
    return moved;
}

int weft_transfers_blocked(const struct weft_exec *exec)
{
    for (const struct weft_transfer *transfer = exec->transfers.head; transfer; transfer = transfer->next) {
        if (transfer->op.blocked | transfer->op.phase)
            return 1;
    }
    return 0;
}

void weft_transfers_recall(struct weft_exec *exec)
{
    for (uint32_t i = 0; i < exec->transfers.capacity; i++) {
        struct weft_transfer *transfer = exec->transfers.slots[i].transfer;
        if (transfer)
            weft_op_recall(&transfer->op);
    }
}

void weft_transfers_fail(struct weft_exec *exec, int status)
{
    for (uint32_t i = 0; i < exec->transfers.capacity; i++) {
        struct weft_transfer *transfer = exec->transfers.slots[i].transfer;
        if (transfer)
            end(&transfer->op, status);
    }
}

void weft_transfers_free(struct weft_exec *exec)
{
    trim_spare(&exec->transfers, 0);
    free(exec->transfers.slots);
}

int weft_transfer_message(struct weft_exec *exec, const struct weft_wire_header *header, const void *payload)
{
    const struct weft_transfer_slot *slot = find_slot(exec, header->op);
    struct weft_transfer *transfer = slot ? slot->transfer : NULL;
    if (slot && !transfer && header->kind == WEFT_WIRE_TAKEN)
        return WEFT_OK; /* the peer reads what was offered with its announcement */
    if (!transfer || transfer->inflight.rank != header->source ||
        weft_wire_is_answer(header) != (transfer->inflight.step.kind == WEFT_STEP_SEND))
        return weft_fail(WEFT_PROTOCOL, "rank %u sent kind %u for the transfer %08x, which is none of its",
                         header->source, header->kind, header->op);
    struct weft_exec_op *op = &transfer->op;
    int kept = 0;
    int status = weft_wire_is_answer(header)
                     ? weft_answer_deliver(op, &transfer->inflight, header, payload)
                     : weft_recv_message(op, &transfer->inflight, header, payload, NULL, &kept);
    return status == WEFT_OK ? weft_op_run_on(op, header, payload) : status;
}

struct weft_exec_op *weft_transfer_by_cookie(struct weft_exec *exec, uint64_t cookie)
{
    uint32_t bits = (1u << COOKIE_BITS) - 1, id = (uint32_t)(cookie >> 8) & bits;
    uint32_t index = id & (WEFT_TRANSFERS_MAX - 1);
    if (index >= exec->transfers.capacity)
        return NULL;
    struct weft_transfer *transfer = exec->transfers.slots[index].transfer;
    return transfer && (transfer->op.sequence & bits) == id ? &transfer->op : NULL;
}
