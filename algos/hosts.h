/* Where ranks stand, as far as plans depend on it: an order of the ranks, and the hosts, which are contiguous pieces of it.
 *
 * Generators work with positions of the order, from 0 on; weft_plan_make() puts the ranks' names in. So a plan does not
 * know why the order is what it is (topo/order.h does), and the same text serves every placement: hosts of unequal
 * sizes, of one rank, all ranks on one host, each on its own.
 *
 * Ownership: weft_hosts_make() and weft_hosts_of_layout() copy what they are given into one piece of memory, which
 * weft_hosts_free() frees. Immutable from then on. Threads: any.
 */
#ifndef WEFT_ALGOS_HOSTS_H
#define WEFT_ALGOS_HOSTS_H

#include <stddef.h>
#include <stdint.h>

struct weft_layout; /* topo/order.h */

struct weft_hosts {
    uint32_t ranks;
    uint32_t count;           /* hosts, at least 1 */
    const uint32_t *first;    /* [count + 1]: position of each host's first rank; first[count] is ranks */
    const uint32_t *order;    /* [ranks]: the rank at each position; NULL: position p is rank p */
    const uint32_t *position; /* [ranks]: of each rank; NULL like order */
};

/* sizes: ranks of each of count hosts, in the order of positions. order: the rank at each position, or NULL for 0, 1, 2,
 * ... WEFT_INVALID where a host is empty or the order is no permutation of as many ranks as the hosts have. */
int weft_hosts_make(const uint32_t *sizes, uint32_t count, const uint32_t *order, struct weft_hosts **hosts);

/* The layout's order and hosts. Where its order goes back and forth between hosts (WEFT_ORDER_BY_RANK over ranks that are
 * not placed host by host) there are no such pieces: then it is one host. */
int weft_hosts_of_layout(const struct weft_layout *layout, struct weft_hosts **hosts);

void weft_hosts_free(struct weft_hosts *hosts); /* NULL: nothing */

static inline uint32_t weft_hosts_rank(const struct weft_hosts *hosts, uint32_t position)
{
    return hosts->order ? hosts->order[position] : position;
}

static inline uint32_t weft_hosts_position(const struct weft_hosts *hosts, uint32_t rank)
{
    return hosts->position ? hosts->position[rank] : rank;
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
