/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/collective_case.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STAYS  ((int32_t)0xa5a5a5a5)
#define BEHIND 16 /* elements after a buffer */
#define GAP    3

static uint32_t mix(uint32_t a, uint32_t b)
{
    uint32_t mixed = a * 2654435761u ^ (b + 0x9e3779b9u) * 2246822519u;
    return (mixed ^ mixed >> 15) * 3266489917u;
}

/* Adds what a rank passes for a chunk (0 in even collectives). */
static void add_values(const struct case_shape *shape, uint32_t rank, uint32_t chunk, int32_t *block,
                       size_t count)
{
    const uint32_t row = mix(rank + shape->seed, chunk);
    for (size_t i = 0; i < count; i++)
        block[i] = (int32_t)((uint32_t)block[i] + mix(row, (uint32_t)i));
}

static void add_sums(const struct case_shape *shape, uint32_t chunk, int32_t *block, size_t count)
{
    for (uint32_t r = 0; r < shape->ranks; r++)
        add_values(shape, r, chunk, block, count);
}

/* Elements of block c of a rank's buffer. */
static size_t count_of(const struct case_shape *shape, uint32_t rank, enum weft_buffer buffer, uint32_t c)
{
    if (!shape->unequal)
        return shape->count;
    const size_t sizes[] = {0, 1, shape->count / 2, shape->count, 2 * shape->count + 7};
    uint32_t pair = c;
    if (shape->collective == WEFT_ALLTOALL)
        pair = buffer == WEFT_BUFFER_INPUT ? rank * 64 + c : c * 64 + rank;
    return sizes[(mix(pair, shape->seed) >> 8) % 5];
}

static void window_of(const struct case_shape *shape, uint32_t rank, enum weft_buffer buffer, uint32_t *first,
                      uint32_t *count)
{
    const struct weft_plan plan = {
        .collective = shape->collective,
        .ranks = shape->ranks,
        .rank = rank,
        .chunks = weft_collective_blocks(shape->collective) ? shape->ranks : 1,
        .root = shape->root,
    };
    weft_plan_window(&plan, buffer, first, count);
}

static void *get(size_t size)
{
    void *memory = malloc(size + 1);
    if (!memory)
        abort();
    return memory;
}

/* Where block c begins in a buffer. */
static size_t offset_of(const struct case_shape *shape, const struct case_buffer *buffer, uint32_t first,
                        uint32_t c)
{
    if (buffer->offsets)
        return buffer->offsets[c];
    if (!buffer->counts)
        return (c - first) * shape->count;
    size_t offset = 0;
    for (uint32_t b = 0; b < c; b++)
        offset += buffer->counts[b];
    return offset;
}

/* Counts and places of the blocks; sets elements. */
static void lay_out(const struct case_shape *shape, uint32_t rank, enum weft_buffer which,
                    struct case_buffer *buffer)
{
    uint32_t first, count;
    window_of(shape, rank, which, &first, &count);
    int own = count == 1 && weft_collective_blocks(shape->collective) && shape->collective != WEFT_ALLTOALL &&
              (which == WEFT_BUFFER_INPUT) ==
                  (shape->collective == WEFT_ALLGATHER || shape->collective == WEFT_GATHER);
    if (!shape->unequal || own) {
        buffer->elements = count ? count_of(shape, rank, which, first) * count : 0;
        return;
    }
    buffer->counts = get(shape->ranks * sizeof(size_t));
    buffer->offsets = shape->unequal == 2 ? get(shape->ranks * sizeof(size_t)) : NULL;
    for (uint32_t b = 0; b < shape->ranks; b++) {
        uint32_t c = shape->unequal == 2 ? shape->ranks - 1 - b : b;
        buffer->counts[c] = count_of(shape, rank, which, c);
        if (buffer->offsets)
            buffer->offsets[c] = buffer->elements + GAP;
        buffer->elements += buffer->counts[c] + (buffer->offsets ? GAP : 0);
    }
}

static void paint(struct case_buffer *buffer)
{
    buffer->whole = get((buffer->elements + BEHIND) * sizeof(int32_t));
    for (size_t i = 0; i < buffer->elements + BEHIND; i++)
        buffer->whole[i] = STAYS;
    buffer->memory = buffer->whole;
}

/* Puts both buffers into the larger one's memory. */
static void join(const struct case_shape *shape, uint32_t rank, struct case_rank *made)
{
    struct case_buffer *large = &made->input, *small = &made->output;
    if (shape->collective == WEFT_ALLGATHER || shape->collective == WEFT_GATHER) {
        large = &made->output;
        small = &made->input;
    }
    paint(large);
    int own = weft_collective_blocks(shape->collective) && shape->collective != WEFT_ALLTOALL;
    small->memory = large->memory + (own ? offset_of(shape, large, 0, rank) : 0);
    made->in_place = 1;
}

void case_make(const struct case_shape *shape, uint32_t rank, struct case_rank *made)
{
    uint32_t first, ins, outs;
    *made = (struct case_rank){.count = count_of(shape, rank, WEFT_BUFFER_INPUT, rank)};
    window_of(shape, rank, WEFT_BUFFER_OUTPUT, &first, &outs);
    window_of(shape, rank, WEFT_BUFFER_INPUT, &first, &ins);
    if (ins)
        lay_out(shape, rank, WEFT_BUFFER_INPUT, &made->input);
    if (outs)
        lay_out(shape, rank, WEFT_BUFFER_OUTPUT, &made->output);
    if (shape->in_place && ins && outs) {
        join(shape, rank, made);
    } else {
        if (ins)
            paint(&made->input);
        if (outs)
            paint(&made->output);
    }
    for (uint32_t c = first; c < first + ins; c++) {
        int32_t *block = made->input.memory + offset_of(shape, &made->input, first, c);
        uint32_t chunk = weft_collective_blocks(shape->collective) ? c : 0;
        size_t count = count_of(shape, rank, WEFT_BUFFER_INPUT, c);
        memset(block, 0, count * sizeof *block);
        add_values(shape, rank, chunk, block, count);
    }
}

void case_free(struct case_rank *made)
{
    struct case_buffer *buffers[2] = {&made->input, &made->output};
    for (int b = 0; b < 2; b++) {
        free(buffers[b]->whole);
        free(buffers[b]->counts);
        free(buffers[b]->offsets);
    }
}

/* What a rank's block of the output becomes. */
static void expect(const struct case_shape *shape, uint32_t rank, uint32_t chunk, int32_t *block,
                   size_t count)
{
    memset(block, 0, count * sizeof *block);
    switch (shape->collective) {
    case WEFT_BROADCAST:
        add_values(shape, (uint32_t)shape->root, 0, block, count);
        break;
    case WEFT_ALLGATHER:
    case WEFT_GATHER:
        add_values(shape, chunk, chunk, block, count);
        break;
    case WEFT_SCATTER:
        add_values(shape, (uint32_t)shape->root, rank, block, count);
        break;
    case WEFT_REDUCE_SCATTER:
        add_sums(shape, rank, block, count);
        break;
    case WEFT_ALLTOALL:
        add_values(shape, chunk, rank, block, count);
        break;
    default:
        add_sums(shape, 0, block, count);
    }
}

static size_t differ(const struct case_buffer *a, const struct case_buffer *b)
{
    size_t wrong = 0;
    for (size_t i = 0; a->whole && i < a->elements + BEHIND; i++)
        wrong += a->whole[i] != b->whole[i];
    return wrong;
}

size_t case_wrong(const struct case_shape *shape, uint32_t rank, const struct case_rank *made)
{
    struct case_rank right;
    uint32_t first, outs;
    case_make(shape, rank, &right);
    window_of(shape, rank, WEFT_BUFFER_OUTPUT, &first, &outs);
    for (uint32_t c = first; c < first + outs; c++) {
        int32_t *block = right.output.memory + offset_of(shape, &right.output, first, c);
        expect(shape, rank, c, block, count_of(shape, rank, WEFT_BUFFER_OUTPUT, c));
    }
    size_t wrong = shape->collective == WEFT_BARRIER
                       ? 0
                       : differ(&made->input, &right.input) + differ(&made->output, &right.output);
    case_free(&right);
    return wrong;
}

const char *case_name(const struct case_shape *shape, char *text, size_t capacity)
{
    snprintf(text, capacity, "%s of %u ranks, root %d, %zu elements%s%s%s, seed %u",
             weft_collective_name(shape->collective), shape->ranks, shape->root, shape->count,
             shape->unequal ? ", unequal" : "", shape->unequal == 2 ? " with gaps" : "",
             shape->in_place ? ", in place" : "", shape->seed);
    return text;
}
