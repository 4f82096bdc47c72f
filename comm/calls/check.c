/* SPDX-License-Identifier: Apache-2.0 */
/* What is wrong with a call's arguments: named with the value and what was expected, before anything is counted or sent. */
#include <stdio.h>
#include <stdlib.h>

#include "comm/calls/collective.h"
#include "comm/calls/op.h"

#define BYTES_MAX (SIZE_MAX / 2)

static int owns_block(enum weft_collective collective, int receiving)
{
    return receiving ? collective == WEFT_SCATTER || collective == WEFT_REDUCE_SCATTER
                     : collective == WEFT_ALLGATHER || collective == WEFT_GATHER;
}

/* How many blocks of `count` elements the buffer holds; 0 where the rank passes none. */
static size_t blocks_in(const struct weft_comm *comm, const struct weft_operands *operands, int receiving)
{
    const struct weft_plan plan = {.collective = operands->collective,
                                   .ranks = (uint32_t)comm->ranks,
                                   .rank = (uint32_t)comm->rank,
                                   .chunks = 1,
                                   .root = operands->root};
    uint32_t first, count;
    weft_plan_window(&plan, receiving ? WEFT_BUFFER_OUTPUT : WEFT_BUFFER_INPUT, &first, &count);
    return count;
}

size_t weft_operands_count(const struct weft_operands *operands, const struct weft_exec_blocks *blocks,
                           uint32_t block)
{
    return blocks->counts ? blocks->counts[block] : operands->count;
}

size_t weft_operands_offset(const struct weft_operands *operands, const struct weft_exec_blocks *blocks,
                            uint32_t block)
{
    if (!blocks->counts)
        return block * operands->count;
    if (blocks->offsets)
        return blocks->offsets[block];
    size_t offset = 0;
    for (uint32_t b = 0; b < block; b++)
        offset += blocks->counts[b];
    return offset;
}

size_t weft_operands_next(const struct weft_operands *operands, const struct weft_exec_blocks *blocks,
                          uint32_t block, size_t *end)
{
    size_t offset = blocks->counts && blocks->offsets ? blocks->offsets[block] : *end;
    *end = offset + weft_operands_count(operands, blocks, block);
    return offset;
}

size_t weft_operands_sum(const struct weft_operands *operands, const struct weft_exec_blocks *blocks,
                         size_t count)
{
    size_t sum = 0;
    for (size_t b = 0; b < count; b++)
        sum += weft_operands_count(operands, blocks, (uint32_t)b);
    return sum;
}

size_t weft_operands_extent(const struct weft_operands *operands, const struct weft_exec_blocks *blocks,
                            size_t count, size_t *first)
{
    size_t low = SIZE_MAX, high = 0, end = 0;
    *first = 0;
    if (!blocks->counts)
        return count * operands->count;
    for (uint32_t b = 0; b < count; b++) {
        size_t offset = weft_operands_next(operands, blocks, b, &end);
        if (blocks->counts[b] == 0)
            continue;
        low = offset < low ? offset : low;
        high = end > high ? end : high;
    }
    if (high == 0)
        return 0;
    *first = low;
    return high - low;
}

/* FNV-1a over the numbers, word by word. */
uint64_t weft_counts_hash(const size_t *counts, size_t many)
{
    uint64_t hash = 0xcbf29ce484222325u;
    for (size_t i = 0; i < many; i++)
        hash = (hash ^ counts[i]) * 0x100000001b3u;
    return hash ^ hash >> 32;
}

const size_t *weft_operands_common_counts(const struct weft_operands *operands)
{
    return operands->collective == WEFT_ALLGATHER        ? operands->recv_blocks.counts
           : operands->collective == WEFT_REDUCE_SCATTER ? operands->send_blocks.counts
                                                         : NULL;
}

static int check_op(const struct weft_comm *comm, const struct weft_operands *operands)
{
    return weft_operands_reduces(operands) ? weft_op_check(comm->context, operands->op, operands->dtype)
                                           : WEFT_OK;
}

static int check_root(const struct weft_comm *comm, const struct weft_operands *operands)
{
    if (!weft_collective_has_root(operands->collective) || (unsigned)operands->root < (unsigned)comm->ranks)
        return WEFT_OK;
    return weft_fail(WEFT_INVALID, "root is %d: expected 0 to %d", operands->root, comm->ranks - 1);
}

/* Blocks of one size: all of them fit into memory, here and at every other rank. */
static int check_equal(const struct weft_comm *comm, const struct weft_operands *operands)
{
    size_t blocks = weft_collective_blocks(operands->collective) ? (size_t)comm->ranks : 1;
    if (operands->count <= BYTES_MAX / operands->element_bytes / blocks)
        return WEFT_OK;
    if (blocks == 1)
        return weft_fail(WEFT_INVALID, "count is %zu elements of %zu bytes: expected at most %zu bytes",
                         operands->count, operands->element_bytes, BYTES_MAX);
    return weft_fail(WEFT_INVALID,
                     "count is %zu elements of %zu bytes for each of %d ranks: expected at most %zu bytes",
                     operands->count, operands->element_bytes, comm->ranks, BYTES_MAX);
}

struct place {
    size_t offset, count;
    int block;
};

static int by_offset(const void *a, const void *b)
{
    const struct place *left = a, *right = b;
    if (left->offset != right->offset)
        return left->offset < right->offset ? -1 : 1;
    return left->block - right->block;
}

static int overlap(const struct place *a, const struct place *b)
{
    return weft_fail(
        WEFT_INVALID,
        "recv's blocks of ranks %d and %d overlap: elements %zu to %zu and %zu to %zu: expected each to have "
        "a place of its own",
        a->block, b->block, a->offset, a->offset + a->count - 1, b->offset, b->offset + b->count - 1);
}

/* Blocks that are received may not meet. Most programs pass them in order, which shows in one pass. */
static int check_apart(const struct weft_comm *comm, const struct weft_exec_blocks *blocks)
{
    int ranks = comm->ranks, in_order = 1, used = 0;
    size_t end = 0;
    for (int r = 0; r < ranks && in_order; r++) {
        in_order = blocks->counts[r] == 0 || blocks->offsets[r] >= end;
        end = blocks->counts[r] ? blocks->offsets[r] + blocks->counts[r] : end;
    }
    if (in_order)
        return WEFT_OK;
    struct place *places = malloc((size_t)ranks * sizeof *places);
    if (!places)
        return weft_fail(WEFT_NOMEM, "no memory to compare the places of %d blocks", ranks);
    for (int r = 0; r < ranks; r++) {
        if (blocks->counts[r])
            places[used++] = (struct place){blocks->offsets[r], blocks->counts[r], r};
    }
    qsort(places, (size_t)used, sizeof *places, by_offset);
    int status = WEFT_OK;
    for (int i = 1; i < used && status == WEFT_OK; i++) {
        if (places[i].offset < places[i - 1].offset + places[i - 1].count)
            status = overlap(&places[i - 1], &places[i]);
    }
    free(places);
    return status;
}

static int check_blocks(const struct weft_comm *comm, const struct weft_operands *operands,
                        const struct weft_exec_blocks *blocks, int receiving)
{
    size_t most = BYTES_MAX / operands->element_bytes, sum = 0;
    const char *side = receiving ? "recv" : "send";
    for (int r = 0; r < comm->ranks; r++) {
        size_t offset = blocks->offsets ? blocks->offsets[r] : sum;
        if (blocks->counts[r] && (blocks->counts[r] > most || offset > most - blocks->counts[r]))
            return weft_fail(
                WEFT_INVALID,
                "%s's block of rank %d is %zu elements of %zu bytes from element %zu on: expected at most "
                "%zu bytes in all",
                side, r, blocks->counts[r], operands->element_bytes, offset, BYTES_MAX);
        sum = offset + blocks->counts[r];
    }
    return receiving && blocks->offsets ? check_apart(comm, blocks) : WEFT_OK;
}

/* The own block is passed twice, with each buffer. */
static int check_own(const struct weft_comm *comm, const struct weft_operands *operands)
{
    const struct weft_exec_blocks *send = &operands->send_blocks, *recv = &operands->recv_blocks;
    uint32_t rank = (uint32_t)comm->rank;
    if (!operands->send_blocks_count || !operands->recv_blocks_count)
        return WEFT_OK;
    size_t sent = weft_operands_count(operands, send, rank),
           received = weft_operands_count(operands, recv, rank);
    if (sent == received)
        return WEFT_OK;
    if (send->counts && recv->counts)
        return weft_fail(WEFT_INVALID, "send_counts[%d] is %zu: expected recv_counts[%d], which is %zu",
                         comm->rank, sent, comm->rank, received);
    return weft_fail(WEFT_INVALID, "count is %zu: expected counts[%d], which is %zu", operands->count,
                     comm->rank, send->counts ? sent : received);
}

static int check_unequal(const struct weft_comm *comm, const struct weft_operands *operands)
{
    int status = WEFT_OK;
    if (operands->count > BYTES_MAX / operands->element_bytes)
        status = weft_fail(WEFT_INVALID, "count is %zu elements of %zu bytes: expected at most %zu bytes",
                           operands->count, operands->element_bytes, BYTES_MAX);
    if (status == WEFT_OK && operands->send_blocks.counts && operands->send_blocks_count)
        status = check_blocks(comm, operands, &operands->send_blocks, 0);
    if (status == WEFT_OK && operands->recv_blocks.counts && operands->recv_blocks_count)
        status = check_blocks(comm, operands, &operands->recv_blocks, 1);
    return status == WEFT_OK ? check_own(comm, operands) : status;
}

/* Counts of an unequal call are needed where the buffer that they describe is. */
static int check_counts(const struct weft_operands *operands)
{
    static const char *const names[2][2] = {{"counts", "counts"}, {"send_counts", "recv_counts"}};
    int two = operands->collective == WEFT_ALLTOALL;
    const size_t *counts[2] = {operands->send_blocks.counts, operands->recv_blocks.counts};
    size_t used[2] = {operands->send_blocks_count, operands->recv_blocks_count};
    for (int side = 0; side < 2; side++) {
        if (used[side] && !owns_block(operands->collective, side) && !counts[side])
            return weft_fail(WEFT_INVALID, "%s is NULL", names[two][side]);
    }
    return WEFT_OK;
}

/* One side's bytes, from the first that is used to one past the last. */
struct span {
    uintptr_t low, high;
};

static struct span span_of(const struct weft_operands *operands, const void *memory,
                           const struct weft_exec_blocks *blocks, size_t count)
{
    size_t first, elements = weft_operands_extent(operands, blocks, count, &first);
    uintptr_t low = (uintptr_t)memory + first * operands->element_bytes;
    return (struct span){low, low + elements * operands->element_bytes};
}

static struct span next_span(const struct weft_operands *operands, const void *memory,
                             const struct weft_exec_blocks *blocks, uint32_t block, size_t *end)
{
    uintptr_t low =
        (uintptr_t)memory + weft_operands_next(operands, blocks, block, end) * operands->element_bytes;
    return (struct span){low, low + weft_operands_count(operands, blocks, block) * operands->element_bytes};
}

static int meet(struct span a, struct span b)
{
    return a.low < b.high && b.low < a.high;
}

/* Blocks with gaps may lie between each other. */
static int blocks_meet(const struct weft_operands *operands)
{
    size_t sent_end = 0;
    for (uint32_t s = 0; s < operands->send_blocks_count; s++) {
        struct span sent = next_span(operands, operands->send, &operands->send_blocks, s, &sent_end);
        size_t end = 0;
        for (uint32_t r = 0; r < operands->recv_blocks_count && sent.high > sent.low; r++) {
            struct span place = next_span(operands, operands->recv, &operands->recv_blocks, r, &end);
            if (place.high > place.low && meet(sent, place))
                return 1;
        }
    }
    return 0;
}

/* Sets in_place; buffers that meet in any other way are refused. */
static int check_overlap(const struct weft_comm *comm, struct weft_operands *operands)
{
    operands->in_place = 0;
    if (!operands->send_blocks_count || !operands->recv_blocks_count)
        return WEFT_OK;
    struct span sent = span_of(operands, operands->send, &operands->send_blocks, operands->send_blocks_count);
    struct span received =
        span_of(operands, operands->recv, &operands->recv_blocks, operands->recv_blocks_count);
    if (!meet(sent, received))
        return WEFT_OK;
    uint32_t rank = (uint32_t)comm->rank;
    const char *whole = NULL;
    uintptr_t part = (uintptr_t)operands->send, place = (uintptr_t)operands->recv;
    if (owns_block(operands->collective, 0)) {
        whole = "recv";
        place += weft_operands_offset(operands, &operands->recv_blocks, rank) * operands->element_bytes;
    } else if (owns_block(operands->collective, 1)) {
        whole = "send";
        part += weft_operands_offset(operands, &operands->send_blocks, rank) * operands->element_bytes;
    }
    operands->in_place = part == place;
    if (operands->in_place ||
        ((operands->send_blocks.counts || operands->recv_blocks.counts) && !blocks_meet(operands)))
        return WEFT_OK;
    if (whole)
        return weft_fail(
            WEFT_INVALID,
            "send and recv overlap: expected them apart, or %s where %s has rank %d's block (in place)",
            whole[0] == 'r' ? "send" : "recv", whole, comm->rank);
    return weft_fail(WEFT_INVALID, "send and recv overlap without being equal");
}

static int check_pointers(const struct weft_operands *operands)
{
    for (int receiving = 0; receiving < 2; receiving++) {
        const struct weft_exec_blocks *blocks = receiving ? &operands->recv_blocks : &operands->send_blocks;
        size_t used = receiving ? operands->recv_blocks_count : operands->send_blocks_count;
        if (receiving ? operands->recv : operands->send)
            continue;
        for (uint32_t b = 0; b < used; b++) {
            if (weft_operands_count(operands, blocks, b))
                return weft_fail(WEFT_INVALID, "%s is NULL, count is %zu", receiving ? "recv" : "send",
                                 weft_operands_count(operands, blocks, b));
        }
    }
    return WEFT_OK;
}

int weft_operands_check_shape(const struct weft_comm *comm, struct weft_operands *operands)
{
    if (!comm)
        return weft_fail(WEFT_INVALID, "comm is NULL");
    operands->element_bytes = weft_dtype_size(operands->dtype);
    if (!operands->element_bytes)
        return weft_fail(WEFT_INVALID, "dtype is %d: expected 0 to %d", (int)operands->dtype,
                         WEFT_DTYPE_COUNT - 1);
    int status = check_root(comm, operands);
    if (status != WEFT_OK)
        return status;
    operands->send_blocks_count = blocks_in(comm, operands, 0);
    operands->recv_blocks_count = blocks_in(comm, operands, 1);
    if (operands->unequal)
        status = check_counts(operands);
    if (status == WEFT_OK)
        status = operands->unequal ? check_unequal(comm, operands) : check_equal(comm, operands);
    return status == WEFT_OK ? check_op(comm, operands) : status;
}

/* The plainest call, which small ones are in haste for: whether nothing is wrong with it. */
static inline int is_plain(const struct weft_comm *comm, struct weft_operands *operands)
{
    size_t element_bytes = weft_dtype_size(operands->dtype), bytes;
    uintptr_t from = (uintptr_t)operands->send, to = (uintptr_t)operands->recv;
    if (operands->collective != WEFT_ALLREDUCE || !comm || !element_bytes || !from || !to ||
        operands->count > UINT32_MAX || !weft_op_is_builtin(operands->op) ||
        !weft_reduce_find(operands->dtype, operands->op))
        return 0;
    bytes = operands->count * element_bytes;
    operands->element_bytes = element_bytes;
    operands->send_blocks_count = operands->recv_blocks_count = 1;
    operands->in_place = from == to && bytes;
    return from == to || from >= to + bytes || to >= from + bytes;
}

int weft_operands_check(const struct weft_comm *comm, struct weft_operands *operands)
{
    if (is_plain(comm, operands))
        return WEFT_OK;
    int status = weft_operands_check_shape(comm, operands);
    if (status == WEFT_OK)
        status = check_pointers(operands);
    return status == WEFT_OK ? check_overlap(comm, operands) : status;
}
