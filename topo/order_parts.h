/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of weft_order_ranks() share: ranks gathered by host, and the levels at which they are grouped. */
#ifndef WEFT_TOPO_ORDER_PARTS_H
#define WEFT_TOPO_ORDER_PARTS_H

#include "topo/order.h"

#define WEFT_ORDER_TIERS_MAX  8 /* of switches; deeper fabrics are told apart at their lowest tiers only */
#define WEFT_ORDER_LEVELS_MAX (WEFT_ORDER_TIERS_MAX + 3)

struct weft_order_host {
    const char *name;
    uint32_t node;  /* in the graph, or WEFT_NODE_NONE */
    uint32_t first; /* into members */
    uint32_t count;
};

/* One level below the job: ranks with equal keys are of one group, if they are next to each other. */
struct weft_order_level {
    enum weft_level level;
    uint32_t *keys; /* [ranks]: number of the host, or node in the graph; WEFT_NODE_NONE: in no group */
};

struct weft_order {
    const struct weft_graph *graph;
    const struct weft_place *places;
    uint32_t ranks;
    unsigned flags;
    const uint8_t *allowed; /* ports and NICs by node, NULL: all */

    uint32_t host_count;
    struct weft_order_host *hosts; /* in the order of their names, hosts of the graph and others alike */
    uint32_t *members;             /* [ranks]: the ranks of each host, near ones next to each other */
    uint32_t *host_of;             /* [ranks]: index of the rank's host */

    uint32_t *nic;                       /* [ranks] */
    struct weft_nic_reason *nic_reasons; /* [ranks] */
    /* [ranks]: what the rank sends through (topo/routes.h), cabled or not; or WEFT_NODE_NONE. Where WEFT_ORDER_GIVEN_NICS leaves it
     * without a NIC: what it would send through. */
    uint32_t *ends;
    struct weft_routes *routes;
    unsigned tier_count;
    uint32_t *tiers;      /* [tier_count][host_count]: see topo/tiers.h; WEFT_NODE_NONE: not on the fabric */
    uint32_t *host_order; /* [host_count]: hosts as the rings pass them */
    uint32_t ring_count;
    uint32_t *rings; /* [ring_count][ranks] */
    uint32_t refined;

    unsigned level_count; /* from the top down */
    struct weft_order_level levels[WEFT_ORDER_LEVELS_MAX];

    uint32_t group_count;
    struct weft_group_span *groups;
};

/* Fills hosts, members and host_of; checks the places. */
int weft_order_gather(struct weft_order *order);

/* The level's keys, all WEFT_NODE_NONE; owned by order. */
int weft_order_level_add(struct weft_order *order, enum weft_level level, uint32_t **keys);

/* Fills routes and ends; needs nic. */
int weft_order_ends(struct weft_order *order);

/* Tiers of switches, from the top down; fills tiers and adds their levels. */
int weft_order_levels_of_fabric(struct weft_order *order);

/* Fills host_order: depth first through the tiers. */
int weft_order_hosts(struct weft_order *order);

/* Fills ring_count and rings from host_order; again after it has changed. */
int weft_order_rings(struct weft_order *order);

/* The least that so many rings over all ranks can have; needs ends. */
int weft_order_bound(const struct weft_order *order, uint32_t rings, struct weft_bound *bound);

/* Moves groups of hosts in host_order where that lowers the highest link load of all rings. */
int weft_order_refine(struct weft_order *order);

/* Host, NUMA node and PCI switch. */
int weft_order_levels_of_hosts(struct weft_order *order);

/* What order owns. */
void weft_order_free(struct weft_order *order);

/* Fills groups from the levels along ring 0. */
int weft_order_group(struct weft_order *order);

#endif
