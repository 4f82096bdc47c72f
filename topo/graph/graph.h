/* SPDX-License-Identifier: Apache-2.0 */
/* Machines and the fabric between them, as one graph.
 *
 * Every source (this machine, a file, a short text) ends here, and everything that looks at topology (paths, rank
 * order, the tool's outputs) starts here.
 *
 * Nodes form a forest by `parent`, which says what contains what; roots are hosts and switches:
 *
 *     HOST > NUMA > BRIDGE (host bridge, root port, PCI switch) > GPU, NIC, DEVICE     NIC > PORT     NUMA > CORE
 *     SWITCH                                                                            any of a host > RANK
 *
 * A level that the source does not tell of is left out: the parent is then the nearest one known.
 *
 * Edges carry bytes. Containment has one (kind PCI, LOCAL, ...: between a node and its parent), and further ones join
 * what no tree can: NUMA nodes (SOCKET), GPUs (GPU_LINK), ports with switches and switches with each other (FABRIC).
 * Bandwidth is per direction, in bytes per second, of one link; `links` parallel ones make an edge. A bandwidth or
 * latency that nobody told is 0, which means unknown and is shown as such: nothing here is guessed. `links` is at
 * least 1; an edge that is known to exist without its number of links has WEFT_EDGE_LINKS_UNKNOWN set and links 1,
 * and its bandwidth, if told, is that of all its links together.
 *
 * Names of nodes are unique among siblings and are what people call the thing ("gpu0", "mlx5_3", "0000:0c:00.0").
 * What a source says beyond the fields is kept as attributes (name and value, in the order they came), so that a
 * writer of the same format loses nothing.
 *
 * Building: weft_graph_new(), weft_graph_add_node(), _add_edge(), _set_attribute() in any order, then
 * weft_graph_finish() once, which checks the rules above and makes the adjacency. Only then weft_graph_edges_of() and
 * everything outside this header. Indices stay what they were. weft_graph_thaw() reopens a finished graph for more.
 *
 * Errors: WEFT_NOMEM, WEFT_INVALID with what is wrong. Ownership: the graph copies every string and owns all.
 * Threads: a graph being built belongs to one; a finished one may be read by any number.
 */
#ifndef WEFT_TOPO_GRAPH_GRAPH_H
#define WEFT_TOPO_GRAPH_GRAPH_H

#include <stddef.h>
#include <stdint.h>
#include <weft/status.h>

#define WEFT_NODE_NONE     UINT32_MAX
#define WEFT_NODES_MAX     (1u << 24) /* a file that asks for more is refused */
#define WEFT_EDGES_MAX     (1u << 26)
#define WEFT_NAME_SIZE_MAX 256 /* of a node's name, with its end */
#define WEFT_WARNINGS_MAX  16  /* of one source; further ones are left out */

enum weft_node_kind {
    WEFT_NODE_HOST,
    WEFT_NODE_NUMA,   /* index: the system's number of it */
    WEFT_NODE_CORE,   /* index: the system's number of its first processor */
    WEFT_NODE_BRIDGE, /* see enum weft_bridge */
    WEFT_NODE_GPU,    /* index: as its driver numbers it, or the order in the source */
    WEFT_NODE_NIC,
    WEFT_NODE_PORT,   /* of a NIC; index: the port's number, from 1 */
    WEFT_NODE_DEVICE, /* any other function on PCI that the source tells of */
    WEFT_NODE_SWITCH,
    WEFT_NODE_RANK, /* index: the rank */
    WEFT_NODE_KIND_COUNT
};

enum weft_bridge {
    WEFT_BRIDGE_UNKNOWN, /* the source does not say */
    WEFT_BRIDGE_HOST,    /* of the processor: the root complex */
    WEFT_BRIDGE_PORT,    /* a root port */
    WEFT_BRIDGE_SWITCH,  /* a port of a PCI switch, up or down; or all of it, see enum weft_bridge_flags */
};

/* On bridges. */
enum weft_bridge_flags {
    WEFT_BRIDGE_WHOLE =
        1 << 0, /* one node for the switch with all its ports, as NCCL's XML has it: below it hang
                                   devices and further switches, not the switch's own ports */
};

enum weft_port_state { WEFT_PORT_UNKNOWN, WEFT_PORT_DOWN, WEFT_PORT_INIT, WEFT_PORT_ARMED, WEFT_PORT_ACTIVE };

/* What a virtual machine or container did not show. On hosts. */
enum weft_host_flags {
    WEFT_HOST_VIRTUAL = 1 << 0,   /* the host is a virtual machine: links between its devices are not known */
    WEFT_HOST_CONTAINER = 1 << 1, /* discovered from within a container: devices may be missing */
};

struct weft_attribute {
    const char *name;
    const char *value;
    uint32_t next; /* of the same node, WEFT_NODE_NONE at the end */
};

struct weft_node {
    uint8_t kind;    /* enum weft_node_kind */
    uint8_t bridge;  /* BRIDGE: enum weft_bridge */
    uint8_t state;   /* PORT: enum weft_port_state */
    uint8_t flags;   /* HOST: enum weft_host_flags; BRIDGE: enum weft_bridge_flags */
    uint32_t parent; /* WEFT_NODE_NONE for a root */
    uint32_t
        host; /* the HOST it lies in (itself for a host), WEFT_NODE_NONE for switches; kept by the graph */
    int32_t index; /* see enum weft_node_kind; -1: none told */
    int32_t rail;  /* NIC, PORT: which rail, from 0; -1 unknown */
    const char *name;
    const char *pci;      /* its address as the source spells it, "0000:0c:00.0"; NULL without */
    uint64_t guid;        /* HOST (system image), SWITCH, NIC: of the node; PORT: of the port; 0 unknown */
    uint64_t bytes_per_s; /* PORT: active rate per direction; 0 unknown */
    uint32_t parent_edge; /* to the parent; WEFT_NODE_NONE for roots */
    uint32_t attributes_first, attributes_last;     /* WEFT_NODE_NONE: none; see weft_graph_attribute() */
    uint32_t edges_first, edges_count;              /* into graph->incident; set by weft_graph_finish() */
    uint32_t child_first, child_last, sibling_next; /* in the order of adding; kept by the graph */
};

enum weft_edge_kind {
    WEFT_EDGE_LOCAL, /* inside a host or a device: NIC and port, NUMA and core, host and NUMA, rank and its place */
    WEFT_EDGE_PCI,    /* bandwidth follows from speed and width where both are told */
    WEFT_EDGE_SOCKET, /* between NUMA nodes: xGMI, UPI, X-Bus */
    WEFT_EDGE_GPU_LINK, /* NVLink, xGMI between GPUs, Xe Link; a GPU and the NUMA node or NIC it is joined with (C2C) */
    WEFT_EDGE_FABRIC, /* cables: port and switch, switch and switch, port and port */
    WEFT_EDGE_KIND_COUNT
};

enum weft_edge_flags {
    WEFT_EDGE_LINKS_UNKNOWN = 1 << 0,
    WEFT_EDGE_PARENT = 1 << 1, /* joins a node (a) with its parent (b); set by the graph */
    WEFT_EDGE_NVLINK = 1 << 2, /* GPU_LINK: which technique, where told; none set: not told */
    WEFT_EDGE_XGMI = 1 << 3,
    WEFT_EDGE_XE = 1 << 4,
    WEFT_EDGE_C2C = 1 << 5,
    WEFT_EDGE_NVSWITCH = 1 << 6, /* the two reach each other through an NVSwitch */
    WEFT_EDGE_DOWN = 1 << 7,     /* the cable is there and does not carry: no path goes over it */
};

struct weft_edge {
    uint32_t a, b;
    uint8_t kind;  /* enum weft_edge_kind */
    uint8_t flags; /* enum weft_edge_flags */
    uint8_t lanes; /* FABRIC: of one link of InfiniBand, 1 to 12; 0: not known */
    uint8_t reserved;
    uint32_t links;
    uint64_t bytes_per_s; /* of one link (all, where their number is unknown), per direction; 0 unknown */
    uint32_t latency_ns;  /* 0 unknown */
    int32_t port_a,
        port_b; /* FABRIC: the ports' numbers on a and b where links is 1 and they are told; else -1 */
};

struct weft_graph {
    uint32_t node_count, edge_count, attribute_count;
    struct weft_node *nodes;
    struct weft_edge *edges;
    struct weft_attribute *attributes;
    uint32_t *incident;             /* edges by node: see edges_first */
    uint32_t first_root, last_root; /* roots are siblings, in the order of adding */
    const char *source; /* what it was made from: a file's name, "this machine", the synthetic text */
    const char *format; /* "hwloc XML", ...: see topo/read.h */
    const char *warnings[WEFT_WARNINGS_MAX]; /* what is odd in the source and was read all the same */
    uint32_t warning_count;
    int finished;
    struct weft_graph_room *room; /* strings and capacities; private to graph.c */
};

int weft_graph_new(const char *source, const char *format, struct weft_graph **graph);
void weft_graph_free(struct weft_graph *graph); /* NULL: nothing */

/* What a new node or edge says of itself; copied. The fields not listed here are the graph's own. */
struct weft_node_given {
    enum weft_node_kind kind;
    uint32_t parent;
    const char *name; /* not empty, no control characters: those of a file's text become '?' */
    const char *pci;
    int32_t index; /* beware: 0 means 0; -1 for none */
    int32_t rail;
    enum weft_bridge bridge;
    enum weft_port_state state;
    unsigned flags;
    uint64_t guid;
    uint64_t bytes_per_s; /* PORT */
    /* Of the edge to the parent; kind LOCAL unless parent_pci. */
    int parent_pci;
    uint64_t parent_bytes_per_s;
    uint32_t parent_latency_ns;
};
#define WEFT_NODE_GIVEN(k, p, n)                                                                             \
    (struct weft_node_given)                                                                                 \
    {                                                                                                        \
        .kind = (k), .parent = (p), .name = (n), .index = -1, .rail = -1                                     \
    }
int weft_graph_add_node(struct weft_graph *graph, const struct weft_node_given *given, uint32_t *node);

/* a and b differ and exist; only the fields a, b, kind, flags, lanes, links (0 means 1), bytes_per_s, latency_ns, port_a,
 * port_b are read. Two edges between the same two nodes are kept as they are told. */
int weft_graph_add_edge(struct weft_graph *graph, const struct weft_edge *given, uint32_t *edge);

/* A second value under the same name replaces the first. */
int weft_graph_set_attribute(struct weft_graph *graph, uint32_t node, const char *name, const char *value);
const char *weft_graph_attribute(const struct weft_graph *graph, uint32_t node,
                                 const char *name); /* or NULL */

/* Copies text into the graph's strings. NULL without memory. */
const char *weft_graph_string(struct weft_graph *graph, const char *text);

/* Another name than the one told. */
int weft_graph_rename(struct weft_graph *graph, uint32_t node, const char *name);

int weft_graph_finish(struct weft_graph *graph);
void weft_graph_thaw(struct weft_graph *graph);

/* Edges at a node of a finished graph. */
const uint32_t *weft_graph_edges_of(const struct weft_graph *graph, uint32_t node, uint32_t *count);

/* The other end. */
static inline uint32_t weft_edge_other(const struct weft_edge *edge, uint32_t node)
{
    return edge->a == node ? edge->b : edge->a;
}

/* Children and roots: for (n = weft_graph_first(g, p); n != WEFT_NODE_NONE; n = g->nodes[n].sibling_next).
 * parent WEFT_NODE_NONE: the roots. */
uint32_t weft_graph_first(const struct weft_graph *graph, uint32_t parent);

/* The node after `node` in depth-first order below top, of any kind; WEFT_NODE_NONE: it was the last. top WEFT_NODE_NONE: in
 * the whole graph. */
uint32_t weft_graph_next(const struct weft_graph *graph, uint32_t top, uint32_t node);

/* Edges up to its root. */
uint32_t weft_graph_depth(const struct weft_graph *graph, uint32_t node);

/* The nearest of the kind at node or above it, or WEFT_NODE_NONE. */
uint32_t weft_graph_above(const struct weft_graph *graph, uint32_t node, enum weft_node_kind kind);

/* Visits nodes of the kind below top (top itself left out; WEFT_NODE_NONE: the whole graph), in depth-first order:
 * n = weft_graph_next_below(g, top, kind, WEFT_NODE_NONE), then with the last n, until WEFT_NODE_NONE. */
uint32_t weft_graph_next_below(const struct weft_graph *graph, uint32_t top, enum weft_node_kind kind,
                               uint32_t after);
uint32_t weft_graph_count_below(const struct weft_graph *graph, uint32_t top, enum weft_node_kind kind);

/* "gpu", "numa", "switch", ...; "pci", "gpu-link", ... */
const char *weft_node_kind_name(enum weft_node_kind kind);
const char *weft_edge_kind_name(enum weft_edge_kind kind);
const char *weft_port_state_name(enum weft_port_state state);

/* Whether the source says that no driver made a device of the NIC: nothing can be sent through it. */
int weft_graph_is_driverless(const struct weft_graph *graph, uint32_t nic);

/* Finds a node by what people call it: its name, host/name, or its PCI address; WEFT_INVALID says that there is none
 * such, or that several are, and names them. */
int weft_graph_find(const struct weft_graph *graph, const char *name, uint32_t *node);

/* "0000:0C:00.0", "c:0.0", "00000000:0c:00.0" -> the canonical spelling (4 digits of domain or more, lower case). */
int weft_pci_parse(const char *text, char address[32]);

/* Bytes per second, one direction, of PCI at the speed ("8 GT/s", "16.0 GT/s PCIe", "2.5") and width; 0 when either
 * is not understood. Encoding taken off (8b/10b below 8 GT/s, 128b/130b from 8, 242/256 FLIT from 64). */
uint64_t weft_pci_bytes_per_s(double gigatransfers, unsigned width);
int weft_pci_speed_parse(const char *text, double *gigatransfers);

/* Bytes per second of an InfiniBand link: "4xNDR", "4xHDR", "1xSDR" (data rate, encoding taken off); 0 unknown. */
uint64_t weft_ib_bytes_per_s(const char *width_and_speed);

/* The other way: "4xDDR" of a link of so many lanes that carries that; "" where no speed is that. */
void weft_ib_speed_name(unsigned lanes, uint64_t bytes_per_s, char name[16]);

#endif
