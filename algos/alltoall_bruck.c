/* SPDX-License-Identifier: Apache-2.0 */
/* Bruck's alltoall.
 *
 * Block j of rank r is the one for rank r+j (modulo n). It travels in hops of powers of two: in round k every rank sends
 * all blocks whose j has bit k set to rank r + 2^k, in one message. A block is at its end after the round of j's highest
 * bit, where the rank that holds it has it from rank r-j. So there are log2 n messages instead of n-1, and each block is
 * sent once per bit of j, which are log2(n)/2 on average.
 *
 * Where a block is before round k, which sends it on: in INPUT when j has no lower bit than k, otherwise where it was
 * received in the round of the highest bit below k. Round k's blocks are received into an area of TEMP of its own, in
 * the order of j, and stay there until they are packed for a later round or copied to OUTPUT: one copy per hop and one
 * in the end. They are packed into OUTPUT, which is not needed before the end, into its lower or its upper half in
 * turn: packing does not wait for the round before.
 *
 * The blocks of round k are runs [a, a + 2^k) with a an odd multiple of 2^k. In a run, a comes from INPUT, and [a + 2^i, a
 * + 2^(i+1)) lies together in round i's area; so a run is packed by k+1 copies, and all rounds together by about 2 n.
 *
 * TEMP has room for n/2 log2 n blocks: this is for small ones. RECV and SEND of a round stand next to each other behind
 * the copies, so that every window holds both.
 *
 * Cost, with a per message, b per byte moved or copied, m bytes in all blocks of a rank together, d = ceil(log2 n):
 *     d a  +  d/2 m 2 b  +  m b
 *
 * Source: J. Bruck, C.-T. Ho, S. Kipnis, E. Upfal, D. Weathersby, "Efficient algorithms for all-to-all communications in
 * multiport message-passing systems", IEEE Transactions on Parallel and Distributed Systems 8 (1997).
 */
#include "algos/generators.h"

/* How many of the numbers below `end` have the bit set; that is also the place of `end` itself among them. */
static uint32_t count_below(uint32_t end, uint32_t bit)
{
    uint32_t rest = end & (2 * bit - 1);
    return (end & ~(2 * bit - 1)) / 2 + (rest > bit ? rest - bit : 0);
}

/* Where the area of the bit's round begins in TEMP. */
static uint32_t area_of(uint32_t ranks, uint32_t bit)
{
    uint32_t first = 0;
    for (uint32_t lower = 1; lower < bit; lower *= 2)
        first += count_below(ranks, lower);
    return first;
}

static void pack(struct weft_builder *builder, const struct weft_plan_request *request, uint32_t bit,
                 uint32_t to)
{
    uint32_t n = request->ranks;
    struct weft_ref output = weft_in(WEFT_BUFFER_OUTPUT);
    for (uint64_t run = bit; run < n; run += 2 * (uint64_t)bit) {
        uint32_t a = (uint32_t)run, at = to + count_below(a, bit);
        weft_builder_move(builder, weft_range(at, 1, 0), output, weft_in(WEFT_BUFFER_INPUT),
                          (uint32_t)((request->rank + run) % n), 0);
        for (uint32_t lower = 1; lower < bit && lower < n - a; lower *= 2) {
            uint32_t span = lower < n - a - lower ? lower : n - a - lower;
            weft_builder_move(builder, weft_range(at + lower, span, 0), output, weft_in(WEFT_BUFFER_TEMP),
                              area_of(n, lower) + count_below(a + lower, lower), 0);
        }
    }
}

/* Copies count blocks that lie in TEMP to OUTPUT, the first to chunk, the next to the one before it. */
static void unpack(struct weft_builder *builder, uint32_t chunk, uint32_t from, uint32_t count)
{
    if (count == 0)
        return;
    weft_builder_loop(builder, count);
    weft_builder_move(builder, weft_range(chunk, 1, -1), weft_in(WEFT_BUFFER_OUTPUT),
                      weft_in(WEFT_BUFFER_TEMP), from, 1);
    weft_builder_loop_end(builder);
}

void weft_alltoall_bruck_generate(struct weft_builder *builder, const struct weft_plan_request *request)
{
    uint32_t n = request->ranks, r = request->rank, half = 0, highest = 1;
    while (highest < n - highest)
        highest *= 2;
    uint32_t temp = area_of(n, 2 * highest);

    weft_builder_start(builder, request, temp > n ? temp : n, 0);
    for (uint32_t bit = 1; bit <= highest; bit *= 2, half = n / 2 - half) {
        uint32_t count = count_below(n, bit);
        pack(builder, request, bit, half);
        weft_builder_recv(builder, (uint32_t)(((uint64_t)r + n - bit) % n),
                          weft_range(area_of(n, bit), count, 0), weft_in(WEFT_BUFFER_TEMP));
        weft_builder_send(builder, (uint32_t)(((uint64_t)r + bit) % n), weft_range(half, count, 0),
                          weft_in(WEFT_BUFFER_OUTPUT));
    }
    weft_builder_copy(builder, weft_range(r, 1, 0), weft_in(WEFT_BUFFER_OUTPUT), weft_in(WEFT_BUFFER_INPUT),
                      0);
    for (uint32_t bit = 1; bit <= highest; bit *= 2) {
        uint32_t count = bit < n - bit ? bit : n - bit, area = area_of(n, bit);
        uint32_t first = (uint32_t)(((uint64_t)r + n - bit) % n), before = first < count ? first + 1 : count;
        unpack(builder, first, area, before);
        unpack(builder, n - 1, area + before, count - before);
    }
}
