/* SPDX-License-Identifier: Apache-2.0 */
/* Shortest ways over edges of one kind: cables between switches, links between NUMA nodes. Private to topo/path*.c. */
#ifndef WEFT_TOPO_PATH_SEARCH_H
#define WEFT_TOPO_PATH_SEARCH_H

#include "topo/graph/graph.h"

struct weft_way {
    uint32_t from, to; /* the ends that it joins: one of the given ones each */
    uint32_t edge_count;
    uint32_t *edges; /* room for edges_max, the caller's */
    uint32_t edges_max;
};

/* Whether bytes may go over it. */
static inline int weft_edge_carries(const struct weft_edge *edge)
{
    return !(edge->flags & WEFT_EDGE_DOWN);
}

/* Bytes per second between two neighbours over all their edges of the kind that carry, 0 where that is not known. A
 * cable without a bandwidth of its own has that of the slower port. */
uint64_t weft_path_rate(const struct weft_graph *graph, uint32_t a, uint32_t b, enum weft_edge_kind kind);

/* The way from one of the sources to one of the targets over the fewest edges; of those the widest; of those the one with
 * the smallest names. Only switches and NUMA nodes are passed through. 1 when there is one, 0 when there is none, or an
 * error: WEFT_NOMEM, WEFT_INVALID when it is longer than edges_max. */
int weft_path_search(const struct weft_graph *graph, enum weft_edge_kind kind, const uint32_t *sources,
                     uint32_t source_count, const uint32_t *targets, uint32_t target_count,
                     struct weft_way *way);

#endif
