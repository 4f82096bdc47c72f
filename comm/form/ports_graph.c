/* SPDX-License-Identifier: Apache-2.0 */
/* The ports that ranks have announced, in the graph of a communicator: comm/form/ports.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "comm/form/arrange.h"
#include "comm/form/ports.h"
#include "topo/order.h"

#define NUMA "numa" /* begins the names of the nodes beside which devices may stand */

struct entry {
    const struct weft_announced_port *port;
    int32_t rank;
};

static int compare_entries(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    int names = strcmp(x->port->device, y->port->device);
    if (names)
        return names;
    if (x->port->number != y->port->number)
        return x->port->number < y->port->number ? -1 : 1;
    return (x->rank > y->rank) - (x->rank < y->rank);
}

/* The NUMA node that the device is at, if some rank is bound to it; else the host. */
static uint32_t place_of(const struct weft_graph *machines, uint32_t host, int32_t numa)
{
    for (uint32_t n = weft_graph_first(machines, host); n != WEFT_NODE_NONE && numa >= 0;
         n = machines->nodes[n].sibling_next) {
        if (machines->nodes[n].kind == WEFT_NODE_NUMA && machines->nodes[n].index == numa)
            return n;
    }
    return host;
}

static int add_nic(struct weft_graph *machines, uint32_t host, const struct weft_announced_port *port,
                   uint32_t *nic)
{
    struct weft_node_given announced =
        WEFT_NODE_GIVEN(WEFT_NODE_NIC, place_of(machines, host, port->numa), port->device);
    announced.guid = port->device_guid;
    return weft_graph_add_node(machines, &announced, nic);
}

static int add_port(struct weft_graph *machines, uint32_t nic, const struct weft_announced_port *port)
{
    char name[WEFT_DEVICE_NAME + 8];
    uint32_t node;
    snprintf(name, sizeof name, "%s:%u", port->device, port->number);
    struct weft_node_given announced = WEFT_NODE_GIVEN(WEFT_NODE_PORT, nic, name);
    announced.index = port->number;
    announced.rail = port->rail == WEFT_RAIL_NONE ? -1 : port->rail;
    announced.guid = port->guid;
    announced.state = WEFT_PORT_ACTIVE;
    announced.bytes_per_s = (uint64_t)port->speed_mbps * 125000;
    return weft_graph_add_node(machines, &announced, &node);
}

int weft_ports_add(struct weft_graph *machines, uint32_t host, const struct weft_announced_place *announced,
                   const int32_t *ranks, uint32_t count)
{
    struct entry *entries = malloc(((size_t)count * WEFT_ANNOUNCED_PORTS + 1) * sizeof *entries);
    uint32_t used = 0, nic = WEFT_NODE_NONE;
    int status = WEFT_OK;
    if (!entries)
        return weft_fail(WEFT_NOMEM, "no memory for the ports of %u ranks", count);
    for (uint32_t i = 0; i < count; i++) {
        const struct weft_announced_place *place = &announced[ranks[i]];
        for (uint32_t p = 0; p < place->port_count; p++) {
            if (strncmp(place->ports[p].device, NUMA, strlen(NUMA)) != 0)
                entries[used++] = (struct entry){&place->ports[p], ranks[i]};
        }
    }
    qsort(entries, used, sizeof *entries, compare_entries);
    for (uint32_t i = 0; i < used && status == WEFT_OK; i++) {
        const struct weft_announced_port *port = entries[i].port, *before = i ? entries[i - 1].port : NULL;
        int is_same_device = before && strcmp(before->device, port->device) == 0;
        if (is_same_device && before->number == port->number)
            continue;
        if (!is_same_device)
            status = add_nic(machines, host, port, &nic);
        if (status == WEFT_OK)
            status = add_port(machines, nic, port);
    }
    free(entries);
    return status;
}

void weft_ports_place(const struct weft_graph *graph, const struct weft_announced_place *announced,
                      struct weft_place *place)
{
    if (place->host == WEFT_NODE_NONE || !announced->port_count)
        return;
    for (uint32_t port = weft_graph_next_below(graph, place->host, WEFT_NODE_PORT, WEFT_NODE_NONE);
         port != WEFT_NODE_NONE && !place->has_nic;
         port = weft_graph_next_below(graph, place->host, WEFT_NODE_PORT, port)) {
        const struct weft_node *node = &graph->nodes[port];
        if (node->index != announced->ports[0].number ||
            strcmp(graph->nodes[node->parent].name, announced->ports[0].device) != 0)
            continue;
        place->nic = port;
        place->has_nic = 1;
    }
}
