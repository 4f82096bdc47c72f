/* SPDX-License-Identifier: Apache-2.0 */
/* Small collectives between the ranks of one host: one exchange over the cache lines (comm/exec/fastpath.h). */
#include "base/error.h"
#include "comm/calls/collective.h"
#include "comm/exec/fastpath.h"
#include "comm/exec/mismatch.h"
#include "comm/calls/op.h"

/* By enum weft_collective: the plan whose result is the same, bit for bit. What only moves data has the same result
 * by any plan. */
static const uint8_t stands_for[WEFT_COLLECTIVE_COUNT] = {
    [WEFT_ALLREDUCE] = WEFT_ALGO_RD,           [WEFT_BROADCAST] = WEFT_ALGO_BINOMIAL,
    [WEFT_REDUCE] = WEFT_ALGO_BINOMIAL,        [WEFT_ALLGATHER] = WEFT_ALGO_BRUCK,
    [WEFT_GATHER] = WEFT_ALGO_BINOMIAL,        [WEFT_SCATTER] = WEFT_ALGO_BINOMIAL,
    [WEFT_REDUCE_SCATTER] = WEFT_ALGO_HALVING, [WEFT_ALLTOALL] = WEFT_ALGO_BRUCK,
    [WEFT_BARRIER] = WEFT_ALGO_DISSEMINATION,
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
    enum weft_algorithm fixed =
        operands->algorithm ? operands->algorithm : (enum weft_algorithm)comm->context->settings.algorithm;
    enum weft_algorithm mine = (enum weft_algorithm)stands_for[operands->collective];
    if (!comm->fastpath || operands->unequal ||
        published(comm, operands) > weft_fastpath_bytes_max(comm->fastpath))
        return WEFT_ALGO_AUTO;
    if (fixed != WEFT_ALGO_AUTO && fixed != mine && weft_algorithm_serves(operands->collective, fixed))
        return WEFT_ALGO_AUTO;
    if (!weft_op_is_builtin(operands->op) && weft_collective_reduces(operands->collective))
        return WEFT_ALGO_AUTO;
    return mine;
}

/* What goes where; block and the call are set. */
static void make_move(const struct weft_comm *comm, const struct weft_operands *operands,
                      struct weft_fastpath_exchange *exchange)
{
    uint32_t ranks = (uint32_t)comm->ranks, rank = (uint32_t)comm->rank, root = (uint32_t)operands->root;
    size_t block = operands->count * operands->element_bytes, all = block * ranks;
    const char *input = operands->send;
    struct weft_fastpath_move *move = &exchange->move;
    *move = (struct weft_fastpath_move){.root = WEFT_FASTPATH_NO_ROOT,
                                        .block = block,
                                        .output = operands->recv,
                                        .end = ranks,
                                        .theirs = block,
                                        .own = input};
    exchange->size = block;
    exchange->published = 0;
    switch (operands->collective) {
    case WEFT_ALLGATHER:
        exchange->published = block;
        break;
    case WEFT_GATHER:
        exchange->published = rank == root ? 0 : block;
        move->end = rank == root ? ranks : 0;
        break;
    case WEFT_BROADCAST:
        exchange->published = rank == root ? block : 0;
        move->first = root;
        move->end = root + 1;
        break;
    case WEFT_SCATTER:
        exchange->published = rank == root ? all : 0;
        move->first = root;
        move->end = root + 1;
        move->theirs = all;
        move->from = rank * block;
        move->own = rank == root && block ? input + rank * block : input;
        break;
    case WEFT_ALLTOALL:
        exchange->published = move->theirs = all;
        move->from = rank * block;
        move->own = block ? input + rank * block : input;
        break;
    default: /* barrier */
        move->block = move->theirs = 0;
        move->end = 0;
        break;
    }
    if ((operands->collective == WEFT_BROADCAST || operands->collective == WEFT_SCATTER) &&
        move->theirs <= WEFT_FASTPATH_GIVEN_MAX)
        move->root = root;
}

void weft_collective_exchange(const struct weft_comm *comm, const struct weft_operands *operands,
                              const struct weft_call *call, struct weft_fastpath_exchange *exchange)
{
    enum weft_collective collective = operands->collective;
    size_t block = operands->count * operands->element_bytes;
    int scatter = collective == WEFT_REDUCE_SCATTER;
    exchange->call = call;
    exchange->input = operands->send;
    if (collective != WEFT_ALLREDUCE && collective != WEFT_REDUCE && !scatter) {
        exchange->kind = WEFT_FASTPATH_MOVES;
        make_move(comm, operands, exchange);
        return;
    }
    exchange->kind = WEFT_FASTPATH_REDUCES;
    exchange->size = exchange->published = block * (scatter ? (size_t)comm->ranks : 1);
    exchange->reduction = (struct weft_fastpath_reduction){
        .output = operands->recv_blocks_count ? operands->recv : NULL,
        .count = operands->count,
        .from = scatter ? (size_t)comm->rank * block : 0,
        .reduce = weft_reduce_find(operands->dtype, operands->op),
        .finish = operands->op == WEFT_AVG ? (uint32_t)comm->ranks : 0,
    };
}

/* --- large ones of two ranks
 *
 * Two ranks whose memory is mapped, out of place: each reads the other's input once and writes its own output, which no other processor
 * touches. No other algorithm is as fast, and no rank sees from its own memory alone that it is possible: so the ranks show each
 * other theirs before such a call, over the cache-line path, which costs a fraction of a microsecond. */

int weft_allreduce_shows(const struct weft_comm *comm, const struct weft_operands *operands)
{
    return comm->fastpath && comm->ranks == 2 && operands->collective == WEFT_ALLREDUCE &&
           weft_op_is_builtin(operands->op) && !operands->algorithm &&
           comm->context->settings.algorithm == WEFT_ALGO_AUTO;
}

static struct weft_shown shown_of(struct weft_context *context, const struct weft_operands *operands)
{
    return (struct weft_shown){
        .count = operands->count,
        .is_mapped = (uint8_t)weft_memory_is_shared(context, operands->send,
                                                    operands->count * operands->element_bytes),
        .is_in_place = (uint8_t)operands->in_place,
    };
}

static enum weft_algorithm prefer(const struct weft_shown *mine, const struct weft_shown *theirs,
                                  enum weft_algorithm algorithm)
{
    int one_pass = mine->is_mapped && theirs->is_mapped && !mine->is_in_place && !theirs->is_in_place;
    return one_pass ? WEFT_ALGO_RD : algorithm;
}

enum weft_algorithm weft_allreduce_prefer(const struct weft_comm *comm, const struct weft_operands *operands,
                                          enum weft_algorithm algorithm)
{
    const struct weft_shown mine = shown_of(comm->context, operands);
    return weft_allreduce_shows(comm, operands) && operands->send ? prefer(&mine, &mine, algorithm)
                                                                  : algorithm;
}

void weft_allreduce_show(const struct weft_comm *comm, const struct weft_operands *operands,
                         const struct weft_call *call, struct weft_shown *mine,
                         struct weft_fastpath_exchange *exchange)
{
    *mine = shown_of(comm->context, operands);
    exchange->call = call;
    exchange->kind = WEFT_FASTPATH_SHOWS;
    exchange->input = mine;
    exchange->size = exchange->published = sizeof *mine;
}

int weft_allreduce_read(const struct weft_comm *comm, const struct weft_call *call,
                        const struct weft_shown *mine, enum weft_algorithm *algorithm, char *text,
                        size_t capacity)
{
    uint32_t other = (uint32_t)(1 - comm->rank);
    struct weft_shown theirs =
        *(const struct weft_shown *)weft_fastpath_shown(comm->fastpath, other, sizeof theirs);
    if (theirs.count == mine->count) {
        *algorithm = prefer(mine, &theirs, *algorithm);
        return WEFT_OK;
    }
    weft_mismatch_count(call, mine->count, theirs.count, other, (uint32_t)comm->rank, text, capacity);
    return WEFT_MISMATCH;
}
