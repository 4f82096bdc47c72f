/* SPDX-License-Identifier: Apache-2.0 */
/* What pairs of ranks put on the fabric, edge by edge. How a flow divides is in routes_spread.c; here it is decided which pairs
 * use the fabric at all, and what the sums mean. */
#include "topo/report/order_load.h"

#include <stdlib.h>

#include "base/error.h"
#include "topo/routes.h"

static int load_check(const struct weft_graph *graph, const struct weft_place *places, uint32_t ranks,
                      const uint32_t *nic)
{
    if (!graph || !graph->finished)
        return weft_fail(WEFT_INVALID, "load is counted on a finished graph");
    for (uint32_t rank = 0; rank < ranks; rank++) {
        const struct weft_place *place = &places[rank];
        if ((place->host != WEFT_NODE_NONE && place->host >= graph->node_count) ||
            (place->host == WEFT_NODE_NONE && !place->host_name) ||
            (place->near != WEFT_NODE_NONE && place->near >= graph->node_count) ||
            (nic[rank] != WEFT_NODE_NONE && nic[rank] >= graph->node_count))
            return weft_fail(WEFT_INVALID, "load of rank %u: its host, place or NIC is not in the graph",
                             rank);
    }
    return WEFT_OK;
}

static int same_host(const struct weft_place *a, const struct weft_place *b)
{
    if (a->host != WEFT_NODE_NONE || b->host != WEFT_NODE_NONE)
        return a->host == b->host;
    const char *first = a->host_name, *second = b->host_name;
    while (*first && *first == *second) {
        first++;
        second++;
    }
    return *first == *second;
}

/* Bytes per second of one link of a cable: as it says itself, else as its port does. */
static uint64_t link_bytes_per_s(const struct weft_graph *graph, const struct weft_edge *edge)
{
    if (edge->bytes_per_s)
        return edge->bytes_per_s;
    uint64_t a = graph->nodes[edge->a].bytes_per_s, b = graph->nodes[edge->b].bytes_per_s;
    return !a ? b : !b || a < b ? a : b;
}

/* Fills highest, highest_edge and highest_time from streams. */
static void load_highest(const struct weft_graph *graph, struct weft_load *load)
{
    load->highest = load->highest_time = 0;
    load->highest_edge = WEFT_NODE_NONE;
    for (uint32_t e = 0; e < graph->edge_count; e++) {
        double streams = load->streams[2 * (size_t)e] > load->streams[2 * (size_t)e + 1]
                             ? load->streams[2 * (size_t)e]
                             : load->streams[2 * (size_t)e + 1];
        if (streams <= 0)
            continue;
        const struct weft_edge *edge = &graph->edges[e];
        double per_link = streams / (edge->links ? edge->links : 1);
        uint64_t bytes_per_s = link_bytes_per_s(graph, edge);
        if (per_link > load->highest * (1 + 1e-9)) {
            load->highest = per_link;
            load->highest_edge = e;
        }
        if (bytes_per_s && per_link / (double)bytes_per_s > load->highest_time)
            load->highest_time = per_link / (double)bytes_per_s;
    }
}

/* Adds up the crossings and lists the flows; returns how many there are. */
static uint64_t pairs_count(struct weft_routes *routes, const struct weft_place *places, const uint32_t *nic,
                            const struct weft_pair *pairs, uint64_t count, struct weft_load *load,
                            struct weft_flow *flows)
{
    uint64_t used = 0;
    for (uint64_t i = 0; i < count; i++) {
        const struct weft_place *from = &places[pairs[i].from], *to = &places[pairs[i].to];
        if (same_host(from, to)) {
            if (from->host == WEFT_NODE_NONE || from->near == WEFT_NODE_NONE || to->near == WEFT_NODE_NONE)
                continue;
            uint32_t numa_from = weft_graph_above(routes->graph, from->near, WEFT_NODE_NUMA);
            uint32_t numa_to = weft_graph_above(routes->graph, to->near, WEFT_NODE_NUMA);
            load->crossings_numa +=
                numa_from != WEFT_NODE_NONE && numa_to != WEFT_NODE_NONE && numa_from != numa_to;
            continue;
        }
        load->crossings_host++;
        uint32_t a = weft_routes_end(routes, from, nic[pairs[i].from]),
                 b = weft_routes_end(routes, to, nic[pairs[i].to]);
        if (a == WEFT_NODE_NONE || b == WEFT_NODE_NONE)
            continue;
        load->crossings_leaf += !weft_routes_adjacent(routes, a, b);
        flows[used++] = (struct weft_flow){a, b};
    }
    return used;
}

int weft_load_pairs(const struct weft_graph *graph, const struct weft_place *places, uint32_t ranks,
                    const uint32_t *nic, const struct weft_pair *pairs, uint64_t count,
                    struct weft_load *load)
{
    int status = load_check(graph, places, ranks, nic);
    for (uint64_t i = 0; !status && i < count; i++)
        if (pairs[i].from >= ranks || pairs[i].to >= ranks)
            status = weft_fail(WEFT_INVALID, "load of pair %llu: rank %u to %u of %u ranks",
                               (unsigned long long)i, pairs[i].from, pairs[i].to, ranks);
    struct weft_routes *routes = NULL;
    if (!status)
        status = weft_routes_new(graph, &routes);
    if (status)
        return status;
    struct weft_load made = {0};
    struct weft_flow *flows = malloc((count ? count : 1) * sizeof *flows);
    made.streams = calloc(2 * (size_t)graph->edge_count + 1, sizeof *made.streams);
    if (!flows || !made.streams) {
        status = weft_fail(WEFT_NOMEM, "no memory for the load of %llu pairs", (unsigned long long)count);
    } else {
        uint64_t used = pairs_count(routes, places, nic, pairs, count, &made, flows);
        status = weft_routes_spread(routes, flows, used, made.streams);
    }
    free(flows);
    weft_routes_free(routes);
    if (status) {
        free(made.streams);
        return status;
    }
    load_highest(graph, &made);
    *load = made;
    return WEFT_OK;
}

/* The pairs of one or more rings of the same ranks, one after another. */
static int rings_load(const struct weft_graph *graph, const struct weft_place *places, uint32_t ranks,
                      const uint32_t *nic, const uint32_t *rings, uint32_t ring_count, struct weft_load *load)
{
    uint64_t count = ranks > 1 ? (uint64_t)ranks * ring_count : 0;
    struct weft_pair *pairs = malloc((count ? count : 1) * sizeof *pairs);
    if (!pairs)
        return weft_fail(WEFT_NOMEM, "no memory for rings of %u ranks", ranks);
    for (uint64_t i = 0; i < count; i++) {
        const uint32_t *ring = rings + i / ranks * ranks;
        pairs[i] = (struct weft_pair){ring[i % ranks], ring[(i + 1) % ranks]};
    }
    int status = weft_load_pairs(graph, places, ranks, nic, pairs, count, load);
    free(pairs);
    return status;
}

int weft_load_ring(const struct weft_graph *graph, const struct weft_place *places, uint32_t ranks,
                   const uint32_t *nic, const uint32_t *ring, struct weft_load *load)
{
    return rings_load(graph, places, ranks, nic, ring, 1, load);
}

int weft_load_rings(const struct weft_graph *graph, const struct weft_place *places,
                    const struct weft_layout *layout, struct weft_load *load)
{
    return rings_load(graph, places, layout->ranks, layout->nic, layout->rings, layout->ring_count, load);
}

void weft_load_free(struct weft_load *load)
{
    free(load->streams);
    load->streams = NULL;
}
