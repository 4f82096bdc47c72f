/* SPDX-License-Identifier: Apache-2.0 */
/* Binomial tree reduce.
 *
 * Ranks are folded onto w places (struct weft_fold); of a pair one rank hands its data to the other, which is the root if
 * it is one of the two. Then places are counted from the root's, v = place xor root's place, and in each of log2 w rounds
 * half of those that are left, which have the round's bit set in v, send their sum to the place without that bit. The
 * lower place is the first operand, so that who is root changes only where things happen, not the expression.
 *
 * The bits are taken from the lowest to the highest: what is put together are neighbouring groups of ranks, in their
 * order, as operations need that do not commute. Strict mode takes them from the highest to the lowest, as
 * Rabenseifner's halving does (rab.c).
 *
 * Sums are kept in OUTPUT at the root and in TEMP elsewhere.
 *
 * Cost, with a per message, b per byte and g per byte reduced, m bytes, d = ceil(log2 n):
 *     d (a + m (b + g))
 * the least number of rounds: for small data.
 *
 * Source: R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of collective communication operations in MPICH",
 * International Journal of High Performance Computing Applications 19 (2005), section 4.4.
 */
#include "algos/generators.h"

void weft_reduce_binomial_generate(struct weft_builder *builder, const struct weft_plan_request *request)
{
    struct weft_fold fold = weft_fold_of(request->ranks);
    struct weft_range all = weft_range(0, 1, 0);
    uint32_t rank = request->rank, root = (uint32_t)request->root;
    uint32_t place = weft_fold_place(&fold, rank), turned = place ^ weft_fold_place(&fold, root);
    struct weft_ref input = weft_in(WEFT_BUFFER_INPUT), mine = input;
    struct weft_ref sum = weft_in(rank == root ? WEFT_BUFFER_OUTPUT : WEFT_BUFFER_TEMP);

    weft_builder_start(builder, request, 1, 2);
    if (weft_fold_host(&fold, place, root) != rank) {
        weft_builder_send(builder, weft_fold_host(&fold, place, root), all, input);
        return;
    }
    if (place < fold.guests) {
        weft_builder_recv(builder, rank ^ 1, all, weft_slot(0, 0));
        weft_builder_reduce(builder, all, sum, rank % 2 ? weft_slot(0, 0) : input,
                            rank % 2 ? input : weft_slot(0, 0), 0);
        mine = sum;
    }
    for (uint32_t round = 1; round <= fold.rounds; round++) {
        uint32_t bit = request->strict ? fold.width >> round : 1u << (round - 1);
        uint32_t partner = weft_fold_host(&fold, place ^ bit, root);
        struct weft_ref theirs = weft_slot(round % 2, 0);
        int above = (place & bit) != 0;
        if (turned & bit) {
            weft_builder_send(builder, partner, all, mine);
            return;
        }
        weft_builder_recv(builder, partner, all, theirs);
        weft_builder_reduce(builder, all, sum, above ? theirs : mine, above ? mine : theirs,
                            round == fold.rounds ? WEFT_STEP_FINISH : 0);
        mine = sum;
    }
}
