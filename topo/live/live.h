/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of discovery, each of which adds what it knows to a graph that is not finished. Private to topo/live/.
 *
 * WEFT_OK also when the part has nothing to say; errors are WEFT_NOMEM and what the graph refuses.
 */
#ifndef WEFT_TOPO_LIVE_LIVE_H
#define WEFT_TOPO_LIVE_LIVE_H

#include "topo/graph.h"

/* The machine as libhwloc sees it, in its XML. WEFT_MISSING where the library is not there or does not find anything;
 * the caller frees *xml. */
int weft_live_hwloc(char **xml, size_t *size);

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

/* Links on PCI at the speed and width that they can have, and virtual functions. */
int weft_live_pci(const char *root, struct weft_graph *graph);

/* Whether the machine is virtual, and whether this is a container: enum weft_host_flags. */
unsigned weft_live_host_flags(const char *root);

/* The host's name, where hwloc's is not that of the machine below root. */
int weft_live_host(const char *root, struct weft_graph *graph);

/* Links between GPUs, from drivers' libraries, where they can be loaded. */
int weft_live_nvml(struct weft_graph *graph);
int weft_live_sysman(struct weft_graph *graph);

/* The node of the kind with this PCI address (canonical), or WEFT_NODE_NONE. */
uint32_t weft_live_find(const struct weft_graph *graph, enum weft_node_kind kind, const char *pci);

/* Sets an attribute unless the text is empty. */
int weft_live_attribute(struct weft_graph *graph, uint32_t node, const char *name, const char *value);

/* A drivers' library: its functions into a table, NULL where it lacks an optional one. WEFT_MISSING when it is not
 * there or lacks another. Signal dispositions are the caller's to keep. */
struct weft_live_function {
    const char *name;
    size_t offset;
    int is_optional;
};
int weft_live_load(const char *library, const struct weft_live_function *functions, size_t count, void *table,
                   void **handle);

/* Loads a drivers' library, asks, and lets it go again; signal dispositions stay what they are. WEFT_OK where it cannot be
 * loaded. */
int weft_live_ask(const char *library, const struct weft_live_function *functions, size_t count, void *table,
                  int (*ask)(void *asking), void *asking);

#endif
