/* SPDX-License-Identifier: Apache-2.0 */
/* This machine as a graph, for tools: the library itself asks sysfs alone (topo/live/). The parts, each of which adds what it knows to a
 * graph that is not finished, answer WEFT_OK also when they have nothing to say; errors are WEFT_NOMEM and what the graph refuses.
 */
#ifndef WEFT_TOPO_DISCOVER_DISCOVER_H
#define WEFT_TOPO_DISCOVER_DISCOVER_H

#include "topo/files/reader.h"
#include "topo/graph/graph.h"

/* This machine: hwloc (I/O objects included), ports from sysfs, links of GPUs from NVML and Level Zero Sysman when they
 * can be loaded. HWLOC_XMLFILE and HWLOC_FSROOT are honoured: with either, only what hwloc says (and, under FSROOT, the
 * sysfs below it) is used, and no driver is asked. Libraries are loaded when needed and let go; nothing is printed (hwloc: weft_discover_begin()).
 * What is missing is missing: a machine without hwloc becomes a host with what sysfs says. */
int weft_topo_discover(struct weft_graph **graph);

/* This machine as libhwloc sees it. WEFT_NOT_FOUND where the library is not there or does not find anything. */
int weft_live_hwloc(unsigned host_flags, struct weft_graph *graph);

/* Once, before a tool has threads: hwloc prints nothing and uses its own parser of XML, and weft_topo_read() also reads the files that
 * describe one machine, hwloc's and NCCL's. Where the user has set the variables of hwloc that say so, they stay. */
void weft_discover_begin(void);

/* hwloc's XML of any machine, for weft_topo_read_machines_by(). It forks a process that reads it first: for programs in which
 * nothing of weft is open. WEFT_NOT_FOUND where the library is not there, with the file's name. */
weft_reader weft_read_hwloc;

/* Links on PCI at the speed and width that they can have, and virtual functions. */
int weft_live_pci(const char *root, struct weft_graph *graph);

/* Whether the machine is virtual, and whether this is a container: enum weft_host_flags. */
unsigned weft_live_host_flags(const char *root);

/* The host's name, where hwloc's is not that of the machine below root. */
int weft_live_host(const char *root, struct weft_graph *graph);

/* Links between GPUs, from drivers' libraries, where they can be loaded. */
int weft_live_nvml(struct weft_graph *graph);
int weft_live_sysman(struct weft_graph *graph);

/* A drivers' library: its functions into a table, NULL where it lacks an optional one. WEFT_NOT_FOUND when it is not
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
