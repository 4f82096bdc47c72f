/* SPDX-License-Identifier: Apache-2.0 */
/* How two nodes of a finished graph are joined, and what that means for those who use NCCL's words.
 *
 * Classes, from near to far (the words of nvidia-smi topo -m and NCCL):
 *   LOC   the same node, or one within the other; but a NUMA node and a device below it are PHB, as bytes to memory
 *         pass the host bridge. Cores count as their NUMA node, ports as their NIC, ranks as what they are placed at
 *   NVL   a link between GPUs (NVLink, xGMI, Xe Link), directly or through an NVSwitch; also one between a GPU and its
 *         NUMA node or a NIC (C2C)
 *   PIX   at most one PCI switch between them: their nearest common bridge is the switch they both hang on
 *   PXB   several PCI switches, no host bridge
 *   PHB   a host bridge (or a root complex of the same NUMA node, where the source tells no host bridges)
 *   NODE  several host bridges of one NUMA node
 *   SYS   between NUMA nodes
 *   NET   another host, over the fabric
 *   DIS   not joined as far as the graph knows
 *
 * The route inside a host follows containment; GPUs with a link of their own take it. Between hosts it goes from the
 * nearest port up, over the fewest switches (the route with most bandwidth among equals, then the smallest names, so that
 * all ranks find the same one), and down. Bandwidth is the least of the edges on the route whose bandwidth is known, and
 * `bandwidth_partly` says that others were not; 0: none was. Latency is the sum likewise.
 *
 * Direct GPU memory access (GPUDirect RDMA, dma-buf) by a NIC is sensible at PIX and PXB; at PHB it works on most
 * machines and its rate depends on the root complex; at NODE and SYS peer-to-peer crosses the processors' links and is
 * slower than staging on many; within a virtual machine it is unknown unless a switch joins them. Source: NVIDIA's
 * GPUDirect RDMA documentation, "Supported Systems".
 *
 * Threads: any. Nothing is allocated for the caller but where said.
 */
#ifndef WEFT_TOPO_PATH_H
#define WEFT_TOPO_PATH_H

#include "topo/graph/graph.h"

enum weft_path_class {
    WEFT_PATH_LOC,
    WEFT_PATH_NVL,
    WEFT_PATH_PIX,
    WEFT_PATH_PXB,
    WEFT_PATH_PHB,
    WEFT_PATH_NODE,
    WEFT_PATH_SYS,
    WEFT_PATH_NET,
    WEFT_PATH_DIS,
    WEFT_PATH_CLASS_COUNT
};

#define WEFT_PATH_EDGES_MAX 64

enum weft_direct { WEFT_DIRECT_NO, WEFT_DIRECT_UNKNOWN, WEFT_DIRECT_POSSIBLE, WEFT_DIRECT_SENSIBLE };

struct weft_path {
    enum weft_path_class path_class;
    enum weft_direct direct; /* of a NIC or port and a GPU; others: NO */
    uint64_t bytes_per_s;    /* one direction, parallel links counted; 0 unknown */
    int bandwidth_partly;    /* some edges' bandwidth is unknown: what is told is an upper bound */
    uint64_t latency_ns;     /* sum of what is known; 0: nothing is */
    uint32_t narrowest;      /* the edge that limits, WEFT_NODE_NONE without */
    uint32_t edge_count;
    uint32_t edges[WEFT_PATH_EDGES_MAX]; /* from a to b */
};

int weft_path_find(const struct weft_graph *graph, uint32_t a, uint32_t b, struct weft_path *path);

/* Bytes per second of an edge, its links together; and of the hop that it is part of: all edges of its kind between its two
 * ends that carry. 0: not known. What a path is worth is the least of its hops. */
uint64_t weft_path_edge_rate(const struct weft_graph *graph, uint32_t edge);
uint64_t weft_path_hop_rate(const struct weft_graph *graph, uint32_t edge);

/* The class alone, without a route: a few steps up the tree. NET where both have a cable that carries; whether the cables
 * meet is weft_path_find()'s to say. */
enum weft_path_class weft_path_classify(const struct weft_graph *graph, uint32_t a, uint32_t b);

const char *weft_path_class_name(enum weft_path_class path_class); /* "PIX" */
const char *weft_path_class_text(enum weft_path_class path_class); /* one line for legends */
const char *weft_direct_text(enum weft_direct direct);

#endif
