/* SPDX-License-Identifier: Apache-2.0 */
/* Hierarchical allgather: rings between hosts, then a ring within each.
 *
 *   1. Each block travels from host to host, H-1 hops, along ranks that deal with it there (blocks_hier.h). So every block
 *      crosses each link between neighbouring hosts once, and all ranks of a host carry their share of that.
 *   2. Within each host every rank passes on what it has of all hosts' blocks, L-1 times around the ring.
 *
 * Every step names one block, so the plan serves unequal calls too.
 *
 * Cost, with L ranks per host, H hosts, a, b of the network (b for a whole host's bytes), a', b' within the host, m bytes
 * in all blocks together:
 *     (H-1) a + (H-1)/H m b  +  (L-1) H a' + (L-1)/L m b'
 * where a ring along the hosts has one rank of each host at a time that sends to another: for large data on several
 * hosts. (Messages of one round within a host do not wait for each other, so H a' is more than it takes.)
 *
 * Source: as algos/allreduce_hier.c.
 */
#include "algos/blocks_hier.h"

/* Own blocks leave from INPUT. */
static struct weft_ref source_of(const struct weft_seat *seat, uint32_t host, uint32_t block)
{
    int own = host == seat->host && block == seat->local;
    return weft_in(own ? WEFT_BUFFER_INPUT : WEFT_BUFFER_OUTPUT);
}

/* Takes the rank's blocks of one host from the left, and passes those of the next one to the right. */
static void generate_hop(struct weft_builder *builder, const struct weft_seat *seat, uint32_t taken,
                         uint32_t sent)
{
    uint32_t n = seat->host_count, left = weft_back(seat->host, 1, n), right = (seat->host + 1) % n;
    struct weft_shares take = weft_blocks_of(seat, taken, seat->local);
    struct weft_shares give = weft_blocks_of(seat, sent, seat->local);
    uint32_t first = take.first < give.first ? take.first : give.first;
    uint32_t end = take.end > give.end ? take.end : give.end;
    for (uint32_t block = first; block < end; block++) {
        if (block >= take.first && block < take.end)
            weft_builder_recv(builder, weft_block_peer(seat, taken, block, left),
                              weft_range(weft_block_chunk(seat, taken, block), 1, 0),
                              weft_in(WEFT_BUFFER_OUTPUT));
        if (block >= give.first && block < give.end)
            weft_builder_send(builder, weft_block_peer(seat, sent, block, right),
                              weft_range(weft_block_chunk(seat, sent, block), 1, 0),
                              source_of(seat, sent, block));
    }
}

static void generate_across(struct weft_builder *builder, const struct weft_seat *seat)
{
    uint32_t n = seat->host_count;
    weft_builder_rounds(builder);
    for (uint32_t round = 0; round + 1 < n; round++) {
        uint32_t sent = weft_back(seat->host, round, n);
        generate_hop(builder, seat, weft_back(sent, 1, n), sent);
        weft_builder_round_end(builder);
    }
}

/* The blocks of one host, one hop within this one. */
static void generate_pass(struct weft_builder *builder, const struct weft_seat *seat, uint32_t host,
                          uint32_t round)
{
    uint32_t sender = weft_back(seat->local, round, seat->size), taker = weft_back(sender, 1, seat->size);
    struct weft_shares take = weft_blocks_of(seat, host, taker), give = weft_blocks_of(seat, host, sender);
    for (uint32_t i = 0; i < weft_shares_count(take) || i < weft_shares_count(give); i++) {
        uint32_t taken = take.first + i, sent = give.first + i;
        if (i < weft_shares_count(take))
            weft_builder_recv(builder, weft_seat_left(seat),
                              weft_range(weft_block_chunk(seat, host, taken), 1, 0),
                              weft_in(WEFT_BUFFER_OUTPUT));
        if (i < weft_shares_count(give))
            weft_builder_send(builder, weft_seat_right(seat),
                              weft_range(weft_block_chunk(seat, host, sent), 1, 0),
                              source_of(seat, host, sent));
    }
}

/* All hosts' blocks in each round, in the order in which they came; written as loops over whichever there are more of. */
static void generate_within(struct weft_builder *builder, const struct weft_seat *seat)
{
    uint32_t n = seat->host_count;
    weft_builder_rounds(builder);
    for (uint32_t round = 0; round + 1 < seat->size; round++) {
        for (uint32_t i = 0; i < n; i++) {
            generate_pass(builder, seat, weft_back(seat->host, i, n), round);
            if (n > seat->size)
                weft_builder_round_end(builder);
        }
        if (n <= seat->size)
            weft_builder_round_end(builder);
    }
}

void weft_allgather_hier_generate(struct weft_builder *builder, const struct weft_plan_request *request)
{
    struct weft_seat seat = weft_seat_of(request);
    uint32_t own = weft_block_chunk(&seat, seat.host, seat.local);
    weft_builder_start(builder, request, request->ranks, 0);
    generate_across(builder, &seat);
    if (!request->in_place)
        weft_builder_copy(builder, weft_range(own, 1, 0), weft_in(WEFT_BUFFER_OUTPUT),
                          weft_in(WEFT_BUFFER_INPUT), 0);
    generate_within(builder, &seat);
}
