/* SPDX-License-Identifier: Apache-2.0 */
/* Which ports the ranks of one host open, so that together they use all of them and each has its nearest.
 *
 * The ports that count (weft_share_rails()) are those that are active and of the host's fastest class: more than half as fast as
 * the fastest, as one of half the speed would hold up whatever is cut over several. In the natural order of their names, by NIC and
 * number, they are the host's rails 0, 1, 2, ...
 *
 * Ranks of one host shall reach all ranks of others, and a port reaches only what is on its network. So every rank gets a
 * port of each network, and the rules hold for each network on its own:
 *   1. Each rank has the nearest port (topo/nics.c: by path, by bandwidth, then the one that fewest ranks have). That is all where
 *      there are fewer ports than ranks.
 *   2. Ports that nobody has then are given out one by one: to the rank with the fewest ports so far, of its ports the nearest, of
 *      an adapter of which it has none yet where there is one. A rank has `most` at most.
 * So with as many ports as ranks or more no port is without a rank unless all ranks are full, and no rank has two more
 * than another.
 *
 * A rank's own port, which its rings go by, is the nearest of those that rule 1 gives it. On several networks there may be
 * several as near as each other: then the one that fewest ranks of a lower number own, of those the first by rail. So four
 * ranks on four networks own four ports.
 *
 * Where there are more networks than `most`, ranks that choose for themselves might share none: then nobody gets any, and the
 * caller takes the same ports for all.
 *
 * A share lists its ports by rail, not by distance: two ranks with the same rails then have the same list, and pair rail by
 * rail (transport/verbs/address.h).
 *
 * Cost: O(networks * ranks * (ports + ranks) + ports^2 * ranks). Pure; threads: any. Nothing depends on the order of the graph, so all ranks
 * of a host find the same shares.
 */
#ifndef WEFT_TOPO_SHARE_H
#define WEFT_TOPO_SHARE_H

#include "topo/order.h"

#define WEFT_SHARE_MOST 16

struct weft_port_share {
    uint32_t own;   /* PORT: the nearest; WEFT_NODE_NONE: none */
    uint32_t count; /* 0: none */
    uint32_t ports[WEFT_SHARE_MOST];
};

/* The rails of a host: PORT nodes, which the caller frees (NULL where there are none), and how many. */
int weft_share_rails(const struct weft_graph *graph, uint32_t host, uint32_t **rails, uint32_t *count);

/* places: ranks of one host of the graph. most: 1 to WEFT_SHARE_MOST. networks: by node, equal numbers for ports that reach each
 * other; NULL: all do. shares: [ranks]. */
int weft_share_ports(const struct weft_graph *graph, const struct weft_place *places, uint32_t ranks,
                     uint32_t most, const uint32_t *networks, struct weft_port_share *shares);

#endif
