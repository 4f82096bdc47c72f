/* SPDX-License-Identifier: Apache-2.0 */
#include "algos/proof/verify_machine.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "algos/hazard.h"
#include "algos/step_print.h"
#include "base/error.h"

static int fail_at(struct weft_machine *machine, const struct weft_lane *lane, uint64_t number,
                   const char *wrong)
{
    char text[128];
    weft_step_print(&lane->steps[number % machine->window], text, sizeof text);
    machine->report->rank = lane->rank;
    machine->report->step = number;
    return weft_fail(WEFT_INVALID, "rank %u step %" PRIu64 " (%s) %s", lane->rank, number, text, wrong);
}

static uint64_t bit(unsigned position)
{
    return 1ull << position;
}

/* The number of the step at a position of the window. */
static uint64_t number_at(const struct weft_machine *machine, const struct weft_lane *lane, unsigned position)
{
    unsigned head = (unsigned)(lane->head % machine->window);
    return lane->head + (position + machine->window - head) % machine->window;
}

/* --- opening ------------------------------------------------------------------------------------------- */

/* Cuts *memory (advancing it) into the arrays of a lane; with memory NULL only measures. */
static void *carve(unsigned char **memory, size_t size)
{
    unsigned char *piece = *memory;
    *memory = piece + (size + 7) / 8 * 8;
    return piece;
}

static size_t lane_size(const struct weft_machine *machine, const struct weft_plan *plan)
{
    size_t window = machine->window;
    return window * (sizeof(struct weft_step) + 2 * sizeof(uint64_t) + sizeof(uint32_t) + 2) + 5 * 8 +
           plan->slots * sizeof(struct weft_machine_slot);
}

static void lane_place(const struct weft_machine *machine, struct weft_lane *lane, unsigned char **memory)
{
    size_t window = machine->window;
    lane->steps = carve(memory, window * sizeof *lane->steps);
    lane->blockers = carve(memory, window * sizeof *lane->blockers);
    lane->order = carve(memory, window * sizeof *lane->order);
    lane->channels = carve(memory, window * sizeof *lane->channels);
    lane->states = carve(memory, window);
    lane->next = carve(memory, window);
    lane->slots = carve(memory, lane->plan->slots * sizeof *lane->slots);
}

int weft_machine_open(struct weft_machine *machine, const struct weft_plan *const *plans, uint32_t ranks,
                      int rotation, const struct weft_verify_options *options,
                      struct weft_verify_report *report)
{
    *machine = (struct weft_machine){.plans = plans,
                                     .ranks = ranks,
                                     .lane_count = rotation ? 1 : ranks,
                                     .window = options->window,
                                     .rotation = rotation,
                                     .random = options->seed,
                                     .expect = options->expect,
                                     .report = report};
    int status = weft_values_open(&machine->values, plans, ranks, rotation, options);
    if (status != WEFT_OK)
        return status;
    size_t size = 0;
    for (uint32_t i = 0; i < machine->lane_count; i++)
        size += lane_size(machine, plans[i]);
    machine->lanes = calloc(machine->lane_count, sizeof *machine->lanes);
    machine->queue = calloc(machine->lane_count, sizeof *machine->queue);
    machine->lane_memory = calloc(1, size);
    machine->channel_capacity = 64;
    machine->channels = calloc(machine->channel_capacity, sizeof *machine->channels);
    machine->channel_index = calloc(2 * (size_t)machine->channel_capacity, sizeof(uint32_t));
    if (!machine->lanes || !machine->queue || !machine->lane_memory || !machine->channels ||
        !machine->channel_index) {
        weft_machine_close(machine);
        return weft_fail(WEFT_NOMEM, "verifying %u ranks: no memory for their windows", ranks);
    }
    unsigned char *memory = machine->lane_memory;
    for (uint32_t i = 0; i < machine->lane_count; i++) {
        machine->lanes[i].rank = i;
        machine->lanes[i].plan = plans[i];
        lane_place(machine, &machine->lanes[i], &memory);
    }
    return WEFT_OK;
}

void weft_machine_close(struct weft_machine *machine)
{
    weft_values_close(&machine->values);
    free(machine->lanes);
    free(machine->queue);
    free(machine->lane_memory);
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
    for (uint32_t i = 0; i < machine->lane_count; i++) {
        struct weft_lane *lane = &machine->lanes[i];
        weft_cursor_start(&lane->cursor, lane->plan);
        lane->head = lane->tail = lane->live = lane->unoffered = lane->transfers = 0;
        lane->ended = 0;
        lane->queued = 0;
        memset(lane->slots, 0, lane->plan->slots * sizeof *lane->slots);
        memset(lane->cells, 0, sizeof lane->cells);
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
static int channel_of(struct weft_machine *machine, const struct weft_lane *lane,
                      const struct weft_step *step, uint32_t *number)
{
    uint32_t peer = (uint32_t)step->peer, n = machine->ranks;
    int sends = step->kind == WEFT_STEP_SEND;
    uint64_t key = sends ? (uint64_t)lane->rank << 32 | peer : (uint64_t)peer << 32 | lane->rank;
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
static int enter_links(struct weft_machine *machine, struct weft_lane *lane, unsigned position)
{
    const struct weft_step *step = &lane->steps[position];
    int transfers = step->kind == WEFT_STEP_SEND || step->kind == WEFT_STEP_RECV;
    uint64_t blockers = 0, order = 0;
    for (uint64_t left = lane->live; left; left &= left - 1) {
        unsigned other = (unsigned)__builtin_ctzll(left);
        const struct weft_step *earlier = &lane->steps[other];
        lane->blockers[other] &= ~bit(position); /* the position's former step is done */
        lane->order[other] &= ~bit(position);
        if (weft_step_conflicts(earlier, step, (int)lane->plan->in_place))
            blockers |= bit(other);
        if (transfers && earlier->kind == step->kind && earlier->peer == step->peer)
            order |= bit(other);
    }
    lane->blockers[position] = blockers;
    lane->order[position] = order & lane->unoffered;
    lane->states[position] = WEFT_STATE_WAITING;
    lane->next[position] = -1;
    lane->live |= bit(position);
    if (!transfers)
        return WEFT_OK;
    lane->unoffered |= bit(position);
    machine->report->messages += step->kind == WEFT_STEP_SEND;
    return channel_of(machine, lane, step, &lane->channels[position]);
}

static int leftover_slot(struct weft_machine *machine, const struct weft_lane *lane)
{
    for (uint32_t i = 0; i < lane->plan->slots; i++) {
        if (!lane->slots[i].full)
            continue;
        machine->report->rank = lane->rank;
        machine->report->step = lane->tail;
        return weft_fail(WEFT_INVALID, "rank %u ends with slot %u received but never read", lane->rank, i);
    }
    return WEFT_OK;
}

/* Lets steps enter while the window has room. */
static int fill(struct weft_machine *machine, struct weft_lane *lane)
{
    while (!lane->ended && lane->tail - lane->head < machine->window) {
        unsigned position = (unsigned)(lane->tail % machine->window);
        struct weft_step *step = &lane->steps[position];
        if (!weft_cursor_next(&lane->cursor, step)) {
            lane->ended = 1;
            return leftover_slot(machine, lane);
        }
        const char *wrong = weft_lane_check(lane, step);
        if (wrong)
            return fail_at(machine, lane, lane->tail, wrong);
        int status = enter_links(machine, lane, position);
        if (status != WEFT_OK)
            return status;
        lane->tail++;
        machine->report->steps++;
        lane->transfers = lane->transfers << 1 | (step->kind <= WEFT_STEP_RECV);
        uint64_t mask = machine->window == 64 ? UINT64_MAX : bit(machine->window) - 1;
        uint32_t in_flight = (uint32_t)__builtin_popcountll(lane->transfers & mask);
        if (in_flight > machine->report->in_flight_max)
            machine->report->in_flight_max = in_flight;
    }
    return WEFT_OK;
}

/* --- acting -------------------------------------------------------------------------------------------- */

static struct weft_lane *lane_of(struct weft_machine *machine, uint32_t rank)
{
    return &machine->lanes[machine->rotation ? 0 : rank];
}

static void wake(struct weft_machine *machine, struct weft_lane *lane)
{
    if (lane->queued)
        return;
    uint32_t at = (uint32_t)(((uint64_t)machine->queue_first + machine->queue_count) % machine->lane_count);
    machine->queue[at] = (uint32_t)(lane - machine->lanes);
    machine->queue_count++;
    lane->queued = 1;
}

/* The step at position is done; the window slides over all that are. */
static void finish(struct weft_machine *machine, struct weft_lane *lane, unsigned position)
{
    lane->states[position] = WEFT_STATE_DONE;
    lane->live &= ~bit(position);
    while (lane->head < lane->tail && !(lane->live & bit((unsigned)(lane->head % machine->window))))
        lane->head++;
    wake(machine, lane);
}

/* Where the SEND at the sender's position reads, as seen by the receiver, which has it as chunk. */
static struct weft_spot place_of(struct weft_machine *machine, uint32_t sender, unsigned position,
                                 uint32_t chunk)
{
    struct weft_lane *from = lane_of(machine, sender);
    const struct weft_step *send = &from->steps[position];
    uint32_t chunks = machine->values.chunks;
    return (struct weft_spot){
        .lane = from->rank,
        .buffer = send->sources[0].buffer,
        .cell = send->sources[0].slot,
        .shift = (uint32_t)(((uint64_t)send->chunk + chunks - chunk) % chunks),
        .rotate = machine->rotation ? sender : 0,
    };
}

static int apply(struct weft_machine *machine, struct weft_lane *lane, unsigned position,
                 const struct weft_spot *sources, int source_count)
{
    const char *wrong =
        weft_values_apply(&machine->values, machine->rotation ? 0 : lane->rank, &lane->steps[position],
                          sources, source_count, &machine->unsupported);
    if (machine->values.exhausted)
        return weft_fail(WEFT_NOMEM, "verifying %u ranks needs more than %" PRIu64 " bytes", machine->ranks,
                         machine->values.memory_max);
    return wrong ? fail_at(machine, lane, number_at(machine, lane, position), wrong) : WEFT_OK;
}

/* REDUCE and COPY: compute, and let the SENDs behind emptied slots go. */
static int execute(struct weft_machine *machine, struct weft_lane *lane, unsigned position)
{
    const struct weft_step *step = &lane->steps[position];
    struct weft_spot sources[WEFT_STEP_SOURCES_MAX];
    uint32_t chunks = machine->values.chunks;
    for (int i = 0; i < step->source_count; i++) {
        sources[i] = (struct weft_spot){
            .lane = lane->rank, .buffer = step->sources[i].buffer, .cell = step->sources[i].slot};
        if (weft_step_moves(step))
            sources[i].shift = (uint32_t)(((uint64_t)step->from + chunks - step->chunk) % chunks);
        if (step->sources[i].buffer == WEFT_BUFFER_SLOT) {
            const struct weft_machine_slot *slot = &lane->slots[step->sources[i].slot];
            sources[i] = place_of(machine, slot->sender, slot->sender_position, step->chunk);
        }
    }
    int status = apply(machine, lane, position, sources, step->source_count);
    for (int i = 0; status == WEFT_OK && i < step->source_count; i++) {
        if (step->sources[i].buffer != WEFT_BUFFER_SLOT)
            continue;
        struct weft_machine_slot *slot = &lane->slots[step->sources[i].slot];
        finish(machine, lane_of(machine, slot->sender), slot->sender_position);
    }
    finish(machine, lane, position);
    return status;
}

static void offer(struct weft_machine *machine, struct weft_lane *lane, unsigned position)
{
    struct weft_channel *channel = &machine->channels[lane->channels[position]];
    int sends = lane->steps[position].kind == WEFT_STEP_SEND;
    int8_t *first = sends ? &channel->send_first : &channel->recv_first;
    int8_t *last = sends ? &channel->send_last : &channel->recv_last;
    lane->states[position] = WEFT_STATE_OFFERED;
    lane->unoffered &= ~bit(position);
    if (*first < 0)
        *first = (int8_t)position;
    else
        lane->next[*last] = (int8_t)position;
    *last = (int8_t)position;
    if (sends)
        wake(machine, lane_of(machine, (uint32_t)lane->steps[position].peer));
}

/* The first RECV of a channel meets the first SEND. */
static int meet(struct weft_machine *machine, struct weft_lane *lane, unsigned position)
{
    const struct weft_step *step = &lane->steps[position];
    struct weft_channel *channel = &machine->channels[lane->channels[position]];
    uint32_t sender = (uint32_t)step->peer;
    struct weft_lane *from = lane_of(machine, sender);
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
        return fail_at(machine, lane, number_at(machine, lane, position), whole);
    }
    channel->recv_first = lane->next[position];
    channel->send_first = from->next[send];
    from->states[send] = WEFT_STATE_MET;
    if (step->destination.buffer == WEFT_BUFFER_SLOT) {
        struct weft_machine_slot *slot = &lane->slots[step->destination.slot];
        slot->sender = sender;
        slot->sender_position = (uint8_t)send;
        finish(machine, lane, position);
        return WEFT_OK;
    }
    struct weft_spot source = place_of(machine, sender, send, step->chunk);
    int status = apply(machine, lane, position, &source, 1);
    finish(machine, from, send);
    finish(machine, lane, position);
    return status;
}

/* Whether the step at position can act now. */
static int can_act(const struct weft_machine *machine, const struct weft_lane *lane, unsigned position)
{
    const struct weft_step *step = &lane->steps[position];
    switch (lane->states[position]) {
    case WEFT_STATE_WAITING:
        return !(lane->blockers[position] & lane->live) && !(lane->order[position] & lane->unoffered);
    case WEFT_STATE_OFFERED: {
        const struct weft_channel *channel = &machine->channels[lane->channels[position]];
        return step->kind == WEFT_STEP_RECV && channel->recv_first == (int8_t)position &&
               channel->send_first >= 0;
    }
    default:
        return 0;
    }
}

static int act(struct weft_machine *machine, struct weft_lane *lane, unsigned position)
{
    if (lane->states[position] == WEFT_STATE_OFFERED)
        return meet(machine, lane, position);
    if (lane->steps[position].kind == WEFT_STEP_REDUCE || lane->steps[position].kind == WEFT_STEP_COPY)
        return execute(machine, lane, position);
    offer(machine, lane, position);
    return WEFT_OK;
}

/* --- schedules ----------------------------------------------------------------------------------------- */

/* Lets a lane do all it can. */
static int advance(struct weft_machine *machine, struct weft_lane *lane)
{
    int status = fill(machine, lane), acted = 1;
    while (status == WEFT_OK && acted) {
        acted = 0;
        for (uint64_t left = lane->live; status == WEFT_OK && left; left &= left - 1) {
            unsigned position = (unsigned)__builtin_ctzll(left);
            if (!can_act(machine, lane, position))
                continue;
            status = act(machine, lane, position);
            acted = 1;
        }
        if (status == WEFT_OK)
            status = fill(machine, lane);
    }
    return status;
}

/* The eager schedule: lanes in the order in which something happened to them. */
static int run_eager(struct weft_machine *machine)
{
    for (uint32_t i = 0; i < machine->lane_count; i++)
        wake(machine, &machine->lanes[i]);
    while (machine->queue_count > 0) {
        struct weft_lane *lane = &machine->lanes[machine->queue[machine->queue_first]];
        machine->queue_first = (machine->queue_first + 1) % machine->lane_count;
        machine->queue_count--;
        lane->queued = 0;
        int status = advance(machine, lane);
        if (status != WEFT_OK)
            return status;
    }
    return WEFT_OK;
}

static uint64_t draw(struct weft_machine *machine)
{
    uint64_t x = machine->random += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

/* Performs one thing that can happen, the first found from a random lane and position on. *acted: whether
 * there was any. slow: a mask of lanes (by number modulo 64) that only act when no other can. */
static int act_randomly(struct weft_machine *machine, uint64_t slow, int *acted)
{
    uint64_t from = draw(machine);
    unsigned turn = (unsigned)(draw(machine) % machine->window);
    for (uint64_t i = 0; i < 2 * (uint64_t)machine->lane_count; i++) {
        struct weft_lane *lane = &machine->lanes[(from + i) % machine->lane_count];
        if ((slow >> lane->rank % 64 & 1) && i < machine->lane_count)
            continue;
        int status = fill(machine, lane);
        if (status != WEFT_OK)
            return status;
        for (unsigned p = 0; p < machine->window; p++) {
            unsigned position = (p + turn) % machine->window;
            if (!(lane->live & bit(position)) || !can_act(machine, lane, position))
                continue;
            *acted = 1;
            return act(machine, lane, position);
        }
    }
    *acted = 0;
    return WEFT_OK;
}

static int run_random(struct weft_machine *machine)
{
    uint64_t slow = draw(machine) & draw(machine);
    for (int acted = 1; acted;) {
        int status = act_randomly(machine, slow, &acted);
        if (status != WEFT_OK)
            return status;
    }
    return WEFT_OK;
}

/* Names the oldest step of the first lane that is stuck, and what it waits for. */
static int stuck(struct weft_machine *machine)
{
    const struct weft_lane *lane = NULL;
    uint32_t count = 0;
    for (uint32_t i = machine->lane_count; i-- > 0;) {
        if (machine->lanes[i].head != machine->lanes[i].tail) {
            lane = &machine->lanes[i];
            count++;
        }
    }
    if (!lane)
        return WEFT_OK;
    unsigned position = (unsigned)(lane->head % machine->window);
    const struct weft_step *step = &lane->steps[position];
    const char *wanted = "an earlier step";
    char text[160];
    if (lane->states[position] == WEFT_STATE_OFFERED)
        wanted = step->kind == WEFT_STEP_SEND ? "a RECV" : "a SEND";
    if (lane->states[position] == WEFT_STATE_MET)
        wanted = "its bytes to be read";
    const struct weft_lane *peer = NULL;
    if (step->kind <= WEFT_STEP_RECV)
        peer = lane_of(machine, (uint32_t)step->peer);
    if (peer && peer->ended && peer->head == peer->tail)
        snprintf(text, sizeof text, "is left over: rank %d has ended without a matching step", step->peer);
    else
        snprintf(text, sizeof text, "waits for ever for %s: deadlock with window %u (ranks stuck: %u)",
                 wanted, machine->window, machine->rotation ? machine->ranks : count);
    return fail_at(machine, lane, lane->head, text);
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
        machine->report->step = machine->lanes[machine->rotation ? 0 : rank].tail;
        return weft_fail(WEFT_INVALID, "rank %u %s", rank, wrong);
    }
    if (machine->rotation) {
        machine->report->steps *= machine->ranks;
        machine->report->messages *= machine->ranks;
    }
    return WEFT_OK;
}
