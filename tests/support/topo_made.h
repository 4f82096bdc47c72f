/* SPDX-License-Identifier: Apache-2.0 */
/* Machines and fabrics made by hand for tests, and put into a graph in an order that a seed decides: what is found on them
 * must not depend on it. */
#ifndef WEFT_TESTS_SUPPORT_TOPO_MADE_H
#define WEFT_TESTS_SUPPORT_TOPO_MADE_H

#include "topo/order.h"

#define MADE_NONE UINT32_MAX

struct made_item {
    struct weft_node_given given;
    char name[64], pci[32];
};

struct made_cable {
    uint32_t a, b; /* items */
    struct weft_edge given;
};

struct made {
    uint32_t item_count, cable_count, room_items, room_cables;
    struct made_item *items;
    struct made_cable *cables;
    uint32_t *nodes; /* of the graph built last, by item */
    struct weft_graph *graph;
};

/* An item of the kind below parent (an item, or MADE_NONE), its name as printf has it. */
uint32_t made_item(struct made *made, enum weft_node_kind kind, uint32_t parent, const char *name, ...)
    __attribute__((format(printf, 4, 5)));

/* A NIC below parent with one active port of 50 GB/s; returns the port's item, the NIC's is the one before it. */
uint32_t made_nic(struct made *made, uint32_t parent, const char *name, int rail);

/* A cable of so many links, each 50 GB/s. */
uint32_t made_cable(struct made *made, uint32_t a, uint32_t b, uint32_t links);

/* (Re)builds made->graph and made->nodes; seed 0 keeps the order. */
void made_build(struct made *made, uint64_t seed);

/* A rank near an item of a host; near MADE_NONE: anywhere. */
struct weft_place made_place(const struct made *made, uint32_t host, uint32_t near);

void made_free(struct made *made);

/* A random number below limit. */
uint32_t made_random(uint64_t *state, uint32_t limit);

#endif
