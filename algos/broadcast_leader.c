/* SPDX-License-Identifier: Apache-2.0 */
/* Broadcast through one leader per host: a binomial tree over hosts, then one in each.
 *
 * The root leads its host, elsewhere the first rank does. Both trees are those of broadcast_binomial.c, hosts counted from
 * the root's and ranks from their leader. A leader serves other hosts before its own, the farthest subtree first.
 *
 * Cost, with L ranks per host, H hosts, a, b of the network, a', b' within the host, m bytes:
 *     ceil(log2 H) (a + m b)  +  ceil(log2 L) (a' + m b')
 * which is the least number of messages between hosts on the way to any rank: for small data.
 *
 * Source: R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of collective communication operations in MPICH",
 * International Journal of High Performance Computing Applications 19 (2005), for the parts.
 */
#include "algos/seat.h"

/* A tree over members of a circle. */
struct circle {
    uint32_t head, size; /* where counting begins, how many there are */
};

static uint32_t member_at(const struct circle *circle, uint32_t place)
{
    return (uint32_t)(((uint64_t)circle->head + place) % circle->size);
}

void weft_broadcast_leader_generate(struct weft_builder *builder, const struct weft_plan_request *request)
{
    struct weft_seat seat = weft_seat_of(request);
    const uint32_t *first = seat.hosts->first;
    uint32_t root = (uint32_t)request->root, root_host = weft_hosts_at(seat.hosts, root);
    struct circle hosts = {root_host, seat.host_count};
    struct circle own = {seat.host == root_host ? root - seat.first : 0, seat.size};
    struct weft_branch over = weft_branch_at(weft_back(seat.host, hosts.head, hosts.size), hosts.size);
    struct weft_branch within = weft_branch_at(weft_back(seat.local, own.head, own.size), own.size);
    struct weft_range all = weft_range(0, 1, 0);
    struct weft_ref output = weft_in(WEFT_BUFFER_OUTPUT);
    struct weft_ref source = weft_in(request->rank == root ? WEFT_BUFFER_INPUT : WEFT_BUFFER_OUTPUT);

    weft_builder_start(builder, request, 1, 0);
    if (within.place)
        weft_builder_recv(builder, seat.first + member_at(&own, within.parent), all, output);
    else if (over.place)
        weft_builder_recv(builder, over.parent ? first[member_at(&hosts, over.parent)] : root, all, output);
    for (uint32_t bit = within.place ? 0 : over.step; bit > 0; bit /= 2) {
        if (bit < over.size)
            weft_builder_send(builder, first[member_at(&hosts, over.place + bit)], all, source);
    }
    for (uint32_t bit = within.step; bit > 0; bit /= 2) {
        if (bit < within.size)
            weft_builder_send(builder, seat.first + member_at(&own, within.place + bit), all, source);
    }
    if (request->rank == root && !request->in_place)
        weft_builder_copy(builder, all, output, source, 0);
}
