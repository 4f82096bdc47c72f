/* SPDX-License-Identifier: Apache-2.0 */
/* Small operations: what a window gains them is less than it costs.
 *
 * Where every message is one eager slice, and no SEND has to wait for anything but the REDUCE before it (recursive
 * doubling, the dissemination barrier), the steps run in program order, one after the other. Only a RECV into a SLOT
 * is left behind: it waits beside the others, in the flight of its slot, and the step that empties the slot waits for it.
 * Its bytes are copied when they arrive, so it is consumed at once and whoever sent it may go on.
 *
 * The flights [0, WEFT_SMALL_SLOTS) are those of the slots; the one behind them is the step that the operation is at. A
 * flight that waits for a message or for room has its bit in `active`, as elsewhere: messages, credits, reports
 * and recalls find it there. There are no hazards: nothing but the messages goes on while a step waits.
 *
 * Why nobody waits for ever. Of these two plans each round is a RECV into a SLOT, a SEND and the REDUCE of both: the RECV
 * is left behind, the SEND waits for room and credit only, and the REDUCE for the message that the peer sends in the
 * same round, before it waits itself. A RECV that is not into a SLOT is a guest's last step, and its host's last SEND
 * answers it. A plan of another shape may not be run so.
 */
#include <string.h>

#include "comm/exec_internal.h"

#define CURRENT WEFT_SMALL_SLOTS

int weft_small_is(const struct weft_exec_request *request)
{
    const struct weft_plan *plan = request->plan;
    if (!request->count || request->count > WEFT_SMALL_BYTES ||
        request->count * request->element_bytes > WEFT_SMALL_BYTES)
        return 0;
    if (plan->chunks != 1 || plan->slots > WEFT_SMALL_SLOTS || plan->cells || plan->unequal)
        return 0;
    /* Their shape is what is needed. */
    return plan->algorithm == WEFT_ALGO_RD || plan->collective == WEFT_BARRIER;
}

void weft_small_place(struct weft_exec_op *op)
{
    const struct weft_exec_request *request = &op->request;
    struct weft_layout *layout = &op->layout;
    layout->unequal = layout->sized = 0;
    layout->element_bytes = request->element_bytes;
    layout->origins[WEFT_BUFFER_INPUT] = (uintptr_t)request->input;
    layout->origins[WEFT_BUFFER_OUTPUT] = (uintptr_t)request->output;
    layout->origins[WEFT_BUFFER_TEMP] = (uintptr_t)op->window->temp;
}

/* Gives the message of a SEND or RECV its number at the peer and makes it wait. */
static int message_open(struct weft_exec_op *op, struct weft_flight *flight)
{
    uint32_t rank = (uint32_t)flight->step.peer;
    struct weft_op_peer *peer = op->by_rank[rank];
    if (!peer)
        peer = weft_op_peer_find(op, rank, 1);
    if (!peer)
        return weft_fail(WEFT_NOMEM, "no memory for the state of rank %u", rank);
    if (!op->exec->peers[rank].link) {
        struct weft_exec_peer *link;
        int status = weft_exec_connect(op->exec, rank, &link);
        if (status != WEFT_OK)
            return status;
    }
    int sends = flight->step.kind == WEFT_STEP_SEND;
    uint32_t *count = sends ? &peer->sends : &peer->receives;
    uint8_t *table = sends ? peer->send_flight : peer->receive_flight;
    flight->peer = peer;
    flight->rank = rank;
    flight->message = (*count)++;
    table[flight->message % WEFT_WINDOW_MAX] = flight->index;
    flight->mode = WEFT_MODE_EAGER;
    flight->slice_bytes = WEFT_SMALL_BYTES;
    flight->slices = 1;
    flight->done = flight->visible = 0;
    flight->told = flight->ready = flight->taken = 0;
    flight->lending = flight->have_token = 0;
    flight->waits = flight->whole = flight->dependents = 0;
    flight->sequence = op->head;
    op->active |= 1ULL << flight->index;
    return WEFT_OK;
}

static int receive(struct weft_exec_op *op, struct weft_flight *current)
{
    struct weft_flight *flight = current;
    const struct weft_ref *into = &current->step.destination;
    if (into->buffer == WEFT_BUFFER_SLOT) {
        flight = &op->flights[into->slot];
        flight->step = current->step;
        flight->start = current->start;
        flight->length = current->length;
        flight->target = op->window->slots[into->slot];
        flight->index = (uint8_t)into->slot;
    }
    int status = message_open(op, flight);
    if (status == WEFT_OK)
        status = weft_eager_admit(op, flight->peer);
    if (status == WEFT_OK && flight->peer->early)
        status = weft_early_claim(op, flight);
    return status;
}

static int send(struct weft_exec_op *op, struct weft_flight *flight)
{
    int status = weft_credit_check(op, flight);
    if (status != WEFT_OK)
        return status;
    if (!weft_eager_may(flight))
        return WEFT_AGAIN;
    status =
        weft_flight_send(op, flight, WEFT_WIRE_EAGER, 0, 0, flight->sources[0], (uint32_t)flight->length);
    if (status == WEFT_AGAIN)
        weft_flight_block(op, flight);
    if (status != WEFT_OK)
        return status;
    op->exec->stats.bytes_eager += flight->length;
    flight->peer->eager_sent++;
    op->active &= ~(1ULL << flight->index);
    return WEFT_OK;
}

/* REDUCE and COPY. */
static int compute(struct weft_exec_op *op, const struct weft_flight *flight)
{
    const void *sources[WEFT_STEP_SOURCES_MAX];
    for (int i = 0; i < flight->step.source_count; i++) {
        const struct weft_ref *from = &flight->step.sources[i];
        sources[i] = from->buffer == WEFT_BUFFER_SLOT ? op->window->slots[from->slot] : flight->sources[i];
        if (from->buffer == WEFT_BUFFER_SLOT && op->active >> from->slot & 1)
            return WEFT_AGAIN;
    }
    weft_compute(op, flight, flight->length, sources);
    return WEFT_OK;
}

/* With one chunk every range is the whole, and an origin is its address. */
static void place(const struct weft_exec_op *op, struct weft_flight *flight)
{
    const struct weft_layout *layout = &op->layout;
    flight->start = 0;
    flight->length = layout->element_bytes * op->request.count;
    flight->target = (uint8_t *)layout->origins[flight->step.destination.buffer];
    for (int i = 0; i < flight->step.source_count; i++)
        flight->sources[i] = (const uint8_t *)layout->origins[flight->step.sources[i].buffer];
}

/* The step that is next begins. Returns 0 when there is none. */
static int begin(struct weft_exec_op *op, struct weft_flight *flight, int *status)
{
    const struct weft_plan *plan = op->request.plan;
    *status = WEFT_OK;
    if (op->cursor.index == plan->step_count)
        return 0;
    flight->step = plan->steps[op->cursor.index++]; /* these plans have no loops */
    place(op, flight);
    op->tail = op->head + WEFT_SMALL_FLIGHTS;
    op->at_step = 1;
    flight->index = CURRENT;
    flight->done = 0;
    if (flight->step.kind == WEFT_STEP_SEND)
        *status = message_open(op, flight);
    else if (flight->step.kind == WEFT_STEP_RECV)
        *status = receive(op, flight);
    return 1;
}

static int advance(struct weft_exec_op *op, struct weft_flight *flight)
{
    switch (flight->step.kind) {
    case WEFT_STEP_SEND:
        return send(op, flight);
    case WEFT_STEP_RECV: /* into a SLOT: it is not this flight that waits */
        return op->active >> CURRENT & 1 ? WEFT_AGAIN : WEFT_OK;
    default:
        return compute(op, flight);
    }
}

int weft_small_run(struct weft_exec_op *op)
{
    struct weft_flight *flight = &op->flights[CURRENT];
    int status = WEFT_OK;
    op->runnable = op->blocked = 0;
    for (;;) {
        if (!op->at_step && !begin(op, flight, &status)) {
            op->exhausted = 1;
            op->tail = op->head;
            return WEFT_OK;
        }
        if (status == WEFT_OK)
            status = advance(op, flight);
        if (status != WEFT_OK)
            return status == WEFT_AGAIN ? WEFT_OK : status;
        op->at_step = 0;
        op->head++;
    }
}

int weft_small_take(struct weft_exec_op *op, struct weft_flight *flight, const void *payload)
{
    memcpy(flight->target, payload, flight->length);
    flight->done = flight->visible = flight->length;
    op->active &= ~(1ULL << flight->index);
    return weft_eager_consume(op, flight->peer);
}
