/* SPDX-License-Identifier: Apache-2.0 */
#include "topo/path_ends.h"

#include <stdlib.h>

#include "base/error.h"
#include "topo/path.h"
#include "topo/path_search.h"

/* A port that is down sends nothing, whatever its cable says. */
static int is_end(const struct weft_graph *graph, uint32_t node)
{
    const struct weft_node *own = &graph->nodes[node];
    if (own->kind == WEFT_NODE_PORT && own->state == WEFT_PORT_DOWN)
        return 0;
    uint32_t count;
    const uint32_t *edges = weft_graph_edges_of(graph, node, &count);
    for (uint32_t i = 0; i < count; i++) {
        const struct weft_edge *edge = &graph->edges[edges[i]];
        if (edge->kind == WEFT_EDGE_FABRIC && weft_edge_carries(edge))
            return 1;
    }
    return 0;
}

/* The node itself, its ports, and (where it is neither a port, NIC nor switch) all of its host: the next end after
 * `after`, WEFT_NODE_NONE for the first. */
static uint32_t next_end(const struct weft_graph *graph, uint32_t top, uint32_t after)
{
    uint32_t node = after == WEFT_NODE_NONE ? top : weft_graph_next(graph, top, after);
    while (node != WEFT_NODE_NONE && !is_end(graph, node))
        node = weft_graph_next(graph, top, node);
    return node;
}

static uint32_t top_of(const struct weft_graph *graph, uint32_t node)
{
    const struct weft_node *own = &graph->nodes[node];
    int narrow = own->kind == WEFT_NODE_PORT || own->kind == WEFT_NODE_NIC || own->kind == WEFT_NODE_SWITCH;
    return narrow ? node : own->host;
}

int weft_path_has_end(const struct weft_graph *graph, uint32_t node)
{
    return next_end(graph, top_of(graph, node), WEFT_NODE_NONE) != WEFT_NODE_NONE;
}

int weft_path_ends(const struct weft_graph *graph, uint32_t node, int everything, struct weft_ends *ends)
{
    uint32_t top = top_of(graph, node), count = 0;
    for (uint32_t end = next_end(graph, top, WEFT_NODE_NONE); end != WEFT_NODE_NONE;
         end = next_end(graph, top, end))
        count++;
    if (!count)
        return 0;
    ends->nodes = malloc(count * sizeof *ends->nodes);
    if (!ends->nodes)
        return weft_fail(WEFT_NOMEM, "no memory for %u ports", count);
    enum weft_path_class best = WEFT_PATH_CLASS_COUNT;
    for (uint32_t end = next_end(graph, top, WEFT_NODE_NONE); end != WEFT_NODE_NONE;
         end = next_end(graph, top, end)) {
        enum weft_path_class path_class =
            everything || end == node ? WEFT_PATH_LOC : weft_path_classify(graph, node, end);
        if (path_class > best)
            continue;
        if (path_class < best)
            ends->count = 0;
        best = path_class;
        ends->nodes[ends->count++] = end;
    }
    return 0;
}

void weft_path_ends_free(struct weft_ends *ends)
{
    free(ends->nodes);
}
