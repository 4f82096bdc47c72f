/* SPDX-License-Identifier: Apache-2.0 */
/* Binomial tree gather.
 *
 * Ranks are counted from the root (struct weft_branch). A rank collects the blocks of all ranks below it, together with
 * its own, and sends them on in one message; where they run over the end of the space, in two. Only ranks that have
 * others below them need memory, TEMP, and copy a block, their own. The root receives into OUTPUT.
 *
 * Cost, with a per message, b per byte, m bytes in all blocks together, d = ceil(log2 n):
 *     d a  +  (n-1)/n m b
 * against the n-1 messages that the root gets in the direct gather: for small data.
 *
 * Source: R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of collective communication operations in MPICH",
 * International Journal of High Performance Computing Applications 19 (2005), section 4.4.
 */
#include "algos/generators.h"

/* The blocks at and below a place. */
static struct weft_wrap blocks_of(const struct weft_plan_request *request, uint32_t place)
{
    return weft_wrap_of(weft_branch_rank(request, place), weft_branch_at(place, request->ranks).size,
                        request->ranks);
}

void weft_gather_binomial_generate(struct weft_builder *builder, const struct weft_plan_request *request)
{
    struct weft_branch branch = weft_branch_of(request);
    struct weft_range own = weft_range(request->rank, 1, 0);
    struct weft_ref input = weft_in(WEFT_BUFFER_INPUT);
    struct weft_ref memory = weft_in(branch.place ? WEFT_BUFFER_TEMP : WEFT_BUFFER_OUTPUT);
    struct weft_wrap blocks = blocks_of(request, branch.place);

    weft_builder_start(builder, request, request->ranks, 0);
    if (branch.place ? branch.size > 1 : !request->in_place)
        weft_builder_copy(builder, own, memory, input, 0);
    for (uint64_t bit = 1; bit <= branch.step && branch.place + bit < request->ranks; bit *= 2) {
        uint32_t child = branch.place + (uint32_t)bit;
        struct weft_wrap theirs = blocks_of(request, child);
        for (int part = 0; part < theirs.count; part++)
            weft_builder_recv(builder, weft_branch_rank(request, child), theirs.parts[part], memory);
    }
    for (int part = 0; branch.place && part < blocks.count; part++)
        weft_builder_send(builder, weft_branch_rank(request, branch.parent), blocks.parts[part],
                          branch.size > 1 ? memory : input);
}
