/* SPDX-License-Identifier: Apache-2.0 */
/* Bruck's allgather.
 *
 * After k rounds rank r has the blocks of ranks r, r+1, ..., r + 2^k - 1 (modulo n). In the next round it sends all of
 * them to rank r - 2^k and gets those of r + 2^k in return; the last round moves only what is missing. Blocks lie at
 * their places in OUTPUT all the time, so that nothing has to be rotated in the end; a range that runs over the end
 * goes as two messages, whose sends and receives alternate so that every rank has both directions in sight.
 *
 * Where blocks are unequal and may have gaps, they are collected in TEMP, where they lie close, and copied from there.
 *
 * Cost, with a per message, b per byte, m bytes in all blocks together, d = ceil(log2 n):
 *     d a  +  (n-1)/n m b
 * plus a for each range in two parts (one at most on the way of any block), plus m b for the copy of unequal blocks: for
 * small and middle sizes.
 *
 * Source: J. Bruck, C.-T. Ho, S. Kipnis, E. Upfal, D. Weathersby, "Efficient algorithms for all-to-all communications in
 * multiport message-passing systems", IEEE Transactions on Parallel and Distributed Systems 8 (1997).
 */
#include "algos/generators.h"

void weft_allgather_bruck_generate(struct weft_builder *builder, const struct weft_plan_request *request)
{
    uint32_t n = request->ranks, r = request->rank;
    struct weft_range own = weft_range(r, 1, 0);
    struct weft_ref input = weft_in(WEFT_BUFFER_INPUT), output = weft_in(WEFT_BUFFER_OUTPUT);
    struct weft_ref memory = request->unequal ? weft_in(WEFT_BUFFER_TEMP) : output;
    struct weft_ref source = request->unequal ? memory : input;

    weft_builder_start(builder, request, n, 0);
    if (request->unequal)
        weft_builder_copy(builder, own, memory, input, 0);
    for (uint32_t have = 1, count; have < n; have += count) {
        count = have < n - have ? have : n - have;
        uint32_t from = (uint32_t)(((uint64_t)r + have) % n), to = (uint32_t)(((uint64_t)r + n - have) % n);
        struct weft_wrap in = weft_wrap_of(from, count, n), out = weft_wrap_of(r, count, n);
        for (int part = 0; part < 2; part++) {
            if (part < in.count)
                weft_builder_recv(builder, from, in.parts[part], memory);
            if (part < out.count)
                weft_builder_send(builder, to, out.parts[part], source);
        }
        if (have == 1 && !request->in_place && !request->unequal)
            weft_builder_copy(builder, own, memory, input, 0);
        source = memory;
    }
    if (!request->unequal)
        return;
    weft_builder_loop(builder, n);
    weft_builder_copy(builder, weft_range(0, 1, 1), output, memory, 0);
    weft_builder_loop_end(builder);
}
