/* SPDX-License-Identifier: Apache-2.0 */
/* Ring reduce-scatter.
 *
 * Block c starts at rank c+1 and travels once around the ring 0 -> 1 -> ... -> n-1 -> 0, collecting a sum; after n-1
 * hops it is complete at rank c. In every round each rank sends one block to its right and receives one from its left.
 *
 * Sums on their way lie in a few cells in rotation: a rank that only has room for its own block in OUTPUT needs no
 * copy of everything. Two cells would do (a cell may be written again when the right neighbour has reduced what was
 * in it); with more a rank may be ahead of its neighbour.
 *
 * The loop body is shifted as in ring.c, for the same reasons. Every step names one block, so the plan serves unequal
 * calls too.
 *
 * Where the ranks have an order of their own the ring follows it (algos/allgather_ring.c).
 *
 * Cost, with a per message, b per byte and g per byte reduced, m bytes in all blocks together:
 *     (n-1) a  +  (n-1)/n m (b + g)
 * which moves the least possible number of bytes, at the price of n-1 rounds: for large data.
 *
 * Source: P. Patarasuk and X. Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations",
 * Journal of Parallel and Distributed Computing 69 (2009).
 */
#include "algos/generators.h"
#include "algos/hosts.h"

#define SLOTS 4
#define CELLS 4

/* The same along an order: block number i of the ring is the chunk of the rank at position i. Cells and slots are counted
 * by rounds, as in the loops below. */
static void generate_ordered(struct weft_builder *builder, const struct weft_plan_request *request)
{
    const uint32_t *order = request->hosts->order;
    uint32_t n = request->ranks, right = (request->rank + 1) % n, left = (request->rank + n - 1) % n;
    struct weft_ref input = weft_in(WEFT_BUFFER_INPUT);
    weft_builder_start(builder, request, n, SLOTS);
    weft_builder_cells(builder, n > 2 ? CELLS : 0);
    weft_builder_rounds(builder);
    for (uint32_t round = 0; round + 1 < n; round++) {
        uint32_t sent = (left + n - round) % n, last = round + 2 == n;
        struct weft_range taken = weft_range(order[(sent + n - 1) % n], 1, 0);
        struct weft_ref slot = weft_slot(round % SLOTS, 0);
        struct weft_ref sum = last ? weft_in(WEFT_BUFFER_OUTPUT) : weft_cell_ref(round % CELLS, 0);
        weft_builder_recv(builder, left, taken, slot);
        weft_builder_send(builder, right, weft_range(order[sent], 1, 0),
                          round ? weft_cell_ref((round - 1) % CELLS, 0) : input);
        weft_builder_reduce(builder, taken, sum, slot, input, last ? WEFT_STEP_FINISH : 0);
        weft_builder_round_end(builder);
    }
}

void weft_reduce_scatter_ring_generate(struct weft_builder *builder, const struct weft_plan_request *request)
{
    uint32_t n = request->ranks, r = request->rank;
    uint32_t right = (r + 1) % n, left = (r + n - 1) % n, next = (left + n - 1) % n;
    uint32_t slots = n - 1 < SLOTS ? n - 1 : SLOTS;
    struct weft_ref input = weft_in(WEFT_BUFFER_INPUT), output = weft_in(WEFT_BUFFER_OUTPUT);

    if (request->hosts->order) {
        generate_ordered(builder, request);
        return;
    }
    weft_builder_start(builder, request, n, slots);
    weft_builder_cells(builder, n - 2 < CELLS ? n - 2 : CELLS);
    weft_builder_recv(builder, left, weft_range(next, 1, 0), weft_slot(0, 0));
    weft_builder_send(builder, right, weft_range(left, 1, 0), input);

    weft_builder_loop(builder, n - 2);
    weft_builder_reduce(builder, weft_range(next, 1, -1), weft_cell_ref(0, 1), weft_slot(0, 1), input, 0);
    weft_builder_recv(builder, left, weft_range((next + n - 1) % n, 1, -1), weft_slot(1 % slots, 1));
    weft_builder_send(builder, right, weft_range(next, 1, -1), weft_cell_ref(0, 1));
    weft_builder_loop_end(builder);

    weft_builder_reduce(builder, weft_range(r, 1, 0), output, weft_slot((n - 2) % slots, 0), input,
                        WEFT_STEP_FINISH);
}
