/* SPDX-License-Identifier: Apache-2.0 */
/* What pairs of ranks put on the fabric, counted edge by edge. Threads: any, on a finished graph. */
#ifndef WEFT_TOPO_REPORT_ORDER_LOAD_H
#define WEFT_TOPO_REPORT_ORDER_LOAD_H

#include "topo/order.h"

/* What a ring (or any list of pairs) puts on the fabric: every FABRIC edge and host link, per direction, in streams: a flow
 * between two hosts counts 1 and is spread evenly over all shortest routes (and over an edge's parallel links). */
struct weft_load {
    double highest;          /* streams per link, the largest of any edge and direction */
    uint32_t highest_edge;   /* WEFT_NODE_NONE: nothing crosses the fabric */
    double highest_time;     /* the largest of streams / bandwidth, seconds per byte; 0: no bandwidth known */
    uint64_t crossings_host; /* pairs on different hosts */
    uint64_t crossings_leaf; /* pairs whose ports hang on different switches */
    uint64_t crossings_numa; /* pairs of one host on different NUMA nodes */
    double *
        streams; /* [2 * edge_count]: edge e from a to b at 2e, back at 2e + 1, all its links together; malloc'ed */
};
struct weft_pair {
    uint32_t from, to; /* ranks */
};
int weft_load_pairs(const struct weft_graph *graph, const struct weft_place *places, uint32_t ranks,
                    const uint32_t *nic, const struct weft_pair *pairs, uint64_t count,
                    struct weft_load *load);
/* The ring that passes the ranks in this order and returns to the first. */
int weft_load_ring(const struct weft_graph *graph, const struct weft_place *places, uint32_t ranks,
                   const uint32_t *nic, const uint32_t *ring, struct weft_load *load);
/* All rings of a layout at once. */
int weft_load_rings(const struct weft_graph *graph, const struct weft_place *places,
                    const struct weft_layout *layout, struct weft_load *load);
void weft_load_free(struct weft_load *load);

#endif
