/* SPDX-License-Identifier: Apache-2.0 */
/* Rounds that fold into loops. The body that stands for the rounds so far holds the first of them; once there are two it
 * has a LOOP record before it and strides in it. A new round is held against what the body would give next. */
#include <string.h>

#include "algos/builder.h"

static uint32_t modulo(int64_t value, uint32_t modulus)
{
    int64_t rest = modulus ? value % modulus : value;
    return (uint32_t)(rest < 0 ? rest + modulus : rest);
}

/* The stride from a to b, the shorter way around where numbers are modulo something; 0 where it does not fit its field. */
static int32_t stride_between(uint32_t a, uint32_t b, uint32_t modulus, int32_t limit)
{
    int64_t stride = (int64_t)b - a;
    if (2 * stride > modulus)
        stride -= modulus;
    else if (-2 * stride > modulus)
        stride += modulus;
    return stride > limit || stride < -limit ? 0 : (int32_t)stride;
}

static uint32_t numbers_of(const struct weft_plan *plan, const struct weft_ref *ref)
{
    return ref->buffer == WEFT_BUFFER_SLOT ? plan->slots : ref->buffer == WEFT_BUFFER_CELL ? plan->cells : 0;
}

static void stride_ref(const struct weft_plan *plan, struct weft_ref *first, const struct weft_ref *second)
{
    first->slot_stride =
        (int16_t)stride_between(first->slot, second->slot, numbers_of(plan, first), INT16_MAX);
}

/* Gives the record of the first round the strides that lead to the second's. */
static void take_strides(const struct weft_plan *plan, struct weft_step *first,
                         const struct weft_step *second)
{
    first->chunk_stride = stride_between(first->chunk, second->chunk, plan->chunks, INT32_MAX);
    if (first->kind == WEFT_STEP_COPY)
        first->from_stride = stride_between(first->from, second->from, plan->chunks, INT32_MAX);
    stride_ref(plan, &first->destination, &second->destination);
    for (int i = 0; i < first->source_count; i++)
        stride_ref(plan, &first->sources[i], &second->sources[i]);
}

static void move_ref(const struct weft_plan *plan, struct weft_ref *ref, uint32_t iteration)
{
    ref->slot = (uint16_t)modulo(ref->slot + (int64_t)iteration * ref->slot_stride, numbers_of(plan, ref));
    ref->slot_stride = 0;
}

/* Whether the record, with its strides, is the other one in that iteration. */
static int leads_to(const struct weft_plan *plan, const struct weft_step *record, uint32_t iteration,
                    const struct weft_step *other)
{
    struct weft_step step = *record;
    step.chunk = modulo(step.chunk + (int64_t)iteration * step.chunk_stride, plan->chunks);
    step.chunk_stride = 0;
    if (step.kind == WEFT_STEP_COPY) {
        step.from = modulo(step.from + (int64_t)iteration * step.from_stride, plan->chunks);
        step.from_stride = 0;
    }
    move_ref(plan, &step.destination, iteration);
    for (int i = 0; i < step.source_count; i++)
        move_ref(plan, &step.sources[i], iteration);
    return memcmp(&step, other, sizeof step) == 0;
}

/* Whether the body, whose rounds are `count`, gives the round that begins at `round` next. With one round so far its
 * strides are free. */
static int continues(const struct weft_plan *plan, uint32_t body, uint32_t size, uint32_t count,
                     uint32_t round)
{
    for (uint32_t i = 0; i < size; i++) {
        struct weft_step record = plan->steps[body + i];
        if (count == 1)
            take_strides(plan, &record, &plan->steps[round + i]);
        if (!leads_to(plan, &record, count, &plan->steps[round + i]))
            return 0;
    }
    return 1;
}

void weft_builder_rounds(struct weft_builder *builder)
{
    if (builder->status != WEFT_OK)
        return;
    builder->round = builder->plan->step_count;
    builder->folded_body = 0;
    builder->folded_count = 0;
}

/* One round and its next, side by side, become a LOOP and its body: the same room. */
static void begin_loop(struct weft_builder *builder)
{
    struct weft_step *first = &builder->plan->steps[builder->folded];
    uint32_t body = builder->folded_body;
    for (uint32_t i = 0; i < body; i++)
        take_strides(builder->plan, &first[i], &first[body + i]);
    memmove(first + 1, first, body * sizeof *first);
    *first = (struct weft_step){.kind = WEFT_STEP_LOOP, .iterations = 2, .body = body};
    builder->folded++;
    builder->plan->step_count = builder->folded + body;
}

void weft_builder_round_end(struct weft_builder *builder)
{
    if (builder->status != WEFT_OK)
        return;
    struct weft_plan *plan = builder->plan;
    uint32_t size = plan->step_count - builder->round;
    if (size == 0)
        return;
    if (size == builder->folded_body &&
        continues(plan, builder->folded, size, builder->folded_count, builder->round)) {
        if (++builder->folded_count == 2)
            begin_loop(builder);
        else
            plan->steps[builder->folded - 1].iterations++;
        plan->step_count = builder->folded + size;
    } else {
        builder->folded = builder->round;
        builder->folded_body = size;
        builder->folded_count = 1;
    }
    builder->round = plan->step_count;
}
