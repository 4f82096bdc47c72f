/* SPDX-License-Identifier: Apache-2.0 */
/* Which host of a fabric is which machine, and which port which. Private to topo/lay*.c. */
#ifndef WEFT_TOPO_LAY_H
#define WEFT_TOPO_LAY_H

#include "topo/graph/graph.h"

/* machine_of: for each node of the fabric, room for the machine's host (WEFT_NODE_NONE: none); only those of hosts are
 * set. */
int weft_lay_hosts(const struct weft_graph *machines, const struct weft_graph *fabric, uint32_t *machine_of);

/* Ports of one host: from the fabric's view and the machine's, in the order of their graphs. */
struct weft_lay_ports {
    const struct weft_graph *graph;
    uint32_t *ports; /* a NIC without ports stands for its one */
    uint32_t count;
};

int weft_lay_list_ports(const struct weft_graph *graph, uint32_t host, struct weft_lay_ports *list);
void weft_lay_free_ports(struct weft_lay_ports *list);

/* Devices are held against each other; so many pairs are some seconds, and more than anybody has. */
#define WEFT_LAY_COMPARED_MAX (UINT64_C(1) << 28)
int weft_lay_fail_size(const struct weft_graph *machines, const struct weft_graph *fabric);

/* twin: [fabric->count], index into machine->ports or WEFT_NODE_NONE. stand_in: the machine is another of the same kind,
 * so GUIDs say nothing, and ports whose names differ follow each other in order. *compared: pairs so far. */
int weft_lay_match_ports(const struct weft_lay_ports *fabric, const struct weft_lay_ports *machine,
                         int stand_in, uint32_t *twin, uint64_t *compared);

#endif
