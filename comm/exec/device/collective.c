/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/exec/device/collective.h"
#include "comm/exec/layout.h"

#include <stdlib.h>
#include <string.h>

/* Where a message lies in the mailbox, and what must be awaited before it may be read. */
struct message {
    const uint8_t *at; /* NULL: none; the cell is memory of its own */
    uint32_t from, ordinal;
};

/* A RECV into memory that has not been copied there yet. */
struct pending {
    struct message message;
    uint8_t *target;
    size_t length;
};

struct progress { /* with one rank */
    size_t out_at, in_at;
    uint32_t sent, received, awaited;
};

struct writer {
    const struct weft_layout *layout;
    const struct weft_plan *plan;
    const struct weft_device_collective_unit *unit;
    const struct weft_device_collective_channel *channels;
    struct weft_device_step *steps;
    uint32_t count;
    uint32_t computed; /* the last REDUCE, one more than its index; 0: others than SIGNALs came behind it */
    struct progress *progress; /* [ranks] */
    struct pending *pending;
    uint32_t pending_count;
    struct message *slots; /* [slots] */
    struct message cells[WEFT_CELLS_MAX];
};

static size_t room_of(size_t length)
{
    return (length + 63) / 64 * 64;
}

/* The next step that moves something, with its range placed. */
static int next_step(struct weft_cursor *cursor, const struct weft_layout *layout,
                     struct weft_inflight *inflight)
{
    while (weft_cursor_next(cursor, &inflight->step)) {
        weft_layout_place(layout, inflight);
        if (inflight->length)
            return 1;
    }
    return 0;
}

void weft_device_collective_measure(const struct weft_layout *layout, const struct weft_plan *plan,
                                    struct weft_device_collective_channel *channels, uint32_t *steps_max)
{
    struct weft_cursor cursor;
    struct weft_inflight inflight;
    uint32_t steps = 0;
    for (uint32_t r = 0; r < plan->ranks; r++)
        channels[r] = (struct weft_device_collective_channel){0};
    weft_cursor_start(&cursor, plan);
    while (next_step(&cursor, layout, &inflight)) {
        struct weft_device_collective_channel *channel = &channels[inflight.step.peer];
        steps += inflight.step.kind <= WEFT_STEP_RECV ? 2 : 1;
        if (inflight.step.kind == WEFT_STEP_SEND) {
            channel->out_bytes += room_of(inflight.length);
            channel->sends++;
        } else if (inflight.step.kind == WEFT_STEP_RECV) {
            channel->in_bytes += room_of(inflight.length);
            channel->receives++;
        }
    }
    *steps_max = steps;
}

/* --- steps */

static void emit_word(struct writer *writer, enum weft_device_step_kind kind, uint64_t *word, uint64_t value)
{
    writer->steps[writer->count++] =
        (struct weft_device_step){.kind = (uint32_t)kind, .word = word, .value = value};
}

static void emit_compute(struct writer *writer, void *target, const void *const *sources,
                         uint32_t source_count, size_t length, uint32_t finish)
{
    struct weft_device_step *step = &writer->steps[writer->count++];
    *step = (struct weft_device_step){.kind = WEFT_DEVICE_STEP_REDUCE,
                                      .source_count = source_count,
                                      .destination_count = 1,
                                      .finish = finish,
                                      .count = length / writer->unit->bytes};
    for (uint32_t i = 0; i < source_count; i++)
        step->sources[i] = sources[i];
    step->destinations[0] = target;
    writer->computed = writer->count;
}

static void await_message(struct writer *writer, const struct message *message)
{
    const struct weft_device_collective_channel *channel = &writer->channels[message->from];
    struct progress *progress = &writer->progress[message->from];
    if (progress->awaited > message->ordinal)
        return;
    progress->awaited = message->ordinal + 1;
    emit_word(writer, WEFT_DEVICE_STEP_AWAIT, channel->in_word, channel->received + progress->awaited);
    writer->computed = 0;
}

static void copy_pending(struct writer *writer, const struct pending *pending)
{
    const void *source = pending->message.at;
    await_message(writer, &pending->message);
    emit_compute(writer, pending->target, &source, 1, pending->length, 0);
}

/* A step is about to touch [memory, memory + length). */
static void touch(struct writer *writer, const uint8_t *memory, size_t length)
{
    uintptr_t begin = (uintptr_t)memory;
    uint32_t left = 0;
    for (uint32_t i = 0; i < writer->pending_count; i++) {
        const struct pending pending = writer->pending[i];
        uintptr_t target = (uintptr_t)pending.target;
        if (target < begin + length && begin < target + pending.length)
            copy_pending(writer, &pending);
        else
            writer->pending[left++] = pending;
    }
    writer->pending_count = left;
}

/* Where a step finds its source. */
static const void *find_source(struct writer *writer, const struct weft_inflight *inflight, int i)
{
    const struct weft_ref *ref = &inflight->step.sources[i];
    const struct message *message = ref->buffer == WEFT_BUFFER_SLOT   ? &writer->slots[ref->slot]
                                    : ref->buffer == WEFT_BUFFER_CELL ? &writer->cells[ref->slot]
                                                                      : NULL;
    if (message && message->at) {
        await_message(writer, message);
        return message->at;
    }
    touch(writer, inflight->sources[i], inflight->length);
    return inflight->sources[i];
}

/* Whether what is sent is what the step before has at hand. */
static int is_at_hand(const struct writer *writer, const void *source, size_t length)
{
    if (!writer->computed)
        return 0;
    const struct weft_device_step *last = &writer->steps[writer->computed - 1];
    if (last->destination_count == WEFT_DEVICE_DESTINATIONS_MAX ||
        last->count != length / writer->unit->bytes)
        return 0;
    return last->destinations[0] == source ||
           (last->source_count == 1 && !last->finish && last->sources[0] == source);
}

static void write_send(struct writer *writer, const struct weft_inflight *inflight)
{
    const struct weft_device_collective_channel *channel = &writer->channels[inflight->step.peer];
    struct progress *progress = &writer->progress[inflight->step.peer];
    const void *source = find_source(writer, inflight, 0);
    uint8_t *target = channel->outbox + progress->out_at;
    if (is_at_hand(writer, source, inflight->length)) {
        struct weft_device_step *last = &writer->steps[writer->computed - 1];
        last->destinations[last->destination_count++] = target;
    } else {
        emit_compute(writer, target, &source, 1, inflight->length, 0);
    }
    progress->out_at += room_of(inflight->length);
    progress->sent++;
    emit_word(writer, WEFT_DEVICE_STEP_SIGNAL, channel->out_word, channel->sent + progress->sent);
}

static void write_recv(struct writer *writer, const struct weft_inflight *inflight)
{
    const struct weft_ref *ref = &inflight->step.destination;
    struct progress *progress = &writer->progress[inflight->step.peer];
    const struct message message = {.at = writer->channels[inflight->step.peer].inbox + progress->in_at,
                                    .from = (uint32_t)inflight->step.peer,
                                    .ordinal = progress->received++};
    progress->in_at += room_of(inflight->length);
    if (ref->buffer == WEFT_BUFFER_SLOT) {
        writer->slots[ref->slot] = message;
    } else if (ref->buffer == WEFT_BUFFER_CELL) {
        writer->cells[ref->slot] = message;
    } else {
        touch(writer, inflight->target, inflight->length);
        writer->pending[writer->pending_count++] =
            (struct pending){.message = message, .target = inflight->target, .length = inflight->length};
    }
}

static void write_compute(struct writer *writer, const struct weft_inflight *inflight)
{
    const void *sources[WEFT_STEP_SOURCES_MAX];
    uint32_t finish = inflight->step.flags & WEFT_STEP_FINISH ? writer->unit->finish : 0;
    for (int i = 0; i < inflight->step.source_count; i++)
        sources[i] = find_source(writer, inflight, i);
    if (inflight->step.destination.buffer == WEFT_BUFFER_CELL)
        writer->cells[inflight->step.destination.slot].at = NULL;
    else
        touch(writer, inflight->target, inflight->length);
    if (inflight->step.kind == WEFT_STEP_COPY && !finish && sources[0] == inflight->target)
        return;
    emit_compute(writer, inflight->target, sources, inflight->step.source_count, inflight->length, finish);
}

static void write_steps(struct writer *writer)
{
    struct weft_cursor cursor;
    struct weft_inflight inflight;
    weft_cursor_start(&cursor, writer->plan);
    while (next_step(&cursor, writer->layout, &inflight)) {
        if (inflight.step.kind == WEFT_STEP_SEND)
            write_send(writer, &inflight);
        else if (inflight.step.kind == WEFT_STEP_RECV)
            write_recv(writer, &inflight);
        else
            write_compute(writer, &inflight);
    }
    for (uint32_t i = 0; i < writer->pending_count; i++)
        copy_pending(writer, &writer->pending[i]);
    for (uint32_t r = 0; r < writer->plan->ranks;
         r++) { /* also what nobody reads: then the mailbox is quiet */
        const uint32_t received = writer->progress[r].received;
        if (received)
            await_message(writer, &(struct message){.from = r, .ordinal = received - 1});
    }
}

int weft_device_collective_write(const struct weft_layout *layout, const struct weft_plan *plan,
                                 const struct weft_device_collective_unit *unit,
                                 const struct weft_device_collective_channel *channels,
                                 struct weft_device_step *steps, uint32_t *step_count)
{
    struct writer writer = {
        .layout = layout, .plan = plan, .unit = unit, .channels = channels, .steps = steps};
    size_t receives = 0;
    for (uint32_t r = 0; r < plan->ranks; r++)
        receives += channels[r].receives;
    writer.progress = calloc(plan->ranks, sizeof *writer.progress);
    writer.pending = calloc(receives + 1, sizeof *writer.pending);
    writer.slots = calloc(plan->slots + 1u, sizeof *writer.slots);
    int status = WEFT_OK;
    if (writer.progress && writer.pending && writer.slots)
        write_steps(&writer);
    else
        status = weft_fail(WEFT_NOMEM, "no memory to write a device collective's steps");
    free(writer.progress);
    free(writer.pending);
    free(writer.slots);
    if (status == WEFT_OK)
        *step_count = writer.count;
    return status;
}
