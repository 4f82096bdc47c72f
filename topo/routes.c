/* SPDX-License-Identifier: Apache-2.0 */
/* Reading the fabric out of a graph. */
#include "topo/routes.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "topo/natural.h"
#include "topo/order_parts.h"

static int switches_compare(const void *left, const void *right, void *context)
{
    return weft_order_nodes(context, *(const uint32_t *)left, *(const uint32_t *)right);
}

static int hops_compare(const void *left, const void *right)
{
    const struct weft_hop *a = left, *b = right;
    if (a->to != b->to)
        return a->to < b->to ? -1 : 1;
    if (a->links != b->links)
        return a->links < b->links ? -1 : 1;
    return a->edge < b->edge ? -1 : a->edge > b->edge;
}

/* The hop over an edge, seen from node; 0 where it carries nothing or leads to no switch. */
static int hop_of(const struct weft_routes *routes, uint32_t node, uint32_t index, struct weft_hop *hop)
{
    const struct weft_edge *edge = &routes->graph->edges[index];
    if (edge->kind != WEFT_EDGE_FABRIC || edge->flags & WEFT_EDGE_DOWN)
        return 0;
    hop->to = routes->switch_of[weft_edge_other(edge, node)];
    hop->edge = index;
    hop->slot = 2 * index + (edge->a == node ? 0 : 1);
    hop->links = edge->links ? edge->links : 1;
    return 1;
}

static void hops_fill(struct weft_routes *routes)
{
    uint32_t used = 0;
    for (uint32_t s = 0; s < routes->switch_count; s++) {
        uint32_t count, node = routes->switches[s];
        const uint32_t *edges = weft_graph_edges_of(routes->graph, node, &count);
        routes->hop_first[s] = used;
        for (uint32_t i = 0; i < count; i++)
            if (hop_of(routes, node, edges[i], &routes->hops[used]) &&
                routes->hops[used].to != WEFT_NODE_NONE)
                used++;
        qsort(routes->hops + routes->hop_first[s], used - routes->hop_first[s], sizeof *routes->hops,
              hops_compare);
    }
    routes->hop_first[routes->switch_count] = used;
}

static int routes_allocate(struct weft_routes *routes, uint32_t switches, size_t hops)
{
    size_t numbers = switches ? switches : 1;
    routes->switches = malloc(numbers * sizeof *routes->switches);
    routes->switch_of = malloc((routes->graph->node_count + (size_t)1) * sizeof *routes->switch_of);
    routes->hop_first = malloc((numbers + 1) * sizeof *routes->hop_first);
    routes->hops = malloc((hops + 1) * sizeof *routes->hops);
    routes->distance = malloc(numbers * sizeof *routes->distance);
    routes->queue = malloc(numbers * sizeof *routes->queue);
    routes->wanted = calloc(numbers, sizeof *routes->wanted);
    routes->here = calloc(numbers, sizeof *routes->here);
    if (!routes->switches || !routes->switch_of || !routes->hop_first || !routes->hops || !routes->distance ||
        !routes->queue || !routes->wanted || !routes->here)
        return weft_fail(WEFT_NOMEM, "no memory for the routes over %u switches", switches);
    return WEFT_OK;
}

int weft_routes_new(const struct weft_graph *graph, struct weft_routes **routes)
{
    struct weft_routes *made = calloc(1, sizeof *made);
    if (!made)
        return weft_fail(WEFT_NOMEM, "no memory for routes");
    made->graph = graph;
    uint32_t switches = 0;
    size_t hops = 1; /* one is looked at before it is kept */
    for (uint32_t node = 0; node < graph->node_count; node++) {
        if (graph->nodes[node].kind == WEFT_NODE_SWITCH) {
            switches++;
            hops += graph->nodes[node].edges_count;
        }
    }
    int status = routes_allocate(made, switches, hops);
    if (status) {
        weft_routes_free(made);
        return status;
    }
    for (uint32_t node = 0; node < graph->node_count; node++) {
        made->switch_of[node] = WEFT_NODE_NONE;
        if (graph->nodes[node].kind == WEFT_NODE_SWITCH)
            made->switches[made->switch_count++] = node;
    }
    qsort_r(made->switches, switches, sizeof *made->switches, switches_compare, (void *)(uintptr_t)graph);
    for (uint32_t s = 0; s < switches; s++) {
        made->switch_of[made->switches[s]] = s;
        made->distance[s] = WEFT_NODE_NONE;
    }
    hops_fill(made);
    *routes = made;
    return WEFT_OK;
}

void weft_routes_free(struct weft_routes *routes)
{
    if (!routes)
        return;
    free(routes->here);
    free(routes->wanted);
    free(routes->queue);
    free(routes->distance);
    free(routes->hops);
    free(routes->hop_first);
    free(routes->switch_of);
    free(routes->switches);
    free(routes);
}

int weft_routes_cable(const struct weft_routes *routes, uint32_t end, uint32_t *at, struct weft_hop *hop,
                      uint32_t *other)
{
    uint32_t count;
    const uint32_t *edges = weft_graph_edges_of(routes->graph, end, &count);
    while (*at < count) {
        uint32_t index = edges[(*at)++];
        if (hop_of(routes, end, index, hop)) {
            *other = weft_edge_other(&routes->graph->edges[index], end);
            return 1;
        }
    }
    return 0;
}

static int has_cable(const struct weft_routes *routes, uint32_t end)
{
    struct weft_hop hop;
    uint32_t at = 0, other;
    return weft_routes_cable(routes, end, &at, &hop, &other);
}

uint32_t weft_routes_end(const struct weft_routes *routes, const struct weft_place *place, uint32_t nic)
{
    if (nic != WEFT_NODE_NONE && has_cable(routes, nic))
        return nic;
    if (place->host != WEFT_NODE_NONE && has_cable(routes, place->host))
        return place->host;
    return WEFT_NODE_NONE;
}

int weft_routes_adjacent(struct weft_routes *routes, uint32_t a, uint32_t b)
{
    struct weft_hop hop;
    uint32_t at = 0, other;
    int adjacent = 0;
    while (weft_routes_cable(routes, a, &at, &hop, &other)) {
        adjacent |= other == b;
        if (hop.to != WEFT_NODE_NONE)
            routes->wanted[hop.to] = 1;
    }
    at = 0;
    while (weft_routes_cable(routes, b, &at, &hop, &other))
        adjacent |= hop.to != WEFT_NODE_NONE && routes->wanted[hop.to];
    at = 0;
    while (weft_routes_cable(routes, a, &at, &hop, &other))
        if (hop.to != WEFT_NODE_NONE)
            routes->wanted[hop.to] = 0;
    return adjacent;
}
