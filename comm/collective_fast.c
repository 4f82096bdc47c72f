/* SPDX-License-Identifier: Apache-2.0 */
/* Small collectives between the ranks of one host: one exchange over the cache lines (comm/fastpath.h). */
#include "comm/collective.h"
#include "comm/fastpath.h"
#include "comm/op.h"

/* By enum weft_collective: the plan whose result is the same, bit for bit. What only moves data has the same result
 * by any plan. */
static const uint8_t stands_for[WEFT_COLLECTIVE_COUNT] = {
    [WEFT_ALLREDUCE] = WEFT_ALGO_AUTO, /* has a way of its own: comm/allreduce.c */
    [WEFT_BROADCAST] = WEFT_ALGO_BINOMIAL, [WEFT_REDUCE] = WEFT_ALGO_BINOMIAL,
    [WEFT_ALLGATHER] = WEFT_ALGO_BRUCK,    [WEFT_GATHER] = WEFT_ALGO_BINOMIAL,
    [WEFT_SCATTER] = WEFT_ALGO_BINOMIAL,   [WEFT_REDUCE_SCATTER] = WEFT_ALGO_HALVING,
    [WEFT_ALLTOALL] = WEFT_ALGO_BRUCK,     [WEFT_BARRIER] = WEFT_ALGO_DISSEMINATION,
};

/* Bytes that a rank publishes at most, the same at every rank. */
static size_t published(const struct weft_comm *comm, const struct weft_operands *operands)
{
    enum weft_collective collective = operands->collective;
    int all = collective == WEFT_SCATTER || collective == WEFT_REDUCE_SCATTER || collective == WEFT_ALLTOALL;
    return operands->count * operands->element_bytes * (all ? (size_t)comm->ranks : 1);
}

enum weft_algorithm weft_collective_fast_algorithm(const struct weft_comm *comm,
                                                   const struct weft_operands *operands)
{
    enum weft_algorithm fixed = (enum weft_algorithm)comm->context->settings.algorithm;
    enum weft_algorithm mine = (enum weft_algorithm)stands_for[operands->collective];
    if (!comm->fastpath || operands->unequal ||
        published(comm, operands) > weft_fastpath_bytes_max(comm->fastpath))
        return WEFT_ALGO_AUTO;
    if (fixed != mine && weft_algorithm_serves(operands->collective, fixed))
        return WEFT_ALGO_AUTO;
    if (weft_collective_reduces(operands->collective) && operands->collective != WEFT_BARRIER &&
        !weft_op_is_builtin(operands->op))
        return WEFT_ALGO_AUTO;
    return mine;
}

/* What goes where; block and the call are set. */
static struct weft_fastpath_move move_of(const struct weft_comm *comm, const struct weft_operands *operands)
{
    uint32_t ranks = (uint32_t)comm->ranks, rank = (uint32_t)comm->rank, root = (uint32_t)operands->root;
    size_t block = operands->count * operands->element_bytes, all = block * ranks;
    const char *input = operands->send;
    struct weft_fastpath_move move = {.input = input,
                                      .block = block,
                                      .output = operands->recv,
                                      .end = ranks,
                                      .theirs = block,
                                      .own = input};
    switch (operands->collective) {
    case WEFT_ALLGATHER:
        move.published = block;
        break;
    case WEFT_GATHER:
        move.published = rank == root ? 0 : block;
        move.end = rank == root ? ranks : 0;
        break;
    case WEFT_BROADCAST:
        move.published = rank == root ? block : 0;
        move.first = root;
        move.end = root + 1;
        break;
    case WEFT_SCATTER:
        move.published = rank == root ? all : 0;
        move.first = root;
        move.end = root + 1;
        move.theirs = all;
        move.from = rank * block;
        move.own = rank == root && block ? input + rank * block : input;
        break;
    case WEFT_ALLTOALL:
        move.published = move.theirs = all;
        move.from = rank * block;
        move.own = block ? input + rank * block : input;
        break;
    default: /* barrier */
        move.block = move.theirs = 0;
        move.end = 0;
        break;
    }
    return move;
}

int weft_collective_run_fast(struct weft_comm *comm, const struct weft_operands *operands,
                             const struct weft_call *call)
{
    if (operands->collective != WEFT_REDUCE && operands->collective != WEFT_REDUCE_SCATTER) {
        const struct weft_fastpath_move move = move_of(comm, operands);
        return weft_fastpath_move(comm->fastpath, &move, call, comm->timeout_ms);
    }
    size_t block = operands->count * operands->element_bytes;
    int scatter = operands->collective == WEFT_REDUCE_SCATTER;
    const struct weft_fastpath_request request = {
        .input = operands->send,
        .output = scatter || comm->rank == operands->root ? operands->recv : NULL,
        .count = operands->count,
        .element_bytes = operands->element_bytes,
        .reduce = weft_reduce_find(operands->dtype, operands->op),
        .finish = operands->op == WEFT_AVG ? (uint32_t)comm->ranks : 0,
    };
    return weft_fastpath_reduce(comm->fastpath, &request, block * (scatter ? (size_t)comm->ranks : 1),
                                scatter ? (size_t)comm->rank * block : 0, call, comm->timeout_ms);
}
