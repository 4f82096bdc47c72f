/* SPDX-License-Identifier: Apache-2.0 */
/* Switches and cables, in tiers.
 *
 * A switch that a host hangs on is of tier 1 (a leaf); one that is n cables away from the nearest leaf is of tier n + 1. Most
 * cables join neighbouring tiers; those within a tier are said, too. For each tier: its switches, and what leads down from it
 * and up: cables, and their rate together. Where more goes down than up, tier 1 is oversubscribed by that ratio, which is
 * said where all the rates are known. Cables to hosts are found at ports, at NICs without ports, or at hosts.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "topo/tool/tool.h"

struct bundle {
    uint64_t cables, down, bytes_per_s; /* down: of the cables, those that do not carry */
    uint64_t rate;                      /* of one cable */
    int unknown, unlike;                /* some rate is not told; rates differ */
};

struct tier {
    uint32_t switches;
    struct bundle below, within, above;
};

struct fabric {
    const struct weft_graph *graph;
    uint32_t *tier; /* per node: of a switch, from 1; 0: no host in reach, or no switch */
    uint32_t *queue;
    struct tier *tiers; /* [tier_count + 1] */
    uint32_t tier_count;
};

static int is_switch(const struct weft_graph *graph, uint32_t node)
{
    return graph->nodes[node].kind == WEFT_NODE_SWITCH;
}

/* --- tiers ------------------------------------------------------------------------------------------------ */

/* Breadth first from the leaves; cables that are down still say how the fabric was built. */
static void tiers_find(struct fabric *fabric)
{
    const struct weft_graph *graph = fabric->graph;
    uint32_t head = 0, tail = 0, count;
    for (uint32_t node = weft_graph_first(graph, WEFT_NODE_NONE); node != WEFT_NODE_NONE;
         node = graph->nodes[node].sibling_next) {
        const uint32_t *edges = weft_graph_edges_of(graph, node, &count);
        for (uint32_t i = 0; is_switch(graph, node) && !fabric->tier[node] && i < count; i++) {
            const struct weft_edge *edge = &graph->edges[edges[i]];
            if (edge->kind != WEFT_EDGE_FABRIC || is_switch(graph, weft_edge_other(edge, node)))
                continue;
            fabric->tier[node] = 1;
            fabric->queue[tail++] = node;
        }
    }
    while (head < tail) {
        uint32_t node = fabric->queue[head++];
        const uint32_t *edges = weft_graph_edges_of(graph, node, &count);
        fabric->tier_count = fabric->tier[node];
        for (uint32_t i = 0; i < count; i++) {
            uint32_t other = weft_edge_other(&graph->edges[edges[i]], node);
            if (!is_switch(graph, other) || fabric->tier[other])
                continue;
            fabric->tier[other] = fabric->tier[node] + 1;
            fabric->queue[tail++] = other;
        }
    }
}

static void bundle_add(struct bundle *bundle, const struct weft_edge *edge)
{
    bundle->cables += edge->links;
    if (edge->flags & WEFT_EDGE_DOWN) {
        bundle->down += edge->links;
        return;
    }
    bundle->bytes_per_s += edge->bytes_per_s * edge->links;
    bundle->unknown |= edge->bytes_per_s == 0 || edge->flags & WEFT_EDGE_LINKS_UNKNOWN;
    bundle->unlike |= bundle->rate && bundle->rate != edge->bytes_per_s;
    bundle->rate = edge->bytes_per_s;
}

static void tiers_count(struct fabric *fabric)
{
    const struct weft_graph *graph = fabric->graph;
    for (uint32_t i = 0; i < graph->node_count; i++)
        fabric->tiers[fabric->tier[i]].switches += (uint32_t)is_switch(graph, i);
    for (uint32_t i = 0; i < graph->edge_count; i++) {
        const struct weft_edge *edge = &graph->edges[i];
        uint32_t low = fabric->tier[edge->a], high = fabric->tier[edge->b];
        if (edge->kind != WEFT_EDGE_FABRIC || (!is_switch(graph, edge->a) && !is_switch(graph, edge->b)))
            continue;
        if (is_switch(graph, edge->a) && is_switch(graph, edge->b) && low == high) {
            bundle_add(&fabric->tiers[low].within, edge);
            continue;
        }
        bundle_add(&fabric->tiers[low > high ? low : high].below, edge);
        if (is_switch(graph, edge->a) && is_switch(graph, edge->b))
            bundle_add(&fabric->tiers[low < high ? low : high].above, edge);
    }
}

/* --- words ------------------------------------------------------------------------------------------------ */

static void bundle_put(const struct bundle *bundle, const char *where, FILE *file)
{
    char bits[WEFT_TOPO_AMOUNT_SIZE], rate[WEFT_TOPO_AMOUNT_SIZE];
    if (!bundle->cables)
        return;
    fprintf(file, "; %" PRIu64 " %s %s", bundle->cables, bundle->cables == 1 ? "cable" : "cables", where);
    if (bundle->down)
        fprintf(file, " (%" PRIu64 " down)", bundle->down);
    if (bundle->unknown)
        fprintf(file, ", rate unknown%s", bundle->bytes_per_s ? " of some" : "");
    else if (bundle->unlike)
        fprintf(file, ", %s together", weft_topo_rate(bundle->bytes_per_s, rate));
    else if (bundle->cables > bundle->down)
        fprintf(file, ", %s (%s) each", weft_topo_bits(bundle->rate, bits),
                weft_topo_rate(bundle->rate, rate));
}

static void tier_put(const struct fabric *fabric, uint32_t number, FILE *file)
{
    const struct tier *tier = &fabric->tiers[number];
    if (number)
        fprintf(file, "  tier %" PRIu32 "%s: %" PRIu32 " %s", number, number == 1 ? " (leaves)" : "",
                tier->switches, tier->switches == 1 ? "switch" : "switches");
    else
        fprintf(file, "  no way to a host: %" PRIu32 " %s", tier->switches,
                tier->switches == 1 ? "switch" : "switches");
    bundle_put(&tier->below, number == 1 ? "to hosts" : "down", file);
    bundle_put(&tier->within, "within the tier", file);
    bundle_put(&tier->above, "up", file);
    const struct bundle *below = &tier->below, *above = &tier->above;
    if (number && above->bytes_per_s && !above->unknown && !below->unknown &&
        below->bytes_per_s > above->bytes_per_s)
        fprintf(file, "; oversubscribed %.3g:1", (double)below->bytes_per_s / (double)above->bytes_per_s);
    fprintf(file, "\n");
}

/* --- every switch ----------------------------------------------------------------------------------------- */

static void neighbour_put(const struct fabric *fabric, const struct weft_edge *edge, uint32_t node,
                          FILE *file)
{
    char name[WEFT_TOPO_NAME_SIZE], rate[WEFT_TOPO_AMOUNT_SIZE];
    uint32_t other = weft_edge_other(edge, node);
    int32_t port = edge->a == node ? edge->port_a : edge->port_b;
    fprintf(file, "    ");
    if (port >= 0)
        fprintf(file, "[%" PRId32 "] ", port);
    fprintf(file, "%s", weft_topo_name(fabric->graph, other, name));
    if (fabric->tier[other])
        fprintf(file, " (tier %" PRIu32 ")", fabric->tier[other]);
    if (edge->links > 1)
        fprintf(file, ", %" PRIu32 " cables", edge->links);
    fprintf(file, ", %s%s", edge->bytes_per_s ? weft_topo_bits(edge->bytes_per_s, rate) : "rate unknown",
            edge->flags & WEFT_EDGE_DOWN ? ", down" : "");
    fprintf(file, "\n");
}

static void switches_put(const struct fabric *fabric, FILE *file)
{
    const struct weft_graph *graph = fabric->graph;
    for (uint32_t node = weft_graph_first(graph, WEFT_NODE_NONE); node != WEFT_NODE_NONE;
         node = graph->nodes[node].sibling_next) {
        uint32_t count;
        if (!is_switch(graph, node))
            continue;
        fprintf(file, "  switch ");
        weft_topo_put(file, graph->nodes[node].name);
        if (graph->nodes[node].guid)
            fprintf(file, ", GUID %016" PRIx64, graph->nodes[node].guid);
        if (fabric->tier[node])
            fprintf(file, ", tier %" PRIu32, fabric->tier[node]);
        fprintf(file, "\n");
        const uint32_t *edges = weft_graph_edges_of(graph, node, &count);
        for (uint32_t i = 0; i < count; i++)
            neighbour_put(fabric, &graph->edges[edges[i]], node, file);
    }
}

static void fabric_put(struct fabric *fabric, uint32_t switches, int all, FILE *file)
{
    tiers_count(fabric);
    fprintf(file, "\nfabric: %" PRIu32 " %s in %" PRIu32 " %s\n", switches,
            switches == 1 ? "switch" : "switches", fabric->tier_count,
            fabric->tier_count == 1 ? "tier" : "tiers");
    for (uint32_t number = fabric->tier_count; number > 0; number--)
        tier_put(fabric, number, file);
    if (fabric->tiers[0].switches)
        tier_put(fabric, 0, file);
    if (all)
        switches_put(fabric, file);
}

int weft_topo_fabric_text(const struct weft_graph *graph, int all, FILE *file)
{
    struct fabric fabric = {.graph = graph};
    uint32_t switches = 0;
    int status = WEFT_OK;
    for (uint32_t i = 0; i < graph->node_count; i++)
        switches += (uint32_t)is_switch(graph, i);
    if (!switches)
        return WEFT_OK;
    fabric.tier = calloc(graph->node_count, sizeof *fabric.tier);
    fabric.queue = malloc(switches * sizeof *fabric.queue);
    fabric.tiers = calloc((size_t)switches + 1, sizeof *fabric.tiers);
    if (fabric.tier && fabric.queue && fabric.tiers) {
        tiers_find(&fabric);
        fabric_put(&fabric, switches, all, file);
    } else {
        status = weft_fail(WEFT_NOMEM, "no memory to print %" PRIu32 " switches", switches);
    }
    free(fabric.tiers);
    free(fabric.queue);
    free(fabric.tier);
    return status;
}
