/* SPDX-License-Identifier: Apache-2.0 */
/* Operations on device memory.
 *
 * All that an operation does to the memory of its buffers, of TEMP and of the cells goes through its command queue, one piece of work
 * behind the other. So steps that depend on each other need not wait for each other: what was queued is as good as done for
 * everything that is queued behind it, and `visible` says how far a step has been queued. Only what the network does waits:
 *
 *   SEND    the device copies slices into staging; a slice leaves when its copy has happened
 *   RECV    what comes is written to staging; the device copies it to its target, or a REDUCE reads it there; staging is free
 *           again when that has happened
 *           (no staging: puts where the transport registers the memory, message.c; devices of one machine,
 *           direct.c)
 *   REDUCE, COPY   one reduction or copy per slice of what they wait for; ended when queued
 *
 * The command queue's notes say what has happened, which every round of progress asks for. The operation is over when its plan and the
 * command queue's work are.
 *
 * A stream-ordered call gets here when the stream has come to where the call was made (comm/exec/stream.h): nothing is queued before, so
 * that an operation that ends early can wait for its work to end (weft_device_end()), which is bounded. At the end the command queue
 * opens the stream wait behind the last work.
 *
 * Small operations between devices of one machine can be one device collective instead, where all ranks vote for it before their
 * plans begin: votes.h.
 *
 * Where the host must compute (a reduction that is a function of the program's) or one of the buffers is a device's and the other
 * one is the host's, the operation runs on host memory, with shadows in place of the device's buffers. They are filled first
 * and copied back at the end.
 */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "comm/exec/device/votes.h"

#define RECALL_MS_MIN                                                                                        \
    200 /* how long the work of others may take to end, however long this rank's own has taken */

/* --- shadows */

static void move_origin(struct weft_layout *layout, int buffer, uint8_t *memory)
{
    layout->origins[buffer] += (uintptr_t)memory - (uintptr_t)layout->extents[buffer].memory;
    layout->extents[buffer].memory = memory;
}

/* In place both names stand for one memory, and one shadow. */
static int shadow(struct weft_exec_op *op, int buffer)
{
    struct weft_layout *layout = &op->layout;
    struct weft_extent *extent = &layout->extents[buffer];
    if (!extent->bytes)
        return WEFT_OK;
    uint8_t *memory = weft_stage_get(op, 0, extent->bytes);
    if (!memory)
        return weft_stage_missing("host", extent->bytes, op->exec->options.rank);
    op->shadowed[buffer] = *extent;
    op->shadows[buffer] = (struct weft_extent){memory, extent->bytes};
    if (op->in_place) {
        op->shadowed[1 - buffer] = *extent;
        move_origin(layout, 1 - buffer, memory);
    }
    move_origin(layout, buffer, memory);
    return WEFT_OK;
}

static void drop_shadows(struct weft_exec_op *op)
{
    for (int b = WEFT_BUFFER_INPUT; b <= WEFT_BUFFER_OUTPUT; b++) {
        if (op->shadows[b].memory)
            weft_stage_put(op, 0, op->shadows[b].memory, op->shadows[b].bytes);
        op->shadows[b] = op->shadowed[b] = (struct weft_extent){0};
    }
}

static int make_shadows(struct weft_exec_op *op)
{
    int wanted = op->request.on_host, status = WEFT_OK;
    op->shadows[0] = op->shadows[1] = op->shadowed[0] = op->shadowed[1] = (struct weft_extent){0};
    if (wanted & (WEFT_SHADOW_OUTPUT | (op->in_place ? WEFT_SHADOW_INPUT : 0)))
        status = shadow(op, WEFT_BUFFER_OUTPUT);
    if (status == WEFT_OK && wanted & WEFT_SHADOW_INPUT && !op->in_place)
        status = shadow(op, WEFT_BUFFER_INPUT);
    if (status != WEFT_OK)
        drop_shadows(op);
    return status;
}

/* What the plan reads of the program's: INPUT, and in place both. */
static int fill_shadows(struct weft_exec_op *op)
{
    int buffer = op->in_place ? WEFT_BUFFER_OUTPUT : WEFT_BUFFER_INPUT;
    const struct weft_extent *shadow = &op->shadows[buffer];
    if (!shadow->bytes)
        return WEFT_OK;
    op->exec->stats.bytes_staged += shadow->bytes;
    return weft_command_queue_copy(op->request.commands, shadow->memory, op->shadowed[buffer].memory,
                                   shadow->bytes);
}

static int copy_back(struct weft_exec_op *op, size_t offset, size_t bytes)
{
    if (!bytes)
        return WEFT_OK;
    op->exec->stats.bytes_staged += bytes;
    return weft_command_queue_copy(op->request.commands, op->shadowed[WEFT_BUFFER_OUTPUT].memory + offset,
                                   op->shadows[WEFT_BUFFER_OUTPUT].memory + offset, bytes);
}

/* The program may use the gaps between blocks meanwhile: they are not written. */
static int empty_shadows(struct weft_exec_op *op)
{
    const struct weft_extent *shadow = &op->shadows[WEFT_BUFFER_OUTPUT];
    const struct weft_side *side = &op->layout.output;
    uint32_t first, count;
    int status = WEFT_OK;
    weft_plan_window(op->request.plan, WEFT_BUFFER_OUTPUT, &first, &count);
    if (!shadow->bytes || !count)
        return WEFT_OK;
    size_t origin = op->layout.origins[WEFT_BUFFER_OUTPUT] - (uintptr_t)shadow->memory;
    if (op->layout.unequal) {
        for (uint32_t c = first; side->starts && c < first + count && status == WEFT_OK; c++)
            status = copy_back(op, origin + side->starts[c], side->lengths[c]);
        return side->starts ? status : copy_back(op, origin, op->layout.own);
    }
    struct weft_extent written = weft_layout_window(&op->layout, op->request.plan, WEFT_BUFFER_OUTPUT);
    return copy_back(op, (size_t)(written.memory - shadow->memory), written.bytes);
}

/* --- phases */

static int await_loads(struct weft_exec_op *op)
{
    const struct weft_command_queue_note note = {.what = WEFT_NOTE_LOADED};
    int status = weft_command_queue_note(op->request.commands, &note);
    return status == WEFT_OK ? weft_command_queue_flush(op->request.commands) : status;
}

static int move(struct weft_exec_op *op, const struct weft_exec_move *moves, size_t count)
{
    int status = WEFT_OK;
    for (size_t m = 0; m < count && status == WEFT_OK; m++) {
        if (moves[m].by_host)
            weft_copy(moves[m].to, moves[m].from, moves[m].bytes);
        else if (moves[m].bytes)
            status =
                weft_command_queue_copy(op->request.commands, moves[m].to, moves[m].from, moves[m].bytes);
    }
    return status;
}

static int scale(struct weft_exec_op *op, const struct weft_exec_moves *moves)
{
    void *const targets[] = {moves->scaled};
    const void *const sources[] = {moves->unscaled};
    const struct weft_device_reduction reduction = {.size = sizeof reduction,
                                                    .dtype = op->request.dtype,
                                                    .op = op->request.op,
                                                    .source_count = 1,
                                                    .destination_count = 1,
                                                    .sources = sources,
                                                    .destinations = targets,
                                                    .count = moves->scaled_count,
                                                    .scalar = moves->scalar};
    return weft_command_queue_reduce(op->request.commands, &reduction);
}

/* What has been loaded is there. */
static int loaded(struct weft_exec_op *op)
{
    const struct weft_exec_moves *moves = op->request.moves;
    op->phase = moves && moves->scaled_count && !op->device ? WEFT_PHASE_SCALES
                : op->vote == WEFT_VOTE_OPEN                ? WEFT_PHASE_VOTES
                                                            : WEFT_PHASE_RUNS;
    op->scaled = 0;
    return WEFT_OK;
}

/* The next piece: others get a turn in between. */
static int scale_on_host(struct weft_exec_op *op)
{
    const struct weft_exec_moves *moves = op->request.moves;
    const struct weft_extent *shadow = &op->shadows[op->in_place ? WEFT_BUFFER_OUTPUT : WEFT_BUFFER_INPUT];
    size_t offset = op->scaled * op->request.element_bytes;
    size_t count = WEFT_WORK_BYTES / op->request.element_bytes, left = moves->scaled_count - op->scaled;
    uint8_t *scaled = shadow->bytes ? shadow->memory : moves->scaled;
    const uint8_t *unscaled = shadow->bytes ? shadow->memory : moves->unscaled;
    count = count < left ? count : left;
    op->scaled += count;
    if (count == left)
        op->phase = WEFT_PHASE_RUNS;
    return weft_scale(op->request.dtype, scaled + offset, unscaled + offset, count, moves->scalar);
}

/* On the device the plan's work follows at once. */
static int load(struct weft_exec_op *op)
{
    const struct weft_exec_moves *moves = op->request.moves;
    int status = op->request.on_host ? fill_shadows(op) : WEFT_OK;
    if (status == WEFT_OK && moves)
        status = move(op, moves->loads, moves->load_count);
    if (status == WEFT_OK && moves && moves->scaled_count && op->device)
        status = scale(op, moves);
    if (status == WEFT_OK && !op->device && !weft_command_queue_is_idle(op->request.commands))
        return await_loads(op);
    return status == WEFT_OK ? loaded(op) : status;
}

int weft_device_begin(struct weft_exec_op *op)
{
    op->device = !op->request.on_host;
    op->phase = WEFT_PHASE_LOADS;
    if (op->device && op->window)
        weft_vote_open(op);
    int status = make_shadows(op);
    if (status == WEFT_OK)
        status = load(op);
    if (status != WEFT_OK)
        weft_device_end(op);
    return status;
}

int weft_device_finish(struct weft_exec_op *op)
{
    const struct weft_exec_moves *moves = op->request.moves;
    int status = op->request.on_host ? empty_shadows(op) : WEFT_OK;
    if (status == WEFT_OK && moves)
        status = move(op, moves->stores, moves->store_count);
    if (status == WEFT_OK)
        status = weft_command_queue_open_wait(op->request.commands);
    op->phase = WEFT_PHASE_ENDS;
    return status == WEFT_OK ? weft_command_queue_flush(op->request.commands) : status;
}

int weft_device_run(struct weft_exec_op *op)
{
    int status = op->phase == WEFT_PHASE_SCALES  ? scale_on_host(op)
                 : op->phase == WEFT_PHASE_VOTES ? weft_vote_run(op)
                                                 : WEFT_OK;
    if (status == WEFT_OK && op->phase == WEFT_PHASE_RUNS) {
        status = weft_window_run(op);
        if (status == WEFT_OK && op->exhausted && op->head == op->tail)
            status = weft_device_finish(op);
        else if (status == WEFT_OK)
            status = weft_command_queue_flush(op->request.commands);
    }
    if (status == WEFT_OK && op->phase == WEFT_PHASE_ENDS &&
        weft_command_queue_is_idle(op->request.commands)) {
        drop_shadows(op);
        op->phase = WEFT_PHASE_DONE;
        if (op->exec->collectives && op->window)
            weft_vote_ended(op);
    }
    return status;
}

/* Which step a note is of, if it is still in flight. */
static struct weft_inflight *inflight_of(struct weft_exec_op *op, const struct weft_command_queue_note *note)
{
    struct weft_inflight *inflight = &op->in_flight[note->what >> 8];
    return op->active >> inflight->index & 1 && inflight->sequence == note->who ? inflight : NULL;
}

int weft_device_note(struct weft_exec_op *op, const struct weft_inflight *inflight,
                     enum weft_command_queue_what what, uint64_t amount)
{
    const struct weft_command_queue_note note = {
        .what = (uint32_t)inflight->index << 8 | what, .who = inflight->sequence, .amount = amount};
    return weft_command_queue_note(op->request.commands, &note);
}

static int deal_with(struct weft_exec_op *op, const struct weft_command_queue_note *note)
{
    struct weft_inflight *inflight;
    switch (note->what & 0xff) {
    case WEFT_NOTE_LOADED:
        return loaded(op);
    case WEFT_NOTE_COPIED:
        inflight = inflight_of(op, note);
        if (inflight) {
            inflight->copied = (uint32_t)note->amount;
            weft_inflight_again(op, inflight);
        }
        return WEFT_OK;
    case WEFT_NOTE_FINAL: /* it may have been refused meanwhile, and be staged */
        inflight = inflight_of(op, note);
        if (inflight && inflight->shared) {
            inflight->copied = (uint32_t)note->amount;
            weft_inflight_again(op, inflight);
        }
        return WEFT_OK;
    default:
        inflight = inflight_of(op, note);
        return inflight ? weft_device_consumed(op, inflight, (size_t)note->amount) : WEFT_OK;
    }
}

int weft_device_look(struct weft_exec_op *op)
{
    struct weft_command_queue_note note;
    int dealt = 0, status = WEFT_OK, due;
    uint8_t phase = op->phase;
    while ((due = weft_command_queue_poll(op->request.commands, &note)) > 0) {
        dealt++;
        status = deal_with(op, &note);
        if (status != WEFT_OK)
            break;
    }
    if (status == WEFT_OK && due < 0)
        status = due;
    if (status != WEFT_OK)
        weft_op_fail(op, status);
    else if (op->phase == WEFT_PHASE_SCALES ||
             (op->phase == WEFT_PHASE_ENDS && weft_command_queue_is_idle(op->request.commands)))
        dealt++;
    return dealt + (op->phase != phase);
}

static int64_t left_ms(int64_t until_ns)
{
    int64_t now_ns = weft_clock_ns();
    return until_ns > now_ns ? (until_ns - now_ns + 999999) / 1000000 : 0;
}

static int64_t wait_ms(const struct weft_exec_op *op)
{
    return op->exec->stop_ns ? left_ms(op->exec->stop_ns) : WEFT_STOP_MS;
}

int64_t weft_device_recall_ms(struct weft_exec *exec)
{
    if (!exec->stop_ns)
        return WEFT_STOP_MS;
    if (!exec->recall_ns) {
        int64_t least_ns = weft_clock_ns() + RECALL_MS_MIN * INT64_C(1000000);
        exec->recall_ns = least_ns > exec->stop_ns ? least_ns : exec->stop_ns;
    }
    return left_ms(exec->recall_ns);
}

void weft_device_end(struct weft_exec_op *op)
{
    if (op->phase == WEFT_PHASE_DONE || op->phase == WEFT_PHASE_STOPPED)
        return;
    char why[WEFT_DETAIL_MAX]; /* the operation ends, and not how its command queue does */
    snprintf(why, sizeof why, "%s", weft_error_detail());
    if (op->exec->collectives)
        weft_vote_stop(op);
    int status = weft_command_queue_drain(op->request.commands, wait_ms(op));
    op->phase = WEFT_PHASE_STOPPED;
    if (status == WEFT_TIMEOUT)
        weft_log(WEFT_LOG_ERROR,
                 "%s device %d still works on an operation that has failed: its buffers may be written later",
                 weft_command_queue_kind(op->request.commands)->name,
                 weft_command_queue_ordinal(op->request.commands));
    if (status == WEFT_TIMEOUT && op->exec->collectives && op->window)
        weft_mailbox_leave(op);
    drop_shadows(op);
    weft_error_set_detail(why);
}

/* --- REDUCE and COPY */

/* Lowers *size to what lies contiguously in all that is read from staging, and finds it there; *is_direct: some lies in
 * peers' memory, of which a piece is queued at a time. */
static void find_sources(struct weft_exec_op *op, const struct weft_inflight *inflight, size_t *size,
                         const void **sources, int *is_direct)
{
    *is_direct = 0;
    for (int i = 0; i < inflight->step.source_count; i++) {
        if (inflight->bound[i] == WEFT_NONE) {
            sources[i] = inflight->sources[i] + inflight->visible;
            continue;
        }
        const struct weft_inflight *from = &op->in_flight[inflight->bound[i]];
        if (from->shared) {
            size_t piece = weft_direct_piece(from);
            sources[i] = from->reach + inflight->visible;
            *size = piece < *size ? piece : *size;
            *is_direct = 1;
            continue;
        }
        uint32_t slice = (uint32_t)(inflight->visible / from->slice_bytes);
        size_t into = inflight->visible % from->slice_bytes, left = from->slice_bytes - into;
        sources[i] = (const uint8_t *)from->rbufs[slice % WEFT_RBUFS].buffer + into;
        *size = left < *size ? left : *size;
    }
}

static int queue_piece(struct weft_exec_op *op, const struct weft_inflight *inflight, size_t size,
                       const void *const *sources)
{
    const struct weft_exec_request *request = &op->request;
    uint8_t *target = inflight->target + inflight->visible;
    uint32_t finish = inflight->step.flags & WEFT_STEP_FINISH ? request->finish : 0;
    if (!request->reduce || (inflight->step.kind != WEFT_STEP_REDUCE && !finish))
        return target == sources[0] ? WEFT_OK
                                    : weft_command_queue_copy(request->commands, target, sources[0], size);
    void *const targets[] = {target};
    const struct weft_device_reduction reduction = {
        .size = sizeof reduction,
        .dtype = request->dtype,
        .op = request->op,
        .source_count = inflight->step.source_count,
        .destination_count = 1,
        .sources = sources,
        .destinations = targets,
        .count = size / request->element_bytes,
        .finish = finish,
    };
    return weft_command_queue_reduce(request->commands, &reduction);
}

/* Staging is free when the piece has been computed. */
static int note_sources(struct weft_exec_op *op, const struct weft_inflight *inflight, size_t size)
{
    int status = WEFT_OK;
    for (int i = 0; i < inflight->step.source_count && status == WEFT_OK; i++) {
        if (inflight->bound[i] == WEFT_NONE)
            continue;
        const struct weft_inflight *from = &op->in_flight[inflight->bound[i]];
        op->exec->stats.bytes_direct += from->shared ? size : 0;
        status = weft_device_note(op, from, WEFT_NOTE_CONSUMED, inflight->visible);
    }
    return status;
}

/* How far everything is that the step waits for. */
static size_t compute_limit(const struct weft_exec_op *op, const struct weft_inflight *inflight)
{
    size_t limit = weft_inflight_limit(op, inflight);
    for (int i = 0; i < inflight->step.source_count; i++) {
        if (inflight->bound[i] == WEFT_NONE)
            continue;
        const struct weft_inflight *from = &op->in_flight[inflight->bound[i]];
        size_t theirs = from->shared ? weft_direct_limit(from) : from->visible;
        limit = theirs < limit ? theirs : limit;
    }
    return limit;
}

/* The first piece has been refused: perhaps for the peers' memory that it reads. 0: it reads none. */
static int decline_sources(struct weft_exec_op *op, const struct weft_inflight *inflight)
{
    int declined = 0;
    for (int i = 0; i < inflight->step.source_count && !inflight->visible; i++) {
        if (inflight->bound[i] != WEFT_NONE)
            declined |= weft_direct_decline(op, &op->in_flight[inflight->bound[i]]);
    }
    return declined;
}

int weft_device_compute(struct weft_exec_op *op, struct weft_inflight *inflight)
{
    size_t limit = compute_limit(op, inflight);
    int is_direct = 0;
    if (limit <= inflight->visible)
        return WEFT_OK;
    while (inflight->visible < limit && !is_direct) {
        const void *sources[WEFT_STEP_SOURCES_MAX];
        size_t size = limit - inflight->visible;
        find_sources(op, inflight, &size, sources, &is_direct);
        int status = queue_piece(op, inflight, size, sources);
        if (status == WEFT_UNSUPPORTED && is_direct && decline_sources(op, inflight))
            return WEFT_OK;
        if (status != WEFT_OK)
            return status;
        inflight->done = inflight->visible += size;
        status = note_sources(op, inflight, size);
        if (status != WEFT_OK)
            return status;
    }
    if (inflight->done == inflight->length)
        weft_inflight_finish(op, inflight);
    else
        weft_inflight_wake(op, inflight);
    if (inflight->visible < limit) /* when others have had their turn, behind the command queue's next mark */
        weft_inflight_block(op, inflight);
    return WEFT_OK;
}
