/* Chain broadcast.
 *
 * The data goes from the root to the next rank, from there to the next but one, and so on. It stays in one chunk: the
 * executor cuts a long one into slices and passes each on as soon as it has come, so that all links work at once.
 *
 * Cost, with a per message, b per byte, m bytes, s bytes in a slice (m where it is less):
 *     (n-1) (a + s b)  +  (m - s) b
 * which tends to m b, the least possible time, for large m and few ranks.
 *
 * Source: J. L. Traeff, A. Ripke, "Optimal broadcast for fully connected processor-node networks", Journal of Parallel
 * and Distributed Computing 68 (2008), section 2 (the linear pipeline).
 */
#include "algos/generators.h"

void weft_broadcast_chain_generate(struct weft_builder *builder, const struct weft_plan_request *request)
{
    uint32_t place = weft_branch_of(request).place;
    struct weft_range all = weft_range(0, 1, 0);
    struct weft_ref output = weft_in(WEFT_BUFFER_OUTPUT);
    struct weft_ref source = weft_in(place ? WEFT_BUFFER_OUTPUT : WEFT_BUFFER_INPUT);

    weft_builder_start(builder, request, 1, 0);
    if (place)
        weft_builder_recv(builder, weft_branch_rank(request, place - 1), all, output);
    if (place + 1 < request->ranks)
        weft_builder_send(builder, weft_branch_rank(request, place + 1), all, source);
    if (!place && !request->in_place)
        weft_builder_copy(builder, all, output, source, 0);
}
