/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/plan_interpreter.h"

#include <stdlib.h>
#include <string.h>

#include "algos/hazard.h"
#include "tests/support/plan_data.h"

#define STEPS_MAX 20000 /* of one rank: mutated loops may run away */

/* One step on its way. */
struct instance {
    struct weft_step step;
    size_t first, count; /* elements, as numbered where all chunks lie close */
    size_t at;           /* how many are through */
    int offered, done;
    struct instance *other; /* RECV: the SEND it met; SEND: the RECV */
    struct element *early;  /* a SEND's own copy of its bytes */
    const struct element *memory;
    uint32_t channel; /* SENDs to, RECVs from this peer before it */
};

struct rank {
    const struct weft_plan *plan;
    struct instance *steps;
    size_t step_count, head;
    struct plan_memory *memory;
    struct instance **slots; /* the RECV that filled it */
};

struct world {
    struct rank *ranks;
    uint32_t count;
    const struct interpreter_options *options;
    struct plan_data data;
    const char *why;
};

static uint64_t draw(struct world *world)
{
    return plan_data_draw(&world->data);
}

/* --- expansion ----------------------------------------------------------------------------------------- */

static int64_t wrap(int64_t value, int64_t modulus)
{
    value %= modulus;
    return value < 0 ? value + modulus : value;
}

static int resolve_ref(struct weft_ref *ref, const struct weft_plan *plan, uint32_t iteration)
{
    uint32_t numbers = ref->buffer == WEFT_BUFFER_CELL ? plan->cells : plan->slots;
    if (ref->buffer > WEFT_BUFFER_CELL || (ref->buffer == WEFT_BUFFER_TEMP && !plan->temp_chunks))
        return 0;
    if (ref->buffer < WEFT_BUFFER_SLOT)
        return 1;
    if (numbers == 0)
        return 0;
    ref->slot = (uint16_t)wrap(ref->slot + (int64_t)iteration * ref->slot_stride, numbers);
    return 1;
}

/* What only some collectives and steps may do. */
static int is_sensible(const struct weft_step *step, const struct weft_plan *plan)
{
    int reduces = plan->collective == WEFT_ALLREDUCE || plan->collective == WEFT_REDUCE ||
                  plan->collective == WEFT_REDUCE_SCATTER;
    if (step->flags & WEFT_STEP_FINISH && !reduces)
        return 0;
    if (step->kind == WEFT_STEP_REDUCE && !reduces && plan->collective != WEFT_BARRIER)
        return 0;
    return step->kind != WEFT_STEP_COPY || step->from == step->chunk ||
           (step->sources[0].buffer < WEFT_BUFFER_SLOT && step->destination.buffer < WEFT_BUFFER_SLOT);
}

/* Applies strides; 0 when the step makes no sense. */
static int resolve_step(struct weft_step *step, const struct weft_plan *plan, uint32_t iteration)
{
    int transfers = step->kind == WEFT_STEP_SEND || step->kind == WEFT_STEP_RECV;
    int low = step->kind == WEFT_STEP_REDUCE ? 2 : step->kind == WEFT_STEP_RECV ? 0 : 1;
    int high = step->kind == WEFT_STEP_REDUCE ? WEFT_STEP_SOURCES_MAX : low;
    if (step->kind > WEFT_STEP_COPY || step->source_count < low || step->source_count > high)
        return 0;
    if (step->chunk >= plan->chunks || (transfers && (uint32_t)step->peer >= plan->ranks))
        return 0;
    step->chunk = (uint32_t)wrap(step->chunk + (int64_t)iteration * step->chunk_stride, plan->chunks);
    if (step->kind == WEFT_STEP_COPY && step->from < plan->chunks)
        step->from = (uint32_t)wrap(step->from + (int64_t)iteration * step->from_stride, plan->chunks);
    if (transfers)
        step->peer = (int32_t)wrap(step->peer + (int64_t)iteration * step->peer_stride, plan->ranks);
    if (step->span == 0 || (uint64_t)step->chunk + step->span > plan->chunks ||
        (step->kind == WEFT_STEP_COPY && (uint64_t)step->from + step->span > plan->chunks))
        return 0;
    if (transfers && (uint32_t)step->peer == plan->rank)
        return 0;
    for (int i = 0; i < step->source_count; i++) {
        if (!resolve_ref(&step->sources[i], plan, iteration))
            return 0;
        if (step->kind == WEFT_STEP_SEND && step->sources[i].buffer == WEFT_BUFFER_SLOT)
            return 0;
    }
    if (step->kind == WEFT_STEP_SEND)
        return 1;
    if (step->destination.buffer == WEFT_BUFFER_SLOT && step->kind != WEFT_STEP_RECV)
        return 0;
    return step->destination.buffer != WEFT_BUFFER_INPUT &&
           resolve_ref(&step->destination, plan, iteration) && is_sensible(step, plan);
}

/* --- places -------------------------------------------------------------------------------------------- */

static const struct layout *layout_of(const struct rank *rank, unsigned buffer)
{
    if (buffer == WEFT_BUFFER_INPUT)
        return &rank->memory->input_layout;
    return buffer == WEFT_BUFFER_OUTPUT ? &rank->memory->output_layout : &rank->memory->temp_layout;
}

static size_t size_of(const struct layout *layout, uint32_t chunk, uint32_t span)
{
    size_t size = 0;
    for (uint32_t i = 0; i < span; i++)
        size += layout->size[chunk + i];
    return size;
}

/* Whether the rank may touch the chunks of the reference, and they lie close. */
static int in_bounds(const struct world *world, const struct rank *rank, const struct weft_ref *ref,
                     uint32_t chunk, uint32_t span)
{
    const struct weft_plan *plan = rank->plan;
    int user = ref->buffer == WEFT_BUFFER_INPUT || ref->buffer == WEFT_BUFFER_OUTPUT;
    if (ref->buffer == WEFT_BUFFER_CELL)
        return span == 1;
    if (ref->buffer == WEFT_BUFFER_TEMP)
        return chunk >= plan->temp_first && chunk + span <= plan->temp_chunks;
    for (uint32_t i = 0; user && i < span; i++) {
        if (!plan_data_in_window(&world->data, plan->rank, ref->buffer, chunk + i))
            return 0;
    }
    return !user || !plan->unequal || span == 1;
}

static struct element *place_of(const struct rank *rank, const struct weft_ref *ref, uint32_t chunk)
{
    struct plan_memory *memory = rank->memory;
    if (ref->buffer == WEFT_BUFFER_CELL)
        return memory->cells + ref->slot * memory->cell_size;
    if (ref->buffer == WEFT_BUFFER_TEMP)
        return memory->temp + memory->temp_layout.at[chunk];
    return ref->buffer == WEFT_BUFFER_OUTPUT ? memory->output + memory->output_layout.at[chunk]
                                             : memory->input + memory->input_layout.at[chunk];
}

static uint32_t source_chunk(const struct weft_step *step)
{
    return step->kind == WEFT_STEP_COPY ? step->from : step->chunk;
}

static int append(const struct world *world, struct rank *rank, const struct weft_step *record,
                  uint32_t iteration)
{
    struct weft_step step = *record;
    if (!resolve_step(&step, rank->plan, iteration) || rank->step_count == STEPS_MAX)
        return 0;
    const struct weft_ref *main = step.kind == WEFT_STEP_SEND ? &step.sources[0] : &step.destination;
    int fits = step.kind == WEFT_STEP_SEND || in_bounds(world, rank, main, step.chunk, step.span);
    for (int i = 0; i < step.source_count; i++)
        fits &= in_bounds(world, rank, &step.sources[i], source_chunk(&step), step.span);
    if (!fits)
        return 0;
    size_t count = size_of(layout_of(rank, main->buffer), step.chunk, step.span);
    if (count == 0)
        return 1;
    if (step.kind == WEFT_STEP_COPY &&
        size_of(layout_of(rank, step.sources[0].buffer), step.from, step.span) != count)
        return 0;
    if ((rank->step_count & (rank->step_count - 1)) == 0) {
        size_t room = rank->step_count ? 2 * rank->step_count : 1;
        rank->steps = realloc(rank->steps, room * sizeof *rank->steps);
        if (!rank->steps)
            abort();
    }
    struct instance *added = &rank->steps[rank->step_count];
    *added =
        (struct instance){.step = step, .first = rank->memory->temp_layout.at[step.chunk], .count = count};
    for (size_t i = 0; step.kind <= WEFT_STEP_RECV && i < rank->step_count; i++) {
        const struct weft_step *before = &rank->steps[i].step;
        added->channel += before->kind == step.kind && before->peer == step.peer;
    }
    rank->step_count++;
    return 1;
}

static int expand(const struct world *world, struct rank *rank)
{
    const struct weft_plan *plan = rank->plan;
    for (uint32_t i = 0; i < plan->step_count; i++) {
        const struct weft_step *record = &plan->steps[i];
        if (record->kind != WEFT_STEP_LOOP) {
            if (!append(world, rank, record, 0))
                return 0;
            continue;
        }
        if (record->body == 0 || record->body > plan->step_count - i - 1)
            return 0;
        for (uint32_t k = 0; k < record->iterations; k++) {
            for (uint32_t b = 1; b <= record->body; b++) {
                if (!append(world, rank, record + b, k))
                    return 0;
            }
        }
        i += record->body;
    }
    return 1;
}

static int rank_open(struct world *world, struct rank *rank)
{
    const struct weft_plan *plan = rank->plan;
    rank->slots = calloc(plan->slots + 1, sizeof(struct instance *));
    if (!rank->slots)
        abort();
    return expand(world, rank);
}

static void rank_close(struct rank *rank)
{
    for (size_t i = 0; i < rank->step_count; i++)
        free(rank->steps[i].early);
    free(rank->steps);
    free(rank->slots);
}

/* --- what can happen ----------------------------------------------------------------------------------- */

static int blocked(const struct rank *rank, const struct instance *one)
{
    for (const struct instance *other = &rank->steps[rank->head]; other < one; other++) {
        if (!other->done && weft_step_conflicts(&other->step, &one->step, (int)rank->plan->in_place))
            return 1;
    }
    return 0;
}

static void complete(struct rank *rank, struct instance *one)
{
    one->done = 1;
    while (rank->head < rank->step_count && rank->steps[rank->head].done)
        rank->head++;
}

static void complete_send(struct world *world, struct instance *send)
{
    if (!send->done) /* an early one is */
        complete(&world->ranks[send->other->step.peer], send);
}

static void offer_send(struct world *world, struct rank *rank, struct instance *one)
{
    one->offered = 1;
    one->memory = place_of(rank, &one->step.sources[0], one->step.chunk);
    if (!world->options->eager || draw(world) % 2)
        return;
    one->early = malloc(one->count * sizeof *one->early);
    if (!one->early)
        abort();
    memcpy(one->early, one->memory, one->count * sizeof *one->early);
    one->memory = one->early;
    complete(rank, one);
}

/* The SEND that a RECV is meant to meet, NULL while it is not offered. */
static struct instance *partner(struct world *world, struct rank *rank, const struct instance *recv)
{
    struct rank *peer = &world->ranks[recv->step.peer];
    for (size_t i = 0; i < peer->step_count; i++) {
        struct instance *send = &peer->steps[i];
        if (send->step.kind == WEFT_STEP_SEND && (uint32_t)send->step.peer == rank->plan->rank &&
            send->channel == recv->channel)
            return send->offered ? send : NULL;
    }
    return NULL;
}

/* Each returns whether something happened. */
static int act_recv(struct world *world, struct rank *rank, struct instance *one)
{
    if (!one->other) {
        struct instance *send = partner(world, rank, one);
        if (!send)
            return 0;
        if (send->count != one->count ||
            (send->first != one->first && rank->plan->collective != WEFT_ALLTOALL))
            world->why = "SEND and RECV of different ranges";
        one->other = send;
        send->other = one;
        if (one->step.destination.buffer == WEFT_BUFFER_SLOT) {
            if (rank->slots[one->step.destination.slot])
                world->why = "RECV into a slot that is full";
            rank->slots[one->step.destination.slot] = one;
            complete(rank, one);
        }
        return 1;
    }
    place_of(rank, &one->step.destination, one->step.chunk)[one->at] = one->other->memory[one->at];
    if (++one->at == one->count) {
        complete_send(world, one->other);
        complete(rank, one);
    }
    return 1;
}

static void release_slots(struct world *world, struct rank *rank, const struct weft_step *step)
{
    for (int i = 0; i < step->source_count; i++) {
        if (step->sources[i].buffer != WEFT_BUFFER_SLOT)
            continue;
        struct instance *recv = rank->slots[step->sources[i].slot];
        rank->slots[step->sources[i].slot] = NULL;
        if (recv)
            complete_send(world, recv->other);
        else
            world->why = "slot read twice";
    }
}

/* The element that a source has for the step's next one; NULL when the slot does not hold it. */
static const struct element *source_of(const struct rank *rank, const struct instance *one, int i)
{
    const struct weft_step *step = &one->step;
    const struct weft_ref *ref = &step->sources[i];
    if (ref->buffer != WEFT_BUFFER_SLOT)
        return place_of(rank, ref, source_chunk(step)) + one->at;
    const struct instance *recv = rank->slots[ref->slot];
    if (!recv || recv->first != one->first || recv->count != one->count)
        return NULL;
    return recv->other->memory + one->at;
}

static int act_local(struct world *world, struct rank *rank, struct instance *one)
{
    const struct weft_step *step = &one->step;
    struct element sum = {0};
    for (int i = 0; i < step->source_count; i++) {
        const struct element *source = source_of(rank, one, i);
        if (!source) {
            world->why = "reads a slot that does not hold its range";
            return 1;
        }
        if (i == 0)
            sum = *source;
        else
            plan_data_combine(&sum, source);
    }
    if (step->flags & WEFT_STEP_FINISH)
        plan_data_finish(&world->data, &sum);
    place_of(rank, &step->destination, step->chunk)[one->at] = sum;
    if (++one->at == one->count) {
        release_slots(world, rank, step);
        complete(rank, one);
    }
    return 1;
}

static int act(struct world *world, struct rank *rank, struct instance *one)
{
    if (one->done || (one->step.kind == WEFT_STEP_SEND && one->offered))
        return 0;
    if (one->at == 0 && !one->other && blocked(rank, one))
        return 0;
    if (one->step.kind == WEFT_STEP_SEND) {
        offer_send(world, rank, one);
        return 1;
    }
    return one->step.kind == WEFT_STEP_RECV ? act_recv(world, rank, one) : act_local(world, rank, one);
}

/* Something that can happen, beginning the search at a random place. */
static int act_somewhere(struct world *world)
{
    uint64_t from = draw(world), turn = draw(world);
    for (uint32_t r = 0; r < world->count; r++) {
        struct rank *rank = &world->ranks[(from + r) % world->count];
        size_t left = rank->step_count - rank->head;
        size_t open = left < world->options->window ? left : world->options->window;
        for (size_t i = 0, head = rank->head; i < open; i++) {
            if (act(world, rank, &rank->steps[head + (i + turn) % open]))
                return 1;
        }
    }
    return 0;
}

/* --- the result ---------------------------------------------------------------------------------------- */

static enum interpreted judge(const struct world *world, const char **why)
{
    for (uint32_t r = 0; r < world->count; r++) {
        *why = "a rank waits for ever";
        if (world->ranks[r].head != world->ranks[r].step_count)
            return INTERPRETED_STUCK;
    }
    const char *wrong = plan_data_judge(&world->data, world->options->strict, world->options->ordered);
    *why = wrong ? wrong : "right";
    return wrong ? INTERPRETED_WRONG : INTERPRETED_RIGHT;
}

/* Whether the headers go together. */
static int headers_fit(const struct weft_plan *const *plans, uint32_t ranks)
{
    for (uint32_t r = 0; r < ranks; r++) {
        const struct weft_plan *plan = plans[r];
        if (plan->ranks != ranks || plan->rank != r || plan->chunks != plans[0]->chunks ||
            plan->chunks == 0 || plan->root != plans[0]->root || plan->collective != plans[0]->collective ||
            plan->unequal != plans[0]->unequal || plan->slots > UINT16_MAX || plan->cells > WEFT_CELLS_MAX ||
            plan->temp_chunks > plan->chunks)
            return 0;
    }
    return 1;
}

enum interpreted plan_interpret(const struct weft_plan *const *plans, uint32_t ranks,
                                const struct interpreter_options *options, const char **why)
{
    struct world world = {.count = ranks, .options = options};
    enum interpreted result = INTERPRETED_INVALID;
    *why = "headers that do not go together";
    if (!headers_fit(plans, ranks))
        return result;
    world.ranks = calloc(ranks, sizeof *world.ranks);
    if (!world.ranks)
        abort();
    plan_data_open(&world.data, plans, options->count, options->seed);
    for (uint32_t r = 0; r < ranks; r++) {
        world.ranks[r] = (struct rank){.plan = plans[r], .memory = &world.data.memories[r]};
        if (!rank_open(&world, &world.ranks[r]))
            world.why = "a step out of bounds";
    }
    while (!world.why && act_somewhere(&world))
        continue;
    if (!world.why)
        result = judge(&world, why);
    else
        *why = world.why;
    for (uint32_t r = 0; r < ranks; r++)
        rank_close(&world.ranks[r]);
    free(world.ranks);
    plan_data_close(&world.data);
    return result;
}
