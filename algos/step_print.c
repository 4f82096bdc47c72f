/* SPDX-License-Identifier: Apache-2.0 */
#include "algos/step_print.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

static const char *const kind_names[] = {"SEND", "RECV", "REDUCE", "COPY", "LOOP"};
static const char *const buffer_names[] = {"INPUT", "OUTPUT", "TEMP", "SLOT", "CELL"};

#define COUNT(array) (sizeof(array) / sizeof *(array))

const char *weft_step_kind_name(unsigned kind)
{
    return kind < COUNT(kind_names) ? kind_names[kind] : NULL;
}

const char *weft_buffer_name(unsigned buffer)
{
    return buffer < COUNT(buffer_names) ? buffer_names[buffer] : NULL;
}

/* Text that is cut where its room ends. */
struct line {
    char *text;
    size_t size;
    size_t used;
};

static void add(struct line *line, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void add(struct line *line, const char *format, ...)
{
    va_list args;
    size_t room = line->used < line->size ? line->size - line->used : 0;
    va_start(args, format);
    int length = vsnprintf(room ? line->text + line->used : NULL, room, format, args);
    va_end(args);
    line->used += length > 0 ? (size_t)length : 0;
}

static void add_stride(struct line *line, int stride)
{
    if (stride)
        add(line, "(%+d)", stride);
}

static void add_ref(struct line *line, const struct weft_ref *ref)
{
    if (ref->buffer < COUNT(buffer_names))
        add(line, "%s", buffer_names[ref->buffer]);
    else
        add(line, "buffer %u", ref->buffer);
    if (ref->buffer == WEFT_BUFFER_SLOT || ref->buffer == WEFT_BUFFER_CELL) {
        add(line, " %u", ref->slot);
        add_stride(line, ref->slot_stride);
    }
}

static void add_range(struct line *line, const struct weft_step *step)
{
    add(line, step->span == 1 ? "chunk %u" : "chunks %u", step->chunk);
    if (step->span != 1)
        add(line, "-%" PRIu64, (uint64_t)step->chunk + step->span - 1);
    add_stride(line, step->chunk_stride);
}

int weft_step_print(const struct weft_step *step, char *text, size_t size)
{
    struct line line = {text, size, 0};
    int transfers = step->kind == WEFT_STEP_SEND || step->kind == WEFT_STEP_RECV;
    if (step->kind >= COUNT(kind_names)) {
        add(&line, "kind %u", step->kind);
        return (int)line.used;
    }
    add(&line, "%s ", kind_names[step->kind]);
    if (step->kind == WEFT_STEP_LOOP) {
        add(&line, "%u times the next %u", step->iterations, step->body);
        return (int)line.used;
    }
    add_range(&line, step);
    if (transfers) {
        add(&line, " %s %d", step->kind == WEFT_STEP_SEND ? "to" : "from", step->peer);
        add_stride(&line, step->peer_stride);
    }
    add(&line, ": ");
    if (step->kind != WEFT_STEP_SEND)
        add_ref(&line, &step->destination);
    if (step->kind == WEFT_STEP_REDUCE || step->kind == WEFT_STEP_COPY)
        add(&line, " <- ");
    for (int i = 0; i < step->source_count && i < WEFT_STEP_SOURCES_MAX; i++) {
        add(&line, i ? ", " : "");
        add_ref(&line, &step->sources[i]);
    }
    if (step->kind == WEFT_STEP_COPY &&
        (step->from != step->chunk || step->from_stride != step->chunk_stride)) {
        add(&line, " chunk %u", step->from);
        add_stride(&line, step->from_stride);
    }
    if (step->flags & WEFT_STEP_FINISH)
        add(&line, ", finish");
    return (int)line.used;
}
