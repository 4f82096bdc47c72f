/* SPDX-License-Identifier: Apache-2.0 */
/* Lanes: the distinct NICs through which a host's ranks send, which rail each is on, and the end of the fabric that it hangs on.
 * Where the fabric tells no more of a host than its switch (Slurm, topograph), its lanes all hang on one end, the host. Ranks of
 * which no NIC is known share the lane of their end. Private to topo/. */
#ifndef WEFT_TOPO_LANES_H
#define WEFT_TOPO_LANES_H

#include "topo/order_parts.h"
#include "topo/routes.h"

#define WEFT_RAILS_MAX 32 /* rails beyond share a number with one of these; so many rings at most */

struct weft_lane {
    uint32_t
        nic; /* what tells it from the host's others: PORT, NIC without ports; or end, where no NIC is known */
    uint32_t end; /* of topo/routes.h, cabled or not */
    uint32_t rail;
    uint32_t leaf;  /* the end's first switch, WEFT_NODE_NONE: none */
    uint32_t ranks; /* of the host that send through it */
    uint32_t part_low,
        part_high; /* the first and the last of the host's parts (see order_rings.c) that has such a rank */
};

struct weft_lanes {
    uint32_t *first;        /* [host_count + 1]: into list */
    struct weft_lane *list; /* of each host, by rail */
    uint32_t rail_count;    /* at least 1 */
    uint32_t *lane_of;      /* [ranks]: index into list, WEFT_NODE_NONE: no NIC, no cable */
};

int weft_lanes_find(const struct weft_order *order, struct weft_lanes *lanes);
void weft_lanes_free(struct weft_lanes *lanes);

/* How many rings use the lanes best. */
uint32_t weft_lanes_rings(const struct weft_order *order, const struct weft_lanes *lanes);

#endif
