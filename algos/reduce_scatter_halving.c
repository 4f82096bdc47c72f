/* SPDX-License-Identifier: Apache-2.0 */
/* Reduce-scatter by recursive halving.
 *
 * Ranks are folded onto w places, the largest power of two that is not above n (struct weft_fold); a place stands for
 * one rank or a pair, and for their blocks, which lie next to each other. In rounds with distance w/2, w/4, ..., 1
 * partners split the range of places that they both hold: each sends the half that the other keeps, and reduces what it
 * receives into its own. Of a pair the lower rank, the guest, hands all its data to the upper one before, and gets its
 * finished block after.
 *
 * The association is the one of strict mode. Sums lie in TEMP, a single rank's last in OUTPUT. Where blocks are unequal
 * and may have gaps, everything is copied to TEMP first, where it lies close.
 *
 * Cost, with a per message, b per byte and g per byte reduced, m bytes in all blocks together, d = log2 w:
 *     d a  +  (w-1)/w m (b + g),   plus 2 a + m (b + g) and a block each way when n is not a power of two
 * for small and middle sizes, and large ones when n is a power of two.
 *
 * Source: R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of collective communication operations in MPICH",
 * International Journal of High Performance Computing Applications 19 (2005), section 4.3.
 */
#include "algos/generators.h"

/* The first block of a place; of place w the end. */
static uint32_t first_block(const struct weft_fold *fold, uint32_t place)
{
    return place < fold->guests ? 2 * place : place + fold->guests;
}

static struct weft_range blocks_of(const struct weft_fold *fold, uint32_t place, uint32_t places)
{
    uint32_t first = first_block(fold, place);
    return weft_range(first, first_block(fold, place + places) - first, 0);
}

void weft_reduce_scatter_halving_generate(struct weft_builder *builder,
                                          const struct weft_plan_request *request)
{
    struct weft_fold fold = weft_fold_of(request->ranks);
    uint32_t rank = request->rank, place = weft_fold_place(&fold, rank), base = 0, round = 1;
    struct weft_range all = weft_range(0, request->ranks, 0), own = weft_range(rank, 1, 0);
    struct weft_ref output = weft_in(WEFT_BUFFER_OUTPUT), temp = weft_in(WEFT_BUFFER_TEMP);
    struct weft_ref mine = weft_in(request->unequal ? WEFT_BUFFER_TEMP : WEFT_BUFFER_INPUT);
    int host = weft_fold_is_host(&fold, rank);

    weft_builder_start(builder, request, request->ranks, 2);
    if (request->unequal) {
        weft_builder_loop(builder, request->ranks);
        weft_builder_copy(builder, weft_range(0, 1, 1), temp, weft_in(WEFT_BUFFER_INPUT), 0);
        weft_builder_loop_end(builder);
    }
    if (weft_fold_is_guest(&fold, rank)) {
        weft_builder_send(builder, rank + 1, all, mine);
        weft_builder_recv(builder, rank + 1, own, output);
        return;
    }
    if (host) {
        weft_builder_recv(builder, rank - 1, all, weft_slot(0, 0));
        weft_builder_reduce(builder, all, temp, weft_slot(0, 0), mine, 0);
        mine = temp;
    }
    for (uint32_t half = fold.width / 2; half > 0; half /= 2, round++) {
        uint32_t partner = weft_fold_rank(&fold, place ^ half);
        int above = (place & half) != 0, last = half == 1;
        struct weft_ref theirs = weft_slot(round % 2, 0);
        struct weft_range keep = blocks_of(&fold, base + (above ? half : 0), half);
        weft_builder_recv(builder, partner, keep, theirs);
        weft_builder_send(builder, partner, blocks_of(&fold, base + (above ? 0 : half), half), mine);
        weft_builder_reduce(builder, keep, last && !host ? output : temp, above ? theirs : mine,
                            above ? mine : theirs, last ? WEFT_STEP_FINISH : 0);
        base += above ? half : 0;
        mine = temp;
    }
    if (host) {
        weft_builder_send(builder, rank - 1, weft_range(rank - 1, 1, 0), temp);
        weft_builder_copy(builder, own, output, temp, 0);
    }
}
