/* SPDX-License-Identifier: Apache-2.0 */
/* A machine as libhwloc holds it, between hwloc's objects and our graph. Private to what turns one into the other.
 *
 * hwloc_load.c loads the library, hwloc.c has it look at this machine or at a file
 * (hwloc_text.c, hwloc_trial.c), and the other three turn what it found into nodes (hwloc_nodes.c, hwloc_devices.c) and edges (hwloc_links.c). Every object
 * of hwloc's has a struct weft_hwloc_object, to which its `userdata` points; they stand in the order of a walk depth
 * first, memory before processors before I/O, as hwloc's XML has them.
 */
#ifndef WEFT_TOPO_DISCOVER_HWLOC_H
#define WEFT_TOPO_DISCOVER_HWLOC_H

#include <hwloc.h>

#include "base/signals.h"
#include "topo/files/reader.h"
#include "topo/graph/graph.h"

/* Functions of hwloc 2.1. */
struct weft_hwloc_library {
    __typeof__(hwloc_get_api_version) *get_api_version;
    __typeof__(hwloc_topology_init) *topology_init;
    __typeof__(hwloc_topology_set_flags) *topology_set_flags;
    __typeof__(hwloc_topology_set_io_types_filter) *topology_set_io_types_filter;
    __typeof__(hwloc_topology_set_components) *topology_set_components;
    __typeof__(hwloc_topology_set_xmlbuffer) *topology_set_xmlbuffer;
    __typeof__(hwloc_topology_load) *topology_load;
    __typeof__(hwloc_topology_destroy) *topology_destroy;
    __typeof__(hwloc_get_obj_by_depth) *get_obj_by_depth;
    __typeof__(hwloc_bitmap_weight) *bitmap_weight;
    __typeof__(hwloc_bitmap_first) *bitmap_first;
    __typeof__(hwloc_bitmap_last) *bitmap_last;
    __typeof__(hwloc_bitmap_to_ith_ulong) *bitmap_to_ith_ulong;
    __typeof__(hwloc_distances_get_by_name) *distances_get_by_name;
    __typeof__(hwloc_distances_release) *distances_release;
};

/* The library while it is loaded, without signal handlers of its own. */
struct weft_hwloc_session {
    struct weft_hwloc_library hwloc;
    struct weft_signals signals;
    void *handle;
};
/* WEFT_NOT_FOUND where it cannot be loaded; nothing is to be ended then. */
int weft_hwloc_begin(struct weft_hwloc_session *session);
void weft_hwloc_end(struct weft_hwloc_session *session);

struct weft_hwloc_object {
    hwloc_obj_t object;
    struct weft_hwloc_object *owner;          /* OS device: what it is of that is none; others: itself */
    struct weft_hwloc_object *fabric_device;  /* PCI: the first OpenFabrics device of it, or NULL */
    struct weft_hwloc_object *network_device; /* PCI: the first network device of it, or NULL */
    uint32_t node;                            /* in the graph, or WEFT_NODE_NONE */
    uint32_t info_count;                      /* of it and its OS devices, as far as they were used */
    uint8_t becomes_gpu;                      /* PCI: an OS device says so, or its class */
    uint8_t becomes_nic;
    uint8_t faces_up; /* bridge: a switch's port towards the processor */
    char pci[32];     /* canonical address of a PCI function or bridge, else "" */
};

struct weft_hwloc_machine {
    const struct weft_hwloc_library *hwloc;
    hwloc_topology_t topology;
    const struct weft_text *text; /* for messages: its name */
    struct weft_graph *graph;
    struct weft_hwloc_object *objects; /* the first is the machine */
    uint32_t object_count;
    struct weft_hwloc_object **numas; /* by os_index */
    uint32_t numa_count;
    uint32_t gpu_count;
};

static inline struct weft_hwloc_object *weft_hwloc_of(hwloc_obj_t object)
{
    return object->userdata;
}

/* The text as hwloc is to have it, with a 0 behind *size bytes; the caller frees *xml. */
int weft_hwloc_rewrite(const struct weft_text *text, char **xml, size_t *size);

/* Asks is_refused(user), which has hwloc read the text, in a child process. */
int weft_hwloc_try(const struct weft_text *text, int (*is_refused)(void *user), void *user);

/* Host, NUMA nodes and cores, with host_flags that are known from elsewhere. Also after a failure the caller frees objects and
 * numas. Then the others, in this order. */
int weft_hwloc_nodes(struct weft_hwloc_machine *machine, unsigned host_flags);
int weft_hwloc_devices(struct weft_hwloc_machine *machine);
int weft_hwloc_links(struct weft_hwloc_machine *machine);

/* The value of an info, or NULL. */
const char *weft_hwloc_info(const struct weft_hwloc_object *object, const char *name);
/* Every info of the object as an attribute of the node. */
int weft_hwloc_set_infos(struct weft_hwloc_machine *machine, struct weft_hwloc_object *object, uint32_t node);
/* Where an object that is no node of its own stands: a NUMA node or the host. */
uint32_t weft_hwloc_place(const struct weft_hwloc_machine *machine, const struct weft_hwloc_object *object);

#endif
