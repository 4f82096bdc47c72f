/* Chain reduce.
 *
 * The data is divided into many chunks, which go one after the other from the rank before the root backwards around to
 * the root, each rank adding its own. A rank in between keeps a sum only while it is being passed on, in one of a few
 * cells: it needs CELLS/CHUNKS of the data as memory.
 *
 * Cost, with a per message, b per byte and g per byte reduced, m bytes, c of them in a chunk or a slice of one:
 *     (n-1) (a + c (b + g))  +  (m - c) (b + g)
 * where transfer and reduction do not overlap; the chunks' messages follow each other without waiting. It tends to the
 * least possible time for large m and few ranks.
 *
 * Source: J. Worringen, "Pipelining and overlapping for MPI collective operations", 28th IEEE Conference on Local
 * Computer Networks (2003).
 */
#include "algos/generators.h"

#define CHUNKS 64
#define CELLS  4
#define SLOTS  4

void weft_reduce_chain_generate(struct weft_builder *builder, const struct weft_plan_request *request)
{
    uint32_t place = weft_branch_of(request).place;
    struct weft_range chunk = weft_range(0, 1, 1);
    struct weft_ref input = weft_in(WEFT_BUFFER_INPUT);
    int last = place + 1 == request->ranks;

    weft_builder_start(builder, request, CHUNKS, last ? 0 : SLOTS);
    if (!last && place)
        weft_builder_cells(builder, CELLS);
    weft_builder_loop(builder, CHUNKS);
    if (!last) {
        weft_builder_recv(builder, weft_branch_rank(request, place + 1), chunk, weft_slot(0, 1));
        weft_builder_reduce(builder, chunk, place ? weft_cell_ref(0, 1) : weft_in(WEFT_BUFFER_OUTPUT), input,
                            weft_slot(0, 1), place ? 0 : WEFT_STEP_FINISH);
    }
    if (place)
        weft_builder_send(builder, weft_branch_rank(request, place - 1), chunk,
                          last ? input : weft_cell_ref(0, 1));
    weft_builder_loop_end(builder);
}
