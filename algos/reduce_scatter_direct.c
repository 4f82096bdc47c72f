/* SPDX-License-Identifier: Apache-2.0 */
/* Direct reduce-scatter: every rank sends every other its block, and each adds up its own in the order of ranks.
 *
 * The one reduce-scatter that operations need that do not commute. A rank takes rank 0's contribution first, then rank
 * 1's and so on; its own is in INPUT, and when its turn comes it sends the others theirs. So rank 0 sends at once, and
 * everybody else's sends wait, in the worst case, for those before it: that keeps any window from filling up with sends
 * that nobody is ready for. Its REDUCE stands before its SENDs for the same reason. In place, OUTPUT holds the rank's
 * own contribution until its turn, so the sum is kept in a cell until the last step.
 *
 * Every step names one block, so the plan serves unequal calls too.
 *
 * Cost, with a per message, b per byte and g per byte reduced, m bytes in all blocks together:
 *     a  +  (n-1)/n m (b + g)
 * at best; to n-1 times as much between hosts, where all wait for the one that sends.
 */
#include "algos/generators.h"

void weft_reduce_scatter_direct_generate(struct weft_builder *builder,
                                         const struct weft_plan_request *request)
{
    uint32_t n = request->ranks, rank = request->rank, next = (rank + 1) % n;
    struct weft_range own = weft_range(rank, 1, 0);
    struct weft_ref input = weft_in(WEFT_BUFFER_INPUT), output = weft_in(WEFT_BUFFER_OUTPUT), sum = input;

    weft_builder_start(builder, request, n, 2);
    for (uint32_t peer = 0; peer < n; peer++) {
        struct weft_ref theirs = peer == rank ? input : weft_slot(peer % 2, 0);
        if (peer != rank)
            weft_builder_recv(builder, peer, own, theirs);
        if (peer == 0) {
            sum = theirs;
        } else {
            struct weft_ref to = request->in_place && peer + 1 < n ? weft_cell_ref(0, 0) : output;
            weft_builder_reduce(builder, own, to, sum, theirs, peer + 1 == n ? WEFT_STEP_FINISH : 0);
            sum = to;
        }
        if (peer == rank) {
            weft_builder_loop(builder, n - 1);
            weft_builder_send_by(builder, next, 1, weft_range(next, 1, 1), input);
            weft_builder_loop_end(builder);
        }
    }
}
