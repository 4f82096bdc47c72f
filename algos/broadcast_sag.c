/* SPDX-License-Identifier: Apache-2.0 */
/* Broadcast by scatter and allgather.
 *
 * The data is divided into as many chunks as there are ranks; chunk v belongs to the rank that is v after the root. A
 * binomial tree scatters them: place v gets the chunks of all places below it, [v, v + size). Then a ring collects
 * them: place v passes to place v+1 its own chunk, then what it gets from v-1, one chunk per round. What a place has
 * from the scatter it need not get again: place v takes n - size rounds only, and its left neighbour sends as many. The
 * root takes none, so the ring is open.
 *
 * Cost, with a per message, b per byte, m bytes, d = ceil(log2 n):
 *     (n-1) a  +  2 (n-1)/n m b
 * against d m b of the binomial tree: for large data and more than a few ranks, where a chain would be too long.
 *
 * Source: M. Barnett, L. Shuler, R. van de Geijn, S. Gupta, D. Payne, J. Watts, "Interprocessor collective communication
 * library (InterCom)", Scalable High-Performance Computing Conference (1994); the open ring: H. Zhou, V. Marjanovic, C.
 * Niethammer, J. Gracia, "A bandwidth-saving optimization for MPI broadcast collective operation", International
 * Conference on Parallel Processing Workshops (2015).
 */
#include "algos/generators.h"

/* The ring's part of place: count rounds of the given kinds, from round first on. */
static void generate_rounds(struct weft_builder *builder, const struct weft_plan_request *request,
                            uint32_t place, uint32_t first, uint32_t count, int receives, int sends)
{
    uint32_t n = request->ranks;
    uint32_t mine = (uint32_t)(((uint64_t)place + n - first) % n), theirs = (mine + n - 1) % n;
    struct weft_ref output = weft_in(WEFT_BUFFER_OUTPUT);

    if (count == 0 || !(receives || sends))
        return;
    weft_builder_loop(builder, count);
    if (receives)
        weft_builder_recv(builder, weft_branch_rank(request, place - 1), weft_range(theirs, 1, -1), output);
    if (sends)
        weft_builder_send(builder, weft_branch_rank(request, place + 1), weft_range(mine, 1, -1),
                          weft_in(place ? WEFT_BUFFER_OUTPUT : WEFT_BUFFER_INPUT));
    weft_builder_loop_end(builder);
}

void weft_broadcast_sag_generate(struct weft_builder *builder, const struct weft_plan_request *request)
{
    struct weft_branch branch = weft_branch_of(request);
    uint32_t n = request->ranks;
    struct weft_ref source = weft_in(branch.place ? WEFT_BUFFER_OUTPUT : WEFT_BUFFER_INPUT);

    weft_builder_start(builder, request, n, 0);
    if (branch.place)
        weft_builder_recv(builder, weft_branch_rank(request, branch.parent),
                          weft_range(branch.place, branch.size, 0), weft_in(WEFT_BUFFER_OUTPUT));
    for (uint32_t bit = branch.step; bit > 0; bit /= 2) {
        uint64_t child = branch.place + (uint64_t)bit;
        if (child < n)
            weft_builder_send(builder, weft_branch_rank(request, (uint32_t)child),
                              weft_range((uint32_t)child, weft_branch_at((uint32_t)child, n).size, 0),
                              source);
    }
    uint32_t receives = n - branch.size;
    uint32_t sends = branch.place + 1 < n ? n - weft_branch_at(branch.place + 1, n).size : 0;
    uint32_t both = receives < sends ? receives : sends;
    generate_rounds(builder, request, branch.place, 0, both, 1, 1);
    generate_rounds(builder, request, branch.place, both, receives - both, 1, 0);
    generate_rounds(builder, request, branch.place, both, sends - both, 0, 1);
    if (!branch.place && !request->in_place)
        weft_builder_copy(builder, weft_range(0, n, 0), weft_in(WEFT_BUFFER_OUTPUT), source, 0);
}
