/* SPDX-License-Identifier: Apache-2.0 */
/* Chain broadcast, along one ring or several at once.
 *
 * The data goes from the root to the next rank, from there to the next but one, and so on. It stays in one chunk: the
 * executor cuts a long one into slices and passes each on as soon as it has come, so that all links work at once.
 *
 * Where the hosts have k rings (algos/hosts.h), one per rail, the data is divided into k chunks, each of which goes along its
 * own ring from the root on (algos/rings.h), so that as many network devices of each host work. A chain passes the root's host
 * first and whole.
 *
 * Cost, with a per message, b per byte of a device, m bytes, s bytes in a slice (m/k where it is less):
 *     (n-1) (a + s b)  +  (m/k - s) b
 * which tends to m/k b, the least possible time, for large m and few ranks.
 *
 * Source: J. L. Traeff, A. Ripke, "Optimal broadcast for fully connected processor-node networks", Journal of Parallel
 * and Distributed Computing 68 (2008), section 2 (the linear pipeline).
 */
#include "algos/rings.h"

void weft_broadcast_chain_generate(struct weft_builder *builder, const struct weft_plan_request *request)
{
    uint32_t rings = weft_hosts_rings(request->hosts);
    int is_root = request->rank == (uint32_t)request->root;
    struct weft_ref output = weft_in(WEFT_BUFFER_OUTPUT);
    struct weft_ref source = weft_in(is_root ? WEFT_BUFFER_INPUT : WEFT_BUFFER_OUTPUT);

    weft_builder_start(builder, request, rings, 0);
    for (uint32_t r = 0; r < rings; r++) {
        struct weft_ring_seat seat = weft_chain_seat_of(request, r);
        if (seat.place)
            weft_builder_recv(builder, seat.left, weft_range(r, 1, 0), output);
        if (seat.place + 1 < request->ranks)
            weft_builder_send(builder, seat.right, weft_range(r, 1, 0), source);
    }
    if (is_root && !request->in_place)
        weft_builder_copy(builder, weft_range(0, rings, 0), output, source, 0);
}
