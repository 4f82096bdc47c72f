/* SPDX-License-Identifier: Apache-2.0 */
/* Where chunks lie: from the chunk numbers of a plan to bytes of the caller's buffers, of TEMP and of CELLs.
 *
 * A position is a place in the logical data of the whole collective, in bytes. Where all blocks are equal (and in even
 * collectives) a buffer is a straight window on it, so that an address is the buffer's origin plus a position. In an
 * unequal call every block of the two caller's buffers has a place and a length of its own, from the tables; TEMP and
 * the positions then follow the counts without their gaps.
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "comm/exec/layout.h"

/* TEMP and CELLs beyond this are given back when their operation ends. */
#define KEPT_BYTES ((size_t)32 << 20)

size_t weft_layout_unequal_length(const struct weft_layout *layout, const struct weft_step *step)
{
    const struct weft_ref *ref = step->kind == WEFT_STEP_SEND ? &step->sources[0] : &step->destination;
    const struct weft_side *side = weft_layout_side(layout, ref->buffer);
    if (step->span != 1)
        return weft_layout_place_of(layout, step->chunk + step->span) -
               weft_layout_place_of(layout, step->chunk);
    return side->lengths ? side->lengths[step->chunk] : layout->own;
}

struct weft_extent weft_layout_window(const struct weft_layout *layout, const struct weft_plan *plan,
                                      enum weft_buffer buffer)
{
    uint32_t first, count;
    weft_plan_window(plan, buffer, &first, &count);
    size_t begin = weft_layout_position(layout, first), end = weft_layout_position(layout, first + count);
    return (struct weft_extent){(uint8_t *)(layout->origins[buffer] + begin), end - begin};
}

/* From the first to the last of the blocks that are not empty. */
static void find_unequal_extent(struct weft_layout *layout, enum weft_buffer buffer, uint32_t first,
                                uint32_t count)
{
    const struct weft_side *side = weft_layout_side(layout, buffer);
    struct weft_extent *extent = &layout->extents[buffer];
    if (!side->starts) {
        extent->bytes = layout->own;
        return;
    }
    size_t low = SIZE_MAX, high = 0;
    for (uint32_t c = first; c < first + count; c++) {
        size_t end = side->starts[c] + side->lengths[c];
        if (side->lengths[c] && side->starts[c] < low)
            low = side->starts[c];
        high = side->lengths[c] && end > high ? end : high;
    }
    if (high > low) {
        extent->memory += low;
        extent->bytes = high - low;
    }
}

/* The bytes of the caller's buffer that the plan may touch. */
static void find_extent(struct weft_layout *layout, const struct weft_plan *plan, enum weft_buffer buffer,
                        const void *memory)
{
    uint32_t first, count;
    weft_plan_window(plan, buffer, &first, &count);
    size_t begin = layout->unequal ? 0 : weft_layout_position(layout, first);
    size_t end = layout->unequal ? 0 : weft_layout_position(layout, first + count);
    layout->origins[buffer] = (uintptr_t)memory - begin;
    layout->extents[buffer] = (struct weft_extent){(uint8_t *)(uintptr_t)memory, end - begin};
    if (layout->unequal && count)
        find_unequal_extent(layout, buffer, first, count);
}

/* In place the two buffers are one memory: both names stand for all of it. */
static void join_extents(struct weft_layout *layout)
{
    struct weft_extent *input = &layout->extents[WEFT_BUFFER_INPUT];
    struct weft_extent *output = &layout->extents[WEFT_BUFFER_OUTPUT];
    if (!input->bytes)
        *input = *output;
    if (!output->bytes)
        *output = *input;
    uintptr_t low = (uintptr_t)input->memory, high = low + input->bytes;
    uintptr_t other = (uintptr_t)output->memory, other_high = other + output->bytes;
    input->memory = (uint8_t *)(low < other ? low : other);
    input->bytes = (high > other_high ? high : other_high) - (uintptr_t)input->memory;
    *output = *input;
}

/* Byte lengths and places of one side's blocks, behind *table. */
static void fill_side(struct weft_side *side, const struct weft_exec_blocks *blocks, uint32_t ranks,
                      size_t element_bytes, size_t **table)
{
    side->starts = side->lengths = NULL;
    if (!blocks->counts)
        return;
    size_t *starts = *table, *lengths = *table + ranks, end = 0;
    *table += 2 * (size_t)ranks;
    for (uint32_t c = 0; c < ranks; c++) {
        lengths[c] = blocks->counts[c] * element_bytes;
        starts[c] = blocks->offsets ? blocks->offsets[c] * element_bytes : end;
        end += lengths[c];
    }
    side->starts = starts;
    side->lengths = lengths;
}

/* The space itself has the lengths of the side whose counts are known; of alltoall there are two, and nothing is named
 * in the space. */
static void fill_space(struct weft_layout *layout, const struct weft_plan *plan, size_t *table)
{
    const size_t *lengths = layout->output.lengths ? layout->output.lengths : layout->input.lengths;
    layout->space.lengths = lengths;
    layout->places = NULL;
    layout->cell_bytes = layout->own;
    if (!lengths || plan->collective == WEFT_ALLTOALL)
        return;
    table[0] = 0;
    for (uint32_t c = 0; c < plan->ranks; c++) {
        table[c + 1] = table[c] + lengths[c];
        layout->cell_bytes = lengths[c] > layout->cell_bytes ? lengths[c] : layout->cell_bytes;
    }
    layout->places = table;
}

static int fill_tables(struct weft_layout *layout, const struct weft_exec_request *request)
{
    const struct weft_plan *plan = request->plan;
    size_t entries = 5 * (size_t)plan->ranks + 1;
    if (layout->table_entries < entries) {
        free(layout->table);
        layout->table_entries = 0;
        layout->table = malloc(entries * sizeof(size_t));
        if (!layout->table)
            return weft_fail(WEFT_NOMEM, "no memory for the places of %u blocks", plan->ranks);
        layout->table_entries = entries;
    }
    size_t *table = layout->table;
    layout->own = request->count * request->element_bytes;
    fill_side(&layout->input, &request->input_blocks, plan->ranks, request->element_bytes, &table);
    fill_side(&layout->output, &request->output_blocks, plan->ranks, request->element_bytes, &table);
    fill_space(layout, plan, table);
    return WEFT_OK;
}

/* Where TEMP begins, or ends, among the positions. */
static size_t temp_edge(const struct weft_layout *layout, uint32_t chunk)
{
    return layout->unequal ? weft_layout_place_of(layout, chunk) : weft_layout_position(layout, chunk);
}

/* The host's is kept with the layout, a device's with the command queue. */
static int find_memory(struct weft_layout *layout, const struct weft_exec_request *request, size_t bytes,
                       uint8_t **memory)
{
    if (request->commands && !request->on_host)
        return weft_command_queue_memory(request->commands, WEFT_COMMAND_QUEUE_PLAN, bytes, (void **)memory);
    if (layout->own_bytes < bytes) {
        free(layout->memory);
        layout->own_bytes = 0;
        layout->memory = aligned_alloc(64, bytes);
        if (!layout->memory)
            return weft_fail(WEFT_NOMEM, "no memory for %zu bytes of intermediate results", bytes);
        layout->own_bytes = bytes;
    }
    *memory = layout->memory;
    return WEFT_OK;
}

/* weft's own memory: TEMP, then the cells. */
static int own_memory(struct weft_layout *layout, const struct weft_exec_request *request)
{
    const struct weft_plan *plan = request->plan;
    if (plan->cells == 0 && plan->temp_chunks == 0)
        return WEFT_OK;
    size_t first = temp_edge(layout, plan->temp_first), temp = temp_edge(layout, plan->temp_chunks) - first;
    if (plan->temp_chunks && layout->unequal && !layout->places)
        temp = layout->own; /* of its own block alone */
    temp = (temp + 63) / 64 * 64;
    size_t bytes = temp + plan->cells * layout->cell_bytes;
    uint8_t *memory;
    int status = find_memory(layout, request, bytes, &memory);
    if (status != WEFT_OK)
        return status;
    layout->origins[WEFT_BUFFER_TEMP] = (uintptr_t)memory - first;
    layout->cells = memory + temp;
    layout->extents[WEFT_BUFFER_TEMP] = (struct weft_extent){memory, bytes};
    layout->extents[WEFT_BUFFER_CELL] = layout->extents[WEFT_BUFFER_TEMP];
    return WEFT_OK;
}

/* A call without elements exchanges one element of nothing, so that the ranks compare the call. */
static int no_elements(struct weft_layout *layout, struct weft_exec_request *request)
{
    uint32_t firsts[2], chunks;
    size_t bytes[2];
    for (int b = 0; b < 2; b++) {
        weft_plan_window(request->plan, b ? WEFT_BUFFER_OUTPUT : WEFT_BUFFER_INPUT, &firsts[b], &chunks);
        bytes[b] = (firsts[b] + (size_t)chunks) * request->element_bytes;
    }
    if (layout->nothing_bytes < bytes[0] + bytes[1]) {
        free(layout->nothing);
        layout->nothing_bytes = 0;
        layout->nothing = calloc(1, bytes[0] + bytes[1]);
        if (!layout->nothing)
            return weft_fail(WEFT_NOMEM, "no memory for a call without elements");
        layout->nothing_bytes = bytes[0] + bytes[1];
    }
    request->count = 1;
    request->on_host = WEFT_SHADOW_NONE;
    request->user.reduce = NULL; /* the caller's function sees no elements that are not the caller's */
    request->reduce = NULL;
    request->input = layout->nothing + firsts[0] * request->element_bytes;
    request->output =
        layout->nothing + firsts[1] * request->element_bytes + (request->plan->in_place ? 0 : bytes[0]);
    return WEFT_OK;
}

int weft_layout_open(struct weft_layout *layout, struct weft_exec_request *request)
{
    const struct weft_plan *plan = request->plan;
    int blocks = weft_collective_blocks((enum weft_collective)plan->collective);
    layout->unequal = plan->unequal != 0;
    layout->sized = layout->unequal && (plan->collective == WEFT_GATHER || plan->collective == WEFT_SCATTER ||
                                        plan->collective == WEFT_ALLTOALL);
    layout->paired = layout->sized && plan->collective == WEFT_ALLTOALL;
    int status = WEFT_OK;
    if (request->call.sequence && request->count == 0 && !layout->unequal)
        status = no_elements(layout, request);
    if (status == WEFT_OK && layout->unequal)
        status = fill_tables(layout, request);
    if (status != WEFT_OK)
        return status;
    layout->element_bytes = request->element_bytes;
    layout->chunks = plan->chunks;
    layout->quotient = (blocks ? request->count : request->count / plan->chunks) * request->element_bytes;
    layout->remainder = blocks ? 0 : request->count % plan->chunks;
    if (!layout->unequal)
        layout->cell_bytes = layout->quotient + (layout->remainder ? request->element_bytes : 0);
    layout->cell_bytes = (layout->cell_bytes + 63) / 64 * 64;
    find_extent(layout, plan, WEFT_BUFFER_INPUT, request->input);
    find_extent(layout, plan, WEFT_BUFFER_OUTPUT, request->output);
    if (plan->in_place)
        join_extents(layout);
    return own_memory(layout, request);
}

void weft_layout_end(struct weft_layout *layout)
{
    if (layout->own_bytes <= KEPT_BYTES)
        return;
    free(layout->memory);
    layout->memory = NULL;
    layout->own_bytes = 0;
}

void weft_layout_close(struct weft_layout *layout)
{
    free(layout->table);
    free(layout->memory);
    free(layout->nothing);
}
