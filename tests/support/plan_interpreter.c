#include "tests/support/plan_interpreter.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "algos/hazard.h"

#define STEPS_MAX 20000 /* of one rank: mutated loops may run away */

struct element {
    uint64_t whole;
    uint64_t order;
    float real;
};

/* One step on its way. */
struct instance {
    struct weft_step step;
    size_t first, count; /* elements */
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
    struct element *input, *output, *temp, *kept;
    struct instance **slots; /* the SEND whose bytes a slot holds */
};

struct world {
    struct rank *ranks;
    uint32_t count;
    const struct interpreter_options *options;
    uint64_t random;
    const char *why;
};

static uint64_t draw(struct world *world)
{
    uint64_t x = world->random += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 31)) * 0x7fb5d329728ea185u;
    x = (x ^ (x >> 27)) * 0x81dadef4bc2dd44du;
    return x ^ (x >> 33);
}

/* --- expansion ----------------------------------------------------------------------------------------- */

static int64_t wrap(int64_t value, int64_t modulus)
{
    value %= modulus;
    return value < 0 ? value + modulus : value;
}

static int resolve_ref(struct weft_ref *ref, const struct weft_plan *plan, uint32_t iteration)
{
    if (ref->buffer > WEFT_BUFFER_SLOT || (ref->buffer == WEFT_BUFFER_TEMP && !plan->temp_chunks))
        return 0;
    if (ref->buffer != WEFT_BUFFER_SLOT)
        return 1;
    if (plan->slots == 0)
        return 0;
    ref->slot = (uint16_t)wrap(ref->slot + (int64_t)iteration * ref->slot_stride, plan->slots);
    return 1;
}

/* Applies strides; 0 when the step makes no sense. */
static int resolve_step(struct weft_step *step, const struct weft_plan *plan, uint32_t iteration)
{
    int transfers = step->kind == WEFT_STEP_SEND || step->kind == WEFT_STEP_RECV;
    int low = step->kind == WEFT_STEP_REDUCE ? 2 : step->kind != WEFT_STEP_RECV;
    int high = step->kind == WEFT_STEP_REDUCE ? WEFT_STEP_SOURCES_MAX : low;
    if (step->kind > WEFT_STEP_COPY || step->source_count < low || step->source_count > high)
        return 0;
    if (step->chunk >= plan->chunks || (transfers && (uint32_t)step->peer >= plan->ranks))
        return 0;
    step->chunk = (uint32_t)wrap(step->chunk + (int64_t)iteration * step->chunk_stride, plan->chunks);
    if (transfers)
        step->peer = (int32_t)wrap(step->peer + (int64_t)iteration * step->peer_stride, plan->ranks);
    if (step->span == 0 || (uint64_t)step->chunk + step->span > plan->chunks)
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
    return step->destination.buffer != WEFT_BUFFER_INPUT && resolve_ref(&step->destination, plan, iteration);
}

static int append(struct rank *rank, const struct weft_step *record, uint32_t iteration, size_t count)
{
    struct weft_step step = *record;
    if (!resolve_step(&step, rank->plan, iteration) || rank->step_count == STEPS_MAX)
        return 0;
    size_t first = (size_t)((unsigned __int128)step.chunk * count / rank->plan->chunks);
    size_t end = (size_t)((unsigned __int128)(step.chunk + step.span) * count / rank->plan->chunks);
    if (first == end)
        return 1;
    if ((rank->step_count & (rank->step_count - 1)) == 0) {
        size_t room = rank->step_count ? 2 * rank->step_count : 1;
        rank->steps = realloc(rank->steps, room * sizeof *rank->steps);
        if (!rank->steps)
            abort();
    }
    struct instance *added = &rank->steps[rank->step_count];
    *added = (struct instance){.step = step, .first = first, .count = end - first};
    for (size_t i = 0; step.kind <= WEFT_STEP_RECV && i < rank->step_count; i++) {
        const struct weft_step *before = &rank->steps[i].step;
        added->channel += before->kind == step.kind && before->peer == step.peer;
    }
    rank->step_count++;
    return 1;
}

static int expand(struct rank *rank, size_t count)
{
    const struct weft_plan *plan = rank->plan;
    for (uint32_t i = 0; i < plan->step_count; i++) {
        const struct weft_step *record = &plan->steps[i];
        if (record->kind != WEFT_STEP_LOOP) {
            if (!append(rank, record, 0, count))
                return 0;
            continue;
        }
        if (record->body == 0 || record->body > plan->step_count - i - 1)
            return 0;
        for (uint32_t k = 0; k < record->iterations; k++) {
            for (uint32_t b = 1; b <= record->body; b++) {
                if (!append(rank, record + b, k, count))
                    return 0;
            }
        }
        i += record->body;
    }
    return 1;
}

/* --- data ---------------------------------------------------------------------------------------------- */

static struct element *buffer_of(struct rank *rank, unsigned buffer)
{
    if (buffer == WEFT_BUFFER_TEMP)
        return rank->temp;
    return buffer == WEFT_BUFFER_OUTPUT ? rank->output : rank->input;
}

static struct element *fresh(struct world *world, size_t count, int sensible)
{
    struct element *memory = malloc((count + 1) * sizeof *memory);
    if (!memory)
        abort();
    for (size_t i = 0; i < count; i++) {
        memory[i].whole = draw(world);
        memory[i].order = draw(world);
        memory[i].real = sensible ? (float)(int64_t)(draw(world) >> 40) / 1000 - 8000 : NAN;
    }
    return memory;
}

static int rank_open(struct world *world, struct rank *rank, const struct weft_plan *plan)
{
    size_t count = world->options->count;
    *rank = (struct rank){.plan = plan};
    rank->input = fresh(world, count, 1);
    rank->kept = fresh(world, count, 0);
    memcpy(rank->kept, rank->input, count * sizeof *rank->kept);
    rank->output = plan->in_place ? rank->input : fresh(world, count, 0);
    rank->temp = fresh(world, count, 0);
    rank->slots = calloc(plan->slots + 1, sizeof(struct instance *));
    if (!rank->slots)
        abort();
    return plan->slots <= UINT16_MAX && plan->chunks > 0 && expand(rank, count);
}

static void rank_close(struct rank *rank)
{
    for (size_t i = 0; i < rank->step_count; i++)
        free(rank->steps[i].early);
    if (rank->output != rank->input)
        free(rank->output);
    free(rank->steps);
    free(rank->input);
    free(rank->kept);
    free(rank->temp);
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
    one->memory = buffer_of(rank, one->step.sources[0].buffer) + one->first;
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
        if (send->first != one->first || send->count != one->count)
            world->why = "SEND and RECV of different ranges";
        one->other = send;
        send->other = one;
        if (one->step.destination.buffer == WEFT_BUFFER_SLOT) {
            if (rank->slots[one->step.destination.slot])
                world->why = "RECV into a slot that is full";
            rank->slots[one->step.destination.slot] = send;
            complete(rank, one);
        }
        return 1;
    }
    buffer_of(rank, one->step.destination.buffer)[one->first + one->at] = one->other->memory[one->at];
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
        struct instance *send = rank->slots[step->sources[i].slot];
        rank->slots[step->sources[i].slot] = NULL;
        if (send)
            complete_send(world, send);
        else
            world->why = "slot read twice";
    }
}

/* Depends on which side is which, and on what was put together first. */
static uint64_t order_of(uint64_t left, uint64_t right)
{
    uint64_t mixed = left * 0xd6e8feb86659fd93u + (right ^ right >> 32);
    return (mixed ^ mixed >> 29) * 0xcaf649a9d5a5b9c5u;
}

static int act_local(struct world *world, struct rank *rank, struct instance *one)
{
    const struct weft_step *step = &one->step;
    struct element sum = {0, 0, 0};
    size_t at = one->first + one->at;
    for (int i = 0; i < step->source_count; i++) {
        const struct element *source = buffer_of(rank, step->sources[i].buffer) + at;
        if (step->sources[i].buffer == WEFT_BUFFER_SLOT) {
            const struct instance *send = rank->slots[step->sources[i].slot];
            if (!send || send->first != one->first || send->count != one->count) {
                world->why = "reads a slot that does not hold its range";
                return 1;
            }
            source = send->memory + one->at;
        }
        sum.whole += source->whole;
        sum.order = i ? order_of(sum.order, source->order) : source->order;
        sum.real = i ? sum.real + source->real : source->real;
    }
    if (step->flags & WEFT_STEP_FINISH) {
        sum.whole = 3 * sum.whole + 7;
        sum.real /= (float)world->count;
    }
    buffer_of(rank, step->destination.buffer)[at] = sum;
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
    for (size_t i = 0; i < world->options->count; i++) {
        uint64_t whole = 0;
        double real = 0;
        for (uint32_t r = 0; r < world->count; r++) {
            whole += world->ranks[r].kept[i].whole;
            real += world->ranks[r].kept[i].real;
        }
        real /= world->count;
        for (uint32_t r = 0; r < world->count; r++) {
            const struct rank *rank = &world->ranks[r];
            const struct element *input = &rank->input[i], *output = &rank->output[i];
            *why = "a sum is wrong";
            if (output->whole != 3 * whole + 7 || !(fabs(output->real - real) < 0.1))
                return INTERPRETED_WRONG;
            *why = "ranks have different bits";
            if (memcmp(&output->real, &world->ranks[0].output[i].real, sizeof output->real) != 0)
                return INTERPRETED_WRONG;
            *why = "ranks put values together in different order";
            if (output->order != world->ranks[0].output[i].order)
                return INTERPRETED_WRONG;
            *why = "INPUT was written";
            if (!rank->plan->in_place && input->whole != rank->kept[i].whole)
                return INTERPRETED_WRONG;
        }
    }
    *why = "right";
    return INTERPRETED_RIGHT;
}

enum interpreted plan_interpret(const struct weft_plan *const *plans, uint32_t ranks,
                                const struct interpreter_options *options, const char **why)
{
    struct world world = {.count = ranks, .options = options, .random = options->seed};
    enum interpreted result = INTERPRETED_INVALID;
    world.ranks = calloc(ranks, sizeof *world.ranks);
    if (!world.ranks)
        abort();
    for (uint32_t r = 0; r < ranks; r++) {
        if (plans[r]->ranks != ranks || plans[r]->chunks != plans[0]->chunks ||
            !rank_open(&world, &world.ranks[r], plans[r]))
            world.why = "a step out of bounds";
    }
    while (!world.why && act_somewhere(&world))
        continue;
    if (!world.why)
        result = judge(&world, why);
    else
        *why = world.why;
    for (uint32_t r = 0; r < ranks; r++) {
        if (world.ranks[r].plan)
            rank_close(&world.ranks[r]);
    }
    free(world.ranks);
    return result;
}
