/* SPDX-License-Identifier: Apache-2.0 */
/* From machine and fabric to the order in which ranks are joined: the layout.
 *
 * A layout is what plans are made for. It says
 *   - the order: a permutation of the ranks in which neighbours are near each other. Rings follow it, and every group
 *     below is a contiguous piece of it;
 *   - the groups: a tree over positions of the order: the whole job, then a level per kind of boundary that some ranks
 *     share and others do not (switch tiers from the top down, host, NUMA node, PCI switch). Levels that divide nothing,
 *     or divide every group into single ranks only, are left out, but hosts, which are always there. Groups may be unequal;
 *   - rings: one per rail where hosts have several (fewer where some host has fewer NICs and more rings would share one, see
 *     weft_lanes_rings()). All pass the same groups and hosts in the same order, but go between hosts on different rails, each from
 *     one NIC to another on the same rail, so that the rails carry alike. A ring changes its rail inside hosts: it comes in at one
 *     rank and leaves at another, and where each rank has a NIC of its own those are on different rails;
 *   - each rank's NIC: the one that its place gives, or the nearest by path class, then by bandwidth, then the one that fewest ranks of the host use; ranks
 *     with a GPU count from the GPU. Ports that are down are passed over.
 *
 * The order of groups within a group, and of ranks within a group, is found by walking the tree depth first; children are
 * ordered by where their fabric leads and then by name and number, never by rank number, index in the graph or order of
 * arrival; so all ranks find the same layout from the same facts in any order. (Ranks that nothing tells apart but
 * their number keep the order of their numbers.) A ring over a depth-first order enters and leaves every subtree once,
 * which is the least that any ring over all ranks can: each subtree's uplinks carry one stream in and one out. Where a switch
 * has several uplinks, or the fabric is no tree, a refinement moves whole groups and is kept only where it lowers the highest
 * link load.
 *
 * On tiers, lanes and rings: the heads of topo/tiers.h, topo/lanes.c and topo/order_rings.c. A NUMA node or PCI switch that ring 0 has
 * to divide (an odd number of hosts with two NUMA nodes, on rails of their own) is left out of the groups of its host.
 *
 * Missing facts: a rank whose host is not in the graph is a host of its own by its name (equal names: one host); hosts
 * without a switch come after those with, by name.
 *
 * Cost: O(n log n) in ranks for the order, O(hosts * rails^2 * rings) for the rings, and for load and refinement a walk over a part of
 * the fabric for each leaf that is gone to; 16,384 ranks take well under a second. Memory O(ranks * rings + graph).
 * Pure: no I/O, no clock. Threads: any.
 * Ownership: weft_order_ranks() allocates the layout as one piece, weft_layout_free() frees it.
 */
#ifndef WEFT_TOPO_ORDER_H
#define WEFT_TOPO_ORDER_H

#include "topo/graph/graph.h"

/* Where a rank runs. */
struct weft_place {
    const char *host_name; /* needed when host is WEFT_NODE_NONE; else ignored */
    uint32_t host;         /* in the graph, or WEFT_NODE_NONE */
    uint32_t near;         /* its GPU, or its NUMA node or core, within the host; WEFT_NODE_NONE: not known */
    uint32_t nic; /* where has_nic is set: the PORT, or NIC without ports, that it uses, within the host */
    int has_nic;  /* 0: one is chosen */
};

enum weft_level { WEFT_LEVEL_JOB, WEFT_LEVEL_SWITCH, WEFT_LEVEL_HOST, WEFT_LEVEL_NUMA, WEFT_LEVEL_BRIDGE };

struct weft_group_span {
    uint32_t parent; /* index of the group around it; the first group is the job: UINT32_MAX */
    uint32_t first;  /* position in the order */
    uint32_t count;  /* ranks, at least 1 */
    uint16_t depth;  /* 0: the job */
    uint16_t level;  /* enum weft_level */
    uint32_t node;   /* in the graph, WEFT_NODE_NONE for the job and for hosts it lacks */
};

/* Why a rank has its NIC. All 0 where it has none, but for fit where WEFT_ORDER_GIVEN_NICS takes one back; where its place gives it,
 * all but sharing. */
struct weft_nic_reason {
    uint32_t equal;       /* ports that serve it equally well, its own included */
    uint32_t sharing;     /* ranks that have this port, itself included */
    uint32_t near;        /* NICs of those chosen from that are as near or nearer, its own included */
    uint32_t nearer_down; /* NICs that would be nearer and are down */
    uint32_t fit;         /* NICs of the host that were chosen from */
    uint32_t
        others; /* NICs passed over though not down: plain Ethernet beside RDMA, or less sure to be up than the chosen */
};

struct weft_layout {
    uint32_t ranks;
    uint32_t ring_count;  /* at least 1 */
    uint32_t group_count; /* at least 1; parents before children, siblings by position */
    uint32_t host_count;
    uint32_t *order;    /* [ranks]: rank at each position; ring 0 is this */
    uint32_t *position; /* [ranks]: of each rank */
    uint32_t *rings;    /* [ring_count][ranks]: ring r's ranks in turn */
    uint32_t *nic;      /* [ranks]: PORT (or NIC without ports) in the graph, WEFT_NODE_NONE: none */
    struct weft_nic_reason *nic_reasons; /* [ranks] */
    uint32_t *host_of; /* [ranks]: number of the rank's host, 0 to host_count - 1, by position */
    struct weft_group_span *groups;
    uint32_t refined; /* how many moves the refinement kept */
};

enum weft_order_flags {
    WEFT_ORDER_BY_RANK =
        1 << 0, /* rank order as it is (WEFT_ORDER=rank); groups only where they are contiguous in it */
    WEFT_ORDER_NO_REFINE = 1 << 1,
    /* ranks whose places give no NIC have none: the one that would be chosen says only where they hang on the fabric */
    WEFT_ORDER_GIVEN_NICS = 1 << 2,
};

/* graph may be NULL: places then tell hosts by name alone. */
int weft_order_ranks(const struct weft_graph *graph, const struct weft_place *places, uint32_t ranks,
                     unsigned flags, struct weft_layout **layout);
void weft_layout_free(struct weft_layout *layout); /* NULL: nothing */

/* The least highest load and inter-leaf crossings that so many rings, each over all ranks, can have together, with the argument
 * in one sentence (constant text): every set of ports behind a cut of the fabric that holds some ranks and not all is
 * entered and left at least once. */
struct weft_bound {
    double highest;
    uint64_t crossings_leaf;
    const char *argument;
};
int weft_load_bound(const struct weft_graph *graph, const struct weft_place *places, uint32_t ranks,
                    const uint32_t *nic, uint32_t rings, struct weft_bound *bound);

/* NICs alone, as weft_order_ranks() picks them. nic: [ranks]; reasons: likewise, or NULL. */
int weft_order_nics(const struct weft_graph *graph, const struct weft_place *places, uint32_t ranks,
                    uint32_t *nic, struct weft_nic_reason *reasons);

/* One line why rank has its NIC, and one why it stands where it does; cut at size. */
void weft_order_explain(const struct weft_graph *graph, const struct weft_place *places,
                        const struct weft_layout *layout, uint32_t rank, char *text, size_t size);

#endif
