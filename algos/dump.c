/* SPDX-License-Identifier: Apache-2.0 */
#include "algos/dump.h"

#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

static const char *const kind_names[] = {"SEND", "RECV", "REDUCE", "COPY", "LOOP"};
static const char *const buffer_names[] = {"INPUT", "OUTPUT", "TEMP", "SLOT", "CELL"};

#define COUNT(array) (sizeof(array) / sizeof *(array))

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

static const char *collective_name(const struct weft_plan *plan)
{
    const char *name = weft_collective_name((enum weft_collective)plan->collective);
    return name ? name : "?";
}

static void dump_header(const struct weft_plan *plan, FILE *file)
{
    const char *name = weft_algorithm_name((enum weft_algorithm)plan->algorithm);
    fprintf(file, "%s %s, rank %u of %u", collective_name(plan), name ? name : "?", plan->rank, plan->ranks);
    if (plan->root >= 0)
        fprintf(file, ", root %d", plan->root);
    fprintf(file, "%s%s: %u chunks, %u slots", plan->in_place ? ", in place" : "",
            plan->unequal ? ", unequal" : "", plan->chunks, plan->slots);
    if (plan->cells > 0)
        fprintf(file, ", %u cells", plan->cells);
    if (plan->temp_chunks > plan->temp_first)
        fprintf(file, ", TEMP %u-%u", plan->temp_first, plan->temp_chunks - 1);
    fprintf(file, ", %u records\n", plan->step_count);
}

void weft_plan_dump(const struct weft_plan *plan, FILE *file)
{
    dump_header(plan, file);
    uint64_t loop_end = 0;
    for (uint32_t i = 0; i < plan->step_count; i++) {
        char text[160];
        const struct weft_step *step = &plan->steps[i];
        weft_step_print(step, text, sizeof text);
        fprintf(file, "%4u  %s%s\n", i, i < loop_end ? "    " : "", text);
        if (step->kind == WEFT_STEP_LOOP)
            loop_end = (uint64_t)i + 1 + step->body;
    }
}

void weft_plan_dump_steps(const struct weft_plan *plan, FILE *file, uint64_t max)
{
    struct weft_cursor cursor;
    struct weft_step step;
    dump_header(plan, file);
    weft_cursor_start(&cursor, plan);
    for (uint64_t i = 0; (max == 0 || i < max) && weft_cursor_next(&cursor, &step); i++) {
        char text[160];
        weft_step_print(&step, text, sizeof text);
        fprintf(file, "%6" PRIu64 "  %s\n", i, text);
    }
}

static void json_ref(const struct weft_ref *ref, FILE *file)
{
    if (ref->buffer < COUNT(buffer_names))
        fprintf(file, "{\"buffer\": \"%s\"", buffer_names[ref->buffer]);
    else
        fprintf(file, "{\"buffer\": %u", ref->buffer);
    if (ref->buffer == WEFT_BUFFER_SLOT || ref->buffer == WEFT_BUFFER_CELL)
        fprintf(file, ", \"slot\": %u, \"slot_stride\": %d", ref->slot, ref->slot_stride);
    fprintf(file, "}");
}

static void json_step(const struct weft_step *step, FILE *file)
{
    if (step->kind >= COUNT(kind_names)) {
        fprintf(file, "{\"kind\": %u}", step->kind);
        return;
    }
    fprintf(file, "{\"kind\": \"%s\"", kind_names[step->kind]);
    if (step->kind == WEFT_STEP_LOOP) {
        fprintf(file, ", \"iterations\": %u, \"body\": %u}", step->iterations, step->body);
        return;
    }
    if (step->kind == WEFT_STEP_SEND || step->kind == WEFT_STEP_RECV)
        fprintf(file, ", \"peer\": %d, \"peer_stride\": %d", step->peer, step->peer_stride);
    fprintf(file, ", \"chunk\": %u, \"chunk_stride\": %d, \"span\": %u", step->chunk, step->chunk_stride,
            step->span);
    if (step->kind == WEFT_STEP_COPY)
        fprintf(file, ", \"from\": %u, \"from_stride\": %d", step->from, step->from_stride);
    if (step->kind != WEFT_STEP_SEND) {
        fprintf(file, ", \"destination\": ");
        json_ref(&step->destination, file);
    }
    fprintf(file, ", \"sources\": [");
    for (int i = 0; i < step->source_count && i < WEFT_STEP_SOURCES_MAX; i++) {
        fprintf(file, i ? ", " : "");
        json_ref(&step->sources[i], file);
    }
    fprintf(file, "], \"finish\": %s}", step->flags & WEFT_STEP_FINISH ? "true" : "false");
}

void weft_plan_dump_json(const struct weft_plan *plan, FILE *file)
{
    const char *name = weft_algorithm_name((enum weft_algorithm)plan->algorithm);
    fprintf(file,
            "{\"collective\": \"%s\", \"algorithm\": \"%s\", \"ranks\": %u, \"rank\": %u, \"root\": %d, "
            "\"in_place\": %s, \"unequal\": %s, \"chunks\": %u, \"slots\": %u, \"cells\": %u, "
            "\"temp_first\": %u, \"temp_chunks\": %u,\n \"steps\": [",
            collective_name(plan), name ? name : "?", plan->ranks, plan->rank, plan->root,
            plan->in_place ? "true" : "false", plan->unequal ? "true" : "false", plan->chunks, plan->slots,
            plan->cells, plan->temp_first, plan->temp_chunks);
    for (uint32_t i = 0; i < plan->step_count; i++) {
        fprintf(file, i ? ",\n  " : "\n  ");
        json_step(&plan->steps[i], file);
    }
    fprintf(file, "\n ]}\n");
}
