/* SPDX-License-Identifier: Apache-2.0 */
/* Direct gather: every rank sends its block to the root.
 *
 * Needs no memory and no copies but the root's own block's, and no rank needs to know more than its own block's size
 * (the root: all), which is what an unequal gather gives it.
 *
 * Cost, with a per message, b per byte, m bytes in all blocks together:
 *     a  +  (n-1)/n m b
 * where the root has room for all messages at once; beyond that, its work on n-1 messages shows: for large data.
 */
#include "algos/generators.h"

void weft_gather_direct_generate(struct weft_builder *builder, const struct weft_plan_request *request)
{
    uint32_t n = request->ranks, root = (uint32_t)request->root, next = (root + 1) % n;
    struct weft_ref input = weft_in(WEFT_BUFFER_INPUT), output = weft_in(WEFT_BUFFER_OUTPUT);

    weft_builder_start(builder, request, n, 0);
    if (request->rank != root) {
        weft_builder_send(builder, root, weft_range(request->rank, 1, 0), input);
        return;
    }
    if (!request->in_place)
        weft_builder_copy(builder, weft_range(root, 1, 0), output, input, 0);
    weft_builder_loop(builder, n - 1);
    weft_builder_recv_by(builder, next, 1, weft_range(next, 1, 1), output);
    weft_builder_loop_end(builder);
}
