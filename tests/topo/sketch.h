/* SPDX-License-Identifier: Apache-2.0 */
/* Small graphs by hand, for tests of pictures. Finished; the caller frees them. */
#ifndef WEFT_TESTS_TOPO_SKETCH_H
#define WEFT_TESTS_TOPO_SKETCH_H

#include "topo/graph/graph.h"

struct sketch_link {
    const char *a, *b;
    unsigned links;
};

/* GPUs gpu0, gpu1, ... on two NUMA nodes, joined by NVLinks of 25 GB/s each. */
struct weft_graph *sketch_machine(int gpus, const struct sketch_link *links, size_t count);

/* A virtual machine with a NIC of two ports, one of them down, one whose only port is down, one of unknown rate; a GPU
 * with a rank and a link to its NUMA node; a device. */
struct weft_graph *sketch_ports(void);

/* A host named by the last-but-two of the names, with a GPU and a NIC of each name under one bridge. */
struct weft_graph *sketch_names(const char *const *names, size_t count);

/* Two machines and two switches, told in another order for every seed. */
struct weft_graph *sketch_shuffled(unsigned seed);

/* A machine of some shape: NUMA nodes, bridges within bridges, devices and links anywhere, names of any length. */
struct weft_graph *sketch_random(unsigned seed);

/* Eight hosts of six kinds, three of them alike: node8 to node10. */
struct weft_graph *sketch_kinds(void);

#endif
