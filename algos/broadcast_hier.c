/* SPDX-License-Identifier: Apache-2.0 */
/* Hierarchical broadcast: a chain over hosts, and a chain within each.
 *
 * The root's host comes first and the others follow in their order, around the end. The data goes from the root to the
 * first rank of the next host, and from there to the next one; and from each of them along its own host, from neighbour to
 * neighbour. So it enters every host once, as in a chain over all ranks (broadcast_chain.c), but the last rank is H + L - 2
 * messages away and not H L - 1. The executor cuts the data into slices that follow each other.
 *
 * Cost, with L ranks per host, H hosts, a, b of the network, a', b' within the host, m bytes in slices of s:
 *     (H-1) (a + s b)  +  (L-1) (a' + s b')  +  (m - s) max(b, b')
 * for large data. A host's first rank sends each slice twice; within a host it is the receiver who moves bytes.
 *
 * Source: the pipelined chain of J. Watts, R. van de Geijn, "A pipelined broadcast for multidimensional meshes", Parallel
 * Processing Letters 5 (1995), once for each dimension.
 */
#include "algos/seat.h"

void weft_broadcast_hier_generate(struct weft_builder *builder, const struct weft_plan_request *request)
{
    struct weft_seat seat = weft_seat_of(request);
    uint32_t root = (uint32_t)request->root, root_host = weft_hosts_at(seat.hosts, root);
    uint32_t distance = weft_back(seat.host, root_host, seat.host_count);
    uint32_t next_host = (seat.host + 1) % seat.host_count;
    /* Within its host the root comes first; the others stay where they are, around the end. */
    uint32_t head = seat.host == root_host ? root - seat.first : 0;
    uint32_t place = weft_back(seat.local, head, seat.size);
    struct weft_range all = weft_range(0, 1, 0);
    struct weft_ref output = weft_in(WEFT_BUFFER_OUTPUT);
    struct weft_ref source = weft_in(request->rank == root ? WEFT_BUFFER_INPUT : WEFT_BUFFER_OUTPUT);

    weft_builder_start(builder, request, 1, 0);
    if (place > 0) {
        weft_builder_recv(builder, weft_seat_left(&seat), all, output);
    } else if (distance > 0) {
        uint32_t last_host = weft_back(seat.host, 1, seat.host_count);
        uint32_t sender = distance == 1 ? root : seat.hosts->first[last_host];
        weft_builder_recv(builder, sender, all, output);
    }
    if (place == 0 && distance + 1 < seat.host_count)
        weft_builder_send(builder, seat.hosts->first[next_host], all, source);
    if (place + 1 < seat.size)
        weft_builder_send(builder, weft_seat_right(&seat), all, source);
    if (request->rank == root && !request->in_place)
        weft_builder_copy(builder, all, output, source, 0);
}
