/* Ring allgather.
 *
 * Each block travels n-1 hops around the ring 0 -> 1 -> ... -> n-1 -> 0. In every round each rank passes the block that
 * it has just got to its right, and receives the next one from its left, so all links work all the time.
 *
 * Every step names one block, so the plan serves unequal calls too.
 *
 * Cost, with a per message, b per byte, m bytes in all blocks together:
 *     (n-1) a  +  (n-1)/n m b
 * which moves the least possible number of bytes, at the price of n-1 rounds: for large data. A rank whose own block
 * does not lie in its place copies it there besides.
 *
 * Source: R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of collective communication operations in MPICH",
 * International Journal of High Performance Computing Applications 19 (2005), section 4.1.
 */
#include "algos/generators.h"

void weft_allgather_ring_generate(struct weft_builder *builder, const struct weft_plan_request *request)
{
    uint32_t n = request->ranks, r = request->rank;
    uint32_t right = (r + 1) % n, left = (r + n - 1) % n;
    struct weft_ref input = weft_in(WEFT_BUFFER_INPUT), output = weft_in(WEFT_BUFFER_OUTPUT);

    weft_builder_start(builder, request, n, 0);
    weft_builder_recv(builder, left, weft_range(left, 1, 0), output);
    weft_builder_send(builder, right, weft_range(r, 1, 0), input);
    if (!request->in_place)
        weft_builder_copy(builder, weft_range(r, 1, 0), output, input, 0);
    weft_builder_loop(builder, n - 2);
    weft_builder_recv(builder, left, weft_range((left + n - 1) % n, 1, -1), output);
    weft_builder_send(builder, right, weft_range(left, 1, -1), output);
    weft_builder_loop_end(builder);
}
