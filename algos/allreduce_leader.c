/* SPDX-License-Identifier: Apache-2.0 */
/* Allreduce through one leader per host.
 *
 * Within each host a binomial tree adds up at the host's first rank, its leader; the leaders add up among themselves by
 * recursive doubling (algos/rd.c); the result goes down the same trees. Whole messages, few of them, and of those only
 * floor(log2 H) rounds between hosts, in which each host has one message: for small data.
 *
 * A rank adds its children's sums in the order of their distance, lower positions first. All leaders compute the same
 * expression, so all ranks end with the same bits.
 *
 * Cost, with L ranks per host, H hosts, a, b, g of the network, a', b', g' within the host, m bytes, d = floor(log2 .):
 *     d(L) (2 a' + m (b' + g'))  +  d(H) (a + m (b + g)),   plus 2 a + 2 m b + m g when H is no power of two
 *
 * Source: R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of collective communication operations in MPICH",
 * International Journal of High Performance Computing Applications 19 (2005), for the parts.
 */
#include "algos/rd.h"
#include "algos/seat.h"

/* Adds up what comes from below into sum; last: nothing follows. Returns where the rank's sum is then. */
static struct weft_ref generate_up(struct weft_builder *builder, const struct weft_seat *seat,
                                   const struct weft_branch *branch, struct weft_ref sum, int last)
{
    struct weft_range all = weft_range(0, 1, 0);
    struct weft_ref mine = weft_in(WEFT_BUFFER_INPUT);
    uint32_t slot = 0;
    for (uint64_t bit = 1; bit <= branch->step; bit *= 2, slot ^= 1) {
        if (bit >= branch->size)
            break;
        uint64_t next = 2 * bit;
        weft_builder_recv(builder, seat->first + branch->place + (uint32_t)bit, all, weft_slot(slot, 0));
        weft_builder_reduce(builder, all, sum, mine, weft_slot(slot, 0),
                            last && (next > branch->step || next >= branch->size) ? WEFT_STEP_FINISH : 0);
        mine = sum;
    }
    return mine;
}

void weft_allreduce_leader_generate(struct weft_builder *builder, const struct weft_plan_request *request)
{
    struct weft_seat seat = weft_seat_of(request);
    struct weft_branch branch = weft_branch_at(seat.local, seat.size);
    struct weft_range all = weft_range(0, 1, 0);
    struct weft_ref output = weft_in(WEFT_BUFFER_OUTPUT);
    struct weft_rd leaders = {.ranks = seat.host_count,
                              .rank = seat.host,
                              .names = seat.hosts->first,
                              .in_place = request->in_place};

    weft_builder_start(builder, request, 1, 2);
    if (branch.place) {
        struct weft_ref mine = generate_up(builder, &seat, &branch, output, 0);
        weft_builder_send(builder, seat.first + branch.parent, all, mine);
        weft_builder_recv(builder, seat.first + branch.parent, all, output);
    } else {
        leaders.mine = generate_up(builder, &seat, &branch, weft_rd_start(&leaders), seat.host_count == 1);
        weft_rd_exchange(builder, &leaders);
    }
    for (uint32_t bit = branch.step; bit > 0; bit /= 2) {
        if (bit < branch.size)
            weft_builder_send(builder, seat.first + branch.place + bit, all, output);
    }
}
