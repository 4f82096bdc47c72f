/* SPDX-License-Identifier: Apache-2.0 */
/* Binomial tree broadcast.
 *
 * Ranks are counted from the root, v = (rank - root) mod n. Rank v > 0 gets the data from v without its lowest set bit b
 * and passes it on to v + b/2, v + b/4, ..., v + 1, as far as they exist; the root serves all powers of two, the largest
 * first. The data stays in one chunk; the executor lets a long one flow through in slices.
 *
 * Cost, with a per message, b per byte, m bytes, d = ceil(log2 n):
 *     d (a + m b)
 * between hosts, where the root sends d copies one after the other; within a host each rank of a level copies for itself.
 * The least number of rounds: for small data.
 *
 * Source: R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of collective communication operations in MPICH",
 * International Journal of High Performance Computing Applications 19 (2005), section 4.2.
 */
#include "algos/generators.h"

void weft_broadcast_binomial_generate(struct weft_builder *builder, const struct weft_plan_request *request)
{
    struct weft_branch branch = weft_branch_of(request);
    struct weft_range all = weft_range(0, 1, 0);
    struct weft_ref output = weft_in(WEFT_BUFFER_OUTPUT);
    struct weft_ref source = weft_in(branch.place ? WEFT_BUFFER_OUTPUT : WEFT_BUFFER_INPUT);

    weft_builder_start(builder, request, 1, 0);
    if (branch.place)
        weft_builder_recv(builder, weft_branch_rank(request, branch.parent), all, output);
    for (uint32_t bit = branch.step; bit > 0; bit /= 2) {
        if (branch.place + (uint64_t)bit < request->ranks)
            weft_builder_send(builder, weft_branch_rank(request, branch.place + bit), all, source);
    }
    if (!branch.place && !request->in_place)
        weft_builder_copy(builder, all, output, source, 0);
}
