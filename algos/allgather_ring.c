/* SPDX-License-Identifier: Apache-2.0 */
/* Ring allgather.
 *
 * Each block travels n-1 hops around the ring 0 -> 1 -> ... -> n-1 -> 0. In every round each rank passes the block that
 * it has just got to its right, and receives the next one from its left, so all links work all the time.
 *
 * Every step names one block, so the plan serves unequal calls too. Where the ranks have an order of their own the ring
 * follows it, and blocks go by in that order too: loops where it counts in even steps, single records where it does not.
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
#include "algos/hosts.h"

/* The same along an order: block number i of the ring is the chunk of the rank at position i. */
static void generate_ordered(struct weft_builder *builder, const struct weft_plan_request *request)
{
    const uint32_t *order = request->hosts->order;
    uint32_t n = request->ranks, right = (request->rank + 1) % n, left = (request->rank + n - 1) % n;
    struct weft_ref input = weft_in(WEFT_BUFFER_INPUT), output = weft_in(WEFT_BUFFER_OUTPUT);
    weft_builder_start(builder, request, n, 0);
    weft_builder_rounds(builder);
    for (uint32_t round = 0; round + 1 < n; round++) {
        uint32_t sent = (request->rank + n - round) % n;
        weft_builder_recv(builder, left, weft_range(order[(sent + n - 1) % n], 1, 0), output);
        weft_builder_send(builder, right, weft_range(order[sent], 1, 0), round ? output : input);
        weft_builder_round_end(builder);
        if (round == 0 && !request->in_place)
            weft_builder_copy(builder, weft_range(order[sent], 1, 0), output, input, 0);
        if (round == 0)
            weft_builder_rounds(builder);
    }
}

void weft_allgather_ring_generate(struct weft_builder *builder, const struct weft_plan_request *request)
{
    uint32_t n = request->ranks, r = request->rank;
    uint32_t right = (r + 1) % n, left = (r + n - 1) % n;
    struct weft_ref input = weft_in(WEFT_BUFFER_INPUT), output = weft_in(WEFT_BUFFER_OUTPUT);

    if (request->hosts->order) {
        generate_ordered(builder, request);
        return;
    }
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
