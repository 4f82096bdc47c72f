/* SPDX-License-Identifier: Apache-2.0 */
#include "algos/builder.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

#define CAPACITY_FIRST 16

static size_t plan_size(uint32_t capacity)
{
    return sizeof(struct weft_plan) + (size_t)capacity * sizeof(struct weft_step);
}

void weft_builder_start(struct weft_builder *builder, const struct weft_plan_request *request,
                        uint32_t chunks, uint32_t slots)
{
    *builder = (struct weft_builder){.capacity = CAPACITY_FIRST, .loop = WEFT_BUILDER_NO_LOOP};
    builder->plan = malloc(plan_size(builder->capacity));
    if (!builder->plan) {
        builder->status = weft_fail(WEFT_NOMEM, "plan of %u records: no memory", builder->capacity);
        return;
    }
    *builder->plan = (struct weft_plan){.collective = (uint32_t)request->collective,
                                        .algorithm = (uint32_t)request->algorithm,
                                        .ranks = request->ranks,
                                        .rank = request->rank,
                                        .chunks = chunks,
                                        .slots = slots,
                                        .in_place = request->in_place != 0,
                                        .root = request->root,
                                        .unequal = request->unequal != 0};
}

void weft_builder_cells(struct weft_builder *builder, uint32_t cells)
{
    if (builder->status == WEFT_OK)
        builder->plan->cells = cells;
}

/* Widens what the plan announces of TEMP and cells by what the step writes. */
static void count_memory(struct weft_plan *plan, const struct weft_step *step)
{
    if (step->destination.buffer == WEFT_BUFFER_CELL && step->destination.slot >= plan->cells)
        plan->cells = step->destination.slot + 1u;
    if (step->destination.buffer != WEFT_BUFFER_TEMP)
        return;
    uint32_t first = step->chunk_stride ? 0 : step->chunk;
    uint32_t end = step->chunk_stride ? plan->chunks : step->chunk + step->span;
    if (plan->temp_chunks == 0 || first < plan->temp_first)
        plan->temp_first = first;
    if (end > plan->temp_chunks)
        plan->temp_chunks = end;
}

/* Appends a copy of the record. */
static void append(struct weft_builder *builder, const struct weft_step *step)
{
    if (builder->status != WEFT_OK)
        return;
    if (builder->plan->step_count == builder->capacity) {
        uint32_t capacity = builder->capacity * 2;
        struct weft_plan *grown = realloc(builder->plan, plan_size(capacity));
        if (!grown) {
            builder->status = weft_fail(WEFT_NOMEM, "plan of %u records: no memory", capacity);
            return;
        }
        builder->plan = grown;
        builder->capacity = capacity;
    }
    builder->plan->steps[builder->plan->step_count++] = *step;
    count_memory(builder->plan, step);
}

void weft_builder_send_by(struct weft_builder *builder, uint32_t peer, int32_t peer_stride,
                          struct weft_range range, struct weft_ref source)
{
    append(builder, &(struct weft_step){.kind = WEFT_STEP_SEND,
                                        .peer = (int32_t)peer,
                                        .peer_stride = peer_stride,
                                        .chunk = range.chunk,
                                        .chunk_stride = range.stride,
                                        .span = range.span,
                                        .source_count = 1,
                                        .sources = {source}});
}

void weft_builder_recv_by(struct weft_builder *builder, uint32_t peer, int32_t peer_stride,
                          struct weft_range range, struct weft_ref destination)
{
    append(builder, &(struct weft_step){.kind = WEFT_STEP_RECV,
                                        .peer = (int32_t)peer,
                                        .peer_stride = peer_stride,
                                        .chunk = range.chunk,
                                        .chunk_stride = range.stride,
                                        .span = range.span,
                                        .destination = destination});
}

void weft_builder_send(struct weft_builder *builder, uint32_t peer, struct weft_range range,
                       struct weft_ref source)
{
    weft_builder_send_by(builder, peer, 0, range, source);
}

void weft_builder_recv(struct weft_builder *builder, uint32_t peer, struct weft_range range,
                       struct weft_ref destination)
{
    weft_builder_recv_by(builder, peer, 0, range, destination);
}

void weft_builder_reduce(struct weft_builder *builder, struct weft_range range, struct weft_ref destination,
                         struct weft_ref first, struct weft_ref second, unsigned flags)
{
    append(builder, &(struct weft_step){.kind = WEFT_STEP_REDUCE,
                                        .flags = (uint8_t)flags,
                                        .chunk = range.chunk,
                                        .chunk_stride = range.stride,
                                        .span = range.span,
                                        .destination = destination,
                                        .source_count = 2,
                                        .sources = {first, second}});
}

void weft_builder_reduce3(struct weft_builder *builder, struct weft_range range, struct weft_ref destination,
                          struct weft_ref first, struct weft_ref second, struct weft_ref third,
                          unsigned flags)
{
    append(builder, &(struct weft_step){.kind = WEFT_STEP_REDUCE,
                                        .flags = (uint8_t)flags,
                                        .chunk = range.chunk,
                                        .chunk_stride = range.stride,
                                        .span = range.span,
                                        .destination = destination,
                                        .source_count = 3,
                                        .sources = {first, second, third}});
}

void weft_builder_copy(struct weft_builder *builder, struct weft_range range, struct weft_ref destination,
                       struct weft_ref source, unsigned flags)
{
    append(builder, &(struct weft_step){.kind = WEFT_STEP_COPY,
                                        .flags = (uint8_t)flags,
                                        .chunk = range.chunk,
                                        .chunk_stride = range.stride,
                                        .from = range.chunk,
                                        .from_stride = range.stride,
                                        .span = range.span,
                                        .destination = destination,
                                        .source_count = 1,
                                        .sources = {source}});
}

void weft_builder_move(struct weft_builder *builder, struct weft_range range, struct weft_ref destination,
                       struct weft_ref source, uint32_t from, int32_t from_stride)
{
    append(builder, &(struct weft_step){.kind = WEFT_STEP_COPY,
                                        .chunk = range.chunk,
                                        .chunk_stride = range.stride,
                                        .from = from,
                                        .from_stride = from_stride,
                                        .span = range.span,
                                        .destination = destination,
                                        .source_count = 1,
                                        .sources = {source}});
}

void weft_builder_loop(struct weft_builder *builder, uint32_t iterations)
{
    if (builder->status != WEFT_OK)
        return;
    if (builder->loop != WEFT_BUILDER_NO_LOOP) {
        builder->status = weft_fail(WEFT_INTERNAL, "plan generator nests loops");
        return;
    }
    uint32_t index = builder->plan->step_count;
    append(builder, &(struct weft_step){.kind = WEFT_STEP_LOOP, .iterations = iterations});
    builder->loop = index;
}

void weft_builder_loop_end(struct weft_builder *builder)
{
    if (builder->status != WEFT_OK)
        return;
    if (builder->loop == WEFT_BUILDER_NO_LOOP || builder->loop + 1 == builder->plan->step_count) {
        builder->status = weft_fail(WEFT_INTERNAL, "plan generator ends a loop without a body");
        return;
    }
    builder->plan->steps[builder->loop].body = builder->plan->step_count - builder->loop - 1;
    builder->loop = WEFT_BUILDER_NO_LOOP;
}

int weft_builder_finish(struct weft_builder *builder, struct weft_plan **plan)
{
    if (builder->status == WEFT_OK && builder->loop != WEFT_BUILDER_NO_LOOP)
        builder->status = weft_fail(WEFT_INTERNAL, "plan generator leaves a loop open");
    if (builder->status != WEFT_OK) {
        free(builder->plan);
        builder->plan = NULL;
        return builder->status;
    }
    *plan = builder->plan;
    builder->plan = NULL;
    return WEFT_OK;
}
