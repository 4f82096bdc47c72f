/* SPDX-License-Identifier: Apache-2.0 */
/* Binomial tree scatter.
 *
 * The gather's tree (gather_binomial.c) with all arrows turned: a rank gets the blocks of all ranks below it, together
 * with its own, in one message (two where they run over the end of the space), and passes each child its part, the
 * largest first. Ranks with others below them keep the blocks in TEMP and copy their own; the others receive it into
 * OUTPUT; the root sends from INPUT.
 *
 * Cost, with a per message, b per byte, m bytes in all blocks together, d = ceil(log2 n):
 *     d a  +  (n-1)/n m b
 * for small data.
 *
 * Source: R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of collective communication operations in MPICH",
 * International Journal of High Performance Computing Applications 19 (2005), section 4.2.
 */
#include "algos/generators.h"

/* The blocks at and below a place. */
static struct weft_wrap blocks_of(const struct weft_plan_request *request, uint32_t place)
{
    return weft_wrap_of(weft_branch_rank(request, place), weft_branch_at(place, request->ranks).size,
                        request->ranks);
}

void weft_scatter_binomial_generate(struct weft_builder *builder, const struct weft_plan_request *request)
{
    struct weft_branch branch = weft_branch_of(request);
    struct weft_ref output = weft_in(WEFT_BUFFER_OUTPUT);
    struct weft_ref memory = weft_in(branch.place ? WEFT_BUFFER_TEMP : WEFT_BUFFER_INPUT);
    struct weft_wrap blocks = blocks_of(request, branch.place);

    weft_builder_start(builder, request, request->ranks, 0);
    for (int part = 0; branch.place && part < blocks.count; part++)
        weft_builder_recv(builder, weft_branch_rank(request, branch.parent), blocks.parts[part],
                          branch.size > 1 ? memory : output);
    for (uint32_t bit = branch.step; bit > 0; bit /= 2) {
        uint64_t child = branch.place + (uint64_t)bit;
        if (child >= request->ranks)
            continue;
        struct weft_wrap theirs = blocks_of(request, (uint32_t)child);
        for (int part = 0; part < theirs.count; part++)
            weft_builder_send(builder, weft_branch_rank(request, (uint32_t)child), theirs.parts[part],
                              memory);
    }
    if (branch.place ? branch.size > 1 : !request->in_place)
        weft_builder_copy(builder, weft_range(request->rank, 1, 0), output, memory, 0);
}
