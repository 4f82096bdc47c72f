/* Ring allreduce.
 *
 * The data is divided into as many chunks as there are ranks, n. Chunk c starts at rank c and travels once
 * around the ring 0 -> 1 -> ... -> n-1 -> 0 collecting a sum; after n-1 hops it is complete at rank c-1
 * (reduce-scatter). From there it travels n-1 more hops, now only being copied (allgather). In every round
 * each rank sends one chunk to its right and receives one from its left, so all links work all the time.
 *
 * Each chunk is added up along one path, ((x[c] + x[c+1]) + ...) + x[c-1], and finished by one rank, so all
 * ranks end with the same bits.
 *
 * Cost, with a per message, b per byte and g per byte reduced, m bytes:
 *     2 (n-1) a  +  2 (n-1)/n m b  +  (n-1)/n m g
 * which moves the least possible number of bytes per rank, at the price of a number of rounds that grows
 * with n: for large data.
 *
 * The loop bodies are shifted so that one record serves a round: REDUCE what round i brought, RECV for round
 * i+1, SEND what was just reduced. RECV stands before SEND so that even a window of two steps makes progress:
 * a SEND is complete only when the right neighbour has reduced it, and its REDUCE must be in its window then.
 *
 * Source: P. Patarasuk and X. Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations",
 * Journal of Parallel and Distributed Computing 69 (2009).
 */
#include "algos/generators.h"

/* Slots in rotation. Two would do; more let a neighbour that is ahead announce its chunks early. */
#define SLOTS 4

void weft_ring_generate(struct weft_builder *builder, const struct weft_plan_request *request)
{
    uint32_t n = request->ranks, r = request->rank;
    uint32_t right = (r + 1) % n, left = (r + n - 1) % n;
    uint32_t slots = n - 1 < SLOTS ? n - 1 : SLOTS;
    struct weft_ref input = weft_in(WEFT_BUFFER_INPUT), output = weft_in(WEFT_BUFFER_OUTPUT);

    weft_builder_start(builder, request, n, slots);
    weft_builder_recv(builder, left, weft_range(left, 1, 0), weft_slot(0, 0));
    weft_builder_send(builder, right, weft_range(r, 1, 0), input);

    weft_builder_loop(builder, n - 2);
    weft_builder_reduce(builder, weft_range(left, 1, -1), output, weft_slot(0, 1), input, 0);
    weft_builder_recv(builder, left, weft_range((left + n - 1) % n, 1, -1), weft_slot(1 % slots, 1));
    weft_builder_send(builder, right, weft_range(left, 1, -1), output);
    weft_builder_loop_end(builder);

    weft_builder_reduce(builder, weft_range(right, 1, 0), output, weft_slot((n - 2) % slots, 0), input,
                        WEFT_STEP_FINISH);

    weft_builder_loop(builder, n - 1);
    weft_builder_recv(builder, left, weft_range(r, 1, -1), output);
    weft_builder_send(builder, right, weft_range(right, 1, -1), output);
    weft_builder_loop_end(builder);
}
