/* SPDX-License-Identifier: Apache-2.0 */
/* Rabenseifner's reduce: recursive halving, then a gather.
 *
 * The first half is that of the allreduce (rab.c): places v, of which there are w, exchange halves of what they still
 * have until place v holds the sum of chunk v. Then the root's place collects them: in rounds with distance 1, 2, 4, ...
 * those whose place differs from the root's in that bit send all they have, and the others' ranges grow.
 *
 * Of a folded pair (struct weft_fold) the root takes part itself if it is one of the two, otherwise the upper rank.
 * The association is the one of strict mode, whatever the root.
 *
 * Sums are kept in OUTPUT at the root, elsewhere in TEMP for the ranges that a rank holds for a while: half of the data
 * or less, all of it where a pair is folded.
 *
 * Cost, with a per message, b per byte and g per byte reduced, m bytes, d = log2 w:
 *     2 d a  +  2 (w-1)/w m b  +  (w-1)/w m g,   plus a + m (b + g) when n is not a power of two
 * for large data.
 *
 * Source: R. Rabenseifner, "Optimization of collective reduction operations", International Conference on
 * Computational Science (2004).
 */
#include "algos/generators.h"

void weft_reduce_rab_generate(struct weft_builder *builder, const struct weft_plan_request *request)
{
    struct weft_fold fold = weft_fold_of(request->ranks);
    struct weft_range all = weft_range(0, fold.width, 0);
    uint32_t rank = request->rank, root = (uint32_t)request->root;
    uint32_t place = weft_fold_place(&fold, rank), turned = place ^ weft_fold_place(&fold, root);
    struct weft_ref input = weft_in(WEFT_BUFFER_INPUT), mine = input;
    struct weft_ref sum = weft_in(rank == root ? WEFT_BUFFER_OUTPUT : WEFT_BUFFER_TEMP);

    weft_builder_start(builder, request, fold.width, 2);
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
    uint32_t base = 0, round = 1;
    for (uint32_t half = fold.width / 2; half > 0; half /= 2, round++) {
        uint32_t partner = weft_fold_host(&fold, place ^ half, root);
        int above = (place & half) != 0;
        struct weft_ref theirs = weft_slot(round % 2, 0);
        struct weft_range keep = weft_range(base + (above ? half : 0), half, 0);
        weft_builder_recv(builder, partner, keep, theirs);
        weft_builder_send(builder, partner, weft_range(base + (above ? 0 : half), half, 0), mine);
        weft_builder_reduce(builder, keep, sum, above ? theirs : mine, above ? mine : theirs,
                            half == 1 ? WEFT_STEP_FINISH : 0);
        base = keep.chunk;
        mine = sum;
    }
    for (uint32_t have = 1; have < fold.width; have *= 2) {
        uint32_t partner = weft_fold_host(&fold, place ^ have, root);
        if (turned & have) {
            weft_builder_send(builder, partner, weft_range(base, have, 0), sum);
            return;
        }
        weft_builder_recv(builder, partner, weft_range(base ^ have, have, 0), sum);
        base &= ~have;
    }
}
