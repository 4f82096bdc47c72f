/* SPDX-License-Identifier: Apache-2.0 */
/* Puts plans together: the generators' only way to write records.
 *
 * The first error (out of memory, a loop left open or nested) sticks: later calls do nothing, and
 * weft_builder_finish() returns it, so that generators read as a plain list of steps. The bounds of TEMP and
 * the number of cells follow from the references. Threads: a builder belongs to one thread.
 */
#ifndef WEFT_ALGOS_BUILDER_H
#define WEFT_ALGOS_BUILDER_H

#include "algos/plan.h"

struct weft_builder {
    struct weft_plan *plan;
    uint32_t capacity; /* records that plan has room for */
    uint32_t loop;     /* index of the open LOOP record, WEFT_BUILDER_NO_LOOP when none is open */
    int status;
    /* Rounds: */
    uint32_t round;        /* first record of the round that is being written */
    uint32_t folded;       /* first record of the body that stands for the rounds before it */
    uint32_t folded_body;  /* its records; 0: none yet */
    uint32_t folded_count; /* rounds that it stands for */
};

#define WEFT_BUILDER_NO_LOOP UINT32_MAX

/* Which chunks a step works on. */
struct weft_range {
    uint32_t chunk;
    uint32_t span;
    int32_t stride; /* per loop iteration */
};

static inline struct weft_range weft_range(uint32_t chunk, uint32_t span, int32_t stride)
{
    return (struct weft_range){chunk, span, stride};
}

static inline struct weft_ref weft_in(enum weft_buffer buffer)
{
    return (struct weft_ref){.buffer = (uint8_t)buffer};
}

static inline struct weft_ref weft_slot(uint32_t slot, int stride)
{
    return (struct weft_ref){
        .buffer = WEFT_BUFFER_SLOT, .slot = (uint16_t)slot, .slot_stride = (int16_t)stride};
}

static inline struct weft_ref weft_cell_ref(uint32_t cell, int stride)
{
    return (struct weft_ref){
        .buffer = WEFT_BUFFER_CELL, .slot = (uint16_t)cell, .slot_stride = (int16_t)stride};
}

/* Starts an empty plan for the request. */
void weft_builder_start(struct weft_builder *builder, const struct weft_plan_request *request,
                        uint32_t chunks, uint32_t slots);
/* How many cells the plan has, where loops name them by strides. */
void weft_builder_cells(struct weft_builder *builder, uint32_t cells);

void weft_builder_send(struct weft_builder *builder, uint32_t peer, struct weft_range range,
                       struct weft_ref source);
void weft_builder_recv(struct weft_builder *builder, uint32_t peer, struct weft_range range,
                       struct weft_ref destination);
/* The same in a loop in which the peer moves by peer_stride. */
void weft_builder_send_by(struct weft_builder *builder, uint32_t peer, int32_t peer_stride,
                          struct weft_range range, struct weft_ref source);
void weft_builder_recv_by(struct weft_builder *builder, uint32_t peer, int32_t peer_stride,
                          struct weft_range range, struct weft_ref destination);
/* destination = first op second. */
void weft_builder_reduce(struct weft_builder *builder, struct weft_range range, struct weft_ref destination,
                         struct weft_ref first, struct weft_ref second, unsigned flags);
/* destination = (first op second) op third. */
void weft_builder_reduce3(struct weft_builder *builder, struct weft_range range, struct weft_ref destination,
                          struct weft_ref first, struct weft_ref second, struct weft_ref third,
                          unsigned flags);
void weft_builder_copy(struct weft_builder *builder, struct weft_range range, struct weft_ref destination,
                       struct weft_ref source, unsigned flags);
/* Copies the range that begins at from (and moves by from_stride) to the range. */
void weft_builder_move(struct weft_builder *builder, struct weft_range range, struct weft_ref destination,
                       struct weft_ref source, uint32_t from, int32_t from_stride);

/* Everything appended between these two is the body of a LOOP. */
void weft_builder_loop(struct weft_builder *builder, uint32_t iterations);
void weft_builder_loop_end(struct weft_builder *builder);

/* A list of rounds, written out one by one, that become loops where they can: a round that is the one before, but for
 * chunks, slots and cells that move by a constant (modulo their number), adds an iteration to it. rounds() begins the list,
 * round_end() follows each of its rounds. Slots and cells must have been counted by then. */
void weft_builder_rounds(struct weft_builder *builder);
void weft_builder_round_end(struct weft_builder *builder);

/* Hands the plan over (weft_plan_free() frees it), or frees it and returns the error. */
int weft_builder_finish(struct weft_builder *builder, struct weft_plan **plan);

#endif
