/* SPDX-License-Identifier: Apache-2.0 */
/* The fabric for those who send through it: switches and the cables between them, and how flows divide over the shortest
 * routes. Private to topo/.
 *
 * An end is a node of a host from which cables lead away: a port, a NIC without ports, or a host of which the source knows no
 * more than its switch. Switches are numbered in the order of their names, so that nothing depends on the graph's indices.
 *
 * ECMP as fluid: at the end and at every switch a flow divides over all cables that lead one step nearer to where it goes, alike
 * over each single link. That is what a hash does for many flows, and what adaptive routing comes close to for few.
 * Cables that are down do not exist here.
 *
 * Threads: a weft_routes has scratch of its own, so one thread at a time. */
#ifndef WEFT_TOPO_ROUTES_H
#define WEFT_TOPO_ROUTES_H

#include "topo/order.h"

struct weft_hop {
    uint32_t to;    /* switch */
    uint32_t edge;  /* of the graph */
    uint32_t slot;  /* 2 * edge, and 1 more from b to a: into weft_load's streams */
    uint32_t links; /* at least 1 */
};

struct weft_routes {
    const struct weft_graph *graph;
    uint32_t switch_count;
    uint32_t *switches;  /* [switch_count]: node of each */
    uint32_t *switch_of; /* [node_count]: its number, WEFT_NODE_NONE for other nodes */
    uint32_t *hop_first; /* [switch_count + 1]: into hops */
    struct weft_hop *hops;
    uint32_t *distance, *queue; /* scratch of weft_routes_spread(), [switch_count] each */
    uint32_t *wanted;
    double *here;
};

struct weft_flow {
    uint32_t from, to; /* ends: nodes of the graph */
};

int weft_routes_new(const struct weft_graph *graph, struct weft_routes **routes);
void weft_routes_free(struct weft_routes *routes); /* NULL: nothing */

/* The cables at an end, in turn: at starts at 0. Returns 0 at the last. hop->to: the switch, or WEFT_NODE_NONE where the
 * cable leads to another end, *other. */
int weft_routes_cable(const struct weft_routes *routes, uint32_t end, uint32_t *at, struct weft_hop *hop,
                      uint32_t *other);

/* The end that a rank with this NIC sends through: its NIC where cables are known of it, else its host; WEFT_NODE_NONE where
 * neither has any. */
uint32_t weft_routes_end(const struct weft_routes *routes, const struct weft_place *place, uint32_t nic);

/* Whether two ends hang on a common switch, or on each other. */
int weft_routes_adjacent(struct weft_routes *routes, uint32_t a, uint32_t b);

/* Adds one stream per flow to streams ([2 * edge_count]); flows without a route add nothing. */
int weft_routes_spread(struct weft_routes *routes, const struct weft_flow *flows, uint64_t count,
                       double *streams);

#endif
