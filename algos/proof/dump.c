/* SPDX-License-Identifier: Apache-2.0 */
#include "algos/proof/dump.h"

#include <inttypes.h>
#include "algos/step_print.h"

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
    const char *name = weft_buffer_name(ref->buffer);
    if (name)
        fprintf(file, "{\"buffer\": \"%s\"", name);
    else
        fprintf(file, "{\"buffer\": %u", ref->buffer);
    if (ref->buffer == WEFT_BUFFER_SLOT || ref->buffer == WEFT_BUFFER_CELL)
        fprintf(file, ", \"slot\": %u, \"slot_stride\": %d", ref->slot, ref->slot_stride);
    fprintf(file, "}");
}

static void json_step(const struct weft_step *step, FILE *file)
{
    const char *name = weft_step_kind_name(step->kind);
    if (!name) {
        fprintf(file, "{\"kind\": %u}", step->kind);
        return;
    }
    fprintf(file, "{\"kind\": \"%s\"", name);
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
