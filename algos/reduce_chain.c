/* SPDX-License-Identifier: Apache-2.0 */
/* Chain reduce, along one ring or several at once.
 *
 * The data is divided into many chunks, which go one after the other from the rank before the root backwards around to
 * the root, each rank adding its own. A rank in between keeps a sum only while it is being passed on, in one of a few
 * cells: it needs a sixteenth of the data as memory.
 *
 * Where the hosts have k rings (algos/hosts.h), one per rail, the data is divided into k shares, each of which goes along its
 * own ring (algos/rings.h), so that as many network devices of each host work. There are no more shares than cells.
 *
 * Cost, with a per message, b per byte of a device and g per byte reduced, m bytes, c of them in a chunk or a slice of one:
 *     (n-1) (a + c (b + g))  +  (m - k c) (b/k + g)
 * where transfer and reduction do not overlap; the chunks' messages follow each other without waiting. It tends to the
 * least possible time for large m and few ranks.
 *
 * Source: J. Worringen, "Pipelining and overlapping for MPI collective operations", 28th IEEE Conference on Local
 * Computer Networks (2003).
 */
#include "algos/rings.h"

#define SLOTS 4

/* The steps of a loop's body in one ring. Sums go to the left, towards the root. */
static void generate_ring(struct weft_builder *builder, const struct weft_plan_request *request,
                          struct weft_ring ring)
{
    struct weft_ring_seat seat = weft_chain_seat_of(request, ring.number);
    struct weft_range chunk = weft_ring_chunk(ring, 0, 1);
    struct weft_ref input = weft_in(WEFT_BUFFER_INPUT), cell = weft_ring_cell(ring, 0, 1);
    int last = seat.place + 1 == request->ranks;
    if (!last) {
        weft_builder_recv(builder, seat.right, chunk, weft_ring_slot(ring, 0, 1));
        weft_builder_reduce(builder, chunk, seat.place ? cell : weft_in(WEFT_BUFFER_OUTPUT), input,
                            weft_ring_slot(ring, 0, 1), seat.place ? 0 : WEFT_STEP_FINISH);
    }
    if (seat.place)
        weft_builder_send(builder, seat.left, chunk, last ? input : cell);
}

void weft_reduce_chain_generate(struct weft_builder *builder, const struct weft_plan_request *request)
{
    uint32_t rings = weft_chain_rings(weft_hosts_rings(request->hosts)), passed = 0, last = 0;
    uint32_t chunks = weft_chain_chunks(rings);
    for (uint32_t r = 0; r < rings; r++) {
        uint32_t place = weft_chain_seat_of(request, r).place;
        last += place + 1 == request->ranks;
        passed += place > 0 && place + 1 < request->ranks;
    }
    weft_builder_start(builder, request, chunks * rings, last == rings ? 0 : SLOTS * rings);
    if (passed)
        weft_builder_cells(builder, weft_chain_cells(rings) * rings);
    weft_builder_loop(builder, chunks);
    for (uint32_t r = 0; r < rings; r++)
        generate_ring(builder, request, (struct weft_ring){r, rings});
    weft_builder_loop_end(builder);
}
