/* SPDX-License-Identifier: Apache-2.0 */
/* hwloc's XML of one machine, between its text and our graph. Private to the reader of hwloc's XML, but for
 * weft_hwloc_read().
 *
 * Reading takes two steps, because what a PCI function is (a GPU, an adapter) is told by the devices below it, which
 * come after it in the text: first every object is kept as it came, in the order of the text (hwloc_objects.c), then
 * they are turned into nodes (hwloc_xml.c, hwloc_devices.c) and edges (hwloc_links.c). An object's parent stands before
 * it, so both steps are loops without recursion.
 */
#ifndef WEFT_TOPO_FILES_HWLOC_H
#define WEFT_TOPO_FILES_HWLOC_H

#include "topo/graph.h"
#include "topo/read.h"

#define WEFT_HWLOC_NONE UINT32_MAX

enum weft_hwloc_type {
    WEFT_HWLOC_OTHER, /* caches, groups, dies, and what later versions add: they only contain */
    WEFT_HWLOC_MACHINE,
    WEFT_HWLOC_PACKAGE,
    WEFT_HWLOC_CORE,
    WEFT_HWLOC_PU,
    WEFT_HWLOC_NUMA,
    WEFT_HWLOC_BRIDGE,
    WEFT_HWLOC_PCI,
    WEFT_HWLOC_DEVICE, /* OSDev: what a driver made of it */
    WEFT_HWLOC_MISC,
};

enum weft_hwloc_device { /* hwloc 2's numbers of osdev_type */
                         WEFT_HWLOC_BLOCK,
                         WEFT_HWLOC_GPU,
                         WEFT_HWLOC_NETWORK,
                         WEFT_HWLOC_OPENFABRICS,
                         WEFT_HWLOC_DMA,
                         WEFT_HWLOC_COPROC,
                         WEFT_HWLOC_DEVICE_COUNT
};

/* Nodes of a nodeset that are not exactly one. */
#define WEFT_HWLOC_NUMA_UNTOLD  (-1)
#define WEFT_HWLOC_NUMA_SEVERAL (-2)

struct weft_hwloc_info {
    const char *name, *value;
    uint32_t next; /* of the same object */
};

struct weft_hwloc_object {
    uint8_t type;        /* enum weft_hwloc_type */
    uint8_t device;      /* DEVICE: enum weft_hwloc_device */
    uint8_t bridge_host; /* BRIDGE: from the processor to PCI, not from PCI to PCI */
    uint8_t becomes_gpu; /* PCI: a DEVICE below it says so, or its class */
    uint8_t becomes_nic;
    uint8_t faces_up;    /* BRIDGE: a switch's port towards the processor; set by the second step */
    uint16_t pci_class;  /* 0x0302 */
    uint16_t pci_ids[4]; /* vendor, device, and the subsystem's two */
    uint32_t parent;
    uint32_t owner; /* DEVICE: the object around it that is none; others: itself */
    size_t line;
    int64_t os_index;     /* -1: not told */
    int32_t numa;         /* the one node of its nodeset, or WEFT_HWLOC_NUMA_* */
    int32_t local_numa;   /* the one NUMANode right below it that is no GPU's memory, or WEFT_HWLOC_NUMA_* */
    int32_t first_pu;     /* CORE: smallest number of a PU in it, -1 none; PU: 1 when it lies in a core */
    uint64_t gp_index;    /* unique in the file; 0: not told */
    uint64_t bytes_per_s; /* PCI, BRIDGE: of its link; 0 unknown */
    const char *name;     /* DEVICE; BRIDGE of the processor */
    const char *subtype;  /* or NULL */
    const char *pci;      /* canonical address, or NULL */
    const char *cpuset;   /* NUMA: its processors as the file spells them, or NULL */
    uint32_t fabric_device; /* PCI: first OPENFABRICS below it */
    uint32_t network_device;
    uint32_t info_first, info_last, info_count;
    uint32_t node; /* in the graph: where it stands, or what stands for it; set by the second step */
};

/* Relative values between objects: distances2 and distances2hetero. */
struct weft_hwloc_reference {
    uint32_t object; /* set by weft_hwloc_links(), before that NONE */
    int by_os_index;
    uint64_t number;
};
struct weft_hwloc_matrix {
    struct weft_hwloc_matrix *next;
    const char *name; /* "NVLinkBandwidth"; "" when not told */
    size_t line;
    uint64_t size; /* objects on each side */
    int by_os_index;
    struct weft_hwloc_reference *references;
    uint64_t *values; /* [size][size] */
    uint64_t reference_count, reference_room, value_count, value_room;
};

struct weft_hwloc_file {
    const struct weft_text *text;
    struct weft_graph *graph;
    struct weft_hwloc_object *objects; /* the first is the machine */
    uint32_t object_count, object_room;
    struct weft_hwloc_info *infos;
    uint32_t info_count, info_room;
    struct weft_hwloc_matrix *matrices;
    struct weft_hwloc_strings *strings;
    /* Second step. */
    struct weft_hwloc_numa {
        int64_t os_index;
        uint32_t node;
    } * numas; /* by os_index */
    uint32_t numa_count;
    uint32_t gpu_count;
};

/* weft_read_hwloc_xml() for a machine of which is known from elsewhere what kind of host it is: enum weft_host_flags. */
int weft_hwloc_read(const struct weft_text *text, unsigned host_flags, struct weft_graph *graph);

/* First step: fills objects, infos and matrices. weft_hwloc_forget() frees them, also after a failure. */
int weft_hwloc_parse(struct weft_hwloc_file *file);
void weft_hwloc_forget(struct weft_hwloc_file *file);

/* The value of an object's info, or NULL. */
const char *weft_hwloc_info(const struct weft_hwloc_file *file, const struct weft_hwloc_object *object,
                            const char *name);
/* A copy that lives as long as the file; NULL without memory. */
const char *weft_hwloc_keep(struct weft_hwloc_file *file, const char *text);

/* One NUMA node's number out of a nodeset's text, or WEFT_HWLOC_NUMA_*; 0 when the text is no set. */
int weft_hwloc_nodeset(const char *text, int32_t *numa);

/* Room for one more of what an array holds. */
int weft_hwloc_room(void **array, uint64_t count, uint64_t *room, size_t size);
struct weft_xml_element;
/* An element that holds relative values: its start, the text of an <indexes> or <u64values> in it, its end. */
int weft_hwloc_matrix_begin(struct weft_hwloc_file *file, const struct weft_xml_element *element);
int weft_hwloc_matrix_words(struct weft_hwloc_file *file, const struct weft_xml_element *element,
                            const char *words, size_t size, int is_index);
int weft_hwloc_matrix_end(const struct weft_hwloc_file *file, const struct weft_xml_element *element);

/* Second step. Where an object that holds no node of its own stands: a NUMA node or the host. */
int weft_hwloc_place(struct weft_hwloc_file *file, const struct weft_hwloc_object *object, uint32_t *node);
/* Every info of the object as an attribute of the node. */
int weft_hwloc_set_infos(struct weft_hwloc_file *file, const struct weft_hwloc_object *object, uint32_t node);
int weft_hwloc_devices(struct weft_hwloc_file *file);
int weft_hwloc_links(struct weft_hwloc_file *file);

#endif
