/* SPDX-License-Identifier: Apache-2.0 */
/* Breadth first from the targets gives every node its distance to the nearest of them, and, as a layer is complete before
 * the next begins, also its width: the best that a shortest way from it can carry, min(rate to the neighbour, width of
 * the neighbour) over the neighbours that are one nearer. Then the way is walked from the sources: at each step any
 * neighbour will do that is one nearer and does not make the way narrower than the best; the smallest name is taken, so
 * that the way does not depend on the order in which a file came. An unknown rate limits nothing.
 *
 * Time and memory are linear in the graph.
 */
#include "topo/path_search.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "topo/path.h"

#define UNKNOWN UINT64_MAX /* as a width: nothing known limits it */

struct search {
    const struct weft_graph *graph;
    enum weft_edge_kind kind;
    uint64_t *width;
    uint64_t *sum; /* scratch: rate to each neighbour of one node */
    uint32_t *distance;
    uint32_t *queue;
};

static uint64_t add_rates(uint64_t a, uint64_t b)
{
    return a == UNKNOWN || b == UNKNOWN || a > UNKNOWN - b ? UNKNOWN : a + b;
}

/* A cable without a bandwidth of its own has that of the slower port. */
static uint64_t edge_rate(const struct weft_graph *graph, const struct weft_edge *edge)
{
    uint64_t rate = edge->bytes_per_s;
    if (!rate && edge->kind == WEFT_EDGE_FABRIC && !(edge->flags & WEFT_EDGE_LINKS_UNKNOWN)) {
        uint64_t a = graph->nodes[edge->a].bytes_per_s, b = graph->nodes[edge->b].bytes_per_s;
        rate = !a || (b && b < a) ? b : a;
    }
    if (!rate || rate > UNKNOWN / edge->links)
        return UNKNOWN;
    return rate * edge->links;
}

static int joins(const struct weft_edge *edge, enum weft_edge_kind kind)
{
    return edge->kind == kind && weft_edge_carries(edge);
}

uint64_t weft_path_rate(const struct weft_graph *graph, uint32_t a, uint32_t b, enum weft_edge_kind kind)
{
    uint32_t count;
    uint64_t rate = 0;
    if (graph->nodes[b].edges_count < graph->nodes[a].edges_count) {
        uint32_t other = a;
        a = b;
        b = other;
    }
    const uint32_t *edges = weft_graph_edges_of(graph, a, &count);
    for (uint32_t i = 0; i < count; i++) {
        const struct weft_edge *edge = &graph->edges[edges[i]];
        if (joins(edge, kind) && weft_edge_other(edge, a) == b)
            rate = add_rates(rate, edge_rate(graph, edge));
    }
    return rate == UNKNOWN ? 0 : rate;
}

uint64_t weft_path_edge_rate(const struct weft_graph *graph, uint32_t edge)
{
    uint64_t rate = edge_rate(graph, &graph->edges[edge]);
    return rate == UNKNOWN ? 0 : rate;
}

uint64_t weft_path_hop_rate(const struct weft_graph *graph, uint32_t edge)
{
    const struct weft_edge *hop = &graph->edges[edge];
    return weft_path_rate(graph, hop->a, hop->b, (enum weft_edge_kind)hop->kind);
}

/* By name, then by the names of what they lie in: no two nodes are equal. */
static int compare_names(const struct weft_graph *graph, uint32_t a, uint32_t b)
{
    while (a != b && a != WEFT_NODE_NONE && b != WEFT_NODE_NONE) {
        int order = strcmp(graph->nodes[a].name, graph->nodes[b].name);
        if (order)
            return order;
        a = graph->nodes[a].parent;
        b = graph->nodes[b].parent;
    }
    return a == b ? 0 : a == WEFT_NODE_NONE ? -1 : 1;
}

/* The widest that leads from node to the targets over one that is nearer. */
static uint64_t find_width(const struct search *search, uint32_t node)
{
    const struct weft_graph *graph = search->graph;
    uint32_t count, nearer = search->distance[node] - 1;
    uint64_t width = 0;
    const uint32_t *edges = weft_graph_edges_of(graph, node, &count);
    for (uint32_t i = 0; i < count; i++)
        search->sum[weft_edge_other(&graph->edges[edges[i]], node)] = 0;
    for (uint32_t i = 0; i < count; i++) {
        const struct weft_edge *edge = &graph->edges[edges[i]];
        uint64_t *sum = &search->sum[weft_edge_other(edge, node)];
        if (joins(edge, search->kind))
            *sum = add_rates(*sum, edge_rate(graph, edge));
    }
    for (uint32_t i = 0; i < count; i++) {
        uint32_t other = weft_edge_other(&graph->edges[edges[i]], node);
        if (search->distance[other] != nearer || !joins(&graph->edges[edges[i]], search->kind))
            continue;
        uint64_t through =
            search->sum[other] < search->width[other] ? search->sum[other] : search->width[other];
        width = through > width ? through : width;
    }
    return width;
}

/* Whether bytes may go through the node to others. */
static int passes(const struct weft_graph *graph, uint32_t node)
{
    return graph->nodes[node].kind == WEFT_NODE_SWITCH || graph->nodes[node].kind == WEFT_NODE_NUMA;
}

/* Distances and widths, up to those of the nearest source; is_source is marked in queue's place by the caller. */
static uint32_t spread(struct search *search, const uint8_t *is_source, const uint32_t *targets,
                       uint32_t target_count)
{
    const struct weft_graph *graph = search->graph;
    uint32_t head = 0, tail = 0, nearest = UINT32_MAX;
    memset(search->distance, 0xff, graph->node_count * sizeof *search->distance);
    for (uint32_t i = 0; i < target_count; i++) {
        if (search->distance[targets[i]] == 0)
            continue;
        search->distance[targets[i]] = 0;
        search->queue[tail++] = targets[i];
    }
    while (head < tail) {
        uint32_t node = search->queue[head++], distance = search->distance[node], count;
        if (distance > nearest)
            break;
        search->width[node] = distance ? find_width(search, node) : UNKNOWN;
        if (is_source[node])
            nearest = distance;
        if (distance && !passes(graph, node))
            continue;
        const uint32_t *edges = weft_graph_edges_of(graph, node, &count);
        for (uint32_t i = 0; i < count; i++) {
            const struct weft_edge *edge = &graph->edges[edges[i]];
            uint32_t other = weft_edge_other(edge, node);
            if (!joins(edge, search->kind) || search->distance[other] != UINT32_MAX)
                continue;
            search->distance[other] = distance + 1;
            search->queue[tail++] = other;
        }
    }
    return nearest;
}

/* Of two parallel edges at node, the one with the smaller port numbers. */
static int is_before(const struct weft_edge *edge, const struct weft_edge *other, uint32_t node)
{
    int32_t mine = edge->a == node ? edge->port_a : edge->port_b;
    int32_t theirs = other->a == node ? other->port_a : other->port_b;
    return mine < theirs;
}

/* The edge to take from node, so that the way stays as wide. */
static uint32_t choose(const struct search *search, uint32_t node, uint64_t width)
{
    const struct weft_graph *graph = search->graph;
    uint32_t count, best = WEFT_NODE_NONE;
    const uint32_t *edges = weft_graph_edges_of(graph, node, &count);
    find_width(search, node); /* for the sums */
    for (uint32_t i = 0; i < count; i++) {
        const struct weft_edge *edge = &graph->edges[edges[i]];
        uint32_t other = weft_edge_other(edge, node);
        if (!joins(edge, search->kind) || search->distance[other] != search->distance[node] - 1 ||
            search->sum[other] < width || search->width[other] < width)
            continue;
        if (search->distance[other] && !passes(graph, other))
            continue;
        const struct weft_edge *chosen = best == WEFT_NODE_NONE ? NULL : &graph->edges[best];
        int order = chosen ? compare_names(graph, other, weft_edge_other(chosen, node)) : -1;
        if (order < 0 || (order == 0 && is_before(edge, chosen, node)))
            best = edges[i];
    }
    return best;
}

static int walk(const struct search *search, const uint32_t *sources, uint32_t source_count, uint32_t nearest,
                struct weft_way *way)
{
    uint64_t width = 0;
    uint32_t node = WEFT_NODE_NONE;
    if (nearest > way->edges_max)
        return weft_fail(WEFT_INVALID, "a path of more than %u edges", way->edges_max);
    for (uint32_t i = 0; i < source_count; i++) {
        if (search->distance[sources[i]] == nearest && search->width[sources[i]] > width)
            width = search->width[sources[i]];
    }
    for (uint32_t i = 0; i < source_count; i++) {
        if (search->distance[sources[i]] == nearest && search->width[sources[i]] == width &&
            (node == WEFT_NODE_NONE || compare_names(search->graph, sources[i], node) < 0))
            node = sources[i];
    }
    way->from = node;
    for (way->edge_count = 0; search->distance[node]; way->edge_count++) {
        uint32_t edge = choose(search, node, width);
        way->edges[way->edge_count] = edge;
        node = weft_edge_other(&search->graph->edges[edge], node);
    }
    way->to = node;
    return 1;
}

int weft_path_search(const struct weft_graph *graph, enum weft_edge_kind kind, const uint32_t *sources,
                     uint32_t source_count, const uint32_t *targets, uint32_t target_count,
                     struct weft_way *way)
{
    size_t nodes = graph->node_count;
    struct search search = {.graph = graph, .kind = kind};
    uint8_t *room = malloc(nodes * (2 * sizeof(uint64_t) + 2 * sizeof(uint32_t) + 1));
    if (!room)
        return weft_fail(WEFT_NOMEM, "no memory to search a path among %zu nodes", nodes);
    search.width = (uint64_t *)(void *)room;
    search.sum = search.width + nodes;
    search.distance = (uint32_t *)(search.sum + nodes);
    search.queue = search.distance + nodes;
    uint8_t *is_source = (uint8_t *)(search.queue + nodes);
    memset(is_source, 0, nodes);
    for (uint32_t i = 0; i < source_count; i++)
        is_source[sources[i]] = 1;
    uint32_t nearest = spread(&search, is_source, targets, target_count);
    int found = nearest == UINT32_MAX ? 0 : walk(&search, sources, source_count, nearest, way);
    free(room);
    return found;
}
