/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks by host, and within a host by the tree of its devices.
 *
 * Everything is sorted by what the facts say of themselves (names, PCI addresses, numbers of NUMA nodes): where a node
 * stands in the graph, and in which order ranks arrived, depends on who told what first and must not matter. The number of
 * a rank decides only between ranks of which nothing else differs. */
#include "topo/order_parts.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "topo/natural.h"
#include "topo/routes.h"

/* Bridges that say they are no PCI switch do not make a group of their own: what they hold, their NUMA node holds. */
static int is_pci_switch(const struct weft_node *node)
{
    return node->kind == WEFT_NODE_BRIDGE &&
           (node->bridge == WEFT_BRIDGE_SWITCH || node->bridge == WEFT_BRIDGE_UNKNOWN);
}

static const char *host_name(const struct weft_order *order, uint32_t rank)
{
    const struct weft_place *place = &order->places[rank];
    return place->host == WEFT_NODE_NONE ? place->host_name : order->graph->nodes[place->host].name;
}

static int hosts_compare(const struct weft_order *order, uint32_t a, uint32_t b)
{
    const struct weft_place *first = &order->places[a], *second = &order->places[b];
    if (first->host != WEFT_NODE_NONE && first->host == second->host) {
        return 0;
    }
    int different = weft_natural_compare(host_name(order, a), host_name(order, b));
    if (different) {
        return different;
    }
    if (first->host == WEFT_NODE_NONE || second->host == WEFT_NODE_NONE) {
        return (first->host == WEFT_NODE_NONE) - (second->host == WEFT_NODE_NONE);
    }
    return weft_order_nodes(order->graph, first->host, second->host);
}

static int ranks_compare(const void *left, const void *right, void *context)
{
    const struct weft_order *order = context;
    uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    int different = hosts_compare(order, a, b);
    if (different) {
        return different;
    }
    uint32_t near_a = order->places[a].near, near_b = order->places[b].near;
    if (order->places[a].host != WEFT_NODE_NONE && near_a != near_b) {
        if (near_a == WEFT_NODE_NONE || near_b == WEFT_NODE_NONE) {
            return near_a == WEFT_NODE_NONE ? 1 : -1;
        }
        different = weft_order_nodes(order->graph, near_a, near_b);
        if (different) {
            return different;
        }
    }
    return a < b ? -1 : a > b;
}

static int place_check(const struct weft_order *order, uint32_t rank)
{
    const struct weft_place *place = &order->places[rank];
    const struct weft_graph *graph = order->graph;
    if (place->host == WEFT_NODE_NONE) {
        if (!place->host_name || !*place->host_name) {
            return weft_fail(WEFT_INVALID, "place of rank %u: neither a host of the graph nor a host's name",
                             rank);
        }
        return WEFT_OK;
    }
    if (!graph || place->host >= graph->node_count || graph->nodes[place->host].kind != WEFT_NODE_HOST) {
        return weft_fail(WEFT_INVALID, "place of rank %u: node %u is no host of the graph", rank,
                         place->host);
    }
    if (place->near != WEFT_NODE_NONE &&
        (place->near >= graph->node_count || graph->nodes[place->near].host != place->host)) {
        return weft_fail(WEFT_INVALID, "place of rank %u: node %u does not lie in host %s", rank, place->near,
                         graph->nodes[place->host].name);
    }
    if (place->has_nic && (place->nic >= graph->node_count || graph->nodes[place->nic].host != place->host ||
                           (graph->nodes[place->nic].kind != WEFT_NODE_PORT &&
                            graph->nodes[place->nic].kind != WEFT_NODE_NIC))) {
        return weft_fail(WEFT_INVALID, "place of rank %u: node %u is no port of host %s", rank, place->nic,
                         graph->nodes[place->host].name);
    }
    return WEFT_OK;
}

int weft_order_gather(struct weft_order *order)
{
    if (order->ranks == 0 || order->ranks > WEFT_NODES_MAX) {
        return weft_fail(WEFT_INVALID, "an order of %u ranks: from 1 to %u can be ordered", order->ranks,
                         WEFT_NODES_MAX);
    }
    if (order->graph && !order->graph->finished) {
        return weft_fail(WEFT_INVALID,
                         "ranks are ordered along a finished graph: weft_graph_finish() comes first");
    }
    for (uint32_t rank = 0; rank < order->ranks; rank++) {
        int status = place_check(order, rank);
        if (status) {
            return status;
        }
    }
    order->members = malloc(order->ranks * sizeof *order->members);
    order->host_of = malloc(order->ranks * sizeof *order->host_of);
    order->hosts = malloc(order->ranks * sizeof *order->hosts);
    if (!order->members || !order->host_of || !order->hosts) {
        return weft_fail(WEFT_NOMEM, "no memory to gather %u ranks by host", order->ranks);
    }
    for (uint32_t rank = 0; rank < order->ranks; rank++) {
        order->members[rank] = rank;
    }
    qsort_r(order->members, order->ranks, sizeof *order->members, ranks_compare, order);
    order->host_count = 0;
    for (uint32_t i = 0; i < order->ranks; i++) {
        uint32_t rank = order->members[i];
        if (i == 0 || hosts_compare(order, order->members[i - 1], rank)) {
            order->hosts[order->host_count++] =
                (struct weft_order_host){host_name(order, rank), order->places[rank].host, i, 0};
        }
        order->hosts[order->host_count - 1].count++;
        order->host_of[rank] = order->host_count - 1;
    }
    return WEFT_OK;
}

int weft_order_level_add(struct weft_order *order, enum weft_level level, uint32_t **keys)
{
    *keys = malloc(order->ranks * sizeof **keys);
    if (!*keys) {
        return weft_fail(WEFT_NOMEM, "no memory for a level of %u ranks", order->ranks);
    }
    memset(*keys, 0xff, order->ranks * sizeof **keys); /* WEFT_NODE_NONE */
    order->levels[order->level_count++] = (struct weft_order_level){level, *keys};
    return WEFT_OK;
}

int weft_order_levels_of_hosts(struct weft_order *order)
{
    uint32_t *hosts, *numa = NULL, *bridges = NULL;
    int status = weft_order_level_add(order, WEFT_LEVEL_HOST, &hosts);
    if (!status && order->graph) {
        status = weft_order_level_add(order, WEFT_LEVEL_NUMA, &numa);
    }
    if (!status && order->graph) {
        status = weft_order_level_add(order, WEFT_LEVEL_BRIDGE, &bridges);
    }
    if (status) {
        return status;
    }
    for (uint32_t rank = 0; rank < order->ranks; rank++) {
        hosts[rank] = order->host_of[rank];
        if (!order->graph || order->places[rank].host == WEFT_NODE_NONE) {
            continue;
        }
        for (uint32_t node = order->places[rank].near; node != WEFT_NODE_NONE;
             node = order->graph->nodes[node].parent) {
            if (order->graph->nodes[node].kind == WEFT_NODE_NUMA) {
                numa[rank] = node; /* the outermost: what it holds includes the inner ones */
            } else if (is_pci_switch(&order->graph->nodes[node])) {
                bridges[rank] = node;
            }
        }
    }
    return WEFT_OK;
}

void weft_order_free(struct weft_order *order)
{
    for (unsigned l = 0; l < order->level_count; l++) {
        free(order->levels[l].keys);
    }
    free(order->groups);
    free(order->rings);
    free(order->host_order);
    free(order->tiers);
    weft_routes_free(order->routes);
    free(order->ends);
    free(order->nic);
    free(order->nic_reasons);
    free(order->hosts);
    free(order->host_of);
    free(order->members);
}
