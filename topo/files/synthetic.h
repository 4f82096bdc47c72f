/* SPDX-License-Identifier: Apache-2.0 */
/* What a synthetic text asks for. Private to topo/files/synthetic*.c. */
#ifndef WEFT_TOPO_FILES_SYNTHETIC_H
#define WEFT_TOPO_FILES_SYNTHETIC_H

#include "topo/files/reader.h"

#define WEFT_SYNTHETIC_NODES_MAX (1u << 20) /* a few bytes of text must not ask for all memory */
#define WEFT_SYNTHETIC_EDGES_MAX (1u << 22)

struct weft_synthetic {
    /* Each host. */
    uint32_t gpus, nics, rails, numas, cores, pci_switches;
    uint32_t nvlink;            /* links of each GPU, 0: none */
    uint64_t pci_bytes_per_s;   /* of each device's 16 lanes */
    uint64_t cable_bytes_per_s; /* ports and cables */
    /* The fabric: all 0 for a machine alone. */
    uint32_t leaves, nodes_per_leaf, spines, tiers, pods, rail_optimised;
    uint32_t oversubscription, top_oversubscription;
    /* What follows from these. */
    uint32_t hosts;
    uint32_t leaf_links;     /* cables from each leaf to each spine of its pod */
    uint32_t tops_per_spine; /* third tier: switches that a spine is joined with */
    uint32_t top_links;      /* cables to each of them */
};

/* From text to numbers, checked, with the defaults filled in. */
int weft_synthetic_parse(const struct weft_text *text, struct weft_synthetic *asked);

/* Adds all of it to the graph. */
int weft_synthetic_build(struct weft_graph *graph, const struct weft_synthetic *asked);

#endif
