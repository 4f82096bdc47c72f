/* SPDX-License-Identifier: Apache-2.0 */
/* Evaluating plans: when is every step done?
 *
 * Each rank walks its steps in program order and notes when each chunk of OUTPUT and TEMP and each slot and cell
 * is ready. Its out port, in port and processor serve one step at a time, side by side. A RECV needs to know
 * when its SEND began; until the sender has come that far the RECV is put aside with the steps that conflict
 * with it, and the walk goes on behind them, as the executor would. (A SEND does not hold up its own rank
 * here: what writers wait for has long been consumed.)
 */
#include "algos/cost.h"

#include <stdlib.h>
#include <string.h>

#include "algos/hazard.h"
#include "algos/hosts.h"
#include "algos/proof/cost_plan.h"
#include "algos/proof/verify.h"
#include "base/error.h"

#define CHUNKS_MAX (1u << 26) /* of all ranks together */
#define AHEAD_MAX  WEFT_VERIFY_WINDOW

struct message {
    uint32_t to;
    int taken;
    double start; /* when its first byte leaves */
};

struct runner {
    struct weft_cursor cursor;
    struct weft_step steps[AHEAD_MAX]; /* not evaluated yet, in program order */
    int step_count;
    int ended; /* the cursor is at its end */
    double out_free, in_free, processor_free, last;
    double dealt_ns;  /* with messages received */
    double *ready[3]; /* by enum weft_buffer: NULL, OUTPUT, TEMP */
    double *slots;
    double cells[WEFT_CELLS_MAX];
    struct message *messages;
    uint32_t message_count, message_capacity, message_first;
};

struct evaluation {
    const struct weft_plan *const *plans;
    const struct weft_link_cost *link, *remote; /* within a host, and between hosts */
    const struct weft_hosts *hosts;             /* NULL: all on one */
    uint64_t bytes;
    struct runner *runners;
};

static const struct weft_link_cost *link_between(const struct evaluation *run, uint32_t a, uint32_t b)
{
    if (!run->hosts || weft_hosts_at(run->hosts, weft_hosts_position(run->hosts, a)) ==
                           weft_hosts_at(run->hosts, weft_hosts_position(run->hosts, b)))
        return run->link;
    return run->remote;
}

static double later(double a, double b)
{
    return a > b ? a : b;
}

static double bytes_of(const struct evaluation *run, const struct weft_step *step)
{
    const struct weft_plan *plan = run->plans[0];
    int blocks = weft_collective_blocks((enum weft_collective)plan->collective);
    return (double)run->bytes * step->span / (blocks ? plan->ranks : plan->chunks);
}

static double ready_at(const struct runner *runner, const struct weft_step *step, const struct weft_ref *ref)
{
    double time = 0;
    if (ref->buffer == WEFT_BUFFER_SLOT)
        return runner->slots[ref->slot];
    if (ref->buffer == WEFT_BUFFER_CELL)
        return runner->cells[ref->slot];
    uint32_t chunk = step->kind == WEFT_STEP_COPY ? step->from : step->chunk;
    for (uint32_t i = 0; runner->ready[ref->buffer] && i < step->span; i++)
        time = later(time, runner->ready[ref->buffer][chunk + i]);
    return time;
}

static void set_ready(struct runner *runner, const struct weft_step *step, double time)
{
    const struct weft_ref *ref = &step->destination;
    runner->last = later(runner->last, time);
    if (ref->buffer == WEFT_BUFFER_SLOT) {
        runner->slots[ref->slot] = time;
        return;
    }
    if (ref->buffer == WEFT_BUFFER_CELL) {
        runner->cells[ref->slot] = time;
        return;
    }
    for (uint32_t i = 0; i < step->span; i++)
        runner->ready[ref->buffer][step->chunk + i] = time;
}

static int evaluate_send(const struct evaluation *run, struct runner *runner, const struct weft_step *step)
{
    if (runner->message_count == runner->message_capacity) {
        uint32_t capacity = runner->message_capacity ? 2 * runner->message_capacity : 16;
        struct message *grown = realloc(runner->messages, capacity * sizeof *grown);
        if (!grown)
            return weft_fail(WEFT_NOMEM, "evaluating plans: no memory for %u messages", capacity);
        runner->messages = grown;
        runner->message_capacity = capacity;
    }
    const struct weft_link_cost *link = link_between(run, runner->cursor.plan->rank, (uint32_t)step->peer);
    double start = later(ready_at(runner, step, &step->sources[0]), runner->out_free);
    runner->out_free = start + link->message_ns;
    if (!link->receiver_copies)
        runner->out_free += bytes_of(run, step) * link->byte_ns;
    runner->messages[runner->message_count++] = (struct message){(uint32_t)step->peer, 0, start};
    return WEFT_OK;
}

/* The oldest message from sender to rank that was not taken yet. */
static struct message *message_find(struct runner *sender, uint32_t rank)
{
    while (sender->message_first < sender->message_count && sender->messages[sender->message_first].taken)
        sender->message_first++;
    for (uint32_t i = sender->message_first; i < sender->message_count; i++) {
        if (!sender->messages[i].taken && sender->messages[i].to == rank)
            return &sender->messages[i];
    }
    return NULL;
}

static void evaluate_recv(const struct evaluation *run, struct runner *runner, const struct weft_step *step,
                          struct message *message)
{
    const struct weft_link_cost *link = link_between(run, runner->cursor.plan->rank, (uint32_t)step->peer);
    double latency_ns = weft_message_ns(link, bytes_of(run, step));
    double time = message->start + latency_ns;
    double duration = bytes_of(run, step) * link->byte_ns;
    message->taken = 1;
    /* However messages come, a rank has to deal with one after the other. */
    time = later(time, latency_ns + runner->dealt_ns);
    runner->dealt_ns += link->message_ns;
    if (!link->receiver_copies)
        time = runner->in_free = later(time, runner->in_free) + duration;
    else if (step->destination.buffer != WEFT_BUFFER_SLOT)
        time = runner->processor_free = later(time, runner->processor_free) + duration;
    set_ready(runner, step, time);
}

static void evaluate_local(const struct evaluation *run, struct runner *runner, const struct weft_step *step)
{
    double per_byte = step->kind == WEFT_STEP_REDUCE ? run->link->reduce_byte_ns * (step->source_count - 1)
                                                     : run->link->byte_ns;
    double time = runner->processor_free;
    for (int i = 0; i < step->source_count; i++)
        time = later(time, ready_at(runner, step, &step->sources[i]));
    runner->processor_free = time + bytes_of(run, step) * per_byte;
    set_ready(runner, step, runner->processor_free);
}

/* Whether one of the steps put aside before number i has to come first. */
static int must_wait(const struct runner *runner, int i, int in_place)
{
    const struct weft_step *step = &runner->steps[i];
    for (int k = 0; k < i; k++) {
        const struct weft_step *earlier = &runner->steps[k];
        int same_peer = earlier->kind == step->kind && earlier->peer == step->peer;
        if (weft_step_conflicts(earlier, step, in_place) || (same_peer && step->kind <= WEFT_STEP_RECV))
            return 1;
    }
    return 0;
}

/* Evaluates step i of those in sight if that can be done now; *done says so. */
static int try_step(const struct evaluation *run, uint32_t rank, int i, int *done)
{
    struct runner *runner = &run->runners[rank];
    const struct weft_step *step = &runner->steps[i];
    *done = 0;
    if (must_wait(runner, i, (int)run->plans[rank]->in_place))
        return WEFT_OK;
    if (step->kind == WEFT_STEP_RECV) {
        struct message *message = message_find(&run->runners[step->peer], rank);
        if (!message)
            return WEFT_OK;
        evaluate_recv(run, runner, step, message);
    } else if (step->kind == WEFT_STEP_SEND) {
        int status = evaluate_send(run, runner, step);
        if (status != WEFT_OK)
            return status;
    } else {
        evaluate_local(run, runner, step);
    }
    *done = 1;
    return WEFT_OK;
}

/* Walks on as far as what is known of the others allows; *moved: whether there was any step. */
static int advance(const struct evaluation *run, uint32_t rank, int *moved)
{
    struct runner *runner = &run->runners[rank];
    int i = 0;
    for (;;) {
        if (i == runner->step_count) {
            struct weft_step *step = &runner->steps[i];
            if (runner->ended || i == AHEAD_MAX)
                return WEFT_OK;
            if (!weft_cursor_next(&runner->cursor, step)) {
                runner->ended = 1;
                return WEFT_OK;
            }
            if (step->span > run->plans[rank]->chunks - step->chunk ||
                (step->kind == WEFT_STEP_COPY && step->span > run->plans[rank]->chunks - step->from))
                return weft_fail(WEFT_INVALID, "rank %u's plan reaches past its last chunk", rank);
            runner->step_count++;
        }
        int done;
        int status = try_step(run, rank, i, &done);
        if (status != WEFT_OK)
            return status;
        if (!done) {
            i++;
            continue;
        }
        *moved = 1;
        runner->step_count--;
        memmove(&runner->steps[i], &runner->steps[i + 1],
                (size_t)(runner->step_count - i) * sizeof *runner->steps);
        i = 0;
    }
}

static int evaluate(const struct evaluation *run, uint32_t ranks, double *time_ns)
{
    for (int moved = 1; moved;) {
        moved = 0;
        for (uint32_t rank = 0; rank < ranks; rank++) {
            int status = advance(run, rank, &moved);
            if (status != WEFT_OK)
                return status;
        }
    }
    double last = 0;
    for (uint32_t rank = 0; rank < ranks; rank++) {
        if (run->runners[rank].step_count > 0)
            return weft_fail(WEFT_INVALID, "evaluating plans: rank %u waits for ever", rank);
        last = later(last, run->runners[rank].last);
    }
    *time_ns = last;
    return WEFT_OK;
}

static void runners_free(struct runner *runners, uint32_t ranks)
{
    for (uint32_t rank = 0; runners && rank < ranks; rank++) {
        free(runners[rank].ready[WEFT_BUFFER_OUTPUT]);
        free(runners[rank].ready[WEFT_BUFFER_TEMP]);
        free(runners[rank].slots);
        free(runners[rank].messages);
    }
    free(runners);
}

static int runner_start(struct runner *runner, const struct weft_plan *plan)
{
    weft_cursor_start(&runner->cursor, plan);
    runner->ready[WEFT_BUFFER_OUTPUT] = calloc(plan->chunks, sizeof(double));
    runner->ready[WEFT_BUFFER_TEMP] = calloc(plan->temp_chunks ? plan->chunks : 1, sizeof(double));
    runner->slots = calloc(plan->slots + 1, sizeof(double));
    if (!runner->ready[WEFT_BUFFER_OUTPUT] || !runner->ready[WEFT_BUFFER_TEMP] || !runner->slots)
        return weft_fail(WEFT_NOMEM, "evaluating plans: no memory for %u chunks", plan->chunks);
    return WEFT_OK;
}

/* given: everything but the runners. */
static int evaluate_plans(const struct evaluation *given, uint32_t ranks, double *time_ns)
{
    const struct weft_plan *const *plans = given->plans;
    if (ranks < 1 || plans[0]->chunks > CHUNKS_MAX / ranks)
        return weft_fail(WEFT_NOMEM, "evaluating plans: %u ranks have too many chunks", ranks);
    struct runner *runners = calloc(ranks, sizeof *runners);
    if (!runners)
        return weft_fail(WEFT_NOMEM, "evaluating plans: no memory for %u ranks", ranks);
    struct evaluation run = *given;
    run.runners = runners;
    int status = WEFT_OK;
    for (uint32_t rank = 0; status == WEFT_OK && rank < ranks; rank++) {
        uint64_t steps;
        status = weft_plan_check(plans[rank], &steps);
        if (status == WEFT_OK && (plans[rank]->ranks != ranks || plans[rank]->chunks != plans[0]->chunks))
            status = weft_fail(WEFT_INVALID, "evaluating plans: rank %u's plan is for other ranks", rank);
        if (status == WEFT_OK)
            status = runner_start(&runners[rank], plans[rank]);
    }
    if (status == WEFT_OK)
        status = evaluate(&run, ranks, time_ns);
    runners_free(runners, ranks);
    return status;
}

int weft_plans_cost(const struct weft_plan *const *plans, uint32_t ranks, uint64_t bytes,
                    const struct weft_link_cost *link, double *time_ns)
{
    struct evaluation given = {.plans = plans, .link = link, .bytes = bytes};
    return evaluate_plans(&given, ranks, time_ns);
}

int weft_plans_cost_hosts(const struct weft_plan *const *plans, const struct weft_hosts *hosts,
                          uint64_t bytes, const struct weft_hosts_cost *cost, double *time_ns)
{
    struct evaluation given = {
        .plans = plans, .link = &cost->local, .remote = &cost->remote, .hosts = hosts, .bytes = bytes};
    return evaluate_plans(&given, hosts->ranks, time_ns);
}
