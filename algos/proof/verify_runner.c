/* SPDX-License-Identifier: Apache-2.0 */
/* What one rank's program has to keep to, step by step with loops expanded: bounds, windows, slots and cells. */
#include "algos/proof/verify_machine.h"

/* The chunks that a reference may name; *first and *end. */
static void bounds_of(const struct weft_plan *plan, unsigned buffer, uint64_t *first, uint64_t *end)
{
    uint32_t start = 0, count = plan->chunks;
    if (buffer == WEFT_BUFFER_INPUT || buffer == WEFT_BUFFER_OUTPUT)
        weft_plan_window(plan, (enum weft_buffer)buffer, &start, &count);
    *first = buffer == WEFT_BUFFER_TEMP ? plan->temp_first : start;
    *end = buffer == WEFT_BUFFER_TEMP ? plan->temp_chunks : (uint64_t)start + count;
}

static const char *check_bounds(const struct weft_plan *plan, const struct weft_ref *ref, uint32_t chunk,
                                uint32_t span)
{
    static const char *const outside[] = {
        "names chunks that this rank's INPUT does not have",
        "names chunks that this rank's OUTPUT does not have",
        "names chunks that the plan's TEMP does not have",
    };
    uint64_t first, end;
    bounds_of(plan, ref->buffer, &first, &end);
    if (chunk >= first && (uint64_t)chunk + span <= end)
        return NULL;
    return ref->buffer <= WEFT_BUFFER_TEMP ? outside[ref->buffer] : "reaches past the last chunk";
}

static const char *read_slot(struct weft_runner *runner, const struct weft_step *step,
                             const struct weft_ref *ref)
{
    struct weft_machine_slot *slot = &runner->slots[ref->slot];
    if (!slot->full)
        return "reads a slot that is empty";
    if (slot->chunk != step->chunk || slot->span != step->span)
        return "reads other chunks than its slot holds";
    slot->full = 0;
    return NULL;
}

static const char *read_source(struct weft_runner *runner, const struct weft_step *step,
                               const struct weft_ref *ref)
{
    uint32_t chunk = step->kind == WEFT_STEP_COPY ? step->from : step->chunk;
    if (ref->buffer == WEFT_BUFFER_SLOT)
        return read_slot(runner, step, ref);
    if (ref->buffer == WEFT_BUFFER_CELL && runner->cells[ref->slot] != (uint64_t)chunk + 1)
        return runner->cells[ref->slot] ? "reads another chunk than its cell holds"
                                        : "reads a cell that is empty";
    return check_bounds(runner->plan, ref, chunk, step->span);
}

static const char *write_destination(struct weft_runner *runner, const struct weft_step *step)
{
    const struct weft_ref *ref = &step->destination;
    if (ref->buffer == WEFT_BUFFER_CELL)
        runner->cells[ref->slot] = (uint64_t)step->chunk + 1;
    if (ref->buffer != WEFT_BUFFER_SLOT)
        return check_bounds(runner->plan, ref, step->chunk, step->span);
    struct weft_machine_slot *slot = &runner->slots[ref->slot];
    if (slot->full)
        return "writes a slot that has not been read";
    slot->chunk = step->chunk;
    slot->span = step->span;
    slot->full = 1;
    return NULL;
}

const char *weft_runner_check(struct weft_runner *runner, const struct weft_step *step)
{
    const struct weft_plan *plan = runner->plan;
    int transfers = step->kind == WEFT_STEP_SEND || step->kind == WEFT_STEP_RECV;
    if (step->span > plan->chunks - step->chunk ||
        (step->kind == WEFT_STEP_COPY && step->span > plan->chunks - step->from))
        return "reaches past the last chunk";
    if (transfers && (uint32_t)step->peer == runner->rank)
        return "has its own rank as peer";
    for (int i = 0; i < step->source_count; i++) {
        const char *wrong = read_source(runner, step, &step->sources[i]);
        if (wrong)
            return wrong;
    }
    return step->kind == WEFT_STEP_SEND ? NULL : write_destination(runner, step);
}
