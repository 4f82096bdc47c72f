/* SPDX-License-Identifier: Apache-2.0 */
/* Where ranks stand, as far as plans depend on it: an order of the ranks, the hosts, which are contiguous pieces of it, and the
 * rings, one per rail where hosts have several.
 *
 * Generators work with positions of the order, from 0 on; weft_plan_make() puts the ranks' names in. So a plan does not
 * know why the order is what it is (topo/order.h does), and the same text serves every placement: hosts of unequal
 * sizes, of one rank, all ranks on one host, each on its own.
 *
 * Ring 0 is the order. The others are given in positions too: at place i of ring r stands who has position rings[r * ranks
 * + i] in the order. All pass the hosts one by one as the order does, but in each of them the ranks in a turn of their own, and
 * so enter and leave it at ranks of their own. Whoever is at place i of any ring is on the host of position i.
 *
 * Hierarchical plans join the ranks of different hosts that have the same number in theirs. With several rings those
 * should be on the same rail, which the order is not made for: its neighbours change the rail inside each host. What joins
 * ranks of one rail are the rings: from the rank where a ring leaves a host to that where it enters the next. So there is
 * a second order, by_rail: of the first host as in the order, and of each other so that a rank has the number of who sends
 * to it; ranks that no ring enters take the numbers that are left, in the order's turn.
 *
 * Ownership: weft_hosts_make(), weft_hosts_make_rings() and weft_hosts_of_layout() copy what they are given into one piece of
 * memory, which weft_hosts_free() frees. Immutable from then on. Threads: any.
 */
#ifndef WEFT_ALGOS_HOSTS_H
#define WEFT_ALGOS_HOSTS_H

#include <stddef.h>
#include <stdint.h>

struct weft_layout; /* topo/order.h */

#define WEFT_HOSTS_RINGS_MAX 32 /* as many as a layout has */

struct weft_hosts {
    uint32_t ranks;
    uint32_t count;      /* hosts, at least 1 */
    uint32_t ring_count; /* of rings; see weft_hosts_rings() */
    uint32_t ports; /* ports of a host that its ranks use together, the fewest of all hosts; 0: not known */
    const uint32_t *first;    /* [count + 1]: position of each host's first rank; first[count] is ranks */
    const uint32_t *order;    /* [ranks]: the rank at each position; NULL: position p is rank p */
    const uint32_t *position; /* [ranks]: of each rank; NULL like order */
    const uint32_t *rings;    /* [ring_count][ranks]: the position at each place; NULL: there is one ring */
    const uint32_t *places;   /* [ring_count][ranks]: the place of each position; NULL like rings */
    const uint32_t *by_rail;  /* [ranks]: as order, for hierarchical plans; NULL like rings */
    const uint32_t *railed;   /* [ranks]: of each rank, its position in that; NULL like rings */
};

/* sizes: ranks of each of count hosts, in the order of positions. order: the rank at each position, or NULL for 0, 1, 2,
 * ... WEFT_INVALID where a host is empty or the order is no permutation of as many ranks as the hosts have. The number of
 * ports is not known. */
int weft_hosts_make(const uint32_t *sizes, uint32_t count, const uint32_t *order, struct weft_hosts **hosts);

/* The same with several rings: [ring_count][ranks], the rank at each place, ring 0 being the order; 1 to WEFT_HOSTS_RINGS_MAX.
 * WEFT_INVALID too where a ring does not pass the hosts as the order does. */
int weft_hosts_make_rings(const uint32_t *sizes, uint32_t count, const uint32_t *rings, uint32_t ring_count,
                          uint32_t ports, struct weft_hosts **hosts);

/* The layout's order, hosts and rings, and as ports how many different NICs it gives the ranks of a host. Where its order goes
 * back and forth between hosts (WEFT_ORDER_BY_RANK over ranks that are not placed host by host) there are no such
 * pieces: then it is one host. One host has one ring, as nothing goes between hosts. */
int weft_hosts_of_layout(const struct weft_layout *layout, struct weft_hosts **hosts);

void weft_hosts_free(struct weft_hosts *hosts); /* NULL: nothing */

/* Bytes that the hosts take. */
size_t weft_hosts_bytes(const struct weft_hosts *hosts);

/* How many rings there are: at least 1. */
static inline uint32_t weft_hosts_rings(const struct weft_hosts *hosts)
{
    return hosts->rings ? hosts->ring_count : 1;
}

static inline uint32_t weft_hosts_rank(const struct weft_hosts *hosts, uint32_t position)
{
    return hosts->order ? hosts->order[position] : position;
}

static inline uint32_t weft_hosts_position(const struct weft_hosts *hosts, uint32_t rank)
{
    return hosts->position ? hosts->position[rank] : rank;
}

/* The position at a place of a ring, and the place of a position. */
static inline uint32_t weft_hosts_ring_at(const struct weft_hosts *hosts, uint32_t ring, uint32_t place)
{
    return hosts->rings ? hosts->rings[(size_t)ring * hosts->ranks + place] : place;
}

static inline uint32_t weft_hosts_ring_place(const struct weft_hosts *hosts, uint32_t ring, uint32_t position)
{
    return hosts->places ? hosts->places[(size_t)ring * hosts->ranks + position] : position;
}

static inline uint32_t weft_hosts_size(const struct weft_hosts *hosts, uint32_t host)
{
    return hosts->first[host + 1] - hosts->first[host];
}

/* The host that the position belongs to. */
static inline uint32_t weft_hosts_at(const struct weft_hosts *hosts, uint32_t position)
{
    uint32_t low = 0, high = hosts->count;
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (hosts->first[middle] <= position)
            low = middle;
        else
            high = middle;
    }
    return low;
}

#endif
