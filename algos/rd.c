/* SPDX-License-Identifier: Apache-2.0 */
/* Recursive doubling allreduce.
 *
 * In round k, partners whose places differ in bit k exchange all they have and both add it up; after log2 n
 * rounds everybody has everything. The data stays in one chunk.
 *
 * When n is not a power of two, the surplus ranks are guests: they hand their data to the next rank before
 * the first round and get the result after the last one (see struct weft_fold).
 *
 * Strict mode takes the bits from the highest to the lowest instead, which is the order in which Rabenseifner's halving
 * adds up (rab.c), so both have the same bits. From the lowest on groups are contiguous ranks: operations that do not
 * commute need that.
 *
 * Both partners compute the same sum, so both put the lower group first: all ranks end with the same bits.
 * Each finishes its last sum for itself.
 *
 * A SEND counts as complete only when the partner has reduced it. Reducing over what is being sent would let
 * both partners wait for each other; so results alternate between OUTPUT and TEMP such that the last one
 * goes to OUTPUT: the result of round k (1..rounds) goes to OUTPUT when rounds - k is even. What round 1
 * sends is "the result of round 0": the guest's and the host's sum, or INPUT itself, which in place is OUTPUT
 * and so has to be copied to TEMP first when rounds is odd.
 *
 * Cost, with a per message, b per byte and g per byte reduced, m bytes, d = floor(log2 n):
 *     d (a + m b + m g),   plus 2 a + 2 m b + m g when n is not a power of two
 * which is the least number of rounds, at the price of moving all data in each: for small data.
 *
 * Source: R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of collective communication operations in
 * MPICH", International Journal of High Performance Computing Applications 19 (2005), section 4.5.
 */
#include "algos/rd.h"

/* Where the result of a round lies. */
static struct weft_ref result_of(uint32_t round, uint32_t rounds)
{
    return weft_in((rounds - round) % 2 == 0 ? WEFT_BUFFER_OUTPUT : WEFT_BUFFER_TEMP);
}

struct weft_ref weft_rd_start(const struct weft_rd *rd)
{
    struct weft_fold fold = weft_fold_of(rd->ranks);
    return weft_fold_is_guest(&fold, rd->rank) ? weft_in(WEFT_BUFFER_OUTPUT) : result_of(0, fold.rounds);
}

static uint32_t name_of(const struct weft_rd *rd, uint32_t rank)
{
    return rd->names ? rd->names[rank] : rank;
}

void weft_rd_exchange(struct weft_builder *builder, const struct weft_rd *rd)
{
    struct weft_fold fold = weft_fold_of(rd->ranks);
    struct weft_range all = weft_range(0, 1, 0);
    struct weft_ref output = weft_in(WEFT_BUFFER_OUTPUT), mine = rd->mine;
    uint32_t rank = rd->rank, place = weft_fold_place(&fold, rank);

    if (weft_fold_is_guest(&fold, rank)) {
        weft_builder_send(builder, name_of(rd, rank + 1), all, mine);
        weft_builder_recv(builder, name_of(rd, rank + 1), all, output);
        return;
    }
    if (weft_fold_is_host(&fold, rank)) {
        struct weft_ref own = mine;
        mine = result_of(0, fold.rounds);
        weft_builder_recv(builder, name_of(rd, rank - 1), all, weft_slot(0, 0));
        weft_builder_reduce(builder, all, mine, weft_slot(0, 0), own, 0);
    } else if (mine.buffer == WEFT_BUFFER_INPUT && rd->in_place && fold.rounds % 2 == 1) {
        mine = weft_in(WEFT_BUFFER_TEMP);
        weft_builder_copy(builder, all, mine, rd->mine, 0);
    }
    for (uint32_t round = 1; round <= fold.rounds; round++) {
        uint32_t bit = rd->strict ? fold.width >> round : 1u << (round - 1);
        uint32_t partner = name_of(rd, weft_fold_rank(&fold, place ^ bit));
        struct weft_ref theirs = weft_slot(round % 2, 0), sum = result_of(round, fold.rounds);
        int above = (place & bit) != 0;
        weft_builder_recv(builder, partner, all, theirs);
        weft_builder_send(builder, partner, all, mine);
        weft_builder_reduce(builder, all, sum, above ? theirs : mine, above ? mine : theirs,
                            round == fold.rounds ? WEFT_STEP_FINISH : 0);
        mine = sum;
    }
    if (weft_fold_is_host(&fold, rank))
        weft_builder_send(builder, name_of(rd, rank - 1), all, output);
}

void weft_rd_generate(struct weft_builder *builder, const struct weft_plan_request *request)
{
    struct weft_rd rd = {.ranks = request->ranks,
                         .rank = request->rank,
                         .mine = weft_in(WEFT_BUFFER_INPUT),
                         .strict = request->strict,
                         .in_place = request->in_place};
    weft_builder_start(builder, request, 1, 2);
    weft_rd_exchange(builder, &rd);
}
