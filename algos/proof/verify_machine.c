/* SPDX-License-Identifier: Apache-2.0 */
#include "algos/proof/verify_machine.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "algos/hazard.h"
#include "algos/step_print.h"
#include "base/error.h"
#include "base/hash.h"

static int fail_at(struct weft_machine *machine, const struct weft_runner *runner, uint64_t number,
                   const char *wrong)
{
    char text[128];
    weft_step_print(&runner->steps[number % machine->window], text, sizeof text);
    machine->report->rank = runner->rank;
    machine->report->step = number;
    return weft_fail(WEFT_INVALID, "rank %u step %" PRIu64 " (%s) %s", runner->rank, number, text, wrong);
}

static uint64_t bit(unsigned position)
{
    return 1ull << position;
}

/* The number of the step at a position of the window. */
static uint64_t number_at(const struct weft_machine *machine, const struct weft_runner *runner,
                          unsigned position)
{
    unsigned head = (unsigned)(runner->head % machine->window);
    return runner->head + (position + machine->window - head) % machine->window;
}

/* --- opening ------------------------------------------------------------------------------------------- */

/* Cuts *memory (advancing it) into the arrays of a runner; with memory NULL only measures. */
static void *carve(unsigned char **memory, size_t size)
{
    unsigned char *piece = *memory;
    *memory = piece + (size + 7) / 8 * 8;
    return piece;
}

static size_t runner_size(const struct weft_machine *machine, const struct weft_plan *plan)
{
    size_t window = machine->window;
    return window * (sizeof(struct weft_step) + 2 * sizeof(uint64_t) + sizeof(uint32_t) + 2) + 5 * 8 +
           plan->slots * sizeof(struct weft_machine_slot);
}

static void runner_place(const struct weft_machine *machine, struct weft_runner *runner,
                         unsigned char **memory)
{
    size_t window = machine->window;
    runner->steps = carve(memory, window * sizeof *runner->steps);
    runner->blockers = carve(memory, window * sizeof *runner->blockers);
    runner->order = carve(memory, window * sizeof *runner->order);
    runner->channels = carve(memory, window * sizeof *runner->channels);
    runner->states = carve(memory, window);
    runner->next = carve(memory, window);
    runner->slots = carve(memory, runner->plan->slots * sizeof *runner->slots);
}

int weft_machine_open(struct weft_machine *machine, const struct weft_plan *const *plans, uint32_t ranks,
                      int rotation, const struct weft_verify_options *options,
                      struct weft_verify_report *report)
{
    *machine = (struct weft_machine){.plans = plans,
                                     .ranks = ranks,
                                     .runner_count = rotation ? 1 : ranks,
                                     .window = options->window,
                                     .rotation = rotation,
                                     .random = options->seed,
                                     .expect = options->expect,
                                     .report = report};
    int status = weft_values_open(&machine->values, plans, ranks, rotation, options);
    if (status != WEFT_OK)
        return status;
    size_t size = 0;
    for (uint32_t i = 0; i < machine->runner_count; i++)
        size += runner_size(machine, plans[i]);
    machine->runners = calloc(machine->runner_count, sizeof *machine->runners);
    machine->queue = calloc(machine->runner_count, sizeof *machine->queue);
    machine->runner_memory = calloc(1, size);
    machine->channel_capacity = 64;
    machine->channels = calloc(machine->channel_capacity, sizeof *machine->channels);
    machine->channel_index = calloc(2 * (size_t)machine->channel_capacity, sizeof(uint32_t));
    if (!machine->runners || !machine->queue || !machine->runner_memory || !machine->channels ||
        !machine->channel_index) {
        weft_machine_close(machine);
        return weft_fail(WEFT_NOMEM, "verifying %u ranks: no memory for their windows", ranks);
    }
    unsigned char *memory = machine->runner_memory;
    for (uint32_t i = 0; i < machine->runner_count; i++) {
        machine->runners[i].rank = i;
        machine->runners[i].plan = plans[i];
        runner_place(machine, &machine->runners[i], &memory);
    }
    return WEFT_OK;
}

void weft_machine_close(struct weft_machine *machine)
{
    weft_values_close(&machine->values);
    free(machine->runners);
    free(machine->queue);
    free(machine->runner_memory);
    free(machine->channels);
    free(machine->channel_index);
}

static void reset(struct weft_machine *machine)
{
    weft_values_reset(&machine->values);
    machine->report->steps = 0;
    machine->report->messages = 0;
    machine->report->in_flight_max = 0;
    machine->queue_first = 0;
    machine->queue_count = 0;
    for (uint32_t i = 0; i < machine->runner_count; i++) {
        struct weft_runner *runner = &machine->runners[i];
        weft_cursor_start(&runner->cursor, runner->plan);
        runner->head = runner->tail = runner->live = runner->unoffered = runner->transfers = 0;
        runner->ended = 0;
        runner->queued = 0;
        memset(runner->slots, 0, runner->plan->slots * sizeof *runner->slots);
        memset(runner->cells, 0, sizeof runner->cells);
    }
    machine->channel_count = 0;
    memset(machine->channel_index, 0, 2 * (size_t)machine->channel_capacity * sizeof(uint32_t));
}

/* --- channels ------------------------------------------------------------------------------------------ */

static uint32_t *channel_find(const struct weft_machine *machine, uint64_t key)
{
    uint32_t mask = 2 * machine->channel_capacity - 1;
    uint32_t at = (uint32_t)(key * 0x9e3779b97f4a7c15u >> 32) & mask;
    while (machine->channel_index[at] && machine->channels[machine->channel_index[at] - 1].key != key)
        at = (at + 1) & mask;
    return &machine->channel_index[at];
}

static int channels_grow(struct weft_machine *machine)
{
    if (machine->channel_capacity > UINT32_MAX / 8)
        return weft_fail(WEFT_NOMEM, "verifying: too many pairs of ranks that talk");
    uint32_t capacity = machine->channel_capacity * 2;
    uint32_t *index = calloc(2 * (size_t)capacity, sizeof *index);
    struct weft_channel *grown = realloc(machine->channels, capacity * sizeof *grown);
    if (grown)
        machine->channels = grown;
    if (!index || !grown) {
        free(index);
        return weft_fail(WEFT_NOMEM, "verifying: no memory for %u pairs of ranks", capacity);
    }
    free(machine->channel_index);
    machine->channel_index = index;
    machine->channel_capacity = capacity;
    for (uint32_t i = 0; i < machine->channel_count; i++)
        *channel_find(machine, machine->channels[i].key) = i + 1;
    return WEFT_OK;
}

/* The channel of a SEND or RECV. Rotation: rank 0's RECV from p meets what it sends itself, as its peer's
 * image, at the same distance. */
static int channel_of(struct weft_machine *machine, const struct weft_runner *runner,
                      const struct weft_step *step, uint32_t *number)
{
    uint32_t peer = (uint32_t)step->peer, n = machine->ranks;
    int sends = step->kind == WEFT_STEP_SEND;
    uint64_t key = sends ? (uint64_t)runner->rank << 32 | peer : (uint64_t)peer << 32 | runner->rank;
    if (machine->rotation)
        key = sends ? peer : (n - peer) % n;
    uint32_t *found = channel_find(machine, key);
    if (!*found) {
        if (machine->channel_count == machine->channel_capacity) {
            int status = channels_grow(machine);
            if (status != WEFT_OK)
                return status;
            found = channel_find(machine, key);
        }
        machine->channels[machine->channel_count] = (struct weft_channel){key, -1, -1, -1, -1};
        *found = ++machine->channel_count;
    }
    *number = *found - 1;
    return WEFT_OK;
}

/* --- entering the window ------------------------------------------------------------------------------- */

/* Computes which steps of the window the newest one must wait for. */
static int enter_links(struct weft_machine *machine, struct weft_runner *runner, unsigned position)
{
    const struct weft_step *step = &runner->steps[position];
    int transfers = step->kind == WEFT_STEP_SEND || step->kind == WEFT_STEP_RECV;
    uint64_t blockers = 0, order = 0;
    for (uint64_t left = runner->live; left; left &= left - 1) {
        unsigned other = (unsigned)__builtin_ctzll(left);
        const struct weft_step *earlier = &runner->steps[other];
        runner->blockers[other] &= ~bit(position); /* the position's former step is done */
        runner->order[other] &= ~bit(position);
        if (weft_step_conflicts(earlier, step, (int)runner->plan->in_place))
            blockers |= bit(other);
        if (transfers && earlier->kind == step->kind && earlier->peer == step->peer)
            order |= bit(other);
    }
    runner->blockers[position] = blockers;
    runner->order[position] = order & runner->unoffered;
    runner->states[position] = WEFT_STATE_WAITING;
    runner->next[position] = -1;
    runner->live |= bit(position);
    if (!transfers)
        return WEFT_OK;
    runner->unoffered |= bit(position);
    machine->report->messages += step->kind == WEFT_STEP_SEND;
    return channel_of(machine, runner, step, &runner->channels[position]);
}

static int leftover_slot(struct weft_machine *machine, const struct weft_runner *runner)
{
    for (uint32_t i = 0; i < runner->plan->slots; i++) {
        if (!runner->slots[i].full)
            continue;
        machine->report->rank = runner->rank;
        machine->report->step = runner->tail;
        return weft_fail(WEFT_INVALID, "rank %u ends with slot %u received but never read", runner->rank, i);
    }
    return WEFT_OK;
}

/* Lets steps enter while the window has room. */
static int fill(struct weft_machine *machine, struct weft_runner *runner)
{
    while (!runner->ended && runner->tail - runner->head < machine->window) {
        unsigned position = (unsigned)(runner->tail % machine->window);
        struct weft_step *step = &runner->steps[position];
        if (!weft_cursor_next(&runner->cursor, step)) {
            runner->ended = 1;
            return leftover_slot(machine, runner);
        }
        const char *wrong = weft_runner_check(runner, step);
        if (wrong)
            return fail_at(machine, runner, runner->tail, wrong);
        int status = enter_links(machine, runner, position);
        if (status != WEFT_OK)
            return status;
        runner->tail++;
        machine->report->steps++;
        runner->transfers = runner->transfers << 1 | (step->kind <= WEFT_STEP_RECV);
        uint64_t mask = machine->window == 64 ? UINT64_MAX : bit(machine->window) - 1;
        uint32_t in_flight = (uint32_t)__builtin_popcountll(runner->transfers & mask);
        if (in_flight > machine->report->in_flight_max)
            machine->report->in_flight_max = in_flight;
    }
    return WEFT_OK;
}

/* --- acting -------------------------------------------------------------------------------------------- */

static struct weft_runner *runner_of(struct weft_machine *machine, uint32_t rank)
{
    return &machine->runners[machine->rotation ? 0 : rank];
}

static void wake(struct weft_machine *machine, struct weft_runner *runner)
{
    if (runner->queued)
        return;
    uint32_t at = (uint32_t)(((uint64_t)machine->queue_first + machine->queue_count) % machine->runner_count);
    machine->queue[at] = (uint32_t)(runner - machine->runners);
    machine->queue_count++;
    runner->queued = 1;
}

/* The step at position is done; the window slides over all that are. */
static void finish(struct weft_machine *machine, struct weft_runner *runner, unsigned position)
{
    runner->states[position] = WEFT_STATE_DONE;
    runner->live &= ~bit(position);
    while (runner->head < runner->tail && !(runner->live & bit((unsigned)(runner->head % machine->window))))
        runner->head++;
    wake(machine, runner);
}

/* Where the SEND at the sender's position reads, as seen by the receiver, which has it as chunk. */
static struct weft_spot place_of(struct weft_machine *machine, uint32_t sender, unsigned position,
                                 uint32_t chunk)
{
    struct weft_runner *from = runner_of(machine, sender);
    const struct weft_step *send = &from->steps[position];
    uint32_t chunks = machine->values.chunks;
    return (struct weft_spot){
        .runner = from->rank,
        .buffer = send->sources[0].buffer,
        .cell = send->sources[0].slot,
        .shift = (uint32_t)(((uint64_t)send->chunk + chunks - chunk) % chunks),
        .rotate = machine->rotation ? sender : 0,
    };
}

static int apply(struct weft_machine *machine, struct weft_runner *runner, unsigned position,
                 const struct weft_spot *sources, int source_count)
{
    const char *wrong =
        weft_values_apply(&machine->values, machine->rotation ? 0 : runner->rank, &runner->steps[position],
                          sources, source_count, &machine->unsupported);
    if (machine->values.exhausted)
        return weft_fail(WEFT_NOMEM, "verifying %u ranks needs more than %" PRIu64 " bytes", machine->ranks,
                         machine->values.memory_max);
    return wrong ? fail_at(machine, runner, number_at(machine, runner, position), wrong) : WEFT_OK;
}

/* REDUCE and COPY: compute, and let the SENDs behind emptied slots go. */
static int execute(struct weft_machine *machine, struct weft_runner *runner, unsigned position)
{
    const struct weft_step *step = &runner->steps[position];
    struct weft_spot sources[WEFT_STEP_SOURCES_MAX];
    uint32_t chunks = machine->values.chunks;
    for (int i = 0; i < step->source_count; i++) {
        sources[i] = (struct weft_spot){
            .runner = runner->rank, .buffer = step->sources[i].buffer, .cell = step->sources[i].slot};
        if (weft_step_moves(step))
            sources[i].shift = (uint32_t)(((uint64_t)step->from + chunks - step->chunk) % chunks);
        if (step->sources[i].buffer == WEFT_BUFFER_SLOT) {
            const struct weft_machine_slot *slot = &runner->slots[step->sources[i].slot];
            sources[i] = place_of(machine, slot->sender, slot->sender_position, step->chunk);
        }
    }
    int status = apply(machine, runner, position, sources, step->source_count);
    for (int i = 0; status == WEFT_OK && i < step->source_count; i++) {
        if (step->sources[i].buffer != WEFT_BUFFER_SLOT)
            continue;
        struct weft_machine_slot *slot = &runner->slots[step->sources[i].slot];
        finish(machine, runner_of(machine, slot->sender), slot->sender_position);
    }
    finish(machine, runner, position);
    return status;
}

static void offer(struct weft_machine *machine, struct weft_runner *runner, unsigned position)
{
    struct weft_channel *channel = &machine->channels[runner->channels[position]];
    int sends = runner->steps[position].kind == WEFT_STEP_SEND;
    int8_t *first = sends ? &channel->send_first : &channel->recv_first;
    int8_t *last = sends ? &channel->send_last : &channel->recv_last;
    runner->states[position] = WEFT_STATE_OFFERED;
    runner->unoffered &= ~bit(position);
    if (*first < 0)
        *first = (int8_t)position;
    else
        runner->next[*last] = (int8_t)position;
    *last = (int8_t)position;
    if (sends)
        wake(machine, runner_of(machine, (uint32_t)runner->steps[position].peer));
}

/* The first RECV of a channel meets the first SEND. */
static int meet(struct weft_machine *machine, struct weft_runner *runner, unsigned position)
{
    const struct weft_step *step = &runner->steps[position];
    struct weft_channel *channel = &machine->channels[runner->channels[position]];
    uint32_t sender = (uint32_t)step->peer;
    struct weft_runner *from = runner_of(machine, sender);
    unsigned send = (unsigned)channel->send_first;
    const struct weft_step *other = &from->steps[send];
    uint64_t chunk = other->chunk;
    if (machine->rotation)
        chunk = (chunk + sender) % machine->values.chunks;
    if ((chunk != step->chunk && machine->values.collective != WEFT_ALLTOALL) || other->span != step->span) {
        char text[128], whole[192];
        weft_step_print(other, text, sizeof text);
        snprintf(whole, sizeof whole, "meets rank %u step %" PRIu64 " (%s)%s", sender,
                 number_at(machine, from, send), text, machine->rotation ? ", seen from rank 0" : "");
        return fail_at(machine, runner, number_at(machine, runner, position), whole);
    }
    channel->recv_first = runner->next[position];
    channel->send_first = from->next[send];
    from->states[send] = WEFT_STATE_MET;
    if (step->destination.buffer == WEFT_BUFFER_SLOT) {
        struct weft_machine_slot *slot = &runner->slots[step->destination.slot];
        slot->sender = sender;
        slot->sender_position = (uint8_t)send;
        finish(machine, runner, position);
        return WEFT_OK;
    }
    struct weft_spot source = place_of(machine, sender, send, step->chunk);
    int status = apply(machine, runner, position, &source, 1);
    finish(machine, from, send);
    finish(machine, runner, position);
    return status;
}

/* Whether the step at position can act now. */
static int can_act(const struct weft_machine *machine, const struct weft_runner *runner, unsigned position)
{
    const struct weft_step *step = &runner->steps[position];
    switch (runner->states[position]) {
    case WEFT_STATE_WAITING:
        return !(runner->blockers[position] & runner->live) && !(runner->order[position] & runner->unoffered);
    case WEFT_STATE_OFFERED: {
        const struct weft_channel *channel = &machine->channels[runner->channels[position]];
        return step->kind == WEFT_STEP_RECV && channel->recv_first == (int8_t)position &&
               channel->send_first >= 0;
    }
    default:
        return 0;
    }
}

static int act(struct weft_machine *machine, struct weft_runner *runner, unsigned position)
{
    if (runner->states[position] == WEFT_STATE_OFFERED)
        return meet(machine, runner, position);
    if (runner->steps[position].kind == WEFT_STEP_REDUCE || runner->steps[position].kind == WEFT_STEP_COPY)
        return execute(machine, runner, position);
    offer(machine, runner, position);
    return WEFT_OK;
}

/* --- schedules ----------------------------------------------------------------------------------------- */

/* Lets a runner do all it can. */
static int advance(struct weft_machine *machine, struct weft_runner *runner)
{
    int status = fill(machine, runner), acted = 1;
    while (status == WEFT_OK && acted) {
        acted = 0;
        for (uint64_t left = runner->live; status == WEFT_OK && left; left &= left - 1) {
            unsigned position = (unsigned)__builtin_ctzll(left);
            if (!can_act(machine, runner, position))
                continue;
            status = act(machine, runner, position);
            acted = 1;
        }
        if (status == WEFT_OK)
            status = fill(machine, runner);
    }
    return status;
}

/* The eager schedule: runners in the order in which something happened to them. */
static int run_eager(struct weft_machine *machine)
{
    for (uint32_t i = 0; i < machine->runner_count; i++)
        wake(machine, &machine->runners[i]);
    while (machine->queue_count > 0) {
        struct weft_runner *runner = &machine->runners[machine->queue[machine->queue_first]];
        machine->queue_first = (machine->queue_first + 1) % machine->runner_count;
        machine->queue_count--;
        runner->queued = 0;
        int status = advance(machine, runner);
        if (status != WEFT_OK)
            return status;
    }
    return WEFT_OK;
}

/* Performs one thing that can happen, the first found from a random runner and position on. *acted: whether
 * there was any. slow: a mask of runners (by number modulo 64) that only act when no other can. */
static int act_randomly(struct weft_machine *machine, uint64_t slow, int *acted)
{
    uint64_t from = weft_random(&machine->random);
    unsigned turn = (unsigned)(weft_random(&machine->random) % machine->window);
    for (uint64_t i = 0; i < 2 * (uint64_t)machine->runner_count; i++) {
        struct weft_runner *runner = &machine->runners[(from + i) % machine->runner_count];
        if ((slow >> runner->rank % 64 & 1) && i < machine->runner_count)
            continue;
        int status = fill(machine, runner);
        if (status != WEFT_OK)
            return status;
        for (unsigned p = 0; p < machine->window; p++) {
            unsigned position = (p + turn) % machine->window;
            if (!(runner->live & bit(position)) || !can_act(machine, runner, position))
                continue;
            *acted = 1;
            return act(machine, runner, position);
        }
    }
    *acted = 0;
    return WEFT_OK;
}

static int run_random(struct weft_machine *machine)
{
    uint64_t slow = weft_random(&machine->random) & weft_random(&machine->random);
    for (int acted = 1; acted;) {
        int status = act_randomly(machine, slow, &acted);
        if (status != WEFT_OK)
            return status;
    }
    return WEFT_OK;
}

/* Names the oldest step of the first runner that is stuck, and what it waits for. */
static int stuck(struct weft_machine *machine)
{
    const struct weft_runner *runner = NULL;
    uint32_t count = 0;
    for (uint32_t i = machine->runner_count; i-- > 0;) {
        if (machine->runners[i].head != machine->runners[i].tail) {
            runner = &machine->runners[i];
            count++;
        }
    }
    if (!runner)
        return WEFT_OK;
    unsigned position = (unsigned)(runner->head % machine->window);
    const struct weft_step *step = &runner->steps[position];
    const char *wanted = "an earlier step";
    char text[160];
    if (runner->states[position] == WEFT_STATE_OFFERED)
        wanted = step->kind == WEFT_STEP_SEND ? "a RECV" : "a SEND";
    if (runner->states[position] == WEFT_STATE_MET)
        wanted = "its bytes to be read";
    const struct weft_runner *peer = NULL;
    if (step->kind <= WEFT_STEP_RECV)
        peer = runner_of(machine, (uint32_t)step->peer);
    if (peer && peer->ended && peer->head == peer->tail)
        snprintf(text, sizeof text, "is left over: rank %d has ended without a matching step", step->peer);
    else
        snprintf(text, sizeof text, "waits for ever for %s: deadlock with window %u (ranks stuck: %u)",
                 wanted, machine->window, machine->rotation ? machine->ranks : count);
    return fail_at(machine, runner, runner->head, text);
}

int weft_machine_run(struct weft_machine *machine, int shuffle)
{
    reset(machine);
    int status = shuffle ? run_random(machine) : run_eager(machine);
    if (status == WEFT_OK)
        status = stuck(machine);
    if (machine->unsupported)
        return weft_fail(WEFT_UNSUPPORTED, "contributions are not intervals of ranks");
    if (status != WEFT_OK)
        return status;
    uint32_t rank = 0;
    const char *wrong = weft_values_final(&machine->values, machine->expect, &machine->report->orders, &rank);
    if (machine->values.exhausted)
        return weft_fail(WEFT_NOMEM, "verifying %u ranks: no memory to check the order of sums",
                         machine->ranks);
    if (wrong) {
        machine->report->rank = rank;
        machine->report->step = machine->runners[machine->rotation ? 0 : rank].tail;
        return weft_fail(WEFT_INVALID, "rank %u %s", rank, wrong);
    }
    if (machine->rotation) {
        machine->report->steps *= machine->ranks;
        machine->report->messages *= machine->ranks;
    }
    return WEFT_OK;
}
