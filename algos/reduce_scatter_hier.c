/* SPDX-License-Identifier: Apache-2.0 */
/* Hierarchical reduce-scatter: a ring within each host, then rings between them. The mirror of allgather_hier.c.
 *
 *   1. Within each host every block of every host goes around the ring, L-1 hops, collecting the host's sum, and ends at
 *      the rank that deals with it (blocks_hier.h).
 *   2. Each block's sums travel from host to host, H-1 hops, to the host of its owner, adding up the hosts' sums. So every
 *      block crosses each link between neighbouring hosts at most once.
 *
 * Every step names one block, so the plan serves unequal calls too. Sums lie in TEMP, at their blocks' places.
 *
 * Cost, with L ranks per host, H hosts, a, b of the network (b for a whole host's bytes), a', b', g' within the host, m
 * bytes in all blocks together:
 *     (L-1) H a' + (L-1)/L m g'  +  (H-1) a + (H-1)/H m (b + g'/L)
 * where a ring along the hosts has one rank of each host at a time that sends to another: for large data on several
 * hosts. (Messages of one round within a host do not wait for each other, so H a' is more than it takes.)
 *
 * Source: as algos/allreduce_hier.c.
 */
#include "algos/blocks_hier.h"

#define SLOTS 4

struct scene {
    struct weft_builder *builder;
    struct weft_seat seat;
    uint32_t slot; /* for the next RECV */
};

static struct weft_ref slot_next(struct scene *scene)
{
    scene->slot = (scene->slot + 1) % SLOTS;
    return weft_slot(scene->slot, 0);
}

/* The blocks of one host, one hop within this one. */
static void generate_pass(struct scene *scene, uint32_t host, uint32_t round)
{
    const struct weft_seat *seat = &scene->seat;
    uint32_t sender = weft_back(seat->local, round + 1, seat->size), taker = weft_back(sender, 1, seat->size);
    struct weft_shares take = weft_blocks_of(seat, host, taker), give = weft_blocks_of(seat, host, sender);
    int last = seat->host_count == 1 && round + 2 == seat->size;
    for (uint32_t i = 0; i < weft_shares_count(take) || i < weft_shares_count(give); i++) {
        int takes = i < weft_shares_count(take);
        struct weft_ref slot = takes ? slot_next(scene) : weft_in(WEFT_BUFFER_INPUT);
        struct weft_range taken = weft_range(0, 1, 0);
        if (takes) {
            taken.chunk = weft_block_chunk(seat, host, take.first + i);
            weft_builder_recv(scene->builder, weft_seat_left(seat), taken, slot);
        }
        if (i < weft_shares_count(give))
            weft_builder_send(scene->builder, weft_seat_right(seat),
                              weft_range(weft_block_chunk(seat, host, give.first + i), 1, 0),
                              weft_in(round ? WEFT_BUFFER_TEMP : WEFT_BUFFER_INPUT));
        if (takes)
            weft_builder_reduce(scene->builder, taken, weft_in(last ? WEFT_BUFFER_OUTPUT : WEFT_BUFFER_TEMP),
                                slot, weft_in(WEFT_BUFFER_INPUT), last ? WEFT_STEP_FINISH : 0);
    }
}

/* All hosts' blocks in each round, in the order in which they leave; written as loops over whichever there are more of. */
static void generate_within(struct scene *scene)
{
    uint32_t n = scene->seat.host_count, size = scene->seat.size;
    weft_builder_rounds(scene->builder);
    for (uint32_t round = 0; round + 1 < size; round++) {
        for (uint32_t i = 0; i < n; i++) {
            generate_pass(scene, weft_back(weft_back(scene->seat.host, 1, n), i, n), round);
            if (n > size)
                weft_builder_round_end(scene->builder);
        }
        if (n <= size)
            weft_builder_round_end(scene->builder);
    }
}

/* Passes the sums of the rank's blocks of one host to the right, and adds to those of the next one what comes from the
 * left. */
static void generate_hop(struct scene *scene, uint32_t sent, uint32_t taken, int first)
{
    const struct weft_seat *seat = &scene->seat;
    uint32_t n = seat->host_count, left = weft_back(seat->host, 1, n), right = (seat->host + 1) % n;
    struct weft_shares take = weft_blocks_of(seat, taken, seat->local);
    struct weft_shares give = weft_blocks_of(seat, sent, seat->local);
    struct weft_ref mine = weft_in(seat->size > 1 ? WEFT_BUFFER_TEMP : WEFT_BUFFER_INPUT);
    struct weft_ref sum = weft_in(taken == seat->host ? WEFT_BUFFER_OUTPUT : WEFT_BUFFER_TEMP);
    uint32_t from = take.first < give.first ? take.first : give.first;
    uint32_t end = take.end > give.end ? take.end : give.end;
    for (uint32_t block = from; block < end; block++) {
        int takes = block >= take.first && block < take.end;
        struct weft_ref slot = takes ? slot_next(scene) : mine;
        struct weft_range range = weft_range(takes ? weft_block_chunk(seat, taken, block) : 0, 1, 0);
        if (takes)
            weft_builder_recv(scene->builder, weft_block_peer(seat, taken, block, left), range, slot);
        if (block >= give.first && block < give.end)
            weft_builder_send(scene->builder, weft_block_peer(seat, sent, block, right),
                              weft_range(weft_block_chunk(seat, sent, block), 1, 0),
                              first ? mine : weft_in(WEFT_BUFFER_TEMP));
        if (takes)
            weft_builder_reduce(scene->builder, range, sum, slot, mine,
                                taken == seat->host ? WEFT_STEP_FINISH : 0);
    }
}

void weft_reduce_scatter_hier_generate(struct weft_builder *builder, const struct weft_plan_request *request)
{
    struct scene scene = {.builder = builder, .seat = weft_seat_of(request)};
    uint32_t n = scene.seat.host_count;
    weft_builder_start(builder, request, request->ranks, SLOTS);
    generate_within(&scene);
    weft_builder_rounds(builder);
    for (uint32_t round = 0; round + 1 < n; round++) {
        uint32_t sent = weft_back(weft_back(scene.seat.host, 1, n), round, n);
        generate_hop(&scene, sent, weft_back(sent, 1, n), round == 0);
        weft_builder_round_end(builder);
    }
}
