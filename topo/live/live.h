/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of discovery, each of which adds what it knows to a graph that is not finished. Private to topo/live/.
 *
 * WEFT_OK also when the part has nothing to say; errors are WEFT_NOMEM and what the graph refuses.
 */
#ifndef WEFT_TOPO_LIVE_LIVE_H
#define WEFT_TOPO_LIVE_LIVE_H

#include "topo/graph/graph.h"

/* Without hwloc: the host with its NUMA nodes, cores and PCI devices, from sysfs below root. */
int weft_live_machine(const char *root, unsigned host_flags, struct weft_graph *graph);

/* The host and its NUMA nodes alone. */
int weft_live_host_numas(const char *root, struct weft_graph *graph);

/* RDMA devices and their ports (state, rate, GIDs), from sysfs below root. */
int weft_live_rdma(const char *root, struct weft_graph *graph);

/* The same, and network devices that have no RDMA. */
int weft_live_ports(const char *root, struct weft_graph *graph);

/* Which ports reach each other: equal numbers by node, for a graph with what weft_live_rdma() has added. */
int weft_live_networks(const char *root, const struct weft_graph *graph, uint32_t *networks);

/* The node of the kind with this PCI address (canonical), or WEFT_NODE_NONE. */
uint32_t weft_live_find(const struct weft_graph *graph, enum weft_node_kind kind, const char *pci);

#endif
