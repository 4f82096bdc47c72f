/* SPDX-License-Identifier: Apache-2.0 */
/* The blocks of a host, and who of another host has to do with them: what the hierarchical allgather and reduce-scatter
 * have in common. Internal to algos/.
 *
 * A block is one rank's data. Each host shares the blocks of each other host out among its ranks (algos/seat.h), so that
 * a block crosses from host to host along a ring of ranks of its own: with equal hosts those that have its number in
 * their hosts.
 */
#ifndef WEFT_ALGOS_BLOCKS_HIER_H
#define WEFT_ALGOS_BLOCKS_HIER_H

#include "algos/seat.h"

/* The chunk of block number `block` of the host: the name of its rank. */
static inline uint32_t weft_block_chunk(const struct weft_seat *seat, uint32_t host, uint32_t block)
{
    return weft_hosts_rank(seat->hosts, seat->hosts->first[host] + block);
}

/* The blocks of `host` that the rank numbered `local` of the seat's host deals with. */
static inline struct weft_shares weft_blocks_of(const struct weft_seat *seat, uint32_t host, uint32_t local)
{
    return weft_shares_of(local, weft_hosts_size(seat->hosts, host), seat->size);
}

/* The position of who deals with a block of `host` on the host `at`. */
static inline uint32_t weft_block_peer(const struct weft_seat *seat, uint32_t host, uint32_t block,
                                       uint32_t at)
{
    uint32_t shares = weft_hosts_size(seat->hosts, host);
    return seat->hosts->first[at] + weft_share_owner(block, shares, weft_hosts_size(seat->hosts, at));
}

static inline uint32_t weft_shares_count(struct weft_shares shares)
{
    return shares.end - shares.first;
}

#endif
