/* SPDX-License-Identifier: Apache-2.0 */
/* Rabenseifner's allreduce: recursive halving, then recursive doubling.
 *
 * The data is divided into as many chunks as there are places, w, the largest power of two that is not above
 * n. Reduce-scatter: with distance w/2, w/4, ..., 1, partners split the range of chunks they both hold;
 * each sends the half that the other keeps, and reduces what it receives into the half that it keeps, until
 * place v holds the final chunk v alone. Allgather: the same partners in reverse order exchange the ranges
 * they have completed, until everybody has all chunks.
 *
 * When n is not a power of two, the surplus ranks are guests: they hand all their data to the next rank
 * before the first round and get the result after the last one (see struct weft_fold).
 *
 * Each chunk is added up and finished by one rank, so all ranks end with the same bits. A round never reduces
 * into the half that it is sending, so no TEMP is needed, in place or not.
 *
 * Cost, with a per message, b per byte and g per byte reduced, m bytes, d = log2 w:
 *     2 d a  +  2 (w-1)/w m b  +  (w-1)/w m g,   plus 2 a + 2 m b + m g when n is not a power of two
 * which is the ring's volume in a logarithmic number of rounds: for middle sizes, and large ones when n is a
 * power of two.
 *
 * Source: R. Rabenseifner, "Optimization of collective reduction operations", International Conference on
 * Computational Science (2004).
 */
#include "algos/generators.h"

void weft_rab_generate(struct weft_builder *builder, const struct weft_plan_request *request)
{
    struct weft_fold fold = weft_fold_of(request->ranks);
    struct weft_range all = weft_range(0, fold.width, 0);
    struct weft_ref input = weft_in(WEFT_BUFFER_INPUT), output = weft_in(WEFT_BUFFER_OUTPUT);
    uint32_t rank = request->rank, place = weft_fold_place(&fold, rank);

    weft_builder_start(builder, request, fold.width, 2);
    if (weft_fold_is_guest(&fold, rank)) {
        weft_builder_send(builder, rank + 1, all, input);
        weft_builder_recv(builder, rank + 1, all, output);
        return;
    }
    struct weft_ref mine = input;
    if (weft_fold_is_host(&fold, rank)) {
        mine = output;
        weft_builder_recv(builder, rank - 1, all, weft_slot(0, 0));
        weft_builder_reduce(builder, all, mine, weft_slot(0, 0), input, 0);
    }
    uint32_t base = 0, round = 1;
    for (uint32_t half = fold.width / 2; half > 0; half /= 2, round++) {
        uint32_t partner = weft_fold_rank(&fold, place ^ half);
        int above = (place & half) != 0;
        struct weft_ref theirs = weft_slot(round % 2, 0);
        struct weft_range keep = weft_range(base + (above ? half : 0), half, 0);
        struct weft_range give = weft_range(base + (above ? 0 : half), half, 0);
        weft_builder_recv(builder, partner, keep, theirs);
        weft_builder_send(builder, partner, give, mine);
        weft_builder_reduce(builder, keep, output, above ? theirs : mine, above ? mine : theirs,
                            half == 1 ? WEFT_STEP_FINISH : 0);
        base = keep.chunk;
        mine = output;
    }
    for (uint32_t have = 1; have < fold.width; have *= 2) {
        uint32_t partner = weft_fold_rank(&fold, place ^ have);
        weft_builder_recv(builder, partner, weft_range(base ^ have, have, 0), output);
        weft_builder_send(builder, partner, weft_range(base, have, 0), output);
        base &= ~have;
    }
    if (weft_fold_is_host(&fold, rank))
        weft_builder_send(builder, rank - 1, all, output);
}
