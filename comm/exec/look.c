/* SPDX-License-Identifier: Apache-2.0 */
/* How operations stand: for reports of stalls, deadlines and dumps. Nothing here moves anything. */
#include <stdio.h>

#include "algos/step_print.h"
#include "comm/exec/internal.h"

#define LINES_MAX 8   /* of one operation: a window may hold 64 steps */
#define WAITS_MAX 128 /* bytes of what names a device */

int weft_exec_running(const struct weft_exec *exec, struct weft_exec_op **ops)
{
    int count = 0;
    for (uint32_t back = WEFT_OPS_MAX; back > 0; back--) {
        uint32_t slot = (exec->next_sequence - back) % WEFT_OPS_MAX;
        if (exec->running >> slot & 1)
            ops[count++] = exec->ops[slot];
    }
    return count;
}

const struct weft_call *weft_exec_op_call(const struct weft_exec_op *op)
{
    return &op->request.call;
}

struct weft_exec_look *weft_exec_op_look(struct weft_exec_op *op)
{
    return &op->look;
}

static size_t op_bytes(const struct weft_exec_op *op)
{
    const struct weft_layout *layout = &op->layout;
    return sizeof *op + sizeof *op->window + op->exec->options.ranks * sizeof *op->by_rank +
           op->peer_capacity * sizeof *op->peers + op->peer_count * sizeof **op->peers +
           layout->table_entries * sizeof *layout->table + layout->own_bytes + layout->nothing_bytes;
}

size_t weft_exec_bytes(const struct weft_exec *exec)
{
    const struct weft_transfer_table *transfers = &exec->transfers;
    size_t bytes = sizeof *exec + exec->options.ranks * (sizeof *exec->peers + sizeof *exec->senders +
                                                         sizeof *exec->credits + sizeof *exec->early_counts);
    for (int i = 0; i < WEFT_OPS_MAX; i++)
        bytes += exec->ops[i] ? op_bytes(exec->ops[i]) : 0;
    bytes += exec->spare_ops ? op_bytes(exec->spare_ops) : 0;
    for (int i = 0; i < WEFT_STEP_SOURCES_MAX; i++)
        bytes += exec->scratch[i] ? exec->scratch_bytes[i] : 0;
    bytes += exec->staging ? sizeof *exec->staging : 0;
    if (exec->collectives)
        bytes += exec->options.devices->bytes(exec);
    return bytes + transfers->capacity * sizeof *transfers->slots +
           (transfers->spare_count + transfers->running) * sizeof *transfers->spare;
}

/* The steps in flight that wait for a peer or a device, and not only for an earlier step, in program order from *at on.
 * NULL at the end. */
static const struct weft_inflight *next_waiting(const struct weft_exec_op *op, uint32_t *at)
{
    while (*at != op->tail) {
        uint32_t distance = (*at)++ - op->head;
        const struct weft_inflight *inflight =
            &op->in_flight[(op->head_index + distance) % op->exec->options.window];
        if (op->active >> inflight->index & 1 && inflight->step.kind <= WEFT_STEP_RECV &&
            inflight->done < weft_inflight_limit(op, inflight))
            return inflight;
    }
    return NULL;
}

/* Whether a step has got from its peer, and given to it, what there is, and only the device is late. */
static int is_with_device(const struct weft_exec_op *op, const struct weft_inflight *inflight)
{
    if (!op->device || weft_command_queue_is_idle(op->request.commands))
        return 0;
    if (inflight->step.kind == WEFT_STEP_SEND) {
        uint32_t left = inflight->mode == WEFT_MODE_PUT ? inflight->next_rbuf : inflight->reported;
        return inflight->copied < inflight->staged && left == inflight->copied;
    }
    uint32_t there = inflight->shared ? inflight->ready : inflight->staged;
    return inflight->done < inflight->visible && there == inflight->slices;
}

int weft_exec_awaits(const struct weft_exec *exec, uint32_t rank)
{
    struct weft_exec_op *ops[WEFT_OPS_MAX];
    int count = weft_exec_running(exec, ops);
    for (int i = 0; i < count; i++) {
        uint32_t at = ops[i]->head;
        for (const struct weft_inflight *inflight; (inflight = next_waiting(ops[i], &at));) {
            if ((uint32_t)inflight->step.peer == rank && !is_with_device(ops[i], inflight))
                return 1;
        }
    }
    return 0;
}

static void print_device(const struct weft_exec_op *op, const char *before, const char *behind, char *text,
                         size_t capacity)
{
    snprintf(text, capacity, "%s%s device %d%s", before, weft_command_queue_kind(op->request.commands)->name,
             weft_command_queue_ordinal(op->request.commands), behind);
}

/* What all of an operation waits for, outside of its steps. 0: its steps say. */
static int print_phase(const struct weft_exec_op *op, char *text, size_t capacity)
{
    switch (op->phase) {
    case WEFT_PHASE_LOADS:
        print_device(op, "waits for ", ", which copies what the host is to work on", text, capacity);
        return 1;
    case WEFT_PHASE_VOTES:
        op->exec->options.devices->describe(op, text, capacity);
        return 1;
    case WEFT_PHASE_ENDS:
        print_device(op, "waits for ",
                     op->vote == WEFT_VOTE_COLLECTIVE ? ", whose kernel works with those of all other ranks"
                                                      : ", which has the last of the work",
                     text, capacity);
        return 1;
    default:
        return 0;
    }
}

void weft_exec_describe(const struct weft_exec_op *op, char *text, size_t capacity)
{
    static const char *const kinds[] = {"send to", "receive from"};
    char whole[WAITS_MAX];
    if (print_phase(op, whole, sizeof whole)) {
        snprintf(text, capacity, "step %u of operation %u: %s", op->head, op->sequence, whole);
        return;
    }
    uint32_t at = op->head;
    const struct weft_inflight *inflight = next_waiting(op, &at);
    size_t used = (size_t)snprintf(
        text, capacity, "step %u of operation %u:", inflight ? inflight->sequence : op->head, op->sequence);
    for (int named = 0; named < 4 && used < capacity && inflight; named++, inflight = next_waiting(op, &at)) {
        char device[WAITS_MAX] = "";
        if (is_with_device(op, inflight))
            print_device(op, ", waits for ", "", device, sizeof device);
        used += (size_t)snprintf(text + used, capacity - used, "%s %s rank %d (%zu of %zu bytes done%s)",
                                 named ? "," : "", kinds[inflight->step.kind], inflight->step.peer,
                                 inflight->done, inflight->length, device);
    }
}

size_t weft_exec_dump(const struct weft_exec_op *op, char *text, size_t capacity)
{
    char whole[WAITS_MAX];
    if (print_phase(op, whole, sizeof whole))
        return (size_t)snprintf(text, capacity, "  %s\n", whole);
    size_t used = 0;
    uint32_t at = op->head, lines = 0;
    for (const struct weft_inflight *inflight; (inflight = next_waiting(op, &at)); lines++) {
        char step[160], whom[WAITS_MAX];
        if (lines >= LINES_MAX)
            continue;
        weft_step_print(&inflight->step, step, sizeof step);
        if (is_with_device(op, inflight))
            print_device(op, "", "", whom, sizeof whom);
        else
            snprintf(whom, sizeof whom, "rank %d", inflight->step.peer);
        used += (size_t)snprintf(used < capacity ? text + used : NULL, used < capacity ? capacity - used : 0,
                                 "  step %u, %s: %zu of %zu bytes, waits for %s\n", inflight->sequence, step,
                                 inflight->done, inflight->length, whom);
    }
    if (lines > LINES_MAX)
        used += (size_t)snprintf(used < capacity ? text + used : NULL, used < capacity ? capacity - used : 0,
                                 "  and %u more steps of the window\n", lines - LINES_MAX);
    return used;
}
