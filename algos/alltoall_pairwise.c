/* SPDX-License-Identifier: Apache-2.0 */
/* Pairwise alltoall.
 *
 * In round k = 1, ..., n-1 each rank sends its block for rank r+k there and receives from rank r-k; so in every round
 * each rank talks to one rank in each direction. Blocks go from INPUT to OUTPUT without a stop. (With r xor k instead,
 * where n is a power of two, both directions would be of the same pair; that gains nothing here and does not fit in a
 * loop.)
 *
 * Every step names one block of the caller's, so the plan serves unequal calls, and no rank needs to know more than the
 * sizes of its own blocks.
 *
 * Cost, with a per message, b per byte, m bytes in all blocks of a rank together:
 *     a  +  (n-1)/n m b
 * where rounds overlap, which the window allows; for large blocks.
 *
 * Source: R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of collective communication operations in MPICH",
 * International Journal of High Performance Computing Applications 19 (2005), section 4.6.
 */
#include "algos/generators.h"

void weft_alltoall_pairwise_generate(struct weft_builder *builder, const struct weft_plan_request *request)
{
    uint32_t n = request->ranks, r = request->rank;
    uint32_t right = (r + 1) % n, left = (r + n - 1) % n;
    struct weft_ref input = weft_in(WEFT_BUFFER_INPUT), output = weft_in(WEFT_BUFFER_OUTPUT);

    weft_builder_start(builder, request, n, 0);
    weft_builder_loop(builder, n - 1);
    weft_builder_recv_by(builder, left, -1, weft_range(left, 1, -1), output);
    weft_builder_send_by(builder, right, 1, weft_range(right, 1, 1), input);
    weft_builder_loop_end(builder);
    weft_builder_copy(builder, weft_range(r, 1, 0), output, input, 0);
}
